"""`$TOOL`, `$FILE` and the others: what they stand for, and how a template gets them.

A prompt is plain text: its placeholders are replaced in one pass, and what a value
contains is never looked at again.

A command is shell text, so its values never enter it.  They are handed over as
environment variables of the same names, and each placeholder becomes an expansion that
suits the quotes around it:

    cp $FILE /tmp        ->  cp "${FILE}" /tmp
    cp "$FILE" /tmp      ->  cp "${FILE}" /tmp
    cp '$FILE' /tmp      ->  cp ''"${FILE}"'' /tmp

A shell does not parse what an expansion yields, so no value can run anything by itself.
Where a shell or a program would evaluate the value after all (arithmetic, `eval`,
`sh -c "..."`, `| sh`), the template is refused; see `hooks.shell_template`.  Other
`$NAME`s are the shell's own business.
"""

from __future__ import annotations

import re
from functools import lru_cache

from feishuperm.models.fields import text_at
from feishuperm.models.names import PATH_KEYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Name -> the fields it is taken from, the first that holds text; a dot goes inside.
VARIABLES = {
    "TOOL": ("tool_name",),
    "FILE": tuple(f"tool_input.{key}" for key in (*PATH_KEYS, "path")),
    "COMMAND": ("tool_input.command",),
    "CWD": ("cwd",),
    "EVENT": ("hook_event_name",),
    "SESSION_ID": ("session_id",),
    "MESSAGE_UUID": ("message_uuid", "prompt_id"),
    "AGENT": ("agent_type", "agent_id"),
    "ERROR": ("error",),
    "MESSAGE": ("message", "last_assistant_message"),
    "PROMPT": ("prompt",),
    "TOOL_USE_ID": ("tool_use_id",),
    "TRANSCRIPT_PATH": ("transcript_path",),
    "PERMISSION_MODE": ("permission_mode",),
}

PATHS = ("FILE", "CWD", "TRANSCRIPT_PATH")

# Compiled where it is used: that takes longer than all the rest of this module.
PLACEHOLDER = r"\$(?:\{([A-Z_]+)\}|([A-Za-z_][A-Za-z0-9_]*))"


class UnsafeTemplate(ValueError):
    """A command would evaluate a value, whatever quotes were put around it."""


def variables(fields: dict[str, Any]) -> dict[str, str]:
    """The value of every variable for one event; what it does not carry is empty."""
    values = {}
    for name, paths in VARIABLES.items():
        texts = (text_at(fields, *path.split(".")) for path in paths)
        values[name] = next(filter(None, texts), "")
    return values


def expand_prompt(template: str, values: dict[str, str]) -> str:
    """Plain text with its placeholders replaced; unknown names stay as they are."""

    def replace(match: re.Match[str]) -> str:
        return values.get(match[1] or match[2], match[0])

    return re.sub(PLACEHOLDER, replace, template)


@lru_cache
def shell_template(template: str) -> str:
    """A command whose placeholders are expansions. Raises UnsafeTemplate."""
    if not used_variables(template):
        return template
    from feishuperm.hooks.shell_template import rewrite  # most commands do without

    return rewrite(template)


def used_variables(template: str) -> set[str]:
    """The variables a template mentions, in whatever form: `${FILE#/}` is one."""
    return {
        name
        for name in VARIABLES
        if name in template and re.search(rf"\b{name}\b", template, re.ASCII)
    }
