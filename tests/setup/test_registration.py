"""Creating an app by a scan: every answer of Feishu's, and what it leads to."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.lib import qr
from feishuperm.lib.post import Reply
from feishuperm.setup import scan
from feishuperm.setup.scan import (
    DENIED,
    EXPIRED,
    FAILED,
    LARK_ACCOUNTS,
    SCOPES,
    Created,
    Ended,
    Registration,
    begin,
    begun,
    restored,
)
from tests.tables import every_row

HOST = "https://accounts.feishu.cn"
LINK = "https://open.feishu.cn/page/launcher?user_code=AVQP-9HGX"
APP = {"client_id": "cli_a1", "client_secret": "s" * 32}
USER = {"open_id": "ou_me", "tenant_brand": "feishu"}
LARK = {"tenant_brand": "lark"}
PENDING = {"error": "authorization_pending", "code": 20094, "error_description": ""}


def reply(body: object, status: int = 400) -> Reply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply(status, {}, data)


def waiting(**values: Any) -> Registration:
    fields = {"host": HOST, "code": "v1:c", "link": LINK, "until": 600, "interval": 5}
    return Registration(**{**fields, **values})


def given_code(**values: Any) -> dict[str, Any]:
    code = {"device_code": "v1:c", "user_code": "AVQP-9HGX",
            "verification_uri_complete": LINK, "interval": 5}  # fmt: skip
    return {**code, **values}


# The beginning.


def test_begin_asks_for_a_secret_and_for_who_scans() -> None:
    call = begin(HOST)
    assert (call.method, call.url) == ("POST", f"{HOST}/oauth/v1/app/registration")
    assert call.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert call.body == (
        b"action=begin&archetype=PersonalAgent&auth_method=client_secret"
        b"&request_user_info=open_id+tenant_brand"
    )


@every_row(
    ("answer", "seconds"),
    [
        ({"expires_in": 3600}, 3600),
        ({"expire_in": 900}, 900),
        ({"expires_in": 1200, "expire_in": 900}, 1200),
        ({}, 600),
        ({"expires_in": "soon"}, 600),
        ({"expires_in": 60}, 600),  # a person needs minutes
        ({"expires_in": 10**12}, 600),
        ({"expires_in": 86400}, 3600),
    ],
)
def test_life_of_a_link_is_read_under_both_names(
    answer: dict[str, Any], seconds: int
) -> None:
    assert begun(reply(given_code(**answer), 200), HOST, 100.0).until == 100 + seconds


@every_row(
    ("interval", "pause"), [(5, 5), (0, 5), (0.01, 1), (1e6, 60), ("x", 5), (True, 1)]
)
def test_interval_is_kept_within_reason(interval: Any, pause: float) -> None:
    made = begun(reply(given_code(interval=interval), 200), HOST, 0.0)
    assert made.pause == pause


@every_row(
    ("body", "words"),
    [
        ({"error": "invalid_client"}, "Feishu says: invalid_client"),
        (
            {"error": "x", "error_description": "no\x1b[2Jway"},
            "Feishu says: no⟦U+001B⟧",
        ),
        (b"<html>", "HTTP status 400 and no code"),
        ([], "HTTP status 400 and no code"),
        (given_code(device_code=""), "HTTP status 400 and no code"),
        (given_code(device_code=7), "HTTP status 400 and no code"),
        (given_code(verification_uri_complete="javascript:x"), "HTTP status 400"),
        (given_code(verification_uri_complete="https://x/\x1b[2J"), "HTTP status 400"),
    ],
)
def test_begin_without_a_code_says_why(body: object, words: str) -> None:
    with pytest.raises(Ended) as error:
        begun(reply(body), HOST, 0.0)
    assert error.value.kind == FAILED and error.value.said.startswith(words)


# The link.


def test_link_makes_a_new_app_with_exactly_what_is_needed() -> None:
    query = parse_qs(urlsplit(waiting().scan_link()).query)
    packed = query.pop("addons")[0]
    assert query == {
        "user_code": ["AVQP-9HGX"],
        "from": ["sdk"],
        "tp": ["sdk"],
        "source": ["perm"],
        "name": ["feishuperm"],
        "createOnly": ["true"],
    }
    data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    assert json.loads(gzip.decompress(data)) == {
        "preset": False,
        "scopes": {
            "tenant": [
                "im:message:send_as_bot",
                "im:message:update",
                "im:message.p2p_msg:readonly",
                "im:resource:upload",
                "application:application:self_manage",
            ]
        },
        "events": {"items": {"tenant": ["im.message.receive_v1"]}},
        "callbacks": {"items": ["card.action.trigger"]},
    }
    assert len(SCOPES) == 5


def test_link_for_an_app_names_it_and_makes_no_other() -> None:
    query = parse_qs(urlsplit(waiting(app_id="cli_a1").scan_link()).query)
    assert query["clientID"] == ["cli_a1"]
    assert "createOnly" not in query and "name" not in query


def test_code_of_the_link_fits_a_terminal_of_80_columns() -> None:
    for app_id in ("", "cli_a123456789012345"):
        link = waiting(app_id=app_id).scan_link()
        assert qr.width(qr.encode(link.encode())) <= 80


def test_lark_has_a_link_of_its_own() -> None:
    expected = "https://open.larksuite.com/page/cli?user_code=AVQP-9HGX&from=cli"
    assert waiting().lark_link() == expected
    assert waiting(link="https://x/").lark_link() == ""


# The polls.


def test_poll_names_the_code_and_nothing_else() -> None:
    call = waiting(code="v1:a b&c").request()
    assert call.body == b"action=poll&device_code=v1%3Aa+b%26c"


GO_ON = [
    (PENDING, 5, 5),
    ({"error": "slow_down"}, 5, 10),
    ({"error": "slow_down"}, 58, 60),
    ({}, 5, 5),
    ({"client_id": "cli_a1"}, 5, 5),
    ({"client_id": "cli_a1", "client_secret": ""}, 5, 5),
    ({"client_id": "cli_a1", "client_secret": None, "user_info": []}, 5, 5),
    (b"<html>", 5, 6),
    (b"[1]", 5, 6),
    (b"[" * 100_000, 5, 6),
    (b"\xff", 60, 60),
]


@every_row(("body", "interval", "pause"), GO_ON)
def test_answer_without_an_app_is_waited_out(
    body: object, interval: float, pause: float
) -> None:
    made = waiting(interval=interval)
    assert made.receive(reply(body), 0.0) is None
    assert (made.pause, made.host) == (pause, HOST)


@every_row("answer", [None, reply(PENDING, 502), reply(PENDING, 429)])
def test_network_trouble_only_slows_down(answer: Reply | None) -> None:
    made = waiting()
    assert made.receive(answer, 0.0) is None
    assert (made.answered, made.pause) == (False, 6)
    assert made.receive(reply(PENDING), 0.0) is None
    assert made.answered


@every_row(
    ("error", "kind"),
    [
        ("access_denied", DENIED),
        ("expired_token", EXPIRED),
        ("invalid_grant", EXPIRED),
        ("server_error", FAILED),
        (7, FAILED),
    ],
)
def test_dead_code_ends_it_with_a_sentence(error: object, kind: str) -> None:
    with pytest.raises(Ended) as ended:
        waiting().receive(reply({"error": error}), 0.0)
    assert ended.value.kind == kind and str(ended.value)


def test_app_is_taken_with_who_scanned() -> None:
    created = waiting().receive(reply({**APP, "user_info": USER}, 200), 0.0)
    assert created == Created("cli_a1", "s" * 32, "ou_me", False)


@every_row("user", [None, [], {}, {"open_id": "on_x"}, {"open_id": 3}])
def test_app_of_nobody_is_taken_all_the_same(user: object) -> None:
    created = waiting().receive(reply({**APP, "user_info": user}, 200), 0.0)
    assert created is not None and created.open_id == ""


@every_row(
    "app",
    [{**APP, "client_id": "../x"}, {**APP, "client_secret": "a\nFEISHU_OWNER_ID=x"},
     {**APP, "client_id": 7}, {**APP, "client_secret": ["x"]}],
)  # fmt: skip
def test_app_that_would_not_fit_a_line_is_refused(app: dict[str, Any]) -> None:
    with pytest.raises(Ended) as ended:
        waiting().receive(reply(app, 200), 0.0)
    assert ended.value.kind == FAILED
    assert "OWNER" not in str(ended.value)


@every_row(
    "first",
    [
        {**PENDING, "user_info": LARK},
        {"client_id": "cli_a1", "client_secret": "", "user_info": LARK},
    ],
)
def test_lark_company_is_asked_about_at_its_own_host_once(
    first: dict[str, Any],
) -> None:
    made = waiting()
    assert made.receive(reply(first), 0.0) is None
    assert (made.host, made.pause) == (LARK_ACCOUNTS, 0.0)
    assert made.request().url.startswith(LARK_ACCOUNTS)
    assert made.receive(reply(first), 0.0) is None
    assert made.pause == 5
    created = made.receive(reply(APP, 200), 0.0)  # Lark's may leave the person out
    assert created is not None and created.is_lark


def test_answer_that_came_late_still_counts() -> None:
    made = waiting()
    with pytest.raises(Ended) as ended:
        made.receive(reply(PENDING), 600.0)
    assert ended.value.kind == EXPIRED
    assert made.receive(reply(APP, 200), 700.0) is not None


# Kept and taken up again.


def test_kept_code_is_taken_up_and_asked_about_at_once() -> None:
    made = waiting(app_id="cli_a1")
    again = restored(json.loads(json.dumps(made.record())), 100.0)
    assert again is not None and again.record() == made.record()
    assert again.pause == 0


@given(
    record=st.none()
    | st.lists(st.integers())
    | st.dictionaries(
        st.sampled_from(["host", "code", "link", "until", "interval", "app_id", "x"]),
        st.none() | st.text(max_size=20) | st.floats() | st.just("https://a.b/c"),
    )
)
def test_anything_else_in_its_place_is_nothing(record: object) -> None:
    made = restored(record, 100.0)
    assert made is None or (made.until <= 3700 and 1 <= made.interval <= 60)


@given(
    body=st.dictionaries(
        st.sampled_from(["error", "client_id", "client_secret", "user_info", "code"]),
        st.none() | st.text() | st.integers() | st.just(LARK) | st.just("cli_a1"),
    ),
    status=st.sampled_from([200, 400, 401, 500]),
)
def test_no_answer_is_an_error_of_ours(body: dict[str, Any], status: int) -> None:
    try:
        created = waiting().receive(reply(body, status), 0.0)
    except Ended as ended:
        assert str(ended)
    else:
        assert created is None or "" not in (created.app_id, created.secret)


def test_what_the_page_reads_has_no_key_it_does_not_know() -> None:
    assert set(scan.ADDONS) == {"preset", "scopes", "events", "callbacks"}
