"""Where in a text secrets are: shapes of tokens, and names that secrets stand behind.

One finder per kind; each goes once through the text and yields the places it would
hide, and what it tries at one place is bounded.  `lib.secrets` decides what to do with
them, and loads this only for a text that may hold something: the patterns take longer
to compile than most processes of ours live.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    Spans = Iterator[tuple[int, int]]

PIECES = 50  # of one shell word: past that it ends at the next blank

# Each alternative begins with a known character: the search leaps from one to the next.
_TOKEN = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{10,}|github_pat_\w{10,}|gl[a-z]{2,5}-[\w-]{16,}"
    r"|xox[a-z]-[\w-]{8,}|xapp-[\w-]{10,}|AIza[\w-]{30,}|ya29\.[\w-]{10,}|1//0[\w-]{20,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|dckr_pat_[\w-]{10,}"
    r"|SG\.[\w-]{10,}\.[\w-]{10,}|hvs\.[\w-]{16,}|whsec_[\w+/=]{10,}|shp[a-z]{2}_\w{16,}"
    r"|dop_v1_\w{16,}|lin_api_\w{16,}|glsa_\w{16,}|ATATT3[\w=-]{16,}"
    r"|eyJ[\w-]{8,4000}\.[\w-]{4,}(?:\.[\w-]*)*|AGE-SECRET-KEY-1[A-Z0-9]{10,}",
    re.ASCII,
)
# The same, but not in the middle of a word.
_SHORT_TOKEN = re.compile(
    r"sk-[\w-]{16,}|sk_(?:live|test)_\w{8,}|rk_(?:live|test)_\w{8,}"
    r"|AKIA[A-Z0-9]{12,}|ASIA[A-Z0-9]{12,}|AKID\w{12,}|LTAI\w{12,}",
    re.ASCII,
)
_BOT = re.compile(r":AA[\w-]{30,}", re.ASCII)  # of Telegram, behind the bot's number
_OPENSSL = re.compile(r"pass:(?P<value>[^\s\"']{1,200})")
# What follows these in an address is a key by itself (in lower case, as the next ones).
_ADDRESS = re.compile(
    r"(?:/hook/|hooks\.slack\.com/services/|/api/webhooks/\d{1,30}/|\?(?:QUERY)="
    r"|&(?:QUERY)=)(?P<value>[^\s\"'<>&?#]+)".replace(
        "QUERY",
        "sig|signature|x-amz-signature|x-amz-credential|key|code|sign|ticket",
    )
)
_USERINFO = re.compile(
    r"://(?P<user>[^\s/:@\"'<>]{0,256})(?P<password>:[^\s/\"'<>]{0,1024})?@"
)
_SCHEME = re.compile(r"(?:bearer|basic)[ \t]{1,8}(?P<value>[\w.~+/=:-]{8,})", re.ASCII)
_SCHEME_NAME = re.compile(r"[A-Za-z]{1,20}(?:\\?[ \t]){1,4}")
_SET = re.compile(r"\b(?:set|config)[ \t]{1,8}\Z")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_PRIVATE_KEY_END = "-----END "

# The words (in lower case) in the names that a secret stands behind; for some of them
# what stands before must fit too.
_WORD = re.compile(
    r"token(?!s)|secret|passw(?:or)?d|passphrase|passcode|pass|credentials?|cookie"
    r"|authorization|auth|key|pwd|pat|otp|pin|密码|口令|密钥|令牌"
)
_BEFORE = {
    "key": re.compile(
        r"(?:(?i:api|access|private|secret|signing|encrypt|encryption|account|master"
        r"|auth|session|app|shared)[_-]?(?i:key)|_KEY)\Z"
    ),
    "auth": re.compile(r"_(?i:auth)\Z"),
    "pass": re.compile(r"(?:\A|[^A-Za-z]|(?i:store|key))(?i:pass)\Z"),
    "pwd": re.compile(r"(?:[_;](?:PWD|pwd)|(?:\A|[^\w])[Pp]wd)\Z"),
    "pat": re.compile(r"(?:\A|[^A-Za-z])PAT\Z"),
    "otp": re.compile(r"(?:\A|[^A-Za-z])OTP\Z"),
    "pin": re.compile(r"(?:\A|[^A-Za-z])PIN\Z"),
}
# What may follow the word, up to the secret.
_LINK = re.compile(
    r"(?P<rest>(?:[_-]?[A-Za-z0-9]{1,48}(?:[_-][A-Za-z0-9]{1,32}){0,2})?)"
    r"(?P<close>\\{0,8}[\"'`]?\]?)"
    r"(?P<link>[ \t]{0,8}(?:=>|:=|=(?!=)|[:：](?!:))\s{0,8}|[ \t]{1,8})"
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

# Programs whose short options take a password, by their names' beginnings, and which.
_USER = r"(?:-[uUb]|--cookie)[ \t=]{0,8}"
_OPTIONS = {
    name: re.compile(rf"[ \t]{option}(?=[^\s-])")
    for names, option in (
        ("mysql mariadb 7z", "-p"),
        ("sshpass mongo pscp plink login", r"-p[ \t]{0,8}"),
        ("curl wget smbclient", _USER),
        ("redis-cli http xh", r"(?:-a|--auth|--pass)[ \t=]{1,8}"),
        ("ldap security", r"-w[ \t]{0,8}"),
        ("unzip zip", r"-P[ \t]{0,8}"),
    )
    for name in names.split()
}
_PROGRAM = re.compile("|".join(_OPTIONS))
_PROGRAM_END = re.compile(r"[\w-]{0,16}(?=[ \t])")
_LONG_USER = re.compile(r"--(?:proxy-)?user(?:name)?[ \t=]{1,8}(?=[^\s-])")
_USER_END = re.compile(r"[:%=]")  # `user:password`, smbclient's `user%password`
_STORE = re.compile(  # in lower case
    r"secrets?[ \t]{1,8}(?:set|put|create|add|generic)\b|config:set\b"
    r"|--from-literal\b"
)
_STORED = re.compile(
    r"[ \t=\"'][A-Za-z_][\w.]{0,63}=(?=[^\s=])|[ \t]-(?:-body|b|-value)[ \t=]"
)
_COMMAND_END = re.compile(r"(?<!\\)[\n;|&]")


def _tokens(text: str, lower: str) -> Spans:
    for match in _TOKEN.finditer(text):
        yield match.span()
    for match in _SHORT_TOKEN.finditer(text):
        if not text[max(0, match.start() - 1) : match.start()].isalnum():
            yield match.span()
    for match in _BOT.finditer(text):
        digits = text[max(0, match.start() - 12) : match.start()]
        number = len(digits) - len(digits.rstrip("0123456789"))
        if 8 <= number <= 10:
            yield match.start() - number, match.end()
    for match in _OPENSSL.finditer(text):
        yield match.span("value")


def _addresses(text: str, lower: str) -> Spans:
    for match in _ADDRESS.finditer(lower):
        yield match.span("value")


def _userinfo(text: str, lower: str) -> Spans:
    for match in _USERINFO.finditer(text):
        if match["password"] is not None:
            yield match.start("password") + 1, match.end("password")
        elif text.endswith("http", 0, match.start()) or text.endswith(
            "https", 0, match.start()
        ):
            yield match.span("user")


def _schemes(text: str, lower: str) -> Spans:
    for match in _SCHEME.finditer(lower):
        if text[max(0, match.start() - 1) : match.start()].isalnum():
            continue
        # "Basic authentication" is no secret.
        if not match["value"].isalpha() or len(match["value"]) > 30:
            yield match.span("value")


def _private_keys(text: str, lower: str) -> Spans:
    end = 0
    for match in _PRIVATE_KEY.finditer(text):
        if match.end() > end:
            place = text.find(_PRIVATE_KEY_END, match.end())
            end = place if place >= 0 else len(text)
            yield match.end(), end


def _named(text: str, lower: str) -> Spans:
    """What stands behind a telling name: `NAME=`, `"name": `, `--name `."""
    done = 0
    for word in _WORD.finditer(lower):
        if word.start() < done or not _is_name(text, word):
            continue
        link = _LINK.match(text, word.end())
        if link is None or _ABOUT.search(link["rest"]):
            continue
        if link["link"].isspace() and not _is_option(text, word.start(), link):
            continue
        start = link.end()
        end = _value_end(text, word, link)
        if not _tells_nothing(text[start:end]):
            yield _inside_quotes(text, start, end)
            done = end


def _is_name(text: str, word: re.Match[str]) -> bool:
    before = _BEFORE.get(word.group())
    if before is None:
        return True
    last, after = text[word.end() - 1], text[word.end() : word.end() + 1]
    if after.isalpha() and after.islower() == last.islower():  # `author`, `PATH`
        return False
    return bool(before.search(text[max(0, word.start() - 12) : word.end()]))


def _is_option(text: str, start: int, link: re.Match[str]) -> bool:
    """Whether a blank behind a name is followed by its value: `--api-key abc`."""
    if link["close"] or text.startswith("-", link.end()):
        return False
    word = text[max(0, start - 64) : start]
    cut = max(word.rfind(blank) for blank in " \t\n\"'`")
    if word.startswith("-", cut + 1):
        return True
    # `npm config set //registry/:_authToken abc`
    return bool(_SET.search(word[: cut + 1]))


def _value_end(text: str, word: re.Match[str], link: re.Match[str]) -> int:
    start = link.end()
    opening = _OPENING.match(text, start)
    if opening is not None:
        return _quoted_end(text, opening, "=" in link["link"] or not link["close"])
    if word.group() in ("authorization", "cookie"):
        quote = text[max(0, word.start() - 40) : word.start()]
        mark = max("\"'", key=quote.rfind)
        if mark in quote:  # a header in quotes: all of it
            return _find(text, mark, start)
        scheme = _SCHEME_NAME.match(text, start)
        return _stop(text, scheme.end() if scheme else start)
    if "=" in link["link"] or link["link"].isspace():
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


def _programs(text: str, lower: str) -> Spans:
    """Short options that take a password, up to the end of their command."""
    done = 0
    seen: set[str] = set()
    for program in _PROGRAM.finditer(text):
        end = _PROGRAM_END.match(text, program.end())
        if end is None:
            continue
        if program.start() >= done:
            stop = _COMMAND_END.search(text, program.end())
            done, seen = stop.start() if stop else len(text), set()
        options = _OPTIONS[program.group()]
        if (
            options.pattern in seen
        ):  # each once per command: no name may be repeated for ever
            continue
        seen.add(options.pattern)
        for option in options.finditer(text, end.end(), done):
            yield from _password(text, option.end(), _USER in options.pattern)
    for option in _LONG_USER.finditer(text):
        yield from _password(text, option.end(), True)


def _stores(text: str, lower: str) -> Spans:
    """What a command puts into a store of secrets: `NAME=value`, `--body value`."""
    position = 0
    while store := _STORE.search(lower, position):
        stop = _COMMAND_END.search(text, store.end())
        position = stop.start() if stop else len(text)
        for value in _STORED.finditer(text, store.end(), position):
            yield from _password(text, value.end(), False)


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


FINDERS: tuple[Callable[[str, str], Spans], ...] = (
    _tokens,
    _addresses,
    _userinfo,
    _schemes,
    _private_keys,
    _named,
    _programs,
    _stores,
)
