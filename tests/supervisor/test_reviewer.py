from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from feishuperm.supervisor import reviewer
from feishuperm.supervisor.reviewer import (
    FAILED,
    GARBLED,
    MISSING,
    RECURSION,
    SILENT,
    SLOW,
    ReviewError,
    Verdict,
    command_line,
    review,
)
from tests.conftest import wait_until
from tests.fakes import reviewer as fake
from tests.tables import every_row

Processes = Callable[[], list[str]]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "REVIEWER_LOG": str(tmp_path / "runs.jsonl"),
        "MARK": uuid.uuid4().hex,
    }


@pytest.fixture
def left(environ: dict[str, str]) -> Processes:
    """The processes that still run with this test's mark in their environment."""
    return lambda: marked(environ["MARK"])


def marked(mark: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.encode() in Path("/proc", pid, "environ").read_bytes():
                found.append(pid)
        except OSError:
            pass
    return found


def run(case: str, environ: dict[str, str], seconds: float = 30) -> Verdict:
    command = [sys.executable, fake.__file__, case]
    return review(command, "prompt", environ, time.monotonic() + seconds)


def problem_of(case: str, environ: dict[str, str], seconds: float = 30) -> str:
    with pytest.raises(ReviewError) as caught:
        run(case, environ, seconds)
    return caught.value.problem


@pytest.mark.parametrize("case", ["block", "deafly", "answer-and-leave-children"])
def test_verdict_is_read_and_no_process_is_left(
    case: str, environ: dict[str, str], left: Processes
) -> None:
    verdict = run(case, environ)
    assert (verdict.allow_stop, verdict.feedback) == (False, "tests were not run")
    assert left() == []


@pytest.mark.parametrize(
    ("case", "problem"),
    [("fail", FAILED), ("silent", SILENT), ("flood", GARBLED)],
)
def test_reviewer_without_a_verdict_is_a_problem(
    case: str, problem: str, environ: dict[str, str], left: Processes
) -> None:
    assert problem_of(case, environ) == problem
    assert left() == []


def test_deadline_ends_the_reviewer_and_all_its_children(
    environ: dict[str, str], left: Processes
) -> None:
    seen: list[int] = []

    def meanwhile() -> None:
        seen.append(len(wait_until(lambda: len(left()) >= 3 and left())))

    command = [sys.executable, fake.__file__, "hang-with-children"]
    with pytest.raises(ReviewError) as caught:
        review(command, "prompt", environ, time.monotonic(), meanwhile=meanwhile)
    assert caught.value.problem == SLOW
    assert seen == [3]
    assert left() == []


def test_prompt_larger_than_any_pipe_arrives_whole(
    environ: dict[str, str], tmp_path: Path
) -> None:
    prompt = "验收" * 200_000
    command = [sys.executable, fake.__file__, "allow"]
    assert review(command, prompt, environ, time.monotonic() + 30).allow_stop
    assert json.loads((tmp_path / "runs.jsonl").read_text())["stdin"] == prompt


def test_reviewer_gets_the_callers_environment_and_the_recursion_guard(
    environ: dict[str, str], tmp_path: Path
) -> None:
    code = "import json, os; json.dump(dict(os.environ), open('seen.json', 'w'))"
    command = [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r}); {code}"]
    with pytest.raises(ReviewError):
        review(command, "", environ, time.monotonic() + 30)
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen.pop(RECURSION)
    assert environ.items() <= seen.items()


@pytest.mark.parametrize("command", ["/nowhere/claude", "no-such-command-here", "/tmp"])
def test_command_that_cannot_start_is_missing(
    command: str, environ: dict[str, str]
) -> None:
    with pytest.raises(ReviewError) as caught:
        review([command], "", environ, time.monotonic() + 30)
    assert caught.value.problem == MISSING


def test_command_line_is_a_list_with_the_safe_flags() -> None:
    command = command_line("'my claude' --model x", "sid")
    assert command[:6] == ["my claude", "--model", "x", "-p", "--resume", "sid"]
    flags = dict(zip(command, command[1:]))
    assert json.loads(flags["--settings"]) == {"disableAllHooks": True}
    assert flags["--tools"] == "Read,Glob,Grep"
    schema = json.loads(flags["--json-schema"])
    assert schema["required"] == ["allow_stop", "feedback"]
    assert {"--fork-session", "--no-session-persistence"} <= set(command)


@every_row("command", ["", "  ", "claude 'unclosed"])
def test_unusable_supervisor_command_is_missing(command: str) -> None:
    with pytest.raises(ReviewError) as caught:
        command_line(command, "sid")
    assert caught.value.problem == MISSING


def test_guard_ends_what_left_the_group_before_it_began() -> None:
    """On a busy machine the reviewer has children before its guard is there."""
    token = uuid.uuid4().hex
    environ = {**os.environ, reviewer.RECURSION: token}
    group = subprocess.Popen(["sleep", "60"], env=environ, start_new_session=True)
    left = subprocess.Popen(["sleep", "60"], env=environ, start_new_session=True)
    guard, let_go = reviewer._start_guard(group.pid, token)
    try:
        os.close(let_go)
        os.waitpid(guard, 0)
        assert [group.wait(20), left.wait(20)] == [-9, -9]
    finally:
        for process in (group, left):
            process.kill()
