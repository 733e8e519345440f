"""Every English sentence of the program that a person at the terminal can read.

Read from the source: whatever has two words or more in a module that speaks to people,
and whatever an error for people is made of elsewhere.  A hole of an f-string is `{}`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2] / "feishuperm"
# Where every sentence is for people; of all other modules only their errors are.
SPEAKERS = (
    "cli.py", "commands/", "setup/", "lib/arguments.py", "lib/config.py",
    "lib/control.py", "lib/feishu.py", "lib/feishu_app.py", "lib/files.py",
    "lib/post.py", "lib/settings_editor.py", "lib/terminal.py", "engine/trust.py",
    "engine/trust_review.py", "engine/screen.py", "engine/headless.py",
    "engine/config_manager.py", "supervisor/switch.py", "services/history.py",
    "services/ledger_check.py", "services/passes.py", "services/rule_writer.py",
    "server/listen.py", "channels/outbox.py", "gateway/control.py", "gateway/crowd.py",
    "models/hooks.py",
)  # fmt: skip
SILENT = ("commands/hook.py", "setup/hook_entries.py")  # what they say is for the log
# Whatever is given to these is for a person, be it a single word.
SPOKEN = ("say", "warn", "ask", "translate", "Result")
# What goes to the log, to a program or to the model, not to a person.
ELSEWHERE = ("log", "compile", "permission_event", "_deny", "_block", "_failed")
# Errors between machines, or that only the log or a reviewer's verdict tells.
FOREIGN = ("ProtocolError", "PayloadError", "ReviewError")


class Sentence(NamedTuple):
    text: str
    place: str


def template(node: ast.AST) -> str | None:
    """A literal as it is, with `{}` for what is only known later."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (template(value) for value in node.values)
        return "".join("{}" if part is None else part for part in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = template(node.left), template(node.right)
        if sides != (None, None):
            return "".join("{}" if side is None else side for side in sides)
    return None


def called(node: ast.Call) -> str:
    return getattr(node.func, "attr", "") or getattr(node.func, "id", "")


class Reader(ast.NodeVisitor):
    """Collects the templates of one module, and what each is given to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.rows: list[tuple[str, int, tuple[str, ...]]] = []

    def visit(self, node: ast.AST) -> None:
        text = template(node)
        if text is not None:
            self.rows.append((text, node.lineno, tuple(self.calls)))  # type: ignore[attr-defined]
            for value in ast.walk(node):
                if isinstance(value, ast.FormattedValue):
                    self.visit(value.value)
            return
        super().visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if template(node.value) is None:  # or it is a docstring
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.calls.append(called(node))
        self.generic_visit(node)
        self.calls.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """An annotation says nothing to anybody."""

    def visit_Compare(self, node: ast.Compare) -> None:
        """Nor does what a value is compared with."""
        self.visit(node.left)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Nor does a key."""
        self.visit(node.value)


def read_all() -> Iterator[tuple[str, int, str, tuple[str, ...]]]:
    """Every template: its module, line, text, and the calls around it."""
    for path in sorted(ROOT.rglob("*.py")):
        if path.name == "chinese.py":
            continue
        reader = Reader()
        reader.visit(ast.parse(path.read_text()))
        name = path.relative_to(ROOT).as_posix()
        for text, line, calls in reader.rows:
            if calls[-1:] == ("failure",):  # of lib/files.py: verb, path, error
                text += " {}: {}"
            yield name, line, text, calls


def error_classes() -> set[str]:
    """Every error whose text is meant for a person."""
    parents: dict[str, list[str]] = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                parents[node.name] = [getattr(base, "id", "") for base in node.bases]
    kept, before = {"FeishupermError"}, set()
    while kept != before:
        before = set(kept)
        kept |= {
            name
            for name, bases in parents.items()
            if kept & set(bases) and name not in FOREIGN
        }
    return kept


def sentences() -> list[Sentence]:
    """Everything that has to have a row, in the order of the source."""
    errors = error_classes()
    rows: dict[str, Sentence] = {}
    for name, line, text, calls in read_all():
        if name in SILENT or any(call in ELSEWHERE for call in calls):
            continue
        if name.startswith(SPEAKERS) or errors.intersection(calls):
            spoken = calls[-1:] and calls[-1] in SPOKEN
            if is_sentence(text.lstrip(" "), 1 if spoken else 2):
                rows.setdefault(text, Sentence(text, f"{name}:{line}"))
    return list(rows.values())


def is_sentence(text: str, least: int) -> bool:
    """Whether it has words for a person, and not only for a shell or a program."""
    words = re.sub(r"`[^`]*`|\{\}|<[^>]*>|https?://\S*|--?[a-z][a-z-]*", " ", text)
    count = len(re.findall(r"[A-Za-z]{2,}", words))
    if re.fullmatch(r"[a-z]+\.[a-z_]+", text):  # a key of lib/text.py
        return False
    return count >= least and (" " in text or least == 1)


def has_chinese(text: str) -> bool:
    """Whether what was printed is in Chinese, and no English sentence is in it."""
    text = re.sub(r"feishuperm( [a-z-]+)*", "", text)
    left = re.search(r"(?<![\w/-])[a-z]{2,}( [a-z]{2,}){2,}|hint:|note:", text)
    assert left is None, text
    return re.search("[\u4e00-\u9fff]", text) is not None
