"""`stop` and `restart` say what was done, and take no arguments."""

from __future__ import annotations

import pytest

from feishuperm.cli import run
from feishuperm.errors import UsageError
from feishuperm.setup import service
from tests.tables import every_row


@every_row("command", ["stop", "restart"])
def test_what_was_done_is_said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    monkeypatch.setattr(service, command, lambda environ: "done \x1b")
    assert run(command, []) == 0
    assert capsys.readouterr().out == "done ⟦U+001B⟧\n"
    with pytest.raises(UsageError, match="takes no arguments"):
        run(command, ["now"])
