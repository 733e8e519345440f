"""The whole platform on loopback: an app's REST calls and its long connections.

It extends the strict fake of `tests.fakes.feishu` by what an app can do: change, reply
to and urge messages, upload files, ask about itself, and hold WebSockets over which
taps and texts arrive, each on ONE of them at random.  The WebSocket below is that of
other people (`websockets`); the frame codec is ours, which `test_feishu_frame` compares
with the official one, and both official clients read this fake in `test_feishu_app`.

    with FakePlatform() as feishu:
        ...                                   # the app connects, sends a card
        tap = feishu.tap(feishu.last, "批准运行")
        tap.toast, feishu.card(feishu.last)

A `Phone` is what one person sees; `tap()` and `say()` act as the owner unless told.
"""

from __future__ import annotations

import base64
import ctypes
import json
import logging
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from feishuperm.protocol.long_connection import Frame, decode_frame, encode_frame
from tests.fakes.feishu import (
    APP_BYTES,
    APP_ID,
    APP_SECRET,
    CardRefusal,
    FakeFeishu,
    Json,
    Refusal,
    check_card,
    every_element,
    json_object,
)

OWNER, STRANGER = "ou_owner", "ou_stranger"
BOT = "ou_bot"
SERVICE = 33554678
ANSWER_SECONDS = 3.0  # for the answer to a tap
MAX_FILE = 30 << 20
TOASTS = ("info", "success", "error", "warning")
WRONG_APP = {"code": 1000040345, "msg": "app_id or app_secret is invalid"}
PIN_SCOPE = "im:datasync.feed_card.time_sensitive:write"
QUIET = logging.getLogger("tests.fakes.feishu_app")  # handshakes that faults cut short
QUIET.disabled = True


class Tap(NamedTuple):
    """What came of a tap, as the phone shows it."""

    ok: bool  # answered in time, and the answer was good
    toast: Json
    card: Json | None  # the new card, if the answer brought one
    error: int = 0  # the number the phone shows otherwise
    seconds: float = 0.0


class Handshake(NamedTuple):
    """How the next connections are refused."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    lasts: bool = False  # for all that come, not for one


class Connections:
    """The long connections of one app."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.open: list[ServerConnection] = []
        self.made = 0
        self.pings = 0
        self.refusals: deque[Handshake] = deque()
        self.config: Json | None = None  # sent with every pong
        self.pongs = True
        self.silent: set[ServerConnection] = set()  # half-open: nothing comes or goes
        self.deaf: set[ServerConnection] = set()  # pongs, and nothing else
        self.tickets: set[str] = set()
        self.issued: list[str] = []  # every secret that stood in an address
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[threading.Event, list[Any]]] = {}
        self._server = serve(
            self._handle, "127.0.0.1", 0, process_request=self._request,
            compression=None, ping_interval=None, max_size=None, close_timeout=1,
            logger=QUIET,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):  # closed before it began
            self._server.serve_forever()

    @property
    def port(self) -> int:
        port: int = self._server.socket.getsockname()[1]
        return port

    def close(self) -> None:
        self.cut()
        self._server.shutdown()
        self._thread.join(10)

    def cut(self) -> None:
        """End every connection without a close frame."""
        for connection in list(self.open):
            with suppress(OSError):  # it went by itself
                connection.socket.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        """Cut every connection so that its other end gets an error, not an end."""
        for connection in list(self.open):
            # To connect to nowhere is how a thread resets what another one reads.
            ctypes.CDLL(None).connect(connection.socket.fileno(), bytes(16), 16)

    def silence(self) -> None:
        """Every connection looks open and is dead, as after a lost network."""
        self.silent.update(self.open)

    def deafen(self) -> None:
        """Every connection answers pings and delivers nothing more."""
        self.deaf.update(self.open)

    def _request(
        self, connection: ServerConnection, request: Request
    ) -> Response | None:
        if self.refusals:
            refusal = self.refusals.popleft()
            self.refusals.extend([refusal] * refusal.lasts)
            return Response(refusal.status, "refused", Headers(refusal.headers), b"")
        query = parse_qs(request.path.partition("?")[2])
        ticket = query.get("ticket", [""])[0]
        if ticket not in self.tickets:
            return Response(
                403, "Forbidden", Headers((("Handshake-Status", "403"),)), b""
            )
        self.tickets.discard(ticket)  # good for one connection
        return None

    def _handle(self, connection: ServerConnection) -> None:
        with self._lock:
            self.open.append(connection)
            self.made += 1
        try:
            for data in connection:
                assert isinstance(data, bytes), "frames are binary"
                frame = decode_frame(data)
                assert encode_frame(frame) == data, "a required field is missing"
                self._take(connection, frame)
        except (ConnectionClosed, OSError):
            pass
        finally:
            with self._lock:
                self.open.remove(connection)
            self.silent.discard(connection)
            self.deaf.discard(connection)

    def _take(self, connection: ServerConnection, frame: Frame) -> None:
        if connection in self.silent:
            return
        headers = dict(frame.headers)
        if frame.method == 0:
            assert headers == {"type": "ping"} and frame.service == SERVICE
            self.pings += 1
            if self.pongs:
                connection.send(self._pong())
            return
        waiting = self._answers.get(headers.get("message_id", ""))
        if waiting is not None:
            waiting[1].append((headers, frame))
            waiting[0].set()

    def _pong(self) -> bytes:
        config = None if self.config is None else json.dumps(self.config).encode()
        pong = (("type", "pong"),)
        return encode_frame(Frame(0, 0, SERVICE, 0, pong, payload=config))

    def push(
        self,
        event: Json,
        type: str = "event",
        parts: int = 1,
        to: int | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> Json | None:
        """Deliver to one connection and wait; the answer's body, None without one."""
        with self._lock:
            if not self.open:
                return None
            connection = self.random.choice(self.open) if to is None else self.open[to]
        id = f"m-{self.random.getrandbits(64):016x}"
        arrived, answers = self._answers[id] = (threading.Event(), [])
        frames = list(self._frames(event, type, parts, id))
        if connection in self.silent or connection in self.deaf:
            frames = []
        try:
            for frame in frames:
                connection.send(frame)
        except (ConnectionClosed, OSError):
            return None
        arrived.wait(seconds)
        del self._answers[id]
        return self._checked(answers[0]) if answers else None

    def _frames(self, event: Json, type: str, parts: int, id: str) -> Iterator[bytes]:
        payload = _bytes(event)
        step = -(-len(payload) // parts)
        order = list(range(parts))
        self.random.shuffle(order)
        for number in order:
            headers = (
                ("type", type), ("message_id", id), ("sum", str(parts)),
                ("seq", str(number)), ("trace_id", "t"), ("instance_id", "i-1"),
                ("timestamp", str(int(time.time() * 1000))),
            )  # fmt: skip
            part = payload[number * step : (number + 1) * step]
            yield encode_frame(Frame(1, 2, SERVICE, 1, headers, payload=part))

    @staticmethod
    def _checked(answer: tuple[dict[str, str], Any]) -> Json:
        """The body of an acknowledgement; it must echo what it acknowledges."""
        headers, frame = answer
        assert headers["instance_id"] == "i-1" and headers["trace_id"] == "t"
        assert "biz_rt" in headers and frame[:2] == (1, 2)
        body: Json = json.loads(frame.payload)
        return body


def _is_pin(given: Json) -> bool:
    fields = {"time_sensitive", "user_ids"}
    return set(given) == fields and isinstance(given["time_sensitive"], bool)


def _bytes(event: Json) -> bytes:
    """An event as JSON; half a character can only be escaped."""
    try:
        return json.dumps(event, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(event).encode()


class FakePlatform(FakeFeishu):
    """Feishu, as far as an app of one person's can see it."""

    def __init__(self, port: int = 0, seed: int = 0, **options: Any) -> None:
        super().__init__(port, **options)
        self.connections = Connections(seed)
        self.patches: list[tuple[str, Json]] = []
        self.replies: list[tuple[str, Json]] = []
        self.urged: list[tuple[str, list[str]]] = []
        self.files: dict[str, bytes] = {}
        self.discovery: deque[Json] = deque()  # answers instead of an address
        self.published = True
        self.granted: list[str] = []  # what the app may do, as anybody may ask
        self.scopes_missing: set[str] = set()  # paths that answer 99991672
        self.patch_times: dict[str, deque[float]] = {}
        self.person_times: dict[str, deque[float]] = {}
        self.bot_status = 2
        self.subscribed = True
        self.people: dict[str, str] = {}  # open_id -> name
        self.pinned: set[str] = set()  # people on whose lists the bot's chat is on top
        self.pins: list[tuple[bool, list[str]]] = []  # every call that was taken
        self.pin_times: deque[float] = deque()
        self.pin_refusals: deque[Refusal] = deque()  # of the next calls
        self.unreachable: set[str] = set()  # people the bot may not pin itself for
        self.tells_reading = False  # subscribed to the event, and allowed to have it
        self.spoken: dict[str, Json] = {}  # what people wrote
        self._sent_texts = 0

    def __enter__(self) -> FakePlatform:
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.connections.close()
        super().__exit__(*exc)

    # What a test looks at.

    @property
    def last(self) -> str:
        """The id of the newest card."""
        cards = [
            id
            for id, message in self.app_messages.items()
            if message["msg_type"] == "interactive"
        ]
        return cards[-1]

    def card(self, message_id: str) -> Json:
        """A message's card as everybody sees it now."""
        card: Json = json.loads(self.app_messages[message_id]["content"])
        return card

    def buttons(self, message_id: str, of_panels: bool = False) -> list[Json]:
        """The buttons that answer a request, or all of them."""
        return [
            element
            for element in every_element(self.card(message_id)["body"])
            if element.get("tag") == "button"
            and (of_panels or "panel" not in element["behaviors"][0].get("value", {}))
        ]

    # What a person does.

    def tap(
        self,
        message_id: str,
        label: str,
        form: Json | None = None,
        who: str = OWNER,
        **options: Any,
    ) -> Tap:
        """Tap the button with this label; `form` is what was filled in around it."""
        button = next(
            (
                button
                for button in self.buttons(message_id, of_panels=True)
                if button["text"]["content"] == label
            ),
            None,
        )
        assert button is not None, [
            one["text"]["content"] for one in self.buttons(message_id, True)
        ]
        (behavior,) = button["behaviors"]
        assert behavior["type"] == "callback"
        action: Json = {"tag": "button", "value": behavior["value"]}
        if "form_action_type" in button:
            action["name"] = button["name"]
            action["form_value"] = form or {}
        return self.act(message_id, action, who, **options)

    def act(
        self, message_id: str, action: Json, who: str = OWNER, **options: Any
    ) -> Tap:
        """Any action on a message, also one that no button of it has."""
        return self.happen(
            message_id, self.tap_event(message_id, action, who), **options
        )

    def happen(self, message_id: str, event: Json, **options: Any) -> Tap:
        """Deliver the event of a tap, and see what the phone makes of the answer."""
        if not self.subscribed:
            return Tap(False, {}, None, 200340)
        began = time.monotonic()
        body = self.connections.push(event, **options)
        took = time.monotonic() - began
        if body is None:
            return Tap(False, {}, None, 200341, took)
        return self._answered(message_id, body, took)

    def tap_event(self, message_id: str, action: Json, who: str = OWNER) -> Json:
        operator = {"tenant_key": "tk", "open_id": who, "union_id": "on_" + who[3:]}
        return {
            "schema": "2.0",
            "header": {
                "event_id": f"e-{self.connections.random.getrandbits(64):x}",
                "token": "v", "create_time": str(int(time.time() * 1e6)),
                "event_type": "card.action.trigger", "tenant_key": "tk",
                "app_id": APP_ID,
            },
            "event": {
                "operator": operator, "token": "c-1", "action": action,
                "host": "im_message",
                "context": {"open_message_id": message_id, "open_chat_id": "oc_chat"},
            },
        }  # fmt: skip

    def _answered(self, message_id: str, body: Json, took: float) -> Tap:
        """What the phone makes of an answer."""
        if body.get("code") != 200 or "data" not in body:
            return Tap(False, {}, None, 200671, took)
        reply = json_object(base64.b64decode(body["data"]))
        if reply is None or not set(reply) <= {"toast", "card"}:
            return Tap(False, {}, None, 200672, took)
        toast = reply.get("toast", {})
        if toast and (toast.get("type") not in TOASTS or not toast.get("content")):
            return Tap(False, {}, None, 200672, took)
        card = reply.get("card")
        if card is None:
            return Tap(True, toast, None, 0, took)
        try:
            assert card["type"] == "raw"
            check_card(card["data"], webhook=False)
        except (CardRefusal, AssertionError, KeyError, TypeError):
            return Tap(False, toast, None, 200673, took)
        with self._lock:
            content = json.dumps(card["data"], ensure_ascii=False)
            self.app_messages[message_id]["content"] = content
        return Tap(True, toast, card["data"], 0, took)

    def say(
        self, text: str, parent: str = "", who: str = OWNER, id: str = "", **fields: Any
    ) -> Json | None:
        """Write to the bot, as a reply or not; the acknowledgement."""
        self._sent_texts += 1
        message: Json = {
            "message_id": id or f"om_text{self._sent_texts}", "chat_id": "oc_chat",
            "create_time": str(int(time.time() * 1000)), "chat_type": "p2p",
            "message_type": "text", "content": json.dumps({"text": text}),
        }  # fmt: skip
        if parent:
            message.update(parent_id=parent, root_id=parent)
        self.spoken[message["message_id"]] = {"msg_type": "text"}
        sender = {"sender_id": {"open_id": who}, "sender_type": "user"}
        return self.connections.push(
            {
                "schema": "2.0",
                "header": {
                    "event_id": f"e-{self.connections.random.getrandbits(64):x}",
                    "event_type": "im.message.receive_v1", "app_id": APP_ID,
                },
                "event": {"sender": sender, "message": {**message, **fields}},
            }
        )  # fmt: skip

    def read(self, *ids: str, who: str = OWNER, seconds: float = 0.0) -> Json | None:
        """Read messages of the bot, so many seconds ago; the acknowledgement.

        None where nobody is told.
        """
        if not self.tells_reading:
            return None
        moment = str(int((time.time() - seconds) * 1000))
        reader = {
            "reader_id": {"open_id": who, "union_id": "on_" + who[3:]},
            "read_time": moment, "tenant_key": "tk",
        }  # fmt: skip
        return self.connections.push(
            {
                "schema": "2.0",
                "header": {
                    "event_id": f"e-{self.connections.random.getrandbits(64):x}",
                    "event_type": "im.message.message_read_v1", "token": "v",
                    "create_time": moment, "tenant_key": "tk", "app_id": APP_ID,
                },
                "event": {"reader": reader, "message_id_list": list(ids)},
            }
        )  # fmt: skip

    # The calls.

    def other(
        self, method: str, path: str, query: str, body: bytes, headers: Any
    ) -> Json:
        if method == "POST" and path == "/callback/ws/endpoint":
            return self._discover(body)
        if not path.startswith("/open-apis/"):
            raise Refusal(404, "page not found", 404)
        self.check_bearer(headers)
        route = path.removeprefix("/open-apis/")
        if route in self.scopes_missing:
            raise Refusal(99991672, "Access denied. One of the scopes", 400)
        parts = route.split("/")
        if method == "GET":
            return self._about(route)
        if route == "im/v2/feed_cards/bot_time_sentive" and method == "PATCH":
            return self._pin(query, body)
        if route == "im/v1/files" and method == "POST":
            return self._upload(body, headers)
        if parts[:3] == ["im", "v1", "messages"] and len(parts) in (4, 5):
            return self._message(method, parts[3], parts[4:], query, body)
        raise Refusal(404, "page not found", 404)

    def _discover(self, body: bytes) -> Json:
        if self.discovery:
            return self.discovery.popleft()
        asked = json_object(body) or {}
        if asked.get("AppID") != APP_ID or asked.get("AppSecret") != APP_SECRET:
            return WRONG_APP
        if not self.published:
            return WRONG_APP  # the same words, though id and secret are right
        ticket = f"{self.connections.random.getrandbits(64):016x}"
        self.connections.tickets.add(ticket)
        key = f"{self.connections.random.getrandbits(64):016x}"
        self.connections.issued += [ticket, key]
        url = (
            f"ws://127.0.0.1:{self.connections.port}/ws/v2?device_id=1"
            f"&service_id={SERVICE}&access_key={key}&ticket={ticket}"
        )
        config = {
            "ReconnectCount": -1, "ReconnectInterval": 120,
            "ReconnectNonce": 30, "PingInterval": 120,
        }  # fmt: skip
        data = {"URL": url, "ClientConfig": self.connections.config or config}
        return {"code": 0, "msg": "ok", "data": data}

    def _about(self, route: str) -> Json:
        if route == "bot/v3/info":
            if not self.published:
                raise Refusal(11205, "app do not have bot", 400)
            bot = {
                "activate_status": self.bot_status, "app_name": "feishuperm",
                "open_id": BOT, "ip_white_list": [],
            }  # fmt: skip
            return {"code": 0, "msg": "ok", "bot": bot}
        if route == "event/v1/connection":
            count = len(self.connections.open)
            return {"code": 0, "msg": "", "data": {"online_instance_cnt": count}}
        if route == "application/v6/scopes":
            if not self.published:
                raise Refusal(212100, "app not installed", 400)
            rows = [{"scope_name": name, "grant_status": 1} for name in self.granted]
            rows.append({"scope_name": "im:message.urgent", "grant_status": 2})
            return {"code": 0, "msg": "", "data": {"scopes": rows}}
        if route == "application/v6/applications/me":
            listed = ["card.action.trigger"] if self.subscribed else []
            info = {"callback_type": "websocket", "subscribed_callbacks": listed}
            app = {"status": 1, "callback_info": info}
            return {"code": 0, "msg": "", "data": {"app": app}}
        if route.startswith("contact/v3/users/"):
            user = {"name": self.people.get(route.rpartition("/")[2], "")}
            return {"code": 0, "msg": "", "data": {"user": user}}
        raise Refusal(404, "page not found", 404)

    def _pin(self, query: str, body: bytes) -> Json:
        """The bot's chat goes on top of some people's lists, or off it."""
        if PIN_SCOPE not in self.granted:
            raise Refusal(99991672, "Access denied. One of the scopes", 400)
        if self.pin_refusals:
            raise self.pin_refusals.popleft()
        self._check_often(self.pin_times, 50)
        given = json_object(body) or {}
        is_up, people = given.get("time_sensitive"), given.get("user_ids")
        are_ids = isinstance(people, list) and 0 < len(people) <= 50
        is_named = are_ids and all(str(id).startswith("ou_") for id in people or ())
        if query != "user_id_type=open_id" or not is_named or not _is_pin(given):
            raise Refusal(99992402, "field validation failed", 400)
        assert isinstance(people, list)
        self.pins.append((bool(is_up), people))
        done = set(people) - self.unreachable
        self.pinned = self.pinned | done if is_up else self.pinned - done
        reasons = [
            {"error_code": 1, "error_message": "no right", "user_id": id}
            for id in people
            if id in self.unreachable
        ]
        return {"code": 0, "msg": "", "data": {"failed_user_reasons": reasons}}

    def _message(
        self, method: str, id: str, rest: list[str], query: str, body: bytes
    ) -> Json:
        message = self.app_messages.get(id) or self.spoken.get(id)
        if message is None:
            raise Refusal(230001, "Your request contains an invalid parameter", 400)
        given = json_object(body)
        if given is None:
            raise Refusal(9499, "Bad Request", 400)
        if method == "PATCH" and not rest:
            return self._patch(id, message, given)
        if method == "POST" and rest == ["reply"]:
            return self._reply_to(id, given)
        if method == "PATCH" and rest == ["urgent_app"]:
            if query != "user_id_type=open_id":
                raise Refusal(99992402, "field validation failed", 400)
            self.urged.append((id, given["user_id_list"]))
            return {"code": 0, "msg": "ok", "data": {"invalid_user_id_list": []}}
        raise Refusal(404, "page not found", 404)

    def _patch(self, id: str, message: Json, given: Json) -> Json:
        self._check_often(self.patch_times.setdefault(id, deque()))
        content = given.get("content")
        if set(given) != {"content"} or not isinstance(content, str):
            raise Refusal(99992402, "field validation failed", 400)
        if len(content.encode()) > APP_BYTES:
            raise Refusal(230025, "The message content reaches its limit.", 400)
        if message["msg_type"] != "interactive":
            raise Refusal(230001, "This message is NOT a card.", 400)
        self._check_app_card({"msg_type": "interactive", "content": content})
        message["content"] = content
        self.patches.append((id, json.loads(content)))
        return {"code": 0, "data": {}, "msg": "ok"}

    def _reply_to(self, id: str, given: Json) -> Json:
        content = given.get("content")
        if not isinstance(content, str) or not isinstance(json.loads(content), dict):
            raise Refusal(99992402, "field validation failed", 400)
        kind = given.get("msg_type")
        if kind == "interactive":
            self._check_app_card(given)
        elif kind == "file":
            if json.loads(content).get("file_key") not in self.files:
                raise Refusal(230055, "The file does not fit its type.", 400)
        elif kind != "text" or not isinstance(json.loads(content).get("text"), str):
            raise Refusal(230001, "Your request contains an invalid parameter", 400)
        kept = self._keep(given)
        if (id, given) not in self.replies:
            self.replies.append((id, given))
        return {"code": 0, "msg": "success", "data": kept}

    def _create(self, query: str, body: bytes, headers: Any) -> Json:
        message = json_object(body) or {}
        receiver = str(message.get("receive_id"))
        self._check_often(self.person_times.setdefault(receiver, deque()))
        if message.get("msg_type") == "text":
            self.check_bearer(headers)
            return {"code": 0, "msg": "success", "data": self._keep(message)}
        return super()._create(query, body, headers)

    def _check_often(self, times: deque[float], most: int = 5) -> None:
        """Five a second to one person, five a second for one message."""
        now = self.clock()
        while times and times[0] <= now - 1:
            times.popleft()
        if self.limits and len(times) >= most:
            raise Refusal(230020, "This operation triggers the frequency limit.", 400)
        times.append(now)

    def _upload(self, body: bytes, headers: Any) -> Json:
        kind, _, boundary = headers.get("Content-Type", "").partition("; boundary=")
        if kind != "multipart/form-data" or not boundary:
            raise Refusal(234001, "Invalid request param.", 400)
        fields = {}
        for part in body.split(f"--{boundary}".encode())[1:-1]:
            head, _, value = part.partition(b"\r\n\r\n")
            name = head.partition(b'name="')[2].partition(b'"')[0].decode()
            fields[name] = value[:-2]
        if fields.get("file_type") != b"stream" or not fields.get("file_name"):
            raise Refusal(234001, "Invalid request param.", 400)
        if not fields.get("file"):
            raise Refusal(234010, "File's size can't be 0.", 400)
        if len(fields["file"]) > MAX_FILE:
            raise Refusal(234006, "The file size exceed the max value.", 400)
        key = f"file_v2_{len(self.files) + 1}"
        self.files[key] = fields["file"]
        return {"code": 0, "msg": "success", "data": {"file_key": key}}
