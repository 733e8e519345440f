from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest

from feishuperm import wire
from feishuperm.errors import ProtocolError
from feishuperm.handlers.permission import MAX_PARTS, PermissionHandler
from feishuperm.protocol.frames import HookRequest
from feishuperm.services.sessions import Sessions
from tests.handlers.gates import FakeClients
from tests.served import EVENT


class Parts:
    """Desk and notices in one; they write down what they are told."""

    def __init__(self) -> None:
        self.registered: list[HookRequest] = []
        self.told: list[tuple[str, str]] = []
        self.gone: list[object] = []

    def register(self, hook: HookRequest, payload: object, waiter: object) -> None:
        self.registered.append(hook)

    def let_through(self, payload: Any, waiter: Any) -> None:
        self.told.append(("call", payload.tool_name))
        waiter.send(b"R")

    def unreadable(self, project: str) -> None:
        self.told.append(("unreadable", project))

    def event(self, payload: Any, project: str) -> None:
        self.told.append((type(payload).__name__, project))

    def hook_gone(self, connection: object) -> None:
        self.gone.append(connection)


class Calls:
    """What is said around tool calls."""

    def __init__(self) -> None:
        self.said = b""
        self.heard: list[str] = []

    def event(self, payload: Any) -> None:
        self.heard.append(payload.hook_event_name())

    def around_call(self, payload: Any) -> bytes:
        return self.said


class Connection:
    """The server's end of a hook's connection."""

    def __init__(self, sock: socket.socket | None) -> None:
        self.sock = sock
        self.sent: list[tuple[bytes, bytes]] = []

    def send(self, kind: bytes, body: bytes = b"") -> None:
        self.sent.append((kind, body))


class Desk:
    """The handler with what is around it."""

    def __init__(self, sock: socket.socket | None) -> None:
        self.parts, self.clients, self.calls = Parts(), FakeClients(), Calls()
        self.connection = Connection(sock)
        self.commands: list[tuple[dict[str, Any], int]] = []
        self.handler = PermissionHandler(
            cast(Any, self.parts),
            cast(Any, self.parts),
            self._control,
            self.clients,
            Sessions(),
            cast(Any, self.calls),
        )

    def _control(self, command: dict[str, Any], pid: int) -> dict[str, Any]:
        self.commands.append((command, pid))
        return {"done": True}

    def frame(self, kind: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
        self.handler.on_frame(cast(Any, self.connection), kind, body)
        return self.connection.sent


@pytest.fixture
def desk() -> Iterator[Desk]:
    ours, theirs = socket.socketpair()
    yield Desk(ours)
    ours.close()
    theirs.close()


def question(raw: bytes) -> bytes:
    return b"\0".join((wire.PROTOCOL, b"1700000000-0123abcd", b"", b"/srv/shop", raw))


def test_request_is_registered_and_its_client_remembered_by_the_kernels_word(
    desk: Desk,
) -> None:
    desk.frame(b"Q", question(json.dumps(EVENT).encode()))
    assert [hook.project for hook in desk.parts.registered] == ["/srv/shop"]
    assert desk.clients.added == [(os.getpid(), EVENT["session_id"])]


def test_command_is_answered_with_who_sent_it(desk: Desk) -> None:
    sent = desk.frame(b"C", b'{"command": "stop"}')
    assert desk.commands == [({"command": "stop"}, os.getpid())]
    assert sent == [(b"J", b'{"done": true}')]


def test_sender_that_is_gone_is_nobody() -> None:
    desk = Desk(None)
    desk.frame(b"C", b'{"command": "stop"}')
    assert desk.commands == [({"command": "stop"}, 0)]


def test_unreadable_request_is_told_of_and_left_to_the_terminal(desk: Desk) -> None:
    assert desk.frame(b"Q", question(b"{")) == [(b"R", b"")]
    assert desk.parts.told == [("unreadable", "/srv/shop")]
    assert not desk.parts.registered and not desk.clients.added


def test_other_event_is_sent_back_to_the_hook(desk: Desk) -> None:
    other = {**EVENT, "hook_event_name": "PostToolUseFailure"}
    assert desk.frame(b"Q", question(json.dumps(other).encode())) == [(b"E", b"")]
    assert not desk.parts.registered


def test_call_that_begins_is_shown_to_the_desk(desk: Desk) -> None:
    call = {**EVENT, "hook_event_name": "PreToolUse"}
    assert desk.frame(b"Q", question(json.dumps(call).encode())) == [(b"R", b"")]
    assert desk.parts.told == [("call", "Bash")]
    assert not desk.parts.registered


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_what_is_to_be_said_to_a_call_is_said_and_no_allow_is_used_up(
    desk: Desk, event: str
) -> None:
    call = question(json.dumps({**EVENT, "hook_event_name": event}).encode())
    desk.calls.said = b'{"continue": false}\n'
    assert desk.frame(b"Q", call) == [(b"D", desk.calls.said)]
    assert desk.parts.told == []


def test_result_that_nobody_has_words_for_is_released(desk: Desk) -> None:
    event = {**EVENT, "hook_event_name": "PostToolUse"}
    assert desk.frame(b"Q", question(json.dumps(event).encode())) == [(b"R", b"")]
    event["tool_response"] = list(range(MAX_PARTS + 1))
    desk.frame(b"Q", question(json.dumps(event).encode()))
    assert desk.parts.told == [], "it is no request: nobody is alarmed"


@pytest.mark.parametrize(("kind", "body"), [(b"X", b""), (b"C", b"[]"), (b"Q", b"")])
def test_frame_that_cannot_be_understood_is_released(
    desk: Desk, kind: bytes, body: bytes
) -> None:
    assert desk.frame(kind, body) == [(b"R", b"")]


def test_hook_that_hung_up_is_told_to_the_desk(desk: Desk) -> None:
    desk.handler.on_close(cast(Any, desk.connection))
    assert desk.parts.gone == [desk.connection]


def test_event_is_decoded_once_on_its_way(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[object] = []
    real = json.loads

    def spy(text: Any, **more: Any) -> Any:
        decoded.append(text)
        return real(text, **more)

    monkeypatch.setattr(json, "loads", spy)
    desk.frame(b"Q", question(json.dumps(EVENT).encode()))
    assert len(decoded) == 1


def test_request_of_too_many_parts_is_told_of_and_left_to_the_terminal(
    desk: Desk,
) -> None:
    event = {**EVENT, "tool_input": {"x": list(range(MAX_PARTS + 1))}}
    assert desk.frame(b"Q", question(json.dumps(event).encode())) == [(b"R", b"")]
    assert desk.parts.told == [("unreadable", "/srv/shop")]


def test_long_text_with_many_commas_is_one_part(desk: Desk) -> None:
    event = {**EVENT, "tool_input": {"command": 'echo 1,2,[3],{4}\\" ' * 20_000}}
    assert desk.frame(b"Q", question(json.dumps(event).encode())) == []
    assert len(desk.parts.registered) == 1


def test_request_the_desk_refuses_is_released(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise ProtocolError("this id belongs to another request")

    monkeypatch.setattr(desk.parts, "register", refuse)
    sent = desk.frame(b"Q", question(json.dumps(EVENT).encode()))
    assert sent == [(b"R", b"")]


def test_event_nobody_waits_for_goes_to_the_notices(desk: Desk) -> None:
    raw = json.dumps({**EVENT, "hook_event_name": "Stop"}).encode()
    assert desk.frame(b"N", b"\0".join((b"1", b"/srv/shop", raw))) == [(b"R", b"")]
    assert desk.parts.told == [("StopPayload", "/srv/shop")]
    assert desk.calls.heard == ["Stop"]
