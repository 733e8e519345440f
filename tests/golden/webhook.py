"""Scenes of the group bot: its cards, which nothing changes once they are sent."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import wait_until
from tests.golden.events import CASES, NOTICES, OTHERS
from tests.golden.record import Record
from tests.golden.stage import Stage

CARDS = "webhook_cards.json"
UNREADABLE = {"no JSON": b"{not json", "no event": b'{"a": 1}', "nothing": b""}


def webhook(pyz: Path, language: str, record: Record) -> None:
    """Every card, and what is sent when a card is refused or no server runs."""
    with Stage.webhook(pyz, language, record, FEISHU_AT="all") as stage:
        for name in (*CASES, *OTHERS):
            before = len(stage.feishu.messages)
            asked = stage.ask_on_card(name)
            record.put(CARDS, name, stage.feishu.messages[before])
            asked.drop()
        for name in NOTICES:
            put_next(stage, f"notice: {name}", stage.event(name)[1])
        show_refused(stage)
        stage.served.stop()
        show_without_server(stage)


def put_next(stage: Stage, title: str, event: object) -> None:
    """Start a hook that waits for nobody, and record what it sends."""
    before = len(stage.feishu.messages)
    raw = event if isinstance(event, bytes) else json.dumps(event).encode()
    hook = stage.served.hook(raw)
    ended = hook.communicate(timeout=60)
    wait_until(lambda: len(stage.feishu.messages) > before)
    assert (hook.returncode, *ended) == (0, b"", b"")
    stage.record.put(CARDS, title, stage.feishu.messages[before])


def show_refused(stage: Stage) -> None:
    """A filter on content takes no card with the command in it, then none at all."""
    stage.feishu.refuse_texts["npm run build"] = 11246
    asked = stage.ask_on_card("Bash plain")
    stage.record.put(CARDS, "Bash plain: detail refused", stage.feishu.messages[-1])
    asked.drop()
    stage.feishu.refuse_texts = {'"interactive"': 11246}
    put_next(stage, "Bash plain: every card refused", stage.event("Bash plain")[1])
    stage.feishu.refuse_texts.clear()


def show_without_server(stage: Stage) -> None:
    for name in ("Bash plain", "question of one", "ExitPlanMode"):
        put_next(stage, f"{name}: no server", stage.event(name)[1])
    for name, raw in UNREADABLE.items():
        put_next(stage, f"unreadable, no server: {name}", raw)


def title(pyz: Path, language: str, record: Record) -> None:
    """`FEISHUPERM_CARD=title`: nothing of a request is on a card."""
    file = "title_cards.json"
    with Stage.app(pyz, language, record, FEISHUPERM_CARD="title") as stage:
        for name in ("Bash plain", "Bash danger", "question of one", "ExitPlanMode",
                     *OTHERS):  # fmt: skip
            asked = stage.ask_on_card(name)
            record.put(file, name, asked.card())
            if name == "Bash plain":
                tap = asked.tap("deny")
                asked.end()
                settled = {"toast": tap.toast, "card": asked.patched()}
                record.put(file, f"{name}: deny", settled)
            else:
                asked.drop()
        for name in NOTICES:
            before = set(stage.feishu.app_messages)
            stage.served.hook(stage.event(name)[1]).communicate(timeout=60)
            new = wait_until(lambda old=before: set(stage.feishu.app_messages) - old)
            record.put(file, f"notice: {name}", stage.feishu.card(new.pop()))
    with Stage.webhook(pyz, language, record, FEISHUPERM_CARD="title") as stage:
        asked = stage.ask_on_card("Bash danger")
        record.put(file, "webhook: Bash danger", stage.feishu.messages[-1])
        asked.drop()


def expired(pyz: Path, language: str, record: Record) -> None:
    """What becomes of a request that nobody answers."""
    file = "expired.json"
    names = ("Bash plain", "Bash of a subagent", "question of one", "ExitPlanMode",
             "denied", "form")  # fmt: skip
    with Stage.app(pyz, language, record, PERMISSION_REQUEST_TIMEOUT="3") as stage:
        all_asked = [stage.ask_on_card(name) for name in names]
        for asked in all_asked:
            record.put(file, f"{asked.name}: hook", asked.end())
            record.put(file, f"{asked.name}: card", asked.patched())
            page = stage.served.get(f"/request?id={asked.id}")
            record.page(f"expired {asked.name}".replace(" ", "_"), page)
    settings = {
        "PERMISSION_REQUEST_TIMEOUT": "3", "PERMISSION_TIMEOUT_ACTION": "terminal",
    }  # fmt: skip
    with Stage.app(pyz, language, record, **settings) as stage:
        asked = stage.ask_on_card("Bash plain")
        record.put(file, "left to the terminal: pending card", asked.card())
        record.put(file, "left to the terminal: hook", asked.end())
        record.put(file, "left to the terminal: card", asked.patched())


def reminded(pyz: Path, language: str, record: Record) -> None:
    """Half the time is over; and a person who reads has more."""
    file = "reminded.json"
    settings = {
        "PERMISSION_REQUEST_TIMEOUT": "21", "PERMISSION_HOLD": "600",
        "FEISHU_URGENT": "app",
    }  # fmt: skip
    with Stage.app(pyz, language, record, **settings) as stage:
        held = stage.ask_on_card("Bash plain")
        record.put(file, "can be held", held.card())
        tap = held.tap("hold")
        card = held.card()
        record.put(file, "held", {"toast": tap.toast, "card": card})
        record.page("held", stage.served.get(f"/request?id={held.id}"))
        asked = stage.ask_on_card("Bash danger")
        hurried = asked.patched()
        below = [body for id, body in stage.feishu.replies if id == asked.message]
        record.put(file, "reminded", {"card": hurried, "below": below})
        asked.tap("deny")
        held.tap("allow")
        record.put(file, "held, then allowed", held.end())
