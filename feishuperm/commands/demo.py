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
Starts a server of its own on a free port, asks one request of each kind through real
hooks, and shows what each hook prints for your tap.""")


def main(args: list[str]) -> int:
    parser = ArgumentParser("demo", EPILOG)
    parser.add_argument(
        "--auto", action="store_true", help=msg("answer by itself and end")
    )
    parser.add_argument(
        "--no-browser", action="store_true", help=msg("open no browser")
    )
    as_json = msg("one JSON object for each answer")
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
