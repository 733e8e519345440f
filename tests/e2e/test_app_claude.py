"""The real Claude Code client asks; a thumb answers inside the card of the app."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.e2e.test_app import app_settings
from tests.fakes.feishu import every_text
from tests.fakes.feishu_app import FakePlatform
from tests.fakes.model import text, tool, write_plan
from tests.lab import COLOUR, SIZES, Lab
from tests.served import Served

pytestmark = pytest.mark.claude


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform() as platform:
        yield platform


@pytest.fixture
def served(lab: Lab, feishu: FakePlatform) -> Iterator[Served]:
    """A server with the app beside the lab, and our hook in the lab's settings."""
    home = Path(lab.root) / "server"
    home.mkdir()
    with Served(Path(lab.pyz), home, **app_settings(feishu)) as server:
        lab.socket = server.socket
        lab.pyz_hook("PermissionRequest", matcher="*", timeout=60)
        wait_until(lambda: feishu.connections.open)
        yield server


class Thumb:
    """A person with a phone, who answers each card once."""

    def __init__(self, lab: Lab, feishu: FakePlatform) -> None:
        self.lab = lab
        self.feishu = feishu
        self.answered: set[str] = set()

    def card(self) -> str:
        """The next card; `last` alone could be one that was answered."""
        new = wait_until(
            lambda: self.feishu.app_messages and self.feishu.last not in self.answered,
            timeout=40,
        )
        assert new
        return self.feishu.last

    def tap(self, label: str, form: dict[str, Any] | None = None) -> str:
        """Answer the next card; what its record says."""
        message = self.card()
        tap = self.feishu.tap(message, label, form)
        assert tap.ok and tap.toast["type"] == "success", tap
        assert tap.card is not None and self.feishu.buttons(message) == []
        self.answered.add(message)
        return "\n".join(every_text(tap.card))

    def told(self, call: dict[str, Any]) -> Any:
        """What the model was told of a call."""
        results = self.lab.model.tool_results
        return wait_until(lambda: results().get(call["id"]), timeout=40)


@pytest.fixture
def thumb(lab: Lab, served: Served, feishu: FakePlatform) -> Thumb:
    return Thumb(lab, feishu)


def bash(command: str) -> dict[str, Any]:
    return tool("Bash", command=command, description="x")


def made(lab: Lab) -> list[str]:
    return sorted(path.name for path in Path(lab.project).glob("made-*"))


def test_taps_in_the_card_decide_what_the_session_does(lab: Lab, thumb: Thumb) -> None:
    """Allowed, denied with a reason, changed and allowed, always and never again."""
    allowed, denied = bash("touch made-1"), bash("touch made-2")
    edited = bash("touch made-3")
    always, again = bash("touch made-4"), bash("touch made-4")
    lab.model.push(
        [text("first I make a file"), allowed], [denied], [edited], [always], [again],
        [text("bye")],
    )  # fmt: skip
    session = lab.session("go")
    assert "你 · " in thumb.tap("批准运行")
    assert not thumb.told(allowed).is_error
    assert "先跑测试" in thumb.tap("拒绝运行", {"reason": "先跑测试"})
    told = thumb.told(denied)
    assert told.is_error and told.text == "用户通过飞书拒绝：先跑测试"
    assert "touch made-changed" in thumb.tap(
        "修改后批准", {"command": "touch made-changed"}
    )
    assert not thumb.told(edited).is_error
    assert "Bash(touch made-4)" in thumb.tap("始终允许")
    assert not thumb.told(always).is_error
    assert not thumb.told(again).is_error  # nobody was asked
    session.wait("bye")
    assert made(lab) == ["made-1", "made-4", "made-changed"]
    rules = json.loads(lab.read(".claude/settings.local.json"))["permissions"]
    assert rules["allow"] == ["Bash(touch made-4)"]


def test_interrupt_in_the_card_ends_the_turn(lab: Lab, thumb: Thumb) -> None:
    lab.model.push([bash("touch made-never")], [text("not reached")])
    session = lab.session("go")
    thumb.tap("拒绝并中断")
    session.wait("Interrupted")
    assert made(lab) == [] and len(lab.model.calls()) == 1


def test_questions_are_answered_in_the_card(lab: Lab, thumb: Thumb) -> None:
    """One by its button, several by a form, one in one's own words."""
    one = tool("AskUserQuestion", questions=[COLOUR])
    both = tool("AskUserQuestion", questions=[COLOUR, SIZES])
    own = tool("AskUserQuestion", questions=[COLOUR])
    lab.model.push([one], [both], [own], [text("thanks")])
    session = lab.session("go")
    thumb.tap("Blue")
    told = thumb.told(one)
    assert not told.is_error and "Blue" in told.text
    thumb.tap("提交", form_of(thumb, {"Which color?": "1", "Which sizes?": ["0", "1"]}))
    told = thumb.told(both)
    assert not told.is_error and "Blue" in told.text and "S, L" in told.text
    thumb.tap("提交", {inputs(thumb)[0]: "Mauve"})
    told = thumb.told(own)
    assert not told.is_error and "Mauve" in told.text
    session.wait("thanks")


def form_of(thumb: Thumb, answers: dict[str, Any]) -> dict[str, Any]:
    """What a filled form sends: each question's choice under its field's name."""
    card = thumb.feishu.card(thumb.card())
    forms = [e for e in card["body"]["elements"] if e["tag"] == "form"]
    elements = forms[0]["elements"]
    filled = {}
    for label, field in zip(elements, elements[1:]):
        words = label.get("text", {}).get("content", "")
        asked = next((question for question in answers if question in words), None)
        if asked is not None and field["tag"].endswith("select_static"):
            filled[field["name"]] = answers[asked]
    assert len(filled) == len(answers), elements
    return filled


def inputs(thumb: Thumb) -> list[str]:
    """The names of a card's text fields, from the top."""
    found, rest = [], [thumb.feishu.card(thumb.card())["body"]]
    while rest:  # some are in a panel of the form
        element = rest.pop()
        found += [element["name"]] if element.get("tag") == "input" else []
        rest += reversed(element.get("elements", []))
    return found


def test_plan_is_sent_back_with_a_reason_and_then_approved(
    lab: Lab, thumb: Thumb
) -> None:
    first, second = tool("ExitPlanMode"), tool("ExitPlanMode")
    lab.model.push([first], write_plan("1. test"), [second], [text("bye")])
    session = lab.session("plan it", "--permission-mode", "plan")
    thumb.tap("退回计划", {"reason": "add tests"})
    told = thumb.told(first)
    assert told.is_error and "add tests" in told.text
    thumb.tap("批准计划")
    assert not thumb.told(second).is_error
    session.wait("bye")


def test_answer_in_the_terminal_settles_the_card(
    lab: Lab, thumb: Thumb, feishu: FakePlatform
) -> None:
    call = bash("touch made-typed")
    lab.model.push([call], [text("bye")])
    session = lab.session("go")
    message = thumb.card()
    session.wait("Do you want to")
    session.press("Enter", "bye")
    assert not thumb.told(call).is_error
    wait_until(lambda: not feishu.buttons(message))
    assert "终端" in "\n".join(every_text(feishu.card(message)))
