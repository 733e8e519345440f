"""A strict Feishu on loopback: refuses what the real one refuses, in the same words.

It plays a custom bot's webhook and the two calls of the app API that send a card, and
keeps all it was sent.  In a test:

    with FakeFeishu(secret="s") as feishu:
        send_feishu_card(feishu.webhook_url, card, "s")
        feishu.cards[-1]

As a process: `python3 tests/fakes/feishu.py PORT [SECRET]`; then `GET /sent` lists the
messages taken so far.  Where the real wording is unknown the refusal is our own, and
rather too strict.  It knows nothing of feishuperm.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

TOKEN = "11111111-2222-3333-4444-555555555555"
APP_ID, APP_SECRET = "cli_a000000000000001", "app-secret-5d1f0c9e"
TENANT_TOKEN = "t-tenant-b61e07d4"
HOOK_BYTES, APP_BYTES = 20480, 30720
SECOND_LIMIT, MINUTE_LIMIT = 5, 100
SIGN_SECONDS = 3600

Json = dict[str, Any]


class Refusal(Exception):
    """A business error, with the HTTP status it travels in."""

    def __init__(
        self, code: int, msg: str, status: int = 200, headers: Any = ()
    ) -> None:
        super().__init__(f"{code} {msg}")
        self.code = code
        self.msg = msg
        self.status = status
        self.headers = dict(headers)


class CardRefusal(Exception):
    """What is wrong with a card: sub-code, message and offending value."""

    def __init__(self, code: int, message: str, value: object = "") -> None:
        text = f"ErrCode: {code}; ErrMsg: {message}; ErrorValue: {value}; "
        super().__init__(text)
        self.code = code


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The grammar of cards, schema 2.0: the properties each object may have.

COLOURS = words(
    "blue wathet turquoise green yellow orange red carmine violet purple indigo grey"
    " default"
)
BUTTON_TYPES = words(
    "default primary danger text primary_text danger_text primary_filled danger_filled"
    " laser"
)
FLEX_MODES = frozenset(("none", "stretch", "flow", "bisect", "trisect"))
TEXT_SIZES = re.compile(
    r"heading(-[0-4])?|normal|notation|x{0,4}-?(large|small)|medium"
)
LAYOUT = words(
    "direction padding horizontal_spacing horizontal_align vertical_spacing"
    " vertical_align elements"
)
COMMON = frozenset(("tag", "element_id", "margin"))
TEXT = words(
    "tag element_id content text_size text_color text_align lines i18n_content"
)
OPEN_URL = words("type default_url pc_url ios_url android_url")
CARD = frozenset(("schema", "config", "card_link", "header", "body"))
CONFIG = words(
    "streaming_mode streaming_config summary locales enable_forward update_multi"
    " width_mode use_custom_translation enable_forward_interaction style"
)
HEADER = words("title subtitle text_tag_list i18n_text_tag_list template icon padding")
COMPONENTS = {
    "div": COMMON | {"width", "text", "icon"},
    "markdown": COMMON | {"content", "text_size", "text_align", "icon", "i18n_content"},
    "hr": COMMON,
    "button": COMMON
    | words(
        "type size width text icon hover_tips disabled disabled_tips confirm behaviors"
        " name form_action_type required"
    ),
    "column_set": COMMON
    | words(
        "horizontal_spacing horizontal_align flex_mode background_style action columns"
    ),
    "column": COMMON
    | LAYOUT
    | frozenset(("background_style", "width", "weight", "action")),
    "collapsible_panel": COMMON
    | LAYOUT
    | frozenset(("expanded", "header", "border", "background_color")),
    "form": COMMON | LAYOUT | frozenset(("name", "confirm")),
    "input": COMMON
    | words(
        "name placeholder default_value disabled width max_length input_type rows"
        " auto_resize max_rows show_icon label label_position value behaviors confirm"
        " fallback required"
    ),
    "select_static": COMMON
    | words(
        "name placeholder options initial_option width disabled type behaviors confirm"
        " required"
    ),
    "multi_select_static": COMMON
    | words(
        "name placeholder options selected_values width disabled type behaviors confirm"
        " required"
    ),
}
REMOVED = frozenset(("note", "action"))  # known to 1.0 only
# A custom bot gets no callbacks.
CALLBACK_ONLY = words("form input select_static multi_select_static")
MAX_ELEMENTS, MAX_TABLES, MAX_DEPTH, MAX_BUTTON_TEXT = 200, 5, 5, 100
ELEMENT_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,19}\Z")
TABLE = re.compile(r"^\s*\|?\s*:?-+:?\s*\|", re.MULTILINE)
AT = re.compile(r"<at\b([^>]*)>", re.IGNORECASE)
AT_ID = re.compile(r"\s+ids?\s*=\s*['\"]?(all|(?:ou_|on_)?[A-Za-z0-9_,]+)['\"]?\s*\Z")


def check_card(card: object, webhook: bool = True) -> None:
    """Raise CardRefusal unless Feishu would show the card."""
    if not isinstance(card, dict):
        raise bad_json("the card is not an object")
    schema = card.get("schema", "1.0")
    if schema not in ("1.0", "2.0"):
        raise CardRefusal(200621, "unknown schema", schema)
    if schema == "1.0":
        raise CardRefusal(200621, "this fake takes schema 2.0 only", schema)
    only(card, CARD)
    check_config(part(card, "config", dict, {}))
    if "header" in card:
        check_header(part(card, "header", dict))
    if "card_link" in card:
        check_url(part(part(card, "card_link", dict), "url", str))
    body = part(card, "body", dict, {})
    only(body, LAYOUT)
    check_elements(part(body, "elements", list, []), webhook)
    check_totals(card)


def check_config(config: Json) -> None:
    only(config, CONFIG)
    if config.get("update_multi", True) is not True:
        raise bad_json("update_multi must be true in schema 2.0")
    if not isinstance(config.get("enable_forward", True), bool):
        raise bad_json("enable_forward is not a boolean")
    summary = part(config, "summary", dict, {})
    only(summary, frozenset(("content", "i18n_content")))
    part(summary, "content", str, "")


def check_header(header: Json) -> None:
    only(header, HEADER)
    check_text(part(header, "title", dict))
    if "subtitle" in header:
        check_text(part(header, "subtitle", dict))
    if header.get("template", "default") not in COLOURS:
        raise CardRefusal(200621, "unknown header template", header["template"])


def check_elements(elements: list[Any], webhook: bool, depth: int = 1) -> None:
    if depth > MAX_DEPTH:
        raise CardRefusal(11310, "element nesting exceeds the limit", depth)
    for element in elements:
        check_element(element, webhook, depth)


def check_element(element: object, webhook: bool, depth: int) -> None:
    if not isinstance(element, dict) or not isinstance(element.get("tag"), str):
        raise bad_json("an element without a tag")
    tag = element["tag"]
    if tag in REMOVED:
        raise CardRefusal(
            200861,
            "cards of schema V2 no longer support this capability",
            f"unsupported tag {tag}",
        )
    if tag not in COMPONENTS or tag == "column":
        raise CardRefusal(11310, "unsupported type of block", tag)
    if webhook and tag in CALLBACK_ONLY:
        raise CardRefusal(200621, "a custom bot gets no callbacks", tag)
    if tag == "form" and depth > 1:
        raise CardRefusal(200621, "a form must be at the root", tag)
    only(element, COMPONENTS[tag])
    element_id = element.get("element_id", "a")
    if not isinstance(element_id, str) or not ELEMENT_ID.match(element_id):
        raise CardRefusal(200621, "element_id invalid", element_id)
    CHECKS.get(tag, check_children)(element, webhook, depth)


def check_div(element: Json, webhook: bool, depth: int) -> None:
    if "text" in element:
        check_text(part(element, "text", dict))


def check_markdown(element: Json, webhook: bool, depth: int) -> None:
    check_active(part(element, "content", str))
    check_size(element)


def check_button(element: Json, webhook: bool, depth: int) -> None:
    text = part(element, "text", dict, {"tag": "plain_text", "content": ""})
    check_text(text, ("plain_text",))
    if len(text["content"]) > MAX_BUTTON_TEXT:
        raise CardRefusal(200621, "button text is too long", len(text["content"]))
    if element.get("type", "default") not in BUTTON_TYPES:
        raise CardRefusal(200621, "unknown button type", element["type"])
    width = element.get("width", "default")
    if width not in ("default", "fill") and not re.match(r"\d{3,}px\Z", str(width)):
        raise CardRefusal(200621, "unknown button width", width)
    check_confirm(element)
    needed: object = _REQUIRED
    if "form_action_type" in element:
        part(element, "name", str)
        if element["form_action_type"] not in ("submit", "reset"):
            raise CardRefusal(200621, "unknown form_action_type")
        needed = []
    for behavior in part(element, "behaviors", list, needed):
        check_behavior(behavior, webhook)


def check_confirm(element: Json) -> None:
    if "confirm" in element:
        confirm = part(element, "confirm", dict)
        only(confirm, frozenset(("title", "text")))
        for key in ("title", "text"):
            check_text(part(confirm, key, dict), ("plain_text",))


def check_input(element: Json, webhook: bool, depth: int) -> None:
    if not part(element, "name", str):
        raise CardRefusal(200530, "name is empty")
    limit = part(element, "max_length", int, 1000)
    if not 1 <= limit <= 1000:
        raise CardRefusal(200621, "max_length must be 1 to 1000", limit)
    if len(part(element, "default_value", str, "")) > limit:
        raise CardRefusal(200621, "default_value is longer than max_length")
    for key in ("label", "placeholder"):
        if key in element:
            check_text(part(element, key, dict), ("plain_text",))
            if len(element[key]["content"]) > MAX_BUTTON_TEXT:
                raise CardRefusal(200621, f"{key} is too long")
    if element.get("input_type", "text") not in ("text", "multiline_text", "password"):
        raise CardRefusal(200621, "unknown input_type", element["input_type"])


def check_select(element: Json, webhook: bool, depth: int) -> None:
    if not part(element, "name", str):
        raise CardRefusal(200530, "name is empty")
    options = part(element, "options", list)
    values = []
    for option in options:
        if not isinstance(option, dict):
            raise bad_json("an option is not an object")
        only(option, frozenset(("text", "value", "icon")))
        check_text(part(option, "text", dict), ("plain_text",))
        values.append(part(option, "value", str))
    if not values or len(set(values)) != len(values):
        raise CardRefusal(200621, "options must have values of their own")


def check_panel(element: Json, webhook: bool, depth: int) -> None:
    header = part(element, "header", dict)
    only(header, PANEL_HEADER)
    check_text(part(header, "title", dict), ("plain_text", "markdown"))
    inside = part(element, "elements", list, [])
    if any(child.get("tag") == "form" for child in every_element(inside)):
        raise CardRefusal(200621, "a form must be at the root", "form")
    check_elements(inside, webhook, depth + 1)


def check_behavior(behavior: object, webhook: bool) -> None:
    if not isinstance(behavior, dict):
        raise bad_json("a behavior is not an object")
    kind = behavior.get("type")
    if kind == "callback":
        only(behavior, frozenset(("type", "value")))
        if webhook:
            raise CardRefusal(200621, "a custom bot gets no callbacks", "callback")
        part(behavior, "value", dict)
    elif kind == "open_url":
        only(behavior, OPEN_URL)
        check_url(part(behavior, "default_url", str))
        for key in ("pc_url", "ios_url", "android_url"):
            if behavior.get(key):
                check_url(part(behavior, key, str))
    else:
        raise CardRefusal(200621, "unknown behavior", kind)


def check_column_set(element: Json, webhook: bool, depth: int) -> None:
    if element.get("flex_mode", "none") not in FLEX_MODES:
        raise CardRefusal(200621, "unknown flex_mode", element["flex_mode"])
    for column in part(element, "columns", list):
        if not isinstance(column, dict) or column.get("tag") != "column":
            raise bad_json("a column_set holds columns only")
        only(column, COMPONENTS["column"])
        weight = column.get("weight", 1)
        if not isinstance(weight, int) or not 1 <= weight <= 5:
            raise CardRefusal(200621, "weight must be 1 to 5", weight)
        inside = part(column, "elements", list, [])
        if any(isinstance(one, dict) and one.get("tag") == "action" for one in inside):
            message = "action components are not allowed in the column"
            raise CardRefusal(200410, message, "action")
        check_elements(inside, webhook, depth + 1)


def check_form(element: Json, webhook: bool, depth: int) -> None:
    part(element, "name", str)
    children = part(element, "elements", list, [])
    names = [one.get("name") for one in every_element(children) if "name" in one]
    if "" in names or len(names) != len(set(names)):
        raise CardRefusal(200621, "names in a form must be unique and not empty", names)
    actions = [one.get("form_action_type") for one in every_element(children)]
    if "submit" not in actions:
        raise CardRefusal(200621, "a form needs a submit button")
    check_elements(children, webhook, depth + 1)


def check_children(element: Json, webhook: bool, depth: int) -> None:
    if "elements" in element:
        check_elements(part(element, "elements", list), webhook, depth + 1)


CHECKS: dict[str, Callable[[Json, bool, int], None]] = {
    "div": check_div,
    "markdown": check_markdown,
    "button": check_button,
    "column_set": check_column_set,
    "form": check_form,
    "input": check_input,
    "select_static": check_select,
    "multi_select_static": check_select,
    "collapsible_panel": check_panel,
}
PANEL_HEADER = words(
    "title background_color vertical_align padding icon icon_position width"
    " icon_expanded_angle position"
)


def check_text(text: Json, tags: tuple[str, ...] = ("plain_text", "lark_md")) -> None:
    only(text, TEXT)
    if text.get("tag") not in tags:
        raise CardRefusal(200621, "unknown text tag", text.get("tag"))
    content = part(text, "content", str)
    check_size(text)
    if text["tag"] == "lark_md":
        check_active(content)


def check_size(element: Json) -> None:
    if not TEXT_SIZES.fullmatch(part(element, "text_size", str, "normal")):
        raise CardRefusal(200621, "unknown text_size", element["text_size"])


def check_active(content: str) -> None:
    """Mentions in markdown, wherever they stand: a wrong one refuses the card."""
    for match in AT.finditer(content):
        if not AT_ID.match(match.group(1)):
            raise CardRefusal(100290, "invalid at user", match.group())


def check_url(url: str) -> None:
    if not re.match(r"https?://[^\s/]", url):
        raise CardRefusal(200621, "url must be http or https", url)


def check_totals(card: Json) -> None:
    found = list(every_element(card))
    if len(found) > MAX_ELEMENTS:
        raise CardRefusal(11310, "element exceeds the limit", len(found))
    ids = [one["element_id"] for one in found if "element_id" in one]
    if len(ids) != len(set(ids)):
        raise CardRefusal(200621, "element_id is not unique")
    texts = [one.get("content", "") for one in found if one["tag"] == "markdown"]
    if sum(len(TABLE.findall(unfenced(text))) for text in texts) > MAX_TABLES:
        raise CardRefusal(11310, "card table number over limit", MAX_TABLES)


def unfenced(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def every_element(node: object) -> Iterator[Json]:
    """Every object with a tag, at any depth."""
    if isinstance(node, dict):
        if isinstance(node.get("tag"), str):
            yield node
        for value in node.values():
            yield from every_element(value)
    elif isinstance(node, list):
        for value in node:
            yield from every_element(value)


def every_text(card: Json) -> list[str]:
    """What a person can read on a card."""
    return [one["content"] for one in every_element(card) if "content" in one]


def every_url(card: Json) -> list[str]:
    """Where the buttons about a request lead, in order; the inbox is about all."""
    return [
        behavior["default_url"]
        for one in every_element(card)
        for behavior in one.get("behaviors", ())
        if behavior["type"] == "open_url" and "?" in behavior["default_url"]
    ]


def only(found: Json, allowed: frozenset[str]) -> None:
    for name in found:
        if name not in allowed:
            raise CardRefusal(200621, f"unknown property: {name}", name)


_REQUIRED = object()


def part(found: Json, key: str, kind: type, default: object = _REQUIRED) -> Any:
    """A property of the right type, or its default."""
    value = found.get(key, default)
    if value is _REQUIRED:
        raise bad_json(f"{key} is required")
    if not isinstance(value, kind):
        raise bad_json(f"{key} has the wrong type")
    return value


def bad_json(what: str) -> CardRefusal:
    message = "parse card json err, please check whether the card json is correct"
    return CardRefusal(200621, message, what)


# The service.


class Fault(NamedTuple):
    """How the next requests go wrong, before anything else is looked at."""

    status: int = 500
    body: bytes = b"oops"
    headers: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0  # silence before the answer
    close: bool = False  # no answer at all


RATE_GATEWAY = Fault(
    429,
    b'{"code":99991400,"msg":"request trigger frequency limit"}',
    (("x-ogw-ratelimit-limit", "100"), ("x-ogw-ratelimit-reset", "2")),
)
INTERNAL = Fault(200, b'{"code":2200,"msg":"internal error"}')


class FakeFeishu:
    """A custom bot, an app, and a record of what they were sent."""

    def __init__(
        self,
        port: int = 0,
        secret: str = "",
        keywords: tuple[str, ...] = (),
        allowed_ips: tuple[str, ...] = (),
        enabled: bool = True,
        limits: bool = True,
        at_all: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.secret = secret
        self.keywords = keywords
        self.allowed_ips = allowed_ips
        self.enabled = enabled
        self.limits = limits
        self.at_all = at_all
        self.clock = clock
        self.requests: list[tuple[str, bytes]] = []  # path and body of everything
        self.messages: list[Json] = []  # what the webhook took
        self.refusals: list[int] = []  # codes of what it did not
        self.app_messages: dict[str, Json] = {}  # message_id -> body, of the app
        self.app_ids = {APP_ID}
        self.tenant_token = TENANT_TOKEN
        self.faults: deque[Fault] = deque()
        self.refuse_texts: dict[str, int] = {}  # a word in the body -> code (DLP, ...)
        self.on_card: Callable[[Json], object] = lambda card: None  # a fast finger
        self._lock = threading.Lock()
        self._times: deque[float] = deque()
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> FakeFeishu:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def serve_forever(self) -> None:
        self._server.serve_forever(0.1)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def webhook_url(self) -> str:
        return f"{self.base_url}/open-apis/bot/v2/hook/{TOKEN}"

    @property
    def cards(self) -> list[Json]:
        return [
            one["card"] for one in self.messages if one["msg_type"] == "interactive"
        ]

    @property
    def texts(self) -> list[str]:
        found = [one for one in self.messages if one["msg_type"] == "text"]
        return [one["content"]["text"] for one in found]

    def answer(
        self, method: str, path: str, body: bytes, ip: str, headers: Any
    ) -> Json:
        """The answer to one request; raises Refusal."""
        with self._lock:
            self.requests.append((path, body))
            bare, _, query = path.partition("?")
            if method != "POST":
                return self.other(method, bare, query, body, headers)
            if bare.startswith("/open-apis/bot/v2/hook/"):
                return self._hook(bare.rpartition("/")[2], body, ip)
            if bare == "/open-apis/auth/v3/tenant_access_token/internal":
                return self._tenant_token(body)
            if bare == "/open-apis/im/v1/messages":
                return self._create(query, body, headers)
            return self.other(method, bare, query, body, headers)

    def other(
        self, method: str, path: str, query: str, body: bytes, headers: Any
    ) -> Json:
        """What only the whole platform knows; see `tests.fakes.feishu_app`."""
        raise Refusal(404, "page not found", 404)

    # The custom bot: token, size, IP, signature, keyword, rate, type, card.

    def _hook(self, token: str, body: bytes, ip: str) -> Json:
        try:
            message = self._checked(token, body, ip)
        except Refusal as refusal:
            self.refusals.append(refusal.code)
            raise
        self.messages.append(message)
        if "card" in message:
            self.on_card(message["card"])
        return {
            "StatusCode": 0,
            "StatusMessage": "success",
            "code": 0,
            "data": {},
            "msg": "success",
        }

    def _checked(self, token: str, body: bytes, ip: str) -> Json:
        if token != TOKEN:
            text = "param invalid: incoming webhook access token invalid"
            raise Refusal(19001, text)
        if not self.enabled:
            raise Refusal(19007, "Bot Not Enabled")
        message = json_object(body)
        if message is None or len(body) > HOOK_BYTES:
            raise Refusal(9499, "Bad Request")
        if self.allowed_ips and ip not in self.allowed_ips:
            raise Refusal(19022, "Ip Not Allowed")
        self._check_sign(message)
        self._check_keyword(message)
        self._check_rate()
        self._check_content(body.decode())
        self._check_message(message)
        return message

    def _check_sign(self, message: Json) -> None:
        if not self.secret:
            return
        stamp, found = str(message.get("timestamp", "")), message.get("sign")
        key = f"{stamp}\n{self.secret}".encode()
        right = base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()
        fresh = stamp.isdigit() and abs(self.clock() - int(stamp)) <= SIGN_SECONDS
        if found != right or not fresh:
            raise Refusal(
                19021,
                "sign match fail or timestamp is not within one hour from current time",
            )

    def _check_keyword(self, message: Json) -> None:
        content = message.get("content")
        texts = every_text(message.get("card") or {})
        texts.append(content.get("text", "") if isinstance(content, dict) else "")
        if self.keywords and not any(
            word in text for word in self.keywords for text in texts
        ):
            raise Refusal(19024, "Key Words Not Found")

    def _check_rate(self) -> None:
        now = self.clock()
        while self._times and self._times[0] <= now - 60:
            self._times.popleft()
        last_second = sum(moment > now - 1 for moment in self._times)
        if self.limits and (
            last_second >= SECOND_LIMIT or len(self._times) >= MINUTE_LIMIT
        ):
            text = "frequency limited psm[lark.oapi.app_platform_runtime]appID[1500]"
            raise Refusal(11232, text)
        self._times.append(now)

    def _check_content(self, body: str) -> None:
        for word, code in self.refuse_texts.items():
            if word in body:
                raise Refusal(code, "refused by a rule on content")

    def _check_message(self, message: Json) -> None:
        kind = message.get("msg_type")
        if not kind:
            raise Refusal(19002, "params error, msg_type need")
        if kind == "text":
            content = message.get("content")
            if not isinstance(content, dict) or not isinstance(
                content.get("text"), str
            ):
                raise Refusal(19002, "params error, text need")
            return
        if kind != "interactive":
            raise Refusal(19002, "params error, msg_type unknown")
        if not isinstance(message.get("card"), dict):
            raise Refusal(19002, "params error, unknown card value")
        try:
            check_card(message["card"])
        except CardRefusal as refusal:
            raise Refusal(11246, str(refusal)) from None
        mentions = [
            text for text in every_text(message["card"]) if "<at id=all>" in text
        ]
        if mentions and not self.at_all:
            raise Refusal(11235, "only admins may mention all")

    # The app: a token, and a card as a string.

    def _tenant_token(self, body: bytes) -> Json:
        message = json_object(body) or {}
        if message.get("app_id") not in self.app_ids:
            raise Refusal(10003, "invalid param")
        if message.get("app_secret") != APP_SECRET:
            raise Refusal(10015, "app secret invalid")
        return {
            "code": 0,
            "msg": "ok",
            "tenant_access_token": self.tenant_token,
            "expire": 7200,
        }

    def _create(self, query: str, body: bytes, headers: Any) -> Json:
        self.check_bearer(headers)
        message = json_object(body)
        if message is None or not isinstance(message.get("content"), str):
            raise Refusal(99992402, "field validation failed", 400)
        id_type = dict(pair.partition("=")[::2] for pair in query.split("&"))
        self._check_receiver(id_type.get("receive_id_type", ""), message)
        if len(message["content"].encode()) > APP_BYTES:
            raise Refusal(230025, "The message content reaches its limit.", 400)
        self._check_app_card(message)
        return {"code": 0, "msg": "success", "data": self._keep(message)}

    def check_bearer(self, headers: Any) -> None:
        bearer = headers.get("Authorization", "")
        if not bearer:
            raise Refusal(99991661, "Missing access token for authorization.", 400)
        if bearer != f"Bearer {self.tenant_token}":
            raise Refusal(99991663, "Invalid access token for authorization.", 400)

    def _check_receiver(self, id_type: str, message: Json) -> None:
        prefixes = {"open_id": "ou_", "chat_id": "oc_", "union_id": "on_"}
        receiver = str(message.get("receive_id", ""))
        if not receiver or not receiver.startswith(prefixes.get(id_type, "")):
            raise Refusal(230034, "The receive_id is invalid.", 400)

    def _check_app_card(self, message: Json) -> None:
        if message.get("msg_type") != "interactive":
            raise Refusal(230001, "Your request contains an invalid parameter", 400)
        try:
            check_card(json_object(message["content"].encode()), webhook=False)
        except CardRefusal as refusal:
            text = f"Failed to create card content, ext={refusal}"
            raise Refusal(230099, text, 400) from None

    def _keep(self, message: Json) -> Json:
        """Store the message; the same uuid is one message."""
        uuid = message.get("uuid")
        for found, kept in self.app_messages.items():
            if uuid and kept.get("uuid") == uuid:
                return self._sent(found)
        message_id = f"om_{len(self.app_messages) + 1:032d}"
        self.app_messages[message_id] = message
        return self._sent(message_id)

    def _sent(self, message_id: str) -> Json:
        kept = self.app_messages[message_id]
        return {
            "message_id": message_id,
            "msg_type": kept["msg_type"],
            "chat_id": "oc_chat",
            "create_time": str(int(self.clock() * 1000)),
            "body": {"content": kept["content"]},
        }


def json_object(body: bytes) -> Json | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is none of the platform's errors."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _handler(feishu: FakeFeishu) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_POST(self) -> None:
            self._take("POST")

        def do_PATCH(self) -> None:
            self._take("PATCH")

        def _take(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if feishu.faults:
                feishu.requests.append((self.path, body))
                self._fail(feishu.faults.popleft())
                return
            try:
                answer = feishu.answer(
                    method, self.path, body, self.client_address[0], self.headers
                )
                self._reply(200, answer)
            except Refusal as refusal:
                answer = {"code": refusal.code, "data": {}, "msg": refusal.msg}
                self._reply(refusal.status, answer, refusal.headers)

        def do_GET(self) -> None:
            if self.path != "/sent":
                self._take("GET")
                return
            self._reply(200, {"messages": feishu.messages, "refusals": feishu.refusals})

        def _fail(self, fault: Fault) -> None:
            time.sleep(fault.seconds)
            if fault.close:
                self.close_connection = True
                return
            self._send(fault.status, fault.body, dict(fault.headers))

        def _reply(self, status: int, answer: Json, headers: Any = ()) -> None:
            data = json.dumps(answer, ensure_ascii=False).encode()
            extra = {"Content-Type": "application/json", "X-Tt-Logid": "2026"}
            self._send(status, data, {**extra, **dict(headers)})

        def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            try:
                self.wfile.write(data)
            except OSError:  # the client gave up on a slow answer
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


if __name__ == "__main__":
    fake = FakeFeishu(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
    print(fake.webhook_url, flush=True)
    fake.serve_forever()
