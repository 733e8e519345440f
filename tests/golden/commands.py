"""Transcripts of the commands: help, state, errors with their hints."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import clean_env
from tests.golden.record import Record
from tests.golden.stage import Stage, fill_project, folder, run

COMMANDS = (
    "serve", "hook", "supervisor", "run", "trust", "passes", "install", "uninstall",
    "doctor", "stop", "restart", "status", "sessions", "demo", "test-card", "log",
    "gateway", "join", "leave", "machines", "version",
)  # fmt: skip
# With no server and nothing installed.
ALONE = (
    "version", "version --json", "status", "status --json", "stop", "restart", "log",
    "log --json", "log verify", "passes", "passes --json", "passes add Bash(ls)",
    "passes revoke x", "trust", "trust .", "machines", "machines --json", "leave",
    "join", "join nonsense", "join http://127.0.0.1:1", "test-card", "uninstall",
    "uninstall --dry-run", "supervisor status", "supervisor on", "supervisor status",
    "supervisor off", "install --dry-run --service background", "install --nonsense",
    "install --dry-run --service nonsense", "doctor", "doctor --json",
    "gateway", "serve --nonsense", "run", "demo --auto", "demo --auto --json",
)  # fmt: skip
WRONG = (
    "", "instal", "nonsense", "--nonsense", "status --nonsense", "log x", "log undo",
    "log undo 00000000", "install nonsense", "passes add", "passes add Bash(*)",
    "passes add nonsense --minutes x", "machines revoke", "machines rename a",
    "machines nonsense", "version x", "doctor x",
)  # fmt: skip
SETTINGS = {
    "PERMISSION_REQUEST_TIMEOUT": "soon", "CALLBACK_SERVER_PORT": "70000",
    "FEISHU_WEBHOOK_URL": "nonsense", "FEISHUPERM_NOTIFY": "all",
    "FEISHU_APP_ID": "app", "PERMISSION_SOCKET_PATH": "relative",
    "FEISHUPERM_GATEWAY": "gateway.example", "FEISHUPERM_CARD": "none",
}  # fmt: skip


def commands(pyz: Path, language: str, record: Record) -> None:
    """What each command says without a server."""
    with folder() as home:
        environ = clean_env(
            home, FEISHUPERM_LANG=language, COLUMNS="88",
            SUPERVISOR_COMMAND="no-such-reviewer",
            PERMISSION_SOCKET_PATH=str(home / "s.sock"), CALLBACK_SERVER_PORT="0",
        )  # fmt: skip
        project = home / "project"
        fill_project(project)

        def put(file: str, line: str, **more: str) -> None:
            said = run(pyz, {**environ, **more}, project, *line.split())
            shown = "".join(f"{key}={value} " for key, value in more.items())
            record.text(f"transcripts/{file}.txt", said.replace("$ ", f"$ {shown}", 1))
            record.text(f"transcripts/{file}.txt", "\n")

        put("help", "--help")
        for name in COMMANDS:
            put("help", f"{name} --help")
        for line in ALONE:
            put("alone", line)
        for line in WRONG:
            put("wrong", line)
        for key, value in SETTINGS.items():
            put("settings", "serve", **{key: value})


def served(pyz: Path, language: str, record: Record) -> None:
    """What the commands say of a server that runs."""
    with Stage.bare(pyz, language, record) as stage:
        asked = stage.ask("Bash secret")

        def put(line: str) -> None:
            record.text("transcripts/served.txt", stage.run(*line.split()))

        put("status")
        put("passes")
        put("test-card")
        put("doctor")
        put("serve")
        asked.drop()
        for _ in range(2):
            again = stage.ask("Bash plain")
            stage.served.post("/always", id=again.id, confirmed="1")
            again.end()
        put("log")
        put("log verify")
        put("stop")
