"""Calls that auto mode refused and a person allows: each exactly once.

A one-time allow is for one call (tool, input and folder, by their digest) of one
session, for ten minutes.  It is made by a person's answer and nothing else, and it is
spent by the PreToolUse event of the same call.

The ledger is where they are kept: the answer that makes one is there before it counts,
and that it is spent is there before the client is told.  So a server that starts again
knows what is left, and whatever breaks in between, a call runs once at the most.

A file beside the socket says that there are any: hooks run before every tool call, and
only while it is there do they ask.  It grants nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from feishuperm.lib.log import log
from feishuperm.lib.tool import headline, summary
from feishuperm.messages import message_of
from feishuperm.models.fields import number_at
from feishuperm.models.payload import AskPayload, ToolPayload
from feishuperm.models.request import ALLOWED, Request
from feishuperm.services.ledger import Ledger
from feishuperm.wire import MARK

SECONDS = 600.0
DETAIL = 200  # characters of a command in the ledger, which masks its secrets
RETRY = "retry"  # the ledger's word for one that is spent
# What the model words differently for the same call, and what changes nothing of it.
WORDING = {"Bash": ("description",)}


class OneTimeAllow(NamedTuple):
    """One call that may run."""

    id: str  # of the request whose answer made it
    session: str
    call: str  # digest
    until: float  # monotonic


class OneTimeAllows:
    """Those that are not spent."""

    def __init__(
        self,
        ledger: Ledger,
        socket: str,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._mark = os.fsencode(socket) + MARK
        self._clock = clock
        self._ticks = ticks
        self._rows: dict[str, OneTimeAllow] = {}  # by the id of their requests

    def grant(self, request: Request) -> None:
        """Let the call of a request through, once; the answer is in the ledger."""
        request.until = self._ticks() + SECONDS
        self._rows[request.id] = OneTimeAllow(
            request.id, request.session, request.call, request.until
        )
        self._show_mark()

    def spend(self, payload: ToolPayload) -> str:
        """The id of the allow that a call has just used up; empty: it has none.

        Nothing is let through that could not be written down before.
        """
        self.forget()
        session, call = payload.session_id(), call_digest(payload)
        for row in self._rows.values():
            if session and (row.session, row.call) == (session, call):
                return row.id if self._record(row, payload) else ""
        return ""

    def _record(self, row: OneTimeAllow, payload: ToolPayload) -> bool:
        entry = {
            "id": row.id,
            "action": RETRY,
            "tool": payload.tool_name,
            "summary": summary(payload.tool_name, payload.tool_input),
            "detail": headline(payload.tool_name, payload.tool_input, DETAIL),
            "call": row.call,
            "session": row.session,
            "project": payload.base.cwd,
        }
        try:
            intent = self._ledger.intend(entry)
        except OSError as error:
            log(f"{row.id}: the ledger cannot be written: {error}", "error")
            return False
        del self._rows[row.id]
        self._show_mark()
        self._ledger.finish(intent, {**entry, "event": RETRY})
        return True

    def forget(self) -> None:
        """Drop those whose time is over."""
        now = self._ticks()
        self._rows = {row.id: row for row in self._rows.values() if row.until > now}
        self._show_mark()

    def restore(self, entries: Iterable[dict[str, Any]]) -> None:
        """Learn from the ledger's sealed lines what an earlier server left."""
        now, ticks = self._clock(), self._ticks()
        for entry in entries:
            id = str(entry.get("id"))
            if entry.get("action") == RETRY:
                self._rows.pop(id, None)
                continue
            passed = now - number_at(entry, "ended")
            until = number_at(entry, "until")
            made = entry.get("event") == "request" and entry.get("state") == ALLOWED
            # By both clocks: one can be set, the other starts again with the machine.
            if made and 0 <= passed < SECONDS and ticks < until <= ticks + SECONDS:
                session, call = str(entry.get("session")), str(entry.get("call"))
                self._rows[id] = OneTimeAllow(id, session, call, until)
        self._show_mark()

    def _show_mark(self) -> None:
        """Have the file beside the socket while there is anything to ask for."""
        try:
            if self._rows:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
                os.close(os.open(self._mark, flags | os.O_CLOEXEC, 0o600))
            else:
                os.unlink(self._mark)
        except (FileExistsError, FileNotFoundError):
            pass
        except OSError as error:  # hooks do not ask, or ask for nothing
            log(f"{os.fsdecode(self._mark)}: {message_of(error)}", "warning")


def call_digest(payload: ToolPayload | AskPayload) -> str:
    """What makes a call this one and no other: tool, input and folder."""
    name, wording = payload.tool_name, WORDING.get(payload.tool_name, ())
    said = {k: v for k, v in payload.tool_input.items() if k not in wording}
    spelled = json.dumps([name, said, payload.base.cwd], sort_keys=True)
    return hashlib.sha256(spelled.encode()).hexdigest()
