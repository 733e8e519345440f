"""What status tells a person."""

from __future__ import annotations

import re
from typing import Any

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.lib.language import spoken
from feishuperm.services.presenter import SENTENCES
from feishuperm.setup import status as module
from feishuperm.setup.status import (
    danger_word,
    duration,
    inbox_link,
    lines,
    read_status,
    settled_status,
)
from tests.tables import every_row

STATUS: dict[str, Any] = {
    "service": "systemd",
    "version": "1.2",
    "pid": 7,
    "started": 1000.0,
    "inbox": "http://localhost:8080/?sig=x",
    "http": "http://localhost:8080",
    "socket": "/s",
    "channels": [{"name": "inbox", "state": "up", "detail": "1 open"}],
    "waiting_count": 1,
    "waiting": [{"id": "1-a", "tool": "Bash", "project": "/p", "seconds_left": 54.2}],
}


def test_every_fact_has_its_line() -> None:
    assert list(lines(STATUS, 1000.0 + 7300)) == [
        "feishuperm 1.2 runs (systemd, pid 7, for 2 h)",
        "inbox    http://localhost:8080/?sig=x",
        "buttons  http://localhost:8080",
        "socket   /s",
        "channel  inbox up: 1 open",
        "waiting  1",
        "  1-a  Bash  /p  54 s left",
    ]


def test_chinese_labels_end_in_one_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEISHUPERM_LANG", "zh")
    rows = [module.row(name, "|") for name in ("inbox", "buttons", "socket")]
    assert rows == ["收件箱   |", "按钮     |", "套接字   |"]


@every_row(
    ("seconds", "text"),
    [(-1, "0 s"), (59.9, "59 s"), (60, "1 min"), (3600, "1 h"), (200_000, "2 d")],
)
def test_duration_is_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_foreign_text_stays_on_its_line_and_cannot_play_with_the_terminal() -> None:
    evil = "\x1b[2Jx\ny\u202e"
    channel = {"name": "webhook", "state": "down", "detail": evil}
    request = {"id": "1-a", "tool": evil, "project": evil, "seconds_left": 1}
    status = {**STATUS, "channels": [channel], "waiting": [request], "version": evil}
    shown = list(lines(status, 0))
    assert len(shown) == 7
    text = "".join(shown)
    assert not {"\x1b", "\n", "\u202e"} & set(text)
    assert "⟦U+001B⟧[2Jx y⟦U+202E⟧" in text


def test_inbox_link_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever only looks at the status must not use up a link."""
    asked: list[Any] = []

    def ask(command: dict[str, Any], path: str) -> dict[str, Any]:
        asked.append((command["command"], command.get("inbox")))
        return {"busy": False, **STATUS}

    monkeypatch.setattr(module, "ask_server", ask)
    assert inbox_link("/s") == STATUS["inbox"]
    assert read_status("/s", {"HOME": "/nonexistent"})["running"] is True
    assert asked == [("status", True), ("look", None), ("status", True)]


def test_server_is_given_a_moment_to_see_who_else_is_connected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [{"busy": True}, {"busy": False}, STATUS, FeishupermError("unknown")]
    answers += [STATUS]

    def ask(command: dict[str, Any], path: str) -> dict[str, Any]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    monkeypatch.setattr(module, "ask_server", ask)
    assert settled_status("/s") == STATUS
    assert settled_status("/s") == STATUS, "an older server cannot look"


def test_danger_has_a_word_in_the_language_of_the_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [key.partition(".")[2] for key in SENTENCES if key.startswith("danger.")]
    assert [danger_word(name) for name in names] == names
    monkeypatch.setenv("FEISHUPERM_LANG", "zh")
    spoken.cache_clear()
    for name in names:
        assert re.fullmatch(r".*[\u4e00-\u9fff].*[^:：]", danger_word(name)), name
    assert danger_word("something new") == "something new"
