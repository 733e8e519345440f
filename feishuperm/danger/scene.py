"""What a call would do, step by step: commands are followed, not run.

A `Scene` knows where it stands (folder, variables, whether on another machine), what
has been seen so far (`marks`, `facts`) and what was downloaded.  Words are expanded as
far as the text itself tells; what only the run will tell becomes `UNKNOWN` in them.
Every program of `danger.programs` gets its arguments and what is piped into it, and
says what it sends on.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from feishuperm.danger.letters import odd_letters
from feishuperm.danger.places import (
    INSIDE,
    MAX_PATH,
    NOWHERE,
    OUTSIDE,
    TEMPORARY,
    UNKNOWN,
    UNSURE,
    Ground,
    Place,
    governs,
    is_secret,
)
from feishuperm.danger.running import files_of
from feishuperm.danger.shell import (
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

Args = list["Arg"]
Program = Callable[["Scene", str, Args, "Flow"], "Flow"]

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
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
_VARIABLES = {
    "TMPDIR": "/tmp/x", "IFS": " ", "?": "0", "#": "0", "!": "9999", "$": "9999",
    "RANDOM": "1", "USER": "user",
}  # fmt: skip
# What other programs run as a command, or even at every prompt.
_RUN = frozenset(
    [
        *("PAGER", "GIT_PAGER", "MANPAGER", "EDITOR", "VISUAL", "GIT_EDITOR"),
        *("GIT_SEQUENCE_EDITOR", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF"),
        *("GIT_ASKPASS", "SSH_ASKPASS", "PROMPT_COMMAND", "LESSOPEN"),
    ]
)
# What makes every program load code first; the system's own libraries may be.
_LOADS = re.compile(
    r"(?:LD_PRELOAD|LD_AUDIT|DYLD_INSERT_LIBRARIES)=(?!/usr/|/lib|/opt/homebrew/)."
    r"|(?:BASH_ENV|PYTHONSTARTUP|PROMPT_COMMAND|PERL5DB|GCONV_PATH)=."
    r"|(?:NODE_OPTIONS|RUBYOPT|PERL5OPT|JAVA_TOOL_OPTIONS)=.*"
    r"(?:-r|--require|--import|--loader|-M|-javaagent)[= :]?(?:~|/|\.\.)",
    re.DOTALL,
)
# Where packages come from.
_REGISTRY = re.compile(
    r"(?i:npm_config_registry|yarn_(?:npm_)?registry\w*|pip_(?:extra_)?index_url|uv_\w*index"
    r"\w*|goproxy|bundle_mirror\w*)=.*://"
)
# Names of variables that hold what is secret.
_SECRET_NAME = re.compile(
    r"(?:\w+_)?(?:TOKEN|SECRET|PASSWORD|PASSWD|APIKEY|(?:API|ACCESS|PRIVATE|SECRET)_KEY"
    r"|SECRET_ACCESS_KEY|CREDENTIALS)",
    re.ASCII,
)
_BOMB = re.compile(r"([^\s(){}|&;]{1,20})\(\)\s*\{\s*\1\s*\|\s*\1\s*&")
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/([^/]+)/.*")
_SHEBANG = re.compile(
    r"#!\s*\S*?/?(?:env\s+(?:-S\s+)?)?([a-z]+)[\d.]*\s*$", re.MULTILINE
)
# A relative path may lead there too; any other is a program of the project's own.
_SYSTEM = re.compile(r"/(?:usr/(?:local/)?)?s?bin/|.*/feishuperm\.pyz\Z")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_GLOB = re.compile(r"[*?\[]")
# A place's kind -> what it is to delete something there, and all of it.
_DELETED = {
    INSIDE: ("fact.deletes", "danger.wipe"),
    TEMPORARY: ("fact.deletes", "danger.delete"),
    UNSURE: ("fact.deletes", "danger.unsure"),
    OUTSIDE: ("danger.delete", "danger.delete"),
}
_ODD = re.compile(r"[\0\1]")
_SAYS = re.compile(r"[^\0\s]")
# What is looked for in a text that cannot be read: the last letters first, so that
# the search can leap.
ALARMING = (
    "rm", "sudo", "doas", "dd", "mkfs", "shred", "curl", "wget", "base64", "eval",
    "chmod", "chown", "shutdown", "reboot", "unlink", "rmdir", "truncate", "crontab",
    "git push", "git reset", "git clean", "npm publish", "terraform", "kubectl",
    "drop table", "DROP TABLE", "DROP DATABASE", "drop database", "TRUNCATE",
    "DELETE FROM", "rmtree", "rmSync", "Remove-Item", "iex", "authorized_keys",
    ".bashrc",
)  # fmt: skip
_ALARMING = {
    word: re.compile(rf"{re.escape(word)}(?<!\w{re.escape(word)})(?![\w-])", re.ASCII)
    for word in ALARMING
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


class Flow(NamedTuple):
    """What a command sends on: its text if that is known, and where it comes from."""

    text: str | None = None
    origin: str = ""  # DOWNLOADED, DECODED, SECRET or nothing
    what: str = ""

    @property
    def trace(self) -> tuple[str, str]:
        return self.origin, self.what

    def mixed(self, other: Flow) -> Flow:
        """With what else flows in: words that nobody knows."""
        return Flow(None, self.origin or other.origin, self.what or other.what)


NOTHING = Flow("")
UNSEEN = Flow()


class Findings:
    """What was seen: by key, in order, each thing once."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self.marks: dict[str, list[str]] = {}
        self.facts: dict[str, list[str]] = {}
        self.files: dict[str, None] = {}  # that may be run, each once
        self._mask = mask

    def add(self, key: str, what: str) -> None:
        """A mark or a fact, as its key says."""
        level = self.marks if key.startswith("danger.") else self.facts
        whats = level.setdefault(key, [])
        # Masked before it is cut: half a secret is not known for what it is.
        what = self._mask(_ODD.sub("…", what[:MAX_MASKED]))[: MAX_SHOWN * 4]
        if what and what not in whats and len(whats) < MAX_WHATS:
            whats.append(what)


class Scene:
    """See the top of this file."""

    def __init__(
        self,
        ground: Ground,
        cwd: str,
        programs: Mapping[str, Program],
        findings: Findings,
        budget: Budget,
    ) -> None:
        self.ground = ground
        self.cwd = cwd
        self.programs = programs
        self.findings = findings
        self.budget = budget
        self.depth = 0
        self.foreign = False
        self.variables: dict[str, tuple[Arg, ...]] = {
            name: (Arg(value),) for name, value in _VARIABLES.items()
        }
        self.variables["HOME"] = (Arg(ground.home or "/home/user"),)
        if ground.project:
            self.variables["CLAUDE_PROJECT_DIR"] = (Arg(ground.project),)
        # What is known to be in files that this call has made, `<( )` among them.
        self.files: dict[str, Flow] = {}
        self.ran: set[str] = set()
        self.unpacked: dict[str, str] = {}  # folders with what came in an archive

    def copy(self) -> Scene:
        """For a subshell: what changes in it stays in it."""
        scene = Scene.__new__(Scene)
        scene.__dict__.update(self.__dict__)
        scene.variables = dict(self.variables)
        return scene

    # What was seen.

    def note(self, key: str, what: str) -> None:
        self.findings.add(key, what)
        if key == "fact.host":
            self._look_at(what)

    def _look_at(self, name: str) -> None:
        """Say so if a name could be taken for another."""
        odd = odd_letters(name)
        if odd:
            self.findings.add("fact.letters", odd)

    def unread(self, text: str) -> None:
        """A text that could not be followed: the words in it that alarm."""
        if not text:
            return
        self.note("fact.unread", "")
        if len(text) > MAX_SEARCHED:
            self.note("danger.unread", "…")
            return
        for word, pattern in _ALARMING.items():
            if word in text and pattern.search(text):
                self.note("danger.unread", word)

    # Texts that are run.

    def run(self, text: str, foreign: bool = False, given: Flow = NOTHING) -> Flow:
        """Follow a text as a shell would that is `given` something to read."""
        text = text if isinstance(text, Arg) else Arg(text)
        self.suspicious(text)
        if _BOMB.search(text[:1000]):
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

    def suspicious(self, source: Arg | Flow | None) -> None:
        """Something is run that may come from elsewhere."""
        if source is not None and source.origin in (DOWNLOADED, DECODED):
            self.note(f"danger.{source.origin}", source.what)

    def run_input(self, flow: Flow) -> None:
        """What is piped into a shell."""
        if flow.text is not None:
            self.run(Arg(flow.text, *flow.trace))
        elif flow.origin in (DOWNLOADED, DECODED):
            self.suspicious(flow)
        else:
            self.note("fact.opaque", flow.what)

    def walk(self, script: Script, given: Flow = NOTHING) -> Flow:
        """Follow commands in their order, all given the same; what they send on."""
        flows: list[Flow] = []
        for at, pipeline in enumerate(script.pipelines):
            first = pipeline[0]
            if first.closes:  # `{ a; b; } | c`, `done > file`
                flows = [self._pipeline(pipeline, _together(flows))]
            elif first.words and first.words[0].plain() == "read":
                source = self._read_from(script.pipelines[at + 1 :], given)
                flows.append(self._pipeline(pipeline, source))
            elif not first.is_empty():
                flows.append(self._pipeline(pipeline, given))
        return _together(flows)

    def _read_from(self, rest: Sequence[Sequence[Command]], given: Flow) -> Flow:
        """What `read` gets in a loop: `done < file` stands behind it."""
        closers = (pipeline[0] for pipeline in rest[:MAX_FIELDS] if pipeline[0].closes)
        command = next((c for c in closers if c.redirects or c.stdin), None)
        return given if command is None else self._inputs(command, given)

    def _pipeline(self, pipeline: Sequence[Command], flow: Flow) -> Flow:
        scene = self if len(pipeline) == 1 else self.copy()
        for command in pipeline:
            flow = scene._command(command, flow)
        last = pipeline[-1].words
        if last and last[0].plain() == "read":  # its loop is read after it
            self.variables.update(scene.variables)
        return flow

    def _command(self, command: Command, flow: Flow) -> Flow:
        if self.budget.left < 0:
            return UNSEEN
        if command.stdin is not None:
            text = self.unsplit(command.stdin)
            flow = Flow(None if text == UNKNOWN else str(text), text.origin)
        flow = self._inputs(command, flow)
        if command.body is not None:
            out = self.copy().walk(command.body, flow)
            flow = out if out.text != "" or out.origin else flow
        if command.words:
            flow = self._simple(command, flow)
        self._outputs(command, flow)
        return flow

    def _inputs(self, command: Command, flow: Flow) -> Flow:
        for redirect in command.redirects:
            if redirect.operator == "<":
                for path in self.expand(redirect.target):
                    self._may_run([path])
                    flow = (
                        self.reads(path)
                        or self.content(path)
                        or Flow(None, path.origin, path.what or path)
                    )
        return flow

    def _outputs(self, command: Command, flow: Flow) -> None:
        for redirect in command.redirects:
            operator = redirect.operator
            if operator == "<" or operator == "<&":
                continue
            for path in self.expand(redirect.target):
                if operator == ">&" and re.fullmatch(r"[0-9]+-?|-", path):
                    continue
                socket = _SOCKET.fullmatch(path)
                if socket:
                    self._connects(socket[1], command, flow)
                    continue
                appends = operator in (">>", "&>>")
                self.writes(path, appends)
                self.keep(path, flow, appends)

    def _connects(self, host: str, command: Command, flow: Flow) -> None:
        """`> /dev/tcp/host/port`: a shell on it does what the host says."""
        self.note("fact.host", host)
        first = command.words[0].plain() if command.words else ""
        if host not in LOCAL and first in ("exec", "sh", "bash", "zsh"):
            self.note("danger.downloaded", host)
        self.leaks(flow, host)

    def keep(self, path: str, flow: Flow, appends: bool = False) -> None:
        """Remember what is in a file, and where that comes from."""
        full = self.ground.full(path, self.cwd)
        before = self.files.pop(full, None)
        if before is not None and appends and len(before.text or "") < MAX_KEPT:
            text = (before.text or "") + (flow.text or "") or None
            flow = flow if flow.origin else before
            flow = flow._replace(text=text)
        if flow.origin or flow.text:
            self.files[full] = flow
            self.holds(path, flow.text or "")

    def content(self, path: str) -> Flow | None:
        """What is known to be in a file."""
        return self.files.get(self.ground.full(path, self.cwd))

    def _simple(self, command: Command, flow: Flow) -> Flow:
        if command.words[0].plain() in ("for", "select"):
            return self._loop(command.words)
        fields: list[Arg] = []
        alone = all(map(_is_assignment, command.words))
        for word in command.words:
            if not fields and _is_assignment(word):
                self._assign(word, alone)
                continue
            fields += self.expand(word)
            if len(fields) > MAX_FIELDS:
                self.note("fact.unread", "")
                break
        return self.call(fields[:MAX_FIELDS], flow) if fields else NOTHING

    def _loop(self, words: Sequence[Word]) -> Flow:
        name = words[1].plain() if len(words) > 1 else ""
        values = [value for word in words[3:] for value in self.expand(word)]
        if len(words) == 2:  # over what `$@` stands for
            given = self.variables.get("@", (Arg(UNKNOWN),))[0]
            values = [Arg(value) for value in given.split(SPLIT)]
        if name and values:
            self.variables[name] = tuple(values[:MAX_VALUES])
        return NOTHING

    def _assign(self, word: Word, alone: bool) -> None:
        """A word before the command sets a variable: for it, or from now on."""
        value = self.unsplit(word)
        self.assign(value, keep=alone or value.startswith("CDPATH="))

    def assign(self, text: Arg, keep: bool = True) -> None:
        """`NAME=value`, by itself or as an argument of `export`."""
        name, _, value = text.partition("=")
        self._judge_variable(text, name, value, keep)
        if keep and name.endswith("+"):
            value = self.variables.get(name[:-1], (Arg(""),))[0] + value
        if keep and name:
            self.variables[name.rstrip("+")] = (Arg(value, *text.trace),)

    def _judge_variable(self, text: Arg, name: str, value: str, keep: bool) -> None:
        if name == "PATH":  # any program after it may be another one
            self._may_run((UNKNOWN,))
        if name in _RUN and value:
            self.run(Arg(value, *text.trace))
        if _LOADS.match(text[:MAX_MASKED]) or (name == "PATH" and self._leads(value)):
            self.note("danger.inject", text)
        if _REGISTRY.match(text) and (keep or "=http:" in text):
            self.note("danger.packages", text)

    def _leads(self, path: str) -> bool:
        """Whether a folder that anybody may write to comes before the system's."""
        folders = path.split(":")
        system = (f for f in folders if f == UNKNOWN or _SYSTEM.match(f + "/"))
        first = folders[: folders.index(next(system, folders[-1]))]
        return any(
            folder in ("", ".", "..") or self.place(folder).kind == TEMPORARY
            for folder in first
        )

    def call(self, fields: Sequence[Arg], flow: Flow) -> Flow:
        """A program with its arguments, by its name."""
        self.budget.left -= 1
        if not fields or self.budget.left < 0:
            return UNSEEN
        word, rest = fields[0], list(fields[1:])
        name = word.rpartition("/")[2].lower()
        name = re.sub(r"\.exe\Z", "", name)
        self._origin_of(word)
        self._look_at(name)
        if name not in self.programs:  # python3.11
            name = re.sub(r"[-.]?\d[\d.]*\Z", "", name[:MAX_SHOWN])
        if name not in self.programs and _GLOB.search(name):
            return self._globbed(name, rest, flow)
        self._may_run(files_of(name, fields))
        program = self.programs.get(name)
        if program is not None and not self._is_projects(word):
            self.depth += 1
            try:
                if self.depth > MAX_NESTED:
                    self.unread(" ".join(fields))
                    return UNSEEN
                return program(self, name, rest, flow)
            finally:
                self.depth -= 1
        if UNKNOWN in word:
            return self._opaque(word, rest, flow)
        return self.programs[ANY](self, name, [word, *rest], flow)

    def _may_run(self, words: Iterable[str]) -> None:
        """Remember what could be files that this call runs."""
        for word in () if self.foreign else words:
            if len(word) > MAX_PATH:  # no file has such a name
                continue
            full = self.ground.full(word, self.cwd)
            # More than anybody would look at: what runs is not known.
            full = full if len(self.findings.files) < MAX_FILES else UNKNOWN
            self.findings.files[full] = None

    def _globbed(self, pattern: str, rest: list[Arg], flow: Flow) -> Flow:
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
        relative = word.startswith(("./", "../"))
        return relative and not _SYSTEM.match(self.ground.full(word, self.cwd))

    def _origin_of(self, word: Arg) -> None:
        """What is run may have been fetched before, alone or in an archive."""
        self.suspicious(word)
        if "/" not in word:
            return
        self.came(word)
        content = self.content(word)
        if content is not None:
            self.run_file(content)

    def brings(self, folder: str, where: str) -> None:
        """A folder is filled from elsewhere."""
        if len(self.unpacked) < MAX_WHATS:
            self.unpacked[self.ground.full(folder, self.cwd)] = where

    def came(self, path: str) -> None:
        """What is run may have come in an archive or a repository."""
        full = self.ground.full(path, self.cwd) + "/"
        for top, where in self.unpacked.items():
            if full.startswith(top + "/"):
                self.note("danger.downloaded", where)

    def run_file(self, content: Flow, language: str = "") -> None:
        """A file is run whose content is known, as a script or in a language."""
        self.suspicious(content)
        text = content.text or ""
        if text in self.ran:  # what runs itself is read once
            return
        self.ran.add(text)
        shebang = _SHEBANG.match(text[:MAX_SHEBANG])
        name = language or (shebang[1] if shebang else "")
        if name in self.programs and text:
            self.programs[name](self, name, [], content._replace(origin=""))
        elif text:
            self.run(Arg(text))

    def _opaque(self, word: Arg, rest: list[Arg], flow: Flow) -> Flow:
        """A program that only the run will tell: by its options it may delete."""
        self.note("fact.opaque", word)
        if any(re.fullmatch(r"-\w*[rR]\w*f\w*|-\w*f\w*[rR]\w*", arg) for arg in rest):
            return self.programs["rm"](self, "rm", rest, flow)
        return self.programs[ANY](self, ANY, [word, *rest], flow)

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
        if not _has_braces(word) or sum(map(len, fields)) >= MAX_BRACED:
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
        scene = self.copy()
        scene.depth += 1
        flow = scene.walk(part.script) if scene.depth <= MAX_NESTED else UNSEEN
        if scene.depth > MAX_NESTED:
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
        if _SECRET_NAME.fullmatch(part.text):
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

    # Files.

    def place(self, path: str) -> Place:
        return self.ground.place(path, self.cwd, self.foreign)

    def show(self, place: Place) -> str:
        if self.foreign:
            return place.path.replace(UNKNOWN, "…")
        return self.ground.show(place.path)

    def reads(self, path: str) -> Flow | None:
        """A file is read: what leaves it, if it is a key."""
        place = self.place(path)
        if place.protected == "danger.keys":
            self.note("fact.keys", self.show(place))
            return Flow(None, SECRET, self.show(place))
        if is_secret(place.path):
            return Flow(None, SECRET, self.show(place))
        if place.kind == OUTSIDE:
            self.note("fact.outside", self.show(place))
        return self.brought(path)

    def brought(self, path: str) -> Flow | None:
        """What leaves a file that holds something from elsewhere."""
        content = self.content(path)
        return content if content is not None and content.origin else None

    def leaks(self, flow: Flow | Arg, host: str) -> None:
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
        history = place.kind == INSIDE and _is_history(shown)
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


def _together(flows: Sequence[Flow]) -> Flow:
    """What several commands send on, one after the other."""
    texts = [flow.text for flow in flows if flow.text is not None]
    whole = len(texts) == len(flows) or any(texts)
    origin = next((flow for flow in flows if flow.origin), None)
    origin = origin or (flows[-1] if flows else NOTHING)
    return Flow("".join(texts) if whole else None, *origin.trace)


def _is_history(path: str) -> bool:
    return path == ".git" or path.endswith("/.git") or path.startswith(".git/")


def _has_braces(word: Word) -> bool:
    return any(
        part.kind == LITERAL and not part.quoted and "{" in part.text
        for part in word.parts
    )


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
