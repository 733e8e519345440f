"""Cards of the app: an `Ask` or an `Outcome` in, a card of schema 2.0 out.

The same ask as on every other surface, with buttons that call back.  A button's value
holds the request's id, the action, the digest of what is shown and the card's nonce,
and nothing more: what a tap means is looked up where the request waits.  What is long
is folded, whole; what does not fit even so is attached as a file by the channel, and
until that has arrived the card offers refusals only.

A choice among a few answers is one button each, `answer:0`, `answer:1`, ...; whatever
else has to be filled in is a form.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from feishuperm.app.api import MAX_CARD
from feishuperm.app.store import OpenCard
from feishuperm.lib.display import one_line, visible
from feishuperm.lib.feishu import (
    LABEL,
    MASKED,
    SHORT_ID,
    STYLES,
    Card,
    Element,
    block_elements,
    button_rows,
    callback_button,
    card_frame,
    described,
    div,
    encode,
    link_button,
    longest,
    more_key,
    note,
    notes,
    plain,
    time_hint,
)
from feishuperm.messages import msg, text
from feishuperm.models.ask import (
    FOREVER,
    NO,
    STOP,
    WHILE,
    Ask,
    Block,
    Field,
    Offer,
    Option,
    Outcome,
    fit,
    shorten,
)
from feishuperm.models.names import SURFACES

BUDGET = MAX_CARD - 2_000  # for what surrounds the card in a request
FOLD = 1_200  # characters of a block that are seen at once
RECORD = 4_000  # characters of a request that has ended
PREVIEW, PREVIEW_END = 500, 300  # of a folded one, from its start and its end
MAX_BUTTONS = 8  # choices that are buttons; more are a list
MAX_CHOICES = 100  # of a list
RULES = 600  # characters of rules in a confirm
LOOKS = {"good": "green", "bad": "red", "late": "grey"}
HOLD = "hold"  # the action of a button that decides nothing: somebody reads
REVOKE = "revoke"  # of one that ends a pass, or "all"
CHANGE_SECONDS = 120.0  # a card that could not be changed for so long stays as it is
ATTACHED = msg("⚠ Too long for a card: the whole is in the file below")
ATTACHING = msg(
    "⚠ Too long for a card: the whole follows as a file, and only then it "
    "can be allowed"
)
AFTER_ANSWER = 0.3  # a change that overtakes the answer to its tap would be undone
SESSIONS = 200  # whose pace is known
APART, BURST_SECONDS = 5, 10.0  # requests of a session that get cards of their own
LEAST_REMINDED = 20  # seconds; a person who has less needs no reminder


class Mark(NamedTuple):
    """What a tap on a card has to bring back."""

    id: str
    digest: str
    nonce: str
    machine: str = ""  # through a gateway: whose request it is

    def value(self, action: str) -> dict[str, str]:
        machine = {"machine": self.machine} if self.machine else {}
        return {"id": self.id, "action": action, "digest": self.digest,
                "nonce": self.nonce, **machine}  # fmt: skip


class Extra(NamedTuple):
    """What a card says beside its request."""

    hurry: str = ""  # a reminder
    attached: bool = False  # the whole is in a file below
    page: str = ""  # address of the request's own page, if a phone can open it
    machine: str = ""  # id, through a gateway


NOTHING = Extra()


# The card of a request that waits.


def ask_card(ask: Ask, nonce: str, extra: Extra = NOTHING) -> tuple[Card, bool]:
    """The card, and whether it holds everything there is to see."""
    mark = Mark(ask.id, ask.digest, nonce, extra.machine)
    if not ask.partial and sum(len(block.text) for block in ask.blocks) <= BUDGET:
        card = _ask_card(ask, mark, extra, whole=True)
        if _fits(card):
            return card, True

    def build(limit: int) -> Card:
        return _ask_card(shorten(ask, limit), mark, extra, whole=False)

    return longest(build, _fits, FOLD * 4, 50), False


def _ask_card(ask: Ask, mark: Mark, extra: Extra, whole: bool) -> Card:
    seen = whole or (extra.attached and not ask.veiled)
    ask = ask if whole else ask.without_edit()
    offers = [offer for offer in ask.actions if seen or not offer.grants]
    always = ask.rules and any(offer.look == FOREVER for offer in offers)
    elements = [
        *notes(extra.hurry),
        *described(ask, _block),
        *_missing(ask, extra, whole),
        *_actions(ask, offers, mark),
        *notes(ask.rule_note if always else ""),
        *_hold_button(ask, mark),
        *_page_button(ask, extra),
        note(time_hint(ask)),
        note(_facts(ask)),
    ]
    subtitle = _subtitle(ask)
    return card_frame(ask.title, subtitle, ask.colour, ask.summary, elements)


def _subtitle(ask: Ask) -> str:
    places = (ask.machine, one_line(ask.tool), ask.project_name)
    return " · ".join(filter(None, places))


def _block(block: Block, language: str) -> list[Element]:
    """A block, or both of its ends and a panel with the whole of it."""
    if len(block.text) <= FOLD or block.hidden:
        return block_elements(block, language)
    title = text(
        language,
        "Show all of it ({lines} lines, {count} characters)",
        lines=block.text.count("\n") + 1,
        count=len(block.text),
    )
    last = block.text.rstrip()[-PREVIEW_END:]  # what stands last runs last
    seen = f"{block.text[:PREVIEW].rstrip()}\n…\n{last}"
    panel = {
        "tag": "collapsible_panel",
        "expanded": False,
        "header": {"title": plain(title)},
        "elements": block_elements(block._replace(label=""), language),
    }
    return [*block_elements(block._replace(text=seen), language), panel]


def _missing(ask: Ask, extra: Extra, whole: bool) -> list[Element]:
    keys = [MASKED] if ask.masked else []
    if not whole and not ask.veiled:
        keys.append(ATTACHED if extra.attached else ATTACHING)
    return [note(text(ask.language, key)) for key in keys]


def _hold_button(ask: Ask, mark: Mark) -> list[Element]:
    """What stops the clock for somebody who reads."""
    if not ask.hold:
        return []
    return [button(text(ask.language, "Hold"), WHILE, mark, HOLD)]


def _page_button(ask: Ask, extra: Extra) -> list[Element]:
    if not extra.page:
        return []
    return [link_button(text(ask.language, more_key(ask)), extra.page)]


def _facts(ask: Ask) -> str:
    created = time.strftime("%H:%M:%S", time.localtime(ask.created))
    facts = (ask.branch, ask.agent, ask.session[:SHORT_ID], created, ask.id)
    return " · ".join(one_line(fact, 60) for fact in facts if fact)


# Buttons and forms.


def _actions(ask: Ask, offers: Sequence[Offer], mark: Mark) -> list[Element]:
    """What may be answered, in its order: buttons that need nothing side by side."""
    fields = {field.name: field for field in ask.fields}
    rows = [
        (offer, [fields[name] for name in offer.fields if name in fields])
        for offer in offers
        if is_offered(offer, ask)
    ]
    elements: list[Element] = []
    for is_filled, run in groupby(rows, lambda row: bool(row[1])):
        if is_filled:
            elements += [e for row in run for e in _filled(*row, ask, mark)]
            continue
        plain_ones = [offer for offer, _ in run]
        buttons = [_answer(offer, offer.label, ask, mark) for offer in plain_ones]
        elements += button_rows(buttons, [offer.grants for offer in plain_ones])
    return elements


def is_offered(offer: Offer, ask: Ask) -> bool:
    """Whether a card has this button: only where what it grants fits its confirm."""
    if offer.look == FOREVER and not ask.rules:
        return False
    return len(confirm_words(offer, ask)) <= RULES


def _filled(offer: Offer, fields: list[Field], ask: Ask, mark: Mark) -> list[Element]:
    """An answer that takes fields along: a choice of buttons, a form, or both."""
    choice = ask.choice(offer)
    if choice is None or not _are_buttons(choice.options):
        return [_form(offer, fields, ask, mark)]
    told: list[Element] = []
    if all(block.kind != "question" for block in ask.blocks):
        details = (_choice(option) for option in choice.options if option.detail)
        told = [*([div(choice.label)] if choice.label else []), *notes(*details)]
    buttons = [
        _answer(offer, option.value, ask, mark, f":{number}")
        for number, option in enumerate(choice.options)
    ]
    return [*told, *buttons, _form(offer, fields[1:], ask, mark)]


def _are_buttons(options: Sequence[Option]) -> bool:
    """Whether a choice is a tap on one of a few buttons."""
    return len(options) <= MAX_BUTTONS and all(len(o.value) <= LABEL for o in options)


def _form(offer: Offer, fields: list[Field], ask: Ask, mark: Mark) -> Element:
    submit = {
        **_answer(offer, offer.submit or offer.label, ask, mark),
        "name": f"submit_{offer.name}",
        "form_action_type": "submit",
    }
    inputs = [element for field in fields for element in _input(field)]
    return {
        "tag": "form",
        "name": f"form_{offer.name}",
        "elements": [*inputs, submit],
    }


def _input(field: Field) -> list[Element]:
    if field.options:
        return [div(field.label), *notes(field.hint), _select(field)]
    lines = "multiline_text" if field.type == "lines" else "text"
    element: Element = {
        "tag": "input",
        "name": field.name,
        "input_type": lines,
        "width": "fill",
        "max_length": min(max(field.limit, 1), 1000),
        "label": plain(one_line(field.label, LABEL)),
        "placeholder": plain(one_line(field.hint, LABEL)),
    }
    if field.value:
        element["default_value"] = field.value
    return [element]


def _select(field: Field) -> Element:
    many = field.type == "many"
    offered = field.options[:MAX_CHOICES]
    options = [
        {"text": plain(one_line(_choice(option), LABEL)), "value": str(number)}
        for number, option in enumerate(offered)
    ]
    tag = "multi_select_static" if many else "select_static"
    select = {"tag": tag, "name": field.name, "width": "fill", "options": options}
    values = [option.value for option in offered]
    if field.value in values and not many:
        select["initial_option"] = str(values.index(field.value))
    return select


def _choice(option: Option) -> str:
    return f"{option.value}: {option.detail}" if option.detail else option.value


def confirm_words(offer: Offer, ask: Ask) -> str:
    """What has to be agreed to before the tap counts; for "always" its exact rules."""
    rules = (*ask.rules, ask.rule_note) if offer.look == FOREVER else ()
    return "\n".join(filter(None, (offer.confirm, *rules)))


def _answer(
    offer: Offer, label: str, ask: Ask, mark: Mark, number: str = ""
) -> Element:
    """A button that answers, with what has to be agreed to first."""
    made = button(label, offer.look, mark, offer.name + number)
    words = confirm_words(offer, ask)
    if words:
        title = plain(one_line(offer.label, LABEL))
        made["confirm"] = {"title": title, "text": plain(words)}
    return made


def button(label: str, look: str, mark: Mark, action: str) -> Element:
    return callback_button(label, STYLES[look], mark.value(action))


# Time runs out.


def escalate(
    later: Callable[[float, Callable[[], None]], object],
    left: float,
    remind: Callable[[], None],
    urge: Callable[[], None] | None,
) -> None:
    """Remind at half time; buzz for the last third, if that is wanted."""
    if left >= LEAST_REMINDED:
        later(left / 2, remind)
    if urge is not None:
        later(left * 2 / 3, urge)


def open_card(card: OpenCard, page: str = "") -> Card:
    """The card of a pending request as it looks now, of what is kept of it."""
    extra = Extra("", card.grants, page, card.machine)
    return ask_card(card.ask, card.nonce, extra)[0]


def hurried_card(card: OpenCard, ask: Ask, hurry: str, page: str = "") -> Card | None:
    """The card with a reminder; None if it would then hold less than before."""
    extra = Extra(hurry, card.grants, page, card.machine)
    hurried, whole = ask_card(ask, card.nonce, extra)
    was_whole = whole or ask_card(ask, card.nonce, extra._replace(hurry=""))[1]
    return hurried if whole == was_whole else None


def file_of(whole: Ask) -> bytes:
    """All that there is to see of a request, as the file below its card."""
    return "\n\n".join(
        f"{block.label}\n{block.text}" if block.label else block.text
        for block in whole.blocks
    ).encode(errors="replace")


# Many at once.


class Pace:
    """How much each session asks: what is too much shares a card, see `bursts`."""

    def __init__(self, clock: Callable[[], float], sessions: int = SESSIONS) -> None:
        self._clock = clock
        self._sessions = sessions  # that are remembered
        self._recent: dict[tuple[str, str], deque[float]] = {}  # machine, session

    def is_burst(self, session: str, machine: str = "") -> bool:
        """Whether a session has asked for more than a person can tap apart."""
        last = self._recent.setdefault((machine, session), deque(maxlen=APART + 1))
        now = self._clock()
        last.append(now)
        if len(self._recent) > self._sessions:
            del self._recent[next(iter(self._recent))]
        is_full = len(last) > APART and last[0] > now - BURST_SECONDS
        return bool(session) and is_full


# What goes through without asking.


class PassRow(NamedTuple):
    """A pass as it is listed."""

    id: str
    words: str  # what it lets through
    until: str
    machine: str = ""  # id and name, where there are several
    name: str = ""


def passes_card(rows: Sequence[PassRow], nonce: str, language: str) -> Card:
    """Every pass, by its words, with a button that ends it."""
    title = text(language, "Passes")
    elements: list[Element] = []
    for row in rows:
        mark = Mark(row.id, "", nonce, row.machine)
        ends = button(text(language, "Revoke"), NO, mark, REVOKE)
        words = (row.name, row.words, row.until)
        elements += (div(" · ".join(filter(None, words))), ends)
    if len(rows) > 1:
        label = text(language, "Revoke all")
        elements.append(button(label, STOP, Mark("all", "", nonce), REVOKE))
    if not rows:
        elements = [div(text(language, "There are no passes"))]
    return card_frame(title, "", "blue" if rows else "grey", title, elements)


# The card of a request that has ended.


def settled_card(ask: Ask, outcome: Outcome, who: str = "") -> Card:
    """The same message as a record: what was done, by whom, and no button."""
    card = _settled_card(ask, outcome, who)
    # A record that Feishu refused would leave the buttons of the request there.
    return card if _fits(card) else _settled_card(ask.bare(), outcome.bare(), who)


def _settled_card(ask: Ask, outcome: Outcome, who: str) -> Card:
    ran: list[Element] = []
    if outcome.ran:  # instead of the command below
        label = text(outcome.language, "Ran instead")
        block = Block("code", label, visible(outcome.ran), "bash")
        ran = block_elements(block, outcome.language)
    elements = [
        *([div(outcome.result)] if outcome.result else []),
        note(signed(outcome, who)),
        *map(note, (*outcome.answers, *outcome.lines)),
        *ran,
        *(note(_rule(outcome, rule)) for rule in outcome.rules),
        *notes(outcome.reason),
        {"tag": "hr"},
        *(described(fit(ask, RECORD), _block) if ask.blocks else ()),
        note(_facts(ask)),
    ]
    look = LOOKS[outcome.look]
    return card_frame(outcome.done, _subtitle(ask), look, ask.summary, elements)


def _rule(outcome: Outcome, rule: str) -> str:
    undone = rule in outcome.undone and text(outcome.language, "Taken back")
    label = text(outcome.language, "Rule")
    return f"{label}: {rule} · {undone}" if undone else f"{label}: {rule}"


def signed(outcome: Outcome, who: str) -> str:
    """Who did it, when, where, and where the ledger stands."""
    language = outcome.language
    moment = time.strftime("%H:%M:%S", time.localtime(outcome.ended))
    where = text(language, SURFACES[outcome.surface]) if outcome.surface else ""
    key = msg("by {who} at {time}, {where}") if who else msg("at {time} {where}")
    said = text(language, key, who=who, time=moment, where=where).rstrip(" 在")
    return f"{said} · {outcome.head}" if outcome.head else said


def _fits(card: Card) -> bool:
    return len(encode(card).encode()) <= BUDGET
