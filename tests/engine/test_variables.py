"""Placeholders: what they become, and that no value is ever shell syntax."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.engine import hook_manager
from feishuperm.engine.hook_manager import HookManager
from feishuperm.engine.variables import (
    VARIABLES,
    UnsafeTemplate,
    expand_prompt,
    shell_template,
    used_variables,
    variables,
)
from feishuperm.models.hooks import HookCallback
from tests.engine.hostile import CORPUS, EVALUATORS, EVERYDAY, TEMPLATES

# One name for each shell there is: /bin/sh is often one of the others.
SHELLS = list(
    {
        os.path.realpath(found): name
        for name in ("zsh", "ksh", "busybox", "bash", "dash", "sh")
        if (found := shutil.which(name))
    }.values()
)


# Taken from the hostile ones, and safe: nothing in them runs the value.
HARMLESS = (
    "!eval echo $FILE",
    "echo `echo $FILE`",
    "select x in $FILE; do :; done <<< 1",
)


def test_variables_come_from_the_event() -> None:
    """Scenario: 变量替换支持"""
    values = variables(
        {
            "hook_event_name": "PreToolUse",
            "session_id": "s",
            "cwd": "/p",
            "tool_name": "Edit",
            "tool_input": {"file_path": "/p/a.py", "command": 3},
            "agent_id": "a1",
            "prompt_id": "u",
        }
    )
    assert set(values) == set(VARIABLES)
    shown = {name: value for name, value in values.items() if value}
    assert shown == {
        "EVENT": "PreToolUse",
        "SESSION_ID": "s",
        "CWD": "/p",
        "TOOL": "Edit",
        "FILE": "/p/a.py",
        "AGENT": "a1",
        "MESSAGE_UUID": "u",
    }


@pytest.mark.parametrize("tool_input", [None, [], "text", {"file_path": {}}])
def test_odd_tool_input_leaves_variables_empty(tool_input: object) -> None:
    assert variables({"tool_input": tool_input})["FILE"] == ""


def test_prompt_is_expanded_once_and_keeps_unknown_names() -> None:
    values = {"FILE": "$TOOL", "TOOL": "T\\1&", "TOOL_USE_ID": "id"}
    template = "$FILE ${TOOL} $TOOL_USE_ID $TOOLX $HOME $ $1 ${FILE"
    assert expand_prompt(template, values) == "$TOOL T\\1& id $TOOLX $HOME $ $1 ${FILE"


@pytest.mark.parametrize(
    ("template", "rewritten"),
    [
        ("cp $FILE x", 'cp "${FILE}" x'),
        ("cp ${FILE} x", 'cp "${FILE}" x'),
        ('cp "$FILE" x', 'cp "${FILE}" x'),
        ("cp '$FILE' x", "cp ''\"${FILE}\"'' x"),
        ('echo "it\'s $FILE"', 'echo "it\'s ${FILE}"'),
        ('echo "a \\" $FILE"', 'echo "a \\" ${FILE}"'),
        ("echo \\$FILE $FILEX $HOME", "echo \\$FILE $FILEX $HOME"),
        (
            'x="$(cat $FILE "$TOOL")" a $CWD',
            'x="$(cat "${FILE}" "${TOOL}")" a "${CWD}"',
        ),
        ("echo `cat $FILE`", 'echo `cat "${FILE}"`'),
        ("echo ${FILE%.py}", 'echo "${FILE%.py}"'),
        ("# it's $FILE\necho $FILE", '# it\'s $FILE\necho "${FILE}"'),
        ("echo a#'$FILE'", "echo a#''\"${FILE}\"''"),
        ("cat <<E\n'$FILE\nE\necho $FILE", 'cat <<E\n\'${FILE}\nE\necho "${FILE}"'),
        ("cat <<'E'\n$FILE\nE\necho $FILE", "cat <<'E'\n$FILE\nE\necho \"${FILE}\""),
        ("cat <<-E\n\t$FILE\n\tE\n", "cat <<-E\n\t${FILE}\n\tE\n"),
        ("case $FILE in a) x;; esac", 'case "${FILE}" in a) x;; esac'),
        ("bash check.sh $FILE", 'bash check.sh "${FILE}"'),
        ("grep -c x $FILE", 'grep -c x "${FILE}"'),
    ],
)
def test_placeholder_suits_the_quotes_around_it(template: str, rewritten: str) -> None:
    assert shell_template(template) == rewritten


@pytest.mark.parametrize(
    "template",
    [
        "echo $(( $FILE + 1 ))",
        "echo $((FILE))",
        "(( $FILE ))",
        "[[ $FILE -eq 1 ]]",
        "[[ 1 -lt $FILE ]]",
        "echo ${X:$FILE}",
        "eval $COMMAND",
        'eval "$COMMAND"',
        "eval '$COMMAND'",
        'sh -c "cat $FILE"',
        "sudo bash -lc $COMMAND",
        "python3 -c \"print('$FILE')\"",
        'perl -we "$FILE"',
        "bash <<E\ncat $FILE\nE",
        "let x=$FILE",
        "sh -c 'cat \"$FILE\"'",
        *(text for text, _ in TEMPLATES if text not in HARMLESS),
        *(text for text, _ in EVALUATORS),
    ],
)
def test_template_that_would_evaluate_a_value_is_refused(template: str) -> None:
    with pytest.raises(UnsafeTemplate):
        shell_template(template)


@pytest.mark.parametrize("template", EVERYDAY)
def test_ordinary_template_is_not_refused(template: str) -> None:
    shell_template(template)


@pytest.mark.parametrize("shell", SHELLS)
def test_no_template_that_is_taken_runs_a_value(shell: str, tmp_path: Path) -> None:
    """A template is refused, or its hostile value stays data in this shell."""
    argv = [shell, "sh"] if shell == "busybox" else [shell]
    evil = tmp_path / "evil"
    evil.write_text("#!/bin/sh\ntouch pwned\n")
    evil.chmod(0o700)
    for template, value in (*TEMPLATES, *EVALUATORS):
        try:
            text = shell_template(template)
        except UnsafeTemplate:
            continue
        environ = {"PATH": "/usr/bin:/bin", "FILE": value}
        subprocess.run(
            [*argv, "-c", text],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=20,
        )
        assert os.listdir(tmp_path) == ["evil"], template


SLOW = ("npm", "pytest", "python3 -m", "sudo", "curl")  # their start, not the value


@pytest.mark.parametrize("shell", SHELLS)
def test_no_everyday_template_runs_a_value(shell: str, tmp_path: Path) -> None:
    """Those that are taken are tried with a value that is hostile in every quoting."""
    argv = [shell, "sh"] if shell == "busybox" else [shell]
    run = "$(touch pwned)`touch pwned`;touch pwned;|touch pwned|"
    value = f"x{run}'{run}'\"{run}\"a[{run}]\n{run}"
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    environ.update(dict.fromkeys(VARIABLES, value))
    for template in EVERYDAY:
        if not any(word in template for word in SLOW):
            subprocess.run(
                [*argv, "-c", shell_template(template)],
                env=environ,
                cwd=tmp_path,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=20,
            )
            assert not (tmp_path / "pwned").exists(), template


def test_used_variables_ignores_other_names() -> None:
    assert used_variables("${COMMAND#x} ${#PROMPT}") == {"COMMAND", "PROMPT"}
    assert used_variables("$FILE ${TOOL} $HOME $FILEX") == {"FILE", "TOOL"}


@given(st.text(alphabet="$FILE{}()'\"`\\# \n<-;|&a", max_size=40))
def test_no_template_crashes_or_loses_other_text(template: str) -> None:
    try:
        rewritten = shell_template(template)
    except UnsafeTemplate:
        return
    if not used_variables(template):
        assert rewritten == template


FORMS = ("$FILE", '"$FILE"', "'$FILE'", "a\"b$FILE\"'c$FILE'$FILE", "-- ${FILE}")


@pytest.mark.parametrize("shell", SHELLS)
def test_no_hostile_value_runs_anything_and_each_arrives_whole(
    shell: str, tmp_path: Path
) -> None:
    """Values reach the shell as data, whatever quotes the template uses."""
    assert len(CORPUS) >= 200
    template = "printf '%s\\0' " + " ".join(FORMS) + " x"
    argv = [shell, "sh"] if shell == "busybox" else [shell]
    text = shell_template(template)
    for value in CORPUS:
        clean = value.replace("\0", "").encode("utf-8", "surrogatepass")
        environ = {b"PATH": b"/usr/bin:/bin", b"FILE": clean}
        ran = subprocess.run(
            [*argv, "-c", text], env=environ, cwd=tmp_path, capture_output=True
        )
        joined = b"ab" + clean + b"c" + clean + clean
        expected = [clean, clean, clean, joined, b"--", clean, b"x", b""]
        assert ran.stdout.split(b"\0") == expected, (value, ran.stderr)
    assert os.listdir(tmp_path) == []


def test_every_hostile_event_passes_through_the_engine_unharmed(tmp_path: Path) -> None:
    """Hostile `$FILE`, `$COMMAND` and `$CWD` in one command callback."""
    complaints: list[str] = []
    environ = {"PATH": "/usr/bin:/bin"}
    manager = HookManager(str(tmp_path), environ, complaints.append)
    command = "printf '%s|%s|%s' $FILE \"$COMMAND\" '$CWD' >&2; exit 1"
    callback = HookCallback("command", command)
    for value in CORPUS[::3]:
        event = {
            "hook_event_name": "PreToolUse",
            "cwd": value,
            "tool_input": {"file_path": value, "command": value},
        }
        output = manager.execute_command(callback, event)
        clean = value.replace("\0", "").encode("utf-8", "surrogatepass")
        reason = b"|".join((clean, clean, clean)).strip().decode(errors="replace")
        assert output == {"decision": "block", "reason": reason[:10000]}
    assert os.listdir(tmp_path) == []
    assert all("NUL characters; removed" in complaint for complaint in complaints)


def test_command_blocks_when_a_value_it_uses_cannot_be_handed_over(
    tmp_path: Path,
) -> None:
    manager = HookManager(str(tmp_path), {"PATH": "/usr/bin:/bin"}, pytest.fail)
    long = "x" * (hook_manager.MAX_VALUE + 1)
    event = {"tool_input": {"command": long, "file_path": "a"}}
    guard = manager.execute_command(HookCallback("command", "test $COMMAND"), event)
    assert guard["decision"] == "block" and "$COMMAND" in guard["reason"]
    text = 'case "${COMMAND#x}" in *rm*) exit 1;; esac'
    guard = manager.execute_command(HookCallback("command", text), event)
    assert guard["decision"] == "block" and "$COMMAND" in guard["reason"]
    other = manager.execute_command(HookCallback("command", "test $FILE = a"), event)
    assert other == {"continue": True}


def test_value_that_is_not_handed_over_leaves_no_other_in_its_place(
    tmp_path: Path,
) -> None:
    environ = {"PATH": "/usr/bin:/bin", "COMMAND": "outer"}
    manager = HookManager(str(tmp_path), environ, pytest.fail)
    long = "x" * (hook_manager.MAX_VALUE + 1)
    event = {"tool_input": {"command": long}}
    callback = HookCallback("command", "! env | grep outer")
    assert manager.execute_command(callback, event) == {"continue": True}
