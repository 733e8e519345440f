"""What people see is what the golden files show, letter by letter.

Cards, toasts, pages, hook output, ledger lines and the words of the commands, as the
built file makes them in both languages.  If a change is meant, write them again with
`python3 build.py golden` and look at the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.generate import LANGUAGES, differences, generate
from tests.golden.record import normalise


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_people_see_is_what_it_was(pyz: Path, language: str) -> None:
    found = differences(generate(pyz, [language]), languages=[language])
    told = "\n\n".join(found.values())
    assert not found, f"{told}\n\nif this is meant: python3 build.py golden"


def test_difference_is_told_by_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "zh").mkdir()
    (tmp_path / "zh" / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "zh" / "gone.txt").write_text("x\n")
    files = {"zh/a.txt": "one\n2\n", "en/new.txt": "y\n"}
    found = differences(files, tmp_path)
    assert sorted(found) == ["en/new.txt", "zh/a.txt", "zh/gone.txt"]
    assert "-two\n+2" in found["zh/a.txt"]
    assert differences({}, tmp_path / "zh") == {}


def test_what_differs_between_runs_is_put_into_fixed_words() -> None:
    text = (
        "1794974384-1fc79d23 at 03:59:45 on http://localhost:36639/x?sig=ayAxLWsc1NL8"
    )
    assert normalise(text + "ePQhdOLfGw") == (
        "ID at HH:MM:SS on http://localhost:PORT/x?sig=SECRET"
    )
    assert normalise("5f0c2d1e · b3c9a9b9") == "5f0c2d1e · HASH"
    assert normalise("npm run build 3 times") == "npm run build 3 times"
