"""Many machines in one process: the product's own channel and connection, many times.

Each machine judges as the real one does; in place of its desk stands a list of what
waits and of what was applied, so that every tap can be accounted for.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from feishuperm.channels.gateway import GatewayChannel, dial_gateway
from feishuperm.gateway.store import Machine
from feishuperm.lib.enrolment import Enrolment
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Ask, Block, Offer, Outcome, Receipt, to_plain
from feishuperm.protocol.resp import PENDING, ReplyReader, command
from feishuperm.server.loop import Loop, raise_file_limit
from feishuperm.server.machine import MachineLine
from feishuperm.services.sessions import Panels
from tests.ports import FakeApprovals, FakeReports

ACTIONS = (
    Offer("allow", "批准运行", look="yes", grants=True),
    Offer("deny", "拒绝运行"),
)


class SimMachine(FakeApprovals):
    """One machine of a fleet."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self.fleet = fleet
        self.id = f"m-{number:05d}"
        self.owner = f"ou_{number:05d}"
        self.key = f"{number:064x}"
        self.waiting: dict[str, Ask] = {}
        self.applied: dict[str, list[tuple[float, Answer]]] = {}
        self.refused: list[tuple[str, str, str]] = []
        own = Enrolment("", self.id, self.id, self.owner, "", (self.key,))
        self.reports = FakeReports(self.is_pending)
        self.channel = GatewayChannel(
            own, self, Panels(print),
            partial(MachineLine, fleet.loop, fleet.dial), fleet.later,
            lambda enrolment: None,
        )  # fmt: skip
        self.channel._started -= 60  # not a machine that has just been started

    @property
    def is_in(self) -> bool:
        return self.channel.state()[0] == "up"

    def row(self) -> Machine:
        return Machine(self.id, self.id, self.owner, "", "me", "", self.key, "", 1.0)

    def bring(self, id: str) -> None:
        """A request; from the fleet's loop only."""
        ask = Ask(
            id=id, kind="permission", title="Claude Code 权限请求", tool="Bash",
            summary="ls", blocks=(Block("code", text=f"ls {id}"),), project="/p",
            created=time.time(), seconds=600, at_zero="deny", actions=ACTIONS,
            digest=f"{hash((self.id, id)) & (1 << 64) - 1:016x}",
        )  # fmt: skip
        self.waiting[id] = ask
        self.channel.announce(ask, self.reports.announcement(id, ask.created + 600))

    @property
    def shown(self) -> dict[str, bool]:
        return self.reports.last

    # The approvals.

    def is_pending(self, id: str) -> bool:
        return id in self.waiting

    def ask(self, id: str) -> Ask | None:
        return self.waiting.get(id)

    def seconds_left(self, id: str) -> int:
        return 600 if id in self.waiting else 0

    def note_refused(self, id: str, action: str, who: str) -> None:
        self.refused.append((id, action, who))

    def answer(self, answer: Answer) -> Receipt:
        ask = self.waiting.pop(answer.id, None)
        if ask is None:
            ended = self.outcome(answer.id)
            status = statuses.ENDED if ended else statuses.UNKNOWN
            return Receipt(status, ended or Outcome())
        self.applied.setdefault(answer.id, []).append((time.monotonic(), answer))
        if answer.digest != ask.digest:
            self.fleet.wrong.append((self.id, answer))
        outcome = self.outcome(answer.id)
        assert outcome is not None
        self.fleet.later(0.0, lambda: self.channel.settle(outcome))
        return Receipt(statuses.SETTLED, outcome)

    def outcome(self, id: str) -> Outcome | None:
        ends = self.applied.get(id)
        if not ends:
            return None
        action = ends[0][1].action
        return Outcome(id, "permission", "zh", "allowed", action, "gateway", self.owner,
                       time.time(), f"done: {action}", "good")  # fmt: skip


class Fleet:
    """Machines on one loop, in a thread of its own."""

    def __init__(self, ports: Sequence[int], count: int, secure: bool = False) -> None:
        raise_file_limit()
        self.loop = Loop(on_error=self._failed)
        self.ports = list(ports)
        self.errors: list[str] = []
        self.wrong: list[tuple[str, Answer]] = []
        self._random = random.Random(7)
        self._scheme = "https" if secure else "http"
        self.connect: Callable[[str], socket.socket] = self._plain
        self._dialling = threading.Semaphore(16)
        self.machines = [SimMachine(self, number) for number in range(count)]
        self._thread = threading.Thread(target=self.loop.run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        for machine in self.machines:
            self.loop.call_soon_threadsafe(machine.channel.start)

    def close(self) -> None:
        for machine in self.machines:
            self.loop.call_soon_threadsafe(machine.channel.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

    def later(self, seconds: float, fn: Callable[[], None]) -> object:
        return self.loop.call_at(self.loop.now() + seconds, fn)

    def dial(self) -> tuple[socket.socket, bytes]:
        with self._dialling:
            port = self._random.choice(self.ports)
            return dial_gateway(f"{self._scheme}://127.0.0.1:{port}", self.connect)

    def _plain(self, url: str) -> socket.socket:
        host, _, port = url.split("/")[2].partition(":")
        sock = socket.create_connection((host, int(port)), 5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def _failed(self, error: Exception) -> None:
        self.errors.append(repr(error))

    def ins(self) -> int:
        return sum(machine.is_in for machine in self.machines)

    def ask(self, machine: SimMachine, id: str) -> None:
        self.loop.call_soon_threadsafe(lambda: machine.bring(id))


def enrol(port: int, app_id: str, machines: Sequence[SimMachine]) -> None:
    """Put the machines into the engine, as if each had joined."""
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        for machine in machines:
            plain = json.dumps(to_plain(machine.row()))
            sock.sendall(command("HSET", f"fp:{app_id}:machines", machine.id, plain))
        reader, left = ReplyReader(), len(machines)
        while left:
            reader.receive_data(sock.recv(65536))
            while reader.next_reply() is not PENDING:
                left -= 1
