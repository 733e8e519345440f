"""The administrator's files, with the built file, in a mount namespace of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import clean_env

IN_NAMESPACE = ("unshare", "--map-root-user", "--mount", "sh", "-c")
SCRIPT = 'mount --bind "$1" /etc && shift && exec "$@"'


def run(etc: Path, environ: dict[str, str], *command: str) -> str:
    words = [*IN_NAMESPACE, SCRIPT, "sh", str(etc), *command]
    done = subprocess.run(
        words, env=environ, capture_output=True, text=True, timeout=60
    )
    return done.stdout + done.stderr


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """A folder that stands for /etc; skips where no namespace can be made."""
    folder = tmp_path / "etc"
    folder.mkdir()
    for name in ("passwd", "ld.so.cache", "ld.so.conf"):
        if os.path.exists(f"/etc/{name}"):
            shutil.copy(f"/etc/{name}", folder)
    (folder / "feishuperm").mkdir()
    if "ready" not in run(folder, clean_env(tmp_path), "echo", "ready"):
        pytest.skip("no mount namespace here")
    return folder


def test_policy_wins_over_environment_and_files_and_is_named(
    pyz: Path, home: Path, etc: Path
) -> None:
    (etc / "feishuperm" / "policy.env").write_text("FEISHUPERM_CARD=title\n")
    (etc / "feishuperm" / "config.env").write_text("FEISHUPERM_LANG=zh\n")
    environ = clean_env(home, FEISHUPERM_CARD="full")
    said = run(etc, environ, str(pyz), "help", "settings")
    assert "| `FEISHUPERM_CARD` = `title` (/etc/feishuperm/policy.env) |" in said
    assert "| `FEISHUPERM_LANG` = `zh` (/etc/feishuperm/config.env) |" in said
    doctor = run(etc, {**environ, "FEISHUPERM_LANG": "en"}, str(pyz), "doctor")
    assert "is not obeyed" not in doctor
    (etc / "feishuperm" / "policy.env").chmod(0o666)
    doctor = run(etc, {**environ, "FEISHUPERM_LANG": "en"}, str(pyz), "doctor")
    assert "/etc/feishuperm/policy.env is not obeyed" in doctor
