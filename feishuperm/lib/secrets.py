"""Finds secrets inside commands and texts, and puts `***` in their place.

`mask(text)` keeps what a command is recognised by: the program, the names of its
options and variables, hosts and users.  It works on text of any kind, as it comes:
shell commands, JSON, YAML, headers, code.  It knows the shapes of common tokens, and
names that a secret usually stands behind (`API_KEY=`, `--password `, `"token":`); a
secret without shape and name it cannot know.  Where in doubt it hides: whoever may see
all of a request sees it on its page.

`masking(text)` does the same in steps, for texts of megabytes, and says whether the
mask could hide more than a secret: then nobody may approve what they have not seen.

The time is linear, whatever the text.  Nothing is raised, and what is masked stays as
it is when it is masked again.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Generator, Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.lib.secret_finders import Span

HIDDEN = "***"
PASSES = 8  # until nothing changes any more; two are the rule, more are an attack
# Without one of these (in lower case) there is nothing to find.
HINTS = (
    "://", "token", "secret", "pass", "pwd", "key", "auth", "cred", "cookie", "bearer",
    "basic", "-----begin", "/hook", "sig", "akia", "asia", "eyj", "ghp_", "gho_",
    "ghu_", "ghs_", "ghr_", "github_pat_", "gl", "sk-", "sk_", "rk_", "xox", "xapp-",
    "aiza", "ya29.", "npm_", "pypi-", "hf_", "sg.", "hvs.", "_pat_", "ltai", "akid",
    "whsec_", "shp", "dop_v1_", "lin_api_", "atatt3", "密码", "口令", "密钥", "令牌",
    "1//0", ":aa", "mysql", "mariadb", "curl", "redis-cli", "7z", "zip", "ldap", "smb",
    "http", "mongo", "login", "pscp", "plink", "--user", "literal", "config:set",
    "pat", "otp", "pin", "xh", "wget", "security", "rar", "twine", "rdesktop",
    "openssl", "dotnet", "nuget", "snmp", "nmcli", "freerdp", "sqlcmd", "bcp", "ipmi",
    "mosquitto", "lftp", "rpcclient", "psftp", "stdin", "sudo -",
)  # fmt: skip


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


class Masked:
    """A text without its secrets, and whether that hides what ought to be seen."""

    def __init__(self, text: str, veiled: bool = False) -> None:
        self.text = text
        self.veiled = veiled


Steps = Generator[None, None, Masked]


def mask(text: str) -> str:
    """The text without its secrets; the very same object when it has none."""
    return finish(masking(text)).text


def finish(steps: Steps) -> Masked:
    """All steps at once."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: Masked = done.value
        return result


def masking(text: str) -> Steps:
    """Mask a text in steps that are all short, whatever its size."""
    masked, lower, veiled = text, _lower(text), HIDDEN in text
    yield
    if not (yield from _has_hint(lower)):
        return Masked(text)
    for number in range(PASSES):
        spans = yield from _spans(masked, lower)
        if not spans:
            return Masked(masked, veiled and bool(number))
        # What is found only once something else is hidden is no plain secret.
        veiled = veiled or bool(number) or (yield from _is_veiled(masked, spans))
        masked = yield from _without(masked, spans)
        yield
        spans.clear()
        yield
        lower = _lower(masked)
        yield
    return Masked(HIDDEN, True)


def _has_hint(lower: str) -> Generator[None, None, bool]:
    for hint in HINTS:
        if hint in lower:
            return True
        yield
    return False


def _spans(text: str, lower: str) -> Generator[None, None, list[Span]]:
    """What to hide, in order; none in another."""
    from feishuperm.lib.secret_finders import FINDERS, PAUSE

    found = []
    for find in FINDERS:
        spans: list[Span] = []
        for number, span in enumerate(find(text, lower)):
            if span[0] < span[1] and text[span[0] : span[1]] != HIDDEN:
                spans.append(span)
            if span is PAUSE or not number % STEP:
                yield
        found.append(sorted(spans))
        yield
    return (yield from _merged(heapq.merge(*found)))


def _merged(spans: Iterable[Span]) -> Generator[None, None, list[Span]]:
    merged: list[Span] = []
    for number, (start, end, sure) in enumerate(spans):
        if merged and start <= merged[-1][1]:
            first, last, other = merged[-1]
            merged[-1] = first, max(last, end), other or sure
        else:
            merged.append((start, end, sure))
        if not number % STEP:
            yield
    return merged


def _without(text: str, spans: list[Span]) -> Generator[None, None, str]:
    parts: list[str] = []
    done = 0
    for number, (start, end, _) in enumerate(spans):
        parts += (text[done:start], HIDDEN)
        done = end
        if not number % STEP:
            yield
    return "".join([*parts, text[done:]])


def _is_veiled(text: str, spans: list[Span]) -> Generator[None, None, bool]:
    """Whether a mask could hide something that is done, such as `$(rm -rf ~)`.

    It could where it hides more than a word, a file, or what looks like no secret; and
    where what it hides is used again by the name it is given.
    """
    from feishuperm.lib.secret_finders import matches

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
    from feishuperm.lib.secret_finders import is_opaque

    if not _WORD.fullmatch(text, start, end) or _PATH.match(text, start, end):
        return False
    return sure or is_opaque(text[start : min(end, start + 1000)])


def _lower(text: str) -> str:
    """The text in lower case, every character in its place."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # A few letters become two.
    return "".join(low if len(low := c.lower()) == 1 else c for c in text)
