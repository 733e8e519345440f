"""Branches are read from files; nothing there can block or break the reader."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from feishuperm.lib.files import current_branch, main_folder, top_folder
from tests.tables import every_row


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
        ("ref: refs/remotes/x\n", ""),
        ("ref: refs/heads/a b\n", ""),
        ("ref: refs/heads/\x1b[31m\n", ""),
        ("secret: 0123456789abcdef\n", ""),
        ("root:x:0:0:root:/root:/bin/bash\n", ""),
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


@every_row("directory", ["", ".", "relative/path", "/", "/nowhere/at/all"])
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


def test_head_is_not_read_through_a_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef01234567\n")
    git = tmp_path / "clone" / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").symlink_to(secret)
    assert current_branch(str(git.parent)) == ""
    linked = tmp_path / "linked"
    linked.mkdir()
    repository(tmp_path / "other", "ref: refs/heads/main\n")
    (linked / ".git").symlink_to(tmp_path / "other" / ".git")
    assert current_branch(str(linked)) == ""
    pointing = tmp_path / "pointing"
    pointing.mkdir()
    (pointing / "pointer").write_text(f"gitdir: {tmp_path}/other/.git\n")
    (pointing / ".git").symlink_to("pointer")
    assert current_branch(str(pointing)) == ""


def test_worktree_belongs_to_a_repository_that_names_it_back(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", "ref: refs/heads/main\n")
    kept = main / ".git" / "worktrees" / "side"
    kept.mkdir(parents=True)
    for name in ("side", "thief"):
        (tmp_path / name / "in").mkdir(parents=True)
        (tmp_path / name / ".git").write_text(f"gitdir: {kept}\n")
    (kept / "gitdir").write_text(f"{tmp_path}/side/.git\n")
    side, thief = str(tmp_path / "side"), str(tmp_path / "thief")
    assert top_folder(f"{side}/in") == side
    assert main_folder(side) == str(main)
    assert main_folder(thief) == thief
    assert main_folder(str(main)) == str(main)
