"""What the hook client cannot do by relaying bytes: every event it hands over.

A permission request comes here when no server listens (the hook itself sends the card,
without buttons) or when its JSON is spelled in a way the client does not recognise.
All other events run the user's own callbacks and may make a notice.  What a hook prints
is one JSON object or nothing; what it logs goes to the log.

The environment is Claude Code's, and holds what a project's `env` says: what comes from
a project that nobody trusts is left out of everything here, see `Interactive`.
"""

from __future__ import annotations

import json
import os
from _signal import SIGALRM, SIGHUP, SIGTERM, alarm, signal
from collections.abc import Mapping
from functools import partial

from feishuperm import wire
from feishuperm.hooks.application import RUN_VARIABLE, Interactive, is_of_a_run
from feishuperm.models.fields import decoded, part_at, text_at
from feishuperm.models.names import IDLE_TYPE, LAST_WORDS, NOTICE_EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from feishuperm.models.payload import AskPayload
    from feishuperm.models.settings import Settings

# Events that a person may answer, or has answered before.
ASKED = ("PermissionDenied", "PreToolUse", "Elicitation")
MARKED = ("PreToolUse", "PostToolUse")  # only asked about while there is a mark
WAKE = 2  # the exit code by which a background hook wakes its session
PARENT_SECONDS = 30  # between looks whether there is still a session to wake
CARD_SECONDS = 8  # for sending a card from the hook; Claude Code is waiting


def handle(
    raw: bytes, request_id: str, reason: str, kind: str = "", agent: str = ""
) -> bytes:
    """The bytes to print for an event; `reason` is why the client gave it away.

    With a `kind` the hook is there for what a person is asked by it, nothing else; with
    an `agent` it is that agent's, which has no callbacks and no notices here.
    """
    hook = _Hook(raw, agent)
    if kind == wire.PLUGIN:
        from feishuperm.setup.plugin import settings_ask

        if settings_ask(os.environ, text_at(hook.fields, "tool_name")):
            return b""
        kind = ""
    if len(raw) > wire.MAX_INPUT and not agent:
        return hook.endless()
    event = text_at(hook.fields, "hook_event_name")
    ours = hook.is_of_a_run()
    if kind:
        return b"" if ours else hook.of_kind(kind, event, request_id)
    if agent or event in ("", "PermissionRequest"):
        return b"" if ours else hook.permission(request_id, reason)
    if event in NOTICE_EVENTS:
        hook.relay_notice(event)
    alarm(0)  # callbacks have time-outs of their own
    return b"" if ours else hook.callbacks(event, request_id)


class _Hook:
    """One event on its way."""

    def __init__(self, raw: bytes, agent: str = "") -> None:
        self.raw = raw
        self.agent = agent
        self.fields = _decoded(raw)
        self.environ: Mapping[str, str] = os.environ
        cwd = str(self.fields.get("cwd") or "")
        self.interactive = Interactive(cwd, os.environ, self.warn)
        self.environ = self.interactive.environ

    def is_of_a_run(self) -> bool:
        """Whether a headless run looks after this session itself."""
        session = self.fields.get("session_id") or self.fields.get("sessionId")
        return RUN_VARIABLE in os.environ and is_of_a_run(os.environ, session)

    def settings(self) -> Settings:
        from feishuperm.lib.config import load_settings  # most events do without

        return load_settings(self.environ, lenient=True)

    def warn(self, message: str, level: str = "warning") -> None:
        from feishuperm.lib import log

        log.obey(self.settings())
        log.log(message, level)

    def endless(self) -> bytes:
        """An event cut off: a guard that cannot be shown a tool call stops it."""
        self.warn("an event is too long to be read")
        is_call = wire.is_spelled(wire.TOOL_CALL, self.raw)
        if not is_call or not self.interactive.has_callbacks("PreToolUse"):
            return b""
        from feishuperm.hooks.hook_manager import for_client

        reason = "the tool call is too long for the hooks that would check it"
        block = {"decision": "block", "reason": reason}
        return _line(for_client("PreToolUse", block))

    def permission(self, request_id: str, reason: str) -> bytes:
        """Ask the server after all, or tell people that the terminal asks."""
        settings, payload = self.settings(), self._payload(request_id)
        if payload is None:
            return b""
        path = os.fsencode(settings.permission_socket_path)
        # A project may have named another socket: then the right one was not tried.
        if reason != "no server" or path != wire.socket_path(os.environb):
            said = self._ask(path, request_id)
            if said is not None:
                return said
        self.warn(f"{request_id}: no server, left to the terminal")
        alarm(CARD_SECONDS)
        from feishuperm.services.notices import send_static_card

        payload.agent = self.agent or wire.CLAUDE
        send_static_card(payload, request_id, settings)
        return b""

    def _payload(self, request_id: str) -> AskPayload | None:
        """What is asked; None, and told where it can be, if nobody could read it."""
        from feishuperm.agents.table import read_event
        from feishuperm.errors import PayloadError
        from feishuperm.models.payload import AskPayload, parse_payload

        if len(self.raw) > wire.MAX_EVENT:
            self.warn(f"{request_id}: too long to be relayed, left to the terminal")
            return None
        try:
            agent, raw = self.agent, self.raw
            payload = parse_payload(read_event(agent, raw) if agent else raw)
        except PayloadError as error:
            self.warn(f"{request_id}: left to the terminal: {error}")
            if not self.agent:
                from feishuperm.services.notices import tell_unreadable

                alarm(CARD_SECONDS)
                tell_unreadable(self.settings())
            return None
        assert isinstance(payload, AskPayload)
        return payload

    def _ask(self, path: bytes, request_id: str) -> bytes | None:
        """What the server says; None if there is none, or it does not ask for this."""
        project = wire.project_of(os.environb, self.agent)
        id, agent = request_id.encode(), self.agent.encode()
        try:
            return wire.ask(self.raw, path, id, project, agent=agent)
        except (wire.NoServer, wire.NotPermission):
            return None

    def person(self, request_id: str) -> bytes:
        """What a person says to the event; nothing where nobody can be asked."""
        path = os.fsencode(self.settings().permission_socket_path)
        is_call = self.fields.get("hook_event_name") in MARKED
        if len(self.raw) > wire.MAX_EVENT or (is_call and not wire.is_marked(path)):
            return b""
        signal(SIGALRM, _leave)
        return self._ask(path, request_id) or b""

    def of_kind(self, kind: str, event: str, request_id: str) -> bytes:
        """What a hook does that is there for one kind alone."""
        if kind != "next" and event in (*ASKED, *MARKED):
            return self.person(request_id)
        if kind == "session" or event == "SessionEnd":
            self._relay(f"no server to tell of {event}")
        elif kind == "next" and event == "Notification":
            self._await_text(request_id)
        return b""

    def _await_text(self, request_id: str) -> None:
        """Wait for what a person wants next, and wake the session with it."""
        # In a session that nobody attends the client would wait for us.
        attended = self.environ.get("CLAUDE_CODE_SESSION_ATTENDED") == "1"
        if not attended or self.fields.get("notification_type") != IDLE_TYPE:
            return
        from feishuperm.services.session_reader import figures

        path = str(self.fields.get("transcript_path") or "")
        self.fields[LAST_WORDS] = figures(path).said
        self.raw = json.dumps(self.fields).encode()
        _end_with_the_session()
        answer = self.person(request_id)
        text = _decoded(answer).get("next") if answer else None
        if isinstance(text, str):
            wire.write_all(2, text.encode(errors="replace"))
            os._exit(WAKE)

    def relay_notice(self, event: str) -> None:
        """Hand the event to the server if a card was asked for; nobody waits for it."""
        if NOTICE_EVENTS[event].kind in self.settings().feishuperm_notify:
            self._relay(f"no server, no card for {event}")

    def _relay(self, missed: str) -> None:
        """Hand the event to the server; without one, log what that means."""
        # A frozen server may keep even connect() for ever; the callbacks must run.
        signal(SIGALRM, _give_up)
        alarm(CARD_SECONDS)
        problem = ""
        try:
            path = os.fsencode(self.settings().permission_socket_path)
            wire.tell(self.raw, path, wire.project_of(os.environb))
        except wire.NoServer:
            problem = missed
        except OSError:
            problem = "the server went away, no card"
        alarm(0)
        if problem:
            self.warn(problem)

    def callbacks(self, event: str, request_id: str) -> bytes:
        """What the user's callbacks say, merged; where they say nothing, a person."""
        # Who ends us means the callback as well: its child is killed on the way out.
        for number in (SIGTERM, SIGHUP):
            signal(number, _leave)
        signal(SIGALRM, _give_up)
        error = partial(self.warn, level="error")
        output = self.interactive.run(self.fields, error, alarm)
        if output:
            return _line(output)
        return self.person(request_id) if event in ASKED else b""


def _end_with_the_session() -> None:
    """See to it that nothing of us is left when the client is gone.

    A client that is killed sends no signal, but its ends of our streams are closed.
    """
    import select
    from threading import Thread

    parent, poll = os.getppid(), select.poll()
    for fd in (1, 2):
        poll.register(fd, 0)

    def look() -> None:
        while os.getppid() == parent:
            for fd, what in poll.poll(PARENT_SECONDS * 1000):
                if what & (select.POLLHUP | select.POLLERR):
                    os._exit(0)
                poll.unregister(fd)  # it was closed from the start
        os._exit(0)

    Thread(target=look, daemon=True).start()


def _decoded(raw: bytes) -> dict[str, Any]:
    return part_at(decoded(raw)) if len(raw) <= wire.MAX_INPUT else {}


def _line(output: dict[str, Any]) -> bytes:
    return json.dumps(output).encode() + b"\n"


def _leave(*_: object) -> None:
    raise SystemExit


def _give_up(*_: object) -> None:
    raise TimeoutError
