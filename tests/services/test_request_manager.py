from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.errors import PayloadError, ProtocolError
from feishuperm.messages import text
from feishuperm.models import request as states
from feishuperm.models.ask import Answer
from feishuperm.models.decision import Decision
from feishuperm.models.kind import KINDS
from feishuperm.models.payload import PermissionRequestPayload
from feishuperm.models.request import TRANSITIONS, Request
from feishuperm.models.settings import Settings
from feishuperm.protocol.frames import HookRequest
from feishuperm.services.request_manager import (
    MAX_DEPTH,
    REMEMBER_MOST,
    REMEMBER_SECONDS,
    RequestManager,
)
from tests.served import event
from tests.tables import every_row

RAW = json.dumps(event()).encode()
HOOK = HookRequest("", "", "/project", RAW)
PAYLOAD = PermissionRequestPayload(event())
ID = "1700000000-0123abcd"


class FakeWaiter:
    def __init__(self) -> None:
        self.frames: list[tuple[bytes, bytes]] = []

    def send(self, kind: bytes, body: bytes = b"") -> None:
        self.frames.append((kind, body))


class Desk:
    """A manager with a clock to turn and a record of ends."""

    def __init__(self, timeout: int = 55, action: str = "deny", hold: int = 0) -> None:
        self.wall = 1_700_000_000.0
        self.ended: list[Request] = []
        settings = Settings(
            {
                "PERMISSION_REQUEST_TIMEOUT": str(timeout),
                "PERMISSION_TIMEOUT_ACTION": action,
                "PERMISSION_HOLD": str(hold),
            }
        )
        self.manager = RequestManager(settings, self.ended.append, lambda: self.wall)

    def ask(
        self, id: str = ID, now: float = 0.0, **more: Any
    ) -> tuple[Request, FakeWaiter]:
        waiter = FakeWaiter()
        request = self.register(id, waiter, now, **more)
        assert request is not None
        return request, waiter

    def register(
        self, id: str, waiter: FakeWaiter, now: float = 0.0, **more: Any
    ) -> Request | None:
        hook = HOOK._replace(id=id, **more)
        return self.manager.register(hook, PAYLOAD, waiter, now)

    def tap(self, action: str, reason: str = "", id: str = ID) -> Request | None:
        """A button of the request's kind is pressed."""
        row = KINDS["permission"].action(action)
        assert row is not None
        answer = Answer(id, action, {"reason": (reason,)}, "link", "me")
        decision = KINDS["permission"].reply(row, {}, answer, partial(text, "zh"))
        assert isinstance(decision, Decision)
        settled = self.manager.resolve(answer, row, decision)
        return self.manager.get(answer.id) if settled else None

    def end(self, state: str, hears: bool = True) -> Request | None:
        request = self.manager.get(ID)
        assert request is not None
        return request if self.manager.end(request, state, hears=hears) else None


def printed(waiter: FakeWaiter) -> dict[str, Any]:
    kind, body = waiter.frames[-1]
    assert kind == b"D"
    found: dict[str, Any] = json.loads(body)["hookSpecificOutput"]["decision"]
    return found


@every_row(
    ("action", "expected"),
    [
        ("allow", {"behavior": "allow"}),
        ("always", {"behavior": "allow"}),
        ("deny", {"behavior": "deny", "message": "用户通过飞书拒绝"}),
        (
            "interrupt",
            {
                "behavior": "deny",
                "message": "用户通过飞书拒绝并中断",
                "interrupt": True,
            },
        ),
    ],
)
def test_each_button_sends_its_decision_to_the_waiting_hook(
    action: str, expected: dict[str, Any]
) -> None:
    desk = Desk()
    request, waiter = desk.ask()
    assert desk.tap(action) is request
    assert printed(waiter) == expected
    assert desk.ended == [request]
    assert len(desk.manager.waiting()) == 0


def test_typed_reason_reaches_the_model_with_a_plain_denial_only() -> None:
    desk = Desk()
    _, waiter = desk.ask()
    desk.tap("deny", "先跑测试")
    assert printed(waiter)["message"] == "用户通过飞书拒绝：先跑测试"
    desk = Desk()
    _, waiter = desk.ask()
    desk.tap("interrupt", "停")
    assert printed(waiter)["message"] == "用户通过飞书拒绝并中断"


ENDINGS = [
    lambda desk, waiter: desk.tap("allow"),
    lambda desk, waiter: desk.tap("deny"),
    lambda desk, waiter: desk.end(states.TERMINAL),
    lambda desk, waiter: desk.end(states.RELEASED),
    lambda desk, waiter: desk.end(states.GONE, hears=False),
    lambda desk, waiter: desk.manager.expire(1e9) or None,
]


@given(order=st.permutations(range(len(ENDINGS))), shown=st.booleans())
def test_a_request_ends_exactly_once_whatever_comes(
    order: list[int], shown: bool
) -> None:
    desk = Desk()
    request, waiter = desk.ask()
    if shown:
        desk.manager.mark_shown(request)
    results = [ENDINGS[order[0]](desk, waiter)]
    first = (request.state, request.action, request.who, request.decision)
    results += [ENDINGS[index](desk, waiter) for index in order[1:]]
    assert (request.state, request.action, request.who, request.decision) == first
    assert [bool(result) for result in results] == [True] + [False] * (len(order) - 1)
    assert desk.ended == [request]
    assert request.state in TRANSITIONS[states.WAITING]
    verdicts = [kind for kind, _ in waiter.frames if kind in (b"D", b"R")]
    assert len(verdicts) == (0 if request.state == states.GONE else 1)


def test_table_of_states_has_one_start_and_only_final_ends() -> None:
    assert set(TRANSITIONS) - TRANSITIONS[states.WAITING] == {states.WAITING}
    ends = set(TRANSITIONS) - {states.WAITING}
    assert all(not TRANSITIONS[end] for end in ends)


def test_time_out_denies_what_a_surface_has_shown() -> None:
    desk = Desk()
    request, waiter = desk.ask(now=100.0)
    desk.manager.mark_shown(request)
    assert waiter.frames == [(b"S", b"")]
    assert desk.manager.next_deadline() == 155.0
    assert desk.manager.expire(154.9) == []
    assert desk.manager.expire(155.0) == [request]
    assert request.state == states.EXPIRED
    assert printed(waiter) == {
        "behavior": "deny",
        "message": "权限请求超时，自动拒绝",
    }


def test_many_deadlines_at_once_are_met_some_at_a_time() -> None:
    desk = Desk()
    for number in range(120):
        desk.register(f"1700000000-{number:08x}", FakeWaiter(), now=100.0)
    batches = []
    while desk.manager.next_deadline() is not None:
        batches.append(len(desk.manager.expire(155.0)))
    assert batches == [50, 50, 20]
    assert len(desk.ended) == 120


def test_time_out_releases_what_nobody_could_see() -> None:
    desk = Desk()
    request, waiter = desk.ask()
    desk.manager.expire(55.0)
    assert request.state == states.RELEASED
    assert waiter.frames == [(b"R", b"")]


def test_time_out_leaves_it_to_the_terminal_if_the_setting_says_so() -> None:
    desk = Desk(action="terminal")
    request, waiter = desk.ask()
    desk.manager.mark_shown(request)
    desk.manager.expire(55.0)
    assert request.state == states.EXPIRED
    assert waiter.frames[-1] == (b"R", b"")


def test_hook_that_tells_its_time_is_believed_whatever_the_clock_says() -> None:
    desk = Desk()
    desk.wall += 3600
    request, _ = desk.ask(now=1000.0, shown="again", left=35)
    assert request.deadline == 1035.0
    assert request.created == desk.wall - 20


def test_hook_that_comes_back_takes_over_its_request() -> None:
    desk = Desk()
    request, old = desk.ask()
    again, new = desk.ask(shown="again")
    assert again is request
    assert desk.manager.of_waiter(old) is None
    desk.tap("allow")
    assert printed(new) == {"behavior": "allow"}


def test_hook_that_comes_back_late_hears_the_decision() -> None:
    desk = Desk()
    desk.ask()
    desk.tap("allow")
    late = FakeWaiter()
    assert desk.register(ID, late, shown="again") is None
    assert printed(late) == {"behavior": "allow"}


def test_another_event_cannot_take_a_known_id() -> None:
    desk = Desk()
    desk.ask()
    desk.tap("allow")
    other = json.dumps(event(command="rm -rf /")).encode()
    with pytest.raises(ProtocolError):
        desk.register(ID, FakeWaiter(), raw=other, shown="again")


def test_event_too_deep_to_be_shown_is_refused() -> None:
    desk = Desk()
    deep: dict[str, Any] = {}
    for _ in range(MAX_DEPTH + 1):
        deep = {"deeper": deep}
    payload = PermissionRequestPayload(event("mcp__a__b", deep=deep))
    with pytest.raises(PayloadError):
        hook = HOOK._replace(id=ID)
        desk.manager.register(hook, payload, FakeWaiter(), 0.0)
    assert desk.manager.get(ID) is None


def test_decisions_reach_only_the_hook_that_asked() -> None:
    """Scenario: 请求 ID 关联"""
    desk = Desk()
    asked = {f"1700000000-{number:08x}": FakeWaiter() for number in range(100)}
    for id, waiter in asked.items():
        desk.register(id, waiter)
    chosen = "1700000000-00000031"
    desk.tap("deny", id=chosen)
    heard = [id for id, waiter in asked.items() if waiter.frames]
    assert heard == [chosen]


def test_ends_are_forgotten_after_a_day() -> None:
    desk = Desk()
    desk.ask()
    desk.tap("allow")
    desk.wall += REMEMBER_SECONDS - 1
    desk.manager.forget()
    assert desk.manager.get(ID) is not None
    desk.wall += 2
    desk.manager.forget()
    assert desk.manager.get(ID) is None


def test_oldest_ends_go_first_when_there_are_too_many() -> None:
    desk = Desk()
    waiting, _ = desk.ask("1-00000000")
    for number in range(REMEMBER_MOST + 10):
        ended = Request(f"2-{number:08x}", b"", "Bash", "/project", desk.wall)
        ended.end(states.ALLOWED, desk.wall)
        desk.manager.restore(ended)
    desk.manager.forget()
    assert desk.manager.get("1-00000000") is waiting
    assert desk.manager.get("2-00000009") is None
    assert desk.manager.get("2-0000000a") is not None


def test_recent_ends_come_newest_first() -> None:
    desk = Desk()
    for number in range(3):
        desk.ask(f"1-0000000{number}")
    for number in (2, 0, 1):
        desk.wall += 1
        desk.tap("allow", id=f"1-0000000{number}")
    assert [r.id[-1] for r in desk.manager.recent(2)] == ["1", "0"]
