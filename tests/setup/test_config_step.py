"""config.env keeps what is not ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.setup.config_step import ConfigStep, purge_config
from feishuperm.setup.manifest import Manifest
from tests.setup.conftest import run


def test_config_keeps_comments_and_other_keys_and_is_private(
    environ: dict[str, str],
) -> None:
    folder = Path(environ["HOME"], ".config/feishuperm")
    folder.mkdir(parents=True)
    path = folder / "config.env"
    path.write_text("# mine\nFEISHUPERM_LANG=en\n")
    manifest = Manifest(environ)
    run(ConfigStep({}, environ, {"CALLBACK_SERVER_PORT": "9"}), manifest)
    assert path.read_text() == "# mine\nFEISHUPERM_LANG=en\nCALLBACK_SERVER_PORT=9\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert ConfigStep({}, environ, {"CALLBACK_SERVER_PORT": "9"}).changes() == []


@pytest.mark.parametrize("existed", [True, False])
def test_purge_takes_only_our_keys_from_a_file_that_was_there_before(
    tmp_path: Path, environ: dict[str, str], existed: bool
) -> None:
    path = tmp_path / "team.env"
    if existed:
        path.write_text("# mine\nFEISHUPERM_LANG=en\n")
    environ = {**environ, "FEISHUPERM_CONFIG": str(path)}
    manifest = Manifest(environ)
    for wanted in ({"FEISHUPERM_LANG": "zh"}, {"CALLBACK_SERVER_PORT": "9"}, {}):
        run(ConfigStep(manifest.records.get("config", {}), environ, wanted), manifest)
    assert "CALLBACK_SERVER_PORT=9" in path.read_text()
    purge_config(manifest.records["config"])
    if existed:
        assert path.read_text() == "# mine\nFEISHUPERM_LANG=zh\n"
    assert path.exists() == existed
