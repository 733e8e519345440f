"""Cards of the gateway's own: a sentence, a machine to confirm, a list of machines."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from feishuperm.gateway.machine_connection import VIA
from feishuperm.gateway.store import Joining
from feishuperm.lib.feishu import callback_button, card_frame, columns, div, note, plain
from feishuperm.messages import msg, pmsg, text

JOIN, REFUSE, REVOKE, RENAME = "join", "refuse", "revoke", "rename"
MOST = 14  # machines on one card: Feishu takes 200 elements, and each has 13


def note_card(said: str, language: str) -> dict[str, Any]:
    """A sentence."""
    return card_frame(
        text(language, "feishuperm gateway"), "", "grey", said, [div(said)]
    )


def join_card(joining: Joining, language: str) -> dict[str, Any]:
    """Should this machine's requests come to you? The three facts to look at."""
    say = partial(text, language)
    value = {"id": joining.id, "nonce": joining.nonce}
    yes, no = {**value, "action": JOIN}, {**value, "action": REFUSE}
    elements = [
        div(say("Machine: {name}", name=joining.name)),
        div(say("User: {user}", user=joining.user)),
        div(_address(joining.address, language)),
        note(
            say(
                "Its requests will come to you, and your taps decide them. "
                "Confirm only a machine that you are adding yourself right now."
            )
        ),
        columns(
            [
                [callback_button(say("Add it"), "primary_filled", yes)],
                [callback_button(say("Not mine"), "default", no)],
            ]
        ),
    ]
    return card_frame(say("Add this machine?"), "", "blue", joining.name, elements)


def _address(address: str, language: str) -> str:
    """Where it is; a proxy's address is told as that, not as the machine's."""
    if address.startswith(VIA):
        proxy = address[len(VIA) :]
        return text(
            language,
            "Address: not known (it comes through the proxy {proxy})",
            proxy=proxy,
        )
    return text(language, "Address: {address}", address=address)


def machines_card(rows: list[dict[str, Any]], language: str) -> dict[str, Any]:
    """One's own machines, to rename and to revoke."""
    title = text(language, "My machines")
    elements: list[dict[str, Any]] = []
    for row in rows[:MOST]:
        elements += _machine(row, language)
    if not rows:
        elements = [
            div(
                text(
                    language,
                    "No machine yet. Run feishuperm join there and send me its six "
                    "digits.",
                )
            )
        ]
    elif len(rows) > MOST:
        elements.append(note(text(language, "{count} more", count=len(rows) - MOST)))
    return card_frame(title, "", "blue", str(len(rows)), elements)


def _machine(row: dict[str, Any], language: str) -> list[dict[str, Any]]:
    key = (
        msg("connected since {time}") if row["connected"] else msg("away since {time}")
    )
    moment = time.strftime("%m-%d %H:%M", time.localtime(time.time() - row["since"]))
    state = text(language, key, time=moment)
    words = text(
        language,
        "Revoke {machine}? Its requests no longer come here, and its open cards stop "
        "working.",
        machine=row["name"],
    )
    value = {"machine": row["id"], "action": REVOKE}
    revoke = {
        **callback_button(text(language, pmsg("machine", "Revoke")), "default", value),
        "confirm": {"title": plain(row["name"]), "text": plain(words)},
    }
    value = {**value, "action": RENAME}
    rename = {
        **callback_button(text(language, "Rename"), "default", value),
        "name": f"submit_{row['id']}",
        "form_action_type": "submit",
    }
    entry = {
        "tag": "input",
        "name": "name",
        "width": "fill",
        "max_length": 40,
        "default_value": row["name"],
    }
    form = {"tag": "form", "name": f"form_{row['id']}", "elements": [entry, rename]}
    facts = f"{row['address']} · {state} · {row['id']}"
    return [div(row["name"]), note(facts), form, revoke, {"tag": "hr"}]
