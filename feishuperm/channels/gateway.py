"""The team's gateway as one more channel: asks out, taps in, over one connection.

The gateway shows; this machine judges.  A tap counts if it proves this machine's key,
is fresh, comes from the person who confirmed this machine, carries the digest of a
request that is pending here, and does what its card offered; then it is an answer like
any other.  Nothing the gateway says can do more than that.

    away     no connection; requests stay in the inbox and the terminal
    hello    connected, the login is under way; nothing else is said
    in       asks go out, taps come in, unless the gateway is deaf: it has lost Feishu
             or its engine, and no tap can arrive

    an ask     became                          its request
    sent       no card yet                     may be shown elsewhere
    late       no card within SHOWN_SECONDS    is shown elsewhere, or released
    shown      a card that can be tapped       waits for a person
    lost       a card that cannot              is released at its end, not denied
"""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from feishuperm.app.api import Connect, open_websocket
from feishuperm.app.cards import HOLD
from feishuperm.app.panels import MOST_WORDS, carried
from feishuperm.channels.base import (
    Announcement,
    ApprovalsPort,
    Channel,
    SessionsPort,
    gone,
    keep_last,
)
from feishuperm.errors import FeishupermError, FileError, PayloadError
from feishuperm.lib.display import one_line
from feishuperm.lib.enrolment import Enrolment
from feishuperm.lib.log import log
from feishuperm.lib.task import Later
from feishuperm.messages import msg, text
from feishuperm.models import ask as statuses
from feishuperm.models.ask import (
    LARGEST,
    Answer,
    Ask,
    Block,
    Notice,
    Outcome,
    Receipt,
    from_plain,
    shorten,
    to_plain,
)
from feishuperm.models.fields import list_at
from feishuperm.models.kind import KINDS
from feishuperm.models.names import NOT_AS_SHOWN, NOT_OFFERED, SERVED_COMMANDS
from feishuperm.models.panel import Asker, Panel, Told
from feishuperm.models.settings import url_host
from feishuperm.protocol.machine import (
    CAN,
    EXTEND,
    HEADLINE,
    LOGIN,
    PANELS,
    PATH,
    PRESS,
    PROTOCOLS,
    ROTATE,
    TAP,
    WELCOME,
    is_proof,
    prove,
    tap_parts,
)
from feishuperm.protocol.websocket import HandshakeRefused
from feishuperm.wire import RETURN_SECONDS


class Connection(Protocol):
    """The connection, see `server.machine`."""

    def start(self) -> None: ...

    def close(self) -> None: ...

    def send(self, kind: str, **parts: Any) -> bool: ...

    def worked(self) -> None: ...

    def drop(self, why: str) -> None: ...

    def watch(self, is_card_out: bool) -> None: ...


AWAY, HELLO, IN = "away", "hello", "in"
NOT_YET = msg("not connected yet")
AHEAD = msg("the gateway's clock is {} s ahead of this machine's")
BEHIND = msg("the gateway's clock is {} s behind this machine's")
VERSION = "1"
SENT, LATE, SHOWN, LOST = "sent", "late", "shown", "lost"
SKEW_SECONDS = 10  # between two clocks that are worth a word
MAX_ASK = 400_000  # bytes of an ask; a longer one is cut, and can then only be refused
CUT_BLOCK = 20_000
SHOWN_SECONDS = 10.0  # for a card to leave
LATE_SECONDS = 60.0  # a tap that took so long is not applied
EARLY_SECONDS = 5.0  # that a tap may seem to be ahead: the way of a message, twice
NO_GRANTS = "FEISHUPERM_GATEWAY_GRANTS is off: no prompt comes through a gateway"
MAX_NAME = 60
MAX_DETAIL = 300
RECORDS = 200  # settled cards that may still have to tell the result
REMEMBERED = 1000  # taps, to answer the same to the same
MOST_MUTED = 7 * 86400.0  # seconds, as long as the chat can say
UNKNOWN = Receipt(statuses.UNKNOWN)
MOST_UNTOLD = 50  # panels that changed while the gateway was away


class Pending:
    """An ask that the gateway was given, until its request ends."""

    def __init__(self, announcement: Announcement) -> None:
        self.id = announcement.id
        self.announcement = announcement
        self.state = SENT
        self.sent = Ask()  # as the gateway was given it: a tap may do what it offers

    def shown(self, is_deaf: bool) -> None:
        self.state = SHOWN
        self.announcement.shown()
        if is_deaf:
            self.lose()

    def lose(self) -> None:
        if self.state == SHOWN:
            self.state = LOST
            self.announcement.lost()

    def fail(self, why: str) -> None:
        """No card of it is out; said once."""
        if self.state != LATE:
            self.state = LATE
            self.announcement.failed(why)


class GatewayChannel(Channel):
    """One gateway. Everything happens on the loop."""

    name = "gateway"

    def __init__(
        self,
        enrolment: Enrolment,
        approvals: ApprovalsPort,
        sessions: SessionsPort,
        connect: Callable[
            [Callable[..., object], Callable[[bool, str], object]], Connection
        ],
        later: Later,
        save: Callable[[Enrolment], object],
        language: str = "zh",
        grants: bool = False,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._enrolment, self._save = enrolment, save
        self._approvals = approvals
        self._sessions = sessions
        self._later = later
        self._language = language
        self._grants = grants  # what lasts may be granted from there
        self._wall, self._clock = wall, clock
        self._instance = secrets.token_hex(8)
        self._nonce = ""
        self._hello = ""  # the gateway's nonce
        self._ahead = 0.0  # of our clock: the gateway's, which goes on as evenly
        self._skew = 0  # seconds that its wall clock is ahead of this one
        self._proven = enrolment.keys[:1]  # what it proves taps by
        self._stage, self._detail = AWAY, NOT_YET
        self._deaf = ""  # why no tap can arrive though the gateway is there
        self._asks: dict[str, Pending] = {}
        self._cards: set[str] = set()  # requests of which the gateway may have a card
        self._knows_cards = False  # the gateway has told them to this server
        self._can: frozenset[str] = frozenset()  # what else it understands
        self._muted_until = 0.0  # by our clock
        # Ended requests whose cards may have more to tell, and whether it is due.
        self._records: dict[str, bool] = {}
        self._untold: dict[str, Panel] = {}  # as they look now, by id
        self._started = clock()
        self._receipts: dict[str, Receipt | None] = {}  # by tap
        self._line = connect(self._received, self._changed)

    # The channel.

    def start(self) -> None:
        self._line.start()

    def close(self) -> None:
        self._line.close()

    def state(self) -> tuple[str, str]:
        if self._stage != IN or self._deaf:
            return "down", self._detail if self._stage != IN else self._deaf
        if abs(self._skew) < SKEW_SECONDS:
            return "up", ""
        return "up", msg(AHEAD if self._skew > 0 else BEHIND, abs(self._skew))

    def muted(self) -> bool:
        return self._clock() < self._muted_until

    def facts(self) -> Mapping[str, Any]:
        return {"machine": self._enrolment.name, "url": self._enrolment.url}

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        """Hand a request to the gateway, or say at once that it cannot be."""
        pending = Pending(announcement)
        is_away = self._stage != IN or bool(self._deaf)
        if is_away and announcement.is_back:
            # It may have a card, which nobody can tap by now.
            self._asks[ask.id] = pending
            pending.state = SHOWN
            if self._detail != NOT_YET:
                pending.lose()
        elif is_away:
            why = self._deaf or self._detail
            announcement.failed(f"the gateway is away: {why}")
        elif _grants(ask) and not _grants(self._carried(ask)):
            announcement.failed(NO_GRANTS)
        else:
            self._asks[ask.id] = pending
            self._send_ask(pending, ask)

            def give_up() -> None:
                """A card that leaves later counts again, if that is of use still."""
                if self._asks.get(pending.id) is pending and pending.state == SENT:
                    pending.fail("the gateway did not show it in time")

            self._later(SHOWN_SECONDS, give_up)

    def _send_again(self, pending: Pending) -> None:
        ask = self._approvals.ask(pending.id)
        if ask is not None:
            self._send_ask(pending, ask)

    def _send_ask(self, pending: Pending, ask: Ask) -> None:
        """Send an ask as cards show it; one that they cut whole, if it is not huge."""
        send = partial(self._send_carried, pending)
        if not ask.is_cut or not self._approvals.whole(ask.id, MAX_ASK, send):
            send(ask)

    def _send_carried(self, pending: Pending, ask: Ask) -> None:
        """Send what the gateway can read; nothing else may end the connection."""
        if self._asks.get(ask.id) is not pending or self._stage != IN:
            return  # it took a while
        sent = self._sendable(ask)
        if sent is None:
            del self._asks[ask.id]
            pending.fail("it is too large for a gateway")
            return
        pending.sent = sent
        self._cards.add(ask.id)
        self._line.watch(True)
        left, now = self._approvals.seconds_left(ask.id), self._wall()
        calm = [moment - now for moment in self._approvals.quiet_hours()]
        self._line.send("ask", ask=to_plain(sent), left=left, calm=calm)

    def _sendable(self, whole: Ask) -> Ask | None:
        """An ask as the gateway is given it; None if it cannot read it."""
        carried = self._carried(whole)
        return next(filter(_fits, (carried, shorten(carried, CUT_BLOCK))), None)

    def _carried(self, ask: Ask) -> Ask:
        """What a gateway is given to show: it must not be able to change what runs.

        Nor to grant what lasts, unless the person lets it.
        """
        ask = ask.without_edit()._replace(hold=ask.hold and EXTEND in self._can)
        if ask.what and HEADLINE not in self._can:
            # Its cards have no headline, which may be all that names the file.
            ask = ask._replace(blocks=(Block("text", "", ask.what), *ask.blocks))
        kind = KINDS.get(ask.kind)
        if self._grants or kind is None:
            return ask
        lasting = {row.name for row in kind.actions if row.lasts}
        ask = ask.keeping(lambda offer: offer.name not in lasting)
        return ask._replace(rules=(), rule_note="")

    def renew(self) -> None:
        """A request has more time than its card says."""
        for pending in list(self._asks.values()):
            ask = self._approvals.ask(pending.id) if pending.sent.hold else None
            if ask is not None and ask.seconds != pending.sent.seconds:
                self._send_ask(pending, ask)

    def keeps(self, id: str, is_back: bool = False) -> bool:
        return id in self._cards or (is_back and not self._knows_cards)

    def settle(self, outcome: Outcome) -> None:
        """A request has ended, here or elsewhere."""
        self._asks.pop(outcome.id, None)
        if not self._asks:
            self._line.watch(False)
        if outcome.id in self._cards:
            self._cards.discard(outcome.id)
            keep_last(self._records, outcome.id, False, RECORDS)
            self._tell("settle", outcome)

    def update(self, outcome: Outcome) -> None:
        """The result is known: its record says that too, now or later."""
        if outcome.id in self._records:
            self._records[outcome.id] = not self._tell("update", outcome)

    def _tell(self, kind: str, outcome: Outcome) -> bool:
        """Whether the gateway hears it; before the login it would not.

        Of an end that is not told it hears at the login, of its cards.
        """
        if self._stage != IN:
            return False
        return self._line.send(kind, outcome=to_plain(_readable(outcome)))

    def notify(self, notice: Notice) -> None:
        if self._stage == IN:
            short = notice._replace(text=notice.text[:CUT_BLOCK])
            self._line.send("notice", notice=to_plain(short))

    def change(self, panel: Panel) -> None:
        """The gateway hears of it now, or when it is back."""
        if self._stage != IN:
            keep_last(self._untold, panel.id, panel, MOST_UNTOLD)
        elif PANELS in self._can:
            self._line.send("panel", panel=to_plain(carried(panel)))

    # The connection.

    def _changed(self, up: bool, detail: str) -> None:
        """It began, or it ended."""
        if up:
            self._stage = HELLO
            return
        if self._stage == IN or detail != self._detail:
            log(f"the gateway is away: {detail}", "warning")
        self._stage, self._detail = AWAY, detail
        for id, pending in list(self._asks.items()):
            if pending.state in (SENT, LATE):
                del self._asks[id]
                pending.fail(f"the gateway is away: {detail}")
            pending.lose()

    def _reached(self, message: dict[str, Any]) -> None:
        """Whether taps can arrive: what is shown can be answered, or cannot."""
        detail = msg(one_line(str(message.get("detail", "")), MAX_DETAIL))
        was = self._deaf
        self._deaf = "" if message.get("ok") is True else detail or "no tap can arrive"
        if bool(was) == bool(self._deaf):
            return
        log(self._deaf or "taps can arrive again", "warning" if self._deaf else "info")
        for pending in list(self._asks.values()):
            pending.lose() if self._deaf else self._send_again(pending)

    def _received(self, message: dict[str, Any]) -> None:
        stage, row = _MESSAGES.get(message["t"], ("", None))
        if row is None or stage != self._stage:
            return
        try:
            row(self, message)
        except (PayloadError, ValueError, TypeError, KeyError) as error:
            log(f"the gateway said something odd: {error!r}", "warning")
            self._line.drop(f"the gateway said something odd: {error}")

    def _greeted(self, message: dict[str, Any]) -> None:
        """Prove our keys, the newest first."""
        own = self._enrolment
        self._nonce = secrets.token_hex(16)
        self._hello = str(message["nonce"])
        parts = (LOGIN, VERSION, own.machine, self._hello, self._nonce)
        self._line.send(
            "login",
            machine=own.machine,
            nonce=self._nonce,
            instance=self._instance,
            can=CAN,
            proofs=[prove(bytes.fromhex(key), *parts) for key in own.keys],
        )

    def _welcomed(self, message: dict[str, Any]) -> None:
        """The gateway has our key too; store the next one before it counts."""
        own = self._enrolment
        parts = (WELCOME, VERSION, own.machine, self._nonce, self._hello)
        proof = message.get("proof")
        proven = [k for k in own.keys if is_proof(proof, bytes.fromhex(k), *parts)]
        if not proven:
            raise PayloadError("the gateway does not have our key")
        fresh = str(message["next"])
        if len(bytes.fromhex(fresh)) != 32:
            raise PayloadError("a key that is none")
        self._told_time(message)
        self._keep(own._replace(name=_name(message)).with_key(fresh, proven[0]))
        self._proven = (fresh, proven[0])
        self._stage, self._detail = IN, ""
        self._can = frozenset(map(str, list_at(message, "can")))
        self._told_muted(message)
        self._deaf = one_line(str(message.get("deaf", "")), MAX_DETAIL)
        self._line.worked()
        proof = prove(bytes.fromhex(fresh), ROTATE, VERSION, own.machine, self._hello)
        self._line.send("rotated", proof=proof)
        log(f"connected to the gateway as {self._enrolment.name}")
        self._cards = {str(id) for id in message["cards"]}
        self._knows_cards = True
        for id, pending in list(self._asks.items()):
            if not pending.sent.id and id not in self._cards:
                del self._asks[id]  # it came back, and was shown elsewhere
            else:
                self._send_again(pending)
        for id in [id for id, is_due in self._records.items() if is_due]:
            outcome = self._approvals.outcome(id)
            if outcome is not None:
                self.update(outcome)  # it became known while the gateway was away
        while self._untold:
            self.change(self._untold.pop(next(iter(self._untold))))
        self._later(max(0.0, self._young()), self._settle_lost)

    def _told_time(self, message: dict[str, Any]) -> None:
        now = _moment(message["now"])
        self._ahead, self._skew = now - self._clock(), round(now - self._wall())

    def _young(self) -> float:
        """For how long hooks may still come back to this new server."""
        return self._started + RETURN_SECONDS - self._clock()

    def _settle_lost(self) -> None:
        """Cards of requests that ended while nobody could tell the gateway."""
        for id in list(self._cards):
            if not self._approvals.is_pending(id):
                lost = gone(Ask(id=id, language=self._language), self._wall())
                self.settle(self._approvals.outcome(id) or lost)

    def _told_muted(self, message: dict[str, Any]) -> None:
        """For how long the owner wants no card; a gateway could as well show none."""
        seconds = _moment(message.get("muted", 0))
        self._muted_until = self._clock() + min(seconds, MOST_MUTED)

    def _muted(self, message: dict[str, Any]) -> None:
        """The owner wants no card for a while, or wants them again."""
        self._told_muted(message)
        if not self.muted():
            self._approvals.end_quiet()

    def _renamed(self, message: dict[str, Any]) -> None:
        self._keep(self._enrolment._replace(name=_name(message)))

    def _keep(self, enrolment: Enrolment) -> None:
        try:
            self._save(enrolment)
        except FileError as error:  # then the old key must stay the good one
            raise PayloadError(f"the new key cannot be stored: {error}") from None
        self._enrolment = enrolment

    def _replaced(self, message: dict[str, Any]) -> None:
        log("this machine's key was used from elsewhere; it is no longer ours", "error")

    # Asks and taps.

    def _told_shown(self, message: dict[str, Any]) -> None:
        pending = self._asks.get(str(message["id"]))
        if pending is None:
            return
        if message.get("ok") is True:
            pending.shown(bool(self._deaf))
        else:
            del self._asks[pending.id]
            pending.fail(str(message.get("detail", "")))

    def _tapped(self, message: dict[str, Any]) -> None:
        """Judge a tap, and tell what came of it; again if it comes again."""
        tap = str(message["tap"])
        is_new = tap not in self._receipts
        receipt = self._judge(tap, message) if is_new else self._receipts[tap]
        if receipt is not None:
            self._tell_receipt(tap, receipt)
        # What takes a while is done once, too.
        keep_last(self._receipts, tap, self._receipts.get(tap), REMEMBERED)

    def _tell_receipt(self, tap: str, receipt: Receipt) -> None:
        receipt = receipt._replace(outcome=_readable(receipt.outcome))
        self._receipts[tap] = receipt
        self._line.send("receipt", tap=tap, receipt=to_plain(receipt))

    def _judge(self, tap: str, message: dict[str, Any]) -> Receipt | None:
        """Whether a tap counts here; the approvals decide what it does.

        None: its receipt follows.  Raises PayloadError unless the gateway has proven
        that it has our key.
        """
        answer, at = from_plain(Answer, message.get("answer")), _moment(message["at"])
        parts = tap_parts(self._enrolment.machine, tap, to_plain(answer), at)
        proof, keys = message.get("proof"), map(bytes.fromhex, self._proven)
        if not any(is_proof(proof, key, TAP, *parts) for key in keys):
            raise PayloadError("a tap without the proof of our key")
        is_command = not answer.id and answer.action in (PRESS, *SERVED_COMMANDS)
        refusal = self._refusal(answer, at, is_command)
        if refusal is not None:
            return refusal
        if is_command:
            self._obey(tap, answer)
            return None
        if answer.action == HOLD:
            return self._extend(answer)
        offered = self._as_offered(answer)
        if offered is None:
            return self._refuse(NOT_OFFERED)
        receipt = self._approvals.answer(offered._replace(surface="gateway"))
        if receipt.status == statuses.UNKNOWN and self._young() > 0:
            again = msg("The server has just restarted: please tap again")
            return Receipt(statuses.INCOMPLETE, error=text(self._language, again))
        return receipt

    def _refusal(self, answer: Answer, at: float, is_command: bool) -> Receipt | None:
        """What is wrong with a tap, whatever it is on: who, what, when."""
        own, age = self._enrolment, self._clock() + self._ahead - at
        if answer.who != own.owner:
            self._approvals.note_refused(answer.id, answer.action, answer.who)
            owner = own.owner_name or own.owner
            return self._refuse(msg("Only {owner} may do this"), owner=owner)
        if not answer.digest and not is_command:
            return self._refuse(NOT_AS_SHOWN)
        if not -EARLY_SECONDS <= age <= LATE_SECONDS:
            return self._refuse(
                msg("The tap came too late and did nothing: please tap again")
            )
        return None

    def _as_offered(self, answer: Answer) -> Answer | None:
        """The answer with what its button takes along; None if there is none."""
        sent = self._given(answer.id)
        if sent is None:
            return answer  # it is not pending: the approvals say so
        for offer in sent.offered:
            if offer.name == answer.action:
                values = {k: v for k, v in answer.values.items() if k in offer.fields}
                return answer._replace(values=values)
        return None

    def _given(self, id: str) -> Ask | None:
        """A request that is pending, as the gateway was given it.

        Of one that came back while the gateway was away it has the card of before,
        which offered the same.
        """
        pending = self._asks.get(id)
        if pending and (pending.sent.id or not pending.announcement.is_back):
            return pending.sent
        ask = self._approvals.ask(id)
        return None if ask is None else self._sendable(ask) or Ask()

    def _extend(self, answer: Answer) -> Receipt:
        """Somebody reads: that gives time once, and only what this machine allows."""
        ask = self._approvals.ask(answer.id)
        if ask is None:
            outcome = self._approvals.outcome(answer.id)
            return Receipt(statuses.ENDED, outcome) if outcome else UNKNOWN
        if answer.digest != ask.digest:
            return self._refuse(NOT_AS_SHOWN)
        if not self._approvals.extend_deadline(answer.id, answer.who):
            return self._refuse(NOT_OFFERED)
        ends = self._wall() + self._approvals.seconds_left(answer.id)
        return Receipt(statuses.EXTENDED, Outcome(answer.id, ended=ends))

    def _obey(self, tap: str, answer: Answer) -> None:
        """A command of the owner's; what a gateway may do, its service judges."""
        given = {name: "".join(value) for name, value in answer.values.items()}
        words, panel = given.get("words", "")[:MOST_WORDS], given.get("panel", "")
        asker = Asker(answer.who, "gateway", self.name)

        def then(told: Told) -> None:
            said = text(self._language, told.said) if told.said else ""
            plain = to_plain(told._replace(said=said, panel=carried(told.panel)))
            lines = (json.dumps(plain),)
            self._tell_receipt(tap, Receipt(statuses.TOLD, Outcome(lines=lines)))
            self._later(LATE_SECONDS, forget)

        def forget() -> None:
            """A panel is large; by now no tap counts that comes again."""
            if tap in self._receipts:
                self._receipts[tap] = None

        if answer.action == PRESS:
            press = given.get(PRESS, "")
            self._sessions.press(panel, press, words, asker, then)
        else:
            self._sessions.command(answer.action, words, asker, then)

    def _refuse(self, key: str, **values: object) -> Receipt:
        return Receipt(statuses.REFUSED, error=text(self._language, key, **values))


def dial_gateway(url: str, connect: Connect) -> tuple[socket.socket, bytes]:
    """A connected socket and what came behind the handshake; blocks.

    Raises OSError and FeishupermError, whose texts are ready to be shown.
    """

    def refused(error: HandshakeRefused) -> FeishupermError:
        return FeishupermError(
            msg(
                "{} answered HTTP {}: it is not a feishuperm gateway",
                url_host(url),
                error.status,
            )
        )

    line = url.replace("http", "ws", 1).rstrip("/") + PATH
    return open_websocket(connect, line, refused, PROTOCOLS)


def _fits(value: Ask | Outcome) -> bool:
    """Whether the gateway can read it: it has limits of size and number."""
    plain = to_plain(value)
    try:
        from_plain(type(value), plain)
    except PayloadError:
        return False
    return len(json.dumps(plain)) <= MAX_ASK


def _grants(ask: Ask) -> bool:
    return any(offer.grants for offer in ask.actions)


def _moment(said: object) -> float:
    """A moment as the gateway tells it. Raises PayloadError."""
    if isinstance(said, bool) or not isinstance(said, (int, float)):
        raise PayloadError("a moment that is no number")
    if not abs(said) < LARGEST:  # nor is it one if it is not a number at all
        raise PayloadError("a moment out of reach")
    return float(said)


def _readable(outcome: Outcome) -> Outcome:
    """The outcome, without details if the gateway could not read it."""
    return outcome if _fits(outcome) else outcome.bare()


def _name(message: dict[str, Any]) -> str:
    """What the gateway calls us: it is shown on terminals."""
    return one_line(str(message["name"]), MAX_NAME)


_MESSAGES: dict[str, tuple[str, Callable[[GatewayChannel, dict[str, Any]], None]]] = {
    "hello": (HELLO, GatewayChannel._greeted),
    "welcome": (HELLO, GatewayChannel._welcomed),
    "renamed": (IN, GatewayChannel._renamed),
    "replaced": (IN, GatewayChannel._replaced),
    "reach": (IN, GatewayChannel._reached),
    "time": (IN, GatewayChannel._told_time),
    "muted": (IN, GatewayChannel._muted),
    "shown": (IN, GatewayChannel._told_shown),
    "tap": (IN, GatewayChannel._tapped),
}
