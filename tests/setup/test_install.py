"""What install makes of flags, environment and a machine as it finds it."""

from __future__ import annotations

import io
import json
import os
import socket
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import pytest

from feishuperm.commands.install import parser
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.lib import feishu
from feishuperm.lib.feishu import SendResult
from feishuperm.setup import install, service
from feishuperm.setup.claude_settings import ClaudeStep
from feishuperm.setup.install import Install, event_names
from feishuperm.setup.steps import ProgramStep
from tests.tables import every_row

BOT = "https://open.feishu.cn/open-apis/bot/v2/hook/"


@every_row(
    ("given", "names"),
    [("", []), ("Stop", ["Stop"]), (" Stop , Notification,", ["Stop", "Notification"])],
)
def test_events_are_a_comma_list(given: str, names: list[str]) -> None:
    assert event_names(given) == names


def test_event_that_is_never_sent_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown hook event 'Stopp'") as caught:
        event_names("Stopp")
    assert caught.value.hint == "did you mean Stop?"


def test_server_on_the_shared_socket_is_not_taken_for_ours(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first install it is somebody's own and must not be stopped."""
    monkeypatch.setattr(install.server, "running_status", lambda path="": {"pid": 1})
    assert Install(parser().parse_args([]), bare).status is None
    bare["PERMISSION_SOCKET_PATH"] = "/tmp/mine.sock"
    assert Install(parser().parse_args([]), bare).status == {"pid": 1}


def test_config_that_was_edited_after_the_start_asks_for_a_restart(
    bare: dict[str, str],
) -> None:
    made = Install(parser().parse_args([]), bare)
    made.status = {"started": 1000.0}
    assert not made.is_stale()
    path = Path(bare["HOME"], ".config/feishuperm/config.env")
    path.parent.mkdir(parents=True)
    path.write_text("")
    os.utime(path, (2000, 2000))
    assert made.is_stale()
    os.utime(path, (500, 500))
    assert not made.is_stale()


def test_replaced_archive_and_open_socket_ask_for_a_restart(
    bare: dict[str, str], tmp_path: Path
) -> None:
    made = Install(parser().parse_args([]), bare)
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


@every_row(
    ("name", "said"),
    [
        ("settings:/a", "would register it\n"),
        ("config", "would register it\nwould restart the server\n"),
    ],
)
def test_rehearsal_restarts_the_server_only_if_install_would(
    name: str, said: str, bare: dict[str, str]
) -> None:
    made = Install(parser().parse_args(["--dry-run"]), bare)
    made.status = {"started": 1000.0}
    step = SimpleNamespace(name=name, changes=lambda: ["register it"])
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setattr(made, "steps", lambda: [step])
        assert made.rehearse() == 0
    assert out.getvalue() == said


def test_server_on_the_recorded_socket_is_ours(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed PERMISSION_SOCKET_PATH must not make it another program."""
    running = {"/old.sock": {"pid": 1, "listens": "http://127.0.0.1:9001"}}
    monkeypatch.setattr(
        install.server, "running_status", lambda path="": running.get(path)
    )
    state = Path(bare["HOME"], ".local/state/feishuperm")
    state.mkdir(parents=True)
    (state / "install.json").write_text('{"service": {"socket": "/old.sock"}}')
    bare["PERMISSION_SOCKET_PATH"] = "/new.sock"
    made = Install(parser().parse_args(["--port", "9001"]), bare)
    assert (made.socket, made.status) == ("/old.sock", running["/old.sock"])
    tried: list[int] = []
    monkeypatch.setattr(
        service, "can_listen", lambda hosts, port: not tried.append(port)
    )
    made.config.complete(made.own_port())
    assert set(tried) == {0}


def test_new_port_is_tried_while_the_old_server_still_runs(
    bare: dict[str, str],
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        made = Install(parser().parse_args(["--port", str(port)]), bare)
        made.status = {"started": 0.0, "listens": "http://127.0.0.1:1"}
        with pytest.raises(FeishupermError, match=f"port {port} is taken"):
            made.config.complete(made.own_port())


@pytest.mark.parametrize("running", [True, False])
def test_host_that_is_not_here_is_named_and_not_called_taken(
    bare: dict[str, str], running: bool
) -> None:
    bare["CALLBACK_SERVER_HOST"] = "192.0.2.1"
    made = Install(parser().parse_args([]), bare)
    if running:
        made.status = {"started": 0.0, "listens": "http://127.0.0.1:8080"}
    with pytest.raises(FeishupermError, match=r"cannot listen on 192\.0\.2\.1:") as why:
        made.config.complete(made.own_port())
    assert "CALLBACK_SERVER_HOST" in why.value.hint


@pytest.mark.parametrize("args", [["--project"], ["--prefix", "here"]])
def test_current_folder_that_is_gone_is_one_line(
    bare: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    made = Install(parser().parse_args(args), bare)
    with pytest.raises(FeishupermError, match="current folder no longer exists"):
        made.prefix(), made.settings_path()


def test_printed_commands_can_be_pasted(bare: dict[str, str]) -> None:
    made = Install(parser().parse_args(["--prefix", "/a b"]), bare)
    assert made.command() == "'/a b/bin/feishuperm'"
    bare["PATH"] = "/a b/bin"
    assert made.command() == "feishuperm"


def test_hooks_in_other_projects_follow_a_program_that_moves(
    bare: dict[str, str], tmp_path: Path
) -> None:
    made = Install(parser().parse_args(["--prefix", "/new"]), bare)
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
    [step] = list(made.other_claude_steps())
    assert isinstance(step, ClaudeStep)
    assert step.changes() == [f"register PermissionRequest in {path}"]
    entry["command"] = "/new/bin/feishuperm-hook"
    assert json.loads(step.edit().after) == {"hooks": {"PermissionRequest": [group]}}


# A bot that nobody is there to ask about.


@pytest.mark.parametrize("code", [feishu.BAD_SIGN, feishu.NO_SUCH_BOT])
def test_bot_that_feishu_refuses_is_not_taken_on_a_pipe(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    config = Path(bare["HOME"], ".config/feishuperm/config.env")
    config.parent.mkdir(parents=True)
    config.write_text(f"FEISHU_WEBHOOK_URL={BOT}good\nFEISHU_WEBHOOK_SECRET=good\n")
    refusal = SendResult(False, code, "no")
    monkeypatch.setattr(install, "send_hello", lambda settings: refusal)
    made = Install(parser().parse_args(["--secret", "bad", "--no-service"]), bare)
    monkeypatch.setattr(made, "steps", lambda: [ProgramStep])
    monkeypatch.setattr(ProgramStep, "changes", lambda: ["x"])
    monkeypatch.setattr(made, "apply", lambda *args: pytest.fail("changed"))
    with pytest.raises(FeishupermError, match="rejects this bot; nothing was changed"):
        made.run()
    assert "SECRET=good" in config.read_text()


def test_bot_that_does_not_answer_is_told_and_kept(
    bare: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    silence = SendResult(False, feishu.NO_ANSWER, "timed out", retry=True)
    monkeypatch.setattr(install, "send_hello", lambda settings: silence)
    given = ["--webhook", f"{BOT}x", "--callback-url", "https://perm.example"]
    made = Install(parser().parse_args(given), bare)
    made.try_bot()
    said = capsys.readouterr().err
    assert "timed out" in said and "saved anyway" in said
    assert made.config.new["FEISHU_WEBHOOK_URL"] == f"{BOT}x"


# What a person who installs may not expect.


def test_list_without_the_given_bot_is_named(bare: dict[str, str]) -> None:
    bare["FEISHUPERM_SURFACES"] = "inbox"
    made = Install(parser().parse_args(["--webhook", f"{BOT}x"]), bare)
    [note] = made.notes()
    assert note == "FEISHUPERM_SURFACES does not list webhook: the bot gets nothing"


@every_row(
    ("args", "rules", "expected"),
    [
        (["--webhook", f"{BOT}x"], ["Bash(git push *)"], "a card\ncomes to your phone"),
        ([], ["Bash(git push *)"], "Now open the inbox and start a new claude session"),
        (["--webhook", f"{BOT}x"], [], "feishuperm install --ask-list"),
    ],
)
def test_end_says_what_to_do_now(
    args: list[str], rules: list[str], expected: str
) -> None:
    with tempfile.TemporaryDirectory() as home, redirect_stdout(io.StringIO()) as out:
        path = Path(home, ".claude/settings.json")
        path.parent.mkdir()
        path.write_text(json.dumps({"permissions": {"ask": rules}}))
        Install(parser().parse_args(args), {"HOME": home}).tell(None)
    assert "Now " in out.getvalue() and expected in out.getvalue()


def test_rules_that_were_shown_are_not_listed_again(bare: dict[str, str]) -> None:
    made = Install(parser().parse_args(["--ask-list", "--no-service"]), bare)
    [step] = [s for s in made.steps() if isinstance(s, ClaudeStep)]
    assert "Bash(git push *), " in str(step.changes())
    made.questions.wants_list = True
    [step] = [s for s in made.steps() if isinstance(s, ClaudeStep)]
    assert "git push" not in str(step.changes())
    assert f"always ask about 32 rules in {step.path}" in step.changes()
