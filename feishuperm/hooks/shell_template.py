"""Shell text whose placeholders are safe expansions.

A template that mentions no variable is the author's own business and stays as it is.
One that does is read by `shell.reader`, and each placeholder in it becomes an expansion
that suits the quotes around it (`hooks.variables` says how), and so does each variable
that the template gives a value.  `judge` then looks at the commands: at their
words, at where their input comes from, and at which files are written.

Taken are simple commands, joined by `;`, `&&`, `||`, `|`, `&` and line ends; if, for,
while, until, case, `{ }` and `( )` around them; redirections and here-documents;
substitutions of commands of the same kind; `[[ ]]` with one comparison of texts.
Refused are arithmetic, functions, arrays, and everything that shells read differently:
the text is for whatever /bin/sh is, and where two shells disagree about a word, one of
them may make it a program.

What the commands of a template may do with a value:

A program has a literal name, or is a file of the author's.  It may take a value as an
argument, unless it runs its arguments; `SHAPES` says which words such a program may
have.  Input can bring a value too: what reads a pipe or a redirection is one of
`READERS`, or a file of the author's.  Values are written into files of data only, and
what another command names does not run.  Variables that a template sets are its own, in
small letters, or `HARMLESS`.  All else is refused, with the form to use instead.

What the author's program does with its arguments remains the author's duty, and so is
`--` before a value that could begin with a dash; that of a path never does.
"""

from __future__ import annotations

import itertools
import re

from feishuperm.hooks.variables import VARIABLES, UnsafeTemplate
from feishuperm.shell.programs import (
    EVALUATES,
    INTERPRETERS,
    PLAIN,
    SHELLS,
    TAKEN,
    words_of,
)
from feishuperm.shell.reader import (
    CLOSERS,
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

# In the text of a word: an event's value, the author's variable, what a command prints.
VALUE, OTHER, PRINTED = "\1", "\2", "\3"
CWD = VALUE + "\4"  # the one value that is a folder of the author's
MADE = VALUE + "\5"  # what a command prints that was given a value
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[.*\])?\+?=", re.DOTALL)


def _rows(section: str, known: dict[str, str]) -> dict[str, str]:
    """The text of each name, with the patterns in it that are known by then."""
    found: dict[str, str] = {}
    for line in "\n".join(_TABLE[section]).replace("\n  ", "").split("\n"):
        names, _, text = line.partition(" = ")
        for name, pattern in {**known, **found}.items():
            text = text.replace(f"{{{name}}}", pattern)
        found.update(dict.fromkeys(names.split(), text))
    return found


_TABLE = sections("hooks/shell_template.txt")
_PATTERNS = _rows("patterns", {"PLAIN": "|".join(PLAIN)})
FILE, DATA_FILE, MODULE, OWN, HARMLESS = (
    _PATTERNS[name] for name in ("FILE", "DATAFILE", "MODULE", "OWN", "HARMLESS")
)
SCRIPT_HINT, DATA_HINT, NAME_HINT = (
    _PATTERNS[name] for name in ("SCRIPT", "DATA", "NAME")
)
SYSTEM, PROGRAM = (re.compile(_PATTERNS[name]) for name in ("SYSTEM", "PROGRAM"))
_WORDS = _rows("words", {})
REFUSED, BUILTINS, READERS, LOOKERS, COPIERS = (
    words_of(_WORDS[name])
    for name in ("refused", "builtins", "readers", "lookers", "copiers")
)
_CODE = {
    **{name: code for name, code in INTERPRETERS.items() if name in PLAIN},
    **dict.fromkeys(("python", "pypy"), rf"{MODULE}.*|-\w*c|-m\0"),
    **dict.fromkeys(SHELLS, "(?!)"),
}
_NAMES = sorted({*PLAIN, *TAKEN, *EVALUATES}, key=len, reverse=True)
_VERSIONED = re.compile(rf"({'|'.join(_NAMES)}){_PATTERNS['VERSION']}")
HINTS = _rows("hints", _PATTERNS)
SHAPES = {
    **dict.fromkeys(BUILTINS | EVALUATES, r"[^\x01]*"),
    **{
        name: rf"(?:(?:{plain})\0)*(?:{FILE}\0.*|(?:{_CODE[name]})[^\x01]*)"
        for name, plain in PLAIN.items()
    },
    **_rows("shapes", _PATTERNS),
}

# The text of a template.
_VARIABLE = "|".join(VARIABLES)
PLACEHOLDER = re.compile(rf"\$(?:\{{({_VARIABLE})\}}|({_VARIABLE})(?![A-Za-z0-9_]))")
BRACED = re.compile(r"\$\{([#!]?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])([^}]*)\}")
# No quote, `$` or bracket inside: a pattern or a default that every shell reads alike.
OPERATOR = re.compile(r"(?:##?|%%?|//?|\^\^?|,,?|:?[-+?=])[\w./*?@%+=:,~^ -]*")
# Names the template sets itself, and those a shell sets from what it was given.
SETS = re.compile(
    r"""\b([A-Za-z_]\w*)\+?=((?:"[^"]*"|'[^']*'|\$\([^)]*\)|[^\s;&|"'])*)"""
    r"|\bfor\s+([A-Za-z_]\w*)|\bread\b([^;&|\n]*)",
    re.ASCII,
)
SHELL_SETS = words_of("_ REPLY OPTARG BASH_REMATCH MATCH")
BLOCKS = words_of("if while until for case {")
KEYWORDS = words_of("then else elif do ! time") | BLOCKS
FOLDERS = ("$(git rev-parse --show-toplevel)", "$(pwd)")  # they may lead to a program
UNARY = words_of("-e -f -d -r -w -x -s -L -h -n -z !")  # of `[[ ]]`

# Around a command, the outermost first: their first command, and whether they are fed.
Blocks = list[tuple[int, bool]]


def rewrite(template: str) -> str:
    """The command with expansions for placeholders. Raises UnsafeTemplate."""
    if re.search(r"[\0-\10\13-\37\177]", template):
        refuse("a control character")
    script = parse(template, Budget(MAX_TEXT))
    if script.odd:
        refuse(script.odd)
    if script.unread:
        refuse("it ends too early")
    walk = _Walk(template)
    walk.script(script, fed=False)
    judge(walk.done, walk.written)
    return walk.rewritten()


class _Walk:
    """Goes through the commands of a template and notes what is to be replaced."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.edits: list[tuple[int, int, str]] = []
        self.done: list[Judged] = []
        self.written: list[str] = []  # files that output is redirected to
        self.values = 0  # how many have been met
        self.listing = False  # the words of `for` are meant to be split
        self.own = set(SHELL_SETS)
        self.holding: set[str] = set()  # those that hold a value: quoted like one
        for name, value, *named in SETS.findall(text):
            names = set(re.findall(r"[A-Za-z_]\w*", " ".join([name, *named])))
            self.own |= names
            used = set(re.findall(r"\$\{?(\w+)", value))
            if not name or used & (self.holding | set(VARIABLES)):
                self.holding |= names

    def rewritten(self) -> str:
        text, at = "", 0
        for start, end, replacement in sorted(self.edits):
            text += self.text[at:start] + replacement
            at = end
        return text + self.text[at:]

    # Commands.

    def script(self, script: Script, fed: bool) -> None:
        """Commands that are `fed` if what stands around them is."""
        blocks: Blocks = []
        for pipeline in script.pipelines:
            for place, command in enumerate(pipeline):
                around = blocks[-1][1] if blocks else fed
                self._command(command, blocks, around or place > 0)
        if blocks:
            refuse("it ends too early")

    def _command(self, command: Command, blocks: Blocks, fed: bool) -> None:
        judged = Judged(fed)
        since = self._keywords(command, blocks, fed)
        for word in command.aside:
            self.word(word)
        self._words(command, judged, blocks)
        if command.body is not None:
            self.script(command.body, fed)
        self.done.append(judged)
        if self._redirected(command):
            if not (command.words or command.body or command.closes):
                refuse("nothing reads what is redirected")
            for one in self.done[since:]:
                one.fed = True

    def _keywords(self, command: Command, blocks: Blocks, fed: bool) -> int:
        """Open and close blocks; returns since which command a redirection counts."""
        since = len(self.done)
        for keyword in command.keywords:
            if keyword in CLOSERS:
                if not blocks:
                    refuse(f"`{keyword}` closes nothing")
                since = blocks.pop()[0]
            elif keyword not in KEYWORDS:
                refuse(f"`{keyword}` could evaluate a value")
            elif keyword in BLOCKS:
                blocks.append((len(self.done), fed))
        return since

    def _words(self, command: Command, judged: Judged, blocks: Blocks) -> None:
        first = command.words[0].plain() if command.words else ""
        if first == "for":
            if command.redirects or command.stdin:
                refuse("a word stands where none may")
            blocks.append((len(self.done), judged.fed))
            self._loop(command.words[1:])
        elif first == "[[":
            for word in command.words[1:]:
                text = self.word(word)
                is_quoted = any(part.quoted for part in word.parts)
                if text[:1] == "-" and text not in UNARY and not is_quoted:
                    refuse(f"`{text}` in `[[ ]]` could evaluate a value")
        else:
            judged.words = [self.word(word, judged.fed) for word in command.words]

    def _loop(self, words: list[Word]) -> None:
        if not words or not re.fullmatch(OWN, self.word(words[0])):
            refuse("`for` needs a variable with a name in small letters")
        if len(words) > 1 and words[1].plain() != "in":
            refuse("`for` without `in`")
        self.listing = True
        for word in words[2:]:
            self.word(word)
        self.listing = False

    def _redirected(self, command: Command) -> bool:
        """Note what a command writes; whether its input is redirected."""
        for operator, word in command.redirects:
            target = self.word(word)
            if operator[-1] == "&" and not re.fullmatch(r"\d+|-", target):
                refuse(f"`{operator}` needs the number of a descriptor")
            if operator in (">", ">>", ">|", "<>"):
                self.written.append(target)
        if command.stdin is not None:
            self.word(command.stdin)
        arrows = (operator[0] for operator, _ in command.redirects)
        return command.stdin is not None or "<" in arrows

    # Words.

    def word(self, word: Word, fed: bool = False) -> str:
        """What a shell would see, with marks for what is expanded in it."""
        return "".join(self._part(part, fed) for part in word.parts)

    def _part(self, part: Part, fed: bool) -> str:
        if part.kind == SUBSTITUTION:
            return self._printed(part, fed)
        if part.kind != LITERAL:
            return self._expand(part)
        if part.start < 0:
            return part.text
        for match in PLACEHOLDER.finditer(self.text, part.start, part.end):
            self._replace(*match.span(), f"""'"${{{match[1] or match[2]}}}"'""")
        return PLACEHOLDER.sub(VALUE, part.text)

    def _replace(self, start: int, end: int, text: str) -> None:
        self.edits.append((start, end, text))
        self.values += 1

    def _printed(self, part: Part, fed: bool) -> str:
        """What commands print is quoted like a value if they were given one."""
        assert part.script is not None
        before = self.values
        self.script(part.script, fed)
        raw = self.text[part.start : part.end]
        if self.values == before:
            return OTHER if raw in FOLDERS else PRINTED
        if not part.quoted and not self.listing:
            opening = part.start + 1 + (raw[0] == "$")
            self.edits.append((part.start, opening, '"$('))
            self.edits.append((part.end - 1, part.end, ')"'))
        return MADE

    def _other_variable(self, name: str, expansion: str) -> str:
        """What a variable may hold that the event does not fill."""
        folder = re.match("[A-Z]{2}", name) and not re.search("proc|dev", expansion)
        return VALUE if name in self.own else OTHER if folder else PRINTED

    def _expand(self, part: Part) -> str:
        raw = self.text[part.start : part.end]
        expansion = raw if raw[1] == "{" else f"${{{part.text}}}"
        match = BRACED.fullmatch(expansion)
        mark, name, operator = match.groups() if match else ("!", "", "")
        if mark == "#" and not operator:
            return OTHER
        if mark or (operator and not OPERATOR.fullmatch(operator)):
            refuse(f"`{raw[:12]}` can evaluate a value")
        if name not in VARIABLES and name not in self.holding:
            return self._other_variable(name, expansion)
        self._replace(
            part.start, part.end, expansion if part.quoted else f'"{expansion}"'
        )
        return CWD if expansion == "${CWD}" else VALUE


def refuse(why: str, hint: str = SCRIPT_HINT) -> NoReturn:
    raise UnsafeTemplate(f"{why}; {hint}")


class Judged:
    """A simple command, and whether its input is a pipe or was redirected."""

    def __init__(self, fed: bool = False) -> None:
        self.words: list[str] = []  # once judged, those behind the program
        self.fed = fed
        self.name = ""
        self.runs: list[str] = []  # its files


def judge(commands: list[Judged], written: list[str]) -> None:
    """Raises UnsafeTemplate for commands that could evaluate a value."""
    for path in written:
        if not re.fullmatch(DATA_FILE, path):
            refuse("what is written there could run", DATA_HINT)
    moved = False
    for command in commands:
        _judge_command(command, moved)
        folder = "".join(command.words)
        moved |= command.name == "cd" and VALUE in folder and folder != CWD
    touched = [(text, True) for text in written]
    for one in commands:
        named = [] if one.name in LOOKERS else one.words
        touched += [(text, one.name in COPIERS) for text in named]
    for one in commands:
        for text, copied in touched:
            _judge_touched(one, text, copied)


def _judge_touched(command: Judged, text: str, copied: bool) -> None:
    """A file that is named elsewhere is not run: it may hold a value by then."""
    for run in command.runs:
        folders = {*run.rpartition("/")[0].split("/")} - {"."}
        if _is_same_file(run, text) or (copied and _leaf(text) in folders):
            refuse(f"`{run}` would run, and another command may write it")
    if copied and _reads(command, _leaf(text)):
        refuse(f"`{command.name}` may run what is in `{text}`")


def _leaf(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _is_same_file(run: str, text: str) -> bool:
    """Whether a word may name the file that runs: `x.sh`, `-ox.sh`, `of=x.sh`."""
    _, slash, name = run.rpartition("/")
    same = rf"(?s:.*[^\w.-]|-\w)?{re.escape(name)}/?"
    return bool((slash or "/" in text) and re.fullmatch(same, text))


def _reads(command: Judged, leaf: str) -> bool:
    """Whether a command that may run what it reads is given such a file."""
    runs = command.name in EVALUATES or not command.runs or "awk" in command.name
    if not runs or leaf.startswith("-"):
        return False
    named = re.compile(rf"(?:(?<![\w.])|(?<=-\w)){re.escape(leaf)}(?!\w)")
    return any(map(named.search, command.words))


def _judge_command(command: Judged, moved: bool, held: bool = False) -> None:
    """One command: its assignments, its wrappers, then its words."""
    held |= _judge_assignments(command.words)
    if not command.words:
        if command.name == "exec" and command.fed:
            refuse("`exec` changes the input of all that follows")
        return
    first = command.words.pop(0)
    command.name = program(first)
    if command.name in REFUSED:
        refuse(f"`{command.name}` could evaluate a value")
    line = "".join(f"{text}\0" for text in command.words)
    if command.name == "command" and re.match("-[vV]\0", line):
        command.words = []
    elif command.name in TAKEN:
        _unwrap(command, line)
        _judge_command(command, moved, held)
    else:
        _judge_words(command, first, line, held)
        if moved:
            _judge_moved(command)


def _judge_assignments(words: list[str]) -> bool:
    """Those before a command are taken off; whether one of them holds a value."""
    held = False
    while words and ASSIGNMENT.match(words[0]):
        text = words.pop(0)
        held |= VALUE in text
        if not re.match(OWN + r"\+?=", text) and not re.fullmatch(HARMLESS, text):
            name = text.partition("=")[0]
            refuse(f"`{name}` may mean something to a program", NAME_HINT)
    return held


def _unwrap(command: Judged, line: str) -> None:
    """Leave the command that a wrapper runs."""
    own = re.match(f"(?:{TAKEN[command.name]})*", line)
    del command.words[: own[0].count("\0") if own else 0]
    if command.name not in ("env", "sudo", "doas"):  # to these, `X=1` is a program
        program("".join(command.words[:1]) or ":")


def _judge_moved(command: Judged) -> None:
    loose = any("/" in run and run[0] not in "/~" + OTHER for run in command.runs)
    if loose or command.name in EVALUATES or command.name == "npm":
        refuse(f"`{command.name}` runs files of the folder that a value names")


def _judge_words(command: Judged, first: str, line: str, held: bool) -> None:
    name = command.name
    is_file = _is_authors(first, name)
    shape = SHAPES.get(name, ".*" if is_file else _PATTERNS["ANY"])
    if not re.fullmatch(shape, line, re.DOTALL) or (held and name in EVALUATES):
        hint = HINTS.get(name, SCRIPT_HINT)
        refuse(f"`{name}` can run what its arguments say", hint)
    command.runs = [first]
    if name in PLAIN or name == ".":
        is_file = _find_script(command) or bool(re.search(MODULE, line))
    if command.fed and not is_file and name not in READERS:
        refuse(f"`{name}` could run what it reads")


def _is_authors(first: str, name: str) -> bool:
    """Whether a program is a file of the author's."""
    return "/" in first and not SYSTEM.match(first) and name not in EVALUATES


def _find_script(command: Judged) -> bool:
    """Tell the script of an interpreter from its words; whether there is one."""
    is_option = re.compile(PLAIN.get(command.name, "(?!)")).fullmatch
    left = list(itertools.dropwhile(is_option, command.words))
    is_file = left[0][0] != "-"
    command.runs = [left[0] if "/" in left[0] else f"./{left[0]}"] * is_file
    command.words = left[is_file:]
    return is_file


def program(text: str) -> str:
    """What a command is, without folder, version and case. Raises UnsafeTemplate."""
    match = PROGRAM.fullmatch(text)
    if match is None:
        refuse("it cannot be told which program would run")
    name = match[1].lower()
    versioned = _VERSIONED.fullmatch(name)
    plain = versioned[1] if versioned else name
    return {"nodejs": "node", "source": "."}.get(plain, plain)
