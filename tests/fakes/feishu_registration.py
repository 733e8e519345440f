"""The host where an app is created by a scan, and the calls that tell about the app.

`Registration` is accounts.feishu.cn: codes, links, polls, and a person (`scan`) who
opens the link.  Its answers can be scripted one by one.  `Platform` is the fake of
`tests.fakes.feishu_app` with what only the maker of an app asks: the application and
its versions, as the scan has left them.  Errors travel as HTTP 400 with a body.
"""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fakes.feishu import APP_ID, APP_SECRET, Json, Refusal
from tests.fakes.feishu_app import BOT, OWNER, FakePlatform

CODE, USER_CODE = "v1:device-code", "AVQP-9HGX"
PENDING: Json = {"error": "authorization_pending", "code": 20094,
                 "error_description": ""}  # fmt: skip
BEGIN = {
    "action": ["begin"],
    "archetype": ["PersonalAgent"],
    "auth_method": ["client_secret"],
}
ADDON_KEYS = {
    "preset",
    "scopes",
    "scopes.tenant",
    "scopes.user",
    "events",
    "events.items",
    "events.items.tenant",
    "events.items.user",
    "callbacks",
    "callbacks.items",
}
CUT = b""  # an answer that never comes: the connection is closed


class Registration:
    """One accounts host. `script` holds answers (status, body) that come first."""

    def __init__(self, platform: Platform | None = None, interval: float = 1) -> None:
        self.platform = platform
        self.interval = interval
        self.script: deque[tuple[int, Json | bytes]] = deque()
        self.begin_extra: Json = {}
        self.lifetime: Json = {"expires_in": 3600}
        self.begins = 0
        self.polls = 0
        self.open_id = OWNER
        self.brand = "feishu"
        self.lark_host = ""  # a company of Lark's: the only one that hands out
        self.confirmed = False
        self.handed_out = False  # a secret is given once
        self.scanned: list[dict[str, list[str]]] = []  # queries of opened links
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Registration:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    # The person.

    def scan(self, link: str) -> None:
        """Open the link, and say yes to what the page shows."""
        query = parse_qs(urlsplit(link).query)
        assert query["user_code"] == [USER_CODE], link
        self.scanned.append(query)
        if self.platform is not None and urlsplit(link).path == "/page/launcher":
            self.platform.add(read_addons(query["addons"][0]))
        self.confirmed = True

    # The calls.

    def answer(
        self, form: dict[str, list[str]], host: str = ""
    ) -> tuple[int, Json | bytes]:
        if form.get("action") == ["begin"]:
            return self._begin(form)
        if form.get("action") != ["poll"]:
            return 400, {"error": "invalid_request"}
        self.polls += 1
        if self.script:
            return self.script.popleft()
        if form.get("device_code") != [CODE] or self.handed_out:
            return 400, {"error": "invalid_grant", "code": 20079}
        if not self.confirmed:
            return 400, PENDING
        if host != self.lark_host and self.lark_host:
            return 400, {**PENDING, "user_info": {"tenant_brand": "lark"}}
        self.handed_out = True
        user = {"open_id": self.open_id, "tenant_brand": self.brand}
        return 200, self.app(user_info=user)

    def app(self, **more: object) -> Json:
        return {"client_id": APP_ID, "client_secret": APP_SECRET, **more}

    def _begin(self, form: dict[str, list[str]]) -> tuple[int, Json | bytes]:
        self.begins += 1
        if self.script and self.begins == 1 and "device_code" in str(self.script[0]):
            return self.script.popleft()
        assert BEGIN.items() <= form.items(), form
        assert "open_id" in form["request_user_info"][0].split()
        self.confirmed = self.handed_out = False
        return 200, {
            "device_code": CODE,
            "user_code": USER_CODE,
            "verification_uri": f"{self.url}/page/launcher",
            "verification_uri_complete": f"https://open.feishu.cn/page/launcher"
            f"?user_code={USER_CODE}",
            "interval": self.interval,
            **self.lifetime,
            **self.begin_extra,
        }


def read_addons(packed: str) -> Json:
    """What the page takes from a link; one unknown key, and it takes nothing."""
    data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    addons: Json = json.loads(gzip.decompress(data))
    return addons if set(_keys(addons)) <= ADDON_KEYS else {}


def _keys(node: object, path: str = "") -> list[str]:
    if not isinstance(node, dict):
        return []
    names = [f"{path}{key}" for key in node]
    return names + [name for key in node for name in _keys(node[key], f"{path}{key}.")]


class Platform(FakePlatform):
    """The platform of an app that a scan has made."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.scopes: list[str] = []
        self.events: list[str] = []
        self.callbacks: list[str] = []
        self.callback_type = "websocket"
        self.tells_callback = True
        self.tells_connections = True
        self.app_status = 1
        self.unaudited = ""
        self.owner = OWNER
        self.refused: dict[str, Refusal] = {}  # route -> what it answers instead

    def add(self, addons: Json) -> None:
        """What a scan gives the app; it never takes anything away."""
        self.scopes += addons.get("scopes", {}).get("tenant", [])
        self.events += addons.get("events", {}).get("items", {}).get("tenant", [])
        self.callbacks += addons.get("callbacks", {}).get("items", [])
        self.subscribed = "card.action.trigger" in self.callbacks

    def other(
        self, method: str, path: str, query: str, body: bytes, headers: Any
    ) -> Json:
        route = path.removeprefix("/open-apis/")
        if route in self.refused:
            self.check_bearer(headers)
            raise self.refused[route]
        if method == "GET" and route.startswith("application/v6/applications/me"):
            self.check_bearer(headers)
            if "lang=" not in query:
                raise Refusal(99992402, "field validation failed", 400)
            if "application:application:self_manage" not in self.scopes:
                raise Refusal(99991672, "Access denied. One of the scopes", 400)
            data = self._versions() if route.endswith("/app_versions") else self._app()
            return {"code": 0, "msg": "ok", "data": data}
        if route == "event/v1/connection" and not self.tells_connections:
            raise Refusal(404, "page not found", 404)
        return super().other(method, path, query, body, headers)

    def _app(self) -> Json:
        app: Json = {
            "app_id": APP_ID,
            "status": self.app_status,
            "online_version_id": "oav_1",
            "unaudit_version_id": self.unaudited,
            "creator_id": self.owner,
            "owner": {"owner_id": self.owner, "type": 2},
            "scopes": [{"scope": scope, "level": 1} for scope in self.scopes],
        }
        if self.tells_callback:
            app["callback_info"] = {
                "callback_type": self.callback_type,
                "subscribed_callbacks": self.callbacks,
            }
        return {"app": app}

    def _versions(self) -> Json:
        if not self.published:
            return {"items": [{"version": "1.0.0", "status": 4}], "has_more": False}
        version = {
            "version": "1.0.0",
            "status": 1,
            "publish_time": "1790000000",
            "event_infos": [{"event_type": event} for event in self.events],
            "scopes": [{"scope": scope} for scope in self.scopes],
            "ability": {"bot": {}},
        }
        return {"items": [version], "has_more": False}


def _handler(host: Registration) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            form = parse_qs(self.rfile.read(size).decode(), strict_parsing=True)
            kind = self.headers["Content-Type"]
            if self.path != "/oauth/v1/app/registration":
                self._send(404, b"not found")
            elif kind != "application/x-www-form-urlencoded":
                self._send(415, b"unsupported")
            else:
                status, body = host.answer(form, self.headers["Host"])
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self._send(status, data)

        def _send(self, status: int, data: bytes) -> None:
            if data == CUT:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


__all__ = ["BOT", "CODE", "CUT", "PENDING", "Platform", "Registration", "read_addons"]
