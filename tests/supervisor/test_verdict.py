"""What a reviewer prints, and the verdict that is found in it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.supervisor.reviewer import (
    FAILED,
    GARBLED,
    SILENT,
    ReviewError,
    read_verdict,
)
from tests.fakes import reviewer as fake
from tests.tables import every_row


def printed(case: str, capsys: pytest.CaptureFixture[str]) -> bytes:
    fake.CASES[case]()
    return capsys.readouterr().out.encode()


@pytest.mark.parametrize(
    "case",
    ["bare", "verbose", "text", "fenced", "fenced-twice", "fenced-plain", "twice"],
)
def test_odd_but_readable_answers_block(
    case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = read_verdict(printed(case, capsys))
    assert (verdict.allow_stop, verdict.feedback) == (False, "tests were not run")


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ("silent", SILENT),
        ("garbled", GARBLED),
        ("wrong-types", GARBLED),
        ("half", GARBLED),
        ("error", FAILED),
    ],
)
def test_unreadable_answers_are_problems(
    case: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ReviewError) as caught:
        read_verdict(printed(case, capsys))
    assert caught.value.problem == problem


@every_row(
    "output",
    ["{" * 100_000, '{"a":' * 100_000, "[" * 100_000, "```\n" * 9000, "null", "[]"],
)
def test_hostile_output_is_refused_quickly(output: str) -> None:
    with pytest.raises(ReviewError):
        read_verdict(output.encode())


@given(st.binary(max_size=300))
def test_any_bytes_give_a_verdict_or_a_review_error(output: bytes) -> None:
    try:
        read_verdict(output)
    except ReviewError:
        pass


@given(st.booleans(), st.text(), st.text(alphabet="ab {}[]`\n\"'", max_size=60))
def test_fenced_verdict_survives_any_prose_before_it(
    allow_stop: bool, feedback: str, prose: str
) -> None:
    answer = json.dumps({"allow_stop": allow_stop, "feedback": feedback})
    result = f"{prose}\n```json\n{answer}\n```"
    envelope = {"type": "result", "is_error": False, "result": result}
    verdict = read_verdict(json.dumps(envelope).encode())
    assert (verdict.allow_stop, verdict.feedback) == (allow_stop, feedback)
