"""Without a server, or without a bot, no card is promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.commands import test_card as command
from feishuperm.errors import FeishupermError
from feishuperm.lib.control import NotRunningError


def test_absent_server_and_missing_bot_are_told_before_any_card(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PERMISSION_SOCKET_PATH", str(tmp_path / "none"))
    with pytest.raises(NotRunningError):
        command.main([])
    status = {"channels": [{"name": "inbox", "state": "up", "detail": ""}]}
    monkeypatch.setattr(command, "settled_status", lambda path: status)
    with pytest.raises(FeishupermError, match="no Feishu group bot"):
        command.main([])
    assert capsys.readouterr().out == ""
