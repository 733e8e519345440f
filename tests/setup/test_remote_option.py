"""Who may start sessions from the chat: said by a person at a terminal, and checked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.health import FAIL, OK, WARN
from feishuperm.commands.install import parser
from feishuperm.errors import FeishupermError, SettingError
from feishuperm.models.settings import Settings
from feishuperm.setup import doctor, feishu_setup
from feishuperm.setup.feishu_setup import WantedConfig, remote_settings
from feishuperm.setup.status import lines
from tests.fakes.claude_program import ClaudeProgram
from tests.setup.patient import Patient, states


class Desk:
    """A person at a terminal, who answers."""

    def __init__(self, patch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
        self.environ = environ
        self.answer, self.typed = "y", ""
        patch.setattr(feishu_setup, "require_person", lambda environ: None)
        patch.setattr(feishu_setup, "ask", lambda question: self.answer)
        patch.setattr("builtins.input", lambda question: self.typed)

    def install(self, *options: str) -> dict[str, str]:
        given = parser().parse_args(options)
        config = WantedConfig(given, self.environ)
        return remote_settings(given, config, self.environ)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> Desk:
    return Desk(monkeypatch, environ)


def test_folders_are_kept_by_their_real_paths(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "shop")
    real = os.path.realpath(tmp_path / "shop")
    wanted = {"FEISHUPERM_REMOTE": "on", "FEISHUPERM_PROJECTS": real}
    assert desk.install("--remote", "--projects", f"{tmp_path}/link") == wanted
    desk.typed = f" {tmp_path}/shop "
    assert desk.install("--remote") == wanted
    assert desk.install("--no-remote") == {"FEISHUPERM_REMOTE": "off"}
    assert desk.install() == {}


@pytest.mark.parametrize(
    ("folders", "answer", "said"),
    [
        ("{}/shop", "n", "not switched on"),
        ("{}/shop", "", "not switched on"),
        ("", "y", "not switched on"),
        ("{}/gone", "y", "is no folder"),
        ("{0}/shop:{0}/file", "y", "is no folder"),
    ],
)
def test_nothing_is_switched_on_without_a_yes_to_real_folders(
    desk: Desk, tmp_path: Path, folders: str, answer: str, said: str
) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "file").write_text("")
    desk.answer = answer
    with pytest.raises(FeishupermError, match=said):
        desk.install("--remote", "--projects", folders.format(tmp_path))


@pytest.mark.parametrize("option", ["--remote", "--projects=/tmp"])
@pytest.mark.parametrize("mark", [{"CLAUDECODE": "1"}, {}])
def test_process_of_an_agent_and_one_without_a_terminal_are_refused(
    environ: dict[str, str], option: str, mark: dict[str, str]
) -> None:
    given = parser().parse_args([option])
    inside = {**environ, **mark}
    with pytest.raises(FeishupermError, match=r"inside a session|interactive"):
        remote_settings(given, WantedConfig(given, inside), inside)


def test_environment_of_an_install_switches_nothing_on(environ: dict[str, str]) -> None:
    given = parser().parse_args([])
    loud = {**environ, "FEISHUPERM_REMOTE": "on", "FEISHUPERM_PROJECTS": "/"}
    assert WantedConfig(given, loud).new == {}


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("FEISHUPERM_REMOTE", "yes", "off or on"),
        ("FEISHUPERM_PROJECTS", "shop", "absolute folders, separated by colons"),
        ("FEISHUPERM_PROJECTS", "/a:~/b", "absolute folders, separated by colons"),
    ],
)
def test_bad_value_is_named_with_its_key_and_what_is_allowed(
    key: str, value: str, allowed: str
) -> None:
    with pytest.raises(SettingError, match=f"{key}: '{value}' is not {allowed}"):
        Settings({key: value})


def test_folders_are_read_once_each() -> None:
    read = Settings({"FEISHUPERM_PROJECTS": "/a b::/c:/a b"}).feishuperm_projects
    assert read == ("/a b", "/c")


# What `doctor` and `status` say of it.


class Ward:
    """A patient whose server lets owners start sessions in one trusted folder."""

    def __init__(self, patient: Patient, patch: pytest.MonkeyPatch) -> None:
        self.patient = patient
        self.claude = ClaudeProgram(patient.home / "bin")
        self.shop = os.path.realpath(patient.home) + "/shop"
        os.mkdir(self.shop)
        self.remote: dict[str, Any] = {
            "projects": [self.shop],
            "path": f"{self.claude.folder}:/usr/bin:/bin",
            "has_key": True,
        }
        self.trust(True)
        status = doctor.settled_status()
        patch.setattr(
            doctor, "settled_status", lambda *a, **k: {**status, "remote": self.remote}
        )

    def trust(self, accepted: bool) -> None:
        state = {"projects": {self.shop: {"hasTrustDialogAccepted": accepted}}}
        (self.patient.home / ".claude.json").write_text(json.dumps(state))

    def said(self) -> str:
        rows = self.patient.examine("remote")
        return "\n".join(f"{state} {text} -> {fix}" for state, text, fix in rows)


@pytest.fixture
def ward(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> Ward:
    return Ward(patient, monkeypatch)


def test_doctor_says_what_would_be_started_where(ward: Ward) -> None:
    assert states(ward.patient, "remote") == OK
    assert ward.shop in ward.said() and "2.1.326" in ward.said()


def test_doctor_says_that_it_is_off(patient: Patient) -> None:
    assert states(patient, "remote") == OK
    patient.write_config(FEISHUPERM_REMOTE="on")
    assert states(patient, "remote") == FAIL  # the server does not know it yet


def test_doctor_names_what_is_missing(ward: Ward) -> None:
    for change, state, said in (
        ({"projects": []}, WARN, "names no folder"),
        ({"projects": [ward.shop + "/gone"]}, WARN, "is no folder"),
        ({"path": "/nonexistent"}, FAIL, "claude is not in the PATH"),
        ({"has_key": False}, WARN, "no API key"),
    ):
        before = dict(ward.remote)
        ward.remote.update(change)
        assert states(ward.patient, "remote") == state, change
        assert said in ward.said()
        ward.remote = before
    ward.trust(False)
    assert f"cd {ward.shop} && claude" in ward.said()
    (ward.claude.folder / "help").write_text("Usage: claude [options]\n")
    assert states(ward.patient, "remote") == FAIL and "too old" in ward.said()


def test_status_names_the_folders(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEISHUPERM_LANG", "en")
    status = {
        **doctor.settled_status(),
        "service": "systemd",
        **dict.fromkeys(("inbox", "http", "socket"), "x"),
        "waiting": [],
    }
    assert "remote   on: shop" in "\n".join(lines(status, 0.0))
    assert "remote   off" in "\n".join(lines({**status, "remote": {}}, 0.0))
