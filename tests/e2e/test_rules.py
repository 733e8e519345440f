"""The real client reads the rules that "always allow" writes, odd names included.

What it asks about is recorded by a hook that decides nothing, so in print mode whatever
no rule covers is refused, and the script goes on.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from feishuperm.services.rule_writer import RulePlan, RuleWriter
from tests.fakes.model import text, tool
from tests.lab import Lab

pytestmark = pytest.mark.claude

FILES = [
    "plain.js", "[id].js", "a(b).js", "+page.svelte", "$id.tsx", "a^b|c.js", "st*r.js",
    "back\\slash.js", "a\\(b.js", "a\\[b.js", "sp ace.js", "中文.js", "a{b,c}.js",
    "#hash.js", "!bang.js", "quote'\".js", "x~", ".hidden", "%41,@x.js",
]  # fmt: skip
OTHER_FILES = [
    "i.js", "plain.jsx", "xplain.js", "plainXjs", "stXXr.js", "ab.js", "page.svelte",
    "sub/plain.js", "back/slash.js",
]  # fmt: skip
COMMANDS = [
    "mytool (1)", "mytool 'a\\n'", "mytool a\nmytool b", "FOO=1 mytool x", "mytool x?y",
    "mytool build ", "mytool a\\\\b", "mytool '('", "mytool ')' x", "mytool \\(x\\)",
    'mytool [ab] {c,d} 中 "q" $HOME', "mytool a && mytool b", "mytool a:b",
    "mytool 'x' # note", "mytool <<E\nhi(\nE", 'mytool "$(mytool z)"',
    "mytool a \\\n b",
]  # fmt: skip
OTHER_COMMANDS = [
    "mytool", "mytool 1", "mytool a", "mytool buildx", "mytool a\\b", "mytool xzy",
    "mytool (1) 2",
]  # fmt: skip
REDIRECTED = ["mytool r > out.txt", "mytool r | tee out.txt", "mytool r 2>> err.txt"]
QUIET = ["mytool q > /dev/null 2>&1", "mytool 'q > x'", "mytool q 2>&1"]


def test_client_asks_about_neighbours_and_never_about_what_was_allowed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", lab.home)
    lab.record("PermissionRequest", "*")
    writer = RuleWriter()
    plans = [
        writer.plan("Bash", {"command": command}, lab.project) for command in COMMANDS
    ] + [writer.plan("Write", {"file_path": name}, lab.project) for name in FILES]
    assert [plan.refusal for plan in plans if plan.refusal] == []
    rules = tuple(rule for plan in plans for rule in plan.rules)
    assert writer.write(lab.project, RulePlan(rules)).rules == rules
    for command in COMMANDS + OTHER_COMMANDS:
        lab.model.push([tool("Bash", command=command, description="x")])
    for name in FILES + OTHER_FILES:
        path = os.path.join(lab.project, name)
        lab.model.push([tool("Write", file_path=path, content="x\n")])
    lab.model.push([text("bye")])
    result = lab.run("go", timeout=150)
    assert result.stdout.strip() == "bye", result.stdout + result.stderr
    asked = [event["tool_input"] for event in lab.recorded("PermissionRequest")]
    assert [one["command"] for one in asked if "command" in one] == OTHER_COMMANDS
    refused = [one["file_path"] for one in asked if "file_path" in one]
    assert refused == [os.path.join(lab.project, name) for name in OTHER_FILES]
    assert all(Path(lab.project, name).exists() for name in FILES)


def test_client_asks_again_just_where_the_plan_says_so(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", lab.home)
    lab.record("PermissionRequest", "*")
    writer = RuleWriter()
    commands = REDIRECTED + QUIET
    plans = [
        writer.plan("Bash", {"command": command}, lab.project) for command in commands
    ]
    noted = [command for command, plan in zip(commands, plans) if plan.note]
    rules = tuple(rule for plan in plans for rule in plan.rules)
    assert writer.write(lab.project, RulePlan(rules)).rules == rules
    for command in commands:
        lab.model.push([tool("Bash", command=command, description="x")])
    lab.model.push([text("bye")])
    assert lab.run("go", timeout=100).stdout.strip() == "bye"
    asked = [event["tool_input"] for event in lab.recorded("PermissionRequest")]
    assert [tool_input["command"] for tool_input in asked] == noted == REDIRECTED
