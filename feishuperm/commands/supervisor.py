"""`feishuperm supervisor`: the hook for stops and questions, and its switches.

Without an argument it is a hook: one event on stdin, one JSON object or nothing on
stdout, exit 0 whatever happens.  A signal ends it at once; the reviewer's guard then
ends the reviewer.
"""

from __future__ import annotations

import gc
import os
import signal
import time

from feishuperm import client
from feishuperm.errors import UsageError

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
    from feishuperm.services.supervisor_switch import run_switch

    return run_switch(args)


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
    signal.alarm(STDIN_SECONDS)
    raw = client.read_all(0)
    signal.alarm(0)
    gc.disable()  # there is little garbage, and looking for it takes milliseconds
    import json

    from feishuperm.lib.config import load_settings
    from feishuperm.services.supervisor import Supervisor

    supervisor = Supervisor(load_settings(lenient=True), started=started)
    answer = supervisor.handle(raw)
    if answer is not None:
        data = json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")
        client.write_all(1, data + b"\n")
    supervisor.report()
