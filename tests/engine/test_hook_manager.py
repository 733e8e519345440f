"""The executor: three kinds of callbacks, their merging, what goes wrong in them."""

from __future__ import annotations

import asyncio
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from feishuperm.engine.hook_manager import HookManager
from feishuperm.engine.hook_output import (
    decided,
    for_client,
    merge,
    without_allow,
)
from feishuperm.engine.script_host import allowed_path, shape_problem
from feishuperm.lib.child import Child
from feishuperm.models.hooks import HookCallback, HookGroup, HooksConfig, Origin
from tests.conftest import wait_until
from tests.lib.test_child import is_alive

CONTINUE = {"continue": True}
EVENT = {
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls", "file_path": "/p/a.py"},
    "session_id": "s1",
}


class Bench:
    """A HookManager with a project folder, and what it complained about."""

    def __init__(self, root: Path, *paths: str) -> None:
        self.root = root
        self.complaints: list[str] = []
        node = os.path.dirname(shutil.which("node") or "/usr/bin/node")
        environ = {"PATH": f"{node}:/usr/bin:/bin", "HOME": str(root)}
        folders = paths or ("./.claude/hooks", "./hooks")
        self.manager = HookManager(str(root), environ, self.complaints.append, folders)

    def command(self, text: str, timeout: float = 20, **fields: Any) -> Any:
        callback = HookCallback("command", text, timeout)
        return self.manager.execute_command(callback, {**EVENT, **fields})

    def script(self, name: str, source: str = "", timeout: float = 20) -> Any:
        if source:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(source))
        callback = HookCallback("script", name, timeout)
        return self.manager.execute_script(callback, EVENT, "toolu_1")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


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


# Scripts.


PYTHON = """
    print("noise")
    {kind} hook(input, tool_use_id, context):
        print("more noise")
        assert context["signal"] is None
        return {{"systemMessage": input["tool_name"] + tool_use_id, "continue_": True}}
"""


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_python_script_answers_in_full(bench: Bench, kind: str) -> None:
    """Scenario: 执行 Script 类型回调"""
    output = bench.script("hooks/a.py", PYTHON.format(kind=kind))
    assert output == {"systemMessage": "Bashtoolu_1", "continue": True}
    assert bench.complaints == []


def test_script_may_import_its_neighbours(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "rules.py").write_text("REASON = 'because'")
    source = "import rules\ndef hook(*a): return {'stopReason': rules.REASON}"
    assert bench.script("hooks/a.py", source) == {"stopReason": "because"}


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node")
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.mjs", "export default async (i, id, c) => ({{reason: {value}}});"),
        ("a.mjs", "export function hook(i, id, c) {{ return {{reason: {value}}} }}"),
        ("a.cjs", "module.exports = (i, id, c) => ({{reason: {value}}});"),
        ("a.js", "exports.hook = (i, id, c) => ({{reason: {value}}});"),
    ],
)
def test_javascript_answers_in_full(bench: Bench, name: str, source: str) -> None:
    """Scenario: 执行 Script 类型回调"""
    value = "i.tool_name + id + c.signal.aborted"
    noisy = "console.log('noise');" + source.format(value=value)
    assert bench.script(f"hooks/{name}", noisy) == {"reason": "Bashtoolu_1false"}
    assert bench.complaints == []


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node")
def test_typescript_runs_or_says_which_node_it_needs(bench: Bench) -> None:
    source = "export default (i: any): object => ({ reason: i.tool_name as string });"
    output = bench.script("hooks/a.ts", source)
    assert output == {"reason": "Bash"} or "Node 22.18" in bench.complaints[0]


def test_missing_node_is_told(bench: Bench) -> None:
    bench.manager.environ = {"PATH": "/nowhere"}
    assert bench.script("hooks/a.js", "export default () => ({})") == CONTINUE
    assert "node" in bench.complaints[0]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1", "exports no function `hook`"),
        ("def hook(*a): raise ValueError('odd')", "ValueError: odd"),
        ("def hook(*a): raise SystemExit(3)", "SystemExit"),
        ("import os\nos._exit(3)", "no result (exit 3)"),
        ("def hook(:", "SyntaxError"),
        ("def hook(*a): return 'text'", "it is a str"),
        ("def hook(*a): return {'continue': 'yes'}", "`continue` is a str"),
        ("def hook(*a): return {'decision': 'maybe'}", "`decision` is 'maybe'"),
        ("def hook(*a): return {'systemMessage': {1, 2}}", "TypeError"),
        (
            "def hook(*a): return {'hookSpecificOutput': {'hookEventName': 'Stop'}}",
            "hookEventName",
        ),
    ],
)
def test_broken_script_continues_and_is_told(
    bench: Bench, source: str, words: str
) -> None:
    """Scenario: 处理脚本加载失败"""
    assert bench.script("hooks/a.py", source) == CONTINUE
    assert words in bench.complaints[0]


def test_script_without_an_answer_continues(bench: Bench) -> None:
    assert bench.script("hooks/a.py", "def hook(*a): pass") == CONTINUE
    assert bench.complaints == []


def test_missing_script_continues_and_is_told(bench: Bench) -> None:
    """Scenario: 处理脚本加载失败"""
    assert bench.script("hooks/none.py") == CONTINUE
    assert "FileNotFoundError" in bench.complaints[0]


def test_endless_script_is_ended(bench: Bench) -> None:
    source = "import time\ndef hook(*a): time.sleep(60)"
    assert bench.script("hooks/a.py", source, timeout=1) == CONTINUE
    assert "killed" in bench.complaints[0]


def test_script_outside_the_list_does_not_run(bench: Bench, tmp_path: Path) -> None:
    """Scenario: 验证脚本路径在白名单内"""
    source = f"open({str(tmp_path / 'ran')!r}, 'w')\ndef hook(*a): return {{}}"
    assert bench.script("elsewhere/a.py", source) == CONTINUE
    assert "elsewhere/a.py is outside ./.claude/hooks, ./hooks" in bench.complaints[0]
    assert not (tmp_path / "ran").exists()


def test_links_are_resolved_on_both_sides(tmp_path: Path) -> None:
    """Scenario: 验证脚本路径在白名单内"""
    root, away = tmp_path / "project", tmp_path / "away"
    (root / "hooks").mkdir(parents=True)
    away.mkdir()
    for folder in (root / "hooks", away):
        (folder / "a.py").touch()
    (root / "hooks" / "out.py").symlink_to(away / "a.py")
    (root / "linked").symlink_to(away)
    folders = ("./hooks",)

    def allowed(script: str, *names: str, is_project: bool = False) -> bool:
        origin = Origin("", str(root), names or folders, is_project)
        return bool(allowed_path(script, origin))

    assert allowed("hooks/a.py") and allowed("./hooks/../hooks/a.py")
    assert allowed(str(root / "hooks" / "a.py"))
    assert not allowed("hooks/out.py")
    assert not allowed("hooks/../../away/a.py")
    assert not allowed("hooks")
    assert not allowed("hooks-evil/a.py")
    assert not allowed("a\0b")
    assert allowed("linked/a.py", "./linked") and allowed(str(away / "a.py"), "linked")
    assert not allowed("hooks/a.py", "./linked")
    assert allowed("hooks/a.py", "/", is_project=True)
    assert allowed(str(away / "a.py"), "/")
    for folder in ("/", "linked", "..", str(away)):
        assert not allowed(str(away / "a.py"), folder, is_project=True)
        assert not allowed("linked/a.py", folder, is_project=True)


# Prompts, merging, the client's own words.


def test_prompt_becomes_a_system_message(bench: Bench) -> None:
    """Scenario: 执行 Prompt 类型回调"""
    callback = HookCallback("prompt", "check $TOOL on ${FILE}, $HOME")
    output = bench.manager.execute_prompt(callback, EVENT)
    assert output == {
        "systemMessage": "check Bash on /p/a.py, $HOME",
        "continue": True,
    }


def denies(reason: str, decision: str = "deny") -> dict[str, Any]:
    said = {"permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}


def refuses(message: str) -> dict[str, Any]:
    decision = {"behavior": "deny", "message": message}
    return {"hookSpecificOutput": {"decision": decision}}


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([], {}),
        ([CONTINUE, CONTINUE], CONTINUE),
        (
            [{"decision": "block", "reason": "a"}, {"continue": True, "reason": "no"}],
            {"decision": "block", "reason": "a", "continue": True},
        ),
        (
            [
                {"decision": "block", "reason": "a"},
                {"decision": "block", "reason": "b"},
            ],
            {"decision": "block", "reason": "a\nb"},
        ),
        (
            [
                {"decision": "block", "reason": "a"},
                {"decision": "approve", "reason": "b"},
            ],
            {"decision": "block", "reason": "a"},
        ),
        (
            [{"systemMessage": "a"}, CONTINUE, {"systemMessage": "b"}],
            {"systemMessage": "a\nb", "continue": True},
        ),
        (
            [{"continue": False, "stopReason": "x"}, CONTINUE],
            {"continue": False, "stopReason": "x"},
        ),
        (
            [
                {
                    "hookSpecificOutput": {
                        "permissionDecision": "deny",
                        "updatedInput": 1,
                    }
                },
                {
                    "hookSpecificOutput": {
                        "permissionDecision": "allow",
                        "updatedInput": 2,
                    }
                },
                {"hookSpecificOutput": {"additionalContext": "c"}},
                {"hookSpecificOutput": {"additionalContext": "d"}},
            ],
            {
                "hookSpecificOutput": {
                    "permissionDecision": "deny",
                    "updatedInput": 2,
                    "additionalContext": "c\nd",
                }
            },
        ),
        (
            [
                {"hookSpecificOutput": {"decision": {"behavior": "deny"}}},
                {"hookSpecificOutput": {"decision": {"behavior": "allow"}}},
            ],
            {"hookSpecificOutput": {"decision": {"behavior": "deny"}}},
        ),
        ([{"async": True, "asyncTimeout": 3}], {"async": True, "asyncTimeout": 3}),
        (
            [{"decision": "block", "reason": "a"}, {"async": True, "asyncTimeout": 3}],
            {"decision": "block", "reason": "a"},
        ),
        ([{"decision": "block", "async": True}], {"decision": "block"}),
        ([{**denies("a"), "async": True}], denies("a")),
        ([CONTINUE, {"async": True}], CONTINUE),
        ([denies("a"), denies("b")], denies("a\nb")),
        ([denies("a"), denies("b", "ask")], denies("a")),
        ([denies("b", "ask"), denies("a")], denies("a")),
        (
            [refuses("a"), refuses("b")],
            refuses("a\nb"),
        ),
    ],
)
def test_block_wins_messages_join_last_input_stays(
    outputs: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    assert merge(outputs) == expected


@pytest.mark.parametrize(
    ("event", "specific"),
    [
        (
            "PreToolUse",
            {"permissionDecision": "deny", "permissionDecisionReason": "r"},
        ),
        ("PermissionRequest", {"decision": {"behavior": "deny", "message": "r"}}),
        ("Stop", None),
        ("PostToolUse", None),
    ],
)
def test_block_is_said_in_the_words_of_the_event(event: str, specific: Any) -> None:
    output = for_client(event, {"decision": "block", "reason": "r"})
    assert output["decision"] == "block" and output["reason"] == "r"
    wanted = {"hookEventName": event, **specific} if specific else None
    assert output.get("hookSpecificOutput") == wanted
    assert for_client(event, CONTINUE) == CONTINUE


def test_reasons_of_a_script_and_of_a_command_reach_the_client_together() -> None:
    command = {"decision": "block", "reason": "b"}
    output = for_client("PreToolUse", merge([denies("a"), command]))
    said = output["hookSpecificOutput"]["permissionDecisionReason"]
    assert said.split("\n") == ["b", "a"]
    output = for_client("PreToolUse", merge([denies("a", "ask"), command]))
    assert output["hookSpecificOutput"]["permissionDecisionReason"] == "b"
    output = for_client("PermissionRequest", merge([refuses("a"), command]))
    assert output["hookSpecificOutput"]["decision"]["message"] == "b\na"


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


def test_shape_allows_what_no_client_knows() -> None:
    assert shape_problem({"brandNew": 3, "asyncTimeout": 1.5}, EVENT) == ""


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


def says(**specific: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **specific}}


@pytest.mark.parametrize(
    ("output", "kept", "decision"),
    [
        (CONTINUE, CONTINUE, ""),
        ({"systemMessage": "x"}, {"systemMessage": "x"}, ""),
        ({"decision": "approve", "reason": "x"}, {"reason": "x"}, "allow"),
        ({"decision": "block"}, {"decision": "block"}, "block"),
        ({"continue": False}, {"continue": False}, "stop"),
        (
            says(permissionDecision="allow", updatedInput={"a": 1}),
            says(updatedInput={"a": 1}),
            "allow",
        ),
        (says(permissionDecision="defer"), says(), "defer"),
        (denies("no"), denies("no"), "deny"),
        (denies("?", "ask"), denies("?", "ask"), "ask"),
        (says(decision={"behavior": "allow"}), says(), "allow"),
    ],
)
def test_callback_of_a_project_may_refuse_and_never_allow(
    output: dict[str, Any], kept: dict[str, Any], decision: str
) -> None:
    assert decided(output) == decision
    assert without_allow(output) == kept


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


def test_compiled_file_beside_a_script_is_neither_made_nor_believed(
    bench: Bench, tmp_path: Path
) -> None:
    """What was looked at is what runs."""
    folder = tmp_path / "hooks"
    folder.mkdir()
    (folder / "rules.py").write_text("REASON = 'bad'")
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(folder / "rules.py"), invalidation_mode=mode)
    (folder / "rules.py").write_text("REASON = 'good'")
    source = "import rules\ndef hook(*a): return {'stopReason': rules.REASON}"
    assert bench.script("hooks/a.py", source) == {"stopReason": "good"}
    assert len(list((folder / "__pycache__").iterdir())) == 1


# For the SDKs.


def test_config_is_converted_to_matchers_with_a_callback_per_hook(
    bench: Bench,
) -> None:
    """Scenario: 转换配置为 SDK 格式; Scenario: 完整实现 HookManager 方法"""
    pair = [HookCallback("prompt", "a"), HookCallback("command", "exit 1", 7)]
    config = HooksConfig([("PreToolUse", HookGroup("Bash", pair))])
    bench.manager.load_hooks(config)
    (matcher,) = bench.manager.convert_to_sdk_format()["PreToolUse"]
    assert matcher.matcher == "Bash" and len(matcher.hooks) == 2
    assert matcher.timeout >= 67
    first, second = (asyncio.run(hook(EVENT, "t", {})) for hook in matcher.hooks)  # type: ignore[arg-type]
    assert first == {"systemMessage": "a", "continue": True}
    assert second["decision"] == "block"
    assert second["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert bench.manager.convert_to_sdk_format(HooksConfig()) == {}


def test_callbacks_of_one_tool_call_take_turns_and_others_do_not_wait(
    bench: Bench, tmp_path: Path
) -> None:
    words = [HookCallback("command", f"echo {n}$TOOL_USE_ID >> order") for n in "123"]
    slow = HookCallback("command", "test $TOOL_USE_ID = b || sleep 1; echo s >> order")
    group = HookGroup("", [slow, *words])
    (matcher,) = bench.manager.convert_to_sdk_format(
        HooksConfig([("PreToolUse", group)])
    )["PreToolUse"]

    async def both() -> None:
        calls = [
            hook({**EVENT, "tool_use_id": id}, id, {})
            for id in "ab"
            for hook in matcher.hooks
        ]
        await asyncio.gather(*calls)

    asyncio.run(both())
    lines = (tmp_path / "order").read_text().split()
    assert lines == ["s", "1b", "2b", "3b", "s", "1a", "2a", "3a"]


def test_manager_imports_neither_asyncio_nor_an_sdk() -> None:
    code = (
        "import sys; import feishuperm.engine.application; "
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
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(OSError, match="No such file"):
        Child(["/no/such/program"], b"", {})
    assert len(os.listdir("/proc/self/fd")) == before


def test_result_is_not_lost_to_a_thread_that_runs_on(bench: Bench) -> None:
    source = """
        import threading, time
        def hook(event, tool_use_id, context):
            threading.Thread(target=time.sleep, args=(60,)).start()
            print("said")
            return {"decision": "block", "reason": "thread"}
    """
    output = bench.script("hooks/t.py", source, timeout=15)
    assert output == {"decision": "block", "reason": "thread"}
    assert bench.complaints == []


def test_none_counts_as_a_key_that_is_not_there(bench: Bench) -> None:
    source = "def hook(*_): return {'decision': None, 'reason': None, 'continue': True}"
    assert bench.script("hooks/n.py", source) == CONTINUE
    assert bench.complaints == []


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("return {'systemMessage': 'x' * (2 << 20)}", "result is longer than"),
        ("return {'new': float('nan')}", "the script failed: ValueError"),
        (
            "return {'hookSpecificOutput': {'hookEventName': 'PreToolUse', "
            "'permissionDecision': 'block'}}",
            "`permissionDecision` is 'block'",
        ),
    ],
)
def test_result_the_client_would_not_obey_is_told(
    bench: Bench, source: str, complaint: str
) -> None:
    assert bench.script("hooks/x.py", f"def hook(*_): {source}") == CONTINUE
    assert complaint in bench.complaints[0]


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
