"""Where in a text secrets are: shapes of tokens, and names that secrets stand behind.

One finder per kind: nearly each is a pattern of `secrets.txt` and what is asked about
its matches.  It goes once through the text, what it tries at one place is bounded, and
it yields for each place: the server's loop may do something else in between.  A span
says what makes it a secret: its shape alone, a telling name, or surely its place; an
empty span hides nothing.  `lib.log` decides what to do with them, and loads this only
for a text that may hold something: the patterns take longer to compile than most of
feishuperm's processes live.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Generator, Iterator

from feishuperm.lib.log import STEP
from feishuperm.tables import sections

TYPE_CHECKING = False
if TYPE_CHECKING:
    Span = tuple[int, int, int]  # from, to, what makes it a secret
    Spans = Iterator[Span]
    Finder = Callable[[str, str], Spans]  # of a text, and the same in lower case

# Characters that are searched at once, and how many of the next belong to what begins
# in them: no pattern below needs more to know what it has found.
WINDOW, NEXT = 1 << 18, 4096
PIECES = 50  # of one shell word: past that it ends at the next blank
SHAPE, NAMED, SURE, PIPED = range(4)  # the last: a password that is piped on
NOTHING = (0, 0, SHAPE)
PAUSE = (0, 0, SURE)  # the same after a longer search
_PRIVATE_KEY_END = "-----END "
MOST_READ = 400  # characters of what may be a secret
# A program takes nothing but a secret under these names.
_SURE = ("password", "passwd", "passphrase", "pwd", "authorization", "cookie")
_QUOTE = {mark: re.compile(rf"(?<!\\){mark}") for mark in '"`'}
_CLOSED = {mark: re.compile(rf"{mark}[^\s{mark}]*{mark}") for mark in "\"'"}

TABLE = dict(sections("lib/secrets.txt"))
_OPTIONS = {
    name: re.compile(rf"[ \t]{option}(?=[^\s-])")
    for names, _, option in (line.partition(" = ") for line in TABLE.pop("options"))
    for name in names.split()
}
# The same for `user:password`, with what stands between the two.
_USERS = {
    name: re.compile(
        rf"[ \t]{option}[ \t=]{{0,8}}[\"']?(?=[^\s-])[^\s\"'{mark}]{{0,256}}{mark}"
    )
    for names, _, rest in (line.partition(" = ") for line in TABLE.pop("users"))
    for mark, option in [rest.split(" ", 1)]
    for name in names.split()
}
_BEGINS = TABLE.pop("begins")  # common words, unless a command begins so
_PROGRAMS = sorted({*_OPTIONS, *_USERS})
_LIKE = {name: re.compile("".join(lines)) for name, lines in TABLE.items()}


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str] | None]:
    """All matches in their order, and None wherever something else may be done."""
    position, size = 0, len(text)
    while position <= size:
        stop = position + WINDOW
        match = pattern.search(text, position, stop + NEXT)
        if match is None or match.start() >= stop:
            position = stop
            yield None
            continue
        if match.end() == stop + NEXT:  # it goes on there
            match = pattern.match(text, match.start()) or match
        position = max(match.end(), match.start() + 1)
        yield match


def _finder(
    name: str,
    span_of: Callable[[str, re.Match[str]], Span],
    in_lower: bool = False,
) -> Finder:
    """Asks about every match that does not lie in what was found before."""
    pattern = _LIKE[name]

    def find(text: str, lower: str) -> Spans:
        done = 0
        for match in matches(pattern, lower if in_lower else text):
            is_new = match and match.end() > done
            span = span_of(text, match) if match and is_new else NOTHING
            done = max(done, span[1])
            yield span if match else PAUSE

    return find


def _shaped(text: str, match: re.Match[str]) -> Span:
    return *match.span(match.lastgroup or 0), SHAPE


def _short_token(text: str, match: re.Match[str]) -> Span:
    return NOTHING if _inside_word(text, match) else _shaped(text, match)


def _inside_word(text: str, match: re.Match[str]) -> bool:
    return text[max(0, match.start() - 1) : match.start()].isalnum()


def _bot(text: str, match: re.Match[str]) -> Span:
    digits = text[max(0, match.start() - 12) : match.start()]
    number = len(digits) - len(digits.rstrip("0123456789"))
    return (
        (match.start() - number, match.end(), SHAPE) if 8 <= number <= 10 else NOTHING
    )


def _web_token(text: str, match: re.Match[str]) -> Span:
    rest = _LIKE["jwt rest"].match(text, match.end())
    return (match.start(), rest.end(), SHAPE) if rest else NOTHING


def _userinfo(text: str, match: re.Match[str]) -> Span:
    if match["password"] is not None:
        return match.start("password") + 1, match.end("password"), SURE
    is_web = text.endswith(("http", "https"), 0, match.start())
    return (*match.span("user"), SHAPE) if is_web else NOTHING


def _scheme(text: str, match: re.Match[str]) -> Span:
    """`Bearer` and `Basic`, which are also words, before what looks like a secret."""
    value = text[slice(*match.span("value"))][:MOST_READ]
    is_secret = _is_credential if match.group().startswith("basic") else is_opaque
    if _inside_word(text, match) or not is_secret(value):
        return NOTHING
    return _shaped(text, match)


def is_opaque(value: str) -> bool:
    """Whether it looks like chance: nobody calls a file or a command so."""
    return any(
        len(part) > 30 or (len(part) >= 8 and not part.isdigit() and not part.isalpha())
        for part in _LIKE["parts"].split(value)
    )


def _is_credential(value: str) -> bool:
    """Whether this is `user:password` in base64."""
    try:
        return b":" in binascii.a2b_base64(value + "=" * (-len(value) % 4))
    except ValueError:
        return False


def _private_key(text: str, match: re.Match[str]) -> Span:
    place = text.find(_PRIVATE_KEY_END, match.end())
    return match.end(), place if place >= 0 else len(text), SURE


def _named_value(text: str, word: re.Match[str]) -> Span:
    """What stands behind a telling name: `NAME=`, `"name": `, `--name `."""
    link = _LIKE["link"].match(text, word.end()) if _is_name(text, word) else None
    if link is None or _LIKE["about"].search(link["rest"]):
        return NOTHING
    if link["link"].isspace() and not _is_option(text, word.start(), link):
        return NOTHING
    start, end = link.end(), _value_end(text, word, link)
    if _tells_nothing(text[start:end]) or _is_code(text, end, word, link):
        return NOTHING
    kind = SURE if word.group() in _SURE else NAMED
    return *_inside_quotes(text, start, end), kind


def _is_code(text: str, end: int, word: re.Match[str], link: re.Match[str]) -> bool:
    """Whether a value is an expression, a folder or a sentence: no secret by itself."""
    start = link.end()
    if word.group() in ("authorization", "cookie") or end - start > 200:
        return False
    if _LIKE["call"].match(text, start, end + 1) or text[end - 1] == "/":
        return True
    if not link["link"].endswith(" "):  # `NAME=value` of a shell, however it looks
        return False
    if _LIKE["expression"].fullmatch(text, start, end):
        return True
    prose = text[start:end].isascii() and text[start:end].islower()
    return prose and text[start:end].isalpha() and bool(_LIKE["more"].match(text, end))


def _is_name(text: str, word: re.Match[str]) -> bool:
    before = _LIKE.get(f"before {word.group()}")
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
        return not any(map(str.isdigit, word[cut + 1 :]))  # `-pHunter2secret` is none
    # `npm config set //registry/:_authToken abc`
    return bool(_LIKE["set"].search(word[: cut + 1]))


def _value_end(text: str, word: re.Match[str], link: re.Match[str]) -> int:
    start = link.end()
    opening = _LIKE["opening"].match(text, start)
    if opening is not None:
        return _quoted_end(text, opening, "=" in link["link"] or not link["close"])
    if word.group() in ("authorization", "cookie"):
        quote = text[max(0, word.start() - 40) : word.start()]
        mark = max("\"'", key=quote.rfind)
        if mark in quote:  # a header in quotes: all of it
            return _find(text, mark, start)
        scheme = _LIKE["scheme name"].match(text, start)
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
    blank = _LIKE["blank"].search(text, position)
    return blank.start() if blank else len(text)


def _stop(text: str, start: int) -> int:
    match = _LIKE["stop"].search(text, start)
    return match.start() if match else len(text)


def _find(text: str, mark: str, start: int) -> int:
    if mark in _QUOTE:
        match = _QUOTE[mark].search(text, start)
        return match.start() if match else len(text)
    end = text.find(mark, start)
    return end if end >= 0 else len(text)


def _tells_nothing(value: str) -> bool:
    if not value.strip("\"'`\\") or _LIKE["nothing"].match(value):
        return True
    return value.lstrip("\"'`\\").startswith(("$", "{{", "<")) and bool(
        len(value) < 200 and _LIKE["plain"].match(value)
    )


def _inside_quotes(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the quotes around it."""
    opening = _LIKE["opening"].match(text, start, end)
    if opening is None:
        return start, end
    mark = opening.group()
    if end - start > len(mark) and text.endswith(mark, opening.end(), end):
        end -= len(mark)
    return (opening.end(), end) if opening.end() < end else (start, end)


def _programs(text: str, lower: str) -> Spans:
    """Options that take a password, up to the end of their command."""
    for name in _PROGRAMS:
        done = 0
        place = text.find(name)
        while place >= 0:
            end = place + len(name)
            # Once per command: no name may be repeated for ever.
            if place >= done and _is_program(text, name, place):
                stop = _LIKE["command end"].search(text, end, end + WINDOW)
                done = stop.start() if stop else end + WINDOW
                yield from _options(text, name, place, done)
            yield NOTHING
            place = text.find(name, end)
        yield PAUSE


def _options(text: str, name: str, place: int, done: int) -> Spans:
    for table in (_OPTIONS, _USERS):
        options = table.get(name)
        end = place + len(name)
        for option in options.finditer(text, end, done) if options else ():
            yield _password(text, option, place)


def _is_program(text: str, name: str, place: int) -> bool:
    if text[place + len(name) : place + len(name) + 1] not in (" ", "\t"):
        return False
    before = text[max(0, place - 16) : place]
    if name in _BEGINS:
        return bool(_LIKE["begin"].search(before))
    return not _LIKE["joined"].search(before)


def _stores(text: str, lower: str) -> Spans:
    """What a command puts into a store of secrets: `NAME=value`, `--body value`."""
    done = 0
    for store in matches(_LIKE["store"], lower):
        if store is None or store.start() < done:
            yield NOTHING if store else PAUSE
            continue
        stop = _LIKE["command end"].search(text, store.end(), store.end() + WINDOW)
        done = stop.start() if stop else store.end() + WINDOW
        start = _command_start(text, store.start())
        for value in _LIKE["stored"].finditer(text, store.end(), done):
            yield _password(text, value, start)


def _command_start(text: str, place: int) -> int:
    """Where a program begins that is known to keep secrets; else this place."""
    programs = _LIKE["keepers"].finditer(text, max(0, place - 200), place)
    last = max((match.start() for match in programs), default=place)
    return place if _LIKE["command end"].search(text, last, place) else last


def _piped(text: str, echo: re.Match[str]) -> Span:
    """What is echoed to a program that reads a password: `echo x | sudo -S y`."""
    start, end = echo.end(), _word_end(text, echo.end())
    reads = start < end <= start + MOST_READ and _LIKE["reads"].match(text, end)
    if not reads or _tells_nothing(text[start:end]):
        return NOTHING
    user = text.find(":", start, end) if "chpasswd" in reads.group() else -1
    begin, end = _inside_quotes(text, start, end)
    kind = SHAPE if _LIKE["runs input"].search(reads.group()) else PIPED
    return max(begin, user + 1), end, kind


def _password(text: str, option: re.Match[str], command: int) -> Span:
    """The word behind an option, if it is more than a port or a reference."""
    start, before = option.end(), option.group()
    end = _word_end(text, start)
    for mark in "\"'":  # `-u "user:password"`: the quote began before
        if before.count(mark) % 2:
            end = _find(text, mark, start)
    value = text[start : min(end, start + MOST_READ)]
    is_number = value.isdigit() and _LIKE["runs"].search(
        text, max(0, command - 400), command + 40
    )
    if (
        start >= end
        or _tells_nothing(value)
        or _LIKE["ports"].match(value)
        or is_number
    ):
        return NOTHING
    # Where another program has the word among its arguments, it means what it likes.
    begins = _LIKE["begin"].search(text[max(0, command - 64) : command])
    return *_inside_quotes(text, start, end), SURE if begins else NAMED


FINDERS: dict[str, Finder] = {
    "tokens": _finder("token", _shaped),
    "short tokens": _finder("short token", _short_token),
    "bots": _finder("bot", _bot),
    "openssl": _finder(
        "openssl", lambda _, m: (*m.span("value"), SURE if m["option"] else SHAPE)
    ),
    "web tokens": _finder("jwt", _web_token),
    "addresses": _finder("address", _shaped, in_lower=True),
    "userinfo": _finder("userinfo", _userinfo),
    "schemes": _finder("scheme", _scheme, in_lower=True),
    "private keys": _finder("private key", _private_key),
    "written": _finder(
        "written", lambda _, m: (*m.span("value"), NAMED), in_lower=True
    ),
    "named": _finder("word", _named_value, in_lower=True),
    "programs": _programs,
    "stores": _stores,
    "piped": _finder("echo", _piped),
}


# What a mask could hide besides a secret: nobody approves what they have not seen.


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
        given = _LIKE["given"].search(
            text[max(0, start - 100) : start].rstrip("\"'`\\")
        )
        if given:
            names.add(given[1])
        if not number % STEP:
            yield
    for name in ("unnamed", "used"):
        for used in matches(_LIKE[name], text):
            if used and (name == "unnamed" or (used[1] or used[2]) in names):
                return True
            yield
    return False


def _is_secret_word(text: str, start: int, end: int, kind: int) -> bool:
    if not _LIKE["masked word"].fullmatch(text, start, end) or _LIKE["path"].match(
        text, start, end
    ):
        return False
    opaque = is_opaque(text[start : min(end, start + 1000)])
    if kind == SHAPE:
        return opaque and bool(_LIKE["told"].search(text[max(0, start - 240) : start]))
    return opaque or (kind >= SURE and "/" not in text[start:end])


def _is_passed_on(text: str, start: int, end: int, kind: int) -> bool:
    """Whether what is masked becomes a command's name, or the input of the next."""
    passed = _LIKE["passed on"].search(text[max(0, start - 200) : start])
    if passed is None or kind == PIPED:
        return False
    return "alias" in passed.group() or bool(_LIKE["pipe"].match(text, end))
