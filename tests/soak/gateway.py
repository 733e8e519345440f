"""`python -m tests.soak.gateway [RUNS [SEED]]`: taps while gateways and engine fail.

A world is three gateways of the built file, a real redis-server with its journal on,
the strict platform, which gives each event to a random connection, and a fleet of
machines.  In every run some machines ask and fingers tap; meanwhile a gateway is
killed, stopped or frozen, Redis is killed or frozen, or sockets are cut: those of the
machines, of Redis, of the platform.  A finger that is told to try again does so.

What must hold whatever happened:

    doubled     a request is applied once; no tap enters its machine twice
    lost        a tap that was told "done" is what the machine applied; after one that
                was told "sent" the request has ended
    untapped    nothing is applied that its owner did not tap
    strayed     a machine gets its own requests' taps, a stranger's tap goes nowhere
    misled      a tap is done, sent, told what happened, or told to try again
    hung        every tap is answered while its connection lives
    stuck       who keeps trying gets through

`python -m tests.soak.gateway forged [TAPS [SEED]]`: taps with forged ids, machines,
keys, digests, people and messages among genuine ones, see `tests.soak.forged`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from feishuperm.models.ask import Answer, Receipt
from feishuperm.protocol.resp import command
from tests.bench.fleet import Fleet, SimMachine, enrol
from tests.fakes.feishu import APP_ID, every_element
from tests.fakes.feishu_app import ANSWER_SECONDS, STRANGER, FakePlatform, Tap
from tests.gateways import RedisServer, RunningGateway
from tests.soak.app import wait_for
from tests.soak.faults import Violation
from tests.soak.world import ROOT

RUNS = 300
RUNS_PER_WORLD = 25
WORLDS = 2  # at a time; most of a run is waiting
GATEWAYS = 3
MACHINES = 60
REQUESTS = 12  # of one run
TAP_SECONDS = 60.0  # that a person keeps trying
APPLY_SECONDS = 60.0  # for what was told "sent"
AWAY = 1.5  # seconds at most that something is away or frozen
KINDS = (
    "doubled", "lost", "untapped", "strayed", "misled", "hung", "stuck", "broken",
)  # fmt: skip
AGAIN, AWAY_WORD, SENT, OVER = "请再点一次", "不在线", "已发送给", "请求无效或已过期"


class Press(NamedTuple):
    """A tap that was made and what the phone said to it."""

    action: str
    word: str  # done, sent, told, over, again, away, lost, or what it said instead
    twice: bool = False  # its event came twice


class Request:
    """One request of a machine's and what happened to it."""

    def __init__(self, machine: SimMachine, id: str) -> None:
        self.machine = machine
        self.id = id
        self.begun: list[str] = []  # actions of the owner's taps, when they are made
        self.presses: list[Press] = []
        self.events = 0  # taps of the owner's, each with an id of its own

    @property
    def applied(self) -> list[tuple[float, Answer]]:
        return self.machine.applied.get(self.id, [])

    def __str__(self) -> str:
        return f"{self.machine.id} {self.id}"


class GatewayWorld:
    """Gateways, their engine, the platform and a fleet."""

    def __init__(self, pyz: Path, home: Path, machines: int, seed: int = 0) -> None:
        self.feishu = FakePlatform(seed=seed)
        self.feishu.limits = False
        self.redis = RedisServer(home / "redis")
        self._pyz, self._home = pyz, home
        self.gateways: list[RunningGateway] = []
        self.entered: Counter[tuple[str, str]] = Counter()  # answers, by request
        self._cards: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
        self._looked = 0
        self._lock = threading.Lock()
        self._count = machines

    def start(self) -> None:
        self.feishu.__enter__()
        self.redis.start()
        for number in range(GATEWAYS):
            gateway = RunningGateway(
                self._pyz, self._home / f"g{number}", self.feishu,
                FEISHUPERM_ENGINE=self.redis.url,
            )  # fmt: skip
            self.gateways.append(gateway)
            gateway.start()
        self.fleet = Fleet([gateway.port for gateway in self.gateways], self._count)
        for machine in self.fleet.machines:
            self._watch(machine)
        enrol(self.redis.port, APP_ID, self.fleet.machines)
        self.fleet.start()
        self.settle_down()

    def _watch(self, machine: SimMachine) -> None:
        """Count what enters the machine, behind the door that applies each tap once."""
        judge: Callable[[Answer], Receipt] = machine.answer

        def answer(answer: Answer) -> Receipt:
            self.entered[machine.id, answer.id] += 1
            return judge(answer)

        machine.answer = answer  # type: ignore[method-assign]

    def close(self) -> None:
        with contextlib.suppress(AttributeError):
            self.fleet.close()
        for gateway in self.gateways:
            if gateway.process is not None and gateway.process.poll() is None:
                gateway.kill()
        if self.redis.process is not None:
            self.redis.kill()
        self.feishu.__exit__()

    def mend(self) -> None:
        """Bring back what is away; the engine first."""
        assert self.redis.process is not None
        if self.redis.process.poll() is not None:
            self.redis.start()
        for gateway in self.gateways:
            assert gateway.process is not None
            if gateway.process.poll() is not None:
                gateway.start()

    def settle_down(self, seconds: float = 90.0) -> None:
        """Everything is connected to everything."""

        def calm() -> bool:
            return (
                len(self.feishu.connections.open) == GATEWAYS
                and self.fleet.ins() == len(self.fleet.machines)
                and all(gateway.get("/readyz")[0] == 200 for gateway in self.gateways)
            )

        if not wait_for(calm, seconds):
            ins, lines = self.fleet.ins(), len(self.feishu.connections.open)
            raise AssertionError(f"{ins} machines are in, {lines} gateways have a line")

    def card(self, request: Request) -> tuple[str, dict[str, Any]] | None:
        """The message of a request's card, and what its buttons bring back."""
        key = request.machine.id, request.id
        if key not in self._cards:
            with self._lock:
                self._look()
        return self._cards.get(key)

    def _look(self) -> None:
        messages = list(self.feishu.app_messages)
        for message in messages[self._looked :]:
            values = buttons(self.feishu, message)
            for value in values.values():
                if "machine" in value and "id" in value:
                    self._cards.setdefault(
                        (value["machine"], value["id"]), (message, values)
                    )
        self._looked = len(messages)

    def open_cards(self) -> int:
        """Cards that still have buttons."""
        messages = list(self.feishu.app_messages)
        return sum(bool(buttons(self.feishu, message)) for message in messages)


def buttons(feishu: FakePlatform, message: str) -> dict[str, Any]:
    """What the buttons of a card would bring back, by action."""
    values = (
        element["behaviors"][0]["value"]
        for element in every_element(feishu.card(message)["body"])
        if element.get("tag") == "button"
    )
    return {value["action"]: value for value in values}


# Faults; `mend()` comes after them.


def kill_gateway(world: GatewayWorld, rng: random.Random) -> None:
    rng.choice(world.gateways).kill()


def kill_two(world: GatewayWorld, rng: random.Random) -> None:
    for gateway in rng.sample(world.gateways, 2):
        gateway.kill()


def stop_gateway(world: GatewayWorld, rng: random.Random) -> None:
    rng.choice(world.gateways).stop()


def freeze_gateway(world: GatewayWorld, rng: random.Random) -> None:
    _freeze(rng.choice(world.gateways).process, rng)


def kill_redis(world: GatewayWorld, rng: random.Random) -> None:
    world.redis.kill()


def freeze_redis(world: GatewayWorld, rng: random.Random) -> None:
    _freeze(world.redis.process, rng)


def _freeze(process: Any, rng: random.Random) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        time.sleep(rng.uniform(0.2, AWAY))
        process.send_signal(signal.SIGCONT)


def cut_machines(world: GatewayWorld, rng: random.Random) -> None:
    for machine in world.fleet.machines:
        line: Any = machine.channel._line
        world.fleet.loop.call_soon_threadsafe(line.drop)


def cut_redis(world: GatewayWorld, rng: random.Random) -> None:
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", world.redis.port), 2) as sock,
    ):
        sock.sendall(command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))
        sock.recv(100)


def cut_platform(world: GatewayWorld, rng: random.Random) -> None:
    world.feishu.connections.cut()


def reset_platform(world: GatewayWorld, rng: random.Random) -> None:
    world.feishu.connections.reset()


Fault = Callable[[GatewayWorld, random.Random], None]
FAULTS: tuple[Fault, ...] = (
    kill_gateway, kill_gateway, kill_two, stop_gateway, freeze_gateway, kill_redis,
    kill_redis, freeze_redis, cut_machines, cut_redis, cut_platform, reset_platform,
)  # fmt: skip


class GatewayRun:
    """Requests, fingers, one fault or two, and the reckoning."""

    numbers = itertools.count()

    def __init__(self, world: GatewayWorld, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.violations: list[Violation] = []
        self.faults: list[Fault] = rng.sample(FAULTS, rng.choice((1, 1, 2)))
        machines = rng.choices(world.fleet.machines, k=REQUESTS)
        self.requests = [
            Request(machine, f"1-{next(self.numbers):08x}") for machine in machines
        ]

    def play(self) -> list[Violation]:
        fingers = [
            threading.Thread(target=self._finger, args=(request, seed))
            for request in self.requests
            for seed in range(self.rng.choice((1, 1, 2)))
        ]
        for request in self.requests:
            self.world.fleet.ask(request.machine, request.id)
        for finger in fingers:
            finger.start()
        for fault in self.faults:
            time.sleep(self.rng.uniform(0.0, 0.6))
            fault(self.world, self.rng)
        time.sleep(self.rng.uniform(0.0, AWAY))
        self.world.mend()
        for finger in fingers:
            finger.join(TAP_SECONDS + 30)
        self.world.settle_down()
        for request in self.requests:
            self._judge(request)
        return self.violations

    # A person.

    def _finger(self, request: Request, seed: int) -> None:
        """Tap until something came of it; two fingers are two devices."""
        rng = random.Random(f"{request} {seed}")
        action = rng.choice(("allow", "allow", "deny"))
        until = time.monotonic() + TAP_SECONDS
        time.sleep(rng.uniform(0.0, 1.5))
        while time.monotonic() < until:
            card = self.world.card(request)
            if card is None:
                if request.machine.shown.get(request.id) is False:
                    return  # it stays in the machine's inbox
                time.sleep(0.05)
                continue
            if rng.random() < 0.05:
                self._stranger(request, card)
            press = self._tap(request, card, action, twice=rng.random() < 0.1)
            request.presses.append(press)
            if press.word in ("done", "sent", "told", "over"):
                return
            if press.word not in ("again", "away", "lost"):
                self._say("misled", request, f"was told {press.word}")
                return
            time.sleep(rng.uniform(0.05, 0.4))
        self._say("stuck", request, f"{action}: {request.presses[-5:]}")

    def _tap(
        self, request: Request, card: tuple[str, Any], action: str, twice: bool
    ) -> Press:
        """One tap; now and then its event comes twice."""
        feishu, (message, values) = self.world.feishu, card
        event = feishu.tap_event(
            message, {"tag": "button", "value": values[action]}, request.machine.owner
        )
        request.begun.append(action)
        request.events += 1
        if twice:
            again = threading.Thread(target=feishu.connections.push, args=(event,))
            again.start()
        before = self._lines()
        tap = feishu.happen(message, event)
        if not tap.ok and tap.seconds >= ANSWER_SECONDS and self._were_well(before):
            self._say("hung", request, f"no answer within {tap.seconds:.1f} s")
        if twice:
            again.join()
        return Press(action, said(tap), twice)

    def _lines(self) -> tuple[int, int]:
        connections = self.world.feishu.connections
        return connections.made, len(connections.open)

    def _were_well(self, before: tuple[int, int]) -> bool:
        """Whether no connection ended and nobody was frozen since."""
        frozen = {freeze_gateway, kill_two, stop_gateway} & set(self.faults)
        return before == self._lines() and before[1] == GATEWAYS and not frozen

    def _stranger(self, request: Request, card: tuple[str, Any]) -> None:
        feishu, (message, values) = self.world.feishu, card
        action = {"tag": "button", "value": values["allow"]}
        tap = feishu.act(message, action, STRANGER)
        if tap.ok and tap.toast.get("type") not in ("error", "warning"):
            self._say("strayed", request, f"a stranger was told {tap.toast}")

    # The reckoning.

    def _judge(self, request: Request) -> None:
        words = [press.word for press in request.presses]
        if "sent" in words and not wait_for(lambda: request.applied, APPLY_SECONDS):
            self._say("lost", request, f"sent, and never applied: {request.presses}")
        applied = [answer.action for _, answer in request.applied]
        entered = self.world.entered[request.machine.id, request.id]
        if len(applied) > 1 or words.count("done") > 1 or entered > request.events:
            self._say("doubled", request, f"{applied}, {entered} of {request.events}")
        for press in request.presses:
            if press.word == "done" and applied != [press.action]:
                self._say("lost", request, f"{press.action}, but applied {applied}")
            if press.word in ("told", "over") and not applied:
                self._say("misled", request, f"{press.word}, but it still waits")
        for _, answer in request.applied:
            mine = answer.who == request.machine.owner
            if answer.action not in request.begun or not mine:
                self._say("untapped", request, f"{answer}, tapped {request.begun}")
        while self.world.fleet.wrong:
            self._say("strayed", request, f"{self.world.fleet.wrong.pop()}")

    def _say(self, kind: str, request: Request, what: str) -> None:
        names = [fault.__name__ for fault in self.faults]
        self.violations.append(Violation(kind, f"{request} {what} {names}"))


def said(tap: Tap) -> str:
    """What a tap came to, in one word where it is one of those that may be."""
    if not tap.ok:
        return "lost" if tap.error == 200341 else f"error {tap.error}"
    kind, words = tap.toast.get("type"), tap.toast.get("content", "")
    if kind == "success":
        return "done"
    if kind == "info":
        return "sent" if words.startswith(SENT) else "told"
    if kind == "warning":
        for word, name in ((AGAIN, "again"), (AWAY_WORD, "away"), (OVER, "over")):
            if word in words:
                return name
    return f"{kind} {words}"


class Soak:
    """All runs, shared out among threads."""

    def __init__(self, pyz: Path, runs: int, seed: int) -> None:
        self.pyz = pyz
        self.seed = seed
        self.left = list(enumerate(range(runs, 0, -RUNS_PER_WORLD)))
        self.lock = threading.Lock()
        self.runs = self.requests = self.applied = self.open = 0
        self.slowest = 0.0
        self.words: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.violations: list[Violation] = []

    def work(self) -> None:
        while True:
            with self.lock:
                if not self.left:
                    return
                number, left = self.left.pop()
            self._live(number, min(left, RUNS_PER_WORLD))

    def _live(self, number: int, runs: int) -> None:
        rng = random.Random(f"gateway {self.seed} {number}")
        with tempfile.TemporaryDirectory(prefix="soak") as folder:
            world = GatewayWorld(self.pyz, Path(folder), MACHINES, number)
            try:
                world.start()
                for _ in range(runs):
                    self._play(GatewayRun(world, rng))
                wait_for(lambda: not world.open_cards(), 5)
                self.open += world.open_cards()
            except Exception as error:  # of the soak itself; not to go unnoticed
                self._note([Violation("broken", f"world {number}: {error!r}")])
            finally:
                world.close()

    def _play(self, run: GatewayRun) -> None:
        began = time.monotonic()
        self._note(run.play())
        with self.lock:
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.runs += 1
            self.requests += len(run.requests)
            self.applied += sum(bool(request.applied) for request in run.requests)
            for request in run.requests:
                self.words.update(press.word for press in request.presses)
            self.faults.update(fault.__name__ for fault in run.faults)

    def _note(self, violations: list[Violation]) -> None:
        self.violations += violations
        for violation in violations:
            print(f"soak gateway: {violation}", flush=True)


def main(arguments: list[str]) -> int:
    """Run the faults and print what came of them. 1 if anything did."""
    if arguments[:1] == ["forged"]:
        from tests.soak.forged import main as forged

        return forged(arguments[1:])
    runs = int(arguments[0]) if arguments else RUNS
    seed = int(arguments[1]) if len(arguments) > 1 else 1
    pyz = Path(os.environ.get("SOAK_PYZ") or ROOT / "dist" / "feishuperm.pyz")
    soak, began = Soak(pyz, runs, seed), time.monotonic()
    threads = [threading.Thread(target=soak.work) for _ in range(WORLDS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = Counter(violation.kind for violation in soak.violations)
    words = ", ".join(f"{count} {word}" for word, count in soak.words.most_common())
    print(
        f"soak gateway: {soak.runs} runs, {soak.requests} requests, {soak.applied}"
        f" applied; {sum(soak.words.values())} taps: {words}; {soak.open} cards left"
        f" open; slowest run {soak.slowest:.0f} s;"
        f" {time.monotonic() - began:.0f} s (seed {seed})"
    )
    faults = ", ".join(f"{name} {count}" for name, count in soak.faults.items())
    print(f"soak gateway: faults {faults}")
    print("soak gateway: " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS))
    # Where few requests are applied, little was tried.
    return int(bool(soak.violations) or soak.applied < soak.requests // 2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
