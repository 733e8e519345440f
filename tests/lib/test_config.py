"""Where settings come from: environment first, then config.env, then the default."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

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
