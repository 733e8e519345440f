"""What programs have in common: options, their values, and what is behind them."""

from __future__ import annotations

from feishuperm.danger import arguments, files
from feishuperm.danger.scene import DOWNLOADED, SECRET, Arg, Flow
from tests.danger.stage import Stage
from tests.tables import every_row


def args(text: str) -> list[Arg]:
    return [Arg(word) for word in text.split()]


@every_row(
    ("given", "short", "long", "outcome"),
    [
        ("-xvf a", "f", (), True),
        ("-xv a", "f", (), False),
        ("--force=yes", "", ("--force",), True),
        ("--forced", "", ("--force",), False),
        ("--verbose", "v", (), False),
        ("-whatif", "", ("-whatif",), True),
        ("f - a", "f", (), False),
    ],
)
def test_option_is_among_the_arguments(
    given: str, short: str, long: tuple[str, ...], outcome: bool
) -> None:
    assert arguments.has(args(given), short, *long) is outcome


@every_row(
    ("given", "rest"),
    [
        ("-a x y", "x y"),
        ("-o x y", "y"),
        ("-o x -- -o y", "-o y"),
        ("- x", "- x"),
        ("-o", ""),
    ],
)
def test_operands_are_no_options_and_not_their_values(given: str, rest: str) -> None:
    assert arguments.operands(args(given), "-o --out") == rest.split()


@every_row(
    ("given", "before", "command"),
    [
        ("-n 10 rm -rf x", 0, "rm -rf x"),
        ("-i A=b rm -n x", 0, "rm -n x"),
        ("-- -n x", 0, "-n x"),
        ("-k 5 10 rm x", 1, "rm x"),
        ("-n", 0, ""),
    ],
)
def test_command_is_behind_its_wrapper(given: str, before: int, command: str) -> None:
    assert arguments.behind(args(given), "-n -k", before) == command.split()


@every_row(
    ("given", "value"),
    [
        ("-o x", "x"),
        ("-ox", "x"),
        ("-so x", "x"),
        ("--out=x", "x"),
        ("--out x", "x"),
        ("--output x", None),
        ("x -o", None),
    ],
)
def test_value_of_an_option_stands_in_it_or_behind_it(
    given: str, value: str | None
) -> None:
    assert arguments.value_of(args(given), "-o", "--out") == value


def test_value_keeps_where_it_comes_from() -> None:
    value = arguments.value_of([Arg("--out=x", DOWNLOADED, "a.b")], "--out")
    assert value is not None and value.trace == (DOWNLOADED, "a.b")


def test_first_word_of_a_kind_has_its_place() -> None:
    assert arguments.place_of(["a", "-exec\n", ";"], r"-.*") == 1
    assert arguments.place_of(["a", "b"], r"-.*") == 2
    assert arguments.behind_dashes(args("a -- b --")) == ["b", "--"]
    assert arguments.behind_dashes(args("a b")) == []


@every_row(
    ("given", "notes"),
    [
        ("/srv/x", ["fact.outside /srv/x"]),
        ("--config=/srv/x", ["fact.outside /srv/x"]),
        ("@/srv/x", ["fact.outside /srv/x"]),
        ("src/x", []),
        ("--url=https://me@a.b:8/c", ["fact.host a.b"]),
        ("~/.ssh/id_rsa", ["fact.keys ~/.ssh/id_rsa"]),
    ],
)
def test_paths_and_hosts_among_arguments_are_noted(
    given: str, notes: list[str]
) -> None:
    stage = Stage()
    arguments.look(stage.scene, args(given))
    assert stage.notes == notes


def test_what_is_looked_at_flows_on() -> None:
    stage = Stage()
    assert arguments.look(stage.scene, args(".env")).origin == SECRET
    fetched = arguments.look(stage.scene, [Arg("x", DOWNLOADED, "a.b")])
    assert fetched == Flow(None, DOWNLOADED, "a.b")


@every_row(
    ("command", "notes"),
    [
        ("gcc -o /srv/x", ["danger.overwrite /srv/x"]),
        ("gcc -o x", []),
        ("gcc --output=.git/config", ["danger.permissions .git/config"]),
        ("pg_dump -f /srv/x", ["danger.overwrite /srv/x"]),
        ("gcc -f /srv/x", []),
    ],
)
def test_file_that_an_option_names_is_written(command: str, notes: list[str]) -> None:
    stage = Stage()
    name, *rest = command.split()
    arguments.outputs(stage.scene, name, list(map(Arg, rest)))
    assert stage.notes == notes


@every_row(
    ("command", "text"),
    [
        ("sort", "a\nb"),
        ("cut -f1", None),
        ("grep -l x /srv/a b", "/srv/a/x*"),
        ("grep x", "a\nb"),
    ],
)
def test_filter_lets_through_the_words_that_it_does_not_change(
    command: str, text: str | None
) -> None:
    program = arguments.grep if "grep" in command else arguments.look_through
    out = Stage().play(program, command, Flow("a\nb", DOWNLOADED, "a.b"))
    assert out.text == text and out.trace == (DOWNLOADED, "a.b")


def test_what_is_sorted_is_written() -> None:
    stage = Stage()
    stage.play(files.sort, "sort -o .git/config")
    stage.play(arguments.look_through, "cut -o .git/hooks")
    assert stage.notes == ["danger.permissions .git/config"]


def test_some_of_a_list_is_not_all_of_it() -> None:
    stage = Stage()
    everything = Flow("a", "", "docker ps")
    assert stage.play(arguments.grep, "grep x", everything).what == ""
    assert stage.play(arguments.look_through, "cut -f1", everything).what


def test_name_of_our_own_program_is_kept_for_kill() -> None:
    out = Stage().play(arguments.grep, "grep feishuperm")
    assert out.what == "feishuperm"


def test_command_is_named_by_its_first_short_words() -> None:
    shown = arguments.words("git", ["push", "x" * 40, "a\nb", "\0", "1", "2", "3"])
    assert shown == "git push … 1 2"


def test_deed_of_the_table_is_noted_with_its_command() -> None:
    stage = Stage()
    assert arguments.recognise(stage.scene, "Terraform", args("destroy"))
    assert not arguments.recognise(stage.scene, "terraform", args("plan"))
    assert stage.notes == ["danger.machine Terraform destroy"]


def test_value_that_is_a_command_is_run() -> None:
    stage = Stage()
    arguments.run_value(stage.scene, [Arg("-P"), Arg("rm x")], "-P")
    arguments.run_value(stage.scene, [Arg("-Q"), Arg("rm y")], "-P")
    assert stage.calls == ["rm x"]
