"""Whether a mask could hide more than a secret: then nobody approves what it hides.

Loaded, like the finders, only for a text that holds something.
"""

from __future__ import annotations

import re
from collections.abc import Generator

from feishuperm.lib.secret_finders import is_opaque, matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.lib.secret_finders import Span

STEP = 20  # places that are looked at between two pauses

# What a mask may hide: one word, that of a header behind its scheme.
_WORD = re.compile(r"(?:(?:Bearer|Basic|Token) )?[\w.~+/=:@%,-]*", re.ASCII | re.I)
_PATH = re.compile(r"~|\.{0,2}/|.{0,200}\.(?:sh|py|js|ts|rb|pl|php|exe|bat|ps1|jar)\Z")
# The name that a masked value is given to, and where such a name is used again.
_GIVEN = re.compile(
    r"(?<![\w-])([A-Za-z_]\w{0,80})[\"'\]]{0,2}[ \t]{0,8}(?::|=|:=|=>)\s{0,8}\Z"
)
_USED = re.compile(
    r"(?:\$\{?|[(,+{%]\s{0,4}|\bprintenv[ \t]{1,8})([A-Za-z_]\w{0,80})"
    r"(?!\w|[\"']?\s{0,4}[:=])"
)
# Ways to use a variable without its name.
_UNNAMED = re.compile(
    r"\beval\b|\$\{!|/environ\b|(?:\A|[\s;|&(])"
    r"(?:env|set|printenv|(?:export|declare)[ \t]{1,8}-p)"
    r"[ \t]{0,8}(?:\||>|\Z)"
)


def is_veiled(text: str, spans: list[Span]) -> Generator[None, None, bool]:
    """Whether a mask could hide something that is done, such as `$(rm -rf ~)`.

    It could where it hides more than a word, a file, or what looks like no secret; and
    where what it hides is used again by the name it is given.
    """
    names = set()
    for number, (start, end, sure) in enumerate(spans):
        if not _is_secret_word(text, start, end, sure):
            return True
        given = _GIVEN.search(text[max(0, start - 100) : start].rstrip("\"'`\\"))
        if given:
            names.add(given[1])
        if not number % STEP:
            yield
    for pattern in (_UNNAMED, _USED) if names else ():
        for used in matches(pattern, text):
            if used and (pattern is _UNNAMED or used[1] in names):
                return True
            yield
    return False


def _is_secret_word(text: str, start: int, end: int, sure: bool) -> bool:
    if not _WORD.fullmatch(text, start, end) or _PATH.match(text, start, end):
        return False
    return sure or is_opaque(text[start : min(end, start + 1000)])
