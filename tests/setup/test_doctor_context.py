"""What mends can be pasted, and is never the wrong file's own work."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.setup.checks import edit
from feishuperm.setup.doctor import FILE_FIRST, INSTALL, DoctorContext, words
from tests.setup.patient import Patient
from tests.tables import every_row


@pytest.fixture
def case(patient: Patient) -> DoctorContext:
    return DoctorContext(patient.environ, str(patient.home / "a project"))


def test_project_file_is_registered_anew_from_its_folder(case: DoctorContext) -> None:
    user, project, local = case.settings_paths()
    assert case.register(user) == "feishuperm install"
    folder = f"'{case.project}'"
    install = f"cd {folder} && feishuperm install --project"
    assert case.register(local) == install
    assert case.register(project) == f"{install} --shared"


def test_changed_file_is_asked_to_mend_nothing(case: DoctorContext) -> None:
    case.intact = False
    for fix in (INSTALL, case.register(case.settings_paths()[1])):
        assert case.typed(fix) == FILE_FIRST
    assert case.typed("chmod 600 /feishuperm x") == "chmod 600 /feishuperm x"


def test_command_is_named_as_this_user_types_it(case: DoctorContext) -> None:
    case.program = "/a/feishuperm"
    said = "feishuperm install --rescan, or open https://x/feishuperm now"
    assert case.typed(said) == (
        "/a/feishuperm install --rescan, or open https://x/feishuperm now"
    )


def test_project_that_is_the_home_folder_has_two_files(patient: Patient) -> None:
    assert len(DoctorContext(patient.environ, str(patient.home)).settings_paths()) == 2


@every_row(
    ("error", "text"),
    [
        (PermissionError(13, "Permission denied", "/x"), "/x: Permission denied"),
        (OSError(5, "I/O error"), "I/O error"),
        (ValueError("odd"), "odd"),
    ],
)
def test_error_is_told_without_its_number(error: Exception, text: str) -> None:
    assert words(error) == text


def test_edit_names_the_file_and_what_to_do(tmp_path: Path) -> None:
    assert edit("/a b") == "edit '/a b'"
    assert edit("/a", "X=1") == "edit /a: X=1"
