"""The built file as the hook of another agent, below a process that plays the agent.

Whoever starts a hook is taken for the agent, which must not answer itself: so the test,
which taps, stands outside.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

from tests.agents.parts import said_in
from tests.conftest import wait_until
from tests.served import Served

AGENT = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"


class AgentHook:
    """A hook that an agent has started."""

    def __init__(
        self, server: Served, agent: str, event: dict[str, Any] | bytes, **more: str
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", AGENT, server.pyz, "hook", agent],
            env={**server.environ, "CLAUDE_PROJECT_DIR": "/elsewhere", **more},
            cwd=server.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        raw = event if isinstance(event, bytes) else json.dumps(event).encode()
        with suppress(BrokenPipeError):
            self.process.stdin.write(raw)
            self.process.stdin.close()
        self.process.stdin = None
        server.hooks.append(self.process)

    def finish(self, timeout: float = 60) -> bytes:
        """What it printed; it never fails, and says nothing besides."""
        out, err = self.process.communicate(timeout=timeout)
        assert (self.process.returncode, err) == (0, b"")
        return out

    def decision(self) -> dict[str, Any]:
        """What an agent reads in it."""
        return said_in(self.finish())

    def kill(self) -> None:
        """End it as an agent does, without a signal that it could hear."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.stdout and not self.process.stdout.closed:
            self.process.communicate(timeout=30)


def asks(
    server: Served, agent: str, event: dict[str, Any], **more: str
) -> tuple[AgentHook, str]:
    """A hook that waits for a person, and the id of its request."""
    before = set(server.waiting())
    hook = AgentHook(server, agent, event, **more)
    new = wait_until(lambda: set(server.waiting()) - before)
    return hook, str(new.pop())
