"""Finds secrets inside commands and texts, and puts `***` in their place.

`mask(text)` keeps what a command is recognised by: the program, the names of its
options and variables, hosts and users.  It works on text of any kind, as it comes:
shell commands, JSON, YAML, headers, code.  It knows the shapes of common tokens, and
names that a secret usually stands behind (`API_KEY=`, `--password `, `"token":`); a
secret without shape and name it cannot know.  In doubt it hides: a person who
may see all of a request sees it on its page.

`masking(text)` does the same in steps, for texts of megabytes, and says whether the
mask could hide more than a secret: then nobody may approve what they have not seen.

The time is linear, whatever the text.  Nothing is raised, and what is masked stays as
it is when it is masked again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.lib.secret_finders import Span

HIDDEN = "***"
STEP = 20  # places that are looked at between two pauses
SHORT = 1 << 14  # characters that are searched for every hint without a pause
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
    "identified", "mosquitto", "lftp", "rpcclient", "psftp", "stdin", "sudo -",
)  # fmt: skip


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
    from feishuperm.lib.secret_finders import is_veiled

    for number in range(PASSES):
        spans = yield from _spans(masked, lower)
        if not spans:
            return Masked(masked, veiled and bool(number))
        # What is found only once something else is hidden is no plain secret.
        veiled = veiled or bool(number) or (yield from is_veiled(masked, spans))
        masked = yield from _without(masked, spans)
        yield
        spans.clear()
        yield
        lower = _lower(masked)
        yield
    return Masked(HIDDEN, True)


def _has_hint(lower: str) -> Generator[None, None, bool]:
    if len(lower) <= SHORT:
        return any(map(lower.__contains__, HINTS))
    for hint in HINTS:
        if hint in lower:
            return True
        yield
    return False


def _spans(text: str, lower: str) -> Generator[None, None, list[Span]]:
    """What to hide, in order; none in another."""
    import heapq

    from feishuperm.lib.secret_finders import FINDERS, PAUSE

    found = []
    for find in FINDERS.values():
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
    for number, (start, end, kind) in enumerate(spans):
        if merged and start <= merged[-1][1]:
            first, last, other = merged[-1]
            if start == first:  # the longest of them
                other = kind
            elif end > last:  # it hides more than the first has a reason for
                other = min(other, kind)
            merged[-1] = first, max(last, end), other
        else:
            merged.append((start, end, kind))
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


def _lower(text: str) -> str:
    """The text in lower case, every character in its place."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # A few letters become two.
    return "".join(low if len(low := c.lower()) == 1 else c for c in text)
