"""Where settings come from, and who goes before whom."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm import wire
from feishuperm.errors import SettingError, UsageError
from feishuperm.lib import config
from tests.tables import every_row


def write(home: Path, text: str) -> dict[str, str]:
    """An environment whose config.env holds this."""
    folder = home / ".config" / "feishuperm"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.env").write_text(text, "utf-8")
    return {"HOME": str(home)}


def test_environment_then_file_then_default(home: Path) -> None:
    environ = write(home, "FEISHUPERM_LANG=en\nPERMISSION_REQUEST_TIMEOUT=40\n")
    environ["PERMISSION_REQUEST_TIMEOUT"] = "30"
    settings = config.load_settings(environ)
    assert settings.permission_request_timeout == 30
    assert settings.feishuperm_lang == "en"
    assert settings.permission_timeout_action == "deny"


def test_empty_variable_does_not_hide_the_file(home: Path) -> None:
    environ = {**write(home, "FEISHUPERM_LANG=en\n"), "FEISHUPERM_LANG": ""}
    assert config.load_settings(environ).feishuperm_lang == "en"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("FEISHU_AT=all", "all"),
        ("  FEISHU_AT = all  ", "all"),
        ("FEISHU_AT='a b'", "a b"),
        ('FEISHU_AT="a b"', "a b"),
        ("FEISHU_AT=\"a'", "\"a'"),
        ("FEISHU_AT='", "'"),
        ("FEISHU_AT=a=b", "a=b"),
        ("FEISHU_AT=中文", "中文"),
        ("FEISHU_AT=one\nFEISHU_AT=two", "two"),
        ("#FEISHU_AT=x\n\n  # y\n", ""),
        ("FEISHU_AT=x\r", "x"),
        ("FEISHU_AT=$HOME", "$HOME"),
        ("export FEISHU_AT=all", "all"),
        ("  export   FEISHU_AT = all", "all"),
        ("exportFEISHU_AT=x", ""),
    ],
)
def test_line_of_the_file(home: Path, line: str, value: str) -> None:
    assert config.load_settings(write(home, line)).feishu_at == value


def test_missing_file_is_no_error(home: Path) -> None:
    assert config.load_settings({"HOME": str(home)}).feishuperm_lang == "zh"


@pytest.mark.parametrize(
    ("text", "number"), [("nonsense\n", 1), ("# c\n\nA=1\nFEISHU_AT\n", 4)]
)
def test_line_without_equals_sign_is_named(home: Path, text: str, number: int) -> None:
    environ = write(home, text)
    path = config.config_path(environ)
    with pytest.raises(UsageError) as caught:
        config.load_settings(environ)
    assert str(caught.value) == f"{path}, line {number}: expected KEY=VALUE"
    assert config.load_settings(environ, lenient=True).feishuperm_lang == "zh"


def test_directory_as_file_is_named(home: Path) -> None:
    environ = {"HOME": str(home), "FEISHUPERM_CONFIG": str(home)}
    with pytest.raises(UsageError) as caught:
        config.load_settings(environ)
    assert str(caught.value) == f"cannot read {home}: Is a directory"
    assert config.load_settings(environ, lenient=True).feishuperm_lang == "zh"


def test_bad_value_in_the_file(home: Path) -> None:
    environ = write(home, "FEISHUPERM_LANG=fr\n")
    with pytest.raises(SettingError, match="FEISHUPERM_LANG: 'fr' is not zh or en"):
        config.load_settings(environ)


@every_row(
    ("environ", "path"),
    [
        ({"HOME": "/h"}, "/h/.config/feishuperm/config.env"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, "/x/feishuperm/config.env"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": ""}, "/h/.config/feishuperm/config.env"),
        ({"HOME": "/h", "FEISHUPERM_CONFIG": "/my.env"}, "/my.env"),
        ({"HOME": "/h", "FEISHUPERM_CONFIG": ""}, "/h/.config/feishuperm/config.env"),
    ],
)
def test_path_is_the_same_for_hook_and_server(
    environ: dict[str, str], path: str
) -> None:
    encoded = {os.fsencode(key): os.fsencode(value) for key, value in environ.items()}
    assert wire.config_path(encoded) == os.fsencode(path)
    assert config.config_path(environ) == path


@every_row(
    ("environ", "config_dir", "state_dir", "claude_dir"),
    [
        (
            {"HOME": "/h"},
            "/h/.config/feishuperm",
            "/h/.local/state/feishuperm",
            "/h/.claude",
        ),
        (
            {
                "HOME": "/h",
                "XDG_CONFIG_HOME": "/c",
                "XDG_STATE_HOME": "/s",
                "CLAUDE_CONFIG_DIR": "/cc",
            },
            "/c/feishuperm",
            "/s/feishuperm",
            "/cc",
        ),
    ],
)
def test_folders(
    environ: dict[str, str], config_dir: str, state_dir: str, claude_dir: str
) -> None:
    assert config.config_dir(environ) == config_dir
    assert config.state_dir(environ) == state_dir
    assert config.claude_dir(environ) == claude_dir


@given(st.binary())
def test_hook_reads_any_file_without_failing(data: bytes) -> None:
    values = wire.parse_config(data)
    assert all(b"\n" not in value for value in values.values())


KEYS = st.from_regex(r"\A[A-Z_]{1,12}\Z")
VALUES = st.text(
    st.characters(
        exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), exclude_characters="\"'"
    )
)


@given(st.dictionaries(KEYS, VALUES))
def test_written_values_are_read_back(values: dict[str, str]) -> None:
    text = "".join(f"{key}={value}\n" for key, value in values.items())
    read = wire.parse_config(text.encode())
    assert read == {key.encode(): value.encode() for key, value in values.items()}


def test_home_is_the_variable_then_the_account() -> None:
    account = pwd.getpwuid(os.getuid()).pw_dir
    assert config.home({"HOME": "/h"}) == "/h"
    assert config.home({}) == config.home({"HOME": ""}) == account
    path = os.path.join(account, ".config/feishuperm/config.env")
    assert config.config_path({}) == path


def test_nobody_s_home_is_neither_read_nor_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    assert config.load_settings({}).feishuperm_lang == "zh"
    assert wire.socket_path({}) == wire.DEFAULT_SOCKET
    for folder in (config.config_dir, config.state_dir, config.claude_dir):
        with pytest.raises(NotADirectoryError):
            os.makedirs(folder({}))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The administrator's folder, whose files look like root's."""
    folder = tmp_path / "etc"
    folder.mkdir(mode=0o755)
    monkeypatch.setattr(wire, "SYSTEM_CONFIG", os.fsencode(folder / "config.env"))
    real = os.stat

    def stat(path: Any, **options: Any) -> Any:
        found = real(path, **options)
        ours = str(path).startswith(str(folder)) and found.st_uid == os.geteuid()
        return SimpleNamespace(st_uid=0, st_mode=found.st_mode) if ours else found

    monkeypatch.setattr(config.os, "stat", stat)
    return folder


def test_administrator_goes_last_by_config_and_first_by_policy(
    home: Path, system: Path
) -> None:
    environ = write(home, "FEISHU_URGENT=off\n") | {"FEISHUPERM_CARD": "full"}
    (system / "config.env").write_text(
        "FEISHUPERM_LANG=en\nFEISHU_URGENT=app\nPERMISSION_SOCKET_PATH=/run/a.sock\n"
    )
    settings = config.load_settings(environ)
    assert (settings.feishuperm_lang, settings.feishu_urgent) == ("en", "off")
    assert settings.permission_socket_path == "/run/a.sock"
    encoded = {b"HOME": os.fsencode(home)}
    assert wire.socket_path(encoded) == b"/run/a.sock"  # the hook finds it too
    policy = system / "policy.env"
    policy.write_text("FEISHUPERM_CARD=title\nPERMISSION_SOCKET_PATH=/run/b.sock\n")
    policy.chmod(0o644)
    settings = config.load_settings(environ)
    assert settings.feishuperm_card == "title"
    assert settings.permission_socket_path == "/run/a.sock"
    assert config.policy_in_force() == f"{policy} sets FEISHUPERM_CARD"


@pytest.mark.parametrize(("name", "mode"), [("policy.env", 0o664), (".", 0o777)])
def test_policy_that_others_may_write_is_not_obeyed_and_said(
    home: Path, system: Path, name: str, mode: int
) -> None:
    policy = system / "policy.env"
    policy.write_text("FEISHUPERM_CARD=title\n")
    policy.chmod(0o644)
    (system / name).chmod(mode)
    assert config.load_settings(write(home, "")).feishuperm_card == "full"
    said = f"{policy} is not obeyed: only root may own and write {system / name}"
    assert config.policy_in_force() == said.removesuffix("/.")


def test_policy_of_somebody_else_is_not_obeyed(
    home: Path, system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (system / "policy.env").write_text("FEISHUPERM_CARD=title\n")
    other = SimpleNamespace(st_uid=1000, st_mode=0o100644)
    monkeypatch.setattr(config.os, "stat", lambda path: other)
    assert config.load_settings(write(home, "")).feishuperm_card == "full"
    assert "is not obeyed" in config.policy_in_force()


def test_policy_that_cannot_be_read_stops_the_server(home: Path, system: Path) -> None:
    policy = system / "policy.env"
    policy.write_text("title\n")
    policy.chmod(0o644)
    with pytest.raises(UsageError, match="line 1: expected KEY=VALUE"):
        config.load_settings(write(home, ""))
    policy.write_text("FEISHUPERM_CARD=none\n")
    with pytest.raises(SettingError, match="FEISHUPERM_CARD"):
        config.load_settings(write(home, ""))


def test_settings_of_claude_code_that_an_administrator_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MANAGED", "MANAGED_ON_MAC"):
        monkeypatch.setattr(config, name, str(tmp_path))
    more = tmp_path / "managed-settings.d"
    more.mkdir()
    for name in ("b.json", "a.json", "c.txt"):
        (more / name).write_text("{}")
    found = [os.path.relpath(path, tmp_path) for path in config.managed_settings()]
    names = ["managed-settings.d/a.json", "managed-settings.d/b.json"]
    assert found == ["managed-settings.json", *names]
