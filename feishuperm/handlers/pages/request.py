"""The pages about one request: while it waits, the step before, the result of a tap.

What the scripts of open pages are told of a result stands here too: `outcome_box` is
how it looks, wherever it is shown in place.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, NamedTuple

from feishuperm.handlers.pages.layout import (
    Fact,
    facts,
    form,
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
    clock,
    fields_of,
    head,
    origin,
    pending,
    subject,
)
from feishuperm.lib.display import one_line, visible
from feishuperm.messages import msg, pmsg, text
from feishuperm.models.ask import (
    ENDED,
    FOREVER,
    SETTLED,
    Ask,
    Offer,
    Outcome,
    Receipt,
)
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
    """Everything about a pending request, as `pending` draws it."""
    body = pending(ask, links, seconds_left, error, values)
    return frame(ask.language, ask.heading, _main(body, events))


def confirm_page(
    ask: Ask,
    offer: Offer,
    link: str,
    seconds_left: float,
    values: Values | None = None,
    events: str = "",
) -> Iterator[bytes]:
    """What a button opens that must not decide by itself.

    The request and the one button asked for, with the words one has to agree to.
    """
    title = text(ask.language, "Please confirm")
    first = said(ask.language, "Nothing is decided yet: only the button below decides.")
    label = shown(offer.submit if offer.needs else offer.label)
    look = "plain" if ask.dangers or not offer.grants else "yes"
    bar = f'<div class="bar"><button class="{look}">{label}</button></div>'
    typed = fields_of(ask, offer, values or {}, "confirm")
    agreed = (("confirmed", "1"),) if offer.confirm else ()

    def body() -> Iterator[str]:
        yield '<article class="sheet request">'
        yield head(ask, clock(ask, seconds_left), title)
        yield f'<p class="note">{first}</p>'
        if offer.confirm:
            yield f'<p class="note"><strong>{shown(offer.confirm)}</strong></p>'
        yield from subject(ask)
        yield form(link, typed + bar, "confirm", ("digest", ask.digest), *agreed)
        yield facts(ask.language, _rules(ask.rules if offer.look == FOREVER else ()))
        yield facts(ask.language, origin(ask)) + "</article>"

    return frame(ask.language, title, _main(body(), events))


def _main(body: Iterable[str], events: str) -> Iterator[str]:
    """The main part of a page, which may follow its request."""
    yield f"<main{_followed(events)}>"
    yield from body
    yield "</main>"


def _followed(events: str) -> str:
    return f' data-events="{shown(events)}"' if events else ""


# Once it has ended.


def record_page(ask: Ask, outcome: Outcome, ways: Ways = NOWHERE) -> Iterator[bytes]:
    """A request's own page after its end: a record of its result."""
    lines = "".join(f"<p>{shown(line)}</p>" for line in outcome.lines)
    lines += _result_line(outcome)
    rows = (*outcome_facts(outcome), *end_facts(outcome), _ledger_fact(outcome))

    def body() -> Iterator[str]:
        yield '<article class="sheet request">'
        yield head(ask)
        yield f'<div class="outcome {outcome.look}">{shown(outcome.done)}{lines}</div>'
        yield facts(ask.language, rows) + undo_form(outcome, ways.undo)
        yield from subject(ask)
        yield facts(ask.language, origin(ask)) + "</article>"

    return frame(ask.language, ask.heading, _main(body(), ways.events))


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
        below.append(link_form(ways.revoke, said(language, "Revoke"), "plain"))
    rows = outcome_facts(outcome)
    if receipt.status == ENDED:
        rows += end_facts(outcome)[1:]  # it is said above when
    rows += (*_about(ask), _ledger_fact(outcome))
    about = facts(language, rows) + _subject(ask) + undo_form(outcome, ways.undo)
    return _verdict(language, heading, "".join(below), about, look, sign, ways.events)


def undone_page(language: str, outcome: Outcome) -> bytes:
    """The page after "undo"."""
    sentence = said(
        language,
        "The rule is out of the project; a session that runs keeps it until it ends.",
    )
    below = f'<p class="line">{sentence}</p>'
    about = facts(language, outcome_facts(outcome))
    heading = text(language, "Undone")
    return _verdict(language, heading, below, about, "good", "check")


def undo_form(outcome: Outcome, link: str) -> str:
    """The button that undoes what was written, where there is anything."""
    if not link or not outcome.undoable:
        return ""
    return link_form(link, said(outcome.language, "Undo"), "plain", "undo")


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
        f'<main class="look-{look}"{_followed(events)}>'
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
    result = (outcome.result,) if outcome.result else ()
    return {
        "html": _ended(outcome, outcome.look, outcome.done, end_facts(outcome), result),
        "result": outcome.result,
        "result_look": outcome.result_look,
        "undone": [visible(rule) for rule in outcome.undone],
    }


def result_json(language: str, receipt: Receipt) -> dict[str, Any]:
    """What the inbox shows in the place of a request's buttons."""
    outcome = receipt.outcome
    if receipt.status == SETTLED:
        return {"over": True, "html": _ended(outcome, outcome.look, outcome.done)}
    if receipt.status == ENDED:
        title = f"{text(language, INVALID)} · {outcome.done}"
        box = _ended(outcome, "late", title, end_facts(outcome))
        return {"over": True, "html": box}
    title = receipt.error or text(language, NO_REQUEST)
    return {"over": not receipt.error, "html": outcome_box("late", title)}


def _ended(
    outcome: Outcome,
    look: str,
    title: str,
    more: tuple[Fact, ...] = (),
    last: tuple[str, ...] = (),
) -> str:
    """How a request ended, with everything that is to be said about it."""
    language = outcome.language
    undone = " · " + text(language, "Undone")
    lines = (
        f"{text(language, row.label)}: {row.value}{undone if row.struck else ''}"
        for row in (*outcome_facts(outcome), *more)
        if row.value
    )
    return outcome_box(look, title, (*outcome.lines, *lines, *last))


# Facts about a decision.


def outcome_facts(outcome: Outcome) -> tuple[Fact, ...]:
    """What came with a decision."""
    return (
        Fact(msg("Ran instead"), outcome.ran, True),
        *(Fact(pmsg("fact", "Answer"), answer) for answer in outcome.answers),
        *_rules(outcome.rules, outcome.undone),
        Fact(msg("Reason"), outcome.reason),
    )


def _rules(rules: tuple[str, ...], undone: tuple[str, ...] = ()) -> Iterator[Fact]:
    return (Fact(msg("Rule"), rule, True, rule in undone) for rule in rules)


def _ledger_fact(outcome: Outcome) -> Fact:
    """Where the ledger stood after it: `log verify --head` takes that."""
    return Fact(msg("Ledger"), outcome.head)


def end_facts(outcome: Outcome) -> tuple[Fact, ...]:
    """When and where it ended, for people who did not do it."""
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
