"""Shell text as commands: the one reader, for the danger of a call and for templates.

It follows quotes, pipes, redirections, here-documents and substitutions as bash does,
and flattens what is built around commands (`if`, loops, groups, functions): every
branch counts as run.  It expands nothing and judges nothing.  What it cannot follow (a
quote that does not end, too deep, too long) is left in `Script.unread`, never dropped.

It forgives: a text that other shells read differently, or that no shell takes, is read
as far as it goes, and the first such place is named in `Script.odd`.  A template with
such a place is refused.

Work is counted: `Budget` is shared by all texts of one call, and a token costs one.
Long plain words, quotes and here-documents cost one however long they are.
"""

from __future__ import annotations

import re

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
_IN = re.compile(r"in(?=[\s(\\]|$)")
_ESAC = re.compile(r"esac(?=[\s;&|)]|$)")
_COUNTED = re.compile(r"[^()$`\\'\"]+")
_ANSI_NAMED = {"n": "\n", "t": "\t", "r": "\r", "e": "\x1b", "a": "\a", "b": "\b"}
# Behind `=~`; `|` outside of brackets is a pipe to other shells.
_PATTERN = re.compile(
    r"[^\s'\"`;&<>|$()]*(?:\([^\s'\"`;&<>$()]*\)[^\s'\"`;&<>|$()]*)*\$?(?=\s)"
)
_DELIMITER = re.compile(r"(['\"]?)[A-Za-z_]\w*\1")
# Words before a command that are not the command.
_OPENERS = frozenset(
    ["if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "coproc"]
)
CLOSERS = frozenset(["fi", "done", "}", "esac"])
COMPUTES = "a variable where the shell computes can be evaluated"

LITERAL, VARIABLE, SUBSTITUTION = "literal", "variable", "substitution"


class Part:
    """A piece of a word; `start` and `end` tell where a template would replace it."""

    script: Script | None = None  # of a substitution
    default: Word | None = None  # what stands behind a variable's operator
    is_file = False  # `<( )`: the word is a file with its output
    start = end = -1

    def __init__(self, kind: str, text: str = "", quoted: bool = False) -> None:
        self.kind = kind
        self.text = text  # of a literal; the name of a variable
        self.quoted = quoted


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


class Command:
    """A simple command, or a subshell with what is redirected around it."""

    closes = False  # it stands behind `}`, `done`, `fi` or `esac`
    ended = False  # no more words may follow
    stdin: Word | None = None  # a here-document or a here-string
    body: Script | None = None

    def __init__(self) -> None:
        self.keywords: list[str] = []  # that stand before it
        self.aside: list[Word] = []  # the subject and the patterns of `case`
        self.words: list[Word] = []
        self.redirects: list[tuple[str, Word]] = []  # operators with their targets

    def is_empty(self) -> bool:
        given = self.redirects or self.body or self.stdin
        return not (self.words or self.closes or given)


class Script:
    """Pipelines in their order; each is the commands joined by pipes."""

    __slots__ = ("odd", "pipelines", "unread")

    def __init__(self) -> None:
        self.pipelines: list[list[Command]] = []
        self.unread = ""
        self.odd = ""  # what other shells read differently, if anything


class Budget:
    """How much may still be read."""

    def __init__(self, steps: int = STEPS) -> None:
        self.left = steps
        self.odd = ""  # what was met first that other shells read differently


class _GiveUp(Exception):
    """The rest of the text cannot be read."""


def parse(text: str, budget: Budget) -> Script:
    """The commands of a text; what could not be read is left in `unread`."""
    script = Script()
    reader = _Reader(text[:MAX_TEXT], budget)
    script.unread = text[MAX_TEXT:]
    budget.odd = ""
    try:
        reader.script(script, "")
        while reader.at < len(reader.text):
            reader.odd("a bracket too many")
            reader.at += 1
            reader.script(script, "")
    except _GiveUp:
        script.unread = text[reader.lost :]
    script.odd = budget.odd
    return script


class _Reader:
    def __init__(
        self, text: str, budget: Budget, depth: int = 0, base: int = 0
    ) -> None:
        self.text = text
        self.at = 0
        self.base = base  # where the text begins in that of the call
        self.lost = 0  # where the command begins that is being read
        self.budget = budget
        self.depth = depth
        self.heredocs: list[tuple[Command, str, bool, bool]] = []
        self.cases = 0

    def odd(self, why: str) -> None:
        self.budget.odd = self.budget.odd or why

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
            if not char or char == ")":
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
        if operator in ("|&", ";&", ";;&"):
            self.odd(f"`{operator}` is read differently by every shell")
        if operator == "\n" and self.heredocs:
            self._bodies()
        is_for = command.words and command.words[0].plain() == "for"
        joins = operator in ("|", "|&", "||", "&&", "&")
        if joins and (is_for or command.is_empty()):
            self.odd(f"`{operator}` stands where it may not")
        if not command.is_empty():
            command = self._next(script, piped=operator in ("|", "|&"))
        if operator in (";;", ";;&", ";&"):
            self._patterns(command)
        return command

    def _bracket(self, command: Command) -> None:
        self.at += 1
        if self.text.startswith("(", self.at) and not command.words:
            self.odd(COMPUTES)
            self.at += 1
            command.words.append(Word([Part(LITERAL, "((")]))
            self._arithmetic(command.words)
            return
        if command.words or command.closes or command.body:
            self.odd("`(` would make a function or an array")
        if self._names_function(command):
            return
        body = Script()
        if command.body is None:
            command.body = body
        self._inside(body)
        if command.words:  # an array: its words, as those of a command
            command.words += [
                word for pipe in body.pipelines for part in pipe for word in part.words
            ]

    def _names_function(self, command: Command) -> bool:
        """Read the `)` of `name()`; whether it is there."""
        self.take(_BLANKS)
        if not command.words or self.peek() != ")":
            return False
        self.at += 1
        command.words = []
        return True

    def _inside(self, script: Script) -> None:
        """A script up to the bracket that closes it."""
        cases, self.cases = self.cases, 0
        self.script(script, ")")
        self.cases = cases
        self.at += 1

    def _comment(self) -> None:
        if self.depth > 1:
            self.odd("a comment inside a substitution")
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _word(self, command: Command) -> None:
        word = self.word()
        plain = word.plain()
        if _NUMBER.fullmatch(plain) and self.peek() in ("<", ">"):
            if plain[0] == "{":
                self.odd(f"`{plain}` is read differently by every shell")
            return
        if command.closes or command.body or command.ended:
            self.odd("a word stands where none may")
        if command.words or not self._keyword(command, plain):
            command.words.append(word)

    def _keyword(self, command: Command, plain: str) -> bool:
        """Read on behind a reserved word; whether it is one."""
        if plain == "[[":
            self._comparison(command)
        elif plain == "case":
            command.keywords.append(plain)
            self._case(command)
        elif plain in CLOSERS:
            self.cases -= plain == "esac" and self.cases > 0
            command.closes = True
            command.keywords.append(plain)
        elif plain == "function":
            self.odd("`function` could evaluate a value")
            self.take(_BLANKS)
            self.word()
        elif plain in _OPENERS:
            command.keywords.append(plain)
        else:
            return False
        return True

    def _lines(self) -> None:
        """Blanks, line ends and comments."""
        while self.take(_BLANKS) or self.peek() in ("\n", "#"):
            self.step()
            if self.peek() == "#":
                self._comment()
            elif self.peek() == "\n":
                self.at += 1

    def _case(self, command: Command) -> None:
        """`case WORD in`, and the first patterns."""
        self.take(_BLANKS)
        command.aside.append(self.word())
        self._lines()
        if not self.take(_IN):
            raise _GiveUp
        self.cases += 1
        self._patterns(command)

    def _patterns(self, command: Command) -> None:
        """`a | b)` of a `case`, unless that ends here."""
        if not self.cases:
            self.odd("`;;` outside of `case`")
            return
        self._lines()
        if _ESAC.match(self.text, self.at):
            return
        self.at += self.peek() == "("
        while True:
            self.step()
            self.take(_BLANKS)
            command.aside.append(self.word())
            self.take(_BLANKS)
            if self.peek() not in ("|", ")") or not command.aside[-1].parts:
                raise _GiveUp
            self.at += 1
            if self.text[self.at - 1] == ")":
                return

    def _comparison(self, command: Command) -> None:
        """`[[ ]]`: brackets and arrows inside mean nothing."""
        command.words.append(Word([Part(LITERAL, "[[")]))
        while True:
            self.step()
            self.take(_BLANKS)
            char = self.peek()
            if not char or char == "\n" or self.text.startswith("]]", self.at):
                if char != "]":
                    self.odd("`[[` has no end on its line")
                self.at += 2 if char == "]" else 0
                command.ended = True
                return
            if char in "<>()&|;":
                self.odd(f"`{char}` in `[[ ]]` is read differently by every shell")
                self.at += 1
                continue
            command.words.append(self.word())
            if command.words[-1].plain() == "=~":
                self.take(_BLANKS)
                self.take(_PATTERN)

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
        if operator[0] == "&" or not target.parts:
            self.odd(f"`{operator}` is read differently by every shell")
        if operator in ("<<", "<<-"):
            raw = self.text[start : self.at]
            if self.depth > 1 or not _DELIMITER.fullmatch(raw):
                self.odd("a here-document ends with a plain word, outside of `$( )`")
            delimiter = re.sub(r"[\\'\"]|\$(?=['\"])", "", raw)
            literal = delimiter != raw
            tabs = operator == "<<-"
            self.heredocs.append((command, delimiter, literal, tabs))
        elif operator == "<<<":
            command.stdin = target
        else:
            command.redirects.append((operator, target))

    def _bodies(self) -> None:
        """The here-documents that the line before has announced."""
        waiting, self.heredocs = self.heredocs, []
        for command, delimiter, literal, tabs in waiting:
            self.step()
            line = rf"^{'	*' if tabs else ''}{re.escape(delimiter)}$"
            match = re.compile(line, re.MULTILINE).search(self.text, self.at)
            end = match.start() if match else len(self.text)
            body = self.text[self.at : end]
            self.at = end
            parts = [Part(LITERAL, body, True)] if literal else self._quoted_text(body)
            self.at = match.end() if match else end
            command.stdin = Word(parts)
            if match is None:
                self.odd("a here-document has no end")
                self.lost = end - len(body)
                raise _GiveUp

    def _quoted_text(self, text: str) -> list[Part]:
        """What a here-document is that was just read: it ends where we are."""
        base = self.base + self.at - len(text)
        inner = _Reader(text, self.budget, self.depth + 1, base)
        parts: list[Part] = []
        while inner.at < len(text):
            inner._in_double(parts, _HEREDOC)
        if any(part.script for part in parts):
            self.odd("a substitution inside a here-document")
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
        if self.peek() != "(":
            return self.peek(2)[1:] == "("
        last = parts[-1] if parts else Part(LITERAL)  # of a pattern: `!(a)`, `@(a)`
        return (
            last.kind == LITERAL and not last.quoted and last.text[-1:] in set("?*+@!")
        )

    def _part(self, parts: list[Part], char: str) -> None:
        text = self.take(_LITERAL)
        if text:
            parts.append(Part(LITERAL, text))
        elif char == "'":
            part = self._placed(LITERAL, quoted=True)
            part.text = self._enclosed(_SINGLE)
            self._append(parts, part)
        elif char == '"':
            self._double(parts)
        elif char == "\\":
            taken = self.peek(2)[1:]
            if not taken:
                self.odd("it ends with a backslash")
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
            self.odd("`<( )` is not known to every shell")
            part = self._placed(SUBSTITUTION)
            part.is_file = True
            self._commands_inside(part, parts)

    def _placed(self, kind: str, text: str = "", quoted: bool = False) -> Part:
        """A part that begins here."""
        part = Part(kind, text, quoted)
        part.start = self.base + self.at
        return part

    def _append(self, parts: list[Part], part: Part) -> None:
        """A part that ends here."""
        part.end = self.base + self.at
        parts.append(part)

    def _commands_inside(self, part: Part, parts: list[Part]) -> None:
        """`$( )`, `<( )`: what is run."""
        self.at += 2
        part.script = Script()
        self._inside(part.script)
        self._append(parts, part)

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
        part = self._placed(SUBSTITUTION, quoted=quoted)
        raw = self._enclosed(_BACKQUOTED)
        if quoted or "\\" in raw:
            self.odd("a backslash or a quote around ` `; write $( )")
        if self.depth > MAX_DEPTH:
            raise _GiveUp
        text = re.sub(r"\\([\\`$])", r"\1", raw)
        inner = _Reader(text, self.budget, self.depth, part.start + 1)
        part.script = Script()
        self._append(parts, part)
        inner.script(part.script, "")
        if inner.peek():
            self.odd("a bracket too many")

    def _dollar(self, parts: list[Part], quoted: bool) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _GiveUp
        self._expansion(parts, quoted)
        self.depth -= 1

    def _expansion(self, parts: list[Part], quoted: bool) -> None:
        three = self.peek(3)
        if three == "$((":
            self.odd(COMPUTES)
            self.at += 3
            words: list[Word] = []
            parts.append(Part(LITERAL, "0", quoted))
            self._arithmetic(words)
            parts += [part for word in words for part in word.parts if part.script]
        elif three[:2] == "$(":
            self._commands_inside(self._placed(SUBSTITUTION, quoted=quoted), parts)
        elif three[:2] == "${":
            self._braced(parts, quoted)
        elif three[:2] == "$'" and not quoted:
            self.odd("$' is read differently by every shell")
            raw = self._enclosed(_ANSI_QUOTED, opening=2)
            parts.append(Part(LITERAL, _ANSI.sub(_ansi_character, raw), True))
        elif three[:2] == '$"' and not quoted:
            self.odd('$" is read differently by every shell')
            self.at += 1
            self._double(parts)
        else:
            self._variable(parts, quoted)

    def _variable(self, parts: list[Part], quoted: bool) -> None:
        part = self._placed(VARIABLE, quoted=quoted)
        self.at += 1
        part.text = self.take(_NAME)
        if self.peek() == "[" and not (part.text and quoted):
            self.odd("`[` behind a variable can be evaluated")
        if not part.text:
            part = Part(LITERAL, "$", quoted)
        self._append(parts, part)

    def _braced(self, parts: list[Part], quoted: bool) -> None:
        part = self._placed(VARIABLE, quoted=quoted)
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
        part.text = match[1] if match else ""
        part.default = Word(inner)
        self._append(parts, part)


def _ansi_character(match: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if match[group]:
            return chr(min(int(match[group], base), 0x10FFFF))
    return _ANSI_NAMED.get(match[5], match[5])
