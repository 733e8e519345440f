"""The chat with the bot: a text of an owner's in, what comes of it told below it.

What words mean is `chat`'s; here they meet the cards that are out.  A text below a
card answers its request, any other is a command, and what is neither is asked back.
A stranger's text is nothing, and so is one that comes so late that nobody waits for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from feishuperm.channels.app import chat
from feishuperm.channels.app.card import confirm_words
from feishuperm.channels.app.events import is_old, said_in
from feishuperm.channels.app.store import Shown
from feishuperm.errors import FeishupermError
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer
from feishuperm.models.fields import part_at, text_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.channels.app.channel import AppChannel

ALWAYS_SECONDS = 120.0  # between "always" and its second word
LISTED = 10  # requests of a list
PASSES = "passes"  # said by a card with buttons instead
TEXT_SECONDS = 1.0  # a text waits for the id of the card it may be a reply to


class Talk:
    """The texts of one app."""

    def __init__(
        self,
        channel: AppChannel,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._channel = channel
        self._store = channel.store
        self._say = channel.say
        self._clock = clock
        self._wall = wall
        self._always: dict[str, tuple[str, float]] = {}  # said once, by request

    def forget(self, id: str) -> None:
        """A request has ended."""
        self._always.pop(id, None)

    def take(self, event: dict[str, Any]) -> dict[str, Any]:
        """A text of somebody's; what it leads to is told below it."""
        message = part_at(event, "event", "message")
        who = text_at(event, "event", "sender", "sender_id", "open_id")
        kind = text_at(event, "event", "sender", "sender_type")
        owners = self._channel.people.owners
        if kind != "user" or who not in owners or is_old(message, self._wall()):
            return {}
        respond = partial(self._respond, message, said_in(message), who)
        elsewhere = text_at(message, "parent_id") and not self._replied_to(message)
        if elsewhere and any(not card.message_id for card in self._store.all()):
            self._channel.later(TEXT_SECONDS, respond)  # the card may be leaving now
        else:
            respond()
        return {}

    def _respond(self, message: dict[str, Any], said: str, who: str) -> None:
        in_group = text_at(message, "chat_type") == "group"
        is_named = chat.MENTION.search(said) or self._replied_to(message)
        if in_group and not is_named:  # most texts there are not for the bot
            return
        answer = self._answer(message, said, who) if said else self._say("chat.help")
        if answer is PASSES:
            self._channel.show_passes(text_at(message, "message_id"))
        else:
            self._channel.tell(text_at(message, "message_id"), answer)

    def _replied_to(self, message: dict[str, Any]) -> Shown | None:
        ids = (text_at(message, key) for key in ("parent_id", "root_id"))
        cards = (self._store.by_message(id) for id in ids if id)
        return next((card for card in cards if card is not None), None)

    def _answer(
        self, message: dict[str, Any], said: str, who: str
    ) -> str | Callable[[], str]:
        """What to say to a text: a sentence, or what makes it where that takes long."""
        card = self._replied_to(message)
        if card is not None and self._channel.burst_of(card.ask.id) is not None:
            return self._say("chat.burst")
        if card is not None:
            return self._reply_to_card(card, said, who)
        if text_at(message, "parent_id"):
            return self._say("chat.over")
        command = chat.read_command(said)
        if command is not None:
            return self._obey(command, who)
        waits = self._channel.counter.waits
        asks = [card.ask for card in self._store.all() if waits(card.ask.id)]
        if len(asks) == 1 and chat.read_reply(said, asks[0]) is not None:
            return self._say("chat.mean", what=asks[0].summary or asks[0].title)
        return self._say("chat.help")

    def _reply_to_card(self, card: Shown, said: str, who: str) -> str:
        reply = chat.read_reply(said, card.ask)
        if reply is None:
            return self._say("chat.unclear")
        offer = card.ask.offer(reply.action)
        always = offer is not None and offer.look == statuses.FOREVER
        if always and not card.ask.rules:
            return card.ask.rule_note or self._say("answer.not_offered")
        if offer is None or (offer.grants and not card.grants):
            return self._say("answer.not_offered")
        words = confirm_words(offer, card.ask)
        if words and not self._said_twice(card.ask.id, offer.name):
            return self._say("chat.always", rules=words)
        return self._hand_in(
            Answer(card.ask.id, reply.action, reply.values, "message", who,
                   card.ask.digest, bool(words))
        )  # fmt: skip

    def _hand_in(self, answer: Answer) -> str:
        """Hand an answer in; what came of it, in words."""
        receipt = self._channel.counter.answer(answer)
        if receipt.status in (statuses.SETTLED, statuses.ENDED):
            return receipt.outcome.done
        return receipt.error or self._channel.missing()

    def _said_twice(self, id: str, action: str) -> bool:
        """Whether these words were said before, and their meaning was told then."""
        before, now = self._always.get(id, ("", -math.inf)), self._clock()
        self._always[id] = (action, now)
        return before[0] == action and now - before[1] <= ALWAYS_SECONDS

    def _obey(self, command: chat.Command, who: str) -> str | Callable[[], str]:
        if command.name == "status":
            return self._status()
        if command.name == "passes" and command.revoked:
            count = self._channel.counter.revoke(command.revoked, who)
            return self._say("pass.revoked", count=count)
        if command.name == "passes":
            rows = self._channel.counter.pass_rows()
            return PASSES if rows else self._say("pass.none")
        if command.name == "undo":
            return partial(self._undo, who)
        if command.name == "mute":
            until = self._wall() + command.seconds
            self._store.mute(until)
            moment = time.strftime("%m-%d %H:%M", time.localtime(until))
            return self._say("chat.muted", time=moment)
        if command.name == "on":
            self._store.mute(0.0)
            return self._say("chat.on")
        return self._say("chat.help")

    def _status(self) -> str:
        """What waits, in a few lines."""
        rows = self._channel.counter.status()
        lines = [f"{n}. {words or title}" for n, (title, words) in enumerate(rows, 1)]
        more = [f"… +{len(lines) - LISTED}"] if len(lines) > LISTED else []
        return "\n".join(lines[:LISTED] + more) or self._say("inbox.none")

    def _undo(self, who: str) -> str:
        """In an outbox's thread, since it reads the ledger: take a rule back."""
        try:
            rules = self._channel.counter.undo(who)
        except FeishupermError as error:
            return self._say("chat.undo_failed", why=error)
        if not rules:
            return self._say("chat.undo_nothing")
        return self._say("chat.undone", rules="\n".join(rules))
