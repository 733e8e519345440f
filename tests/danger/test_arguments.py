"""What programs have in common: options, their values, and what is behind them."""

from __future__ import annotations

from feishuperm.danger.interpreter import DOWNLOADED, SECRET, Arg, Args, Output, shown
from tests.danger.stage import Stage
from tests.tables import every_row


def args(text: str) -> Args:
    return Args(Arg(word) for word in text.split())


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
    assert args(given).has(short, *long) is outcome


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
    assert args(given).operands("-o --out") == rest.split()


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
    assert args(given).behind("-n -k", before) == command.split()


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
    assert args(given).value_of("-o", "--out") == value


def test_value_keeps_where_it_comes_from() -> None:
    value = Args([Arg("--out=x", DOWNLOADED, "a.b")]).value_of("--out")
    assert value is not None and value.trace == (DOWNLOADED, "a.b")


def test_first_word_of_a_kind_has_its_place() -> None:
    assert Args([Arg("a"), Arg("-exec\n"), Arg(";")]).place_of(r"-.*") == 1
    assert args("a b").place_of(r"-.*") == 2
    assert args("a -- b --").behind_dashes() == ["b", "--"]
    assert args("a b").behind_dashes() == []


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
    stage.state.look(args(given))
    assert stage.notes == notes


def test_what_is_looked_at_flows_on() -> None:
    stage = Stage()
    assert stage.state.look(args(".env")).origin == SECRET
    fetched = stage.state.look([Arg("x", DOWNLOADED, "a.b")])
    assert fetched == Output(None, DOWNLOADED, "a.b")


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
    stage.state.outputs(name, Args(map(Arg, rest)))
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
    out = Stage().play(command, Output("a\nb", DOWNLOADED, "a.b"))
    assert out.text == text and out.trace == (DOWNLOADED, "a.b")


def test_what_is_sorted_is_written() -> None:
    stage = Stage()
    stage.play("sort -o .git/config")
    stage.play("cut -o .git/hooks")
    assert stage.notes == ["danger.permissions .git/config"]


def test_some_of_a_list_is_not_all_of_it() -> None:
    stage = Stage()
    everything = Output("a", "", "docker ps")
    assert stage.play("grep x", everything).what == ""
    assert stage.play("cut -f1", everything).what


def test_name_of_our_own_program_is_kept_for_kill() -> None:
    out = Stage().play("grep feishuperm")
    assert out.what == "feishuperm"


def test_command_is_named_by_its_first_short_words() -> None:
    told = shown("git", ["push", "x" * 40, "a\nb", "\0", "1", "2", "3"])
    assert told == "git push … 1 2"


def test_deed_of_the_table_is_noted_with_its_command() -> None:
    stage = Stage()
    assert stage.state.recognise("Terraform", args("destroy"))
    assert not stage.state.recognise("terraform", args("plan"))
    assert stage.notes == ["danger.machine Terraform destroy"]


def test_value_that_is_a_command_is_run() -> None:
    stage = Stage()
    stage.state.run_value(Args([Arg("-P"), Arg("rm x")]), "-P")
    stage.state.run_value(Args([Arg("-Q"), Arg("rm y")]), "-P")
    assert stage.calls == ["rm x"]
