"""Script callbacks: which files run, what they answer, and what is wrong with them."""

from __future__ import annotations

import py_compile
import shutil
from pathlib import Path
from typing import Any

import pytest

from feishuperm.hooks.script_host import allowed_path, read_result, shape_problem
from feishuperm.lib.child import RESULT, STDERR
from feishuperm.models.hooks import Origin
from tests.hooks.parts import CONTINUE, EVENT, Bench
from tests.tables import every_row

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


def test_shape_allows_what_no_client_knows() -> None:
    assert shape_problem({"brandNew": 3, "asyncTimeout": 1.5}, EVENT) == ""


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


class Ended:
    """A child that has ended, and what it left on its descriptors."""

    code = 0

    def __init__(self, result: bytes, said: bytes = b"") -> None:
        self._outputs = {RESULT: result, STDERR: said}

    def output(self, number: int) -> bytes:
        return self._outputs[number]


@every_row("result", [b"", b"{", b"\xff", b"[" * 100_000])
def test_result_that_is_no_json_is_told_with_what_the_script_said(
    result: bytes,
) -> None:
    ended: Any = Ended(result, b"Traceback ...\nboom\n")
    output, problem = read_result(ended, EVENT)
    assert output == CONTINUE and "boom" in problem


@every_row("result", [b"5", b"null", b'"x"', b"[]", b"{}"])
def test_result_that_the_host_did_not_write_decides_nothing(result: bytes) -> None:
    """A script can find the descriptor and write to it by itself."""
    ended: Any = Ended(result)
    assert read_result(ended, EVENT)[0] == CONTINUE
