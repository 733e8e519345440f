"""Slash commands that somebody wrote or changed are theirs."""

from __future__ import annotations

from pathlib import Path

from feishuperm.setup.manifest import Manifest
from feishuperm.setup.slash_step import SlashStep, undo_slash
from tests.setup.conftest import run


def test_slash_command_that_somebody_changed_stays(environ: dict[str, str]) -> None:
    manifest = Manifest(environ)
    texts = {"a.md": "one\n", "b.md": "two\n"}
    run(SlashStep({}, environ, texts), manifest)
    folder = Path(environ["HOME"], ".claude/commands")
    (folder / "b.md").write_text("mine")
    undo_slash(manifest.records["commands"])
    assert [path.name for path in folder.iterdir()] == ["b.md"]


def test_slash_command_of_another_is_not_replaced(environ: dict[str, str]) -> None:
    folder = Path(environ["HOME"], ".claude/commands")
    folder.mkdir(parents=True)
    (folder / "a.md").write_text("theirs")
    step = SlashStep({}, environ, {"a.md": "ours"})
    assert step.changes() == []
