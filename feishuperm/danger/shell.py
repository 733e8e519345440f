"""Shell text as commands: a reader that forgives, for whoever wants to know what runs.

It follows quotes, pipes, redirections, here-documents and substitutions as bash does,
and flattens what is built around commands (`if`, loops, groups, functions): every
branch counts as run.  It expands nothing and judges nothing.  What it cannot follow (a
quote that does not end, too deep, too long) is left in `Script.unread`, never dropped.

Work is counted: `Budget` is shared by all texts of one call, and a token costs one.
Long plain words, quotes and here-documents cost one however long they are.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_TEXT = 100_000  # characters; the rest is only searched for words
STEPS = 4000  # tokens of one call: more than anybody reads, and some milliseconds
MAX_DEPTH = 24

_LITERAL = re.compile(r"[^ \t\n;&|()<>'\"\\$`]+")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_SINGLE = re.compile(r"[^']*")
_DOUBLE = re.compile(r'[^"\\$`]+')
_BRACE = re.compile(r"[^}'\"\\$`]+")
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;&|\n]")
_REDIRECT = re.compile(r"<<<|<<-?|&>>|&>|[<>]&|>>|>\||<>|[<>]")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
_BRACED = re.compile(r"[!#]?([A-Za-z_]\w*|[0-9@*#?$!-]+)", re.ASCII)
_BACKQUOTED = re.compile(r"[^`\\]*(?:\\.[^`\\]*)*", re.DOTALL)
_NUMBER = re.compile(r"[0-9]+|\{[A-Za-z_]\w*\}", re.ASCII)
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))",
    re.DOTALL,
)
_ANSI_QUOTED = re.compile(r"[^'\\]*(?:\\.[^'\\]*)*", re.DOTALL)
_HEREDOC = re.compile(r"[^\\$`]+")
_COUNTED = re.compile(r"[^()$`\\'\"]+")
_ANSI_NAMED = {"n": "\n", "t": "\t", "r": "\r", "e": "\x1b", "a": "\a", "b": "\b"}
# Words before a command that are not the command.
_OPENERS = frozenset(
    ["if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "coproc"]
)
_CLOSERS = frozenset(["fi", "done", "}", "esac"])

LITERAL, VARIABLE, SUBSTITUTION = "literal", "variable", "substitution"


class Part(NamedTuple):
    """A piece of a word."""

    kind: str
    text: str = ""  # of a literal; the name of a variable
    quoted: bool = False
    script: Script | None = None  # of a substitution
    default: Word | None = None  # what stands behind a variable's operator
    is_file: bool = False  # `<( )`: the word is a file with its output


class Word:
    """One word of a command."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts

    def plain(self) -> str:
        """Its text if nothing in it is expanded or quoted, else nothing."""
        if len(self.parts) == 1 and self.parts[0].kind == LITERAL:
            return "" if self.parts[0].quoted else self.parts[0].text
        return ""


class Redirect(NamedTuple):
    """Where input comes from or output goes."""

    operator: str
    target: Word


class Command:
    """A simple command, or a subshell with what is redirected around it."""

    __slots__ = ("body", "closes", "redirects", "stdin", "words")

    def __init__(self) -> None:
        self.closes = False  # it stands behind `}`, `done`, `fi` or `esac`
        self.words: list[Word] = []
        self.redirects: list[Redirect] = []
        self.stdin: Word | None = None  # a here-document or a here-string
        self.body: Script | None = None

    def is_empty(self) -> bool:
        given = self.redirects or self.body or self.stdin
        return not (self.words or self.closes or given)


class Script:
    """Pipelines in their order; each is the commands joined by pipes."""

    __slots__ = ("pipelines", "unread")

    def __init__(self) -> None:
        self.pipelines: list[list[Command]] = []
        self.unread = ""


class Budget:
    """How much may still be read."""

    def __init__(self, steps: int = STEPS) -> None:
        self.left = steps


class _GiveUp(Exception):
    """The rest of the text cannot be read."""


def parse(text: str, budget: Budget) -> Script:
    """The commands of a text; what could not be read is left in `unread`."""
    script = Script()
    reader = _Reader(text[:MAX_TEXT], budget)
    script.unread = text[MAX_TEXT:]
    try:
        reader.script(script, "")
        while reader.at < len(reader.text):  # a bracket too many
            reader.at += 1
            reader.script(script, "")
    except _GiveUp:
        script.unread = text[reader.lost :]
    return script


class _Reader:
    def __init__(self, text: str, budget: Budget, depth: int = 0) -> None:
        self.text = text
        self.at = 0
        self.lost = 0  # where the command begins that is being read
        self.budget = budget
        self.depth = depth
        self.heredocs: list[tuple[Command, str, bool, bool]] = []
        self.cases = 0

    def step(self) -> None:
        self.budget.left -= 1
        if self.budget.left < 0:
            raise _GiveUp

    def peek(self, size: int = 1) -> str:
        return self.text[self.at : self.at + size]

    def take(self, pattern: re.Pattern[str]) -> str:
        """What stands here if it is of a kind, else nothing."""
        match = pattern.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match[0]

    # Commands.

    def script(self, script: Script, end: str) -> None:
        """Commands up to `end`, which is left to the caller."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _GiveUp
        command = self._next(script, piped=False)
        while True:
            self.step()
            self.take(_BLANKS)
            char = self.peek()
            if not char or (char == ")" and not self.cases):
                break
            command = self._token(script, command, char)
        if end and not self.peek():
            raise _GiveUp
        if not end and self.heredocs:
            self._bodies()
        self.depth -= 1

    def _token(self, script: Script, command: Command, char: str) -> Command:
        """Take what stands here; the command that what follows belongs to."""
        if char == "#":
            self._comment()
        elif self.text.startswith(("<(", ">("), self.at):
            self._word(command)
        elif char in "<>" or self.text.startswith("&>", self.at):
            self._redirect(command)
        elif char in ";&|\n":
            return self._separator(script, command)
        elif char == "(":
            self._bracket(command)
        elif char == ")":  # behind a pattern of `case`
            self.at += 1
            command.words = []
        else:
            self._word(command)
        return command

    def _next(self, script: Script, piped: bool) -> Command:
        command = Command()
        if piped and script.pipelines:
            script.pipelines[-1].append(command)
        else:
            script.pipelines.append([command])
        if self.depth == 1:
            self.lost = self.at
        return command

    def _separator(self, script: Script, command: Command) -> Command:
        operator = self.take(_OPERATOR)
        if operator == "\n" and self.heredocs:
            self._bodies()
        if command.is_empty():
            return command
        return self._next(script, piped=operator in ("|", "|&"))

    def _bracket(self, command: Command) -> None:
        self.at += 1
        if self.text.startswith("(", self.at) and not command.words:
            self.at += 1
            command.words.append(Word([Part(LITERAL, "((")]))
            self._arithmetic(command.words)
            return
        self.take(_BLANKS)
        if command.words and self.peek() == ")":  # a function's name
            self.at += 1
            command.words = []
            return
        if self.cases and not command.words:  # `(pattern)`
            return
        body = Script()
        if command.body is None:
            command.body = body
        self._inside(body)
        if command.words:  # an array: its words, as those of a command
            command.words += [
                word for pipe in body.pipelines for part in pipe for word in part.words
            ]

    def _inside(self, script: Script) -> None:
        """A script up to the bracket that closes it."""
        cases, self.cases = self.cases, 0
        self.script(script, ")")
        self.cases = cases
        self.at += 1

    def _comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _word(self, command: Command) -> None:
        word = self.word()
        plain = word.plain()
        if _NUMBER.fullmatch(plain) and self.peek() in ("<", ">"):
            return
        if command.words or not plain:
            command.words.append(word)
        elif plain == "[[":
            self._comparison(command)
        elif plain == "case":
            self._case()
        elif plain in _CLOSERS:
            self.cases -= plain == "esac" and self.cases > 0
            command.closes = True
        elif plain == "function":
            self.take(_BLANKS)
            self.word()
        elif plain not in _OPENERS:
            command.words.append(word)

    def _case(self) -> None:
        """`case WORD in` is left out; `for NAME in WORDS` is a command of its own."""
        self.take(_BLANKS)
        self.word()
        while self.peek() in ("\n", " ", "\t"):
            self.step()
            self.at += 1
        if self.text.startswith("in", self.at):
            self.at += 2
            self.cases += 1

    def _comparison(self, command: Command) -> None:
        """`[[ ]]`: brackets and arrows inside mean nothing."""
        command.words.append(Word([Part(LITERAL, "[[")]))
        while True:
            self.step()
            self.take(_BLANKS)
            char = self.peek()
            if not char or char == "\n" or self.text.startswith("]]", self.at):
                self.at += 2 if char == "]" else 0
                return
            if char in "<>()&|;":
                self.at += 1
            else:
                command.words.append(self.word())

    def _arithmetic(self, words: list[Word]) -> None:
        """Up to `))`; only the substitutions inside are kept."""
        depth = 2
        while depth:
            self.step()
            char = self.peek()
            if not char:
                raise _GiveUp
            if char in "()":
                depth += 1 if char == "(" else -1
                self.at += 1
            elif char in "$`\\'\"":
                words.append(self.word())
            else:
                self.take(_COUNTED)

    # Redirections.

    def _redirect(self, command: Command) -> None:
        operator = self.take(_REDIRECT)
        self.take(_BLANKS)
        start = self.at
        target = self.word()
        if operator in ("<<", "<<-"):
            raw = self.text[start : self.at]
            delimiter = re.sub(r"[\\'\"]|\$(?=['\"])", "", raw)
            literal = delimiter != raw
            tabs = operator == "<<-"
            self.heredocs.append((command, delimiter, literal, tabs))
        elif operator == "<<<":
            command.stdin = target
        else:
            command.redirects.append(Redirect(operator, target))

    def _bodies(self) -> None:
        """The here-documents that the line before has announced."""
        waiting, self.heredocs = self.heredocs, []
        for command, delimiter, literal, tabs in waiting:
            self.step()
            line = rf"^{'	*' if tabs else ''}{re.escape(delimiter)}$"
            match = re.compile(line, re.MULTILINE).search(self.text, self.at)
            end = match.start() if match else len(self.text)
            body = self.text[self.at : end]
            self.at = match.end() if match else end
            parts = [Part(LITERAL, body, True)] if literal else self._quoted_text(body)
            command.stdin = Word(parts)
            if match is None:
                self.lost = end - len(body)
                raise _GiveUp

    def _quoted_text(self, text: str) -> list[Part]:
        inner = _Reader(text, self.budget, self.depth + 1)
        parts: list[Part] = []
        while inner.at < len(text):
            inner._in_double(parts, _HEREDOC)
        return parts

    # Words.

    def word(self) -> Word:
        parts: list[Part] = []
        while True:
            char = self.peek()
            if not char or char in " \t\n;&|)":
                break
            if char in "<>(" and not self._goes_on(parts):
                break
            self.step()
            self._part(parts, char)
        return Word(parts)

    def _goes_on(self, parts: list[Part]) -> bool:
        """Whether a bracket or an arrow belongs to the word."""
        if self.peek() == "(":
            return bool(parts) and _is_pattern(parts[-1])
        return self.peek(2)[1:] == "("

    def _part(self, parts: list[Part], char: str) -> None:
        text = self.take(_LITERAL)
        if text:
            parts.append(Part(LITERAL, text))
        elif char == "'":
            parts.append(Part(LITERAL, self._enclosed(_SINGLE), True))
        elif char == '"':
            self._double(parts)
        elif char == "\\":
            taken = self.peek(2)[1:]
            self.at += 2
            if taken != "\n":
                parts.append(Part(LITERAL, taken, True))
        elif char == "$":
            self._dollar(parts, quoted=False)
        elif char == "`":
            self._backquotes(parts, quoted=False)
        elif char == "(":  # `!(a|b)`: what that leaves only the run will tell
            raise _GiveUp
        else:
            self.at += 2
            script = Script()
            parts.append(Part(SUBSTITUTION, script=script, is_file=True))
            self._inside(script)

    def _enclosed(self, inside: re.Pattern[str], opening: int = 1) -> str:
        """What stands between two quotes, which are taken too."""
        self.at += opening
        text = self.take(inside)
        if not self.peek():
            raise _GiveUp
        self.at += 1
        return text

    def _double(self, parts: list[Part]) -> None:
        self.at += 1
        parts.append(Part(LITERAL, "", True))
        while self.peek() != '"':
            if not self.peek():
                raise _GiveUp
            self._in_double(parts, _DOUBLE)
        self.at += 1

    def _in_double(self, parts: list[Part], plain: re.Pattern[str]) -> None:
        """One piece of what stands in double quotes or a here-document."""
        self.step()
        text = self.take(plain)
        if text:
            parts.append(Part(LITERAL, text, True))
        elif self.peek() == "$":
            self._dollar(parts, quoted=True)
        elif self.peek() == "`":
            self._backquotes(parts, quoted=True)
        else:
            pair = self.peek(2)
            self.at += 2
            text = {"\\\n": ""}.get(pair, pair[1:] if pair[1:] in '$`"\\' else pair)
            parts.append(Part(LITERAL, text, True))

    def _backquotes(self, parts: list[Part], quoted: bool) -> None:
        raw = self._enclosed(_BACKQUOTED)
        if self.depth > MAX_DEPTH:
            raise _GiveUp
        inner = _Reader(re.sub(r"\\([\\`$])", r"\1", raw), self.budget, self.depth)
        script = Script()
        parts.append(Part(SUBSTITUTION, quoted=quoted, script=script))
        inner.script(script, "")

    def _dollar(self, parts: list[Part], quoted: bool) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _GiveUp
        self._expansion(parts, quoted)
        self.depth -= 1

    def _expansion(self, parts: list[Part], quoted: bool) -> None:
        three = self.peek(3)
        if three == "$((":
            self.at += 3
            words: list[Word] = []
            parts.append(Part(LITERAL, "0", quoted))
            self._arithmetic(words)
            parts += [part for word in words for part in word.parts if part.script]
        elif three[:2] == "$(":
            self.at += 2
            script = Script()
            parts.append(Part(SUBSTITUTION, quoted=quoted, script=script))
            self._inside(script)
        elif three[:2] == "${":
            self._braced(parts, quoted)
        elif three[:2] == "$'" and not quoted:
            self._ansi(parts)
        elif three[:2] == '$"' and not quoted:
            self.at += 1
            self._double(parts)
        else:
            self._variable(parts, quoted)

    def _variable(self, parts: list[Part], quoted: bool) -> None:
        self.at += 1
        name = self.take(_NAME)
        parts.append(Part(VARIABLE if name else LITERAL, name or "$", quoted))

    def _braced(self, parts: list[Part], quoted: bool) -> None:
        match = _BRACED.match(self.text, self.at + 2)
        self.at = match.end() if match else self.at + 2
        inner: list[Part] = []
        while self.peek() != "}":
            self.step()
            char = self.peek()
            if not char:
                raise _GiveUp
            if char == "'" and not quoted:
                inner.append(Part(LITERAL, self._enclosed(_SINGLE), True))
            elif char == '"':
                self._double(inner)
            elif char == "'":
                self.at += 1
            else:
                self._in_double(inner, _BRACE)
        self.at += 1
        name = match[1] if match else ""
        parts.append(Part(VARIABLE, name, quoted, default=Word(inner)))

    def _ansi(self, parts: list[Part]) -> None:
        raw = self._enclosed(_ANSI_QUOTED, opening=2)
        parts.append(Part(LITERAL, _ANSI.sub(_ansi_character, raw), True))


def _ansi_character(match: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if match[group]:
            return chr(min(int(match[group], base), 0x10FFFF))
    return _ANSI_NAMED.get(match[5], match[5])


def _is_pattern(part: Part) -> bool:
    """Whether a bracket behind it belongs to a pattern: `!(a)`, `*(a)`, `@(a)`."""
    return part.kind == LITERAL and not part.quoted and part.text[-1:] in "?*+@!"
