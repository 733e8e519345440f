"""Hooks as an SDK takes them: matchers, callbacks, and their turns."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from feishuperm.hooks.message_router import Turns
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


def test_callbacks_of_one_tool_call_take_turns_and_others_do_not_wait(
    bench: Bench, tmp_path: Path
) -> None:
    words = [HookCallback("command", f"echo {n}$TOOL_USE_ID >> order") for n in "123"]
    slow = HookCallback("command", "test $TOOL_USE_ID = b || sleep 1; echo s >> order")
    group = HookGroup("", [slow, *words])
    (matcher,) = bench.manager.convert_to_sdk_format(
        HooksConfig([("PreToolUse", group)])
    )["PreToolUse"]

    async def both() -> None:
        calls = [
            hook({**EVENT, "tool_use_id": id}, id, {})
            for id in "ab"
            for hook in matcher.hooks
        ]
        await asyncio.gather(*calls)

    asyncio.run(both())
    lines = (tmp_path / "order").read_text().split()
    assert lines == ["s", "1b", "2b", "3b", "s", "1a", "2a", "3a"]


def test_turns_are_in_the_order_of_coming_and_leave_nothing_behind() -> None:
    turns = Turns()
    order: list[str] = []

    def work(name: str, fails: bool = False) -> Any:
        async def steps() -> dict[str, Any]:
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")
            if fails:
                raise ValueError(name)
            return {}

        return steps

    async def all_of_them() -> list[Any]:
        key, other = ("PreToolUse", "t1"), ("PreToolUse", "t2")
        return await asyncio.gather(
            turns.run(key, work("a", fails=True)),
            turns.run(key, work("b")),
            turns.run(other, work("c")),
            return_exceptions=True,
        )

    failed, *_ = asyncio.run(all_of_them())
    assert isinstance(failed, ValueError)
    assert order.index("a ends") < order.index("b begins")
    assert order.index("c begins") < order.index("a ends")
    del failed  # its traceback holds what it held
    assert not turns.locks
