"""Application: configuration, hooks and router, wired in the order of their needs.

`Application` serves a program that uses an SDK.  `run_interactive()` is the short way
of the `hook` command: one event, the callbacks that Claude Code itself cannot run; it
loads nothing else, because that is compiled anew at each event.
"""

from __future__ import annotations

from feishuperm.engine.callbacks import CallbackLoader
from feishuperm.engine.hook_manager import HookManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class Application:
    """Everything a query in one project needs."""

    def __init__(
        self, root: str, environ: Mapping[str, str], warn: Callable[[str], None]
    ) -> None:
        from feishuperm.engine.config_manager import ConfigManager
        from feishuperm.engine.message_router import MessageRouter

        self.config_manager = ConfigManager(environ, warn)
        self.config = self.config_manager.load_project_config(root)
        paths = self.config.hook_script_paths
        self.hook_manager = HookManager(root, environ, warn, paths)
        self.hook_manager.load_hooks(self.config.hooks)
        self.message_router = MessageRouter(self.hook_manager, self.config)


def run_interactive(
    fields: dict[str, Any],
    environ: Mapping[str, str],
    warn: Callable[[str], None],
    error: Callable[[str], None] | None = None,
    alarm: Callable[[int], object] = lambda seconds: None,
) -> dict[str, Any] | None:
    """The `feishuperm.callbacks` of one event; None when there is nothing to say.

    `fields` is the decoded event.  The result is what the client reads on stdout.
    """
    if "FEISHUPERM_RUN" in environ:
        from feishuperm.engine.run_mark import is_of_a_run

        if is_of_a_run(environ, fields.get("session_id")):  # it registers them itself
            return None
    loader = CallbackLoader(environ, warn)
    root = loader.project_root(str(fields.get("cwd") or ""))
    config = loader.load_callbacks(root, str(fields.get("hook_event_name")))
    if not config.callbacks:
        return None
    hooks = HookManager(root, environ, warn, config.hook_script_paths, error, alarm)
    hooks.load_hooks(config.callbacks)
    return hooks.run(fields, fields.get("tool_use_id"))


def has_callbacks(
    event: str, environ: Mapping[str, str], warn: Callable[[str], None]
) -> bool:
    """Whether anything is to run for an event that cannot be read."""
    loader = CallbackLoader(environ, warn)
    return bool(loader.load_callbacks(loader.project_root(""), event).callbacks)
