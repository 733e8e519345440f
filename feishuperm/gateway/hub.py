"""The gateway's middle: which machines are here, who they are, what they ask.

Who is connected where is in the store and dies with the socket; a replica that is
killed leaves rows behind, which count only while its `alive` key is there.

A machine is told whether taps can reach it at all (`reach`): this replica has the
store, and some replica has Feishu.  Moments that replicas compare are the store's:
`now()`.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from feishuperm.app.panels import notice_card
from feishuperm.channels.base import REVOKED as ENDED
from feishuperm.channels.base import gone
from feishuperm.channels.outbox import Limits, RateLimit
from feishuperm.errors import PayloadError
from feishuperm.gateway.cards import STORE_DOWN, Cards
from feishuperm.gateway.machines import (
    JOIN_SECONDS,
    ROOM,
    MachineLink,
    Pairing,
    Room,
    crowded,
    note_card,
)
from feishuperm.gateway.panels import MAX_NAME, MachinePanels
from feishuperm.gateway.store import Location, Machine, Store, StoreDown, remember
from feishuperm.gateway.taps import Taps
from feishuperm.lib.display import one_line
from feishuperm.lib.feishu import plain
from feishuperm.lib.log import log
from feishuperm.lib.task import run
from feishuperm.messages import msg, text
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Ask, Notice, Outcome, Spent, from_plain
from feishuperm.models.fields import list_at, part_at, text_at
from feishuperm.protocol.machine import (
    CAN,
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
from feishuperm.server.machine import MachineConnection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.gateway.web import Metrics

LOGIN_SECONDS = 15.0
TICK_SECONDS = 5.0
SIGN_SECONDS = 2.0  # between two of those
AGAIN_SECONDS = 0.2  # when the store did not take one
BELIEVED_SECONDS = 2.0  # that another replica still lives, once it was seen
TIME_SECONDS = 3600.0  # between two times that a machine is told
SKEW_SECONDS = 10  # between two clocks that are worth a word
MAX_WAITING = 200  # open cards of one machine
MAX_ID = 64
MAX_PROOFS = 8  # by keys that a machine has had
MOST_SECONDS = 86400.0  # that a request may be pending
MAX_OUTCOME = 65_536  # characters of what came of a request; a card has 30 000
MACHINE_LIMIT = ((30, 1.0), (180, 60.0))  # messages that one machine makes us send
MAX_PACES = 5_000  # machines whose last messages are counted
MAX_STEPS = 16  # of one machine at the store: what it says next stays in its socket
VERSION = "1"


class Hub:
    """Every machine of this replica. All of it happens on the loop."""

    def __init__(
        self,
        store: Store,
        cards: Cards,
        metrics: Metrics,
        later: Callable[[float, Callable[[], object]], object],
        owners: frozenset[str] = frozenset(),
        language: str = "zh",
        record: Callable[[dict[str, Any]], object] = lambda entry: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        room: Room = ROOM,
    ) -> None:
        self.store = store
        self.room = room
        self.cards = cards
        self.metrics = metrics
        self.replica = secrets.token_hex(6)
        self.later = later
        self.language = language
        self.record = record
        self.clock = clock
        self.wall = wall
        self.connections: dict[MachineLink, None] = {}
        # Of those, the ones that have not logged in, oldest first.
        self.early: dict[MachineLink, None] = {}
        self._paces: dict[str, RateLimit] = {}  # by machine
        self.connected: dict[str, MachineLink] = {}
        self.taps = Taps(self)
        self.panels = MachinePanels(self)
        self.pairing = Pairing(self, owners)
        self._closing = False
        self._is_signed = False
        # The long connection to Feishu: its state, and why it is not up.
        self.line_state: Callable[[], tuple[str, str]] = lambda: ("up", "")
        # Whether a card is out: then a line that is dead has to be found soon.
        self.watch_line: Callable[[bool], object] = lambda is_card_out: None
        self._is_card_out = False
        self._is_line_missed = False  # it was down at the last sign as well
        self.deaf = ""  # why no tap can reach a machine; empty: they can
        self.store_ahead = 0.0  # of our wall clock: the store's
        self._seen_alive: dict[str, float] = {}  # other replicas, and when
        store.listen(self._heard)

    def start(self) -> None:
        """Show signs of life, and look after the connections."""
        self.go(self._sign())
        self._tick()

    @property
    def ready(self) -> bool:
        """Whether machines can come, and be found here by the other replicas."""
        return self.store.ready and self._is_signed and not self._closing

    def say(self, key: str, **values: object) -> str:
        return text(self.language, key, **values)

    def gone(self, ask: Ask, revoked: bool = False) -> Outcome:
        """The end of a request of which nothing more is known."""
        return gone(ask._replace(language=self.language), self.wall(), revoked)

    def go(self, steps: Coroutine[Any, None, object]) -> None:
        """Take some steps; what the store does not do is not an error here."""
        run(steps, _report)

    def take(self, link: MachineLink, steps: Coroutine[Any, None, object]) -> None:
        """Steps for a machine's message; it has to wait while too many are not done."""

        async def counted() -> None:
            try:
                await steps
            finally:
                link.steps -= 1
                if link.steps == MAX_STEPS - 1:
                    link.connection.hold(False)

        link.steps += 1
        if link.steps == MAX_STEPS:
            link.connection.hold(True)
        self.go(counted())

    async def _sign(self) -> None:
        """Show a sign of life, and learn whether taps can arrive."""
        if self._closing:
            return
        self._watch_line()
        is_up = self.line_state()[0] == "up"
        asked = self.wall()
        try:
            now, holder = await self.store.sign(self.replica, is_up)
            self._is_signed, pause = True, SIGN_SECONDS
            took = self.wall() - asked
            self.store_ahead = now - asked - took / 2
            has_feishu = is_up or holder not in ("", self.replica)
        except StoreDown:
            self._is_signed, pause, has_feishu = False, AGAIN_SECONDS, is_up
        # Another replica that has it says so between two of our signs.
        self._hear(has_feishu or not self._is_line_missed)
        self._is_line_missed = not has_feishu
        self.later(pause, lambda: self.go(self._sign()))

    def _watch_line(self) -> None:
        is_card_out = any(link.waiting for link in self.connected.values())
        if is_card_out != self._is_card_out:
            self._is_card_out = is_card_out
            self.watch_line(is_card_out)

    def _hear(self, has_feishu: bool) -> None:
        """Tell every machine when taps cannot reach it any more, or can again."""
        deaf = ""
        if not self._is_signed or not self.store.ready:
            deaf = STORE_DOWN
        elif not has_feishu:
            deaf = msg(
                "the gateway has no connection to Feishu: {}", self.line_state()[1]
            )
        was, self.deaf = self.deaf, deaf
        if bool(was) == bool(deaf):
            return
        log(deaf or "taps reach the machines again", "warning" if deaf else "info")
        for link in list(self.connected.values()):
            link.back = set(link.waiting)  # they all ask again
            link.send("reach", ok=not deaf, detail=deaf)

    def now(self) -> float:
        """The store's clock: the same for every replica."""
        return self.wall() + self.store_ahead

    def clock_problem(self) -> str:
        """What to repair about this replica's clock."""
        ahead = round(self.store_ahead)
        if abs(ahead) < SKEW_SECONDS:
            return ""
        if ahead > 0:
            return msg("this gateway's clock is {} s behind its engine's", ahead)
        return msg("this gateway's clock is {} s ahead of its engine's", -ahead)

    def _tick(self) -> None:
        if self._closing:
            return
        now = self.clock()
        for link in list(self.connections):
            limit = JOIN_SECONDS if link.joining else LOGIN_SECONDS
            if not link.machine.id and now - link.since > limit:
                link.end(TRY_LATER, "nothing came of it in time")
                continue
            # No two clocks go on at quite the same pace.
            if link.machine.id and now - link.came_clock > TIME_SECONDS:
                link.came, link.came_clock = self.now(), now
                link.send("time", now=link.came)
            link.connection.tick(now)
        self.later(TICK_SECONDS, self._tick)

    def close(self) -> None:
        """Send every machine elsewhere."""
        self._closing = True
        self.go(self.store.sign_off(self.replica))
        for link in list(self.connections):
            link.end(GOING_AWAY, "the gateway stops")

    # Machines: coming and going.

    def accept(self, connection: MachineConnection) -> None:
        """A connection is open."""
        link = connection.data = MachineLink(connection, self.clock())
        if not self.ready:
            link.end(TRY_LATER, "the gateway is not ready")
            return
        self.connections[link] = self.early[link] = None
        if len(self.early) > self.room.early:
            self._make_room()
        link.send("hello", nonce=link.nonce, now=self.wall())

    def _make_room(self) -> None:
        """Put out who has said nothing for the longest; else who is here longest.

        Of the largest crowd, and several at once: looking for it takes a while.
        """
        silent = [link for link in self.early if not link.busy]
        crowd = crowded(silent or self.early)
        for link in crowd[: max(1, self.room.early // 32)]:
            del self.early[link]
            link.end(TRY_LATER, "too many are at the door")

    def closed(self, connection: MachineConnection) -> None:
        """A connection is over."""
        link: MachineLink = connection.data
        self.connections.pop(link, None)
        self.early.pop(link, None)
        if link.code:
            self.go(self.store.drop_code(link.code))
        if self.connected.get(link.machine.id) is link:
            del self.connected[link.machine.id]
            why = connection.wire.trouble or "cut"
            log(f"{link.machine.id} {link.machine.name} left: {why}")
            self.go(self._leave(link))
            self.panels.left(link.machine)

    async def _leave(self, link: MachineLink) -> None:
        last = await self.store.location(link.machine.id)
        if last is not None and last.peer == link.id:
            gone = last._replace(replica="", since=self.now())
            await self.store.put_location(link.machine.id, gone)

    def received(self, connection: MachineConnection, message: dict[str, Any]) -> None:
        """A message of a machine's."""
        link: MachineLink = connection.data
        kind = message["t"]
        if not link.machine.id:
            self._received_early(link, kind, message)
            return
        row = _MESSAGES.get(kind)
        if row is None:
            return  # of a newer version
        try:
            row(self, link, message)
        except PayloadError as error:
            self._unreadable(link, message, error)

    def _unreadable(
        self, link: MachineLink, message: dict[str, Any], error: PayloadError
    ) -> None:
        """One message is skipped: the machine's other requests go on."""
        if not link.odd:
            log(f"{link.machine.id}: {error}", "warning")
        link.odd = True
        id = text_at(message, "ask", "id")
        if message["t"] == "ask" and id:
            detail = f"the gateway cannot read it: {error}"
            self._shown(link, id[:MAX_ID], False, detail)

    def _received_early(
        self, link: MachineLink, kind: str, message: dict[str, Any]
    ) -> None:
        if kind == "stored" and link.enrolled is not None:
            self._guarded(link, self.pairing.stored(link, link.enrolled))
        elif link.joining or (link.busy and kind in ("login", "join")):
            link.end(POLICY, "one thing at a time")
        elif link.busy:
            return  # of an older machine: it tells the end of a request too early
        elif kind == "login":
            self._guarded(link, self._login(link, message))
        elif kind == "join":
            self._guarded(link, self.pairing.join(link, message))
        else:
            link.end(POLICY, "log in first")

    def _guarded(self, link: MachineLink, steps: Coroutine[Any, None, object]) -> None:
        """Steps without which the connection is of no use."""
        link.busy = True

        def failed(error: Exception) -> None:
            _report(error)
            link.end(TRY_LATER, "the gateway is not ready")

        run(steps, failed)

    async def _login(self, link: MachineLink, message: dict[str, Any]) -> None:
        id, nonce = text_at(message, "machine"), text_at(message, "nonce")
        link.claims = id
        machine = await self._known(link, id, nonce, message)
        if machine is None:
            return
        if len(self.connected) >= self.room.machines and id not in self.connected:
            log("too many machines: raise the limit of open files", "error")
            link.end(TRY_LATER, "the gateway has no room for more machines")
            return
        link.fresh = secrets.token_hex(32)
        link.instance = text_at(message, "instance")[:64]
        link.can = tuple(word for word in CAN if word in list_at(message, "can"))
        machine = machine._replace(next=link.fresh, previous="", address=link.address)
        location = Location(
            self.replica, link.id, link.instance, link.address, self.now(), link.can
        )
        before = await self.store.location(id) or location
        restarted = before.instance != link.instance
        is_twice = restarted and await self.is_connected(before)
        if not await self.store.log_in(machine, location, restarted):
            link.end(POLICY, REVOKED)  # while it logged in
            return
        cards = {sent.ask.id for sent in await self.store.cards_of(id)}
        link.muted_until = await self.store.muted_until(id)
        if link not in self.connections:
            return  # it left meanwhile
        link.waiting, link.back = cards, set(cards)
        self._welcome(link, machine, nonce)
        if is_twice:
            await self._tell_twice(machine, before.address, link.address)
        await self.taps.deliver_kept(link, machine)

    async def _known(
        self, link: MachineLink, id: str, nonce: str, message: dict[str, Any]
    ) -> Machine | None:
        """The machine with the key that it has proven; None: its login is refused."""
        machine = await self.store.machine(id)
        key = self._proven(machine, link, nonce, message) if machine else ""
        if machine is not None and key:
            return machine._replace(key=key)
        if machine is None and await self.store.is_revoked(id):
            link.end(POLICY, REVOKED)
            return None
        self.metrics.counts["refused_logins"] += 1
        log(f"refused a login as {one_line(id, 40)!r} from {link.address}", "warning")
        link.end(POLICY, msg("unknown machine or wrong key"))
        return None

    def _proven(
        self, machine: Machine, link: MachineLink, nonce: str, message: dict[str, Any]
    ) -> str:
        """The key that the machine has; empty: none that we know.

        The newer one first: an older connection may just be making it the only one.
        """
        proofs = message.get("proofs")
        parts = (LOGIN, VERSION, machine.id, link.nonce, nonce)
        for key in (machine.next, machine.key, machine.previous):
            for proof in proofs[:MAX_PROOFS] if isinstance(proofs, list) else ():
                if is_proof(proof, bytes.fromhex(key), *parts):
                    return key
        return ""

    def _welcome(self, link: MachineLink, machine: Machine, nonce: str) -> None:
        self.metrics.counts["logins"] += 1
        older = self.connected.get(machine.id)
        link.machine = machine
        self.early.pop(link, None)
        link.connection.wire.trust()
        self.connected[machine.id] = link
        if older is not None and older is not link:
            self._replace_connection(older, older.instance != link.instance)
        link.came, link.came_clock = self.now(), self.clock()
        log(f"{machine.id} {machine.name} is here from {link.address}")
        parts = (WELCOME, VERSION, machine.id, nonce, link.nonce)
        proof = prove(bytes.fromhex(machine.key), *parts)
        link.send(
            "welcome", name=machine.name, proof=proof, next=link.fresh,
            cards=sorted(link.waiting), now=link.came, deaf=self.deaf, can=CAN,
            muted=self._muted_seconds(link),
        )  # fmt: skip

    def _muted_seconds(self, link: MachineLink) -> float:
        return max(0.0, link.muted_until - self.now())

    def _replace_connection(self, link: MachineLink, is_other: bool) -> None:
        """A newer connection of the same machine is there."""
        if is_other:
            link.send("replaced")
        link.end(POLICY if is_other else GOING_AWAY, REPLACED)

    async def _tell_twice(self, machine: Machine, before: str, address: str) -> None:
        said = self.say(
            "The key of {machine} is used in two places, {old} and {new}. The newer "
            "connection stays; if that is not you, send `machines` and revoke it.",
            machine=machine.name,
            old=before,
            new=address,
        )
        log(f"{machine.id}: its key connected twice, {before} and {address}")
        if await self.store.may_warn(machine.id):
            self.cards.sender.send(machine.owner, note_card(said, self.language))

    def _rotated(self, link: MachineLink, message: dict[str, Any]) -> None:
        """The machine has stored its new key: the old one dies."""
        machine = link.machine
        fresh, link.fresh = link.fresh, ""
        parts = (ROTATE, VERSION, machine.id, link.nonce)
        if not is_proof(message.get("proof"), bytes.fromhex(fresh), *parts):
            link.end(POLICY, "a wrong proof of a new key")
            return
        link.machine = machine._replace(key=fresh, next="")
        self.take(link, self._keep_rotated(link, fresh))

    async def _keep_rotated(self, link: MachineLink, fresh: str) -> None:
        kept = await self.store.machine(link.machine.id)
        if kept is None or kept.next != fresh:
            return  # revoked, or a newer connection has a newer key
        rotated = kept._replace(key=fresh, next="", previous=kept.key)
        await self.store.put_machine(rotated)
        link.send("rotated")

    # Asks.

    def _ask(self, link: MachineLink, message: dict[str, Any]) -> None:
        ask = from_plain(Ask, message.get("ask"))._replace(machine=link.machine.name)
        if not 0 < len(ask.id) <= MAX_ID or not 0 < len(ask.digest) <= MAX_ID:
            raise PayloadError("an ask without id or digest")
        self.metrics.counts["asks"] += 1
        done = partial(self._shown, link, ask.id)
        is_new = ask.id not in link.waiting
        if is_new and self._muted_seconds(link):  # of an older machine
            done(False, "muted in the chat")
            return
        if is_new and len(link.waiting) >= MAX_WAITING:
            done(False, "too many requests of this machine wait")
            return
        if ask.id in link.back:
            link.back.discard(ask.id)
        elif not self.may_send(link.machine.id):
            if is_new:  # else its card stays as it is
                done(False, "too many requests of this machine in a short time")
            return
        link.waiting.add(ask.id)
        self.cards.hush(link.machine.id, list_at(message, "calm"))
        seconds = _seconds(message.get("left", ask.created + ask.seconds - self.wall()))
        self.take(link, self.cards.announce(link.machine, ask, done, seconds))

    def _shown(self, link: MachineLink, id: str, shown: bool, detail: str) -> None:
        self.metrics.counts["cards"] += shown
        if not shown:
            link.waiting.discard(id)
        link.send("shown", id=id, ok=shown, detail=detail)

    def _told_end(self, link: MachineLink, message: dict[str, Any]) -> None:
        """A request has ended, or more is known of one that had."""
        outcome = from_plain(Outcome, message.get("outcome"))
        is_update = message["t"] == "update"
        if len(json.dumps(message["outcome"])) > MAX_OUTCOME:
            if is_update:
                return
            outcome = outcome.bare()
        # An end that is told again changes a card again: the app's limits are for all.
        is_first = not is_update and outcome.id in link.waiting
        if is_first or self.may_send(link.machine.id):
            if is_first:
                link.waiting.discard(outcome.id)
            take = self.cards.update if is_update else self.cards.settle
            who = self.signer(link.machine, outcome.who)
            self.take(link, take(link.machine.id, outcome, who))

    def signer(self, machine: Machine, who: str) -> str:
        """A person as the chat of this machine's owner names them."""
        if who == machine.owner:
            return text(self.language, "You")
        return machine.name_of(who)

    def _notice(self, link: MachineLink, message: dict[str, Any]) -> None:
        said = message.get("notice")
        kind = text_at(said, "kind")
        if kind not in statuses.NOTICES or len(text_at(said, "panel")) > MAX_NAME:
            raise PayloadError("a notice of an unknown kind, or with a long id")
        notice = Notice(
            kind, self.wall(), text_at(said, "project"),
            text_at(said, "branch"), text_at(said, "session_id"), text_at(said, "text"),
            panel=text_at(said, "panel"), button=text_at(said, "button"),
            spent=from_plain(Spent, part_at(said, "spent")),
        )  # fmt: skip
        if not self.may_send(link.machine.id):
            return
        machine = link.machine
        card = notice_card(notice, self.language, machine.id)
        where = card["header"].get("subtitle", {}).get("content", "")
        named = " · ".join(filter(None, (machine.name, where)))
        card["header"]["subtitle"] = plain(named)
        sent = self.cards.sender.send(machine.owner, card)
        self.panels.shown.noticed(machine.id, notice.session_id[:MAX_NAME], sent)

    def may_send(self, machine: str, limits: Limits = MACHINE_LIMIT) -> bool:
        """Whether a machine may make us send: the app's limits are everybody's."""
        pace = self._paces.get(machine) or RateLimit(limits)
        remember(self._paces, machine, pace, MAX_PACES)
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
        if entry.get("restarted") is True:
            self.panels.restarted(id)
        link = self.connected.get(id)
        if link is not None and link.id != entry.get("peer"):
            self.go(self._make_way(id, link))

    async def _make_way(self, id: str, link: MachineLink) -> None:
        """End a connection whose machine is elsewhere by now.

        What is heard may be old: the store has the newest location.
        """
        newest = await self.store.location(id)
        if newest is None or not newest.replica or newest.peer == link.id:
            return
        is_other = link.instance != newest.instance
        self._replace_connection(link, is_other)

    def _heard_revoked(self, entry: dict[str, Any]) -> None:
        id = str(entry.get("machine"))
        self.connected.pop(id, None)
        for link in [link for link in self.connections if link.claims == id]:
            link.end(POLICY, REVOKED)

    def _heard_muted(self, entry: dict[str, Any]) -> None:
        link = self.connected.get(str(entry.get("machine")))
        if link is not None:
            link.muted_until = float(entry["until"])
            link.send("muted", muted=self._muted_seconds(link))

    def _heard_renamed(self, entry: dict[str, Any]) -> None:
        link = self.connected.get(str(entry.get("machine")))
        if link is not None:
            machine = link.machine._replace(name=str(entry.get("name")))
            link.machine = machine
            link.send("renamed", name=machine.name)

    # Looking after machines.

    async def is_connected(self, location: Location) -> bool:
        """Whether the replica that says it holds a machine lives.

        One that was seen a moment ago is believed: should it be dead since, a tap
        that it does not deliver tells so.
        """
        replica, now = location.replica, self.clock()
        if replica in ("", self.replica):
            return bool(replica)
        seen = {r: t for r, t in self._seen_alive.items() if now - t < BELIEVED_SECONDS}
        if replica not in seen:
            seen.update(dict.fromkeys(await self.store.alive([replica]), now))
        self._seen_alive = seen
        return replica in seen

    async def revoke(self, id: str, by: str) -> Machine | None:
        """A machine is out, on every replica; its open cards are void."""
        machine = await self.store.machine(id)
        if machine is None:
            return None
        await self.panels.shown.freeze(id, ENDED[0])
        await self.store.revoke_machine(id)
        log(f"{id} {machine.name} is revoked by {by}")
        self.record({"event": "revoked", "id": id, "who": by})
        for sent in await self.store.cards_of(id):
            self.go(self.cards.settle(id, self.gone(sent.ask, revoked=True)))
        return machine

    async def listing(self, owner: str = "") -> list[dict[str, Any]]:
        """Every machine, or those of one person, as `machines --json` shows them."""
        machines = await self.store.machines()
        machines = [each for each in machines if owner in ("", each.owner)]
        census = await self.store.census([machine.id for machine in machines])
        replicas = {last.replica for last, _ in census if last}
        alive = await self.store.alive(sorted(replicas))
        return [
            {
                "id": machine.id,
                "name": machine.name,
                "owner": machine.owner,
                "address": last.address if last else machine.address,
                "connected": last is not None and last.replica in alive,
                "since": round(self.now() - last.since) if last else 0,
                "waiting": waiting,
            }
            for machine, (last, waiting) in zip(machines, census)
        ]


_MESSAGES: dict[str, Callable[[Hub, MachineLink, dict[str, Any]], None]] = {
    "rotated": Hub._rotated,
    "ask": Hub._ask,
    "settle": Hub._told_end,
    "update": Hub._told_end,
    "notice": Hub._notice,
    "receipt": lambda hub, *said: hub.taps.receipt(*said),
    "panel": lambda hub, *said: hub.panels.changed(*said),
}
_ENTRIES: dict[str, Callable[[Hub, dict[str, Any]], None]] = {
    "tap": lambda hub, entry: hub.taps.heard(entry),
    "receipt": lambda hub, entry: hub.taps.heard_receipt(entry),
    "sent": lambda hub, entry: hub.taps.heard_sent(entry),
    "login": Hub._heard_login,
    "joined": lambda hub, entry: hub.pairing.joined(entry),
    "revoked": Hub._heard_revoked,
    "renamed": Hub._heard_renamed,
    "muted": Hub._heard_muted,
}


def _seconds(said: object) -> float:
    """How long a card is of use, as its machine says."""
    is_number = isinstance(said, (int, float)) and 0 <= said <= MOST_SECONDS
    return float(said) if is_number else 0.0  # type: ignore[arg-type]


def _report(error: Exception) -> None:
    if isinstance(error, StoreDown):
        log(f"the engine does not answer: {error}", "warning")
    else:
        log(f"gateway: {type(error).__name__}: {error}", "error")
