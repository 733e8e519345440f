"""From a fresh home to an answered request and back, with the built file."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import build
from feishuperm.lib import enrolment
from feishuperm.lib.enrolment import Enrolment
from feishuperm.setup.demo import fetch, press
from feishuperm.setup.service import SystemdService
from tests.conftest import ROOT, clean_env, free_port, need, wait_until
from tests.fakes.feishu import FakeFeishu
from tests.served import event

SCRIPT = ROOT / "install.sh"
SETTINGS = b'\xef\xbb\xbf{\r\n\t"model": "opus",\r\n\t"hooks": {"Stop": [ ]}\r\n}'


class Machine:
    """A user with a home of their own; ends the server it started."""

    def __init__(self, home: Path, pyz: Path) -> None:
        self.home = home
        self.pyz = pyz
        self.environ = clean_env(home)
        self.bin = home / ".local/bin"
        self.settings = home / ".claude/settings.json"
        self.hooks: list[subprocess.Popen[bytes]] = []

    def sh(
        self, *args: str, shell: str = "sh", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """install.sh with the built file and no service manager."""
        given = ["--from", str(self.pyz), "--service", "background"]
        if "--uninstall" in args:
            given = []
        return self.call(*shell.split(), str(SCRIPT), *given, *args, **environ)

    def run(self, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """The installed program."""
        return self.call(str(self.bin / "feishuperm"), *args, **environ)

    def call(
        self, *command: str, stdin: str = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=90,
            cwd=self.home,
            env={**self.environ, **environ},
        )

    def installed(self, *args: str, **environ: str) -> str:
        """Install; what it printed."""
        result = self.sh("--port", str(free_port()), *args, **environ)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("status", "--json").stdout)
        return found

    def hook(self, **tool_input: str) -> subprocess.Popen[bytes]:
        """The registered hook command, fed as Claude Code feeds it."""
        settings = json.loads(self.settings.read_bytes().decode("utf-8-sig"))
        entry = settings["hooks"]["PermissionRequest"][-1]["hooks"][0]
        process = subprocess.Popen(
            ["/bin/sh", "-c", entry["command"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environ,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(event("Bash", **tool_input)).encode() + b"\n")
        process.stdin.close()
        self.hooks.append(process)
        return process

    def waiting(self) -> dict[str, Any]:
        """The status once a request waits."""
        return wait_until(lambda: (s := self.status())["waiting"] and s)  # type: ignore[no-any-return]

    def close(self) -> None:
        if (self.bin / "feishuperm").exists():
            self.run("uninstall", "--purge")
        for process in self.hooks:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def output(process: subprocess.Popen[bytes]) -> bytes:
    """What a hook printed, once it has ended."""
    process.wait(30)
    assert process.stdout is not None
    return process.stdout.read()


def answer(status: dict[str, Any], action: str) -> None:
    """Open the waiting request's page and press a button, like a person."""
    press(status["http"], status["waiting"][0]["id"], action, {})


@pytest.fixture
def machine(home: Path, pyz: Path) -> Iterator[Machine]:
    made = Machine(home, pyz)
    yield made
    made.close()


@pytest.fixture
def second(tmp_path: Path, pyz: Path) -> Iterator[Machine]:
    home = tmp_path / "second home"
    home.mkdir()
    made = Machine(home, pyz)
    yield made
    made.close()


# The whole way.


def test_fresh_home_to_an_answered_request_and_back_to_every_byte(
    machine: Machine,
) -> None:
    machine.settings.parent.mkdir()
    machine.settings.write_bytes(SETTINGS)
    machine.settings.chmod(0o640)
    said = machine.installed()
    assert "is installed and running (background" in said
    assert re.search(r"^inbox: http://localhost:\d+/", said, re.MULTILINE)
    assert "Now start a new claude session" in said and "export PATH=" in said

    hook = machine.hook(command="npm test")
    status = machine.waiting()
    assert fetch(status["inbox"])[0] == 200
    answer(status, "allow")
    decision = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
    assert json.loads(output(hook)) == {"hookSpecificOutput": decision}

    before = snapshot(machine.home)
    again = machine.sh()
    assert "is up to date and running" in again.stdout
    assert snapshot(machine.home) == before
    assert machine.status()["pid"] == status["pid"]

    gone = machine.sh("--uninstall")
    assert gone.returncode == 0, gone.stderr
    assert machine.settings.read_bytes() == SETTINGS
    assert machine.settings.stat().st_mode & 0o777 == 0o640
    assert not machine.bin.exists()
    wait_until(lambda: not os.path.exists(f"/proc/{status['pid']}/fd"))
    left = {str(path.relative_to(machine.home)) for path in files(machine.home)}
    assert ".config/feishuperm/config.env" in left
    assert ".local/state/feishuperm/ledger.jsonl" in left
    assert not [path for path in left if "backup" in path or "install.json" in path]


def test_purge_leaves_an_empty_home(machine: Machine) -> None:
    machine.installed("--supervisor", "--events", "Notification")
    assert sorted(json.loads(machine.settings.read_text())["hooks"]) == [
        "Notification", "PermissionRequest", "PreToolUse", "Stop"
    ]  # fmt: skip
    result = machine.sh("--uninstall", "--purge")
    assert result.returncode == 0, result.stderr
    assert list(machine.home.iterdir()) == []


def test_team_mate_installs_from_a_running_server(
    machine: Machine, second: Machine
) -> None:
    """curl http://127.0.0.1:PORT/install.sh | sh"""
    machine.installed()
    url = machine.status()["http"].replace("localhost", "127.0.0.1")
    script = fetch(f"{url}/install.sh")[1]
    args = ["-s", "--", "--service", "background", "--port", str(free_port())]
    result = second.call("sh", *args, stdin=script)
    assert result.returncode == 0, result.stderr
    assert "downloading" in result.stderr
    archive = ".local/share/feishuperm/feishuperm.pyz"
    assert (second.home / archive).read_bytes() == machine.pyz.read_bytes()
    assert second.status()["pid"] != machine.status()["pid"]
    hook = second.hook(command="ls")
    answer(second.waiting(), "deny")
    assert "用户通过飞书拒绝" in output(hook).decode()


def test_upgrade_keeps_settings_ledger_enrolment_and_what_is_pending(
    machine: Machine, tmp_path: Path
) -> None:
    gateway = "https://perm.example"  # joined, and not used by this server
    own = Enrolment(gateway, "m1", "box", "ou_me", "me", ("ab" * 32,))
    enrolment.save_coming(own, machine.environ)
    enrolment.promote(machine.environ)
    given = {"FEISHUPERM_GATEWAY": gateway, "FEISHUPERM_SURFACES": "inbox"}
    machine.installed("--wait", "5m", **given)
    config = machine.home / ".config/feishuperm/config.env"
    with config.open("a") as file:
        file.write("# mine\nFEISHU_AT=all\n")
    assert machine.run("restart").returncode == 0
    first = machine.hook(command="ls")
    answer(machine.waiting(), "deny")
    assert b'"deny"' in output(first)
    hook = machine.hook(command="sleep 1")
    before = machine.waiting()
    files = (config, machine.settings, config.parent / "gateway.json")
    kept = [path.read_bytes() for path in files]
    ledger = machine.home / ".local/state/feishuperm/ledger.jsonl"
    lines = ledger.read_bytes()

    again = machine.sh()
    assert again.returncode == 0 and "is up to date" in again.stdout, again.stderr
    assert machine.waiting()["pid"] == before["pid"]
    data = machine.pyz.read_bytes()
    assert data.endswith(b"\0\0")  # the length of the zip's comment
    machine.pyz = tmp_path / "feishuperm.pyz"
    machine.pyz.write_bytes(data[:-2] + b"\x03\x00new")
    result = machine.sh()
    assert result.returncode == 0, result.stderr
    assert "handed over to the new server: 1" in result.stdout
    status = machine.waiting()
    assert status["pid"] != before["pid"]
    assert status["waiting"][0]["id"] == before["waiting"][0]["id"]
    assert [path.read_bytes() for path in files] == kept
    answer(status, "allow")
    assert b'"allow"' in output(hook)
    assert len(lines) > 0 and ledger.read_bytes().startswith(lines)
    verified = machine.run("log", "verify")
    assert verified.returncode == 0 and "nothing was changed" in verified.stdout


def test_restart_keeps_what_waits_and_stop_hands_it_back(machine: Machine) -> None:
    machine.installed()
    old = machine.status()["pid"]
    hook = machine.hook(command="make")
    before = machine.waiting()["waiting"][0]["id"]
    result = machine.run("restart")
    assert result.returncode == 0, result.stderr
    assert "handed over to the new server: 1" in result.stdout
    status = machine.waiting()
    assert status["waiting"][0]["id"] == before and status["pid"] != old
    assert hook.poll() is None

    result = machine.run("stop")
    assert (result.returncode, result.stderr) == (0, "")
    assert "1 pending returned to the terminal" in result.stdout
    assert output(hook) == b""
    wait_until(lambda: not os.path.exists(f"/proc/{status['pid']}/fd"))
    assert machine.run("stop").stdout == "the server is not running\n"
    assert machine.run("restart").returncode == 0
    assert machine.status()["service"] == "background"


def test_service_manager_that_is_not_there_leaves_the_running_server(
    machine: Machine,
) -> None:
    machine.installed()
    pid, before = machine.status()["pid"], snapshot(machine.home)
    fakes = machine.home / "fakes"
    fakes.mkdir()
    (fakes / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    (fakes / "systemctl").chmod(0o755)
    path = f"{fakes}:/usr/bin:/bin"
    result = machine.run("install", "--service", "systemd", PATH=path)
    assert result.returncode == 1
    assert "`systemctl --user` does not answer" in result.stderr
    assert "--service background" in result.stderr
    (fakes / "systemctl").unlink()
    assert machine.status()["pid"] == pid and snapshot(machine.home) == before


def test_service_that_does_not_start_brings_the_old_one_back(machine: Machine) -> None:
    machine.installed()
    pid = machine.status()["pid"]
    fakes = machine.home / "fakes"
    fakes.mkdir()
    (fakes / "systemctl").write_text(
        '#!/bin/sh\ncase "$*" in *restart*) exit 1 ;; esac\n'
    )
    (fakes / "systemctl").chmod(0o755)
    path = f"{fakes}:/usr/bin:/bin"
    hook = machine.hook(command="make")
    machine.waiting()
    result = machine.run("install", "--service", "systemd", PATH=path)
    assert result.returncode == 1
    assert "systemctl --user restart feishuperm.service failed" in result.stderr
    assert "the previous server runs again (background)" in result.stderr
    status = machine.waiting()
    assert (status["service"], status["pid"] != pid) == ("background", True)
    assert not (machine.home / ".config/systemd").exists()
    answer(status, "deny")
    assert b'"deny"' in output(hook)


def test_nothing_we_make_can_be_written_by_others_whatever_the_umask(
    machine: Machine,
) -> None:
    command = f'umask 0; exec sh {shlex.quote(str(SCRIPT))} "$@"'
    given = ["--from", str(machine.pyz), "--service", "background", "--supervisor"]
    given += ["--port", str(free_port())]
    result = machine.call("sh", "-c", command, "sh", *given)
    assert result.returncode == 0, result.stderr
    hook = machine.hook(command="ls")
    answer(machine.waiting(), "allow")
    output(hook)
    paths = [path for path in machine.home.rglob("*") if not path.is_symlink()]
    modes = {path: path.stat().st_mode & 0o777 for path in paths}
    assert {m for p, m in modes.items() if p.is_dir()} == {0o700}
    assert {oct(m) for p, m in modes.items() if not p.is_dir()} <= {
        *("0o600", "0o644", "0o755")
    }


@pytest.mark.full
def test_uninstall_ends_a_server_that_does_not_answer(machine: Machine) -> None:
    machine.installed()
    status = machine.status()
    os.unlink(status["socket"])
    os.kill(status["pid"], signal.SIGSTOP)
    result = machine.sh("--uninstall")
    assert result.returncode == 0, result.stderr
    assert "stopped the server" in result.stdout
    wait_until(lambda: not os.path.exists(f"/proc/{status['pid']}/fd"))


def test_other_prefix_and_socket_leave_nothing_of_the_first_behind(
    machine: Machine,
) -> None:
    machine.installed()
    old, first = machine.status(), machine.bin
    machine.bin = machine.home / "new/bin"
    moved = str(machine.home / "moved.sock")
    result = machine.sh(
        "--prefix", str(machine.home / "new"), PERMISSION_SOCKET_PATH=moved
    )
    assert result.returncode == 0, result.stderr
    assert not first.exists()
    status = machine.status()
    assert status["pid"] != old["pid"] and status["socket"] == moved
    assert status["http"] == old["http"]
    wait_until(lambda: not os.path.exists(f"/proc/{old['pid']}/fd"))
    [group] = json.loads(machine.settings.read_text())["hooks"]["PermissionRequest"]
    command = str(machine.bin / "feishuperm-hook")
    assert [entry["command"] for entry in group["hooks"]] == [command]
    assert machine.run("uninstall", "--purge").returncode == 0
    assert list(machine.home.iterdir()) == []


def test_bad_port_or_host_leaves_the_running_server(machine: Machine) -> None:
    machine.installed()
    config = machine.home / ".config/feishuperm/config.env"
    before, pid = config.read_bytes(), machine.status()["pid"]
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = machine.run("install", "--port", str(other.getsockname()[1]))
    elsewhere = machine.run("install", CALLBACK_SERVER_HOST="192.0.2.1")
    assert (taken.returncode, elsewhere.returncode) == (1, 1)
    assert "is taken" in taken.stderr
    assert "CALLBACK_SERVER_HOST" in elsewhere.stderr
    assert config.read_bytes() == before and machine.status()["pid"] == pid


def test_server_starts_the_way_the_unit_says(machine: Machine) -> None:
    machine.installed("--no-service")
    program = str(machine.bin / "feishuperm")
    unit = SystemdService(program, machine.environ).content.decode()
    [line] = [row for row in unit.splitlines() if row.startswith("ExecStart=")]
    command = shlex.split(line.partition("=")[2])
    with subprocess.Popen(command, env=machine.environ, stderr=-3) as server:
        try:
            wait_until(lambda: machine.run("status").returncode == 0)
            hook = machine.hook(command="ls")
            answer(machine.waiting(), "allow")
            assert b"allow" in output(hook)
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0


@pytest.mark.parametrize(
    "checker", ["shellcheck", "dash -n", "busybox sh -n", "bash --posix -n"]
)
def test_script_is_plain_sh(checker: str) -> None:
    command = checker.split()
    need(command[0])
    result = subprocess.run([*command, str(SCRIPT)], capture_output=True, timeout=60)
    assert (result.returncode, result.stdout) == (0, b"")


# Questions and refusals.


def test_nothing_is_asked_and_nothing_read_on_a_pipe(machine: Machine) -> None:
    given = ["--from", str(machine.pyz), "--service", "background"]
    given += ["--port", str(free_port())]
    result = machine.call("sh", str(SCRIPT), *given, stdin="y\n" * 10)
    assert result.returncode == 0, result.stderr
    assert "[y/N]" not in result.stdout and "Choose" not in result.stdout


def test_terminal_is_asked_for_the_bot_and_the_mode(machine: Machine) -> None:
    with FakeFeishu(secret="sign me") as feishu:
        command = [
            "sh", str(SCRIPT), "--from", str(machine.pyz), "--service", "background",
            "--port", str(free_port()),
        ]  # fmt: skip
        said = talk(
            command,
            machine.environ,
            [
                ("Choose [1]", "3"),
                ("Webhook address", "https://open.feishu.cn/open-apis/bot/hook/old"),
                ("Webhook address", feishu.webhook_url),
                ("Signing secret", "wrong"),
                ("a phone cannot open", ""),
                ("The secret is wrong", "sign me"),
                ("Wait 10 minutes?", ""),
                ("What should it always ask you about?", "2"),
            ],
        )
        assert "is not the address of a custom bot" in said
        assert "did not accept the test card" in said
        assert "a test card was sent to the group" in said
        assert "sign me" not in said
        assert len(feishu.cards) == 1
    entry = json.loads(machine.settings.read_text())["hooks"]["PermissionRequest"][0]
    assert entry["hooks"][0]["timeout"] == 605
    config = machine.home / ".config/feishuperm/config.env"
    assert "FEISHU_WEBHOOK_SECRET=sign me\n" in config.read_text()
    assert config.stat().st_mode & 0o777 == 0o600
    mode = json.loads(machine.settings.read_text())["permissions"]
    assert mode == {"defaultMode": "default"}


def test_settings_that_do_not_parse_stop_everything_before_it_starts(
    machine: Machine,
) -> None:
    machine.settings.parent.mkdir()
    machine.settings.write_text('{ // mine\n "model": "opus" }')
    result = machine.sh()
    assert result.returncode == 1
    assert f"{machine.settings} is left as it is: line 1" in result.stderr
    assert machine.settings.read_text() == '{ // mine\n "model": "opus" }'
    assert not machine.bin.exists()


def test_clone_is_built_first_when_a_source_is_newer(
    machine: Machine, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    (clone / "feishuperm").mkdir(parents=True)
    (clone / "dist").mkdir()
    shutil.copy(SCRIPT, clone)
    (clone / "build.py").write_text(
        "import shutil\nprint('building')\n"
        f"shutil.copy({str(machine.pyz)!r}, 'dist/feishuperm.pyz')\n"
    )
    command = ["sh", str(clone / "install.sh"), "--dry-run"]
    first = machine.call(*command).stderr
    assert "building from source" in first and "building\n" not in first
    second = machine.call(*command)
    assert second.returncode == 0 and "building" not in second.stderr
    source = clone / "feishuperm/new.py"
    source.write_text("")
    os.utime(source, (time.time() + 60,) * 2)
    assert "building from source" in machine.call(*command).stderr
    (clone / "dist/SHA256SUMS").write_text(f"{'0' * 64}  feishuperm.pyz\n")
    source.unlink()
    assert "wrong checksum" in machine.call(*command).stderr


def test_output_of_a_build_is_shown_when_it_fails(
    machine: Machine, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    (clone / "feishuperm").mkdir(parents=True)
    shutil.copy(SCRIPT, clone)
    (clone / "build.py").write_text("raise SystemExit('no compiler here')\n")
    result = machine.call("sh", str(clone / "install.sh"), "--dry-run")
    assert result.returncode == 1 and "no compiler here\n" in result.stderr
    assert "feishuperm: the build failed\n" in result.stderr


def test_released_script_takes_the_file_beside_it_and_no_other(
    machine: Machine, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    release.mkdir()
    shutil.copy(machine.pyz, release)
    digest = hashlib.sha256(machine.pyz.read_bytes()).hexdigest()
    (release / "install.sh").write_bytes(build.make_installer("0.2.0", "", digest))
    command = ["sh", str(release / "install.sh"), "--dry-run"]
    result = machine.call(*command)
    assert result.returncode == 0, result.stderr
    with open(release / "feishuperm.pyz", "ab") as file:
        file.write(b"x")
    assert "wrong checksum" in machine.call(*command).stderr


@pytest.mark.parametrize("shell", ["sh", "busybox sh"])
def test_dry_run_changes_nothing(machine: Machine, shell: str) -> None:
    need(shell.split()[0])
    result = machine.sh("--dry-run", shell=shell)
    assert result.returncode == 0, result.stderr
    assert "would register PermissionRequest" in result.stdout
    assert list(machine.home.iterdir()) == []


def test_taken_port_is_named_and_a_default_one_is_replaced(machine: Machine) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        result = machine.sh("--port", str(taken))
        assert result.returncode == 1
        assert f"port {taken} is taken" in result.stderr and "--port" in result.stderr
        assert list(files(machine.home)) == [] or not machine.bin.exists()


@pytest.mark.parametrize("cut", range(20))
def test_script_that_was_cut_off_does_nothing(
    home: Path, tmp_path: Path, cut: int
) -> None:
    data = SCRIPT.read_bytes()
    sizes = [len(data) - n for n in range(2, 11)]  # the last line is the only live one
    sizes += [len(data) * n // 12 for n in range(1, 12)]
    script = tmp_path / "install.sh"
    script.write_bytes(data[: sizes[cut]])
    environ = clean_env(home, PATH=f"{tmp_path}:/usr/bin:/bin")
    spy = tmp_path / "python3.14"
    spy.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    spy.chmod(0o755)
    with open(script, "rb") as stdin:
        subprocess.run(
            ["sh"], stdin=stdin, env=environ, cwd=home, capture_output=True, timeout=30
        )
    assert list(home.iterdir()) == [] and not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--sha256", "0" * 64], "wrong checksum"),
        (["--version", "99"], "not version 99"),
        (["--from", "http://192.0.2.1/feishuperm.pyz"], "is not encrypted"),
        (["--from", "ftp://192.0.2.1/feishuperm.pyz"], "not an https address"),
        (["--from", "/nonexistent"], "no such file"),
        (["--from"], "needs a value"),
        (["--dance"], "--dance"),
    ],
)
def test_refusals_name_the_reason_and_leave_no_file(
    machine: Machine, args: list[str], problem: str
) -> None:
    result = machine.sh(*args)
    assert result.returncode != 0
    assert problem in result.stderr
    assert list(machine.home.iterdir()) == []


def test_root_with_the_home_of_a_user_is_refused_with_the_command_to_use(
    machine: Machine,
) -> None:
    """`sudo ./install.sh` that keeps HOME, and every way to the same."""
    if os.geteuid():
        pytest.skip("only root can be root")
    os.chown(machine.home, 65534, 65534)
    for result in (
        machine.sh(),
        machine.sh("--dry-run"),
        machine.sh(SUDO_USER="nobody", SUDO_UID="65534"),
        machine.call(str(machine.pyz), "install"),
        machine.call(str(machine.pyz), "serve"),
        machine.call(str(machine.pyz), "uninstall"),
    ):
        assert result.returncode == 1 and "belongs to nobody" in result.stderr
        assert "hint: as nobody, without sudo: " in result.stderr
    assert list(machine.home.iterdir()) == []
    os.chown(machine.home, 0, 0)
    assert machine.sh("--dry-run").returncode == 0


def test_option_without_its_value_is_a_usage_error(machine: Machine) -> None:
    result = machine.call("sh", str(SCRIPT), "--prefix")
    assert result.returncode == 2 and "--prefix needs a value" in result.stderr


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
def test_script_speaks_chinese_where_the_terminal_can_show_it(
    machine: Machine, shell: str
) -> None:
    need(shell.split()[0])

    def said(*args: str, **environ: str) -> str:
        result = machine.call(*shell.split(), str(SCRIPT), *args, **environ)
        return result.stdout + result.stderr

    assert said("--prefix", LANG="zh_CN.UTF-8") == (
        "feishuperm: --prefix 需要一个值\n提示：install.sh --help\n"
    )
    assert "需要一个值" in said("--prefix", FEISHUPERM_LANG="zh")
    assert "用法：" in said("--help", LANG="C", LC_ALL="zh_TW.utf8")
    for environ in ({"LANG": "zh_CN.GBK"}, {"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}):
        assert "--prefix needs a value" in said("--prefix", **environ)


def test_wrong_download_is_refused(machine: Machine, second: Machine) -> None:
    machine.installed()
    url = machine.status()["http"].replace("localhost", "127.0.0.1")
    script = fetch(f"{url}/install.sh")[1]
    script = re.sub(r"sha256='\w+'", f"sha256='{'0' * 64}'", script)
    result = second.call("sh", stdin=script)
    assert result.returncode == 1 and "wrong checksum" in result.stderr
    assert list(second.home.iterdir()) == []


def test_file_by_url_is_checked_against_the_sums_beside_it(
    machine: Machine, second: Machine
) -> None:
    machine.installed()
    url = machine.status()["http"].replace("localhost", "127.0.0.1")
    result = second.sh("--from", f"{url}/feishuperm.pyz", "--dry-run")
    assert result.returncode == 0, result.stderr
    assert "only guards against a broken download" in result.stderr


def test_shim_is_unwrapped_and_the_real_python_pinned(
    machine: Machine, tmp_path: Path
) -> None:
    shim = tmp_path / "shims" / "python3.14"
    shim.parent.mkdir()
    real = os.path.realpath(shutil.which("python3", path="/usr/bin") or "")
    shim.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    shim.chmod(0o755)
    machine.installed("--no-service", PATH=f"{shim.parent}:/usr/bin:/bin")
    assert (machine.home / ".config/feishuperm/python").read_text() == f"{real}\n"


# Feishu, doctor, demo.


def test_bot_from_the_environment_gets_a_card_and_its_tap_counts(
    machine: Machine,
) -> None:
    with FakeFeishu(secret="sign me") as feishu:
        said = machine.installed(
            FEISHU_WEBHOOK_URL=feishu.webhook_url, FEISHU_WEBHOOK_SECRET="sign me"
        )
        assert len(feishu.cards) == 1
        assert "test-card" in said
        shown = said + machine.run("status").stdout + command_lines(machine)
        assert "sign me" not in shown and feishu.webhook_url not in shown
        said = tapped_test_card(machine, feishu)
        assert "a phone cannot open" in said  # before the card went out
        assert said.splitlines()[-1].startswith("Got your tap (")
        assert '"behavior": "allow"' in tapped_test_card(machine, feishu, "--json")


def tapped_test_card(machine: Machine, feishu: FakeFeishu, *args: str) -> str:
    """What `test-card` says when its card is tapped."""
    before = len(feishu.cards)
    with subprocess.Popen(
        [str(machine.bin / "feishuperm"), "test-card", *args],
        stdout=subprocess.PIPE,
        text=True,
        env=machine.environ,
    ) as command:
        wait_until(lambda: len(feishu.cards) > before)
        card = json.dumps(feishu.cards[-1])
        [link] = re.findall(r'"(http[^"]*/allow\?[^"]*)"', card)
        assert fetch(link)[0] == 200
        assert command.stdout is not None
        said = command.stdout.read()
        assert command.wait(20) == 0
    return said


def test_doctor_finds_nothing_wrong_and_then_names_what_is(machine: Machine) -> None:
    with FakeFeishu() as feishu:
        machine.installed(
            "--permission-mode", "default", FEISHU_WEBHOOK_URL=feishu.webhook_url
        )
        tapped_test_card(machine, feishu)  # the ledger has entries
        well = machine.run("doctor")
        assert well.returncode == 0, well.stdout
        states = {
            line[6:21].strip(): line[:4].strip() for line in well.stdout.splitlines()
        }
        assert states.pop("http") == "warn"  # a local URL with a bot
        assert set(states.values()) == {"ok"}, well.stdout

    settings = json.loads(machine.settings.read_text())
    settings["disableAllHooks"] = True
    settings["hooks"]["PermissionRequest"][0]["hooks"][0]["timeout"] = 3
    machine.settings.write_text(json.dumps(settings))
    machine.run("uninstall", "--help")  # the program itself still runs
    (machine.home / ".config/feishuperm/python").write_text("/nonexistent\n")
    ill = machine.run("doctor", "--json")
    assert ill.returncode == 1
    found = {row["check"]: row for row in json.loads(ill.stdout)}
    for check in ("python", "hooks", "feishu"):
        assert found[check]["state"] == "fail" and found[check]["fix"], found[check]
    assert found["loop"]["state"] == "ok"


def test_doctor_says_that_no_server_runs(machine: Machine) -> None:
    machine.installed("--no-service")
    result = machine.run("doctor")
    assert result.returncode == 1
    assert re.search(
        r"^fail  server .* -> \S+/feishuperm install$", result.stdout, re.M
    )


def test_status_without_a_server_fails_in_both_forms(machine: Machine) -> None:
    machine.installed("--no-service")
    plain, machine_readable = machine.run("status"), machine.run("status", "--json")
    assert (plain.returncode, machine_readable.returncode) == (1, 1)
    assert "is not running" in plain.stderr and "hint: " in plain.stderr
    assert json.loads(machine_readable.stdout)["running"] is False


def test_demo_answers_one_request_of_each_kind_by_itself(machine: Machine) -> None:
    result = machine.call(str(machine.pyz), "demo", "--auto", "--json")
    assert result.returncode == 0, result.stderr
    outputs = [json.loads(line)["output"] for line in result.stdout.splitlines()]
    decisions = [row["hookSpecificOutput"]["decision"] for row in outputs]
    assert [row["behavior"] for row in decisions] == ["allow", "deny", "allow", "allow"]
    assert "SQLite" in json.dumps(decisions[2]["updatedInput"]["answers"])
    assert list(machine.home.iterdir()) == []


def test_demo_waits_for_a_person(machine: Machine) -> None:
    with subprocess.Popen(
        [str(machine.pyz), "demo"],
        stdout=subprocess.PIPE,
        text=True,
        env=machine.environ,
    ) as demo:
        try:
            assert demo.stdout is not None
            inbox = demo.stdout.readline().split()[1]
            base = inbox.rstrip("/")
            for line in demo.stdout:
                if "Ctrl-C" in line:
                    break
            ids = waiting_ids(base)
            assert len(ids) == 4
            for id in ids:
                press(base, id, "deny", {})
            assert demo.stdout.read().count("Claude was told: ") == 4
            assert demo.wait(20) == 0
        finally:
            if demo.poll() is None:
                demo.send_signal(signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_demo_that_is_ended_leaves_nothing(
    machine: Machine, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    with subprocess.Popen(
        [str(machine.pyz), "demo"],
        stdout=subprocess.PIPE,
        text=True,
        env={**machine.environ, "TMPDIR": str(folder)},
        start_new_session=True,
        # Whoever started the tests may have them ignore it.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "Ctrl-C" in line:
                break
        assert list(folder.iterdir())
        demo.send_signal(number)
        assert demo.wait(20) == 128 + number
    assert list(folder.iterdir()) == []
    with pytest.raises(ProcessLookupError):  # neither server nor hook is left
        os.killpg(demo.pid, 0)


# Helpers.


def waiting_ids(base: str) -> list[str]:
    status = json.loads(fetch(f"{base}/status")[1])
    return [request["id"] for request in status["waiting"]]


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if not path.is_dir())


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file with its bytes, but those a running server writes to."""
    return {
        str(path): path.read_bytes()
        for path in files(folder)
        if path.is_file() and path.suffix not in (".log", ".jsonl", ".head")
    }


def command_lines(machine: Machine) -> str:
    """The command lines of the server's process and of whatever it started."""
    pid = machine.status()["pid"]
    return Path(f"/proc/{pid}/cmdline").read_text()


def talk(
    command: list[str], environ: dict[str, str], dialogue: list[tuple[str, str]]
) -> str:
    """Run a command on a terminal and answer its questions; all it printed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, environ)
    said, asked = "", 0
    until = time.monotonic() + 60
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 1)
        if not ready:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux: the other end is closed
            break
        said += data.decode(errors="replace")
        if dialogue and dialogue[0][0] in said[asked:]:
            asked = len(said)
            os.write(terminal, dialogue.pop(0)[1].encode() + b"\n")
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert (code, dialogue) == (0, []), said
    return said
