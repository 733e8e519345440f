"""`feishuperm supervisor`: the hook for stops and questions, and its switches.

Without an argument it is a hook: one event on stdin, one JSON object or nothing on
stdout, exit 0 whatever happens.  A signal ends it at once; the reviewer's guard then
ends the reviewer.
"""

from __future__ import annotations

import gc
import os
import time
from _signal import SIGALRM, SIGHUP, SIGINT, SIGTERM, alarm, signal

from feishuperm import wire
from feishuperm.messages import msg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

SWITCHES = ("on", "off", "status")
THIS = object()  # a session that is not named
STDIN_SECONDS = 10  # the client closes stdin at once; who does not is no client


def main(args: list[str]) -> int:
    if not args and not os.isatty(0):
        run_hook()
    return run_switches(args)


def run_switches(args: list[str]) -> int:
    """`on`, `off` and `status`: another program, of which a review needs nothing."""
    from feishuperm.models.names import SUPERVISOR_PROGRAM
    from feishuperm.setup.claude_settings import is_registered
    from feishuperm.supervisor.switch import (
        current_project,
        current_session,
        run_switch,
    )

    switch, session, as_json = read_words(args)
    named = current_session() if session is THIS else str(session)
    registered = is_registered(SUPERVISOR_PROGRAM, current_project(), os.environ)
    run_switch(switch, named, as_json, registered)
    return 0


def read_words(args: list[str]) -> tuple[str, object, bool]:
    """Switch, session and whether JSON is asked for. Raises UsageError."""
    if args and args[0] in SWITCHES and args[1:] in ([], ["--session"]):
        return args[0], THIS if args[1:] else "", False
    from feishuperm.lib.arguments import ArgumentParser

    parser = ArgumentParser("supervisor", "--json")
    add = parser.add_argument
    add("switch", nargs="?", choices=SWITCHES)
    add("--session", nargs="?", const=THIS, default="", metavar="ID")
    options = parser.parse_args(args)
    if options.switch is None:
        parser.error(msg("it reads a hook event from stdin"))
    if options.json and options.switch != "status":
        parser.error(msg("--json is for status"))
    return options.switch, options.session, options.json


def run_hook() -> NoReturn:
    """One event, start to end; never raises, always exits 0."""
    started = time.monotonic()
    gc.disable()  # there is little garbage, and looking for it takes milliseconds
    for number in (SIGTERM, SIGINT, SIGHUP, SIGALRM):
        signal(number, lambda *_: os._exit(0))
    try:
        handle_event(started)
    except BaseException as error:  # whatever it is, it must not stop Claude Code
        from feishuperm.lib.log import log

        log(f"supervisor: {type(error).__name__}: {error}", "error")
    os._exit(0)  # everything is written; taking the interpreter down takes a while


def handle_event(started: float) -> None:
    """Print what follows from the event on stdin, then report it."""
    alarm(STDIN_SECONDS)
    raw = wire.read_all(0)
    alarm(0)
    if not wire.is_claude(raw, os.environb):
        from feishuperm.agents.recognition import should_ignore

        # A blocked stop would drive another agent on.
        if should_ignore(raw, os.environb):
            return
    answer_event(raw, started)


def answer_event(raw: bytes, started: float) -> None:
    """Review an event of Claude Code's."""
    import json  # late, as all of this: a foreign_agent's event must cost nothing

    from feishuperm.hooks.config_manager import ConfigManager
    from feishuperm.lib.config import load_settings
    from feishuperm.lib.log import log
    from feishuperm.supervisor.supervisor import Supervisor

    # What a project's `env` sets may not choose the reviewer.
    config = ConfigManager(os.environ, lambda message: log(message, "warning"))
    environ = config.own_environ(config.project_root(""))
    settings = load_settings(environ, lenient=True)
    supervisor = Supervisor(settings, environ, started=started)
    answer = supervisor.handle(raw)
    if answer is not None:
        text = json.dumps(answer, ensure_ascii=False)
        data = text.encode("utf-8", "replace")
        wire.write_all(1, data + b"\n")
    supervisor.report()
