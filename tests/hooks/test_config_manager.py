"""What the settings files say: the valid kept, the rest told by file, place, reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from feishuperm.hooks.config_manager import (
    DEFAULT_SCRIPT_PATHS,
    PLAIN_PATH,
    ConfigManager,
    ProjectConfig,
    merge_settings,
)
from feishuperm.models.hooks import HooksConfig


class Project:
    """A home and a project with settings files, and what was complained about."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.root = folder / "project"
        (self.home / ".claude").mkdir(parents=True)
        (self.root / ".claude").mkdir(parents=True)
        self.complaints: list[str] = []
        environ = {"HOME": str(self.home)}
        self.manager = ConfigManager(environ, self.complaints.append)

    def write(self, name: str, value: Any) -> None:
        text = value if isinstance(value, (str, bytes)) else json.dumps(value)
        data = text.encode() if isinstance(text, str) else text
        (self.root / ".claude" / name).write_bytes(data)

    def forget(self) -> None:
        """What was read before; a process reads each file once."""
        self.manager = ConfigManager(self.manager.environ, self.complaints.append)

    def load(self) -> ProjectConfig:
        return self.manager.load_project_config(str(self.root))

    def headless(self) -> ProjectConfig:
        return self.manager.load_project_config(str(self.root), for_sdk=False)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def entry(kind: str, text: str = "x", **extra: Any) -> dict[str, Any]:
    return {"type": kind, kind: text, **extra}


def hooks(event: str, *entries: Any, **group: Any) -> dict[str, Any]:
    return {"hooks": {event: [{**group, "hooks": list(entries)}]}}


def texts(config: ProjectConfig, event: str) -> list[str]:
    return [one.text for group in config.hooks[event] for one in group.callbacks]


def test_hooks_of_a_project_are_loaded(project: Project) -> None:
    """Scenario: 从 settings.json 加载 hooks 配置"""
    three = [entry("command", "a", timeout=5), entry("script", "b"), entry("prompt")]
    project.write("settings.json", hooks("PostToolUse", *three, matcher="Bash"))
    (group,) = project.load().hooks["PostToolUse"]
    assert group.matcher == "Bash"
    assert [one.type for one in group.callbacks] == ["command", "script", "prompt"]
    assert [one.timeout for one in group.callbacks] == [5.0, 60.0, 60.0]


def test_user_project_and_local_files_add_up_in_this_order(project: Project) -> None:
    user = project.home / ".claude" / "settings.json"
    user.write_text(json.dumps(hooks("Stop", entry("command", "user"))))
    project.write("settings.json", hooks("Stop", entry("command", "project")))
    project.write("settings.local.json", hooks("Stop", entry("command", "local")))
    assert texts(project.load(), "Stop") == ["user", "project", "local"]


def test_home_as_project_is_read_once(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.manager.environ = {"HOME": str(project.root)}
    project.write("settings.json", hooks("Stop", entry("command")))
    assert texts(project.load(), "Stop") == ["x"]


def test_byte_order_mark_is_no_obstacle(project: Project) -> None:
    data = b"\xef\xbb\xbf" + json.dumps(hooks("Stop", entry("command"))).encode()
    project.write("settings.json", data)
    assert texts(project.load(), "Stop") == ["x"]


@pytest.mark.parametrize(
    "data", ["{", "", "[]", '"x"', b"\xff\xfe", "[" * 100000, '{"hooks": NaN}']
)
def test_broken_file_is_a_complaint_and_the_others_stay(
    project: Project, data: str | bytes
) -> None:
    """Scenario: 处理无效的 hooks 配置"""
    project.write("settings.json", data)
    project.write("settings.local.json", hooks("Stop", entry("command")))
    assert texts(project.load(), "Stop") == ["x"]
    (complaint,) = project.complaints
    assert str(project.root / ".claude/settings.json") in complaint


@pytest.mark.parametrize(
    ("value", "place", "reason"),
    [
        ([], "hooks", "not an object"),
        ({"Stop": {}}, "hooks.Stop", "not a list"),
        ({"Stop": ["x"]}, "hooks.Stop[0]", "not an object"),
        ({"Stop": [{}]}, "hooks.Stop[0]", "`hooks` is not a list"),
        ({"Stop": [{"hooks": [3]}]}, "hooks.Stop[0].hooks[0]", "not an object"),
        ({"Stop": [{"hooks": [{}]}]}, "hooks.Stop[0].hooks[0]", "none of command"),
        (
            {"Stop": [{"hooks": [{"type": "command"}]}]},
            "hooks.Stop[0].hooks[0]",
            "`command` is missing",
        ),
        (
            {"Stop": [{"hooks": [entry("command", " ")]}]},
            "hooks.Stop[0].hooks[0]",
            "`command` is missing",
        ),
        (
            {"Stop": [{"hooks": [entry("command", "a\ud800")]}]},
            "hooks.Stop[0].hooks[0]",
            "no usable text",
        ),
        (
            {"Stop": [{"hooks": [entry("prompt", timeout=-1)]}]},
            "hooks.Stop[0].hooks[0]",
            "`timeout`",
        ),
        (
            {"Stop": [{"hooks": [entry("prompt", timeout=True)]}]},
            "hooks.Stop[0].hooks[0]",
            "`timeout`",
        ),
        (
            {"Stop": [{"hooks": [entry("command", **{"if": "Bash(x)"})]}]},
            "hooks.Stop[0].hooks[0]",
            "`if`",
        ),
        (
            {"Stop": [{"hooks": [entry("command", "eval $FILE")]}]},
            "hooks.Stop[0].hooks[0]",
            "`eval`",
        ),
        (
            {"PreToolUse": [{"matcher": "[bad", "hooks": []}]},
            "hooks.PreToolUse[0]",
            "'[bad'",
        ),
        (
            {"PreToolUse": [{"matcher": 3, "hooks": []}]},
            "hooks.PreToolUse[0]",
            "no text",
        ),
    ],
)
def test_invalid_entry_is_skipped_by_name_and_the_rest_kept(
    project: Project, value: Any, place: str, reason: str
) -> None:
    """Scenario: 处理无效的 hooks 配置"""
    project.write("settings.json", {"hooks": value})
    project.write("settings.local.json", hooks("Stop", entry("command", "kept")))
    assert texts(project.load(), "Stop") == ["kept"]
    (complaint,) = project.complaints
    path = project.root / ".claude/settings.json"
    assert complaint.startswith(f"{path}: {place}: ") and reason in complaint


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("PermissionRequest", "TypeScript-only; today's Python SDK runs it too"),
        ("SessionStart", "TypeScript-only: the Python SDK accepts a callback"),
        ("Invented", "no event 'Invented' is known; kept"),
    ],
)
def test_events_with_a_mark_are_told_and_kept(
    project: Project, event: str, words: str
) -> None:
    """Scenario: 支持 TypeScript 独有事件"""
    project.write("settings.json", hooks(event, entry("command")))
    assert texts(project.load(), event) == ["x"]
    assert any(words in complaint for complaint in project.complaints)


def test_newer_event_is_taken_without_a_word(project: Project) -> None:
    project.write("settings.json", hooks("WorktreeCreate", entry("command")))
    assert texts(project.load(), "WorktreeCreate") == ["x"]
    assert project.complaints == []


def test_old_hooks_json_is_told_and_never_read(project: Project) -> None:
    """Scenario: 检测 hooks.json 并警告; Scenario: 不自动加载旧配置"""
    project.write("hooks.json", hooks("Stop", entry("command")))
    assert not project.load().hooks
    (complaint,) = project.complaints
    assert "hooks.json is not read" in complaint and "settings.json" in complaint


def folders(project: Project, words: str) -> tuple[str, ...]:
    """The folders of the callback that has these words."""
    for group in project.load().hooks["Stop"]:
        for callback in group.callbacks:
            if callback.text == words:
                assert callback.origin is not None
                return callback.origin.folders
    raise AssertionError(words)


def test_each_callback_has_the_folders_of_its_own_file(project: Project) -> None:
    """Scenario: 使用默认白名单"""
    assert DEFAULT_SCRIPT_PATHS == ("./.claude/hooks", "./hooks")
    user = project.home / ".claude" / "settings.json"
    user.write_text(json.dumps(hooks("Stop", entry("script", "user"))))
    shared = hooks("Stop", entry("script", "project"))
    project.write("settings.json", shared)
    assert folders(project, "project") == DEFAULT_SCRIPT_PATHS
    assert folders(project, "user") == (f"{project.home}/.claude/hooks", "./hooks")
    local = hooks("Stop", entry("script", "local"))
    project.forget()
    project.write("settings.json", {**shared, "hookScriptPaths": ["a", "b"]})
    project.write("settings.local.json", {**local, "hookScriptPaths": []})
    assert folders(project, "project") == ("a", "b")
    assert folders(project, "local") == ()
    assert folders(project, "user") == (f"{project.home}/.claude/hooks", "./hooks")


@pytest.mark.parametrize("paths", ["a", [""], [3], None])
def test_odd_list_of_folders_is_told_and_the_default_stays(
    project: Project, paths: Any
) -> None:
    value = {**hooks("Stop", entry("script", "x")), "hookScriptPaths": paths}
    project.write("settings.json", value)
    assert folders(project, "x") == DEFAULT_SCRIPT_PATHS
    assert "hookScriptPaths: not a list" in project.complaints[0]


# Whose files.


def with_trust(project: Project, answer: bool) -> ConfigManager:
    """Nothing is covered, or everything."""
    environ = {"HOME": str(project.home)}
    return ConfigManager(environ, project.complaints.append, lambda root: answer)


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_project_that_nobody_trusts_has_no_callbacks(
    project: Project, name: str
) -> None:
    user = project.home / ".claude" / "settings.json"
    user.write_text(json.dumps(listed(entry("command", "mine", event="Stop"))))
    theirs = entry("command", "theirs", event="Stop")
    native = hooks("Stop", entry("script", "s.py"))
    project.write(name, {**native, **listed(theirs), "hookScriptPaths": ["/"]})
    root = str(project.root)
    config = with_trust(project, False).load_callbacks(root, "Stop")
    assert [g.callbacks[0].text for g in config["Stop"]] == ["mine"]
    (complaint,) = project.complaints
    assert f"feishuperm trust {root}" in complaint
    headless = with_trust(project, False).load_project_config(root, for_sdk=False)
    left = headless.left_over(())["Stop"]
    assert [c.text for group in left for c in group.callbacks] == ["mine"]
    trusted = (
        with_trust(project, True).load_project_config(root, for_sdk=False).left_over(())
    )
    texts = [c.text for group in trusted["Stop"] for c in group.callbacks]
    assert texts == ["mine", "s.py", "theirs"]


def test_project_never_decides_permission_requests(project: Project) -> None:
    user = project.home / ".claude" / "settings.json"
    own = entry("command", "mine", event="PermissionRequest")
    user.write_text(json.dumps(listed(own)))
    theirs = entry("command", "theirs", event="PermissionRequest")
    native = hooks("PermissionRequest", entry("script", "s.py"))
    project.write("settings.json", {**native, **listed(theirs)})
    config = with_trust(project, True).load_project_config(
        str(project.root), for_sdk=False
    )
    left = config.left_over(())["PermissionRequest"]
    assert [c.text for group in left for c in group.callbacks] == ["mine"]
    assert all("does not decide" in complaint for complaint in project.complaints)
    assert len(project.complaints) == 2


@pytest.mark.parametrize("trusted", [False, True])
def test_guards_of_the_user_get_nothing_that_a_project_sets(
    project: Project, trusted: bool
) -> None:
    user = project.home / ".claude" / "settings.json"
    user.write_text(json.dumps({"env": {"ENV": "mine", "OTHER": "mine"}}))
    block = {"PATH": "./bin", "BASH_ENV": "x", "FEISHUPERM_RUN": "y", "HOME": "/z"}
    project.write("settings.json", {"env": block})
    project.write("settings.local.json", {"env": {"ENV": "x", "CLAUDE_CONFIG_DIR": 3}})
    own = {"HOME": str(project.home), "CLAUDE_CONFIG_DIR": f"{project.home}/.claude"}
    manager = with_trust(project, trusted)
    manager.environ = {**own, "LANG": "C", **dict.fromkeys(["PATH", "ENV"], "x")}
    kept = {**own, "LANG": "C", "PATH": PLAIN_PATH, "ENV": "mine"}
    assert manager.own_environ(str(project.root)) == kept
    manager.environ = {**own, "LANG": "C"}
    assert manager.own_environ(str(project.root)) is manager.environ


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_what_a_project_sets_is_put_back_as_the_client_was_started(
    project: Project,
) -> None:
    project.write("settings.json", {"env": {"PATH": "./bin", "NEW": "x"}})
    manager = with_trust(project, False)
    own = {"HOME": str(project.home), "CLAUDE_PID": ""}
    client = subprocess.Popen(
        ["/bin/sh", "-c", "echo up; read end"],
        env={"PATH": "/mine", "X": "y"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert client.stdout and client.stdout.readline() == b"up\n"
        own["CLAUDE_PID"] = str(client.pid)
        manager.environ = {**own, "PATH": "./bin", "NEW": "x"}
        assert manager.own_environ(str(project.root)) == {**own, "PATH": "/mine"}
    finally:
        client.kill()
        client.communicate()


def test_local_file_of_the_home_folder_is_the_users_own(tmp_path: Path) -> None:
    project = Project(tmp_path)
    manager = with_trust(project, False)
    manager.environ = {"HOME": str(project.root)}
    project.write("settings.local.json", listed(entry("prompt", event="Stop")))
    assert manager.load_callbacks(str(project.root), "Stop")
    assert project.complaints == []


def test_guard_that_can_never_run_is_kept_to_block(project: Project) -> None:
    guard = {"event": "Stop", "onFailure": "block"}
    project.write(
        "settings.json",
        listed(
            entry("command", "eval $FILE", **guard),
            entry("command", " ", **guard),
            entry("script", "s.py", **guard),
            entry("prompt", event="Stop", onFailure="explode"),
        ),
    )
    groups = project.load().callbacks["Stop"]
    assert [bool(group.callbacks[0].problem) for group in groups] == [True, True, False]
    assert all(group.callbacks[0].blocks for group in groups)
    assert "`eval`" in project.complaints[0] and "it blocks" in project.complaints[0]
    assert "`onFailure`" in project.complaints[-1]


# The two homes.


def listed(*entries: Any) -> dict[str, Any]:
    return {"feishuperm": {"callbacks": list(entries)}}


def test_listed_callbacks_are_loaded_for_their_event_only(project: Project) -> None:
    good = entry("script", "s.py", event="PreToolUse", matcher="Bash")
    broken = entry("nonsense", event="Stop")
    project.write("settings.json", listed(good, broken))
    config = project.manager.load_callbacks(str(project.root), "PreToolUse")
    (group,) = config["PreToolUse"]
    assert group.matcher == "Bash" and group.callbacks[0].text == "s.py"
    assert project.complaints == []
    project.manager.load_callbacks(str(project.root), "Stop")
    assert "feishuperm.callbacks[1]: `type` 'nonsense'" in project.complaints[0]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"feishuperm": []}, "feishuperm.callbacks: not a list"),
        ({"feishuperm": {"callbacks": {}}}, "feishuperm.callbacks: not a list"),
        (listed(3), "feishuperm.callbacks[0]: not an object"),
        (listed(entry("prompt")), "feishuperm.callbacks[0]: `event` is missing"),
        (listed({"event": "Stop", "type": "http"}), "only Claude Code runs 'http'"),
        (listed(entry("prompt", event="PermissionRequest")), "use PreToolUse"),
    ],
)
def test_odd_list_is_told(project: Project, value: Any, words: str) -> None:
    project.write("settings.json", value)
    project.load()
    assert any(words in complaint for complaint in project.complaints)


def test_file_the_client_would_skip_is_told_with_the_cure(project: Project) -> None:
    project.write("settings.json", hooks("PreToolUse", entry("script")))
    project.load()
    (complaint,) = project.complaints
    assert "skips this whole file" in complaint
    assert "`feishuperm.callbacks`" in complaint


def test_headless_leaves_to_the_client_what_it_runs(project: Project) -> None:
    odd = [entry("command", **{"if": "Bash(x)"}), {"type": "http"}, entry("prompt")]
    project.write(
        "settings.json",
        {**hooks("PostToolUse", *odd), **listed(entry("prompt", "p", event="Stop"))},
    )
    config = project.headless()
    assert config.skippable() == []
    assert list(config.left_over(())) == ["Stop"]
    assert project.complaints == []


def test_headless_takes_over_a_file_only_if_the_client_skips_it(
    project: Project,
) -> None:
    own = [entry("command", "c"), entry("script", "s.py")]
    http = {"type": "http", "url": "http://127.0.0.1/"}
    value = hooks("PostToolUse", *own, http, matcher="Bash")
    project.write("settings.json", {**value, "permissions": {"allow": ["Read"]}})
    project.write("settings.local.json", hooks("PostToolUse", entry("command", "no")))
    config = project.headless()
    assert kinds(config.left_over(())) == ["c", "s.py"]
    assert kinds(config.left_over({"projectSettings"})) == ["s.py"]
    (file,) = config.skippable()
    assert file.source == "projectSettings"
    assert file.rest["permissions"] == {"allow": ["Read"]}
    assert "hooks" not in file.rest, "the switch beside it would turn them off"


def kinds(config: HooksConfig) -> list[str]:
    return [one.text for group in config["PostToolUse"] for one in group.callbacks]


def test_merged_settings_keep_every_list(project: Project) -> None:
    one = {"permissions": {"allow": ["a"], "defaultMode": "plan"}, "model": "x"}
    two = {"permissions": {"allow": ["a", "b"], "deny": ["c"]}, "model": "y"}
    assert merge_settings([one, two]) == {
        "permissions": {"allow": ["a", "b"], "defaultMode": "plan", "deny": ["c"]},
        "model": "y",
    }


def test_project_is_the_variable_then_the_folder(project: Project) -> None:
    assert project.manager.project_root("/a/b") == "/a/b"
    project.manager.environ = {"CLAUDE_PROJECT_DIR": "/c"}
    assert project.manager.project_root("/a/b") == "/c"
