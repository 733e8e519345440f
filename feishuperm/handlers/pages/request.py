"""The pages about one request: while it waits, the step before, the result of a tap.

What the scripts of open pages are told of a result stands here too: `outcome_box` is
how it looks, wherever it is shown in place.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from html import escape
from itertools import chain
from typing import Any, NamedTuple

from feishuperm.handlers.pages.layout import (
    Fact,
    facts,
    frame,
    icon,
    link_form,
    moment,
    said,
    shown,
)
from feishuperm.handlers.pages.pieces import (
    Links,
    Values,
    blocks,
    buttons,
    clock,
    followed,
    head,
    sheet,
)
from feishuperm.lib.display import one_line, visible
from feishuperm.messages import msg, pmsg, text
from feishuperm.models.ask import ENDED, SETTLED, Ask, Offer, Outcome, Receipt
from feishuperm.models.names import INVALID, NO_REQUEST, SURFACES

SUBJECT_LENGTH = 160
ALREADY = "已"  # the word in a Chinese sentence that the time goes with
WORDY = ("question", "markdown")  # blocks whose first line says little


class Ways(NamedTuple):
    """Where a page about a request leads; empty: nowhere."""

    events: str = ""  # what is told of it from now on
    undo: str = ""
    revoke: str = ""  # ends the pass that it made


NOWHERE = Ways()


# While it waits.


def request_page(
    ask: Ask,
    links: Links,
    seconds_left: float,
    error: str = "",
    values: Values | None = None,
    events: str = "",
) -> Iterator[bytes]:
    """Everything about a pending request.

    `error` is the sentence why an answer was not taken, `values` what it had filled in.
    """
    note = f'<p class="note" role="alert">{shown(error)}</p>' if error else ""
    body = chain(
        (head(ask, ask.heading, clock(ask, seconds_left)), note),
        blocks(ask, ask.offered),
        (buttons(ask, links, ask.offered, values),),
    )
    return frame(ask.language, ask.heading, sheet(ask, body, events))


def confirm_page(
    ask: Ask,
    offer: Offer,
    link: str,
    seconds_left: float,
    values: Values | None = None,
    events: str = "",
) -> Iterator[bytes]:
    """What a button link opens where a link must not decide by itself.

    The request and the one button asked for, with the words one has to agree to.
    """
    title = text(ask.language, "Please confirm")
    words = f'<p class="note"><strong>{shown(offer.confirm)}</strong></p>'
    if offer.confirm:
        link += "&confirmed=1"
    top = (
        head(ask, title, clock(ask, seconds_left)),
        (
            '<p class="note">'
            + said(
                ask.language, "Nothing is decided yet: only the button below decides."
            )
            + "</p>"
        ),
        *((words,) if offer.confirm else ()),
    )
    below = (buttons(ask, {offer.name: link}, (offer,), values),)
    body = chain(top, blocks(ask), below)
    return frame(ask.language, title, sheet(ask, body, events))


# Once it has ended.


def record_page(ask: Ask, outcome: Outcome, ways: Ways = NOWHERE) -> Iterator[bytes]:
    """A request's own page after its end: a record of its result."""
    lines = "".join(f"<p>{shown(line)}</p>" for line in outcome.lines)
    lines += _result_line(outcome)
    rows = (*outcome_facts(outcome), *end_facts(outcome), _ledger_fact(outcome))
    ended = (
        head(ask, ask.heading),
        f'<div class="outcome {outcome.look}">{shown(outcome.done)}{lines}</div>',
        facts(ask.language, rows),
        undo_form(outcome, ways.undo),
    )
    body = chain(ended, blocks(ask))
    return frame(ask.language, ask.heading, sheet(ask, body, ways.events))


def result_page(
    language: str, receipt: Receipt, ask: Ask | None = None, ways: Ways = NOWHERE
) -> bytes:
    """The page after a tap. `ask` is what it was about, if that is still known."""
    outcome = receipt.outcome
    if receipt.status == SETTLED:
        heading = text(language, pmsg("page", "Done"))
        below = [f'<p class="done">{shown(outcome.done)}</p>']
        lines = [*outcome.lines, text(language, "You can close this page.")]
        look, sign = outcome.look, "check"
    elif receipt.status == ENDED:
        heading = _dated(outcome)
        when = f"{outcome.done} · {moment(outcome.ended)}"
        below = [
            f'<p class="line">{shown(when)}</p>',
            ('<p class="done">' + said(language, INVALID) + "</p>"),
        ]
        lines, look, sign = [*outcome.lines], "late", "clock"
    else:
        return message_page(language, INVALID, text(language, NO_REQUEST))
    below.append(_result_line(outcome))
    below += [f'<p class="line">{shown(line)}</p>' for line in lines]
    if ways.revoke:
        below.append(link_form(ways.revoke, said(language, "Revoke"), "no"))
    rows = outcome_facts(outcome)
    if receipt.status == ENDED:
        rows += end_facts(outcome)[1:]  # it is said above when
    rows += (*_about(ask), _ledger_fact(outcome))
    about = facts(language, rows) + _subject(ask) + undo_form(outcome, ways.undo)
    return _verdict(language, heading, "".join(below), about, look, sign, ways.events)


def undone_page(language: str, outcome: Outcome) -> bytes:
    """The page after "undo"."""
    below = (
        '<p class="line">'
        + said(
            language,
            "The rule is out of the project; a session that runs keeps it until "
            "it ends.",
        )
        + "</p>"
    )
    about = facts(language, outcome_facts(outcome))
    heading = text(language, "Taken back")
    return _verdict(language, heading, below, about, "good", "check")


def undo_form(outcome: Outcome, link: str, look: str = "plain") -> str:
    """The button that undoes what was written, where there is anything."""
    if not link or not outcome.undoable:
        return ""
    return link_form(link, said(outcome.language, "Undo"), look, "undo")


def _dated(outcome: Outcome) -> str:
    """What was done, and when, as a heading."""
    clock = time.strftime("%H:%M", time.localtime(outcome.ended))
    if outcome.language == "zh" and ALREADY in outcome.done:
        return outcome.done.replace(ALREADY, f"{ALREADY}于 {clock} ", 1)
    return text(outcome.language, "{done} at {time}", done=outcome.done, time=clock)


def _result_line(outcome: Outcome) -> str:
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


# For the scripts of open pages.


def outcome_box(look: str, title: str, lines: Iterable[str] = ()) -> str:
    """How a request ended, in the place of its buttons."""
    below = "".join(f"<p>{shown(line)}</p>" for line in lines)
    return f'<div class="outcome {look}" role="status">{shown(title)}{below}</div>'


def live_json(outcome: Outcome) -> dict[str, Any]:
    """What a page that is open gets to know of the end of its request."""
    rows = (*outcome_facts(outcome), *end_facts(outcome))
    lines = [*outcome.lines, *_lines(outcome.language, rows)]
    lines += [outcome.result] if outcome.result else []
    return {
        "html": outcome_box(outcome.look, outcome.done, lines),
        "result": outcome.result,
        "result_look": outcome.result_look,
        "undone": [visible(rule) for rule in outcome.undone],
    }


def undo_json(language: str, receipt: Receipt) -> dict[str, Any]:
    """What the inbox shows in the place of its button "undo"."""
    key = (
        msg(
            "The rule is out of the project; a session that runs keeps it until it "
            "ends."
        )
        if receipt.status == SETTLED
        else NO_REQUEST
    )
    line = receipt.error or text(language, key)
    return {"html": f'<p class="muted">{shown(line)}</p>'}


def result_json(language: str, receipt: Receipt) -> dict[str, Any]:
    """What the inbox shows in the place of a request's buttons."""
    outcome, settled = receipt.outcome, receipt.status == SETTLED
    if not settled and receipt.status != ENDED:
        title = text(
            language, msg("This cannot be opened") if receipt.error else INVALID
        )
        line = receipt.error or text(language, NO_REQUEST)
        box = outcome_box("late", title, [line])
        return {"over": not receipt.error, "html": box}
    title = text(language, pmsg("page", "Done") if settled else INVALID)
    rows = outcome_facts(outcome) + (() if settled else end_facts(outcome))
    rows += (_ledger_fact(outcome),)
    look = outcome.look if settled else "late"
    lines = (*outcome.lines, *_lines(language, rows))
    box = outcome_box(look, f"{title} · {outcome.done}", lines)
    return {"over": True, "html": box}


def _lines(language: str, rows: Iterable[Fact]) -> list[str]:
    undone = " · " + text(language, "Taken back")
    return [
        f"{text(language, row.label)}: {row.value}{undone if row.struck else ''}"
        for row in rows
        if row.value
    ]


def outcome_facts(outcome: Outcome) -> tuple[Fact, ...]:
    """What came with a decision."""
    return (
        Fact(msg("Ran instead"), outcome.ran, True),
        *(Fact(pmsg("fact", "Answer"), answer) for answer in outcome.answers),
        *(
            Fact(msg("Rule"), rule, True, rule in outcome.undone)
            for rule in outcome.rules
        ),
        Fact(msg("Reason"), outcome.reason),
    )


def _ledger_fact(outcome: Outcome) -> Fact:
    """Where the ledger stood after it: `log verify --head` takes that."""
    return Fact(msg("Ledger"), outcome.head)


def end_facts(outcome: Outcome) -> tuple[Fact, ...]:
    """When and where it ended, for whoever did not do it."""
    surface = surface_name(outcome.language, outcome.surface)
    return (
        Fact(msg("Settled at"), moment(outcome.ended)),
        Fact(msg("Settled by"), " · ".join(filter(None, (outcome.who, surface)))),
    )


def surface_name(language: str, surface: str) -> str:
    """Where somebody decided, in words."""
    return text(language, SURFACES.get(surface, surface))


def _about(ask: Ask | None) -> tuple[Fact, ...]:
    """A short reminder of which request it was."""
    if ask is None:
        return ()
    return (
        Fact(msg("Tool"), ask.tool),
        Fact(msg("Project"), ask.project_name),
        Fact(msg("Branch"), ask.branch),
    )


def _subject(ask: Ask | None) -> str:
    """The first line of what was asked, to recognise it by."""
    if ask is None or not ask.blocks or ask.blocks[0].kind in WORDY:
        return ""
    subject = one_line(ask.blocks[0].text, SUBJECT_LENGTH)
    return f'<code class="rule">{escape(subject)}</code>'
