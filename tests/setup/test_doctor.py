"""Each check finds its own fault and names what mends it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from feishuperm import __version__
from feishuperm.lib.control import NotRunningError
from feishuperm.lib.post import Reply
from feishuperm.setup import doctor
from feishuperm.setup.doctor import CHECKS, FAIL, OK, WARN, Doctor
from feishuperm.setup.installer import LINKS

HEALTH = '{"ok": true, "version": "1"}'
HOOK = {"type": "command", "command": "feishuperm-hook", "timeout": 60}


class Patient:
    """A home in which everything is well, until a test breaks one thing."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ = {"HOME": str(home), "PATH": f"{home}:/usr/bin:/bin"}
        self.config = home / ".config/feishuperm/config.env"
        self.pin = home / ".config/feishuperm/python"
        self.settings = home / ".claude/settings.json"
        self.manifest = home / ".local/state/feishuperm/install.json"
        self.archive = home / "feishuperm.pyz"
        self.socket = home / "s"
        self.settings_value: dict[str, Any] = {
            "permissions": {"defaultMode": "default"},
            "hooks": {"PermissionRequest": [{"matcher": "*", "hooks": [HOOK]}]},
        }
        for path in (self.config, self.settings, self.manifest):
            path.parent.mkdir(parents=True, exist_ok=True)
        self.write_config()
        self.pin.write_text(f"{sys.executable}\n")
        self.archive.write_bytes(b"program")
        self.archive.chmod(0o755)
        self.write_manifest()
        self.write_settings()
        self.socket.write_bytes(b"")
        self.socket.chmod(0o600)

    def write_config(self, **more: str) -> None:
        rows = {"PERMISSION_SOCKET_PATH": str(self.socket), **more}
        self.config.write_text("".join(f"{k}={v}\n" for k, v in rows.items()))
        self.config.chmod(0o600)

    def write_settings(self) -> None:
        self.settings.write_text(json.dumps(self.settings_value))

    def write_manifest(self) -> None:
        links = [str(self.home / name) for name in LINKS]
        for link in links:
            os.symlink(self.archive, link)
        digest = hashlib.sha256(b"program").hexdigest()
        record = {"archive": str(self.archive), "sha256": digest, "links": links}
        records = {"program": record, "service": {"kind": "systemd"}}
        self.manifest.write_text(json.dumps(records))

    def examine(self, name: str) -> list[tuple[str, str, str]]:
        """Run the checks up to one; its findings."""
        found = Doctor(self.environ, str(self.home / "project")).examine()
        rows = []
        for finding in found:
            if finding.check == name:
                rows.append((finding.state, finding.text, finding.fix))
            elif rows:
                break
        return rows


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patient]:
    status = {
        "version": __version__,
        "pid": 7,
        "http": "http://localhost:8080",
        "started": time.time() + 60,
    }
    monkeypatch.setattr(doctor, "ask_server", lambda *a, **k: {**status, "waiting": []})
    monkeypatch.setattr(doctor, "fetch", lambda *a, **k: (200, HEALTH))
    monkeypatch.setattr(Doctor, "loop", lambda self: iter([(OK, "", "")]))
    checks = tuple(
        (name, Doctor.loop if name == "loop" else check) for name, check in CHECKS
    )
    monkeypatch.setattr(doctor, "CHECKS", checks)
    yield Patient(tmp_path)


def answer(code: int, date: str = "") -> Any:
    """What Feishu answers."""
    body = json.dumps({"code": code, "msg": "x"}).encode()
    headers = {"date": date} if date else {}
    return lambda url, body_sent: Reply(200, headers, body)


@pytest.mark.parametrize(
    "check", [name for name, _ in CHECKS if name not in ("feishu", "loop")]
)
def test_well_patient_has_nothing(patient: Patient, check: str) -> None:
    assert {state for state, _, _ in patient.examine(check)} == {OK}


def states(patient: Patient, check: str) -> str:
    rows = patient.examine(check)
    for state, _, fix in rows:
        assert (state == OK) == (fix == ""), rows
    worst = [state for state in (FAIL, WARN, OK) if state in [row[0] for row in rows]]
    return worst[0]


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


def test_settings_that_do_not_parse(patient: Patient) -> None:
    patient.settings.write_text("{ // no")
    assert states(patient, "claude settings") == FAIL


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"timeout": 59}, FAIL),
        ({"timeout": "60"}, FAIL),
        ({"timeout": 600}, OK),
        ({"command": "/nonexistent/feishuperm-hook"}, FAIL),
        ({"command": "other"}, FAIL),
        ({"command": "A=1 feishuperm-hook"}, OK),
        ({"command": "A=1 B='x y' /nonexistent/feishuperm-hook"}, FAIL),
        ({"command": "PATH=/nonexistent feishuperm-hook"}, FAIL),
        ({"command": "$HOME/feishuperm-hook"}, OK),
        ({"command": "~/bin/feishuperm-hook"}, FAIL),
    ],
)
def test_hook_entry(patient: Patient, change: dict[str, Any], state: str) -> None:
    groups = patient.settings_value["hooks"]["PermissionRequest"]
    groups[0]["hooks"] = [{**HOOK, **change}]
    patient.write_settings()
    assert states(patient, "hooks") == state


def test_hook_for_some_tools_only(patient: Patient) -> None:
    patient.settings_value["hooks"]["PermissionRequest"][0]["matcher"] = "Bash"
    patient.write_settings()
    assert states(patient, "hooks") == WARN


def test_hook_registered_twice(patient: Patient) -> None:
    patient.settings_value["hooks"]["PermissionRequest"] *= 2
    patient.write_settings()
    assert states(patient, "hooks") == WARN


def test_hooks_disabled(patient: Patient) -> None:
    patient.settings_value["disableAllHooks"] = True
    patient.write_settings()
    assert states(patient, "hooks enabled") == FAIL


@pytest.mark.parametrize(
    ("mode", "state"),
    [("auto", WARN), ("bypassPermissions", WARN), ("acceptEdits", OK), (None, WARN)],
)
def test_permission_mode(patient: Patient, mode: str | None, state: str) -> None:
    patient.settings_value["permissions"] = {"defaultMode": mode} if mode else {}
    patient.write_settings()
    assert states(patient, "permission mode") == state


def test_project_settings_win_over_the_user_s(patient: Patient) -> None:
    folder = patient.home / "project/.claude"
    folder.mkdir(parents=True)
    (folder / "settings.local.json").write_text(
        '{"permissions": {"defaultMode": "auto"}}'
    )
    assert states(patient, "permission mode") == WARN


def test_vs_code_is_told_about(patient: Patient) -> None:
    patient.environ["TERM_PROGRAM"] = "vscode"
    assert states(patient, "permission mode") == WARN


def test_server_absent(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*args: Any, **kwargs: Any) -> Any:
        raise NotRunningError("the server is not running")

    monkeypatch.setattr(doctor, "ask_server", absent)
    assert states(patient, "server") == FAIL


def test_server_of_another_version(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = {"version": "0.0.9", "pid": 7, "http": "http://localhost:8080"}
    monkeypatch.setattr(doctor, "ask_server", lambda *a, **k: status)
    assert states(patient, "server") == FAIL


def test_file_replaced_under_a_running_server(patient: Patient) -> None:
    os.utime(patient.archive, (time.time() + 120,) * 2)
    assert states(patient, "server") == FAIL


def test_socket_open_to_others(patient: Patient) -> None:
    patient.socket.chmod(0o666)
    assert states(patient, "socket") == FAIL


def test_socket_missing(patient: Patient) -> None:
    patient.socket.unlink()
    assert states(patient, "socket") == FAIL


def test_socket_of_another_user(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert states(patient, "socket") == FAIL


@pytest.mark.parametrize(
    "reply",
    [(502, ""), (200, "welcome"), (200, "[]"), (200, "{}"), OSError("refused")],
)
def test_address_that_does_not_answer(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, reply: Any
) -> None:
    def fetch(*args: Any, **kwargs: Any) -> Any:
        if isinstance(reply, OSError):
            raise reply
        return reply

    monkeypatch.setattr(doctor, "fetch", fetch)
    assert states(patient, "http") == FAIL


def test_bot_with_an_address_no_phone_can_open(patient: Patient) -> None:
    patient.write_config(
        FEISHU_WEBHOOK_URL="http://127.0.0.1:9/open-apis/bot/v2/hook/x"
    )
    assert states(patient, "http") == WARN


def test_no_bot(patient: Patient) -> None:
    assert states(patient, "feishu") == WARN


@pytest.mark.parametrize(("code", "state"), [(0, OK), (19001, FAIL), (19021, FAIL)])
def test_bot_is_really_called(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, code: int, state: str
) -> None:
    patient.write_config(
        FEISHU_WEBHOOK_URL="http://127.0.0.1:9/open-apis/bot/v2/hook/x"
    )
    monkeypatch.setattr(doctor, "post_json", answer(code))
    assert states(patient, "feishu") == state


@pytest.mark.parametrize(
    ("skew", "state"), [(0, OK), (-30, OK), (600, WARN), (-4000, FAIL), (4000, FAIL)]
)
def test_clock(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, skew: int, state: str
) -> None:
    patient.write_config(
        FEISHU_WEBHOOK_URL="http://127.0.0.1:9/open-apis/bot/v2/hook/x"
    )
    date = formatdate(time.time() - skew, usegmt=True)
    monkeypatch.setattr(doctor, "post_json", answer(0, date))
    assert states(patient, "clock") == state


# What mends.


def fixes(patient: Patient, check: str) -> list[str]:
    return [fix for _, _, fix in patient.examine(check) if fix]


@pytest.fixture
def absent(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> Patient:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotRunningError("the server is not running")

    monkeypatch.setattr(doctor, "ask_server", refuse)
    return patient


@pytest.mark.parametrize("check", ["socket", "http"])
def test_without_a_server_its_parts_are_not_blamed(absent: Patient, check: str) -> None:
    absent.socket.unlink()
    row = (WARN, "not checked: no server", "feishuperm install")
    assert absent.examine(check) == [row]


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
    found = list(Doctor(absent.environ, str(absent.home)).examine())
    assert [row.fix for row in found if row.check == "file"] == [doctor.REINSTALL]
    assert [row.fix for row in found if row.check == "python"] == [doctor.FILE_FIRST]
    assert not [row.fix for row in found if "feishuperm install" in row.fix]


def test_broken_pin_is_mended_by_the_python_that_runs_this(patient: Patient) -> None:
    patient.pin.write_text("/nonexistent/python3\n")
    (fix,) = fixes(patient, "python")
    assert fix.startswith(sys.executable) and fix.endswith(" install")


def test_broken_link_is_mended_by_install(patient: Patient) -> None:
    (patient.home / "feishuperm-hook").unlink()
    assert fixes(patient, "file") == ["feishuperm install"]


def test_server_older_than_its_file_is_restarted(patient: Patient) -> None:
    os.utime(patient.archive, (time.time() + 120,) * 2)
    restart = f"touch {patient.config} && feishuperm install"
    assert fixes(patient, "server") == [restart]
    patient.socket.chmod(0o666)
    assert fixes(patient, "socket") == [restart]


def test_socket_missing_is_told_in_words(patient: Patient) -> None:
    patient.socket.unlink()
    ((_, text, _),) = patient.examine("socket")
    assert text == f"{patient.socket}: No such file or directory"


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


def test_folder_in_the_place_of_the_config_is_moved_away(patient: Patient) -> None:
    patient.config.unlink()
    patient.config.mkdir()
    assert fixes(patient, "config") == [f"mv {patient.config} {patient.config}.old"]


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


def test_hook_of_user_and_project_leaves_the_project(patient: Patient) -> None:
    path = patient.home / "project/.claude/settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"hooks": patient.settings_value["hooks"]}))
    assert fixes(patient, "hooks") == [f"edit {path}: remove feishuperm-hook"]


def test_broken_hook_of_a_project_is_mended_there(patient: Patient) -> None:
    patient.settings.unlink()
    path = patient.home / "project/.claude/settings.json"
    path.parent.mkdir(parents=True)
    groups = [{"matcher": "*", "hooks": [{**HOOK, "timeout": 5}]}]
    path.write_text(json.dumps({"hooks": {"PermissionRequest": groups}}))
    folder = patient.home / "project"
    assert fixes(patient, "hooks") == [f"cd {folder} && feishuperm install --project"]


@pytest.mark.parametrize(
    ("code", "key", "fix"),
    [
        (19001, "", "feishuperm install --webhook URL --secret TEXT"),
        (19021, "", "feishuperm install --secret TEXT"),
        (19024, "", "change the bot's settings in the Feishu group"),
        (11232, "", "in a minute: feishuperm doctor"),
        (19001, "FEISHU_WEBHOOK_URL", "set it right in the environment: "),
        (19021, "FEISHU_WEBHOOK_SECRET", "set it right in the environment: "),
    ],
)
def test_wrong_bot_names_what_is_wrong(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, code: int, key: str, fix: str
) -> None:
    url = "http://127.0.0.1:9/open-apis/bot/v2/hook/x"
    patient.write_config(FEISHU_WEBHOOK_URL=url)
    if key:
        patient.environ[key] = url
    monkeypatch.setattr(doctor, "post_json", answer(code))
    assert fixes(patient, "feishu") == [fix + key]


def test_no_secret_in_any_finding(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient.write_config(
        FEISHU_WEBHOOK_URL="http://127.0.0.1:9/open-apis/bot/v2/hook/token-token",
        FEISHU_WEBHOOK_SECRET="hush-hush",
    )
    found = list(Doctor(patient.environ, str(patient.home)).examine())
    text = "\n".join(map(str, found))
    assert "token-token" not in text and "hush-hush" not in text
    assert next(row for row in found if row.check == "feishu").state == FAIL
