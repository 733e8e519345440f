"""Where in a text secrets are: shapes of tokens, and names that secrets stand behind.

One finder per kind: nearly each is a pattern and what is asked about its matches.  It
goes once through the text, what it tries at one place is bounded, and it yields for
each place: the server's loop may do something else in between.  A span says what makes
it a secret: its shape alone, a telling name, or surely its place; an empty span hides
nothing.  `lib.log` decides what to do with them, and loads this only for a text
that may hold something: the patterns take longer to compile than most of feishuperm's
processes live.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Generator, Iterator

from feishuperm.lib.log import STEP

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

# Each alternative begins with a known character: the search leaps from one to the next.
_TOKEN = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{10,}|github_pat_\w{10,}|gl[a-z]{2,5}-[\w-]{16,}"
    r"|xox[a-z]-[\w-]{8,}|xapp-[\w-]{10,}|AIza[\w-]{30,}|ya29\.[\w-]{10,}|1//0[\w-]{20,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|dckr_pat_[\w-]{10,}"
    r"|SG\.[\w-]{10,}\.[\w-]{10,}|hvs\.[\w-]{16,}|whsec_[\w+/=]{10,}|shp[a-z]{2}_\w{16,}"
    r"|dop_v1_\w{16,}|lin_api_\w{16,}|glsa_\w{16,}|ATATT3[\w=-]{16,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{10,}",
    re.ASCII,
)
# A JSON web token in two steps: one pattern would try every `eyJ` of a long word again.
_JWT = re.compile(r"eyJ[\w-]{8,}", re.ASCII)
_JWT_REST = re.compile(r"\.[\w-]{4,}(?:\.[\w-]*)*", re.ASCII)
# The same, but not in the middle of a word.
_SHORT_TOKEN = re.compile(
    r"sk-[\w-]{16,}|sk_(?:live|test)_\w{8,}|rk_(?:live|test)_\w{8,}"
    r"|AKIA[A-Z0-9]{12,}|ASIA[A-Z0-9]{12,}|AKID\w{12,}|LTAI\w{12,}",
    re.ASCII,
)
_BOT = re.compile(r":AA[\w-]{30,}", re.ASCII)  # of Telegram, behind the bot's number
_OPENSSL = re.compile(
    r"(?P<option>-pass(?:in|out)?[ \t]{1,8}[\"']?)?pass:(?P<value>[^\s\"']{1,200})"
)
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
# In SQL, in XML and in a `.netrc` (in lower case).
_WRITTEN = re.compile(
    r"(?:(?:identified[ \t]{1,4}by[ \t]{1,4}"
    r"|with[ \t]{1,4}(?:encrypted[ \t]{1,4})?password[ \t]{1,4}"
    r"|password[ \t]{1,4}for[^=\n]{1,60}=[ \t]{0,4})(?:password\()?'"
    r"|<\w{0,20}(?:password|passphrase|secret|token)>"
    r"|login[ \t]{1,4}\S{1,64}[ \t]{1,4}password[ \t]{1,4})"
    r"(?P<value>[^\s'\"<>$*]{1,200})"
)
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
# An expression of a program, and prose.
_CALL = re.compile(r"[A-Za-z_][\w.]*[(\[]", re.ASCII)
_EXPRESSION = re.compile(r"(?:await|new)|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)
_MORE = re.compile(r"[ \t]+[A-Za-z]")
_PARTS = re.compile(r"[^A-Za-z0-9]+")
MOST_READ = 400  # characters of what may be a secret
# A program takes nothing but a secret under these names.
_SURE = ("password", "passwd", "passphrase", "pwd", "authorization", "cookie")
_STOP = re.compile(r"(?<!\\)[\s\"'`;&|<>(){},]")
_BLANK = re.compile(r"\s")
_QUOTE = {mark: re.compile(rf"(?<!\\){mark}") for mark in '"`'}
_CLOSED = {mark: re.compile(rf"{mark}[^\s{mark}]*{mark}") for mark in "\"'"}
_OPENING = re.compile(r"\\{0,8}[\"'`]")

# Programs that take a password in an option, by their whole names, and in which: behind
# what matches stands the password.  A letter means something else to every program.
_SPACED = r"[ \t]{0,8}"
_MYSQL = (
    "mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck mariadb mariadb-dump"
)
_MONGO = "mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat"
_LDAP = "ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldapcompare ldappasswd"
_LOGIN = "docker podman nerdctl buildah skopeo oras helm az oc cf crane"
_ANY = r"[ \t](?:[^;|&\n]{0,200}?[ \t])??"
_OPTIONS = {
    name: re.compile(rf"[ \t]{option}(?=[^\s-])")
    for names, option in (
        (f"{_MYSQL} mariadb-admin 7z 7za 7zz", "-p"),
        ("rar unrar", "-h?p"),
        (f"sshpass twine rdesktop {_MONGO}", f"-p{_SPACED}"),
        (_LOGIN, f"login{_ANY}-p{_SPACED}"),
        ("pscp psftp plink", r"-pw[ \t]{1,8}"),
        ("redis-cli", r"(?:-a|--pass)[ \t=]{1,8}"),
        ("http https xh xhs", r"(?:-a|--auth)[ \t=]{0,8}"),
        (_LDAP, f"-w{_SPACED}"),
        ("security", r"-(?:w|p|P)[ \t]{1,8}"),
        ("zip unzip zipcloak sqlcmd bcp ipmitool mosquitto_pub mosquitto_sub",
         f"-P{_SPACED}"),
        ("openssl", r"-[kK][ \t]{1,8}"),
        ("dotnet nuget", rf"push{_ANY}-k[ \t]{{1,8}}"),
        ("ssh-keygen", r"-[NP][ \t]{1,8}"),
        ("snmpget snmpset snmpwalk snmpbulkwalk", r"-[AX][ \t]{1,8}"),
        ("nmcli", r"password[ \t]{1,8}"),
        ("htpasswd",
         r"-(?=\w{0,8}b)(?:\w{0,8}n\w{0,8}|\w{1,8}[ \t]{1,8}\S{1,256})"
         r"[ \t]{1,8}\S{1,64}[ \t]{1,8}"),
        ("xfreerdp", "/p:"),
    )
    for name in names.split()
}  # fmt: skip
# The same for `user:password`, with what stands between the two.
_USERS = {
    name: re.compile(
        rf"[ \t]{option}[ \t=]{{0,8}}[\"']?(?=[^\s-])[^\s\"'{mark}]{{0,256}}{mark}"
    )
    for names, option, mark in (
        ("curl", r"(?:-[a-zA-Z]{0,8}?[uU]|--(?:proxy-)?user)", ":"),
        ("lftp", "-u", ","),
        ("smbclient smbget rpcclient", r"(?:-U|--user)", "%"),
    )
    for name in names.split()
}  # fmt: skip
_OPTIONS_ALSO = {"curl": re.compile(
    r"[ \t](?:(?:-b|--cookie)[ \t=]{0,8}[\"']?[^\s\"'=;]{1,256}="
    r"|--oauth2-bearer[ \t=]{1,8})(?=[^\s-])"
)}  # fmt: skip
_PROGRAMS = sorted({*_OPTIONS, *_USERS})
_JOINED = re.compile(r"[\w.-]\Z")  # what makes it the end of another name
_BEGINS = ("http", "https", "xh", "xhs")  # common words, unless a command begins so
_BEGIN = re.compile(
    r"(?:\A|[\n;|&(\"'`]|\b(?:sudo|time|exec|then|do|else))[ \t]{0,8}"
    r"(?:[\w.~-]*/){0,9}\Z"
)
_PORTS = re.compile(r"(?:[\d.]{1,15}:)?\d{1,5}(?:-\d{1,5})?:\d{1,5}(?:[-/\w]{0,8})?\Z")
_RUNS = re.compile(
    r"\b(?:docker|podman|nerdctl)[ \t]+(?:container[ \t]+)?(?:run|create)\b"
)
# What is piped to a program that reads a password.
_ECHO = re.compile(
    r"(?:\becho(?:[ \t]{1,8}-[neE]{1,3})?"
    r"|\bprintf(?:[ \t]{1,8}[\"']?%s(?:\\n)?[\"']?)?)[ \t]{1,8}"
)
_READS = re.compile(
    r"[ \t]{0,8}\|[ \t]{0,8}[^\n;|&]{0,200}?"
    r"(?:\bsudo[ \t]+(?:-\w+[ \t]+){0,4}?-\w{0,4}S\b|--?\w{0,9}-?stdin\b"
    r"|\bchpasswd\b|--with-token\b)(?P<rest>[^\n;|&]{0,200})"
)
_STORE = re.compile(  # in lower case
    r"secrets?[ \t]{1,8}(?:set|put|create|add|generic)\b|config:set\b"
    r"|--from-literal\b"
)
# What may run what it reads, unless that is a password's place.
_RUNS_INPUT = re.compile(
    r"\b(?:(?:[bdkz]|da|ba)?sh|python[\d.]*|perl|ruby|node|php|xargs|parallel|at|su|env)\b"
    r"|(?<!password)(?<!passwd )(?<!token)(?<!key)(?<!secret)(?<!passphrase)--?stdin\b"
    r"|--(?!pass|token|key|secret)\w{0,9}-stdin\b"
)
_KEEPERS = re.compile(
    r"(?<![\w.-])(?:kubectl|oc|gh|glab|heroku|fly|flyctl|vault|wrangler|docker|podman|az"
    r"|aws|gcloud|doppler|supabase|netlify|vercel|railway|scw|eas|ibmcloud)(?=[ \t])"
)
_STORED = re.compile(
    r"[ \t=\"'][A-Za-z_][\w.]{0,63}=(?=[^\s=])|[ \t]-(?:-body|b|-value)[ \t=]"
)
_COMMAND_END = re.compile(r"(?<!\\)[\n;|&]")


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
    pattern: re.Pattern[str],
    span_of: Callable[[str, re.Match[str]], Span],
    in_lower: bool = False,
) -> Finder:
    """Asks about every match that does not lie in what was found before."""

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
    rest = _JWT_REST.match(text, match.end())
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
        for part in _PARTS.split(value)
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
    link = _LINK.match(text, word.end()) if _is_name(text, word) else None
    if link is None or _ABOUT.search(link["rest"]):
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
    if _CALL.match(text, start, end + 1) or text[end - 1] == "/":
        return True
    if not link["link"].endswith(" "):  # `NAME=value` of a shell, however it looks
        return False
    if _EXPRESSION.fullmatch(text, start, end):
        return True
    prose = text[start:end].isascii() and text[start:end].islower()
    return prose and text[start:end].isalpha() and bool(_MORE.match(text, end))


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
        return not any(map(str.isdigit, word[cut + 1 :]))  # `-pHunter2secret` is none
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
    if not value.strip("\"'`\\") or _NOTHING.match(value):
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
    """Options that take a password, up to the end of their command."""
    for name in _PROGRAMS:
        done = 0
        place = text.find(name)
        while place >= 0:
            end = place + len(name)
            # Once per command: no name may be repeated for ever.
            if place >= done and _is_program(text, name, place):
                stop = _COMMAND_END.search(text, end, end + WINDOW)
                done = stop.start() if stop else end + WINDOW
                yield from _options(text, name, place, done)
            yield NOTHING
            place = text.find(name, end)
        yield PAUSE


def _options(text: str, name: str, place: int, done: int) -> Spans:
    for table in (_OPTIONS, _OPTIONS_ALSO, _USERS):
        options = table.get(name)
        end = place + len(name)
        for option in options.finditer(text, end, done) if options else ():
            yield _password(text, option, place)


def _is_program(text: str, name: str, place: int) -> bool:
    if text[place + len(name) : place + len(name) + 1] not in (" ", "\t"):
        return False
    before = text[max(0, place - 16) : place]
    if name in _BEGINS:
        return bool(_BEGIN.search(before))
    return not _JOINED.search(before)


def _stores(text: str, lower: str) -> Spans:
    """What a command puts into a store of secrets: `NAME=value`, `--body value`."""
    done = 0
    for store in matches(_STORE, lower):
        if store is None or store.start() < done:
            yield NOTHING if store else PAUSE
            continue
        stop = _COMMAND_END.search(text, store.end(), store.end() + WINDOW)
        done = stop.start() if stop else store.end() + WINDOW
        start = _command_start(text, store.start())
        for value in _STORED.finditer(text, store.end(), done):
            yield _password(text, value, start)


def _command_start(text: str, place: int) -> int:
    """Where a program begins that is known to keep secrets; else this place."""
    programs = _KEEPERS.finditer(text, max(0, place - 200), place)
    last = max((match.start() for match in programs), default=place)
    return place if _COMMAND_END.search(text, last, place) else last


def _piped(text: str, echo: re.Match[str]) -> Span:
    """What is echoed to a program that reads a password: `echo x | sudo -S y`."""
    start, end = echo.end(), _word_end(text, echo.end())
    reads = start < end <= start + MOST_READ and _READS.match(text, end)
    if not reads or _tells_nothing(text[start:end]):
        return NOTHING
    user = text.find(":", start, end) if "chpasswd" in reads.group() else -1
    begin, end = _inside_quotes(text, start, end)
    kind = SHAPE if _RUNS_INPUT.search(reads.group()) else PIPED
    return max(begin, user + 1), end, kind


def _password(text: str, option: re.Match[str], command: int) -> Span:
    """The word behind an option, if it is more than a port or a reference."""
    start, before = option.end(), option.group()
    end = _word_end(text, start)
    for mark in "\"'":  # `-u "user:password"`: the quote began before
        if before.count(mark) % 2:
            end = _find(text, mark, start)
    value = text[start : min(end, start + MOST_READ)]
    is_number = value.isdigit() and _RUNS.search(
        text, max(0, command - 400), command + 40
    )
    if start >= end or _tells_nothing(value) or _PORTS.match(value) or is_number:
        return NOTHING
    # Where another program has the word among its arguments, it means what it likes.
    begins = _BEGIN.search(text[max(0, command - 64) : command])
    return *_inside_quotes(text, start, end), SURE if begins else NAMED


FINDERS: dict[str, Finder] = {
    "tokens": _finder(_TOKEN, _shaped),
    "short tokens": _finder(_SHORT_TOKEN, _short_token),
    "bots": _finder(_BOT, _bot),
    "openssl": _finder(
        _OPENSSL, lambda _, m: (*m.span("value"), SURE if m["option"] else SHAPE)
    ),
    "web tokens": _finder(_JWT, _web_token),
    "addresses": _finder(_ADDRESS, _shaped, in_lower=True),
    "userinfo": _finder(_USERINFO, _userinfo),
    "schemes": _finder(_SCHEME, _scheme, in_lower=True),
    "private keys": _finder(_PRIVATE_KEY, _private_key),
    "written": _finder(_WRITTEN, lambda _, m: (*m.span("value"), NAMED), in_lower=True),
    "named": _finder(_WORD, _named_value, in_lower=True),
    "programs": _programs,
    "stores": _stores,
    "piped": _finder(_ECHO, _piped),
}


# What a mask could hide besides a secret: nobody approves what they have not seen.

# What a mask may hide: one word, that of a header behind its scheme.
_MASKED_WORD = re.compile(
    r"(?:(?:Bearer|Basic|Token) )?[\w.~+/=:@%,-]*", re.ASCII | re.I
)
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
    if not _MASKED_WORD.fullmatch(text, start, end) or _PATH.match(text, start, end):
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
