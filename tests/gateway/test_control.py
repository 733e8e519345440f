"""What a gateway's own user can ask and do over its socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from feishuperm.gateway.web import GatewayControl
from tests.gateway.parts import OTHER, OWNER, Bench, Clock, done, shared


class Connection:
    """Keeps what is sent through it."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.closed = False

    def send(self, kind: bytes, body: bytes) -> None:
        assert kind == b"J"
        self.answers.append(json.loads(body))

    def close(self) -> None:
        self.closed = True


def ask(bench: Bench, command: Any, kind: bytes = b"C") -> Connection:
    control = GatewayControl(bench.hub, lambda: "two of us")
    connection = Connection()
    body = command if isinstance(command, bytes) else json.dumps(command).encode()
    control.on_frame(connection, kind, body)
    return connection


def answer(bench: Bench, **command: Any) -> dict[str, Any]:
    (said,) = ask(bench, command).answers
    return said


def test_machines_are_listed_with_where_they_are(bench: Bench) -> None:
    bench.wire(bench.enrol())
    bench.enrol("away", OTHER)
    here, away = answer(bench, command="machines")["machines"]
    assert (here["id"], here["connected"]) == ("m-laptop", True)
    assert (away["owner"], away["connected"]) == (OTHER, False)
    assert "key" not in here, "what proves a machine stays in the store"


def test_machine_is_renamed_and_told_its_name(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    assert answer(bench, command="rename", id="m-laptop", name="desk") == {
        "name": "desk"
    }
    assert wire.got("renamed") == [{"t": "renamed", "name": "desk"}]
    assert "error" in answer(bench, command="rename", id="m-none", name="x")


def test_revoked_machine_is_out_and_on_record(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    bench.enrol("other")
    assert answer(bench, command="revoke", id="m-laptop") == {"revoked": ["m-laptop"]}
    assert wire.ended is not None
    assert [m.id for m in done(bench.store.machines())] == ["m-other"]
    assert bench.records[-1]["event"] == "revoked"


def test_all_machines_of_a_person_go_and_nobody_elses(bench: Bench) -> None:
    for name, owner in (("a", OTHER), ("b", OTHER), ("c", OWNER)):
        bench.enrol(name, owner)
    said = answer(bench, command="revoke", owner=OTHER)
    assert sorted(said["revoked"]) == ["m-a", "m-b"]
    assert [m.owner for m in done(bench.store.machines())] == [OWNER]


@pytest.mark.parametrize(
    "command", [{}, {"id": "m-none"}, {"owner": "ou_none"}, {"owner": ""}, {"id": None}]
)
def test_revoke_of_nobody_revokes_nobody(bench: Bench, command: dict[str, Any]) -> None:
    bench.enrol()
    assert answer(bench, command="revoke", **command)["error"].startswith("no machine")
    assert len(done(bench.store.machines())) == 1


def test_status_tells_app_engine_machines_and_what_is_wrong(bench: Bench) -> None:
    bench.wire(bench.enrol())
    said = answer(bench, command="status")
    assert said["app"] == {"state": "up", "detail": ""}
    assert said["engine"] == {"state": "up", "detail": ""}
    assert (said["machines"], said["problem"]) == (1, "two of us")
    assert said["replica"] == bench.hub.replica


def test_store_that_does_not_answer_is_said(tmp_path: Path, clock: Clock) -> None:
    (store,) = shared(tmp_path / "e", clock, 1)
    bench = Bench(store, clock)
    store.is_up = False
    assert "does not answer" in answer(bench, command="machines")["error"]
    assert answer(bench, command="status")["engine"]["state"] == "down"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, {"command": "close"}]
)
def test_what_is_no_command_is_answered_with_an_error(bench: Bench, body: Any) -> None:
    connection = ask(bench, body)
    assert "unknown control command" in connection.answers[0]["error"]


def test_frame_of_a_hook_is_not_for_a_gateway(bench: Bench) -> None:
    connection = ask(bench, {"command": "machines"}, b"Q")
    assert connection.closed and connection.answers == []
