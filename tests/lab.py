"""The real Claude Code client in a laboratory: own home, own project, scripted model.

Nothing of the caller is visible to the client: `env -i`, a HOME and a configuration of
its own, a dummy key, a base URL on loopback.  There is no network namespace, because
client, model and feishuperm's server must meet on 127.0.0.1 while the test process sits
outside; the base URL and the switches in `Lab.environ` keep the client off the network.
Several labs may run at once: every path, port and tmux socket belongs to one of them.
Only processes started here are ended, by pid.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tests.fakes import mcp
from tests.fakes.model import Model, Turn
from tests.system_parts import find_claude
from tests.terminal import tmux

T = TypeVar("T")
L = TypeVar("L", bound="Lab")
KEY = "sk-ant-dummy-" + "0123456789abcdef" * 4
QUIET = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
)
# Questions of the model: one answer, and several.
COLOUR = {
    "question": "Which color?",
    "header": "Color",
    "options": [
        {"label": "Red", "description": "warm"},
        {"label": "Blue", "description": "cold"},
    ],
    "multiSelect": False,
}
SIZES = {
    "question": "Which sizes?",
    "header": "Size",
    "options": [
        {"label": "S", "description": "small"},
        {"label": "L", "description": "large"},
    ],
    "multiSelect": True,
}


def claude_binary() -> str:
    """The real client, or an empty string where it is not installed."""
    path = find_claude()
    return path if os.access(path, os.X_OK) else ""


def wait_for(probe: Callable[[], T], what: str, timeout: float = 30) -> T:
    """The first true result of `probe`. Raises TimeoutError that says `what`."""
    until = time.monotonic() + timeout
    while True:
        result = probe()
        if result:
            return result
        if time.monotonic() > until:
            raise TimeoutError(f"no {what} within {timeout:g} s")
        time.sleep(0.03)


class Lab:
    """One isolated client with its project, its settings and its model."""

    model_type: type[Model] = Model

    def __init__(
        self,
        binary: str,
        script: Mapping[str, Iterable[Turn]] | None = None,
        pyz: str = "",
    ) -> None:
        # Not below pytest's own folder: a unix socket's path holds 103 bytes.
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="lab-"))
        self.binary = binary
        self.pyz = pyz
        self.home = self._folder("home")
        self.config = self._folder("home/.claude")
        self.project = self._folder("project")
        self.events = self._folder("events")
        self.socket = os.path.join(self.root, "permission.sock")
        self.model = self.model_type(script)
        # Some versions start interactive sessions in auto mode, which asks nobody.
        self.settings: dict[str, Any] = {"permissions": {"defaultMode": "default"}}
        self.extra: dict[str, str] = {}
        self.state: dict[str, Any] = {}  # of the client itself, beside the usual
        self.sessions: list[Session] = []
        subprocess.run(["git", "init", "-q", self.project], check=True)

    def __enter__(self: L) -> L:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for session in self.sessions:
            session.close()
        self.model.close()
        slug = re.sub(r"[^A-Za-z0-9]", "-", self.project)
        shutil.rmtree(self.root, ignore_errors=True)
        # The client keeps the output of tasks outside the lab.
        shutil.rmtree(f"/tmp/claude-{os.getuid()}/{slug}", ignore_errors=True)

    def _folder(self, name: str) -> str:
        path = os.path.join(self.root, name)
        os.makedirs(path)
        return path

    # Files.

    def write(self, name: str, data: str) -> str:
        """A file in the project, or anywhere by an absolute path."""
        path = os.path.join(self.project, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(data)
        return path

    def read(self, name: str) -> str:
        """A file of the project; a missing one is empty."""
        try:
            with open(os.path.join(self.project, name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    # Hooks.

    def hook(
        self,
        event: str,
        command: str,
        matcher: str | None = None,
        timeout: int | None = None,
    ) -> None:
        """Register a shell command in the project's settings.json."""
        entry: dict[str, Any] = {"type": "command", "command": command}
        if timeout is not None:
            entry["timeout"] = timeout
        group: dict[str, Any] = {"hooks": [entry]}
        if matcher is not None:
            group["matcher"] = matcher
        self.settings.setdefault("hooks", {}).setdefault(event, []).append(group)

    def pyz_hook(
        self,
        event: str,
        *arguments: str,
        matcher: str | None = None,
        timeout: int | None = None,
    ) -> None:
        """Register the built file: `pyz_hook("Stop", "supervisor")`."""
        command = shlex.join([self.pyz, *(arguments or ("hook",))])
        self.hook(event, command, matcher, timeout)

    def record(self, event: str, matcher: str | None = None) -> None:
        """Register a hook that decides nothing and remembers each event."""
        path = os.path.join(self.events, event + ".jsonl")
        self.hook(event, "cat >> " + shlex.quote(path), matcher)

    def recorded(self, event: str) -> list[dict[str, Any]]:
        """The events that `record` has seen."""
        lines = self.read(os.path.join(self.events, event + ".jsonl")).splitlines()
        return [json.loads(line) for line in lines]

    def with_mcp(self) -> None:
        """Give the project the MCP server `lab`."""
        server = {"type": "stdio", "command": sys.executable, "args": [mcp.__file__]}
        self.write(".mcp.json", json.dumps({"mcpServers": {"lab": server}}))
        self.settings["enableAllProjectMcpServers"] = True

    # Running.

    def environ(self) -> dict[str, str]:
        """Everything the client gets to see of the world."""
        path = os.path.dirname(sys.executable) + ":/usr/local/bin:/usr/bin:/bin"
        return {
            "HOME": self.home,
            "PATH": path,
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": KEY,
            "PERMISSION_SOCKET_PATH": self.socket,
            **dict.fromkeys(QUIET, "1"),
            **self.extra,
        }

    def prepare(self) -> None:
        """Write settings.json, and the state of a client that has been used before."""
        self.write(".claude/settings.json", json.dumps(self.settings, indent=2))
        known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        approved = {"approved": [KEY[-20:]], "rejected": []}
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": approved,
            "projects": {self.project: known},
            **self.state,
        }
        path = os.path.join(self.home, ".claude.json")
        if not os.path.exists(path):
            self.write(path, json.dumps(state))

    def session(self, prompt: str = "", *arguments: str) -> Session:
        """An interactive session; a prompt is sent as its first message."""
        self.prepare()
        words = [prompt] if prompt else []
        session = Session(self, [self.binary, *arguments, *words])
        self.sessions.append(session)
        return session

    def run(
        self, prompt: str, *arguments: str, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """A session in print mode, to its end."""
        self.prepare()
        return subprocess.run(
            [self.binary, "-p", *arguments, prompt],
            env=self.environ(),
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )

    def run_pyz(
        self, *arguments: str, stdin: str = "", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """The built file in the lab's own environment and project."""
        return subprocess.run(
            [self.pyz, *arguments],
            env=self.environ(),
            cwd=self.project,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )


class Session:
    """An interactive client inside a tmux server of its own."""

    def __init__(self, lab: Lab, command: Sequence[str]) -> None:
        self.lab = lab
        self.tmux_socket = os.path.join(lab.root, f"tmux{len(lab.sessions)}.sock")
        environ = [f"{key}={value}" for key, value in lab.environ().items()]
        start = ("new-session", "-d", "-s", "s", "-x", "150", "-y", "50")
        inside = ("-c", lab.project, "--", "env", "-i", *environ, *command)
        self.tmux(*start, *inside)
        self.pid = int(self.tmux("list-panes", "-t", "s", "-F", "#{pane_pid}") or 0)

    def tmux(self, *arguments: str) -> str:
        return tmux(self.tmux_socket, self.lab.home, *arguments)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "s")

    def keys(self, *keys: str) -> None:
        """Press keys by tmux's names: "Enter", "Escape", "Down"."""
        self.tmux("send-keys", "-t", "s", *keys)

    def press(self, key: str, until: str, times: int = 5, every: float = 10) -> None:
        """Press a key till the screen matches: a dialog just drawn may miss it."""
        for _ in range(times - 1):
            self.keys(key)
            try:
                self.wait(until, timeout=every)
                return
            except TimeoutError:
                continue
        self.keys(key)
        self.wait(until)

    def type(self, words: str) -> None:
        """Type a line and send it once the client has shown it."""
        self.tmux("send-keys", "-t", "s", "-l", words)
        self.wait(re.escape(words[:40]))
        self.keys("Enter")

    def wait(self, pattern: str, timeout: float = 30) -> str:
        """The screen once it matches. Raises TimeoutError with the last screen."""
        try:
            return wait_for(lambda: self._matching(pattern), pattern, timeout)
        except TimeoutError as error:
            raise TimeoutError(f"{error}:\n{self.screen()}") from None

    def _matching(self, pattern: str) -> str:
        screen = self.screen()
        return screen if re.search(pattern, screen) else ""

    def alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except OSError:
            return False
        return bool(self.pid)

    def close(self) -> None:
        """End the client, then its tmux server."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.alive():
                os.kill(self.pid, number)
                self._wait_for_end()
        self.tmux("kill-server")

    def _wait_for_end(self) -> None:
        try:
            wait_for(lambda: not self.alive(), "end of the client", 3)
        except TimeoutError:
            pass  # the next signal is stronger
