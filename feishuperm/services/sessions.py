"""The sessions that this machine's agents have open, and who answers for them.

    Panels     which part answers a command of the chat or a press of a button
    Session    what is known of one
    Sessions   all of them: from the events of hooks, and `claude agents --json` when
               somebody looks; nothing is polled

Everything runs on the loop's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from feishuperm.channels.base import SessionsPort
from feishuperm.messages import msg
from feishuperm.models.panel import ERROR, Asker, Panel, Told
from feishuperm.models.payload import HookPayload

Then = Callable[[Told], object]
# How a session is: at work; a person has to decide; a prompt has to come; over.
WORKING, WAITING, IDLE, ENDED = "working", "waiting", "idle", "ended"
SESSIONS_MOST = 200
NO_PANEL = msg("This card cannot do that any more: send `sessions` for a new list")


class PanelPart(SessionsPort, Protocol):
    """What makes some panels: the commands and the ids of panels that are its own."""

    COMMANDS: tuple[str, ...]  # of SESSION_COMMANDS
    PANELS: tuple[str, ...]  # beginnings of ids, up to the colon


class Panels:
    """Hands commands and presses to the part that they are for."""

    def __init__(self, show: Callable[[str, Panel], object]) -> None:
        self.show = show  # a panel has changed: the channel by name, and the panel
        self._commands: dict[str, PanelPart] = {}
        self._panels: dict[str, PanelPart] = {}

    def serve(self, part: PanelPart) -> None:
        self._commands.update(dict.fromkeys(part.COMMANDS, part))
        self._panels.update(dict.fromkeys(part.PANELS, part))

    def command(self, name: str, words: str, asker: Asker, then: Then) -> None:
        self._commands[name].command(name, words, asker, then)

    def press(
        self, panel: str, action: str, words: str, asker: Asker, then: Then
    ) -> None:
        part = self._panels.get(panel.partition(":")[0])
        if part is None:
            then(Told(NO_PANEL, ERROR, fixed=True))
        else:
            part.press(panel, action, words, asker, then)


class Session:
    """What is known of a session."""

    def __init__(self, id: str, agent: str = "claude") -> None:
        self.id = id
        self.agent = agent  # a row of `agents.table`
        self.project = ""  # folder
        self.transcript = ""  # path
        self.title = ""
        self.state = IDLE
        self.since = 0.0  # wall clock: in this state
        self.doing = ""  # what it does or waits for, one line without secrets
        self.job = ""  # id of a background session, for `claude stop`
        self.mode = ""  # its permission mode, as its events tell

    @property
    def short(self) -> str:
        return self.id[:8]


class Sessions:
    """All sessions; one per server."""

    COMMANDS: tuple[str, ...] = ("sessions",)
    PANELS: tuple[str, ...] = ("sessions",)

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._known: dict[str, Session] = {}  # by id, latest heard of last

    def event(
        self, payload: HookPayload, project: str, agent: str = "claude"
    ) -> Session:
        """Any event of a session has come."""
        id = payload.session_id()
        session = self._known.pop(id, None) or Session(id, agent)
        self._known[id] = session
        session.project = project or payload.base.cwd or session.project
        session.transcript = payload.transcript_path() or session.transcript
        while len(self._known) > SESSIONS_MOST:
            del self._known[next(iter(self._known))]
        return session

    def find(self, words: str) -> list[Session]:
        """Those whose id begins so, or whose folder or title is called so."""
        return [row for row in self._known.values() if row.id.startswith(words)]

    def refresh(self, then: Callable[[], object]) -> None:
        """Ask the client which sessions it knows, in a thread; then go on."""
        then()

    def rows(self) -> list[dict[str, Any]]:
        """What `sessions --json` prints, newest first."""
        return []

    def command(self, name: str, words: str, asker: Asker, then: Then) -> None:
        then(Told())

    def press(
        self, panel: str, action: str, words: str, asker: Asker, then: Then
    ) -> None:
        then(Told())
