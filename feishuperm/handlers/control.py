"""Commands that `status`, `doctor`, `install` and friends send over the unix socket.

Whoever can open the socket is the user, or a program of theirs: the agent is one, so
no command decides what waits; and a pass, which decides later, is for persons only:
whatever runs below a session is refused.  One row of `COMMANDS` per command: a dict in,
a dict out; `error` says what was wrong.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from feishuperm import __version__
from feishuperm.errors import FeishupermError
from feishuperm.lib.process_tree import SessionProcesses
from feishuperm.messages import message_of, msg
from feishuperm.services.approvals import Approvals
from feishuperm.services.notices import Notices
from feishuperm.services.passes import Pass, check_rule, describe, rule_digest
from feishuperm.services.web_access import Links, LoginTokens

Reply = dict[str, Any]

SHOWN_WAITING = 100  # a longer list helps nobody at a terminal
# What a session may send: its supervisor is one of its hooks, and has things to tell.
FOR_SESSIONS = ("status", "notice")
FOR_PERSONS = ("passes", "pass_add", "pass_revoke")
REFUSAL = "refused to {}, a process of a Claude session; run it outside the session"


class Control:
    """Answers control commands."""

    def __init__(
        self,
        approvals: Approvals,
        links: Links,
        tickets: LoginTokens,
        clients: SessionProcesses,
        notices: Notices,
        addresses: dict[str, str],
        stop: Callable[[], None],
        hand_over: Callable[[bool], int],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._approvals = approvals
        self._links = links
        self._tickets = tickets
        self._clients = clients
        self._notices = notices
        self._addresses = addresses
        self._stop = stop
        self._hand_over = hand_over
        self._started = clock()

    def __call__(self, command: dict[str, Any], pid: int) -> Reply:
        """The answer to a command that this process sends."""
        name = str(command.get("command"))
        row = COMMANDS.get(name)
        if row is None:
            return {"error": msg("unknown control command {!r}", name)}
        # A way into the inbox is good for later, and so is a pass: no session gets
        # one, whether it asks or not.
        if command.get("inbox") is True and self._clients.suspect_pid(pid, True):
            command = {**command, "inbox": False}
        ever = name in FOR_PERSONS
        suspect = None
        if name not in FOR_SESSIONS:
            suspect = self._clients.suspect_pid(pid, any_session=ever)
        if suspect is not None:
            self._approvals.refuse("", name, str(suspect))
            return {"error": REFUSAL.format(suspect)}
        return row(self, command)

    def status(self, command: dict[str, Any]) -> Reply:
        """What `status` shows and `doctor` judges."""
        waiting = self._approvals.requests.waiting()
        # On this machine its user needs no ticket.
        needs = command.get("inbox") is True and not self._links.stay_here
        ticket = self._tickets.make() if needs else ""
        return {
            "version": __version__,
            "pid": os.getpid(),
            "started": self._started,
            **self._addresses,
            "inbox": self._links.inbox_url(ticket),
            "channels": self._approvals.notifier.states(),
            "ledger": self._approvals.ledger_state(),
            "waiting_count": len(waiting),
            "waiting": [
                {
                    "id": request.id,
                    "tool": request.tool_name,
                    "summary": request.detail or request.summary,
                    "project": request.project,
                    "danger": list(request.danger),
                    "shown": request.shown,
                    "seconds_left": self._approvals.seconds_left(request.id),
                }
                for request in waiting[:SHOWN_WAITING]
            ],
        }

    def release(self, command: dict[str, Any]) -> Reply:
        """Hand what waits back to the terminals."""
        return {"released": self._approvals.release_all("released by the user")}

    def stop(self, command: dict[str, Any]) -> Reply:
        """End the server, after this answer is out."""
        released = self._approvals.close()
        self._stop()
        return {"released": released}

    def handover(self, command: dict[str, Any]) -> Reply:
        """End the server and leave what waits to the next one, which starts soon.

        `again`: the same process becomes that one, in its terminal.
        """
        return {"waiting": self._hand_over(command.get("again") is True)}

    def notice(self, command: dict[str, Any]) -> Reply:
        """Send a card that asks nothing."""
        return {"queued": self._notices.command(command)}

    def undone(self, command: dict[str, Any]) -> Reply:
        """`log undo` took rules back: look at the ledger, and show it."""
        return {"undone": self._approvals.learn_undo(str(command.get("id")))}

    def passes(self, command: dict[str, Any]) -> Reply:
        """Every pass that is good now."""
        passes = self._approvals.passes
        return {"passes": [describe(passes, row) for row in passes.all()]}

    def pass_add(self, command: dict[str, Any]) -> Reply:
        """Make a pass for an exact rule."""
        rule, session = str(command.get("rule")), str(command.get("session") or "")
        project = "" if session else str(command.get("project") or "")
        minutes, calls = command.get("minutes"), command.get("calls")
        if not isinstance(minutes, int) or not isinstance(calls, int):
            return {"error": "minutes and calls are whole numbers"}
        if not (session or project):
            return {"error": "a pass is bound to a project or a session"}
        passes = self._approvals.passes
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
        self._approvals.tell_pass(row)
        return {"pass": describe(passes, row)}

    def pass_revoke(self, command: dict[str, Any]) -> Reply:
        """End one pass, or all."""
        ended = self._approvals.revoke_passes(str(command.get("id")), "command")
        return {"revoked": [row.id for row in ended]}


COMMANDS: dict[str, Callable[[Control, dict[str, Any]], Reply]] = {
    "status": Control.status,
    "release": Control.release,
    "stop": Control.stop,
    "handover": Control.handover,
    "notice": Control.notice,
    "undone": Control.undone,
    "passes": Control.passes,
    "pass_add": Control.pass_add,
    "pass_revoke": Control.pass_revoke,
}
