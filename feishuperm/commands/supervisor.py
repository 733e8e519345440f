"""`feishuperm supervisor`: the hook for stops and questions, and its switches.

Without an argument it is a hook: one event on stdin, one JSON object or nothing on
stdout, exit 0 whatever happens.  A signal ends it at once; the reviewer's guard then
ends the reviewer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from feishuperm import client
from feishuperm.errors import UsageError
from feishuperm.lib.config import load_settings, state_dir
from feishuperm.services.supervisor import CAP_VARIABLE, Supervisor, client_cap
from feishuperm.services.supervisor_state import SupervisorState, check_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SUMMARY = "reviews stops and questions (a hook); on, off and status switch it"
USAGE = f"""usage: feishuperm supervisor
       feishuperm supervisor on|off|status [--session [ID]] [--json]

{SUMMARY}

Without an argument it reads one hook event (Stop, SubagentStop, or PreToolUse of
AskUserQuestion) on stdin. Registered in settings.json it is on; the switches are for
this project, or for one session.

  --session [ID]   one session; without ID the one this command runs in
  --json           for status: everything as JSON"""
STDIN_SECONDS = 10  # the client closes stdin at once; whoever does not is no client


def main(args: list[str]) -> int:
    if not args and not os.isatty(0):
        return run_hook()
    if args in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    if not args:
        raise UsageError(
            "it reads a hook event from stdin", "feishuperm supervisor --help"
        )
    command, session, as_json = parse(args)
    state = SupervisorState(os.path.join(state_dir(), "supervisor"))
    if command == "status":
        return show(state, session, as_json)
    return switch(state, session, command)


def parse(args: list[str]) -> tuple[str, str, bool]:
    """Command, session id (empty: the project) and whether JSON was asked for."""
    command, rest = args[0], args[1:]
    if command not in ("on", "off", "status"):
        raise UsageError(
            f"unknown argument {command!r}: on, off or status",
            "feishuperm supervisor --help",
        )
    session = ""
    as_json = False
    while rest:
        word = rest.pop(0)
        if word == "--json" and command == "status":
            as_json = True
        elif word == "--session":
            named = rest.pop(0) if rest and not rest[0].startswith("-") else ""
            session = check_session(named or current_session())
        else:
            raise UsageError(
                f"unknown argument {word!r}", "feishuperm supervisor --help"
            )
    return command, session, as_json


def current_session() -> str:
    """The session this command runs in. Raises UsageError outside of one."""
    session = os.environ.get("CLAUDE_CODE_SESSION_ID", "")
    if not session:
        raise UsageError("not inside a Claude Code session", "name one: --session ID")
    return session


def current_project() -> str:
    return os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd()


# The hook.


def run_hook() -> int:
    """One event, start to end; never raises, always 0."""
    started = time.monotonic()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, lambda *_: os._exit(0))
    try:
        handle_event(started)
    except BaseException as error:  # whatever it is, it must not stop Claude Code
        from feishuperm.lib.log import log

        log(f"supervisor: {type(error).__name__}: {error}", "error")
    return 0


def handle_event(started: float) -> None:
    """Print what follows from the event on stdin, then report it."""
    from feishuperm.lib import log as logging

    signal.alarm(STDIN_SECONDS)
    raw = client.read_all(0)
    signal.alarm(0)
    settings = load_settings(lenient=True)
    logging.configure(level=settings.feishuperm_log_level)
    for secret in (settings.feishu_webhook_url, settings.feishu_webhook_secret):
        logging.hide(secret)
    supervisor = Supervisor(settings, started=started)
    answer = supervisor.handle(raw)
    if answer is not None:
        data = json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")
        client.write_all(1, data + b"\n")
    supervisor.report()


# The switches.


def switch(state: SupervisorState, session: str, value: str) -> int:
    """Turn it on or off, for a session or for this project."""
    if session:
        state.switch_session(session, value)
        print(f"supervisor {value} for session {session}")
        return 0
    project = current_project()
    state.switch_project(project, value)
    print(f"supervisor {value} for {project}")
    return 0


def show(state: SupervisorState, session: str, as_json: bool) -> int:
    """What the supervisor has done and may still do."""
    facts = collect(state, session)
    if as_json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return 0
    print(f"supervisor {'on' if facts['on'] else 'off'} for {facts['project']}")
    found = facts["reviewer_path"] or "not found: every review will be skipped"
    print(f"reviewer: {facts['reviewer']} ({found})")
    print(f"limit: {facts['limit']} reviews per prompt; {facts['cap_reason']}")
    for entry in facts["sessions"]:
        print_session(entry, facts["limit"])
    return 0


def collect(state: SupervisorState, session: str) -> dict[str, Any]:
    """The facts behind `status`."""
    import shlex
    import shutil

    settings = load_settings(lenient=True)
    state.prune()
    rows = [(session, state.session(session))] if session else state.sessions()
    words = shlex.split(settings.supervisor_command)
    cap, reason = cap_in_force(settings.supervisor_max_iterations)
    return {
        "on": state.switched_on(session, current_project()),
        "project": current_project(),
        "reviewer": settings.supervisor_command,
        "reviewer_path": shutil.which(words[0]) if words else None,
        "limit": settings.supervisor_max_iterations,
        "cap": cap,
        "cap_reason": reason,
        "sessions": [_session_facts(name, found) for name, found in rows],
    }


def _session_facts(name: str, found: dict[str, Any]) -> dict[str, Any]:
    verdicts = [item for item in found.get("verdicts", ()) if isinstance(item, dict)]
    return {
        "session": name,
        "switch": found.get("switch", ""),
        "count": found.get("count", 0),
        "seconds": round(sum(item.get("seconds", 0) for item in verdicts), 1),
        "verdicts": verdicts,
    }


def cap_in_force(limit: int) -> tuple[int, str]:
    """The client's cap on blocked stops in a row, and what it means, in words."""
    cap, place = configured_cap()
    if not cap:
        return cap, f"Claude Code sets none ({place})"
    if cap >= limit:
        return cap, f"Claude Code takes {cap} blocked stops in a row ({place})"
    return cap, (
        f"but Claude Code takes only {cap} blocked stops in a row ({place}); "
        f"raise {CAP_VARIABLE} in settings.json: feishuperm install --supervisor"
    )


def configured_cap() -> tuple[int, str]:
    """The cap, and where it comes from: settings files go before the environment."""
    from feishuperm.lib.config import claude_dir
    from feishuperm.lib.files import read_json

    folder = os.path.join(current_project(), ".claude")
    for path in (
        os.path.join(folder, "settings.local.json"),
        os.path.join(folder, "settings.json"),
        os.path.join(claude_dir(), "settings.json"),
    ):
        found = read_json(path)
        env = found.get("env") if isinstance(found, dict) else None
        value = env.get(CAP_VARIABLE) if isinstance(env, dict) else None
        if value is not None:
            return client_cap({CAP_VARIABLE: str(value)}), path
    place = "its environment" if CAP_VARIABLE in os.environ else "its default"
    return client_cap(os.environ), place


def print_session(entry: dict[str, Any], limit: int) -> None:
    """One session: its count and its last verdicts."""
    switched = f", switched {entry['switch']}" if entry["switch"] else ""
    print(
        f"session {entry['session']}: {entry['count']} of {limit} reviews, "
        f"{entry['seconds']:g} s in all{switched}"
    )
    for item in entry["verdicts"][-5:]:
        when = time.strftime("%m-%d %H:%M:%S", time.localtime(item.get("time", 0)))
        feedback = " ".join(str(item.get("feedback", "")).split())[:100]
        print(
            f"  {when} {item.get('event')} {item.get('outcome')} "
            f"{item.get('seconds')} s {feedback}"
        )
    sys.stdout.flush()
