"""Who called the hook: Claude Code, or another agent that reads its settings.

Some agents run every hook they find there, take any failure for a refusal, and are
driven on by a blocked stop.  The hook prints nothing for them, succeeds, and leaves one
line a day in the log.  `wire` looks first, by bytes, and asks here only about an event
that is not plainly Claude Code's; a caller with no mark at all is served.  This keeps
mistakes out, not enemies.  A variable is handed down to all below, so none of them
speaks against an event of Claude Code's own.

It imports no more than it must: these agents call for things nobody is asked about.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from feishuperm.agents.table import AGENTS, PASSED_OVER, UNNAMED
from feishuperm.models.fields import decoded, part_at, path_at, text_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    Environ = Mapping[bytes, bytes]

NOTE_SECONDS = 24 * 3600  # between two lines in the log about the same agent
UUID_VERSION = 14  # where a UUID says which kind it is; Claude's are of version 4


def should_ignore(raw: bytes, environ: Environ) -> bool:
    """Whether an event is another agent's, and so not the hook's; notes it."""
    fields = part_at(decoded(raw))
    agent = "" if is_claude(fields, environ) else foreign_agent(fields, environ)
    if agent:
        _note(agent)
    return bool(agent)


def is_claude(fields: dict[str, Any], environ: Environ) -> bool:
    """Whether session or transcript are Claude Code's, whatever else is around."""
    session = text_at(fields, "session_id")
    transcript = path_at(fields, "transcript_path")
    own = session.encode(errors="replace")
    if session and environ.get(b"CLAUDE_CODE_SESSION_ID") == own:
        return True
    base = environ.get(b"CLAUDE_CONFIG_DIR") or environ.get(b"HOME", b"") + b"/.claude"
    projects = os.path.realpath(os.path.join(os.fsdecode(base), "projects"))
    place = os.path.realpath(transcript)
    named = os.path.basename(transcript) == f"{session}.jsonl"
    return bool(session) and named and place.startswith(projects + os.sep)


def foreign_agent(fields: dict[str, Any], environ: Environ) -> str:
    """The agent whose mark an event bears; fields count before the environment."""
    transcript = text_at(fields, "transcript_path")
    rows = (*AGENTS.values(), *PASSED_OVER)
    for row in rows:
        is_there = any(mark in transcript for mark in row.marks if mark[:1] == "/")
        if is_there or not fields.keys().isdisjoint(row.marks):
            return row.name
    version = text_at(fields, "session_id")[UUID_VERSION : UUID_VERSION + 1]
    if "model" in fields and version == "7":
        return AGENTS["codex"].name
    for row in rows:
        if any(name in environ for name in row.variables):
            return row.name
    return "" if fields.keys().isdisjoint(UNNAMED.marks) else UNNAMED.name


def _note(agent: str) -> None:
    """One line a day for each agent: it may call a hundred times an hour."""
    from feishuperm.lib.config import state_dir

    stamp = os.path.join(state_dir(), f"host-{agent.replace(' ', '-').lower()}")
    with suppress(OSError):
        if time.time() - os.stat(stamp).st_mtime < NOTE_SECONDS:
            return
    from feishuperm.lib.log import log

    log(f"{agent} runs the hooks of Claude Code's settings; its events are passed over")
    with suppress(OSError):
        os.close(os.open(stamp, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
        os.utime(stamp)
