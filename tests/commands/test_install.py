"""The arguments of install."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from feishuperm.commands import install
from feishuperm.commands.install import parser
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.lib import files
from feishuperm.setup.steps import Manifest
from tests.tables import every_row


def test_source_tree_cannot_install_itself() -> None:
    with pytest.raises(FeishupermError, match="only a built file"):
        install.main(["--dry-run"])


@every_row("argument", ["--dance", "--service=upstart", "extra"])
def test_wrong_argument_is_a_usage_error(argument: str) -> None:
    with pytest.raises(UsageError):
        parser().parse_args([argument])


@every_row("given", ["99999", "-1", "abc", "", "8080x", "٣", "1" * 5000])
@every_row("form", ["--port {}", "--port={}"])
def test_port_that_cannot_be_is_told_with_what_may_be(given: str, form: str) -> None:
    with pytest.raises(UsageError) as caught:
        parser().parse_args(form.format(given).split(" "))
    assert str(caught.value).startswith("--port: ")
    assert "use 1 to 65535, or 0 for a free one" in str(caught.value)


@every_row("given", ["0", "1", "65535"])
def test_port_is_taken_as_given(given: str) -> None:
    assert parser().parse_args(["--port", given]).port == given


def test_root_does_not_install_into_a_folder_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each place of its own: `sudo -E` may keep a variable though HOME is root's."""
    monkeypatch.setattr(install, "archive_path", lambda: "/x")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(files, "owner", lambda path: int("me" in path.split("/")))
    theirs = tmp_path / "me"
    theirs.mkdir()
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv(name, str(theirs / "below/deeper"))
        with pytest.raises(FeishupermError, match=f"{theirs} belongs to"):
            install.main([])
        monkeypatch.delenv(name)
    with pytest.raises(FeishupermError, match=f"{theirs} belongs to") as caught:
        install.main(["--prefix", str(theirs), "--port", "81"])
    assert f"feishuperm install --prefix {theirs} --port 81" in caught.value.hint
    monkeypatch.chdir(theirs)
    with pytest.raises(FeishupermError, match=f"{theirs} belongs to"):
        install.main(["--project"])
    assert list(theirs.iterdir()) == []


def test_install_goes_by_what_another_one_has_left_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    @contextmanager
    def after_another(path: str) -> Iterator[None]:
        Manifest(os.environ).save("program", {"path": "/x"})
        yield

    class Fake:
        def __init__(self, options: Any, environ: Any) -> None:
            self.records = Manifest(environ).records

        def run(self) -> int:
            assert self.records["program"] == {"path": "/x"}
            return 0

    monkeypatch.setattr(install, "archive_path", lambda: "/x")
    monkeypatch.setattr(install, "locked", after_another)
    monkeypatch.setattr(install, "Install", Fake)
    assert install.main([]) == 0
