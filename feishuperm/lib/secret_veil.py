"""Whether a mask could hide more than a secret: then nobody approves what it hides.

Loaded, like the finders, only for a text that holds something.
"""

from __future__ import annotations

import re
from collections.abc import Generator

from feishuperm.lib.secret_finders import PIPED, SHAPE, SURE, is_opaque, matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.lib.secret_finders import Span

STEP = 20  # places that are looked at between two pauses

# What a mask may hide: one word, that of a header behind its scheme.
_WORD = re.compile(r"(?:(?:Bearer|Basic|Token) )?[\w.~+/=:@%,-]*", re.ASCII | re.I)
_PATH = re.compile(r"~|\.{0,2}/|.{0,200}\.(?:sh|py|js|ts|rb|pl|php|exe|bat|ps1|jar)\Z")
# What stands before a secret that is known by its shape alone, which a file or a
# program may have too: a name, the quote of a call, an address.
_TOLD = re.compile(
    r"(?:[\w\"'`\])\\][ \t]{0,4}(?::|=|:=|=>)\s{0,8}(?:[\"'`\\]{0,9}|f[\"'])"
    r"(?:(?:bearer|basic|token)[ \t]{1,8})?"
    r"|\w\([\"'`]|\w://[^\s\"'`<>|;()]{0,200})\Z",
    re.IGNORECASE,
)
# What a command calls by that name, or hands on to what may run it.
_PASSED_ON = re.compile(
    r"\balias(?:[ \t]|\.)[^;|&\n]{0,99}\Z"
    r"|(?:\A|[;&|\n({])[ \t]{0,8}(?:echo|printf)\b[^;&|\n]{0,150}\Z|<<<[^;&|\n]{0,99}\Z"
)
_PIPE = re.compile(r"[^;&|\n]{0,200}\|(?!\|)")
# The name that a masked value is given to, and where such a name is used again.
_GIVEN = re.compile(
    r"(?<![\w-])([A-Za-z_]\w{0,80})[\"'\]]{0,2}[ \t]{0,8}(?::|=|:=|=>)\s{0,8}\Z"
)
_USED = re.compile(
    r"\$\{?([A-Za-z_]\w{0,80})"
    r"|(?:[(,+{%]\s{0,4}|[.\"'\[]|\bprintenv[ \t]{1,8})([A-Za-z_]\w{0,80})"
    r"(?!\w|[\"'\]]{0,2}\s{0,4}[:=])"
)
# Ways to use a variable or an argument without its name.
_UNNAMED = re.compile(
    r"\beval\b|\$\{!|/environ\b|(?:\A|[\s;|&(`])"
    r"(?:(?:env|set|printenv)[ \t]{0,8}(?:[|>)`]|\Z)"
    r"|(?:export|declare|typeset)[ \t]{1,8}-p)"
    r"|sh[ \t]{1,8}-\w{0,5}c\b[^\n]{0,60}\$\{?[\d@*]"
    r"|(?:\A|[;|&\n({]|\b(?:then|do|else|exec|sudo|env)[ \t])[ \t]{0,8}[\"']?"
    r"\$(?:[\d@*]|\{[\w@*]{1,80}[^\w\s}]|\{[\d@*])"
)


def is_veiled(text: str, spans: list[Span]) -> Generator[None, None, bool]:
    """Whether a mask could hide something that is done, such as `$(rm -rf ~)`.

    It could where it hides more than a word, a file, or what looks like no secret; and
    where what it hides is used again by the name it is given.
    """
    names = set()
    for number, (start, end, kind) in enumerate(spans):
        if not _is_secret_word(text, start, end, kind):
            return True
        if _is_passed_on(text, start, end, kind):
            return True
        given = _GIVEN.search(text[max(0, start - 100) : start].rstrip("\"'`\\"))
        if given:
            names.add(given[1])
        if not number % STEP:
            yield
    for pattern in (_UNNAMED, _USED):
        for used in matches(pattern, text):
            if used and (pattern is _UNNAMED or (used[1] or used[2]) in names):
                return True
            yield
    return False


def _is_secret_word(text: str, start: int, end: int, kind: int) -> bool:
    if not _WORD.fullmatch(text, start, end) or _PATH.match(text, start, end):
        return False
    opaque = is_opaque(text[start : min(end, start + 1000)])
    if kind == SHAPE:
        return opaque and bool(_TOLD.search(text[max(0, start - 240) : start]))
    return opaque or (kind >= SURE and "/" not in text[start:end])


def _is_passed_on(text: str, start: int, end: int, kind: int) -> bool:
    """Whether what is masked becomes a command's name, or the input of the next."""
    passed = _PASSED_ON.search(text[max(0, start - 200) : start])
    if passed is None or kind == PIPED:
        return False
    return "alias" in passed.group() or bool(_PIPE.match(text, end))
