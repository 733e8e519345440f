"""A home in which everything is well, for the doctor's tests to break."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from feishuperm.app.health import FAIL, OK, WARN
from feishuperm.lib.post import Reply
from feishuperm.models.names import PROGRAMS
from feishuperm.setup.doctor import DoctorContext, examine

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
        links = [str(self.home / name) for name in PROGRAMS]
        for link in links:
            os.symlink(self.archive, link)
        digest = hashlib.sha256(b"program").hexdigest()
        record = {"archive": str(self.archive), "sha256": digest, "links": links}
        records = {"program": record, "service": {"kind": "systemd"}}
        self.manifest.write_text(json.dumps(records))

    def examine(self, name: str) -> list[tuple[str, str, str]]:
        """Run the checks up to one; its findings."""
        here = DoctorContext(self.environ, str(self.home / "project"))
        rows = []
        for row in examine(here):
            if row.check == name:
                rows.append((row.state, row.text, here.typed(row.fix)))
            elif rows:
                break
        return rows


def answer(code: int, date: str = "") -> Any:
    """What Feishu answers."""
    body = json.dumps({"code": code, "msg": "x"}).encode()
    headers = {"date": date} if date else {}
    return lambda url, body_sent, ca_file="": Reply(200, headers, body)


def states(patient: Patient, check: str) -> str:
    rows = patient.examine(check)
    for state, _, fix in rows:
        assert (state == OK) == (fix == ""), rows
    worst = [state for state in (FAIL, WARN, OK) if state in [row[0] for row in rows]]
    return worst[0]


def fixes(patient: Patient, check: str) -> list[str]:
    return [fix for _, _, fix in patient.examine(check) if fix]
