"""`stop` says what was done, and takes no arguments."""

from __future__ import annotations

import pytest

from feishuperm.commands import stop
from feishuperm.errors import UsageError


def test_what_was_done_is_said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(stop, "stop", lambda environ: "done \x1b")
    assert stop.main([]) == 0
    assert capsys.readouterr().out == "done ⟦U+001B⟧\n"
    with pytest.raises(UsageError, match="takes no arguments"):
        stop.main(["now"])
