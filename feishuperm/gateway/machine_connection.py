"""A machine's connection, as the gateway knows it."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from feishuperm.gateway.store import Joining, Machine

# Who connects, and, where that is a proxy nobody vouches for, whom it names.
Source = tuple[str, str]
VIA = "via "  # before the proxy's address, in place of one that only the proxy knows


class Room(NamedTuple):
    """How many connections of each kind a gateway holds at once."""

    early: int = 2_048  # that have not logged in
    joins: int = 200  # that wait for an owner
    machines: int = 1 << 17


ROOM = Room()


class Connection(Protocol):
    """See `server.machine`."""

    address: str
    source: Source
    data: Any

    @property
    def reason(self) -> str: ...

    def send(self, kind: str, **parts: Any) -> None: ...

    def trust(self) -> None: ...

    def hold(self, held: bool) -> None: ...

    def end(self, code: int = ..., reason: str = ...) -> None: ...

    def tick(self, now: float) -> None: ...


class MachineLink:
    """A connection, whose `data` it is, with what is known of it."""

    def __init__(self, connection: Connection, now: float) -> None:
        self.address = connection.address
        self.source = connection.source
        self.send = connection.send
        self.trust = connection.trust
        self.hold = connection.hold
        self.end = connection.end
        self.tick = connection.tick
        self.connection = connection
        self.id = secrets.token_hex(8)
        self.nonce = secrets.token_hex(16)
        self.since = now
        self.machine = Machine()  # without an id: not logged in
        self.joining: Joining | None = None
        self.enrolled: Machine | None = None  # told to the machine, not yet stored
        self.code = ""
        self.instance = ""
        self.fresh = ""  # the key to come
        self.waiting: set[str] = set()
        self.back: set[str] = set()  # of those, what has not come back yet
        self.taps: set[str] = set()  # handed over, without a receipt so far
        self.claims = ""  # the machine that it says it is
        self.busy = False  # a login or a join is under way
        # When it logged in, by the store's clock and by ours.
        self.came = self.came_clock = 0.0
        self.odd = False  # it has said something that cannot be read
        self.can: tuple[str, ...] = ()  # what else the machine understands
        self.muted_until = 0.0  # by the store's clock
        self.steps = 0  # that its messages have the store take, not yet done


def crowded(connections: Iterable[MachineLink]) -> list[MachineLink]:
    """Those of the source that has the most, oldest first; all, if all are of one.

    First by who connects, then by whom a proxy names: a crowd holds off nobody else,
    and nobody is put out for what another client of the same proxy does.
    """
    crowd = list(connections)
    for depth in (1, 2):
        counts = Counter(each.source[:depth] for each in crowd)
        most = max(counts, key=lambda source: counts[source], default=())
        crowd = [each for each in crowd if each.source[:depth] == most]
    return crowd
