"""Without an install there is nothing to undo, and that is no failure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from feishuperm.commands import uninstall
from feishuperm.lib.files import locked
from feishuperm.setup.steps import Manifest


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


def test_what_an_install_has_left_meanwhile_is_undone_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    @contextmanager
    def after_an_install(path: str) -> Iterator[None]:
        manifest = Manifest(os.environ)
        manifest.open()
        manifest.save("commands", {"path": "/x"})
        with locked(path):
            yield
            assert not os.path.exists(path), "nobody else may write it meanwhile"

    monkeypatch.setattr(uninstall, "locked", after_an_install)
    undone: list[str] = []
    monkeypatch.setattr(
        "feishuperm.setup.steps.undo_files",
        lambda record: undone.append(record["path"]) or [],
    )
    assert uninstall.main([]) == 0
    assert undone == ["/x"]
