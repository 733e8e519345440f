"""What a channel is: a place where an ask can be shown and answered.

A pushing channel (Feishu) sends the ask out and says later whether it arrived; a
passive one (the inbox) shows it to anyone who looks.  All methods run on the loop and
none blocks: slow work happens in an outbox (`channels.outbox`).

    Announcement    a request given to one channel, which reports what became of it
    ApprovalsPort   what a channel may ask of the approvals; answers go in by it
    SessionsPort    what it may ask of the sessions: commands and presses go in by it
    BareApprovals, BareSessions   the same where cards are titles
                    (`FEISHUPERM_CARD=title`)

A new channel is one more file with this shape, and one more row where `serve` lists
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from functools import partial
from typing import Any, NamedTuple, Protocol

from feishuperm.lib.log import HIDDEN
from feishuperm.messages import msg, text
from feishuperm.models.ask import Answer, Ask, Notice, Outcome, Receipt
from feishuperm.models.panel import Asker, Panel, Told

INBOX_ONLY = msg("The card shows no content: only the inbox on the computer shows it")
TERMINAL_ONLY = msg(
    "The card shows no content: see `feishuperm sessions` on the computer"
)
NOT_UNDONE = msg("The rule was not undone; see feishuperm log.")
GONE = (
    msg("The session has ended"),
    msg("Claude Code no longer waits for this request."),
)
REVOKED = (
    msg("The machine was revoked"),
    msg("This machine takes no more taps through the gateway; its terminal decides"),
)


class Channel:
    """The shape every channel has, and what most of them do."""

    name = ""
    passive = False  # shows only to people who look
    stands_in_for = ""  # the channel that goes before it, as long as it can

    def start(self) -> None:
        """Begin to work; nothing is announced before."""

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        """Show a request."""

    def renew(self) -> None:
        """More is known of pending requests; a card that is out may stay as it is."""

    def settle(self, outcome: Outcome) -> None:
        """A request has ended, here or elsewhere."""

    def update(self, outcome: Outcome) -> None:
        """More is known of a request that has ended."""

    def notify(self, notice: Notice) -> None:
        """Tell something that needs no answer to people who do not look."""

    def change(self, panel: Panel) -> None:
        """A panel that this channel has shown looks different now."""

    def stopping(self) -> None:
        """The server stops: panels that are out change no more, and say so."""

    def watched(self) -> bool:
        """Whether somebody looks right now (passive channels only)."""
        return False

    def muted(self) -> bool:
        """Whether the person wants no request pushed for a while."""
        return False

    def keeps(self, id: str, is_back: bool = False) -> bool:
        """Whether a card of this request is out that it can still change.

        Of one that came back, also whether there may be one: it is not known yet.
        """
        return False

    def state(self) -> tuple[str, str]:
        """`up` or `down`, and a detail a person can act on."""
        return "up", ""

    def look(self) -> bool:
        """See whether taps can arrive, since a person asks; True: it takes a while."""
        return False

    def facts(self) -> Mapping[str, Any]:
        """What else `status` tells of it."""
        return {}

    def busy(self) -> bool:
        """Whether something is on its way that should arrive before the end."""
        return False

    def close(self) -> None:
        """Stop working; what is still on its way may be dropped."""


class AbsentChannel(Channel):
    """A channel that is set up and cannot be used; a person has to repair it."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self._problem = problem

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        announcement.failed(self._problem)

    def state(self) -> tuple[str, str]:
        return "down", self._problem


class Reports(Protocol):
    """Whom a channel tells how the showing goes: the notifier."""

    def is_wanted(self, id: str) -> bool: ...
    def shown(self, id: str, channel: str) -> None: ...
    def failed(self, id: str, channel: str, why: str) -> None: ...
    def lost(self, id: str, channel: str) -> None: ...
    def stand_in(self, id: str, channel: str) -> None: ...


class Announcement(NamedTuple):
    """A request as one channel was given it."""

    id: str
    channel: str  # its name
    until: float  # wall clock: a card that leaves later is of no use
    reports: Reports
    is_back: bool = False  # it was shown before its hook came back
    has_stand_in: bool = False  # another channel could show it instead

    def is_wanted(self) -> bool:
        """Whether the request is still pending."""
        return self.reports.is_wanted(self.id)

    def shown(self) -> None:
        """A person can see it, and answer."""
        self.reports.shown(self.id, self.channel)

    def failed(self, why: str) -> None:
        """It will not be shown here."""
        self.reports.failed(self.id, self.channel, why)

    def lost(self) -> None:
        """It was shown, but nobody can answer it here now."""
        self.reports.lost(self.id, self.channel)

    def stand_in(self) -> None:
        """Let another channel show it too, since no answer can come back here."""
        self.reports.stand_in(self.id, self.channel)


class ApprovalsPort(Protocol):
    """What a channel may ask of the approvals: `services.approvals` says what it is."""

    def answer(self, answer: Answer) -> Receipt: ...
    def is_pending(self, id: str) -> bool: ...
    def seconds_left(self, id: str) -> int: ...
    def ask(self, id: str) -> Ask | None: ...
    def whole(self, id: str, most: int, then: Callable[[Ask], object]) -> bool: ...
    def outcome(self, id: str) -> Outcome | None: ...
    def extend_deadline(self, id: str, who: str = "") -> bool: ...
    def note_refused(self, id: str, action: str, who: str) -> None: ...
    def note_seen(self, ids: Iterable[str], at: float) -> None: ...
    def quiet_hours(self) -> tuple[float, float]: ...
    def end_quiet(self) -> bool: ...
    def status(self) -> list[tuple[str, str]]: ...
    def pass_rows(self) -> list[tuple[str, str, str]]: ...
    def revoke_passes(self, id: str, surface: str, who: str = "") -> Sized: ...
    def undo_last(self, who: str, then: Callable[[list[str], str], object]) -> None: ...


Then = Callable[[Told], object]


class SessionsPort(Protocol):
    """What a channel may ask of the sessions (`services.sessions`).

    `command`: one of the chat, a word of `SERVED_COMMANDS`, and what follows it.
    `press`: a button of a panel, by the panel's id, with what its field held; the panel
    may be one that no message shows yet, `progress:ID` from the record of a request.
    `then` gets one answer, at once or later; a panel of it changes by `Channel.change`
    from then on.
    """

    def command(self, name: str, words: str, asker: Asker, then: Then) -> None: ...
    def press(
        self, panel: str, action: str, words: str, asker: Asker, then: Then
    ) -> None: ...


class BareApprovals:
    """The approvals for a channel that may tell titles only.

    A channel is given requests in two ways: by the notifier, which makes them bare, and
    by this.  So it cannot tell what it was never told.
    """

    def __init__(self, approvals: ApprovalsPort, language: str) -> None:
        self._approvals = approvals
        self._language = language
        self.is_pending = approvals.is_pending
        self.seconds_left = approvals.seconds_left
        self.extend_deadline = approvals.extend_deadline
        self.note_refused = approvals.note_refused
        self.note_seen = approvals.note_seen
        self.quiet_hours = approvals.quiet_hours
        self.end_quiet = approvals.end_quiet
        self.revoke_passes = approvals.revoke_passes

    def answer(self, answer: Answer) -> Receipt:
        sentence = text(self._language, INBOX_ONLY)
        return self._approvals.answer(answer).bare(sentence)

    def ask(self, id: str) -> Ask | None:
        found = self._approvals.ask(id)
        return None if found is None else bare_ask(found)

    def whole(self, id: str, most: int, then: Callable[[Ask], object]) -> bool:
        return False

    def outcome(self, id: str) -> Outcome | None:
        outcome = self._approvals.outcome(id)
        return None if outcome is None else outcome.bare()

    def status(self) -> list[tuple[str, str]]:
        return [(title, "") for title, _ in self._approvals.status()]

    def pass_rows(self) -> list[tuple[str, str, str]]:
        return [(id, "", until) for id, _, until in self._approvals.pass_rows()]

    def undo_last(self, who: str, then: Callable[[list[str], str], object]) -> None:
        def tell(rules: list[str], error: str) -> None:  # an error names files
            failed = text(self._language, NOT_UNDONE) if error else ""
            then([HIDDEN for _ in rules], failed)

        self._approvals.undo_last(who, tell)


class BareSessions:
    """The sessions for a channel that may tell titles only."""

    def __init__(self, sessions: SessionsPort, language: str) -> None:
        self._sessions = sessions
        self._language = language

    def command(self, name: str, words: str, asker: Asker, then: Then) -> None:
        self._sessions.command(name, words, asker, partial(self._tell, then))

    def press(
        self, panel: str, action: str, words: str, asker: Asker, then: Then
    ) -> None:
        self._sessions.press(panel, action, words, asker, partial(self._tell, then))

    def _tell(self, then: Then, told: Told) -> None:
        sentence = text(self._language, TERMINAL_ONLY)
        said = told.said if told.fixed or not told.said else sentence
        panel = bare_panel(told.panel) if told.panel.id else told.panel
        then(told._replace(said=said, panel=panel))


def bare_panel(panel: Panel) -> Panel:
    """What kind of panel it is, and what can be done without seeing what it shows."""
    return panel.bare(text(panel.language, TERMINAL_ONLY))


def bare_ask(ask: Ask) -> Ask:
    """What kind of request it is, with a sentence where its content would be."""
    return ask if ask.titled else ask.bare(text(ask.language, INBOX_ONLY))


def gone(ask: Ask, now: float, revoked: bool = False) -> Outcome:
    """The end of a request of which nothing more is known."""
    done, hint = (text(ask.language, said) for said in (REVOKED if revoked else GONE))
    return Outcome(
        ask.id, ask.kind, ask.language, "gone", ended=now, done=done, lines=(hint,)
    )


def keep_last(table: dict[str, Any], id: str, value: Any, most: int) -> None:
    """Keep a value; only so many are, the oldest go first."""
    table[id] = value
    while len(table) > most:
        del table[next(iter(table))]
