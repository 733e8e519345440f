"""Undoing keeps its order, and the program as long as a hook may name it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.lib import language
from feishuperm.setup import uninstall
from feishuperm.setup.steps import Manifest
from feishuperm.setup.uninstall import clean_up, rehearse, undo


@pytest.fixture
def manifest(environ: dict[str, str]) -> Manifest:
    made = Manifest(environ)
    made.open()
    for name in ("program", "config", "settings:/a", "settings:/b", "service"):
        made.save(name, {"path": name})
    return made


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was undone, in order."""
    rows: list[str] = []

    def note(record: Any, *more: Any) -> list[str]:
        if record["path"] == "settings:/broken":
            raise FeishupermError("left as it is", "by hand")
        rows.append(record["path"])
        return []

    for name in ("undo_service", "undo_claude"):
        monkeypatch.setattr(uninstall, name, note)
    for name in ("purge_config", "undo_program"):
        monkeypatch.setattr(uninstall.steps, name, note)
    return rows


def test_server_goes_first_and_the_program_last(
    manifest: Manifest, environ: dict[str, str], undone: list[str]
) -> None:
    assert undo(manifest, False, environ)
    assert undone == ["service", "settings:/a", "settings:/b", "program"]


def test_settings_are_only_purged_when_asked(
    manifest: Manifest, environ: dict[str, str], undone: list[str]
) -> None:
    assert undo(manifest, True, environ)
    assert "config" in undone


def test_program_stays_while_a_file_could_not_be_undone(
    manifest: Manifest,
    environ: dict[str, str],
    undone: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    manifest.save("settings:/broken", {"path": "settings:/broken"})
    assert not undo(manifest, False, environ)
    assert undone == ["service", "settings:/a", "settings:/b"]
    said = capsys.readouterr().err
    assert said == "feishuperm: left as it is\nhint: by hand\n"


@pytest.mark.parametrize("purge", [True, False])
def test_rehearsal_names_what_would_go(
    manifest: Manifest, capsys: pytest.CaptureFixture[str], purge: bool
) -> None:
    rehearse(manifest, purge)
    said = capsys.readouterr().out
    assert "would undo service: service\n" in said
    assert ("would undo config" in said) == purge


def test_rehearsal_is_told_in_chinese(
    manifest: Manifest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(language, "spoken", lambda: "zh")
    manifest.save("service", {"kind": "background"})
    rehearse(manifest, False)
    said = capsys.readouterr().out
    assert "将要撤销 服务：后台进程\n" in said
    assert "将要撤销 程序：program\n" in said


def test_purge_leaves_nothing_of_ours(
    manifest: Manifest, environ: dict[str, str]
) -> None:
    home = Path(environ["HOME"])
    folder = home / ".config/feishuperm"
    folder.mkdir(parents=True)
    (folder / "ledger-1.head").write_text("")  # of decisions that were made since
    made = [str(home / ".config"), str(folder)]
    manifest.save("program", {"folders": made})
    clean_up(manifest, True, environ)
    assert not os.path.exists(manifest.folder)
    assert list(home.iterdir()) == []


def test_without_purge_the_record_of_decisions_stays(
    manifest: Manifest, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Path(manifest.folder, "ledger.jsonl")
    ledger.write_text("")
    clean_up(manifest, False, environ)
    assert ledger.exists() and not os.path.exists(manifest.path)
    assert capsys.readouterr().out.startswith("kept: ")
