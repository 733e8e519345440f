"""Which commands would evaluate a value, although it reaches them as plain data.

`engine.shell_template` makes sure that no shell parses a value.  What a shell or a
program does with its words afterwards is another matter: `eval`, `sh -c`, a pipe into
`sh`, arithmetic.  This reads a template once more, by words, and refuses what it knows
to evaluate text; it does so even where a clever author would be right.

It knows programs by their names.  What a script or a program of the author's own does
with an argument stays the author's duty.
"""

from __future__ import annotations

import re

from feishuperm.engine.variables import VARIABLES, UnsafeTemplate


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


SHELLS = _set("sh bash rbash dash ash zsh ksh mksh yash csh tcsh fish pwsh su")
# Take a program text or a script, then arguments; the value is the option that brings
# a text, and whether they look for more options behind it.
PROGRAMS = {
    **dict.fromkeys(SHELLS, (r"-\w*c\w*$", False)),
    "python": (r"-\w*c", False),
    "perl": (r"-\w*[eE]", True),
    "ruby": (r"-\w*e", True),
    "node": (r"-\w*[ep]|--(?:eval|print)", True),
    "php": (r"-[rRBE]", True),
}
# The same, with the text as their first argument.
FILTERS = {"awk": False, "gawk": False, "mawk": False, "nawk": False, "sed": True}
# Commands for which no place of a value is known to be safe.
NEVER = _set(
    "eval trap alias xargs parallel at batch psql sqlite3 mysql ssh let osascript "
    "deno bun lua tclsh expect enable bind complete compgen"
)
# Those that may stand in a template, but not with a value among their words.
APART = _set(
    "make gmake export readonly declare typeset local unset read mapfile readarray "
    "getopts"
)
SOURCES = (".", "source")
# Run the command that follows, somewhere among their own arguments.
WRAPPERS = _set(
    "env command builtin exec nohup nice ionice timeout time sudo doas setsid stdbuf "
    "find busybox toybox flock watch strace unshare chroot script caffeinate"
)
RESERVED = _set("if then else elif do while until ! { } time coproc")
HEADS = _set("case for select function esac fi done")
# What a shell or a program evaluates by itself when it is set.
SPECIAL = re.compile(
    r"(?:PS\d|PROMPT_COMMAND|BASH_ENV|ENV|PATH|IFS|SHELLOPTS|EDITOR|PAGER|NODE_OPTIONS"
    r"|LD_\w+|DYLD_\w+|PYTHON\w+|PERL\w+|RUBY\w+|GIT_\w+)$"
)
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)
COMPUTED = "\0"  # stands for a substitution in the text of a word
MAX_DEPTH = 20

_NAMES = "|".join(VARIABLES)
PLACEHOLDER = re.compile(rf"\$\{{?[!#]?(?:{_NAMES})\b")
WHOLE = re.compile(
    rf"\$(?:{_NAMES})|\$\{{(?:{_NAMES})\}}"
    rf"|\"\$(?:{_NAMES})\"|\"\$\{{(?:{_NAMES})\}}\"|'\$(?:{_NAMES})'"
)
# Where bash computes, `a[$(rm x)]` included; %s are the names, with or without a `$`.
COMPUTES = (
    r"\(\((?:(?!\)\)).)*\b(?:%s)\b",
    r"\$\[[^\]]*\b(?:%s)\b",
    r"\[\[(?:(?!\]\]).)*\s-(?:eq|ne|lt|le|gt|ge)\s(?:(?!\]\]).)*\b(?:%s)\b",
    r"\[\[(?:(?!\]\]).)*\b(?:%s)\b(?:(?!\]\]).)*\s-(?:eq|ne|lt|le|gt|ge)\s",
    r"(?:\[|\btest)\s(?:[^;&|\n]*\s)?-[vR]\s[^;&|\n]*\b(?:%s)\b",
    r"\b(?:declare|typeset|local)\s[^\n]*-\w*[in]\w*\s.*\b(?:%s)\b",
    r"\blet\s[^\n;&|]*\b(?:%s)\b",
    r"\bprintf\s+(?:-\w+\s+)*-v\s*[^;&|\n]*\b(?:%s)\b",
    r"\w(?<!environ)(?<!ENVIRON)(?<!\.env)\[[^\]\n]*\b(?:%s)\b[^\n]*\]",
    r"\$\{[^}:]*:(?![-=?+])[^}]*\b(?:%s)\b",
    r"\$\{(?:%s)@",
    r"\$\{!",
)


class Word:
    """One word: as it is written, and as a shell would see it."""

    __slots__ = ("raw", "text")

    def __init__(self, raw: str, text: str) -> None:
        self.raw = raw
        self.text = text

    def has_value(self) -> bool:
        return bool(PLACEHOLDER.search(self.raw)) or COMPUTED in self.text

    def is_program_text(self) -> bool:
        return _is_quoted(self.raw) and not re.search(
            rf"\$\{{?(?:{_NAMES})\b", self.raw
        )


def check(template: str) -> None:
    """Raises UnsafeTemplate, with the reason, for a template that evaluates values."""
    names = _NAMES
    for name in _tainted(template):
        names += "|" + name
    for form in COMPUTES:
        if re.search(form.replace("%s", names), template, re.DOTALL):
            raise UnsafeTemplate("a variable where the shell computes can be evaluated")
    if not PLACEHOLDER.search(template):
        return
    reader = Reader(template)
    reader.read()
    kinds = {name: value for name, value in reader.assigned if _program(value)}
    for words in reader.commands:
        _check_command(words, kinds)


def _tainted(template: str) -> set[str]:
    """Names that were given a value, by `x=$FILE` or `for x in $FILE`."""
    found: set[str] = set()
    for match in re.finditer(r"\b([A-Za-z_]\w*)(?:\+?=|\s+in\s+)([^\s;&|]*)", template):
        if re.search(rf"\$\{{?(?:{'|'.join([_NAMES, *found])})\b", match[2]):
            found.add(match[1])
    return found


def _check_command(words: list[Word], kinds: dict[str, str]) -> None:
    at = 0
    while at < len(words):
        match = ASSIGNMENT.match(words[at].text)
        if match and words[at].has_value() and SPECIAL.match(match[1]):
            raise UnsafeTemplate(f"a value in {match[1]} can be evaluated")
        if not match and words[at].text not in RESERVED:
            break
        at += 1
    if at == len(words) or words[at].text in HEADS:
        return
    if WHOLE.fullmatch(words[at].raw):
        raise UnsafeTemplate("the value would be the program that runs")
    first = _command_name(words[at], kinds)
    if words[at].text[:1] == "{":
        raise UnsafeTemplate("braces would make the command")
    for number in range(at, len(words)):
        heads = number == at or first in WRAPPERS
        name = _command_name(words[number], kinds if heads else None)
        if name in SOURCES and number > at and first not in ("command", "builtin"):
            continue  # a folder
        if heads and name in WRAPPERS:
            _check_wrapper(name, words[number + 1 :])
        elif heads or name in PROGRAMS:
            _check_program(name, words[number + 1 :])
        if name in PROGRAMS or (heads and name in FILTERS):
            return  # the rest are its arguments


def _check_wrapper(name: str, words: list[Word]) -> None:
    if name == "env" and any(re.match("-S|--split", word.text) for word in words):
        raise UnsafeTemplate("env -S would split the value")
    if name != "find" and words and WHOLE.fullmatch(words[0].raw):
        raise UnsafeTemplate("the value would be the program that runs")


def _check_program(name: str, words: list[Word]) -> None:
    if name in NEVER:
        raise UnsafeTemplate(f"`{name}` could evaluate a value")
    stdin = any(word.text in ("-", "-f-") for word in words)
    if name in APART and (stdin or any(word.has_value() for word in words)):
        raise UnsafeTemplate(f"`{name}` could evaluate a value")
    if name in SOURCES:
        if not _is_script(words):
            raise UnsafeTemplate(f"`{name}` would run what is not a file")
    elif name in FILTERS:
        _check_text(name, words, FILTERS[name])
    elif name in PROGRAMS:
        option, permutes = PROGRAMS[name]
        if _is_script(words):
            return
        for number, word in enumerate(words):
            if re.match(option, word.text):
                return _check_text(name, words[number:], permutes)
        _check_options(name, words)


def _check_options(name: str, words: list[Word]) -> None:
    """Options, then a script: a lone `-`, `-s` or nothing at all means stdin."""
    for number, word in enumerate(words):
        if word.text[:1] not in ("-", "+") and _is_script(words[number:]):
            return
        if word.text in ("-m", "--module") and _is_script(words[number + 1 :]):
            return
        if word.has_value() or not re.match(r"[-+][^s-]|--\w", word.text):
            break
    raise UnsafeTemplate(f"`{name}` without a script would run what it reads")


def _check_text(name: str, words: list[Word], permutes: bool) -> None:
    """A quoted program text first; each value after it, as an argument of its own."""
    wrong = UnsafeTemplate(
        f"a value in text that `{name}` runs; put the text in single quotes, and the "
        "value behind it as an argument of its own"
        + (", after `--`" if permutes else "")
    )
    place = 0
    while place < len(words) and not words[place].is_program_text():
        attached = re.fullmatch(r"-\w+('.*')", words[place].raw, re.DOTALL)
        if attached and Word(attached[1], "").is_program_text():
            break
        if words[place].has_value():
            raise wrong
        place += 1
    ended = not permutes
    if place == len(words) and not _has_file_option(words):
        raise wrong
    if place < len(words) and name in SHELLS and _mentions(words[place].raw):
        raise wrong
    for before, word in zip(words[place:], words[place + 1 :]):
        ended = ended or word.text == "--"
        dashed = before.text[:1] == "-" and before.text != "--" and place != 0
        if word.has_value() and (not ended or not WHOLE.fullmatch(word.raw) or dashed):
            raise wrong


def _has_file_option(words: list[Word]) -> bool:
    """`sed -f file`, and nothing in it that has a value."""
    named = any(re.match("-f|--file", word.text) for word in words)
    return named and not any(word.has_value() for word in words)


def _mentions(raw: str) -> bool:
    return bool(re.search(rf"\b(?:{_NAMES})\b", raw))


def _is_script(words: list[Word]) -> bool:
    """Whether a file that the author names comes first."""
    if not words or PLACEHOLDER.search(words[0].raw) or _is_quoted(words[0].raw):
        return False
    text = words[0].text
    named = COMPUTED not in text.rpartition("/")[2]
    odd = re.match("/dev/|/proc/", text)
    return named and bool(re.match(r"[\w./~$\0]", text)) and not odd


def _is_quoted(raw: str) -> bool:
    return len(raw) > 1 and raw[0] == raw[-1] == "'" and raw.count("'") == 2


def _command_name(word: Word, kinds: dict[str, str] | None) -> str:
    """The program that a word names; a command that cannot be known is a shell."""
    variable = re.fullmatch(r"\$\{?(\w+)\}?", word.text)
    if variable and kinds is not None and variable[1] not in VARIABLES:
        return _program(kinds.get(variable[1], "")) or "sh"
    if kinds is not None and COMPUTED in word.text.rpartition("/")[2]:
        return "sh"
    return _program(word.text) or word.text


def _program(text: str) -> str:
    """The known name of an interpreter's path: `/usr/bin/python3.11` is `python`."""
    name = re.sub(r"\.?\d[\d.]*$", "", text.rpartition("/")[2])
    name = {"nodejs": "node"}.get(name, name)
    tables = (PROGRAMS, FILTERS, NEVER, APART, WRAPPERS)
    return name if any(name in table for table in tables) else ""


class Reader:
    """Splits shell text into commands and words, and so what is substituted in it."""

    def __init__(self, text: str, depth: int = 0) -> None:
        if depth > MAX_DEPTH:
            raise UnsafeTemplate("it is nested too deeply")
        self.text = text
        self.depth = depth
        self.at = 0
        self.commands: list[list[Word]] = []
        self.assigned: list[tuple[str, str]] = []
        self.words: list[Word] = []
        self.start = -1  # of the word being read
        self.seen: list[str] = []
        self.heredocs: list[str] = []
        self.target = ""  # the redirection that takes the next word

    def read(self) -> None:
        while self.at < len(self.text):
            self._step(self.text[self.at])
        self._end_command()

    def _step(self, char: str) -> None:
        two = self.text[self.at : self.at + 2]
        if char in " \t":
            self._end_word()
            self.at += 1
        elif two in ("<(", ">("):
            self._begin()
            self.at += 1
            self._parentheses()
        elif char in "<>" or two == "&>":
            self._redirection()
        elif char in ";&|()\n":
            self._end_command()
            self.at += 1
            if char == "\n":
                self._skip_heredocs()
        elif char == "#" and self.start < 0:
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        else:
            self._begin()
            self._part(char, two)

    def _part(self, char: str, two: str) -> None:
        """A piece of a word, outside of quotes."""
        if two == "$'":
            raise UnsafeTemplate("$'...' is read differently by every shell")
        if char == "\\":
            self.seen.append("" if two[1:] == "\n" else two[1:])
            self.at += 2
        elif char == "'":
            self.seen.append(self._upto("'"))
        elif char == '"':
            self.at += 1
            self._double_quotes()
        else:
            self._expansion(char, two)

    def _double_quotes(self) -> None:
        while self.at < len(self.text) and self.text[self.at] != '"':
            char, two = self.text[self.at], self.text[self.at : self.at + 2]
            if char == "\\":
                self.seen.append(two[1:] if two[1:] in '$`"\\' else two)
                self.at += 2
            else:
                self._expansion(char, two)
        self.at += 1

    def _expansion(self, char: str, two: str) -> None:
        if two == "$(":
            self.at += 1
            self._parentheses()
        elif char == "`":
            inside = re.sub(r"\\([`$\\])", r"\1", self._backquotes())
            self._nested(inside)
        else:
            self.seen.append(char)
            self.at += 1

    def _parentheses(self) -> None:
        """A substitution; its end is the parenthesis that no word inside holds."""
        inner = Reader(self.text[self.at + 1 :], self.depth + 1)
        level = 0
        while inner.at < len(inner.text):
            char = inner.text[inner.at]
            if char == ")" and not level:
                break
            level += {"(": 1, ")": -1}.get(char, 0)
            inner._step(char)
        inner._end_command()
        self.at += inner.at + 2
        self._take(inner)

    def _backquotes(self) -> str:
        match = re.compile(r"`((?:\\.|[^`\\])*)`?", re.DOTALL).match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return match[1]

    def _nested(self, text: str) -> None:
        inner = Reader(text, self.depth + 1)
        inner.read()
        self._take(inner)

    def _take(self, inner: Reader) -> None:
        self.seen.append(COMPUTED)
        self.commands += inner.commands
        self.assigned += inner.assigned

    def _upto(self, quote: str) -> str:
        end = self.text.find(quote, self.at + 1)
        end = len(self.text) if end < 0 else end
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return inside

    def _redirection(self) -> None:
        if self.start >= 0 and self.text[self.start : self.at].isdigit():
            self.start = -1  # the number of a descriptor
            self.seen = []
        self._end_word()
        match = re.compile(r"&>>?|<<<|<<-?|[<>]+[&|]?").match(self.text, self.at)
        assert match is not None
        self.target = match[0]
        self.at = match.end()

    def _begin(self) -> None:
        if self.start < 0:
            self.start = self.at
            self.seen = []

    def _end_word(self) -> None:
        if self.start < 0:
            return
        word = Word(self.text[self.start : self.at], "".join(self.seen))
        self.start = -1
        target, self.target = self.target, ""
        if target in ("<<", "<<-"):
            self.heredocs.append(word.text)
        if target:
            return
        match = ASSIGNMENT.match(word.text)
        if match:
            self.assigned.append((match[1], match[2]))
        self.words.append(word)

    def _end_command(self) -> None:
        self._end_word()
        if self.words:
            self.commands.append(self.words)
            self.words = []

    def _skip_heredocs(self) -> None:
        """A body is data, but for the substitutions in it."""
        for word in self.heredocs:
            end = re.compile(rf"^\t*{re.escape(word)}$", re.MULTILINE)
            match = end.search(self.text, self.at)
            stop = match.start() if match else len(self.text)
            body = self.text[self.at : stop].replace('"', '\\"')
            self._nested('"' + body + '"')
            self.seen = []
            self.at = match.end() if match else stop
        self.heredocs = []
