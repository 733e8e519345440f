"""Plans as data: what people write becomes pieces, and nothing written is lost."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from feishuperm.lib import markdown
from feishuperm.lib.markdown import LONG, MANY_LINES, Piece, Span, spans
from tests.tables import every_row

PLAN = """# Cart & total

Some **bold** words, `code <b>` and
a second line.

## Steps
1. first
2. second
   - inner
     goes on
- [ ] open
- [x] done

```bash
rm -rf build   # not **bold**
```

| file | why |
|------|:---:|
| `a.py` | x |

> quoted
> twice

---
end"""
MARKUP = set("#*`|->_~:+=[]xX.) \t\n•☐☑0123456789")


def parse(text: str) -> list[Piece]:
    return list(markdown.parse(text))


def plain(piece: Piece) -> str:
    rows = [span.text for row in piece.rows for cell in row for span in cell]
    return piece.mark + "".join([span.text for span in piece.spans] + rows)


def test_plan_becomes_its_pieces() -> None:
    kinds = [(piece.kind, piece.mark, piece.depth) for piece in parse(PLAN)]
    assert kinds == [
        ("h1", "", 0),
        ("text", "", 0),
        ("h2", "", 0),
        ("item", "1.", 0),
        ("item", "2.", 0),
        ("item", "•", 1),
        ("item", "☐", 0),
        ("item", "☑", 0),
        ("code", "bash", 0),
        ("table", "", 0),
        ("quote", "", 0),
        ("rule", "", 0),
        ("text", "", 0),
    ]
    pieces = parse(PLAN)
    assert pieces[1].spans == (
        Span("", "Some "),
        Span("bold", "bold"),
        Span("", " words, "),
        Span("code", "code <b>"),
        Span("", " and\na second line."),
    )
    assert pieces[5].spans == (Span("", "inner\ngoes on"),)
    assert pieces[8].spans == (Span("", "rm -rf build   # not **bold**"),)
    assert pieces[9].rows[1] == ((Span("code", "a.py"),), (Span("", "x"),))


@every_row(
    "text",
    [
        "2**3 and 4**5",
        "** not bold **",
        "a ` lone tick",
        "a ** b",
        "[text](javascript:alert(1))",
        "![image](http://x)",
        "<img src=x onerror=alert(1)>",
        "<!-- rm -rf ~ -->",
        "&lt;b&gt; \\* \\|",
        "a_b_c and *one*",
        "#no heading",
        "1.no item",
    ],
)
def test_what_is_no_mark_stays_as_it_is_written(text: str) -> None:
    assert parse(text) == [Piece("text", (Span("", text),))]


def test_words_behind_a_fence_are_shown() -> None:
    (piece,) = parse("```rm -rf ~\nls\n```")
    assert (piece.kind, piece.mark) == ("code", "rm -rf ~")


def test_fence_that_never_ends_holds_the_rest() -> None:
    (piece,) = parse("```\n# a\n- b")
    assert piece == Piece("code", (Span("", "# a\n- b"),))


def test_very_long_text_is_shown_as_it_is() -> None:
    text = "# x\n" * (MANY_LINES + 1)
    assert parse(text) == [Piece("text", (Span("", text),))]


def test_very_long_paragraph_has_no_looks() -> None:
    text = "**a** " * LONG
    assert parse(text) == [Piece("text", (Span("", text),))]


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            ["# h", "```", "~~~ sh", "- a **b**", "  1) c", "| a | b |", "|--|--|"]
        ),
        st.sampled_from(["> q", "---", "", "   ", "`x` ** y **z**", "* * *", "\t- t"]),
        st.text(alphabet="ab*`|#->~ \t1.)[x]", max_size=30),
        st.text(max_size=30),
    ),
    max_size=30,
)


@given(LINES)
@limits(deadline=None)
def test_no_word_is_lost_or_made_up_or_moved(lines: list[str]) -> None:
    text = "\n".join(lines)
    shown = "".join(plain(piece) for piece in parse(text))
    kept = [c for c in text if c not in MARKUP and not c.isspace()]
    assert [c for c in shown if c not in MARKUP and not c.isspace()] == kept


@given(st.text(alphabet="ab *`\n", max_size=60))
@limits(deadline=None)
def test_spans_hold_the_whole_text_but_for_marks(text: str) -> None:
    shown = "".join(span.text for span in spans(text))
    assert shown.replace("*", "").replace("`", "") == text.replace("*", "").replace(
        "`", ""
    )


HOSTILE: list[Any] = [
    "`" * 300_000,
    "**" * 200_000,
    "**a" * 100_000,
    "**a`" * 80_000,
    "|" * 300_000,
    "|-" * 100_000 + "\n" + "|-" * 100_000,
    "- " * 150_000,
    " " * 300_000 + "x",
    "#" * 300_000,
    "~" * 300_000,
    "> " * 150_000,
    "|a|\n" * 15_000,
    "|a|\n|-|\n" * 9_000,
    ("|" + " :-" * 50_000 + "\n") * 3,
    "a|b\n" + ":-" * 100_000 + "|",
    "1" * 300_000 + ". x",
    "- x\n  y\n" * 9_000,
    "\x00\n" * 10_000,
]


@every_row("number", range(len(HOSTILE)))
def test_hostile_text_is_read_in_linear_time(number: int) -> None:
    began = time.thread_time()
    parse(HOSTILE[number])
    assert time.thread_time() - began < 1.0  # most of them take some milliseconds


def test_who_can_draw_little_gets_headings_code_and_lines() -> None:
    parts = [(part.kind, part.text) for part in markdown.flatten(PLAN)]
    assert parts == [
        ("heading", "Cart & total"),
        ("text", "Some bold words, code <b> and\na second line."),
        ("heading", "Steps"),
        ("text", "1. first\n2. second\n\u3000• inner\n\u3000\u3000goes on\n"
                 "☐ open\n☑ done"),
        ("code", "rm -rf build   # not **bold**"),
        ("text", "file | why\na.py | x\n> quoted\n> twice"),
        ("rule", ""),
        ("text", "end"),
    ]  # fmt: skip


@every_row("language", ["js <at id=all></at>", "x" * 30, "a b"])
def test_language_of_code_that_is_no_word_is_seen_as_text(language: str) -> None:
    (part,) = markdown.flatten(f"```{language}\nx\n```")
    assert part == markdown.Part("code", f"{language}\nx")


@every_row(
    "line",
    ["|a more|b more|", "words of a line", "> quoted in a line", "  more of an item"],
)
def test_no_piece_is_longer_than_what_is_made_at_once(line: str) -> None:
    """The server's loop does something else between two pieces."""
    text = "\n".join(["- a" if line[:2] == "  " else "|a|b|\n|-|-|", *[line] * 5000])
    pieces = list(parse(text))
    assert max(len(piece.rows) for piece in pieces) <= 500
    assert max(str(piece.spans).count("\\n") for piece in pieces) <= 500
    told = [cell for piece in pieces for row in piece.rows for cell in row]
    words = "".join(span.text for cell in told for span in cell)
    words += "".join(span.text for piece in pieces for span in piece.spans)
    assert words.count("more" if "more" in line else "line") >= 5000


def test_text_of_very_short_lines_is_shown_as_it_is() -> None:
    """On a card or in the inbox all of it would be drawn at once."""
    text = "- a\n" * 600
    assert list(markdown.parse(text)) == [Piece("text", (Span("", text),))]
    assert len(list(markdown.parse("- a longer one\n" * 600))) == 600
