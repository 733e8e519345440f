"""The demo shows its inbox, and opens a browser only if it may."""

from __future__ import annotations

from typing import Any

import pytest

from feishuperm.commands import demo as command


class FakeDemo:
    """A demo without a server."""

    socket = "/s"

    def __init__(self, environ: Any) -> None:
        pass

    def __enter__(self) -> FakeDemo:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


@pytest.mark.parametrize(
    ("args", "done"),
    [
        (["--auto"], ["answered"]),
        ([], ["opened http://i", "waited"]),
        (["--no-browser"], ["waited"]),
    ],
)
def test_what_is_done_follows_from_the_arguments(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    done: list[str],
) -> None:
    rows: list[str] = []

    def note(text: str) -> int:
        rows.append(text)
        return 0

    monkeypatch.setattr(command.demo, "Demo", FakeDemo)
    monkeypatch.setattr(command.demo, "clean_up_on_signals", lambda: None)
    monkeypatch.setattr(command, "inbox_link", lambda socket: "http://i")
    monkeypatch.setattr(
        command.demo, "answer_all", lambda demo, as_json: note("answered")
    )
    monkeypatch.setattr(
        command.demo, "wait_for_taps", lambda demo, as_json: note("waited")
    )
    monkeypatch.setattr(
        command.demo, "open_browser", lambda url, environ: note(f"opened {url}")
    )
    assert command.main(args) == 0
    assert rows == done
    assert capsys.readouterr().out.splitlines() == [
        "inbox: http://i",
        "That was all. To use it with Claude Code: feishuperm install",
    ]
