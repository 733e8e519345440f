"""Hooks as an SDK takes them: matchers with async callbacks around a HookManager.

No SDK is imported: theirs look at the attributes of a matcher, not at its type.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from feishuperm.engine.hook_manager import HookManager
from feishuperm.engine.hook_output import for_client
from feishuperm.models.hooks import HookCallback, HooksConfig

SdkCallback = Callable[..., Awaitable[dict[str, Any]]]

SLACK = 5  # seconds past our own deadlines before a client gives a callback up


class HookMatcher(NamedTuple):
    """What an SDK's `HookMatcher` is to its client."""

    matcher: str | None
    hooks: list[SdkCallback]
    timeout: float
    on_failure: None = None


class Turns:
    """Lets the callbacks of one occurrence run one after the other, first come first.

    A client sends the callbacks of an event in the order they were registered and
    without waiting; an asyncio.Lock is fair, so that order becomes theirs.
    """

    def __init__(self) -> None:
        # Whoever works or waits holds its lock; then it is forgotten.
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
