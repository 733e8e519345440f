"""Whether somebody is at a keyboard, as far as the client reveals it.

A prompt that was typed and a dialog that was answered are a person; that nobody has
pressed a key for six seconds (`permission_prompt`) or a minute (`idle_prompt`) is what
the client's notices say.  Nothing here waits or decides: it remembers times, by the
wall clock, since those of prompts come from a transcript.
"""

from __future__ import annotations

from collections import OrderedDict

from feishuperm.models.payload import HookPayload

RECENT_SECONDS = 60.0  # the client itself calls a desk idle after so long
SESSIONS = 1000  # whose notices are remembered
# What the client tells when nobody has touched the keyboard.
EMPTY = ("permission_prompt", "idle_prompt")


class Presence:
    """The last signs of a person, and of nobody."""

    def __init__(self) -> None:
        self._person = 0.0  # at any terminal of this user
        self._empty: OrderedDict[str, float] = OrderedDict()  # by session

    def person(self, when: float) -> None:
        """Somebody typed something."""
        self._person = max(self._person, when)

    def notice(self, payload: HookPayload, now: float) -> None:
        """A notice of the client came by."""
        if payload.fields.get("notification_type") in EMPTY:
            self._empty[payload.session_id()] = now
            self._empty.move_to_end(payload.session_id())
            while len(self._empty) > SESSIONS:
                self._empty.popitem(last=False)

    def is_there(self, session: str, asked: float, now: float) -> bool:
        """Whether a person probably looks at what was asked in a session."""
        if self._empty.get(session, 0.0) >= asked:
            return False
        return abs(now - self._person) < RECENT_SECONDS
