"""The sessions that this machine's agents have open, and who answers for them.

    Panels     which part answers a command of the chat or a press of a button
    Session    what is known of one
    Sessions   all of them: from the events of hooks, and from `services.session_look`
               when somebody looks; nothing is polled

    working    a prompt was sent, a tool was called; the client says so
    waiting    a person has to decide: a request is pending, or a dialog is open
    idle       the turn is over; so it is with a pending `next`
    ended      SessionEnd came; or the client does not list it; or the process that
               started its hooks is gone.  All of that is certain.  Where the client
               lists nothing, no sign of it for half a day is only a guess; one without
               a terminal, which is never listed, ends with its turn

Everything runs on the loop's thread, but for a look.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from feishuperm.agents.table import AGENTS
from feishuperm.channels.base import SessionsPort
from feishuperm.lib.config import claude_dir
from feishuperm.lib.display import one_line
from feishuperm.lib.feishu import spent
from feishuperm.lib.language import duration
from feishuperm.lib.log import redact
from feishuperm.lib.process_tree import Client
from feishuperm.lib.tool import headline
from feishuperm.messages import msg, text
from feishuperm.models.ask import Block, Spent, last_name
from feishuperm.models.fields import list_at, text_at
from feishuperm.models.kind import KINDS, Say
from feishuperm.models.names import DOCTOR_TOOL, IDLE_TYPE
from feishuperm.models.panel import ERROR, Asker, Button, Panel, Row, Told
from feishuperm.models.payload import TITLE, HookPayload, ToolPayload
from feishuperm.models.request import Request
from feishuperm.services.session_look import SESSIONS_MOST, Look, Seen, look
from feishuperm.services.session_reader import CALL, Figures

Then = Callable[[Told], object]
WORKING, WAITING, IDLE, ENDED = "working", "waiting", "idle", "ended"
STATES = {
    WORKING: msg("working"),
    WAITING: msg("waiting for you"),
    IDLE: msg("idle"),
    ENDED: msg("ended"),
}
# What events say of a session; of those of tools, that it works.
HEARD = {
    "UserPromptSubmit": WORKING, "SessionStart": IDLE,
    "Stop": IDLE, "StopFailure": IDLE, "SessionEnd": ENDED,
}  # fmt: skip
TURN_ENDS = ("UserPromptSubmit", "Stop", "StopFailure", "SessionEnd")
TURNS = 5  # of a session: subagents of an earlier one may still be at work
NOTIFIED = {IDLE_TYPE: IDLE, "permission_prompt": WAITING}
# The same in the words of the client's own list.
LISTED = {"waiting": WAITING, "blocked": WAITING, "idle": IDLE, "stopped": ENDED}
SILENT_SECONDS = 12 * 3600.0
LOOK_SECONDS = 60.0  # after which a look that has not come back is given up
LINE, NAME = 160, 60  # characters of what a session does, and of its title
SHOWN = 12  # sessions on a card
AGAIN, OPEN = "again", "open"  # presses: list again; open another panel
NONE_KNOWN = msg("No session is known")
NO_LIST = msg("Claude Code does not list its sessions; some may have ended: {}")
NO_PANEL = msg("This card cannot do that any more: send `sessions` for a new list")


class PanelPart(SessionsPort, Protocol):
    """What makes some panels: the commands and the ids of panels that are its own."""

    COMMANDS: tuple[str, ...]  # of SERVED_COMMANDS
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
        self.told = IDLE  # how it is, but for requests that wait
        self.told_since = 0.0  # wall clock; 0.0: nobody knows
        self.does = ""  # its last call, or what its terminal asks
        self.heard = 0.0  # when its last event came
        self.figures = Figures()  # at the last look
        self.job = ""  # id of a background session, for `claude stop`
        self.turns: list[str] = []  # its last ones, as its events name them
        self.has_agents = False  # its turn is over, but subagents of it go on
        self.is_hooked = False  # it tells of its prompts, so it asks before calls too
        self.client: Client | None = None  # the process that started its hooks
        self._requests: list[Request] = []

    @property
    def short(self) -> str:
        return self.id[:8]

    @property
    def request(self) -> Request | None:
        """The first of its requests that waits for a person."""
        self._requests = [row for row in self._requests if row.waits()]
        return next(iter(self._requests), None)

    @property
    def state(self) -> str:
        return WAITING if self.request is not None else self.told

    @property
    def since(self) -> float:
        """Wall clock: how long it has been so."""
        request = self.request
        return self.told_since if request is None else request.created

    @property
    def doing(self) -> str:
        """What it does or waits for: one line without secrets."""
        request = self.request
        if request is not None:
            return one_line(f"{request.summary}: {request.detail}", LINE)
        running = self.figures.running if self.told == WORKING else ""
        return _shown(running, LINE) or self.does

    def waits_for(self, request: Request | None) -> None:
        """A person is asked; what only offers to go on is no decision."""
        if request is not None and not KINDS[request.kind].alone:
            self._requests.append(request)

    def learn(self, state: str, since: float) -> None:
        """How it is, from a moment on."""
        if state != self.told or not self.told_since:
            self.told, self.told_since = state, since

    def hear(self, payload: HookPayload, now: float) -> None:
        """What an event says of it."""
        is_new, self.heard = not self.heard, now
        self.transcript = payload.transcript_path() or self.transcript
        self.title = (
            _shown(text_at(payload.fields, "session_title"), NAME) or self.title
        )
        payload.known[TITLE] = self.title
        name, state = payload.hook_event_name(), state_by(payload)
        if isinstance(payload, ToolPayload):
            call = headline(payload.tool_name, payload.tool_input, CALL)
            self.does = _shown(f"{payload.tool_name}: {call[:CALL]}", LINE)
        elif state:
            self.does = ""
        is_main = not payload.fields.get("agent_id")
        # The session itself may be idle while a subagent works.
        if state and (is_new or is_main):
            self.learn(state, now)
        if name in TURN_ENDS:
            self.has_agents = has_agents(payload)
        self.is_hooked |= name in ("UserPromptSubmit", "SessionStart")
        turn = turn_of(payload)
        if turn and is_main:
            self.turns = [*(old for old in self.turns if old != turn), turn][-TURNS:]

    def see(self, row: Seen) -> None:
        """What a look saw of it; how it is has to be judged."""
        self.figures = row.figures
        self.project = self.project or row.folder
        self.transcript = self.transcript or row.transcript
        if row.status:  # it may have been one in the background before
            self.job = row.job
        self.title = _shown(row.figures.title or row.name, NAME) or self.title

    def row(self) -> dict[str, Any]:
        """What `sessions --json` prints; without what nobody knows: null."""
        figures, since = self.figures, self.since
        return {
            "id": self.id,
            "short": self.short,
            "agent": self.agent,
            "project": self.project,
            "title": self.title,
            "state": self.state,
            "since": int(since) if since else None,  # seconds since the epoch
            "doing": self.doing,
            "tokens": figures.tokens or None,
            "cost": figures.cost if figures.cost >= 0 else None,
            "background": bool(self.job),
        }


class Sessions:
    """All sessions; one per server."""

    COMMANDS: tuple[str, ...] = ("sessions",)
    PANELS: tuple[str, ...] = ("sessions",)

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        in_thread: Callable[..., object] = lambda work, then: then(work()),
        is_gone: Callable[[Client], bool] = lambda client: False,
        language: str = "zh",
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._clock = clock
        self._in_thread = in_thread  # work of its own values, then a call on the loop
        self._is_gone = is_gone  # a process that started hooks
        self._language = language
        self._environ = environ
        self._known: dict[str, Session] = {}  # by id, latest heard of last
        self._waiting: list[Callable[[], object]] = []  # for a look that is under way
        self.looked = 0.0  # when the last look began
        self.problem = ""  # why the last look was no good

    def event(
        self, payload: HookPayload, project: str, agent: str = "claude"
    ) -> Session:
        """Any event of a session has come."""
        id = payload.session_id()
        session = self._known.pop(id, None) or Session(id, agent)
        session.project = project or payload.base.cwd or session.project
        session.hear(payload, self._clock())
        if id and getattr(payload, "tool_name", "") != DOCTOR_TOOL:
            self._known[id] = session
        self._forget()
        return session

    def _forget(self) -> None:
        while len(self._known) > SESSIONS_MOST:
            del self._known[next(iter(self._known))]

    def all(self) -> list[Session]:
        """Those that live first, and of these what changed last."""
        return sorted(
            self._known.values(), key=lambda s: (s.state == ENDED, -s.since, s.id)
        )

    def get(self, id: str) -> Session | None:
        return self._known.get(id)

    def find(self, words: str) -> list[Session]:
        """Those whose id begins so, or whose folder or title is called so."""
        found = [row for row in self.all() if row.id.startswith(words)]
        named = (words.rstrip("/"), words.strip())
        return found or [
            row
            for row in self.all()
            if {row.project, last_name(row.project), row.title}.intersection(named)
        ]

    # A look at what there is, beside what was heard.

    def refresh(self, then: Callable[[], object]) -> None:
        """See which sessions there are, in a thread; then go on."""
        self._waiting.append(then)
        now = self._clock()
        if self.is_looking() and len(self._waiting) > 1:
            return  # one look serves everybody who asks meanwhile
        self.looked = now
        known = {
            row.id: row.transcript
            for row in reversed(self._known.values())
            if row.agent == "claude"
        }
        self._in_thread(partial(look, known, dict(self._environ)), self._see)

    def is_looking(self) -> bool:
        return bool(self._waiting) and self._clock() - self.looked < LOOK_SECONDS

    def _see(self, seen: Look) -> None:
        rows = {row.id: row for row in seen.rows}
        new = {id: Session(id) for id in rows if id not in self._known}
        self._known = {**new, **self._known}
        self._forget()
        self.problem = seen.problem
        for session in self._known.values():
            row = rows.get(session.id, Seen(session.id))
            session.see(row)
            if session.heard < seen.began:
                session.learn(*self._judge(session, row, seen))
            if row.waits_for and session.told == WAITING:
                session.does = _shown(row.waits_for, LINE)
        thens, self._waiting = self._waiting, []
        for then in thens:
            then()

    def _judge(self, session: Session, row: Seen, seen: Look) -> tuple[str, float]:
        """How a session is by what was seen of it, and since when."""
        turn, last = row.figures, max(row.figures.last, session.heard)
        if row.status:
            state = LISTED.get(row.status, WORKING)
        elif self._has_ended(session, row, last, seen):
            state = ENDED
        elif session.heard:
            state = session.told
        else:
            state = IDLE if turn.is_over else WORKING
        return state, (state == WORKING and turn.prompted) or last or seen.began

    def _has_ended(self, session: Session, row: Seen, last: float, seen: Look) -> bool:
        """Whether one that the client does not list is over."""
        place, folder = session.transcript, claude_dir(self._environ)
        # What the client of another folder lists, nobody has seen.
        is_ours = not place or place.startswith(os.path.join(folder, ""))
        could_be_listed = session.agent == "claude" and is_ours and not seen.problem
        if row.figures.is_over if row.is_headless else could_be_listed:
            return True
        if session.client is not None and self._is_gone(session.client):
            return True
        return last < seen.began - SILENT_SECONDS

    # What people are shown.

    def rows(self) -> list[dict[str, Any]]:
        """What `sessions --json` prints, newest first."""
        return [session.row() for session in self.all()]

    def command(self, name: str, words: str, asker: Asker, then: Then) -> None:
        self.refresh(lambda: then(Told(panel=self._panel())))

    def press(
        self, panel: str, action: str, words: str, asker: Asker, then: Then
    ) -> None:
        self.command("sessions", words, asker, then)

    def _panel(self) -> Panel:
        say, sessions = partial(text, self._language), self.all()
        shown, more = sessions[:SHOWN], len(sessions) - SHOWN
        counted = Counter(session.state for session in sessions)
        states = (WAITING, WORKING, IDLE, ENDED)
        parts = (f"{say(STATES[s])} {counted[s]}" for s in states if counted[s])
        told = (
            say("{count} more: feishuperm sessions", count=more) if more > 0 else "",
            time.strftime("%H:%M", time.localtime(self._clock())),
        )
        rows = [self._row(s, say) for s in shown]
        rows = rows or [Row(Block("text", "", say(NONE_KNOWN)))]
        if self.problem:  # no note of the card, which stays where cards are titles
            rows.append(Row(Block("text", "", say(NO_LIST, self.problem))))
        return Panel(
            "sessions",
            self._language,
            say("Sessions"),
            " · ".join(parts),
            rows=tuple(rows),
            buttons=(Button(AGAIN, say("List again")),),
            note=" · ".join(filter(None, told)),
        )

    def _row(self, session: Session, say: Say) -> Row:
        named = (last_name(session.project), session.title or session.short)
        agent = AGENTS.get(session.agent)
        known = (
            say(STATES[session.state]),
            duration(self._clock() - session.since, say) if session.since else "",
            agent.name if agent and session.agent != "claude" else "",
            session.doing,
            spent(say, Spent(0.0, 0, session.figures.tokens, session.figures.cost)),
        )
        opens = Button(OPEN, say("Progress"), panel=f"progress:{session.id}")
        block = Block("text", "", one_line(" · ".join(filter(None, named)), LINE))
        return Row(block, " · ".join(filter(None, known)), (opens,))


def state_by(payload: HookPayload) -> str:
    """How an event says that its session is; empty: it does not say."""
    if isinstance(payload, ToolPayload):
        return WORKING
    name = payload.hook_event_name()
    if name == "Notification":
        return NOTIFIED.get(text_at(payload.fields, "notification_type"), "")
    if text_at(payload.fields, "source") == "compact":  # in the middle of a turn
        return ""
    return HEARD.get(name, "")


def turn_of(payload: HookPayload) -> str:
    return text_at(payload.fields, "prompt_id")


def has_agents(payload: HookPayload) -> bool:
    """Whether the session's subagents go on though its own turn has ended."""
    tasks = list_at(payload.fields, "background_tasks")
    return any(text_at(task, "type") == "subagent" for task in tasks)


def _shown(said: str, most: int) -> str:
    """A text on one line, as it may be shown: without its secrets."""
    return one_line(redact(said[:CALL]), most)
