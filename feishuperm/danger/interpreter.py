"""What a call would do, step by step: commands are followed, not run.

A `ShellState` knows where it stands (folder, variables, whether on another machine),
what has been seen so far (`marks`, `facts`) and what was downloaded.  Words are
expanded as far as the text itself tells; what only the run will tell is `UNKNOWN`.
Every program of `commands.txt` is handed its `Call` and says what it sends on.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, SupportsIndex, overload

from feishuperm.danger.command_table import (
    deeds,
    files_of,
    lists,
    pattern,
    programs,
    words,
)
from feishuperm.danger.paths import (
    INSIDE,
    MAX_PATH,
    NOWHERE,
    OUTSIDE,
    TEMPORARY,
    UNKNOWN,
    UNSURE,
    PathRules,
    Place,
    governs,
    is_secret,
    odd_letters,
)
from feishuperm.shell.reader import (
    LITERAL,
    MAX_TEXT,
    SUBSTITUTION,
    Budget,
    Command,
    Part,
    Script,
    Word,
    parse,
)
from feishuperm.tables import sections

Program = Callable[["ShellState", "Call"], "Output | None"]  # None: `NOTHING`

MAX_SEARCHED = 150_000  # characters; Linux runs no command that is longer
MAX_NESTED = 12  # texts that run texts
MAX_VALUES = 8  # of one word
MAX_FIELDS = 256  # of one command
MAX_WHATS = 20  # that are kept of one kind
MAX_SHOWN = 60  # characters of each
MAX_FILES = 60  # words of a call that may be files
MAX_MASKED = 2000
MAX_BRACED = 1000  # characters of words with braces that are expanded
MAX_SHEBANG = 200
MAX_GLOB = 30  # characters of a program's name with `*` in it
GLOB_STEPS = 100  # what it costs to look for such a name
MAX_KEPT = 20_000  # characters of a file that is appended to
LOCAL = ("localhost", "127.0.0.1", "0.0.0.0", "[", "::1", "host.docker.internal")
ANY = "\1any"  # the row for programs that have none; no word can be this
SPLIT = "\1"  # in the value of a variable: a blank where words are told apart

# Where a text comes from; SHELL: from a shell that does what it is told.
DOWNLOADED, DECODED, SECRET, SHELL = "downloaded", "decoded", "secret", "shell"
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
_VARIABLES = {
    "TMPDIR": "/tmp/x", "IFS": " ", "?": "0", "#": "0", "!": "9999", "$": "9999",
    "RANDOM": "1", "USER": "user",
}  # fmt: skip
_FORCED = re.compile(r"-\w*[rR]\w*f\w*|-\w*f\w*[rR]\w*")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_GLOB = re.compile(r"[*?\[]")
_HISTORY = re.compile(r"\.git/|(?:.*/)?\.git\Z", re.DOTALL)
# A place's kind -> what it is to delete something there, and all of it.
_DELETED = {
    INSIDE: ("fact.deletes", "danger.wipe"),
    TEMPORARY: ("fact.deletes", "danger.delete"),
    UNSURE: ("fact.deletes", "danger.unsure"),
    OUTSIDE: ("danger.delete", "danger.delete"),
}
_ODD = re.compile(r"[\0\1]")
_SAYS = re.compile(r"[^\0\s]")
HOST = re.compile(
    r"\b(?:https?|ftp|wss?|ssh|git|s3|gs)://(?:[^@/\s]*@)?([^/\s:?#'\"]+)"
)
PATHLIKE = re.compile(r"(?:~|/|\.\./|\.\.\Z)")


@cache
def _alarming() -> dict[str, re.Pattern[str]]:
    """What is looked for in a text that cannot be read.

    The last letters come first, so that the search can leap.
    """
    return {
        word: re.compile(
            rf"{re.escape(word)}(?<!\w{re.escape(word)})(?![\w-])", re.ASCII
        )
        for word in sections("danger/commands.txt")["alarming"]
    }


class Arg(str):
    """A word as a program gets it, and where its text comes from."""

    __slots__ = ("origin", "what")
    origin: str
    what: str

    def __new__(cls, text: str, origin: str = "", what: str = "") -> Arg:
        arg = super().__new__(cls, text)
        arg.origin = origin
        arg.what = what
        return arg

    @property
    def trace(self) -> tuple[str, str]:
        """Where it comes from: for another text that does."""
        return self.origin, self.what


class Args(list[Arg]):
    """The words behind a program's name."""

    @overload
    def __getitem__(self, at: SupportsIndex) -> Arg: ...
    @overload
    def __getitem__(self, at: slice) -> Args: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Arg | Args:
        found = super().__getitem__(at)
        return found if isinstance(found, Arg) else Args(found)

    def options(self) -> list[str]:
        return [arg for arg in self if arg.startswith("-") and arg != "-"]

    def has(self, short: str, *long: str) -> bool:
        """Whether an option is among them: a letter, or a long name."""
        for arg in self.options():
            if arg.startswith("--"):
                if arg.partition("=")[0] in long:
                    return True
            elif arg in long or (short and set(short) & set(arg[1:])):
                return True
        return False

    def operands(self, valued: str = "") -> Args:
        """Those that are no options, nor the values of some."""
        taking = valued.split()
        rest = Args()
        skip = ended = False
        for arg in self:
            if skip:
                skip = False
            elif arg == "--" and not ended:
                ended = True
            elif arg.startswith("-") and arg != "-" and not ended:
                skip = arg in taking
            else:
                rest.append(arg)
        return rest

    def behind(self, valued: str, before: int = 0) -> Args:
        """What stands behind a wrapper's own options and words: a command."""
        taking = valued.split()
        at = 0
        while at < len(self) and (self[at][:1] == "-" or _ASSIGNED.match(self[at])):
            if self[at] == "--":
                at += 1
                break
            bundled = re.fullmatch(r"-[A-Za-z]*([A-Za-z])", self[at])
            last = f"-{bundled[1]}" if bundled else ""
            at += 2 if last in taking or self[at] in taking else 1
        return self[at + before :]

    def value_of(self, *names: str) -> Arg | None:
        """The value of an option: `-o x`, `-ox`, `--out=x`."""
        for place, arg in enumerate(self):
            for name in names:
                bundled = len(name) == 2 and re.fullmatch(rf"-[A-Za-z]+{name[1]}", arg)
                if (arg == name or bundled) and place + 1 < len(self):
                    return self[place + 1]
                if arg.startswith(name + "=") or (
                    len(name) == 2 and arg.startswith(name) and arg != name
                ):
                    return Arg(arg[len(name) :].lstrip("="), *arg.trace)
        return None

    def place_of(self, pattern: str) -> int:
        """Where the first word of a kind stands; behind all if there is none."""
        found = (at for at, a in enumerate(self) if re.fullmatch(pattern, a, re.DOTALL))
        return next(found, len(self))

    def behind_dashes(self) -> Args:
        """What stands behind `--`: another's words."""
        return self[self.place_of("--") + 1 :]


class Output(NamedTuple):
    """What a command sends on: its text if that is known, and where it comes from."""

    text: str | None = None
    origin: str = ""  # DOWNLOADED, DECODED, SECRET or nothing
    what: str = ""

    @property
    def trace(self) -> tuple[str, str]:
        return self.origin, self.what

    def mixed(self, other: Output) -> Output:
        """With what else flows in: words that nobody knows."""
        return Output(None, self.origin or other.origin, self.what or other.what)


NOTHING = Output("")
UNSEEN = Output()


class Call(NamedTuple):
    """A program, its arguments, and what is piped into it."""

    name: str
    args: Args
    given: Output = NOTHING
    valued: str = ""  # its options that take a word, by the table

    @property
    def operands(self) -> Args:
        return self.args.operands(self.valued)

    @property
    def shown(self) -> str:
        return shown(self.name, self.args)


def shown(name: str, args: Sequence[str]) -> str:
    """A command as it is named to a person."""
    short = [arg for arg in args[:8] if len(arg) < 40 and "\n" not in arg]
    return " ".join([name, *short[:4]]).replace(UNKNOWN, "…")


def printed_secret(name: str, args: Args) -> Output | None:
    """What a program prints that is told to print a secret."""
    if pattern("prints_secret").match(" ".join([name, *args[:3]])):
        return Output(None, SECRET, f"$({shown(name, args)})")
    return None


class ShellState:
    """See the top of this file."""

    def __init__(
        self,
        rules: PathRules,
        cwd: str,
        programs: Mapping[str, Program],
        mask: Callable[[str], str],
        budget: Budget,
    ) -> None:
        self.rules = rules
        self.cwd = cwd
        self.programs = programs
        self.mask = mask
        self.budget = budget
        # What was seen, by key, in order, each thing once; all copies write here.
        self.marks: dict[str, list[str]] = {}
        self.facts: dict[str, list[str]] = {}
        self.may_run: dict[str, None] = {}  # files
        self.depth = 0
        self.foreign = False
        self.variables: dict[str, tuple[Arg, ...]] = {
            name: (Arg(value),) for name, value in _VARIABLES.items()
        }
        self.variables["HOME"] = (Arg(rules.home or "/home/user"),)
        if rules.project:
            self.variables["CLAUDE_PROJECT_DIR"] = (Arg(rules.project),)
        # What is known to be in files that this call has made, `<( )` among them.
        self.files: dict[str, Output] = {}
        self.ran: set[str] = set()
        self.unpacked: dict[str, str] = {}  # folders with what came in an archive

    def copy(self) -> ShellState:
        """For a subshell: what changes in it stays in it."""
        state = ShellState.__new__(ShellState)
        state.__dict__.update(self.__dict__)
        state.variables = dict(self.variables)
        return state

    # What was seen.

    def note(self, key: str, what: str) -> None:
        """A mark or a fact, as its key says."""
        level = self.marks if key.startswith("danger.") else self.facts
        whats = level.setdefault(key, [])
        # Masked before it is cut: half a secret is not known for what it is.
        told = self.mask(_ODD.sub("…", what[:MAX_MASKED]))[: MAX_SHOWN * 4]
        if told and told not in whats and len(whats) < MAX_WHATS:
            whats.append(told)
        if key == "fact.host":
            self._look_at(what)

    def _look_at(self, name: str) -> None:
        """Say so if a name could be taken for another."""
        odd = odd_letters(name)
        if odd:
            self.note("fact.letters", odd)

    def unread(self, text: str) -> None:
        """A text that could not be followed: the words in it that alarm."""
        if not text:
            return
        self.note("fact.unread", "")
        if len(text) > MAX_SEARCHED:
            self.note("danger.unread", "…")
            return
        for word, found in _alarming().items():
            if word in text and found.search(text):
                self.note("danger.unread", word)

    # Texts that are run.

    def run(self, text: str, foreign: bool = False, given: Output = NOTHING) -> Output:
        """Follow a text as a shell would that is `given` something to read."""
        text = text if isinstance(text, Arg) else Arg(text)
        self.suspicious(text)
        if pattern("bomb").search(text[:1000]):
            self.note("danger.machine", text[:40])
        if not _SAYS.search(text):
            if UNKNOWN in text and not text.origin:
                self.note("fact.opaque", "")
            return UNSEEN
        self.depth += 1
        if self.depth > MAX_NESTED or not self.spend(min(len(text), MAX_TEXT), 100):
            self.unread(text)
            self.depth -= 1
            return UNSEEN
        before, self.foreign = self.foreign, self.foreign or foreign
        read = _ODD.sub("${_}", text[:MAX_TEXT])  # the rest is only searched for words
        script = parse(read + text[MAX_TEXT:], self.budget)
        flow = self.walk(script, given)
        self.unread(script.unread)
        self.foreign = before
        self.depth -= 1
        return flow

    def spend(self, size: int, rate: int) -> bool:
        """Charge for so many characters at once; whether there was enough left."""
        self.budget.left -= size // rate
        return self.budget.left >= 0

    def suspicious(self, source: Arg | Output | None) -> None:
        """Something is run that may come from elsewhere."""
        if source is not None and source.origin in (DOWNLOADED, DECODED):
            self.note(f"danger.{source.origin}", source.what)

    def run_input(self, flow: Output) -> None:
        """What is piped into a shell."""
        if flow.text is not None:
            self.run(Arg(flow.text, *flow.trace))
        elif flow.origin in (DOWNLOADED, DECODED):
            self.suspicious(flow)
        else:
            self.note("fact.opaque", flow.what)

    def walk(self, script: Script, given: Output = NOTHING) -> Output:
        """Follow commands in their order, all given the same; what they send on."""
        flows: list[Output] = []
        for at, pipeline in enumerate(script.pipelines):
            first = pipeline[0]
            if first.closes:  # `{ a; b; } | c`, `done > file`
                flows = [self._pipeline(pipeline, _together(flows))]
            elif first.words and first.words[0].plain() == "read":
                # In a loop it gets what stands behind: `done < file`.
                rest = script.pipelines[at + 1 : at + MAX_FIELDS]
                closers = (later[0] for later in rest if later[0].closes)
                loop = next((c for c in closers if c.redirects or c.stdin), None)
                source = self._inputs(loop, given) if loop else given
                flows.append(self._pipeline(pipeline, source))
            elif not first.is_empty():
                flows.append(self._pipeline(pipeline, given))
        return _together(flows)

    def _pipeline(self, pipeline: Sequence[Command], flow: Output) -> Output:
        state = self if len(pipeline) == 1 else self.copy()
        for command in pipeline:
            flow = state._command(command, flow)
        last = pipeline[-1].words
        if last and last[0].plain() == "read":  # its loop is read after it
            self.variables.update(state.variables)
        return flow

    def _command(self, command: Command, flow: Output) -> Output:
        if self.budget.left < 0:
            return UNSEEN
        if command.stdin is not None:
            text = self.unsplit(command.stdin)
            flow = Output(None if text == UNKNOWN else str(text), text.origin)
        flow = self._inputs(command, flow)
        for word in command.aside:  # `case $(this runs) in`
            self.unsplit(word)
        if command.body is not None:
            out = self.copy().walk(command.body, flow)
            flow = out if out.text != "" or out.origin else flow
        if command.words:
            flow = self._simple(command, flow)
        self._outputs(command, flow)
        return flow

    def _inputs(self, command: Command, flow: Output) -> Output:
        for operator, target in command.redirects:
            if operator == "<":
                for path in self.expand(target):
                    self._may_run([path])
                    flow = (
                        self.reads(path)
                        or self.content(path)
                        or Output(None, path.origin, path.what or path)
                    )
        return flow

    def _outputs(self, command: Command, flow: Output) -> None:
        for operator, target in command.redirects:
            if operator == "<" or operator == "<&":
                continue
            for path in self.expand(target):
                if operator == ">&" and re.fullmatch(r"[0-9]+-?|-", path):
                    continue
                socket = pattern("socket").fullmatch(path)
                if socket:  # a shell on it does what the host says
                    host = socket[1]
                    self.note("fact.host", host)
                    first = command.words[0].plain() if command.words else ""
                    if host not in LOCAL and first in ("exec", "sh", "bash", "zsh"):
                        self.note("danger.downloaded", host)
                    self.leaks(flow, host)
                    continue
                appends = operator in (">>", "&>>")
                self.writes(path, appends)
                self.keep(path, flow, appends)

    def keep(self, path: str, flow: Output, appends: bool = False) -> None:
        """Remember what is in a file, and where that comes from."""
        full = self.rules.full(path, self.cwd)
        before = self.files.pop(full, None)
        if before is not None and appends and len(before.text or "") < MAX_KEPT:
            text = (before.text or "") + (flow.text or "") or None
            flow = flow if flow.origin else before
            flow = flow._replace(text=text)
        if flow.origin or flow.text:
            self.files[full] = flow
            self.holds(path, flow.text or "")

    def content(self, path: str) -> Output | None:
        """What is known to be in a file."""
        return self.files.get(self.rules.full(path, self.cwd))

    def _simple(self, command: Command, flow: Output) -> Output:
        if command.words[0].plain() in ("for", "select"):
            return self._loop(command.words)
        fields: list[Arg] = []
        alone = all(map(_is_assignment, command.words))
        for word in command.words:
            if not fields and _is_assignment(word):
                value = self.unsplit(word)
                self.assign(value, keep=alone or value.startswith("CDPATH="))
                continue
            fields += self.expand(word)
            if len(fields) > MAX_FIELDS:
                self.note("fact.unread", "")
                break
        return self.call(fields[:MAX_FIELDS], flow) if fields else NOTHING

    def _loop(self, words: Sequence[Word]) -> Output:
        name = words[1].plain() if len(words) > 1 else ""
        values = [value for word in words[3:] for value in self.expand(word)]
        if len(words) == 2:  # over what `$@` stands for
            given = self.variables.get("@", (Arg(UNKNOWN),))[0]
            values = [Arg(value) for value in given.split(SPLIT)]
        if name and values:
            self.variables[name] = tuple(values[:MAX_VALUES])
        return NOTHING

    def assign(self, text: Arg, keep: bool = True) -> None:
        """`NAME=value`: for one command, or kept, as by itself or behind `export`."""
        name, _, value = text.partition("=")
        loads = bool(pattern("loads").match(text[:MAX_MASKED]))
        if name == "PATH":  # any program after it may be another one
            self._may_run((UNKNOWN,))
            loads = loads or self._leads(value)
        if name in words("run by others") and value:
            self.run(Arg(value, *text.trace))
        if loads:
            self.note("danger.inject", text)
        if pattern("registry").match(text) and (keep or "=http:" in text):
            self.note("danger.packages", text)
        if keep and name:
            if name.endswith("+"):
                value = self.variables.get(name[:-1], (Arg(""),))[0] + value
            self.variables[name.rstrip("+")] = (Arg(value, *text.trace),)

    def _leads(self, path: str) -> bool:
        """Whether a folder that anybody may write to comes before the system's."""
        folders = path.split(":")
        is_system = pattern("system_program").match
        system = (f for f in folders if f == UNKNOWN or is_system(f + "/"))
        first = folders[: folders.index(next(system, folders[-1]))]
        return any(
            folder in ("", ".", "..") or self.place(folder).kind == TEMPORARY
            for folder in first
        )

    def call(self, fields: Sequence[Arg], flow: Output) -> Output:
        """A program with its arguments, by its name."""
        self.budget.left -= 1
        if not fields or self.budget.left < 0:
            return UNSEEN
        word, rest = fields[0], Args(fields[1:])
        name = word.rpartition("/")[2].lower()
        name = re.sub(r"\.exe\Z", "", name)
        self.suspicious(word)
        if "/" in word:  # it may have been fetched before, alone or in an archive
            self.came(word)
            self.run_file(self.content(word))
        self._look_at(name)
        if name not in self.programs:  # python3.11
            name = re.sub(r"[-.]?\d[\d.]*\Z", "", name[:MAX_SHOWN])
        if name not in self.programs and _GLOB.search(name):
            return self._globbed(name, rest, flow)
        self._may_run(files_of(name, fields))
        if name in self.programs and not self._is_projects(word):
            if self.depth >= MAX_NESTED:
                self.unread(" ".join(fields))
                return UNSEEN
            self.depth += 1
            out = self.follow(name, rest, flow)
            self.depth -= 1
            return out
        if UNKNOWN in word:  # only the run will tell: by its options it may delete
            self.note("fact.opaque", word)
            if any(map(_FORCED.fullmatch, rest)):
                return self.follow("rm", rest, flow)
        return self.follow(name, [word, *rest], flow, ANY)

    def follow(
        self, name: str, args: Sequence[Arg], given: Output, program: str = ""
    ) -> Output:
        """A program that the table knows, or a row of it for others."""
        row = programs().get(name)
        call = Call(name, Args(args), given, row.valued if row else "")
        out = self.programs[program or name](self, call)
        return NOTHING if out is None else out

    def _may_run(self, words: Iterable[str]) -> None:
        """Remember what could be files that this call runs."""
        for word in () if self.foreign else words:
            if len(word) > MAX_PATH:  # no file has such a name
                continue
            full = self.rules.full(word, self.cwd)
            # More than anybody would look at: what runs is not known.
            full = full if len(self.may_run) < MAX_FILES else UNKNOWN
            self.may_run[full] = None

    def _globbed(self, pattern: str, rest: Args, flow: Output) -> Output:
        """`/bin/r?`: any program with such a name."""
        self.budget.left -= GLOB_STEPS
        names = fnmatch.filter(self.programs, pattern[:MAX_GLOB])
        if not re.search(r"\w", pattern) or len(names) > MAX_VALUES:
            names = [name for name in names if name in ("rm", "sudo", "sh", "bash")]
        for name in names:
            self.call([Arg(name), *rest], flow)
        return UNSEEN

    def _is_projects(self, word: Arg) -> bool:
        """Whether a program only has the name of one that is known."""
        full = self.rules.full(word, self.cwd)
        is_systems = pattern("system_program").match(full) is not None
        return word.startswith(("./", "../")) and not is_systems

    def brings(self, folder: str, where: str) -> None:
        """A folder is filled from elsewhere."""
        if len(self.unpacked) < MAX_WHATS:
            self.unpacked[self.rules.full(folder, self.cwd)] = where

    def came(self, path: str) -> None:
        """What is run may have come in an archive or a repository."""
        full = self.rules.full(path, self.cwd) + "/"
        for top, where in self.unpacked.items():
            if full.startswith(top + "/"):
                self.note("danger.downloaded", where)

    def run_file(self, content: Output | None, language: str = "") -> None:
        """A file is run, as a script or in a language, if its content is known."""
        self.suspicious(content)
        text = (content and content.text) or ""
        if content is None or text in self.ran:  # what runs itself is read once
            return
        self.ran.add(text)
        shebang = pattern("shebang").match(text[:MAX_SHEBANG])
        name = language or (shebang[1] if shebang else "")
        if name in self.programs and text:
            self.follow(name, [], content._replace(origin=""))
        elif text:
            self.run(Arg(text))

    # Words.

    def unsplit(self, word: Word) -> Arg:
        """A word where it is not split: the first of its values."""
        return self._product(word, whole=True)[0]

    def expand(self, word: Word) -> list[Arg]:
        """The words that a word becomes."""
        fields = [
            Arg(field, *value.trace)
            for value in self._product(word, whole=False)
            for field in value.split(SPLIT, MAX_FIELDS)
            if field or SPLIT not in value
        ]
        plain = (p.text for p in word.parts if p.kind == LITERAL and not p.quoted)
        if not any("{" in text for text in plain):
            return fields
        if sum(map(len, fields)) >= MAX_BRACED:
            return fields
        return [Arg(text, *field.trace) for field in fields for text in _braced(field)]

    def _product(self, word: Word, whole: bool) -> list[Arg]:
        values = [Arg("")]
        for part in word.parts:
            values = _joined(values, self._values(part, whole))
        return values

    def _values(self, part: Part, whole: bool) -> list[Arg]:
        if part.kind == LITERAL:
            return [Arg(part.text)]
        if part.kind == SUBSTITUTION:
            assert part.script is not None
            return [self._substituted(part, whole)]
        values = list(self._variable(part))
        split = not (part.quoted or whole)
        self.spend(sum(map(len, values)), 25 if split else 100)
        if not split:
            return values
        return [Arg(re.sub(r"\s+", SPLIT, v), *v.trace) for v in values]

    def _substituted(self, part: Part, whole: bool) -> Arg:
        assert part.script is not None
        state = self.copy()
        state.depth += 1
        flow = state.walk(part.script) if state.depth <= MAX_NESTED else UNSEEN
        if state.depth > MAX_NESTED:
            self.note("fact.unread", "")
        if part.is_file:
            path = f"/dev/fd/{63 + len(self.files)}"
            self.files[path] = flow
            return Arg(path, *flow.trace)
        if flow.text is None:
            return Arg(UNKNOWN, *flow.trace)
        text = flow.text.strip("\n")
        if not part.quoted and not whole:
            text = re.sub(r"\s+", SPLIT, text)
        return Arg(text, *flow.trace)

    def _variable(self, part: Part) -> Iterable[Arg]:
        if part.text == "PWD":
            return (Arg(self.cwd),)
        default = part.default
        unset = Arg(UNKNOWN)
        if pattern("secret_name").fullmatch(part.text):
            unset = Arg(UNKNOWN, SECRET, f"${part.text}")
        values: list[Arg] = list(self.variables.get(part.text, (unset,)))
        if default is None or not default.parts:
            return values
        operator = self.unsplit(default)
        match = re.match(r":?[-=+]", operator)
        if match:
            other = Arg(operator[match.end() :], *operator.trace)
            return [*values, other] if values[0] != "" else [other]
        if operator.startswith((":?", "?", "[")):
            return values
        return [Arg(UNKNOWN, *values[0].trace)]

    def positional(self, args: Sequence[Arg]) -> None:
        """What `$1` and `$@` stand for, from `$0` on."""
        for number, arg in enumerate(args[:MAX_VALUES]):
            self.variables[str(number)] = (arg,)
        joined = Arg(SPLIT.join(args[1:MAX_FIELDS]))
        self.variables["@"] = self.variables["*"] = (joined,)

    # Arguments.

    def run_value(self, args: Args, *names: str) -> None:
        """The value of an option is run."""
        text = args.value_of(*names)
        if text is not None:
            self.run(text)

    def visit(self, text: str) -> None:
        for match in HOST.finditer(text[:2000]):
            self.note("fact.host", match[1].replace(UNKNOWN, "…"))

    def look(self, args: Iterable[Arg]) -> Output:
        """Paths and hosts among arguments: facts, and keys that flow on."""
        flow = UNSEEN
        for arg in args:
            self.visit(arg)
            path = arg.partition("=")[2] if arg.startswith("-") else arg
            path = path[1:] if path.startswith("@") else path
            pathlike = PATHLIKE.match(path) and "://" not in path
            if (pathlike or is_secret(path)) and "\n" not in path[:200]:
                flow = self.reads(path) or flow
            elif arg.origin:
                flow = Output(None, *arg.trace)
        return flow

    def outputs(self, name: str, args: Args) -> None:
        """A file outside of the project that an option says is to be written."""
        path = args.value_of(*words("output options"), *lists("outputs").get(name, ()))
        if path is not None and (PATHLIKE.match(path) or self.place(path).protected):
            self.writes(path)

    def recognise(self, name: str, args: Sequence[str]) -> bool:
        """Whether a command is known by its words; what it does is noted."""
        keys = deeds(name.lower(), args)
        for key in keys:
            self.note(key, shown(name, args))
        return bool(keys)

    # Files.

    def place(self, path: str) -> Place:
        return self.rules.place(path, self.cwd, self.foreign)

    def show(self, place: Place) -> str:
        if self.foreign:
            return place.path.replace(UNKNOWN, "…")
        return self.rules.show(place.path)

    def reads(self, path: str) -> Output | None:
        """A file is read: what leaves it, if it is a key."""
        place = self.place(path)
        if place.protected == "danger.keys":
            self.note("fact.keys", self.show(place))
            return Output(None, SECRET, self.show(place))
        if is_secret(place.path):
            return Output(None, SECRET, self.show(place))
        if place.kind == OUTSIDE:
            self.note("fact.outside", self.show(place))
        return self.brought(path)

    def brought(self, path: str) -> Output | None:
        """What leaves a file that holds something from elsewhere."""
        content = self.content(path)
        return content if content is not None and content.origin else None

    def leaks(self, flow: Output | Arg, host: str) -> None:
        """Something is sent: keys must not leave silently."""
        if flow.origin == SECRET and host not in LOCAL:
            self.note("danger.leak", f"{flow.what} → {host}")

    def writes(self, path: str, appends: bool = False) -> None:
        """A file is written."""
        place = self.place(path)
        if place.kind == NOWHERE:
            return
        if place.device:
            self.note("danger.device", place.path)
        elif place.protected:
            self.note(place.protected, self.show(place))
        elif place.kind == OUTSIDE and appends:
            self.note("fact.outside", self.show(place))
        elif place.kind == OUTSIDE:
            self.note("danger.overwrite", self.show(place))
        elif place.kind == UNSURE:
            self.note("fact.opaque", f"> {path}")

    def holds(self, path: str, text: str, before: str = "") -> None:
        """A text is put into a file that may govern others by what is in it."""
        before = before[:MAX_SEARCHED]
        for key, what in governs(path, text):
            if what not in before:
                self.note(key, f"{path.rpartition('/')[2]}: {what}")

    def rewrites(self, path: str) -> None:
        """A file is written that is there: of note if it governs others."""
        if self.place(path).protected:
            self.writes(path)

    def deletes(self, path: str, recursive: bool = False) -> None:
        """A file or folder is deleted."""
        place = self.place(path)
        if place.kind == NOWHERE:
            return
        shown = self.show(place)
        unsure = recursive and place.kind == UNSURE
        history = place.kind == INSIDE and _HISTORY.match(shown)
        if place.device:
            self.note("danger.device", place.path)
        else:
            part, whole = _DELETED[place.kind]
            lost = whole if place.whole or unsure or history else part
            self.note(place.protected or lost, shown)


def _is_assignment(word: Word) -> bool:
    first = word.parts[0] if word.parts else None
    if first is None or first.kind != LITERAL or first.quoted:
        return False
    return _ASSIGNMENT.match(first.text) is not None


def _together(flows: Sequence[Output]) -> Output:
    """What several commands send on, one after the other."""
    texts = [flow.text for flow in flows if flow.text is not None]
    whole = len(texts) == len(flows) or any(texts)
    origin = next((flow for flow in flows if flow.origin), None)
    origin = origin or (flows[-1] if flows else NOTHING)
    return Output("".join(texts) if whole else None, *origin.trace)


def _joined(values: list[Arg], more: list[Arg]) -> list[Arg]:
    return [
        Arg(value + other, value.origin or other.origin, value.what or other.what)
        for value in values
        for other in more
    ][:MAX_VALUES]


def _braced(text: str) -> list[str]:
    """`a{b,c}` as `ab` and `ac`."""
    fields = [text]
    done: list[str] = []
    while fields and len(fields) + len(done) < MAX_VALUES * 4:
        field = fields.pop(0)
        match = _BRACES.search(field)
        if match is None:
            done.append(field)
        else:
            before, after = field[: match.start()], field[match.end() :]
            fields += [before + part + after for part in match[1].split(",")]
    return done + fields
