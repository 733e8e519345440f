"""The team's gateway as one more channel: asks out, taps in, over one connection.

The gateway shows; this machine judges.  A tap counts if it proves our key, is fresh,
comes from the person who confirmed this machine, and carries the digest of a request
that waits here; then it enters the desk like any other answer.  Nothing the gateway
says can do more than that.

    away     no connection; requests stay in the inbox and the terminal
    hello    connected, the login is under way
    in       asks go out, taps come in
"""

from __future__ import annotations

import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
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
    Answer,
    Ask,
    Notice,
    Outcome,
    Receipt,
    from_plain,
    shorten,
    to_plain,
)
from feishuperm.protocol.machine import LOGIN, ROTATE, TAP, WELCOME, is_proof, prove


class Line(Protocol):
    """The connection, see `server.machine_line`."""

    def start(self) -> None: ...

    def close(self) -> None: ...

    def send(self, kind: str, **parts: Any) -> bool: ...

    def worked(self) -> None: ...

    def drop(self) -> None: ...


AWAY, HELLO, IN = "away", "hello", "in"
VERSION = "1"
MAX_ASK = 400_000  # bytes of an ask; a longer one is cut, and can then only be refused
CUT_BLOCK = 20_000
SHOWN_SECONDS = 10.0  # for a card to leave
RETURN_SECONDS = 20.0  # in which hooks come back to a new server
LATE_SECONDS = 60.0  # a tap that took so long is not applied
MAX_NAME = 60
RECORDS = 200  # settled cards that may still have to tell what came of it
REMEMBERED = 1000  # taps, to answer the same to the same


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
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._enrolment = enrolment
        self._counter = counter
        self._later = later
        self._save = save
        self._language = language
        self._wall = wall
        self._instance = secrets.token_hex(8)
        self._nonce = ""
        self._hello = ""  # the gateway's nonce
        self._ahead = 0.0  # of our wall clock: the gateway's
        self._stage, self._detail = AWAY, "not connected yet"
        self._asks: dict[str, tuple[Ask, Announcement]] = {}  # what waits
        self._shown: set[str] = set()
        self._cards: set[str] = set()  # ids of the cards that the gateway has out
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
        return ("up", "") if self._stage == IN else ("down", self._detail)

    def facts(self) -> Mapping[str, Any]:
        return {"machine": self._enrolment.name, "url": self._enrolment.url}

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        """Hand a request to the gateway, or say at once that it cannot be."""
        if self._stage != IN:
            announcement.done(False, f"the gateway is away: {self._detail}")
            return
        self._asks[ask.id] = (ask, announcement)
        self._send_ask(ask)
        self._later(SHOWN_SECONDS, lambda: self._give_up(ask.id, announcement))

    def _send_ask(self, ask: Ask) -> None:
        whole = self._carried(self._counter.whole(ask.id) or ask)
        plain = to_plain(whole)
        if len(json.dumps(plain)) > MAX_ASK:
            plain = to_plain(shorten(whole, CUT_BLOCK))
        self._line.send("ask", ask=plain)

    def _carried(self, ask: Ask) -> Ask:
        """What a gateway is given to show: it must not be able to change what runs."""
        return ask.without_edit()._replace(hold=False)

    def _give_up(self, id: str, announcement: Announcement) -> None:
        kept = self._asks.get(id)
        if kept is not None and kept[1] is announcement and id not in self._shown:
            del self._asks[id]
            announcement.done(False, "the gateway did not show it in time")

    def keeps(self, id: str) -> bool:
        return id in self._cards

    def settle(self, outcome: Outcome) -> None:
        """A request has ended, here or elsewhere."""
        self._shown.discard(outcome.id)
        waited = self._asks.pop(outcome.id, None) is not None
        if waited or outcome.id in self._cards:
            self._cards.discard(outcome.id)
            self._records[outcome.id] = False
            while len(self._records) > RECORDS:
                self._records.popitem(last=False)
            self._tell("settle", outcome)

    def update(self, outcome: Outcome) -> None:
        """What came of it is known: its record says that too, now or later."""
        if outcome.id in self._records:
            self._records[outcome.id] = self._stage != IN
            if self._stage == IN:
                self._tell("update", outcome)

    def _tell(self, kind: str, outcome: Outcome) -> None:
        self._line.send(kind, outcome=to_plain(outcome))

    def _update_late(self) -> None:
        """What became known while the gateway was away."""
        for id in [id for id, is_due in self._records.items() if is_due]:
            outcome = self._counter.outcome(id)
            if outcome is not None:
                self.update(outcome)

    def notify(self, notice: Notice) -> None:
        if self._stage == IN:
            self._line.send("notice", notice=to_plain(notice))

    # The connection.

    def _changed(self, up: bool, detail: str) -> None:
        """It began, or it ended."""
        if up:
            self._stage = HELLO
            return
        if self._stage == IN or detail != self._detail:
            log(f"the gateway is away: {detail}", "warning")
        self._stage, self._detail = AWAY, detail
        for id, (_, announcement) in list(self._asks.items()):
            if id in self._shown:
                announcement.lost()
            else:
                del self._asks[id]
                announcement.done(False, f"the gateway is away: {detail}")

    def _received(self, message: dict[str, Any]) -> None:
        stage, row = _MESSAGES.get(message["t"], ("", None))
        if row is None or stage != self._stage:
            return
        try:
            row(self, message)
        except (PayloadError, ValueError, TypeError, KeyError) as error:
            log(f"the gateway said something odd: {error!r}", "warning")
            self._line.drop()

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
        self._ahead = float(message["now"]) - self._wall()
        self._keep(own._replace(name=_name(message)).with_key(fresh, proven[0]))
        self._stage, self._detail = IN, ""
        self._line.worked()
        proof = prove(bytes.fromhex(fresh), ROTATE, VERSION, own.machine, self._hello)
        self._line.send("rotated", proof=proof)
        log(f"connected to the gateway as {self._enrolment.name}")
        self._cards = {str(id) for id in message["cards"]}
        for ask, _ in self._asks.values():
            self._send_ask(ask)
        self._update_late()
        self._later(max(0.0, self._young()), self._settle_lost)

    def _young(self) -> float:
        """For how long hooks may still come back to this new server."""
        return self._started + RETURN_SECONDS - self._clock()

    def _settle_lost(self) -> None:
        """Cards of requests that ended while nobody could tell the gateway."""
        for id in list(self._cards):
            if not self._counter.waits(id):
                lost = gone(Ask(id=id, language=self._language), self._wall())
                self.settle(self._counter.outcome(id) or lost)

    def _rotated(self, message: dict[str, Any]) -> None:
        self._keep(self._enrolment._replace(keys=self._enrolment.keys[:1]))

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
        id = str(message["id"])
        kept = self._asks.get(id)
        if kept is None:
            return
        if message.get("ok") is True:
            self._shown.add(id)
        else:
            self._shown.discard(id)
            del self._asks[id]
        kept[1].done(message.get("ok") is True, str(message.get("detail", "")))

    def _tapped(self, message: dict[str, Any]) -> None:
        tap = str(message["tap"])
        receipt = self._receipts.get(tap)
        if receipt is None:
            receipt = self._judge(tap, message)
            self._receipts[tap] = receipt
            while len(self._receipts) > REMEMBERED:
                self._receipts.popitem(last=False)
        self._line.send("receipt", tap=tap, receipt=to_plain(receipt))

    def _judge(self, tap: str, message: dict[str, Any]) -> Receipt:
        """Whether a tap counts here; the desk decides what it does."""
        answer = from_plain(Answer, message.get("answer"))
        plain = to_plain(answer)
        parts = (self._enrolment.machine, answer.id, answer.action, answer.digest, tap,
                 answer.who, json.dumps(plain["values"]))  # fmt: skip
        keys = [bytes.fromhex(key) for key in self._enrolment.keys]
        if not any(is_proof(message.get("proof"), key, TAP, *parts) for key in keys):
            raise PayloadError("a tap without the proof of our key")
        if answer.who != self._enrolment.owner:
            self._counter.refused(answer.id, answer.action, answer.who)
            owner = self._enrolment.owner_name or self._enrolment.owner
            return self._refuse("answer.only_owner", owner=owner)
        if not answer.digest:
            return self._refuse("answer.other")
        if self._wall() + self._ahead - float(message["at"]) > LATE_SECONDS:
            return self._refuse("answer.late")
        whole = self._counter.whole(answer.id)
        if whole is not None and self._carried(whole).offer(answer.action) is None:
            return self._refuse("answer.not_offered")
        receipt = self._counter.answer(answer._replace(surface="gateway"))
        if receipt.status == statuses.UNKNOWN and self._young() > 0:
            again = text(self._language, "answer.again")
            return Receipt(statuses.INCOMPLETE, error=again)
        return receipt

    def _refuse(self, key: str, **values: object) -> Receipt:
        return Receipt(statuses.REFUSED, error=text(self._language, key, **values))


def _name(message: dict[str, Any]) -> str:
    """What the gateway calls us: it is shown on terminals."""
    return one_line(str(message["name"]), MAX_NAME)


_MESSAGES: dict[str, tuple[str, Callable[[GatewayChannel, dict[str, Any]], None]]] = {
    "hello": (HELLO, GatewayChannel._greeted),
    "welcome": (HELLO, GatewayChannel._welcomed),
    "rotated": (IN, GatewayChannel._rotated),
    "renamed": (IN, GatewayChannel._renamed),
    "replaced": (IN, GatewayChannel._replaced),
    "shown": (IN, GatewayChannel._told_shown),
    "tap": (IN, GatewayChannel._tapped),
}
