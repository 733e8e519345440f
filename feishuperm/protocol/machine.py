"""What a machine and a gateway say to each other: JSON texts over a WebSocket.

Sans-IO and the same at both ends.  A `MachineWire` turns bytes into messages (objects
with a type, `t`), answers pings, and knows when the other end is dead.  Who may say
what is not known here; how a login, a new key and a tap are proven is:

    gateway -> machine   hello     nonce
    machine -> gateway   login     machine, nonce, instance, proofs (by each key that it
                                   has), what else it understands (`can`)
    gateway -> machine   welcome   proof, name, now, a key to come (`next`), the ids of
                                   the cards that are out (`cards`), and why no tap can
                                   arrive (`deaf`; empty: they can), what else it
                                   understands (`can`), for how long its owner wants no
                                   card (`muted`, in seconds)
    machine -> gateway   rotated   proof by that key; the old one dies at the next login
    gateway -> machine   rotated
    machine -> gateway   ask, settle, update (what came of it), notice, receipt, panel
    gateway -> machine   shown, tap, replaced; `time` now and then; `reach` when taps
                         cannot arrive any more or can again; `muted`; what is unknown
                         is skipped by both

    can "extend"         asks offer more time, and come again when it was given
    can "panels"         a tap without a request is a command of the owner's, or a press
                         on a panel; its receipt holds a `Told`, and what changes later
                         is a `panel`

    machine -> gateway   join      name, user, owner (whom to ask; or empty)
    gateway -> machine   code      six digits, seconds
                         joined    machine, key, owner, owner_name, name
    machine -> gateway   stored    now the enrolment holds

A proof is an HMAC over parts that each carry their length, so that no two lists of
parts are the same bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

from feishuperm.messages import msg
from feishuperm.models.fields import decoded
from feishuperm.protocol.websocket import (
    GOING_AWAY,
    POLICY,
    TRY_LATER,
    Close,
    Conversation,
    WebSocket,
)

__all__ = ["GOING_AWAY", "POLICY", "TRY_LATER", "MachineWire", "is_proof", "prove"]

PROTOCOLS = ("feishuperm.1",)
PATH = "/machine"
PING_SECONDS = 25.0  # proxies cut what is idle for a minute
DEAD_SECONDS = 60.0  # without a byte: two pings were not answered
# The same while a card is out: who asks must learn soon that no tap can arrive.
QUICK_PING_SECONDS, QUICK_DEAD_SECONDS = 2.0, 8.0
REVOKED = "revoked"  # the one reason of a close that is final
REPLACED = msg("replaced by a newer connection")
# What either end may understand: more time, an ask whose headline names what its blocks
# leave out, panels.
EXTEND, HEADLINE, PANELS = "extend", "headline", "panels"
CAN = (EXTEND, HEADLINE, PANELS)
PRESS = "press"  # the command that is a tap on a panel
MAX_MESSAGE = 1 << 20
EARLY_MESSAGE = 1 << 14  # of somebody who has not logged in
LOGIN, WELCOME, ROTATE, TAP = (
    f"feishuperm {purpose} v1" for purpose in ("login", "welcome", "rotate", "tap")
)


def prove(key: bytes, *parts: str) -> str:
    """That the sender of these parts has the key."""
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode(errors="surrogatepass")
        mac.update(len(data).to_bytes(4, "big") + data)
    return mac.hexdigest()


def is_proof(proof: object, key: bytes, *parts: str) -> bool:
    """Whether a proof is right; anything else than a text is none."""
    given = proof.encode(errors="replace") if isinstance(proof, str) else b""
    return bool(key) and hmac.compare_digest(given, prove(key, *parts).encode())


def tap_parts(
    machine: str, tap: str, answer: dict[str, Any], at: float
) -> tuple[str, ...]:
    """What the proof of a tap is over: all of it, and when it was."""
    return machine, tap, repr(float(at)), json.dumps(answer, sort_keys=True)


class MachineWire(Conversation):
    """One end of an open connection."""

    def __init__(
        self, client: bool, now: float, wall: float = 0.0, first_ping: float = 0.0
    ) -> None:
        socket = WebSocket(client, MAX_MESSAGE if client else EARLY_MESSAGE)
        super().__init__(socket, now, wall)
        self._client = client
        self._heard = now
        self._next_ping = now + (first_ping or PING_SECONDS)
        self._asked = now  # when the first ping left that nothing was heard after
        self._is_card_out = False

    # In.

    def receive_data(self, data: bytes, now: float) -> None:
        """Take what arrived."""
        self._heard = now
        super().receive_data(data, now)

    def _read(self, data: bytes) -> dict[str, Any] | None:
        message = decoded(data)
        if isinstance(message, dict) and isinstance(message.get("t"), str):
            return message
        self.close(1003, "not a message")
        self.trouble = "what came is not a message"
        return None

    def _farewell(self, close: Close) -> str:
        return close.reason or f"closed by the other end ({close.code})"

    def trust(self) -> None:
        """The other end has logged in: it may say more at once."""
        self._socket.limit = MAX_MESSAGE

    # Out.

    def send(self, kind: str, **parts: Any) -> None:
        """Queue a message."""
        data = json.dumps({"t": kind, **parts}, ensure_ascii=False).encode(
            errors="replace"
        )
        self._out += self._socket.send_message(data, text=True)

    def tick(self, now: float, wall: float = 0.0) -> None:
        """Time has passed: ping, or find the other end dead."""
        self.notice_sleep(now, wall)
        if self._is_dead(now):
            self.trouble = "the other end does not answer"
        elif self._is_ping_due(now):
            self._asked = now if self._heard >= self._asked else self._asked
            self._next_ping = now + PING_SECONDS
            self._out += self._socket.send_ping()

    def watch(self, is_card_out: bool, now: float) -> None:
        self._is_card_out = is_card_out

    def _is_dead(self, now: float) -> bool:
        if now - self._heard > DEAD_SECONDS:
            return True
        is_asked = self._client and self._asked > self._heard
        return is_asked and now - self._asked > QUICK_DEAD_SECONDS

    def _is_ping_due(self, now: float) -> bool:
        if self._client:
            return self._is_card_out and now - self._heard >= QUICK_PING_SECONDS
        return now >= self._next_ping
