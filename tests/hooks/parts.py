"""What tests of the engine are made of: an executor, and a clone from somewhere."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from pathlib import Path
from typing import Any

from feishuperm.commands.trust import Review
from feishuperm.hooks.hook_manager import HookManager
from feishuperm.hooks.trust import Trust
from feishuperm.models.hooks import HookCallback
from feishuperm.services.ledger import Ledger

CONTINUE = {"continue": True}


EVENT = {
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls", "file_path": "/p/a.py"},
    "session_id": "s1",
}


class Bench:
    """A HookManager with a project folder, and what it complained about."""

    def __init__(self, root: Path, *paths: str) -> None:
        self.root = root
        self.complaints: list[str] = []
        node = os.path.dirname(shutil.which("node") or "/usr/bin/node")
        environ = {"PATH": f"{node}:/usr/bin:/bin", "HOME": str(root)}
        folders = paths or ("./.claude/hooks", "./hooks")
        self.manager = HookManager(str(root), environ, self.complaints.append, folders)

    def command(self, text: str, timeout: float = 20, **fields: Any) -> Any:
        callback = HookCallback("command", text, timeout)
        return self.manager.execute_command(callback, {**EVENT, **fields})

    def script(self, name: str, source: str = "", timeout: float = 20) -> Any:
        if source:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(source))
        callback = HookCallback("script", name, timeout)
        return self.manager.execute_script(callback, EVENT, "toolu_1")


class Clone:
    """A home, and a repository in it that came from somewhere."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.root = folder / "src" / "clone"
        self.root.mkdir(parents=True)
        self.home.mkdir()
        (self.root / ".git").mkdir()
        state = str(folder / "state")
        self.environ = {"HOME": str(self.home), "XDG_STATE_HOME": state}
        self.ledger = Ledger(str(folder / "ledger.jsonl"))

    def write(self, name: str, value: Any) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def accepted(self, *folders: Path, value: Any = True, name: str = "") -> None:
        projects = {str(f): {"hasTrustDialogAccepted": value} for f in folders}
        path = self.home / (name or ".claude.json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"projects": projects}))

    def covered(self, folder: Path | None = None, **environ: str) -> bool:
        return Trust({**self.environ, **environ}).covers(str(folder or self.root))

    def review(self) -> Review:
        return Review(str(self.root), self.environ, self.ledger)
