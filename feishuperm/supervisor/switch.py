"""What `supervisor on`, `off` and `status` do, and what `install` sets up for it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from typing import Any

from feishuperm.errors import UsageError
from feishuperm.lib.config import claude_settings, load_settings, state_dir
from feishuperm.lib.display import one_line
from feishuperm.lib.terminal import say
from feishuperm.messages import msg, word
from feishuperm.models.fields import list_at, number_at, part_at
from feishuperm.supervisor.reviewer import own_text
from feishuperm.supervisor.supervisor import (
    SupervisorState,
    check_session,
    object_in,
)

# The client ends a turn after so many blocked stops in a row (no tool in between).  It
# takes the number from its environment or from `env` in any of its settings files; 0
# means no cap, anything unreadable means the default.
CAP_VARIABLE = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"
DEFAULT_CAP = 8
SHOWN_SESSIONS = 5  # --json has them all
SHOWN_VERDICTS = 5
SLASH_COMMANDS = {"supervisor.md": "on", "supervisoroff.md": "off"}


def slash_commands(program: str) -> dict[str, str]:
    """The files of /supervisor and /supervisoroff; `program` starts feishuperm."""
    texts, text = {}, own_text("slash.md")
    for name, value in SLASH_COMMANDS.items():
        command = f"{program} supervisor {value} --session"
        texts[name] = text.format(value=value, command=command)
    return texts


def wanted_cap(limit: int) -> str:
    """The client's cap that makes `limit` reviews reachable, for `env` in settings."""
    return str(max(limit, DEFAULT_CAP))


def run_switch(
    command: str, session: str, as_json: bool, registered: bool = True
) -> None:
    """`on`, `off` or `status`, for the project or a session. Raises UsageError."""
    session = check_session(session) if session else ""
    state = SupervisorState(os.path.join(state_dir(), "supervisor"))
    if command == "status":
        show(state, session, as_json, registered)
    elif session:
        state.switch_session(session, command)
        say("supervisor {} for session {}", word(command), session)
    else:
        project = current_project()
        state.switch_project(project, command)
        say("supervisor {} for {}", word(command), project)


def current_session() -> str:
    """The session this command runs in. Raises UsageError outside of one."""
    session = os.environ.get("CLAUDE_CODE_SESSION_ID", "")
    if not session:
        raise UsageError(
            msg("not inside a Claude Code session"), msg("name it: --session ID")
        )
    return session


def current_project() -> str:
    return os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd()


def show(state: SupervisorState, session: str, as_json: bool, registered: bool) -> None:
    """What the supervisor has done and may still do."""
    facts = {**collect(state, session), "registered": registered}
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    value = "on" if facts["on"] else "off"
    say("supervisor {} for {}", word(value), facts["project"])
    if facts["on"] and not registered:
        say("but not registered: feishuperm install --supervisor")
    path = facts["reviewer_path"] or msg("not found: every review will be skipped")
    say("reviewer: {} ({})", facts["reviewer"], path)
    say("limit: {} reviews per prompt; {}", facts["limit"], facts["cap_reason"])
    for entry in facts["sessions"][:SHOWN_SESSIONS]:
        print_session(entry, facts["limit"])


def collect(state: SupervisorState, session: str) -> dict[str, Any]:
    """The facts behind `status`."""
    settings = load_settings(lenient=True)
    state.prune()
    rows = [(session, state.session(session))] if session else state.sessions()
    cap, reason = cap_in_force(settings.supervisor_max_iterations)
    return {
        "on": state.switched_on(session, current_project()),
        "project": current_project(),
        "reviewer": settings.supervisor_command,
        "reviewer_path": reviewer_path(settings.supervisor_command),
        "limit": settings.supervisor_max_iterations,
        "cap": cap,
        "cap_reason": reason,
        "sessions": [_session_facts(name, kept) for name, kept in rows],
    }


def reviewer_path(command: str) -> str:
    """Where the reviewer's program is; empty when there is none."""
    try:
        return shutil.which(shlex.split(command)[0]) or ""
    except (ValueError, IndexError):
        return ""


def _session_facts(name: str, kept: dict[str, Any]) -> dict[str, Any]:
    verdicts = [item for item in list_at(kept, "verdicts") if isinstance(item, dict)]
    return {
        "session": name,
        "switch": kept.get("switch", ""),
        "count": kept.get("count", 0),
        "seconds": round(sum(number_at(item, "seconds") for item in verdicts), 1),
        "verdicts": verdicts,
    }


def cap_in_force(limit: int) -> tuple[int, str]:
    """The client's cap on blocked stops in a row, and what it means, in words."""
    cap, place = configured_cap()
    if not cap:
        return cap, msg("Claude Code sets none ({})", place)
    if cap >= limit:
        return cap, msg("Claude Code takes {} blocked stops in a row ({})", cap, place)
    return cap, (
        msg(
            "but Claude Code takes only {} blocked stops in a row ({}); raise {} in "
            "settings.json: feishuperm install --supervisor",
            cap,
            place,
            CAP_VARIABLE,
        )
    )


def configured_cap() -> tuple[int, str]:
    """The cap, and where it comes from: settings files go before the environment."""
    for path in reversed(list(claude_settings(current_project()).values())):
        # Like the client, which skips a file that it cannot read.
        value = part_at(object_in(path), "env").get(CAP_VARIABLE)
        if value is not None:
            return client_cap(str(value)), path
    place = msg("its environment") if CAP_VARIABLE in os.environ else msg("its default")
    return client_cap(os.environ.get(CAP_VARIABLE, "")), place


def client_cap(value: str) -> int:
    """How many blocked stops in a row the client takes; 0 means any number."""
    is_number = value.isascii() and value.isdigit() and len(value) < 10
    return int(value) if is_number else DEFAULT_CAP


def print_session(entry: dict[str, Any], limit: int) -> None:
    """One session: its count and its last verdicts."""
    switched = msg(", switched {}", entry["switch"]) if entry["switch"] else ""
    say(
        "session {}: {} of {} reviews, {:g} s in all{}",
        entry["session"],
        entry["count"],
        limit,
        entry["seconds"],
        switched,
    )
    for item in entry["verdicts"][-SHOWN_VERDICTS:]:
        when = time.strftime("%m-%d %H:%M:%S", time.localtime(number_at(item, "time")))
        feedback = one_line(str(item.get("feedback", "")), 100)
        say(
            f"  {when} {item.get('event')} {item.get('outcome')} "
            f"{item.get('seconds')} s {feedback}"
        )
