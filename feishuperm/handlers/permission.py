"""Frames from the unix socket: which service answers which kind.

A hook's request goes to the approvals, an event that may make a notice to the notices,
a command to `Control`.  What cannot be understood is released: the terminal is always a
way out.

Commands are what `status`, `doctor`, `install` and friends send.  Anyone who can open
the socket is the user, or a program of theirs: the agent is one, so no command decides
a pending request; and a pass, which decides later, is for persons only: whatever runs
below a session is refused.  One row of `COMMANDS` per command: a dict in, a dict out;
`error` says what was wrong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from feishuperm import __version__, wire
from feishuperm.agents.table import ACP, CLAUDE, read_event
from feishuperm.errors import FeishupermError, PayloadError, ProtocolError
from feishuperm.lib.json import has_more_parts
from feishuperm.lib.log import log
from feishuperm.lib.process_tree import SessionProcesses, peer_pid
from feishuperm.messages import message_of, msg, pack
from feishuperm.models.payload import (
    AskPayload,
    HookPayload,
    PreToolUsePayload,
    parse_payload,
)
from feishuperm.protocol.frames import (
    HookRequest,
    parse_control,
    parse_notice,
    parse_request,
)
from feishuperm.services.approvals import Approvals
from feishuperm.services.grants import Pass, check_rule, rule_digest
from feishuperm.services.notices import Notices
from feishuperm.services.progress import Progress
from feishuperm.services.sessions import Sessions
from feishuperm.services.web_access import Links, LoginTokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.server.connection import HookConnection

Reply = dict[str, Any]

SHOWN_WAITING = 100  # a longer list helps nobody at a terminal
# What a session may send: its supervisor is one of its hooks, and has things to tell.
# The list of sessions tells it nothing that it could not read by itself.
FOR_SESSIONS = ("status", "look", "notice", "sessions")
RELEASED = "released by the user"
FOR_PERSONS = ("passes", "pass_add", "pass_revoke")
REFUSAL = "refused to {}, a process of a session that asks; run it outside of it"
MAX_PARTS = 20_000  # decoding and showing more would be felt by everybody who waits


class PermissionHandler(NamedTuple):
    """Answers hook connections."""

    approvals: Approvals
    notices: Notices
    control: Callable[[dict[str, Any], int], Reply]
    clients: SessionProcesses
    sessions: Sessions
    progress: Progress

    def on_frame(self, connection: HookConnection, kind: bytes, body: bytes) -> None:
        """One frame; whatever is wrong with it ends in a release."""
        kinds = {b"Q": self._request, b"N": self._notice, b"C": self._command}
        try:
            if kind not in kinds:
                raise ProtocolError(f"unknown frame kind {kind!r}")
            kinds[kind](connection, body)
        except FeishupermError as error:
            log(f"refused a frame from a hook: {error}", "warning")
            connection.send(b"R")

    def _request(self, connection: HookConnection, body: bytes) -> None:
        """A hook asks: register it, or say what it is instead."""
        hook = parse_request(body)
        try:
            if len(hook.raw) > MAX_PARTS and has_more_parts(hook.raw, MAX_PARTS):
                raise PayloadError("the event has more parts than anybody can look at")
            hook, payload = read_request(hook)
        except PayloadError:
            is_result = wire.is_spelled(wire.TOOL_RESULT, hook.raw)
            if hook.agent == CLAUDE and not is_result:
                self.notices.unreadable(hook.project)
            raise
        session = self.sessions.event(payload, hook.project, hook.agent)
        if payload.hook_event_name() in ("PreToolUse", "PostToolUse"):
            self._answer_call(payload, connection)
            return
        if not isinstance(payload, AskPayload) or not payload.waits():
            connection.send(b"E")
            return
        self.progress.event(payload)
        # A headless run of any agent asks by itself, as that of Claude Code does.
        pid, is_known = _pid(connection), hook.agent not in (CLAUDE, ACP)
        client = self.clients.add(pid, payload.session_id(), is_known)
        session.client = client or session.client
        session.waits_for(self.approvals.register(hook, payload, connection))

    def _answer_call(self, payload: HookPayload, connection: HookConnection) -> None:
        """A tool call begins or has ended: stop its turn, or let it through."""
        said = self.progress.around_call(payload)
        if said:
            connection.send(b"D", said)
        elif isinstance(payload, PreToolUsePayload):
            self.approvals.let_through(payload, connection)
        else:
            connection.send(b"R")

    def _notice(self, connection: HookConnection, body: bytes) -> None:
        project, raw = parse_notice(body)
        payload = parse_payload(raw)
        self.sessions.event(payload, project)
        self.progress.event(payload)
        if payload.hook_event_name() == "SessionEnd":
            self.approvals.session_over(payload.session_id())
        self.notices.event(payload, project)
        connection.send(b"R")

    def _command(self, connection: HookConnection, body: bytes) -> None:
        reply = self.control(parse_control(body), _pid(connection))
        connection.send(b"J", json.dumps(pack(reply)).encode())

    def on_close(self, connection: HookConnection) -> None:
        """The hook hung up."""
        self.approvals.hook_gone(connection)


def read_request(hook: HookRequest) -> tuple[HookRequest, HookPayload]:
    """What a hook sent and its event, both as Claude Code's. Raises PayloadError."""
    if hook.agent == CLAUDE:
        return hook, parse_payload(hook.raw)
    fields = read_event(hook.agent, hook.raw)
    payload = parse_payload(fields)
    payload.agent = hook.agent
    return hook._replace(raw=json.dumps(fields).encode()), payload


def _pid(connection: HookConnection) -> int:
    """The process at the other end; 0 where that cannot be told."""
    return 0 if connection.sock is None else peer_pid(connection.sock)


# Commands.


class Control(NamedTuple):
    """Answers control commands."""

    approvals: Approvals
    links: Links
    tickets: LoginTokens
    clients: SessionProcesses
    notices: Notices
    listed: Sessions
    facts: dict[str, Any]  # that do not change
    stops: Callable[[], None]
    hands_over: Callable[[bool], int]

    def reply_to(self, command: dict[str, Any], pid: int) -> Reply:
        """The answer to a command that this process sends."""
        name = str(command.get("command"))
        row = COMMANDS.get(name)
        if row is None:
            return {"error": msg("unknown control command {!r}", name)}
        # A way into the inbox is good for later, and so is a pass: no session gets
        # one, whether it asks or not.
        suspect_pid, ever = self.clients.suspect_pid, name in FOR_PERSONS
        if command.get("inbox") is True and suspect_pid(pid, any_session=True):
            command = {**command, "inbox": False}
        suspect = None if name in FOR_SESSIONS else suspect_pid(pid, any_session=ever)
        if suspect is not None:
            self.approvals.refuse("", name, str(suspect))
            return {"error": REFUSAL.format(suspect)}
        return row(self, command)

    def status(self, command: dict[str, Any]) -> Reply:
        """What `status` shows and `doctor` judges."""
        waiting = self.approvals.requests.waiting()
        is_told = self.approvals.has_receipts
        # On this machine its user needs no ticket.
        needs = command.get("inbox") is True and not self.links.stay_here
        ticket = self.tickets.make() if needs else ""
        return {
            "version": __version__,
            "pid": os.getpid(),
            **self.facts,
            "inbox": self.links.inbox_url(ticket),
            "channels": self.approvals.notifier.states(),
            "ledger": self.approvals.ledger_state(),
            "quiet": self.approvals.notifier.quiet.describe(),
            "waiting_count": len(waiting),
            "waiting": [
                {
                    "id": request.id,
                    "agent": request.agent,
                    "tool": request.tool_name,
                    "summary": request.detail or request.summary,
                    "project": request.project,
                    "danger": list(request.danger),
                    "shown": request.shown,
                    **({"seen": request.seen or None} if is_told else {}),
                    "seconds_left": self.approvals.seconds_left(request.id),
                }
                for request in waiting[:SHOWN_WAITING]
            ],
        }

    def sessions(self, command: dict[str, Any]) -> Reply:
        """The sessions of this machine; `look`: see first which there are."""
        if command.get("look") is True:
            self.listed.refresh(lambda: None)
        if self.listed.is_looking():
            return {"busy": True}
        problem = self.listed.problem
        return {"busy": False, "problem": problem, "sessions": self.listed.rows()}

    def stop(self, command: dict[str, Any]) -> Reply:
        """End the server, after this answer is out."""
        released = self.approvals.close()
        self.stops()
        return {"released": released}

    def pass_add(self, command: dict[str, Any]) -> Reply:
        """Make a pass for an exact rule."""
        rule, session = str(command.get("rule")), str(command.get("session") or "")
        project = "" if session else str(command.get("project") or "")
        minutes, calls = command.get("minutes"), command.get("calls")
        if not isinstance(minutes, int) or not isinstance(calls, int):
            return {"error": "minutes and calls are whole numbers"}
        if not (session or project):
            return {"error": "a pass is bound to a project or a session"}
        passes = self.approvals.passes
        try:
            check_rule(rule)
            folder = os.path.realpath(project) if project else ""
            scope = Pass(
                rules=(rule,),
                shown=rule,
                session=session,
                project=folder,
                folder=folder,
                # Where a session is nobody knows: it covers no call that runs files.
                files=rule_digest(rule, folder) if folder else "",
                calls=max(0, calls),
            )
            row = passes.make(scope, minutes * 60, "command")
        except FeishupermError as error:
            return {"error": message_of(error)}
        self.approvals.tell_pass(row)
        return {"pass": passes.describe(row)}

    def pass_revoke(self, command: dict[str, Any]) -> Reply:
        """End one pass, or all."""
        ended = self.approvals.revoke_passes(str(command.get("id")), "command")
        return {"revoked": [row.id for row in ended]}


COMMANDS: dict[str, Callable[[Control, dict[str, Any]], Reply]] = {
    "status": Control.status,
    # A person is about to ask for the status: see who else is connected.
    "look": lambda own, _: {"busy": own.approvals.notifier.look()},
    "sessions": Control.sessions,
    # Hand pending requests back to the terminals.
    "release": lambda own, _: {"released": own.approvals.release_all(RELEASED)},
    "stop": Control.stop,
    # End the server and leave pending requests to the next one, which starts soon.
    # `again`: the same process becomes that one, in its terminal.
    "handover": lambda own, said: {
        "waiting": own.hands_over(said.get("again") is True)
    },
    # Send a card that asks nothing.
    "notice": lambda own, said: {"queued": own.notices.command(said)},
    # `log undo` took rules back: look at the ledger, and show it.
    "undone": lambda own, said: {
        "undone": own.approvals.learn_undo(str(said.get("id")))
    },
    # Every pass that is good now.
    "passes": lambda own, _: {
        "passes": list(map(own.approvals.passes.describe, own.approvals.passes.all()))
    },
    "pass_add": Control.pass_add,
    "pass_revoke": Control.pass_revoke,
}
