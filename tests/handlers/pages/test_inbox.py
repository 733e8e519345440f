"""The inbox: requests drawn once, with and without scripts; passes and sessions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from feishuperm.handlers.pages import inbox
from feishuperm.handlers.pages.layout import INBOX, INBOX_SCRIPT, STYLE
from feishuperm.messages import text
from feishuperm.models.ask import Ask, Block, Outcome
from feishuperm.models.kind import KINDS
from feishuperm.services.grants import Pass, Passes
from feishuperm.services.ledger import Ledger
from feishuperm.services.web_access import Session
from tests.handlers.pages.page import ID, Page, make_ask, make_links, make_outcome
from tests.tables import every_row

EVIL = "Bash(<script>x</script> \u202e)"
EVIL_NAME = '"><script>x</script>'
PHONE = Session("s1", "h", 1.0, 2.0, "192.0.2.7", "Mozilla/5.0 (Linux; Android 14)")


def row_of(ask: Ask) -> Page:
    return Page(inbox.make_row(ask, make_links(ask)).html.encode())


def page_of(*asks: Ask) -> Page:
    rows = [inbox.make_row(ask, make_links(ask)) for ask in asks]
    return Page.of(inbox.inbox_page("zh", rows, len(rows)))


# Pending requests.


def test_row_of_a_call_that_fits_has_the_two_buttons() -> None:
    row = row_of(make_ask())
    assert list(row.forms) == ["allow", "deny"], "left lets it happen"
    assert (row.button("allow"), row.button("deny")) == ("批准", "拒绝")
    assert row.form("allow") == {"id": ID, "sig": "s-allow", "digest": "d16e57"}
    assert [one["data-key"] for one in row.all("button")] == ["a", "d"]
    for words in ("npm run build", "shop · main"):
        assert words in row.text
    (item,) = row.all("li", id=f"row-{ID}")
    assert item["data-news"] == "Bash · shop"
    for name, button in zip(("批准", "拒绝"), row.all("button")):
        assert button["aria-label"] == f"{name} Bash npm run build"


@every_row(
    "changes",
    [
        {"dangers": ("删除",)},
        {"masked": True},
        {"veiled": True},
        {"cut": 1},
        {"blocks": ()},
        {"blocks": (Block("code", "", "x" * 81),)},
        {"blocks": (Block("code", "", "字" * 41),)},
        {"blocks": (Block("code", "", "x" * 50), Block("text", "", "y" * 31))},
        {"blocks": (Block("code", "", "ls\nrm"),)},
        {"blocks": (Block("code", "", "ls", hidden=9, tail="rm"),)},
        {"blocks": (Block("code", "", "ls"), Block("diff", "", "-a"))},
        {"blocks": (Block("code", "", "ls"), Block("odd", "", "a"))},
        {"blocks": (Block("code", "", " "),)},
        {"kind": "plan"},
        {"kind": "denied"},
        {"kind": "next"},
        {"blocks": (Block("markdown", "", "# A plan"),)},
    ],
)
def test_row_never_grants_what_it_does_not_show_whole(changes: dict[str, Any]) -> None:
    ask = make_ask(**{"kind": "permission", **changes})
    row = row_of(ask)
    assert row.forms == {} and row.all("button") == []
    links = row.all("a", href=make_links(ask)["request"])
    assert [link.get("aria-label", "")[:2] for link in links] == ["", "查看"]


def test_row_of_another_call_names_its_tool() -> None:
    path = Block("path", "文件", "/etc/hosts")
    row = row_of(make_ask(blocks=(path,), summary="Read hosts"))
    assert row.text.startswith("Read hosts/etc/hosts") and "allow" in row.forms


def test_row_has_no_button_that_its_request_does_not_offer() -> None:
    ask = make_ask()
    refusing = tuple(offer for offer in ask.actions if not offer.grants)
    assert row_of(ask._replace(actions=refusing)).forms == {}
    broad = tuple(offer._replace(confirm="all") for offer in ask.actions)
    assert row_of(ask._replace(actions=broad)).forms == {}


def test_request_can_be_answered_without_scripts() -> None:
    ask = make_ask()
    page = page_of(ask)
    assert page.form("allow")["id"] == ID and page.form("deny")["id"] == ID
    assert page.all("a", href=make_links(ask)["request"])
    assert re.search(r"\d\d:\d\d", page.text)


def test_row_says_the_first_danger_and_nothing_unseen() -> None:
    ask = make_ask(dangers=("删除 a\u202eb", "two"), why="why\u200b")
    row = row_of(ask)
    assert "删除 a⟦U+202E⟧b" in row.text
    (item,) = row.all("li")
    assert "risky" in item["class"] and item["data-why"] == "why⟦U+200B⟧"


@every_row(
    ("blocks", "line"),
    [
        ((Block("code", "", "first\nsecond"),), "first second"),
        ((Block("markdown", "", "# A **plan**\n\ntext"),), "A plan"),
        ((Block("code", "", "x" * 200),), "x" * (inbox.ROW_LENGTH - 1) + "…"),
    ],
)
def test_row_of_a_longer_request_says_its_beginning(
    blocks: tuple[Block, ...], line: str
) -> None:
    assert line in row_of(make_ask(blocks=blocks)).text


def test_single_choice_is_named_by_its_question() -> None:
    options = [{"label": "Red", "description": "<warm>"}, {"label": "Blue"}]
    asked = {"question": "Which?", "header": "H", "options": options}
    ask = make_ask("question", {"questions": [asked]})
    ask = ask._replace(blocks=(Block("question", "", "Which?"),))
    assert "Which?" in row_of(ask).text


def test_page_says_how_many_wait_or_that_none_does() -> None:
    page = page_of(make_ask(), make_ask(id="2"))
    assert [row["data-id"] for row in page.all("li", class_="row")] == [ID, "2"]
    assert ">2</span>" in b"".join(inbox.inbox_page("zh", [], 2)).decode()
    assert "hidden" in page.all("div", id="empty")[0]
    none = page_of()
    assert "hidden" in none.all("ul", id="waiting")[0]
    assert "hidden" not in none.all("div", id="empty")[0]


# Settled requests.


def recent_of(outcome: Outcome) -> Page:
    return Page(inbox.recent_list("zh", [(outcome, "request?id=1")]).encode())


def test_settled_request_is_one_line_that_opens_its_page() -> None:
    outcome = make_outcome(
        "已始终允许", rules=("Bash(x)",), detail="x <all>", result="已运行完毕"
    )
    page = recent_of(outcome)
    assert len(page.all("a", href="request?id=1")) == 1
    for words in ("已始终允许", "x <all> · shop · 已运行完毕"):
        assert words in page.text
    assert re.search(r"\d\d:\d\d$", page.text)
    assert page.all("b", class_="done-good") and not page.forms
    gone = outcome._replace(undone=("Bash(x)",))
    assert "已始终允许 · 已撤销" in recent_of(gone).text
    box = inbox.ended_box(outcome)
    assert "已始终允许" in box and "outcome good" in box


def test_section_without_settled_requests_is_there_and_hidden() -> None:
    (section,) = Page(inbox.recent_list("zh", []).encode()).all("section")
    assert section["id"] == "recent-part" and "hidden" in section


# The page and its script.


def test_texts_of_the_script_are_json_beside_it() -> None:
    page = page_of(make_ask(blocks=(Block("code", "", "</script>"),)))
    assert list(json.loads(page.scripts[0])) == list(inbox.TEXTS)


def test_keys_of_a_new_button_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    permission = KINDS["permission"]
    later = permission.actions[0]._replace(
        name="later", key="l", label="See the whole request"
    )
    row = permission._replace(actions=(*permission.actions, later))
    monkeypatch.setitem(KINDS, "permission", row)
    page = b"".join(inbox.inbox_page("zh", [])).decode()
    assert "<kbd>l</kbd></dt><dd>查看完整请求</dd>" in page


def test_script_knows_no_button_by_name() -> None:
    names = {action.name for kind in KINDS.values() for action in kind.actions}
    for name in names:
        assert not re.search(rf"""["'.]{name}\b""", INBOX_SCRIPT)


def test_every_text_the_script_asks_for_is_sent_and_no_more() -> None:
    asked = set(re.findall(r'"((?:inbox|page)\.[a-z_.]+)"', INBOX_SCRIPT))
    assert asked == set(inbox.TEXTS)


def test_blanks_of_the_page_are_filled_and_its_sentences_told() -> None:
    blanks = set(re.findall(r"\{\{(\w+)\}\}", INBOX))
    assert blanks == {
        *("count", "any", "none_yet", "rows", "parts", "sessions", "keys", "texts")
    }
    sentences = re.findall(r"\{\{=(.+?)\}\}", INBOX)
    assert len(sentences) > 20
    page = b"".join(inbox.inbox_page("zh", [])).decode()
    assert "{{" not in page.partition("<script>")[0].partition("</style>")[2]
    assert not [sentence for sentence in sentences if f">{sentence}<" in page]


def test_help_explains_the_buttons_to_people_without_a_keyboard() -> None:
    for language in ("zh", "en"):
        page = b"".join(inbox.inbox_page(language, [])).decode()
        fingers = page.partition('with-fingers">')[2].partition("</dl>")[0]
        assert "<kbd>" not in fingers
        for label in ("Allow", "Always allow", "Deny", "Deny and interrupt", "Hold"):
            assert f"<dt>{text(language, label)}</dt>" in fingers
    style = STYLE.replace("\n", " ")
    assert "(pointer: coarse)" in style and ".with-keys { display: none; }" in style


# Passes.


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    return Passes(Ledger(str(tmp_path / "ledger.jsonl")))


def add(passes: Passes, **parts: object) -> None:
    scope = Pass(rules=("Bash(ls)",), shown="Bash(ls)", project="/home/me/shop")
    row = passes.draft(scope._replace(**parts), 600)  # type: ignore[arg-type]
    passes.add(row)


def listed(passes: Passes) -> Page:
    return Page(inbox.pass_list("en", passes).encode())


def test_pass_says_what_it_lets_through_where_and_how_often(passes: Passes) -> None:
    add(passes, calls=3, session="0123456789abcdef")
    text = listed(passes).text
    for words in ("Bash(ls)", "shop", "01234567", "3"):
        assert words in text
    assert "89abcdef" not in text and "/home/me" not in text


def test_each_pass_has_a_button_and_all_have_one(passes: Passes) -> None:
    for _ in range(2):
        add(passes)
    drawn = listed(passes)
    ids = [row.id for row in passes.all()]
    posted = [field["value"] for field in drawn.all("input", name="pass")]
    assert posted == [*ids, "all"]
    assert {form["action"] for form in drawn.all("form")} == {"passes"}


def test_what_a_pass_is_for_is_spelled_out_and_no_markup(passes: Passes) -> None:
    add(passes, shown=EVIL, project=f"/p/{EVIL}")
    drawn = listed(passes)
    assert drawn.scripts == [] and "\u202e" not in drawn.text
    assert "<script>" in drawn.text


def test_section_without_passes_is_there_and_hidden(passes: Passes) -> None:
    (section,) = listed(passes).all("section")
    assert "hidden" in section
    add(passes)
    (section,) = listed(passes).all("section")
    assert "hidden" not in section


# The way in, and who has gone it.


@every_row("language", ["zh", "en"])
def test_ticket_is_used_up_by_a_button_and_not_by_its_link(language: str) -> None:
    page = Page(inbox.ticket_page(language, EVIL_NAME))
    assert page.form(".") == {"ticket": EVIL_NAME}
    links = [link for link in page.all("a") if "href" in link]
    assert links == [], "whoever opens every link uses nothing up"


@every_row("language", ["zh", "en"])
def test_browser_from_elsewhere_is_offered_the_way_again(language: str) -> None:
    page = Page(inbox.again_page(language))
    assert len(page.all("a", href=".")) == 1 and page.forms == {}


def test_every_browser_is_listed_with_a_button_to_send_it_away() -> None:
    other = PHONE._replace(id="s2", address=EVIL_NAME, agent=EVIL_NAME)
    page = Page(inbox.session_list("en", (PHONE, other), PHONE).encode())
    posted = [field["value"] for field in page.all("input", name="session")]
    assert posted == ["s1", "s2"]
    assert page.all("input", name="all", value="1")
    assert "192.0.2.7" in page.text and page.scripts == []
    assert {form["action"] for form in page.all("form")} == {"sessions"}


def test_own_browser_is_marked_and_no_other() -> None:
    other = PHONE._replace(id="s2")
    nobody = inbox.session_list("en", (PHONE, other), None)
    mine = inbox.session_list("en", (PHONE, other), other)
    assert "this one" not in nobody
    assert ["this one" in row for row in mine.split("</li>")] == [False, True, False]


def test_no_session_makes_no_list() -> None:
    assert inbox.session_list("en", (), None) == ""
