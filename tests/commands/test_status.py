"""What status tells a person."""

from __future__ import annotations

from typing import Any

import pytest

from feishuperm.commands.status import duration, lines

STATUS: dict[str, Any] = {
    "service": "systemd",
    "version": "1.2",
    "pid": 7,
    "started": 1000.0,
    "inbox": "http://localhost:8080/?sig=x",
    "http": "http://localhost:8080",
    "socket": "/s",
    "channels": [{"name": "inbox", "state": "up", "detail": "1 open"}],
    "waiting_count": 1,
    "waiting": [{"id": "1-a", "tool": "Bash", "project": "/p", "seconds_left": 54.2}],
}


def test_every_fact_has_its_line() -> None:
    assert list(lines(STATUS, 1000.0 + 7300)) == [
        "feishuperm 1.2 runs (systemd, pid 7, for 2 h)",
        "inbox    http://localhost:8080/?sig=x",
        "buttons  http://localhost:8080",
        "socket   /s",
        "channel  inbox up: 1 open",
        "waiting  1",
        "  1-a  Bash  /p  54 s left",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (59.9, "59 s"), (60, "1 min"), (3600, "1 h"), (200_000, "2 d")],
)
def test_duration_is_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
