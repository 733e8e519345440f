"""Real coding agents beside Claude Code, each with its own hook or plugin."""

from __future__ import annotations

import pytest

from tests.agent_lab import LABS, agent_lab
from tests.conftest import need
from tests.fakes.model import text

pytestmark = pytest.mark.agents


@pytest.mark.parametrize("name", LABS)
def test_call_that_nobody_else_answers_is_asked_in_the_terminal(name: str) -> None:
    need("tmux")
    with agent_lab(name) as lab:
        lab.model.push([lab.shell("touch made.txt")], [text("it is over")])
        lab.start("please run it")
        lab.wait_screen(lab.dialog)
        assert not lab.has("made.txt")
        lab.press(lab.approve)
        lab.wait_results(1)
        lab.wait_screen("it is over")
        assert lab.has("made.txt")
