"""Branches are read from files; nothing there can block or break the reader."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from feishuperm.lib.git import current_branch


def repository(folder: Path, head: str) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text(head)
    return folder


@pytest.mark.parametrize(
    ("head", "branch"),
    [
        ("ref: refs/heads/main\n", "main"),
        ("ref: refs/heads/feature/a-b\n", "feature/a-b"),
        ("ref: refs/heads/分支\n", "分支"),
        ("ref: refs/remotes/x\n", "refs/remotes/x"),
        ("0123456789abcdef0123456789abcdef01234567\n", "01234567"),
        ("ref: refs/heads/.invalid\n", ""),
        ("", ""),
    ],
)
def test_branch_is_what_head_names(tmp_path: Path, head: str, branch: str) -> None:
    assert current_branch(str(repository(tmp_path, head))) == branch


def test_folder_inside_a_repository_has_its_branch(tmp_path: Path) -> None:
    repository(tmp_path, "ref: refs/heads/main\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert current_branch(str(inner)) == "main"
    assert current_branch(f"{tmp_path}/not/there/") == "main"


@pytest.mark.parametrize("relative", [False, True])
def test_worktree_has_its_own_branch(tmp_path: Path, relative: bool) -> None:
    main = repository(tmp_path / "main", "ref: refs/heads/main\n")
    kept = main / ".git" / "worktrees" / "side"
    kept.mkdir(parents=True)
    (kept / "HEAD").write_text("ref: refs/heads/side\n")
    side = tmp_path / "side"
    side.mkdir()
    target = os.path.relpath(kept, side) if relative else str(kept)
    (side / ".git").write_text(f"gitdir: {target}\n")
    assert current_branch(str(side)) == "side"


@pytest.mark.parametrize(
    "directory", ["", ".", "relative/path", "/", "/nowhere/at/all"]
)
def test_no_repository_is_no_branch(directory: str) -> None:
    assert current_branch(directory) == ""


def test_odd_files_are_no_branch_and_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".git")
    assert current_branch(str(tmp_path)) == ""
    folder = tmp_path / "b"
    (folder / ".git").mkdir(parents=True)
    os.mkfifo(folder / ".git" / "HEAD")
    assert current_branch(str(folder)) == ""
    assert current_branch("/with\0nul") == ""


def test_long_head_is_read_only_so_far(tmp_path: Path) -> None:
    repository(tmp_path, "ref: refs/heads/" + "x" * 100_000)
    assert len(current_branch(str(tmp_path))) <= 4096
