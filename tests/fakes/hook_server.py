"""The server's end of the hook socket, scripted: every connection plays one part."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence

ANSWER = (
    b'{"hookSpecificOutput": {"hookEventName": "PermissionRequest", '
    b'"decision": {"behavior": "allow"}}}\n'
)
EVENT = (
    b'{"session_id":"s-1","transcript_path":"/tmp/t.jsonl","cwd":"/tmp",'
    b'"permission_mode":"default","hook_event_name":"PermissionRequest",'
    b'"tool_name":"Bash","tool_input":{"command":"npm run build"}}'
)
Part = Callable[[socket.socket], None]


def frame(kind: bytes, body: bytes = b"") -> bytes:
    return (len(body) + 1).to_bytes(4, "big") + kind + body


DECIDE = frame(b"A", b"55") + frame(b"D", ANSWER)


def sends(data: bytes) -> Part:
    """A part that sends this and hangs up."""
    return lambda connection: connection.sendall(data)


def read_frame(connection: socket.socket) -> tuple[bytes, bytes]:
    """One whole frame, or two empty strings."""
    with connection.makefile("rb") as file:
        size = int.from_bytes(file.read(4), "big")
        data = file.read(size)
    return data[:1], data[1:]


class HookServer:
    """Listens at once; `requests` holds the fields of every Q frame it has read.

    The first connection plays the first part, the last part is repeated for the rest.
    """

    def __init__(self, path: str, parts: Sequence[Part] = (sends(DECIDE),)) -> None:
        self.path = path
        self.parts = list(parts)
        self.requests: list[list[bytes]] = []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        self.socket.listen(128)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(20)
                part = self.parts.pop(0) if len(self.parts) > 1 else self.parts[0]
                self._play(connection, part)

    def _play(self, connection: socket.socket, part: Part) -> None:
        try:
            _, body = read_frame(connection)
            self.requests.append(body.split(b"\0", 4))
            part(connection)
        except OSError:
            pass  # the client has gone: its test says whether it should have

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(20)
        if os.path.exists(self.path):
            os.unlink(self.path)

    def __enter__(self) -> HookServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
