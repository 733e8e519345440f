"""What came of a tap: done, too late, unknown, or refused; as a page or as JSON."""

from __future__ import annotations

import time
from collections.abc import Iterable
from html import escape
from typing import Any, NamedTuple

from feishuperm.handlers.pages.layout import (
    Fact,
    facts,
    frame,
    icon,
    link_form,
    moment,
    say,
    shown,
)
from feishuperm.handlers.pages.pieces import followed
from feishuperm.lib.display import one_line, visible
from feishuperm.lib.text import text
from feishuperm.models.ask import ENDED, SETTLED, Ask, Outcome, Receipt

SUBJECT_LENGTH = 160
ALREADY = "已"  # the word in a Chinese sentence that the time goes with
WORDY = ("question", "markdown")  # blocks whose first line says little


class Ways(NamedTuple):
    """Where a page about a request leads; empty: nowhere."""

    events: str = ""  # what is told of it from now on
    undo: str = ""
    revoke: str = ""  # ends the pass that it made


NOWHERE = Ways()


def result_page(
    language: str, receipt: Receipt, ask: Ask | None = None, ways: Ways = NOWHERE
) -> bytes:
    """The page after a tap. `ask` is what it was about, if that is still known."""
    outcome = receipt.outcome
    if receipt.status == SETTLED:
        heading = text(language, "page.success")
        below = [f'<p class="done">{shown(outcome.done)}</p>']
        lines = [*outcome.lines, text(language, "page.back")]
        look, sign = outcome.look, "check"
    elif receipt.status == ENDED:
        heading = dated(outcome)
        when = f"{outcome.done} · {moment(outcome.ended)}"
        below = [
            f'<p class="line">{shown(when)}</p>',
            f'<p class="done">{say(language, "page.invalid")}</p>',
        ]
        lines, look, sign = [*outcome.lines], "late", "clock"
    else:
        return message_page(language, "page.invalid", text(language, "page.unknown"))
    below += [result_line(outcome), *(f'<p class="line">{shown(x)}</p>' for x in lines)]
    if ways.revoke:
        below.append(link_form(ways.revoke, say(language, "pass.revoke"), "no"))
    rows = outcome_facts(outcome)
    if receipt.status == ENDED:
        rows += end_facts(outcome)[1:]  # it is said above when
    rows += (*_about(ask), ledger_fact(outcome))
    about = facts(language, rows) + _subject(ask) + undo_form(outcome, ways.undo)
    return _verdict(language, heading, "".join(below), about, look, sign, ways.events)


def undone_page(language: str, outcome: Outcome) -> bytes:
    """The page after "undo"."""
    below = f'<p class="line">{say(language, "undo.done")}</p>'
    about = facts(language, outcome_facts(outcome))
    heading = text(language, "done.undo")
    return _verdict(language, heading, below, about, "good", "check")


def undo_form(outcome: Outcome, link: str) -> str:
    """The button that takes back what was written, where there is anything."""
    if not link or not outcome.undoable:
        return ""
    return link_form(link, say(outcome.language, "button.undo"), "plain", "undo")


def dated(outcome: Outcome) -> str:
    """What was done, and when, as a heading."""
    clock = time.strftime("%H:%M", time.localtime(outcome.ended))
    if outcome.language == "zh" and ALREADY in outcome.done:
        return outcome.done.replace(ALREADY, f"{ALREADY}于 {clock} ", 1)
    return text(outcome.language, "page.done_at", done=outcome.done, time=clock)


def result_line(outcome: Outcome) -> str:
    """How the call went on; the script fills it in as soon as that is known."""
    look = outcome.result_look if outcome.result else ""
    gap = "" if outcome.result else " hidden"
    return f'<p class="result {look}" id="result"{gap}>{shown(outcome.result)}</p>'


def message_page(language: str, title: str, sentence: str) -> bytes:
    """A page with one sentence; `title` is a text key."""
    line = f'<p class="line">{shown(sentence)}</p>'
    return _verdict(language, text(language, title), line, "", "late", "ask")


def _verdict(
    language: str,
    heading: str,
    below: str,
    about: str,
    look: str,
    sign: str,
    events: str = "",
) -> bytes:
    body = (
        f'<main class="look-{look}"{followed(events)}>'
        '<section class="sheet verdict" role="status">'
        f"{icon(sign)}<h1>{shown(heading)}</h1>{below}</section>"
        + (f'<section class="sheet stack">{about}</section>' if about else "")
        + "</main>"
    )
    return b"".join(frame(language, heading, [body]))


def live_json(outcome: Outcome) -> dict[str, Any]:
    """What a page that is open gets to know of the end of its request."""
    rows = (*outcome_facts(outcome), *end_facts(outcome))
    lines = (*outcome.lines, *_lines(outcome.language, rows))
    return {
        "title": outcome.done,
        "look": outcome.look,
        "lines": [visible(line) for line in lines],
        "result": outcome.result,
        "result_look": outcome.result_look,
        "undone": [visible(rule) for rule in outcome.undone],
    }


def undo_json(language: str, receipt: Receipt) -> dict[str, Any]:
    """The same of "undo", for the inbox."""
    key = "undo.done" if receipt.status == SETTLED else "page.unknown"
    return {
        "ok": receipt.status == SETTLED,
        "line": receipt.error or text(language, key),
    }


def result_json(language: str, receipt: Receipt) -> dict[str, Any]:
    """The same for the inbox, which shows it in place."""
    outcome, settled = receipt.outcome, receipt.status == SETTLED
    common = {"ok": settled, "look": outcome.look if settled else "late"}
    if not settled and receipt.status != ENDED:
        title = text(language, "page.refused" if receipt.error else "page.invalid")
        line = receipt.error or text(language, "page.unknown")
        return {**common, "over": not receipt.error, "title": title, "lines": [line]}
    title = text(language, "page.success" if settled else "page.invalid")
    rows = outcome_facts(outcome) + (() if settled else end_facts(outcome))
    rows += (ledger_fact(outcome),)
    return {
        **common,
        "over": True,
        "title": f"{title} · {outcome.done}",
        "lines": [visible(line) for line in (*outcome.lines, *_lines(language, rows))],
    }


def _lines(language: str, rows: Iterable[Fact]) -> list[str]:
    undone = f" · {text(language, 'done.undo')}"
    return [
        f"{text(language, row.label)}: {row.value}{undone if row.struck else ''}"
        for row in rows
        if row.value
    ]


def outcome_facts(outcome: Outcome) -> tuple[Fact, ...]:
    """What came with a decision."""
    return (
        Fact("page.key.ran", outcome.ran, True),
        *(Fact("page.key.answer", answer) for answer in outcome.answers),
        *(
            Fact("page.key.rule", rule, True, rule in outcome.undone)
            for rule in outcome.rules
        ),
        Fact("page.key.reason", outcome.reason),
    )


def ledger_fact(outcome: Outcome) -> Fact:
    """Where the ledger stood after it: `log verify --head` takes that."""
    return Fact("page.key.head", outcome.head)


def end_facts(outcome: Outcome) -> tuple[Fact, ...]:
    """When and where it ended, for whoever did not do it."""
    surface = surface_name(outcome.language, outcome.surface)
    return (
        Fact("page.key.when", moment(outcome.ended)),
        Fact("page.key.where", " · ".join(filter(None, (outcome.who, surface)))),
    )


def surface_name(language: str, surface: str) -> str:
    """Where somebody decided, in words."""
    try:
        return text(language, "surface." + surface)
    except KeyError:
        return surface


def _about(ask: Ask | None) -> tuple[Fact, ...]:
    """A short reminder of which request it was."""
    if ask is None:
        return ()
    return (
        Fact("card.tool", ask.tool),
        Fact("card.project", ask.project_name),
        Fact("card.branch", ask.branch),
    )


def _subject(ask: Ask | None) -> str:
    """The first line of what was asked, to recognise it by."""
    if ask is None or not ask.blocks or ask.blocks[0].kind in WORDY:
        return ""
    subject = one_line(ask.blocks[0].text, SUBJECT_LENGTH)
    return f'<code class="rule">{escape(subject)}</code>'
