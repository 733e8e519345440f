"""The product itself, end to end: the built file, real sockets, separate processes."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import os
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm import wire
from tests.conftest import clean_env, wait_until
from tests.handlers.pages.page import Page
from tests.served import Answer, Served, decision, event, finish

ALLOW = (
    '{"hookSpecificOutput": {"hookEventName": "PermissionRequest",'
    ' "decision": {"behavior": "allow"}}}\n'
)


@pytest.fixture(scope="module")
def served(pyz: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that many tests share."""
    with Served(pyz, tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture
def fresh(pyz: Path, home: Path) -> Iterator[Served]:
    """A server of the test's own, to stop, kill or freeze."""
    with Served(pyz, home) as server:
        yield server


@pytest.fixture(autouse=True)
def own_project(served: Served, tmp_path: Path) -> None:
    """Each test has a project of its own, also on the shared server."""
    served.project = tmp_path / "project"
    served.project.mkdir()


def local_settings(server: Served) -> dict[str, Any]:
    path = server.project / ".claude" / "settings.local.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


# Starting.


def test_server_listens_on_both_and_says_so(served: Served) -> None:
    """Scenario: 服务启动并监听"""
    output = served.output()
    assert served.socket in output and f"port {served.port}" in output
    mode = os.stat(served.socket).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    assert served.get("/healthz").status == 200


def test_second_server_refuses_and_the_first_lives_on(served: Served) -> None:
    second = subprocess.run(
        [served.pyz, "serve"], env=served.environ, capture_output=True, timeout=20
    )
    assert second.returncode == 1
    assert b"already" in second.stderr and served.socket.encode() in second.stderr
    assert served.get("/healthz").status == 200


def test_taken_port_is_named_with_its_setting(served: Served) -> None:
    environ = {
        **served.environ,
        "PERMISSION_SOCKET_PATH": served.socket + "2",
        "CALLBACK_SERVER_PORT": str(served.port),
    }
    other = subprocess.run(
        [served.pyz, "serve"], env=environ, capture_output=True, timeout=20
    )
    assert other.returncode == 1
    text = other.stderr.decode()
    assert str(served.port) in text and "CALLBACK_SERVER_PORT" in text
    assert not os.path.exists(served.socket + "2")


def test_stale_socket_of_a_crashed_server_is_replaced(fresh: Served) -> None:
    fresh.kill()
    assert os.path.exists(fresh.socket)
    fresh.start()
    assert fresh.get("/healthz").status == 200


# The four buttons.


def test_allow_reaches_the_waiting_hook(served: Served) -> None:
    """Scenario: 接收批准请求; Scenario: 返回批准决策; Scenario: 显示操作成功页面"""
    hook, id = served.ask(event())
    page = served.get(f"/allow?id={id}")
    assert finish(hook) == ALLOW
    assert page.status == 200
    assert "操作成功" in page.text and "已批准运行" in page.text
    again = served.get(f"/allow?id={id}")
    assert "请求无效或已过期" in again.text and "已批准运行" in again.text


def test_request_id_is_seconds_and_eight_hex_digits(served: Served) -> None:
    """Scenario: 脚本发起请求并等待响应"""
    before = int(time.time())
    hook, id = served.ask(event())
    seconds, _, digits = id.partition("-")
    assert before <= int(seconds) <= time.time()
    assert len(digits) == 8 and set(digits) <= set("0123456789abcdef")
    assert hook.poll() is None
    served.get(f"/deny?id={id}")
    finish(hook)


@pytest.mark.parametrize(
    ("path", "done", "expected"),
    [
        (
            "/deny",
            "已拒绝运行",
            {"behavior": "deny", "message": "用户通过飞书拒绝"},
        ),
        (
            "/interrupt",
            "已拒绝并中断",
            {
                "behavior": "deny",
                "message": "用户通过飞书拒绝并中断",
                "interrupt": True,
            },
        ),
    ],
)
def test_refusals_reach_the_waiting_hook(
    served: Served, path: str, done: str, expected: dict[str, Any]
) -> None:
    """Scenario: 返回拒绝决策; Scenario: 返回拒绝并中断决策"""
    hook, id = served.ask(event())
    page = served.get(f"{path}?id={id}")
    assert "操作成功" in page.text and done in page.text
    assert decision(finish(hook)) == expected


def test_always_writes_the_rule_and_tells_the_running_session(served: Served) -> None:
    """Scenario: 接收始终允许请求; Scenario: 写入 Bash 命令规则"""
    hook, id = served.ask(event(command="npm run build"))
    page = served.get(f"/always?id={id}")
    assert "已始终允许" in page.text and "Bash(npm run build)" in page.text
    assert decision(finish(hook)) == {
        "behavior": "allow",
        "updatedPermissions": [
            {
                "type": "addRules",
                "rules": [{"toolName": "Bash", "ruleContent": "npm run build"}],
                "behavior": "allow",
                "destination": "session",
            }
        ],
    }
    assert local_settings(served)["permissions"]["allow"] == ["Bash(npm run build)"]


def test_always_for_a_file_writes_the_seed_form_and_the_one_that_works(
    served: Served,
) -> None:
    """Scenario: 写入文件操作规则"""
    edit = event("Edit", file_path="/path/to/file.js", old_string="a", new_string="b")
    hook, id = served.ask(edit)
    served.get(f"/always?id={id}")
    finish(hook)
    rules = local_settings(served)["permissions"]["allow"]
    assert rules == ["Edit(/path/to/file.js)", "Edit(//path/to/file.js)"]


def test_always_without_an_exact_rule_allows_once_and_says_why(
    served: Served,
) -> None:
    hook, id = served.ask(event(command="ls *.py"))
    page = served.get(f"/always?id={id}")
    assert decision(finish(hook)) == {"behavior": "allow"}
    assert "操作成功" in page.text and "*" in page.text
    assert not (served.project / ".claude").exists()


def test_unreadable_settings_stay_as_they_are_and_the_allow_goes_through(
    served: Served,
) -> None:
    folder = served.project / ".claude"
    folder.mkdir()
    broken = b'{"permissions": {"allow": ["Bash(ls)"]'
    (folder / "settings.local.json").write_bytes(broken)
    hook, id = served.ask(event())
    page = served.get(f"/always?id={id}")
    assert decision(finish(hook))["behavior"] == "allow"
    assert (folder / "settings.local.json").read_bytes() == broken
    assert "settings.local.json" in page.text


def test_many_always_at_once_keep_every_rule(served: Served) -> None:
    asked = [served.ask(event(command=f"make part{n}")) for n in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pair: served.get(f"/always?id={pair[1]}"), asked))
    for hook, _ in asked:
        finish(hook)
    rules = local_settings(served)["permissions"]["allow"]
    assert sorted(rules) == sorted(f"Bash(make part{n})" for n in range(8))


# Races and machines.


def test_of_two_taps_at_once_exactly_one_wins(served: Served) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in range(10):
            hook, id = served.ask(event())
            taps = [
                pool.submit(served.get, f"/{action}?id={id}")
                for action in ("allow", "deny")
            ]
            pages = [tap.result() for tap in taps]
            won = [index for index, page in enumerate(pages) if success(page)]
            assert len(won) == 1
            expected = ("allow", "deny")[won[0]]
            assert decision(finish(hook))["behavior"] == expected


@pytest.mark.full
def test_of_two_taps_at_once_one_wins_a_thousand_times(served: Served) -> None:
    """Hooks here are bare sockets and taps come over two open connections: fast."""
    raw = json.dumps(event()).encode()
    start = threading.Barrier(2)
    ids = [f"1700000001-{number:08x}" for number in range(1000)]
    won: dict[str, list[str]] = {id: [] for id in ids}
    heard: dict[str, str] = {}

    def tap(action: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        for id in ids:
            start.wait(30)
            if action == "allow":
                hooks[id] = register(served, id, raw)
            start.wait(30)
            connection.request("GET", served.link(f"/{action}?id={id}"))
            if "操作成功" in connection.getresponse().read().decode():
                won[id].append(action)
            start.wait(30)
            if action == "allow":
                heard[id] = verdict(hooks.pop(id))
        connection.close()

    hooks: dict[str, Any] = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(tap, ("allow", "deny")))
    assert all(won[id] == [heard[id]] for id in ids)


def register(served: Served, id: str, raw: bytes) -> Any:
    """A hook's connection, once the server has taken its request."""
    sock = wire.connect(os.fsencode(served.socket))
    sock.settimeout(30)
    parts = (wire.PROTOCOL, id.encode(), b"", b"/tmp", raw)
    sock.sendall(wire.frame(b"Q", b"\0".join(parts)))
    assert wire.receive_frame(sock)[0] == b"A"
    return sock


def verdict(sock: Any) -> str:
    """What the hook would print, in one word."""
    kind, body = wire.receive_frame(sock)
    if kind == b"S":  # its card left before the tap came
        kind, body = wire.receive_frame(sock)
    sock.close()
    assert kind == b"D"
    behavior: str = decision(body.decode())["behavior"]
    return behavior


def success(page: Answer) -> bool:
    return "操作成功" in page.text


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("HEAD", {}),
        ("GET", {"Purpose": "prefetch"}),
        ("GET", {"Sec_Purpose": "prefetch"}),
        ("GET", {"User_Agent": "Slackbot-LinkExpanding 1.0"}),
        ("GET", {"Sec_Fetch_Dest": "image"}),
    ],
)
def test_previews_and_prefetches_decide_nothing(
    served: Served, method: str, headers: dict[str, str]
) -> None:
    hook, id = served.ask(event())
    assert served.get(f"/allow?id={id}", method, **headers).status == 200
    assert served.waiting() == [id]
    assert success(served.get(f"/deny?id={id}"))
    assert decision(finish(hook))["behavior"] == "deny"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("DELETE", "/allow?id=1-00000000", 405),
        ("POST", "/", 403),
        ("POST", "/status", 405),
        ("GET", "/allow", 400),
        ("GET", "/allow?id=", 400),
        ("GET", "/allow?id=1700000000-00000000", 404),
        ("GET", "/allow?id=%00%ff", 404),
        ("GET", "/" + "x" * 20000, 431),
    ],
)
def test_bad_requests_get_their_status(
    served: Served, method: str, path: str, status: int
) -> None:
    """Scenario: 显示请求无效页面"""
    answer = served.request(method, path, None, {})
    assert answer.status == status
    if path.startswith("/allow") and method == "GET":
        assert "请求无效或已过期" in answer.text


@pytest.mark.parametrize(("signing", "expected"), [("off", {404, 429}), ("on", {404})])
def test_wrong_ids_are_stopped_only_where_they_could_be_guessed(
    pyz: Path, home: Path, signing: str, expected: set[int]
) -> None:
    with Served(pyz, home, CALLBACK_LINK_SIGNING=signing) as served:
        links = [f"/allow?id=1700000000-{number:08x}" for number in range(30)]
        bare = [served.request("GET", link, None, {}).status for link in links]
        assert set(bare) == expected
        hook, id = served.ask(event())
        assert served.get(f"/allow?id={id}").status == (200 if signing == "on" else 429)
        hook.terminate()


# Time.


def test_shown_and_unanswered_is_denied_and_a_late_tap_is_told(
    pyz: Path, home: Path
) -> None:
    """Scenario: 请求超时自动拒绝; Scenario: 超时后按钮点击处理"""
    with Served(pyz, home, PERMISSION_REQUEST_TIMEOUT="4") as served:
        hook, id = served.ask(event())
        assert served.get("/").status == 200  # somebody looks
        assert decision(finish(hook)) == {
            "behavior": "deny",
            "message": "权限请求超时，自动拒绝",
        }
        page = served.get(f"/allow?id={id}")
        assert "请求已过期" in page.text and "请求无效或已过期" in page.text


def test_never_shown_is_left_to_the_terminal(pyz: Path, home: Path) -> None:
    with Served(pyz, home, PERMISSION_REQUEST_TIMEOUT="1") as served:
        hook = served.hook(event())
        assert finish(hook) == ""


@pytest.mark.full
def test_frozen_server_cannot_freeze_a_session(fresh: Served) -> None:
    hook, _ = fresh.ask(event())
    assert fresh.process is not None
    fresh.process.send_signal(signal.SIGSTOP)
    try:
        late = fresh.hook(event())
        # Nobody acknowledges it: it gives up by itself, without a decision.
        assert finish(late, timeout=30) == ""
    finally:
        fresh.process.send_signal(signal.SIGCONT)
    assert hook.poll() is None


# Ends that nobody tapped.


def test_terminal_no_ends_the_hook_and_settles_the_request(served: Served) -> None:
    hook, id = served.ask(event())
    hook.send_signal(signal.SIGTERM)
    hook.wait(5)
    wait_until(lambda: not served.waiting())
    page = served.get(f"/allow?id={id}")
    assert "请求无效或已过期" in page.text and not success(page)


def test_terminal_yes_is_noticed_in_the_transcript(served: Served) -> None:
    transcript = served.home / "transcript.jsonl"
    call = {
        "type": "assistant",
        "message": {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": "toolu_01",
                    "name": "Bash",
                    "input": {"command": "npm run build", "description": "build it"},
                }
            ],
        },
    }
    transcript.write_text(json.dumps(call) + "\n")
    hook, id = served.ask({**event(), "transcript_path": str(transcript)})
    result = {
        "type": "user",
        "message": {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01", "content": "ok"}
            ],
        },
    }
    with transcript.open("a") as file:
        file.write(json.dumps(result) + "\n")
    assert finish(hook) == ""
    page = served.get(f"/interrupt?id={id}")  # must not hit what the session does now
    assert "请求已在终端处理" in page.text and not success(page)


def test_sigterm_releases_every_hook_and_ends_well(fresh: Served) -> None:
    hooks = [fresh.ask(event())[0] for _ in range(3)]
    assert fresh.stop() == 0
    assert [finish(hook) for hook in hooks] == ["", "", ""]
    assert not os.path.exists(fresh.socket)


def test_restart_within_the_deadline_loses_nothing(fresh: Served) -> None:
    hook, id = fresh.ask(event())
    fresh.kill()
    assert hook.poll() is None
    fresh.start()
    assert wait_until(fresh.waiting) == [id]
    assert success(fresh.get(f"/allow?id={id}"))
    assert finish(hook) == ALLOW


@pytest.mark.full
def test_server_that_stays_away_leaves_it_to_the_terminal(fresh: Served) -> None:
    hook, _ = fresh.ask(event())
    fresh.kill()
    assert finish(hook, timeout=30) == ""


def test_late_tap_after_a_restart_is_told_how_it_ended(fresh: Served) -> None:
    hook, id = fresh.ask(event())
    fresh.get(f"/deny?id={id}")
    finish(hook)
    fresh.stop()
    fresh.start()
    page = fresh.get(f"/allow?id={id}")
    assert "请求无效或已过期" in page.text and "已拒绝运行" in page.text


# Questions and plans.

QUESTIONS = [
    {
        "question": "Which color?",
        "header": "Color",
        "multiSelect": False,
        "options": [{"label": "Red", "description": "r"}, {"label": "Blue"}],
    },
    {
        "question": "Which sizes?",
        "header": "Size",
        "multiSelect": True,
        "options": [{"label": "S"}, {"label": "M"}, {"label": "L"}],
    },
    {"question": "Why?", "header": "Why", "options": [{"label": "No reason"}]},
]


def test_question_is_answered_on_its_page(served: Served) -> None:
    hook, id = served.ask(event("AskUserQuestion", questions=QUESTIONS))
    form = served.get(f"/answer?id={id}")
    assert "Which color?" in form.text and "Blue" in form.text
    page = served.post(
        "/answer", id=id, q0="Blue", q1=["S", "L"], q2_other="because & <so>"
    )
    assert success(page)
    assert decision(finish(hook)) == {
        "behavior": "allow",
        "updatedInput": {
            "questions": QUESTIONS,
            "answers": {
                "Which color?": "Blue",
                "Which sizes?": "S, L",
                "Why?": "because & <so>",
            },
        },
    }


def test_bare_allow_of_a_question_opens_the_form_and_decides_nothing(
    served: Served,
) -> None:
    hook, id = served.ask(event("AskUserQuestion", questions=QUESTIONS))
    for path in ("/allow", "/always"):
        page = served.get(f"{path}?id={id}")
        assert "Which color?" in page.text and not success(page)
    assert served.waiting() == [id]
    empty = served.post("/answer", id=id)
    assert empty.status == 400 and "Which color?" in empty.text
    assert success(served.get(f"/deny?id={id}"))
    assert decision(finish(hook))["behavior"] == "deny"


def test_plan_is_approved_with_the_input_the_client_needs(served: Served) -> None:
    plan = event("ExitPlanMode", plan="# Plan\n\n1. do it", planFilePath="/x.md")
    hook, id = served.ask(plan)
    assert "do it" in served.get(f"/request?id={id}").text
    assert success(served.get(f"/allow?id={id}"))
    assert decision(finish(hook)) == {"behavior": "allow", "updatedInput": {}}


def test_plan_is_rejected_with_a_reason(served: Served) -> None:
    hook, id = served.ask(event("ExitPlanMode", plan="x"))
    assert success(served.post("/deny", id=id, reason=" 先写测试 "))
    assert decision(finish(hook))["message"] == "用户通过飞书拒绝：先写测试"


# The hook and its surroundings.


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b'{"a": 1}', b"\xff\xfe", b"x" * 100_000]
)
def test_unreadable_event_ends_well_and_says_nothing(
    served: Served, raw: bytes
) -> None:
    hook = served.hook(raw)
    out, err = hook.communicate(timeout=20)
    assert (hook.returncode, out, err) == (0, b"", b"")


def test_unreadable_permission_request_is_released(served: Served) -> None:
    raw = b'{"hook_event_name":"PermissionRequest","tool_name":"Bash","tool_input":'
    assert finish(served.hook(raw)) == ""


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,", " : ")])
def test_event_is_recognised_however_its_json_is_spaced(
    served: Served, separators: tuple[str, str]
) -> None:
    raw = json.dumps(event(), separators=separators).encode()
    hook = served.hook(raw)
    id = wait_until(served.waiting)[0]
    served.get(f"/allow?id={id}")
    assert finish(hook) == ALLOW


def test_other_events_pass_unharmed(served: Served) -> None:
    for name in ("PreToolUse", "PostToolUse", "Stop", "SessionStart", "Brand New"):
        body = {**event(), "hook_event_name": name}
        assert finish(served.hook(body)) == ""
    nested = {"hook_event_name": "PermissionRequest"}
    body = {**event(), "hook_event_name": "PreToolUse", "tool_input": nested}
    assert finish(served.hook(body)) == ""
    assert served.waiting() == []


def test_without_server_and_feishu_the_hook_says_nothing(pyz: Path, home: Path) -> None:
    """Scenario: 服务不可用时降级"""
    result = subprocess.run(
        [str(pyz), "hook"],
        input=json.dumps(event()).encode(),
        env=clean_env(home, PERMISSION_SOCKET_PATH=str(home / "none.sock")),
        capture_output=True,
        timeout=20,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def test_large_write_goes_through_whole(served: Served) -> None:
    content = "".join(f"line {n} 中文\n" for n in range(60_000))
    hook, id = served.ask(event("Write", file_path="/tmp/big", content=content))
    page = served.get(f"/request?id={id}")
    assert "line 59999" in page.text
    served.get(f"/allow?id={id}")
    assert finish(hook) == ALLOW


# Signed links and confirmation.


def test_signed_links_refuse_another_action_and_a_missing_signature(
    pyz: Path, home: Path
) -> None:
    with Served(pyz, home) as served:
        hook, id = served.ask(event())
        item = json.loads(served.get("/status").text)["waiting"][0]
        assert item["id"] == id
        bare = f"/allow?id={id}"
        assert served.request("GET", bare, None, {}).status == 404
        links = inbox_links(served)
        forged = links["deny"].replace("/deny", "/allow")
        assert served.get(forged).status == 404
        assert served.waiting() == [id]
        assert success(served.get(links["allow"]))
        assert finish(hook) == ALLOW


def inbox_links(served: Served, **headers: str) -> dict[str, str]:
    """The links of the one pending request by path, as the inbox's forms post them."""
    forms = Page(served.get("/", **headers).text.encode()).forms
    return {
        path: f"/{path}?id={form.hidden()['id']}&sig={form.hidden().get('sig', '')}"
        for path, form in forms.items()
        if "id" in form.hidden()
    }


def test_confirmation_page_decides_only_by_its_button(pyz: Path, home: Path) -> None:
    with Served(pyz, home, CALLBACK_CONFIRM="on") as served:
        hook, id = served.ask(event())
        page = served.get(f"/allow?id={id}")
        assert page.status == 200 and not success(page)
        assert served.waiting() == [id]
        assert success(served.post("/allow", id=id))
        assert finish(hook) == ALLOW


def test_form_of_another_site_decides_nothing(served: Served) -> None:
    hook, id = served.ask(event())
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": "https://evil.test",
    }
    assert served.request("POST", "/allow", f"id={id}", headers).status == 403
    assert served.waiting() == [id]
    served.get(f"/deny?id={id}")
    finish(hook)


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "rebound.example"}, 421), ({"X_Forwarded_For": "192.0.2.7"}, 403)],
)
def test_inbox_is_closed_to_the_world_behind_loopback(
    served: Served, headers: dict[str, str], status: int
) -> None:
    for path in ("/", "/events", "/status"):
        assert served.get(path, **headers).status == status


def test_inbox_needs_a_session_once_people_come_from_elsewhere(
    pyz: Path, home: Path
) -> None:
    """A tunnel brings the world in over loopback, under any host name it likes."""
    settings = {
        "CALLBACK_SERVER_URL": "http://tunnel.example.test",
        "CALLBACK_SERVER_HOST": "127.0.0.1",
    }
    with Served(pyz, home, **settings) as served:
        for path in ("/", "/events", "/status"):
            assert served.get(path, Host="localhost").status == 403
        cookie = served.enter_inbox()
        assert served.get("/", Cookie=cookie).status == 200
        status = served.get("/status", Cookie=cookie)
        assert status.status == 200 and "ticket" not in status.text
        assert served.stop() == 0
        served.start()
        assert served.get("/", Cookie=cookie).status == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_inbox_is_closed_to_other_users_of_the_machine(served: Served) -> None:
    hook, id = served.ask(event())
    for path in ("/", "/status", "/events"):
        url = f"http://127.0.0.1:{served.port}{path}"
        code = "import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=9)"
        other = subprocess.run(
            ["/usr/bin/python3", "-I", "-c", code, url],
            user=65534,
            capture_output=True,
            timeout=20,
        )
        assert b"403" in other.stderr
    served.get(f"/deny?id={id}")
    finish(hook)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("HEAD", {}),
        ("GET", {"Sec_Purpose": "prefetch"}),
        ("GET", {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "image"}),
    ],
)
def test_page_that_nobody_looks_at_has_shown_nothing(
    served: Served, method: str, headers: dict[str, str]
) -> None:
    hook, id = served.ask(event())
    for path in ("/", f"/request?id={id}"):
        served.get(path, method, **headers)
    answer = served.get("/events", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="cors")
    assert answer.status == 403
    status = served.status()
    assert status is not None and status["waiting"][0]["shown"] is False
    served.get(f"/deny?id={id}")
    finish(hook)


def test_other_sites_cannot_lock_the_person_out(served: Served) -> None:
    hook, id = served.ask(event())
    image = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "image"}
    for number in range(30):
        link = f"/allow?id=1700000002-{number:08x}"
        served.request("GET", link, None, image)
    assert success(served.get(f"/allow?id={id}"))
    assert finish(hook) == ALLOW


def test_form_behind_a_proxy_with_another_host_is_ours(pyz: Path, home: Path) -> None:
    settings = {
        "CALLBACK_SERVER_URL": "https://perm.example.test/cc/",
        "CALLBACK_SERVER_HOST": "127.0.0.1",
    }
    with Served(pyz, home, **settings) as served:
        hook, _ = served.ask(event())
        cookie = served.enter_inbox()
        links = inbox_links(served, Cookie=cookie)
        path, _, body = links["deny"].partition("?")
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": "https://perm.example.test",
            "Sec-Fetch-Site": "same-origin",
        }
        assert success(served.request("POST", path, body, headers))
        assert decision(finish(hook))["behavior"] == "deny"


def test_deeply_nested_input_is_left_to_the_terminal(served: Served) -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    assert finish(served.hook(event("Odd", value=deep))) == ""
    assert served.get("/").status == 200


def test_broken_state_folder_does_not_stop_the_server(pyz: Path, home: Path) -> None:
    state = home / ".local" / "state" / "feishuperm"
    (state / "ledger.jsonl").mkdir(parents=True)
    (state / "key").mkdir()
    with Served(pyz, home) as served:
        hook, _ = served.ask(event())
        # No allow that cannot be recorded: the terminal decides.
        assert not success(served.get(inbox_links(served)["allow"]))
        assert finish(hook) == ""


def test_key_that_cannot_be_kept_signs_until_the_server_ends(
    pyz: Path, home: Path
) -> None:
    (home / ".local" / "state" / "feishuperm" / "key").mkdir(parents=True)
    with Served(pyz, home) as served:
        hook, _ = served.ask(event())
        assert success(served.get(inbox_links(served)["allow"]))
        assert finish(hook) == ALLOW


def test_odd_ledger_lines_are_passed_over(pyz: Path, home: Path) -> None:
    state = home / ".local" / "state" / "feishuperm"
    state.mkdir(parents=True)
    entry = {
        "event": "request", "id": "1-00000001", "state": "allowed", "action": "fly",
        "surface": "", "rules": [], "tool": "Bash", "summary": "", "project": "/",
        "created": 1.0, "ended": 2.0, "denied": False, "time": time.time(),
    }  # fmt: skip
    odd = [entry, {**entry, "action": "allow", "ended": 1e300}, {"state": "denied"}]
    (state / "ledger.jsonl").write_text("".join(json.dumps(e) + "\n" for e in odd))
    with Served(pyz, home) as served:
        assert served.get("/").status == 200
        bare = served.request("GET", "/allow?id=1-00000001", None, {})
        assert bare.status == 404


def test_request_that_comes_while_the_server_stops_is_released(fresh: Served) -> None:
    """Its drain lasts while another hook is slow to leave."""
    slow = register(fresh, "1700000003-00000001", json.dumps(event()).encode())
    late = wire.connect(os.fsencode(fresh.socket))
    late.settimeout(10)
    late.sendall(wire.frame(b"C", b'{"command": "status"}'))
    assert wire.receive_frame(late)[0] == b"J"  # it has been let in
    assert fresh.process is not None
    fresh.process.send_signal(signal.SIGTERM)
    assert wire.receive_frame(slow)[0] == b"R"
    parts = (wire.PROTOCOL, b"1700000003-00000002", b"", b"/tmp")
    raw = json.dumps(event()).encode()
    late.sendall(wire.frame(b"Q", b"\0".join((*parts, raw))))
    assert wire.receive_frame(late)[0] == b"R"
    slow.close()
    late.close()


def test_pages_forbid_everything_foreign(served: Served) -> None:
    for path in ("/", "/allow?id=1-00000000"):
        headers = served.request("GET", path, None, {}).headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert headers["Cache-Control"] == "no-store"


def test_english_setting_makes_everything_english(pyz: Path, home: Path) -> None:
    with Served(pyz, home, FEISHUPERM_LANG="en") as served:
        hook, id = served.ask(event())
        page = served.get(f"/deny?id={id}")
        assert "Denied" in page.text
        assert decision(finish(hook))["message"] == "Denied by the user in Feishu"
