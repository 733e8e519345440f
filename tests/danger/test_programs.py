"""Which program does what: every name in one row, every row a function."""

from __future__ import annotations

from feishuperm.danger import files, remote, wrappers
from feishuperm.danger.command_table import programs
from feishuperm.danger.interpreter import ANY, Program
from feishuperm.danger.reader import functions
from feishuperm.danger.wrappers import RUN_BY_OTHERS, by_words, unknown
from feishuperm.shell.programs import INTERPRETERS, ROOT, SHELLS, WRAPPERS
from feishuperm.tables import sections
from tests.tables import every_row


def test_no_name_stands_in_two_rows() -> None:
    rows = sections("danger/commands.txt")["programs"]
    every = [name for row in rows for name in row.partition(" = ")[0].split()]
    assert len(every) > 200
    assert sorted(every) == sorted(set(every))


@every_row(
    ("name", "program"),
    [
        (ANY, unknown),
        ("rm", files.deletes),
        ("bash", wrappers.shell),
        ("python", wrappers.interpreter),
        ("nice", wrappers.wrapped),
        ("sudo", wrappers.as_root),
        ("npm", wrappers.packages),
        ("ssh", remote.ssh),
        ("docker", remote.container),  # its rows of words are read there
        ("twine", by_words),
    ],
)
def test_name_leads_to_its_function(name: str, program: Program) -> None:
    assert functions()[name] is program


def test_options_that_take_a_word_stand_in_the_row() -> None:
    assert programs()["bash"].valued.split() == ["-o", "-O", "--rcfile", "--init-file"]
    assert programs()["rm"].valued == "" and "-e" in programs()["sed"].valued.split()


def test_table_has_all_that_run_others_and_all_that_they_may_run() -> None:
    runners = {*SHELLS, *WRAPPERS, *ROOT, *INTERPRETERS}
    assert {by_words} & {functions()[name] for name in runners} == set()
    # `deploy rm x` runs `rm x`, whatever `deploy` is: so these must be known.
    assert set(programs()) >= RUN_BY_OTHERS
