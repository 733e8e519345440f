"""What the tests need of the system, on a machine that has none of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import build
from tests import system_parts


def test_without_root_or_npm_the_missing_parts_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(system_parts, "CLAUDE", tmp_path / "claude")
    monkeypatch.setattr(system_parts, "NODE_SDK", tmp_path / "lark")
    monkeypatch.setattr(system_parts, "AGENT_CACHE", tmp_path / "agents")
    monkeypatch.setattr(build, "CACHE", tmp_path)
    monkeypatch.delenv("FEISHUPERM_TEST_CLAUDE", raising=False)
    system_parts.main([])
    said = capsys.readouterr().out
    assert "are skipped: chromium, tmux" in said
    assert "Claude Code, Feishu's Node SDK, codex, qwen, copilot, opencode" in said
    assert "python3 build.py test --full --system" in said
    system_parts.main(["--install"])
    said = capsys.readouterr().out
    assert "not installed (needs root and apt): chromium, tmux, strace" in said
    assert "not installed (needs npm): Claude Code" in said
    assert "not installed (needs npm): Feishu's Node SDK" in said
    assert "not installed (needs npm): codex" in said
