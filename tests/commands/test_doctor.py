"""The doctor's exit code says whether anything fails; JSON is for programs."""

from __future__ import annotations

import json

import pytest

from feishuperm.commands import doctor as command
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.setup.doctor import Row
from feishuperm.tables import sections
from tests.tables import every_row

NUMBERS = [
    number
    for line in sections("lib/feishu_codes.txt")["phone"]
    for number in line.partition(" = ")[0].split()
]


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("warn", 0), ("fail", 1)])
def test_exit_code_tells_of_failures_only(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: str,
    code: int,
) -> None:
    rows = [Row("python", "ok", "\x1b"), Row("file", state, "中文", "repair")]
    monkeypatch.setattr(command, "examine", lambda case: iter(rows))
    assert command.main([]) == code
    assert capsys.readouterr().out.splitlines() == [row.line() for row in rows]
    assert command.main(["--json"]) == code
    output = capsys.readouterr().out
    assert json.loads(output) == [row._asdict() for row in rows]
    assert "\x1b" not in output


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("200340", "card.action.trigger is not subscribed"),
        ("200341", "within 3 seconds"),
        ("200671", "answered it wrongly"),
        ("200672", "a second program"),
        ("200673", "could not draw the new card"),
        ("200830", "could not draw the new card"),
        ("230013", "not available to this person"),
    ],
)
def test_number_of_a_phone_is_explained_with_its_cure(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: str,
    words: str,
) -> None:
    monkeypatch.setenv("FEISHUPERM_LANG", "en")
    assert command.main([number]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{number}: ") and words in said and "\n  -> " in said


@every_row("number", NUMBERS)
def test_every_number_is_explained_in_chinese_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: str
) -> None:
    monkeypatch.setenv("FEISHUPERM_LANG", "zh")
    assert command.main([number]) == 0
    meaning, cure = capsys.readouterr().out.splitlines()
    assert any(word in meaning for word in ("飞书", "应用", "服务", "点击"))
    assert cure.startswith("  -> ")


def test_unknown_number_is_said_to_be_unknown() -> None:
    with pytest.raises(FeishupermError, match="unknown error code: 7"):
        command.main(["7"])
    with pytest.raises(UsageError, match="'abc' is no number"):
        command.main(["abc"])
