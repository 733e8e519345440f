"""Code in other languages than a shell's: what it deletes, runs, fetches or destroys.

Nothing is parsed: calls that matter are looked for by name, with the text literal that
follows; `patterns.txt` has the names.  What is run as a command is read as one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Iterator

from feishuperm.danger.command_table import pattern, words
from feishuperm.danger.interpreter import (
    DECODED,
    DOWNLOADED,
    SECRET,
    UNSEEN,
    Arg,
    Args,
    Call,
    Output,
    ShellState,
    shown,
)
from feishuperm.danger.paths import OUTSIDE, UNKNOWN, is_secret
from feishuperm.tables import sections

MAX_CODE = 15_000  # characters: some ten milliseconds
MAX_POWERSHELL = 15_000
MAX_SQL = 30_000
MAX_CMD = 8192  # cmd.exe takes no more
MAX_TEXTS = 10  # of one kind
MAX_LITERALS = 100
# What is looked for -> where its text stands: in the last group that has one.
_TEXTS = {
    "deletes": ("deletes", "deletes_of"),
    "writes": ("writes", "copies"),
    "runs": ("backquoted", "runs_bare"),
}


class Code:
    """A text in some language, and what it says."""

    def __init__(self, text: str) -> None:
        self.text = pattern("glued").sub("", text[:MAX_CODE])

    def says(self, name: str) -> str:
        match = pattern(name).search(self.text)
        return match[0] if match else ""

    def texts(self, kind: str, most: int = MAX_TEXTS) -> list[str]:
        """The texts of a kind, in their order."""
        patterns = map(pattern, _TEXTS.get(kind, (kind,)))
        matches = (m for found in patterns for m in found.finditer(self.text))
        groups = ([group for group in m.groups() if group] for m in matches)
        return [group[-1] for group, _ in zip(groups, range(most)) if group]

    def runs(self) -> list[str]:
        called = [_joined(match) for match in pattern("runs").finditer(self.text)]
        return [*called[:MAX_TEXTS], *self.texts("runs")]

    def writes(self) -> list[str]:
        near = list(pattern("writes_near").finditer(self.text))[:MAX_TEXTS]
        homes = ("~" if pattern("at_home").search(m[1] or "") else "" for m in near)
        named = [home + (m[2] or m[3]) for home, m in zip(homes, near)]
        return [*self.texts("writes"), *named]

    def commands(self, programs: Container[str]) -> list[str]:
        """Texts that may be commands of some programs, if any are run at all."""
        texts = self.texts("literals", MAX_LITERALS) if self.says("executes") else []
        return [text for text in texts if text.partition(" ")[0] in programs]

    def paths(self) -> list[str]:
        """Texts that may be paths, from a home too if there is talk of one."""
        literals = self.texts("literals", MAX_LITERALS)
        if not self.says("at_home"):
            return literals
        return [*literals, *("~/" + path.lstrip("/") for path in literals)]

    def secrets(self, state: ShellState) -> Iterator[str]:
        """What could be sent and must not be."""
        for path in self.paths():
            if state.place(path).protected == "danger.keys" or is_secret(path):
                yield path
        yield from filter(None, [self.says("environment")])

    def runs_what_came(self) -> bool:
        """Evaluates what it fetches, or gives a shell to anyone who is out there."""
        fetches = self.says("evaluates") and self.says("fetches")
        return bool(fetches or (self.says("sockets") and self.says("shells")))

    def runs_decoded(self) -> bool:
        runs = self.says("evaluates") or self.says("executes")
        return bool(runs and self.says("decodes"))

    def prints_decoded(self) -> bool:
        return bool(self.says("decodes") and self.says("prints"))


def _joined(match: re.Match[str]) -> str:
    """A command, given as one text or as a list of them."""
    pieces = (piece[2] for piece in pattern("pieces").finditer(match[3]))
    if not match[3].lstrip().startswith(","):
        return match[2]
    return " ".join([match[2], *map(shlex.quote, pieces)])


def run_code(
    state: ShellState, text: Arg, given: Output, programs: Container[str] = ()
) -> Output:
    """Code in another language; texts in it may be commands of some programs."""
    state.suspicious(text)
    state.unread(text[MAX_CODE:])
    if not state.spend(min(len(text), MAX_CODE), 10):
        return UNSEEN
    read = Code(text)
    hosts = read.texts("url")
    what = ", ".join(hosts[:2])
    _changed_by_code(state, read, what)
    for command in dict.fromkeys([*read.runs(), *read.commands(programs)]):
        state.run(command)
    for host in hosts:
        state.note("fact.host", host)
    for secret in read.secrets(state) if hosts else ():
        state.leaks(Output(None, SECRET, secret), hosts[0])
    if read.runs_what_came():
        state.note("danger.downloaded", what)
    if read.runs_decoded():
        state.note("danger.decoded", what)
    if text and not text.strip(UNKNOWN):
        state.note("fact.opaque", "")
    if read.prints_decoded():
        return Output(None, DECODED, given.what)
    return given.mixed(Output(None, DOWNLOADED if hosts else "", what))


def _changed_by_code(state: ShellState, read: Code, host: str) -> None:
    deleted = read.texts("deletes")
    for path in deleted:
        state.deletes(_expanded(path), recursive=True)
    if not deleted and read.says("deletes_unseen"):
        state.note("danger.unsure", "rmtree")
    for path in read.writes():
        state.writes(_expanded(path))
    for path in read.texts("fetched"):
        state.keep(path, Output(None, DOWNLOADED, host))
    for name in sections("danger/patterns.txt"):
        if name.startswith("says ") and read.says(name):
            state.note(name.partition(" ")[2], read.says(name))
    for statement in filter(destroys, read.texts("statements")):
        state.note("danger.data", statement)
    _changed_loosely(state, read)


def _changed_loosely(state: ShellState, read: Code) -> None:
    """Something is deleted or written whose path stands elsewhere in the code."""
    deletes, writes = read.says("deletes_loosely"), read.says("writes_loosely")
    for path in read.paths() if deletes or writes else ():
        rooted = path.startswith(("/", "~"))
        if deletes and rooted and state.place(path).kind == OUTSIDE:
            state.deletes(path, recursive=True)
        if writes:
            state.rewrites(path)


def _expanded(path: str) -> str:
    return path.replace("$HOME", "~") if path.startswith("$HOME") else path


# SQL and its relatives.  Statements are told apart by `;` outside of quotes and
# comments; the first word and the lack of a WHERE are all that is looked at.


def destroys(text: str) -> str:
    """The statement that destroys data, or nothing."""
    text = text[:MAX_SQL]
    # Dialects disagree about a backslash before a quote: then all of it counts.
    if "\\'" not in text and not pattern("sql_executes").search(text):
        text = re.sub(r'"[^"\n]*"', '"x"', re.sub(r"'[^']*'", "''", text))
    statements = pattern("sql_comment").sub(" ", text).split(";")
    harmful = (s for s in statements if _is_harmful(s.strip()))
    return " ".join(next(harmful, "").split())[:400]


def _is_harmful(statement: str) -> bool:
    if any(pattern(p).search(statement) for p in ("sql_destroys", "sql_no_sql")):
        return True
    match = pattern("sql_rows").search(statement)
    sets = " set " in " ".join(statement.lower().split())
    if match is None or (match[1].lower() == "update" and not sets):
        return False
    where = pattern("sql_where").search(statement, match.end())
    return not where or bool(pattern("sql_always").search(statement))


def judge_sql(state: ShellState, name: str, text: str) -> None:
    if name.startswith(("redis", "valkey")):
        text = text.replace("'", " ")
    state.unread(text[MAX_SQL:])
    paid = state.spend(min(len(text), MAX_SQL), 20)
    statement = destroys(text) if paid else ""
    if statement:
        state.note("danger.data", statement)
    text = text[:MAX_SQL]
    for match in list(pattern("sql_shell").finditer(text))[:5]:
        state.run(match[1])
    for match in list(pattern("sql_reads").finditer(text))[:5]:
        _sql_file(state, name, Arg(match[1]))


def sql_client(state: ShellState, call: Call) -> Output:
    name, args, rest = call.name, call.args, call.operands
    state.suspicious(call.given)
    if rest[:1] != [":memory:"]:
        for text in _statements(call, rest):
            judge_sql(state, name, text)
    piped = call.given.what if call.given.text is None else ""
    file = args.value_of("-f", "--file", "--init", "-init") or Arg(piped)
    if file:
        _sql_file(state, name, file)
    state.recognise(name, args)
    if rest[:1] in (["del"], ["DEL"], ["unlink"]) and UNKNOWN in rest[1:]:
        state.note("danger.data", call.shown)
    host = args.value_of("-h", "--host") or "localhost"
    if host not in ("localhost", "127.0.0.1"):
        state.note("fact.host", host)
    state.look(arg for arg in rest if not re.search(r"\s", arg))
    return UNSEEN


def _statements(call: Call, rest: Args) -> list[str]:
    """All that a client is given to do, each once."""
    bare = call.name in ("redis-cli", "valkey-cli", "bq")  # their words are one
    texts = [
        *(arg for arg in call.args if re.search(r"\s", arg)),
        call.args.value_of(*words("statement options")) or "",
        call.given.text or "",
        " ".join(rest) if bare else "",
    ]
    return list(dict.fromkeys(filter(None, texts)))


def _sql_file(state: ShellState, name: str, path: Arg) -> None:
    """A file of statements: what is known to be in it, or what its name says."""
    held = state.reads(path) or state.content(path)
    if held is not None:
        state.suspicious(held)
        judge_sql(state, name, held.text or "")
    elif path.endswith(".sql") and pattern("destroying").search(path.split("/")[-1]):
        state.note("danger.data", shown(name, [path]))


# The shells of another system.


def powershell(state: ShellState, call: Call) -> Output:
    args = call.args
    at = args.place_of("(?i)-c(?:ommand)?")
    given = call.given.text or args.value_of("-c", "-C") or " ".join(args)
    command = args[at + 1 :] if at < len(args) else [*args.options(), given]
    read_powershell(state, " ".join(command))
    return UNSEEN


def read_powershell(state: ShellState, text: str) -> None:
    """PowerShell, by the names of its commands."""
    state.unread(text[MAX_POWERSHELL:])
    text = text[:MAX_POWERSHELL]
    if not state.spend(len(text), 10):
        return
    state.copy().run(text.replace("\\", "/"))  # much is spelled as in any shell
    for key in powershell_marks(text):
        state.note(key, " ".join(text.split())[:60])
    for path, recursive in powershell_deletes(text):
        path = re.sub(r"\A\$(?:env:)?(?:HOME|USERPROFILE)\b", "~", path, flags=re.I)
        if re.match(r"[A-Za-z]:", path):
            state.note("danger.delete", path)
        else:
            state.deletes(UNKNOWN if path.startswith("$") else path, recursive)
    state.visit(text)


def powershell_marks(text: str) -> list[str]:
    """The keys of what PowerShell text would do."""
    names = (name for name in sections("danger/patterns.txt") if name.startswith("ps "))
    keys = [name.partition(" ")[2] for name in names if pattern(name).search(text)]
    # What is fetched is run: as text, or as the file that it became.
    out = pattern("ps_out").search(text)
    is_file = out and re.split(r"[\\/]", out[1])[-1] in text[out.end() :]
    runs = pattern("ps_evaluates").search(text) or is_file
    fetches = pattern("ps_fetches").search(text)
    return [*keys, "danger.downloaded"] if fetches and runs else keys


def powershell_deletes(text: str) -> list[tuple[str, bool]]:
    """The paths that PowerShell text deletes, and whether with all below them."""
    piped = pattern("ps_piped").finditer(text)
    deleted = [(match[1].replace("\\", "/"), True) for match in piped]
    for match in pattern("ps_deletes").finditer(text):
        rest = match["rest"]
        recursive = bool(re.search(r"-r(?:ecurse)?\b|/s\b|-rf\b", rest, re.I))
        for path in pattern("ps_path").finditer(rest):
            if not (path[2] or "").startswith("/"):
                deleted.append(((path[1] or path[2]).replace("\\", "/"), recursive))
    return deleted[:10]


def cmd(state: ShellState, call: Call) -> Output:
    text = " ".join(call.args)
    start = text[:MAX_CMD]
    deletes = re.search(r"\b(?:del|erase|rd|rmdir)\b", start, re.I)
    if deletes and re.search(r"(?:\A|\s)/[sq]\b", start, re.I):
        state.note("danger.delete", text)
    read_powershell(state, text)
    return UNSEEN
