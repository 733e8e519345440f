"""`restart` says what was done, and takes no arguments."""

from __future__ import annotations

import pytest

from feishuperm.commands import restart
from feishuperm.errors import UsageError


def test_what_was_done_is_said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(restart, "restart", lambda environ: "done \x1b")
    assert restart.main([]) == 0
    assert capsys.readouterr().out == "done ⟦U+001B⟧\n"
    with pytest.raises(UsageError, match="takes no arguments"):
        restart.main(["now"])
