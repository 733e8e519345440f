"""Whether somebody is at a keyboard, as far as the client reveals it.

A prompt that was typed and a dialog that was answered are a person; that nobody has
pressed a key for six seconds (`permission_prompt`) or a minute (`idle_prompt`) is what
the client's notices say.  Nothing here waits or decides: it remembers times, by the
wall clock, since those of prompts come from a transcript.
"""

from __future__ import annotations

from feishuperm.models.payload import HookPayload

RECENT_SECONDS = 60.0  # the client itself calls a desk idle after so long
# A subagent's request has no dialog while its hook waits: where somebody was at the
# terminal less than so long ago, it is given back there after a few seconds.
AT_DESK_SECONDS = 120.0
GIVEN_BACK_SECONDS = 8
SESSIONS = 1000  # of which something is remembered
# What the client tells when nobody has touched the keyboard.
EMPTY = ("permission_prompt", "idle_prompt")


class Presence:
    """The last signs of a person, and of nobody."""

    def __init__(self) -> None:
        self._person = 0.0  # at any terminal of this user
        self._empty: dict[str, float] = {}  # by session
        self._answered: dict[str, float] = {}  # the same

    def person(self, when: float) -> None:
        """Somebody typed something."""
        self._person = max(self._person, when)

    def answered(self, session: str, when: float) -> None:
        """Somebody answered a dialog of a session."""
        self.person(when)
        _note(self._answered, session, when)

    def last_answered(self, session: str) -> float:
        """When somebody answered a dialog of it last; 0: never, so far."""
        return self._answered.get(session, 0.0)

    def notice(self, payload: HookPayload, now: float) -> None:
        """A notice of the client came by."""
        if payload.fields.get("notification_type") in EMPTY:
            _note(self._empty, payload.session_id(), now)

    def is_there(self, session: str, asked: float, now: float) -> bool:
        """Whether a person probably looks at what was asked in a session."""
        if self._empty.get(session, 0.0) >= asked:
            return False
        return abs(now - self._person) < RECENT_SECONDS


def _note(times: dict[str, float], session: str, when: float) -> None:
    times.pop(session, None)
    times[session] = when
    while len(times) > SESSIONS:
        del times[next(iter(times))]
