"""Which language the command line speaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.lib.tongue import language, of_locale


@pytest.mark.parametrize(
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
