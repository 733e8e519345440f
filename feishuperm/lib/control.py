"""One question to the running server over its unix socket, one answer back.

It knows the frame of a control command and nothing of what the commands mean.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any

from feishuperm import wire
from feishuperm.errors import FeishupermError
from feishuperm.messages import MADE, msg, unpack


class NotRunningError(FeishupermError):
    """No server of feishuperm answers on the socket."""


class Reply(dict[str, Any]):
    """An answer, or a part of it; a server of another version may leave out parts."""

    def __missing__(self, key: str) -> Any:
        raise FeishupermError(
            msg("the server says nothing of {!r}: it is of another version", key),
            "feishuperm restart",
        )


def ask_server(
    command: Mapping[str, Any], timeout: float = 5.0, path: str = ""
) -> dict[str, Any]:
    """The server's answer to a control command; `path` defaults to the setting.

    Raises NotRunningError, and FeishupermError when the server refuses the command.
    """
    address = os.fsencode(path) or wire.socket_path(os.environb)
    try:
        sock = wire.connect(address)
    except wire.NoServer:
        raise NotRunningError(
            msg("the server is not running on {}", os.fsdecode(address)),
            "feishuperm doctor",
        ) from None
    kind, body = b"", b""
    with suppress(OSError), closing(sock):
        sock.settimeout(timeout)
        sock.sendall(wire.frame(b"C", json.dumps(dict(command)).encode()))
        kind, body = wire.receive_frame(sock)
    if kind != b"J":
        raise NotRunningError(
            msg("the server did not answer within {:g} seconds", timeout),
            msg("feishuperm status, or restart it: feishuperm install"),
        )
    try:
        answer = json.loads(body, object_hook=Reply)
    except ValueError:
        answer = None
    if isinstance(answer, Reply):
        answer = unpack(answer, answer.pop(MADE, {}))
    if not isinstance(answer, Reply):
        raise FeishupermError(
            msg("the server answered with something else than an object")
        )
    if isinstance(answer.get("error"), str):
        raise FeishupermError(answer["error"])
    return answer


def is_listening(path: str) -> bool:
    """Whether a process of this user holds a socket, answering or not."""
    try:
        wire.connect(os.fsencode(path)).close()
    except wire.NoServer:
        return False
    return True
