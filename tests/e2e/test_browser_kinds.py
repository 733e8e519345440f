"""What next, forms and refused calls in a real browser, in the inbox and on a page."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_browser import WIDE, Phone, browser, button, expect_text
from tests.e2e.test_denied import DENIED
from tests.e2e.test_form import ADDRESS, FORM
from tests.e2e.test_next import ATTENDED, IDLE
from tests.served import Served

__all__ = ["browser"]
pytestmark = pytest.mark.browser

EVENTS: dict[str, dict[str, Any]] = {
    "next": IDLE,
    "denied": DENIED,
    "form": FORM,
    "address": ADDRESS,
}


@pytest.fixture(scope="module")
def served(pyz: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(pyz, tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture
def phone(browser: Any, served: Served) -> Iterator[Phone]:
    device = Phone(browser, f"http://127.0.0.1:{served.port}")
    yield device
    device.close()


def ask(served: Served, name: str) -> tuple[Any, str]:
    kind = "form" if name == "address" else name
    return served.ask(EVENTS[name], kind, **ATTENDED)


def place(page: Any, id: str) -> Any:
    """The request beside the list of a wide screen."""
    page.locator(f"#row-{id} .what").click()
    return page.locator(f"#pane [data-id='{id}']")


def test_text_typed_in_the_inbox_wakes_the_session(
    served: Served, phone: Phone
) -> None:
    page = phone.open(**WIDE)
    hook, id = ask(served, "next")
    card = place(page, id)
    expect_text(card, "Claude Code 完成，接下来？", "不能用来批准任何操作")
    hours = re.compile(r"剩余 1[12]:\d\d:\d\d$")  # it waits for half a day
    card.locator(".clock", has_text=hours).wait_for()
    whole = phone.open(served.link(f"/request?id={id}"))
    whole.locator(".clock", has_text=hours).wait_for()
    card.locator("textarea").fill("继续\n跑测试")
    button(card, "发送").click()
    assert hook.communicate(timeout=20)[1].decode() == "继续\n跑测试"


def test_form_is_filled_in_in_the_inbox_and_what_is_wrong_is_told(
    served: Served, phone: Phone
) -> None:
    page = phone.open(**WIDE)
    hook, id = ask(served, "form")
    card = place(page, id)
    card.get_by_label("Your name").fill("B")
    card.get_by_text("L", exact=True).click()
    phone.tolerated = ("400",)
    button(card, "提交").click()
    expect_text(card, "“Your name”的长度不符合要求。")
    card.get_by_label("Your name").fill("Bob")
    button(card, "提交").click()
    output = json.loads(hook.communicate(timeout=20)[0])["hookSpecificOutput"]
    assert output["content"] == {"name": "Bob", "size": "L"}


@pytest.mark.parametrize("scripts", [True, False])
def test_form_is_filled_in_on_its_page(
    served: Served, phone: Phone, scripts: bool
) -> None:
    with served.watched():
        hook, id = ask(served, "form")
        page = phone.open(served.link(f"/request?id={id}"), java_script_enabled=scripts)
        page.get_by_label("Your name").fill("Bob")
        page.get_by_label("count").fill("12")
        page.get_by_text("S", exact=True).tap()
        phone.tolerated = ("400",)
        button(page, "提交").tap()
        expect_text(page, "“count”超出范围。")
        assert page.get_by_label("Your name").input_value() == "Bob"
        page.get_by_label("count").fill("2")
        button(page, "提交").tap()
        expect_text(page, "已提交")
        output = json.loads(hook.communicate(timeout=20)[0])["hookSpecificOutput"]
        assert output["content"] == {"name": "Bob", "size": "S", "count": 2}


@pytest.mark.parametrize("name", EVENTS)
def test_pages_are_neither_too_wide_nor_too_narrow(
    served: Served, phone: Phone, name: str, tmp_path: Path
) -> None:
    """With PICTURES=DIR they are kept, to be looked at."""
    folder = Path(os.environ.get("PICTURES") or tmp_path)
    with served.watched():
        _, id = ask(served, name)
        whole = served.link(f"/request?id={id}")
        for width, scheme in ((390, "light"), (1280, "dark")):
            for where, path in (("page", whole), ("inbox", "/")):
                size = {"width": width, "height": 844}
                page = phone.open(path, viewport=size, color_scheme=scheme)
                page.locator("button:visible, .row").first.wait_for()
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width
                page.screenshot(path=folder / f"{name}-{where}-{width}.png")
