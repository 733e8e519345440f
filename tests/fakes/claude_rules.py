"""A small model of how Claude Code matches permission rules, as observed.

It answers one question: would this rule let that call run without asking?  Where the
real client is looser than one would like (letter case of file names, everything below
a folder), so is the model; where it never matches, neither does this.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

PATH_KEYS = ("file_path", "notebook_path", "path")
TOOLS_OF = {  # rule name: tools it speaks for
    "Edit": ("Edit", "MultiEdit", "Write", "NotebookEdit", "Read"),
    "Read": ("Read", "Glob", "Grep"),
}


class Rule(NamedTuple):
    tool: str
    content: str | None


def parse_rule(text: str) -> Rule:
    """A rule as the client reads it. Raises ValueError for one that it skips."""
    opening = _unquoted(text, "(")
    closing = _unquoted(text, ")")
    if not opening and not closing:
        return Rule(text, None)
    if not opening or not closing or closing[-1] != len(text) - 1:
        raise ValueError(f"malformed rule {text!r}")
    content = text[opening[0] + 1 : -1]
    if content in ("", "*"):
        return Rule(text[: opening[0]], None)
    content = content.replace("\\(", "(").replace("\\)", ")").replace("\\\\", "\\")
    return Rule(text[: opening[0]], content)


def allows(text: str, tool: str, tool_input: dict[str, Any], project: str) -> bool:
    """Whether a rule in the project's settings covers a call."""
    rule = parse_rule(text)
    if rule.content is None:
        return tool == rule.tool or tool.startswith(rule.tool + "__")
    if rule.tool in TOOLS_OF:
        if tool not in TOOLS_OF[rule.tool]:
            return False
        paths = [tool_input[key] for key in PATH_KEYS if key in tool_input]
        return bool(paths) and path_matches(rule.content, paths[0], project)
    if tool != rule.tool:
        return False
    if tool == "Bash":
        return command_matches(rule.content, tool_input["command"])
    if tool == "WebFetch":
        return rule.content == "domain:" + host_of(tool_input["url"])
    return rule.content in tool_input.values()


def command_matches(content: str, command: str) -> bool:
    if content.endswith(":*"):
        prefix = content[:-2]
        return command == prefix or command.startswith(prefix + " ")
    pattern = ".*".join(re.escape(part) for part in content.split("*"))
    return re.fullmatch(pattern, command.strip(), re.DOTALL) is not None


def path_matches(pattern: str, path: str, project: str) -> bool:
    if path.rpartition("/")[2].endswith("."):
        return False
    if pattern.startswith("//"):
        root, pattern = "", pattern[1:]
    elif pattern.startswith("/"):
        root = project
    else:
        root, pattern = project, "/" + pattern
    regex = re.escape(root) + _glob(pattern.rstrip(" ")) + "(/.*)?"
    return re.fullmatch(regex, path, re.DOTALL | re.IGNORECASE) is not None


def host_of(url: str) -> str:
    match = re.match(r"https?://([^/:?#@\\]+)(:\d+)?([/?#]|$)", url)
    return match.group(1).lower() if match else ""


def _unquoted(text: str, bracket: str) -> list[int]:
    """Where a bracket stands behind an even number of backslashes."""
    places = []
    for match in re.finditer(re.escape(bracket), text):
        before = text[: match.start()]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            places.append(match.start())
    return places


def _glob(pattern: str) -> str:
    """A .gitignore pattern as a regular expression."""
    token = re.compile(r"\\(?P<quoted>.)|\*\*|\*|\?|\[[^\]]*\]|.", re.DOTALL)
    wild = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = []
    for match in token.finditer(pattern):
        text = match.group()
        if match.group("quoted"):
            # The client knows no quoted question mark: it stays a wildcard.
            quoted = match.group("quoted")
            parts.append("[^/]" if quoted == "?" else re.escape(quoted))
        elif text in wild:
            parts.append(wild[text])
        elif len(text) > 2 and text.startswith("["):
            parts.append(text)
        else:
            parts.append(re.escape(text))
    return "".join(parts)
