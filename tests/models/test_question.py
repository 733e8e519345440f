"""Answers from a form: which choices count, and what one's own words do."""

from __future__ import annotations

from feishuperm.models.form import parse_answers
from tests.tables import every_row

QUESTIONS = [
    {
        "question": "Which colour?",
        "multiSelect": False,
        "options": [{"label": "Red"}, {"label": "Blue"}],
    },
    {
        "question": "Which sizes?",
        "multiSelect": True,
        "options": [{"label": "S"}, {"label": "M"}, {"label": "L"}],
    },
]


@every_row(
    ("form", "answers"),
    [
        ({"q0": ["Blue"]}, {"Which colour?": "Blue"}),
        ({"q0": ["Blue"], "q0_other": [" green "]}, {"Which colour?": "green"}),
        ({"q1": ["S", "L"]}, {"Which sizes?": "S, L"}),
        ({"q1": ["S", "L"], "q1_other": ["XXL"]}, {"Which sizes?": "S, L, XXL"}),
        ({"q1_other": ["none"]}, {"Which sizes?": "none"}),
        (
            {"q0": ["Red"], "q1": ["M"]},
            {"Which colour?": "Red", "Which sizes?": "M"},
        ),
        ({"q0": ["Blue", "Red"]}, {"Which colour?": "Blue"}),
        ({}, "Answer at least one question."),
        ({"q0_other": ["  "], "q7": ["Red"]}, "Answer at least one question."),
        ({"q0": ["Green"]}, "One choice was not offered. Please choose again."),
        (
            {"q0": ["Blue"], "q1": ["S", "XL"]},
            "One choice was not offered. Please choose again.",
        ),
    ],
)
def test_answers_come_from_the_form(
    form: dict[str, list[str]], answers: dict[str, str] | str
) -> None:
    assert parse_answers(QUESTIONS, form) == answers


def test_label_survives_what_a_browser_does_to_line_ends() -> None:
    label = "two\nlines \ud800"
    questions = [{"question": "Q?", "options": [{"label": label}]}]
    form = {"q0": ["two\r\nlines ?"]}
    assert parse_answers(questions, form) == {"Q?": label}
