"""Frames from the unix socket: which service answers which kind.

A hook's request goes to the approvals, an event that may make a notice to the notices,
a control command to `handlers.control`.  What cannot be understood is released: the
terminal is always a way out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from feishuperm.errors import FeishupermError, PayloadError, ProtocolError
from feishuperm.lib.json import has_more_parts
from feishuperm.lib.log import log
from feishuperm.lib.process_tree import SessionProcesses
from feishuperm.lib.socket_owner import peer_pid
from feishuperm.messages import pack
from feishuperm.models.payload import AskPayload, PreToolUsePayload, parse_payload
from feishuperm.protocol.frames import parse_control, parse_notice, parse_request
from feishuperm.services.approvals import Approvals
from feishuperm.services.notices import Notices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.server.connection import HookConnection

MAX_PARTS = 20_000  # decoding and showing more would be felt by everybody who waits


class PermissionHandler:
    """Answers hook connections."""

    def __init__(
        self,
        approvals: Approvals,
        notices: Notices,
        control: Callable[[dict[str, Any], int], dict[str, Any]],
        clients: SessionProcesses,
    ) -> None:
        self._approvals = approvals
        self._notices = notices
        self._control = control
        self._clients = clients

    def on_frame(self, connection: HookConnection, kind: bytes, body: bytes) -> None:
        """One frame; whatever is wrong with it ends in a release."""
        try:
            if kind == b"Q":
                self._request(connection, body)
            elif kind == b"N":
                self._notice(connection, body)
            elif kind == b"C":
                connection.send(b"J", self._command(connection, body))
            else:
                raise ProtocolError(f"unknown frame kind {kind!r}")
        except FeishupermError as error:
            log(f"refused a frame from a hook: {error}", "warning")
            connection.send(b"R")

    def _request(self, connection: HookConnection, body: bytes) -> None:
        """A hook asks: register it, or say what it is instead."""
        hook = parse_request(body)
        try:
            if len(hook.raw) > MAX_PARTS and has_more_parts(hook.raw, MAX_PARTS):
                raise PayloadError("the event has more parts than anybody can look at")
            payload = parse_payload(hook.raw)
        except PayloadError:
            self._notices.unreadable(hook.project)
            raise
        if isinstance(payload, PreToolUsePayload):
            self._approvals.let_through(payload, connection)
            return
        if not isinstance(payload, AskPayload) or not payload.waits():
            connection.send(b"E")
            return
        self._clients.add(_pid(connection), payload.session_id())
        self._approvals.register(hook, payload, connection)

    def _notice(self, connection: HookConnection, body: bytes) -> None:
        noticed = parse_notice(body)
        payload = parse_payload(noticed.raw)
        if payload.hook_event_name() == "SessionEnd":
            self._approvals.session_over(payload.session_id())
        self._approvals.presence.notice(payload, time.time())
        self._notices.event(payload, noticed.project)
        connection.send(b"R")

    def _command(self, connection: HookConnection, body: bytes) -> bytes:
        reply = self._control(parse_control(body), _pid(connection))
        return json.dumps(pack(reply)).encode()

    def on_close(self, connection: HookConnection) -> None:
        """The hook hung up."""
        self._approvals.hook_gone(connection)


def _pid(connection: HookConnection) -> int:
    """The process at the other end; 0 where that cannot be told."""
    return 0 if connection.sock is None else peer_pid(connection.sock)
