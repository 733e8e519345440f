"""config.env keeps what is not ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.errors import UsageError
from feishuperm.setup.steps import (
    HEADER,
    ConfigStep,
    Manifest,
    merge_config,
    purge_config,
)
from feishuperm.wire import parse_config
from tests.setup.conftest import run
from tests.tables import every_row


def test_config_keeps_comments_and_other_keys_and_is_private(
    environ: dict[str, str],
) -> None:
    folder = Path(environ["HOME"], ".config/feishuperm")
    folder.mkdir(parents=True)
    path = folder / "config.env"
    path.write_text("# mine\nFEISHUPERM_LANG=en\n")
    manifest = Manifest(environ)
    run(ConfigStep(manifest, {"CALLBACK_SERVER_PORT": "9"}))
    assert path.read_text() == "# mine\nFEISHUPERM_LANG=en\nCALLBACK_SERVER_PORT=9\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert ConfigStep(manifest, {"CALLBACK_SERVER_PORT": "9"}).changes() == []


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
        run(ConfigStep(manifest, wanted))
    assert "CALLBACK_SERVER_PORT=9" in path.read_text()
    purge_config(manifest.records["config"])
    if existed:
        assert path.read_text() == "# mine\nFEISHUPERM_LANG=zh\n"
    assert path.exists() == existed


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("FEISHUPERM_LANG=en", []),
        ("FEISHU_APP_ID=cli_a1",
         ["the app cli_a1 still exists in Feishu: https://open.feishu.cn/app/cli_a1"]),
        ("no key at all", []),
    ],
)  # fmt: skip
def test_purge_names_the_app_whose_secret_goes(
    tmp_path: Path, line: str, stays: list[str]
) -> None:
    path = tmp_path / "config.env"
    path.write_text(f"{line}\nFEISHU_APP_SECRET=secret\n")
    removed, *rows = purge_config({"path": str(path)})
    assert removed == f"removed {path}" and rows == stays
    assert not path.exists()


@every_row(
    ("before", "changes", "after"),
    [
        (b"", {"A": "1"}, HEADER + b"A=1\n"),
        (b"# mine\nB=2\n", {"A": "1"}, b"# mine\nB=2\nA=1\n"),
        (b"A=0\nB=2\n", {"A": "1"}, b"A=1\nB=2\n"),
        (b"A=0\nA=9\n", {"A": "1"}, b"A=0\nA=1\n"),
        (b"#A=0\n", {"A": "1"}, b"#A=0\nA=1\n"),
        (b" A = 0\n", {"A": "1"}, b"A=1\n"),
        (b"B=2", {"A": "1"}, b"B=2\nA=1\n"),
        (b"B=2\r\n", {"A": "1"}, b"B=2\r\nA=1\r\n"),
        (b"B=2\n", {}, b"B=2\n"),
        (b"B=2\n", {"A": "'x'"}, b"B=2\nA=\"'x'\"\n"),
    ],
)
def test_only_asked_keys_change(
    before: bytes, changes: dict[str, str], after: bytes
) -> None:
    assert merge_config(before, changes) == after


@every_row("value", ["a\nFEISHUPERM_LANG=en", "a\r", " a", "a "])
def test_value_that_a_line_cannot_hold_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="A: a value cannot have"):
        merge_config(b"", {"A": value})


@given(
    st.text(max_size=40).filter(lambda value: len(value.splitlines()) < 2),
    st.binary(max_size=40),
)
def test_whatever_is_taken_reads_back(value: str, before: bytes) -> None:
    try:
        data = merge_config(before, {"KEY": value})
    except (UsageError, UnicodeEncodeError):
        return
    assert parse_config(data)[b"KEY"] == value.encode()


def test_exported_key_is_changed_where_it_stands() -> None:
    data = b"# mine\nexport FEISHU_AT=all\nX=1\n"
    assert merge_config(data, {"FEISHU_AT": "me"}) == b"# mine\nFEISHU_AT=me\nX=1\n"
