"""`feishuperm demo`: the whole thing, without Feishu and without Claude Code."""

from __future__ import annotations

import os

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.terminal import say
from feishuperm.messages import msg
from feishuperm.setup.demo import (
    Demo,
    answer_all,
    clean_up_on_signals,
    open_browser,
    wait_for_taps,
)
from feishuperm.setup.status import inbox_link

EPILOG = msg("""\
Starts a separate server on a free port, sends one request of each kind through real
hooks, and says what Claude is told after your tap.""")


def main(args: list[str]) -> int:
    parser = ArgumentParser("demo", EPILOG)
    parser.add_argument(
        "--auto",
        action="store_true",
        help=msg("answer the requests automatically and exit"),
    )
    parser.add_argument(
        "--no-browser", action="store_true", help=msg("do not open a browser")
    )
    as_json = msg("print a JSON object for each answer")
    parser.add_argument("--json", action="store_true", help=as_json)
    options = parser.parse_args(args)
    clean_up_on_signals()
    with Demo(os.environ) as demo:
        inbox = inbox_link(demo.socket)
        if not options.json:
            say("inbox: {}", inbox)
        if options.auto:
            return answer_all(demo, options.json)
        if not options.no_browser:
            open_browser(inbox, os.environ)
        return wait_for_taps(demo, options.json)
