"""Which calls reach our hook by the rules of `install --ask-list`, by the real client.

The programs are stubs, so that what nobody asks about harms nothing.  In print mode
what is asked about and not answered is refused, and the script goes on.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.model import text, tool
from tests.lab import Lab

pytestmark = pytest.mark.claude

STUBS = (
    *("git", "npm", "docker", "gh", "kubectl", "terraform", "make", "ssh", "stripe"),
    "rm",
)
ASKED = [
    "git push", "git push origin main", "git add . && git push --force",
    "FOO=1 git push", "git -C sub push origin", "npm publish --tag next",
    "docker push me/it", "gh release create v1", "kubectl delete pod x",
    "terraform apply", "make deploy", "./deploy.sh", "npm run deploy:prod",
    "ssh host uptime", "npm run migrate -- --env production", "stripe charges list",
    "rm /tmp/zzz", "rm -rf /tmp/zzz", "rm -rf ~/zzz", "rm -rf ../zzz",
    "rm -rf $HOME/zzz", "cat ~/.ssh/id_rsa", "cat ~/.aws/credentials", "cat .env",
]  # fmt: skip
# Rules see words: these mean the same to a shell, and auto mode judges them itself.
PASSED_OVER = ["bash -c 'git push'", "cd /tmp && rm -rf zzz"]
HARMLESS = ["git log", "npm run build", "rm -rf build", "rm x", "kubectl get pods"]


def asked_by(lab: Lab, mode: str, commands: list[str], files: list[str]) -> list[str]:
    """What a session in a mode asks about; it must say each call is its mode's."""
    folder = Path(lab.root, "stubs")
    folder.mkdir()
    for name in STUBS:
        (folder / name).write_text("#!/bin/sh\nexit 0\n")
        (folder / name).chmod(0o755)
    lab.extra["PATH"] = f"{folder}:{lab.environ()['PATH']}"
    lab.record("PermissionRequest", "*")
    for command in commands:
        lab.model.push([tool("Bash", command=command, description="x")])
    for file in files:
        lab.write(file, "x\n")
        lab.model.push([tool("Read", file_path=file)])
    lab.model.push([text("bye")])
    done = lab.run("go", "--permission-mode", mode, timeout=150)
    assert done.stdout.strip() == "bye", done.stdout + done.stderr
    events = lab.recorded("PermissionRequest")
    assert {event["permission_mode"] for event in events} <= {mode}
    inputs = [event["tool_input"] for event in events]
    return [call.get("command") or call["file_path"] for call in inputs]


@pytest.mark.parametrize("mode", ["default", "auto"])
def test_what_the_list_names_reaches_the_hook_in_every_mode(
    lab: Lab, mode: str
) -> None:
    options = ("--no-service", "--no-input", "--ask-list")
    installed = lab.run_pyz("install", *options)
    assert installed.returncode == 0, installed.stderr
    secrets = [f"{lab.home}/.ssh/id_rsa", f"{lab.home}/.aws/credentials"]
    secrets += [f"{lab.project}/.env", f"{lab.project}/sub/.env"]
    plain = os.path.join(lab.project, "plain.txt")
    commands = [*ASKED, *PASSED_OVER, *HARMLESS]
    asked = asked_by(lab, mode, commands, [*secrets, plain])
    assert [call for call in (*ASKED, *secrets) if call not in asked] == []
    assert plain not in asked
    if mode == "auto":
        assert sorted(asked) == sorted([*ASKED, *secrets])
    else:  # Claude Code asks about whatever no rule allows
        assert set(PASSED_OVER) <= set(asked)


def test_without_the_list_auto_mode_asks_about_none_of_it(lab: Lab) -> None:
    lab.settings = {}
    assert asked_by(lab, "auto", ASKED[:6], []) == []
