"""The pieces of a request: nothing of it becomes markup, each button is one form."""

from __future__ import annotations

import re

from feishuperm.handlers.pages import request as pieces
from feishuperm.handlers.pages.request import (
    MANY_LINES,
    PIECE,
    clock,
    head,
    pending,
    request_page,
    rule_hint,
    subject,
)
from feishuperm.models.ask import Block, Field, Offer, Option
from feishuperm.models.kind import KINDS
from tests.handlers.pages.page import ID, Page, make_ask, make_links
from tests.handlers.pages.test_request import QUESTIONS, page_of
from tests.tables import every_row

EVIL = "<script>x</script>\"'&"


def test_edit_is_shown_as_coloured_diff() -> None:
    diff = Block("diff", "", "@@ -1 +1 @@\n-let a\n+const a\n b")
    page = page_of(make_ask(blocks=(diff,)))
    assert len(page.all("span", class_="add")) == 1
    assert len(page.all("span", class_="del")) == 1
    assert "+const a" in page.text


def test_endless_diff_is_shown_whole_without_colours() -> None:
    source = "+x\n" * (MANY_LINES + 2)
    page = page_of(make_ask(blocks=(Block("diff", "", source),)))
    assert source in page.text
    assert not page.all("span", class_="add")


def test_request_without_blocks_says_so() -> None:
    assert "没有计划文件" in page_of(make_ask("plan", blocks=())).text


def test_command_is_edited_in_an_area_that_keeps_every_line() -> None:
    command = "\nnpm test </textarea><b>\n"
    page = page_of(make_ask(tool_input={"command": command}))
    (area,) = page.all("textarea")
    assert (area["name"], area["maxlength"]) == ("command", "1000")
    assert "npm test </textarea><b>" in page.text and not page.all("b")
    assert page.button("edit") == "修改后批准"
    assert page.form("edit")["digest"] == "d16e57"
    ask = make_ask(tool_input={"command": command})
    source = b"".join(request_page(ask, make_links(ask), 9))
    assert b">\n\nnpm test" in source


def test_edited_command_that_was_not_taken_is_still_there() -> None:
    page = page_of(make_ask(), error="too long", values={"command": ["ls -l"]})
    assert "open" in page.all("details")[0]
    assert "ls -l" in page.text
    assert "open" not in page_of(make_ask()).all("details")[0]


def test_answer_form_has_one_group_per_question() -> None:
    page = page_of(make_ask("question", {"questions": QUESTIONS}))
    assert len(page.all("fieldset")) == 2
    assert [box["value"] for box in page.all("input", type="radio", name="q0")] == [
        "Red",
        "Blue",
    ]
    assert [box["value"] for box in page.all("input", type="checkbox", name="q1")] == [
        "S",
        "M",
        "L",
    ]
    names = ["q0", "q0", "q0_other", "q1", "q1", "q1", "q1_other"]
    assert page.forms["answer"].names() == names
    assert page.form("answer")["sig"] == "s-answer"
    assert page.form("deny")["sig"] == "s-deny"
    for expected in ("Which colour?", "warm", "Which sizes?", "可多选", "提交"):
        assert expected in page.text


def test_own_words_stand_inside_their_question() -> None:
    page = page_of(make_ask("question", {"questions": QUESTIONS}))
    order = [
        attrs.get("name", tag)
        for tag, attrs in page.elements
        if tag == "fieldset" or attrs.get("name", "").startswith("q")
    ]
    first = ["fieldset", "q0", "q0", "q0_other"]
    assert order == [*first, "fieldset", "q1", "q1", "q1", "q1_other"]


def test_refused_answer_keeps_what_was_filled_in() -> None:
    ask = make_ask("question", {"questions": QUESTIONS})
    values = {"q1": ["M"], "q0_other": ['"><b>']}
    page = page_of(ask, error="有一个选项不在问题中", values=values)
    checked = [attrs for _, attrs in page.elements if "checked" in attrs]
    assert [attrs["value"] for attrs in checked] == ["M"]
    assert page.all("input", name="q0_other", value='"><b>')
    assert "不在问题中" in page.text


def test_fields_and_buttons_nobody_has_seen_before_are_drawn() -> None:
    ask = make_ask()._replace(
        fields=(
            Field("command", label="Command", value="ls -l", limit=50),
            Field("speed", "one", "Speed", options=(Option("slow"), Option("fast"))),
        ),
        actions=(
            Offer("edit", "Edit", look="yes", fields=("command", "speed")),
            Offer("snooze", "Snooze", look="no"),
        ),
    )
    links = {"edit": f"edit?id={ID}", "snooze": f"snooze?id={ID}"}
    page = Page.of(request_page(ask, links, 9))
    assert page.button("edit") == "Edit" and page.button("snooze") == "Snooze"
    assert page.all("input", name="command", value="ls -l", maxlength="50")
    assert page.forms["edit"].names() == ["command", "speed", "speed"]


def drawn(*parts: str) -> Page:
    return Page("".join(parts).encode())


@every_row("kind", ["code", "diff", "text", "question", "markdown", "odd"])
def test_text_of_a_block_is_never_markup(kind: str) -> None:
    ask = make_ask(blocks=(Block(kind, EVIL, f"# {EVIL}\n`{EVIL}`\n- {EVIL}"),))
    page = drawn(*subject(ask))
    assert page.scripts == [] and EVIL in page.text


def test_what_was_cut_out_of_a_block_is_counted_between_its_ends() -> None:
    block = Block("code", "", "begin", hidden=1234, tail="end")
    text = drawn(*subject(make_ask(blocks=(block,)))).text
    assert text.index("begin") < text.index("1234") < text.index("end")


def test_long_text_comes_in_pieces_and_whole() -> None:
    source = "<" * (PIECE * 2 + 5)
    made = list(subject(make_ask(blocks=(Block("code", "", source),))))
    assert source in drawn(*made).text
    assert max(map(len, made)) <= PIECE * len("&lt;")
    lines = "+x\n" * (MANY_LINES + 1)
    page = drawn(*subject(make_ask(blocks=(Block("diff", "", lines),))))
    assert page.all("span", class_="add") == []


def test_questions_are_left_to_the_form_that_asks_them() -> None:
    ask = make_ask("question", {"questions": QUESTIONS})
    ask = ask._replace(blocks=(Block("question", "", "Which colour?"),))
    assert "Which colour?" in drawn(*subject(ask)).text
    assert "Which colour?" not in drawn(*subject(ask, asked_below=True)).text


def test_button_posts_what_its_link_says_and_the_digest() -> None:
    page = page_of(make_ask())
    assert page.form("allow") == {"id": ID, "sig": "s-allow", "digest": "d16e57"}


def test_enter_in_a_field_never_means_the_opposite() -> None:
    """A browser presses the first button of the field's own form."""
    page = page_of(make_ask(rules=("Bash(x)",)))
    first = {
        form: next(row for row in page.all("button") if row.get("form") == form)
        for form in ("grant", "refuse")
    }
    assert first["refuse"]["formaction"] == "deny"
    assert [row["form"] for row in page.all("input", name="reason")] == ["refuse"]
    assert [row["form"] for row in page.all("textarea")] == ["grant"]
    for action in KINDS["permission"].actions:
        (button,) = page.all("button", formaction=action.path[1:])
        assert button["form"] == ("refuse" if action.message else "grant")


def test_at_rest_there_are_two_buttons_and_two_plain_ones() -> None:
    source = "".join(pending(make_ask(rules=("Bash(x)",)), make_links(make_ask()), 9))
    bar, _, rest = source.partition('<div class="bar">')[2].partition('class="pair"')
    row, _, more = rest.partition("<details")
    order = [re.findall(r'formaction="(\w+)"', part) for part in (bar, row, more)]
    assert order == [
        ["allow", "deny"],
        ["always", "interrupt"],
        ["edit", "minutes", "session"],
    ]
    assert 'class="yes" form="grant" formaction="allow"' in bar
    marked = make_ask(rules=("Bash(x)",), dangers=("!",))
    source = "".join(pending(marked, make_links(marked), 9))
    assert 'class="yes"' not in source
    row, _, more = source.partition('class="pair"')[2].partition("<details")
    assert "always" not in row and "always" in more


def test_choice_has_a_button_for_each_option_and_a_field_of_ones_own() -> None:
    ask = make_ask("question", {"questions": QUESTIONS[:1]})
    page = page_of(ask)
    names = {button["value"] for button in page.all("button", class_="option")}
    assert names == {"Red", "Blue"}
    assert page.all("input", type="text", name="q0_other")


@every_row(
    ("rules", "note", "words"),
    [(("Bash(x)",), "", ""), ((), "it has a star", "it has a star")],
)
def test_rule_is_told_above_its_button_or_why_there_is_none(
    rules: tuple[str, ...], note: str, words: str
) -> None:
    ask = make_ask(rules=rules, rule_note=note)
    assert words in rule_hint(ask) and rule_hint(ask)
    noted = make_ask(rules=("Bash(x)",), rule_note="only here")
    assert rule_hint(noted).startswith("only here")
    assert rule_hint(noted) != rule_hint(make_ask(rules=("Bash(x)",)))


def test_clock_says_what_is_left_and_what_happens_then() -> None:
    page = drawn(clock(make_ask(at_zero="deny"), 12.34))
    (timer,) = page.all("span", role="timer")
    assert timer["data-left"] == "12.3" and "自动拒绝" in page.text


def test_page_names_what_where_and_which_request() -> None:
    ask = make_ask(tool=EVIL, project=f"/p/{EVIL}", branch="topic")
    page = page_of(ask, events="events?id=1")
    assert len(page.scripts) == 1 and "topic" in page.text and ID in page.text
    assert page.all("main", **{"data-events": "events?id=1"})
    assert not page_of(ask).all("main", **{"data-events": ""})
    assert EVIL in drawn(head(ask, "", EVIL)).text


def test_every_piece_of_a_plan_has_a_look() -> None:
    plan = (
        "# a\n\ntext **b** `c`\n\n> q\n\n- i\n\n1. n\n\n---\n\n"
        "```sh\nls\n```\n\n|a|b|\n|-|-|\n|1|2|\n"
    )
    page = drawn(*subject(make_ask(blocks=(Block("markdown", "", plan),))))
    tags = {tag for tag, _ in page.elements}
    assert {"b", "code", "pre", "table", "hr"} <= tags
    assert set(pieces.SPANS.values()) <= tags


def test_plan_has_real_headings_and_lists() -> None:
    """A screen reader tells which heading and which item of which list it reads."""
    plan = (
        "# a\n## b\n### c\n#### d\n- one\n  - deep\n    1. deeper\n- two\n"
        "3. three\n4. four\n\ntext\n\n- [x] done\n- [ ] open\n999999999. odd\n"
    )
    ask = make_ask(blocks=(Block("markdown", "", plan),))
    page = drawn(*subject(ask))
    inside = [(tag, attrs) for tag, attrs in page.elements if tag not in ("b", "code")]
    tags = [tag for tag, _ in inside if tag in ("ul", "ol", "li") or tag[1:].isdigit()]
    assert tags == [
        *("h3", "h4", "h5", "h6", "ul", "li", "ul", "li", "ol", "li", "li"),
        *("ol", "li", "li", "ul", "li", "li", "li"),
    ]
    assert [item.get("value") for item in page.all("li")] == [
        *(None, None, "1", None, "3", "4", None, None, None)
    ]
    assert "☑ done" in page.text and "999999999. odd" in page.text
