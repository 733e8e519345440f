"""The tables of this folder, read when they are first needed.

`commands.txt` says which program does what, `paths.txt` which paths govern others,
`patterns.txt` holds the regular expressions, `sentences.txt`
what people are told.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from feishuperm.shell.programs import (
    INTERPRETERS,
    ROOT,
    SHELLS,
    WRAPPERS,
)
from feishuperm.tables import sections

LOOKED_AT = 10  # words of a command


# What runs of a folder that is named.
ENTRIES = (
    *("__main__.py", "index.js", "package.json"),
    *("Makefile", "makefile", "GNUmakefile"),
)


class Row(NamedTuple):
    """A program of the table."""

    function: str
    valued: str = ""  # options that take a word; of `prints`, what is printed


@cache
def words(section: str) -> dict[str, None]:
    """All words of a section of `commands.txt`, in their order."""
    return dict.fromkeys(" ".join(sections("danger/commands.txt")[section]).split())


@cache
def lists(section: str) -> dict[str, list[str]]:
    """Names, and the words that belong to each of them."""
    rows = (line.partition(": ") for line in sections("danger/commands.txt")[section])
    return {name: rest.split() for names, _, rest in rows for name in names.split()}


@cache
def programs() -> dict[str, Row]:
    """Every program that is known, by its function or by its words alone."""
    groups: dict[str, Iterable[str]] = {
        "@wrappers": WRAPPERS, "@root": ROOT, "@shells": SHELLS,
        "@interpreters": INTERPRETERS, "@installs": lists("installs"),
    }  # fmt: skip
    table = dict.fromkeys(_deeds(), Row("by_words"))
    for line in sections("danger/commands.txt")["programs"]:
        names, _, rest = line.partition(" = ")
        function, _, valued = rest.partition(" : ")
        for name in names.split():
            table.update(dict.fromkeys(groups.get(name, [name]), Row(function, valued)))
    return table


@cache
def pattern(name: str) -> re.Pattern[str]:
    """A regular expression of `patterns.txt`; `<text>` in it is a text literal."""
    parts = sections("danger/patterns.txt")
    text = "".join(parts[name])
    return re.compile(text.replace("<text>", "".join(parts["text"])))


# Commands that are known by their words alone.


@cache
def _deeds() -> dict[str, list[tuple[str, str]]]:
    """Program -> the keys of what it is known for, with the words, in their order."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for key, lines in sections("danger/commands.txt").items():
        for line in lines if "." in key else ():
            names, _, rest = line.partition(" ")
            for name in names.split("|"):
                rows.setdefault(name.lower(), []).append((key, rest))
    return rows


def _word(pattern: str) -> str:
    parts = (re.escape(part).replace(r"\*", r"[^ ]*") for part in pattern.split("|"))
    return f"(?:{'|'.join(parts)})"


@cache
def _phrase(row: str) -> re.Pattern[str]:
    """The words of a line; between them others may stand, as values of options."""
    words = row.split()
    last = words.pop()[1:] if words and words[-1][0] == "!" else ""
    inner = r"(?: [^ ]+){0,4}? ".join(map(_word, words))
    if not words:
        return re.compile(rf"(?!(?:.* )?{_word(last)}(?: |$))" if last else "")
    inner += rf"(?! {_word(last)}(?: |$))" if last else ""
    return re.compile(rf"(?:^|.* ){inner}(?: |$)")


def is_harmless(args: Sequence[str]) -> bool:
    """Whether a command only says what it would do."""
    alone = len(args) == 1 and args[0] in ("--version", "version", "-V")
    asks = alone or (bool(args) and pattern("asks").fullmatch(args[0]) is not None)
    return asks or any(map(pattern("harmless").fullmatch, args))


def deeds(name: str, args: Sequence[str]) -> list[str]:
    """The keys of what a command does, if it is one of the table."""
    stars = (star for star in _stars() if name.startswith(star[:-1]))
    rows = _deeds().get(name) or _deeds().get(next(stars, ""), [])  # `mkfs*`
    if not rows or is_harmless(args):
        return []
    if rows[0][0] == "danger.device" and words("disk looks").keys() & set(args):
        return []
    # Behind `--` the words are another program's.
    own = itertools.islice(itertools.takewhile("--".__ne__, args), LOOKED_AT)
    text = " ".join(map(_shown, own))
    keys = dict.fromkeys(key for key, row in rows if _phrase(row).match(text))
    return [key for key in keys if key.startswith("danger.")] or list(keys)


@cache
def _stars() -> list[str]:
    return sorted(name for name in _deeds() if name.endswith("*"))


def _shown(arg: str) -> str:
    if 0 < len(arg) < 60 and " " not in arg:
        return arg
    option = re.match(r"--[\w-]{1,40}=", arg)
    return option[0] if option else "_"


# Which files a call may run: names only, the disk is not looked at.


def files_of(name: str, fields: Sequence[str]) -> Iterator[str]:
    """The words of a call that may be what runs, and what its program reads.

    Nearly every program that is given a file may run it (`python tool.py`, `make -f x`,
    `psql -f x`, a wrapper before any of them), so every word counts that could be one,
    unless its program does no more than look at it or change it.  Programs whose work
    is written down in a file that nobody names bring the usual names of that file.
    What such a file runs in turn is not followed.
    """
    if name in words("looks"):
        return
    if "/" in fields[0]:
        yield fields[0]
    for word in fields[1:]:
        yield word
        if "=" in word:
            yield word.partition("=")[2]
    if name in ("python", "pypy") and "-m" in fields[:-1]:
        module = fields[list(fields).index("-m") + 1].replace(".", "/")
        yield from (f"{module}.py", module)
    if name in ("node", "bun"):
        yield from (f"{word}.js" for word in fields[1:2])
    manifests = lists("manifests").get(name, [])
    yield from manifests
    for folder in itertools.islice(_folders(fields[1:]), 2):
        yield from (f"{folder}/{word}" for word in (*fields[1:], *manifests))


def _folders(args: Sequence[str]) -> Iterator[str]:
    for word, following in zip(args, (*args[1:], "")):
        option, _, value = word.partition("=")
        if option in words("folder options"):
            yield value or following
