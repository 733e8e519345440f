"""A request's own page: everything about it, with its form while it waits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from feishuperm.handlers.pages.layout import facts, frame, shown
from feishuperm.handlers.pages.pieces import (
    Links,
    Values,
    blocks,
    buttons,
    clock,
    head,
    sheet,
)
from feishuperm.handlers.pages.result import (
    NOWHERE,
    Ways,
    end_facts,
    ledger_fact,
    outcome_facts,
    result_line,
    undo_form,
)
from feishuperm.models.ask import Ask, Outcome


def request_page(
    ask: Ask,
    links: Links,
    seconds_left: float,
    error: str = "",
    values: Values | None = None,
    events: str = "",
) -> Iterator[bytes]:
    """Everything about a request that waits.

    `error` is the sentence why an answer was not taken, `values` what it had filled in.
    """
    note = f'<p class="note" role="alert">{shown(error)}</p>' if error else ""
    body = chain(
        (head(ask, ask.heading, clock(ask, seconds_left)), note),
        blocks(ask, ask.offered),
        (buttons(ask, links, ask.offered, values),),
    )
    return frame(ask.language, ask.heading, sheet(ask, body, events))


def record_page(ask: Ask, outcome: Outcome, ways: Ways = NOWHERE) -> Iterator[bytes]:
    """The same once it has ended: a record that says what came of it."""
    lines = "".join(f"<p>{shown(line)}</p>" for line in outcome.lines)
    lines += result_line(outcome)
    rows = (*outcome_facts(outcome), *end_facts(outcome), ledger_fact(outcome))
    ended = (
        head(ask, ask.heading),
        f'<div class="outcome {outcome.look}">{shown(outcome.done)}{lines}</div>',
        facts(ask.language, rows),
        undo_form(outcome, ways.undo),
    )
    body = chain(ended, blocks(ask))
    return frame(ask.language, ask.heading, sheet(ask, body, ways.events))
