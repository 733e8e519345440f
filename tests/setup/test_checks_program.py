"""The program, its settings and its records: each fault is found and named."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from feishuperm.app.health import FAIL, OK, WARN
from feishuperm.services.ledger import Ledger
from tests.setup.patient import Patient, fixes, states


def test_pinned_python_that_is_gone(patient: Patient) -> None:
    patient.pin.write_text("/nonexistent/python3\n")
    assert states(patient, "python") == FAIL


def test_no_pinned_python(patient: Patient) -> None:
    patient.pin.unlink()
    assert states(patient, "python") == WARN


def test_changed_archive(patient: Patient) -> None:
    patient.archive.write_bytes(b"pr0gram")
    assert states(patient, "file") == FAIL


def test_link_that_leads_elsewhere(patient: Patient) -> None:
    link = patient.home / "feishuperm-hook"
    link.unlink()
    link.symlink_to("/bin/true")
    assert states(patient, "file") == FAIL


def test_bad_setting(patient: Patient) -> None:
    patient.write_config(CALLBACK_SERVER_PORT="many")
    assert states(patient, "config") == FAIL


def test_config_that_others_can_read(patient: Patient) -> None:
    patient.config.chmod(0o644)
    assert states(patient, "config") == WARN


def test_broken_pin_is_mended_by_the_python_that_runs_this(patient: Patient) -> None:
    patient.pin.write_text("/nonexistent/python3\n")
    (fix,) = fixes(patient, "python")
    assert fix.startswith(sys.executable) and fix.endswith(" install")


def test_broken_link_is_mended_by_install(patient: Patient) -> None:
    (patient.home / "feishuperm-hook").unlink()
    assert fixes(patient, "file") == ["feishuperm install"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("CALLBACK_SERVER_PORT=many", "line 2: CALLBACK_SERVER_PORT: 'many' is not"),
        ("a line", "line 2: expected KEY=VALUE"),
    ],
)
def test_bad_line_is_named(patient: Patient, line: str, text: str) -> None:
    patient.config.write_text(f"# ours\n{line}\n")
    row = patient.examine("config")[0]
    assert f"{patient.config}, {text}" in row[1]
    assert row[2] == f"edit {patient.config}"


def test_bad_value_in_the_environment_is_unset(patient: Patient) -> None:
    patient.environ["CALLBACK_SERVER_PORT"] = "many"
    assert fixes(patient, "config") == ["unset CALLBACK_SERVER_PORT"]


def test_folder_in_the_place_of_the_config_is_a_fault(patient: Patient) -> None:
    patient.config.unlink()
    patient.config.mkdir()
    assert states(patient, "config") == FAIL


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("FEISHU_WEBHOOK", "FEISHU_WEBHOOK_URL"),
        ("CALLBACK_PORT", "CALLBACK_SERVER_PORT"),
        ("PERMISSION_TIMEOUT", "PERMISSION_TIMEOUT_ACTION"),
    ],
)
def test_unknown_key_names_the_nearest(patient: Patient, key: str, near: str) -> None:
    patient.write_config(**{key: "1", "SOMEBODY_ELSES": "2"})
    assert fixes(patient, "config") == [f"edit {patient.config}: did you mean {near}?"]


@pytest.mark.parametrize(
    ("rows", "worst", "named"),
    [
        ({"CALLBACK_LINK_SIGNING": "off"}, OK, ""),
        (
            {
                "CALLBACK_LINK_SIGNING": "off",
                "CALLBACK_SERVER_URL": "https://p.example",
            },
            FAIL,
            "CALLBACK_LINK_SIGNING",
        ),
        (
            {"CALLBACK_CONFIRM": "off", "CALLBACK_SERVER_URL": "https://p.example"},
            WARN,
            "CALLBACK_CONFIRM",
        ),
        ({"PERMISSION_NOTIFY_DELAY": "55"}, FAIL, "cards are sent after 55 s"),
        ({"FEISHUPERM_SURFACES": "inbox"}, OK, ""),
        ({"FEISHUPERM_SURFACES": "webhook"}, FAIL, "nothing can show a request"),
        ({"FEISHUPERM_SURFACES": "inbox,app"}, WARN, "names app"),
    ],
)
def test_settings_that_do_not_fit_together(
    patient: Patient, rows: dict[str, str], worst: str, named: str
) -> None:
    patient.write_config(**rows)
    assert states(patient, "settings") == worst
    assert named in patient.examine("settings")[0][1]


def test_state_folder_that_others_can_write_to(patient: Patient) -> None:
    folder = patient.manifest.parent
    folder.chmod(0o770)
    assert states(patient, "state") == FAIL
    assert fixes(patient, "state") == [f"chmod 700 {folder}"]


def test_state_folder_of_another_user(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert states(patient, "state") == FAIL


def test_ledger_that_was_changed(patient: Patient) -> None:
    ledger = Ledger(environ=patient.environ)
    for number in range(3):
        ledger.append({"event": "request", "id": f"id-{number}"})
    assert states(patient, "ledger") == OK
    path = Path(ledger.path)
    path.write_bytes(path.read_bytes().replace(b"id-1", b"id-7"))
    assert states(patient, "ledger") == FAIL
    assert fixes(patient, "ledger") == ["feishuperm log verify"]
