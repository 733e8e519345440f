"""No secret of the app is written, told or listed, whatever goes wrong with it.

The app's secret, its tokens and what stands in the address of a connection are looked
for in every file of the home, in what every command prints and in the arguments of
every process, while the platform says them back in its refusals.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.e2e.test_app import app_settings, sent
from tests.fakes.feishu import APP_SECRET, TENANT_TOKEN, Fault
from tests.fakes.feishu_app import FakePlatform, Handshake
from tests.served import Served, decision, event, finish

TICKET = "ticket-8a31f2c6"  # in addresses that lead nowhere
COMMANDS = (("status",), ("status", "--json"), ("doctor",), ("log",), ("version",))


class Watch:
    """Looks at the process list as often as it can."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ends.set()
        self._thread.join(10)

    def _work(self) -> None:
        while not self._ends.wait(0.01):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(path.read_bytes())
                except OSError:  # it has ended
                    pass


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform() as platform:
        yield platform


def leading_nowhere(address: str) -> dict[str, object]:
    """A discovery that succeeds and names this address."""
    return {"code": 0, "msg": "ok", "data": {"URL": address}}


def spoil(feishu: FakePlatform) -> int:
    """Everything that can be said with a secret in it; how many tries it takes."""
    query = f"service_id=1&access_key={TICKET}&ticket={TICKET}"
    said = f"{APP_SECRET} {TENANT_TOKEN} {TICKET}"
    feishu.discovery.extend(
        [
            {"code": 1, "msg": said},
            leading_nowhere(f"ws://127.0.0.1:1/ws?{query}"),
            leading_nowhere(f"ws://127.0.0.1:{TICKET}/ws?{query}"),
            leading_nowhere(f"ws://127.0.0.1:{feishu.connections.port}/中?{query}"),
        ]
    )
    headers = (("Handshake-Msg", said), ("Handshake-Status", "514"))
    feishu.connections.refusals.append(Handshake(514, headers))
    return len(feishu.discovery) + 1


def refusal(code: int) -> Fault:
    said = f"Bearer {TENANT_TOKEN} of {APP_SECRET} is refused"
    return Fault(400, json.dumps({"code": code, "msg": said}).encode())


def run(served: Served, *arguments: str) -> bytes:
    result = subprocess.run(
        [served.pyz, *arguments],
        env=served.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    return result.stdout + result.stderr


def test_no_secret_of_the_app_is_written_told_or_listed(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    settings = {**app_settings(feishu), "FEISHUPERM_LOG_LEVEL": "debug"}
    spoil(feishu)
    told = b""
    with Watch() as watch, Served(pyz, tmp_path, **settings) as served:
        told += b"".join(run(served, *command) for command in COMMANDS)  # all is wrong
        wait_until(lambda: feishu.connections.open, 40)
        feishu.faults.extend(refusal(code) for code in (99991663, 2200, 99991400))
        hook = served.hook(event())
        message = sent(feishu)
        feishu.connections.cut()
        wait_until(lambda: feishu.connections.made > 1 and feishu.connections.open)
        told += b"".join(run(served, *command) for command in COMMANDS)
        assert feishu.tap(message, "批准运行").ok
        assert decision(finish(hook)) == {"behavior": "allow"}
        told += json.dumps(served.status()).encode()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in files)
    listed = b"\n".join(watch.seen)
    assert len(feishu.connections.issued) >= 4 and b"npm run build" in written
    assert bytes(pyz) in listed and b"app" in told
    for canary in (APP_SECRET, TENANT_TOKEN, TICKET, *feishu.connections.issued):
        for name, data in (("file", written), ("output", told), ("process", listed)):
            assert canary.encode() not in data, f"{canary} in a {name}"


def test_wrong_secret_is_not_told_either(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    """What is refused is still somebody's secret: one character may be wrong."""
    wrong = "wrong-secret-77e0c1"
    settings = {**app_settings(feishu), "FEISHU_APP_SECRET": wrong}
    with Served(pyz, tmp_path, **settings, FEISHUPERM_LOG_LEVEL="debug") as served:
        wait_until(lambda: "FEISHU_APP_SECRET" in json.dumps(served.status()))
        told = b"".join(run(served, *command) for command in COMMANDS)
    written = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    assert wrong.encode() not in told + b"".join(written)
