"""A permission request relayed to the server from a thread: a wait that can be ended.

The hook client ends its whole process when the wait is over; a program that does other
things meanwhile cannot.  Here the owner looks at `deadline` and calls `cancel()`.
"""

from __future__ import annotations

import os
import time
from _socket import socket

from feishuperm import wire
from feishuperm.lib.control import NotRunningError


class Wait:
    """One request. `ask()` runs in a thread, everything else in the owner's."""

    def __init__(self) -> None:
        self.deadline = float("inf")  # set once the question is on its way
        self.registered = False  # the server has it, and a person may see it
        self.cancelled = False
        self.sock: socket | None = None

    def ask(self, raw: bytes, path: str, project: str) -> bytes:
        """The hook output a person decided on, empty for none.

        Raises NotRunningError.
        """
        try:
            return wire.ask(
                raw,
                os.fsencode(path),
                wire.new_id(),
                os.fsencode(project),
                self._guard,
                self._connect,
            )
        except wire.NoServer:
            raise NotRunningError("no server is running", "feishuperm serve") from None
        except wire.NotPermission:
            return b""
        finally:
            if self.sock is not None:
                self.sock.close()

    def cancel(self) -> None:
        """End the wait; the server sees the connection close and withdraws the card."""
        self.cancelled = True
        if self.sock is not None:
            try:
                self.sock.shutdown(2)
            except OSError:
                pass

    def _guard(self, seconds: int) -> None:
        self.registered = self.registered or seconds != wire.ACK_SECONDS
        self.deadline = time.monotonic() + seconds

    def _connect(self, path: bytes) -> socket:
        if self.cancelled:
            raise wire.NoServer
        self.sock = wire.connect(path)
        return self.sock
