"""The demo asks one request of each kind, and says what each hook printed."""

from __future__ import annotations

import os
import signal
import webbrowser

import pytest

from feishuperm.setup import demo
from feishuperm.setup.demo import clean_up_on_signals, open_browser, samples, tell


def test_samples_are_one_of_each_kind() -> None:
    tools = [sample.tool_name for sample in samples("/p")]
    assert tools == ["Bash", "Edit", "AskUserQuestion", "ExitPlanMode"]


def test_what_a_hook_printed_is_shown_and_nothing_is_told_as_such(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell("a command", '{"x": "\x1b"}')
    tell("an edit", "")
    assert capsys.readouterr().out == (
        'a command:\n  {"x": "⟦U+001B⟧"}\n'
        "an edit:\n  nothing: the terminal would decide\n"
    )


@pytest.mark.parametrize(("environ", "opened"), [({}, []), ({"DISPLAY": ":0"}, ["u"])])
def test_browser_is_opened_where_it_can_appear(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], opened: list[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(demo.sys, "platform", "linux")
    monkeypatch.setattr(webbrowser, "open", asked.append)
    open_browser("u", environ)
    assert asked == opened


def test_closed_terminal_ends_the_demo_through_its_cleaning_up() -> None:
    before = {number: signal.getsignal(number) for number in demo.END_SIGNALS}
    clean_up_on_signals()
    try:
        with pytest.raises(SystemExit) as ended:
            os.kill(os.getpid(), signal.SIGHUP)
        assert ended.value.code == 128 + signal.SIGHUP
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
