"""The executor: three kinds of callbacks, their merging, what goes wrong in them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from feishuperm.hooks.hook_manager import HookManager
from feishuperm.lib.child import Child
from feishuperm.models.hooks import HookCallback, HookGroup, HooksConfig, Origin
from tests.conftest import wait_until
from tests.hooks.parts import CONTINUE, EVENT, Bench
from tests.hooks.test_hook_output import says
from tests.lib.test_child import is_alive

# Commands.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", CONTINUE),
        ("test $TOOL = Bash && test $FILE = /p/a.py && test $COMMAND = ls", CONTINUE),
        ('echo \'{"decision": "block"}\'', CONTINUE),
        ("echo no >&2; exit 1", {"decision": "block", "reason": "no"}),
        ("echo no; exit 2", {"decision": "block", "reason": "no"}),
        (
            "exit 7",
            {"decision": "block", "reason": "hook command ended with exit 7"},
        ),
        (
            "kill -9 $$",
            {"decision": "block", "reason": "hook command ended with exit -9"},
        ),
        ("no-such-program-here 2>/dev/null; exit $?", None),
    ],
)
def test_exit_code_decides(bench: Bench, text: str, expected: Any) -> None:
    """Scenario: 执行 Command 类型回调"""
    output = bench.command(text)
    assert output["decision"] == "block" if expected is None else output == expected
    assert bench.complaints == []


def test_command_gets_event_on_stdin_variables_and_the_events_folder(
    bench: Bench, tmp_path: Path
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    text = 'cat > event; echo "$SESSION_ID $CLAUDE_PROJECT_DIR" > env; env > all'
    assert bench.command(text, cwd=str(inner)) == CONTINUE
    assert '"session_id": "s1"' in (inner / "event").read_text()
    assert (inner / "env").read_text() == f"s1 {tmp_path}\n"
    assert "COMMAND=ls\n" in (inner / "all").read_text()


@pytest.mark.parametrize("cwd", ["/no/such/folder", "", None, 3, "a\0b"])
def test_folder_that_is_not_there_is_replaced_by_the_project(
    bench: Bench, tmp_path: Path, cwd: Any
) -> None:
    assert bench.command("pwd > here", cwd=cwd) == CONTINUE
    assert (tmp_path / "here").read_text().strip() == str(tmp_path)


def test_timed_out_command_is_ended_with_its_children(
    bench: Bench, tmp_path: Path
) -> None:
    """Scenario: 处理命令执行超时"""
    text = "sh -c 'echo $$ > pid; sleep 60' & sleep 60"
    assert bench.command(text, timeout=1) == CONTINUE
    assert "no end within 1 s; killed" in bench.complaints[0]
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_alive(pid))


def test_unread_input_and_endless_output_stop_nobody(bench: Bench) -> None:
    huge = {"tool_input": {"content": "x" * 3_000_000}}
    assert bench.command("exec <&-; true", **huge) == CONTINUE
    output = bench.command("head -c 9000000 /dev/zero | tr '\\0' a; exit 1", **huge)
    assert output["reason"] == "a" * 10000


def test_background_process_that_holds_the_pipes_is_not_waited_for(
    bench: Bench, tmp_path: Path
) -> None:
    started = time.monotonic()
    assert bench.command("sleep 30 & echo $! > pid") == CONTINUE
    assert time.monotonic() - started < 15
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_command_that_closes_its_output_is_waited_for(bench: Bench) -> None:
    output = bench.command("exec >&- 2>&-; sleep 0.3; exit 4")
    assert output["decision"] == "block"


# Prompts, and their order.


def test_prompt_becomes_a_system_message(bench: Bench) -> None:
    """Scenario: 执行 Prompt 类型回调"""
    callback = HookCallback("prompt", "check $TOOL on ${FILE}, $HOME")
    output = bench.manager.execute_prompt(callback, EVENT)
    assert output == {
        "systemMessage": "check Bash on /p/a.py, $HOME",
        "continue": True,
    }


def test_callbacks_run_in_the_order_given_and_only_where_they_match(
    bench: Bench, tmp_path: Path
) -> None:
    def says(word: str) -> HookCallback:
        return HookCallback(
            "command", f"sleep 0.0{9 - len(word)}; echo {word} >> order"
        )

    groups = [
        ("PreToolUse", HookGroup("Bash", [says("a"), says("bb")])),
        ("PreToolUse", HookGroup("Edit", [says("no")])),
        ("PostToolUse", HookGroup("", [says("never")])),
        ("PreToolUse", HookGroup("", [says("ccc")])),
    ]
    bench.manager.load_hooks(HooksConfig(groups))
    assert bench.manager.run(EVENT) == CONTINUE
    assert (tmp_path / "order").read_text().split() == ["a", "bb", "ccc"]
    assert bench.manager.run({**EVENT, "hook_event_name": "Stop"}) is None


# Guards that must not fail, and callbacks that must not allow.


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("command", "sleep 9"),
        ("script", "hooks/none.py"),
        ("script", "hooks/broken.py"),
        ("script", "hooks/odd.py"),
        ("script", "hooks/slow.py"),
        ("script", "../outside.py"),
    ],
)
def test_guard_that_fails_blocks_if_it_says_so(
    bench: Bench, tmp_path: Path, type: str, text: str
) -> None:
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "broken.py").write_text("(")
    (tmp_path / "hooks" / "odd.py").write_text("def hook(*_): return 'yes'")
    slow = "import time\ndef hook(*_): time.sleep(9)"
    (tmp_path / "hooks" / "slow.py").write_text(slow)
    usual = HookCallback(type, text, 0.3)
    assert bench.manager.execute(usual, EVENT) == CONTINUE
    guard = HookCallback(type, text, 0.3, blocks=True)
    output = bench.manager.execute(guard, EVENT)
    assert output["decision"] == "block"
    assert "must not fail" in output["reason"]
    assert len(bench.complaints) == 2


def test_guard_that_can_never_run_blocks(bench: Bench) -> None:
    guard = HookCallback("command", "", blocks=True, problem="no text")
    assert bench.manager.execute(guard, EVENT)["decision"] == "block"


def test_allow_of_a_project_is_dropped_and_its_refusal_recorded(
    tmp_path: Path,
) -> None:
    entries: list[dict[str, Any]] = []
    manager = HookManager(str(tmp_path), {}, pytest.fail, record=entries.append)
    origin = Origin("settings.json", str(tmp_path), ["hooks"], True, {})
    (tmp_path / "hooks").mkdir()
    for name, said in (("yes", "allow"), ("no", "deny")):
        source = f"def hook(*_): return {says(permissionDecision=said)!r}"
        (tmp_path / "hooks" / f"{name}.py").write_text(source)
    yes = HookCallback("script", "hooks/yes.py", origin=origin)
    assert manager.execute(yes, EVENT) == says()
    assert entries == []
    own = HookCallback("script", "hooks/yes.py", origin=Origin("", "", [str(tmp_path)]))
    own.text = str(tmp_path / "hooks" / "yes.py")
    assert manager.execute(own, EVENT) == says(permissionDecision="allow")
    no = HookCallback("script", "hooks/no.py", source="here", origin=origin)
    manager.execute(no, EVENT)
    assert [entry["decision"] for entry in entries] == ["allow", "deny"]
    assert entries[1] == {
        "event": "callback",
        "decision": "deny",
        "callback": "here",
        "hook_event": "PreToolUse",
        "tool": "Bash",
        "session": "s1",
    }


def test_callback_of_a_project_runs_at_its_top_and_in_its_environment(
    bench: Bench, tmp_path: Path
) -> None:
    """A file of the same name in a folder below is not the one that was seen."""
    inner = tmp_path / "inner"
    inner.mkdir()
    environ = {"PATH": "/usr/bin:/bin", "FROM": "project"}
    origin = Origin("settings.json", str(tmp_path), (), True, environ)
    command = HookCallback("command", 'echo "$FROM" > here', origin=origin)
    bench.manager.execute(command, {**EVENT, "cwd": str(inner)})
    assert (tmp_path / "here").read_text() == "project\n"
    own = HookCallback("command", 'echo "$FROM" > here')
    bench.manager.execute(own, {**EVENT, "cwd": str(inner)})
    assert (inner / "here").read_text() == "\n"


def test_manager_imports_neither_asyncio_nor_an_sdk() -> None:
    code = (
        "import sys; import feishuperm.hooks.application; "
        "print(*sorted({'asyncio', 'logging', 'dataclasses', 'argparse',"
        " 'claude_agent_sdk', 'tempfile'} & set(sys.modules)))"
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    command = [sys.executable, "-S", "-c", code]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert result.stdout.strip() == "" and result.stderr == ""


def test_child_keeps_no_descriptor_open(bench: Bench) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        bench.command("true")
        bench.command("sleep 9", timeout=0.1)
        bench.script("hooks/none.py")
    # Others' may be closed meanwhile, whenever they are collected.
    assert len(os.listdir("/proc/self/fd")) <= before
    with pytest.raises(OSError, match="No such file"):
        Child(["/no/such/program"], b"", {})
    # Others' may be closed meanwhile, whenever they are collected.
    assert len(os.listdir("/proc/self/fd")) <= before


def test_what_cannot_run_is_an_error_and_not_a_warning(tmp_path: Path) -> None:
    errors: list[str] = []
    paths = ("./hooks",)
    manager = HookManager(str(tmp_path), {}, pytest.fail, paths, errors.append)
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "broken.py").write_text("(")
    for name in ("../outside.py", "hooks/broken.py"):
        assert manager.execute_script(HookCallback("script", name), EVENT) == CONTINUE
    assert "is outside" in errors[0] and "SyntaxError" in errors[1]


def test_matcher_that_takes_for_ever_does_not_match(tmp_path: Path) -> None:
    complaints: list[str] = []

    def ring(*_: object) -> None:
        raise TimeoutError

    def alarm(seconds: int) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.1 if seconds else 0)

    before = signal.signal(signal.SIGALRM, ring)
    try:
        manager = HookManager(str(tmp_path), {}, complaints.append, alarm=alarm)
        group = HookGroup("^(a+)+$", [HookCallback("command", "exit 1")])
        manager.load_hooks(HooksConfig([("PreToolUse", group)]))
        assert manager.run({**EVENT, "tool_name": "a" * 60 + "b"}) is None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert "takes too long" in complaints[0]


def test_stop_ends_what_runs_in_other_threads_and_lets_nothing_start(
    bench: Bench, tmp_path: Path
) -> None:
    outputs: list[Any] = []
    text = "echo $$ > pid.new; mv pid.new pid; sleep 60"
    thread = threading.Thread(target=lambda: outputs.append(bench.command(text, 50)))
    thread.start()
    wait_until((tmp_path / "pid").exists)
    bench.manager.stop()
    thread.join(20)
    assert not thread.is_alive() and outputs[0]["decision"] == "block"
    assert bench.command("touch late") == CONTINUE
    assert not (tmp_path / "late").exists()
