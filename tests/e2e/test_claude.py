"""The real Claude Code client asks; a person answers through the built file."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.fakes.model import text, tool, write_plan
from tests.lab import COLOUR, SIZES, Lab
from tests.served import Served

pytestmark = pytest.mark.claude

DIALOG = "Do you want to"


@pytest.fixture
def served(lab: Lab) -> Iterator[Served]:
    """A server beside the lab, and our hook in the lab's settings."""
    home = Path(lab.root) / "server"
    home.mkdir()
    with Served(Path(lab.pyz), home) as server:
        lab.socket = server.socket
        lab.pyz_hook("PermissionRequest", matcher="*", timeout=60)
        yield server


def bash(command: str) -> dict[str, Any]:
    return tool("Bash", command=command, description="x")


def next_id(served: Served) -> str:
    id: str = wait_until(served.waiting, timeout=40)[0]
    return id


def tap(served: Served, path: str) -> str:
    """Answer the next request; returns its page."""
    page = served.get(f"{path}?id={next_id(served)}").text
    wait_until(lambda: not served.waiting())
    return page


def result(lab: Lab, call: dict[str, Any], lane: str = "main") -> Any:
    """What the model was told of a call."""
    return wait_until(lambda: lab.model.tool_results(lane).get(call["id"]), timeout=40)


def test_taps_decide_what_the_session_does(lab: Lab, served: Served) -> None:
    """Allowed, denied with the message, always allowed and never asked again."""
    allowed, denied = bash("touch one"), bash("touch two")
    always, again = bash("touch three"), bash("touch three")
    lab.model.push([allowed], [denied], [always], [again], [text("bye")])
    session = lab.session("go")
    assert "已批准运行" in tap(served, "/allow")
    assert not result(lab, allowed).is_error
    assert "已拒绝运行" in tap(served, "/deny")
    told = result(lab, denied)
    assert told.is_error and told.text == "用户通过飞书拒绝"
    assert "Bash(touch three)" in tap(served, "/always")
    assert not result(lab, always).is_error
    assert not result(lab, again).is_error  # nobody was asked
    session.wait("bye")
    made = [name for name in ("one", "two", "three") if lab_has(lab, name)]
    assert made == ["one", "three"]
    ended = wait_until(lambda: json.loads(served.get("/status").text))
    assert ended["waiting"] == []
    rules = json.loads(lab.read(".claude/settings.local.json"))["permissions"]
    assert rules["allow"] == ["Bash(touch three)"]


def lab_has(lab: Lab, name: str) -> bool:
    return (Path(lab.project) / name).exists()


def test_rule_of_an_earlier_session_is_honoured_by_the_next(
    lab: Lab, served: Served
) -> None:
    """Edit and Write: the form with two slashes is the one the client matches."""
    path = f"{lab.project}/made.txt"
    write = tool("Write", file_path=path, content="first\n")
    lab.model.push([write], [text("bye")])
    first = lab.session("go")
    assert f"Edit(/{path})" in tap(served, "/always")
    assert not result(lab, write).is_error
    first.close()
    read = tool("Read", file_path=path)
    edit = tool("Edit", file_path=path, old_string="first", new_string="second")
    lab.model.push([read], [edit], [text("bye")])
    done = lab.run("go on")
    assert done.returncode == 0, done.stderr
    assert lab.read("made.txt") == "second\n"
    assert served.waiting() == []


def newest(served: Served) -> str:
    """What the inbox says of the request that ended last, on its line and its page."""
    line = served.get("/").text.partition('id="recent">')[2].partition("</li>")[0]
    path = html.unescape(line.partition('href="')[2].partition('"')[0])
    return line + served.get("/" + path).text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("touch one", "已完成"),
        ("touch one; exit 3", "失败（退出码 3）"),
    ],
)
def test_page_says_why_and_the_history_what_came_of_it(
    lab: Lab, served: Served, command: str, said: str
) -> None:
    lab.model.push([text("Earlier.\n\nI make the file."), bash(command)], [text("bye")])
    session = lab.session("make a file")
    id = next_id(served)
    page = wait_until(
        lambda: (
            body
            if "I make the file." in (body := served.get(f"/request?id={id}").text)
            else ""
        )
    )
    assert "make a file" in page and "Earlier." not in page
    served.get(f"/allow?id={id}")
    session.wait("bye")
    wait_until(lambda: f">{said}</p>" in newest(served), timeout=20)


def test_interrupt_ends_the_turn(lab: Lab, served: Served) -> None:
    call = bash("touch never")
    lab.model.push([call], [text("not reached")])
    session = lab.session("go")
    assert "已拒绝并中断" in tap(served, "/interrupt")
    session.wait("Interrupted")
    assert not lab_has(lab, "never")
    assert len(lab.model.calls()) == 1


def test_time_out_denies_with_the_message_the_model_sees(lab: Lab) -> None:
    home = Path(lab.root) / "server"
    home.mkdir()
    with Served(Path(lab.pyz), home, PERMISSION_REQUEST_TIMEOUT="5") as served:
        lab.socket = served.socket
        lab.pyz_hook("PermissionRequest", matcher="*", timeout=10)
        call = bash("touch late")
        lab.model.push([call], [text("bye")])
        lab.session("go")
        next_id(served)
        served.get("/")  # the inbox has shown it
        told = result(lab, call)
        assert told.is_error and told.text == "权限请求超时，自动拒绝"


def test_question_is_answered_from_the_page(lab: Lab, served: Served) -> None:
    call = tool("AskUserQuestion", questions=[COLOUR, SIZES])
    lab.model.push([call], [text("thanks")])
    session = lab.session("go")
    id = next_id(served)
    page = served.post("/answer", id=id, q0="Blue", q1=["S", "L"])
    assert "操作成功" in page.text
    told = result(lab, call)
    assert not told.is_error
    assert "Blue" in told.text and "S, L" in told.text
    session.wait("thanks")


def test_plan_is_rejected_with_a_reason_and_then_approved(
    lab: Lab, served: Served
) -> None:
    first, second = tool("ExitPlanMode"), tool("ExitPlanMode")
    lab.model.push([first], write_plan("1. test"), [second], [text("bye")])
    session = lab.session("plan it", "--permission-mode", "plan")
    page = served.post("/deny", id=next_id(served), reason="add tests")
    assert "操作成功" in page.text
    told = result(lab, first)
    assert told.is_error and "add tests" in told.text
    assert "操作成功" in tap(served, "/allow")
    assert not result(lab, second).is_error
    session.wait("bye")


def test_yes_in_the_terminal_settles_the_card(lab: Lab, served: Served) -> None:
    call = bash("touch typed")
    lab.model.push([call], [text("bye")])
    session = lab.session("go")
    id = next_id(served)
    session.wait(DIALOG)
    session.keys("Enter")
    assert not result(lab, call).is_error
    wait_until(lambda: not served.waiting())
    page = served.get(f"/interrupt?id={id}").text
    assert "请求已在终端处理" in page
    session.wait("bye")


def test_no_in_the_terminal_settles_the_card(lab: Lab, served: Served) -> None:
    lab.model.push([bash("touch refused")], [text("bye")])
    session = lab.session("go")
    id = next_id(served)
    session.wait(DIALOG)
    session.keys("Escape")
    wait_until(lambda: not served.waiting())
    assert "请求无效或已过期" in served.get(f"/allow?id={id}").text
    assert not lab_has(lab, "refused")


def test_evening_at_the_keyboard_is_as_without_us(lab: Lab) -> None:
    """No server, no Feishu: the dialog comes and decides as ever."""
    lab.pyz_hook("PermissionRequest", matcher="*", timeout=60)
    yes, no = bash("touch yes"), bash("touch no")
    lab.model.push([yes], [no], [text("bye")])
    session = lab.session("go")
    session.wait(DIALOG)
    session.keys("Enter")
    assert not result(lab, yes).is_error
    session.wait("touch no")
    session.wait(DIALOG)
    session.press("Escape", until="Interrupted")
    assert lab_has(lab, "yes") and not lab_has(lab, "no")


# Subagents, for which the client shows no dialog while the hook waits.

AGENT_DIALOG = r"from the general-purpose agent[\s\S]*" + DIALOG
NO_DIALOG = r"\A(?![\s\S]*" + DIALOG + ")"


def at(lab: Lab, **settings: str) -> Served:
    """A server of other settings beside the lab."""
    home = Path(lab.root) / "server"
    home.mkdir()
    server = Served(Path(lab.pyz), home, **settings)
    lab.socket = server.socket
    lab.pyz_hook("PermissionRequest", matcher="*", timeout=60)
    return server


def send_agent(lab: Lab, *turns: Any) -> None:
    """Script a session that sends a subagent, which takes these turns."""
    call = {"description": "d", "prompt": "[[lane:sub]] do it"}
    agent = tool("Agent", **call, subagent_type="general-purpose")
    lab.model.push([agent], [text("sent")])
    lab.model.push(*turns, [text("done")], lane="sub")


def leave_the_desk(lab: Lab, call: dict[str, Any]) -> Any:
    """A turn of the model before which years pass since the prompt was typed."""

    def turn(body: object) -> list[dict[str, Any]]:
        for path in Path(lab.config).glob("projects/*/*.jsonl"):
            data = path.read_bytes()
            with path.open("r+b") as file:
                file.write(re.sub(rb'"timestamp":"20\d\d', b'"timestamp":"2001', data))
        return [call]

    return turn


def test_subagent_is_given_back_to_who_has_just_typed(lab: Lab) -> None:
    call = bash("touch one")
    send_agent(lab, [call])
    with at(lab) as served, served.watched():
        session = lab.session("go")
        page = served.get(f"/request?id={next_id(served)}").text
        assert "8 秒后交回终端" in page and "自动拒绝" not in page
        session.wait(AGENT_DIALOG)
        wait_until(lambda: not served.waiting())
        assert "已超时，交回终端" in newest(served)
        assert "有人在这个会话的终端操作" in newest(served)
        session.press("Enter", NO_DIALOG)
        assert not result(lab, call, "sub").is_error


def test_subagent_waits_for_a_tap_while_nobody_is_there_and_is_never_denied(
    lab: Lab,
) -> None:
    first, second = bash("touch one"), bash("touch two")
    send_agent(lab, leave_the_desk(lab, first), [second])
    with at(lab, PERMISSION_REQUEST_TIMEOUT="12") as served, served.watched():
        session = lab.session("go")
        page = served.get(f"/request?id={next_id(served)}").text
        assert "秒后交回终端" not in page and "后交回终端" in page
        assert "已批准运行" in tap(served, "/allow")
        assert not result(lab, first, "sub").is_error
        id = next_id(served)
        wait_until(lambda: id not in served.waiting(), timeout=40)
        session.wait(AGENT_DIALOG)  # not denied: now the terminal asks
        session.press("Enter", NO_DIALOG)
        assert not result(lab, second, "sub").is_error


def test_background_session_is_treated_as_any(lab: Lab) -> None:
    """Nobody answers what was shown: its clock denies."""
    allowed, denied = bash("touch one"), bash("touch two")
    lab.model.push([allowed], [denied], [text("bye")])
    with at(lab, PERMISSION_REQUEST_TIMEOUT="12") as served, served.watched():
        lab.prepare()
        run = partial(
            subprocess.run, env=lab.environ(), cwd=lab.project, timeout=60, check=True,
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        said = run([lab.binary, "--bg", "--permission-mode", "default", "go"]).stdout
        try:
            assert "已批准运行" in tap(served, "/allow")
            assert not result(lab, allowed).is_error
            assert result(lab, denied).text == "权限请求超时，自动拒绝"
        finally:
            short = re.search(r"backgrounded · (\w+)", said)
            assert short is not None, said
            run([lab.binary, "stop", short[1]])
