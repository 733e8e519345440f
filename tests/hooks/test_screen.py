"""What a person sees of a headless run: each thing once."""

from __future__ import annotations

import io

from feishuperm.hooks.screen import Screen


def test_what_a_hook_says_is_not_repeated_in_the_clients_words() -> None:
    err = io.StringIO()
    screen = Screen(io.StringIO(), err, False)
    screen.hook_output({"systemMessage": "look out"})
    repeated = {"subtype": "informational", "content": "PreToolUse says: look out"}
    screen.message("system", repeated)
    other = {"subtype": "informational", "content": "something else"}
    screen.message("system", other)
    assert err.getvalue().splitlines() == [
        "hook: look out",
        "feishuperm: something else",
    ]


def test_warning_is_said_once_however_often_it_is_true() -> None:
    err = io.StringIO()
    screen = Screen(io.StringIO(), err, False)
    for _ in range(3):
        screen.warn("a callback is broken")
    assert err.getvalue().splitlines() == ["feishuperm: a callback is broken"]


def test_last_words_stand_on_stdout_alone() -> None:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err, False)
    block = {"type": "text", "text": "all done"}
    screen.message("assistant", {"message": {"content": [block]}})
    screen.result({"result": "all done", "num_turns": 1}, 0)
    screen.clear()
    assert out.getvalue() == "all done\n"
    assert "all done" not in err.getvalue()
