"""The built file when its server ends: handed over, crashed, its socket deleted."""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.served import Served, decision, event, finish

HOOKS = 50
HANDOVER_SECONDS = 20.0  # it takes a tenth of one, on a machine with nothing else to do


@pytest.fixture
def served(pyz: Path, home: Path) -> Iterator[Served]:
    with Served(pyz, home, PERMISSION_REQUEST_TIMEOUT="55") as server:
        yield server


def hand_over(served: Served) -> dict[str, Any]:
    """End the server for another; its answer, once it is gone."""
    assert served.process is not None
    answer = served.control(command="handover")
    assert answer is not None
    assert served.process.wait(HANDOVER_SECONDS) == 0, served.output()
    return answer


def ledger(served: Served) -> list[dict[str, Any]]:
    path = served.home / ".local" / "state" / "feishuperm" / "ledger.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def ends(served: Served) -> list[dict[str, Any]]:
    return [entry for entry in ledger(served) if entry.get("event") == "request"]


def test_fifty_waiting_hooks_survive_three_handovers(served: Served) -> None:
    hooks = [served.hook(event(command=f"echo {number}")) for number in range(HOOKS)]
    wait_until(lambda: len(served.waiting()) == HOOKS)
    ids = set(served.waiting())
    for _ in range(3):
        assert hand_over(served) == {"waiting": HOOKS}
        served.start()
        wait_until(lambda: len(served.waiting()) == HOOKS)
        assert set(served.waiting()) == ids
    assert all(hook.poll() is None for hook in hooks)
    assert ends(served) == []
    status = served.status()
    assert status is not None
    assert all(row["seconds_left"] <= 56 for row in status["waiting"])
    with concurrent.futures.ThreadPoolExecutor(8) as taps:
        answers = list(taps.map(lambda id: served.get(f"/deny?id={id}"), ids))
    assert [answer.status for answer in answers] == [200] * HOOKS
    for hook in hooks:
        assert decision(finish(hook))["behavior"] == "deny"
    assert sorted(entry["id"] for entry in ends(served)) == sorted(ids)


def test_plain_stop_still_releases(served: Served) -> None:
    hook, _ = served.ask(event())
    assert served.stop() == 0
    assert finish(hook) == ""
    assert [entry["state"] for entry in ends(served)] == ["released"]


@pytest.mark.full
def test_hook_of_a_crash_looping_server_ends_by_its_deadline(
    pyz: Path, home: Path
) -> None:
    """Each start acknowledges it anew; its time runs from the first alone."""
    with Served(pyz, home, PERMISSION_REQUEST_TIMEOUT="4") as served:
        hook, _ = served.ask(event())
        began = time.monotonic()
        while hook.poll() is None:
            served.kill()
            served.start()
            assert time.monotonic() - began < 4 + 3 + 20
        finish(hook)


def hook_pid(served: Served, process: Any) -> int:
    """The hook itself, whatever has started it."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return int(children.split()[0]) if children.split() else process.pid


@pytest.mark.full
@pytest.mark.parametrize("answered", [True, False])
def test_hook_that_could_not_run_until_its_deadline_still_takes_what_came(
    pyz: Path, home: Path, answered: bool
) -> None:
    """A machine that stands still for seconds: the page said "done", so it is."""
    with Served(pyz, home, PERMISSION_REQUEST_TIMEOUT="3") as served:
        hook, id = served.ask(event())
        pid = hook_pid(served, hook)
        os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        if answered:
            assert served.get(f"/deny?id={id}").status == 200
        else:
            served.kill()
        time.sleep(max(0.0, began + 3 + 3 + 1 - time.monotonic()))
        os.kill(pid, signal.SIGCONT)
        printed = finish(hook)
        assert ("deny" in printed) is answered


def test_deleted_socket_file_is_bound_anew(served: Served) -> None:
    first, first_id = served.ask(event())
    os.unlink(served.socket)
    wait_until(lambda: os.path.exists(served.socket))
    second, second_id = served.ask(event(command="echo 2"))
    assert served.waiting() == [first_id, second_id]
    assert "bound again" in served.output()
    for hook, id in ((first, first_id), (second, second_id)):
        served.get(f"/deny?id={id}")
        assert decision(finish(hook))["behavior"] == "deny"


def test_both_loopback_families_are_answered_by_the_server(served: Served) -> None:
    for host in ("127.0.0.1", "::1"):
        try:
            sock = socket.create_connection((host, served.port), timeout=10)
        except OSError:
            assert host == "::1"
            with pytest.raises(OSError), socket.socket(socket.AF_INET6) as probe:
                probe.bind((host, 0))  # the machine does not have it
            continue
        with sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 200")
