"""What the long connection brings, taken apart: taps and texts, and answers to taps.

Whatever is not as expected reads as empty: what a tap may do is judged elsewhere, by
values that must then be there.
"""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Callable
from typing import Any

from feishuperm.app.cards import confirm_words, is_offered, settled_card
from feishuperm.app.store import OpenCard
from feishuperm.lib.log import log
from feishuperm.messages import msg
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Ask, Receipt
from feishuperm.models.fields import part_at, text_at
from feishuperm.models.names import NOT_AS_SHOWN, NOT_OFFERED

OLD_SECONDS = 600.0  # a text pushed again so late answers nothing
CLOCK_STOPPED = msg("The clock is stopped: please answer before {time}")


def toast(
    kind: str, content: str, card: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The answer to a tap."""
    reply = {"toast": {"type": kind, "content": content}}
    return reply if card is None else {**reply, "card": {"type": "raw", "data": card}}


def is_nonce(value: dict[str, Any], nonce: str) -> bool:
    """Whether a button's value holds this nonce, the one of its card."""
    return hmac.compare_digest(text_at(value, "nonce").encode(), nonce.encode())


def read_tap(
    ask: Ask, value: dict[str, Any], action: dict[str, Any], who: str
) -> Answer:
    """The answer that a tap means: its button, and what the form around it held."""
    name, _, number = text_at(value, "action").partition(":")
    fields = {field.name: field for field in ask.fields}
    values: dict[str, tuple[str, ...]] = {}
    for key, given in part_at(action, "form_value").items():
        field = fields.get(key)
        if field is not None:
            values[key] = _values(given, tuple(o.value for o in field.options))
    offer = ask.offer(name)
    if number and offer is not None and offer.fields:
        field = fields[offer.fields[0]]
        options = tuple(option.value for option in field.options)
        values = {field.name: _values(number, options)}
    confirmed = offer is not None and bool(confirm_words(offer, ask))
    read = offer.fields if offer is not None else ()
    values = {key: given for key, given in values.items() if key in read}
    digest = text_at(value, "digest")
    return Answer(ask.id, name, values, "card", who, digest, confirmed)


def unfit(card: OpenCard, value: dict[str, Any], message_id: str) -> str:
    """Why a tap does not come from the very card that was sent; a text key.

    Nobody can know the nonce of a card whose message has no id yet but its receiver.
    """
    is_same = card.message_id in ("", message_id) and is_nonce(value, card.nonce)
    return "" if is_same else NOT_AS_SHOWN


def is_changed(ask: Ask, answer: Answer, action: dict[str, Any]) -> bool:
    """Whether the command was edited, and another button than its own approves it."""
    offer, form = ask.offer(answer.action), part_at(action, "form_value")
    if offer is None or not offer.grants or ask.edits(offer):
        return False
    fields = [field for field in ask.fields if field.edits and field.name in form]
    return any(_words(form[field.name]) != _words(field.value) for field in fields)


def _words(typed: object) -> list[str]:
    """Line ends may change on the way, without anybody's doing."""
    return [line.rstrip() for line in str(typed).strip().splitlines()]


def unoffered(card: OpenCard, action: str) -> str:
    """Why a card has no such button; a text key.

    Nobody grants what the card does not show whole.
    """
    offer = card.ask.offer(action)
    if offer is None or not is_offered(offer, card.ask):
        return NOT_OFFERED
    return "" if card.grants or not offer.grants else NOT_OFFERED


def receipt_toast(
    card: OpenCard,
    receipt: Receipt,
    name_of: Callable[[str], str],
    lost: tuple[str, dict[str, Any] | None],
    again: str = "",
) -> dict[str, Any]:
    """What came back from the machine that judged, as the person is told.

    `lost` is said, with its card, of a request that is not there; `again` where the
    machine gives no words.
    """
    if receipt.status in (statuses.SETTLED, statuses.ENDED):
        outcome = receipt.outcome
        record = settled_card(card.ask, outcome, name_of(outcome.who), card.machine)
        kind = "success" if receipt.status == statuses.SETTLED else "info"
        return toast(kind, outcome.done, record)
    if receipt.status == statuses.UNKNOWN:
        return toast("warning", *lost)
    is_open = receipt.status in (statuses.INCOMPLETE, statuses.CONFIRM)
    return toast("warning" if is_open else "error", receipt.error or again)


def clock_stopped(say: Callable[..., str], ends: float) -> str:
    """That somebody who reads has time until then."""
    return say(CLOCK_STOPPED, time=time.strftime("%H:%M", time.localtime(ends)))


def _values(given: object, options: tuple[str, ...]) -> tuple[str, ...]:
    """A field's value; a choice travels as its number."""
    parts = given if isinstance(given, list) else [given]
    texts = tuple(part for part in parts if isinstance(part, str) and part)
    if not options:
        return texts
    by_number = {str(number): option for number, option in enumerate(options)}
    return tuple(by_number[part] for part in texts if part in by_number)


def read_event(payload: bytes) -> dict[str, Any]:
    """A message of the platform."""
    try:
        said = payload.decode()
        event = json.loads(said)
        if "\\u" in said:  # half a character could be written down nowhere
            json.dumps(event, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        log("a message of Feishu's cannot be read", "warning")
        return {}
    return part_at(event)


def said_in(message: dict[str, Any]) -> str:
    """The words of a text message; empty for pictures and other things."""
    if text_at(message, "message_type") != "text":
        return ""
    content = read_event(text_at(message, "content").encode())
    return text_at(content, "text").strip()


def is_old(message: dict[str, Any], now: float) -> bool:
    """Whether a text is so old that nobody waits for what it says.

    One whose moment cannot be read is of now.
    """
    created = text_at(message, "create_time")
    is_moment = created.isascii() and created.isdigit() and len(created) < 16
    return is_moment and now - int(created) / 1000 > OLD_SECONDS
