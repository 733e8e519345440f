"""What install makes of flags, environment and a machine as it finds it."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from feishuperm.commands import install
from feishuperm.commands.install import (
    Install,
    asked_config,
    event_names,
    own_socket,
    parser,
    port_is_free,
)
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.lib.feishu import SendResult
from feishuperm.models.settings import Settings
from feishuperm.setup.installer import SettingsStep


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A user with an empty home and no server."""
    found = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    for name in [*os.environ]:
        if name not in found:
            monkeypatch.delenv(name)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


def asked(*args: str, **environ: str) -> dict[str, str]:
    return asked_config(parser().parse_args(args), environ)


def test_settings_of_the_environment_are_kept_for_the_service() -> None:
    found = asked(FEISHU_WEBHOOK_URL="https://x/y", FEISHUPERM_LANG="", OTHER="z")
    assert found == {"FEISHU_WEBHOOK_URL": "https://x/y"}


def test_flags_win_over_the_environment() -> None:
    found = asked("--webhook", "https://flag/", FEISHU_WEBHOOK_URL="https://env/")
    assert found == {"FEISHU_WEBHOOK_URL": "https://flag/"}


def test_port_brings_the_address_along_unless_that_is_given() -> None:
    assert asked("--port", "9000") == {
        "CALLBACK_SERVER_PORT": "9000",
        "CALLBACK_SERVER_URL": "http://localhost:9000",
    }
    found = asked("--port", "9000", "--callback-url", "https://perm.example")
    assert found["CALLBACK_SERVER_URL"] == "https://perm.example"


@pytest.mark.parametrize(
    ("given", "names"),
    [("", []), ("Stop", ["Stop"]), (" Stop , Notification,", ["Stop", "Notification"])],
)
def test_events_are_a_comma_list(given: str, names: list[str]) -> None:
    assert event_names(given) == names


def test_event_that_is_never_sent_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="'Stopp' is no hook event") as caught:
        event_names("Stopp")
    assert caught.value.hint == "did you mean Stop?"


@pytest.mark.parametrize("depth", [1, 40])
def test_socket_is_of_this_user_alone_and_fits(depth: int) -> None:
    folder = "/home/me" + "/deep" * depth
    path = own_socket(folder)
    assert Settings({"PERMISSION_SOCKET_PATH": path}).permission_socket_path == path
    assert path.startswith(folder) == (depth == 1)
    assert own_socket(folder + "er") != path


def test_taken_port_is_noticed() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert not port_is_free("127.0.0.1", other.getsockname()[1])
    assert port_is_free("127.0.0.1", 0)


def test_new_user_gets_another_port_when_the_usual_one_is_taken(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "port_is_free", lambda host, port: port == 8083)
    made = Install(parser().parse_args([]), environ)
    made.complete_config()
    assert made.config["CALLBACK_SERVER_PORT"] == "8083"
    assert made.config["CALLBACK_SERVER_URL"] == "http://localhost:8083"


def test_port_that_somebody_chose_is_an_error_when_taken(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "port_is_free", lambda host, port: False)
    made = Install(parser().parse_args(["--port", "9000"]), environ)
    with pytest.raises(FeishupermError, match="port 9000 is taken"):
        made.complete_config()


def test_server_on_the_shared_socket_is_not_taken_for_ours(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first install it is somebody's own and must not be stopped."""
    monkeypatch.setattr(install, "running_status", lambda path="": {"pid": 1})
    assert Install(parser().parse_args([]), environ).status is None
    environ["PERMISSION_SOCKET_PATH"] = "/tmp/mine.sock"
    assert Install(parser().parse_args([]), environ).status == {"pid": 1}


def test_config_that_was_edited_after_the_start_asks_for_a_restart(
    environ: dict[str, str],
) -> None:
    made = Install(parser().parse_args([]), environ)
    made.status = {"started": 1000.0}
    assert not made.is_stale()
    path = Path(environ["HOME"], ".config/feishuperm/config.env")
    path.parent.mkdir(parents=True)
    path.write_text("")
    os.utime(path, (2000, 2000))
    assert made.is_stale()
    os.utime(path, (500, 500))
    assert not made.is_stale()


def test_replaced_archive_and_open_socket_ask_for_a_restart(
    environ: dict[str, str], tmp_path: Path
) -> None:
    made = Install(parser().parse_args([]), environ)
    archive, path = tmp_path / "feishuperm.pyz", tmp_path / "s"
    archive.write_text("")
    made.manifest.records["program"] = {"archive": str(archive)}
    made.status = {"started": 1000.0, "socket": str(path)}
    assert made.is_stale()
    os.utime(archive, (500, 500))
    assert not made.is_stale()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o666)
        assert made.is_stale()
        path.chmod(0o600)
        assert not made.is_stale()


def test_server_on_the_recorded_socket_is_ours(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed PERMISSION_SOCKET_PATH must not make it another program."""
    running = {"/old.sock": {"pid": 1, "listens": "http://127.0.0.1:9001"}}
    monkeypatch.setattr(install, "running_status", lambda path="": running.get(path))
    state = Path(environ["HOME"], ".local/state/feishuperm")
    state.mkdir(parents=True)
    (state / "install.json").write_text('{"service": {"socket": "/old.sock"}}')
    environ["PERMISSION_SOCKET_PATH"] = "/new.sock"
    made = Install(parser().parse_args(["--port", "9001"]), environ)
    assert (made.socket, made.status) == ("/old.sock", running["/old.sock"])
    tried: list[int] = []
    monkeypatch.setattr(
        install, "port_is_free", lambda host, port: not tried.append(port)
    )
    made.complete_config()
    assert tried == [0]


def test_new_port_is_tried_while_the_old_server_still_runs(
    environ: dict[str, str],
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        made = Install(parser().parse_args(["--port", str(port)]), environ)
        made.status = {"started": 0.0, "listens": "http://127.0.0.1:1"}
        with pytest.raises(FeishupermError, match=f"port {port} is taken"):
            made.complete_config()


@pytest.mark.parametrize("running", [True, False])
def test_host_that_is_not_here_is_named_and_not_called_taken(
    environ: dict[str, str], running: bool
) -> None:
    environ["CALLBACK_SERVER_HOST"] = "192.0.2.1"
    made = Install(parser().parse_args([]), environ)
    if running:
        made.status = {"started": 0.0, "listens": "http://127.0.0.1:8080"}
    with pytest.raises(FeishupermError, match=r"cannot listen on 192\.0\.2\.1:") as why:
        made.complete_config()
    assert "CALLBACK_SERVER_HOST" in why.value.hint


@pytest.mark.parametrize("args", [["--project"], ["--prefix", "here"]])
def test_current_folder_that_is_gone_is_one_line(
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    made = Install(parser().parse_args(args), environ)
    with pytest.raises(FeishupermError, match="current folder is gone"):
        made.prefix(), made.settings_path()


def test_printed_commands_can_be_pasted(environ: dict[str, str]) -> None:
    made = Install(parser().parse_args(["--prefix", "/a b"]), environ)
    assert made.command("feishuperm") == "'/a b/bin/feishuperm'"
    environ["PATH"] = "/a b/bin"
    assert made.command("feishuperm") == "feishuperm"


def test_given_bot_that_fails_is_asked_for_again_on_a_terminal(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = "https://open.feishu.cn/open-apis/bot/v2/hook/"
    config = Path(environ["HOME"], ".config/feishuperm/config.env")
    config.parent.mkdir(parents=True)
    config.write_text(f"FEISHU_WEBHOOK_URL={bot}old\nFEISHU_WEBHOOK_SECRET=old\n")
    sent: list[tuple[str, str]] = []

    def send(url: str, card: object, secret: str) -> SendResult:
        sent.append((url, secret))
        return SendResult(url == f"{bot}good", 0, "no such bot")

    monkeypatch.setattr(install, "send_feishu_card", send)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    answers = iter([f"{bot}good", "n"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    monkeypatch.setattr(install.getpass, "getpass", lambda prompt: "")
    made = Install(parser().parse_args(["--webhook", f"{bot}bad"]), environ)
    made.ask()
    assert sent == [(f"{bot}bad", "old"), (f"{bot}good", "")]
    assert made.asked and made.config["FEISHU_WEBHOOK_URL"] == f"{bot}good"


def test_hooks_in_other_projects_follow_a_program_that_moves(
    environ: dict[str, str], tmp_path: Path
) -> None:
    made = Install(parser().parse_args(["--prefix", "/new"]), environ)
    path, broken = tmp_path / "project.json", tmp_path / "broken.json"
    broken.write_text("{")
    entry = {"type": "command", "command": "/old/bin/feishuperm-hook", "timeout": 99}
    theirs = {"type": "command", "command": "feishuperm-hook || true"}
    group = {"matcher": "Bash", "hooks": [entry, theirs]}
    path.write_text(json.dumps({"hooks": {"PermissionRequest": [group]}}))
    records = made.manifest.records
    records["program"] = {"links": ["/old/bin/feishuperm-hook"]}
    for file in (path, broken, tmp_path / "gone.json"):
        records[f"settings:{file}"] = {"path": str(file)}
    [step] = made.other_settings_steps()
    assert isinstance(step, SettingsStep)
    assert step.changes() == [f"register PermissionRequest in {path}"]
    entry["command"] = "/new/bin/feishuperm-hook"
    assert json.loads(step.texts()[1]) == {"hooks": {"PermissionRequest": [group]}}


def test_source_tree_cannot_install_itself() -> None:
    with pytest.raises(FeishupermError, match="only a built file"):
        install.main(["--dry-run"])


@pytest.mark.parametrize("argument", ["--dance", "--service=upstart", "extra"])
def test_wrong_argument_is_a_usage_error(argument: str) -> None:
    with pytest.raises(UsageError):
        parser().parse_args([argument])
