"""What a person writes to the bot: words in, an intention out.

A text below a card answers its request; a text on its own is a command or nothing.  No
guess is ever made: what cannot be understood is asked back.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from feishuperm.app.cards import confirm_words
from feishuperm.app.store import OpenCard
from feishuperm.lib.task import Later, pause
from feishuperm.messages import msg
from feishuperm.models.ask import (
    FOREVER,
    NO,
    STOP,
    WHILE,
    YES,
    Answer,
    Ask,
    Field,
    Offer,
)
from feishuperm.models.fields import text_at
from feishuperm.models.names import NOT_OFFERED

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
    "会话": "sessions", "sessions": "sessions",
    "进展": "progress", "progress": "progress",
    "新任务": "start", "start": "start",
    "继续": "continue", "continue": "continue",
    "帮助": "help", "help": "help", "?": "help", "？": "help",
}  # fmt: skip
FREE = ("sessions", "progress", "start", "continue")  # any words may follow
REVOKE = re.compile(r"(?:撤销|revoke)\s+([\w-]{1,64})\Z", re.IGNORECASE)
EVERY = {"全部": "all", "所有": "all", "All": "all", "ALL": "all"}
MENTION = re.compile(r"@_user_\d+|@_all")
SPAN = re.compile(r"(\d{1,4})\s*(s|m|h|d|秒|分|分钟|小时|天)?\Z", re.IGNORECASE)
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "秒": 1, "分": 60, "小时": 3600}
UNITS.update({"分钟": 60, "天": 86400})
MUTE_SECONDS, MOST_SECONDS = 3600, 7 * 86400
ALWAYS_SECONDS = 120.0  # between "always" and its second word
MAX_ALWAYS = 1_000  # first words that are remembered
# Before each look for the card that a text is a reply to: Feishu may have to be asked
# again which message that is.
LOOKS = (0.0, 0.5, 0.5, 1.0, 2.0, 4.0)
UNCLEAR = msg("That is not clear. Reply 1-4, allow, deny [reason] or interrupt.")
QUIET_IS_OVER = msg("On again: the quiet hours of this night are over.")
ONCE_MORE = msg(
    "This rule would be written:\n{rules}\nReply “always” once more to write it."
)


class Reply(NamedTuple):
    """An answer to a request: a button, and what was filled in."""

    action: str
    values: dict[str, tuple[str, ...]]


class Command(NamedTuple):
    """A command to the bot."""

    name: str
    seconds: int = 0  # of silence
    words: str = ""  # behind it; of passes the id of one to end, or "all"


def cleaned(text: str) -> str:
    """The text without the mention of the bot."""
    return MENTION.sub("", text).strip()


def read_reply(text: str, ask: Ask) -> Reply | None:
    """The answer that a text below a card is; None if it is none."""
    said = cleaned(text)
    offer, rest = _meant(said, ask)
    if offer is None or not said:
        return None
    if offer.needs:
        return _answered(offer, ask, said)
    values: dict[str, tuple[str, ...]] = {}
    if rest.strip() and offer.fields:
        values[offer.fields[0]] = (rest.strip(),)
    return Reply(offer.name, values)


def _meant(said: str, ask: Ask) -> tuple[Offer | None, str]:
    """The button that a text names, and the words behind it; else that for words."""
    word, _, rest = said.partition(" ")
    look = WORDS.get(word.rstrip("：:，,").lower())
    named = next((offer for offer in ask.actions if offer.look == look), None)
    offer = _numbered(said, ask) or named
    if offer is None or offer.needs or (rest and not offer.fields):
        return next((offer for offer in ask.actions if offer.words), None), said
    return offer, rest


def _numbered(said: str, ask: Ask) -> Offer | None:
    """A digit stands for a button, where no number could be an answer."""
    buttons = [o for o in ask.actions if not o.needs and o.look != WHILE]
    if not any(offer.grants for offer in buttons):
        return None
    number = int(said) if re.fullmatch("[0-9]", said) else 0
    return buttons[number - 1] if 0 < number <= len(buttons) else None


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
    """The options that a text names, by number or by their words; empty: not all do."""
    options = [option.value for option in field.options]
    known = {option.lower(): option for option in options}
    parts = re.split(r"[,，、\s]+", said) if field.type == "many" else [said]
    picked = []
    for part in parts:
        number = int(part) if re.fullmatch("[0-9]{1,2}", part) else 0
        is_number = 0 < number <= len(options)
        picked.append(options[number - 1] if is_number else known.get(part.lower(), ""))
    return tuple(picked) if all(picked) else ()


def read_command(text: str) -> Command | None:
    """A command of its own; None if it is none."""
    word, rest = _split(text)
    name = COMMANDS.get(word.lower())
    if name in FREE:
        return Command(name, words=rest)
    if name == "passes" and rest:
        match = REVOKE.match(rest.strip())
        return Command(name, words=EVERY.get(match[1], match[1])) if match else None
    if name is None or (rest and name != "mute"):
        return None
    if name != "mute":
        return Command(name)
    seconds = read_span(rest.strip()) if rest else MUTE_SECONDS
    return Command("mute", seconds) if seconds else None


def _split(text: str) -> tuple[str, str]:
    """The first word of a text, and the rest as it is."""
    word, *rest = cleaned(text).split(None, 1) or [""]
    return word, "".join(rest)


def is_answer(said: str) -> bool:
    """Whether words below a card are meant for its request, and for nothing later."""
    return bool(re.fullmatch("[0-9]", said)) or _split(said)[0].lower() in WORDS


def read_span(text: str) -> int:
    """Seconds, from `30m`, `1h`, `2小时`; minutes without a unit; 0: unreadable."""
    match = SPAN.match(text)
    if match is None:
        return 0
    unit = UNITS[(match[2] or "m").lower()]
    return min(int(match[1]) * unit, MOST_SECONDS)


def names_machine(text: str, names: Iterable[str]) -> tuple[str, str]:
    """A command without the machine that it names, and that name.

    The longest one that fits: `mute box 2 1h` is for `box 2`, if there is one.
    """
    word, rest = _split(text)
    if word.lower() in COMMANDS:
        for name in sorted(names, key=len, reverse=True):
            if name and (rest == name or rest.startswith(f"{name} ")):
                return f"{word} {rest[len(name) :].strip()}".strip(), name
    return text, ""


# What is said to it.


class Replies:
    """Texts below cards; what lasts has to be said twice."""

    def __init__(
        self,
        say: Callable[..., str],
        surface: str,
        find: Callable[[str], Awaitable[OpenCard | None]],
        later: Later,
        clock: Callable[[], float],
    ) -> None:
        self._say = say
        self._surface = surface
        self._find = find  # a card by its message
        self._later = later
        self._clock = clock
        self._always: dict[tuple[str, str], tuple[str, float]] = {}  # said once

    def forget(self, id: str, machine: str = "") -> None:
        """A request has ended."""
        self._always.pop((machine, id), None)

    async def card_above(
        self, message: dict[str, Any], is_leaving: Callable[[], Awaitable[bool]]
    ) -> OpenCard | None:
        """The card that a text is a reply to.

        Feishu shows a card before it answers which message that is, and a person can be
        faster than the answer.  So an unknown message is looked for again: once in any
        case, it may be a card of another gateway, then while a card is on its way.
        """
        ids = [text_at(message, key) for key in ("parent_id", "root_id")]
        may_come = any(ids)
        for seconds in LOOKS:
            if seconds:
                await pause(self._later, seconds)
                may_come = await is_leaving()  # first: the id may come in between
            for id in filter(None, ids):
                card = await self._find(id)
                if card is not None:
                    if seconds:  # written before anything was told of this card
                        self.forget(card.ask.id, card.machine)
                    return card
            if not may_come:
                break
        return None

    def read(self, card: OpenCard, said: str, who: str) -> Answer | str:
        """The answer that a text below a card is, or what to say to it."""
        reply = read_reply(said, card.ask)
        if reply is None:
            return self._say(UNCLEAR)
        offer = card.ask.offer(reply.action)
        always = offer is not None and offer.look == FOREVER
        if always and not card.ask.rules:
            return card.ask.rule_note or self._say(NOT_OFFERED)
        if offer is None or (offer.grants and not card.grants):
            return self._say(NOT_OFFERED)
        words = confirm_words(offer, card.ask)
        if words and not self._said_twice((card.machine, card.ask.id), offer.name):
            return self._say(ONCE_MORE, rules=words)
        return Answer(card.ask.id, reply.action, reply.values, self._surface, who,
                      card.ask.digest, bool(words))  # fmt: skip

    def _said_twice(self, key: tuple[str, str], action: str) -> bool:
        """Whether these words were said before, and their meaning was told then."""
        before, now = self._always.pop(key, ("", -math.inf)), self._clock()
        self._always[key] = (action, now)
        while len(self._always) > MAX_ALWAYS:
            del self._always[next(iter(self._always))]
        return before[0] == action and now - before[1] <= ALWAYS_SECONDS


def muted(say: Callable[..., str], until: float) -> str:
    """That no card comes before a moment, or that they come again."""
    if not until:
        return say("On again.")
    moment = time.strftime("%m-%d %H:%M", time.localtime(until))
    return say("Muted until {time}; requests stay in the terminal.", time=moment)
