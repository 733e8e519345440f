"""Rules that make Claude Code ask: put in, taken out, every other byte as it was."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from feishuperm.lib import settings_editor as editor
from feishuperm.setup.claude_settings import (
    LIST,
    RULES,
    ClaudeStep,
    listing,
    registrations,
    rules_of,
    undo_claude,
)
from feishuperm.setup.steps import Manifest
from tests.setup.conftest import run
from tests.setup.test_claude_step import random_settings

HOOKS = [(registrations(55)[0], "/opt/feishuperm-hook")]


def step(manifest: Manifest, path: Path, **wishes: object) -> ClaudeStep:
    return ClaudeStep(manifest, str(path), HOOKS, **wishes)  # type: ignore[arg-type]


def test_list_is_short_and_says_each_rule_once() -> None:
    assert len(RULES) == len(set(RULES)) < 40
    assert all(rule in listing() for rule in RULES)
    assert {"push", "publish", "deploy", "production", "money"} < set(LIST)


@pytest.mark.parametrize("number", range(60))
def test_rules_go_in_and_come_out_byte_for_byte(
    number: int, tmp_path: Path, environ: dict[str, str]
) -> None:
    before = random_settings(random.Random(number))
    path = tmp_path / "settings.json"
    path.write_bytes(before)
    manifest = Manifest(environ)
    try:
        run(step(manifest, path, rules=RULES))
    except editor.FeishupermError:  # what it cannot edit it leaves
        assert path.read_bytes() == before
        return
    assert set(RULES) <= set(rules_of(editor.decode(path.read_bytes())))
    undo_claude(manifest.records[f"settings:{path}"])
    assert path.read_bytes() == before


def test_rule_that_was_there_before_stays(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "settings.json"
    before = '{"permissions": {"ask": ["Bash(git push *)", "Read(x)"]}, "x": 1}'
    path.write_text(before)
    manifest = Manifest(environ)
    run(step(manifest, path, rules=RULES))
    path.write_text(path.read_text().replace('"x": 1', '"x": 2'))  # somebody's edit
    undo_claude(manifest.records[f"settings:{path}"])
    assert path.read_text() == before.replace('"x": 1', '"x": 2')


def test_list_is_taken_away_alone_and_twice_is_nothing_to_do(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"model": "opus"}')
    manifest = Manifest(environ)
    run(step(manifest, path))
    plain = path.read_text()
    adding = step(manifest, path, rules=RULES)
    assert adding.changes() == [f"always ask about {', '.join(RULES)} in {path}"]
    run(adding)
    assert step(manifest, path, rules=RULES).changes() == []
    assert step(manifest, path).changes() == []  # a later install keeps them
    removing = step(manifest, path, away_rules=True)
    rows = [f"no longer ask about {', '.join(RULES)} in {path}"]
    assert removing.changes() == rows
    run(removing)
    assert path.read_text() == plain
    assert step(manifest, path, away_rules=True).changes() == []
    undo_claude(manifest.records[f"settings:{path}"])
    assert path.read_text() == '{"model": "opus"}'
