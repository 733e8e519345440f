"""Cards of the app: tap to exit, acknowledgement, idleness, and the way back.

    python3 build.py bench app

The built file serves, the strict platform is in this process.  A thousand hooks of as
many sessions wait, so their cards leave at the platform's limit all the while.  Where
ten thousand pings are counted, the server runs from the source with a shorter least
interval; nothing else of it is changed.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.serving import ARCHIVE, BuiltServer, event, go_first  # noqa: E402
from tests.bench.table import row  # noqa: E402
from tests.fakes.feishu import APP_ID, APP_SECRET  # noqa: E402
from tests.fakes.feishu_app import OWNER, FakePlatform, Tap  # noqa: E402

CROWD, HOOKS = 1000, 20
TAP_LIMIT, ACK_LIMIT = 0.030, 0.050
ACK_SECONDS = 60  # of taps while cards leave: five a second
IDLE_SECONDS, IDLE_LIMIT = 20.0, 0.1  # percent of a core
PINGS, GROWTH_LIMIT = 10_000, 256.0  # KiB, what an allocator may round
CUTS, BACK_LIMIT, SILENT_LIMIT = 20, 2.0, 35.0

# The server as `serve` starts it, but for how often it may ping.
PINGING = """
from feishuperm.protocol import long_connection
from feishuperm.server import outgoing
long_connection.LEAST_PING = outgoing.LOOK_SECONDS = 0.001
from feishuperm.cli import main
main(["feishuperm", "serve"])
"""


def app_settings(feishu: FakePlatform) -> dict[str, str]:
    return {
        "FEISHU_APP_ID": APP_ID,
        "FEISHU_APP_SECRET": APP_SECRET,
        "FEISHU_BASE_URL": feishu.base_url,
        "FEISHU_RECEIVE_ID": OWNER,
    }


@contextlib.contextmanager
def connected() -> Iterator[tuple[FakePlatform, BuiltServer]]:
    """A platform, and a server whose app is connected to it."""
    with FakePlatform() as feishu:
        server = BuiltServer(**app_settings(feishu))
        try:
            wait_for(lambda: feishu.connections.open, 20)
            yield feishu, server
        finally:
            server.kill()


def wait_for(condition: Callable[[], Any], seconds: float) -> float:
    """How long it took. Raises SystemExit when it takes longer."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise SystemExit(f"nothing happened within {seconds:g} s")
        time.sleep(0.001)
    return time.monotonic() - began


class Phone:
    """Finds the cards of requests, and taps them."""

    def __init__(self, feishu: FakePlatform) -> None:
        self.feishu = feishu

    def card(self, id: str) -> str:
        messages = list(self.feishu.app_messages.items())
        return next((key for key, m in messages if m.get("uuid") == id), "")

    def tap(self, id: str, action: str) -> Tap:
        message = self.card(id)
        values = [
            button["behaviors"][0]["value"] for button in self.feishu.buttons(message)
        ]
        (value,) = (value for value in values if value["action"] == action)
        tap = self.feishu.act(message, {"tag": "button", "value": value})
        if not tap.ok or tap.toast["type"] != "success":
            raise SystemExit(f"the tap on {id} did nothing: {tap}")
        return tap


# With a thousand waiting.


def start_hook(server: BuiltServer, number: int) -> subprocess.Popen[bytes]:
    project = f"{server.home}/project-{number}"
    os.mkdir(project)
    process = subprocess.Popen(
        [str(ARCHIVE), "hook"],
        env={**server.environment, "CLAUDE_PROJECT_DIR": project},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(event(project, session=number + 1))
    process.stdin.close()
    return process


def start_hooks(server: BuiltServer) -> dict[str, subprocess.Popen[bytes]]:
    """Real hooks that wait, by request id."""
    hooks = {f"project-{n}": start_hook(server, n) for n in range(HOOKS)}
    rows: list[Any] = []

    def registered() -> bool:
        rows[:] = server.control("status")["waiting"]  # type: ignore[call-overload]
        return len(rows) == HOOKS

    wait_for(registered, 30)
    return {row["id"]: hooks[os.path.basename(row["project"])] for row in rows}


def tap_to_exit(phone: Phone, id: str, process: subprocess.Popen[bytes]) -> float:
    start = time.perf_counter()
    tapper = threading.Thread(target=phone.tap, args=(id, "allow"))
    tapper.start()
    process.wait(30)
    seconds = time.perf_counter() - start
    tapper.join()
    assert process.stdout is not None
    with process.stdout as output:
        if b'"allow"' not in output.read():
            raise SystemExit("the hook did not print the decision")
    return seconds


def acknowledgements(phone: Phone, crowd: Crowd) -> list[float]:
    """Seconds to the answer of each tap, while a thousand cards are on their way."""
    times = []
    until = time.monotonic() + ACK_SECONDS
    while time.monotonic() < until:
        wait_for(lambda: phone.card(crowd.ids[0]), 30)
        times.append(phone.tap(crowd.ids[0], "deny").seconds)
        crowd.replace_first()
    return sorted(times)


class Crowd:
    """Hooks that wait, each of a session of its own."""

    def __init__(self, server: BuiltServer) -> None:
        self.server = server
        self.socks: list[Any] = []
        self.ids: list[str] = []
        self.made = HOOKS
        for _ in range(CROWD):
            self.add()

    def add(self) -> None:
        self.made += 1
        sock, id = self.server.park(self.made, session=self.made)
        self.socks.append(sock)
        self.ids.append(id)

    def replace_first(self) -> None:
        self.socks.pop(0).close()
        self.ids.pop(0)
        self.add()


def measure_taps() -> None:
    with connected() as (feishu, server):
        phone = Phone(feishu)
        hooks = start_hooks(server)
        wait_for(lambda: all(phone.card(id) for id in hooks), 30)
        crowd = Crowd(server)
        acks = acknowledgements(phone, crowd)
        exits = sorted(tap_to_exit(phone, *hook) for hook in hooks.items())
    what = f"tap in the card to the hook's exit, {CROWD} waiting"
    median = statistics.median(exits)
    print(f"{what}: worst of {HOOKS} {exits[-1] * 1e3:.1f} ms")
    row(what, "median by the clock", median * 1e3, TAP_LIMIT * 1e3, "ms")
    what = "acknowledgement of a tap while cards leave at the limit"
    most = acks[max(0, len(acks) * 99 // 100 - 1)]
    print(f"{what}: {len(acks)} taps, median {statistics.median(acks) * 1e3:.1f} ms")
    row(what, "99 of 100 by the clock", most * 1e3, ACK_LIMIT * 1e3, "ms")


# With nothing to do.


def work(pid: int) -> float:
    """Seconds that all threads of a process have run."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def measure_idleness() -> None:
    with connected() as (feishu, server):
        time.sleep(3)  # what a start leaves to do
        calls = len(feishu.requests)
        before, began = work(server.process.pid), time.monotonic()
        time.sleep(IDLE_SECONDS)
        share = (work(server.process.pid) - before) / (time.monotonic() - began)
        calls = len(feishu.requests) - calls
    what = f"a connected server with nothing to do, {IDLE_SECONDS:.0f} s"
    row(what, "of a core", share * 100, IDLE_LIMIT, "%")
    row(what, "calls to Feishu", calls, 0, "")


def measure_growth() -> None:
    with FakePlatform() as feishu, tempfile.TemporaryDirectory() as home:
        config = {"ReconnectCount": -1, "ReconnectInterval": 1, "ReconnectNonce": 1}
        feishu.connections.config = {**config, "PingInterval": 0.001}
        environ = {
            "PATH": os.environ["PATH"], "HOME": home, "PYTHONPATH": str(ROOT),
            "CALLBACK_SERVER_PORT": "0", "PERMISSION_SOCKET_PATH": f"{home}/s",
            **app_settings(feishu),
        }  # fmt: skip
        server = subprocess.Popen(
            [sys.executable, "-c", PINGING],
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(lambda: feishu.connections.pings > 1000, 60)
            before, pings = resident(server.pid), feishu.connections.pings
            wait_for(lambda: feishu.connections.pings > pings + PINGS, 300)
            grown = resident(server.pid) - before
        finally:
            server.kill()
            server.wait(10)
    row("a connected server", f"growth over {PINGS} pings", grown, GROWTH_LIMIT, "KiB")


def resident(pid: int) -> float:
    """Resident memory in KiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


# The way back.


def back(feishu: FakePlatform, breaks: Callable[[], None]) -> float:
    """Seconds from a fault to the next connection."""
    made = feishu.connections.made
    breaks()
    return wait_for(lambda: feishu.connections.made > made, 120)


def measure_cuts() -> None:
    with connected() as (feishu, _):
        times = []
        for number in range(CUTS):
            line = feishu.connections
            times.append(back(feishu, line.reset if number % 2 else line.cut))
            wait_for(lambda line=line: line.open, 10)
    print(f"back after a cut: worst of {CUTS} {max(times):.2f} s")
    row("connected again after a cut", "median", statistics.median(times), BACK_LIMIT,
        "s")  # fmt: skip


def silence_at_once(feishu: FakePlatform) -> float:
    return back(feishu, feishu.connections.silence)


def silence_later(feishu: FakePlatform) -> float:
    time.sleep(11)
    return back(feishu, feishu.connections.silence)


def silence_after_a_fresh_one(feishu: FakePlatform) -> float:
    """A fresh connection was just made because the one before seemed deaf."""
    back(feishu, feishu.connections.deafen)
    wait_for(lambda: len(feishu.connections.open) == 1, 10)
    return back(feishu, feishu.connections.silence)


def measure_silence() -> None:
    scenes = (silence_at_once, silence_later, silence_after_a_fresh_one)
    times: list[float] = []

    def play(scene: Callable[[FakePlatform], float]) -> None:
        with connected() as (feishu, server):
            sock, id = server.park(1)
            wait_for(lambda: Phone(feishu).card(id), 10)
            times.append(scene(feishu))
            sock.close()

    threads = [threading.Thread(target=play, args=(scene,)) for scene in scenes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(times) < len(scenes):
        times.append(float("inf"))
    what = "connected again after a silent half-open, a card out"
    row(what, f"worst of {len(scenes)} moments", max(times), SILENT_LIMIT, "s")


def main() -> int:
    go_first()
    measure_taps()
    measure_idleness()
    measure_growth()
    measure_cuts()
    measure_silence()
    return 0


if __name__ == "__main__":
    sys.exit(main())
