"""Application: configuration, hooks and router, wired in the order of their needs.

`Application` serves a program that uses an SDK.  `Interactive` is the way of the `hook`
command: one event, the callbacks that Claude Code itself cannot run.

`RunLock` is the file of a headless run, named by FEISHUPERM_RUN.  A run registers its
own hooks and asks its own questions, so the command hook does nothing for its session.
Every process below inherits the variable, another `claude` included, whose events are
the hook's: so the file lists session ids.  While it is empty the session has only
begun, and cannot have started anything else.

A project's settings can put anything into the environment of a hook, and must not be
able to silence a guard.  So the variable holds no path but a random word, which names a
file in our own folder, and the run keeps that file locked while it lives.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping
from functools import partial

from feishuperm.hooks.config_manager import ConfigManager
from feishuperm.hooks.hook_manager import HookManager
from feishuperm.lib.config import state_dir
from feishuperm.lib.files import open_append

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RUN_VARIABLE = "FEISHUPERM_RUN"


class Application:
    """Everything a query in one project needs."""

    def __init__(
        self, root: str, environ: Mapping[str, str], warn: Callable[[str], None]
    ) -> None:
        from feishuperm.hooks.message_router import MessageRouter

        self.config_manager = ConfigManager(environ, warn)
        self.config = self.config_manager.load_project_config(root)
        self.hook_manager = HookManager(root, environ, warn)
        self.hook_manager.load_hooks(self.config.hooks)
        self.message_router = MessageRouter(self.hook_manager, self.config)


class Interactive:
    """One event of an interactive session: whose it is, and what is to run for it."""

    def __init__(
        self, cwd: str, environ: Mapping[str, str], warn: Callable[[str], None]
    ) -> None:
        self.warn = warn

        def covers(root: str) -> bool:
            from feishuperm.hooks.trust import Trust  # most projects need none

            return Trust(environ).covers(root)

        self.config = ConfigManager(environ, warn, covers)
        self.root = self.config.project_root(cwd)
        self.own = self.config.own_environ(self.root)  # for the user's guards
        trusted = self.own is environ or self.config.is_trusted(self.root)
        self.environ = environ if trusted else self.own  # for our settings

    def has_callbacks(self, event: str) -> bool:
        return bool(self.config.load_callbacks(self.root, event))

    def run(
        self,
        fields: dict[str, Any],
        error: Callable[[str], None] | None = None,
        alarm: Callable[[int], object] = lambda seconds: None,
    ) -> dict[str, Any] | None:
        """What the client reads on stdout; None when there is nothing to say."""
        event = str(fields.get("hook_event_name"))
        callbacks = self.config.load_callbacks(self.root, event)
        if not callbacks:
            return None
        record = partial(record_callback, root=self.root, warn=self.warn)
        hooks = HookManager(self.root, self.own, self.warn, (), error, alarm, record)
        hooks.load_hooks(callbacks)
        return hooks.run(fields, fields.get("tool_use_id"))


def record_callback(
    entry: dict[str, Any], root: str, warn: Callable[[str], None]
) -> None:
    """Put into the ledger what a callback decided; the decision stands in any case."""
    from feishuperm.services.ledger import Ledger  # most callbacks decide nothing

    try:
        Ledger().append({**entry, "project": root})
    except OSError as error:
        warn(f"a callback's decision is not in the ledger: {error}")


class RunLock:
    """The file of one run, which adds ids as it learns them and removes it at last.

    Raises OSError.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.word = os.urandom(16).hex()
        self.path = _run_path(self.word, environ)
        self.fd = open_append(self.path)
        fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def add(self, session_id: str) -> None:
        os.write(self.fd, session_id.encode() + b"\n")

    def remove(self) -> None:
        if self.fd >= 0:
            os.unlink(self.path)
            os.close(self.fd)
            self.fd = -1


def is_of_a_run(environ: Mapping[str, str], session_id: object) -> bool:
    """Whether a session belongs to a headless run that is still alive."""
    word = environ.get(RUN_VARIABLE, "")
    if len(word) != 32 or not word.isalnum():  # no path, whatever it holds
        return False
    path = _run_path(word, environ)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False  # nobody holds it: the run that made it is gone
    except BlockingIOError:
        sessions = os.read(fd, 1 << 16).decode(errors="replace").split()
        return not sessions or session_id in sessions
    except OSError:
        return False
    finally:
        os.close(fd)


def _run_path(word: str, environ: Mapping[str, str]) -> str:
    return os.path.join(state_dir(environ), "runs", word)
