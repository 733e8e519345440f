"""Which commands take a value as data; the corpora of `hostile` try whole templates."""

from __future__ import annotations

import re

import pytest

from feishuperm.hooks.shell_template import (
    DATA_FILE,
    FILE,
    VALUE,
    Judged,
    judge,
    program,
)
from feishuperm.hooks.variables import UnsafeTemplate
from tests.tables import every_row


def command(line: str, fed: bool = False) -> Judged:
    """A command by its words; `@` is where a value stands."""
    made = Judged(fed)
    made.words = [word.replace("@", VALUE) for word in line.split()]
    return made


@every_row(
    "line",
    [
        "echo @", "cat -- @", "test -f @", "x=@ ./check", "git add @", "bash a.sh @",
        "python3 check.py @", "env A=1 cat @", "grep -c x @", "timeout 5 cat @",
        "npm run lint -- @", "npm test -- @", "python3 -m pytest @", "find . -name @",
        "jq .x @", "jq --arg f @ .x", "./check.sh -c @", "timeout -k 1 5 eslint @",
    ],
)  # fmt: skip
def test_value_that_stays_an_argument_is_taken(line: str) -> None:
    judge([command(line.replace("A=", "DEBUG="))], [])


@every_row(
    "line",
    [
        "@ x", "./@/run", "eval @", "bash -c @", "sh @", "python3 -c @", "python3 @",
        "env @", "xargs @", "sudo @", "find . -exec @", "PATH=@ make", "source @",
        "/usr/bin/python3.11 -c @", "nodejs -e @", "git -c alias.x=@ x", "printf @",
        "npm run @", "npm exec -- @", "python3 -m timeit @", "node -m pytest @",
        "find @", "jq @", "make @", "x=@ make", "bash", "unknown -c @", "A=1 cat @",
        "unknown --eval=@", "timeout -k @ 5 eslint x", "git -C @ status",
    ],
)  # fmt: skip
def test_value_that_could_run_is_refused(line: str) -> None:
    with pytest.raises(UnsafeTemplate, match="; "):
        judge([command(line)], [])


@every_row(
    ("line", "taken"),
    [
        ("cat", True), ("./check.sh", True), ("python3 check.py", True),
        ("python3 -m json.tool", True), ("sed s/a/b/", True), ("awk {print}", True),
        ("unknown", False), ("/usr/bin/unknown", False), ("make", False),
        ("./make", False), ("python3 -c 1", False), ("sed e", False),
        ("awk {system($0)}", False), ("curl -K -", False), ("exec", False),
    ],
)  # fmt: skip
def test_input_is_data_to_programs_that_are_known(line: str, taken: bool) -> None:
    if taken:
        return judge([command(line, fed=True)], [])
    with pytest.raises(UnsafeTemplate):
        judge([command(line, fed=True)], [])


@every_row(
    ("lines", "written"),
    [
        (["echo @", "sh ./log"], ["log"]), (["cp @ x/y", "y"], []),
        (["cp /bin/sh y", "./y @"], []), (["ln -s /bin y", "y/tool @"], []),
        (["cd @", "./run"], []), (["cd @", "make"], []), (["tee y.sh"], []),
    ],
)  # fmt: skip
def test_file_that_another_command_names_does_not_run(
    lines: list[str], written: list[str]
) -> None:
    with pytest.raises(UnsafeTemplate):
        judge([command(line) for line in lines], written)


@every_row(
    ("word", "name"),
    [
        ("/usr/bin/python3.11", "python"),
        ("perl5.36-x86_64-linux-gnu", "perl"),
        ("nodejs", "node"),
        ("source", "."),
        ("BASH.exe", "bash"),
        ("m4", "m4"),
        ("./run.sh", "run.sh"),
        ("php-cs-fixer", "php-cs-fixer"),
    ],
)
def test_program_is_known_by_its_name_alone(word: str, name: str) -> None:
    assert program(word) == name


@every_row(
    "word",
    [
        VALUE,
        f"{VALUE}/sh",
        "a{b,c}",
        "$(x)",
        "bin*/sh",
        "",
        "/proc/self/exe",
        "//dev/x",
    ],
)
def test_program_that_cannot_be_told_is_refused(word: str) -> None:
    with pytest.raises(UnsafeTemplate):
        program(word)


@every_row(
    ("text", "fits"),
    [
        ("check.sh", True), ("./tools/check.sh", True), ("~/check.sh", True),
        (VALUE, False), (f"{VALUE}/check.sh", False), (f"x{VALUE}.sh", False),
        ("-c", False), ("-c/x", False), ("/dev/stdin", False), ("~", False),
        ("/proc/self/fd/0", False),
    ],
)  # fmt: skip
def test_script_is_a_file_that_the_author_names(text: str, fits: bool) -> None:
    assert bool(re.fullmatch(FILE, text)) is fits


@every_row(
    ("text", "fits"),
    [
        ("log", True), ("日志", True), (".claude/audit.log", True), ("/dev/null", True),
        (f"{VALUE}.bak", True), (f"{VALUE}/log", True), ("a/notes.md", True),
        ("y.sh", False), (VALUE, False), ("Makefile", False), (".git/hooks/x", False),
        ("~/.bashrc", False), ("bin/x", False), ("package.json", False),
        ("/dev/tcp/a/1", False), ("CMakeLists.txt", False), ("-a", False),
    ],
)  # fmt: skip
def test_value_is_written_into_files_of_data(text: str, fits: bool) -> None:
    assert bool(re.fullmatch(DATA_FILE, text)) is fits
