"""A gateway with many machines: memory, idleness, taps per second, a storm.

    python3 build.py bench gateway [machines taps-per-second seconds]

The built file is the gateway, once or three times, on a real redis-server; the strict
platform is in this process and gives each event to a random connection; the machines
are the product's own, many in one process.  A tap is timed until its machine has
applied it, which is when the hook's answer leaves.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import build  # noqa: E402
from tests.bench.fleet import Fleet, SimMachine, enrol  # noqa: E402
from tests.bench.table import row  # noqa: E402
from tests.fakes.feishu import APP_ID  # noqa: E402
from tests.fakes.feishu_app import FakePlatform, every_element  # noqa: E402
from tests.gateways import RedisServer, RunningGateway  # noqa: E402

MACHINES, RATE, SECONDS = 2000, 100, 10
PLAIN_LIMIT, SECURE_LIMIT = 25_000, 45_000  # bytes of a gateway for one machine
IDLE_LIMIT = 1.0  # percent of a core
LATENCY_LIMIT, STORM_LIMIT = 0.150, 15.0  # seconds
IDLE_SECONDS = 30.0
FEW = 200  # machines, where many taps are counted


@contextmanager
def gateways(
    count: int, **settings: str
) -> Iterator[tuple[FakePlatform, RedisServer, list[RunningGateway]]]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gw")))
        feishu = stack.enter_context(FakePlatform())
        feishu.limits = False
        redis = stack.enter_context(RedisServer(home / "redis"))
        running = [
            stack.enter_context(
                RunningGateway(
                    build.ARCHIVE, home / f"g{number}", feishu,
                    FEISHUPERM_ENGINE=redis.url, **settings,
                )
            )
            for number in range(count)
        ]  # fmt: skip
        wait_for(lambda: len(feishu.connections.open) == count, 20)
        yield feishu, redis, running


def wait_for(condition: Callable[[], Any], seconds: float) -> float:
    """How long it took. Raises SystemExit when it takes longer."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise SystemExit(f"nothing happened within {seconds:g} s")
        time.sleep(0.01)
    return time.monotonic() - began


def memory(gateway: RunningGateway) -> int:
    """Bytes that only this process has."""
    assert gateway.process is not None
    with open(f"/proc/{gateway.process.pid}/smaps_rollup", encoding="ascii") as file:
        rows = dict(line.split(":", 1) for line in file if ":" in line)
    return sum(int(rows[key].split()[0]) for key in ("Private_Dirty",)) * 1024


def processor(gateway: RunningGateway) -> float:
    """Seconds of a core that it has used."""
    assert gateway.process is not None
    with open(f"/proc/{gateway.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(count: int, secure: bool) -> None:
    """Memory and idleness of one gateway, then a storm of its machines."""
    settings = certificate() if secure else {}
    with gateways(1, **settings) as (_, redis, (gateway,)):
        fleet = Fleet([gateway.port], count, secure)
        if secure:
            fleet.connect = trusting(settings["GATEWAY_CERT"])
        enrol(redis.port, APP_ID, fleet.machines)
        before = memory(gateway)
        fleet.start()
        wait_for(lambda: fleet.ins() == count, 120)
        time.sleep(3)  # for the keys that are made anew
        each = (memory(gateway) - before) / count
        limit = SECURE_LIMIT if secure else PLAIN_LIMIT
        name = "with TLS" if secure else "plain"
        row("gateway", f"idle machine, {name} ({count})", each, limit, "B")
        used, began = processor(gateway), time.monotonic()
        time.sleep(IDLE_SECONDS)
        share = (processor(gateway) - used) / (time.monotonic() - began) * 100
        row("gateway", f"core of {count} idle machines, {name}", share, IDLE_LIMIT, "%")
        if not secure:
            storm(gateway, fleet)
        fleet.close()


def storm(gateway: RunningGateway, fleet: Fleet) -> None:
    """The gateway is killed and comes back; so do all its machines."""
    gateway.kill()
    wait_for(lambda: fleet.ins() == 0, 30)
    gateway.start()
    took = wait_for(lambda: fleet.ins() == len(fleet.machines), 120)
    name = f"storm of {len(fleet.machines)}"
    row("gateway", name, took, STORM_LIMIT, "s")


def latency(rate: int, seconds: int) -> None:
    """Taps at a rate through three replicas, each to its own machine."""
    with gateways(3) as (feishu, redis, running):
        fleet = Fleet([gateway.port for gateway in running], FEW)
        enrol(redis.port, APP_ID, fleet.machines)
        fleet.start()
        wait_for(lambda: fleet.ins() == FEW, 60)
        count = rate * seconds
        cards = show(feishu, fleet, count)
        times = Taps(feishu, rate).all(cards)
        delays = sorted(
            machine.applied[id][0][0] - times[machine.id, id]
            for machine, id, _ in cards
            if id in machine.applied
        )
        print(f"gateway: {len(delays)} of {count} taps applied")
        row("gateway", "taps that were lost", count - len(delays), 0, "")
        place = int(len(delays) * 0.99)
        row("gateway", f"tap to its machine, 99 % of {count} at {rate}/s",
            delays[place] * 1000, LATENCY_LIMIT * 1000, "ms")  # fmt: skip
        fleet.close()


Card = tuple[SimMachine, str, str]


def show(feishu: FakePlatform, fleet: Fleet, count: int) -> list[Card]:
    """So many requests whose cards are out: machine, request, message."""
    wanted = {}
    for number in range(count):
        machine = fleet.machines[number % len(fleet.machines)]
        id = f"1-{number:08x}"
        wanted[machine.id, id] = machine
        fleet.ask(machine, id)
    wait_for(lambda: sum(len(m.shown) for m in fleet.machines) >= count, 300)
    cards = []
    for message_id in list(feishu.app_messages):
        for element in every_element(feishu.card(message_id)["body"]):
            if element.get("tag") == "button":
                value = element["behaviors"][0]["value"]
                machine = wanted.pop((value["machine"], value["id"]), None)
                if machine is not None:
                    cards.append((machine, value["id"], message_id))
                break
    return cards


class Taps:
    """Taps at a rate, whoever is late; when each was made."""

    def __init__(self, feishu: FakePlatform, rate: int) -> None:
        self._feishu = feishu
        self._rate = rate
        self._times: dict[tuple[str, str], float] = {}

    def all(self, cards: list[Card]) -> dict[tuple[str, str], float]:
        random.Random(3).shuffle(cards)
        began = time.monotonic() + 0.5
        threads = [
            threading.Thread(target=self._some, args=(cards[place::16], place, began))
            for place in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self._times

    def _some(self, cards: list[Card], place: int, began: float) -> None:
        for number, (machine, id, message) in enumerate(cards):
            due = began + (place + 16 * number) / self._rate
            time.sleep(max(0.0, due - time.monotonic()))
            self._times[machine.id, id] = time.monotonic()
            self._feishu.tap(message, "批准运行", who=machine.owner)


def certificate() -> dict[str, str]:
    """A certificate for loopback, made anew."""
    folder = tempfile.mkdtemp(prefix="cert")
    cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    return {"GATEWAY_CERT": cert, "GATEWAY_KEY": key}


def trusting(cert: str) -> Callable[[str], Any]:
    from functools import partial

    from feishuperm.lib.post import dial

    return partial(dial, ca_file=cert, environ={})


def main(arguments: list[str]) -> int:
    given = [int(argument) for argument in arguments]
    machines, rate, seconds = given if len(given) == 3 else (MACHINES, RATE, SECONDS)
    idle(machines, secure=False)
    idle(machines, secure=True)
    latency(rate, seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
