"""Settings: defaults, limits, and errors that name key, value and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.errors import SettingError
from feishuperm.models.settings import (
    BY_KEY,
    SETTINGS,
    Settings,
    host_is_local,
    parse_setting,
    url_host,
)
from tests.tables import every_row

DEFAULTS: dict[str, Any] = {
    "feishu_webhook_url": "",
    "feishu_base_url": "https://open.feishu.cn",
    "callback_server_url": "http://localhost:8080",
    "callback_server_port": 8080,
    "callback_link_signing": "on",
    "callback_confirm": "auto",
    "permission_socket_path": "/tmp/claude-permission.sock",
    "permission_request_timeout": 55,
    "permission_timeout_action": "deny",
    "permission_notify_delay": 0,
    "feishuperm_notify": frozenset({"permission", "question", "plan"}),
    "feishuperm_lang": "zh",
    "feishuperm_log_level": "info",
    "supervisor_max_iterations": 20,
    "supervisor_timeout": 30,
    "supervisor_stop_timeout": 300,
    "supervisor_command": "claude",
}


def test_defaults() -> None:
    """A default is a promise: who set nothing keeps what they had."""
    settings = Settings({})
    assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS


def test_every_row_has_an_attribute_and_its_own_key() -> None:
    settings = Settings({})
    assert {setting.key.lower() for setting in SETTINGS} == set(vars(settings))
    assert len(BY_KEY) == len(SETTINGS)


def test_default_is_allowed_and_empty_means_default() -> None:
    for setting in SETTINGS:
        assert parse_setting(setting, "") == setting.parse(setting.default), setting


@every_row(
    ("key", "value", "expected"),
    [
        ("PERMISSION_REQUEST_TIMEOUT", "1", 1),
        ("PERMISSION_REQUEST_TIMEOUT", "86400", 86400),
        ("CALLBACK_SERVER_PORT", "0", 0),
        ("CALLBACK_SERVER_PORT", "65535", 65535),
        ("FEISHUPERM_LANG", "EN", "en"),
        ("PERMISSION_TIMEOUT_ACTION", "terminal", "terminal"),
        ("PERMISSION_NOTIFY_DELAY", "auto", 0),  # of 0.2.0
        ("FEISHUPERM_NOTIFY", "stop, failure,", frozenset({"stop", "failure"})),
        ("CALLBACK_SERVER_URL", "https://example.org/x/", "https://example.org/x"),
        ("PERMISSION_SOCKET_PATH", "/" + "x" * 102, "/" + "x" * 102),
        (
            "FEISHU_WEBHOOK_URL",
            "https://open.feishu.cn/open-apis/bot/v2/hook/x",
            "https://open.feishu.cn/open-apis/bot/v2/hook/x",
        ),
    ],
)
def test_good_value(key: str, value: str, expected: object) -> None:
    assert getattr(Settings({key: value}), key.lower()) == expected


BAD = [
    ("PERMISSION_REQUEST_TIMEOUT", "0"),
    ("PERMISSION_REQUEST_TIMEOUT", "86401"),
    ("PERMISSION_REQUEST_TIMEOUT", "-5"),
    ("PERMISSION_REQUEST_TIMEOUT", "5.5"),
    ("PERMISSION_REQUEST_TIMEOUT", "五"),
    ("PERMISSION_REQUEST_TIMEOUT", "٥"),
    ("PERMISSION_REQUEST_TIMEOUT", "9" * 5000),
    ("CALLBACK_SERVER_PORT", "65536"),
    ("FEISHUPERM_LANG", "fr"),
    ("FEISHUPERM_NOTIFY", "permission,everything"),
    ("CALLBACK_SERVER_URL", "localhost:8080"),
    ("CALLBACK_SERVER_URL", "ftp://example.org"),
    ("CALLBACK_SERVER_URL", "http://"),
    ("CALLBACK_SERVER_URL", "http://:8080"),
    ("CALLBACK_SERVER_URL", "http://[::1"),
    ("CALLBACK_SERVER_URL", "http://x:99999"),
    ("CALLBACK_SERVER_URL", "http://x:80:80"),
    ("CALLBACK_SERVER_URL", "http://a b"),
    ("CALLBACK_SERVER_URL", "http://a\nb"),
    ("PERMISSION_SOCKET_PATH", "relative.sock"),
    ("PERMISSION_SOCKET_PATH", "/" + "x" * 103),
    ("PERMISSION_SOCKET_PATH", "/" + "中" * 35),
]


def refusal(key: str, value: str) -> tuple[str, int]:
    """What is said of a bad value, and the exit code."""
    try:
        Settings({key: value})
    except SettingError as error:
        return str(error), error.exit_code
    return "taken", 0


def test_bad_value_is_named_with_what_is_allowed() -> None:
    wrong = [
        (key, value, refusal(key, value))
        for key, value in BAD
        if refusal(key, value) != (f"{key}: {value!r} is not {BY_KEY[key].allowed}", 2)
    ]
    assert not wrong


def test_hook_takes_the_default_for_a_bad_value() -> None:
    for key, value in BAD:
        lenient = Settings({key: value}, lenient=True)
        default = getattr(Settings({}), key.lower())
        assert getattr(lenient, key.lower()) == default, (key, value)


@every_row(
    "url",
    [
        "https://open.feishu.cn/open-apis/bot/hook/SECRET",
        "https://www.feishu.cn/flow/api/trigger-webhook/SECRET",
        "SECRET",
    ],
)
def test_bad_webhook_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(SettingError) as caught:
        Settings({"FEISHU_WEBHOOK_URL": url})
    assert "FEISHU_WEBHOOK_URL" in str(caught.value)
    assert "SECRET" not in str(caught.value)


@given(st.dictionaries(st.sampled_from(sorted(BY_KEY)), st.text()))
def test_lenient_settings_never_fail(values: dict[str, str]) -> None:
    Settings(values, lenient=True)


@given(st.sampled_from(sorted(BY_KEY)), st.text())
def test_any_value_is_taken_or_refused_in_words(key: str, value: str) -> None:
    try:
        Settings({key: value})
    except SettingError as error:
        assert key in str(error)


@every_row(
    ("url", "host", "local"),
    [
        ("http://localhost:8080", "localhost", True),
        ("http://LOCALHOST", "localhost", True),
        ("http://127.0.0.1:80/x", "127.0.0.1", True),
        ("http://127.8.9.1", "127.8.9.1", True),
        ("http://[::1]:8080", "::1", True),
        ("http://127.example.com", "127.example.com", False),
        ("http://127.0.0.1.example.com", "127.0.0.1.example.com", False),
        ("http://localhost@example.com", "example.com", False),
        ("http://example.com/localhost", "example.com", False),
        ("http://192.168.1.5:8080", "192.168.1.5", False),
        ("https://[2001:db8::1]", "2001:db8::1", False),
    ],
)
def test_which_url_is_local(url: str, host: str, local: bool) -> None:
    assert url_host(url) == host
    assert host_is_local(host) is local
    settings = Settings({"CALLBACK_SERVER_URL": url})
    assert settings.url_is_local() is local
    assert settings.signs_links() is True
    here = "127.0.0.1" if host == "localhost" else host
    assert settings.http_host() == (here if local else "")


BOTH = ("127.0.0.1", "::1")


@every_row(
    ("url", "host", "hosts"),
    [
        ("http://localhost:8080", "", BOTH),
        ("http://localhost:8080", "localhost", BOTH),
        ("http://localhost:8080", "127.0.0.1", BOTH),
        ("http://localhost:8080", "0.0.0.0", ("0.0.0.0", "::1")),
        ("http://localhost:8080", "10.0.0.1", ("10.0.0.1", *BOTH)),
        ("http://127.0.0.1:8080", "", BOTH),
        ("http://[::1]:8080", "", BOTH[::-1]),
        ("http://127.8.9.1:8080", "", ("127.8.9.1",)),
        ("http://192.168.1.5:8080", "", ("0.0.0.0", "::")),
        ("http://192.168.1.5:8080", "::", ("0.0.0.0", "::")),
        ("http://192.168.1.5:8080", "192.168.1.5", ("192.168.1.5",)),
        ("https://example.org", "127.0.0.1", BOTH),
    ],
)
def test_where_a_link_says_localhost_both_families_are_listened_on(
    url: str, host: str, hosts: tuple[str, ...]
) -> None:
    values = {"CALLBACK_SERVER_URL": url, "CALLBACK_SERVER_HOST": host}
    assert Settings(values).http_hosts() == hosts


@every_row("base", ["https://open.feishu.cn", "https://open.larksuite.com"])
def test_bot_given_by_its_token_lives_at_the_base_url(base: str) -> None:
    token = "11111111-2222-3333-4444-555555555555"
    settings = Settings({"FEISHU_WEBHOOK_URL": token, "FEISHU_BASE_URL": base})
    assert settings.feishu_webhook_url == f"{base}/open-apis/bot/v2/hook/{token}"


def test_host_obeys_its_own_key() -> None:
    assert Settings({"CALLBACK_SERVER_HOST": "10.0.0.1"}).http_host() == "10.0.0.1"


@every_row("url", ["http://localhost:8080", "http://x.org"])
@every_row(("value", "signs"), [("", True), ("on", True), ("off", False)])
def test_links_are_signed_unless_switched_off(
    url: str, value: str, signs: bool
) -> None:
    values = {"CALLBACK_SERVER_URL": url, "CALLBACK_LINK_SIGNING": value}
    assert Settings(values).signs_links() is signs


@every_row(
    ("value", "url", "allow", "deny"),
    [
        ("", "http://localhost:8080", False, False),
        ("", "https://x.org", True, False),
        ("auto", "https://x.org", True, False),
        ("on", "http://localhost:8080", True, True),
        ("off", "https://x.org", False, False),
    ],
)
def test_what_allows_something_is_asked_for_first_away_from_loopback(
    value: str, url: str, allow: bool, deny: bool
) -> None:
    values = {"CALLBACK_SERVER_URL": url, "CALLBACK_CONFIRM": value}
    settings = Settings(values)
    assert settings.asks_first(grants=True) is allow
    assert settings.asks_first(grants=False) is deny
    lasting = settings.asks_first(grants=True, lasts=True)
    assert lasting is (allow or not settings.url_is_local())
