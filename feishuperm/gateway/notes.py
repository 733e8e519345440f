"""Cards of the gateway's own: a sentence, a machine to confirm, a list of machines."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from feishuperm.gateway.peer import VIA
from feishuperm.gateway.registry import Joining
from feishuperm.lib.feishu import (
    callback_button,
    card_frame,
    columns,
    div,
    note,
    plain,
)
from feishuperm.lib.text import text

JOIN, REFUSE, REVOKE, RENAME = "join", "refuse", "revoke", "rename"
MOST = 14  # machines on one card: Feishu takes 200 elements, and each has 13


def note_card(said: str, language: str) -> dict[str, Any]:
    """A sentence."""
    return card_frame(text(language, "gateway.title"), "", "grey", said, [div(said)])


def join_card(joining: Joining, language: str) -> dict[str, Any]:
    """Shall this machine's requests come to you? The three facts to look at."""
    say = partial(text, language)
    value = {"id": joining.id, "nonce": joining.nonce}
    yes, no = {**value, "action": JOIN}, {**value, "action": REFUSE}
    elements = [
        div(say("pair.machine", name=joining.name)),
        div(say("pair.user", user=joining.user)),
        div(_address(joining.address, language)),
        note(say("pair.warning")),
        columns(
            [
                [callback_button(say("pair.yes"), "primary_filled", yes)],
                [callback_button(say("pair.no"), "danger", no)],
            ]
        ),
    ]
    return card_frame(say("pair.title"), "", "blue", joining.name, elements)


def _address(address: str, language: str) -> str:
    """Where it is; a proxy's address is told as that, not as the machine's."""
    if address.startswith(VIA):
        proxy = address[len(VIA) :]
        return text(language, "pair.no_address", proxy=proxy)
    return text(language, "pair.address", address=address)


def machines_card(rows: list[dict[str, Any]], language: str) -> dict[str, Any]:
    """One's own machines, to rename and to revoke."""
    title = text(language, "gateway.machines")
    elements: list[dict[str, Any]] = []
    for row in rows[:MOST]:
        elements += _machine(row, language)
    if not rows:
        elements = [div(text(language, "gateway.no_machines"))]
    elif len(rows) > MOST:
        elements.append(note(text(language, "gateway.more", count=len(rows) - MOST)))
    return card_frame(title, "", "blue", str(len(rows)), elements)


def _machine(row: dict[str, Any], language: str) -> list[dict[str, Any]]:
    key = "gateway.here" if row["connected"] else "gateway.gone"
    moment = time.strftime("%m-%d %H:%M", time.localtime(time.time() - row["since"]))
    state = text(language, key, time=moment)
    words = text(language, "gateway.revoke_confirm", machine=row["name"])
    value = {"machine": row["id"], "action": REVOKE}
    revoke = {
        **callback_button(text(language, "gateway.revoke"), "danger", value),
        "confirm": {"title": plain(row["name"]), "text": plain(words)},
    }
    value = {**value, "action": RENAME}
    rename = {
        **callback_button(text(language, "gateway.rename"), "default", value),
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
