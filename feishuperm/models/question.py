"""The questions of AskUserQuestion, and the answers that a form brings back.

The client takes answers by question text.  Nothing is known here of pages; what comes
from a browser is checked against what was asked, since a page can be changed before it
is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from feishuperm.messages import msg
from feishuperm.models.fields import list_at, text_at


class Question(NamedTuple):
    """One question, whatever shape it came in."""

    text: str
    header: str
    options: tuple[tuple[str, str], ...]  # label, description
    multiple: bool


def read_questions(questions: object) -> list[Question]:
    """The questions that can be asked; what has no text is left out."""
    if not isinstance(questions, list):
        return []
    asked = [_question(entry) for entry in questions if isinstance(entry, dict)]
    return [question for question in asked if question.text]


def _question(entry: dict[str, Any]) -> Question:
    return Question(
        text_at(entry, "question"),
        text_at(entry, "header"),
        tuple(
            (text_at(row, "label"), text_at(row, "description"))
            for row in list_at(entry, "options")
            if text_at(row, "label")
        ),
        entry.get("multiSelect") is True,
    )


def parse_answers(
    questions: object, form: Mapping[str, Sequence[str]]
) -> dict[str, str] | str:
    """The answers by question text, or the text key of what is wrong.

    Fields are `q0`, `q0_other` and so on.  One's own words replace a single choice and
    join several ones; a question without an answer is left out.
    """
    answers: dict[str, str] = {}
    for number, question in enumerate(read_questions(questions)):
        offered = {in_form(label): label for label, _ in question.options}
        chosen = [in_form(value) for value in form.get(f"q{number}", ())]
        if not offered.keys() >= set(chosen):
            return msg("One choice was not offered. Please choose again.")
        own = " ".join(form.get(f"q{number}_other", ())).strip()
        answer = _answer(question.multiple, [offered[value] for value in chosen], own)
        if answer:
            answers[question.text] = answer
    return answers or msg("Answer at least one question.")


def _answer(multiple: bool, chosen: list[str], own: str) -> str:
    if multiple:
        return ", ".join([*chosen, own] if own else chosen)
    return own or "".join(chosen[:1])


def in_form(label: str) -> str:
    """A label as it survives a form: browsers rewrite line ends and lone surrogates."""
    return " ".join(label.encode(errors="replace").decode().split())
