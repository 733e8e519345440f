"""The server, its socket and its addresses: each fault is found and named."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.health import FAIL, OK, WARN
from feishuperm.lib import enrolment
from feishuperm.lib.control import NotRunningError
from feishuperm.lib.enrolment import Enrolment
from feishuperm.models.names import DOCTOR_ANSWER, DOCTOR_TOOL
from feishuperm.setup import doctor
from feishuperm.setup.doctor import CHECKS
from tests.setup.patient import HEALTH, Patient, fixes, states
from tests.tables import every_row


def test_server_absent(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*args: Any, **kwargs: Any) -> Any:
        raise NotRunningError("the server is not running")

    monkeypatch.setattr(doctor, "settled_status", absent)
    assert states(patient, "server") == FAIL


def test_server_of_another_version(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = {"version": "0.0.9", "pid": 7, "http": "http://localhost:8080"}
    monkeypatch.setattr(doctor, "settled_status", lambda *a, **k: status)
    assert states(patient, "server") == FAIL


def test_file_replaced_under_a_running_server(patient: Patient) -> None:
    os.utime(patient.archive, (time.time() + 120,) * 2)
    assert states(patient, "server") == FAIL


def test_socket_open_to_others(patient: Patient) -> None:
    patient.socket.chmod(0o666)
    assert states(patient, "socket") == FAIL


def test_socket_missing(patient: Patient) -> None:
    patient.socket.unlink()
    assert states(patient, "socket") == FAIL


def test_socket_of_another_user(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert states(patient, "socket") == FAIL


@pytest.mark.parametrize(
    "reply",
    [(502, ""), (200, "welcome"), (200, "[]"), (200, "{}"), OSError("refused")],
)
def test_address_that_does_not_answer(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, reply: Any
) -> None:
    def fetch(*args: Any, **kwargs: Any) -> Any:
        if isinstance(reply, OSError):
            raise reply
        return reply

    monkeypatch.setattr(doctor.server, "fetch", fetch)
    assert states(patient, "http") == FAIL


def test_bot_with_an_address_no_phone_can_open(patient: Patient) -> None:
    patient.write_config(
        FEISHU_WEBHOOK_URL="http://127.0.0.1:9/open-apis/bot/v2/hook/x"
    )
    assert states(patient, "http") == WARN


@pytest.mark.parametrize("check", ["socket", "http"])
def test_without_a_server_its_parts_are_not_blamed(absent: Patient, check: str) -> None:
    absent.socket.unlink()
    row = (WARN, "not checked: the server is not running", "feishuperm install")
    assert absent.examine(check) == [row]


def test_server_older_than_its_file_is_restarted(patient: Patient) -> None:
    os.utime(patient.archive, (time.time() + 120,) * 2)
    restart = "feishuperm restart"
    assert fixes(patient, "server") == [restart]
    patient.socket.chmod(0o666)
    assert fixes(patient, "socket") == [restart]


def test_socket_missing_is_told_in_words(patient: Patient) -> None:
    patient.socket.unlink()
    ((_, text, _),) = patient.examine("socket")
    assert text == f"{patient.socket} is gone"


def test_socket_that_a_dead_server_left_is_told(absent: Patient) -> None:
    ((state, text, fix),) = absent.examine("socket")
    assert (state, fix) == (WARN, "feishuperm install")
    assert text == f"{absent.socket} is left over from a server that stopped"


def test_server_that_lives_and_does_not_answer_is_restarted(
    absent: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor.server, "background_pid", lambda environ: 7)
    monkeypatch.setattr(doctor.server, "is_server", lambda pid, program: True)
    ((state, text, fix),) = absent.examine("server")
    assert (state, fix) == (FAIL, "feishuperm restart")
    assert "though process 7 is there" in text


@pytest.mark.parametrize(
    ("six", "state"),
    [
        ((200, HEALTH), OK),
        ((200, "welcome"), FAIL),
        (ConnectionRefusedError(111, "refused"), FAIL),
        (None, OK),
    ],
)
def test_both_loopback_families_have_to_be_ours(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, six: Any, state: str
) -> None:
    def fetch(url: str, timeout: float) -> Any:
        if "[::1]" not in url:
            return 200, HEALTH
        if isinstance(six, OSError):
            raise six
        return six

    monkeypatch.setattr(doctor, "has_address", lambda host: six or ":" not in host)
    monkeypatch.setattr(doctor.server, "fetch", fetch)
    assert states(patient, "http") == state


def decided(behavior: str) -> str:
    decision = {"behavior": behavior, "message": DOCTOR_ANSWER}
    output = {"hookEventName": "PermissionRequest", "decision": decision}
    return json.dumps({"hookSpecificOutput": output})


@pytest.mark.parametrize(
    ("output", "state"),
    [(decided("deny"), OK), ("", FAIL), ("{}", FAIL), ("welcome", FAIL)],
)
def test_request_of_the_doctor_must_come_back_decided(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, output: str, state: str
) -> None:
    asked: list[Any] = []

    def start(event: Any, environ: Any, command: Any) -> None:
        asked.append((event["tool_name"], command))

    monkeypatch.setitem(CHECKS, "loop", doctor.check_loop)
    monkeypatch.setattr(doctor.program, "start_hook", start)
    monkeypatch.setattr(doctor.program, "hook_output", lambda hook, seconds: output)
    assert states(patient, "loop") == state
    assert asked == [(DOCTOR_TOOL, ["/bin/sh", "-c", "feishuperm-hook"])]


def test_without_a_server_no_request_is_tried(
    absent: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHECKS, "loop", doctor.check_loop)
    assert states(absent, "loop") == FAIL


def test_clock_of_a_gateway_that_runs_here_is_looked_at(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = {"state": "up", "detail": ""}
    said = {"app": up, "engine": up, "machines": 2, "problem": "", "clock": "120 s"}
    monkeypatch.setattr(doctor, "read_gateway", lambda environ: said)
    assert (WARN, "120 s") in [row[:2] for row in patient.examine("gateway")]


def test_gateway_that_shares_its_app_is_a_fault(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = {"state": "up", "detail": ""}
    said = {"app": up, "engine": up, "machines": 2, "problem": "another program"}
    monkeypatch.setattr(doctor, "read_gateway", lambda environ: said)
    assert [row[:2] for row in patient.examine("gateway")] == [
        (FAIL, "another program")
    ]
    monkeypatch.setitem(said, "problem", "")
    assert [row[0] for row in patient.examine("gateway")] == [OK]
    monkeypatch.setitem(said, "engine", {"state": "down", "detail": "refused"})
    state, text, _ = patient.examine("gateway")[0]
    assert state == FAIL and "refused" in text


OWN = Enrolment("https://g", "m-1", "laptop", "ou_me", "", ("ab" * 32,))


@pytest.fixture
def joined(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A machine that has joined; what its server says of the gateway."""
    patient.write_config(FEISHUPERM_GATEWAY=OWN.url)
    enrolment.save_coming(OWN, patient.environ)
    enrolment.promote(patient.environ)
    row: dict[str, Any] = {"name": "gateway", "state": "up", "url": OWN.url}
    status = doctor.settled_status()
    status["channels"] = [row]
    monkeypatch.setattr(doctor, "settled_status", lambda *a, **k: status)
    return row


def test_machine_that_has_joined_needs_no_app_of_its_own(
    patient: Patient, joined: dict[str, Any]
) -> None:
    ((state, text, _),) = patient.examine("gateway")
    assert state == OK and "laptop" in text and OWN.url in text
    assert states(patient, "feishu") == OK
    assert "setup" not in str(patient.examine("feishu"))


@every_row(
    ("row", "state", "fix"),
    [
        ({"state": "down", "detail": "the gateway has revoked this machine"}, FAIL,
         "join https://g"),
        ({"state": "down", "detail": "the gateway refuses this machine: unknown"}, FAIL,
         "join https://g"),
        ({"state": "down", "detail": "Connection refused"}, FAIL, "ask the people"),
        ({"detail": "the gateway's clock is 99 s ahead of this machine's"}, WARN,
         "clock"),
        ({"name": "other"}, FAIL, "restart"),
        ({"url": "https://other"}, FAIL, "restart"),
    ],
)  # fmt: skip
def test_gateway_that_brings_no_taps_is_a_fault(
    patient: Patient, joined: dict[str, Any], row: dict[str, Any], state: str, fix: str
) -> None:
    before = dict(joined)
    joined.update(row)
    ((found, _, mends),) = patient.examine("gateway")
    assert (found, fix in mends) == (state, True)
    joined.clear()
    joined.update(before)


@every_row("content", [None, "{", "[" * 100_000])
def test_machine_that_has_not_joined_what_is_set_is_a_fault(
    patient: Patient, joined: dict[str, Any], content: str | None
) -> None:
    path = Path(enrolment.path(patient.environ))
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_text(content)
    ((state, _, fix),) = patient.examine("gateway")
    assert state == FAIL and fix.endswith("join https://g")
