from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from feishuperm.errors import FileError
from feishuperm.messages import text
from feishuperm.services import rule_writer
from feishuperm.services.rule_writer import RulePlan, RuleWriter, WriteResult
from tests.conftest import ROOT
from tests.fakes.claude_rules import allows, parse_rule
from tests.tables import every_row

WRITER = RuleWriter()
PROJECT = "/home/user/project"
BUILD = RulePlan(("Bash(npm run build)",))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(project: Path) -> Path:
    (project / ".claude").mkdir()
    return project / ".claude" / "settings.local.json"


def allowed(path: Path) -> list[Any]:
    rules: list[Any] = json.loads(path.read_text("utf-8-sig"))["permissions"]["allow"]
    return rules


# Which rule.


@every_row(
    ("tool", "tool_input", "rules"),
    [
        ("Bash", {"command": "npm run build"}, ["Bash(npm run build)"]),
        ("Bash", {"command": "f (1) \\ \\("}, [r"Bash(f \(1\) \\ \\\()"]),
        ("Bash", {"command": "a\nb 'ü' [x] ?"}, ["Bash(a\nb 'ü' [x] ?)"]),
        ("Bash", {"command": "npm test \n"}, ["Bash(npm test)"]),
        ("Bash", {"command": "npm run a:b"}, ["Bash(npm run a:b)"]),
        (
            "Edit",
            {"file_path": "/path/to/file.js"},
            ["Edit(/path/to/file.js)", "Edit(//path/to/file.js)"],
        ),
        ("Write", {"file_path": "/a/b.js"}, ["Edit(//a/b.js)"]),
        ("MultiEdit", {"file_path": "/a/b.js"}, ["Edit(//a/b.js)"]),
        ("NotebookEdit", {"notebook_path": "/a/b.ipynb"}, ["Edit(//a/b.ipynb)"]),
        ("Read", {"file_path": "/etc/hosts"}, ["Read(//etc/hosts)"]),
        ("Write", {"file_path": "src/a.js"}, [f"Edit(//{PROJECT[1:]}/src/a.js)"]),
        ("Write", {"file_path": "/a/./x/../b//c"}, ["Edit(//a/b/c)"]),
        ("Write", {"file_path": "//a/b"}, ["Edit(//a/b)"]),
        (
            "Write",
            {"file_path": "/a/[id]/+(x)$.js"},
            [r"Edit(//a/\\[id\\]/\\+\\\(x\\\)\\$.js)"],
        ),
        ("Write", {"file_path": "/a/*b\\c"}, [r"Edit(//a/\\*b\\\\c)"]),
        (
            "WebFetch",
            {"url": "https://Example.com:8443/x"},
            ["WebFetch(domain:example.com)"],
        ),
        ("WebFetch", {"url": "http://127.0.0.1:80"}, ["WebFetch(domain:127.0.0.1)"]),
        ("WebSearch", {"query": "x"}, ["WebSearch"]),
        ("mcp__lab__echo", {"a": 1}, ["mcp__lab__echo"]),
        ("mcp__a_b__c-d__e", {}, ["mcp__a_b__c-d__e"]),
        ("Unheard", {}, ["Unheard"]),
    ],
)
def test_rule_of_each_tool(
    tool: str, tool_input: dict[str, Any], rules: list[str]
) -> None:
    plan = WRITER.plan(tool, tool_input, PROJECT)
    assert (list(plan.rules), plan.refusal) == (rules, "")


@every_row(
    ("tool", "tool_input", "refusal"),
    [
        (
            "Bash",
            {"command": "rm *.o"},
            (
                "The command holds a *, and its rule would allow other commands too; "
                "allowed once only"
            ),
        ),
        (
            "Bash",
            {"command": "node x:*"},
            (
                "The command holds a *, and its rule would allow other commands too; "
                "allowed once only"
            ),
        ),
        (
            "Bash",
            {"command": "*"},
            (
                "The command holds a *, and its rule would allow other commands too; "
                "allowed once only"
            ),
        ),
        (
            "Bash",
            {"command": " npm test"},
            (
                "No rule can match the blank the command begins or ends with; allowed "
                "once only"
            ),
        ),
        (
            "Bash",
            {"command": "\nnpm test"},
            (
                "No rule can match the blank the command begins or ends with; allowed "
                "once only"
            ),
        ),
        (
            "Bash",
            {"command": "touch a\\ "},
            (
                "No rule can match the blank the command begins or ends with; allowed "
                "once only"
            ),
        ),
        (
            "Bash",
            {"command": ""},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Bash",
            {"command": "   "},
            (
                "No rule can match the blank the command begins or ends with; allowed "
                "once only"
            ),
        ),
        (
            "Bash",
            {"command": "a\0b"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Bash",
            {"command": "a\ud800"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Bash",
            {"command": 5},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Bash",
            {},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Edit",
            {"file_path": "/a/what?.js"},
            (
                "The path holds a ?, and its rule would allow other files too; allowed "
                "once only"
            ),
        ),
        (
            "Write",
            {"file_path": "/a/b."},
            "This path cannot be written as an exact rule; allowed once only",
        ),
        (
            "Write",
            {"file_path": "/a./b"},
            "This path cannot be written as an exact rule; allowed once only",
        ),
        (
            "Write",
            {"file_path": "/a/b "},
            "This path cannot be written as an exact rule; allowed once only",
        ),
        (
            "Write",
            {"file_path": "/a/b\nc"},
            "This path cannot be written as an exact rule; allowed once only",
        ),
        (
            "Write",
            {"file_path": "/a/\ud800"},
            "This path cannot be written as an exact rule; allowed once only",
        ),
        (
            "Write",
            {"file_path": "/"},
            "This path cannot be written as an exact rule; allowed once only",
        ),
        (
            "Write",
            {"file_path": "/.."},
            "This path cannot be written as an exact rule; allowed once only",
        ),
        (
            "Write",
            {"file_path": "~/x"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Write",
            {"file_path": ""},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Grep",
            {"pattern": "x"},
            (
                "A rule for a search would allow reading the whole folder; allowed "
                "once only"
            ),
        ),
        (
            "Grep",
            {"pattern": "x", "path": "/srv/app"},
            (
                "A rule for a search would allow reading the whole folder; allowed "
                "once only"
            ),
        ),
        (
            "Glob",
            {"pattern": "*", "path": "/srv/app/a.js"},
            (
                "A rule for a search would allow reading the whole folder; allowed "
                "once only"
            ),
        ),
        (
            "Write",
            {"file_path": "/srv/new/"},
            (
                "The path is a folder, and its rule would allow everything in it; "
                "allowed once only"
            ),
        ),
        (
            "Edit",
            {"file_path": "/srv/new//"},
            (
                "The path is a folder, and its rule would allow everything in it; "
                "allowed once only"
            ),
        ),
        (
            "Read",
            {"file_path": "new/."},
            (
                "The path is a folder, and its rule would allow everything in it; "
                "allowed once only"
            ),
        ),
        (
            "NotebookEdit",
            {"notebook_path": "a/b/.."},
            (
                "The path is a folder, and its rule would allow everything in it; "
                "allowed once only"
            ),
        ),
        (
            "WebFetch",
            {"url": "https://user@example.com/"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "WebFetch",
            {"url": "https://例子.测试/"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "WebFetch",
            {"url": "https://[::1]/"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "WebFetch",
            {"url": "https://a.com\\@b.com"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "WebFetch",
            {"url": "file:///etc/passwd"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "AskUserQuestion",
            {"questions": []},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "ExitPlanMode",
            {"plan": "x"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "mcp__lab",
            {},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "mcp__lab__",
            {},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "mcp____echo",
            {},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "mcp__lab__*",
            {},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Tool(x)",
            {},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "*",
            {},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Skill",
            {"skill": "team:commit"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Skill",
            {},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Agent",
            {"subagent_type": "general-purpose", "prompt": "x"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Task",
            {"subagent_type": "x"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "PowerShell",
            {"command": "Get-Date"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Monitor",
            {"command": "tail -f x"},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Unheard",
            {"x": 1},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Unheard",
            {"x": None},
            "There is no exact rule for this request; allowed once only",
        ),
        (
            "Bash",
            {"command": "echo " + "x" * 2048},
            (
                "The rule would be longer than 2 kB and is not written; allowed "
                "once only"
            ),
        ),
        (
            "Bash",
            {"command": "echo " + "中" * 700},
            (
                "The rule would be longer than 2 kB and is not written; allowed "
                "once only"
            ),
        ),
        (
            "Bash",
            {"command": "(" * 1100},
            (
                "The rule would be longer than 2 kB and is not written; allowed "
                "once only"
            ),
        ),
        (
            "Write",
            {"file_path": "/a/" + "b" * 2048},
            (
                "The rule would be longer than 2 kB and is not written; allowed "
                "once only"
            ),
        ),
    ],
)
def test_no_exact_rule_no_rule_and_a_reason(
    tool: str, tool_input: dict[str, Any], refusal: str
) -> None:
    assert WRITER.plan(tool, tool_input, PROJECT) == RulePlan(refusal=refusal)


@pytest.mark.parametrize("tool", ["Edit", "MultiEdit", "Write", "Read"])
def test_folder_gets_no_rule_as_it_would_open_everything_in_it(
    project: Path, tool: str
) -> None:
    (project / "src").mkdir()
    (project / "linked").symlink_to("src")
    for path in ("src", "src/", "src/.", "src/../src", "linked", "."):
        plan = WRITER.plan(tool, {"file_path": path}, str(project))
        assert plan == RulePlan(
            refusal=(
                "The path is a folder, and its rule would allow everything in it; "
                "allowed once only"
            )
        )


@pytest.mark.parametrize("tool", ["Edit", "Write", "Read"])
def test_path_through_a_link_gets_no_rule_as_the_client_would_ask_again(
    project: Path, tmp_path: Path, tool: str
) -> None:
    (tmp_path / "secret").write_text("x")
    (project / "file").symlink_to(tmp_path / "secret")
    (project / "away").symlink_to(tmp_path)
    (project / "dangling").symlink_to(tmp_path / "gone")
    for path in ("file", "away/secret", "away/new", "dangling"):
        plan = WRITER.plan(tool, {"file_path": path}, str(project))
        assert plan == RulePlan(
            refusal=(
                "The path goes through a symbolic link, and no rule would mean "
                "exactly the file behind it; allowed once only"
            )
        )


@every_row(
    ("tool", "tool_input", "broad"),
    [
        ("WebSearch", {"query": "x"}, True),
        ("mcp__db__query", {"sql": "drop"}, True),
        ("mcp__db__list", {}, True),
        ("Unheard", {}, True),
        ("Bash", {"command": "x"}, False),
        ("Read", {"file_path": "/a"}, False),
        ("WebFetch", {"url": "https://a.com"}, False),
        ("PowerShell", {"command": "x"}, False),
    ],
)
def test_rule_for_every_call_of_a_tool_is_marked_as_such(
    tool: str, tool_input: dict[str, Any], broad: bool
) -> None:
    assert WRITER.plan(tool, tool_input, PROJECT).confirm == (
        rule_writer.SAID["broad"] if broad else ""
    )
    assert (
        text("zh", "Every call of this tool will pass without asking")
        == "这个工具的任何调用都将直接通过"
    )


# As the client was seen to ask, or not to ask, in spite of the exact rule.
ASKED_AGAIN = [
    "mytool a > out.txt", "mytool a >> out.txt", "mytool a 2> err.txt", "mytool ->y",
    "mytool a &> all.txt", "mytool a | tee out.txt", "mytool a | tee -a /tmp/zz",
    "mytool a >| out.txt", "mytool a | cat > o2",
]  # fmt: skip
NOT_ASKED_AGAIN = [
    "mytool a > /dev/null", "mytool a 2>/dev/null", "mytool a >/dev/null 2>&1",
    "mytool a 2>&1", "mytool a < in.txt", "mytool 'a > b'", "echo tee", "mytool a 1>&2",
    "cat <<E > here.txt\nx\nE", 'mytool "a > b"', "mytool a \\> b",
    "mytool <(mytool b)",
]  # fmt: skip


@every_row("command", ASKED_AGAIN + NOT_ASKED_AGAIN)
def test_command_that_writes_files_is_told_that_it_will_ask_again(command: str) -> None:
    plan = WRITER.plan("Bash", {"command": command}, PROJECT)
    assert plan.rules
    assert plan.note == (
        (
            "The command writes to a file by > or tee: even with the rule, Claude "
            "Code asks for that every time."
        )
        if command in ASKED_AGAIN
        else ""
    )


def test_relative_path_starts_at_the_working_folder() -> None:
    plan = WRITER.plan("Write", {"file_path": "../a"}, PROJECT, cwd="/srv/other/sub")
    assert plan.rules == ("Edit(//srv/other/a)",)


def test_running_session_gets_the_form_it_honours_unquoted() -> None:
    plan = WRITER.plan("Edit", {"file_path": "/a/(x).js"}, PROJECT)
    assert plan.rules == (r"Edit(/a/\\\(x\\\).js)", r"Edit(//a/\\\(x\\\).js)")
    assert plan.session_rules == (("Edit", r"//a/\(x\).js"),)
    command = WRITER.plan("Bash", {"command": "f (1)"}, PROJECT)
    assert command.session_rules == (("Bash", "f (1)"),)
    assert WRITER.plan("WebSearch", {}, PROJECT).session_rules == (("WebSearch", ""),)


def test_form_with_one_slash_is_left_out_where_it_names_another_file(
    project: Path,
) -> None:
    (project / "srv").mkdir()
    (project / "srv" / "a.js").write_text("another file")
    plan = WRITER.plan("Edit", {"file_path": "/srv/a.js"}, str(project))
    assert plan.rules == ("Edit(//srv/a.js)",)


CHARACTERS = "ab A(){}[]\\*?:.,;'\"$|^+!#~@%&=<>\n\t中é\U0001f600"
COMMANDS = st.text(st.sampled_from(CHARACTERS) | st.characters(), max_size=12)
NAMES = st.text(st.sampled_from(CHARACTERS), min_size=1, max_size=6)
# A neighbour: the same text with one character put in, taken out or changed.
CHANGES = st.tuples(
    st.integers(0, 20), st.integers(0, 1), st.sampled_from(["", "/", *CHARACTERS])
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))


def change(text: str, at: int, cut: int, put: str) -> str:
    at = min(at, len(text))
    return text[:at] + put + text[at + cut :]


@limits(deadline=None)
@given(st.data())
def test_rule_does_not_allow_what_differs_in_one_character(data: st.DataObject) -> None:
    command, path = data.draw(COMMANDS), data.draw(PATHS)
    other = change(command, *data.draw(CHANGES))
    for rule in WRITER.plan("Bash", {"command": command}, PROJECT).rules:
        same = other.strip() == command.strip()
        assert same or not allows(rule, "Bash", {"command": other}, PROJECT)
    wanted = os.path.normpath(path)
    other = os.path.normpath("/" + change(wanted[1:], *data.draw(CHANGES)))
    for rule in WRITER.plan("Read", {"file_path": path}, PROJECT).rules:
        same = (other + "/").casefold().startswith(wanted.casefold() + "/")
        assert same or not allows(rule, "Read", {"file_path": other}, PROJECT)


@limits(deadline=None)
@given(COMMANDS, COMMANDS)
@example("node -e '2*3'", "node -e '2; evil 3'")
@example("x:*", "x anything")
@example("a", "a ")
@example("\\(", "(")
def test_command_rule_allows_its_command_and_no_other(command: str, other: str) -> None:
    for rule in WRITER.plan("Bash", {"command": command}, PROJECT).rules:
        assert allows(rule, "Bash", {"command": command}, PROJECT)
        if other.strip() != command.strip():
            assert not allows(rule, "Bash", {"command": other}, PROJECT)


@limits(deadline=None)
@given(PATHS, PATHS)
@example("/a/[ab].js", "/a/a.js")
@example("/a/x?.js", "/a/xy.js")
@example("/a/*", "/a/b")
@example("/a\\b", "/ab")
@example("/a/b.", "/a/b")
@example("/a ", "/a")
@example("/!a", "/a")
def test_path_rule_allows_its_file_and_no_other(path: str, other: str) -> None:
    wanted, found = os.path.normpath(path), os.path.normpath(other)
    plan = WRITER.plan("Write", {"file_path": path}, PROJECT)
    for rule in plan.rules:
        assert allows(rule, "Write", {"file_path": wanted}, PROJECT)
        below = found.casefold().startswith(wanted.casefold() + "/")
        if found.casefold() != wanted.casefold() and not below:
            assert not allows(rule, "Write", {"file_path": found}, PROJECT)


@limits(deadline=None)
@given(PATHS)
def test_form_with_one_slash_means_nothing_outside_the_project(path: str) -> None:
    plan = WRITER.plan("Edit", {"file_path": path}, PROJECT)
    if plan.rules:
        one_slash, two = plan.rules
        wanted = {"file_path": os.path.normpath(path)}
        assert not allows(one_slash, "Edit", wanted, PROJECT)
        assert allows(two, "Edit", wanted, PROJECT)


@limits(deadline=None)
@given(COMMANDS, PATHS)
def test_rule_in_the_file_says_the_same_as_the_one_for_the_session(
    command: str, path: str
) -> None:
    plans = [
        WRITER.plan("Bash", {"command": command}, PROJECT),
        WRITER.plan("Read", {"file_path": path}, PROJECT),
    ]
    for plan in plans:
        assert [parse_rule(rule) for rule in plan.rules] == list(plan.session_rules)


@limits(deadline=None)
@given(
    st.text(max_size=40) | st.from_regex(r"https?://[^/]{1,12}(/.*)?", fullmatch=True)
)
def test_domain_rule_names_the_host_the_client_sees(url: str) -> None:
    for rule in WRITER.plan("WebFetch", {"url": url}, PROJECT).rules:
        assert allows(rule, "WebFetch", {"url": url}, PROJECT)


# Writing.


def test_command_rule_is_written_and_the_file_made(project: Path) -> None:
    """Scenario: 写入 Bash 命令规则"""
    plan = WRITER.plan("Bash", {"command": "npm run build"}, str(project))
    result = WRITER.write(str(project), plan)
    assert result == WriteResult(("Bash(npm run build)",))
    path = project / ".claude" / "settings.local.json"
    assert path.read_text() == (
        '{\n  "permissions": {\n    "allow": [\n'
        '      "Bash(npm run build)"\n    ]\n  }\n}\n'
    )
    assert os.listdir(path.parent) == ["settings.local.json"]


def test_file_rule_is_written(settings: Path, project: Path) -> None:
    """Scenario: 写入文件操作规则"""
    plan = WRITER.plan("Edit", {"file_path": "/path/to/file.js"}, str(project))
    WRITER.write(str(project), plan)
    assert allowed(settings) == ["Edit(/path/to/file.js)", "Edit(//path/to/file.js)"]


def test_rule_that_is_there_is_not_written_again(settings: Path, project: Path) -> None:
    WRITER.write(str(project), BUILD)
    before = settings.stat()
    again = WRITER.write(str(project), BUILD)
    assert again == WriteResult((), ("Bash(npm run build)",))
    assert settings.stat().st_ino == before.st_ino
    both = RulePlan(("Bash(npm run build)", "WebSearch"))
    assert WRITER.write(str(project), both) == WriteResult(
        ("WebSearch",), ("Bash(npm run build)",)
    )


def test_refused_plan_touches_nothing(project: Path) -> None:
    assert (
        WRITER.write(
            str(project),
            RulePlan(
                refusal="There is no exact rule for this request; allowed once only"
            ),
        )
        == WriteResult()
    )
    assert os.listdir(project) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '{"permissions":{"allow":["A","B"]}}',
            '{"permissions":{"allow":["A","B","X"]}}',
        ),
        (
            '{\n\t"permissions": {\n\t\t"allow": [\n\t\t\t"A"\n\t\t],\n\t\t"deny": []\n'
            '\t},\n\t"env": {"N": 1.10, "E": 1e2, "U": "\\u4e2d/\\/"}\n}',
            '{\n\t"permissions": {\n\t\t"allow": [\n\t\t\t"A",\n\t\t\t"X"\n\t\t],\n'
            '\t\t"deny": []\n'
            '\t},\n\t"env": {"N": 1.10, "E": 1e2, "U": "\\u4e2d/\\/"}\n}',
        ),
        (
            '{\r\n    "a": 1\r\n}\r\n',
            '{\r\n    "a": 1,\r\n    "permissions": {\r\n        "allow": [\r\n'
            '            "X"\r\n        ]\r\n    }\r\n}\r\n',
        ),
        (
            '\ufeff{"permissions": {"allow": []}}',
            '\ufeff{"permissions": {"allow": ["X"]}}',
        ),
        (
            '{"permissions": {"allow": [1]}, "permissions": {"deny": ["D"]}}',
            '{"permissions": {"allow": [1]}, '
            '"permissions": {"deny": ["D"], "allow": ["X"]}}',
        ),
        ("", '{\n  "permissions": {\n    "allow": [\n      "X"\n    ]\n  }\n}\n'),
    ],
)
def test_everything_else_in_the_file_keeps_its_bytes(
    settings: Path, project: Path, before: str, after: str
) -> None:
    settings.write_bytes(before.encode())
    assert WRITER.write(str(project), RulePlan(("X",))).rules == ("X",)
    assert settings.read_bytes().decode() == after


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            b'{"permissions": {',
            (
                ".claude/settings.local.json is not a JSON object and was left as it "
                "is; this request was allowed"
            ),
        ),
        (
            b'{"a": 1} // comment',
            (
                ".claude/settings.local.json is not a JSON object and was left as it "
                "is; this request was allowed"
            ),
        ),
        (
            b'{"a": "\xff"}',
            (
                ".claude/settings.local.json is not a JSON object and was left as it "
                "is; this request was allowed"
            ),
        ),
        (
            b'{"a": NaN}',
            (
                ".claude/settings.local.json is not a JSON object and was left as it "
                "is; this request was allowed"
            ),
        ),
        (
            b"[" * 100_000,
            (
                ".claude/settings.local.json is not a JSON object and was left as it "
                "is; this request was allowed"
            ),
        ),
        (
            b"[]",
            (
                ".claude/settings.local.json is not a JSON object and was left as it "
                "is; this request was allowed"
            ),
        ),
        (
            b'"text"',
            (
                ".claude/settings.local.json is not a JSON object and was left as it "
                "is; this request was allowed"
            ),
        ),
        (
            b'{"permissions": []}',
            (
                "permissions.allow in .claude/settings.local.json is not a list; the "
                "file was left as it is, and this request was allowed"
            ),
        ),
        (
            b'{"permissions": null}',
            (
                "permissions.allow in .claude/settings.local.json is not a list; the "
                "file was left as it is, and this request was allowed"
            ),
        ),
        (
            b'{"permissions": {"allow": {}}}',
            (
                "permissions.allow in .claude/settings.local.json is not a list; the "
                "file was left as it is, and this request was allowed"
            ),
        ),
        (
            b'{"permissions": {"allow": "Bash"}}',
            (
                "permissions.allow in .claude/settings.local.json is not a list; the "
                "file was left as it is, and this request was allowed"
            ),
        ),
        (
            b'{"permissions": {"allow": null}}',
            (
                "permissions.allow in .claude/settings.local.json is not a list; the "
                "file was left as it is, and this request was allowed"
            ),
        ),
    ],
)
def test_file_that_cannot_be_understood_is_left_byte_for_byte(
    settings: Path, project: Path, data: bytes, problem: str
) -> None:
    settings.write_bytes(data)
    assert WRITER.write(str(project), BUILD) == WriteResult(problem=problem)
    assert settings.read_bytes() == data
    assert os.listdir(settings.parent) == ["settings.local.json"]
    with pytest.raises(FileError):
        WRITER.undo(str(project), BUILD.rules)
    assert settings.read_bytes() == data


def test_place_that_cannot_be_written_is_reported(project: Path) -> None:
    gone = str(project / "gone")
    assert WRITER.write(gone, BUILD).problem == (
        ".claude/settings.local.json could not be written and the rule is not "
        "saved; this request was allowed"
    )
    assert not os.path.exists(gone)
    assert WRITER.write("", BUILD).problem == (
        ".claude/settings.local.json could not be written and the rule is not "
        "saved; this request was allowed"
    )
    (project / ".claude").write_text("a file, not a folder")
    assert WRITER.write(str(project), BUILD).problem == (
        ".claude/settings.local.json could not be written and the rule is not "
        "saved; this request was allowed"
    )


def test_read_only_file_is_respected(settings: Path, project: Path) -> None:
    settings.write_text("{}")
    settings.chmod(0o444)
    assert WRITER.write(str(project), BUILD).problem == (
        ".claude/settings.local.json could not be written and the rule is not "
        "saved; this request was allowed"
    )
    assert settings.read_text() == "{}"


def test_mode_is_kept(settings: Path, project: Path) -> None:
    settings.write_text("{}")
    settings.chmod(0o640)
    WRITER.write(str(project), BUILD)
    assert stat.S_IMODE(settings.stat().st_mode) == 0o640


@pytest.mark.parametrize("linked", [".claude", ".claude/settings.local.json"])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("exists", [True, False])
def test_link_in_place_of_the_settings_is_not_followed(
    project: Path, tmp_path: Path, linked: str, inside: bool, exists: bool
) -> None:
    """It may lead to the file that is committed, or to somebody else's."""
    # Its name begins with the project's: that does not make it a part of it.
    other = project / "shared" if inside else tmp_path / "project-of-somebody"
    other.mkdir()
    target = other / ("settings.local.json" if linked == ".claude" else "settings.json")
    link = project / linked
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(other if linked == ".claude" else target)
    if exists:
        target.write_text("{}")
    before = os.listdir(other)
    plan = WRITER.plan("Bash", {"command": "npm run build"}, str(project))
    assert plan == RulePlan(
        refusal=(
            ".claude/settings.local.json is a link, or goes through one; no rule is "
            "written, and this request was allowed once"
        )
    )
    assert WRITER.write(str(project), BUILD) == WriteResult(
        problem=(
            ".claude/settings.local.json is a link, or goes through one; no rule is "
            "written, and this request was allowed once"
        )
    )
    with pytest.raises(FileError, match="goes through a link"):
        WRITER.undo(str(project), BUILD.rules)
    assert os.listdir(other) == before
    assert [path.read_text() for path in other.iterdir()] == ["{}"] * exists


def test_link_that_appears_while_the_rule_is_written_is_not_followed(
    settings: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = settings.with_name("settings.json")
    shared.write_text("{}")
    real = rule_writer.write_atomic

    def write(path: str, data: bytes, **options: Any) -> None:
        settings.symlink_to(shared)
        real(path, data, **options)

    monkeypatch.setattr(rule_writer, "write_atomic", write)
    assert WRITER.write(str(project), BUILD).problem == (
        ".claude/settings.local.json is a link, or goes through one; no rule is "
        "written, and this request was allowed once"
    )
    assert shared.read_text() == "{}"


def test_only_rules_that_are_not_there_are_fresh(settings: Path, project: Path) -> None:
    plan = RulePlan(("A", "B"))
    assert WRITER.fresh(str(project), plan) == ("A", "B")
    settings.write_text('{"permissions": {"allow": ["B", 5]}}')
    assert WRITER.fresh(str(project), plan) == ("A",)
    assert WRITER.rules(str(project)) == ["B"]
    settings.write_text("{broken")
    assert WRITER.fresh(str(project), plan) == ("A", "B")


def test_project_that_is_itself_reached_by_a_link_is_served(
    project: Path, settings: Path, tmp_path: Path
) -> None:
    (tmp_path / "shortcut").symlink_to(project)
    assert WRITER.write(str(tmp_path / "shortcut"), BUILD).rules == BUILD.rules
    assert allowed(settings) == ["Bash(npm run build)"]


def test_change_by_another_program_meanwhile_is_not_lost(
    settings: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client adds a rule of its own between our reading and our renaming."""
    settings.write_text('{"permissions": {"allow": ["A"]}}')
    real = rule_writer.write_atomic
    written = []

    def write(path: str, data: bytes, **options: Any) -> None:
        if not written:
            settings.write_text('{"permissions": {"allow": ["A", "CLIENT"]}}')
        written.append(data)
        real(path, data, **options)

    monkeypatch.setattr(rule_writer, "write_atomic", write)
    assert WRITER.write(str(project), RulePlan(("X",))).rules == ("X",)
    assert allowed(settings) == ["A", "CLIENT", "X"]
    assert len(written) == 2


def test_file_that_keeps_changing_is_given_up(
    settings: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = rule_writer.write_atomic
    count = []

    def write(path: str, data: bytes, **options: Any) -> None:
        count.append(1)
        settings.write_text(json.dumps({"n": len(count)}))
        real(path, data, **options)

    monkeypatch.setattr(rule_writer, "write_atomic", write)
    assert WRITER.write(str(project), BUILD).problem == (
        ".claude/settings.local.json could not be written and the rule is not "
        "saved; this request was allowed"
    )
    assert settings.read_text() == '{"n": 3}'


def test_parallel_threads_keep_every_rule(settings: Path, project: Path) -> None:
    names = [f"Bash(npm run {number})" for number in range(24)]

    def write(part: list[str]) -> None:
        for name in part:
            assert WRITER.write(str(project), RulePlan((name,))).rules == (name,)

    threads = [threading.Thread(target=write, args=(names[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(allowed(settings)) == sorted(names)


KILLED = """
import os, signal, sys
from feishuperm.lib import files
from feishuperm.services.rule_writer import RulePlan, RuleWriter
files.os.rename = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
RuleWriter().write(sys.argv[1], RulePlan(("X",)))
"""


@pytest.mark.parametrize("tidies", [True, False])
def test_what_a_killed_writer_left_is_swept_away(
    settings: Path, project: Path, tidies: bool
) -> None:
    settings.write_text("{}")
    other = settings.with_name(".feishuperm-notes")
    other.write_text("somebody's")
    command = [sys.executable, "-c", KILLED, str(project)]
    assert subprocess.run(command, cwd=ROOT, timeout=60).returncode == -9
    assert len(os.listdir(settings.parent)) == 3
    assert settings.read_text() == "{}"
    WRITER.tidy(str(project)) if tidies else WRITER.write(str(project), BUILD)
    assert sorted(os.listdir(settings.parent)) == [other.name, settings.name]


def test_tidying_where_nothing_is_does_no_harm(project: Path, tmp_path: Path) -> None:
    WRITER.tidy(str(project))
    WRITER.tidy(str(tmp_path / "gone"))
    (project / ".claude").symlink_to(tmp_path)
    (tmp_path / ".feishuperm-0123456789abcdef").write_text("not in the project")
    WRITER.tidy(str(project))
    assert (tmp_path / ".feishuperm-0123456789abcdef").exists()


PROCESS = """
import sys
from feishuperm.services.rule_writer import RulePlan, RuleWriter
for number in range(15):
    name = f"Bash(npm run {sys.argv[2]}{number})"
    assert RuleWriter().write(sys.argv[1], RulePlan((name,))).rules == (name,)
"""


def test_parallel_processes_keep_every_rule(settings: Path, project: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(project), letter],
            cwd=Path(__file__).parents[2],
        )
        for letter in "abc"
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    expected = [f"Bash(npm run {letter}{n})" for letter in "abc" for n in range(15)]
    assert sorted(allowed(settings)) == sorted(expected)


# Taking back.


def test_undo_takes_out_exactly_its_rules(settings: Path, project: Path) -> None:
    before = '{\n "permissions": {"allow": [\n  "A",\n  "B"\n ]},\n "x": 1.0\n}\n'
    settings.write_text(before)
    WRITER.write(str(project), RulePlan(("X", "Y")))
    assert WRITER.undo(str(project), ["X", "Y", "Z"]) == ("X", "Y")
    assert settings.read_text() == before
    assert WRITER.undo(str(project), ["X", "Y"]) == ()


def test_undo_of_the_only_rule_leaves_an_empty_list(
    settings: Path, project: Path
) -> None:
    WRITER.write(str(project), BUILD)
    assert WRITER.undo(str(project), BUILD.rules) == BUILD.rules
    assert allowed(settings) == []


def test_undo_without_a_file_is_nothing(project: Path) -> None:
    assert WRITER.undo(str(project), ["X"]) == ()
    assert os.listdir(project) == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@limits(deadline=None, max_examples=50)
@given(
    st.dictionaries(st.text(max_size=4), VALUES, max_size=3),
    st.lists(st.text(max_size=6), max_size=3) | st.none(),
    st.sampled_from([None, 1, 2, 4, "\t"]),
    st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=3, unique=True),
)
def test_writing_then_undoing_gives_back_the_same_values(
    tmp_path_factory: pytest.TempPathFactory,
    others: dict[str, Any],
    present: list[str] | None,
    indent: int | str | None,
    rules: list[str],
) -> None:
    project = tmp_path_factory.mktemp("project")
    (project / ".claude").mkdir()
    path = project / ".claude" / "settings.local.json"
    value = {**others, "permissions": {} if present is None else {"allow": present}}
    path.write_text(json.dumps(value, indent=indent))
    added = WRITER.write(str(project), RulePlan(tuple(rules))).rules
    expected = (present or []) + [rule for rule in rules if rule not in (present or [])]
    assert json.loads(path.read_text()) == {**value, "permissions": {"allow": expected}}
    assert WRITER.undo(str(project), added) == added
    allow = {"allow": present or []}
    assert json.loads(path.read_text()) == {**value, "permissions": allow}


def test_endless_name_of_a_tool_is_judged_at_once() -> None:
    name = "mcp__db__qu" + "__db__qu" * 50_000 + "!"
    began = time.thread_time()
    assert RuleWriter().plan(name, {}, "/project").refusal
    assert time.thread_time() - began < 1


@every_row(
    ("name", "has_rule"),
    [
        ("mcp__db__query", True),
        ("mcp___-x__y", True),
        ("mcp__a__b__c", True),
        ("mcp__db", False),
        ("mcp____query", False),
        ("mcp__db__", False),
        ("mcp__-_-__x", False),
    ],
)
def test_bare_name_of_an_mcp_tool_names_server_and_tool(
    name: str, has_rule: bool
) -> None:
    assert bool(RuleWriter().plan(name, {}, "/project").rules) is has_rule
