"""The team's gateway as one more channel: asks out, taps in, over one connection.

The gateway shows; this machine judges.  A tap counts if it proves our key, is fresh,
comes from the person who confirmed this machine, carries the digest of a request that
is pending here, and does what its card offered; then it enters the desk like any other
answer.  Nothing the gateway
says can do more than that.

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
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from feishuperm.channels.app.channel import Counter
from feishuperm.channels.base import Announcement, Channel, gone
from feishuperm.errors import FileError, PayloadError
from feishuperm.lib.display import one_line
from feishuperm.lib.enrolment import Enrolment
from feishuperm.lib.log import log
from feishuperm.lib.text import text
from feishuperm.models import ask as statuses
from feishuperm.models.ask import (
    LARGEST,
    Answer,
    Ask,
    Notice,
    Outcome,
    Receipt,
    from_plain,
    shorten,
    to_plain,
)
from feishuperm.models.kind import KINDS
from feishuperm.protocol.machine import (
    LOGIN,
    ROTATE,
    TAP,
    WELCOME,
    is_proof,
    prove,
    tap_parts,
)


class Line(Protocol):
    """The connection, see `server.machine_line`."""

    def start(self) -> None: ...

    def close(self) -> None: ...

    def send(self, kind: str, **parts: Any) -> bool: ...

    def worked(self) -> None: ...

    def drop(self, why: str) -> None: ...

    def watch(self, is_card_out: bool) -> None: ...


AWAY, HELLO, IN = "away", "hello", "in"
NOT_YET = "not connected yet"
VERSION = "1"
SENT, LATE, SHOWN, LOST = "sent", "late", "shown", "lost"
SKEW_SECONDS = 10  # between two clocks that are worth a word
MAX_ASK = 400_000  # bytes of an ask; a longer one is cut, and can then only be refused
CUT_BLOCK = 20_000
SHOWN_SECONDS = 10.0  # for a card to leave
RETURN_SECONDS = 20.0  # in which hooks come back to a new server
LATE_SECONDS = 60.0  # a tap that took so long is not applied
EARLY_SECONDS = 5.0  # that a tap may seem to be ahead: the way of a message, twice
NO_GRANTS = "FEISHUPERM_GATEWAY_GRANTS is off: no prompt comes through a gateway"
MAX_NAME = 60
MAX_DETAIL = 300
RECORDS = 200  # settled cards that may still have to tell what came of it
REMEMBERED = 1000  # taps, to answer the same to the same


class Pending:
    """An ask that the gateway was given, until its request ends."""

    def __init__(self, ask: Ask, announcement: Announcement) -> None:
        self.ask = ask
        self.announcement = announcement
        self.state = SENT
        self.sent = Ask()  # as the gateway was given it: a tap may do what it offers

    def shown(self, is_deaf: bool) -> None:
        self.state = SHOWN
        self.announcement.done(True, "")
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
            self.announcement.done(False, why)


class GatewayChannel(Channel):
    """One gateway. Everything happens on the loop."""

    name = "gateway"

    def __init__(
        self,
        enrolment: Enrolment,
        counter: Counter,
        line: Callable[[Callable[..., object], Callable[[bool, str], object]], Line],
        later: Callable[[float, Callable[[], None]], object],
        save: Callable[[Enrolment], object],
        language: str = "zh",
        grants: bool = False,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._enrolment = enrolment
        self._counter = counter
        self._later = later
        self._save = save
        self._language = language
        self._grants = grants  # what lasts may be granted from there
        self._wall = wall
        self._instance = secrets.token_hex(8)
        self._nonce = ""
        self._hello = ""  # the gateway's nonce
        self._ahead = 0.0  # of our clock: the gateway's, which goes on as evenly
        self._skew = 0  # seconds that its wall clock is ahead of ours
        self._proven = enrolment.keys[:1]  # what it proves taps by
        self._stage, self._detail = AWAY, NOT_YET
        self._deaf = ""  # why no tap can arrive though the gateway is there
        self._asks: dict[str, Pending] = {}
        self._cards: set[str] = set()  # requests of which the gateway may have a card
        self._knows_cards = False  # the gateway has told them to this server
        # Ended requests whose cards may have more to tell, and whether it is due.
        self._records: OrderedDict[str, bool] = OrderedDict()
        self._started = clock()
        self._clock = clock
        self._receipts: OrderedDict[str, Receipt] = OrderedDict()
        self._line = line(self._received, self._changed)

    # The channel.

    def start(self) -> None:
        self._line.start()

    def close(self) -> None:
        self._line.close()

    def state(self) -> tuple[str, str]:
        if self._stage != IN:
            return "down", self._detail
        return ("down", self._deaf) if self._deaf else ("up", self._clocks())

    def _clocks(self) -> str:
        """That two clocks differ, if that is worth a word."""
        if abs(self._skew) < SKEW_SECONDS:
            return ""
        if self._skew > 0:
            return f"the gateway's clock is {self._skew} s ahead of this machine's"
        return f"the gateway's clock is {-self._skew} s behind this machine's"

    def facts(self) -> Mapping[str, Any]:
        return {"machine": self._enrolment.name, "url": self._enrolment.url}

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        """Hand a request to the gateway, or say at once that it cannot be."""
        is_away = self._stage != IN or bool(self._deaf)
        if is_away and announcement.is_back:
            self._watch_over(Pending(ask, announcement))
            return
        if is_away:
            why = self._deaf or self._detail
            announcement.done(False, f"the gateway is away: {why}")
            return
        if _grants(ask) and not _grants(self._carried(ask)):
            announcement.done(False, NO_GRANTS)
            return
        pending = self._asks[ask.id] = Pending(ask, announcement)
        self._send_ask(pending)
        self._later(SHOWN_SECONDS, lambda: self._give_up(pending))

    def _watch_over(self, pending: Pending) -> None:
        """A request that came back may have a card, which nobody can tap by now."""
        self._asks[pending.ask.id] = pending
        pending.state = SHOWN
        if self._detail != NOT_YET:
            pending.lose()

    def _send_ask(self, pending: Pending) -> None:
        """Send an ask as cards show it; one that they cut whole, if it is not huge."""
        ask = self._counter.ask(pending.ask.id) or pending.ask
        send = partial(self._send_carried, pending)
        if not ask.is_cut or not self._counter.whole(ask.id, MAX_ASK, send):
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
        left = ask.created + ask.seconds - self._wall()
        self._line.send("ask", ask=to_plain(sent), left=left)

    def _sendable(self, whole: Ask) -> Ask | None:
        """An ask as the gateway is given it; None if it cannot read it."""
        carried = self._carried(whole)
        shorter = (carried, shorten(carried, CUT_BLOCK))
        return next((ask for ask in shorter if _fits(Ask, to_plain(ask))), None)

    def _carried(self, ask: Ask) -> Ask:
        """What a gateway is given to show: it must not be able to change what runs.

        Nor to grant what lasts, unless the person lets it.
        """
        ask = ask.without_edit()._replace(hold=False)
        kind = KINDS.get(ask.kind)
        if self._grants or kind is None:
            return ask
        lasting = frozenset(row.name for row in kind.actions if row.lasts)
        return ask.without(lasting)._replace(rules=(), rule_note="")

    def _give_up(self, pending: Pending) -> None:
        """A card that leaves later counts again, if its request is still pending."""
        if self._asks.get(pending.ask.id) is pending and pending.state == SENT:
            pending.fail("the gateway did not show it in time")

    def keeps(self, id: str, is_back: bool = False) -> bool:
        return id in self._cards or (is_back and not self._knows_cards)

    def settle(self, outcome: Outcome) -> None:
        """A request has ended, here or elsewhere."""
        self._asks.pop(outcome.id, None)
        if not self._asks:
            self._line.watch(False)
        if outcome.id in self._cards:
            self._cards.discard(outcome.id)
            self._records[outcome.id] = False
            while len(self._records) > RECORDS:
                self._records.popitem(last=False)
            self._tell("settle", outcome)

    def update(self, outcome: Outcome) -> None:
        """What came of it is known: its record says that too, now or later."""
        if outcome.id in self._records:
            self._records[outcome.id] = not self._tell("update", outcome)

    def _tell(self, kind: str, outcome: Outcome) -> bool:
        """Whether the gateway hears it; before the login it would not.

        Of an end that is not told it hears at the login, of its cards.
        """
        if self._stage != IN:
            return False
        return self._line.send(kind, outcome=to_plain(_readable(outcome)))

    def _update_late(self) -> None:
        """What became known while the gateway was away."""
        for id in [id for id, is_due in self._records.items() if is_due]:
            outcome = self._counter.outcome(id)
            if outcome is not None:
                self.update(outcome)

    def notify(self, notice: Notice) -> None:
        if self._stage == IN:
            short = notice._replace(text=notice.text[:CUT_BLOCK])
            self._line.send("notice", notice=to_plain(short))

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
        detail = one_line(str(message.get("detail", "")), MAX_DETAIL)
        was = self._deaf
        self._deaf = "" if message.get("ok") is True else detail or "no tap can arrive"
        if bool(was) == bool(self._deaf):
            return
        log(self._deaf or "taps can arrive again", "warning" if self._deaf else "info")
        for pending in list(self._asks.values()):
            pending.lose() if self._deaf else self._send_ask(pending)

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
                self._send_ask(pending)
        self._update_late()
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
            if not self._counter.waits(id):
                lost = gone(Ask(id=id, language=self._language), self._wall())
                self.settle(self._counter.outcome(id) or lost)

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
            del self._asks[pending.ask.id]
            pending.fail(str(message.get("detail", "")))

    def _tapped(self, message: dict[str, Any]) -> None:
        tap = str(message["tap"])
        receipt = self._receipts.get(tap)
        if receipt is None:
            receipt = self._judge(tap, message)
            receipt = receipt._replace(outcome=_readable(receipt.outcome))
            self._receipts[tap] = receipt
            while len(self._receipts) > REMEMBERED:
                self._receipts.popitem(last=False)
        self._line.send("receipt", tap=tap, receipt=to_plain(receipt))

    def _judge(self, tap: str, message: dict[str, Any]) -> Receipt:
        """Whether a tap counts here; the desk decides what it does."""
        answer, at = from_plain(Answer, message.get("answer")), _moment(message["at"])
        parts = tap_parts(self._enrolment.machine, tap, to_plain(answer), at)
        keys = [bytes.fromhex(key) for key in self._proven]
        if not any(is_proof(message.get("proof"), key, TAP, *parts) for key in keys):
            raise PayloadError("a tap without the proof of our key")
        refusal = self._refusal(answer, at)
        offered = None if refusal else self._as_offered(answer)
        if refusal or offered is None:
            return refusal or self._refuse("answer.not_offered")
        receipt = self._counter.answer(offered._replace(surface="gateway"))
        if receipt.status == statuses.UNKNOWN and self._young() > 0:
            again = text(self._language, "answer.again")
            return Receipt(statuses.INCOMPLETE, error=again)
        return receipt

    def _refusal(self, answer: Answer, at: float) -> Receipt | None:
        """What is wrong with a tap, whatever it is on: who, what, when."""
        if answer.who != self._enrolment.owner:
            self._counter.refused(answer.id, answer.action, answer.who)
            owner = self._enrolment.owner_name or self._enrolment.owner
            return self._refuse("answer.only_owner", owner=owner)
        if not answer.digest:
            return self._refuse("answer.other")
        age = self._clock() + self._ahead - at
        if not -EARLY_SECONDS <= age <= LATE_SECONDS:
            return self._refuse("answer.late")
        return None

    def _as_offered(self, answer: Answer) -> Answer | None:
        """The answer with what its button takes along; None if there is none."""
        sent = self._given(answer.id)
        if sent is None:
            return answer  # it is not pending: the desk says so
        offers = [offer for offer in sent.offered if offer.name == answer.action]
        if not offers:
            return None
        named = offers[0].fields
        values = {k: v for k, v in answer.values.items() if k in named}
        return answer._replace(values=values)

    def _given(self, id: str) -> Ask | None:
        """A request that is pending, as the gateway was given it.

        Of one that came back while the gateway was away it has the card of before,
        which offered the same.
        """
        pending = self._asks.get(id)
        if pending is not None and (
            pending.sent.id or not pending.announcement.is_back
        ):
            return pending.sent
        ask = self._counter.ask(id)
        return None if ask is None else self._sendable(ask) or Ask()

    def _refuse(self, key: str, **values: object) -> Receipt:
        return Receipt(statuses.REFUSED, error=text(self._language, key, **values))


def _fits(shape: type[Ask] | type[Outcome], plain: dict[str, Any]) -> bool:
    """Whether the gateway can read it: it has limits of size and number."""
    try:
        from_plain(shape, plain)
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
    return outcome if _fits(Outcome, to_plain(outcome)) else outcome.bare()


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
    "shown": (IN, GatewayChannel._told_shown),
    "tap": (IN, GatewayChannel._tapped),
}
