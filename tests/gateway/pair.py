"""A gateway and a machine without sockets: both ends are the real ones."""

from __future__ import annotations

from typing import Any

from feishuperm.channels.base import SessionsPort
from feishuperm.channels.gateway import GatewayChannel
from feishuperm.gateway.store import Machine
from feishuperm.lib.enrolment import Enrolment
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Ask, Outcome, Receipt
from feishuperm.protocol.machine import MachineWire
from tests.gateway.parts import OWNER, Bench, FakeWire, make_ask
from tests.ports import FakeApprovals, FakeReports, chat_of

HOLD = 600  # seconds that this machine gives a person who reads


class Wire(FakeWire):
    """The gateway's end; what it says is heard by the machine at once."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.waiting: list[dict[str, Any]] = []
        super().__init__(pair.bench.hub)

    def send(self, kind: str, **parts: Any) -> None:
        super().send(kind, **parts)
        self.waiting.append(carried(kind, parts))
        self.pair.bench.clock.later(0.001, self.flush)

    def flush(self) -> None:
        while self.waiting:
            self.pair.channel._received(self.waiting.pop(0))


def carried(kind: str, parts: dict[str, Any]) -> dict[str, Any]:
    """A message as it comes out at the other end."""
    one, other = MachineWire(True, 0.0), MachineWire(False, 0.0)
    other.trust()
    one.send(kind, **parts)
    other.receive_data(one.data_to_send(), 0.0)
    message = other.next_event()
    assert message is not None
    return message


class Pair(FakeApprovals):
    """One machine, joined to a gateway; the approvals are this test's own."""

    def __init__(
        self,
        bench: Bench,
        name: str = "laptop",
        grants: bool = True,
        hold: int = HOLD,
        sessions: SessionsPort | None = None,
    ) -> None:
        self.bench = bench
        self.machine: Machine = bench.enrol(name)
        self.asks: dict[str, Ask] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.answers: list[Answer] = []
        self.extended: list[str] = []
        self.passes = [("p1", "Bash(ls)", "12:00")]
        self.revoked: list[str] = []
        self.rules = [["Bash(npm *)"]]
        self.hold = hold
        self.night = (0.0, 0.0)  # quiet hours
        self.reports = FakeReports(self.is_pending)
        own = Enrolment(
            "https://g", self.machine.id, name, OWNER, "", (self.machine.key,)
        )
        self.channel = GatewayChannel(
            own, self, sessions or chat_of(self, grants), lambda *given: self,
            bench.clock.later, lambda kept: None,
            grants=grants, wall=bench.clock, clock=bench.clock,
        )  # fmt: skip
        self.connect()

    def connect(self) -> None:
        """Its connection begins, or begins again."""
        self.wire = Wire(self)
        self.channel._changed(True, "")
        self.wire.flush()

    # The machine's connection.

    def send(self, kind: str, **parts: Any) -> bool:
        self.wire.hub.received(self.wire, carried(kind, parts))
        return True

    def worked(self) -> None: ...

    def drop(self, why: str) -> None:
        raise AssertionError(why)

    def watch(self, is_card_out: bool) -> None: ...

    # The approvals.

    def is_pending(self, id: str) -> bool:
        return id in self.asks

    def seconds_left(self, id: str) -> int:
        ask = self.asks[id]
        return round(ask.created + ask.seconds - self.bench.clock.now)

    def ask(self, id: str) -> Ask | None:
        return self.asks.get(id)

    def outcome(self, id: str) -> Outcome | None:
        return self.outcomes.get(id)

    def answer(self, answer: Answer) -> Receipt:
        self.answers.append(answer)
        if answer.id not in self.asks:
            return Receipt(statuses.UNKNOWN)
        return Receipt(statuses.SETTLED, self.end(answer.id, answer.action))

    def extend_deadline(self, id: str, who: str = "") -> bool:
        if id not in self.extended and self.hold:
            self.extended.append(id)
            ask = self.asks[id]
            longer = ask._replace(seconds=ask.seconds + self.hold, hold=False)
            self.asks[id] = longer
            self.channel.renew()
        return bool(self.hold)

    def quiet_hours(self) -> tuple[float, float]:
        return self.night

    def end_quiet(self) -> bool:
        self.night = (0.0, 0.0)
        return True

    def status(self) -> list[tuple[str, str]]:
        return [(ask.title, ask.summary) for ask in self.asks.values()]

    def pass_rows(self) -> list[tuple[str, str, str]]:
        return list(self.passes)

    def revoke_passes(self, id: str, surface: str, who: str = "") -> list[str]:
        gone = [row[0] for row in self.passes if id in ("all", row[0])]
        self.passes = [row for row in self.passes if row[0] not in gone]
        self.revoked += gone
        return gone

    def undo_last(self, who: str, then: Any) -> None:
        rules = self.rules.pop() if self.rules else []
        self.bench.clock.later(0.1, lambda: then(rules, ""))

    # What happens.

    def request(self, **parts: Any) -> Ask:
        """A request comes up on the machine, and its card leaves."""
        parts.setdefault("session", "s1")
        ask = make_ask(created=self.bench.clock.now, **parts)
        self.asks[ask.id] = ask
        until = self.bench.clock.now + ask.seconds
        self.channel.announce(ask, self.reports.announcement(ask.id, until))
        self.pump()
        return ask

    def end(self, id: str, action: str = "allow") -> Outcome:
        del self.asks[id]
        outcome = Outcome(id, "permission", "zh", "allowed", action, "gateway", OWNER,
                          self.bench.clock.now, "已批准运行", "good")  # fmt: skip
        self.outcomes[id] = outcome
        self.channel.settle(outcome)
        return outcome

    def pump(self) -> None:
        """Let everything travel."""
        for _ in range(5):
            self.wire.flush()
            self.bench.pump()

    def tap(self, value: dict[str, Any], **more: Any) -> Any:
        """What a tap is told."""
        told = self.bench.tap(value, **more)
        self.bench.clock.turn(0.1)
        if not told:
            self.bench.clock.turn(3)
        return told[0]
