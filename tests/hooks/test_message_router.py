"""The options of a query: hooks if there are any, and never the same hooks twice."""

from __future__ import annotations

import json
from pathlib import Path

from tests.hooks.test_application import COMMAND, SCRIPT, application, hooks, write


def test_options_without_hooks_have_no_such_field(tmp_path: Path) -> None:
    """Scenario: buildQueryOptions 中添加 hooks 字段"""
    write(tmp_path, {"permissions": {}})
    options = application(tmp_path).message_router.build_query_options()
    assert options == {"cwd": str(tmp_path)}


def test_skipped_file_brings_its_permissions_along(tmp_path: Path) -> None:
    rules = {"permissions": {"allow": ["Bash(ls)"]}}
    write(tmp_path, {**hooks("PreToolUse", SCRIPT, COMMAND), **rules})
    options = application(tmp_path).message_router.build_query_options()
    assert len(options["hooks"]["PreToolUse"][0].hooks) == 2
    assert json.loads(options["settings"]) == {**rules, "disableAllHooks": True}


def test_client_is_kept_from_running_the_same_hooks_again(tmp_path: Path) -> None:
    write(tmp_path, hooks("PreToolUse", COMMAND))
    options = application(tmp_path).message_router.build_query_options()
    assert options["cwd"] == str(tmp_path)
    assert json.loads(options["settings"])["disableAllHooks"] is True
    (matcher,) = options["hooks"]["PreToolUse"]
    assert matcher.matcher == "Bash"
