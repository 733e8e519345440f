from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import FileError
from feishuperm.models.settings import Settings
from feishuperm.services.ledger import Ledger
from feishuperm.supervisor import reviewer
from feishuperm.supervisor import supervisor as supervisor_state
from feishuperm.supervisor.reviewer import ReviewError, Verdict, built_in_prompt
from feishuperm.supervisor.supervisor import Supervisor, user_prompt

STOP = {
    "session_id": "s",
    "hook_event_name": "Stop",
    "prompt_id": "p",
    "stop_hook_active": True,
    "last_assistant_message": "I am done",
}
QUESTION = {
    "session_id": "s",
    "hook_event_name": "PreToolUse",
    "prompt_id": "p",
    "tool_name": "AskUserQuestion",
    "tool_input": {"questions": [{"question": "Which colour?"}]},
}
SUBAGENT = {**STOP, "hook_event_name": "SubagentStop", "agent_id": "a"}
BLOCKED_STOP = {"decision": "block", "reason": "more"}


def decision(kind: str, reason: str) -> dict[str, Any]:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": kind,
            "permissionDecisionReason": reason,
        }
    }


class Desk:
    """A supervisor whose reviewer is a list of verdicts or errors."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.environ = {"HOME": str(home), "FEISHUPERM_LANG": "en"}
        self.answers: list[Verdict | ReviewError] = []
        self.prompts: list[str] = []
        self.seconds: list[float] = []
        monkeypatch.setattr(reviewer, "review", self.review)
        for key, value in self.environ.items():  # log and locks ask the process
            monkeypatch.setenv(key, value)
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        monkeypatch.chdir(home)

    def review(
        self,
        command: list[str],
        prompt: str,
        environ: Mapping[str, str],
        until: float,
        clock: Callable[[], float],
        meanwhile: Callable[[], None],
    ) -> Verdict:
        meanwhile()
        self.prompts.append(prompt)
        self.seconds.append(until - clock())
        answer = self.answers.pop(0) if self.answers else Verdict(False, "more")
        if isinstance(answer, ReviewError):
            raise answer
        return answer

    def handle(self, event: object, **settings: str) -> dict[str, Any] | None:
        raw = event if isinstance(event, bytes) else json.dumps(event).encode()
        values = {"FEISHUPERM_LANG": "en", **settings}
        supervisor = Supervisor(Settings(values), self.environ, clock=lambda: 100.0)
        answer = supervisor.handle(raw)
        supervisor.report()
        return answer

    def log(self) -> str:
        path = self.home / ".local/state/feishuperm/feishuperm.log"
        return path.read_text() if path.exists() else ""

    def state(self) -> dict[str, Any]:
        path = self.home / ".local/state/feishuperm/supervisor/session-s.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found


@pytest.fixture
def desk(home: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(home, monkeypatch)


# The two formats.


@pytest.mark.parametrize(
    ("event", "verdict", "output"),
    [
        (STOP, Verdict(False, "more"), BLOCKED_STOP),
        (STOP, Verdict(True, "good"), {}),
        (SUBAGENT, Verdict(False, "more"), BLOCKED_STOP),
        (SUBAGENT, Verdict(True, "good"), {}),
        (QUESTION, Verdict(False, "look in a.py"), decision("deny", "look in a.py")),
        (QUESTION, Verdict(True, "theirs"), decision("allow", "theirs")),
    ],
)
def test_verdict_becomes_the_events_own_format(
    desk: Desk, event: object, verdict: Verdict, output: object
) -> None:
    """Supervisor hook 处理 PreToolUse 事件，那么输出应包含 permissionDecision 和
    permissionDecisionReason 字段；处理 Stop 事件，那么输出应保持现有格式"""
    desk.answers = [verdict]
    assert desk.handle(event) == output
    assert desk.state()["count"] == 1


@pytest.mark.parametrize(
    ("missing", "base", "output"),
    [
        ("hook_event_name", STOP, BLOCKED_STOP),
        ("hook_event_name", QUESTION, decision("deny", "more")),
        ("prompt_id", STOP, BLOCKED_STOP),
        ("last_assistant_message", STOP, BLOCKED_STOP),
        ("tool_input", QUESTION, decision("deny", "more")),
    ],
)
@pytest.mark.parametrize("wrong", [None, 3, [], {}])
def test_missing_or_wrong_field_is_made_up_for(
    desk: Desk, missing: str, base: dict[str, Any], output: object, wrong: object
) -> None:
    event = {**base, missing: wrong}
    if wrong is None:
        del event[missing]
    assert desk.handle(event) == output


@pytest.mark.parametrize(
    "event",
    [
        {**QUESTION, "tool_name": "Bash"},
        {**QUESTION, "tool_name": None},
        {"session_id": "s", "tool_name": "Bash"},
        {**STOP, "hook_event_name": "PostToolUse"},
        {**STOP, "hook_event_name": "stop"},
    ],
)
def test_other_tools_and_events_get_nothing_and_count_nothing(
    desk: Desk, event: object
) -> None:
    assert desk.handle(event) is None
    assert desk.state() == {} and desk.prompts == []


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_unreadable_event_is_allowed_and_logged(desk: Desk, raw: bytes) -> None:
    assert desk.handle(raw) == {}
    assert "unreadable event" in desk.log()


@pytest.mark.parametrize("session", [None, "", "../../etc/passwd", "--version", 7])
@pytest.mark.parametrize(("base", "kind"), [(STOP, "stop"), (QUESTION, "question")])
def test_session_id_that_cannot_be_trusted_is_never_used(
    desk: Desk, session: object, base: dict[str, Any], kind: str
) -> None:
    answer = desk.handle({**base, "session_id": session})
    assert answer is not None and "decision" not in answer
    if kind == "question":
        assert answer["hookSpecificOutput"]["permissionDecision"] == "allow"
    assert desk.prompts == []
    assert "without a usable session id" in desk.log()


@pytest.mark.parametrize(
    ("event", "output"), [(STOP, {}), (QUESTION, decision("allow", ""))]
)
def test_inside_a_review_everything_is_allowed_and_not_counted(
    desk: Desk, event: object, output: object
) -> None:
    desk.environ["FEISHUPERM_SUPERVISOR"] = "token"
    assert desk.handle(event) == output
    assert desk.state() == {} and desk.prompts == []


@pytest.mark.parametrize(
    ("tasks", "reviewed"),
    [
        ([], True),
        ("many", True),
        ([{"id": "1"}], False),
        ([{"id": "1", "status": "running"}], False),
        ([{"id": "1", "status": "completed"}], True),
        ([{"status": "completed"}, {"status": "pending"}], False),
    ],
)
def test_stop_with_background_tasks_is_not_one_to_review(
    desk: Desk, tasks: object, reviewed: bool
) -> None:
    answer = desk.handle({**STOP, "background_tasks": tasks})
    assert answer == (BLOCKED_STOP if reviewed else {})
    assert len(desk.prompts) == reviewed
    assert bool(desk.state()) is reviewed


def test_switched_off_gives_nothing(desk: Desk) -> None:
    supervisor = Supervisor(Settings({}), desk.environ)
    supervisor.state.switch_session("s", "off")
    assert desk.handle(STOP) is None
    supervisor.state.switch_session("s", "on")
    assert desk.handle(STOP) == BLOCKED_STOP


def test_project_switch_holds_for_the_project_directory(
    desk: Desk, tmp_path: Path
) -> None:
    Supervisor(Settings({}), desk.environ).state.switch_project(str(tmp_path), "off")
    assert desk.handle({**STOP, "cwd": str(tmp_path)}) is None
    desk.environ["CLAUDE_PROJECT_DIR"] = str(desk.home)
    assert desk.handle({**STOP, "cwd": str(tmp_path)}) == BLOCKED_STOP


# Counting.


def test_stops_and_questions_share_one_counter_up_to_the_limit(desk: Desk) -> None:
    """AskUserQuestion hook 被触发，那么迭代计数应增加 1；
    迭代计数已达上限，当任何 hook 事件被触发，那么应自动允许操作并停止审查"""
    outputs = [
        desk.handle(event, SUPERVISOR_MAX_ITERATIONS="3")
        for event in (STOP, QUESTION, STOP, STOP, QUESTION)
    ]
    assert outputs[0] == BLOCKED_STOP
    assert outputs[1] == decision("deny", "more")
    last = outputs[2]
    assert last is not None and last["decision"] == "block"
    assert last["reason"].startswith("more\n") and "Review 3 of 3" in last["reason"]
    notice = "The supervisor has done its 3 reviews: allowed without a review."
    assert outputs[3:] == [{"systemMessage": notice}, decision("allow", notice)]
    assert desk.state()["count"] == 3 and len(desk.prompts) == 3


def test_new_prompt_is_reviewed_again_after_the_limit(desk: Desk) -> None:
    for _ in range(3):
        desk.handle(STOP, SUPERVISOR_MAX_ITERATIONS="2")
    answer = desk.handle({**STOP, "prompt_id": "q"}, SUPERVISOR_MAX_ITERATIONS="2")
    assert answer == BLOCKED_STOP


# Failing reviews.


@pytest.mark.parametrize("problem", ["missing", "failed", "slow", "silent", "garbled"])
def test_review_without_verdict_allows_and_says_so(desk: Desk, problem: str) -> None:
    desk.answers = [ReviewError(problem, "because"), ReviewError(problem, "because")]
    stop = desk.handle(STOP)
    assert stop is not None and set(stop) == {"systemMessage"}
    assert desk.handle(QUESTION) == decision("allow", stop["systemMessage"])
    assert desk.log().count("because, allowed") == 2
    assert desk.state()["count"] == 2


def test_state_that_cannot_be_kept_allows_without_a_review(desk: Desk) -> None:
    folder = desk.home / ".local/state/feishuperm"
    folder.mkdir(parents=True)
    (folder / "supervisor").write_text("not a folder")
    answer = desk.handle(STOP)
    assert answer is not None and "decision" not in answer
    assert desk.prompts == []
    assert "ERROR" in desk.log() and ", allowed" in desk.log()


def test_empty_feedback_is_replaced_and_long_feedback_cut(desk: Desk) -> None:
    desk.answers = [Verdict(False, " \n"), Verdict(False, "x" * 50_000)]
    first, second = desk.handle(STOP) or {}, desk.handle(STOP) or {}
    assert "unfinished" in first["reason"]
    assert second["reason"] == "x" * 8000


def test_unreported_verdict_still_stands(desk: Desk) -> None:
    (desk.home / ".local/state/feishuperm/ledger.jsonl").mkdir(parents=True)
    assert desk.handle(STOP) == BLOCKED_STOP
    assert "not reported" in desk.log()


# What the reviewer gets.


@pytest.mark.parametrize(
    ("event", "seconds"), [(QUESTION, 30), (STOP, 300)], ids=["question", "stop"]
)
def test_time_is_that_of_the_event(desk: Desk, event: object, seconds: float) -> None:
    """Supervisor 审查响应时间在 30 秒内完成"""
    desk.handle(event)
    assert desk.seconds == [seconds]


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("event", [STOP, QUESTION], ids=["stop", "question"])
def test_prompt_is_unchanged_and_the_material_follows_as_data(
    desk: Desk, event: dict[str, Any], language: str
) -> None:
    """系统必须保持 Supervisor prompt 不变"""
    desk.handle(event, FEISHUPERM_LANG=language)
    prompt, _, rest = desk.prompts[0].partition(built_in_prompt(language))
    material = json.loads(rest[rest.index("\n{") :])
    assert prompt == "" and material["hook_event_name"] == event["hook_event_name"]
    if event is QUESTION:
        assert material["tool_input"] == QUESTION["tool_input"]
    else:
        assert material["last_assistant_message"] == "I am done"


def test_users_own_prompt_goes_before_the_built_in_one(desk: Desk) -> None:
    own = desk.home / ".claude/SUPERVISOR.md"
    own.parent.mkdir()
    own.write_text("  Judge {mildly} %s.\n")
    desk.handle(STOP)
    own.write_text(" \n")
    desk.handle(STOP)
    assert desk.prompts[0].startswith("  Judge {mildly} %s.\n")
    assert desk.prompts[1].startswith(built_in_prompt("en"))


def test_very_long_message_reaches_the_reviewer_with_both_ends(desk: Desk) -> None:
    message = "start" + "x" * 200_000 + "end"
    desk.handle({**STOP, "last_assistant_message": message})
    prompt = desk.prompts[0]
    assert '"start' in prompt and 'end"' in prompt and len(prompt) < 70_000


# Reports.


def test_verdict_is_kept_in_state_and_ledger(desk: Desk) -> None:
    desk.answers = [Verdict(False, "run the tests"), Verdict(True, "all there")]
    desk.handle(STOP)
    desk.handle(QUESTION)
    kept = [(v["event"], v["outcome"], v["count"]) for v in desk.state()["verdicts"]]
    assert kept == [("Stop", "block", 1), ("PreToolUse", "allow", 2)]
    entries = list(
        Ledger(str(desk.home / ".local/state/feishuperm/ledger.jsonl")).entries()
    )
    assert [entry["event"] for entry in entries] == ["supervisor", "supervisor"]
    assert [entry["tool"] for entry in entries] == ["Stop", "AskUserQuestion"]
    assert [entry["action"] for entry in entries] == ["block", "allow"]
    assert [entry["reason"] for entry in entries] == ["run the tests", "all there"]
    assert {entry["session"] for entry in entries} == {"s"}


@pytest.mark.parametrize(
    ("notify", "kinds"),
    [("permission", []), ("stop", ["supervisor_block", "supervisor_allow"])],
)
def test_card_is_asked_for_only_when_the_user_wants_stops(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, notify: str, kinds: list[str]
) -> None:
    sent: list[Mapping[str, Any]] = []

    def ask(command: Mapping[str, Any], timeout: float, path: str) -> None:
        assert timeout < 0.1
        sent.append(command)

    monkeypatch.setattr("feishuperm.supervisor.supervisor.ask_server", ask)
    desk.answers = [Verdict(False, "more"), Verdict(True, "good")]
    for event in (STOP, QUESTION):
        desk.handle(event, FEISHUPERM_NOTIFY=notify)
    assert [command["kind"] for command in sent] == kinds
    assert [command["text"] for command in sent] == ["more", "good"][: len(kinds)]


def test_absent_server_costs_a_log_line_and_no_time(desk: Desk) -> None:
    began = time.monotonic()
    path = str(desk.home / "none.sock")
    answer = desk.handle(STOP, FEISHUPERM_NOTIFY="stop", PERMISSION_SOCKET_PATH=path)
    assert answer == BLOCKED_STOP
    assert "not reported: the server is not running" in desk.log()
    assert time.monotonic() - began < 20


def test_prompt_that_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "SUPERVISOR.md")
    assert user_prompt({"CLAUDE_CONFIG_DIR": str(tmp_path)}) == ""


@pytest.mark.parametrize(("passed", "wait"), [(0, 20), (24, 6), (40, 0)])
def test_lock_is_not_waited_for_beyond_the_time_of_the_review(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, passed: float, wait: float
) -> None:
    waits: list[float] = []

    def locked(path: str, seconds: float) -> None:
        waits.append(seconds)
        raise FileError("held by another")

    monkeypatch.setattr(supervisor_state, "locked", locked)
    supervisor = Supervisor(
        Settings({}), desk.environ, started=100.0 - passed, clock=lambda: 100.0
    )
    supervisor.handle(json.dumps(QUESTION).encode())
    assert waits == [wait]
    assert desk.prompts == []
