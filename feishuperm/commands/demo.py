"""`feishuperm demo`: the whole thing, without Feishu and without Claude Code."""

from __future__ import annotations

import os

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.terminal import say
from feishuperm.setup import demo
from feishuperm.setup.status import inbox_link


def main(args: list[str]) -> int:
    flags = "--auto", "--no-browser", "--json"
    options = ArgumentParser("demo", *flags).parse_args(args)
    demo.clean_up_on_signals()
    with demo.Demo(os.environ) as made:
        inbox = inbox_link(made.socket)
        if not options.json:
            say("inbox: {}", inbox)
        if not (options.auto or options.no_browser):
            demo.open_browser(inbox, os.environ)
        ask = demo.answer_all if options.auto else demo.wait_for_taps
        code = ask(made, options.json)
    if not options.json:
        say("That was all. To use it with Claude Code: feishuperm install")
    return code
