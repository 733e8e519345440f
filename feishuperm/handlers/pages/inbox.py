"""The inbox: its page, and the data its script draws requests from.

The script gets the whole state on every change, so each request is cut to a size and
made into JSON once.  What was cut offers no button that grants: that is for the
request's own page, one tap away.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from feishuperm.handlers.pages.layout import (
    INBOX,
    INBOX_SCRIPT,
    Fact,
    facts,
    fill,
    frame,
    say,
    shown,
)
from feishuperm.handlers.pages.pieces import (
    HEADINGS,
    LINE_LOOKS,
    MARKDOWN,
    PIECES,
    PROSE,
    SPANS,
    Links,
    blocks,
    buttons,
    cut_hint,
    gap_hint,
    head,
    hold_form,
    item_mark,
    item_number,
    list_tag,
    rule_hint,
)
from feishuperm.handlers.pages.result import (
    end_facts,
    outcome_facts,
    surface_name,
    undo_form,
)
from feishuperm.lib.display import visible
from feishuperm.lib.markdown import Piece, parse
from feishuperm.lib.text import at_zero, text
from feishuperm.models.ask import (
    CUT_FIRST,
    FOREVER,
    Ask,
    Block,
    Field,
    Offer,
    Outcome,
    fit,
    last_name,
)
from feishuperm.models.kind import KINDS
from feishuperm.models.request import Request

ITEM_LENGTH = 16_000  # characters of all blocks of a request
TEXTS = (
    *("inbox.live", "inbox.lost", "inbox.expand", "inbox.collapse", "inbox.hidden"),
    *("inbox.sending", "inbox.failed", "inbox.arrived", "inbox.settled"),
    *("page.name", "page.left", "page.time_over", "page.key.reason", "page.key.head"),
    *("inbox.ended", "button.more", "button.hold", "page.why", "page.prompt"),
    *("button.undo", "pass.revoke"),
)
# Keys that are no button's; those follow from `KINDS`.
KEYS = (
    ("1 9", "inbox.help.option"),
    ("r", "inbox.help.reason"),
    ("Enter", "inbox.help.open"),
    ("?", "inbox.help.help"),
)
# The buttons that a finger wants explained; each has its sentence.
EXPLAINED = ("allow", "always", "deny", "interrupt", "answer", "hold")
MOVES = ("j k ↓ ↑", "inbox.help.select")


class Item(NamedTuple):
    """A waiting request, made once: for the script, and for where none runs."""

    json: bytes
    plain: bytes
    why: str = ""  # as it is drawn: it may be known a little later
    hold: bool = False  # drawn with the button that stops its clock

    def is_fresh(self, request: Request) -> bool:
        """Whether nothing that is drawn has changed since."""
        return self.why == request.why and not (self.hold and request.held)


def make_item(ask: Ask, links: Links) -> Item:
    """One waiting request. `links` has each offer by name, and "request"."""
    ask = fit(ask, ITEM_LENGTH)
    plain = _plain(ask, links).encode(errors="replace")
    return Item(_json(_item(ask, links)), plain, ask.why, ask.hold)


def _item(ask: Ask, links: Links) -> dict[str, Any]:
    offers = [_offer(ask, offer, links) for offer in ask.offered]
    lasting = any(offer.look == FOREVER for offer in ask.offered)
    return {
        "id": ask.id,
        "kind": ask.kind,
        "tool": visible(_named(ask)),
        "title": ask.heading,
        "where": _seen(filter(None, (ask.project_name, ask.branch, ask.agent))),
        "project_name": visible(ask.project_name),
        "created": ask.created,
        "zero": at_zero(ask),
        "hold": ask.hold,
        "blocks": _blocks(ask, any(offer["choice"] for offer in offers)),
        "dangers": _seen(ask.dangers),
        "why": visible(ask.why),
        "prompt": visible(ask.prompt),
        "facts": _seen(ask.facts),
        "offers": offers,
        "fields": [
            _field(field)
            for field in ask.fields
            if any(field.name in offer["fields"] for offer in offers)
        ],
        "links": dict(links),
        "partial": ask.partial or ask.masked,
        "note": _note(ask),
        "digest": ask.digest,
        "rules": _seen(ask.rules) if lasting else [],
        "rule": visible(rule_hint(ask)) if lasting else "",
    }


def _note(ask: Ask) -> str:
    """What a reader has to know of what is shown."""
    return text(ask.language, "card.masked") if ask.masked else ""


def _seen(lines: Iterable[str]) -> list[str]:
    return [visible(line) for line in lines]


def _blocks(ask: Ask, chosen: bool) -> list[dict[str, Any]]:
    """What it is about; if a button is `chosen`, that asks the question itself."""
    drawn = [_block(ask, block) for block in ask.blocks]
    if ask.cut:
        drawn.insert(CUT_FIRST, {"gap": cut_hint(ask)})
    asked = "question" if chosen else None
    return [block for block in drawn if block.get("kind", "") != asked]


def _block(ask: Ask, block: Block) -> dict[str, Any]:
    drawn = {
        "kind": block.kind,
        "label": visible(block.label),
        "text": block.text,
        "gap": gap_hint(ask, block) if block.hidden else "",
        "tail": block.tail,
        "prose": block.kind in PROSE,
    }
    if block.kind == MARKDOWN:
        pieces = [list(map(_piece, parse(part))) for part in (block.text, block.tail)]
        drawn.update(text="", tail="", pieces=pieces[0], tail_pieces=pieces[1])
    return drawn


def _piece(piece: Piece) -> dict[str, Any]:
    """A paragraph of a plan; the script knows what its kinds look like."""
    is_item = piece.kind == "item"
    return {
        **piece._asdict(),
        "look": PIECES.get(piece.kind, ""),
        "tag": list_tag(piece) or HEADINGS.get(piece.kind, "div"),
        "mark": item_mark(piece) if is_item else visible(piece.mark),
        "number": item_number(piece) if is_item else None,
    }


def _field(field: Field) -> dict[str, Any]:
    """A field; what is sent back stays as it is, what is read is made visible."""
    return {
        **field._asdict(),
        "label": visible(field.label),
        "heading": visible(field.heading),
        "hint": visible(field.hint),
        "options": [
            {"value": value, "label": visible(value), "detail": visible(detail)}
            for value, detail in field.options
        ],
    }


def _offer(ask: Ask, offer: Offer, links: Links) -> dict[str, Any]:
    """A button; one that needs more than a press opens its page instead.

    The options of a single choice are buttons beside it.
    """
    edits = ask.edits(offer)
    # Choices beside fields for one's own words have a page of their own.
    own_words = any(name.endswith("_other") for name in offer.fields)
    opens = (offer.needs and own_words) or bool(offer.confirm)
    choice = None if offer.confirm else ask.choice(offer)
    return {
        "name": offer.name,
        "label": offer.label,
        "look": offer.look,
        "key": offer.key,
        "link": links[offer.name],
        "opens": opens,
        "edits": edits,  # apart, and folded: it is wanted seldom
        "fields": [] if opens else list(offer.fields),
        "choice": _field(choice) if choice else None,
    }


def _named(ask: Ask) -> str:
    """What a request is called: its tool, or what else waits for a person."""
    kind = KINDS[ask.kind]
    if kind.of_a_call:
        return ask.tool
    return ask.heading if kind.noun else f"{ask.heading} · {ask.tool}"


def _plain(ask: Ask, links: Links) -> str:
    """Where no script runs: the same request as a plain form."""
    return (
        '<article class="sheet item stack">'
        + head(ask, ask.heading)
        + "".join(blocks(ask, ask.offered))
        + (f'<p class="note">{shown(_note(ask))}</p>' if ask.masked else "")
        + f'<a class="button link" href="{shown(links["request"])}">'
        + f"{say(ask.language, 'button.more')}</a>"
        + (hold_form(ask, links["hold"]) if ask.hold else "")
        + buttons(ask, links, ask.offered)
        + "</article>"
    )


def recent_item(outcome: Outcome, undo: str = "") -> dict[str, Any]:
    """One settled request for the inbox; `undo` is the link that takes it back."""
    surface = surface_name(outcome.language, outcome.surface)
    return {
        "id": outcome.id,
        "what": visible(outcome.summary),
        "detail": visible(outcome.detail),
        "project_name": visible(last_name(outcome.project)),
        "done": outcome.done,
        "look": outcome.look,
        "who": visible(outcome.who),
        "surface": visible(surface),
        "ended": outcome.ended,
        "ran": visible(outcome.ran),
        "rules": _seen(outcome.rules),
        "undone": _seen(outcome.undone),
        "undo": undo,
        "reason": visible(outcome.reason),
        "notes": _seen((*outcome.answers, *outcome.lines)),
        "result": visible(outcome.result),
        "result_look": outcome.result_look,
        "head": outcome.head,
    }


def _plain_recent(outcome: Outcome, undo: str) -> str:
    """The same where no script runs."""
    rows = (
        Fact("page.key.request", outcome.detail, True),
        *outcome_facts(outcome),
        *end_facts(outcome),
        Fact("page.key.result", outcome.result),
    )
    title = " · ".join(filter(None, (outcome.summary, outcome.done)))
    return (
        f'<article class="sheet stack"><h2>{shown(title)}</h2>'
        f"{facts(outcome.language, rows)}{undo_form(outcome, undo)}</article>"
    )


def state_json(items: Iterable[Item], **changing: object) -> bytes:
    """Everything the script draws: the items as they were made, and what changes."""
    waiting = b",".join(item.json for item in items)
    return _json(changing)[:-1] + b', "waiting": [' + waiting + b"]}"


def inbox_page(
    language: str,
    state: bytes,
    items: Sequence[Item],
    sessions: str = "",
    recent: Sequence[tuple[Outcome, str]] = (),
) -> Iterator[bytes]:
    """The inbox with its first state; `sessions` is who else may see it, as HTML.

    `recent` is what has ended, each with the link that takes it back.
    """
    words = {
        name: say(language, "inbox." + name)
        for name in (
            *("title", "live", "help", "help_close", "noscript", "waiting"),
            *("ring", "notify", "none", "none_hint", "recent"),
        )
    }
    boot = {
        "events": "events",
        "texts": {key: text(language, key) for key in TEXTS},
        "looks": LINE_LOOKS,
        "spans": SPANS,
        "keys": list(_pressed()),
    }
    top, below, bottom = re.split(r"\{\{plain\}\}|\{\{boot\}\}", INBOX)
    rest = fill(
        below,
        **words,
        keys=_help(language),
        buttons=_button_help(language),
        note=say(language, "danger.note"),
        sessions=sessions,
    )
    title = f'<h2 class="section">{words["recent"]}</h2>'
    ended = [_plain_recent(*row).encode(errors="replace") for row in recent]
    plain = [item.plain for item in items]
    plain += [title.encode(), *ended] if ended else []
    script = (state[:-1], b", ", _json(boot)[1:])
    body = chain((fill(top, **words),), plain, (rest,), script, (bottom,))
    return frame(language, text(language, "inbox.title"), body, INBOX_SCRIPT)


def _pressed() -> dict[str, str]:
    """The keys of all buttons, each with the label of the first that has it."""
    actions = [action for kind in KINDS.values() for action in kind.actions]
    return {
        key: next(action.label for action in actions if action.key == key)
        for key in dict.fromkeys(action.key for action in actions if action.key)
    }


def _help(language: str) -> str:
    """What each key does: moving, every button that has one, and the rest."""
    rows = (MOVES, *_pressed().items(), *KEYS)
    return "".join(
        f"<dt>{_keys(keys)}</dt><dd>{say(language, label)}</dd>" for keys, label in rows
    )


def _button_help(language: str) -> str:
    """What the buttons do, for who has no keyboard."""
    return "".join(
        f"<dt>{say(language, f'button.{name}')}</dt>"
        f"<dd>{say(language, f'inbox.about.{name}')}</dd>"
        for name in EXPLAINED
    )


def _keys(keys: str) -> str:
    return " ".join(f"<kbd>{shown(key)}</kbd>" for key in keys.split(" "))


def _json(value: object) -> bytes:
    """JSON that cannot end the element it stands in, with nothing unseen in it."""
    source = json.dumps(value, ensure_ascii=False)
    if visible(source) != source:  # what is sent back stays as it is, but not raw
        source = json.dumps(value)
    return source.replace("<", "\\u003c").encode(errors="replace")
