"""The hook client: what it relays, what it hands over, and that it always exits 0."""

from __future__ import annotations

import os
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from feishuperm import client
from tests.conftest import wait_until
from tests.fakes.hook_server import ANSWER, EVENT, HookServer, frame, sends


class Exited(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s")


class Handed:
    """What `commands.hook` was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[bytes, str]] = []

    def handle(self, raw: bytes, request_id: str, reason: str, *_: str) -> bytes:
        assert re.fullmatch(r"\d{10}-[0-9a-f]{8}", request_id)
        self.calls.append((raw, reason))
        return b"{}\n"


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> Handed:
    """Run `client.run` inside this process: no fd, no alarm, a noted hand-over."""
    note = Handed()
    module: Any = types.ModuleType("feishuperm.commands.hook")
    module.handle = note.handle
    monkeypatch.setitem(sys.modules, "feishuperm.commands.hook", module)
    monkeypatch.setattr(sys, "argv", ["feishuperm-hook"])
    monkeypatch.setattr(client, "alarm", lambda seconds: None)
    monkeypatch.setattr(client, "signal", lambda number, action: None)
    return note


def run(monkeypatch: pytest.MonkeyPatch, raw: bytes, path: str) -> bytes:
    """What the client prints for an event."""
    printed: list[bytes] = []
    monkeypatch.setattr(client, "read_all", lambda fd: raw)
    monkeypatch.setattr(client, "write_all", lambda fd, data: printed.append(data))
    client.run({b"PERMISSION_SOCKET_PATH": os.fsencode(path)})
    return b"".join(printed)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"hook_event_name":"Stop"}', "event"),
        (b'{"hook_event_name" : "PermissionRequest"}', "event"),
        (b"", "event"),
        (b"\xff\xfe", "event"),
        (EVENT, "no server"),
        (EVENT.replace(b'name":"P', b'name": "P'), "no server"),
        (EVENT + b" " * client.MAX_EVENT, "event"),
    ],
)
def test_what_the_client_cannot_do_is_handed_over(
    monkeypatch: pytest.MonkeyPatch, handed: Handed, path: str, raw: bytes, reason: str
) -> None:
    assert run(monkeypatch, raw, path) == b"{}\n"
    assert handed.calls == [(raw, reason)]


def test_event_that_only_looks_like_a_request_is_handed_over(
    monkeypatch: pytest.MonkeyPatch, handed: Handed, path: str
) -> None:
    monkeypatch.setattr(client, "ask", refuse)
    assert run(monkeypatch, EVENT, path) == b"{}\n"
    assert handed.calls == [(EVENT, "event")]


def test_inside_a_run_somebody_else_looks_whose_request_it_is(
    monkeypatch: pytest.MonkeyPatch, handed: Handed, path: str
) -> None:
    monkeypatch.setattr(client, "ask", lambda *_: pytest.fail("asked"))
    monkeypatch.setattr(client, "read_all", lambda fd: EVENT)
    monkeypatch.setattr(client, "write_all", lambda fd, data: None)
    client.run({b"FEISHUPERM_RUN": b"/none"})
    assert handed.calls == [(EVENT, "event")]


def test_request_is_relayed_and_its_answer_printed(
    monkeypatch: pytest.MonkeyPatch, handed: Handed, path: str
) -> None:
    asked: list[tuple[bytes, ...]] = []

    def ask(*question: bytes) -> bytes:
        asked.append(question)
        return ANSWER

    monkeypatch.setattr(client, "ask", ask)
    assert run(monkeypatch, EVENT, path) == ANSWER
    assert [(raw, where) for raw, where, *_ in asked] == [(EVENT, os.fsencode(path))]
    assert handed.calls == []


SESSION = b'{"hook_event_name":"%s","session_id":"s-1"}'


@pytest.mark.parametrize("event", [b"UserPromptSubmit", b"Stop", b"SessionEnd"])
def test_event_of_a_session_is_told_and_nothing_else_is_loaded(
    monkeypatch: pytest.MonkeyPatch, handed: Handed, path: str, event: bytes
) -> None:
    monkeypatch.setattr(sys, "argv", ["hook", "session"])
    with HookServer(path, [sends(frame(b"R"))]) as server:
        assert run(monkeypatch, SESSION % event, path) == b""
        wait_until(lambda: server.requests)  # nobody waits for an answer
    assert server.requests == [[b"1", b"", SESSION % event]]
    assert handed.calls == []


@pytest.mark.parametrize("event", [b"PreToolUse", b"PostToolUse"])
def test_tool_call_of_a_session_is_asked_about_while_there_is_a_mark(
    monkeypatch: pytest.MonkeyPatch, handed: Handed, path: str, event: bytes
) -> None:
    monkeypatch.setattr(sys, "argv", ["hook", "session"])
    assert run(monkeypatch, SESSION % event, path) == b"" and handed.calls == []
    Path(path + ".retry").touch()
    assert run(monkeypatch, SESSION % event, path) == b"{}\n"
    assert handed.calls == [(SESSION % event, "event")]


def test_session_of_a_run_is_looked_at_closer(
    monkeypatch: pytest.MonkeyPatch, handed: Handed
) -> None:
    monkeypatch.setattr(sys, "argv", ["hook", "session"])
    monkeypatch.setattr(client, "read_all", lambda fd: SESSION % b"Stop")
    monkeypatch.setattr(client, "write_all", lambda fd, data: None)
    client.run({b"FEISHUPERM_RUN": b"/none"})
    assert handed.calls == [(SESSION % b"Stop", "event")]


def refuse(*_: object) -> bytes:
    raise client.NotPermission


def test_whatever_fails_the_exit_code_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)

    for error in (ValueError, KeyboardInterrupt, SystemExit(3), MemoryError, Exited):
        monkeypatch.setattr(client, "run", raiser(error))
        monkeypatch.setattr(client.posix, "_exit", leave)
        client.main()
    assert codes == [0] * 5


def raiser(error: Any) -> Any:
    def run(environ: object) -> None:
        raise error

    return run
