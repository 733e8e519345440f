"""The open cards of an app, and the lock that keeps it to one server of a machine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple

from feishuperm.errors import FileError, UsageError
from feishuperm.lib.files import locked
from feishuperm.messages import msg
from feishuperm.models.ask import Ask

MOST_SHOWN = 200  # messages about sessions that are remembered, of one machine
LOCK_SECONDS = 3.0  # for the server before this one to end


def lock_app(path: str) -> AbstractContextManager[None]:
    """The lock of an app on this machine, kept while it is served. Raises UsageError.

    Feishu hands each tap to one connection at random: two servers of one app would
    lose half of them each.
    """
    lock = locked(path, LOCK_SECONDS)
    try:
        lock.__enter__()
    except FileError:
        raise UsageError(
            msg("another server of this machine already serves this Feishu app"),
            "feishuperm status",
        ) from None
    return lock


class OpenCard(NamedTuple):
    """A card that is on its way, or out."""

    ask: Ask = Ask()
    nonce: str = ""
    message_id: str = ""  # empty until Feishu has told it
    grants: bool = False  # it shows the whole, or has it attached: it may be granted
    machine: str = ""  # whose request it is, through a gateway
    owner: str = ""  # of that machine
    shared: bool = False  # a row of a card of many, see `bursts`
    seen: float = 0.0  # wall clock: when it was read


class Shown(NamedTuple):
    """A message about a session: a panel, or a card that may be replied to."""

    key: str = ""  # the nonce of a panel; of another card the id of its message
    message_id: str = ""  # empty until Feishu has told it
    panel: str = ""  # its id, while it has buttons
    title: str = ""  # of that panel
    who: str = ""  # who has it
    session: str = ""
    since: float = 0.0  # wall clock: when somebody last asked for it


def below(message_id: str, session: str, now: float) -> Shown:
    """A card below which a reply is about a session."""
    return Shown(message_id, message_id, session=session, since=now)
