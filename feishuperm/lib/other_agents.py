"""Who called the hook: Claude Code, or another agent that reads its settings.

Some agents run every hook they find there, take any failure for a refusal, and are
driven on by a blocked stop.  The hook prints nothing for them, succeeds, and leaves one
line a day in the log.  `wire` looks first, by bytes, and asks here only when it found a
mark; a caller with no mark at all is served.  This keeps mistakes out, not enemies.

It imports no more than it must: these agents call for things nobody is asked about.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from feishuperm.models.fields import decoded, part_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    Environ = Mapping[bytes, bytes]

# Each agent with what tells it: its variables, the fields of its events, where its
# transcripts are.  A variable is handed down to all below, so none of this speaks
# against an event of Claude's own.  `wire` has the same as bytes.
AGENTS: tuple[tuple[str, tuple[bytes, ...], tuple[str, ...], str], ...] = (
    ("Codex", (), ("turn_id",), "/.codex/"),
    ("Qwen Code", (b"QWEN_PROJECT_DIR", b"QWEN_CODE_SESSION_ID"), (), "/.qwen/"),
    ("Copilot CLI", (b"COPILOT_CLI", b"COPILOT_PROJECT_DIR"), ("hookName",),
     "/.copilot/"),
    ("Grok", (b"GROK_HOOK_EVENT", b"GROK_SESSION_ID"),
     ("hookEventName", "workspaceRoot"), "/.grok/"),
    ("Gemini CLI", (b"GEMINI_SESSION_ID", b"GEMINI_PROJECT_DIR"), (), "/.gemini/"),
    ("droid", (b"FACTORY_PROJECT_DIR", b"DROID_PROJECT_DIR"), ("message_id",),
     "/.factory/"),
    ("Kimi Code", (), ("client_type",), ""),
    ("Qoder", (b"QODER_HOOK_SOURCE", b"QODER_HOOK_VERSION"), (), "/.qoder/"),
    ("Auggie", (b"AUGMENT_HOOK_EVENT",), ("is_mcp_tool",), ""),
    ("Letta", (), ("event_type", "working_directory"), ""),
    ("Cursor", (), ("conversation_id", "generation_id", "workspace_roots"), ""),
    ("another agent", (), ("timestamp", "sessionId"), ""),
)  # fmt: skip
NOTE_SECONDS = 24 * 3600  # between two lines in the log about the same agent
UUID_VERSION = 14  # where a UUID says which kind it is; Claude's are of version 4


def should_ignore(raw: bytes, environ: Environ) -> bool:
    """Whether an event is another agent's, and so not the hook's; notes it."""
    agent = foreign_agent(raw, environ)
    if agent:
        _note(agent)
    return bool(agent)


def foreign_agent(raw: bytes, environ: Environ) -> str:
    """The agent that sent an event; empty for Claude Code and where nothing tells."""
    fields = part_at(decoded(raw))
    return "" if is_claude(fields, environ) else _marked(fields, environ)


def is_claude(fields: dict[str, Any], environ: Environ) -> bool:
    """Whether session or transcript are Claude Code's, whatever else is around."""
    session, transcript = fields.get("session_id"), fields.get("transcript_path")
    if not isinstance(session, str) or not session:
        return False
    if environ.get(b"CLAUDE_CODE_SESSION_ID") == session.encode(errors="replace"):
        return True
    if not isinstance(transcript, str) or "\0" in transcript:
        return False
    base = environ.get(b"CLAUDE_CONFIG_DIR") or environ.get(b"HOME", b"") + b"/.claude"
    projects = os.path.realpath(os.path.join(os.fsdecode(base), "projects"))
    place = os.path.realpath(transcript)
    named = os.path.basename(transcript) == f"{session}.jsonl"
    return named and place.startswith(projects + os.sep)


def _marked(fields: dict[str, Any], environ: Environ) -> str:
    """The agent whose mark an event bears; fields count before the environment."""
    transcript = str(fields.get("transcript_path"))
    for agent, _, names, folder in AGENTS[:-1]:
        if not fields.keys().isdisjoint(names) or (folder and folder in transcript):
            return agent
    version = str(fields.get("session_id"))[UUID_VERSION : UUID_VERSION + 1]
    if "model" in fields and version == "7":
        return "Codex"
    for agent, variables, _, _ in AGENTS:
        if any(name in environ for name in variables):
            return agent
    last, _, names, _ = AGENTS[-1]
    return "" if fields.keys().isdisjoint(names) else last


def _note(agent: str) -> None:
    """One line a day for each agent: it may call a hundred times an hour."""
    from feishuperm.lib.config import state_dir

    stamp = os.path.join(state_dir(), f"host-{agent.replace(' ', '-').lower()}")
    try:
        if time.time() - os.stat(stamp).st_mtime < NOTE_SECONDS:
            return
    except OSError:
        pass
    from feishuperm.lib.log import log

    log(f"{agent} runs the hooks of Claude Code's settings; its events are passed over")
    try:
        os.close(os.open(stamp, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
        os.utime(stamp)
    except OSError:
        pass
