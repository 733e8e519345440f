"""Application: configuration, hooks and router, wired in the order of their needs.

`Application` serves a program that uses an SDK.  `Interactive` is the way of the `hook`
command: one event, the callbacks that Claude Code itself cannot run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial

from feishuperm.engine.config_manager import ConfigManager
from feishuperm.engine.hook_manager import HookManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Application:
    """Everything a query in one project needs."""

    def __init__(
        self, root: str, environ: Mapping[str, str], warn: Callable[[str], None]
    ) -> None:
        from feishuperm.engine.message_router import MessageRouter

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

        @lru_cache  # like `Trust`, it looks once
        def covers(root: str) -> bool:
            from feishuperm.engine.trust import Trust  # most projects need none

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
