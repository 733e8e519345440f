"""Which language the command line speaks."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from feishuperm.lib import config as lib_config
from feishuperm.lib.language import language, of_locale, spoken, translate
from tests.tables import every_row


@every_row(
    ("environ", "named"),
    [
        ({}, ""),
        ({"LANG": "C"}, ""),
        ({"LANG": "C.UTF-8"}, ""),
        ({"LANG": "POSIX"}, ""),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_TW"}, "zh"),
        ({"LANG": "en_US.UTF-8"}, "en"),
        ({"LANG": "de_DE@euro"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, ""),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_GB"}, "en"),
        ({"LANG": "en_US", "LC_ALL": ""}, "en"),
    ],
)
def test_language_a_locale_names(environ: dict[str, str], named: str) -> None:
    assert of_locale(environ) == named


def test_settings_count_before_the_locale(tmp_path: Path) -> None:
    config = tmp_path / "config.env"
    environ = {"LANG": "zh_CN.UTF-8", "FEISHUPERM_CONFIG": str(config)}
    assert language(environ) == "zh"
    assert language({**environ, "LANG": "C"}) == "en"
    config.write_text("FEISHUPERM_LANG=en\n")
    assert language(environ) == "en"
    assert language({**environ, "FEISHUPERM_LANG": "zh"}) == "zh"
    config.write_text("FEISHUPERM_LANG=klingon\n")
    assert language(environ) == "zh"
    config.write_text("no line of ours\n")
    assert language(environ) == "zh"


def test_line_is_english_unless_chinese_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEISHUPERM_CONFIG", str(tmp_path / "none"))
    for name, said in (("en", "nothing is installed"), ("zh", "没有安装任何东西")):
        monkeypatch.setenv("FEISHUPERM_LANG", name)
        spoken.cache_clear()
        assert translate("nothing is installed") == said


def test_language_is_decided_once_and_config_env_read_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config.env"
    config.write_text("FEISHUPERM_LANG=zh\n")
    monkeypatch.setenv("FEISHUPERM_CONFIG", str(config))
    monkeypatch.delenv("FEISHUPERM_LANG", raising=False)
    reads: list[str] = []

    def read(path: str) -> dict[str, str]:
        reads.append(path)
        return {"FEISHUPERM_LANG": "zh"}

    monkeypatch.setattr(lib_config, "read_config", read)
    for _ in range(3):
        assert translate("nothing is installed") == "没有安装任何东西"
    assert reads.count(str(config)) == 1


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("gbk", "没有安装任何东西"), ("latin-1", "nothing is installed")],
)
def test_terminal_that_cannot_show_chinese_is_told_in_english(
    encoding: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEISHUPERM_LANG", "zh")
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", stream)
    assert translate("nothing is installed") == said
