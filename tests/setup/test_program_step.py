"""The program is put in its place as a whole, and taken away again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.models.names import PROGRAMS
from feishuperm.setup.steps import (
    Manifest,
    ProgramStep,
    interpreter,
    own_commands,
    pin_path,
    undo_program,
)
from tests.laid_down import lay_down
from tests.setup.conftest import run
from tests.tables import every_row


def program_step(
    tmp_path: Path, manifest: Manifest, data: bytes = b"one"
) -> ProgramStep:
    source = tmp_path / "built.pyz"
    source.write_bytes(data)
    return ProgramStep(manifest, str(source), str(tmp_path / "prefix"), sys.executable)


def test_program_is_placed_linked_pinned_and_removed(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    manifest = Manifest(environ)
    step = program_step(tmp_path, manifest)
    run(step)
    archive = tmp_path / "prefix/share/feishuperm/feishuperm.pyz"
    assert archive.read_bytes() == b"one" and archive.stat().st_mode & 0o777 == 0o755
    for name in PROGRAMS:
        assert os.path.realpath(tmp_path / "prefix/bin" / name) == str(archive)
    pin = Path(pin_path(environ))
    assert pin.read_text() == f"{sys.executable}\n"
    again = program_step(tmp_path, Manifest(environ))
    assert again.changes() == []
    undo_program(manifest.records["program"])
    assert not (tmp_path / "prefix").exists() and not pin.exists()


def test_code_lies_beside_the_archive_and_is_made_again_if_it_does_not_fit(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    data = lay_down(tmp_path / "small.pyz").read_bytes()
    manifest = Manifest(environ)
    run(program_step(tmp_path, manifest, data))
    code = tmp_path / "prefix/share/feishuperm/feishuperm.pyz.code"
    whole = code.read_bytes()
    assert code.stat().st_mode & 0o777 == 0o644
    again = program_step(tmp_path, Manifest(environ), data)
    assert again.changes() == []
    for damage in (
        code.unlink,
        lambda: code.chmod(0o666),
        lambda: code.write_bytes(b""),
    ):
        damage()
        assert again.changes() == [f"write {code}"]
        run(again)
        assert code.read_bytes() == whole and code.stat().st_mode & 0o777 == 0o644
    undo_program(manifest.records["program"])
    assert not (tmp_path / "prefix").exists()


def test_new_version_replaces_the_archive_as_a_whole(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    manifest = Manifest(environ)
    run(program_step(tmp_path, manifest))
    archive = tmp_path / "prefix/share/feishuperm/feishuperm.pyz"
    running = archive.open("rb")  # a server keeps its old file
    run(program_step(tmp_path, manifest, b"two"))
    with running:
        assert (running.read(), archive.read_bytes()) == (b"one", b"two")


def test_other_prefix_takes_the_old_program_away(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    manifest = Manifest(environ)
    run(program_step(tmp_path, manifest))
    old = tmp_path / "prefix"
    source = str(old / "share/feishuperm/feishuperm.pyz")
    pin = pin_path(environ)
    new = str(tmp_path / "new")
    step = ProgramStep(manifest, source, new, sys.executable)
    assert f"remove {source}" in step.changes()
    run(step)
    assert not old.exists() and os.path.exists(pin)
    assert Path(new, "bin/feishuperm").read_bytes() == b"one"
    assert manifest.records["program"]["prefix"] == new
    undo_program(manifest.records["program"])
    assert not os.path.exists(new) and not os.path.exists(pin)


@every_row("place", ["share", "bin"])
def test_prefix_that_cannot_be_used_leaves_the_program_where_it_is(
    tmp_path_factory: pytest.TempPathFactory, place: str
) -> None:
    tmp_path = tmp_path_factory.mktemp("home")
    manifest = Manifest({"HOME": str(tmp_path)})
    run(program_step(tmp_path, manifest))
    before = dict(manifest.records)
    other = tmp_path / "other"
    other.mkdir()
    (other / place).write_text("")
    step = ProgramStep(manifest, str(tmp_path / "built.pyz"), str(other), "/python")
    with pytest.raises(FeishupermError, match=f"{place} is no folder"):
        step.changes()
    assert (tmp_path / "prefix/bin/feishuperm").exists()
    assert Manifest({"HOME": str(tmp_path)}).records == before


def test_installed_archive_that_somebody_changed_is_refused_until_it_is_replaced(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    manifest = Manifest(environ)
    step = program_step(tmp_path, manifest)
    run(step)
    with open(step.archive, "ab") as file:
        file.write(b"evil")
    record = dict(manifest.records["program"])
    again = ProgramStep(manifest, step.archive, step.prefix, sys.executable)
    with pytest.raises(FeishupermError, match="not the file that was installed") as why:
        again.changes()
    assert "install.sh" in why.value.hint
    assert manifest.records["program"] == record
    run(program_step(tmp_path, manifest, b"two"))
    assert Path(step.archive).read_bytes() == b"two"


def test_foreign_file_under_our_name_is_refused_before_anything_changes(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    mine = tmp_path / "prefix/bin/feishuperm"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    manifest = Manifest(environ)
    with pytest.raises(FeishupermError, match="is not feishuperm's"):
        run(program_step(tmp_path, manifest))
    assert mine.read_text() == "mine"
    assert not (tmp_path / "prefix/share").exists()


def test_only_the_links_that_install_registers_are_its_commands() -> None:
    links = [f"/a b/bin/{name}" for name in PROGRAMS]
    found = own_commands({"links": links})
    assert found == ["'/a b/bin/feishuperm-hook'", "'/a b/bin/feishuperm-supervisor'"]


def test_ordinary_python_is_pinned_as_it_is(tmp_path: Path) -> None:
    assert interpreter("/usr/bin/python3") == ("/usr/bin/python3", "")


def test_base_of_a_virtual_environment_is_pinned_and_said(tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python3"
    python.parent.mkdir(parents=True)
    base = os.path.realpath(sys.executable)
    python.symlink_to(base)
    (tmp_path / "venv/pyvenv.cfg").write_text(f"home = {os.path.dirname(base)}\n")
    pinned, note = interpreter(str(python))
    assert pinned == base
    assert str(python) in note and base in note


def test_virtual_environment_without_base_is_pinned_with_a_warning(
    tmp_path: Path,
) -> None:
    python = tmp_path / "venv/bin/python3"
    python.parent.mkdir(parents=True)
    python.write_text("")
    (tmp_path / "venv/pyvenv.cfg").write_text("home = /nowhere\n")
    pinned, note = interpreter(str(python))
    assert pinned == str(python)
    assert "must not be removed" in note
