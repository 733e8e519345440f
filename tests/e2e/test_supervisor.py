"""The supervisor as built: with a reviewer that acts, and with the real client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from feishuperm.supervisor.switch import CAP_VARIABLE, slash_commands, wanted_cap
from tests.conftest import clean_env, wait_until
from tests.fakes import reviewer as fake
from tests.fakes.feishu import FakeFeishu
from tests.fakes.model import Block, text, tool, words_of
from tests.lab import Lab, wait_for
from tests.served import Served

STOP = {
    "session_id": "s",
    "hook_event_name": "Stop",
    "prompt_id": "p",
    "last_assistant_message": "done",
}
QUESTIONS = [
    {
        "question": "Which colour?",
        "header": "Colour",
        "options": [
            {"label": "Blue", "description": "b"},
            {"label": "Red", "description": "r"},
        ],
        "multiSelect": False,
    }
]
QUESTION = {
    "session_id": "s",
    "hook_event_name": "PreToolUse",
    "tool_name": "AskUserQuestion",
    "tool_input": {"questions": QUESTIONS},
}
# One of each kind of answer; the table of all of them is in tests/services.
CASES = {"block": "block", "allow": None, "fenced-twice": "block", "garbled": None}


class Bench:
    """The built file with the acting reviewer, in a home of its own."""

    def __init__(self, pyz: object, home: Path) -> None:
        self.pyz = str(pyz)
        self.home = home
        self.runs = home / "runs.jsonl"
        self.environ = clean_env(
            home,
            PATH=f"{os.path.dirname(os.path.realpath(sys.executable))}:/usr/bin:/bin",
            REVIEWER_LOG=str(self.runs),
            MARK=uuid.uuid4().hex,
            PERMISSION_SOCKET_PATH=str(home / "none.sock"),
            FEISHUPERM_LANG="en",
        )

    def start(self, case: str, event: object, **extra: str) -> subprocess.Popen[bytes]:
        command = f"{sys.executable} {fake.__file__} {case}"
        process = subprocess.Popen(
            [self.pyz, "supervisor"],
            env={**self.environ, "SUPERVISOR_COMMAND": command, **extra},
            cwd=self.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin
        process.stdin.write(json.dumps(event).encode())
        process.stdin.close()
        process.stdin = None
        return process

    def hook(self, case: str, event: object, **extra: str) -> Any:
        """What it prints, as JSON; None for nothing."""
        process = self.start(case, event, **extra)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")
        return json.loads(out) if out else None

    def command(
        self, *arguments: str, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.pyz, "supervisor", *arguments],
            env={**self.environ, **extra},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    def reviews(self) -> list[dict[str, Any]]:
        lines = self.runs.read_text().splitlines() if self.runs.exists() else []
        return [json.loads(line) for line in lines]

    def count(self) -> int:
        path = self.home / ".local/state/feishuperm/supervisor/session-s.json"
        return int(json.loads(path.read_text())["count"])

    def processes(self) -> list[str]:
        """Everything of this test that still runs."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                environ = Path("/proc", pid, "environ").read_bytes()
                if self.environ["MARK"].encode() in environ:
                    found.append(pid)
            except OSError:
                pass
        return found


@pytest.fixture
def bench(pyz: object, home: Path) -> Bench:
    return Bench(pyz, home)


@pytest.mark.parametrize("case", CASES)
def test_answer_of_the_reviewer_decides_a_stop(bench: Bench, case: str) -> None:
    answer = bench.hook(case, STOP)
    assert answer.get("decision") == CASES[case]
    assert bench.processes() == []


def test_question_reaches_the_reviewer_and_is_denied_with_its_feedback(
    bench: Bench,
) -> None:
    """Supervisor 决定阻止提问（allow_stop=false），那么应该取消这次提问并收到反馈"""
    output = bench.hook("block", QUESTION)["hookSpecificOutput"]
    assert output["permissionDecision"] == "deny"
    assert output["permissionDecisionReason"] == fake.BLOCK["feedback"]
    (run,) = bench.reviews()
    assert "Which colour?" in run["stdin"]
    assert run["argv"][:3] == ["-p", "--resume", "s"]
    assert run["cwd"] == str(bench.home)


def test_reviewer_that_is_missing_allows(bench: Bench) -> None:
    answer = bench.hook("", STOP, SUPERVISOR_COMMAND="no-such-claude")
    assert "decision" not in answer
    log = (bench.home / ".local/state/feishuperm/feishuperm.log").read_text()
    assert "no-such-claude" in log


def test_slow_review_of_a_question_is_ended_and_allowed(bench: Bench) -> None:
    answer = bench.hook("hang-with-children", QUESTION, SUPERVISOR_TIMEOUT="2")
    assert answer["hookSpecificOutput"]["permissionDecision"] == "allow"
    assert bench.processes() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_killed_hook_leaves_no_process(bench: Bench, number: signal.Signals) -> None:
    process = bench.start("hang-with-children", STOP)
    wait_until(lambda: len(bench.processes()) >= 5)  # hook, guard, reviewer, two more
    process.send_signal(number)
    out, _ = process.communicate(timeout=20)
    assert out == b""
    wait_until(lambda: not bench.processes())


def test_environment_is_handed_on_and_never_written_down(bench: Bench) -> None:
    bench.hook("fail", STOP, ANTHROPIC_API_KEY="sk-secret-of-the-user")
    written = [
        path.read_bytes()
        for path in (bench.home / ".local").rglob("*")
        if path.is_file()
    ]
    assert written and not any(b"sk-secret" in data for data in written)


@pytest.mark.full
def test_hundred_hooks_at_once_count_to_exactly_a_hundred(bench: Bench) -> None:
    quick = bench.home / "quick.sh"
    quick.write_text(
        f"echo x >> {bench.home}/started; echo '{json.dumps(fake.ALLOW)}'\n"
    )
    extra = {
        "SUPERVISOR_COMMAND": f"/bin/sh {quick}",
        "SUPERVISOR_MAX_ITERATIONS": "1000",
    }
    waiting = [bench.start("", QUESTION, **extra) for _ in range(100)]
    for process in waiting:
        out, _ = process.communicate(timeout=120)
        output = json.loads(out)["hookSpecificOutput"]
        assert output["permissionDecisionReason"] == fake.ALLOW["feedback"]
    assert bench.count() == 100
    assert len((bench.home / "started").read_text().splitlines()) == 100
    ledger = bench.home / ".local/state/feishuperm/ledger.jsonl"
    assert len(ledger.read_text().splitlines()) == 100


def test_switches_and_status_tell_what_is_in_force(bench: Bench) -> None:
    assert bench.command("off").stdout == f"supervisor off for {bench.home}\n"
    assert bench.hook("block", STOP) is None
    inside = {"CLAUDE_CODE_SESSION_ID": "s"}
    said = bench.command("on", "--session", **inside).stdout
    assert said == "supervisor on for session s\n"
    assert bench.hook("block", STOP)["decision"] == "block"
    status = bench.command("status").stdout
    assert f"supervisor off for {bench.home}" in status
    assert "only 8 blocked stops in a row (its default)" in status
    assert "session s: 1 of 20 reviews" in status
    assert "Stop block" in status and "tests were not run" in status
    facts = json.loads(bench.command("status", "--json", "--session", "s").stdout)
    assert (facts["on"], facts["cap"], facts["limit"]) == (True, 8, 20)
    assert facts["sessions"][0]["verdicts"][0]["outcome"] == "block"


def test_status_names_the_file_that_raises_the_cap(bench: Bench) -> None:
    path = bench.home / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"env": {CAP_VARIABLE: wanted_cap(20)}}))
    status = bench.command("status").stdout
    assert f"takes 20 blocked stops in a row ({path})" in status


def test_status_survives_settings_that_cannot_be_read(bench: Bench) -> None:
    path = bench.home / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text("{")
    done = bench.command("status", SUPERVISOR_COMMAND="claude 'unclosed")
    assert done.returncode == 0
    assert "not found: every review will be skipped" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("sideways",),
        ("on", "--json"),
        ("status", "x"),
        ("off", "--session"),
        ("off", "--session", "../x"),
    ],
)
def test_unknown_argument_is_a_usage_error(
    bench: Bench, arguments: tuple[str, ...]
) -> None:
    done = bench.command(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("feishuperm: ")


def test_verdict_becomes_a_card_through_the_server(bench: Bench) -> None:
    with FakeFeishu() as feishu:
        url = {"FEISHU_WEBHOOK_URL": feishu.webhook_url, "FEISHUPERM_LANG": "en"}
        with Served(Path(bench.pyz), bench.home, **url) as server:
            extra = {"PERMISSION_SOCKET_PATH": server.socket}
            bench.hook("block", STOP, FEISHUPERM_NOTIFY="stop", **extra)
            (card,) = wait_until(lambda: feishu.cards)
    assert "Claude Code review: go on" in json.dumps(card)
    assert fake.BLOCK["feedback"] in json.dumps(card)


# The real client, as session and as reviewer.


def verdict(allow_stop: bool, feedback: str) -> list[Block]:
    return [tool("StructuredOutput", allow_stop=allow_stop, feedback=feedback)]


@pytest.fixture
def supervised(lab: Lab) -> Lab:
    """A lab whose stops and questions are supervised by the real client."""
    lab.extra["SUPERVISOR_COMMAND"] = lab.binary
    lab.extra["FEISHUPERM_LANG"] = "en"
    lab.pyz_hook("Stop", "supervisor", timeout=310)
    lab.pyz_hook("PreToolUse", "supervisor", matcher="AskUserQuestion", timeout=40)
    for event in ("Stop", "PreToolUse", "SessionStart"):
        lab.record(event)
    return lab


def last_words(body: dict[str, Any]) -> str:
    """Everything the model was told in the last two messages of a request."""
    return "\n".join(words_of(message["content"]) for message in body["messages"][-2:])


@pytest.mark.claude
def test_reviewer_can_read_and_change_nothing(supervised: Lab) -> None:
    """It may see the session's tools named, but using one that changes things fails."""
    lab = supervised
    lab.settings["permissions"]["allow"] = ["Bash(touch evil)", "Write", "Edit"]
    attempts = [
        tool("Bash", command="touch evil", description="x"),
        tool("Write", file_path=f"{lab.project}/evil", content="x"),
    ]
    lab.model.push([text("first")])
    lab.model.push(attempts, verdict(True, "fine"), lane="review")
    assert lab.run("do the work", timeout=90).returncode == 0
    results = lab.model.tool_results("review")
    assert [results[attempt["id"]].is_error for attempt in attempts] == [True, True]
    assert lab.read("evil") == "" and not Path(lab.project, "evil").exists()


@pytest.mark.claude
def test_stop_is_blocked_once_with_feedback_the_model_sees_then_allowed(
    supervised: Lab,
) -> None:
    lab = supervised
    lab.model.push([text("first")], [text("second")])
    lab.model.push(verdict(False, "run the tests first"), lane="review")
    lab.model.push(verdict(True, "there is evidence"), lane="review")
    done = lab.run("do the work", timeout=90)
    assert (done.returncode, done.stdout) == (0, "second\n")
    assert "run the tests first" in last_words(lab.model.calls()[1])
    reviews = lab.model.calls("review")
    assert len(reviews) == 2
    assert '"last_assistant_message": "first"' in last_words(reviews[0])
    # No recursion: the reviewers ran no hook, and left no session in the picker.
    assert len(lab.recorded("Stop")) == 2 and len(lab.recorded("SessionStart")) == 1
    transcripts = list(Path(lab.config, "projects").rglob("*.jsonl"))
    assert [path.stem for path in transcripts] == [
        lab.recorded("Stop")[0]["session_id"]
    ]
    ledger = Path(lab.home, ".local/state/feishuperm/ledger.jsonl").read_text()
    actions = [json.loads(line)["action"] for line in ledger.splitlines()]
    assert actions == ["block", "allow"]


@pytest.mark.claude
def test_question_is_denied_with_the_reason_then_one_is_allowed_and_shown(
    supervised: Lab,
) -> None:
    """Claude Code 准备调用 AskUserQuestion 工具，那么 Supervisor hook 应被触发；
    deny：应该取消这次提问并收到反馈；allow：应该正常执行 AskUserQuestion 调用"""
    lab = supervised
    refused = tool("AskUserQuestion", questions=QUESTIONS)
    again = [{**QUESTIONS[0], "question": "Which shade, then?"}]
    asked = tool("AskUserQuestion", questions=again)
    lab.model.push([refused], [asked], [text("thanks")])
    lab.model.push(verdict(False, "the answer is in a.txt"), lane="review")
    lab.model.push(verdict(True, "a matter of taste"), lane="review")
    lab.model.push(verdict(True, "done"), lane="review")
    session = lab.session("go")
    session.wait("Which shade, then[?]", 60)
    results = lab.model.tool_results()
    assert "the answer is in a.txt" in results[refused["id"]].text
    assert results[refused["id"]].is_error
    reviews = lab.model.calls("review")
    assert "Which colour?" in last_words(reviews[0])
    session.keys("Enter")
    lab.model.wait(3)
    assert "Blue" in lab.model.tool_results()[asked["id"]].text
    wait_for(lambda: lab.recorded("Stop"), "stop")
    assert len(lab.recorded("PreToolUse")) == 2
    assert len(lab.recorded("SessionStart")) == 1


def acting(lab: Lab, case: str) -> None:
    lab.extra["SUPERVISOR_COMMAND"] = f"{sys.executable} {fake.__file__} {case}"
    lab.extra["REVIEWER_LOG"] = os.path.join(lab.root, "runs.jsonl")


def runs(lab: Lab) -> int:
    return len(lab.read(lab.extra["REVIEWER_LOG"]).splitlines())


@pytest.mark.claude
def test_limit_ends_the_turn_without_another_review(supervised: Lab) -> None:
    lab = supervised
    acting(lab, "block")
    lab.extra["SUPERVISOR_MAX_ITERATIONS"] = "2"
    assert lab.run("go", timeout=90).returncode == 0
    assert (len(lab.recorded("Stop")), runs(lab)) == (3, 2)
    assert "Review 2 of 2" in last_words(lab.model.calls()[-1])


@pytest.mark.claude
def test_raised_cap_of_the_client_lets_every_review_block(supervised: Lab) -> None:
    lab = supervised
    acting(lab, "block")
    lab.extra["SUPERVISOR_MAX_ITERATIONS"] = "10"
    lab.settings["env"] = {CAP_VARIABLE: wanted_cap(10)}
    done = lab.run("go", "--output-format", "stream-json", "--verbose", timeout=120)
    assert done.returncode == 0
    assert (len(lab.recorded("Stop")), runs(lab)) == (11, 10)
    assert "overriding" not in done.stdout


@pytest.mark.claude
def test_slash_command_switches_its_own_session_off(supervised: Lab) -> None:
    lab = supervised
    acting(lab, "block")
    for name, content in slash_commands(lab.pyz).items():
        lab.write(os.path.join(lab.config, "commands", name), content)
    assert lab.run("/supervisoroff", timeout=90).returncode == 0
    (stop,) = lab.recorded("Stop")
    assert runs(lab) == 0
    told = json.dumps(lab.model.calls()[0]["messages"])
    assert f"supervisor off for session {stop['session_id']}" in told
