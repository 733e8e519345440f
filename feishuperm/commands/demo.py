"""`feishuperm demo`: the whole thing, without Feishu and without Claude Code."""

from __future__ import annotations

import os
import signal
import sys
import time

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.program import hook_output
from feishuperm.setup.demo import Demo, Visitor, samples

SUMMARY = "try it without Feishu and without Claude Code"
EPILOG = """\
Starts a server of its own on a free port, asks one request of each kind through real
hooks, and shows what each hook prints for your tap."""
POLL_SECONDS = 0.1
END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # a closed terminal sends the second


def main(args: list[str]) -> int:
    parser = ArgumentParser("demo", SUMMARY, EPILOG)
    parser.add_argument("--auto", action="store_true", help="answer by itself and end")
    parser.add_argument("--no-browser", action="store_true", help="open no browser")
    options = parser.parse_args(args)
    for number in END_SIGNALS:
        signal.signal(number, end)
    with Demo(os.environ) as demo:
        status = demo.status()
        print(f"inbox: {status['inbox']}")
        if not options.auto and not options.no_browser and has_display():
            open_browser(status["inbox"])
        return answer_all(demo) if options.auto else wait_for_taps(demo)


def end(number: int, frame: object) -> None:
    """Leave like Ctrl-C does, through everything that cleans up, once."""
    for known in END_SIGNALS:
        signal.signal(known, signal.SIG_IGN)
    raise SystemExit(128 + number)


def answer_all(demo: Demo) -> int:
    """Ask and answer one request after the other."""
    visitor = Visitor(demo.status()["http"])
    answered = True
    for sample in samples(demo.project):
        visitor.press(demo.ask(sample), sample.answer)
        output = hook_output(demo.hooks.pop(sample.title), 10.0)
        show(f"{sample.title}, {sample.answer}", output)
        answered = answered and bool(output)
    return 0 if answered else 1


def wait_for_taps(demo: Demo) -> int:
    """Ask everything at once and show each answer as it comes."""
    for sample in samples(demo.project):
        demo.ask(sample)
        print(f"asked: {sample.title} ({sample.tool_name})")
    print("answer them in the inbox; Ctrl-C ends the demo")
    sys.stdout.flush()
    while demo.hooks:
        for title, hook in list(demo.hooks.items()):
            if hook.poll() is not None:
                show(title, hook_output(demo.hooks.pop(title), 1.0))
        time.sleep(POLL_SECONDS)
    print("that was all; next: feishuperm install")
    return 0


def show(title: str, output: str) -> None:
    """What Claude Code would have read from the hook."""
    print(f"{title}:\n  {output or 'nothing: the terminal would decide'}")
    sys.stdout.flush()


def has_display() -> bool:
    """Whether a browser would have somewhere to appear."""
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in os.environ
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def open_browser(url: str) -> None:
    """Open the page if the system knows how; the address is printed anyway."""
    import webbrowser

    try:
        webbrowser.open(url)
    except webbrowser.Error:
        pass
