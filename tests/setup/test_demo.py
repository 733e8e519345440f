"""The demo asks one request of each kind, and says what each hook printed."""

from __future__ import annotations

import json
import os
import signal
import webbrowser
from pathlib import Path

import pytest

from feishuperm.setup import demo
from feishuperm.setup.demo import clean_up_on_signals, open_browser, samples, tell


def test_samples_are_one_of_each_kind() -> None:
    tools = [sample.tool_name for sample in samples("/p")]
    assert tools == ["Bash", "Edit", "AskUserQuestion", "ExitPlanMode"]


def test_each_answer_is_told_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    command, edit, question, plan = demo.samples("/shop")

    def output(**decision: object) -> str:
        return json.dumps({"hookSpecificOutput": {"decision": decision}})

    tell(command, output(behavior="allow"))
    tell(edit, output(behavior="deny", message="not \x1b now"))
    answered = {"answers": {"Which database?": "SQLite"}}
    tell(question, output(behavior="allow", updatedInput=answered))
    tell(plan, "")
    assert capsys.readouterr().out.splitlines() == [
        "You allowed the command. Claude runs it.",
        "You denied the edit. Claude was told: not ⟦U+001B⟧ now",
        "You answered the question. Claude was told: SQLite",
        "Nobody answered a plan: the terminal decides.",
    ]


def test_json_is_what_claude_code_would_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell(demo.samples("/shop")[0], '{"x": 1}', as_json=True)
    tell(demo.samples("/shop")[1], "", as_json=True)
    assert list(map(json.loads, capsys.readouterr().out.splitlines())) == [
        {"request": "a command", "output": {"x": 1}},
        {"request": "an edit", "output": None},
    ]


@pytest.mark.parametrize(
    ("environ", "language"),
    [({"LANG": "en_US.UTF-8"}, "en"), ({"LANG": "zh_CN.UTF-8"}, "zh"), ({}, "en")],
)
def test_demo_speaks_the_language_of_the_command_line(
    environ: dict[str, str], language: str, tmp_path: Path
) -> None:
    made = demo.Demo({"HOME": str(tmp_path), **environ})
    made.close()
    assert made.environ["FEISHUPERM_LANG"] == language


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
