"""`install --gateway`: refused where it cannot work, undone exactly."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.setup import join
from feishuperm.setup.join import GatewayInstall, undo_gateway

APP = {"FEISHU_APP_ID": "cli_a1", "FEISHU_APP_SECRET": "s3cret"}


class Commands:
    def __init__(self, *failing: str) -> None:
        self.ran: list[str] = []
        self._failing = failing

    def __call__(self, command: list[str]) -> int:
        self.ran.append(" ".join(command))
        return int(any(word in command for word in self._failing))


def made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Commands, **environ: str
) -> GatewayInstall:
    archive = tmp_path / "built.pyz"
    archive.write_bytes(b"#!/bin/sh\n" + b"x" * 100)
    monkeypatch.setattr(join, "archive_path", lambda: str(archive))
    monkeypatch.setattr(join, "is_listening", lambda path: True)
    monkeypatch.setattr(join.steps.ProgramStep, "_check_source", lambda self: None)
    options: Any = SimpleNamespace(
        prefix="", webhook=None, secret=None, callback_url=None, lang=None, port=None,
        wait=None,
    )  # fmt: skip
    install = GatewayInstall(options, {"HOME": str(tmp_path), **environ}, run)
    install.manifest.open()
    return install


def test_unit_runs_the_gateway_and_holds_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Commands()
    assert made(tmp_path, monkeypatch, run, **APP).run() == 0
    unit = tmp_path / ".config/systemd/user/feishuperm-gateway.service"
    assert '/bin/feishuperm" gateway\n' in unit.read_text()
    assert "s3cret" not in unit.read_text()
    config = tmp_path / ".config/feishuperm/config.env"
    assert "FEISHU_APP_SECRET=s3cret" in config.read_text()
    assert config.stat().st_mode & 0o777 == 0o600
    assert run.ran[-1] == "systemctl --user restart feishuperm-gateway.service"
    record = made(tmp_path, monkeypatch, run, **APP).manifest.record("gateway")
    undo_gateway(record, run)
    assert not unit.exists()


def test_nothing_changes_without_a_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = made(tmp_path, monkeypatch, Commands("show-environment"), **APP)
    for way in (install.run, install.rehearse):
        with pytest.raises(
            FeishupermError,
            match=r"systemd cannot keep the server running.*does not answer",
        ):
            way()
    assert not (tmp_path / ".config").exists()


def test_nothing_changes_without_an_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = made(tmp_path, monkeypatch, Commands())
    with pytest.raises(FeishupermError, match="needs an app"):
        install.run()
    assert not (tmp_path / ".config").exists()


def test_failing_start_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = made(tmp_path, monkeypatch, Commands("restart"), **APP)
    with pytest.raises(FeishupermError) as caught:
        install.run()
    assert "journalctl" in caught.value.hint
