"""What came of a tap: done, too late, unknown, or refused; as a page or as JSON."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qsl

from feishuperm.handlers.pages.layout import (
    Fact,
    facts,
    frame,
    icon,
    moment,
    say,
    shown,
)
from feishuperm.handlers.pages.passes import revoke_form
from feishuperm.lib.display import one_line, visible
from feishuperm.lib.text import text
from feishuperm.models.ask import ENDED, SETTLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from feishuperm.models.ask import Ask, Outcome, Receipt

SUBJECT_LENGTH = 160
WORDY = ("question", "markdown")  # blocks whose first line says little


def result_page(
    language: str, receipt: Receipt, ask: Ask | None = None, revoke: str = ""
) -> bytes:
    """The page after a tap. `ask` is what it was about, if that is still known;
    `revoke` ends the pass that it made."""
    outcome = receipt.outcome
    if receipt.status == SETTLED:
        heading = text(language, "page.success")
        below = [f'<p class="done">{shown(outcome.done)}</p>']
        lines = [*outcome.lines, text(language, "page.back")]
        look, sign = outcome.look, "check"
    elif receipt.status == ENDED:
        heading = f"{outcome.done} · {moment(outcome.ended)}"
        below = [f'<p class="done">{say(language, "page.invalid")}</p>']
        lines, look, sign = [*outcome.lines], "late", "clock"
    else:
        return message_page(language, "page.invalid", text(language, "page.unknown"))
    below += [f'<p class="line">{shown(line)}</p>' for line in lines]
    if revoke:
        path, _, query = revoke.partition("?")
        below.append(revoke_form(language, path, tuple(parse_qsl(query))))
    rows = outcome_facts(outcome)
    if receipt.status == ENDED:
        rows += end_facts(outcome)[1:]  # the heading says when
    rows += (*_about(ask), ledger_fact(outcome))
    about = facts(language, rows) + _subject(ask)
    return _verdict(language, heading, "".join(below), about, look, sign)


def message_page(language: str, title: str, sentence: str) -> bytes:
    """A page with one sentence; `title` is a text key."""
    line = f'<p class="line">{shown(sentence)}</p>'
    return _verdict(language, text(language, title), line, "", "late", "ask")


def _verdict(
    language: str, heading: str, below: str, about: str, look: str, sign: str
) -> bytes:
    body = (
        f'<main class="look-{look}"><section class="sheet verdict" role="status">'
        f"{icon(sign)}<h1>{shown(heading)}</h1>{below}</section>"
        + (f'<section class="sheet stack">{about}</section>' if about else "")
        + "</main>"
    )
    return b"".join(frame(language, heading, [body]))


def result_json(language: str, receipt: Receipt) -> dict[str, Any]:
    """The same for the inbox, which shows it in place."""
    outcome, settled = receipt.outcome, receipt.status == SETTLED
    told = {"ok": settled, "look": outcome.look if settled else "late"}
    if not settled and receipt.status != ENDED:
        title = text(language, "page.refused" if receipt.error else "page.invalid")
        line = receipt.error or text(language, "page.unknown")
        return {**told, "over": not receipt.error, "title": title, "lines": [line]}
    title = text(language, "page.success" if settled else "page.invalid")
    rows = outcome_facts(outcome) + (() if settled else end_facts(outcome))
    rows += (ledger_fact(outcome),)
    lines = [f"{text(language, row.label)}: {row.value}" for row in rows if row.value]
    return {
        **told,
        "over": True,
        "title": f"{title} · {outcome.done}",
        "lines": [visible(line) for line in (*outcome.lines, *lines)],
    }


def outcome_facts(outcome: Outcome) -> tuple[Fact, ...]:
    """What came with a decision."""
    return (
        Fact("page.key.ran", outcome.ran, True),
        *(Fact("page.key.rule", rule, True) for rule in outcome.rules),
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
        Fact("page.key.tool", ask.tool),
        Fact("page.key.project", ask.project_name),
        Fact("page.key.branch", ask.branch),
    )


def _subject(ask: Ask | None) -> str:
    """The first line of what was asked, to recognise it by."""
    if ask is None or not ask.blocks or ask.blocks[0].kind in WORDY:
        return ""
    subject = one_line(ask.blocks[0].text, SUBJECT_LENGTH)
    return f'<code class="rule">{escape(subject)}</code>'
