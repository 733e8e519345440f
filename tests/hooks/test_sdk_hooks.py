"""Hooks as an SDK takes them: matchers and callbacks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from feishuperm.models.hooks import HookCallback, HookGroup, HooksConfig
from tests.hooks.parts import EVENT, Bench


def test_config_is_converted_to_matchers_with_a_callback_per_hook(
    bench: Bench,
) -> None:
    """Scenario: 转换配置为 SDK 格式; Scenario: 完整实现 HookManager 方法"""
    pair = [HookCallback("prompt", "a"), HookCallback("command", "exit 1", 7)]
    config = HooksConfig([("PreToolUse", HookGroup("Bash", pair))])
    bench.manager.load_hooks(config)
    (matcher,) = bench.manager.convert_to_sdk_format()["PreToolUse"]
    assert matcher.matcher == "Bash" and len(matcher.hooks) == 2
    assert matcher.timeout >= 67
    first, second = (asyncio.run(hook(EVENT, "t", {})) for hook in matcher.hooks)  # type: ignore[arg-type]
    assert first == {"systemMessage": "a", "continue": True}
    assert second["decision"] == "block"
    assert second["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert bench.manager.convert_to_sdk_format(HooksConfig()) == {}


def test_callbacks_of_one_tool_call_run_beside_each_other(
    bench: Bench, tmp_path: Path
) -> None:
    """As the client's own do: the first waits here for what the second makes."""
    texts = ("until test -e $TOOL_USE_ID; do sleep 0.01; done", "touch $TOOL_USE_ID")
    group = HookGroup("", [HookCallback("command", text) for text in texts])
    config = HooksConfig([("PreToolUse", group)])
    (matcher,) = bench.manager.convert_to_sdk_format(config)["PreToolUse"]

    async def both() -> list[dict[str, Any]]:
        calls = [
            hook({**EVENT, "tool_use_id": id}, id, {})
            for id in "ab"
            for hook in matcher.hooks
        ]
        return await asyncio.gather(*calls)

    assert asyncio.run(both()) == [{"continue": True}] * 4
    assert {"a", "b"} <= {path.name for path in tmp_path.iterdir()}
