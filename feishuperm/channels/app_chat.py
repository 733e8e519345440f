"""The chat with the bot: a text of an owner's in, its result told below it.

What words mean is told in `app.chat`; here they meet the cards that are out.  A text
below a card answers its request, any other is a command, and what is neither is asked
back.
A stranger's text does nothing, nor does one that comes so late that nobody waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from feishuperm.app import chat
from feishuperm.app.store import OpenCard
from feishuperm.app.taps import is_old, said_in
from feishuperm.messages import msg
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer
from feishuperm.models.fields import part_at, text_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.channels.app import AppChannel

HELP = msg(
    "Reply to a card: 1-4, allow, always, deny [reason], interrupt, "
    "or the answer itself. Commands: status, mute [time], on, passes, "
    "undo."
)
TEXT_SECONDS = 1.0  # a text waits for the id of the card it may be a reply to


class AppChat:
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
        self._wall = wall
        self._replies = chat.Replies(channel.say, clock, "message")
        self.forget = self._replies.forget

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
        answer = self._answer(message, said, who) if said else self._say(HELP)
        if answer:
            self._channel.tell(text_at(message, "message_id"), answer)

    def _replied_to(self, message: dict[str, Any]) -> OpenCard | None:
        ids = (text_at(message, key) for key in ("parent_id", "root_id"))
        cards = (self._store.by_message(id) for id in ids if id)
        return next((card for card in cards if card is not None), None)

    def _answer(self, message: dict[str, Any], said: str, who: str) -> str:
        """What to say to a text; empty where it is said by a card, or later."""
        card = self._replied_to(message)
        if card is not None and self._channel.burst_of(card.ask.id) is not None:
            return self._say(
                msg("That card holds several requests: please tap its buttons.")
            )
        if card is not None:
            return self._reply_to_card(card, said, who)
        if text_at(message, "parent_id"):
            return self._say(msg("That request has ended."))
        command = chat.read_command(said)
        if command is not None:
            return self._obey(command, who, text_at(message, "message_id"))
        is_pending = self._channel.approvals.is_pending
        asks = [card.ask for card in self._store.all() if is_pending(card.ask.id)]
        if len(asks) == 1 and chat.read_reply(said, asks[0]) is not None:
            return self._say(
                msg("Did you mean “{what}”? Please reply to its card."),
                what=asks[0].summary or asks[0].title,
            )
        return self._say(HELP)

    def _reply_to_card(self, card: OpenCard, said: str, who: str) -> str:
        answer = self._replies.read(card, said, who)
        return answer if isinstance(answer, str) else self._hand_in(answer)

    def _hand_in(self, answer: Answer) -> str:
        """Hand an answer in; its result, in words."""
        receipt = self._channel.approvals.answer(answer)
        if receipt.status in (statuses.SETTLED, statuses.ENDED):
            return receipt.outcome.done
        return receipt.error or self._channel.missing()

    def _obey(self, command: chat.Command, who: str, message_id: str) -> str:
        approvals = self._channel.approvals
        if command.name == "status":
            return self._status()
        if command.name == "passes" and command.revoked:
            ended = approvals.revoke_passes(command.revoked, "message", who)
            return self._say(msg("{count} passes revoked"), count=len(ended))
        if command.name == "passes":
            if not approvals.pass_rows():
                return self._say(msg("There are no passes"))
            self._channel.show_passes(message_id)
            return ""
        if command.name == "undo":
            approvals.undo_last(who, partial(self._tell_undone, message_id))
            return ""
        if command.name == "mute":
            until = self._wall() + command.seconds
            self._store.mute(until)
            moment = time.strftime("%m-%d %H:%M", time.localtime(until))
            return self._say(
                msg("Muted until {time}; requests stay in the terminal."), time=moment
            )
        if command.name == "on":
            self._store.mute(0.0)
            return self._say(msg("On again."))
        return self._say(HELP)

    def _status(self) -> str:
        """Pending requests, in a few lines."""
        rows = self._channel.approvals.status()
        lines = [words or title for title, words in rows]
        return chat.listed(lines, self._say(msg("Nothing is waiting")))

    def _tell_undone(self, message_id: str, rules: list[str], error: str) -> None:
        self._channel.tell(message_id, chat.undone(self._say, rules, error))
