"""The app's REST calls against a transport made of a list."""

from __future__ import annotations

import json
import threading
from typing import Any
from urllib.parse import urlsplit

from feishuperm.app.api import (
    CODES,
    PAGES,
    AppApi,
    page_of,
    receiver_type,
)
from feishuperm.lib.feishu import FAIL, RENEW, RETRY, SIMPLER
from feishuperm.lib.post import Call, Reply
from tests.tables import every_row

SECRET = "the-app-secret"
OK = {"code": 0, "msg": "ok", "data": {"message_id": "om_1"}}


class Feishu:
    """Answers what it was told to, and keeps what it was sent."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[Call] = []
        self.tokens = 0
        self.now = 0.0
        self.api = AppApi("cli_1", SECRET, "https://f.example", self.post, self.clock)

    def clock(self) -> float:
        return self.now

    def post(self, call: Call) -> Reply:
        self.calls.append(call)
        if call.url.endswith("/internal") and self.tokens >= 0:
            self.tokens += 1
            token = f"t-{self.tokens}"
            answer = {"code": 0, "tenant_access_token": token, "expire": 7200}
            return Reply(200, {}, json.dumps(answer).encode())
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Reply):
            return answer
        return Reply(
            200 if not answer["code"] else 400, {}, json.dumps(answer).encode()
        )

    def bearers(self) -> list[str]:
        return [call.headers.get("Authorization", "") for call in self.calls]


def refused(code: int, status: int = 400, **headers: str) -> Reply:
    return Reply(status, headers, json.dumps({"code": code, "msg": "why"}).encode())


def test_card_goes_out_as_a_text_with_the_requests_id() -> None:
    feishu = Feishu(OK)
    result = feishu.api.send("ou_1", {"schema": "2.0", "x": "权"}, "1-" + "a" * 60)
    assert result.ok and result.data["message_id"] == "om_1"
    call = feishu.calls[-1]
    assert urlsplit(call.url).query == "receive_id_type=open_id"
    body = json.loads(call.body)
    assert body["receive_id"] == "ou_1" and body["msg_type"] == "interactive"
    assert json.loads(body["content"]) == {"schema": "2.0", "x": "权"}
    assert len(body["uuid"]) == 50
    assert "权".encode() in call.body
    assert SECRET not in repr(call.headers) + call.url


@every_row(
    ("receiver", "type"),
    [
        ("ou_1", "open_id"),
        ("oc_1", "chat_id"),
        ("on_1", "union_id"),
        ("a@example.com", "email"),
        ("7g1b2", "user_id"),
    ],
)
def test_receiver_is_known_by_its_looks(receiver: str, type: str) -> None:
    assert receiver_type(receiver) == type


def test_other_calls_have_their_own_method_and_path() -> None:
    feishu = Feishu(OK, OK, OK)
    feishu.api.reply("om_1", {"text": "x"}, "u", "text")
    feishu.api.update("om_1", {"schema": "2.0"})
    feishu.api.urge("om_1", "ou_1")
    made = [(call.method, call.url.partition("/im/v1")[2]) for call in feishu.calls[1:]]
    assert made == [
        ("POST", "/messages/om_1/reply"),
        ("PATCH", "/messages/om_1"),
        ("PATCH", "/messages/om_1/urgent_app?user_id_type=open_id"),
    ]


def test_file_travels_in_a_form_and_its_name_is_tame() -> None:
    feishu = Feishu({"code": 0, "data": {"file_key": "file_1"}})
    result = feishu.api.upload('a"\r\nb/../权.txt', b"\0data\r\n")
    assert result.data["file_key"] == "file_1"
    call = feishu.calls[-1]
    boundary = call.headers["Content-Type"].partition("boundary=")[2]
    parts = call.body.split(f"--{boundary}".encode())
    assert len(parts) == 5 and parts[-1] == b"--\r\n"
    assert parts[3].endswith(b"\r\n\r\n\0data\r\n\r\n")
    assert b'filename="a___b_.._' in parts[3]


def test_token_is_fetched_when_needed_kept_and_renewed_early() -> None:
    feishu = Feishu(OK, OK, OK)
    assert feishu.calls == []
    feishu.api.send("ou_1", {}, "1")
    feishu.now = 7200 - 601
    feishu.api.send("ou_1", {}, "2")
    assert feishu.tokens == 1
    feishu.now = 7200 - 600
    feishu.api.send("ou_1", {}, "3")
    assert feishu.bearers()[-1] == "Bearer t-2"


@every_row("code", [c for c, row in CODES.items() if row[0] == RENEW])
def test_refused_token_is_renewed_once(code: int) -> None:
    feishu = Feishu(refused(code), OK)
    assert feishu.api.send("ou_1", {}, "1").ok
    assert feishu.bearers() == ["", "Bearer t-1", "", "Bearer t-2"]
    stubborn = Feishu(refused(code), refused(code))
    result = stubborn.api.send("ou_1", {}, "1")
    assert not result.ok and result.retry and stubborn.tokens == 2


def test_wrong_secret_is_named_with_the_page_that_mends_it() -> None:
    feishu = Feishu(refused(10015, 200))
    feishu.tokens = -1
    result = feishu.api.send("ou_1", {}, "1")
    assert not result.ok and not result.retry and len(feishu.calls) == 1
    assert "FEISHU_APP_SECRET" in result.message
    assert "https://f.example/app/cli_1/baseinfo" in result.message
    assert SECRET not in repr(result)


@every_row(
    "body",
    [
        b'{"code":0}',
        b'{"code":0,"tenant_access_token":"","expire":1}',
        b'{"code":0,"tenant_access_token":"t","expire":1%s}' % (b"0" * 400),
    ],
)
def test_answer_without_a_token_is_none(body: bytes) -> None:
    feishu = Feishu(Reply(200, {}, body))
    feishu.tokens = -1
    assert feishu.api.fetch_token().retry


@every_row("code", [c for c, row in CODES.items() if row[0] != RENEW])
def test_each_code_has_its_meaning(code: int) -> None:
    result = Feishu(refused(code)).api.judge(refused(code))
    verdict, advice = CODES[code]
    assert (result.retry, result.fallback) == (verdict == RETRY, verdict == SIMPLER)
    assert result.message.startswith(f"{code}: {advice}")
    assert bool(page_of(code)) == ("/app/cli_1/" in result.message)
    assert verdict in (RETRY, SIMPLER, FAIL)


def test_unknown_code_may_pass_in_a_simpler_form_and_is_told_on_one_line() -> None:
    answer = {"code": 424242, "msg": "odd\nwords\x1b[31m"}
    result = Feishu().api.judge(Reply(400, {}, json.dumps(answer).encode()))
    assert result.fallback
    assert "\n" not in result.message and "\x1b" not in result.message


def test_busy_gateway_says_how_long_to_wait() -> None:
    headers = {"x-ogw-ratelimit-reset": "7"}
    reply = Reply(429, headers, b'{"code":99991400,"msg":"x"}')
    result = Feishu().api.judge(reply)
    assert (result.retry, result.retry_after) == (True, 7.0)


@every_row(
    ("status", "body", "retry"),
    [
        (502, b"<html>", True),
        (429, b"", True),
        (302, b"", False),
        (200, b'{"code":true}', False),
        (200, b"[]", False),
    ],
)
def test_answer_of_something_else_is_told_as_such(
    status: int, body: bytes, retry: bool
) -> None:
    result = Feishu().api.judge(Reply(status, {}, body))
    assert (result.ok, result.retry) == (False, retry)
    assert "not an answer from Feishu" in result.message


def test_network_trouble_may_pass() -> None:
    feishu = Feishu(OSError("f.example: timed out"))
    result = feishu.api.send("ou_1", {}, "1")
    assert result.retry and result.message == "f.example: timed out"


def test_discovery_needs_no_token() -> None:
    feishu = Feishu({"code": 0})
    assert feishu.api.discover().status == 200
    (call,) = feishu.calls
    assert call.url == "https://f.example/callback/ws/endpoint"
    assert json.loads(call.body) == {"AppID": "cli_1", "AppSecret": SECRET}


def test_two_threads_that_are_refused_fetch_one_token() -> None:
    feishu = Feishu()
    stale = threading.Barrier(2, timeout=5)

    def post(call: Call) -> Reply:
        if call.url.endswith("/internal"):
            return Feishu.post(feishu, call)
        if call.headers["Authorization"] == "Bearer t-1":
            stale.wait()  # both were refused before either asks for another
            return refused(99991663)
        return Reply(200, {}, json.dumps(OK).encode())

    api = AppApi("cli_1", SECRET, "https://f.example", post, feishu.clock)
    api.fetch_token()
    results: list[bool] = []
    threads = [
        threading.Thread(target=lambda: results.append(api.update("om_1", {}).ok))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert results == [True, True] and feishu.tokens == 2


def test_missing_permission_is_named_with_the_page_that_grants_it() -> None:
    violations = [{"subject": "im:message:send_as_bot"}, {"subject": "im:message"}]
    error = {"permission_violations": [*violations, {"subject": "<b>"}, 5]}
    answer = {"code": 99991672, "msg": "Access denied", "error": error}
    result = Feishu(answer).api.send("ou_1", {}, "u")
    assert "(im:message:send_as_bot or im:message)" in result.message
    assert result.message.endswith(
        "https://f.example/app/cli_1/auth?q=im:message:send_as_bot,im:message"
        "&op_from=openapi&token_type=tenant"
    )
    for broken in ({"error": 5}, {"error": {"permission_violations": {}}}, {}):
        result = Feishu({"code": 99991672, "msg": "", **broken}).api.send(
            "ou_1", {}, "u"
        )
        assert result.message.endswith("/app/cli_1/auth")


@every_row(
    "key",
    [
        *PAGES,
        (
            "the app has {count} connections and each tap reaches one of them: end the "
            "server on the other machine, or give it an app of its own"
        ),
        "the app has too many long connections (50 at most)",
    ],
)
def test_every_problem_has_a_sentence_and_where_it_helps_a_page(key: str) -> None:
    said = Feishu().api.problem(key, count=2)
    assert SECRET not in said and len(said) > 20
    assert (f"/app/cli_1/{PAGES.get(key)}" in said) == (key in PAGES)
    assert Feishu().api.problem("timed out") == "timed out"
