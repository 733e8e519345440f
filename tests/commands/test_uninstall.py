"""Without an install there is nothing to undo, and that is no failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.commands import uninstall


@pytest.mark.parametrize("args", [[], ["--dry-run"], ["--purge"]])
def test_nothing_installed_is_success(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert uninstall.main(args) == 0
    assert capsys.readouterr().out.startswith("nothing is installed")
