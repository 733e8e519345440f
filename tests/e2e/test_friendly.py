"""What a person tries first, with the built file: each thing ends in a sentence."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, clean_env, wait_until
from tests.e2e.test_install import Machine, machine
from tests.served import Served, event
from tests.words import has_chinese

__all__ = ["machine"]  # a fixture


def call(
    command: list[str], environ: dict[str, str], **options: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command,
        env=environ,
        cwd=environ["HOME"],
        stdin=subprocess.DEVNULL,
        text=True,
        **{"capture_output": True, "timeout": 60, **options},
    )


def on_a_terminal(command: list[str], environ: dict[str, str]) -> tuple[int, str]:
    """Run a command on a terminal of its own; exit code and screen."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, environ)
    said = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        said += part
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, said.decode(errors="replace").replace("\r\n", "\n")


# Plain `feishuperm`, and `hook` typed by hand.


def test_plain_call_on_a_terminal_says_where_one_stands(pyz: Path, home: Path) -> None:
    code, said = on_a_terminal([str(pyz)], clean_env(home))
    assert code == 0
    assert said.splitlines() == [
        "feishuperm is not installed",
        "next: feishuperm install",
    ]
    code, said = on_a_terminal([str(pyz)], clean_env(home, LANG="zh_CN.UTF-8"))
    assert "feishuperm 还没有安装" in said
    with Served(pyz, home) as served:
        code, said = on_a_terminal([str(pyz)], served.environ)
    lines = said.splitlines()
    assert code == 0 and len(lines) == 5
    assert lines[0].startswith("feishuperm ") and "is running" in lines[0]
    assert "channels: inbox up" in said and "requests waiting: 0" in said
    assert lines[-1] == "next: feishuperm install --setup"


def test_plain_call_elsewhere_stays_the_error_it_is(pyz: Path, home: Path) -> None:
    result = call([str(pyz)], clean_env(home))
    assert result.returncode == 2
    assert "no command given" in result.stderr


def test_hook_on_a_terminal_says_what_it_is_for(pyz: Path, home: Path) -> None:
    code, said = on_a_terminal([str(pyz), "hook"], clean_env(home))
    assert code == 0
    assert "is for Claude Code" in said and "由 Claude Code 调用" in said


# Output that cannot be written.


@pytest.mark.parametrize(
    "command", ["version", "--help", "log", "doctor", "log --help"]
)
def test_full_device_is_told_in_one_line(pyz: Path, home: Path, command: str) -> None:
    with open("/dev/full", "w") as full:
        result = call(
            [str(pyz), *command.split()],
            clean_env(home),
            stdout=full,
            stderr=subprocess.PIPE,
            capture_output=False,
        )
    assert result.returncode == 1
    assert "No space left on device" in result.stderr
    assert "Traceback" not in result.stderr and "Exception" not in result.stderr


@pytest.mark.parametrize("command", ["version", "--help", "doctor", "log --help"])
def test_closed_pipe_is_no_trouble(pyz: Path, home: Path, command: str) -> None:
    script = f"{pyz} {command} | true"
    result = call(["/bin/sh", "-c", script], clean_env(home))
    assert result.stderr == ""
    both = f"{pyz} {command} >/dev/full 2>/dev/full"
    assert call(["/bin/sh", "-c", both], clean_env(home)).returncode == 1


# What waits, and the inbox on the phone.


def test_status_shows_what_waits_with_its_command(pyz: Path, home: Path) -> None:
    with Served(pyz, home) as served:
        secret = "sk-ant-" + "a1b2c3d4" * 6
        served.ask(event("Bash", command=f"deploy --token {secret} now"))
        wait_until(served.waiting)
        said = call([str(pyz), "status"], served.environ).stdout
        assert "deploy --token" in said
        assert secret not in said
        told = json.loads(call([str(pyz), "status", "--json"], served.environ).stdout)
        assert "deploy --token" in told["waiting"][0]["summary"]


def test_qr_code_opens_the_inbox_where_a_phone_can_get(pyz: Path, home: Path) -> None:
    url = "https://perm.example"
    with Served(pyz, home, CALLBACK_SERVER_URL=url) as served:
        said = call([str(pyz), "status", "--qr"], {**served.environ, "COLUMNS": "120"})
        assert "▀" in said.stdout and "good once" in said.stdout
    with Served(pyz, home) as served:
        said = call([str(pyz), "status", "--qr"], served.environ)
        assert "a phone cannot open" in said.stdout and "▀" not in said.stdout


# Endings.


def test_demo_ends_in_a_sentence_and_speaks_json_if_asked(
    pyz: Path, home: Path
) -> None:
    command = [str(pyz), "demo", "--auto"]
    said = call(command, clean_env(home)).stdout
    assert said.splitlines()[-1].startswith("That was all.")
    rows = call([*command, "--json"], clean_env(home)).stdout.splitlines()
    assert len(rows) >= 3
    assert all(json.loads(row)["output"]["hookSpecificOutput"] for row in rows)


def test_empty_log_says_so(pyz: Path, home: Path) -> None:
    assert call([str(pyz), "log"], clean_env(home)).stdout == (
        "nothing has been decided yet\n"
    )
    chinese = clean_env(home, FEISHUPERM_LANG="zh")
    assert call([str(pyz), "log"], chinese).stdout == "还没有任何记录\n"
    assert json.loads(call([str(pyz), "log", "--json"], clean_env(home)).stdout) == []


def test_supervisor_help_says_what_the_reviewer_is_given_and_may_cost(
    pyz: Path, home: Path
) -> None:
    said = call([str(pyz), "supervisor", "--help"], clean_env(home)).stdout
    for words in ("SUPERVISOR_COMMAND", "--fork-session", "allow_stop", "2 dollars"):
        assert words in said


# A person who reads.


def test_page_that_is_open_keeps_its_request(pyz: Path, home: Path) -> None:
    settings = {"PERMISSION_REQUEST_TIMEOUT": "2", "PERMISSION_HOLD": "40"}
    with Served(pyz, home, **settings) as served:
        hook, id = served.ask(event())
        left = served.status()["waiting"][0]["seconds_left"]  # type: ignore[index]
        assert left <= 2
        assert served.get(f"/request?id={id}").status == 200
        left = served.status()["waiting"][0]["seconds_left"]  # type: ignore[index]
        assert 30 < left <= 42
        # Past the time without the hold, and past the hook's own alarm for it.
        wait_until(
            lambda: served.status()["waiting"][0]["seconds_left"] < left - 5  # type: ignore[index]
        )
        assert hook.poll() is None
        served.get(f"/allow?id={id}")
        output, _ = hook.communicate(timeout=20)
    assert b'"behavior": "allow"' in output


# A clone.


def test_clone_that_cannot_be_built_ends_in_a_hint(home: Path) -> None:
    clone = home / "clone"
    (clone / "feishuperm").mkdir(parents=True)
    shutil.copy(ROOT / "install.sh", clone / "install.sh")
    (clone / "build.py").write_text("raise SystemExit('build: no')\n")
    result = call(["sh", str(clone / "install.sh")], clean_env(home))
    assert result.returncode == 1
    assert result.stderr.splitlines()[-3:] == [
        "build: no",
        "feishuperm: the build failed",
        "hint: a built file needs no build: ./install.sh --from feishuperm.pyz",
    ]


def test_package_index_that_fails_ends_in_the_same_hint(home: Path) -> None:
    clone = home / "clone"
    shutil.copytree(
        ROOT,
        clone,
        symlinks=False,
        ignore=shutil.ignore_patterns(".build", "dist", ".git", "tests", "*cache*"),
    )
    index = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"}
    environ = clean_env(home, **index, PATH=os.environ["PATH"])
    result = call(["sh", str(clone / "install.sh")], environ, timeout=170)
    assert result.returncode == 1
    assert "pip could not install the build tools" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("hint: a built file needs no")


# Installing again.


def test_up_to_date_is_said_only_when_nothing_was_done(machine: Machine) -> None:
    assert "is installed and running" in machine.installed()
    assert "is up to date and running" in machine.run("install").stdout
    machine.run("stop")
    again = machine.run("install", "--service", "background").stdout
    assert "is started again and running" in again
    asked = machine.run("install", "--ask-list").stdout
    assert "ask about Bash(git push *)" in asked and "up to date" not in asked


def test_purge_says_what_it_removes_before_it_does(machine: Machine) -> None:
    machine.installed()
    said = machine.run("uninstall", "--purge").stdout.splitlines()
    assert said[0].startswith("about to remove: ")
    assert str(machine.home / ".config/feishuperm") in said[0]
    assert str(machine.home / ".local/state/feishuperm") in said[0]
    assert not (machine.home / ".config/feishuperm").exists()


def test_command_line_speaks_the_language_that_is_set(machine: Machine) -> None:
    said = machine.installed("--lang", "zh")
    assert "已安装，正在运行" in said and "新的 claude 会话" in said
    assert "正在运行（后台进程" in machine.run("status").stdout
    assert "还没有任何记录" in machine.run("log").stdout
    for args in (["--help"], ["doctor"], ["uninstall", "--dry-run"], ["instal"]):
        result = machine.run(*args)
        assert has_chinese(result.stdout + result.stderr)
    assert json.loads(machine.run("doctor", "--json").stdout)[0]["state"] == "ok"
    english = machine.run("install", "--lang", "en").stdout
    assert "is installed and running" in english
    assert "channel  inbox up" in machine.run("status").stdout
