"""`stop` and `restart` say what was done; they take no arguments."""

from __future__ import annotations

from typing import Any

import pytest

from feishuperm.commands import restart, stop
from feishuperm.errors import UsageError


@pytest.mark.parametrize(("module", "name"), [(stop, "stop"), (restart, "restart")])
def test_what_was_done_is_said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    module: Any,
    name: str,
) -> None:
    monkeypatch.setattr(module, name, lambda environ: "done \x1b")
    assert module.main([]) == 0
    assert capsys.readouterr().out == "done ⟦U+001B⟧\n"
    with pytest.raises(UsageError, match="takes no arguments"):
        module.main(["now"])
