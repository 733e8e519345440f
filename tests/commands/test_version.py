"""Which build this is, for people and for programs."""

from __future__ import annotations

import json

import pytest

from feishuperm import __version__
from feishuperm.commands import version


def test_line_and_json_name_the_same_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert version.main([]) == 0
    assert capsys.readouterr().out.startswith(f"feishuperm {__version__}, commit ")
    assert version.main(["--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["version"] == __version__
    assert {"commit", "dirty", "build_id", "python", "executable", "fast"} < set(answer)
