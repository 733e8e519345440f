"""A connection of a machine's, as the gateway knows it, and where a machine is."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from feishuperm.gateway.registry import Joining, Machine

# Who connects, and, where that is a proxy nobody vouches for, whom it names.
Source = tuple[str, str]
VIA = "via "  # before the proxy's address, in place of one that only the proxy knows


class Room(NamedTuple):
    """How many connections of each kind a gateway holds at once."""

    early: int = 2_048  # that have not logged in
    joins: int = 200  # that wait for an owner
    machines: int = 1 << 17


ROOM = Room()


class Wire(Protocol):
    """A machine's connection, see `server.machine`."""

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


class Peer:
    """What is known of a connection."""

    def __init__(self, now: float) -> None:
        self.id = secrets.token_hex(8)
        self.nonce = secrets.token_hex(16)
        self.since = now
        self.machine: Machine | None = None
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
        self.came = self.came_clock = (
            0.0  # when it logged in: the engine's and our time
        )
        self.odd = False  # it has said something that cannot be read
        self.steps = 0  # that its messages have the engine take, not yet done


class Place(NamedTuple):
    """Where a machine is connected."""

    replica: str = ""
    peer: str = ""
    instance: str = ""
    address: str = ""
    since: float = 0.0


def crowded(wires: Iterable[Wire]) -> list[Wire]:
    """Those of whoever has the most connections, oldest first; all, if all are one's.

    First by who connects, then by whom a proxy names: a crowd holds off nobody else,
    and nobody is put out for what another client of the same proxy does.
    """
    crowd = list(wires)
    for depth in (1, 2):
        counts = Counter(wire.source[:depth] for wire in crowd)
        most = max(counts, key=lambda source: counts[source], default=())
        crowd = [wire for wire in crowd if wire.source[:depth] == most]
    return crowd
