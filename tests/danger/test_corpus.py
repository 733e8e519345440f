"""The labelled calls: what must be marked is, what is harmless hardly ever."""

from __future__ import annotations

from tests.danger.corpus import cases, right
from tests.tables import every_row

CASES = cases()
CLASSES = {
    *(
        "delete",
        "unsure",
        "wipe",
        "overwrite",
        "publish",
        "force",
        "root",
        "downloaded",
    ),
    *("decoded", "startup", "keys", "leak", "ci", "permissions", "data", "machine"),
    *("device", "unread", "inject", "money", "packages", "tunnel"),
}


@every_row("label", sorted({case.label for case in CASES}))
def test_every_labelled_call_is_read_as_labelled(label: str) -> None:
    wrong = [
        f"{case.line}: {case.read()}"
        for case in CASES
        if case.label == label and not right(case)
    ]
    assert not wrong


def test_no_dangerous_call_is_without_its_mark() -> None:
    dangerous = [case for case in CASES if case.is_dangerous]
    assert len(dangerous) >= 200
    assert not [case.line for case in dangerous if not right(case)]


def test_hardly_any_harmless_call_is_marked() -> None:
    harmless = [case for case in CASES if not case.is_dangerous]
    assert len(harmless) >= 200
    marked = [case.line for case in harmless if case.read().marks]
    assert len(marked) <= 0.01 * len(harmless), marked


def test_corpus_has_every_class_of_danger_and_no_call_twice() -> None:
    assert {c.label.partition(".")[2] for c in CASES if c.is_dangerous} == CLASSES
    assert len(CASES) >= 400
    lines = [case.line for case in CASES]
    assert sorted(set(lines)) == sorted(lines)
