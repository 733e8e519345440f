"""Our hooks go into settings of any layout and out again without a trace."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm import wire
from feishuperm.lib import settings_editor as editor
from feishuperm.models.kind import KINDS, NEXT_SECONDS
from feishuperm.setup.claude_settings import (
    KIND_EVENTS,
    Registration,
    find_hooks,
    program_of,
    put_hook,
    registrations,
    without_us,
)
from tests.tables import every_row

HOOK = "/home/me/.local/bin/feishuperm-hook"
SUPERVISOR = "/home/me/.local/bin/feishuperm-supervisor"
OWN = (HOOK, SUPERVISOR, "/old/feishuperm-hook")
OTHER = {"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def install(text: str, command: str = HOOK, timeout: int = 60) -> str:
    return put_hook(
        text, Registration("PermissionRequest", "*", "", timeout), command, OWN
    )


def remove(text: str, original: str = "") -> str:
    return without_us(text, {"commands": OWN}, original)


def read(text: str) -> Any:
    # Python refuses to convert very long numbers; here any equal value will do.
    return json.loads(text.lstrip(editor.BOM), parse_int=lambda n: n[:99])


LAYOUTS = {
    "empty object": "{}",
    "two spaces": '{\n  "model": "opus"\n}\n',
    "four spaces, no last line end": '{\n    "model": "opus"\n}',
    "tabs": '{\n\t"env": {\n\t\t"A": "1"\n\t}\n}\n',
    "one line": '{"model": "opus", "env": {"A": "1"}}',
    "compact": '{"model":"opus","env":{}}',
    "windows": '{\r\n  "model": "opus"\r\n}\r\n',
    "byte order mark": '\ufeff{\n  "model": "opus"\n}\n',
    "no indentation": '{\n"model": "opus"\n}\n',
    "comma first": '{ "model": "opus"\n, "env": {}\n}\n',
    "outer blanks": '\n\n {"a": 1} \n\n',
    "duplicate keys": '{\n  "a": 1,\n  "a": 2,\n  "b": {"c": 1, "c": 2}\n}\n',
    "escapes": '{\n  "\\u0061": "\\/ \\u4e2d 中 \\ud83d\\ude00"\n}\n',
    "long number": '{\n  "n": ' + "9" * 5000 + "\n}\n",
    "number forms": '{"a": 1.0, "b": 1e5, "c": -0, "d": 1E+2}',
    "other hooks": '{\n  "hooks": {\n    "Stop": [' + json.dumps(OTHER) + "]\n  }\n}\n",
    "other permission hook": '{"hooks": {"PermissionRequest": ['
    + json.dumps(OTHER)
    + "]}}",
    "odd entries": '{"hooks": {"PermissionRequest": [null, 3, {"hooks": "x"}, {}]}}',
    "wrong other event": '{"hooks": {"Stop": "never"}}',
    "two hooks keys": '{"hooks": {"Stop": []}, "hooks": {"Notification": []}}',
    "empty hooks": '{"hooks": {}}',
    "empty list": '{"hooks": {"PermissionRequest": []}}',
}


@every_row("text", LAYOUTS.values())
def test_hook_goes_in_and_out_without_a_trace(text: str) -> None:
    after = install(text)
    found = find_hooks(after)
    assert [hook.entry["command"] for hook in found] == [HOOK]
    assert remove(after, text) == text
    assert install(after) == after


@every_row("text", LAYOUTS.values())
def test_what_was_there_keeps_its_text_and_order(text: str) -> None:
    after = install(text)
    start = 0
    for piece in text.split("\n"):
        body = piece.strip("\r \t{}[],")
        place = after.find(body, start)
        assert place >= 0
        start = place
    expected = read(text)
    events = expected.setdefault("hooks", {})
    entry: dict[str, Any] = {"type": "command", "command": HOOK}
    events.setdefault("PermissionRequest", []).append(
        {"matcher": "*", "hooks": [entry]}
    )
    entry["timeout"] = "60"
    assert read(after) == expected


@every_row("text", ["", "  \n", "\ufeff", "\ufeff\n"])
def test_nothing_at_all_becomes_an_object(text: str) -> None:
    after = install(text)
    assert after.startswith(editor.BOM) == text.startswith(editor.BOM)
    assert len(find_hooks(after)) == 1
    assert read(remove(after)) == {}


def test_layout_is_that_of_the_file() -> None:
    assert install('{\n\t"model": "opus"\n}\n') == (
        '{\n\t"model": "opus",\n\t"hooks": {\n\t\t"PermissionRequest": [\n\t\t\t{\n'
        '\t\t\t\t"matcher": "*",\n\t\t\t\t"hooks": [\n\t\t\t\t\t{\n'
        '\t\t\t\t\t\t"type": "command",\n'
        f'\t\t\t\t\t\t"command": "{HOOK}",\n'
        '\t\t\t\t\t\t"timeout": 60\n\t\t\t\t\t}\n\t\t\t\t]\n\t\t\t}\n\t\t]\n\t}\n}\n'
    )


def test_compact_file_stays_compact() -> None:
    assert "\n" not in install('{"a":1}') and " " not in install('{"a":1}')


def test_windows_file_gets_windows_line_ends() -> None:
    after = install('{\r\n  "a": 1\r\n}\r\n')
    assert after.count("\n") == after.count("\r\n")


@every_row(
    ("text", "problem"),
    [
        ('{"hooks": []}', "hooks is not an object"),
        ('{"hooks": null}', "hooks is not an object"),
        ('{"hooks": "x"}', "hooks is not an object"),
        ('{"hooks": {"PermissionRequest": {}}}', "PermissionRequest is not a list"),
        ('{"hooks": {"PermissionRequest": null}}', "PermissionRequest is not a list"),
    ],
)
def test_key_of_the_wrong_type_is_refused(text: str, problem: str) -> None:
    with pytest.raises(editor.SettingsError, match=problem):
        install(text)


@every_row(
    ("command", "program"),
    [
        ("/x/feishuperm-hook", "feishuperm-hook"),
        ("'/with blank/feishuperm-hook'", "feishuperm-hook"),
        ("feishuperm-hook", "feishuperm-hook"),
        ("permission-notify", "feishuperm-hook"),
        ("/x/feishuperm.pyz hook", "feishuperm-hook"),
        ("/x/feishuperm supervisor", "feishuperm-supervisor"),
        ("A=1 /x/feishuperm-supervisor", "feishuperm-supervisor"),
        ("/x/feishuperm-hooks", ""),
        ("/x/feishuperm status", ""),
        ("echo /x/feishuperm-hook", ""),
        ("it's broken", ""),
        ("", ""),
        (None, ""),
        (["/x/feishuperm-hook"], ""),
    ],
)
def test_only_our_own_programs_are_ours(command: object, program: str) -> None:
    assert program_of(command) == program


def test_entry_of_an_older_install_is_mended_where_it_stands() -> None:
    text = (
        '{"hooks": {"PermissionRequest": [{"matcher": "Bash", "hooks": ['
        '{"type": "command", "command": "/old/feishuperm-hook", "timeout": 10,'
        ' "statusMessage": "mine"}]}]}}'
    )
    [hook] = find_hooks(install(text))
    assert hook.matcher == "Bash"
    assert hook.entry == {
        "type": "command",
        "command": HOOK,
        "timeout": 60.0,
        "statusMessage": "mine",
    }


@every_row(
    "command",
    [
        "/usr/local/bin/permission-notify --sound ding",
        "feishuperm-hook || notify-send failed",
        "feishuperm-hook",
        "FEISHUPERM_LANG=en /x/feishuperm-hook",
        f"FEISHUPERM_LANG=en {HOOK}",
        f"{HOOK} --loud",
        f" {HOOK}",
        "/x/feishuperm.pyz hook",
        "/somewhere/else/feishuperm-hook",
    ],
)
def test_entry_that_no_install_wrote_is_somebody_elses(command: str) -> None:
    entry = {"type": "command", "command": command, "timeout": 1}
    group = {"matcher": "Bash", "hooks": [entry]}
    text = json.dumps({"hooks": {"PermissionRequest": [group]}}, indent=3)
    assert remove(text) == text
    after = install(text)
    groups = json.loads(after)["hooks"]["PermissionRequest"]
    assert groups[0] == group and groups[1]["hooks"][0]["command"] == HOOK
    assert remove(after, text) == text


def test_longer_timeout_that_somebody_gave_stays() -> None:
    after = install("{}", timeout=600)
    assert install(after, timeout=60) == after


def test_entry_without_timeout_gets_one() -> None:
    text = '{"hooks":{"PermissionRequest":[{"hooks":[{"command":"%s"}]}]}}'
    text %= HOOK
    [hook] = find_hooks(install(text))
    assert hook.entry == {"command": HOOK, "type": "command", "timeout": 60.0}


def test_second_entry_of_the_same_program_is_cut_out() -> None:
    group = {"hooks": [{"type": "command", "command": "/old/feishuperm-hook"}]}
    text = json.dumps({"hooks": {"PermissionRequest": [group, OTHER, group]}})
    after = read(install(text))["hooks"]["PermissionRequest"]
    assert [entry["hooks"][0]["command"] for entry in after] == [HOOK, "true"]


def test_hook_and_supervisor_share_an_event() -> None:
    text = put_hook("{}", Registration("Stop", "", "", 30), HOOK)
    text = put_hook(text, Registration("Stop", "", "", 310), SUPERVISOR)
    programs = [hook.program for hook in find_hooks(text)]
    assert programs == ["feishuperm-hook", "feishuperm-supervisor"]
    assert "matcher" not in text


def test_our_entry_inside_another_group_leaves_that_group() -> None:
    entry = {"type": "command", "command": HOOK}
    group = {"matcher": "Bash", "hooks": [OTHER["hooks"][0], entry]}
    text = json.dumps({"hooks": {"PermissionRequest": [group]}})
    assert read(remove(text)) == {"hooks": {"PermissionRequest": [OTHER]}}


def test_cutting_never_revives_an_earlier_duplicate() -> None:
    text = '{"hooks": {"Stop": [1]}, "hooks": {}}'
    after = remove(install(text))
    assert read(after)["hooks"] == {}


def test_path_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(editor.SettingsError, match="not UTF-8"):
        editor.encode(install("{}", "/x\udcff/feishuperm-hook"))


@given(
    st.dictionaries(st.text(max_size=8), json_values, max_size=5),
    st.sampled_from([None, 0, 1, 2, 4, "\t"]),
    st.booleans(),
    st.booleans(),
)
def test_any_object_in_any_layout_survives(
    value: dict[str, Any], indent: int | str | None, escape: bool, windows: bool
) -> None:
    value.pop("hooks", None)
    text = json.dumps(value, indent=indent, ensure_ascii=escape)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate is in no file
        return
    if windows:
        text = text.replace("\n", "\r\n")
    after = install(text)
    assert json.loads(after) == {**value, "hooks": json.loads(after)["hooks"]}
    assert len(find_hooks(after)) == 1
    assert remove(after, text) == text


def test_kind_has_the_entries_it_needs_and_a_command_of_its_own() -> None:
    rows = registrations(55, ["denied"])[1:]
    assert [(row.event, row.timeout, row.kind) for row in rows] == [
        ("PermissionDenied", 60, "denied"),
        ("PreToolUse", 20, "denied"),
    ]
    text = install("{}")
    own = [*OWN, f"{HOOK} denied"]
    for row in rows:
        text = put_hook(text, row, f"{HOOK} {row.kind}", own)
    assert [hook.entry["command"] for hook in find_hooks(text)] == [
        HOOK,
        f"{HOOK} denied",
        f"{HOOK} denied",
    ]
    assert without_us(text, {"commands": own}, "{}") == "{}"


def test_next_waits_in_the_background_beside_any_other_entry() -> None:
    rows = registrations(55, ["next", "Notification"])[1:]
    text = "{}"
    for row in rows:
        text = put_hook(text, row, f"{HOOK} {row.kind}".rstrip(), OWN)
    entries = [(hook.event, hook.matcher, hook.entry) for hook in find_hooks(text)]
    assert [(event, matcher) for event, matcher, _ in entries] == [
        ("Notification", ""),
        ("Notification", "idle_prompt"),
        ("SessionEnd", ""),
    ]
    assert [entry.get("asyncRewake") for _, _, entry in entries] == [None, True, None]
    assert int(entries[1][2]["timeout"]) > NEXT_SECONDS
    for row in rows:  # and again
        assert put_hook(text, row, f"{HOOK} {row.kind}".rstrip(), OWN) == text


def test_every_kind_of_a_hook_has_entries() -> None:
    assert set(KIND_EVENTS) == set(wire.HOOK_PURPOSES) <= {*KINDS, "session"}


@pytest.mark.parametrize(
    ("events", "left_out"),
    [
        (["session"], set[str]()),
        (["session", "Stop", "PreToolUse"], set[str]()),  # those do something else
        (["session", "denied"], {"PreToolUse"}),
        (["next", "session", "denied"], {"PreToolUse", "SessionEnd"}),
    ],
)
def test_session_is_told_of_each_event_by_one_hook(
    events: list[str], left_out: set[str]
) -> None:
    rows = registrations(55, events)
    own = [row.event for row in rows if row.kind == "session"]
    assert set(own) == {row[0] for row in KIND_EVENTS["session"]} - left_out
    assert len(own) == len(set(own))


def test_entry_for_everything_does_the_work_of_a_kind() -> None:
    rows = registrations(55, ["denied", "PreToolUse"])[1:]
    assert [(row.event, row.kind) for row in rows] == [
        ("PreToolUse", ""),
        ("PermissionDenied", "denied"),
    ]


def test_entry_of_a_kind_stands_beside_the_one_for_everything() -> None:
    plain = Registration("PreToolUse", "", "", 70)
    text = put_hook(put_hook("{}", plain, HOOK, OWN), plain, f"{HOOK} denied", OWN)
    assert len(find_hooks(text)) == 2


def test_registrations_outlast_our_own_wait() -> None:
    """Scenario: PermissionRequest Hook 配置"""
    rows = registrations(55, ["Stop", "PermissionRequest"], True, 30, 300)
    found = {(row.event, row.program): (row.matcher, row.timeout) for row in rows}
    assert found == {
        ("PermissionRequest", "feishuperm-hook"): ("*", 60),
        ("Stop", "feishuperm-hook"): ("", 70),
        ("Stop", "feishuperm-supervisor"): ("", 310),
        ("PreToolUse", "feishuperm-supervisor"): ("AskUserQuestion", 40),
    }
