"""Each check has its line, and none of them tells a secret.

The checks themselves are tested in the files of their rooms, `test_checks_*`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.health import FAIL, OK
from feishuperm.setup import doctor
from feishuperm.setup.doctor import CHECKS, DoctorContext, Row, examine
from tests.setup.patient import Patient, fixes


@pytest.mark.parametrize(
    "check", [name for name in CHECKS if name not in ("feishu", "loop")]
)
def test_well_patient_has_nothing(patient: Patient, check: str) -> None:
    assert {state for state, _, _ in patient.examine(check)} <= {OK}


def test_command_is_absolute_and_quoted_where_path_lacks_it(
    tmp_path: Path, absent: Patient
) -> None:
    home = tmp_path / "a home"
    home.mkdir()
    other = Patient(home)
    other.environ["PATH"] = "/usr/bin:/bin"
    assert fixes(other, "server") == [f"'{home}/feishuperm' install"]


def test_changed_file_is_never_installed_again(absent: Patient) -> None:
    absent.pin.unlink()
    absent.archive.write_bytes(b"pr0gram")
    here = DoctorContext(absent.environ, str(absent.home))
    found = [row._replace(fix=here.typed(row.fix)) for row in examine(here)]
    assert [row.fix for row in found if row.check == "file"] == [doctor.REINSTALL]
    assert [row.fix for row in found if row.check == "python"] == [doctor.FILE_FIRST]
    assert not [row.fix for row in found if "feishuperm install" in row.fix]


def test_no_secret_in_any_finding(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient.write_config(
        FEISHU_WEBHOOK_URL="http://127.0.0.1:9/open-apis/bot/v2/hook/token-token",
        FEISHU_WEBHOOK_SECRET="hush-hush",
    )
    found = list(examine(DoctorContext(patient.environ, str(patient.home))))
    text = "\n".join(map(str, found))
    assert "token-token" not in text and "hush-hush" not in text
    assert next(row for row in found if row.check == "feishu").state == FAIL


def test_foreign_text_stays_on_its_line_and_cannot_play_with_the_terminal() -> None:
    line = Row("feishu", FAIL, "\x1b]0;x\x07\nok", "rm \u202e").line()
    assert line == "fail  feishu           ⟦U+001B⟧]0;x⟦U+0007⟧ ok  -> rm ⟦U+202E⟧"


def test_check_that_cannot_be_made_is_a_finding(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(case: DoctorContext) -> Any:
        raise PermissionError(13, "Permission denied", "/x")

    monkeypatch.setitem(CHECKS, "config", fail)
    assert patient.examine("config") == [
        (FAIL, "/x: Permission denied", "feishuperm install")
    ]
