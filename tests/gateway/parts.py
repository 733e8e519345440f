"""A gateway without sockets: a fake platform's API, wires, and a clock to turn."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from feishuperm.app.api import Result
from feishuperm.gateway.cards import Cards
from feishuperm.gateway.hub import Hub
from feishuperm.gateway.inbound import Inbound
from feishuperm.gateway.store import FileStore, Machine, StoreDown
from feishuperm.gateway.web import Metrics
from feishuperm.lib.task import Promise, run
from feishuperm.models.ask import Ask, Block, Offer, Outcome, Receipt, to_plain
from feishuperm.protocol.machine import LOGIN, ROTATE, prove

OWNER, OTHER = "ou_owner", "ou_other"


class Clock:
    """Timers of one loop."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._calls: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()

    def __call__(self) -> float:
        return self.now

    def later(self, seconds: float, fn: Callable[[], object]) -> object:
        heapq.heappush(self._calls, (self.now + seconds, next(self._order), fn))
        return None

    def turn(self, seconds: float) -> None:
        until = self.now + seconds
        while self._calls and self._calls[0][0] <= until:
            self.now, _, fn = heapq.heappop(self._calls)
            fn()
        self.now = until


class FakeApi:
    """What was sent, and ids for it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any], str]] = []
        self.updates: list[tuple[str, dict[str, Any]]] = []
        self.replies: list[tuple[str, dict[str, Any]]] = []
        self.fails = self.is_busy = False
        self.while_sending: Callable[[], object] = lambda: None

    def send(self, receiver: str, card: Any, uuid: str, kind: str = "") -> Result:
        if self.fails:
            return Result(False, 230013, "not available")
        if self.is_busy:
            return Result(False, 1, "busy", retry=True)
        self.sent.append((receiver, card, uuid))
        message_id = f"om_{len(self.sent)}"
        self.while_sending()
        return Result(True, 0, "", data={"message_id": message_id})

    def update(self, message_id: str, card: Any) -> Result:
        self.updates.append((message_id, card))
        return Result(True, 0, "")

    def reply(self, message_id: str, content: Any, uuid: str, kind: str = "") -> Result:
        self.replies.append((message_id, content))
        return Result(True, 0, "")

    def upload(self, name: str, data: bytes) -> Result:
        return Result(True, 0, "", data={"file_key": "f"})


class FakeWire:
    """A machine's connection, seen from the gateway."""

    def __init__(
        self, hub: Hub, address: str = "192.0.2.7", source: tuple[str, str] = ("", "")
    ) -> None:
        self.hub = hub
        self.address = address
        self.source = source if source[0] else (address, "")
        self.data: Any = None
        self.wire: Any = SimpleNamespace(trouble="", trust=lambda: None)
        self.sent: list[dict[str, Any]] = []
        self.ended: tuple[int, str] | None = None
        self.held = False
        hub.accept(self)

    def send(self, kind: str, **parts: Any) -> None:
        if self.ended is None:
            self.sent.append({"t": kind, **parts})

    def end(self, code: int = 1001, reason: str = "") -> None:
        if self.ended is None:
            self.ended = (code, reason)
            self.hub.closed(self)

    def tick(self, now: float) -> None: ...

    def hold(self, held: bool) -> None:
        self.held = held

    def say(self, kind: str, **parts: Any) -> None:
        self.hub.received(self, {"t": kind, **parts})

    def got(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.sent if message["t"] == kind]

    def log_in(self, machine: Machine, key: str = "", instance: str = "one") -> None:
        nonce = self.got("hello")[0]["nonce"]
        parts = (LOGIN, "1", machine.id, nonce, "mine")
        proof = prove(bytes.fromhex(key or machine.key), *parts)
        self.say("login", machine=machine.id, nonce="mine", proofs=[proof],
                 instance=instance)  # fmt: skip

    def rotate(self, machine: Machine) -> str:
        """Store the key to come and say so; returns it."""
        fresh: str = self.got("welcome")[-1]["next"]
        nonce = self.got("hello")[0]["nonce"]
        self.say("rotated", proof=prove(bytes.fromhex(fresh), ROTATE, "1", machine.id,
                                        nonce))  # fmt: skip
        return fresh


class Bench:
    """One replica; give two of them shared stores to have two."""

    def __init__(self, store: Any, clock: Clock, owners: frozenset[str] = frozenset()):
        self.clock = clock
        self.store = store
        self.api = FakeApi()
        self.cards = Cards(self.api, store, lambda fn: fn(), clock.later, clock, clock)  # type: ignore[arg-type]
        self.cards.name_of = lambda who: kept("")  # type: ignore[method-assign]
        self.cards.sender.cards._clock = clock
        self.cards.sender.changes._clock = clock
        self.records: list[dict[str, Any]] = []
        self.hub = Hub(
            store, self.cards, Metrics(), clock.later, owners, "zh",
            self.records.append, clock, clock,
        )  # fmt: skip
        self.feishu = Inbound(self.hub)
        self.hub.start()

    def pump(self) -> None:
        """Let everything leave that may."""
        for _ in range(20):
            for outbox in (self.cards.sender.cards, self.cards.sender.changes):
                while outbox.step() == 0.0:
                    pass
            self.clock.turn(0.1)

    def enrol(self, name: str = "laptop", owner: str = OWNER) -> Machine:
        machine = Machine(f"m-{name}", name, owner, "", "me", "", "ab" * 32, "", 1.0)
        done(self.store.put_machine(machine))
        return machine

    def wire(self, machine: Machine) -> FakeWire:
        """A machine that has logged in."""
        wire = FakeWire(self.hub)
        wire.log_in(machine)
        assert wire.got("welcome"), wire.ended
        return wire

    def ask(self, wire: FakeWire, **parts: Any) -> Ask:
        """A request of a machine, whose card is out."""
        ask = make_ask(**parts)._replace(created=self.clock.now)
        wire.say("ask", ask=to_plain(ask))
        self.pump()
        return ask

    def value(self, action: str = "allow", place: int = -1) -> dict[str, str]:
        """The value of a button on a card that was sent."""
        values: list[dict[str, str]] = []
        collect(self.api.sent[place][1], values)
        return next(value for value in values if value["action"] == action)

    def tap(
        self,
        value: dict[str, Any],
        who: str = OWNER,
        message: str = "",
        event: str = "",
    ) -> Any:
        """What a tap is told, once it is; None so far."""
        told: list[Any] = []
        tapped = {
            "header": {"event_id": event or f"e{next(EVENTS)}"},
            "event": {
                "operator": {"open_id": who},
                "action": {"value": value},
                "context": {"open_message_id": message or f"om_{len(self.api.sent)}"},
            },
        }

        async def steps() -> None:
            told.append(await self.hub.taps.tap(tapped))

        run(steps(), raise_it)
        return told


EVENTS = itertools.count()


def kept(value: Any) -> Promise[Any]:
    """A promise that is kept already."""
    promise: Promise[Any] = Promise()
    promise.resolve(value)
    return promise


def make_ask(**parts: Any) -> Ask:
    actions = (
        Offer("allow", "批准运行", look="yes", grants=True),
        Offer("deny", "拒绝运行"),
    )
    return Ask(
        id="1-0000000a", kind="permission", title="t", tool="Bash", summary="ls",
        blocks=(Block("code", text="ls"),), project="/p", seconds=600,
        at_zero="deny", actions=actions, digest="d" * 16,
    )._replace(**parts)  # fmt: skip


def collect(card: Any, values: list[dict[str, str]], key: str = "action") -> None:
    """The values of buttons that answer a request, or of those with another key."""
    if isinstance(card, dict):
        if card.get("type") == "callback" and key in card["value"]:
            values.append(card["value"])
        for part in card.values():
            collect(part, values, key)
    elif isinstance(card, list):
        for part in card:
            collect(part, values, key)


def done(steps: Any) -> Any:
    """The result of steps that wait for nothing."""
    results: list[Any] = []

    async def outer() -> None:
        results.append(await steps)

    run(outer(), raise_it)
    assert results, "it waits"
    return results[0]


def raise_it(error: Exception) -> None:
    raise error


class Held:
    """Steps that are taken when `take` calls what it is given."""

    def __init__(self, begin: Callable[[], Any], take: Callable[..., Any]) -> None:
        self._begin = begin
        self._take = take
        self._calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., Held]:
        def add(*parts: Any) -> Held:
            self._calls.append((name, parts))
            return self

        return add

    async def done(self) -> Any:
        return await self._take(self._now)

    def _now(self) -> list[Any]:
        steps = self._begin()
        for name, parts in self._calls:
            getattr(steps, name)(*parts)
        answers: list[Any] = done(steps.done())
        return answers


class SharedStore(FileStore):
    """One memory for several replicas, each with its own place on the bus."""

    def __init__(self, memory: FileStore, replicas: list[SharedStore]) -> None:
        super().__init__("cli_x", "", memory._wall)
        self._tables, self._texts = memory._tables, memory._texts
        self._replicas = replicas
        self.is_up = True
        self.calls_left = -1  # until it is down; below zero: for ever
        replicas.append(self)

    @property
    def ready(self) -> bool:
        return self.is_up

    def _batch(self) -> Any:
        async def take(now: Callable[[], list[Any]]) -> list[Any]:
            self.is_up = self.is_up and self.calls_left != 0
            self.calls_left -= 1
            if not self.is_up:
                raise StoreDown("down")
            return now()

        return Held(super()._batch, take)

    def _save(self, changes: Any) -> None: ...

    async def done(self) -> list[Any]:
        entries, self._entries = self._entries, []
        answers = await super().done()
        for entry in entries:
            for replica in self._replicas:
                replica.hear(entry)
        return answers


def shared(path: Path, clock: Clock, count: int = 2) -> list[SharedStore]:
    memory = FileStore("cli_x", str(path), clock)
    memory.start()
    replicas: list[SharedStore] = []
    for _ in range(count):
        SharedStore(memory, replicas)
    return replicas


def settle(wire: FakeWire, tap: dict[str, Any], action: str = "allow") -> None:
    """The machine does what a tap says."""
    outcome = Outcome(tap["answer"]["id"], "permission", "zh", "allowed", action,
                      "gateway", OWNER, 1000.0, "已批准运行", "good")  # fmt: skip
    receipt = to_plain(Receipt("settled", outcome))
    wire.say("receipt", tap=tap["tap"], receipt=receipt)
    wire.say("settle", outcome=to_plain(outcome))
