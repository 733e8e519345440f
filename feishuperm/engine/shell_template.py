"""Shell text whose placeholders are safe expansions: see `engine.variables`.

A small reader of sh: it follows quotes, comments, command substitutions and
here-documents far enough to know what stands around a placeholder.  It is loaded only
for a command that has one.  What it makes of a template is safe in a shell; which
programs would evaluate a value all the same is `engine.shell_check`'s business.
"""

from __future__ import annotations

import re

from feishuperm.engine.shell_check import check
from feishuperm.engine.variables import PLACEHOLDER, VARIABLES, UnsafeTemplate

_TOKEN = re.compile(
    r"""\\. | \$\(\( | \(\( | \$\( | \$\{[A-Z_]+\} | \$\{ | \$[A-Za-z_][A-Za-z0-9_]*
    | <<<? | ['"`(){}\#;&|\n]""",
    re.VERBOSE | re.DOTALL,
)
_HEREDOC = re.compile(r"-?[ \t]*((?:\\.|'[^']*'|\"[^\"]*\"|[^\s;&|<>()'\"\\])+)")


def rewrite(template: str) -> str:
    """The command with expansions for placeholders. Raises UnsafeTemplate."""
    check(template)
    return _Rewriter(template).run()


class _Rewriter:
    """One pass over a command. The innermost quoting is the top of `stack`.

    Contexts: "" plain words, '"' double quotes, "`" and ")" command substitutions,
    "))" arithmetic, "}" a parameter expansion with an operator.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0  # everything before this has been copied
        self.stack = [""]
        self.parts: list[str] = []
        self.heredocs: list[tuple[str, bool]] = []

    def run(self) -> str:
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
            self.parts.append(self._expansion(name))
            return
        self._copy(start + len(token))
        quoted = self.stack[-1] == '"'
        if token == self.stack[-1]:
            self.stack.pop()
        elif self.stack[-1] == "))" and self.text.startswith("))", start):
            self._copy(start + 2)
            self.stack.pop()
        elif token in _OPENS and not (quoted and token in _PLAIN_ONLY):
            self.stack.append(_OPENS[token])
        elif not quoted:
            self._plain_token(token, start)

    def _plain_token(self, token: str, start: int) -> None:
        if token == "'":
            self._single_quotes()
        elif token == "#" and (start == 0 or self.text[start - 1] in " \t\n;&|("):
            end = self.text.find("\n", start)
            self._copy(len(self.text) if end < 0 else end)
        elif token == "<<":
            self._note_heredoc()
        elif token == "\n":
            self._heredoc_bodies()

    def _single_quotes(self) -> None:
        """Leave the quotes for each placeholder."""
        end = self.text.find("'", self.at)
        end = len(self.text) if end < 0 else end
        inside = self.text[self.at : end]
        self.parts.append(_replace_names(inside, "'\"${%s}\"'"))
        self.at = end
        self._copy(end + 1)

    def _expansion(self, name: str) -> str:
        if self.stack[-1] in ("))", "}"):
            raise UnsafeTemplate(f"${name} inside ${{...}} can be evaluated")
        expansion = f"${{{name}}}"
        return expansion if self.stack[-1] == '"' else f'"{expansion}"'

    def _note_heredoc(self) -> None:
        match = _HEREDOC.match(self.text, self.at)
        if match is None:
            return
        word = re.sub(r"[\\'\"]", "", match[1])
        self.heredocs.append((word, word != match[1]))
        self._copy(match.end())

    def _heredoc_bodies(self) -> None:
        for word, literal in self.heredocs:
            end = re.compile(rf"^\t*{re.escape(word)}$", re.MULTILINE)
            match = end.search(self.text, self.at)
            stop = match.end() if match else len(self.text)
            body = self.text[self.at : stop]
            self.parts.append(body if literal else _replace_names(body, "${%s}"))
            self.at = stop
        self.heredocs = []


# What opens a context, and the token that closes it.
_OPENS = {'"': '"', "`": "`", "$(": ")", "(": ")", "$((": "))", "((": "))", "${": "}"}
_PLAIN_ONLY = ("(", "((")  # inside double quotes these are just characters


def _replace_names(text: str, form: str) -> str:
    def replace(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return form % name if name in VARIABLES else match[0]

    return re.sub(PLACEHOLDER, replace, text)
