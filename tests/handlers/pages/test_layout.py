"""Nothing a tool call contains becomes markup, and no page names another place."""

from __future__ import annotations

import base64
import hashlib
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from feishuperm.handlers.pages import inbox, layout
from feishuperm.handlers.pages.request import (
    confirm_page,
    outcome_box,
    record_page,
    request_page,
    result_page,
)
from feishuperm.lib.display import visible
from feishuperm.models.ask import ENDED, UNKNOWN, Block, Receipt
from tests.handlers.pages.page import Page, make_ask, make_links, make_outcome
from tests.tables import every_row

NASTY = st.text(
    alphabet=st.one_of(
        st.sampled_from("<>&\"'`/={}\\\n\r\t\u202e\u200b\u2028\ud800"), st.characters()
    ),
    max_size=40,
)
INJECTIONS = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>']


def every_page(value: str) -> list[bytes]:
    """Each page with a value in every place that a call can fill."""
    question = {
        "question": value,
        "header": value,
        "options": [{"label": value, "description": value}],
    }
    # Blocks come from `lib.tool` with everything visible; all else comes as it is.
    kinds = ("code", "diff", "markdown", "text", "path", "question")
    everywhere = {
        "tool": value,
        "blocks": tuple(Block(kind, value, visible(value)) for kind in kinds),
        "project": "/" + value,
        "branch": value,
        "session": value,
        "agent": value,
        "rules": (value,),
        "rule_note": value,
        "empty": value,
    }
    ask = make_ask("permission", **everywhere)
    asked = make_ask("question", {"questions": [question]}, **everywhere)
    outcome = make_outcome(
        rules=(value,), reason=value, lines=(value,), surface=value, project=value
    )
    outcome = outcome._replace(summary=value)
    links = make_links(ask)
    items = [inbox.make_row(shown, make_links(shown)) for shown in (ask, asked)]
    recent = inbox.recent_list("zh", [(outcome, "undo?id=1")])
    boxes = [inbox.ended_box(outcome), outcome_box("late", value, [value])]
    parts = {"recent": recent, "boxes": "".join(boxes)}
    filled = {"q0_other": [value], "reason": [value]}
    broad = ask.actions[1]._replace(confirm=value)
    return [
        b"".join(request_page(ask, links, 9)),
        b"".join(request_page(asked, make_links(asked), 9, value, filled)),
        b"".join(confirm_page(ask, broad, links["always"], 9)),
        b"".join(record_page(ask, outcome)),
        result_page("zh", Receipt(ENDED, outcome), ask),
        b"".join(inbox.inbox_page("zh", items, 2, parts)),
    ]


def assert_harmless(body: bytes) -> None:
    page = Page(body)
    code = [script for script in page.scripts if not script.startswith('{"')]
    assert code in ([layout.PAGE_SCRIPT], [layout.INBOX_SCRIPT])
    assert not page.all("img")
    for _, attrs in page.elements:
        assert not any(name.startswith("on") or name == "style" for name in attrs)


@every_row("value", INJECTIONS)
def test_injected_markup_stays_text(value: str) -> None:
    for body in every_page(value):
        assert_harmless(body)


@settings(deadline=None)  # eight pages each time, on a machine that may be busy
@given(NASTY)
def test_no_text_becomes_markup_in_any_page(value: str) -> None:
    for body in every_page(value):
        assert_harmless(body)


def test_direction_marks_are_spelled_out_everywhere() -> None:
    for body in every_page("a\u202eb"):
        shown = re.sub(r'value="[^"]*"', "", body.decode())
        assert "\u202e" not in shown
        assert "U+202E" in shown


@every_row("language", ["zh", "en"])
def test_policy_names_exactly_the_script_and_style_of_each_page(language: str) -> None:
    bodies = (
        result_page(language, Receipt(UNKNOWN)),
        b"".join(inbox.inbox_page(language, [])),
    )
    policy = layout.POLICY
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for directive in (
        "frame-ancestors 'none'",
        "form-action 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
    ):
        assert directive in policy
    for body in bodies:
        page = Page(body)
        for source in (*page.scripts[-1:], *page.styles):
            digest = base64.b64encode(hashlib.sha256(source.encode()).digest())
            assert f"'sha256-{digest.decode()}'" in policy
    assert ("Content-Security-Policy", policy) in layout.HEADERS


def test_no_page_names_another_place() -> None:
    for body in every_page("x"):
        assert b"http://" not in body
        assert b"https://" not in body
        assert b"@import" not in body
        assert b"url(" not in body
