"""The fake is strict, and the official client takes it for the real one."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from feishuperm.lib.feishu import build_permission_card, sign
from feishuperm.lib.post import post_json
from tests.asks import make_ask, url
from tests.conftest import ROOT, clean_env, free_port, wait_until
from tests.fakes.feishu import (
    APP_ID,
    APP_SECRET,
    INTERNAL,
    RATE_GATEWAY,
    CardRefusal,
    FakeFeishu,
    Fault,
    check_card,
)
from tests.lib.samples import CALLS
from tests.tables import every_row

NOW = 1_700_000_000


def card(*elements: dict[str, Any], **top: Any) -> dict[str, Any]:
    return {"schema": "2.0", "body": {"elements": list(elements)}, **top}


def button(**changes: Any) -> dict[str, Any]:
    made = {
        "tag": "button",
        "text": {"tag": "plain_text", "content": "ok"},
        "behaviors": [{"type": "open_url", "default_url": "https://a.b/c"}],
    }
    return {**made, **changes}


def column_set(*elements: dict[str, Any]) -> dict[str, Any]:
    column = {"tag": "column", "elements": list(elements)}
    return {"tag": "column_set", "columns": [column]}


def nested(depth: int) -> dict[str, Any]:
    element: dict[str, Any] = {"tag": "hr"}
    for _ in range(depth):
        element = column_set(element)
    return element


HR = {"tag": "hr"}
DIV = {"tag": "div", "text": {"tag": "plain_text", "content": "x"}}
CALLBACK = {"type": "callback", "value": {"a": 1}}
TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n\n"


@every_row(
    "good",
    [
        card(),
        card(HR, DIV, button(), column_set(button(), DIV)),
        card(config={"summary": {"content": "x"}, "update_multi": True}),
        card(header={"title": DIV["text"], "template": "red"}),
        card(
            {"tag": "markdown", "content": "<at id=all></at> <at ids=ou_a,ou_b></at>"}
        ),
        card({"tag": "markdown", "content": TABLE * 5}),
        card({"tag": "markdown", "content": "```\n" + TABLE * 9 + "```"}),
        card(*[HR] * 200),
        card(nested(4)),
    ],
)
def test_good_card_is_taken(good: dict[str, Any]) -> None:
    check_card(good)


@every_row(
    ("bad", "code", "message"),
    [
        ([], 200621, "parse card json err"),
        ({"schema": "3.0"}, 200621, "unknown schema"),
        (card(elements=[]), 200621, "unknown property: elements"),
        (card({**HR, "color": "red"}), 200621, "unknown property: color"),
        (card({**DIV, "fields": []}), 200621, "unknown property: fields"),
        (card(config={"wide_screen_mode": True}), 200621, "unknown property"),
        (card(config={"update_multi": False}), 200621, "update_multi"),
        (card({"tag": "note", "elements": []}), 200861, "no longer support"),
        (card({"tag": "action", "actions": []}), 200861, "unsupported tag action"),
        (card({"tag": "divider"}), 11310, "unsupported type of block"),
        (card({"tag": "column"}), 11310, "unsupported type of block"),
        (card({}), 200621, "parse card json err"),
        (card(column_set({"tag": "action"})), 200410, "not allowed in the column"),
        (card(*[HR] * 201), 11310, "element exceeds the limit"),
        (card(*[DIV] * 101), 11310, "element exceeds the limit"),
        (card({"tag": "markdown", "content": TABLE * 6}), 11310, "table number"),
        (card(nested(5)), 11310, "nesting"),
        (
            card({"tag": "markdown", "content": "<at id=no:body></at>"}),
            100290,
            "at user",
        ),
        (card({"tag": "markdown", "content": "<at user_id=x>"}), 100290, "at user"),
        (card({"tag": "markdown"}), 200621, "content is required"),
        (card({"tag": "markdown", "content": 5}), 200621, "wrong type"),
        (card(header={}), 200621, "title is required"),
        (card(header={"title": "x"}), 200621, "wrong type"),
        (card(header={"title": DIV["text"], "template": "pink"}), 200621, "template"),
        (
            card({"tag": "div", "text": {"tag": "text", "content": ""}}),
            200621,
            "text tag",
        ),
        (card(button(type="big")), 200621, "button type"),
        (card(button(url="https://a.b")), 200621, "unknown property: url"),
        (card(button(value={})), 200621, "unknown property: value"),
        (
            card(button(text={"tag": "plain_text", "content": "x" * 101})),
            200621,
            "long",
        ),
        (card(button(behaviors=[])), None, ""),
        (
            card(button(behaviors=[{"type": "open_url", "default_url": "app://x"}])),
            200621,
            "http",
        ),
        (card(button(behaviors=[{"type": "x"}])), 200621, "unknown behavior"),
        (card(button(behaviors=[CALLBACK])), 200621, "no callbacks"),
        (card({"tag": "form", "name": "f", "elements": []}), 200621, "no callbacks"),
        (card({**HR, "element_id": "1x"}), 200621, "element_id"),
        (card({**HR, "element_id": "a"}, {**HR, "element_id": "a"}), 200621, "unique"),
        (card({"tag": "column_set", "columns": [HR]}), 200621, "columns only"),
        (card({**column_set(), "flex_mode": "x"}), 200621, "flex_mode"),
    ],
)
def test_bad_card_is_refused_with_its_code(
    bad: Any, code: int | None, message: str
) -> None:
    if code is None:
        check_card(bad)
        return
    with pytest.raises(CardRefusal) as caught:
        check_card(bad)
    assert caught.value.code == code
    assert message in str(caught.value)


@every_row(
    ("elements", "good"),
    [
        (
            [
                {"tag": "input", "name": "r"},
                button(name="s", form_action_type="submit"),
            ],
            1,
        ),
        ([{"tag": "input", "name": "r"}], 0),
        (
            [
                {"tag": "input", "name": "s"},
                button(name="s", form_action_type="submit"),
            ],
            0,
        ),
        (
            [{"tag": "input", "name": ""}, button(name="s", form_action_type="submit")],
            0,
        ),
    ],
)
def test_app_may_send_forms_that_are_whole(elements: list[Any], good: int) -> None:
    form = card({"tag": "form", "name": "f", "elements": elements})
    if good:
        check_card(form, webhook=False)
        return
    with pytest.raises(CardRefusal):
        check_card(form, webhook=False)


@pytest.fixture
def feishu() -> Iterator[FakeFeishu]:
    with FakeFeishu(clock=lambda: NOW) as made:
        yield made


def sent(feishu: FakeFeishu, body: bytes, url: str = "") -> tuple[int, int]:
    """HTTP status and code of the answer to a raw body."""
    reply = post_json(url or feishu.webhook_url, body, 10, {})
    return reply.status, json.loads(reply.body)["code"]


def message(**changes: Any) -> bytes:
    made = {"msg_type": "interactive", "card": card(DIV), **changes}
    return json.dumps(
        {key: made[key] for key in made if made[key] is not None}
    ).encode()


def signed(timestamp: str, secret: str) -> dict[str, str]:
    return {"timestamp": timestamp, "sign": sign(timestamp, secret)}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (message(), 0),
        (message(msg_type="text", content={"text": "x"}, card=None), 0),
        (b"not json", 9499),
        (b"[]", 9499),
        (message(padding="x" * 20480), 9499),
        (message(msg_type=None), 19002),
        (message(msg_type="sticker"), 19002),
        (message(card=None), 19002),
        (message(card=json.dumps(card())), 19002),
        (message(card=card({"tag": "note"})), 11246),
        (message(msg_type="text", content="x"), 19002),
    ],
)
def test_webhook_answers_in_http_200_with_a_code(
    feishu: FakeFeishu, body: bytes, code: int
) -> None:
    assert sent(feishu, body) == (200, code)
    assert len(feishu.messages) == (code == 0)
    assert feishu.refusals == ([code] if code else [])


def test_wrong_token_wins_over_everything(feishu: FakeFeishu) -> None:
    assert sent(feishu, b"not json", feishu.webhook_url + "x") == (200, 19001)
    assert sent(feishu, b"{}", feishu.base_url + "/other") == (404, 404)
    feishu.enabled = False
    assert sent(feishu, b"not json") == (200, 19007)


@pytest.mark.parametrize(
    ("timestamp", "secret", "code"),
    [
        (str(NOW), "s", 0),
        (str(NOW - 3600), "s", 0),
        (str(NOW - 3601), "s", 19021),
        (str(NOW + 3601), "s", 19021),
        (str(NOW), "other", 19021),
        ("soon", "s", 19021),
    ],
)
def test_signature_must_be_right_and_fresh(
    feishu: FakeFeishu, timestamp: str, secret: str, code: int
) -> None:
    feishu.secret = "s"
    assert sent(feishu, message(**signed(timestamp, secret)))[1] == code
    assert sent(feishu, message())[1] == 19021


def test_address_keyword_and_content_rules(feishu: FakeFeishu) -> None:
    feishu.allowed_ips = ("10.0.0.1",)
    assert sent(feishu, message())[1] == 19022
    feishu.allowed_ips = ("127.0.0.1",)
    feishu.keywords = ("magic",)
    assert sent(feishu, message())[1] == 19024
    text = {"tag": "div", "text": {"tag": "plain_text", "content": "magic"}}
    assert sent(feishu, message(card=card(text)))[1] == 0
    feishu.refuse_texts["magic"] = 11248
    assert sent(feishu, message(card=card(text)))[1] == 11248


def test_sixth_in_a_second_and_hundred_first_in_a_minute_are_too_many() -> None:
    now = [float(NOW)]
    with FakeFeishu(clock=lambda: now[0]) as feishu:
        assert [sent(feishu, message())[1] for _ in range(6)] == [0] * 5 + [11232]
        for _ in range(19):
            now[0] += 1
            assert [sent(feishu, message())[1] for _ in range(5)] == [0] * 5
        now[0] += 1
        assert sent(feishu, message())[1] == 11232
        now[0] += 60
        assert sent(feishu, message())[1] == 0


def test_faults_come_first_and_once(feishu: FakeFeishu) -> None:
    feishu.faults += [RATE_GATEWAY, INTERNAL, Fault(close=True)]
    reply = post_json(feishu.webhook_url, message(), 10, {})
    assert (reply.status, reply.headers["x-ogw-ratelimit-reset"]) == (429, "2")
    assert sent(feishu, message()) == (200, 2200)
    with pytest.raises(OSError):
        sent(feishu, message())
    assert sent(feishu, message()) == (200, 0)


def test_fake_runs_as_a_process(tmp_path: Any) -> None:
    port = free_port()
    script = str(ROOT / "tests" / "fakes" / "feishu.py")
    process = subprocess.Popen(
        [sys.executable, script, str(port)],
        stdout=subprocess.PIPE,
        text=True,
        env=clean_env(tmp_path),
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert post_json(url, message(), 10, {}).status == 200
        found = wait_until(
            lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/sent")
        )
        with found:
            assert len(json.load(found)["messages"]) == 1
    finally:
        process.kill()
        process.communicate(timeout=20)


# The official client, against the fake, in a process of its own: it keeps its tokens
# for all clients of a process, and takes a second to import.

OFFICIAL = """
import json, sys
import lark_oapi
from lark_oapi.api.im.v1 import CreateMessageRequest, CreateMessageRequestBody

for case in json.load(sys.stdin):
    built = lark_oapi.Client.builder().app_id(case["app_id"])
    client = built.app_secret(case["secret"]).domain(sys.argv[1]).build()
    body = CreateMessageRequestBody.builder().receive_id(case["receive_id"])
    body = body.msg_type("interactive").content(case["content"]).uuid(case["uuid"])
    request = CreateMessageRequest.builder().receive_id_type("open_id")
    request = request.request_body(body.build()).build()
    try:
        reply = client.im.v1.message.create(request)
        message_id = reply.data.message_id if reply.success() else ""
        answer = [reply.code, reply.msg, message_id]
    except Exception as error:
        answer = [getattr(error, "code", -1), str(error), ""]
    print(json.dumps(answer))
"""


def our_card(tool_name: str) -> dict[str, Any]:
    return build_permission_card(make_ask(tool_name), url, "all")


def official(feishu: FakeFeishu, cases: list[dict[str, Any]]) -> list[list[Any]]:
    """Code, text and message id that the official client got for each case."""
    default = {
        "app_id": APP_ID,
        "secret": APP_SECRET,
        "receive_id": "ou_1",
        "content": json.dumps(card(DIV)),
    }
    filled = [
        {**default, "uuid": str(number), **case} for number, case in enumerate(cases)
    ]
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OFFICIAL, feishu.base_url],
        input=json.dumps(filled),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.sdk
def test_official_client_sends_our_cards_and_reads_the_answers(
    feishu: FakeFeishu,
) -> None:
    cases = [{"content": json.dumps(our_card(name))} for name in CALLS]
    again = {**cases[0], "uuid": "0"}
    answers = official(feishu, [*cases, again])
    assert [code for code, _, _ in answers] == [0] * len(answers)
    ids = [message_id for _, _, message_id in answers]
    assert ids[-1] == ids[0]
    assert len(set(ids)) == len(cases)
    kept = [json.loads(one["content"]) for one in feishu.app_messages.values()]
    assert kept == [our_card(name) for name in CALLS]


@pytest.mark.sdk
def test_official_client_sees_every_refusal(feishu: FakeFeishu) -> None:
    cases: list[tuple[int, str, dict[str, Any]]] = [
        (230099, "ErrCode: 200861", {"content": json.dumps(card({"tag": "note"}))}),
        (230099, "ErrCode: 200621", {"content": json.dumps({"card": card()})}),
        (230099, "ErrCode: 11310", {"content": json.dumps(card(*[HR] * 201))}),
        (230025, "limit", {"content": json.dumps(card(), indent=31000)}),
        (230034, "receive_id", {"receive_id": "oc_chat"}),
        (10003, "", {"app_id": "cli_unknown"}),
        (10015, "", {"app_id": APP_ID + "0", "secret": "x"}),
    ]
    feishu.app_ids.add(APP_ID + "0")
    answers = official(feishu, [case for _, _, case in cases])
    assert feishu.app_messages == {}
    for (code, text, _), (got, said, _) in zip(cases, answers):
        assert got == code
        assert text in said
