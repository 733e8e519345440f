"""`feishuperm demo`: the whole thing, without Feishu and without Claude Code."""

from __future__ import annotations

import os

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.terminal import say
from feishuperm.messages import msg
from feishuperm.setup import demo
from feishuperm.setup.status import inbox_link

EPILOG = msg("""\
Starts a separate server on a free port, sends one request of each kind through real
hooks, and says what Claude is told after your tap.""")


def main(args: list[str]) -> int:
    parser = ArgumentParser("demo", EPILOG)
    auto = msg("answer the requests automatically and exit")
    parser.add_argument("--auto", action="store_true", help=auto)
    shut = msg("do not open a browser")
    parser.add_argument("--no-browser", action="store_true", help=shut)
    as_json = msg("print a JSON object for each answer")
    parser.add_argument("--json", action="store_true", help=as_json)
    options = parser.parse_args(args)
    demo.clean_up_on_signals()
    with demo.Demo(os.environ) as made:
        inbox = inbox_link(made.socket)
        if not options.json:
            say("inbox: {}", inbox)
        if options.auto:
            return demo.answer_all(made, options.json)
        if not options.no_browser:
            demo.open_browser(inbox, os.environ)
        return demo.wait_for_taps(made, options.json)
