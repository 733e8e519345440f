"""The REST calls of a self-built Feishu app: one call each, and what its answer means.

Queues, limits and retries are not known here.  The tenant token is fetched when a call
needs one, kept, renewed before it ends, and once more when Feishu refuses it.  Nothing
is called while nothing is to be sent.  A refusal comes back as a sentence that names
the page of the console where it is repaired; no sentence holds the secret or a token.
"""

from __future__ import annotations

import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from feishuperm.errors import ProtocolError
from feishuperm.lib.feishu import CODES as BOT_CODES
from feishuperm.lib.feishu import (
    NO_ANSWER,
    RENEW,
    SendResult,
    encode,
    judge,
    read_codes,
)
from feishuperm.lib.post import HEADERS, Call, Reply, call, dial
from feishuperm.messages import Message, message_of, msg
from feishuperm.models.fields import decoded, list_at, part_at, text_at, value_at
from feishuperm.models.settings import Settings
from feishuperm.protocol.long_connection import (
    UNPUBLISHED,
    WRONG_APP,
    Endpoint,
    Refusal,
    read_endpoint,
    refusal,
)
from feishuperm.protocol.websocket import ClientHandshake, HandshakeRefused

Connect = Callable[[str], socket.socket]
Post = Callable[[Call], Reply]

TOKEN = "/open-apis/auth/v3/tenant_access_token/internal"
MESSAGES = "/open-apis/im/v1/messages"
FILES = "/open-apis/im/v1/files"
ENDPOINT = "/callback/ws/endpoint"
PIN = "/open-apis/im/v2/feed_cards/bot_time_sentive?user_id_type=open_id"  # so spelt
BOT = "/open-apis/bot/v3/info"
ENABLED = 2  # how a bot is that can be used
CONNECTIONS = "/open-apis/event/v1/connection"
EARLY_SECONDS = 600.0  # a token is renewed so long before its end
MAX_TOKEN_SECONDS = 1e6  # Feishu's live for two hours
FILE_NAME = "request.txt"  # below a card that could not hold everything
RECEIVERS = {"ou_": "open_id", "oc_": "chat_id", "on_": "union_id"}
MAX_UUID = 50  # characters Feishu takes to tell a repeated message
MAX_CARD = 30_000  # bytes of a whole request, as others measured it
CARD = "interactive"
RECEIVE_SIZE = 4096  # bytes of a handshake
JSON = HEADERS["Content-Type"]
FORM = "multipart/form-data"

CODES = {**BOT_CODES, **read_codes("app")}  # what an app is told, beside a bot
LACKS_SCOPE = (99991672, 230027)
# The page of the console where the owner of an app repairs it, and the codes it is for.
MENDED_AT = {
    "baseinfo": (10003, 10014, 10015),
    "capability": (11205, 230006, 234007),
    "version": (11207, 11210, 230013, 99991673),
    "auth": LACKS_SCOPE,
}
# What can be wrong with an app's connection -> the page that repairs it.
PAGES = {
    WRONG_APP: "baseinfo",
    UNPUBLISHED: "version",
    msg("Feishu is busy; if that lasts, the app was never published"): "version",
}
SCOPE = re.compile(r"[a-z0-9_.:]{3,80}\Z")
AUTH = "auth?q={}&op_from=openapi&token_type=tenant"  # a page of the console
MOST_SCOPES = 3  # of which one is enough; named in a sentence
REPAIR = "{} -> {}"  # what is wrong, and what repairs it
Result = SendResult  # what became of a call


class AppApi:
    """One app. Its outboxes use it from several threads; only one fetches a token."""

    def __init__(
        self,
        app_id: str,
        secret: str,
        base_url: str,
        post: Post = call,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app_id = app_id
        self._secret = secret
        self._base_url = base_url
        self._post = post
        self._clock = clock
        self._token = ""
        self._token_until = 0.0
        self._lock = threading.Lock()

    # Messages.

    def send(
        self, receiver: str, content: dict[str, Any], uuid: str, kind: str = CARD
    ) -> Result:
        """A message to a person or a chat; the same `uuid` within an hour is one."""
        path = f"{MESSAGES}?receive_id_type={receiver_type(receiver)}"
        body = {"receive_id": receiver, **_message(kind, content, uuid)}
        return self.request("POST", path, body)

    def reply(
        self, message_id: str, content: dict[str, Any], uuid: str, kind: str = CARD
    ) -> Result:
        """A message below another one."""
        path = f"{MESSAGES}/{message_id}/reply"
        return self.request("POST", path, _message(kind, content, uuid))

    def update(self, message_id: str, card: dict[str, Any]) -> Result:
        """Change a card that was sent."""
        body = {"content": encode(card)}
        return self.request("PATCH", f"{MESSAGES}/{message_id}", body)

    def urge(self, message_id: str, open_id: str) -> Result:
        """Let one of our messages buzz."""
        path = f"{MESSAGES}/{message_id}/urgent_app?user_id_type=open_id"
        return self.request("PATCH", path, {"user_id_list": [open_id]})

    def pin(self, people: list[str], is_up: bool) -> Result:
        """Put the bot's chat on top of these people's lists, or back to its place."""
        body = {"time_sensitive": is_up, "user_ids": people}
        result = self.request("PATCH", PIN, body)
        is_done = result.ok and not list_at(result.data, "failed_user_reasons")
        return result._replace(ok=is_done)

    def upload(self, name: str, data: bytes) -> Result:
        """Hand a file in; `data["file_key"]` of the result is its name to send."""
        boundary = secrets.token_hex(16)
        parts = _multipart(boundary, name, data)
        return self._authorised("POST", FILES, parts, f"{FORM}; boundary={boundary}")

    def request(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> Result:
        """Any call that needs a token."""
        data = b"" if body is None else encode(body).encode()
        return self._authorised(method, path, data, JSON)

    def _authorised(self, method: str, path: str, data: bytes, kind: str) -> Result:
        refused = ""
        for _ in range(2):  # a token may be refused once
            token, result = self._ensure_token(refused)
            if not result.ok:
                return result
            result = self._call(method, path, data, kind, token)
            if CODES.get(result.code, ("",))[0] != RENEW:
                return result
            refused = token
        return result

    # The token.

    def _ensure_token(self, refused: str) -> tuple[str, Result]:
        """A token that is not the refused one; another thread may have fetched it."""
        with self._lock:
            good = self._token not in ("", refused)
            if good and self._clock() < self._token_until:
                return self._token, Result(True, 0, "")
            result = self._fetch_token()
            return self._token, result

    def fetch_token(self) -> Result:
        """A new token; also the test whether id and secret fit together."""
        with self._lock:
            return self._fetch_token()

    def _fetch_token(self) -> Result:
        body = {"app_id": self._app_id, "app_secret": self._secret}
        result = self._call("POST", TOKEN, encode(body).encode(), JSON)
        if not result.ok:
            return result
        token = text_at(result.data, "tenant_access_token")
        expire = result.data.get("expire")
        seconds = expire if isinstance(expire, int) else 0
        if not token or not 0 < seconds < MAX_TOKEN_SECONDS:
            return Result(False, NO_ANSWER, msg("Feishu gave no token"), retry=True)
        self._token = token
        self._token_until = self._clock() + max(seconds - EARLY_SECONDS, seconds / 2)
        return result

    # The long connection.

    def discover(self) -> Reply:
        """Where to connect to, as Feishu says it. Raises OSError."""
        body = {"AppID": self._app_id, "AppSecret": self._secret}
        headers = {**HEADERS, "locale": "zh"}
        url = self._base_url + ENDPOINT
        return self._post(Call("POST", url, encode(body).encode(), headers))

    # One exchange.

    def _call(
        self, method: str, path: str, data: bytes, kind: str, token: str = ""
    ) -> Result:
        headers = {**HEADERS, "Content-Type": kind}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            reply = self._post(Call(method, self._base_url + path, data, headers))
        except OSError as error:
            return Result(False, NO_ANSWER, message_of(error), retry=True)
        return self.judge(reply)

    def judge(self, reply: Reply) -> Result:
        """What an answer means; a refusal names the page that repairs it."""
        result, answer = judge(reply, CODES), part_at(decoded(reply.body))
        if result.ok:
            data = answer.get("data")
            return result._replace(data=data if isinstance(data, dict) else answer)
        if result.code in (0, NO_ANSWER):
            return result
        said, page, scopes = result.message, page_of(result.code), []
        if result.code in LACKS_SCOPE:  # one of these is missing, as Feishu names them
            listed = list_at(answer, "error", "permission_violations")
            names = [str(value_at(item, "subject")) for item in listed]
            scopes = [name for name in names if SCOPE.match(name)][:MOST_SCOPES]
        if scopes:
            said = msg("{} ({})", said, " or ".join(scopes))
            page = AUTH.format(",".join(scopes))
        if page:
            said = msg("{}: {}", said, self.console(page))
        return result._replace(message=said, data=answer)

    def problem(self, sentence: str, **values: object) -> str:
        """A sentence about what is wrong, and the page that repairs it."""
        page, said = PAGES.get(sentence, ""), msg(sentence, **values)
        return msg("{}: {}", said, self.console(page)) if page else said

    def console(self, page: str) -> str:
        """The address of a page of the developer's console about this app."""
        return f"{self._base_url}/app/{self._app_id}/{page}"


def app_of(
    settings: Settings, on_reply: Callable[[Reply], object] = lambda reply: None
) -> AppApi:
    """The app of these settings; every answer is shown to `on_reply`."""

    def post(request: Call) -> Reply:
        reply = call(request, ca_file=settings.feishuperm_ca_file)
        on_reply(reply)
        return reply

    id, secret = settings.feishu_app_id, settings.feishu_app_secret
    return AppApi(id, secret, settings.feishu_base_url, post)


def attach(
    api: AppApi, message_id: str, content: bytes, uuid: str, full: dict[str, Any]
) -> Result:
    """Put a file below a card, then show the card that counts on it."""
    result = api.upload(FILE_NAME, content)
    if result.ok:
        key = {"file_key": result.data.get("file_key")}
        result = api.reply(message_id, key, uuid, "file")
    return api.update(message_id, full) if result.ok else result


def split_fix(said: str) -> tuple[str, str]:
    """A sentence of `problem`, `judge` or `REPAIR` alone, and what repairs it."""
    if isinstance(said, Message) and said.template in (REPAIR, "{}: {}"):
        sentence, fix = said.args
        if said.template == REPAIR:
            return sentence, fix
        if str(fix).startswith("http"):
            return sentence, msg("open {}", fix)
    return said, ""


def page_of(code: int) -> str:
    """The page of the console that repairs what a code says; empty if none does."""
    return next((page for page, codes in MENDED_AT.items() if code in codes), "")


def receiver_type(receiver: str) -> str:
    """Which kind of id this is, by its looks."""
    if "@" in receiver:
        return "email"
    return RECEIVERS.get(receiver[:3], "user_id")


def _message(kind: str, content: dict[str, Any], uuid: str) -> dict[str, Any]:
    return {"msg_type": kind, "content": encode(content), "uuid": uuid[:MAX_UUID]}


def _multipart(boundary: str, name: str, data: bytes) -> bytes:
    name = re.sub("[^A-Za-z0-9._-]", "_", name)
    part = f"--{boundary}\r\nContent-Disposition: form-data; name="
    head = (
        f'{part}"file_type"\r\n\r\nstream\r\n'
        f'{part}"file_name"\r\n\r\n{name}\r\n'
        f'{part}"file"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return head.encode() + data + f"\r\n--{boundary}--\r\n".encode()


# The way to a WebSocket. Dialling blocks, so a thread does it (see `server.outgoing`).


def dial_feishu(
    api: AppApi, connect: Connect = dial
) -> tuple[socket.socket, bytes, Endpoint]:
    """A connection ready for frames, and what came behind its handshake.

    The address that Feishu gives holds secrets and is good for one connection: it is
    asked for each time and never shown.  Raises Refusal, ProtocolError and OSError;
    none of them holds it.
    """
    reply = api.discover()
    try:
        endpoint = read_endpoint(reply.status, reply.body)
    except Refusal as refused:
        # Feishu says the same of an app that is not published; its token tells.
        if refused.key == WRONG_APP and api.fetch_token().ok:
            raise Refusal(UNPUBLISHED, refused.code, fatal=True) from None
        raise
    return (*open_websocket(connect, endpoint.url, refusal), endpoint)


def open_websocket(
    connect: Connect,
    url: str,
    refused: Callable[[HandshakeRefused], Exception],
    protocols: tuple[str, ...] = (),
) -> tuple[socket.socket, bytes]:
    """A connected socket and what came behind the handshake.

    A handshake that is refused raises what `refused` makes of that.
    """
    sock = connect(url)
    try:
        return sock, shake_hands(sock, url, protocols)
    except BaseException as error:
        sock.close()
        if isinstance(error, HandshakeRefused):
            raise refused(error) from None
        raise


def shake_hands(
    sock: socket.socket, url: str, protocols: tuple[str, ...] = ()
) -> bytes:
    """Open the WebSocket; the time-out of the socket holds for each step."""
    address = urlsplit(url)
    target = (address.path or "/") + (f"?{address.query}" if address.query else "")
    host = address.netloc.rpartition("@")[2]
    handshake = ClientHandshake(host, target, protocols=protocols)
    sock.sendall(handshake.request)
    rest = None
    while rest is None:
        data = sock.recv(RECEIVE_SIZE)
        if not data:
            raise ProtocolError(
                msg(
                    "the other end closed the connection in its handshake: a proxy on "
                    "the way may not pass WebSockets"
                )
            )
        rest = handshake.receive_data(data)
    return rest
