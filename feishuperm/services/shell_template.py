"""Shell text whose placeholders are safe expansions: see `services.variables`.

A small reader of sh: it follows quotes, comments, command substitutions and
here-documents far enough to know what stands around a placeholder.  It is loaded only
for a command that has one.
"""

from __future__ import annotations

import re

from feishuperm.services.variables import (
    PLACEHOLDER,
    VARIABLES,
    UnsafeTemplate,
    used_variables,
)

_TOKEN = re.compile(
    r"""\\. | \$\(\( | \(\( | \$\( | \$\{[A-Z_]+\} | \$\{ | \$[A-Za-z_][A-Za-z0-9_]*
    | <<<? | ['"`(){}\#;&|\n]""",
    re.VERBOSE | re.DOTALL,
)
_HEREDOC = re.compile(r"-?[ \t]*((?:\\.|'[^']*'|\"[^\"]*\"|[^\s;&|<>()'\"\\])+)")
# Earlier words of a command that will have its argument evaluated once more.
_EVALUATES = re.compile(
    r"(?:^|\s)(?:eval|let)\s"
    r"|(?:^|[\s/])(?:\w*sh|su|python[\d.]*)\s(?:.*\s)?-\w*c\s"
    r"|(?:^|[\s/])(?:perl|ruby|node)\s(?:.*\s)?-\w*[ep]\s",
    re.DOTALL,
)
# bash computes with names it finds here, `a[$(rm x)]` included, with or without a `$`.
_NAMES = "|".join(VARIABLES)
_COMPUTES = re.compile(
    rf"\(\((?:(?!\)\)).)*\b(?:{_NAMES})\b"
    rf"|\[\[(?:(?!\]\]).)*\s-(?:eq|ne|lt|le|gt|ge)\s(?:(?!\]\]).)*\b(?:{_NAMES})\b"
    rf"|\[\[(?:(?!\]\]).)*\b(?:{_NAMES})\b(?:(?!\]\]).)*\s-(?:eq|ne|lt|le|gt|ge)\s",
    re.DOTALL,
)
_INTERPRETER = re.compile(
    r"(?:^|[\s/])(?:\w*sh|su|python[\d.]*|perl|ruby|node)(?:\s|$)"
)
_SEPARATORS = (";", "&", "|", "\n", "(")


def rewrite(template: str) -> str:
    """The command with expansions for placeholders. Raises UnsafeTemplate."""
    return _Rewriter(template).run()


class _Rewriter:
    """One pass over a command. The innermost quoting is the top of `stack`.

    Contexts: "" plain words, '"' double quotes, "`" and ")" command substitutions,
    "))" arithmetic, "}" a parameter expansion with an operator.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0  # everything before this has been copied
        self.command_start = 0
        self.stack = [""]
        self.parts: list[str] = []
        self.heredocs: list[tuple[str, bool, bool]] = []

    def run(self) -> str:
        if _COMPUTES.search(self.text):
            raise UnsafeTemplate("a variable inside arithmetic can be evaluated")
        while True:
            match = _TOKEN.search(self.text, self.at)
            if match is None:
                return "".join(self.parts) + self.text[self.at :]
            self._copy(match.start())
            self._token(match[0])

    def _copy(self, end: int) -> None:
        self.parts.append(self.text[self.at : end])
        self.at = end

    def _token(self, token: str) -> None:
        """Copy or rewrite the token at `at`, and note what it opens or closes."""
        start = self.at
        name = token.strip("${}")
        if token[0] == "$" and name in VARIABLES:
            self.at += len(token)
            self.parts.append(self._expansion(name, start))
            return
        self._copy(start + len(token))
        quoted = self.stack[-1] == '"'
        if token == self.stack[-1]:
            self._close()
        elif self.stack[-1] == "))" and self.text.startswith("))", start):
            self._copy(start + 2)
            self._close()
        elif token in _OPENS and not (quoted and token in _PLAIN_ONLY):
            self._open(_OPENS[token])
        elif not quoted:
            self._plain_token(token, start)

    def _open(self, closer: str) -> None:
        self.stack.append(closer)
        if closer in (")", "`"):
            self.command_start = self.at

    def _close(self) -> None:
        self.stack.pop()

    def _plain_token(self, token: str, start: int) -> None:
        if token == "'":
            self._single_quotes()
        elif token == "#" and (start == 0 or self.text[start - 1] in " \t\n;&|("):
            end = self.text.find("\n", start)
            self._copy(len(self.text) if end < 0 else end)
        elif token == "<<":
            self._note_heredoc()
        elif token in _SEPARATORS:
            self.command_start = self.at
            if token == "\n":
                self._heredoc_bodies()

    def _single_quotes(self) -> None:
        """Leave the quotes for each placeholder, unless another shell reads them."""
        end = self.text.find("'", self.at)
        end = len(self.text) if end < 0 else end
        inside = self.text[self.at : end]
        before = self.text[self.command_start : self.at - 1]
        if _EVALUATES.search(before):
            if re.search(r"\beval\b", before) and used_variables(inside):
                raise UnsafeTemplate("eval would run the value")
            return self._copy(end + 1)  # that shell finds the values in its environment
        self.parts.append(_replace_names(inside, "'\"${%s}\"'"))
        self.at = end
        self._copy(end + 1)

    def _expansion(self, name: str, start: int) -> str:
        before = self.text[self.command_start : start]
        if self.stack[-1] in ("))", "}"):
            raise UnsafeTemplate(f"${name} inside ${{...}} can be evaluated")
        if _EVALUATES.search(before):
            raise UnsafeTemplate(
                f"${name} in text that another interpreter runs; put that text in "
                "single quotes and let it read the environment variable"
            )
        expansion = f"${{{name}}}"
        return expansion if self.stack[-1] == '"' else f'"{expansion}"'

    def _note_heredoc(self) -> None:
        match = _HEREDOC.match(self.text, self.at)
        if match is None:
            return
        word = re.sub(r"[\\'\"]", "", match[1])
        interpreted = bool(
            _INTERPRETER.search(self.text[self.command_start : self.at - 2])
        )
        self.heredocs.append((word, word != match[1], interpreted))
        self._copy(match.end())

    def _heredoc_bodies(self) -> None:
        for word, literal, interpreted in self.heredocs:
            end = re.compile(rf"^\t*{re.escape(word)}$", re.MULTILINE)
            match = end.search(self.text, self.at)
            stop = match.end() if match else len(self.text)
            body = self.text[self.at : stop]
            if interpreted and not literal and used_variables(body):
                raise UnsafeTemplate("a variable in a here-document that is run")
            self.parts.append(body if literal else _replace_names(body, "${%s}"))
            self.at = self.command_start = stop
        self.heredocs = []


# What opens a context, and the token that closes it.
_OPENS = {'"': '"', "`": "`", "$(": ")", "(": ")", "$((": "))", "((": "))", "${": "}"}
_PLAIN_ONLY = ("(", "((")  # inside double quotes these are just characters


def _replace_names(text: str, form: str) -> str:
    def replace(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return form % name if name in VARIABLES else match[0]

    return re.sub(PLACEHOLDER, replace, text)
