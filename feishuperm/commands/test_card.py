"""`feishuperm test-card`: a real card through the running server, and its tap."""

from __future__ import annotations

import os
import time
from functools import partial

from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import load_settings
from feishuperm.lib.control import ask_server
from feishuperm.lib.program import hook_output, start_hook
from feishuperm.lib.terminal import say, show
from feishuperm.messages import msg, word
from feishuperm.setup.checks import (
    bot_problem,
    event,
    is_allowed,
    is_late,
    watch,
)
from feishuperm.setup.feishu_setup import addresses, advise, is_out_of_reach
from feishuperm.setup.status import inbox_link

EPILOG = msg("""\
Needs a running server with a Feishu app or group bot. Exit code 1 if the card does not
get out or nobody taps in time.""")


def main(args: list[str]) -> int:
    parser = ArgumentParser("test-card", EPILOG)
    parser.add_argument(
        "--json", action="store_true", help=msg("what the hook printed")
    )
    options = parser.parse_args(args)
    settings = load_settings()
    path = settings.permission_socket_path
    ask = partial(ask_server, {"command": "status"}, path=path)
    bot_problem(ask())  # raises without a bot
    seconds = settings.permission_request_timeout
    if not options.json and is_out_of_reach(settings):
        advise(settings, addresses())
    started = time.monotonic()
    hook = start_hook(event(), os.environ)
    if not options.json:
        say("a card is on its way; tap a button within {} seconds", seconds)
        say("no card? the inbox shows it too: {}", inbox_link(path))
    problem = watch(hook, ask, started + seconds + 10.0)
    output = hook_output(hook, 0.0)
    took = time.monotonic() - started
    late = is_late(output) if output else took >= seconds
    if late and not problem:  # a broken bot left nothing to tap
        raise FeishupermError(msg("nobody tapped within {} seconds", seconds))
    if late or not output:
        raise FeishupermError(
            problem or msg("nobody saw the card"), "feishuperm doctor"
        )
    if options.json:
        show(output)
    else:
        what = word("allowed" if is_allowed(output) else "denied")
        say("your tap came after {:.1f} s ({}): the way to the phone works", took, what)
    return 0
