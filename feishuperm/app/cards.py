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

import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from feishuperm.app.api import MAX_CARD
from feishuperm.app.store import OpenCard
from feishuperm.lib.display import one_line, visible
from feishuperm.lib.feishu import (
    LABEL,
    MASKED,
    STYLES,
    Card,
    Element,
    answer_rows,
    at_zero,
    block_elements,
    callback_button,
    card_frame,
    colour,
    columns,
    danger_elements,
    div,
    encode,
    known_elements,
    link_button,
    longest,
    more,
    more_key,
    note,
    notes,
    panel,
    plain,
    spent,
    time_hint,
    why_elements,
    with_way,
)
from feishuperm.messages import msg, text
from feishuperm.models.ask import (
    ASKED,
    DETAIL,
    FOREVER,
    WHILE,
    YES,
    Ask,
    Block,
    Field,
    Layout,
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
RECOMMENDED = re.compile(r"[(（](?:recommended|推荐)[)）]", re.IGNORECASE)
OPENS = "open"  # of one that shows a panel, and does nothing else
HOLD = "hold"  # the action of a button that decides nothing: somebody reads
CHANGE_SECONDS = 120.0  # a card that could not be changed for so long stays as it is
STAND_IN_SECONDS = 8.0  # for a card to leave, where another channel could show it
ATTACHED = msg("⚠ Too long for a card: the whole is in the file below")
ATTACHING = msg(
    "⚠ Too long for a card. The full text follows as a file; you can allow it once "
    "that arrives"
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
    """What a decision needs, in the order of every surface; all else is folded.

    Feishu takes no form inside of a panel: where there are fields, one form at the root
    holds all of it.
    """
    seen = whole or (extra.attached and not ask.veiled)
    ask = with_way(ask, extra.page)
    ask = ask if whole else ask.without_edit()
    answers = _Answers(ask, mark, extra, seen)
    below = [*answers.beside(), *answers.rows(), panel(more(ask), answers.folded())]
    if answers.fields:
        below = [{"tag": "form", "name": "form", "elements": below}]
    ends = (extra.hurry, at_zero(ask)) if extra.hurry else (time_hint(ask),)
    is_over = ask.kind == "next"  # its turn, not its session
    elements = [
        *danger_elements(ask),
        *_blocks(ask, answers.ask_questions),
        *_missing(ask, extra, whole),
        *why_elements(ask),
        *below,
        note(" · ".join(filter(None, ends))),
        *(_progress(ask, extra.machine) if is_over else ()),
    ]
    return card_frame(ask.title, ask.headline, colour(ask), ask.summary, elements)


def _blocks(ask: Ask, asked_below: bool = False) -> list[Element]:
    """What is asked; `asked_below`: its questions are asked by their fields."""
    hidden = (DETAIL, ASKED) if asked_below else (DETAIL,)
    blocks = [block for block in ask.blocks if block.kind not in hidden]
    if not ask.blocks and ask.empty:
        return [div(ask.empty)]
    return [part for block in blocks for part in folded_block(block, ask.language)]


def folded_block(block: Block, language: str) -> list[Element]:
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
    whole = block_elements(block._replace(label=""), language)
    ends = block_elements(block._replace(text=seen), language)
    return [*ends, panel(title, whole)]


def _missing(ask: Ask, extra: Extra, whole: bool) -> list[Element]:
    keys = [MASKED] if ask.masked else []
    if not whole and not ask.veiled:
        keys.append(ATTACHED if extra.attached else ATTACHING)
    return [note(text(ask.language, key)) for key in keys]


# Buttons and fields.


class _Answers:
    """The buttons and fields of one card, each in its place."""

    def __init__(self, ask: Ask, mark: Mark, extra: Extra, seen: bool) -> None:
        offers = [
            offer
            for offer in ask.actions
            if (seen or not offer.grants) and is_offered(offer, ask)
        ]
        layout = self._layout = Layout(ask, offers, _is_short)
        self._ask, self._mark, self._page = ask, mark, extra.page
        read = {name for offer in offers for name in offer.fields}
        self.fields = [field for field in ask.fields if field.name in read]
        self.ask_questions = any(o.needs for o in (*layout.filled, layout.choice) if o)
        self._has_page = False  # on the card already

    def beside(self) -> list[Element]:
        """The fields that an answer cannot do without, or the options of one."""
        offer = self._layout.choice
        if offer is None:
            return self._inputs(*self._layout.filled)
        question, *_ = self.fields
        elements = [div(question.label)] if question.label else []
        for number, option in enumerate(question.options):
            look = YES if RECOMMENDED.search(option.value) else WHILE
            name = f"{offer.name}:{number}"
            elements.append(self._button(offer, name, option.value, look))
            elements += [note(option.detail)] if option.detail else []
        return elements

    def rows(self) -> list[Element]:
        """The way to the page takes the place of what would let it happen."""
        beside = (*self._layout.first, *self._layout.second)
        is_closed = not any(
            offer.grants for offer in (*beside, self._layout.choice) if offer
        )
        self._has_page = is_closed and bool(self._page)
        return self._rows(beside, self._view() if self._has_page else ())

    def _view(self) -> list[Element]:
        label = text(self._ask.language, more_key(self._ask))
        return [{**link_button(label, self._page), "name": "view"}]

    def _rows(
        self, offers: Sequence[Offer], left: Sequence[Element] = ()
    ) -> list[Element]:
        yes = [self._offer(offer) for offer in offers if offer.grants]
        no = [self._offer(offer) for offer in offers if not offer.grants]
        return answer_rows([*left, *yes], no)

    def folded(self) -> list[Element]:
        """All that is wanted seldom."""
        ask, layout = self._ask, self._layout
        shown = (*layout.filled, layout.choice, layout.edit)
        rest = [
            o for o in (*layout.first, *layout.second, *layout.folded) if o not in shown
        ]
        elements = self._inputs(layout.choice, left_out=1) if layout.choice else []
        elements += self._inputs(*rest)
        if layout.edit:
            elements += [*self._inputs(layout.edit), self._offer(layout.edit)]
        chosen = [layout.choice] if layout.choice else []
        passes = [o for o in layout.folded if o.look == WHILE]
        elements += self._rows(
            [*chosen, *(o for o in layout.folded if o not in passes)]
        )
        if passes:
            elements.append(columns([[self._offer(offer)] for offer in passes]))
        if ask.hold:
            label = text(ask.language, "Hold")
            elements.append(self._button(None, HOLD, label, WHILE))
        if self._page and not self._has_page:
            elements += self._view()
        return [*elements, *known_elements(ask)]

    def _offer(self, offer: Offer) -> Element:
        is_first = offer in self._layout.first and not self._ask.dangers
        look = offer.look if is_first or offer.look != YES else WHILE
        label = offer.submit if offer.needs else offer.label
        return self._button(offer, offer.name, label, look)

    def _button(
        self, offer: Offer | None, action: str, label: str, look: str
    ) -> Element:
        drawn = button(label, look, self._mark, action)
        if self.fields:  # what is filled in travels with every button
            drawn.update(
                name=f"submit_{action}".replace(":", "_"), form_action_type="submit"
            )
        return {**drawn, **(confirm(offer, self._ask) if offer else {})}

    def _inputs(self, *offers: Offer, left_out: int = 0) -> list[Element]:
        names = {name for offer in offers for name in offer.fields}
        fields = [field for field in self.fields if field.name in names][left_out:]
        return [element for field in fields for element in field_input(field)]


def is_offered(offer: Offer, ask: Ask) -> bool:
    """Whether a card has this button: only where what it grants fits its confirm."""
    if offer.look == FOREVER and not ask.rules:
        return False
    return len(confirm_words(offer, ask)) <= RULES


def _is_short(question: Field | None) -> bool:
    """Whether a tap on one of a few buttons is an answer."""
    if question is None or len(question.options) > MAX_BUTTONS:
        return False
    return all(len(option.value) <= LABEL for option in question.options)


def field_input(field: Field) -> list[Element]:
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
    return f"{option.value} · {option.detail}" if option.detail else option.value


def confirm_words(offer: Offer, ask: Ask) -> str:
    """What has to be agreed to before the tap counts; for "always" its exact rules."""
    rules = (*ask.rules_of(offer), ask.rule_note) if offer.look == FOREVER else ()
    return "\n".join(filter(None, (offer.confirm, *rules)))


def confirm(offer: Offer, ask: Ask) -> Element:
    """What has to be agreed to first, as a button has it."""
    words = confirm_words(offer, ask)
    if offer.grants and ask.dangers:
        marked = text(ask.language, "This call is marked as dangerous.")
        words = f"{marked}\n{words}".rstrip()
    title = plain(one_line(offer.label, LABEL))
    return {"confirm": {"title": title, "text": plain(words)}} if words else {}


def answer_button(offer: Offer, ask: Ask, mark: Mark) -> Element:
    """A button that answers; what is dangerous is not the obvious choice."""
    look = WHILE if ask.dangers and offer.look == YES else offer.look
    return {**button(offer.label, look, mark, offer.name), **confirm(offer, ask)}


def button(label: str, look: str, mark: Mark, action: str) -> Element:
    return callback_button(label, STYLES.get(look, "default"), mark.value(action))


def _progress(ask: Ask, machine: str) -> list[Element]:
    """The way to what a session does."""
    if not ask.session:
        return []
    label = text(ask.language, "Progress")
    return [open_button(label, f"progress:{ask.session}", OPENS, machine)]


def open_button(label: str, panel: str, action: str, machine: str) -> Element:
    """A plain button to a panel, on a card that is none (`app.panels`)."""
    value = {"panel": panel, "press": action}
    if machine:
        value["machine"] = machine
    return callback_button(label, "default", value)


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


# The card of a request that has ended.


def settled_card(ask: Ask, outcome: Outcome, who: str = "", machine: str = "") -> Card:
    """The same message as a record: what was done, by whom, and nothing to answer."""
    card = _settled_card(ask, outcome, who, machine)
    # A record that Feishu refused would leave the buttons of the request there.
    return card if _fits(card) else _settled_card(ask.bare(), outcome.bare(), who)


def _settled_card(ask: Ask, outcome: Outcome, who: str, machine: str = "") -> Card:
    ask = ask._replace(rules=(), rule_note="")
    language = outcome.language
    title = outcome.done
    if outcome.result:
        title = text(language, "{what}, {how}", what=title, how=outcome.result)
    ran = [Block("code", "", visible(outcome.ran), "bash")] if outcome.ran else []
    shown = ask._replace(blocks=tuple(ran)) if ran else fit(ask, RECORD)
    elements = [
        *([note(words)] if (words := signed(outcome, who)) else []),
        *map(note, outcome.lines),
        *notes(spent(partial(text, outcome.language), outcome.spent)),
        *(map(div, outcome.answers) if outcome.answers else _blocks(shown)),
        panel(more(ask), [*_record(ask, outcome), *known_elements(ask)]),
        *_progress(ask, machine),
    ]
    look = "green" if outcome.look == "good" else "grey"
    return card_frame(title, ask.headline, look, ask.summary, elements)


def _record(ask: Ask, outcome: Outcome) -> list[Element]:
    """What came with the decision, and where the ledger stands."""
    say = partial(text, outcome.language, "{label}: {value}")
    rows = [
        (msg("Reason"), outcome.reason),
        *((msg("Rule"), _rule(outcome, rule)) for rule in outcome.rules),
        *((msg("Asked for"), block.text) for block in ask.blocks[:1] if outcome.ran),
        (msg("Ledger"), outcome.head),
    ]
    labels = ((text(outcome.language, label), value) for label, value in rows if value)
    return [note(say(label=label, value=value)) for label, value in labels]


def _rule(outcome: Outcome, rule: str) -> str:
    undone = text(outcome.language, "Undone")
    return f"{rule} · {undone}" if rule in outcome.undone else rule


def signed(outcome: Outcome, who: str) -> str:
    """Who did it, when and where, as people say it."""
    moment = time.strftime("%H:%M", time.localtime(outcome.ended))
    where = text(outcome.language, SURFACES.get(outcome.surface, ""))
    return " · ".join(filter(None, (who, moment, where)))


def _fits(card: Card) -> bool:
    return len(encode(card).encode()) <= BUDGET
