"""Which program does what: every name in one row, every row a function."""

from __future__ import annotations

from feishuperm.danger import elsewhere, files, runners
from feishuperm.danger.deeds import names
from feishuperm.danger.programs import PROGRAMS, ROWS
from feishuperm.danger.scene import ANY, Program
from feishuperm.danger.strangers import RUN_BY_OTHERS, by_words, unknown
from tests.tables import every_row


def test_no_name_stands_in_two_rows() -> None:
    every = [name for _, row in ROWS for name in row.split()]
    assert sorted(every) == sorted(set(every))


@every_row(
    ("name", "program"),
    [
        (ANY, unknown),
        ("rm", files.rm),
        ("bash", runners.shell),
        ("python", runners.interpreter),
        ("ssh", elsewhere.ssh),
        ("docker", elsewhere.container),  # its rows of words are read there
        ("twine", by_words),
    ],
)
def test_name_leads_to_its_function(name: str, program: Program) -> None:
    assert PROGRAMS[name] is program


def test_table_has_wrappers_and_whatever_is_known_by_its_words() -> None:
    assert set(runners.WRAPPERS) | set(names()) <= set(PROGRAMS)
    assert PROGRAMS["nice"] is not by_words
    # `deploy rm x` runs `rm x`, whatever `deploy` is: so these must be known.
    assert set(PROGRAMS) >= RUN_BY_OTHERS
