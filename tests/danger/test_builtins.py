"""What a shell does itself: what is printed, remembered, and where one stands."""

from __future__ import annotations

from feishuperm.danger.interpreter import DOWNLOADED, SECRET, Arg, Output
from feishuperm.danger.paths import UNKNOWN
from tests.danger.stage import Stage
from tests.tables import every_row


@every_row(
    ("command", "text"),
    [
        ("echo a b", "a b\n"),
        (r"echo -e 'r\x6d'", "rm\n"),
        (r"echo -n 'r\x6d'", "r\\x6d\n"),
        ("printf '%s-%s|' a b c", "a-b|c-|"),
        (r"printf '\162m'", "rm"),
        ("printf -v x a", ""),
        ("pwd", "/home/me/app"),
        ("mktemp -d", "/tmp/x"),
        ("which -a rm", "rm"),
        ("basename /a/b", None),
    ],
)
def test_what_is_printed_is_as_plain_as_can_be(command: str, text: str | None) -> None:
    assert Stage().play(command).text == text


def test_printed_text_comes_from_where_its_words_do() -> None:
    fetched = [Arg("a"), Arg("b", DOWNLOADED, "a.b")]
    for name in ("echo", "printf"):
        assert Stage().follow(name, fetched).trace == (DOWNLOADED, "a.b")
    assert Stage().play("basename", Output("x", SECRET, "y")).what == "y"


@every_row(
    ("folders", "cwd"),
    [
        (["src"], "/home/me/app/src"),
        (["src", "../.."], "/home/me"),
        ([""], "/home/me"),
        (["/srv", "-"], UNKNOWN),
        (["$X"], UNKNOWN),
        (["$X", "y"], UNKNOWN),
        (["$X", "/srv"], "/srv"),
        (["$X", "~/y"], "/home/me/y"),
    ],
)
def test_folder_is_changed_as_far_as_it_is_known(folders: list[str], cwd: str) -> None:
    stage = Stage()
    for folder in folders:
        words = [Arg(folder.replace("$X", UNKNOWN))] if folder else []
        stage.follow("cd", words)
    assert stage.state.cwd == cwd


def test_cdpath_may_lead_anywhere() -> None:
    stage = Stage()
    stage.play("export CDPATH=/srv")
    stage.play("cd src")
    assert stage.state.cwd == UNKNOWN


def test_variables_are_set_and_listed() -> None:
    stage = Stage()
    assert stage.play("export -x A=1 B").origin == ""
    assert stage.state.variables["A"] == ("1",) and "B" not in stage.state.variables
    assert stage.play("export -p").origin == SECRET
    assert stage.play("set").origin == SECRET
    stage.play("set -e -- a b")
    assert [stage.state.variables[name] for name in "12"] == [("a",), ("b",)]


def test_lines_are_read_into_variables() -> None:
    stage = Stage()
    stage.play("read -p Name x", Output("a\n\nb", DOWNLOADED))
    assert stage.state.variables["x"] == ("a", "b")
    assert stage.state.variables["x"][0].origin == DOWNLOADED
    stage.play("read x", Output(None))
    assert stage.state.variables["x"] == (UNKNOWN,)
    assert "Name" not in stage.state.variables


@every_row(
    ("command", "calls"),
    [
        ("trap 'rm x' EXIT", ["rm x"]),
        ("trap - EXIT", []),
        ("trap -l", []),
        ("alias a='rm x' b", ["rm x"]),
    ],
)
def test_what_will_be_run_is_followed_now(command: str, calls: list[str]) -> None:
    stage = Stage()
    stage.play(command)
    assert stage.calls == calls


def test_number_of_a_process_stands_for_its_name() -> None:
    assert Stage().play("pgrep -f feishuperm").what == "feishuperm"
