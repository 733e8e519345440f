"""Shell text whose placeholders are safe expansions.

A template that mentions no variable is the author's own business and stays as it is.
One that does is read by `shell.reader`, and each placeholder in it becomes an expansion
that suits the quotes around it (`hooks.variables` says how), and so does each variable
that the template gives a value.  `hooks.shell_programs` then judges the commands: by
their words, by where their input comes from, and by which files are written.

Taken are simple commands, joined by `;`, `&&`, `||`, `|`, `&` and line ends; if, for,
while, until, case, `{ }` and `( )` around them; redirections and here-documents;
substitutions of commands of the same kind; `[[ ]]` with one comparison of texts.
Refused are arithmetic, functions, arrays, and everything that shells read differently:
the text is for whatever /bin/sh is, and where two shells disagree about a word, one of
them may make it a program.
"""

from __future__ import annotations

import re

from feishuperm.hooks.shell_programs import (
    CWD,
    MADE,
    OTHER,
    OWN,
    PRINTED,
    VALUE,
    Judged,
    judge,
    refuse,
)
from feishuperm.hooks.variables import VARIABLES
from feishuperm.shell.programs import words_of
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

_NAMES = "|".join(VARIABLES)
PLACEHOLDER = re.compile(rf"\$(?:\{{({_NAMES})\}}|({_NAMES})(?![A-Za-z0-9_]))")
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
TAKEN = words_of("then else elif do ! time") | BLOCKS
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
            elif keyword not in TAKEN:
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
        if name in self.own:
            return VALUE
        folder = re.match("[A-Z]{2}", name) and not re.search("proc|dev", expansion)
        return OTHER if folder else PRINTED

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
