"""A mistake on the command line is one line and a hint."""

from __future__ import annotations

import pytest

from feishuperm.errors import UsageError
from feishuperm.lib.arguments import ArgumentParser


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["--numbe", "1"], "unrecognized arguments: --numbe 1"),
        (["--number", "x"], "argument --number: invalid int value: 'x'"),
        (["--number"], "argument --number: expected one argument"),
    ],
)
def test_mistake_is_told_with_the_command_that_explains(
    args: list[str], text: str
) -> None:
    parser = ArgumentParser("demo", "try it")
    parser.add_argument("--number", type=int)
    with pytest.raises(UsageError) as caught:
        parser.parse_args(args)
    assert str(caught.value) == f"demo: {text}"
    assert caught.value.hint == "feishuperm demo --help"


def test_help_begins_with_usage_and_ends_with_0(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        ArgumentParser("demo", "try it").parse_args(["--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("usage: feishuperm demo [-h]\n\ntry it\n")
