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
from feishuperm.setup.manifest import Manifest


def test_source_tree_cannot_install_itself() -> None:
    with pytest.raises(FeishupermError, match="only a built file"):
        install.main(["--dry-run"])


@pytest.mark.parametrize("argument", ["--dance", "--service=upstart", "extra"])
def test_wrong_argument_is_a_usage_error(argument: str) -> None:
    with pytest.raises(UsageError):
        parser().parse_args([argument])


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
