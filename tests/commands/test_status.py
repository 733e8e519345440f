"""Status without a server fails in both forms, and JSON keeps its keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

from feishuperm.commands import status as command
from feishuperm.lib.control import NotRunningError
from tests.setup.test_status import STATUS


def reading(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    def read(socket: str, environ: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(command, "read_status", read)


def test_status_is_told_in_lines_or_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading(monkeypatch, {"running": True, **STATUS})
    assert command.main([]) == 0
    assert "waiting  1" in capsys.readouterr().out.splitlines()
    assert command.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"running": True, **STATUS}


def test_absent_server_is_an_error_and_in_json_a_fact(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading(monkeypatch, NotRunningError("no server"))
    with pytest.raises(NotRunningError):
        command.main([])
    assert command.main(["--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"running": False, "error": "no server"}
