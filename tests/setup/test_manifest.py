"""The manifest has a folder of its own, for this user alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.setup.steps import Manifest


def test_home_that_cannot_be_written_is_one_line(environ: dict[str, str]) -> None:
    Path(environ["HOME"], ".local").write_text("a file where a folder should be")
    with pytest.raises(FeishupermError, match=r"cannot make .*\.local"):
        Manifest(environ).open()


def test_records_are_private_and_read_back(environ: dict[str, str]) -> None:
    manifest = Manifest(environ)
    before = os.umask(0)
    try:
        manifest.open()
        manifest.save("x", {"path": "/\udcff"})
    finally:
        os.umask(before)
    assert Manifest(environ).record("x") == {"path": "/\udcff"}
    assert Manifest(environ).record("y") == {}
    path = Path(manifest.path)
    assert path.stat().st_mode & 0o777 == 0o600
    for folder in Manifest(environ).record("state")["folders"]:
        assert os.stat(folder).st_mode & 0o777 == 0o700


def test_folder_that_others_can_write_to_is_taken_back(environ: dict[str, str]) -> None:
    manifest = Manifest(environ)
    os.makedirs(manifest.folder)
    os.chmod(manifest.folder, 0o777)
    manifest.open()
    assert os.stat(manifest.folder).st_mode & 0o777 == 0o700


def test_manifest_of_another_shape_is_none(environ: dict[str, str]) -> None:
    manifest = Manifest(environ)
    manifest.open()
    Path(manifest.path).write_text("[]")
    assert Manifest(environ).records == {}


@pytest.mark.parametrize("kept", ["[]", "null", '{"program": 5, "config": [null]}'])
def test_record_that_somebody_edited_is_none(
    environ: dict[str, str], kept: str
) -> None:
    manifest = Manifest(environ)
    manifest.open()
    Path(manifest.path).write_text(kept)
    assert Manifest(environ).records == {}
