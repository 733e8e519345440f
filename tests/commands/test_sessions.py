"""`sessions` of the built file, with a client that lists what it is told to."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.commands import sessions as command
from feishuperm.lib import claude_client
from feishuperm.lib import language as spoken_language
from feishuperm.lib.display import width
from tests.conftest import clean_env
from tests.served import EVENT, Served
from tests.tables import every_row

LIVING = "11111111-0000-4000-8000-000000000001"
ENDED = "22222222-0000-4000-8000-000000000002"
JOB = "33333333-0000-4000-8000-000000000003"
FAKE = """#!/bin/sh
[ "$*" = "agents --json" ] || exit 9
[ -z "$FEISHU_APP_SECRET" ] || exit 8
cat {}
"""
LIST = [
    {"sessionId": LIVING, "kind": "interactive", "status": "busy", "cwd": "/w/shop"},
    {"sessionId": JOB, "kind": "background", "status": "waiting", "cwd": "/w/站点",
     "waitingFor": "permission prompt", "name": "修好构建", "id": "33333333"},
]  # fmt: skip


class Place:
    """A home with a client in it, and transcripts."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.bin = home / "bin"
        self.bin.mkdir()
        self.list = home / "list.json"
        self.list.write_text(json.dumps(LIST))
        self.client(FAKE.format(self.list))
        self.transcript(LIVING, "Fix it")
        self.transcript(ENDED, "Done with")

    @property
    def path(self) -> str:
        return f"{self.bin}:/usr/bin:/bin"

    def client(self, script: str) -> None:
        (self.bin / "claude").write_text(script)
        (self.bin / "claude").chmod(0o755)

    def transcript(self, id: str, title: str) -> None:
        folder = self.home / ".claude" / "projects" / "-w-shop"
        folder.mkdir(parents=True, exist_ok=True)
        usage = {"input_tokens": 48_000}
        call = {
            "type": "tool_use",
            "name": "Bash",
            "id": "t",
            "input": {"command": "make"},
        }
        rows = (
            {"type": "user", "message": {"content": "go"}, "cwd": "/w/shop"},
            {"type": "assistant", "message": {"content": [call], "usage": usage}},
            {"type": "custom-title", "customTitle": title},
        )
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{id}.jsonl").write_text(lines)

    def run(
        self, pyz: Path, *args: str, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        env = clean_env(self.home, PATH=self.path, COLUMNS="80", **environ)
        env.setdefault("PERMISSION_SOCKET_PATH", str(self.home / "none.sock"))
        return subprocess.run(
            [str(pyz), "sessions", *args], env=env, stdin=subprocess.DEVNULL,
            capture_output=True, encoding="utf-8", timeout=60, check=False,
        )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def served(pyz: Path, place: Place) -> Iterator[Served]:
    secret = {"FEISHU_APP_SECRET": "s" * 20}
    with Served(pyz, place.home, PATH=place.path, **secret) as server:
        yield server


def listed(place: Place, pyz: Path, served: Served) -> list[dict[str, Any]]:
    done = place.run(pyz, "--json", PERMISSION_SOCKET_PATH=served.socket)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_sessions_of_client_transcripts_and_hooks_are_one_list(
    place: Place, pyz: Path, served: Served
) -> None:
    """The server has just started: it has heard of none but the one that asks."""
    path = place.home / ".claude" / "projects" / "-w-shop" / f"{LIVING}.jsonl"
    asked = {**EVENT, "session_id": LIVING, "transcript_path": str(path)}
    with served.watched():
        hook, id = served.ask(asked)
        rows = {row["id"]: row for row in listed(place, pyz, served)}
        assert set(rows) == {LIVING, ENDED, JOB}
        living = rows[LIVING]
        assert (living["state"], living["doing"]) == ("waiting", "Bash: npm run build")
        assert (living["title"], living["tokens"]) == ("Fix it", 48_000)
        assert abs(living["since"] - time.time()) < 60
        assert (rows[ENDED]["state"], rows[ENDED]["project"]) == ("ended", "/w/shop")
        job = rows[JOB]
        assert (job["state"], job["background"]) == ("waiting", True)
        assert (job["title"], job["doing"]) == ("修好构建", "permission prompt")
        served.get(f"/allow?id={id}")
        hook.communicate(timeout=20)
        rows = {row["id"]: row for row in listed(place, pyz, served)}
        assert (rows[LIVING]["state"], rows[LIVING]["doing"]) == (
            "working",
            "Bash: make",
        )


def test_list_for_a_person_has_a_line_for_each_that_fits_the_terminal(
    place: Place, pyz: Path, served: Served
) -> None:
    for language, words in (("en", "waiting for you"), ("zh", "等你决定")):
        done = place.run(
            pyz, PERMISSION_SOCKET_PATH=served.socket, FEISHUPERM_LANG=language
        )
        lines = done.stdout.splitlines()
        assert len(lines) == 3 and all(width(line) <= 80 for line in lines)
        assert words in lines[0] and "站点 · 修好构建" in lines[0]
        assert lines[-1].startswith("22222222") and "48k" in lines[-1]


def test_why_the_server_has_no_list_is_told_in_the_readers_language(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its answer has the English sentence, without how it was made."""
    monkeypatch.setattr(spoken_language, "spoken", lambda: "zh")
    answer = {"sessions": [], "busy": False, "problem": str(claude_client.NOT_FOUND)}
    reply = json.dumps(answer)
    monkeypatch.setattr(command, "ask_server", lambda asked: json.loads(reply))
    assert command.main([]) == 0
    assert "PATH 中没有 claude" in capsys.readouterr().err


def test_session_may_read_the_list(served: Served) -> None:
    """It could read as much in Claude's own folder."""
    answer = served.control(command="sessions")
    assert answer is not None and answer["sessions"] == [] and not answer["busy"]


def test_without_a_server_the_list_is_made_here_and_says_what_it_lacks(
    place: Place, pyz: Path
) -> None:
    done = place.run(pyz, "--json")
    assert {row["id"] for row in json.loads(done.stdout)} == {LIVING, ENDED, JOB}
    assert "the server is not running" in done.stderr and done.returncode == 0


@every_row(
    ("script", "words"),
    [
        ("#!/bin/sh\necho \"error: unknown option '--json'\" >&2; exit 1", "too old"),
        ("#!/bin/sh\necho Sessions:", "claude update"),
        ("#!/bin/sh\nexit 3", "exit code 3"),
        ("#!/bin/sh\nyes '[{}]' | head -c 5000000", "claude update"),
        ("#!/nonexistent", "cannot run claude"),
        ("", "not in the PATH"),
    ],
)
def test_without_a_clients_list_the_others_are_shown_and_why(
    pyz: Path, tmp_path_factory: pytest.TempPathFactory, script: str, words: str
) -> None:
    place = Place(tmp_path_factory.mktemp("home"))
    place.client(script)
    if not script:
        os.unlink(place.bin / "claude")
    done = place.run(pyz)
    assert "11111111" in done.stdout and words in done.stderr, done


@every_row(
    "said",
    [
        "[]", "[null, 7, []]", '[{"sessionId": 7}]', '[{"sessionId": "../../x"}]',
        json.dumps([{"sessionId": f"s{n}", "status": "busy"} for n in range(900)]),
        '[{"sessionId": "a", "status": [], "state": {}, "cwd": 7, "name": null}]',
    ],
)  # fmt: skip
def test_whatever_the_client_says_there_is_a_list(
    pyz: Path, tmp_path_factory: pytest.TempPathFactory, said: str
) -> None:
    place = Place(tmp_path_factory.mktemp("home"))
    place.list.write_text(said)
    done = place.run(pyz, "--json")
    assert done.returncode == 0 and len(json.loads(done.stdout)) <= 200, done.stderr


ROW = {
    "id": "5f0c2d1e-1", "short": "5f0c2d1e", "agent": "codex", "project": "/w/店面",
    "title": "修好" * 20, "state": "waiting", "since": 1000,
    "doing": "Bash: " + "x" * 99, "tokens": 48_000, "cost": 0.35, "background": False,
}  # fmt: skip


@every_row("columns", [40, 60, 80, 120, 300])
def test_line_is_cut_where_it_tells_most_and_keeps_its_figures(columns: int) -> None:
    line = command.line(ROW, columns, 1000 + 7200)
    assert width(line) <= max(columns, 70) and line.startswith("5f0c2d1e")
    assert line.endswith("48k tokens · $0.35")
    assert ("x" * 99 in line) == (columns == 300)


def test_line_without_figures_is_as_wide_as_it_may_be() -> None:
    row = {**ROW, "tokens": None, "cost": None, "since": None, "agent": "claude"}
    assert width(command.line(row, 80, 0.0)) in (79, 80)
