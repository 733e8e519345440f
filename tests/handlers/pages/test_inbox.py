"""The inbox: requests drawn once, with and without scripts; passes and sessions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from feishuperm.handlers.pages import inbox
from feishuperm.handlers.pages.layout import INBOX, INBOX_SCRIPT, STYLE
from feishuperm.messages import text
from feishuperm.models.ask import Ask, Block, Field, Offer
from feishuperm.models.kind import KINDS
from feishuperm.services.grants import Pass, Passes
from feishuperm.services.ledger import Ledger
from feishuperm.services.web_access import Session
from tests.handlers.pages.page import ID, Page, make_ask, make_links, make_outcome
from tests.kinds import buttons, refusals
from tests.tables import every_row

EVIL = "Bash(<script>x</script> \u202e)"
EVIL_NAME = '"><script>x</script>'
PHONE = Session("s1", "h", 1.0, 2.0, "192.0.2.7", "Mozilla/5.0 (Linux; Android 14)")


def card_of(ask: Ask) -> Page:
    return Page(inbox.make_item(ask, make_links(ask)).card.encode())


def page_of(*asks: Ask) -> Page:
    items = [inbox.make_item(ask, make_links(ask)) for ask in asks]
    return Page.of(inbox.inbox_page("zh", items, len(items)))


def posted(card: Page) -> list[str]:
    return [form["action"] for form in card.all("form")]


# Pending requests.


def test_card_has_every_button_with_its_key_and_its_fields() -> None:
    card = card_of(make_ask(rules=("Bash(x)",)))
    assert sorted(posted(card)) == sorted(row.path[1:] for row in buttons())
    keys = [row.key for row in buttons() if row.key]
    assert keys[:4] == ["a", "w", "d", "i"]
    drawn = [row["data-key"] for row in card.all("button") if "data-key" in row]
    assert sorted(drawn) == sorted(keys)
    assert card.form("always") == {"id": ID, "sig": "s-always", "digest": "d16e57"}
    assert card.forms["deny"].names() == ["reason"]
    assert card.forms["edit"].names() == ["command"]
    assert card.all("details") and "npm run build" in card.text
    assert "Bash(x)" in card.text
    (article,) = card.all("article", id=f"request-{ID}")
    assert article["data-news"] == "Bash · shop"
    assert card.all("span", class_="clock", **{"data-seconds": "55"})


def test_button_that_needs_own_words_or_a_confirmation_opens_its_page() -> None:
    question = card_of(make_ask("question", {"questions": [{"question": "Why?"}]}))
    (link,) = question.all("a", class_="button yes")
    assert link["href"] == f"answer?id={ID}&sig=s-answer"
    assert question.forms["deny"].names() == ["reason"]
    assert sorted(posted(question)) == ["deny", "interrupt"]
    ask = make_ask()
    broad = tuple(offer._replace(confirm="all") for offer in ask.actions)
    links = card_of(ask._replace(actions=broad)).all("a")
    assert f"allow?id={ID}&sig=s-allow" in [link["href"] for link in links]


def test_single_choice_is_one_press_and_asks_its_question_once() -> None:
    options = [{"label": "Red", "description": "<warm>"}, {"label": "Blue"}]
    asked = {"question": "Which?", "header": "H", "options": options}
    ask = make_ask("question", {"questions": [asked]})
    ask = ask._replace(blocks=(Block("question", "", "Which?"),))
    card = card_of(ask)
    values = [row["value"] for row in card.all("button", class_="option")]
    assert values == ["Red", "Blue"]
    assert card.text.count("Which?") == 1 and "<warm>" in card.text
    assert card.all("a", class_="button yes")
    assert "Which?" in Page(inbox.make_item(ask, make_links(ask)).row.encode()).text
    broad = tuple(offer._replace(confirm="all") for offer in ask.actions)
    assert not card_of(ask._replace(actions=broad)).all("button", class_="option")


def test_long_content_keeps_both_ends_and_loses_the_buttons_that_grant() -> None:
    content = "start" + "x" * 50_000 + "end"
    rules = (f"Bash({content})",)
    ask = make_ask(blocks=(Block("code", "", content),), rules=rules)
    card = card_of(ask)
    assert card.text.index("start") < card.text.index("xend")
    assert card.text.count("x") <= inbox.ITEM_LENGTH
    assert str(50_008 - inbox.ITEM_LENGTH) in card.text
    assert card.all("a", class_="button link", href=make_links(ask)["request"])
    assert sorted(posted(card)) == refusals()
    assert "Bash(" not in card.text


def test_many_long_blocks_stay_within_the_size_of_an_item() -> None:
    blocks = tuple(Block("code", "", "é" * 20_000) for _ in range(100))
    card = card_of(make_ask(blocks=blocks))
    assert 0 < card.text.count("é") <= inbox.ITEM_LENGTH
    assert "70 项未显示" in card.text


def test_masked_request_says_so_and_leads_to_its_page() -> None:
    ask = make_ask(masked=True)
    card = card_of(ask)
    assert card.all("a", class_="button link", href=make_links(ask)["request"])
    assert (
        text("zh", "⚠ Secrets are masked as ***: the full request shows them")
        in card.text
    )
    assert card.button("allow") == "批准运行"


def test_request_can_be_answered_without_scripts() -> None:
    ask = make_ask()
    page = page_of(ask)
    for path, label in (("allow", "批准运行"), ("deny", "拒绝运行")):
        assert page.button(path) == label
        assert page.form(path)["id"] == ID
    assert page.all("a", href=make_links(ask)["request"])
    assert page.all("a", href=f"#request-{ID}")
    assert re.search(r"\d\d:\d\d:\d\d", page.text)


def test_clock_is_stopped_by_a_form_of_its_own() -> None:
    links = {**make_links(make_ask()), "hold": f"hold?id={ID}&sig=h"}
    card = Page(inbox.make_item(make_ask(hold=True), links).card.encode())
    assert card.form("hold") == {"id": ID, "sig": "h"}
    assert card.all("form", class_="hold")
    assert not card_of(make_ask()).all("form", class_="hold")


@every_row(
    ("blocks", "line"),
    [
        ((Block("code", "", "first\nsecond"),), "first"),
        ((Block("markdown", "", "# A **plan**\n\ntext"),), "A plan"),
        ((Block("code", "", "x" * 200),), "x" * inbox.ROW_LENGTH),
        ((), None),
    ],
)
def test_row_says_the_first_line(blocks: tuple[Block, ...], line: str | None) -> None:
    ask = make_ask(blocks=blocks, dangers=("!",) if line == "first" else ())
    made = inbox.make_item(ask, make_links(ask)).row
    row = Page(made.encode())
    for words in ("Bash", "shop · main"):
        assert words in row.text
    assert (f"<code>{line}</code>" in made) is (line is not None)
    (link,) = row.all("a", href=f"#request-{ID}")
    assert ("risky" in link["class"]) is (line == "first")


def test_page_says_how_many_wait_or_that_none_does() -> None:
    page = page_of(make_ask(), make_ask(id="2"))
    assert [row["id"] for row in page.all("article")] == [f"request-{ID}", "request-2"]
    assert ">2</span>" in b"".join(inbox.inbox_page("zh", [], 2)).decode()
    assert "hidden" in page.all("div", id="empty")[0]
    none = page_of()
    assert "hidden" in none.all("div", id="desk")[0]
    assert "hidden" not in none.all("div", id="empty")[0]


def test_card_says_what_is_dangerous_and_why_with_nothing_unseen() -> None:
    ask = make_ask(
        dangers=("删除 a\u202eb",), why="why\u200b", prompt="p\x07", facts=("f\u2028",)
    )
    words = card_of(ask).text
    for shown in ("删除 a⟦U+202E⟧b", "why⟦U+200B⟧", "p⟦U+0007⟧", "f⟦U+2028⟧"):
        assert shown in words
    assert words.index("npm run build") < words.index("删除") < words.index("why")


def test_button_and_field_nobody_has_seen_before_are_drawn() -> None:
    offer = Offer("edit", "Edit", look="yes", key="e", fields=("command",))
    ask = make_ask(fields=(Field("command", value="ls"),), actions=(offer,))
    links = {"edit": "edit?id=1", "request": "request?id=1"}
    card = Page(inbox.make_item(ask, links).card.encode())
    assert card.button("edit") == "Edit"
    assert card.all("input", name="command", value="ls")
    assert card.all("button", **{"data-key": "e"})


# Settled requests.


def recent_of(outcome: object, undo: str = "") -> Page:
    return Page(inbox.recent_list("zh", [(outcome, undo)]).encode())  # type: ignore[list-item]


def test_settled_request_says_who_where_when_and_which_rule() -> None:
    outcome = make_outcome(
        "已始终允许",
        surface="inbox",
        who="张三",
        rules=("Bash(x)",),
        detail="x --all",
        ran="y <z>",
        reason="so",
        answers=("A：B",),
        lines=("line",),
        result="已运行完毕",
        result_look="good",
        undoable=True,
    )
    page = recent_of(outcome, f"undo?id={ID}&sig=s")
    assert re.search(r"shop · \d\d:\d\d:\d\d · 张三 · 收件箱", page.text)
    for words in ("Bash", "x --all", "已始终允许", "Bash(x)", "y <z>", "已运行完毕"):
        assert words in page.text
    for words in ("A：B", "line", "理由: so", "账本: a1b2c3"):
        assert words in page.text
    assert page.all("span", class_="done-good") and page.all("p", class_="done-good")
    assert page.form("undo") == {"id": ID, "sig": "s"}
    assert page.button("undo") == "撤销"
    box = inbox.ended_box(outcome)
    assert "已始终允许" in box and "收件箱" in box and "outcome good" in box


def test_rule_that_was_undone_is_struck_through_and_cannot_be_undone_again() -> None:
    gone = make_outcome(rules=("Bash(x)",), undone=("Bash(x)",), undoable=False)
    page = recent_of(gone, "undo?id=1")
    assert len(page.all("s")) == 1 and not page.forms


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


def test_every_blank_of_the_page_has_its_words_and_no_more() -> None:
    made = {"count", "any", "none_yet", "rows", "parts", "keys", "buttons", "note"}
    blanks = set(re.findall(r"\{\{(\w+)\}\}", INBOX))
    assert blanks - made - {"items", "texts"} == set(inbox.WORDS)


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
    assert " · " not in nobody
    assert [" · " in row for row in mine.split("</li>")] == [False, True, False]


def test_no_session_makes_no_list() -> None:
    assert inbox.session_list("en", (), None) == ""
