"""Where a path leads, by its text alone."""

from __future__ import annotations

import pytest

from feishuperm.danger.places import INSIDE, NOWHERE, OUTSIDE, TEMPORARY, UNSURE, Ground

GROUND = Ground("/home/me/app", "/home/me")


@pytest.mark.parametrize(
    ("path", "kind", "whole"),
    [
        ("src/a.py", INSIDE, False),
        ("./src/../b", INSIDE, False),
        (".", INSIDE, True),
        ("*", INSIDE, True),
        ("/home/me/app", INSIDE, True),
        ("..", OUTSIDE, True),
        ("../other", OUTSIDE, False),
        ("/home/me/app2", OUTSIDE, False),
        ("~", OUTSIDE, True),
        ("~/x", OUTSIDE, False),
        ("/", OUTSIDE, True),
        ("/etc", OUTSIDE, True),
        ("/tmp/x", TEMPORARY, False),
        ("/tmp", TEMPORARY, True),
        ("/tmp/*", TEMPORARY, True),
        ("/tmp/../srv/x", OUTSIDE, False),
        ("/dev/null", NOWHERE, False),
        ("\0/x", UNSURE, False),
    ],
)
def test_path_is_placed(path: str, kind: str, whole: bool) -> None:
    place = GROUND.place(path, "/home/me/app")
    assert (place.kind, place.whole) == (kind, whole)


def test_home_in_a_temporary_folder_is_a_home_all_the_same() -> None:
    ground = Ground("/tmp/me/app", "/tmp/me")
    assert ground.place("~/old", "/tmp/me/app").kind == OUTSIDE
    assert ground.place("/tmp/other", "/tmp/me/app").kind == TEMPORARY
    assert ground.place("build", "/tmp/me/app").kind == INSIDE


def test_relative_path_from_nobody_knows_where_is_unsure() -> None:
    assert GROUND.place("x", "\0").kind == UNSURE
    assert GROUND.place("/srv/x", "\0").kind == OUTSIDE


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("~/.bashrc", "danger.startup"),
        ("/root/.profile", "danger.startup"),
        ("~/.ssh/config", "danger.keys"),
        (".github/workflows/x.yml", "danger.ci"),
        (".claude/settings.local.json", "danger.permissions"),
        (".git/hooks/pre-commit", "danger.permissions"),
        (".bashrc", ""),
        (".env", ""),
    ],
)
def test_file_that_governs_others_is_known(path: str, key: str) -> None:
    assert GROUND.place(path, "/home/me/app").protected == key
