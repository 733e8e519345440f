"""What a person writes to the bot: words in, an intention out.

A text below a card answers its request; a text on its own is a command or nothing.  No
guess is ever made: what cannot be understood is asked back.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from feishuperm.models.ask import FOREVER, NO, STOP, WHILE, YES, Ask, Field, Offer

# A word for a button -> how that button looks; the same words in every kind.
WORDS = {
    "批准": YES, "同意": YES, "allow": YES, "approve": YES, "yes": YES, "ok": YES,
    "始终": FOREVER, "始终允许": FOREVER, "always": FOREVER,
    "拒绝": NO, "deny": NO, "no": NO, "reject": NO,
    "中断": STOP, "interrupt": STOP, "stop": STOP,
}  # fmt: skip
COMMANDS = {
    "状态": "status", "status": "status",
    "静音": "mute", "mute": "mute",
    "恢复": "on", "on": "on", "unmute": "on",
    "撤销": "undo", "undo": "undo",
    "通行证": "passes", "passes": "passes",
    "帮助": "help", "help": "help", "?": "help", "？": "help",
}  # fmt: skip
REVOKE = re.compile(r"(?:撤销|revoke)\s+([\w-]{1,64})\Z", re.IGNORECASE)
EVERY = {"全部": "all", "所有": "all", "All": "all", "ALL": "all"}
MENTION = re.compile(r"@_user_\d+|@_all")
SPAN = re.compile(r"(\d{1,4})\s*(s|m|h|d|秒|分|分钟|小时|天)?\Z", re.IGNORECASE)
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "秒": 1, "分": 60, "小时": 3600}
UNITS.update({"分钟": 60, "天": 86400})
MUTE_SECONDS, MOST_SECONDS = 3600, 7 * 86400


class Reply(NamedTuple):
    """An answer to a request: a button, and what was filled in."""

    action: str
    values: dict[str, tuple[str, ...]]


class Command(NamedTuple):
    """A command to the bot."""

    name: str
    seconds: int = 0  # of silence
    revoked: str = ""  # id of a pass to end, or "all"


def cleaned(text: str) -> str:
    """The text without the mention of the bot."""
    return MENTION.sub("", text).strip()


def read_reply(text: str, ask: Ask) -> Reply | None:
    """The answer that a text below a card is; None if it is none."""
    said = cleaned(text)
    word, _, rest = said.partition(" ")
    offer = _numbered(said, ask) or _named(word.rstrip("：:，,"), ask)
    if offer is not None and (not offer.needs) and (not rest or offer.fields):
        return Reply(offer.name, _reason(offer, rest.strip()))
    talked = next((offer for offer in ask.actions if offer.words), None)
    if not said or talked is None:
        return None
    if talked.needs:
        return _answered(talked, ask, said)
    return Reply(talked.name, _reason(talked, said))


def _numbered(said: str, ask: Ask) -> Offer | None:
    """A digit stands for a button, where no number could be an answer."""
    buttons = [o for o in ask.actions if not o.needs and o.look != WHILE]
    if not any(offer.grants for offer in buttons) or not said.isascii():
        return None
    number = int(said) if said.isdigit() and len(said) == 1 else 0
    return buttons[number - 1] if 0 < number <= len(buttons) else None


def _named(word: str, ask: Ask) -> Offer | None:
    look = WORDS.get(word.lower())
    fitting = (offer for offer in ask.actions if look and offer.look == look)
    return next(fitting, None)


def _reason(offer: Offer, rest: str) -> dict[str, tuple[str, ...]]:
    return {offer.fields[0]: (rest,)} if rest and offer.fields else {}


def _answered(offer: Offer, ask: Ask, said: str) -> Reply | None:
    """The answer to a question: a choice by number or words, else one's own words.

    With several questions a text alone does not tell which one it answers.
    """
    fields = [field for field in ask.fields if field.name in offer.fields]
    choices = [field for field in fields if not field.name.endswith("_other")]
    if len(choices) != 1:
        return None
    (choice,) = choices
    picked = _picked(choice, said) if choice.options else (said,)
    if picked:
        return Reply(offer.name, {choice.name: picked})
    return Reply(offer.name, {choice.name + "_other": (said,)})


def _picked(field: Field, said: str) -> tuple[str, ...]:
    """The options that a text names, by number or by their words."""
    parts = re.split(r"[,，、\s]+", said) if field.type == "many" else [said]
    labels = {option.value.lower(): option.value for option in field.options}
    picked = []
    for part in parts:
        number = int(part) if part.isascii() and part.isdigit() and len(part) < 3 else 0
        if 0 < number <= len(field.options):
            picked.append(field.options[number - 1].value)
        elif part.lower() in labels:
            picked.append(labels[part.lower()])
        else:
            return ()
    return tuple(picked)


def read_command(text: str) -> Command | None:
    """A command of its own; None if it is none."""
    word, _, rest = cleaned(text).partition(" ")
    name = COMMANDS.get(word.lower())
    if name == "passes" and rest:
        match = REVOKE.match(rest.strip())
        return Command(name, revoked=EVERY.get(match[1], match[1])) if match else None
    if name is None or (rest and name != "mute"):
        return None
    if name != "mute":
        return Command(name)
    seconds = read_span(rest.strip()) if rest else MUTE_SECONDS
    return Command("mute", seconds) if seconds else None


def read_span(text: str) -> int:
    """Seconds, from `30m`, `1h`, `2小时`; minutes without a unit; 0: unreadable."""
    match = SPAN.match(text)
    if match is None:
        return 0
    unit = UNITS[(match[2] or "m").lower()]
    return min(int(match[1]) * unit, MOST_SECONDS)
