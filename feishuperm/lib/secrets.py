"""Finds secrets inside commands and texts, and puts `***` in their place.

`mask(text)` keeps what a command is recognised by: the program, the names of its
options and variables, hosts and users.  It works on text of any kind, as it comes:
shell commands, JSON, YAML, headers, code.  It knows the shapes of common tokens, and
names that a secret usually stands behind (`API_KEY=`, `--password `, `"token":`); a
secret without shape and name it cannot know.  Where in doubt it hides: whoever may see
all of a request sees it on its page.

Each finder goes once through the text, and what it tries at one place is bounded: the
time is linear, whatever the text.  Nothing is raised, and what is masked stays as it is
when it is masked again.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Spans = Iterator[tuple[int, int]]

HIDDEN = "***"
PASSES = 4  # until nothing changes any more; two are the rule
PIECES = 50  # of one shell word: past that it ends at the next blank
# Without one of these (in lower case) there is nothing to find.
HINTS = (
    "://", "token", "secret", "pass", "pwd", "key", "auth", "cred", "cookie", "bearer",
    "basic", "-----begin", "/hook", "sig", "akia", "asia", "eyj", "ghp_", "gho_",
    "ghu_", "ghs_", "ghr_", "github_pat_", "gl", "sk-", "sk_", "rk_", "xox", "xapp-",
    "aiza", "ya29.", "npm_", "pypi-", "hf_", "sg.", "hvs.", "_pat_", "ltai", "akid",
    "whsec_", "shp", "dop_v1_", "lin_api_", "atatt3", "密码", "口令", "密钥", "令牌",
    "1//0", ":aa", "mysql", "mariadb", "curl", "redis-cli", "7z", "zip", "ldap", "smb",
    "http", "mongo", " login", "pscp", "plink", "--user",
)  # fmt: skip

_TOKEN = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{10,}|github_pat_\w{10,}|gl[a-z]{2,5}-[\w-]{16,}"
    r"|(?<![A-Za-z0-9])sk-[\w-]{16,}|(?<![A-Za-z0-9])[rs]k_(?:live|test)_\w{8,}"
    r"|(?<![A-Za-z0-9])(?:A[KS]IA|AKID|LTAI)[A-Za-z0-9]{12,}"
    r"|xox[a-z]-[\w-]{8,}|xapp-[\w-]{10,}|AIza[\w-]{30,}|ya29\.[\w-]{10,}|1//0[\w-]{20,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|dckr_pat_[\w-]{10,}"
    r"|SG\.[\w-]{10,}\.[\w-]{10,}|hvs\.[\w-]{16,}|whsec_[\w+/=]{10,}|shp[a-z]{2}_\w{16,}"
    r"|dop_v1_\w{16,}|lin_api_\w{16,}|glsa_\w{16,}|ATATT3[\w=-]{16,}"
    r"|(?<=pass:)[^\s\"']{1,200}"  # of openssl
    r"|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)*|AGE-SECRET-KEY-1[A-Z0-9]{10,}"
    r"|(?<!\d)\d{8,10}:AA[\w-]{30,}",
    re.ASCII,
)
# What follows these in an address is a key by itself.
_ADDRESS = re.compile(
    r"(?:/hook/|hooks\.slack\.com/services/|/api/webhooks/\d{1,30}/"
    r"|[?&](?:sig|signature|x-amz-signature|x-amz-credential|key|code|sign|ticket)=)"
    r"(?P<value>[^\s\"'<>&?#]+)",
    re.IGNORECASE,
)
_USERINFO = re.compile(
    r"://(?P<user>[^\s/:@\"'<>]{0,256})(?P<password>:[^\s/\"'<>]{0,1024})?@"
)
_SCHEME = re.compile(
    r"\b(?:bearer|basic|token|apikey)[ \t]+(?P<value>[\w.~+/=:-]{8,})",
    re.IGNORECASE | re.ASCII,
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_PRIVATE_KEY_END = "-----END "

# A name that a secret stands behind, and what stands between the two.
_NAMED = re.compile(
    r"(?P<name>token(?!s)|secret|passw(?:or)?d|passphrase|passcode|passwd|credentials?"
    r"|(?:api|access|private|secret|signing|encryption|account|master|auth|session|app)"
    r"[_-]?key|authorization|cookie|_auth|_pass|(?-i:[_;]PWD|[_;]pwd|\bPwd|\bpwd)"
    r"|密码|口令|密钥|令牌)"
    r"(?P<rest>(?:[_-]?[A-Za-z0-9]{1,16}){0,3}?)"
    r"(?P<close>\\{0,8}[\"'`]?\]?)"
    r"(?P<link>[ \t]{0,8}(?:=>|:=|=(?!=)|[:：](?!:))\s{0,8}|[ \t]{1,8})",
    re.IGNORECASE,
)
# What a name ends in that tells about a secret and does not hold it.
_ABOUT = re.compile(
    r"(?:file|path|dir|url|uri|id|name|length|size|limit|count|type|ttl|expir[a-z]*"
    r"|policy|endpoint|header|stdin|prompt|manager|env|field|regex|pattern|arn)s?\Z",
    re.IGNORECASE,
)
# Values that say nothing: references, types, emptiness.
_PLAIN = re.compile(
    r"[\"'`\\]*(?:\$?\{{0,2}[ A-Za-z_.]*[\w.]*\}{0,2}|\$)?[\"'`\\]*\Z", re.ASCII
)
_NOTHING = re.compile(
    r"(?:str|string|bytes|bool|boolean|int|number|none|null|nil|undefined|true|false|any"
    r"|optional|required|\*{3})\W?\Z",
    re.IGNORECASE,
)
_STOP = re.compile(r"(?<!\\)[\s\"'`;&|<>(){},]")
_BLANK = re.compile(r"\s")
_QUOTE = {mark: re.compile(rf"(?<!\\){mark}") for mark in '"`'}
_CLOSED = {mark: re.compile(rf"{mark}[^\s{mark}]*{mark}") for mark in "\"'"}
_OPENING = re.compile(r"\\{0,8}[\"'`]")

# Programs whose short options take a password, and those options.
_PROGRAM = re.compile(
    r"\b(?:(?P<glued>mysql\w*|mariadb[\w-]*|7z[ar]?)|(?P<p>sshpass|mongo\w*|pscp|plink"
    r"|(?:docker|podman|nerdctl|az|oc|helm[ \t]+registry)[ \t]+login)"
    r"|(?P<u>curl|wget|smbclient)|(?P<a>redis-cli|https?|xhs?)|(?P<w>ldap\w+)"
    r"|(?P<P>unzip|zip))(?=[ \t])"
)
_OPTIONS = {
    "glued": re.compile(r"[ \t]-p(?=[^\s-])"),
    "p": re.compile(r"[ \t]-p[ \t]{0,8}(?=[^\s-])"),
    "u": re.compile(r"[ \t](?:-[uUb]|--cookie)[ \t=]{0,8}(?=[^\s-])"),
    "a": re.compile(r"[ \t](?:-a|--auth|--pass)[ \t=]{1,8}(?=[^\s-])"),
    "w": re.compile(r"[ \t]-w[ \t]{0,8}(?=[^\s-])"),
    "P": re.compile(r"[ \t]-P[ \t]{0,8}(?=[^\s-])"),
}
_LONG_USER = re.compile(r"--(?:proxy-)?user(?:name)?[ \t=]{1,8}(?=[^\s-])")
_USER_END = re.compile(r"[:%=]")  # `user:password`, smbclient's `user%password`
_COMMAND_END = re.compile(r"(?<!\\)[\n;|&]")


def mask(text: str) -> str:
    """The text without its secrets; the very same object when it has none."""
    masked = text
    for _ in range(PASSES):
        lower = masked.lower()
        if not any(hint in lower for hint in HINTS):
            break
        before, masked = masked, _once(masked)
        if masked == before:
            break
    return text if masked == text else masked


def has_secret(text: str) -> bool:
    """Whether `mask()` would hide anything."""
    return mask(text) is not text


def _once(text: str) -> str:
    spans = sorted(span for find in FINDERS for span in find(text))
    parts: list[str] = []
    done = 0
    for start, end in spans:
        if start > done or not parts:
            parts += (text[done:start], HIDDEN)
        done = max(done, end)
    return "".join([*parts, text[done:]]) if spans else text


def _tokens(text: str) -> Spans:
    for match in _TOKEN.finditer(text):
        yield match.span()


def _addresses(text: str) -> Spans:
    for match in _ADDRESS.finditer(text):
        yield match.span("value")


def _userinfo(text: str) -> Spans:
    for match in _USERINFO.finditer(text):
        if match["password"] is not None:
            yield match.start("password") + 1, match.end("password")
        elif text.endswith("http", 0, match.start()) or text.endswith(
            "https", 0, match.start()
        ):
            yield match.span("user")


def _schemes(text: str) -> Spans:
    for match in _SCHEME.finditer(text):
        # "Basic authentication" is no secret.
        if not match["value"].isalpha() or len(match["value"]) > 30:
            yield match.span("value")


def _private_keys(text: str) -> Spans:
    end = 0
    for match in _PRIVATE_KEY.finditer(text):
        if match.end() > end:
            found = text.find(_PRIVATE_KEY_END, match.end())
            end = found if found >= 0 else len(text)
            yield match.end(), end


def _named(text: str) -> Spans:
    """What stands behind a telling name: `NAME=`, `"name": `, `--name `."""
    position = 0
    while True:
        match = _NAMED.search(text, position)
        if match is None:
            return
        position = match.end("name")
        if _ABOUT.search(match["rest"]):
            continue
        start = match.end()
        if match["link"].isspace() and not _is_option(text, match):
            continue
        end = _value_end(text, start, match)
        if _tells_nothing(text[start:end]):
            continue
        yield _inside_quotes(text, start, end)
        position = end


def _is_option(text: str, match: re.Match[str]) -> bool:
    """Whether a blank behind a name is followed by its value: `--api-key abc`."""
    if match["close"] or text.startswith("-", match.end()):
        return False
    word = text[max(0, match.start() - 64) : match.start()]
    cut = max(word.rfind(blank) for blank in " \t\n\"'`")
    if word.startswith("--", cut + 1) or word.startswith("-pass", cut + 1):
        return True
    # `npm config set //registry/:_authToken abc`
    return bool(re.search(r"\b(?:set|config)[ \t]{1,8}\Z", word[: cut + 1]))


def _value_end(text: str, start: int, match: re.Match[str]) -> int:
    name = match["name"].lower()
    opening = _OPENING.match(text, start)
    if opening is not None:
        return _quoted_end(text, opening, "=" in match["link"] or not match["close"])
    if name in ("authorization", "cookie"):
        quote = text[max(0, match.start() - 40) : match.start()]
        mark = max("\"'", key=quote.rfind)
        if mark in quote:  # a header in quotes: all of it
            return _find(text, mark, start)
        scheme = re.compile(r"[A-Za-z]{1,20}(?:\\?[ \t]){1,4}").match(text, start)
        start = scheme.end() if scheme else start
        return _stop(text, start)
    if "=" in match["link"] or match["link"].isspace():
        return _word_end(text, start)
    return _stop(text, start)


def _quoted_end(text: str, opening: re.Match[str], joined: bool) -> int:
    mark = opening.group()
    if len(mark) > 1:  # JSON inside a string: it ends as it began
        end = text.find(mark, opening.end())
        return end + len(mark) if end >= 0 else len(text)
    return _word_end(text, opening.start(), 1 if not joined else PIECES)


def _word_end(text: str, start: int, pieces: int = PIECES) -> int:
    """Where a shell word ends that may be put together from quoted pieces."""
    position = start
    for number in range(pieces):
        mark = text[position : position + 1]
        if mark in _QUOTE or mark == "'":
            # Behind other text, a quote is rather the end of one that began before.
            if number and not (mark in _CLOSED and _CLOSED[mark].match(text, position)):
                return position
            position = _find(text, mark, position + 1) + 1
        else:
            end = _stop(text, position)
            if end == position:
                return min(position, len(text))
            position = end
    if pieces == 1:
        return min(position, len(text))
    blank = _BLANK.search(text, position)
    return blank.start() if blank else len(text)


def _stop(text: str, start: int) -> int:
    match = _STOP.search(text, start)
    return match.start() if match else len(text)


def _find(text: str, mark: str, start: int) -> int:
    if mark in _QUOTE:
        match = _QUOTE[mark].search(text, start)
        return match.start() if match else len(text)
    end = text.find(mark, start)
    return end if end >= 0 else len(text)


def _tells_nothing(value: str) -> bool:
    if not value or _NOTHING.match(value):
        return True
    return value.lstrip("\"'`\\").startswith(("$", "{{", "<")) and bool(
        len(value) < 200 and _PLAIN.match(value)
    )


def _inside_quotes(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the quotes around it."""
    opening = _OPENING.match(text, start, end)
    if opening is None:
        return start, end
    mark = opening.group()
    if end - start > len(mark) and text.endswith(mark, opening.end(), end):
        end -= len(mark)
    return (opening.end(), end) if opening.end() < end else (start, end)


def _programs(text: str) -> Spans:
    """Short options that take a password, up to the end of their command."""
    position = 0
    while True:
        program = _PROGRAM.search(text, position)
        if program is None:
            break
        stop = _COMMAND_END.search(text, program.end())
        position = stop.start() if stop else len(text)
        kind = program.lastgroup or ""
        for option in _OPTIONS[kind].finditer(text, program.end(), position):
            yield from _password(text, option.end(), kind == "u")
    for option in _LONG_USER.finditer(text):
        yield from _password(text, option.end(), True)


def _password(text: str, start: int, with_user: bool) -> Spans:
    end = _word_end(text, start)
    if with_user:  # `user:password`, and not `1000:1000`
        colon = _USER_END.search(text, start, min(end, start + 256))
        if colon is None or text[start:end].replace(":", "").isdigit():
            return
        start, mark = colon.end(), text[start]
        if mark in "\"'" and text.endswith(mark, start, end):
            end -= 1
    if start < end and not _tells_nothing(text[start:end]):
        yield _inside_quotes(text, start, end)


FINDERS: tuple[Callable[[str], Spans], ...] = (
    _tokens,
    _addresses,
    _userinfo,
    _schemes,
    _private_keys,
    _named,
    _programs,
)
