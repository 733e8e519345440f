"""Every setting: a row of `Settings` says its default, and what is allowed.

What each is for, people are told by `help/settings.en.md`.

`Settings` is made from plain strings, whatever they came from; it reads no file and no
environment (see `lib.config`).  Attributes are the keys in lower case; the type of each
is what its parser returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from feishuperm.errors import SettingError
from feishuperm.messages import msg
from feishuperm.models.names import LANGUAGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")

NOTIFY = "permission,question,plan"  # what makes a card if nobody says otherwise
SURFACES = ("inbox", "webhook", "app", "gateway")
MIN_TOKEN = 16  # characters; a custom bot's is a UUID
HOOK_PATH = "/open-apis/bot/v2/hook/"
ENGINES = ("redis", "rediss")
LOG_LEVELS = ("debug", "info", "warning", "error")


class Setting:
    """One key. `parse` turns a string into the value or raises ValueError."""

    def __init__(
        self,
        default: str,
        parse: Callable[[str], Any],
        allowed: str | Callable[[], str],
        secret: bool,
    ) -> None:
        self.default = default
        self.parse = parse
        self._allowed = allowed
        self.secret = secret  # never shown in an error, a log or a status

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = name.upper()

    @property
    def allowed(self) -> str:
        """What a value may be."""
        return self._allowed if isinstance(self._allowed, str) else self._allowed()


def _row(
    default: str,
    parse: Callable[[str], T],
    allowed: str | Callable[[], str],
    secret: bool = False,
) -> T:
    """A row of `Settings`; an instance has the parsed value in its place."""
    row: Any = Setting(default, parse, allowed, secret)
    return row  # type: ignore[no-any-return]


def _checked(value: T, is_allowed: object) -> T:
    """The value itself. Raises ValueError."""
    if not is_allowed:
        raise ValueError
    return value


def _text(value: str) -> str:
    return value


def _url(value: str) -> str:
    scheme, _, rest = value.partition("://")
    authority = rest.partition("/")[0].rpartition("@")[2]
    port = authority.rpartition("]")[2].partition(":")[2] or "0"
    is_port = port.isascii() and port.isdigit() and int(port) < 1 << 16
    is_plain = not any(ord(char) <= 32 or char in "?#" for char in value)
    is_web = scheme in ("http", "https") and url_host(value) and is_port and is_plain
    return _checked(value.rstrip("/"), is_web or not value)


def _webhook(value: str) -> str:
    """A custom bot's address or token; two look-alikes never work and are refused."""
    if len(value) >= MIN_TOKEN and value.replace("-", "").isalnum() and value.isascii():
        return value
    look_alikes = "/bot/hook/" in value or "/trigger-webhook/" in value
    return _checked(_url(value), not look_alikes)


def _number(low: int, high: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        number = int(_checked(value, value.isascii() and value.isdigit()))
        return _checked(number, low <= number <= high)

    return parse


def _delay(value: str) -> int:
    """`auto` is a word of 0.2.0: its config.env must keep no server from starting."""
    return 0 if value == "auto" else _number(0, 86400)(value)


def _choice(*names: str) -> Callable[[str], str]:
    return lambda value: _checked(value.lower(), value.lower() in names)


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _names(*allowed: str) -> Callable[[str], frozenset[str]]:
    def parse(value: str) -> frozenset[str]:
        names = frozenset(_parts(value))
        return _checked(names, names <= frozenset(allowed))

    return parse


def notify_kinds() -> tuple[str, ...]:
    """The words of FEISHUPERM_NOTIFY: every kind of request, every kind of notice."""
    from feishuperm.models.kind import KINDS  # late: a hook seldom needs it
    from feishuperm.models.names import NOTICE_EVENTS

    return (*KINDS, *dict.fromkeys(row.kind for row in NOTICE_EVENTS.values()))


def _notify(value: str) -> frozenset[str]:
    return _names(*NOTIFY.split(",") if value == NOTIFY else notify_kinds())(value)


def _if(fits: Callable[[str], bool]) -> Callable[[str], str]:
    """Nothing, or a text that fits."""
    return lambda value: _checked(value, not value or fits(value))


_app_id = _if(lambda value: value.startswith("cli_") and value[4:].isalnum())
_path = _if(lambda value: value.startswith("/"))


def _folders(value: str) -> tuple[str, ...]:
    folders = tuple(dict.fromkeys(part for part in value.split(":") if part))
    return _checked(folders, all(folder.startswith("/") for folder in folders))


# sun_path holds 104 bytes on macOS and 108 on Linux, the closing NUL included.
_socket_path = _if(lambda value: value.startswith("/") and len(value.encode()) <= 103)


def _is_engine(value: str) -> bool:
    scheme, _, rest = value.partition("://")
    return scheme in ENGINES and bool(rest.strip("/"))


_engine = _if(_is_engine)


def _quiet(value: str) -> tuple[int, int] | None:
    """Minutes of the day at which quiet hours begin and end; None: there are none."""
    if not value:
        return None
    from time import strptime  # late: it loads much

    begin, end = (strptime(part.strip(), "%H:%M") for part in value.split("-"))
    hours = [time.tm_hour * 60 + time.tm_min for time in (begin, end)]
    return _checked((hours[0], hours[1]), begin != end)


def _open_ids(value: str) -> frozenset[str]:
    ids = frozenset(_parts(value))
    return _checked(ids, all(id.startswith("ou_") for id in ids))


def _networks(value: str) -> tuple[Any, ...]:
    if not value:
        return ()
    from ipaddress import ip_network  # for gateways behind a proxy alone

    return tuple(ip_network(part, strict=False) for part in _parts(value))


_URL = msg("an http:// or https:// address")
_SECONDS = msg("whole seconds from 1 to 86400")
_PORT = _number(0, 65535), msg("0 to 65535")
_AT_ZERO = _choice("deny", "terminal"), msg("deny or terminal")
_SWITCH = _choice("auto", "on", "off"), msg("auto, on or off")

LOOPBACK = ("127.0.0.1", "::1")
EVERY_ADDRESS = ("0.0.0.0", "::")


class Settings:
    """The values in force. Unknown keys are the caller's business."""

    feishu_webhook_url = _row(
        "",
        _webhook,
        msg("the address of a custom bot, .../open-apis/bot/v2/hook/..., or its token"),
        secret=True,
    )
    feishu_webhook_secret = _row("", _text, msg("any text"), secret=True)
    feishu_app_id = _row("", _app_id, msg("the id of a self-built app, cli_..."))
    feishu_app_secret = _row("", _text, msg("any text"), secret=True)
    feishu_receive_id = _row(
        "", _text, msg("an open_id (ou_), a chat (oc_), an e-mail address or a user_id")
    )
    feishu_owner_id = _row("", _open_ids, msg("a comma list of open_ids (ou_)"))
    feishu_urgent = _row("off", _choice("off", "app"), msg("off or app"))
    feishu_accounts_url = _row("https://accounts.feishu.cn", _url, _URL)
    feishu_base_url = _row("https://open.feishu.cn", _url, _URL)
    feishu_at = _row("", _text, msg("`all`, an open_id, or nothing"))
    callback_server_url = _row("http://localhost:8080", _url, _URL)
    callback_server_host = _row("", _text, msg("an address of this machine"))
    callback_server_port = _row("8080", *_PORT)
    callback_link_signing = _row("on", _choice("on", "off"), msg("on or off"))
    callback_confirm = _row("auto", *_SWITCH)
    callback_share_installer = _row("auto", *_SWITCH)
    permission_socket_path = _row(
        "/tmp/claude-permission.sock",
        _socket_path,
        msg("an absolute path of at most 103 bytes"),
    )
    # Claude Code ends a hook at its own `timeout`: `install`
    # writes this and the hold below plus 5.
    permission_request_timeout = _row("55", _number(1, 86400), _SECONDS)
    permission_timeout_action = _row("deny", *_AT_ZERO)
    # Of a request that has no dialog while it waits
    permission_subagent_action = _row("terminal", *_AT_ZERO)
    permission_hold = _row("0", _number(0, 86400), msg("whole seconds from 0 to 86400"))
    permission_notify_delay = _row("0", _delay, msg("whole seconds from 0 to 86400"))
    feishuperm_surfaces = _row(
        "", _names(*SURFACES), msg("a comma list of {}", ", ".join(SURFACES))
    )
    feishuperm_notify = _row(
        NOTIFY, _notify, lambda: msg("a comma list of {}", ", ".join(notify_kinds()))
    )
    feishuperm_quiet = _row(
        "", _quiet, msg("two local times as HH:MM-HH:MM, such as 22:00-08:00")
    )
    feishuperm_card = _row("full", _choice("full", "title"), msg("full or title"))
    feishuperm_ca_file = _row("", _path, msg("an absolute path"))
    feishuperm_gateway = _row("", _url, _URL)
    feishuperm_gateway_grants = _row("off", _choice("off", "on"), msg("off or on"))
    feishuperm_remote = _row("off", _choice("off", "on"), msg("off or on"))
    feishuperm_projects = _row(
        "", _folders, msg("absolute folders, separated by colons")
    )
    feishuperm_engine = _row(
        "", _engine, msg("redis:// or rediss:// and an address"), secret=True
    )
    gateway_host = _row("", _text, msg("an address of this machine"))
    gateway_port = _row("8443", *_PORT)
    gateway_cert = _row("", _path, msg("an absolute path"))
    gateway_key = _row("", _path, msg("an absolute path"))
    gateway_owners = _row("", _open_ids, msg("a comma list of open_ids (ou_)"))
    gateway_metrics_token = _row("", _text, msg("any text"), secret=True)
    gateway_trusted_proxies = _row(
        "", _networks, msg("a comma list of addresses or networks, such as 10.0.0.0/8")
    )
    feishuperm_lang = _row("zh", _choice(*LANGUAGES), msg("zh or en"))
    feishuperm_log_level = _row("info", _choice(*LOG_LEVELS), ", ".join(LOG_LEVELS))
    supervisor_max_iterations = _row("20", _number(0, 1000), msg("0 to 1000"))
    supervisor_timeout = _row("30", _number(1, 3600), msg("1 to 3600"))
    supervisor_stop_timeout = _row("300", _number(1, 3600), msg("1 to 3600"))
    supervisor_command = _row("claude", _text, msg("a command"))

    def __init__(self, values: Mapping[str, str], lenient: bool = False) -> None:
        """Parse every key; `lenient` takes the default for a bad value (`hook`)."""
        for setting in SETTINGS:
            try:
                value = parse_setting(setting, values.get(setting.key, ""))
            except SettingError:
                if not lenient:
                    raise
                value = setting.parse(setting.default)
            setattr(self, setting.key.lower(), value)
        if self.feishu_webhook_url and "://" not in self.feishu_webhook_url:
            base = self.feishu_base_url + HOOK_PATH
            self.feishu_webhook_url = base + self.feishu_webhook_url

    def app_people(self) -> tuple[str, frozenset[str]]:
        """Who gets the app's cards, and whose taps count. Raises SettingError."""
        owners, receiver = self.feishu_owner_id, self.feishu_receive_id
        if not receiver and len(owners) == 1:
            (receiver,) = owners
        if not owners and receiver.startswith("ou_"):
            owners = frozenset((receiver,))
        if not receiver:
            raise SettingError(
                msg("FEISHU_RECEIVE_ID: nobody is named who gets the app's cards")
            )
        if not owners:
            raise SettingError(
                msg(
                    "FEISHU_OWNER_ID: name who may tap, since FEISHU_RECEIVE_ID is "
                    "not the open_id of one person"
                )
            )
        return receiver, owners

    def url_is_local(self) -> bool:
        """Whether the buttons point to this machine only."""
        return host_is_local(url_host(self.callback_server_url))

    def denies_at_zero(self, from_agent: bool) -> bool:
        """Whether a request that nobody answers in time is denied."""
        action = self.permission_subagent_action if from_agent else ""
        return "terminal" not in (action, self.permission_timeout_action)

    def titles_only(self) -> bool:
        """Whether nothing of a request may leave this machine."""
        return self.feishuperm_card == "title"

    def signs_links(self) -> bool:
        return self.callback_link_signing == "on"

    def asks_first(self, grants: bool, lasts: bool = False) -> bool:
        """Whether a button's link opens a page instead of deciding.

        What lasts is never decided by a link that a whole group could open.
        """
        if self.callback_confirm == "on" or (lasts and not self.url_is_local()):
            return True
        return self.callback_confirm == "auto" and grants and not self.url_is_local()

    def possible_surfaces(self) -> frozenset[str]:
        """What is set up to show a request: the inbox always is."""
        is_set = {
            "inbox": True,
            "app": self.feishu_app_id and self.feishu_app_secret,
            "webhook": self.feishu_webhook_url,
            "gateway": self.feishuperm_gateway,
        }
        return frozenset(name for name in SURFACES if is_set[name])

    def surfaces(self) -> frozenset[str]:
        """Where a request may be answered."""
        possible = self.possible_surfaces()
        return possible & (self.feishuperm_surfaces or possible)

    def http_host(self) -> str:
        """The address HTTP listens on; empty means all of them."""
        if self.callback_server_host:
            return self.callback_server_host
        if not self.url_is_local():
            return ""
        host = url_host(self.callback_server_url)
        return "127.0.0.1" if host == "localhost" else host

    def http_hosts(self) -> tuple[str, ...]:
        """The addresses HTTP listens on; the first has to be there.

        Both loopback families where one is meant, and wherever links say `localhost`:
        a browser may try either, and another user could answer on the one left free.
        """
        host = self.http_host()
        if host in ("", "::"):
            return EVERY_ADDRESS
        if host in ("localhost", *LOOPBACK):
            return LOOPBACK[::-1] if host == "::1" else LOOPBACK
        if url_host(self.callback_server_url) != "localhost":
            return (host,)
        return (host, *(LOOPBACK[1:] if host == EVERY_ADDRESS[0] else LOOPBACK))


SETTINGS = tuple(row for row in vars(Settings).values() if isinstance(row, Setting))
BY_KEY = {setting.key: setting for setting in SETTINGS}


def parse_setting(setting: Setting, value: str) -> Any:
    """A value by its own rule; empty means the default. Raises SettingError."""
    try:
        return setting.parse(value or setting.default)
    except ValueError:
        key, allowed = setting.key, setting.allowed
        problem = msg("{}: {!r} is not {}", key, value, allowed)
        if setting.secret:
            problem = msg("{}: its value is not {}", key, allowed)
        raise SettingError(problem) from None


def url_host(url: str) -> str:
    """The host of a URL, without port and brackets, in lower case."""
    authority = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].lower()


def url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def host_is_local(host: str) -> bool:
    """Whether a host name means this machine."""
    if host in ("localhost", "::1"):
        return True
    parts = host.split(".")  # 127.0.0.1, but not 127.example.com
    return len(parts) == 4 and parts[0] == "127" and "".join(parts).isdigit()
