"""What the platform says to the app: its answers, its frames, its events."""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

from feishuperm.app.api import AppApi
from feishuperm.errors import ProtocolError
from feishuperm.lib.post import Reply
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Receipt
from feishuperm.protocol.long_connection import (
    DATA,
    Endpoint,
    Frame,
    LongConnection,
    Refusal,
    decode_frame,
    encode_frame,
    read_endpoint,
    refusal,
)
from feishuperm.protocol.websocket import (
    ClientHandshake,
    HandshakeRefused,
    WebSocket,
    WebSocketError,
)
from tests.app.bench import OWNER, Bench
from tests.fuzz.fuzzing import Target

SECRET = "app-secret-0badcafe"
ENDPOINT = Endpoint("wss://x/?service_id=7", 7, 120.0)
ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
REFUSED = (
    b"HTTP/1.1 514 x\r\nHandshake-Status: 514\r\n"
    b"Handshake-Autherrcode: 1000040350\r\n\r\n"
)
KEY = b"the sample nonce"  # of RFC 6455, for which ACCEPTED is the answer
HEADERS = (("type", "event"), ("message_id", "m"), ("sum", "1"), ("seq", "0"))
EVENT_FRAME = encode_frame(Frame(1, 2, 7, DATA, HEADERS, payload=b'{"a":1}'))
PART_FRAME = encode_frame(
    Frame(1, 2, 7, DATA, (*HEADERS[:2], ("sum", "3"), ("seq", "1")), payload=b"x")
)
PONG_FRAME = encode_frame(
    Frame(headers=(("type", "pong"),), payload=b'{"PingInterval":90}')
)
DISCOVERED = json.dumps(
    {
        "code": 0,
        "msg": "ok",
        "data": {
            "URL": "wss://h/ws/v2?device_id=1&service_id=7&ticket=t",
            "ClientConfig": {"PingInterval": 120, "ReconnectCount": -1},
        },
    }
).encode()


def websocket(data: bytes) -> None:
    """Both ends, in pieces; what a rule forbids ends the connection and no more."""
    step = len(data) % 5 * 50 or len(data) or 1
    for client in (True, False):
        end = WebSocket(client)
        with contextlib.suppress(WebSocketError):
            for at in range(0, len(data), step):
                end.receive_data(data[at : at + step])
                while end.next_event() is not None:
                    pass
        end.send_close()


def handshake(data: bytes) -> None:
    opening = ClientHandshake("h", "/")
    opening._key = base64.b64encode(KEY[:16]).decode()  # the seeds answer this one
    try:
        opening.receive_data(data)
    except HandshakeRefused as refused:
        assert refusal(refused).key
    except ProtocolError:
        pass


def feishu_frame(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        frame = decode_frame(data)
        assert decode_frame(encode_frame(frame)) == frame


def long_connection(data: bytes) -> None:
    """The input as a frame in a healthy WebSocket, and then as the socket itself."""
    for wire in (WebSocket(client=False).send_message(data), data):
        line = LongConnection(ENDPOINT, 0.0, 0.0)
        line.receive_data(wire, 1.0)
        delivery = line.next_event()
        while delivery is not None:
            line.answer(delivery, 1.5, {"toast": {}})
            delivery = line.next_event()
        line.tick(2.0, 2.0)
        assert line.data_to_send()


def discovery(data: bytes) -> None:
    with contextlib.suppress(Refusal):
        endpoint = read_endpoint(200, data)
        assert 5 <= endpoint.ping_seconds <= 600
        line = LongConnection(endpoint, 0.0, 0.0)
        assert line.data_to_send()
        ClientHandshake("h", endpoint.url)


def api_answers(data: bytes) -> None:
    """An answer of any shape: judged, and never with the secret in its words."""

    def post(call: Any) -> Reply:
        return Reply(400 if data[:1] == b"4" else 200, {}, data)

    api = AppApi("cli_1", SECRET, "http://h", post)
    for result in (api.fetch_token(), api.send("ou_1", {}, "u"), api.upload("a", b"b")):
        assert SECRET not in result.message and "\n" not in result.message


class Chat:
    """A channel with one card out, and approvals that refuse whatever they are told."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder)
        self.bench.bring()
        self.bench.replied = Receipt(statuses.REFUSED, error="no")
        self.answers = self.bench.answers
        channel = self.bench.channel
        (card,) = channel.store.all()
        self.nonce = card.nonce.encode()

    def tap(self) -> bytes:
        """A tap as the platform delivers it."""
        value = next(iter(self.bench.buttons("om_1").values()))
        action = {"value": value, "tag": "button", "form_value": {"reason": "x"}}
        return self._event(
            "card.action.trigger",
            operator={"open_id": OWNER}, action=action,
            context={"open_message_id": "om_1"},
        )  # fmt: skip

    def text(self, words: str) -> bytes:
        message = {
            "message_id": "om_t", "parent_id": "om_1", "message_type": "text",
            "content": json.dumps({"text": words}), "create_time": "1700000000000",
        }  # fmt: skip
        sender = {"sender_type": "user", "sender_id": {"open_id": OWNER}}
        return self._event("im.message.receive_v1", sender=sender, message=message)

    @staticmethod
    def _event(type: str, **event: Any) -> bytes:
        header = {"event_type": type, "event_id": "e-1"}
        return json.dumps({"header": header, "event": event}).encode()

    def deliver(self, data: bytes) -> None:
        """Answered at once; no answer of a person's without owner and nonce."""
        self.answers.clear()
        channel = self.bench.channel
        channel._answered.clear()
        channel.sender.changes._incoming.clear()
        self.bench.timers.calls.clear()
        replies: list[object] = []
        channel.deliver(_Delivery(data), lambda reply: bool(replies.append(reply)))
        (reply,) = replies
        assert isinstance(reply, dict)
        for answer in self.answers:
            assert answer.who == OWNER and OWNER.encode() in data
            assert answer.surface == "message" or self.nonce in data


class _Delivery:
    def __init__(self, payload: bytes) -> None:
        self.payload = payload


def app_targets(folder: Path) -> tuple[Target, ...]:
    chat = Chat(folder)
    server = WebSocket(client=False)
    messages = server.send_message(b"abc"), server.send_ping(b"x"), server.send_close()
    words = (b'"open_id"', b"card.action.trigger", b'"action":', OWNER.encode())
    return (
        Target("websocket", websocket, (b"".join(messages), messages[0] * 3)),
        Target("handshake", handshake, (ACCEPTED, REFUSED), (b"\r\n", b": ")),
        Target("Feishu's frames", feishu_frame, (EVENT_FRAME, PART_FRAME, PONG_FRAME)),
        Target("long connection", long_connection, (
            EVENT_FRAME, PONG_FRAME, *messages)),
        Target("discovery", discovery, (DISCOVERED, b'{"code":1000040345}')),
        Target("Feishu's answers", api_answers, (
            b'{"code":0,"tenant_access_token":"t","expire":7200,"data":{}}',
            b'{"code":230099,"msg":"x"}')),
        Target("Feishu's events", chat.deliver, (
            chat.tap(), chat.text("1"), chat.text("always")), words),
    )  # fmt: skip
