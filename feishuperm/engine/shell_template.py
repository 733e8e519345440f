"""Shell text whose placeholders are safe expansions: the one reader of templates.

A template that mentions no variable is the author's own business and stays as it is.
One that does is read once: it is copied, each placeholder becomes an expansion that
suits the quotes around it (`engine.variables` says how), and so does each variable that
the template gives a value.  `engine.shell_programs` then judges the commands: by their
words, by where their input comes from, and by which files are written.

Taken are simple commands, joined by `;`, `&&`, `||`, `|`, `&` and line ends; if, for,
while, until, case, `{ }` and `( )` around them; redirections and here-documents;
substitutions of commands of the same kind; `[[ ]]` with one comparison of texts.
Refused are arithmetic, functions, arrays, and everything that shells read differently:
the text is for whatever /bin/sh is, and where two shells disagree about a word, one of
them may make it a program.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from feishuperm.engine.shell_programs import (
    CWD,
    MADE,
    OTHER,
    OWN,
    PRINTED,
    VALUE,
    Command,
    judge,
    refuse,
    words_of,
)
from feishuperm.engine.variables import VARIABLES

MAX_DEPTH = 20

_NAMES = "|".join(VARIABLES)
PLACEHOLDER = re.compile(rf"\$(?:\{{({_NAMES})\}}|({_NAMES})(?![A-Za-z0-9_]))")
BRACED = re.compile(r"\$\{([#!]?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])([^}]*)\}")
NAMED = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
# No quote, `$` or bracket inside: a pattern or a default that every shell reads alike.
OPERATOR = re.compile(r"(?:##?|%%?|//?|\^\^?|,,?|:?[-+?=])[\w./*?@%+=:,~^ -]*")
REDIRECTION = re.compile(r"<<<|<<-?|[<>]&|>>|>\||<>|[<>]")
DELIMITER = re.compile(r"[ \t]*(['\"]?)([A-Za-z_]\w*)\1(?=[ \t\n;&|)<>]|$)")
# Of `=~`; `|` outside of brackets is a pipe to other shells.
PATTERN = re.compile(
    r"[^\s'\"`;&<>|$()]*(?:\([^\s'\"`;&<>$()]*\)[^\s'\"`;&<>|$()]*)*\$?(?=\s)"
)
ESAC = re.compile(r"esac(?=[\s;&|)]|$)")
# Names the template sets itself, and those a shell sets from what it was given.
SETS = re.compile(
    r"""\b([A-Za-z_]\w*)\+?=((?:"[^"]*"|'[^']*'|\$\([^)]*\)|[^\s;&|"'])*)"""
    r"|\bfor\s+([A-Za-z_]\w*)|\bread\b([^;&|\n]*)",
    re.ASCII,
)
SHELL_SETS = words_of("_ REPLY OPTARG BASH_REMATCH MATCH")

BLOCKS = words_of("if while until for case {")
OPENERS = words_of("then else elif do ! time") | BLOCKS
CLOSERS = words_of("fi done } esac")
FOLDERS = ("$(git rev-parse --show-toplevel)", "$(pwd)")  # they may lead to a program
UNARY = words_of("-e -f -d -r -w -x -s -L -h -n -z !")  # of `[[ ]]`


def rewrite(template: str) -> str:
    """The command with expansions for placeholders. Raises UnsafeTemplate."""
    if re.search(r"[\0-\10\13-\37\177]", template):
        refuse("a control character")
    reader = _Reader(template)
    reader.commands("")
    judge(reader.done, reader.written)
    return "".join(reader.out)


class _Level:
    """A list of commands that is being read: the text, or what is in `( )`."""

    def __init__(self, end: str, fed: bool) -> None:
        self.end = end
        self.fed = fed
        self.command = Command(fed)
        self.closed = False  # behind `fi`, `)` and the like only a separator may follow
        self.since = 0  # the first command of what was closed
        # The blocks around: their first word and command, and whether they are fed.
        self.blocks: list[tuple[str, int, bool]] = []


class _Reader:
    """Follows shell text from `at` on; `out` is what has been read, rewritten."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.out: list[str] = []
        self.done: list[Command] = []
        self.written: list[str] = []  # files that output is redirected to
        self.levels: list[_Level] = []
        self.values = 0  # how many have been met
        self.quoted = False  # whether the last word was
        self.listing = False
        self.heredocs: list[tuple[str, bool, bool]] = []
        self.own = set(SHELL_SETS)
        self.holding: set[str] = set()  # those that hold a value: quoted like one
        for name, value, *named in SETS.findall(text):
            names = set(re.findall(r"[A-Za-z_]\w*", " ".join([name, *named])))
            self.own |= names
            used = set(re.findall(r"\$\{?(\w+)", value))
            if not name or used & (self.holding | set(VARIABLES)):
                self.holding |= names

    # Characters.

    def peek(self, size: int = 1) -> str:
        return self.text[self.at : self.at + size]

    def take(self, size: int = 1) -> str:
        taken = self.text[self.at : self.at + size]
        self.out.append(taken)
        self.at += size
        return taken

    def blanks(self) -> None:
        while self.peek() in (" ", "\t") or self.peek(2) == "\\\n":
            self.take(2 if self.peek() == "\\" else 1)

    # Commands.

    def commands(self, end: str) -> None:
        """Commands up to `end`, which is left to the caller."""
        level = _Level(end, bool(self.levels) and self.levels[-1].command.fed)
        self.levels.append(level)
        if len(self.levels) > MAX_DEPTH:
            refuse("it is nested too deeply")
        self.blanks()
        while self.peek() not in ("", end):
            char = self.peek()
            if char in ";&|\n":
                self._separator(level)
            elif char in "<>":
                self._redirection(level)
            elif char == "#":
                self._comment()
            elif char in "()":
                self._subshell(level)
            else:
                self._command_word(level)
            self.blanks()
        if self.peek() != end or level.blocks or self.heredocs:
            refuse("it ends too early")
        self.done.append(level.command)
        self.levels.pop()

    def _separator(self, level: _Level) -> None:
        two = self.peek(2)
        if two in ("&>", "|&", ";&") or self.peek(3) == ";;&":
            refuse(f"`{two}` is read differently by every shell")
        taken = self.take(2 if two in ("&&", "||", ";;") else 1)
        begun = level.command.words or level.closed
        fed = level.blocks[-1][2] if level.blocks else level.fed
        fed = fed or taken == "|" or (not begun and level.command.fed)
        self.done.append(level.command)
        level.command, level.closed = Command(fed), False
        if taken == "\n":
            self._heredoc_bodies()
        elif taken == ";;":
            self._patterns(level)

    def _subshell(self, level: _Level) -> None:
        if level.command.words or level.closed or self.peek() == ")":
            refuse("`(` would make a function or an array")
        if self.peek(2) == "((":
            refuse("a variable where the shell computes can be evaluated")
        level.since = len(self.done)
        self._inside(")")
        level.closed = True

    def _command_word(self, level: _Level) -> None:
        text = self.word()
        descriptor = re.fullmatch("[0-9]+", text) and not self.quoted
        if descriptor and self.peek() in ("<", ">"):
            return
        if level.closed:
            refuse("a word stands where none may")
        if level.command.words or self.quoted:
            level.command.words.append(text)
        elif text in CLOSERS:
            if not level.blocks:
                refuse(f"`{text}` closes nothing")
            level.since = level.blocks.pop()[1]
            level.closed = True
        elif text in OPENERS or text == "[[":
            self._opener(text, level)
        else:
            level.command.words.append(text)

    def _opener(self, text: str, level: _Level) -> None:
        if text in BLOCKS:
            level.blocks.append((text, len(self.done), level.command.fed))
        if text in ("case", "for", "[["):
            level.closed = text != "case"
            self._keyword(text, level)

    def _inside(self, end: str, opening: int = 1) -> str:
        """Commands between two marks, and the mark of what they print."""
        start, before = self.at, self.values
        self.take(opening)
        self.commands(end)
        self.take(1)
        if self.values > before:
            return MADE
        return OTHER if self.text[start : self.at] in FOLDERS else PRINTED

    def _comment(self) -> None:
        end = self.text.find("\n", self.at)
        if self.levels[-1].end:
            refuse("a comment inside a substitution")
        self.take((len(self.text) if end < 0 else end) - self.at)

    def _keyword(self, keyword: str, level: _Level) -> None:
        self.blanks()
        if keyword == "[[":
            return self._comparison()
        word = self.word()
        self._skip_lines()
        follows = self.text.startswith("in", self.at)
        if keyword == "case":
            if not follows or self.word() != "in":
                refuse("`case` without `in`")
            return self._patterns(level)
        if not re.fullmatch(OWN, word):
            refuse("`for` needs a variable with a name in small letters")
        if follows and self.word() == "in":
            self.blanks()
            self.listing = True  # the words of `for` are meant to be split
            while self.peek() not in ("", ";", "\n"):
                self.word_or_refuse()
                self.blanks()
            self.listing = False

    def _patterns(self, level: _Level) -> None:
        """`a | b)` of a `case`, unless it ends here."""
        self._skip_lines()
        if ESAC.match(self.text, self.at):
            return
        if not level.blocks or level.blocks[-1][0] != "case":
            refuse("`;;` outside of `case`")
        if self.peek() == "(":
            self.take()
        while True:
            self.blanks()
            self.word_or_refuse()
            self.blanks()
            if self.peek() not in ("|", ")"):
                refuse("a pattern of `case` has no end")
            if self.take() == ")":
                return

    def _skip_lines(self) -> None:
        self.blanks()
        while self.peek() in ("\n", "#"):
            self._comment() if self.peek() == "#" else self.take()
            self.blanks()

    def _comparison(self) -> None:
        """`[[ a == b ]]`; other shells than bash take `&&` inside for their own."""
        while self.peek(2) != "]]":
            word = self.word_or_refuse()
            if not self.quoted and word[:1] == "-" and word not in UNARY:
                refuse(f"`{word}` in `[[ ]]` could evaluate a value")
            self.blanks()
            pattern = PATTERN.match(self.text, self.at) if word == "=~" else None
            self.take(len(pattern[0]) if pattern else 0)
            self.blanks()
        self.take(2)

    def _redirection(self, level: _Level) -> None:
        match = REDIRECTION.match(self.text, self.at)
        assert match is not None
        if self.peek(2) in ("<(", ">("):
            refuse("`<( )` is not known to every shell")
        operator = self.take(len(match[0]))
        if operator[0] == "<":
            inner = self.done[level.since :] if level.closed else []
            for command in (level.command, *inner):
                command.fed = True
        self.blanks()
        if operator in ("<<", "<<-"):
            return self._heredoc(operator)
        target = self.word_or_refuse()
        if operator[-1] != "&":
            self.written += [] if operator in ("<", "<<<") else [target]
        elif not re.fullmatch(r"\d+|-", target):
            refuse(f"`{operator}` needs the number of a descriptor")

    def _heredoc(self, operator: str) -> None:
        match = DELIMITER.match(self.text, self.at)
        if match is None or len(self.levels) > 1:
            refuse("a here-document ends with a plain word, outside of `$( )`")
        self.take(len(match[0]))
        self.heredocs.append((match[2], bool(match[1]), operator == "<<-"))

    def _heredoc_bodies(self) -> None:
        for word, literal, tabs in self.heredocs:
            line = re.compile(rf"^{'	*' if tabs else ''}{word}$", re.MULTILINE)
            match = line.search(self.text, self.at)
            if match is None:
                refuse("a here-document has no end")
            while not literal and self.at < match.start():
                if self.peek() == "`" or self.peek(2) == "$(":
                    refuse("a substitution inside a here-document")
                if self.peek() == "$":
                    self._dollar(quoted=True)
                else:
                    self.take(2 if self.peek() == "\\" else 1)
            self.take(match.end() - self.at)
        self.heredocs = []

    # Words.

    def word_or_refuse(self) -> str:
        start = self.at
        word = self.word()
        if self.at == start:
            refuse("a word is missing")
        return word

    def word(self) -> str:
        """What a shell would see, with marks for what is expanded in it."""
        parts: list[str] = []
        quoted = False
        while True:
            char = self.peek()
            if not char or char in " \t\n;&|()<>" or char == "`" == self.levels[-1].end:
                self.quoted = quoted
                return "".join(parts)
            quoted = quoted or char in "'\"\\"
            parts.append(PARTS.get(char, _Reader.take)(self))

    def _escape(self) -> str:
        if len(self.peek(2)) < 2:
            refuse("it ends with a backslash")
        char = self.take(2)[1]
        return "" if char == "\n" else char

    def _single_quotes(self) -> str:
        """Leave the quotes for each placeholder."""
        end = self.text.find("'", self.at + 1)
        if end < 0:
            refuse("a quote is not closed")
        inside = self.text[self.at + 1 : end]
        self.values += len(PLACEHOLDER.findall(inside))
        left = PLACEHOLDER.sub(r"""'"${\1\2}"'""", inside)
        self.out.append(f"'{left}'")
        self.at = end + 1
        return PLACEHOLDER.sub(VALUE, inside)

    def _double_quotes(self) -> str:
        parts: list[str] = []
        self.take()
        while self.peek() != '"':
            char = self.peek()
            if not char:
                refuse("a quote is not closed")
            if char == "`":
                refuse("` inside double quotes; write $( )")
            if char == "\\":
                plain = self.peek(2)[1:] not in ("$", "`", '"', "\\", "\n")
                parts.append(("\\" if plain else "") + self._escape())
            else:
                parts.append(self._dollar(True) if char == "$" else self.take())
        self.take()
        return "".join(parts)

    def _backquotes(self) -> str:
        match = re.compile(r"`[^\\`]*`").match(self.text, self.at)
        mark = self._printed("`", 1)
        if match is None or self.at != match.end():
            refuse("a backslash or ` inside ` `; write $( )")
        return mark

    def _printed(self, end: str, opening: int, quoted: bool = False) -> str:
        """What commands print is quoted like a value if they were given one."""
        start = len(self.out)
        mark = self._inside(end, opening)
        if mark == MADE and not quoted and not self.listing:
            self.out[start], self.out[-1] = '"$(', ')"'
        return mark

    def _dollar(self, quoted: bool = False) -> str:
        two = self.peek(2)
        if self.peek(3) == "$((" or two == "$[":
            refuse("a variable where the shell computes can be evaluated")
        if two == "$(":
            return self._printed(")", 2, quoted)
        if two in ("$'", '$"') and not quoted:
            refuse(f"{two} is read differently by every shell")
        if two == "${":
            return self._braced(quoted)
        match = NAMED.match(self.text, self.at)
        if match is None:
            return self.take()
        if self.text[match.end() : match.end() + 1] == "[" and not quoted:
            refuse("`[` behind a variable can be evaluated")
        return self._expand(match, match[1], f"${{{match[1]}}}", quoted)

    def _braced(self, quoted: bool) -> str:
        match = BRACED.match(self.text, self.at)
        mark, name, operator = match.groups() if match else ("!", "", "")
        counted = mark == "#" and not operator
        plain = not mark and (not operator or OPERATOR.fullmatch(operator))
        if match is None or not (counted or plain):
            refuse(f"`{self.text[self.at : self.at + 12]}` can evaluate a value")
        if counted:
            self.take(len(match[0]))
            return OTHER
        return self._expand(match, name, match[0], quoted)

    def _expand(
        self, match: re.Match[str], name: str, expansion: str, quoted: bool
    ) -> str:
        if name not in VARIABLES and name not in self.holding:
            self.take(len(match[0]))
            folder = re.match("[A-Z]{2}", name) and not re.search("proc|dev", expansion)
            return VALUE if name in self.own else OTHER if folder else PRINTED
        self.at += len(match[0])
        self.values += 1
        self.out.append(expansion if quoted else f'"{expansion}"')
        return CWD if expansion == "${CWD}" else VALUE


# How a part of a word is read, by its first character; any other is taken as it is.
PARTS: dict[str, Callable[[_Reader], str]] = {
    "'": _Reader._single_quotes,
    '"': _Reader._double_quotes,
    "\\": _Reader._escape,
    "$": _Reader._dollar,
    "`": _Reader._backquotes,
}
