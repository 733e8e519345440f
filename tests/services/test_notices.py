"""Cards that tell and do not ask: of which events, with what in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from feishuperm.lib.feishu import build_notice_card
from feishuperm.models.ask import Spent
from feishuperm.models.payload import HookPayload, parse_payload
from feishuperm.services import notices as module
from feishuperm.services.notices import Notices
from feishuperm.services.notifier import Notifier
from feishuperm.services.session_reader import Figures
from tests.services.test_approvals import Channel
from tests.tables import every_row

STOP = {"hook_event_name": "Stop", "last_assistant_message": "done"}


def payload(event: dict[str, Any]) -> HookPayload:
    whole = {"session_id": "s1", "cwd": "/work/cwd", **event}
    return parse_payload(json.dumps(whole).encode())


def made(*kinds: str) -> tuple[Notices, Channel, Channel]:
    first, second = Channel("app"), Channel("webhook")
    notifier = Notifier([first, second], frozenset(), lambda seconds, fn: None)
    return Notices(notifier.notify, frozenset(kinds), lambda: 100.0), first, second


def test_event_is_told_on_every_channel() -> None:
    notices, first, second = made("stop")
    notices.event(payload(STOP), "/work/p")
    (notice,) = first.notices
    assert second.notices == [notice]
    assert (notice.kind, notice.text, notice.session_id) == ("stop", "done", "s1")
    assert (notice.project, notice.created) == ("/work/p", 100.0)


def test_event_that_two_hooks_tell_makes_one_card() -> None:
    notices, channel, _ = made("stop")
    for event in (STOP, STOP, {**STOP, "prompt_id": "2"}, STOP):
        notices.event(payload(event), "/work/p")
    assert len(channel.notices) == 2


@every_row(
    "event",
    [STOP, {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}],
)
def test_event_that_nobody_asked_for_is_not_told(event: dict[str, Any]) -> None:
    notices, channel, _ = made("notification", "failure")
    notices.event(payload(event), "/p")
    assert channel.notices == []


def test_event_without_a_project_is_of_its_folder() -> None:
    notices, channel, _ = made("stop")
    notices.event(payload(STOP), "")
    assert channel.notices[0].project == "/work/cwd"


@pytest.mark.parametrize(
    ("turn", "seconds", "spent"),
    [
        (Figures(prompted=40.0, calls=2), 60.0, "用时 1:00 · 工具调用 2 次"),
        (Figures(tokens=48_000), 0.0, "上下文 48k tokens"),
        (Figures(), 0.0, ""),
    ],
)
def test_end_of_a_turn_says_what_it_took_if_that_is_known(
    monkeypatch: pytest.MonkeyPatch, turn: Figures, seconds: float, spent: str
) -> None:
    monkeypatch.setattr(module, "figures", lambda path: turn)
    notices, channel, _ = made("stop", "notification")
    notices.event(payload(STOP), "/p")
    notice = channel.notices[0]
    assert notice.seconds == seconds
    for shown in (notice, notice.bare()):
        card = json.dumps(build_notice_card(shown, "zh"), ensure_ascii=False)
        assert card.count(spent or "用时") == bool(spent)
    event = {"hook_event_name": "Notification", "message": "m"}
    notices.event(payload(event), "/p")
    assert (channel.notices[1].seconds, channel.notices[1].spent) == (0.0, Spent())


def test_branch_of_the_project_is_told(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/topic\n")
    notices, channel, _ = made("stop")
    notices.event(payload(STOP), str(tmp_path))
    notices.unreadable(str(tmp_path))
    assert [notice.branch for notice in channel.notices] == ["topic", "topic"]


def test_request_that_nobody_can_read_is_always_told() -> None:
    notices, channel, _ = made()
    notices.unreadable("/p")
    assert [notice.kind for notice in channel.notices] == ["unreadable"]


def test_notice_of_our_own_command_is_told_as_it_says() -> None:
    notices, channel, _ = made()
    assert notices.command(
        {"kind": "supervisor_block", "project": "/p", "session": "s", "text": "more"}
    )
    (notice,) = channel.notices
    assert (notice.kind, notice.project, notice.session_id, notice.text) == (
        ("supervisor_block", "/p", "s", "more")
    )


@every_row("kind", [None, "", "permission", ["stop"], 7])
def test_notice_of_an_unknown_kind_is_refused(kind: object) -> None:
    notices, channel, _ = made("stop")
    assert not notices.command({"kind": kind})
    assert channel.notices == []


def test_parts_that_a_command_leaves_out_are_empty() -> None:
    notices, channel, _ = made()
    assert notices.command({"kind": "stop", "text": None})
    assert (channel.notices[0].project, channel.notices[0].text) == ("", "")
