"""Where a path leads, by its text alone."""

from __future__ import annotations

from feishuperm.danger.paths import (
    INSIDE,
    NOWHERE,
    OUTSIDE,
    TEMPORARY,
    UNSURE,
    PathRules,
    governs,
    is_secret,
)
from tests.tables import every_row

GROUND = PathRules("/home/me/app", "/home/me")


@every_row(
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
    ground = PathRules("/tmp/me/app", "/tmp/me")
    assert ground.place("~/old", "/tmp/me/app").kind == OUTSIDE
    assert ground.place("/tmp/other", "/tmp/me/app").kind == TEMPORARY
    assert ground.place("build", "/tmp/me/app").kind == INSIDE


def test_home_inside_of_the_project_is_still_a_whole_home() -> None:
    ground = PathRules("/home", "/home/me")
    for path in ("~", "~/*", "/home/me", "/home"):
        assert ground.place(path, "/home")[0::3] == (INSIDE, True), path
    assert not ground.place("me/x", "/home").whole


def test_part_of_the_project_that_only_the_run_will_tell_is_not_all_of_it() -> None:
    assert not GROUND.place("./\0", "/home/me/app").whole


@every_row(
    ("path", "foreign", "shown"),
    [
        ("src/a", False, "src/a"),
        ("~/x", False, "~/x"),
        ("/home/me/x", False, "~/x"),
        ("/home/me/app", False, "~/app"),
        ("~+/a", False, "a"),
        ("~root/x", False, "/home/root/x"),
        ("/srv/\0/x", False, "/srv/…/x"),
        ("src/a", True, "src/a"),
    ],
)
def test_path_is_shown_as_a_person_reads_it(
    path: str, foreign: bool, shown: str
) -> None:
    place = GROUND.place(path, "/home/me/app", foreign)
    assert GROUND.show(place.path) == shown


def test_nothing_is_inside_on_another_machine() -> None:
    assert GROUND.place("src/a", "/home/me/app", foreign=True).kind == OUTSIDE
    assert GROUND.place("/tmp/x", "/home/me/app", foreign=True).kind == TEMPORARY


@every_row(
    ("path", "device"),
    [("/dev/sda", True), ("/dev/shm/x", False), ("/dev/tty1", False), ("dev/x", False)],
)
def test_device_is_known(path: str, device: bool) -> None:
    assert GROUND.place(path, "/home/me/app").device is device


@every_row(
    ("path", "secret"),
    [
        (".env", True),
        ("a/.env.production", True),
        (".env.example", False),
        ("x.PEM", True),
        ("credentials.json", True),
        ("environment", False),
        ("a.py", False),
    ],
)
def test_secret_is_known_by_its_name(path: str, secret: bool) -> None:
    assert is_secret(path) is secret


def test_relative_path_from_nobody_knows_where_is_unsure() -> None:
    assert GROUND.place("x", "\0").kind == UNSURE
    assert GROUND.place("/srv/x", "\0").kind == OUTSIDE


@every_row(
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


@every_row(
    ("path", "text", "keys"),
    [
        ("package.json", '"postinstall": "x"', ["danger.packages"]),
        (
            "a/package.json",
            '"install" : "x", "preinstall":"y"',
            ["danger.packages"] * 2,
        ),
        ("package.json", '"install:all": "x", "test": "postinstall"', []),
        ("package.md", '"postinstall": "x"', []),
        ("composer.json", '"post-install-cmd": ["x"]', ["danger.packages"]),
        ("a/.npmrc", "a=1\n@b:registry=https://c", ["danger.packages"]),
        (".npmrc", "# registry=https://c\nfund=false", []),
        ("a/.cargo/config.toml", 'replace-with = "x"', ["danger.packages"]),
        ("a/config.toml", 'replace-with = "x"', []),
        (".env", "A=1\nexport PATH=/tmp/x:$PATH", ["danger.inject"]),
        (".env", "PATH=/usr/bin\nUP_PATH=/tmp/x", []),
        (".npmrc", "registry=https://c\n" * 1000, ["danger.packages"] * 8),
    ],
)
def test_text_in_a_file_governs_others(path: str, text: str, keys: list[str]) -> None:
    assert [key for key, _ in governs(path, text)] == keys
