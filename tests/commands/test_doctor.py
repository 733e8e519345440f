"""The doctor's exit code says whether anything fails; JSON is for programs."""

from __future__ import annotations

import json

import pytest

from feishuperm.commands import doctor as command
from feishuperm.setup.doctor import Finding


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("warn", 0), ("fail", 1)])
def test_exit_code_tells_of_failures_only(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: str,
    code: int,
) -> None:
    rows = [Finding("python", "ok", "\x1b"), Finding("file", state, "中文", "mend")]
    monkeypatch.setattr(command, "examine", lambda case: iter(rows))
    assert command.main([]) == code
    assert capsys.readouterr().out.splitlines() == [row.line() for row in rows]
    assert command.main(["--json"]) == code
    output = capsys.readouterr().out
    assert json.loads(output) == [row._asdict() for row in rows]
    assert "\x1b" not in output
