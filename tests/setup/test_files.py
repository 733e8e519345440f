"""What an install makes is for its user alone, and goes away without a trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from feishuperm.errors import FileError
from feishuperm.setup.steps import (
    check_writable,
    make_folder,
    missing_folders,
    remove_file,
    remove_folders,
    replace_link,
)


def test_folders_are_private_whatever_the_umask_and_leave_no_trace(
    tmp_path: Path,
) -> None:
    folder = str(tmp_path / "a" / "b")
    made = missing_folders(folder, str(tmp_path / "a"))
    assert made == [str(tmp_path / "a"), folder]
    before = os.umask(0)
    try:
        make_folder(folder)
    finally:
        os.umask(before)
    assert {os.stat(path).st_mode & 0o777 for path in made} == {0o700}
    remove_folders(made)
    assert list(tmp_path.iterdir()) == []


def test_folder_with_somebodys_file_stays(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "mine").write_text("")
    remove_folders([str(folder)])
    assert (folder / "mine").exists()


def test_file_in_the_place_of_a_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=f"cannot make {tmp_path}/file/below"):
        make_folder(str(tmp_path / "file" / "below"))
    remove_file(str(tmp_path / "file" / "below"))  # is not there, which is fine


def test_link_is_replaced_and_no_other_file_is_left(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/old")
    replace_link(str(link), "/new")
    assert os.readlink(link) == "/new"
    assert list(tmp_path.iterdir()) == [link]


def test_file_that_cannot_be_replaced_is_told_beforehand(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    check_writable(str(path))
    path.parent.mkdir()
    path.write_text("")
    path.chmod(0o444)
    with pytest.raises(FileError, match="it is read-only"):
        check_writable(str(path))
    path.chmod(0o644)
    path.parent.chmod(0o555)
    with pytest.raises(FileError, match=r"its folder .* is read-only"):
        check_writable(str(path))
    path.parent.chmod(0o755)
