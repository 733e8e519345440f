"""Tool calls as people see them: whole, readable, and with the exact rule."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from feishuperm.lib.tool import (
    MAX_PARTS,
    RULE_FORMATTERS,
    TOOL_COLORS,
    TOOL_FIELDS,
    TOOLS,
    extract_tool_detail,
    format_rules,
    row_name,
)
from feishuperm.messages import Message, pmsg
from feishuperm.models.ask import Block
from feishuperm.models.names import FORM, IDLE
from tests.fakes.feishu import COLOURS
from tests.lib.samples import CALLS, QUESTION
from tests.tables import every_row

KINDS = {"code", "diff", "markdown", "text", "path", "question", "detail"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def shown(tool_name: str, tool_input: dict[str, Any]) -> str:
    blocks = extract_tool_detail(tool_name, tool_input).blocks
    return "\n".join(block.text for block in blocks)


def strings(value: object) -> list[str]:
    """Every string in a tool's input, keys left out."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [found for part in value for found in strings(part)]
    return [value] if isinstance(value, str) else []


@every_row("tool_name", TOOLS)
def test_row_is_complete(tool_name: str) -> None:
    """Seed: 工具类型配置集中管理; Shell 脚本工具配置; Python 服务工具配置"""
    assert TOOL_COLORS[tool_name] in COLOURS
    assert callable(RULE_FORMATTERS[tool_name])
    assert isinstance(TOOL_FIELDS[tool_name], tuple)


@every_row("tool_name", CALLS)
def test_detail_of_every_tool_has_known_kinds_and_labels(tool_name: str) -> None:
    """Seed: 工具详情函数库"""
    detail = extract_tool_detail(tool_name, CALLS[tool_name])
    assert detail.tool_name == tool_name
    assert detail.colour == TOOL_COLORS[row_name(tool_name)]
    assert detail.blocks
    assert {block.kind for block in detail.blocks} <= KINDS
    labels = [block.label for block in detail.blocks if block.kind != "diff"]
    assert all(isinstance(label, Message) for label in labels)


@every_row("tool_name", CALLS)
def test_every_string_of_the_input_is_shown(tool_name: str) -> None:
    text = shown(tool_name, CALLS[tool_name])
    for value in strings(CALLS[tool_name]):
        for line in value.split("\n"):
            assert line in text


def test_every_tool_of_the_issue_has_a_sample_and_a_row() -> None:
    assert {row_name(name) for name in CALLS} == set(TOOLS) - {IDLE, FORM}


def test_form_shows_what_the_server_says_and_draws_its_schema_as_fields() -> None:
    asked = {"message": "Who?", "mcp_server_name": "lab", "requested_schema": {"a": 1}}
    blocks = extract_tool_detail(FORM, asked).blocks
    assert [(block.label, block.text) for block in blocks] == [
        ("Message", "Who?"),
        ("MCP server", "lab"),
    ]


@every_row(
    ("url", "host"),
    [
        ("https://example.com:8443/login?x=1", "example.com"),
        ("https://example.com\\@evil.example/", "?"),
        ("https://example.com@evil.example/", "?"),
        ("javascript:alert(1)", "?"),
        ("https://ex\u0430mple.com/", "?"),
    ],
)
def test_address_is_shown_whole_and_its_host_plainly(url: str, host: str) -> None:
    asked = {"message": "Open", "mcp_server_name": "lab", "mode": "url", "url": url}
    host_block, address = extract_tool_detail(FORM, asked).blocks[-2:]
    assert host_block.text == host
    assert (address.kind, address.label) == ("code", "URL")
    assert "evil" in address.text or "evil" not in url


@every_row("name", [IDLE, FORM])
def test_no_tool_of_the_client_can_have_the_name_of_what_is_no_call(name: str) -> None:
    assert not re.fullmatch(r"[A-Za-z0-9_-]+", name)


@every_row(
    ("tool_name", "tool_input", "blocks"),
    [
        (
            "Bash",
            {"command": "ls", "description": "List", "run_in_background": False},
            (
                Block("code", "Command", "ls", "bash"),
                Block("detail", "Description", "List"),
            ),
        ),
        (
            "Edit",
            {"file_path": "/a.py", "old_string": "x", "new_string": "y"},
            (
                Block("path", "File", "/a.py"),
                Block("diff", "", "-x\n+y", "diff"),
            ),
        ),
        (
            "Edit",
            {"old_string": "x", "new_string": "y", "replace_all": True},
            (
                Block("diff", "", "-x\n+y", "diff"),
                Block("code", "Also", '{\n  "replace_all": true\n}', "json"),
            ),
        ),
        (
            "Write",
            {"file_path": "/a/b.SH", "content": ""},
            (
                Block("path", "File", "/a/b.SH"),
                Block("code", "Content", "", "bash"),
            ),
        ),
        (
            "AskUserQuestion",
            {"questions": [{**QUESTION, "multiSelect": True}]},
            (
                Block(
                    "question",
                    pmsg("field", "Question"),
                    "[Database] Which database?\n"
                    "☐ PostgreSQL: the usual choice\n"
                    "☐ SQLite: one file",
                ),
            ),
        ),
        (
            "Read",
            {"file_path": "/etc/\u202ehosts", "secret_flag": True},
            (
                Block("path", "File", "/etc/⟦U+202E⟧hosts"),
                Block("code", "Also", '{\n  "secret_flag": true\n}', "json"),
            ),
        ),
        ("ExitPlanMode", {}, ()),
        ("Unknown", {}, (Block("code", "Input", "{}", "json"),)),
        (
            "Bash",
            {"command": ["not", "a string"]},
            (Block("text", "Command", '[\n  "not",\n  "a string"\n]'),),
        ),
    ],
)
def test_blocks_of_a_call(
    tool_name: str, tool_input: dict[str, Any], blocks: tuple[Block, ...]
) -> None:
    assert extract_tool_detail(tool_name, tool_input).blocks == blocks


@every_row(
    "questions",
    [
        "not a list",
        [1, None],
        [{}],
        [{"question": "Q", "options": ["A"]}],
        [{"question": "Q", "options": 5}],
        [
            {
                "question": "Q",
                "options": [{"label": "L", "preview": "seen"}],
                "more": "m",
            }
        ],
    ],
)
def test_odd_questions_are_shown_as_they_came(questions: object) -> None:
    text = shown("AskUserQuestion", {"questions": questions})
    for value in strings(questions):
        assert value in text


def test_odd_edits_are_shown_as_they_came() -> None:
    assert "wrong" in shown("MultiEdit", {"edits": "wrong"})
    assert "only" in shown("MultiEdit", {"edits": [{"old_string": "only"}]})
    assert "9" in shown("Edit", {"old_string": 9, "new_string": "x"})


def test_edits_of_one_call_share_the_work_of_their_diffs() -> None:
    """Whatever a call costs more than that holds up everybody who waits."""
    before = "\n".join(["1", *["a"] * 100, "2"])
    changed = ["a" if number % 2 else f"y{number}" for number in range(100)]
    edit = {"old_string": before, "new_string": "\n".join(["3", *changed, "4"])}
    one = extract_tool_detail("MultiEdit", {"edits": [edit]}).blocks[0].text
    blocks = extract_tool_detail("MultiEdit", {"edits": [edit] * 100}).blocks
    assert blocks[0].text == one
    assert "\n a\n" in one
    assert "\n a\n" not in blocks[-1].text
    for line in changed:
        assert f"\n+{line}" in blocks[-1].text


@every_row(
    ("tool_name", "key", "part"),
    [
        ("MultiEdit", "edits", {"old_string": "a", "new_string": "b {}", "x": 1}),
        ("MultiEdit", "edits", {"only": "c {}"}),
        ("AskUserQuestion", "questions", {"question": "d {}", "more": 1}),
        ("AskUserQuestion", "questions", {}),
    ],
)
def test_parts_beyond_the_limit_are_shown_in_one_block(
    tool_name: str, key: str, part: dict[str, Any]
) -> None:
    parts = [
        {name: str(value).format(n) for name, value in part.items()}
        for n in range(MAX_PARTS + 200)
    ]
    blocks = extract_tool_detail(tool_name, {key: parts}).blocks
    assert len(blocks) <= 2 * MAX_PARTS + 1
    text = "\n".join(block.text for block in blocks)
    assert all(value in text for value in strings(parts))
    assert json.loads(blocks[-1].text) == {key: parts[MAX_PARTS:]}


def test_question_with_too_many_options_is_shown_as_it_came() -> None:
    options = [{"label": f"option {number}"} for number in range(21)]
    question = {"question": "Q", "options": options}
    assert json.loads(shown("AskUserQuestion", {"questions": [question]})) == question


@every_row(
    ("tool_name", "summary"),
    [
        ("Bash", "Bash"),
        ("Edit", "Edit file.js"),
        ("NotebookEdit", "NotebookEdit book.ipynb"),
        ("WebFetch", "WebFetch"),
        ("mcp__github__create_issue", "mcp__github__create_issue"),
    ],
)
def test_summary_tells_tool_and_file_only(tool_name: str, summary: str) -> None:
    assert extract_tool_detail(tool_name, CALLS[tool_name]).summary == summary


@settings(deadline=None)
@given(st.sampled_from(list(CALLS)), st.dictionaries(st.text(max_size=12), VALUES))
def test_any_input_is_shown_whole(tool_name: str, extra: dict[str, Any]) -> None:
    tool_input = {**CALLS[tool_name], **extra}
    detail = extract_tool_detail(tool_name, tool_input)
    for block in detail.blocks:
        block.text.encode()
    text = "\n".join(block.text for block in detail.blocks)
    for key in extra:
        if key not in TOOL_FIELDS[row_name(tool_name)] and key.isalnum():
            assert json.dumps(key, ensure_ascii=False)[1:-1] in text


@settings(deadline=None)
@given(st.sampled_from(sorted(TOOLS)), VALUES)
def test_any_value_in_a_known_field_is_shown(tool_name: str, value: Any) -> None:
    # What a form asks for is drawn as its fields, and told nowhere else.
    drawn = ("requested_schema", "mode") if tool_name == FORM else ()
    for key in TOOL_FIELDS[tool_name]:
        if key in drawn:
            continue
        text = shown(tool_name, {key: value})
        for found in strings(value):
            if found.isalnum():
                assert found in text


def test_deep_and_huge_inputs_are_shown_in_bounded_size() -> None:
    deep: Any = "bottom"
    for _ in range(400):
        deep = [deep]
    assert "bottom" in shown("Unknown", {"deep": deep})
    assert len(shown("Unknown", {"deep": deep})) < 2000
    for _ in range(200_000):
        deep = [deep]
    assert len(shown("Unknown", {"deep": deep})) < 1_000_000
    wide: Any = [0] * 50_000
    for _ in range(400):
        wide = [wide]
    assert len(shown("Unknown", {"wide": wide})) < 1_000_000
    while isinstance(deep, list):  # taken apart by hand: freeing it would recurse
        deep = deep[0]


@every_row(
    ("tool_name", "tool_input", "rules"),
    [
        ("Bash", {"command": "npm run build"}, [("Bash", "npm run build")]),
        (
            "Edit",
            {"file_path": "/path/to/file.js"},
            [("Edit", "/path/to/file.js"), ("Edit", "//path/to/file.js")],
        ),
        ("Write", {"file_path": "/a/b"}, [("Edit", "//a/b")]),
        ("MultiEdit", {"file_path": "/a/b"}, [("Edit", "//a/b")]),
        ("NotebookEdit", {"notebook_path": "/a/b.ipynb"}, [("Edit", "//a/b.ipynb")]),
        ("Read", {"file_path": "/etc/hosts"}, [("Read", "//etc/hosts")]),
        ("Glob", {"pattern": "*", "path": "/srv"}, []),
        ("Grep", {"pattern": "x", "path": "/srv/app/a.py"}, []),
        ("Read", {"file_path": "relative"}, []),
        ("Write", {"file_path": None}, []),
        ("Bash", {"command": ""}, []),
        ("Bash", {}, []),
        ("WebSearch", {"query": "x"}, [("WebSearch", "")]),
        ("Skill", {"skill": "commit"}, []),
        ("Agent", {"subagent_type": "Explore"}, []),
        ("Task", {"subagent_type": "Explore"}, []),
        ("AskUserQuestion", {"questions": []}, []),
        ("ExitPlanMode", {}, []),
        ("mcp__a__b", {"x": 1}, [("mcp__a__b", "")]),
        ("SomethingNew", {}, [("SomethingNew", "")]),
        ("SomethingNew", {"x": None}, []),
    ],
)
def test_rule_allows_exactly_this_call(
    tool_name: str, tool_input: dict[str, Any], rules: list[tuple[str, str]]
) -> None:
    """Seed: 写入 Bash 命令规则; 写入文件操作规则"""
    assert list(format_rules(tool_name, tool_input)) == rules


@every_row(
    ("url", "host"),
    [
        ("https://example.com", "example.com"),
        ("http://Example.COM:8080/x?y#z", "example.com"),
        ("https://example.com?next=https://other.com", "example.com"),
        ("https://user@example.com/", None),
        ("https://example.com\\@other.com", None),
        ("https://example.com*", None),
        ("https://[::1]/", None),
        ("ftp://example.com/", None),
        ("example.com", None),
        ("https://", None),
        (5, None),
    ],
)
def test_fetch_rule_names_the_host_or_nothing(url: object, host: str | None) -> None:
    expected = [("WebFetch", f"domain:{host}")] if host else []
    assert list(format_rules("WebFetch", {"url": url})) == expected


def test_what_the_eye_cannot_see_is_spelled_out_as_far_as_anybody_reads() -> None:
    """A page that spells a million characters would hold everybody else up."""
    unseen = "".join(map(chr, range(0xE000, 0xE040))) * 20_000
    edits = [{"old_string": unseen[:2000], "new_string": "x"}] * 100
    for name, call in (
        ("Write", {"file_path": "/a", "content": unseen}),
        ("MultiEdit", {"file_path": "/a", "edits": edits}),
    ):
        blocks = extract_tool_detail(name, call).blocks
        assert sum(len(block.text) + len(block.tail) for block in blocks) < 1_000_000
        assert any(block.hidden for block in blocks), "so nobody grants it"
    (_, block) = extract_tool_detail(
        "Write", {"file_path": "/a", "content": "中" * 60_000 + "\u202e"}
    ).blocks
    assert block.text.endswith("⟦U+202E⟧") and not block.hidden
