"""Entries of the ledger about requests: what is believed of them afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from feishuperm.models import request as states
from feishuperm.services.request_manager import ledger_entry, remembered
from tests.services.test_approvals import ID, Bench
from tests.tables import every_row

RULE = "Bash(npm run build && echo done)"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"action": "deny"},
        {"action": ""},
        {"state": states.EXPIRED},
        {"state": states.WAITING},
        {"state": [states.ALLOWED]},
        {"created": "soon"},
        {"ended": 1.0},
        {"ended": 1e300},
        {"created": 10**400},
        {"rules": None},
        {"id": None, "project": None, "tool": None, "created": None},
    ],
)
def test_entry_that_somebody_edited_is_not_believed(
    bench: Bench, change: dict[str, Any]
) -> None:
    bench.ask()
    bench.answer("allow")
    entry = ledger_entry(bench.request)
    assert remembered(entry) is not None
    assert remembered({**entry, **change}) is None


@every_row(
    ("tool", "action", "kind"),
    [("ExitPlanMode", "approve", "plan"), ("AskUserQuestion", "answer", "question")],
)
def test_entry_from_before_kinds_were_written_is_understood(
    tool: str, action: str, kind: str
) -> None:
    entry = {
        "event": "request", "id": ID, "state": "answered", "action": action,
        "surface": "webhook", "reason": "", "rules": [], "denied": False, "tool": tool,
        "summary": tool, "project": "/p", "created": 1.0, "ended": 2.0,
    }  # fmt: skip
    request = remembered(entry)
    assert request is not None
    assert (request.kind, request.action) == (kind, action)


@pytest.mark.parametrize(
    ("action", "would"),
    [("allow", [RULE]), ("deny", [RULE]), ("always", None)],
)
def test_entry_names_the_rule_that_would_have_answered(
    bench: Bench, action: str, would: list[str] | None
) -> None:
    bench.ask()
    bench.answer(action)
    assert ledger_entry(bench.request).get("would") == would
