"""A few runs of the app's faults; `build.py soak app` makes five hundred."""

from __future__ import annotations

import random
from pathlib import Path

from tests.fakes.feishu_app import Tap
from tests.soak import app
from tests.soak.app import AppRun, AppWorld, Press, judge_cards, said
from tests.soak.faults import judge_world

SHORT = [[app.cut], [app.reset], [app.kill_server], [app.hand_over], [app.refuse]]


def test_taps_while_the_line_fails_are_done_once_or_to_be_tried_again(
    pyz: Path, home: Path
) -> None:
    world = AppWorld(str(pyz), home)
    rng = random.Random("short")
    violations = []
    try:
        for faults in SHORT:
            run = AppRun(world, rng)
            run.faults = faults
            violations += run.play()
        violations += judge_cards(world)
    finally:
        world.close()
    assert violations + judge_world(world) == []
    words = {press.word for press in world.presses}
    assert "acknowledged" in words, "nothing was tapped, so nothing was tried"


def test_reckoning_notices_what_must_not_be(pyz: Path, home: Path) -> None:
    """A tap that succeeded twice, one that reached nobody, and one nobody made."""
    world = AppWorld(str(pyz), home)
    try:
        run = AppRun(world, random.Random(7))
        run.faults = []
        assert run.play() == []
        id = run.hooks[0].id
        (press,) = (p for p in world.presses if p[::2] == (id, "acknowledged"))
        other = "deny" if press.action in ("allow", "always") else "allow"
        world.presses.append(Press(id, other, "acknowledged"))
        run._judge_hook(run.hooks[0])
        kinds = {violation.kind for violation in run.violations}
        world.presses.clear()
        run._judge_hook(run.hooks[0])
    finally:
        world.close()
    assert kinds == {"doubled", "lost"}
    assert "unrecorded" in {violation.kind for violation in run.violations}


def test_phone_that_is_told_anything_else_was_misled() -> None:
    def toast(kind: str, words: str) -> str:
        return said(Tap(True, {"type": kind, "content": words}, None))

    assert toast("success", "已批准运行") == "acknowledged"
    assert toast("info", "已拒绝运行 10:00:00") == "told"
    assert toast("warning", "服务刚刚重启，请再点一次") == "again"
    assert "会话已结束" in toast("warning", "会话已结束")
    assert said(Tap(False, {}, None, 200341)) == "again"
    assert said(Tap(False, {}, None, 200673)) == "error 200673"
