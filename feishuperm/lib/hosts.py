"""Who called the hook: Claude Code, or another agent that reads its settings.

Some agents run every hook they find there, take any failure for a refusal, and are
driven on by a blocked stop.  They get silence and success, and leave one line a day in
the log.  `wire` looks first, by bytes, and asks here only when it found a mark; a
caller with no mark at all is served.  This keeps mistakes out, not enemies.

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

# Each host with what tells it: its variables, the fields of its events, where its
# transcripts are.  A variable is handed down to all below, so none of this speaks
# against an event of Claude's own.  `wire` has the same as bytes.
HOSTS: tuple[tuple[str, tuple[bytes, ...], tuple[str, ...], str], ...] = (
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
NOTE_SECONDS = 24 * 3600  # between two lines in the log about the same host
UUID_VERSION = 14  # where a UUID says which kind it is; Claude's are of version 4


def pass_over(raw: bytes, environ: Environ) -> bool:
    """Whether to do nothing for an event, since it is a stranger's; notes it."""
    host = stranger(raw, environ)
    if host:
        _note(host)
    return bool(host)


def stranger(raw: bytes, environ: Environ) -> str:
    """The host that sent an event, empty for Claude Code and for who bears no mark."""
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
    """Whose mark an event bears; what it says itself counts before what it inherits."""
    transcript = str(fields.get("transcript_path"))
    for host, _, names, folder in HOSTS[:-1]:
        if not fields.keys().isdisjoint(names) or (folder and folder in transcript):
            return host
    version = str(fields.get("session_id"))[UUID_VERSION : UUID_VERSION + 1]
    if "model" in fields and version == "7":
        return "Codex"
    for host, variables, _, _ in HOSTS:
        if any(name in environ for name in variables):
            return host
    last, _, names, _ = HOSTS[-1]
    return "" if fields.keys().isdisjoint(names) else last


def _note(host: str) -> None:
    """One line a day for each host: it may call a hundred times an hour."""
    from feishuperm.lib.config import state_dir

    stamp = os.path.join(state_dir(), f"host-{host.replace(' ', '-').lower()}")
    try:
        if time.time() - os.stat(stamp).st_mtime < NOTE_SECONDS:
            return
    except OSError:
        pass
    from feishuperm.lib.log import log

    log(f"{host} runs the hooks of Claude Code's settings; its events are passed over")
    try:
        os.close(os.open(stamp, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
        os.utime(stamp)
    except OSError:
        pass
