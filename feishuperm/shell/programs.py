"""The one table of programs that run others: shells, wrappers and interpreters.

`danger` follows the command that such a program carries.  A template (`hooks`) may
give some of them a value; `TAKEN` and `PLAIN` say which words of their own may stand
before the command or the script, and a program without such words gets no value.
"""

from __future__ import annotations

from feishuperm.tables import sections


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _rows(section: str) -> dict[str, str]:
    """What is said of each program."""
    rows = (line.partition(" =") for line in _TABLE[section])
    return {name: said.strip() for names, _, said in rows for name in names.split()}


_TABLE = sections("shell/programs.txt")
SHELLS = " ".join(_TABLE["shells"]).split()
# Wrapper -> options that take a word, words of its own before the command.
WRAPPERS = {
    name: (options.strip(), int(before or 0))
    for name, said in _rows("wrappers").items()
    for options, _, before in [said.partition(":")]
}
ROOT, TAKEN, INTERPRETERS, PLAIN = map(
    _rows, ("root", "taken", "interpreters", "plain")
)
RUN_ARGUMENTS = words_of(" ".join(_TABLE["run arguments"]))
EVALUATES = (
    RUN_ARGUMENTS
    | (WRAPPERS.keys() | ROOT.keys()) - TAKEN.keys()
    | INTERPRETERS.keys() - PLAIN.keys() - words_of("nodejs java")
)
