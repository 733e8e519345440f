"""The gateway's middle: machines on one side, Feishu on the other, taps in between.

A tap goes to the machine that asked, and the machine judges it; the gateway checks who
tapped and on which card, carries it, and tells the person what the machine said.  With
several replicas the tap is first put into the engine, and whichever replica holds the
machine's socket delivers it; the receipt comes back the same way.

    a tap                               what the person is told
    of a stranger, on another's card    refused, at once
    the machine is away                 so; nothing is kept
    settled there within 2.5 s          what was done, and the settled card
    delivered, no receipt yet           sent; the card follows
    the engine does not answer          try again

A tap that was told "sent" is delivered again to a machine that comes back within
REPLAY_SECONDS; the machine applies each once.  Who is connected where is in the engine
and dies with the socket; a replica that is killed leaves rows behind, which count only
while its `alive` key is there.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import OrderedDict
from functools import partial
from typing import Any, NamedTuple

from feishuperm.channels.app.card import Extra, ask_card, settled_card
from feishuperm.channels.app.events import read_tap, text_at, toast
from feishuperm.channels.outbox import RateLimit
from feishuperm.errors import PayloadError
from feishuperm.gateway.cards import Sent
from feishuperm.gateway.engine import EngineDown
from feishuperm.gateway.notes import join_card, note_card
from feishuperm.gateway.registry import Joining, Machine, clean_name, read
from feishuperm.lib.display import one_line
from feishuperm.lib.feishu import build_notice_card, plain
from feishuperm.lib.log import log
from feishuperm.lib.task import Promise, run
from feishuperm.lib.text import text
from feishuperm.models import ask as statuses
from feishuperm.models.ask import (
    Answer,
    Ask,
    Notice,
    Outcome,
    Receipt,
    from_plain,
    to_plain,
)
from feishuperm.protocol.machine import (
    GOING_AWAY,
    LOGIN,
    POLICY,
    ROTATE,
    TAP,
    TRY_LATER,
    WELCOME,
    is_proof,
    prove,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Protocol

    from feishuperm.gateway.cards import Cards
    from feishuperm.gateway.metrics import Metrics
    from feishuperm.gateway.registry import AnyEngine, Registry

    class Wire(Protocol):
        """A machine's connection, see `server.machine`."""

        address: str
        data: Any

        @property
        def reason(self) -> str: ...

        def send(self, kind: str, **parts: Any) -> None: ...

        def trust(self) -> None: ...

        def end(self, code: int = ..., reason: str = ...) -> None: ...

        def tick(self, now: float) -> None: ...


ANSWER_SECONDS = 2.5  # of the three that Feishu gives
LOGIN_SECONDS = 15.0
JOIN_SECONDS = 600.0
TICK_SECONDS = 5.0
ALIVE_SECONDS = 6  # that a replica counts as alive after its last sign
SIGN_SECONDS = 2.0  # between two of those
AGAIN_SECONDS = 0.2  # when the engine did not take one
REPLAY_SECONDS = 60.0  # in which a machine that comes back still gets a tap
SEEN_SECONDS = 8 * 3600  # Feishu sends a message again for six hours
SEEN, CARRIED = "seen", "carried"  # what is known of an event
TWICE_SECONDS = 60  # between two warnings that a key is used twice
MAX_WAITING = 200  # open cards of one machine
MACHINE_LIMIT = ((30, 1.0), (180, 60.0))  # messages that one machine makes us send
MAX_PACES = 5_000  # machines whose last messages are counted
MAX_EARLY = 2_048  # connections that have not logged in
JOINS_EACH, JOINS_ALL = 20, 200  # that wait for an owner, from one address and in all
VERSION = "1"


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


class Place(NamedTuple):
    """Where a machine is connected."""

    replica: str = ""
    peer: str = ""
    instance: str = ""
    address: str = ""
    since: float = 0.0


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
    ) -> None:
        self.engine = engine
        self.registry = registry
        self.cards = cards
        self.metrics = metrics
        self.replica = secrets.token_hex(6)
        self._later = later
        self._language = language
        self._record = record
        self._clock = clock
        self._wall = wall
        self._peers: dict[Wire, None] = {}
        self._early: dict[Wire, None] = {}  # of those, who is nobody yet; oldest first
        self._paces: OrderedDict[str, RateLimit] = OrderedDict()  # by machine
        self.connected: dict[str, Wire] = {}
        self._receipts: dict[str, Promise[Receipt | None]] = {}  # by tap
        self._closing = False
        self._is_signed = False
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
        return text(self._language, key, **values)

    def go(self, steps: Coroutine[Any, None, object]) -> None:
        """Take some steps; what the engine does not do is not an error here."""
        run(steps, _report)

    async def _sign(self) -> None:
        if self._closing:
            return
        key = self.engine.key("alive", self.replica)
        try:
            await self.engine.run(("SET", key, "1", "EX", ALIVE_SECONDS))
            self._is_signed, pause = True, SIGN_SECONDS
        except EngineDown:
            self._is_signed, pause = False, AGAIN_SECONDS
        self._later(pause, lambda: self.go(self._sign()))

    async def _run(self, *commands: Any) -> list[Any]:
        return await self.engine.run(*commands)

    def _tick(self) -> None:
        if self._closing:
            return
        now = self._clock()
        for wire in list(self._peers):
            peer: Peer = wire.data
            limit = JOIN_SECONDS if peer.joining else LOGIN_SECONDS
            if peer.machine is None and now - peer.since > limit:
                wire.end(TRY_LATER, "nothing came of it in time")
            else:
                wire.tick(now)
        self._later(TICK_SECONDS, self._tick)

    def close(self) -> None:
        """Send every machine elsewhere."""
        self._closing = True
        self.go(self._run(("DEL", self.engine.key("alive", self.replica))))
        for wire in list(self._peers):
            wire.end(GOING_AWAY, "the gateway stops")

    # Machines: coming and going.

    def accept(self, wire: Wire) -> None:
        """A connection is open."""
        wire.data = Peer(self._clock())
        if not self.ready:
            wire.end(TRY_LATER, "the gateway is not ready")
            return
        self._peers[wire] = self._early[wire] = None
        if len(self._early) > MAX_EARLY:
            self._make_room()
        wire.send("hello", nonce=wire.data.nonce, now=self._wall())

    def _make_room(self) -> None:
        """Put out who has said nothing for the longest; else who is here longest."""
        silent = (wire for wire in self._early if not wire.data.busy)
        wire = next(silent, None) or next(iter(self._early))
        del self._early[wire]
        wire.end(TRY_LATER, "too many are at the door")

    def closed(self, wire: Wire) -> None:
        """A connection is over."""
        self._peers.pop(wire, None)
        self._early.pop(wire, None)
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
            gone = place._replace(replica="", since=self._wall())
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
            log(f"{peer.machine.id}: {error}", "warning")
            wire.end(POLICY, "a message that cannot be read")

    def _received_early(
        self, wire: Wire, peer: Peer, kind: str, message: dict[str, Any]
    ) -> None:
        if kind == "stored" and peer.enrolled is not None:
            self._guarded(wire, self._stored(wire, peer, peer.enrolled))
        elif peer.busy or peer.joining:
            wire.end(POLICY, "one thing at a time")
        elif kind == "login":
            peer.busy = True
            self._guarded(wire, self._login(wire, peer, message))
        elif kind == "join":
            peer.busy = True
            self._guarded(wire, self._join(wire, peer, message))
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
            self.metrics.refused_logins += 1
            log(
                f"refused a login as {one_line(id, 40)!r} from {wire.address}",
                "warning",
            )
            wire.end(POLICY, "unknown machine or wrong key")
            return
        peer.fresh = secrets.token_hex(32)
        peer.instance = text_at(message, "instance")[:64]
        machine = machine._replace(key=key, next=peer.fresh, address=wire.address)
        place = Place(self.replica, peer.id, peer.instance, wire.address, self._wall())
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
            wire.end(POLICY, "revoked")  # while it logged in
        cards = [sent.ask.id for sent in await self.cards.of(id)]
        if wire not in self._peers:
            return  # it left meanwhile
        peer.waiting, peer.back = set(cards), set(cards)
        self._welcome(wire, peer, machine, nonce, cards)
        if before is not None and before.instance != peer.instance:
            await self._tell_twice(machine, before, wire.address)
        await self._deliver_kept(wire, machine)

    def _proven(
        self, machine: Machine, peer: Peer, nonce: str, message: dict[str, Any]
    ) -> str:
        """The key that the machine has; empty: none that we know.

        The newer one first: an older connection may just be making it the only one.
        """
        proofs = message.get("proofs")
        for key in (machine.next, machine.key):
            for proof in proofs[:3] if isinstance(proofs, list) else ():
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
        self._early.pop(wire, None)
        wire.trust()
        self.connected[machine.id] = wire
        if older is not None and older is not wire:
            self._replace_wire(older, older.data.instance != peer.instance)
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
            now=self._wall(),
        )

    def _replace_wire(self, wire: Wire, told: bool) -> None:
        """A newer connection of the same machine is there."""
        if told:
            wire.send("replaced")
        wire.end(POLICY if told else GOING_AWAY, "replaced by a newer connection")

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
            raise PayloadError("a wrong proof of a new key")
        peer.machine = machine._replace(key=fresh, next="")
        self.go(self._keep_rotated(wire, machine, fresh))

    async def _keep_rotated(self, wire: Wire, machine: Machine, fresh: str) -> None:
        kept = await self.registry.get(machine.id)
        if kept is None or kept.next != fresh:
            return  # revoked, or a newer connection has a newer key
        await self.registry.put(kept._replace(key=fresh, next=""))
        wire.send("rotated")

    # Joining.

    async def _join(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        owner = text_at(message, "owner")[:200]
        if self._joins(wire.address) >= JOINS_EACH or self._joins() >= JOINS_ALL:
            wire.end(TRY_LATER, "too many machines are being paired")
            return
        self._early.pop(wire, None)
        joining = Joining(
            peer.id, self.replica, clean_name(message.get("name")),
            one_line(text_at(message, "user"), 40), wire.address,
            owner if owner.startswith("ou_") else "",
        )  # fmt: skip
        peer.joining = joining
        code = await self.registry.open_code(joining)
        peer.code, peer.busy = code, False
        if wire not in self._peers:
            await self.registry.drop_code(code)
            return
        wire.send("code", code=code, seconds=int(JOIN_SECONDS))
        if owner:
            await self.ask_owner(joining, owner)

    def _joins(self, address: str = "") -> int:
        """Machines that wait for an owner, from an address or in all."""
        return sum(
            wire.data.joining is not None and address in ("", wire.address)
            for wire in self._peers
        )

    async def ask_owner(self, joining: Joining, owner: str) -> None:
        """Send the confirming card to whoever the machine named."""
        if owner.startswith("ou_") and not self.registry.may_join(owner):
            return
        if await self.registry.may_ask(owner):
            asked = await self.registry.ask(joining, owner)
            self.cards.send(owner, join_card(asked, self._language))

    async def confirmed(self, joining: Joining, who: str, name: str) -> bool:
        """The owner said yes: tell the replica that holds the machine."""
        machine = await self.registry.enrol(joining, who, name)
        key = self.engine.key("alive", joining.replica)
        (alive,) = await self.engine.run(("EXISTS", key))
        if not alive:
            return False
        await self.engine.run(
            self.engine.entry("joined", join=joining.id, machine=to_plain(machine))
        )
        return True

    def _joined(self, entry: dict[str, Any]) -> None:
        wires = (w for w in self._peers if w.data.id == entry.get("join"))
        wire = next(wires, None)
        if wire is None or wire.data.joining is None:
            return
        machine = from_plain(Machine, entry.get("machine"))
        wire.data.enrolled, wire.data.code = machine, ""
        wire.send(
            "joined",
            machine=machine.id,
            key=machine.key,
            name=machine.name,
            owner=machine.owner,
            owner_name=machine.owner_name,
        )

    async def _stored(self, wire: Wire, peer: Peer, machine: Machine) -> None:
        """The machine has its key: from now on it is enrolled."""
        peer.enrolled = None
        await self.registry.put(machine)
        log(f"{machine.id} {machine.name} joined for {machine.owner}")
        self._record(
            {"event": "joined", "id": machine.id, "who": machine.owner,
             "summary": f"{machine.name} {machine.user} {machine.address}"}
        )  # fmt: skip
        wire.send("enrolled")
        wire.end(GOING_AWAY, "joined")

    # Asks.

    def _ask(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        assert peer.machine is not None
        ask = from_plain(Ask, message.get("ask"))._replace(machine=peer.machine.name)
        if not ask.id or not ask.digest:
            raise PayloadError("an ask without id or digest")
        self.metrics.asks += 1
        done = partial(self._shown, wire, ask.id)
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

        def failed(error: Exception) -> None:
            _report(error)
            done(False, "the gateway's engine does not answer")

        run(self.cards.announce(peer.machine, ask, done), failed)

    def _shown(self, wire: Wire, id: str, shown: bool, detail: str) -> None:
        self.metrics.shown += shown
        wire.send("shown", id=id, ok=shown, detail=detail)

    def _settle(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        assert peer.machine is not None
        outcome = from_plain(Outcome, message.get("outcome"))
        peer.waiting.discard(outcome.id)
        name = peer.machine.owner_name if outcome.who == peer.machine.owner else ""
        self.go(self.cards.settle(peer.machine.id, outcome, name or _end(outcome.who)))

    def _notice(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        assert peer.machine is not None
        said = message.get("notice")
        if not isinstance(said, dict) or said.get("kind") not in statuses.NOTICES:
            raise PayloadError("a notice of an unknown kind")
        notice = Notice(
            said["kind"], self._wall(), text_at(said, "project"),
            text_at(said, "branch"), text_at(said, "session_id"), text_at(said, "text"),
        )  # fmt: skip
        if not self._may_send(peer.machine.id):
            return
        card = build_notice_card(notice, self._language)
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
        if pace.wait(self._clock()) > 0:
            return False
        pace.note(self._clock())
        return True

    # Taps.

    async def tap(
        self, who: str, value: dict[str, Any], action: dict[str, Any], message_id: str,
        event_id: str,
    ) -> dict[str, Any]:  # fmt: skip
        """The answer to a tap on a request's card: a toast, and the card as it is."""
        began = self._clock()
        try:
            result, reply = await self._tap(
                who, value, action, message_id, event_id, began
            )
        except EngineDown:
            result, reply = "again", toast("warning", self.say("gateway.again"))
        self.metrics.tap(result, self._clock() - began)
        return reply

    async def _tap(
        self,
        who: str,
        value: dict[str, Any],
        action: dict[str, Any],
        message_id: str,
        event_id: str,
        began: float,
    ) -> tuple[str, dict[str, Any]]:
        id, machine_id = text_at(value, "id"), text_at(value, "machine")
        key = self.engine.key
        seen = key("seen", event_id)
        fresh, state, raw, enrolled, revoked = await self.engine.run(
            ("SET", seen, SEEN, "NX", "EX", SEEN_SECONDS),
            ("GET", seen),
            ("HGET", key("cards", machine_id), id),
            ("HGET", key("machines"), machine_id),
            self.registry.is_revoked(machine_id),
        )
        machine = read(Machine, enrolled) if revoked is None else None
        sent = read(Sent, raw)
        if machine is None or sent is None:
            return "ended", toast("warning", self.say("page.invalid"))
        if who != machine.owner:
            self._refused(machine, id, text_at(value, "action"), who)
            owner = machine.owner_name or _end(machine.owner)
            return "stranger", toast(
                "error", self.say("answer.only_owner", owner=owner)
            )
        if fresh is None:
            return self._told_twice(machine, state == CARRIED.encode())
        answer = read_tap(sent.ask, value, action, who)
        refusal = self._unfit(sent, value, message_id, answer)
        if refusal:
            self._refused(machine, id, answer.action, who)
            return "refused", toast("error", self.say(refusal))
        carried = ("SET", seen, CARRIED, "EX", SEEN_SECONDS)
        return await self.carry(machine, sent, answer, began, carried)

    def _told_twice(
        self, machine: Machine, is_carried: bool
    ) -> tuple[str, dict[str, Any]]:
        """An event that came before: sent is only what the engine has."""
        if is_carried:
            return "sent", toast("info", self.say("gateway.sent", machine=machine.name))
        return "again", toast("warning", self.say("gateway.again"))

    def _unfit(
        self, sent: Sent, value: dict[str, Any], message_id: str, answer: Answer
    ) -> str:
        """Why a tap cannot be one on this card; a text key."""
        same = secrets.compare_digest(
            text_at(value, "nonce").encode(), sent.nonce.encode()
        )
        if not same or sent.message_id not in ("", message_id):
            return "answer.other"
        if answer.digest != sent.ask.digest:
            return "answer.other"
        offer = sent.ask.offer(answer.action)
        if offer is None or (offer.grants and not sent.grants):
            return "answer.not_offered"
        return ""

    async def carry(
        self,
        machine: Machine,
        sent: Sent,
        answer: Answer,
        began: float,
        *noting: tuple[str | int, ...],
    ) -> tuple[str, dict[str, Any]]:
        """Take an answer to its machine, and come back with what it said.

        `noting` are commands that go into the engine together with the tap.
        """
        place = await self.place(machine.id)
        if place is None:
            last = await self.place(machine.id, alive_only=False)
            return "away", self._away(machine, sent, last)
        tap = secrets.token_hex(12)
        carried = {
            "tap": tap,
            "machine": machine.id,
            "answer": to_plain(answer._replace(surface="gateway")),
            "at": self._wall(),
            "replica": self.replica,
        }
        promise: Promise[Receipt | None] = Promise()
        self._receipts[tap] = promise
        left = max(0.1, began + ANSWER_SECONDS - self._clock())
        self._later(left, lambda: promise.resolve(None))
        try:
            await self.engine.run(
                ("HSET", self.engine.key("taps", machine.id), tap, json.dumps(carried)),
                *noting,
                self.engine.entry("tap", tap=carried),
            )
            receipt = await promise
        finally:
            del self._receipts[tap]
        self._log_tap(machine, answer, receipt)
        if receipt is None:
            return "sent", toast("info", self.say("gateway.sent", machine=machine.name))
        return receipt.status or "refused", self._told(machine, sent, receipt)

    def _log_tap(
        self, machine: Machine, answer: Answer, receipt: Receipt | None
    ) -> None:
        status = receipt.status if receipt else "sent"
        log(f"{machine.id} {answer.id}: {answer.action} by {answer.who}: {status}")
        self._record(
            {"event": "carried", "id": answer.id, "action": answer.action,
             "who": answer.who, "surface": "gateway", "machine": machine.id,
             "state": status}
        )  # fmt: skip

    def _told(self, machine: Machine, sent: Sent, receipt: Receipt) -> dict[str, Any]:
        """What a machine said, as the person is told."""
        if receipt.status in (statuses.SETTLED, statuses.ENDED):
            outcome = receipt.outcome
            mine = outcome.who == machine.owner
            name = machine.owner_name if mine else ""
            card = settled_card(sent.ask, outcome, name or _end(outcome.who))
            fresh = receipt.status == statuses.SETTLED
            return toast("success" if fresh else "info", outcome.done, card)
        if receipt.status == statuses.UNKNOWN:
            over = self.cards.gone(sent.ask, "ended.gone")
            self.go(self.cards.settle(machine.id, over))
            return toast("warning", over.done, settled_card(sent.ask, over))
        again = receipt.status in (statuses.INCOMPLETE, statuses.CONFIRM)
        said = receipt.error or self.say("gateway.again")
        return toast("warning" if again else "error", said)

    def _away(self, machine: Machine, sent: Sent, last: Place | None) -> dict[str, Any]:
        said = self.say("gateway.away", machine=machine.name)
        if last is not None and last.since and not last.replica:
            since = time.strftime("%H:%M", time.localtime(last.since))
            said += self.say("gateway.since", time=since)
        if sent.ask.is_cut:  # what is kept of it is less than its card shows
            return toast("warning", said)
        extra = Extra(hurry=said, machine=machine.id)
        return toast("warning", said, ask_card(sent.ask, sent.nonce, extra)[0])

    def _refused(self, machine: Machine, id: str, action: str, who: str) -> None:
        id, action, who = (one_line(part, 64) for part in (id, action, who))
        log(f"{machine.id} {id}: refused {action!r} to {who}", "warning")
        self._record(
            {"event": "refused", "id": id, "action": action, "who": who,
             "machine": machine.id}
        )  # fmt: skip

    def _receipt(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        """A machine tells what came of a tap."""
        assert peer.machine is not None
        tap = text_at(message, "tap")
        receipt = from_plain(Receipt, message.get("receipt"))
        if tap not in peer.taps:
            return  # not one of its own
        peer.taps.discard(tap)
        waiting = self._receipts.get(tap)
        if waiting is not None:
            waiting.resolve(receipt)
        done = [("HDEL", self.engine.key("taps", peer.machine.id), tap)]
        if waiting is None:
            entry = self.engine.entry("receipt", tap=tap, receipt=to_plain(receipt))
            done.append(entry)  # type: ignore[arg-type]
        self.go(self._run(*done))

    # What replicas tell each other.

    def _heard(self, entry: dict[str, Any]) -> None:
        row = _ENTRIES.get(entry.get("k", ""))
        if row is not None:
            row(self, entry)

    def _heard_tap(self, entry: dict[str, Any]) -> None:
        tap = entry["tap"]
        wire = self.connected.get(tap["machine"])
        if wire is not None:
            self._deliver(wire, tap)

    def _deliver(self, wire: Wire, tap: dict[str, Any]) -> None:
        """Hand a tap to its machine, with the proof that we have its key."""
        machine: Machine = wire.data.machine
        wire.data.taps.add(tap["tap"])
        answer = tap["answer"]
        parts = (machine.id, answer["id"], answer["action"], answer["digest"],
                 tap["tap"], answer["who"], json.dumps(answer["values"]))  # fmt: skip
        proof = prove(bytes.fromhex(machine.key), TAP, *parts)
        wire.send("tap", tap=tap["tap"], answer=answer, at=tap["at"], proof=proof)

    async def _deliver_kept(self, wire: Wire, machine: Machine) -> None:
        """Taps that were on their way when the machine's last connection ended."""
        key = self.engine.key("taps", machine.id)
        (flat,) = await self.engine.run(("HGETALL", key))
        for id, raw in zip(flat[::2], flat[1::2]):
            if self.connected.get(machine.id) is not wire:
                return
            try:
                tap = json.loads(raw)
                late = self._wall() - tap["at"] > REPLAY_SECONDS
                if not late:
                    self._deliver(wire, tap)
            except (ValueError, LookupError, TypeError):  # somebody edited it
                late = True
            if late:
                await self.engine.run(("HDEL", key, id))

    def _heard_receipt(self, entry: dict[str, Any]) -> None:
        waiting = self._receipts.get(str(entry.get("tap")))
        if waiting is not None:
            waiting.resolve(from_plain(Receipt, entry.get("receipt")))

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
        for wire in [wire for wire in self._peers if wire.data.claims == id]:
            wire.end(POLICY, "revoked")

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
        self._record({"event": "revoked", "id": id, "who": by})
        for sent in await self.cards.of(id):
            await self.cards.settle(id, self.cards.gone(sent.ask, "ended.revoked"))
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
            "since": round(self._wall() - last.since) if last else 0,
            "waiting": waiting,
        }

    def tell(self, who: str, said: str) -> None:
        """A short card of the gateway's own."""
        self.cards.send(who, note_card(said, self._language))

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
    "notice": Hub._notice,
    "receipt": Hub._receipt,
}
_ENTRIES: dict[str, Callable[[Hub, dict[str, Any]], None]] = {
    "tap": Hub._heard_tap,
    "receipt": Hub._heard_receipt,
    "login": Hub._heard_login,
    "joined": Hub._joined,
    "revoked": Hub._heard_revoked,
    "renamed": Hub._heard_renamed,
}


def _end(who: str) -> str:
    return f"…{who[-6:]}" if who else ""


def _report(error: Exception) -> None:
    if isinstance(error, EngineDown):
        log(f"the engine does not answer: {error}", "warning")
    else:
        log(f"gateway: {type(error).__name__}: {error}", "error")
