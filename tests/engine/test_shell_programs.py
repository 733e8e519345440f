"""Which commands take a value as data; the corpora of `hostile` try whole templates."""

from __future__ import annotations

import pytest

from feishuperm.engine.shell_programs import VALUE, Word, judge, program
from feishuperm.engine.variables import UnsafeTemplate
from tests.tables import every_row


def words(line: str) -> list[Word]:
    """A command by its words; `@` is where a value stands."""
    return [Word(word.replace("@", VALUE), False) for word in line.split()]


@every_row(
    "line",
    [
        "echo @", "cat -- @", "test -f @", "x=@ make", "git add @", "bash check.sh @",
        "python3 check.py @", "env A=1 cat @", "grep -c x @", "timeout 5 cat @",
        "npm run lint -- @", "npm test -- @", "python3 -m pytest @", "find . -name @",
        "jq .x @", "jq --arg f @ .x",
    ],
)  # fmt: skip
def test_value_that_stays_an_argument_is_taken(line: str) -> None:
    judge(words(line))


@every_row(
    "line",
    [
        "@ x", "./@/run", "eval @", "bash -c @", "sh @", "python3 -c @", "python3 @",
        "env @", "xargs @", "sudo @", "find . -exec @", "PATH=@ make", "source @",
        "/usr/bin/python3.11 -c @", "nodejs -e @", "git -c alias.x=@ x", "printf @",
        "npm run @", "npm exec -- @", "python3 -m timeit @", "node -m pytest @",
        "find @", "jq @", "make @", "make -f rules.mk", "bash",
    ],
)  # fmt: skip
def test_value_that_could_run_is_refused(line: str) -> None:
    with pytest.raises(UnsafeTemplate):
        judge(words(line))


@every_row(
    ("word", "name"),
    [
        ("/usr/bin/python3.11", "python"),
        ("nodejs", "node"),
        ("source", "."),
        ("BASH.exe", "bash"),
        ("m4", "m4"),
        ("./run.sh", "run.sh"),
    ],
)
def test_program_is_known_by_its_name_alone(word: str, name: str) -> None:
    assert program(Word(word, False)) == name


@every_row("word", [VALUE, f"{VALUE}/sh", "a{b,c}", "$(x)", "bin*/sh", ""])
def test_program_that_cannot_be_told_is_refused(word: str) -> None:
    with pytest.raises(UnsafeTemplate):
        program(Word(word, False))


@every_row(
    ("text", "fits"),
    [
        ("check.sh", True), ("./tools/check.sh", True), ("~/check.sh", True),
        (VALUE, False), (f"{VALUE}/check.sh", False), (f"x{VALUE}.sh", False),
        ("-c", False), ("/dev/stdin", False), ("/proc/self/fd/0", False), ("~", False),
    ],
)  # fmt: skip
def test_script_is_a_file_that_the_author_names(text: str, fits: bool) -> None:
    assert Word(text, False).is_script() is fits
