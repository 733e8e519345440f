"""The record is what happened: crashes, locks and secrets against the built file."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from feishuperm.services.ledger import Ledger
from feishuperm.services.ledger_check import check
from tests.conftest import wait_until
from tests.lib.test_secrets import LONG, TEXTS, S
from tests.served import Served, decision, event, finish

ROUNDS = 25


def ledger_of(served: Served) -> Ledger:
    return Ledger(environ=served.environ)


def entries(served: Served) -> list[dict[str, Any]]:
    return list(ledger_of(served).entries())


def run(served: Served, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [served.pyz, "log", *args],
        env=served.environ,
        capture_output=True,
        text=True,
        timeout=60,
    )


def kill_at(served: Served, id: str, seconds: float) -> None:
    """Tap "always", and kill the server so long after the tap was sent."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    connection.request("GET", served.link(f"/always?id={id}"))
    assert served.process is not None
    try:
        served.process.wait(seconds)
    except subprocess.TimeoutExpired:
        pass
    served.kill()
    connection.close()


def finish_after_crash(served: Served, hook: Any, id: str) -> str:
    wait_until(lambda: hook.poll() is not None or id in served.waiting())
    if hook.poll() is None:  # the server died before the tap meant anything
        served.get(f"/deny?id={id}")
    return finish(hook)


def test_server_killed_at_the_tap_leaves_no_allow_and_no_rule_without_an_entry(
    pyz: Path, home: Path
) -> None:
    """Twenty-five servers die between the tap and its end, each a little later."""
    rng = random.Random(14)
    allowed: dict[str, str] = {}
    with Served(pyz, home) as served:
        for number in range(ROUNDS):
            command = f"make target-{number}"
            hook, id = served.ask(event(command=command))
            kill_at(served, id, 0.0005 + rng.random() * 0.012)
            served.start()
            printed = finish_after_crash(served, hook, id)
            if printed and decision(printed)["behavior"] == "allow":
                allowed[id] = command
        wait_until(lambda: not check(ledger_of(served)).missing)
        report = check(ledger_of(served))
        assert (report.problems, report.missing) == ((), ())
        recorded = entries(served)
        ends = [entry["id"] for entry in recorded if entry["event"] == "request"]
        assert len(ends) == len(set(ends))
        always = {
            entry["id"]
            for entry in recorded
            if entry["event"] == "request" and entry["action"] == "always"
        }
        assert set(allowed) <= always
        settings = served.project / ".claude" / "settings.local.json"
        if settings.exists():
            assert os.listdir(settings.parent) == ["settings.local.json"]
        rules = json.loads(settings.read_text()) if settings.exists() else {}
        written = rules.get("permissions", {}).get("allow", [])
        named = {rule for entry in recorded for rule in entry["rules"]}
        assert set(written) <= named
        for id in always:
            assert run(served, "undo", id).returncode == 0
        if settings.exists():
            assert json.loads(settings.read_text())["permissions"]["allow"] == []
        result = run(served, "verify")
        assert result.returncode == 0, result.stdout


def test_nothing_is_allowed_while_the_ledger_cannot_be_written(
    pyz: Path, home: Path
) -> None:
    with Served(pyz, home) as served:
        hook, id = served.ask(event())
        assert finish_tap(served, hook, id) == "allow"
        with open(ledger_of(served).path, "rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            hook, id = served.ask(event())
            page = served.get(f"/allow?id={id}")
            assert "操作成功" not in page.text
            assert finish(hook) == ""  # the terminal decides
            hook, denied = served.ask(event())
            served.get(f"/deny?id={denied}")
            assert decision(finish(hook))["behavior"] == "deny"
            result = run(served, "verify")
            assert result.returncode == 1
            assert "nothing was changed" not in result.stdout
            assert "entries are not written yet" in result.stdout
            hook, third = served.ask(event())
            served.get(f"/deny?id={third}")
            finish(hook)
            served.kill()  # which takes nothing along
        served.start()
        wait_until(lambda: not ledger_state(served)["pending"])
        ends = {entry["id"]: entry for entry in entries(served) if entry.get("state")}
        assert ends[id]["state"] == "released"
        assert ends[denied]["action"] == ends[third]["action"] == "deny"
        result = run(served, "verify")
        assert result.stdout.endswith("nothing was changed\n")


def ledger_state(served: Served) -> dict[str, Any]:
    status = served.status()
    assert status is not None
    state: dict[str, Any] = status["ledger"]
    return state


def finish_tap(served: Served, hook: Any, id: str) -> str:
    served.get(f"/allow?id={id}")
    behavior: str = decision(finish(hook))["behavior"]
    return behavior


def test_cut_ledger_is_noticed_and_the_head_of_a_page_is_found(
    pyz: Path, home: Path
) -> None:
    with Served(pyz, home) as served:
        for _ in range(3):
            hook, id = served.ask(event())
            finish_tap(served, hook, id)
        wait_until(lambda: run(served, "verify").returncode == 0)
        path = Path(ledger_of(served).path)
        head = entries(served)[0]["hash"][:8]
        result = run(served, "verify", "--head", head)
        assert f"the head {head} is there; 5 entries came after" in result.stdout
        whole = path.read_bytes()
        path.write_bytes(whole[: whole[:-1].rindex(b"\n") + 1])
        result = run(served, "verify")
        assert result.returncode == 1
        assert "entries 6 to 6 were cut off the end" in result.stdout
        hook, id = served.ask(event())
        finish_tap(served, hook, id)
        wait_until(lambda: "lost its end" in run(served, "verify").stdout)


@pytest.mark.parametrize("action", ["always", "deny"])
def test_no_secret_of_a_call_is_in_ledger_log_or_lists(
    pyz: Path, home: Path, action: str
) -> None:
    """Canaries of every kind go through; only the request's own page shows them."""
    texts = [text for text, _ in TEXTS]
    canaries = (S, LONG, "S3CR3T")
    with Served(pyz, home) as served:
        for start in range(0, len(texts), 12):
            command = "\n".join(texts[start : start + 12])
            for part in (command, texts[start]):
                hook, id = served.ask(event(command=part, description=f"use {part}"))
                assert any(
                    word in served.get(f"/request?id={id}").text for word in canaries
                )
                status = json.dumps(served.status())
                assert not any(word in status for word in canaries)
                fields = {"reason": part[:500]} if action == "deny" else {}
                served.post(f"/{action}", id=id, **fields)
                finish(hook)
        wait_until(lambda: not check(ledger_of(served)).missing)
        served.stop()
        for args in ((), ("-n", "0"), ("--json", "-n", "0")):
            shown = run(served, *args).stdout
            assert not any(word in shown for word in canaries)
        served.start()
    own = {"key", "ledger.key"}
    for path in home.rglob("*"):
        # The rules that "always" wrote are the user's own; they are exact.
        if path.is_file() and path.name not in {*own, "settings.local.json"}:
            data = path.read_bytes()
            assert not any(word.encode() in data for word in canaries), path
    assert any(entry["detail"] for entry in entries(served))
