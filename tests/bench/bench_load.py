"""Ten thousand requests wait, two hundred taps a second for a minute: who is late?

    python tests/bench/bench_load.py [WAITING [TAPS_PER_SECOND [SECONDS]]]

The built file serves.  Hooks are connections that speak the hook's protocol, because
ten thousand processes do not fit; a few are the real hook, and are timed to their exit.
A tap is a connection of its own, as a phone makes it.  Each is timed from when it is
sent until its hook has the decision; those that end are replaced by new ones.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from feishuperm import wire  # noqa: E402
from feishuperm.services.web_access import Links, load_key  # noqa: E402
from tests.bench.serving import ARCHIVE, BuiltServer, event, go_first  # noqa: E402
from tests.bench.table import row  # noqa: E402

WAITING, RATE, SECONDS = 10_000, 200, 60
LIMIT = 0.250  # seconds, for 99 of 100
LATEST = 30.0  # a tap without an answer by then is lost
REAL = 10  # hooks that are processes
PARKING = 64  # connections being made at once


class Load:
    """The waiting hooks, and what the taps took."""

    def __init__(self, server: BuiltServer) -> None:
        self.server = server
        key = load_key(server.home + "/.local/state/feishuperm/key")
        self.links = Links(server.url, key, True)
        self.event = event(server.home)
        self.number = 0
        self.waiting: list[tuple[str, asyncio.StreamReader]] = []
        self.writers: dict[str, asyncio.StreamWriter] = {}
        self.times: list[float] = []
        self.real: dict[str, asyncio.subprocess.Process] = {}
        self.exits: list[float] = []
        self.lost = 0
        self.per_tap = 0.0  # seconds of work of the server, the new request included
        self.parking = asyncio.Semaphore(PARKING)

    async def park(self) -> None:
        """One more hook that waits."""
        async with self.parking:
            self.number += 1
            id = f"{int(time.time())}-{self.number:08x}"
            path = self.server.home + "/s.sock"
            reader, writer = await asyncio.open_unix_connection(path)
            parts = (b"1", id.encode(), b"", b"", self.event)
            writer.write(wire.frame(b"Q", b"\0".join(parts)))
            assert (await receive(reader))[0] == b"A"
            self.writers[id] = writer
            self.waiting.append((id, reader))

    async def tap(self) -> None:
        """Answer the hook that has waited longest, and time its decision."""
        id, reader = self.waiting.pop(0)
        began = time.monotonic()
        page = asyncio.ensure_future(self.get(self.links.path("/deny", id)))
        try:
            await asyncio.wait_for(decision(reader), LATEST)
            self.times.append(time.monotonic() - began)
            assert b" 200 " in (await page)[:20]
        except (asyncio.TimeoutError, AssertionError, OSError):
            self.lost += 1
        self.writers.pop(id).close()
        await self.park()

    async def get(self, path: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        head = f"GET {path} HTTP/1.1\r\nHost: localhost:{self.server.port}\r\n"
        writer.write((head + "Connection: close\r\n\r\n").encode())
        answer = await reader.read()
        writer.close()
        return answer

    def work(self) -> float:
        """Seconds that the server has worked so far."""
        with open(f"/proc/{self.server.process.pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def start_real(self, number: int) -> None:
        """A hook that is a process; it waits until it is tapped."""
        project = f"{self.server.home}/real-{number}"
        process = await asyncio.create_subprocess_exec(
            str(ARCHIVE),
            "hook",
            env={**self.server.environment, "CLAUDE_PROJECT_DIR": project},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
        )
        assert process.stdin is not None
        process.stdin.write(self.event)
        process.stdin.close()
        self.real[project] = process

    async def tap_real(self, id: str, project: str) -> None:
        """Answer one, and time its exit."""
        began = time.monotonic()
        page = asyncio.ensure_future(self.get(self.links.path("/deny", id)))
        try:
            await asyncio.wait_for(self.real[project].wait(), LATEST)
            self.exits.append(time.monotonic() - began)
        except asyncio.TimeoutError:
            self.lost += 1
            print(f"load: {id} was lost: {(await page)[:300]!r}")
            self.real[project].kill()
        await page


async def receive(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    size = int.from_bytes(await reader.readexactly(4), "big")
    data = await reader.readexactly(size)
    return data[:1], data[1:]


async def decision(reader: asyncio.StreamReader) -> None:
    while (await receive(reader))[0] != b"D":
        pass


async def start_real_hooks(load: Load) -> list[tuple[str, str]]:
    """Ids and projects; `status` names the oldest requests, so these come first."""
    for number in range(REAL):
        await load.start_real(number)
    for _ in range(600):
        rows: Any = load.server.control("status")["waiting"]
        if len(rows) == REAL:
            return [(row["id"], row["project"]) for row in rows]
        await asyncio.sleep(0.1)
    raise SystemExit("the hooks did not register")


async def run(load: Load, waiting: int, rate: int, seconds: int) -> None:
    real = await start_real_hooks(load)
    await asyncio.gather(*(load.park() for _ in range(waiting)))
    print(f"load: {waiting} wait", flush=True)
    began = time.monotonic()
    before = load.work()
    taps = []
    for number in range(rate * seconds):
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        taps.append(asyncio.ensure_future(load.tap()))
        if real and number % (rate * seconds // REAL) == 0:
            taps.append(asyncio.ensure_future(load.tap_real(*real.pop())))
    await asyncio.gather(*taps)
    load.per_tap = (load.work() - before) / max(1, len(taps))


def main(arguments: list[str]) -> int:
    given = [int(argument) for argument in arguments]
    waiting, rate, seconds = [*given, *(WAITING, RATE, SECONDS)[len(given) :]]
    go_first()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = BuiltServer()
    try:
        load = Load(server)
        asyncio.run(run(load, waiting, rate, seconds))
    finally:
        server.kill()
    print(
        f"load: {waiting} waiting, {rate} taps a second for {seconds} s:"
        f" tap to decision {shares(load.times)}, tap to exit {shares(load.exits)};"
        f" {load.lost} lost; {load.per_tap * 1000:.1f} ms of work for each tap"
    )
    what = f"{rate} taps a second, {waiting} waiting"
    most = share(load.times, 99)
    row(what, "99 of 100, tap to decision", most * 1000, LIMIT * 1000, "ms")
    row(what, "taps lost", load.lost, 0, "")
    return int(load.lost > 0 or most > LIMIT)


def share(times: list[float], percent: int) -> float:
    """What so many of a hundred are under."""
    return sorted(times)[max(0, len(times) * percent // 100 - 1)] if times else 0.0


def shares(times: list[float]) -> str:
    median, most, worst = (share(times, percent) * 1000 for percent in (50, 99, 100))
    return f"median {median:.0f} ms, 99% {most:.0f} ms, worst {worst:.0f} ms"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
