"""What a shell does itself: what is printed, remembered, and where one stands."""

from __future__ import annotations

from feishuperm.danger import builtins
from feishuperm.danger.places import UNKNOWN
from feishuperm.danger.scene import DOWNLOADED, SECRET, Arg, Flow, Program
from tests.danger.stage import Stage
from tests.tables import every_row


@every_row(
    ("program", "command", "text"),
    [
        (builtins.echo, "echo a b", "a b\n"),
        (builtins.echo, r"echo -e 'r\x6d'", "rm\n"),
        (builtins.echo, r"echo -n 'r\x6d'", "r\\x6d\n"),
        (builtins.printf, "printf '%s-%s|' a b c", "a-b|c-|"),
        (builtins.printf, r"printf '\162m'", "rm"),
        (builtins.printf, "printf -v x a", ""),
        (builtins.prints, "pwd", "/home/me/app"),
        (builtins.prints, "mktemp -d", "/tmp/x"),
        (builtins.which, "which -a rm", "rm"),
        (builtins.passes, "basename /a/b", None),
    ],
)
def test_what_is_printed_is_as_plain_as_can_be(
    program: Program, command: str, text: str | None
) -> None:
    assert Stage().play(program, command).text == text


def test_printed_text_comes_from_where_its_words_do() -> None:
    fetched = [Arg("a"), Arg("b", DOWNLOADED, "a.b")]
    for program in (builtins.echo, builtins.printf):
        out = program(Stage().scene, "", fetched, Flow())
        assert out.trace == (DOWNLOADED, "a.b")
    assert builtins.passes(Stage().scene, "", [], Flow("x", SECRET, "y")).what == "y"


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
        builtins.cd(stage.scene, "cd", words, Flow())
    assert stage.scene.cwd == cwd


def test_cdpath_may_lead_anywhere() -> None:
    stage = Stage()
    stage.play(builtins.declare, "export CDPATH=/srv")
    stage.play(builtins.cd, "cd src")
    assert stage.scene.cwd == UNKNOWN


def test_variables_are_set_and_listed() -> None:
    stage = Stage()
    assert stage.play(builtins.declare, "export -x A=1 B").origin == ""
    assert stage.scene.variables["A"] == ("1",) and "B" not in stage.scene.variables
    assert stage.play(builtins.declare, "export -p").origin == SECRET
    assert stage.play(builtins.set_options, "set").origin == SECRET
    stage.play(builtins.set_options, "set -e -- a b")
    assert [stage.scene.variables[name] for name in "12"] == [("a",), ("b",)]


def test_lines_are_read_into_variables() -> None:
    stage = Stage()
    stage.play(builtins.read_variable, "read -p Name x", Flow("a\n\nb", DOWNLOADED))
    assert stage.scene.variables["x"] == ("a", "b")
    assert stage.scene.variables["x"][0].origin == DOWNLOADED
    stage.play(builtins.read_variable, "read x", Flow(None))
    assert stage.scene.variables["x"] == (UNKNOWN,)
    assert "Name" not in stage.scene.variables


@every_row(
    ("program", "command", "calls"),
    [
        (builtins.trap, "trap 'rm x' EXIT", ["rm x"]),
        (builtins.trap, "trap - EXIT", []),
        (builtins.trap, "trap -l", []),
        (builtins.alias, "alias a='rm x' b", ["rm x"]),
    ],
)
def test_what_will_be_run_is_followed_now(
    program: Program, command: str, calls: list[str]
) -> None:
    stage = Stage()
    stage.play(program, command)
    assert stage.calls == calls


def test_number_of_a_process_stands_for_its_name() -> None:
    assert Stage().play(builtins.process, "pgrep -f feishuperm").what == "feishuperm"
