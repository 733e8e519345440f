"""What a machine and a gateway say to each other: JSON texts over a WebSocket.

Sans-IO and the same at both ends.  A `MachineWire` turns bytes into messages (objects
with a type, `t`), answers pings, and knows when the other end is dead.  Who may say
what is not known here; how a login, a new key and a tap are proven is:

    gateway -> machine   hello     nonce
    machine -> gateway   login     machine, nonce, instance, proofs (by each key it has)
    gateway -> machine   welcome   proof, name, now, a key to come (`next`), and the ids
                                   of the cards that are out (`cards`)
    machine -> gateway   rotated   proof by that key; the old one dies at both ends
    gateway -> machine   rotated
    machine -> gateway   ask, settle, update (what came of it), notice, receipt
    gateway -> machine   shown, tap, replaced; what is unknown is skipped by both

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

from feishuperm.models.fields import decoded
from feishuperm.protocol.websocket import (
    GOING_AWAY,
    POLICY,
    TRY_LATER,
    Close,
    Message,
    Ping,
    WebSocket,
    WebSocketError,
)

__all__ = ["GOING_AWAY", "POLICY", "TRY_LATER", "MachineWire", "is_proof", "prove"]

PROTOCOLS = ("feishuperm.1",)
PATH = "/machine"
PING_SECONDS = 25.0  # proxies cut what is idle for a minute
DEAD_SECONDS = 60.0  # without a byte: two pings were not answered
SLEPT_SECONDS = 10.0  # that the wall clock ran ahead of the other: the machine slept
MAX_MESSAGE = 1 << 20
EARLY_MESSAGE = 1 << 14  # of somebody who has not logged in
LOGIN, WELCOME, ROTATE, TAP = (
    f"feishuperm {purpose} v1" for purpose in ("login", "welcome", "rotate", "tap")
)


def prove(key: bytes, *parts: str) -> str:
    """That whoever says these parts has the key."""
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode(errors="surrogatepass")
        mac.update(len(data).to_bytes(4, "big") + data)
    return mac.hexdigest()


def is_proof(proof: object, key: bytes, *parts: str) -> bool:
    """Whether a proof is right; anything else than a text is none."""
    given = proof.encode(errors="replace") if isinstance(proof, str) else b""
    return bool(key) and hmac.compare_digest(given, prove(key, *parts).encode())


class MachineWire:
    """One end of an open connection."""

    def __init__(
        self, client: bool, now: float, wall: float = 0.0, first_ping: float = 0.0
    ) -> None:
        self._client = client
        self._socket = WebSocket(client, MAX_MESSAGE if client else EARLY_MESSAGE)
        self._out = bytearray()
        self._heard = now
        self._next_ping = now + (first_ping or PING_SECONDS)
        self._ahead = wall - now
        self.trouble = ""  # why it has to end
        self.code = 0  # what the other end closed it with

    # In.

    def receive_data(self, data: bytes, now: float) -> None:
        """Take what arrived."""
        self._heard = now
        self._socket.receive_data(data)

    def next_event(self) -> dict[str, Any] | None:
        """The next message, or None: more is needed, or it is over."""
        while not self.trouble:
            try:
                event = self._socket.next_event()
            except WebSocketError as error:
                self.close(error.code, str(error))
                self.trouble = str(error)
                return None
            if event is None:
                return None
            if isinstance(event, Message):
                return self._read(event.data)
            if isinstance(event, Ping):
                self._out += self._socket.send_pong(event.data)
            elif isinstance(event, Close):
                self._out += self._socket.send_close(event.code)
                self.code = event.code
                self.trouble = event.reason or f"closed by the other end ({event.code})"
        return None

    def _read(self, data: bytes) -> dict[str, Any] | None:
        message = decoded(data)
        if isinstance(message, dict) and isinstance(message.get("t"), str):
            return message
        self.close(1003, "not a message")
        self.trouble = "what came is not a message"
        return None

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

    def close(self, code: int = GOING_AWAY, reason: str = "") -> None:
        """Queue a close; nothing can be sent after it."""
        self._out += self._socket.send_close(code, reason)

    def data_to_send(self) -> bytes:
        """What is due, once."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def tick(self, now: float, wall: float = 0.0) -> None:
        """Time has passed: ping, or find the other end dead."""
        if self._client and wall - now - self._ahead > SLEPT_SECONDS:
            self.trouble = "this machine slept"
        self._ahead = wall - now
        if now - self._heard > DEAD_SECONDS:
            self.trouble = "the other end does not answer"
        elif not self._client and now >= self._next_ping:
            self._next_ping = now + PING_SECONDS
            self._out += self._socket.send_ping()

    def is_deaf(self, now: float) -> bool:
        """Never: unlike Feishu's, this connection has one owner."""
        return False
