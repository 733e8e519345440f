"""The gateway's middle: which machines are here, who they are, what they ask.

Who is connected where is in the engine
and dies with the socket; a replica that is killed leaves rows behind, which count only
while its `alive` key is there.

A machine is told whether taps can reach it at all (`reach`): this replica has the
engine, and some replica has Feishu.  Moments that replicas compare are the engine's:
`now()`.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from feishuperm.channels.base import gone
from feishuperm.channels.outbox import RateLimit
from feishuperm.errors import PayloadError
from feishuperm.gateway.cards import ENGINE_DOWN, Cards
from feishuperm.gateway.engine import EngineDown
from feishuperm.gateway.metrics import Metrics
from feishuperm.gateway.notes import note_card
from feishuperm.gateway.pairing import JOIN_SECONDS, Pairing
from feishuperm.gateway.peer import ROOM, Peer, Place, Room, Wire, crowded
from feishuperm.gateway.registry import AnyEngine, Machine, Registry, read
from feishuperm.gateway.taps import Taps
from feishuperm.lib.display import one_line
from feishuperm.lib.feishu import build_notice_card, plain
from feishuperm.lib.log import log
from feishuperm.lib.task import run
from feishuperm.lib.text import text
from feishuperm.models import ask as statuses
from feishuperm.models.ask import (
    Ask,
    Notice,
    Outcome,
    from_plain,
    to_plain,
)
from feishuperm.models.fields import text_at
from feishuperm.protocol.machine import (
    GOING_AWAY,
    LOGIN,
    POLICY,
    REPLACED,
    REVOKED,
    ROTATE,
    TRY_LATER,
    WELCOME,
    is_proof,
    prove,
)

LOGIN_SECONDS = 15.0
TICK_SECONDS = 5.0
ALIVE_SECONDS = 6  # that a replica counts as alive after its last sign
SIGN_SECONDS = 2.0  # between two of those
AGAIN_SECONDS = 0.2  # when the engine did not take one
TIME_SECONDS = 3600.0  # between two times that a machine is told
SKEW_SECONDS = 10  # between two clocks that are worth a word
TWICE_SECONDS = 60  # between two warnings that a key is used twice
MAX_WAITING = 200  # open cards of one machine
MAX_ID = 64
MAX_PROOFS = 8  # by keys that a machine has had
MOST_SECONDS = 86400.0  # that a request may be pending
MAX_OUTCOME = 65_536  # characters of what came of a request; a card has 30 000
MACHINE_LIMIT = ((30, 1.0), (180, 60.0))  # messages that one machine makes us send
MAX_PACES = 5_000  # machines whose last messages are counted
MAX_STEPS = 16  # of one machine at the engine: what it says next stays in its socket
VERSION = "1"


class Hub:
    """Every machine of this replica. All of it happens on the loop."""

    def __init__(
        self,
        engine: AnyEngine,
        registry: Registry,
        cards: Cards,
        metrics: Metrics,
        later: Callable[[float, Callable[[], object]], object],
        language: str = "zh",
        record: Callable[[dict[str, Any]], object] = lambda entry: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        room: Room = ROOM,
    ) -> None:
        self.engine = engine
        self.room = room
        self.registry = registry
        self.cards = cards
        self.metrics = metrics
        self.replica = secrets.token_hex(6)
        self.later = later
        self.language = language
        self.record = record
        self.clock = clock
        self.wall = wall
        self.peers: dict[Wire, None] = {}
        self.early: dict[Wire, None] = {}  # of those, who is nobody yet; oldest first
        self._paces: OrderedDict[str, RateLimit] = OrderedDict()  # by machine
        self.connected: dict[str, Wire] = {}
        self.taps = Taps(self)
        self.pairing = Pairing(self)
        self._closing = False
        self._is_signed = False
        # The long connection to Feishu: its state, and why it is not up.
        self.line_state: Callable[[], tuple[str, str]] = lambda: ("up", "")
        # Whether a card is out: then a line that is dead has to be found soon.
        self.watch_line: Callable[[bool], object] = lambda is_card_out: None
        self._is_card_out = False
        self._is_line_missed = False  # it was down at the last sign as well
        self.deaf = ""  # why no tap can reach a machine; empty: they can
        self.engine_ahead = 0.0  # of our wall clock: the engine's
        engine.listen(self._heard)

    def start(self) -> None:
        """Show signs of life, and look after the connections."""
        self.go(self._sign())
        self._tick()

    @property
    def ready(self) -> bool:
        """Whether machines can come, and be found here by the other replicas."""
        return self.engine.ready and self._is_signed and not self._closing

    def say(self, key: str, **values: object) -> str:
        return text(self.language, key, **values)

    def gone(self, ask: Ask, key: str) -> Outcome:
        """The end of a request of which nothing more is known."""
        return gone(ask._replace(language=self.language), self.wall(), key)

    def go(self, steps: Coroutine[Any, None, object]) -> None:
        """Take some steps; what the engine does not do is not an error here."""
        run(steps, _report)

    def take(
        self,
        wire: Wire,
        steps: Coroutine[Any, None, object],
        failed: Callable[[Exception], object] = lambda error: _report(error),
    ) -> None:
        """Steps for a machine's message; it has to wait while too many are not done."""
        peer: Peer = wire.data

        async def counted() -> None:
            try:
                await steps
            finally:
                peer.steps -= 1
                if peer.steps == MAX_STEPS - 1:
                    wire.hold(False)

        peer.steps += 1
        if peer.steps == MAX_STEPS:
            wire.hold(True)
        run(counted(), failed)

    async def _sign(self) -> None:
        """Show a sign of life, and learn whether taps can arrive."""
        if self._closing:
            return
        self._watch_line()
        is_up = self.line_state()[0] == "up"
        feishu = self.engine.key("feishu")
        asked = self.wall()
        try:
            _, moment, holder = await self.engine.run(
                ("SET", self.engine.key("alive", self.replica), "1",
                 "EX", ALIVE_SECONDS),
                ("TIME",),
                ("SET", feishu, self.replica, "EX", ALIVE_SECONDS) if is_up
                else ("GET", feishu),
            )  # fmt: skip
            self._is_signed, pause = True, SIGN_SECONDS
            took = self.wall() - asked
            self.engine_ahead = _moment(moment) - asked - took / 2
            has_feishu = holder not in (None, self.replica.encode())
        except (EngineDown, ValueError, TypeError):  # or it answers nonsense
            self._is_signed, pause, has_feishu = False, AGAIN_SECONDS, is_up
        # Another replica that has it says so between two signs of ours.
        self._hear(has_feishu or not self._is_line_missed)
        self._is_line_missed = not has_feishu
        self.later(pause, lambda: self.go(self._sign()))

    def _watch_line(self) -> None:
        is_card_out = any(wire.data.waiting for wire in self.connected.values())
        if is_card_out != self._is_card_out:
            self._is_card_out = is_card_out
            self.watch_line(is_card_out)

    def _hear(self, has_feishu: bool) -> None:
        """Tell every machine when taps cannot reach it any more, or can again."""
        deaf = ""
        if not self._is_signed or not self.engine.ready:
            deaf = ENGINE_DOWN
        elif not has_feishu:
            deaf = f"the gateway has no connection to Feishu: {self.line_state()[1]}"
        was, self.deaf = self.deaf, deaf
        if bool(was) == bool(deaf):
            return
        log(deaf or "taps reach the machines again", "warning" if deaf else "info")
        for wire in list(self.connected.values()):
            wire.data.back = set(wire.data.waiting)  # they all ask again
            wire.send("reach", ok=not deaf, detail=deaf)

    def now(self) -> float:
        """The engine's clock: the same for every replica."""
        return self.wall() + self.engine_ahead

    def clock_problem(self) -> str:
        """What to repair about this replica's clock."""
        ahead = round(self.engine_ahead)
        if abs(ahead) < SKEW_SECONDS:
            return ""
        if ahead > 0:
            return f"this gateway's clock is {ahead} s behind its engine's"
        return f"this gateway's clock is {-ahead} s ahead of its engine's"

    async def run(self, *commands: Any) -> list[Any]:
        return await self.engine.run(*commands)

    def _tick(self) -> None:
        if self._closing:
            return
        now = self.clock()
        for wire in list(self.peers):
            peer: Peer = wire.data
            limit = JOIN_SECONDS if peer.joining else LOGIN_SECONDS
            if peer.machine is None and now - peer.since > limit:
                wire.end(TRY_LATER, "nothing came of it in time")
            else:
                self._tell_time(wire, peer)
                wire.tick(now)
        self.later(TICK_SECONDS, self._tick)

    def _tell_time(self, wire: Wire, peer: Peer) -> None:
        """Now and then: no two clocks go on at quite the same pace."""
        if peer.machine and self.clock() - peer.came_clock > TIME_SECONDS:
            peer.came, peer.came_clock = self.now(), self.clock()
            wire.send("time", now=peer.came)

    def close(self) -> None:
        """Send every machine elsewhere."""
        self._closing = True
        self.go(self.run(("DEL", self.engine.key("alive", self.replica))))
        for wire in list(self.peers):
            wire.end(GOING_AWAY, "the gateway stops")

    # Machines: coming and going.

    def accept(self, wire: Wire) -> None:
        """A connection is open."""
        wire.data = Peer(self.clock())
        if not self.ready:
            wire.end(TRY_LATER, "the gateway is not ready")
            return
        self.peers[wire] = self.early[wire] = None
        if len(self.early) > self.room.early:
            self._make_room()
        wire.send("hello", nonce=wire.data.nonce, now=self.wall())

    def _make_room(self) -> None:
        """Put out who has said nothing for the longest; else who is here longest.

        Of the largest crowd, and several at once: looking for it takes a while.
        """
        silent = [wire for wire in self.early if not wire.data.busy]
        crowd = crowded(silent or self.early)
        for wire in crowd[: max(1, self.room.early // 32)]:
            del self.early[wire]
            wire.end(TRY_LATER, "too many are at the door")

    def closed(self, wire: Wire) -> None:
        """A connection is over."""
        self.peers.pop(wire, None)
        self.early.pop(wire, None)
        peer: Peer = wire.data
        if peer.code:
            self.go(self.registry.drop_code(peer.code))
        if peer.machine is not None and self.connected.get(peer.machine.id) is wire:
            del self.connected[peer.machine.id]
            log(f"{peer.machine.id} {peer.machine.name} left: {wire.reason or 'cut'}")
            self.go(self._leave(peer))

    async def _leave(self, peer: Peer) -> None:
        assert peer.machine is not None
        place = await self.place(peer.machine.id, alive_only=False)
        if place is not None and place.peer == peer.id:
            gone = place._replace(replica="", since=self.now())
            await self.engine.run(self._placing(peer.machine.id, gone))

    def received(self, wire: Wire, message: dict[str, Any]) -> None:
        """A message of a machine's."""
        peer: Peer = wire.data
        kind = message["t"]
        if peer.machine is None:
            self._received_early(wire, peer, kind, message)
            return
        row = _MESSAGES.get(kind)
        if row is None:
            return  # of a newer version
        try:
            row(self, wire, peer, message)
        except PayloadError as error:
            self._unreadable(wire, peer, message, error)

    def _unreadable(
        self, wire: Wire, peer: Peer, message: dict[str, Any], error: PayloadError
    ) -> None:
        """One message is skipped: the machine's other requests go on."""
        assert peer.machine is not None
        if not peer.odd:
            log(f"{peer.machine.id}: {error}", "warning")
        peer.odd = True
        id = text_at(message, "ask", "id")
        if message["t"] == "ask" and id:
            detail = f"the gateway cannot read it: {error}"
            self._shown(wire, peer, id[:MAX_ID], False, detail)

    def _received_early(
        self, wire: Wire, peer: Peer, kind: str, message: dict[str, Any]
    ) -> None:
        if kind == "stored" and peer.enrolled is not None:
            self._guarded(wire, self.pairing.stored(wire, peer, peer.enrolled))
        elif peer.joining or (peer.busy and kind in ("login", "join")):
            wire.end(POLICY, "one thing at a time")
        elif peer.busy:
            return  # of an older machine: it tells the end of a request too early
        elif kind == "login":
            peer.busy = True
            self._guarded(wire, self._login(wire, peer, message))
        elif kind == "join":
            peer.busy = True
            self._guarded(wire, self.pairing.join(wire, peer, message))
        else:
            wire.end(POLICY, "log in first")

    def _guarded(self, wire: Wire, steps: Coroutine[Any, None, object]) -> None:
        """Steps without which the connection is of no use."""

        def failed(error: Exception) -> None:
            _report(error)
            wire.end(TRY_LATER, "the gateway is not ready")

        run(steps, failed)

    async def _login(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        id, nonce = text_at(message, "machine"), text_at(message, "nonce")
        peer.claims = id
        machine = await self.registry.get(id)
        key = self._proven(machine, peer, nonce, message) if machine else ""
        if machine is None or not key:
            is_revoked = machine is None and await self.registry.was_revoked(id)
            self._refuse_login(wire, id, is_revoked)
            return
        if len(self.connected) >= self.room.machines and id not in self.connected:
            log("too many machines: raise the limit of open files", "error")
            wire.end(TRY_LATER, "the gateway has no room for more machines")
            return
        peer.fresh = secrets.token_hex(32)
        peer.instance = text_at(message, "instance")[:64]
        machine = machine._replace(
            key=key, next=peer.fresh, previous="", address=wire.address
        )
        place = Place(self.replica, peer.id, peer.instance, wire.address, self.now())
        before = await self.place(id)
        *_, revoked = await self.engine.run(
            self.registry.putting(machine),
            self._placing(id, place),
            self.engine.entry(
                "login", machine=id, peer=peer.id, instance=peer.instance
            ),
            self.registry.is_revoked(id),
        )
        if revoked is not None:
            wire.end(POLICY, REVOKED)  # while it logged in
            return
        cards = [sent.ask.id for sent in await self.cards.of(id)]
        if wire not in self.peers:
            return  # it left meanwhile
        peer.waiting, peer.back = set(cards), set(cards)
        self._welcome(wire, peer, machine, nonce, cards)
        if before is not None and before.instance != peer.instance:
            await self._tell_twice(machine, before, wire.address)
        await self.taps.deliver_kept(wire, machine)

    def _refuse_login(self, wire: Wire, id: str, is_revoked: bool) -> None:
        if is_revoked:
            wire.end(POLICY, REVOKED)
            return
        self.metrics.refused_logins += 1
        log(f"refused a login as {one_line(id, 40)!r} from {wire.address}", "warning")
        wire.end(POLICY, "unknown machine or wrong key")

    def _proven(
        self, machine: Machine, peer: Peer, nonce: str, message: dict[str, Any]
    ) -> str:
        """The key that the machine has; empty: none that we know.

        The newer one first: an older connection may just be making it the only one.
        """
        proofs = message.get("proofs")
        for key in (machine.next, machine.key, machine.previous):
            for proof in proofs[:MAX_PROOFS] if isinstance(proofs, list) else ():
                secret = bytes.fromhex(key)
                if is_proof(
                    proof, secret, LOGIN, VERSION, machine.id, peer.nonce, nonce
                ):
                    return key
        return ""

    def _welcome(
        self, wire: Wire, peer: Peer, machine: Machine, nonce: str, cards: list[str]
    ) -> None:
        self.metrics.logins += 1
        older = self.connected.get(machine.id)
        peer.machine = machine
        self.early.pop(wire, None)
        wire.trust()
        self.connected[machine.id] = wire
        if older is not None and older is not wire:
            self._replace_wire(older, older.data.instance != peer.instance)
        peer.came, peer.came_clock = self.now(), self.clock()
        log(f"{machine.id} {machine.name} is here from {wire.address}")
        wire.send(
            "welcome",
            name=machine.name,
            proof=prove(
                bytes.fromhex(machine.key),
                WELCOME,
                VERSION,
                machine.id,
                nonce,
                peer.nonce,
            ),
            next=peer.fresh,
            cards=cards,
            now=peer.came,
            deaf=self.deaf,
        )

    def _replace_wire(self, wire: Wire, is_other: bool) -> None:
        """A newer connection of the same machine is there."""
        if is_other:
            wire.send("replaced")
        wire.end(POLICY if is_other else GOING_AWAY, REPLACED)

    async def _tell_twice(self, machine: Machine, before: Place, address: str) -> None:
        said = self.say(
            "gateway.twice", machine=machine.name, old=before.address, new=address
        )
        log(f"{machine.id}: its key connected twice, {before.address} and {address}")
        key = self.engine.key("twice", machine.id)
        (first,) = await self.engine.run(("SET", key, "1", "NX", "EX", TWICE_SECONDS))
        if first is not None:
            self.tell(machine.owner, said)

    def _rotated(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        """The machine has stored its new key: the old one dies."""
        machine = peer.machine
        assert machine is not None
        fresh, peer.fresh = peer.fresh, ""
        parts = (ROTATE, VERSION, machine.id, peer.nonce)
        if not fresh or not is_proof(
            message.get("proof"), bytes.fromhex(fresh), *parts
        ):
            wire.end(POLICY, "a wrong proof of a new key")
            return
        peer.machine = machine._replace(key=fresh, next="")
        self.take(wire, self._keep_rotated(wire, machine, fresh))

    async def _keep_rotated(self, wire: Wire, machine: Machine, fresh: str) -> None:
        kept = await self.registry.get(machine.id)
        if kept is None or kept.next != fresh:
            return  # revoked, or a newer connection has a newer key
        await self.registry.put(kept._replace(key=fresh, next="", previous=kept.key))
        wire.send("rotated")

    # Asks.

    def _ask(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        assert peer.machine is not None
        ask = from_plain(Ask, message.get("ask"))._replace(machine=peer.machine.name)
        if not 0 < len(ask.id) <= MAX_ID or not 0 < len(ask.digest) <= MAX_ID:
            raise PayloadError("an ask without id or digest")
        self.metrics.asks += 1
        done = partial(self._shown, wire, peer, ask.id)
        is_new = ask.id not in peer.waiting
        if is_new and len(peer.waiting) >= MAX_WAITING:
            done(False, "too many requests of this machine wait")
            return
        if ask.id in peer.back:
            peer.back.discard(ask.id)
        elif not self._may_send(peer.machine.id):
            done(False, "too many requests of this machine in a short time")
            return
        peer.waiting.add(ask.id)

        seconds = _seconds(message.get("left", ask.created + ask.seconds - self.wall()))
        self.take(wire, self.cards.announce(peer.machine, ask, done, seconds))

    def _shown(self, wire: Wire, peer: Peer, id: str, shown: bool, detail: str) -> None:
        self.metrics.shown += shown
        if not shown:
            peer.waiting.discard(id)
        wire.send("shown", id=id, ok=shown, detail=detail)

    def _settle(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        assert peer.machine is not None
        outcome = from_plain(Outcome, message.get("outcome"))
        if len(json.dumps(message["outcome"])) > MAX_OUTCOME:
            outcome = outcome.bare()
        # An end that is told again changes a card again: the app's limits are for all.
        if outcome.id in peer.waiting or self._may_send(peer.machine.id):
            peer.waiting.discard(outcome.id)
            who = peer.machine.name_of(outcome.who)
            self.take(wire, self.cards.settle(peer.machine.id, outcome, who))

    def _update(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        """A machine knows what came of a request of its own that has ended."""
        assert peer.machine is not None
        outcome = from_plain(Outcome, message.get("outcome"))
        is_short = len(json.dumps(message["outcome"])) <= MAX_OUTCOME
        if is_short and self._may_send(peer.machine.id):
            who = peer.machine.name_of(outcome.who)
            self.take(wire, self.cards.update(peer.machine.id, outcome, who))

    def _notice(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        assert peer.machine is not None
        said = message.get("notice")
        kind = text_at(said, "kind")
        if kind not in statuses.NOTICES:
            raise PayloadError("a notice of an unknown kind")
        notice = Notice(
            kind, self.wall(), text_at(said, "project"),
            text_at(said, "branch"), text_at(said, "session_id"), text_at(said, "text"),
        )  # fmt: skip
        if not self._may_send(peer.machine.id):
            return
        card = build_notice_card(notice, self.language)
        where = card["header"].get("subtitle", {}).get("content", "")
        named = " · ".join(filter(None, (peer.machine.name, where)))
        card["header"]["subtitle"] = plain(named)
        self.cards.send(peer.machine.owner, card)

    def _may_send(self, machine: str) -> bool:
        """Whether a machine may make us send: the app's limits are everybody's."""
        pace = self._paces.pop(machine, None) or RateLimit(MACHINE_LIMIT)
        self._paces[machine] = pace
        if len(self._paces) > MAX_PACES:
            self._paces.popitem(last=False)
        if pace.wait(self.clock()) > 0:
            return False
        pace.note(self.clock())
        return True

    # What replicas tell each other.

    def _heard(self, entry: dict[str, Any]) -> None:
        row = _ENTRIES.get(entry.get("k", ""))
        if row is not None:
            row(self, entry)

    def _heard_login(self, entry: dict[str, Any]) -> None:
        id = str(entry.get("machine"))
        wire = self.connected.get(id)
        if wire is not None and wire.data.id != entry.get("peer"):
            self.go(self._make_way(id, wire))

    async def _make_way(self, id: str, wire: Wire) -> None:
        """End a connection whose machine is elsewhere by now.

        What is heard may be old: the engine has the newest place.
        """
        place = await self.place(id, alive_only=False)
        if place is not None and place.replica and place.peer != wire.data.id:
            self._replace_wire(wire, wire.data.instance != place.instance)

    def _heard_revoked(self, entry: dict[str, Any]) -> None:
        id = str(entry.get("machine"))
        self.connected.pop(id, None)
        for wire in [wire for wire in self.peers if wire.data.claims == id]:
            wire.end(POLICY, REVOKED)

    def _heard_renamed(self, entry: dict[str, Any]) -> None:
        wire = self.connected.get(str(entry.get("machine")))
        if wire is not None:
            machine = wire.data.machine._replace(name=str(entry.get("name")))
            wire.data.machine = machine
            wire.send("renamed", name=machine.name)

    # Looking after machines.

    async def place(self, id: str, alive_only: bool = True) -> Place | None:
        """Where a machine is connected; None if nowhere."""
        (raw,) = await self.engine.run(("HGET", self.engine.key("at"), id))
        place = read(Place, raw)
        if place is None or not alive_only:
            return place
        if not place.replica:
            return None
        key = self.engine.key("alive", place.replica)
        (alive,) = await self.engine.run(("EXISTS", key))
        return place if alive else None

    def _placing(self, id: str, place: Place) -> tuple[str, ...]:
        return ("HSET", self.engine.key("at"), id, json.dumps(to_plain(place)))

    async def revoke(self, id: str, by: str) -> Machine | None:
        """A machine is out, on every replica; its open cards are void."""
        machine = await self.registry.revoke(id)
        if machine is None:
            return None
        log(f"{id} {machine.name} is revoked by {by}")
        self.record({"event": "revoked", "id": id, "who": by})
        for sent in await self.cards.of(id):
            self.go(self.cards.settle(id, self.gone(sent.ask, "ended.revoked")))
        await self.engine.run(("HDEL", self.engine.key("at"), id))
        return machine

    async def listing(self, owner: str = "") -> list[dict[str, Any]]:
        """Every machine, or those of one person, as `machines --json` shows them."""
        machines = [
            machine
            for machine in await self.registry.all()
            if owner in ("", machine.owner)
        ]
        flat, *counts = await self.engine.run(
            ("HGETALL", self.engine.key("at")),
            *(("HLEN", self.engine.key("cards", machine.id)) for machine in machines),
        )
        places = {
            id.decode(errors="replace"): read(Place, raw)
            for id, raw in zip(flat[::2], flat[1::2])
        }
        alive = await self._alive({p.replica for p in places.values() if p})
        return [
            self._row(machine, places.get(machine.id), alive, waiting)
            for machine, waiting in zip(machines, counts)
        ]

    async def _alive(self, replicas: set[str]) -> set[str]:
        """Which of these replicas live."""
        names = sorted(replicas - {""})
        if not names:
            return set()
        signs = await self.engine.run(
            *(("EXISTS", self.engine.key("alive", name)) for name in names)
        )
        return {name for name, sign in zip(names, signs) if sign}

    def _row(
        self, machine: Machine, last: Place | None, alive: set[str], waiting: int
    ) -> dict[str, Any]:
        return {
            "id": machine.id,
            "name": machine.name,
            "owner": machine.owner,
            "address": last.address if last else machine.address,
            "connected": last is not None and last.replica in alive,
            "since": round(self.now() - last.since) if last else 0,
            "waiting": waiting,
        }

    def tell(self, who: str, said: str) -> None:
        """A short card of the gateway's own."""
        self.cards.send(who, note_card(said, self.language))

    def gauges(self) -> dict[str, tuple[str, float]]:
        """What is true right now, for `/metrics`."""
        return {
            "feishuperm_machines": ("Connected machines.", len(self.connected)),
            "feishuperm_waiting": (
                "Requests of connected machines that wait.",
                sum(len(wire.data.waiting) for wire in self.connected.values()),
            ),
            "feishuperm_engine_up": ("Whether the engine answers.", self.engine.ready),
        }


_MESSAGES: dict[str, Callable[[Hub, Wire, Peer, dict[str, Any]], None]] = {
    "rotated": Hub._rotated,
    "ask": Hub._ask,
    "settle": Hub._settle,
    "update": Hub._update,
    "notice": Hub._notice,
    "receipt": lambda hub, *said: hub.taps.receipt(*said),
}
_ENTRIES: dict[str, Callable[[Hub, dict[str, Any]], None]] = {
    "tap": lambda hub, entry: hub.taps.heard(entry),
    "receipt": lambda hub, entry: hub.taps.heard_receipt(entry),
    "sent": lambda hub, entry: hub.taps.heard_sent(entry),
    "login": Hub._heard_login,
    "joined": lambda hub, entry: hub.pairing.joined(entry),
    "revoked": Hub._heard_revoked,
    "renamed": Hub._heard_renamed,
}


def _moment(said: list[bytes]) -> float:
    """What the engine's TIME says."""
    seconds, micros = said
    return int(seconds) + int(micros) / 1e6


def _seconds(said: object) -> float:
    """How long a card is of use, as its machine says."""
    is_number = isinstance(said, (int, float)) and 0 <= said <= MOST_SECONDS
    return float(said) if is_number else 0.0  # type: ignore[arg-type]


def _report(error: Exception) -> None:
    if isinstance(error, EngineDown):
        log(f"the engine does not answer: {error}", "warning")
    else:
        log(f"gateway: {type(error).__name__}: {error}", "error")
