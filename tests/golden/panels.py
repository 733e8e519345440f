"""Scenes of sessions on cards: the list, one as it goes on, a start, over the app."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import wait_until
from tests.fakes.claude_program import ClaudeProgram
from tests.golden.record import Record
from tests.golden.stage import Stage, folder

CARDS = "app_panels.json"
PATH = "/usr/local/bin:/usr/bin:/bin"


def panels(pyz: Path, language: str, record: Record) -> None:
    with folder() as home:
        shop = home / "shop"
        shop.mkdir()
        ClaudeProgram(home / "bin")
        settings = {
            "FEISHUPERM_REMOTE": "on", "FEISHUPERM_PROJECTS": str(shop),
            "ANTHROPIC_API_KEY": "k", "PATH": f"{home}/bin:{PATH}",
        }  # fmt: skip
        with Stage.app(pyz, language, record, **settings) as stage:
            show_session(stage)
            show_start(stage)


def show_session(stage: Stage) -> None:
    """A request that waits, then the session behind its settled card."""
    transcript = stage.transcript()
    transcript.call("I build it.", command="npm run build", description="build it")
    path = str(transcript.path)
    asked = stage.ask_on_card("Bash plain", transcript_path=path)
    message = said(stage, "会话")
    stage.record.put(CARDS, "sessions: one waits", stage.feishu.card(message))
    asked.tap("allow")
    asked.end()
    before = set(stage.feishu.app_messages)
    tap = press(stage, asked.message)
    fresh: set[str] = wait_until(lambda: set(stage.feishu.app_messages) - before)
    stage.record.put(CARDS, "progress: opened", stage.feishu.card(fresh.pop()))
    stage.record.put(CARDS, "progress: toast", tap.toast)


def show_start(stage: Stage) -> None:
    message = said(stage, "新任务 shop 修复登录 <at id=all></at>")
    stage.record.put(CARDS, "start: asked", stage.feishu.card(message))
    tap = press(stage, message)
    told = {"toast": tap.toast, "card": tap.card}
    stage.record.put(CARDS, "start: confirmed", told)
    wait_until(lambda: "1a2b3c4d" in json.dumps(stage.feishu.card(message)))
    stage.record.put(CARDS, "start: runs", stage.feishu.card(message))


def said(stage: Stage, words: str) -> str:
    """The card that some words bring."""
    before = set(stage.feishu.app_messages)
    stage.feishu.say(words)
    fresh: set[str] = wait_until(lambda: set(stage.feishu.app_messages) - before)
    return fresh.pop()


def press(stage: Stage, message: str) -> Any:
    """Tap the first button of a panel, or the one that leads to one."""
    found = [
        one["behaviors"][0]["value"]
        for one in stage.feishu.buttons(message, of_panels=True)
    ]
    value = next(value for value in found if "panel" in value)
    return stage.feishu.act(message, {"tag": "button", "value": value})
