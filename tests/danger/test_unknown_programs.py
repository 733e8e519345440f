"""Programs that nobody has told us about: their verbs, scripts, and what they run."""

from __future__ import annotations

from feishuperm.danger.interpreter import (
    DOWNLOADED,
    NOTHING,
    SECRET,
    Arg,
    Args,
    Call,
    Output,
)
from feishuperm.danger.wrappers import unknown
from tests.danger.stage import Stage
from tests.tables import every_row


def meet(command: str, flow: Output = NOTHING) -> tuple[Stage, Output]:
    stage = Stage()
    return stage, stage.play(command, flow)


@every_row(
    ("command", "notes"),
    [
        ("mytool deploy", ["danger.publish mytool deploy"]),
        ("mytool destroy x", ["danger.machine mytool destroy x"]),
        ("mytool deploy --dry-run", []),
        ("mytool x deploy", []),
        ("jest deploy", []),
        ("mytool /srv/x", ["fact.outside /srv/x"]),
        ("mytool -o /srv/x", ["danger.overwrite /srv/x", "fact.outside /srv/x"]),
        ("mytool https://a.b", ["fact.host a.b"]),
        ("terraform destroy", ["danger.machine terraform destroy"]),
    ],
)
def test_stranger_is_noted_for_its_first_word_and_paths(
    command: str, notes: list[str]
) -> None:
    assert meet(command)[0].notes == notes


@every_row(
    ("command", "notes"),
    [
        ("/srv/x", ["fact.outside /srv/x"]),
        ("/srv/terraform destroy", ["danger.machine terraform destroy"]),
        ("./deploy-prod.sh", ["danger.publish ./deploy-prod.sh"]),
        ("./deploy.sh --help", []),
        ("./deployment.sh", []),
        ("~/.ssh/id_rsa", ["fact.keys ~/.ssh/id_rsa"]),
    ],
)
def test_script_is_noted_for_its_place_and_name(command: str, notes: list[str]) -> None:
    stage = Stage()
    words = Args(map(Arg, command.split()))
    unknown(stage.state, Call(words[0], words))
    assert stage.notes == notes


@every_row(
    ("command", "calls"),
    [
        ("mytool rm x", ["rm x"]),
        ("mytool rm", []),
        ("mytool a rm x", []),
        ("mytool a -- cat x", ["cat x"]),
        ("mytool a -- nosuch x", []),
        ("mytool a sh -c 'rm x' y", ["sh -c rm x y"]),
        ("mytool --exec 'rm x'", ["rm x"]),
        ("mytool --exec rm", []),
        ("mytool a run rm x", ["rm x"]),
        ("mytool --eval x", ["python -c x"]),
    ],
)
def test_command_among_the_arguments_is_run(command: str, calls: list[str]) -> None:
    assert meet(command)[0].calls == calls


@every_row(
    ("command", "origin"),
    [
        ("gh api x", DOWNLOADED),
        ("mytool https://a.b", DOWNLOADED),
        ("gh auth token", SECRET),
        ("mytool .env", SECRET),
        ("mytool x", ""),
    ],
)
def test_what_a_stranger_prints_may_come_from_elsewhere(
    command: str, origin: str
) -> None:
    assert meet(command)[1].origin == origin


def test_what_flows_in_flows_on_and_may_leave() -> None:
    secret = Output("x", SECRET, ".env")
    stage, out = meet("mytool x", secret)
    assert out == Output(None, SECRET, ".env") and not stage.notes
    assert meet("mytool me@a.b", secret)[0].notes == ["danger.leak .env → me@a.b"]
    assert meet("mytool a.b:/x", secret)[0].notes == ["danger.leak .env → a.b:/x"]


def test_statement_is_handed_to_a_database() -> None:
    assert meet("manage.py dbshell", Output("drop table x"))[0].notes == [
        "danger.data drop table x"
    ]
    assert meet("manage.py shell", Output("drop table x"))[0].notes == []


def test_file_that_came_is_installed() -> None:
    stage = Stage()
    stage.state.keep("x.deb", Output(None, DOWNLOADED, "a.b"))
    stage.play("mytool -i x.deb")
    assert stage.notes == []
    stage.play("dpkg -i x.deb")
    assert stage.notes == ["danger.downloaded a.b"]
