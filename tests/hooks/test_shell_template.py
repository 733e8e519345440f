"""Templates of commands: where a value may stand, and that it never becomes shell."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.hooks.variables import (
    VARIABLES,
    UnsafeTemplate,
    shell_template,
    used_variables,
)
from tests.hooks.hostile import CORPUS, EVALUATORS, EVERYDAY, TEMPLATES
from tests.tables import every_row

# One name for each shell there is: /bin/sh is often one of the others.
SHELLS = list(
    {
        os.path.realpath(found): name
        for name in ("zsh", "ksh", "busybox", "bash", "dash", "sh")
        if (found := shutil.which(name))
    }.values()
)


# Taken from the hostile ones, and safe: nothing in them runs the value.
HARMLESS = ("echo `echo $FILE`",)


@every_row(
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
        ("echo `cat $FILE`", 'echo "$(cat "${FILE}")"'),
        ("a $(cat $FILE) $(b)", 'a "$(cat "${FILE}")" $(b)'),
        ("for f in $(a $FILE); do b; done", 'for f in $(a "${FILE}"); do b; done'),
        ("echo ${FILE%.py}", 'echo "${FILE%.py}"'),
        ("# it's $FILE\necho $FILE", '# it\'s $FILE\necho "${FILE}"'),
        ("echo a#'$FILE'", "echo a#''\"${FILE}\"''"),
        ("cat <<E\n'$FILE\nE\necho $FILE", 'cat <<E\n\'${FILE}\nE\necho "${FILE}"'),
        ("cat <<'E'\n$FILE\nE\necho $FILE", "cat <<'E'\n$FILE\nE\necho \"${FILE}\""),
        ("cat <<-E\n\t$FILE\n\tE\n", "cat <<-E\n\t${FILE}\n\tE\n"),
        ("case $FILE in a) x;; esac", 'case "${FILE}" in a) x;; esac'),
        ("bash check.sh $FILE", 'bash check.sh "${FILE}"'),
        ("grep -c x $FILE", 'grep -c x "${FILE}"'),
        ("x=$FILE; cat $x ${x%.a}", 'x="${FILE}"; cat "${x}" "${x%.a}"'),
        ("x='-a -b'; cat $x $FILE", "x='-a -b'; cat $x \"${FILE}\""),
        ("for f in $FILE; do a $f; done", 'for f in "${FILE}"; do a "${f}"; done'),
    ],
)
def test_placeholder_suits_the_quotes_around_it(template: str, rewritten: str) -> None:
    assert shell_template(template) == rewritten


@every_row(
    "template",
    [
        "echo $(( $FILE + 1 ))",
        "echo $((FILE))",
        "(( $FILE ))",
        "[[ $FILE -eq 1 ]]",
        "[[ 1 -lt $FILE ]]",
        "x=q; [[ $FILE -e$x 1 ]]",
        "case x in x) (eval $FILE) ;; esac",
        "case $(eval $FILE) in x) ;; esac",
        "case x in $(eval $FILE)) ;; esac",
        "< $FILE",
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


@every_row("template", EVERYDAY)
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
    environ["CLAUDE_PROJECT_DIR"] = str(tmp_path)
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
