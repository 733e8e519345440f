"""MessageRouter: the options of a query, with its hooks as an SDK takes them.

No SDK is imported: an SDK looks at the attributes of a matcher, not at its type.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from feishuperm.hooks.config_manager import ProjectConfig, merge_settings
from feishuperm.hooks.hook_manager import SLACK, HookManager, for_client
from feishuperm.models.hooks import HookCallback, HooksConfig

SdkCallback = Callable[..., Awaitable[dict[str, Any]]]


class HookMatcher(NamedTuple):
    """What an SDK's `HookMatcher` is to its client."""

    matcher: str | None
    hooks: list[SdkCallback]
    timeout: float
    on_failure: None = None


class MessageRouter:
    """Builds what `ClaudeAgentOptions(**options)` takes."""

    def __init__(self, hook_manager: HookManager, config: ProjectConfig) -> None:
        self.hook_manager = hook_manager
        self.config = config

    def build_query_options(self) -> dict[str, Any]:
        """The options of a query in this project; `hooks` only if there are any."""
        options: dict[str, Any] = {"cwd": self.config.root}
        hooks = self.get_hooks_for_sdk()
        if hooks:
            # What keeps the client from running the same hooks out of the same files;
            # callbacks of an SDK are not touched by this switch.  A file the client
            # skips for a `script` in it comes along, so that its permissions hold.
            skipped = merge_settings([file.rest for file in self.config.skippable()])
            options["hooks"] = hooks
            options["settings"] = json.dumps({**skipped, "disableAllHooks": True})
        return options

    def get_hooks_for_sdk(self) -> dict[str, list[HookMatcher]]:
        return self.hook_manager.convert_to_sdk_format()


class Turns:
    """Runs the callbacks of one occurrence one after the other, first come first.

    A client sends the callbacks of an event in the order they were registered and
    without waiting; an asyncio.Lock is fair, so that order becomes theirs.
    """

    def __init__(self) -> None:
        # A callback that works or waits holds its lock; then the lock is forgotten.
        self.locks: WeakValueDictionary[tuple[str, str | None], asyncio.Lock]
        self.locks = WeakValueDictionary()

    async def run(
        self, key: tuple[str, str | None], work: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        lock = self.locks.setdefault(key, asyncio.Lock())
        async with lock:
            return await work()


def matchers(manager: HookManager, config: HooksConfig) -> dict[str, list[HookMatcher]]:
    """Event -> matchers, one per group, with one callback per hook."""
    turns = Turns()
    converted: dict[str, list[HookMatcher]] = {}
    for event, group in config.pairs():
        hooks = [sdk_callback(manager, hook, turns) for hook in group.callbacks]
        # Callbacks of one event take turns, so the last may wait for all others.
        timeout = config.seconds(event) + SLACK
        matcher = HookMatcher(group.matcher or None, hooks, timeout)
        converted.setdefault(event, []).append(matcher)
    return converted


def sdk_callback(
    manager: HookManager, callback: HookCallback, turns: Turns
) -> SdkCallback:
    """One hook as an async function; the work itself is done in a thread."""

    async def hook(
        fields: dict[str, Any], tool_use_id: str | None, context: Any
    ) -> dict[str, Any]:
        event = str(fields.get("hook_event_name", ""))

        async def work() -> dict[str, Any]:
            return await asyncio.to_thread(
                manager.execute, callback, fields, tool_use_id
            )

        return for_client(event, await turns.run((event, tool_use_id), work))

    return hook
