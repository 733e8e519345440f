"""Rare scenes: many requests at once, attempts, reviews, bad apps, a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import clean_env, wait_until
from tests.e2e.test_attack_access import FakeClient
from tests.fakes import reviewer
from tests.fakes.feishu import APP_ID, APP_SECRET
from tests.fakes.feishu_app import OWNER, Tap
from tests.golden.record import Record
from tests.golden.stage import Asked, Stage, fill_project, folder, run

BURST, CARDS = "burst_cards.json", "rare_cards.json"


def burst(pyz: Path, language: str, record: Record) -> None:
    """More requests of one session than a person can tap apart share a card."""
    with Stage.app(pyz, language, record) as stage:
        asked = [ask_again(stage, f"make part{number}") for number in range(9)]
        own, many = asked[:5], asked[5:]
        shared = Asked(stage, "burst", None, "")
        shared.message = wait_until(lambda: card_with(stage, "make part8"))
        record.put(BURST, "burst: pending", shared.card())
        first = [one["behaviors"][0]["value"] for one in buttons(shared)]
        tap = act(shared, first[0])
        record.put(BURST, "burst: toast of a line", tap.toast)
        record.put(BURST, "burst: a line, hook", many[0].end())
        record.put(BURST, "burst: a line settled", tap.card)
        wait_until(lambda: len(buttons(shared)) < len(first))
        record.put(BURST, "burst: toast of an old card", act(shared, first[-1]).toast)
        newest = buttons(shared)[-1]["behaviors"][0]["value"]
        record.put(BURST, "burst: toast of all", act(shared, newest).toast)
        record.put(BURST, "burst: all, hooks", [one.end() for one in many[1:]])
        wait_until(lambda: not buttons(shared))
        record.put(BURST, "burst: all settled", shared.card())
        for one in own:
            one.drop()


def ask_again(stage: Stage, command: str) -> Asked:
    """One more request of the same session."""
    asked = stage.ask("Bash plain", tool_input={"command": command})
    stage.sessions = 0
    return asked


def card_with(stage: Stage, words: str) -> str:
    """The message whose card says this; empty: none."""
    messages = stage.feishu.app_messages.items()
    return next((id for id, one in messages if words in one["content"]), "")


def act(asked: Asked, value: Any) -> Tap:
    return asked.stage.feishu.act(asked.message, {"tag": "button", "value": value})


def buttons(asked: Asked) -> list[Any]:
    return asked.stage.feishu.buttons(asked.message)


def attempts(pyz: Path, language: str, record: Record) -> None:
    """A session that answers itself, one that is reviewed, a pass that was typed."""
    with Stage.app(pyz, language, record) as stage:
        show_attempt(stage)
        show_reviews(stage)
        show_typed_pass(stage)
        show_muted(stage)
        show_log(stage)


LOOK = """
import urllib.error, urllib.request, sys
try:
    print(urllib.request.urlopen(sys.argv[1]).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


def show_attempt(stage: Stage) -> None:
    served = stage.served
    before = set(stage.feishu.app_messages)
    with FakeClient(served, stage.event("Bash plain")[1]) as client:
        asked = Asked(stage, "attempt", client.process, client.id)
        asked.message = wait_until(lambda: card_with(stage, client.id))
        url = f"http://127.0.0.1:{served.port}" + served.link(f"/allow?id={client.id}")
        _, page, _ = client.run(sys.executable, "-c", LOOK, url)
        line = next(row for row in page.split("<p") if 'class="line"' in row)
        stage.record.put(CARDS, "attempt: page", [page.partition(" ")[0], line])
        new = wait_until(
            lambda: set(stage.feishu.app_messages) - before - {asked.message}
        )
        stage.record.put(CARDS, "attempt: notice", stage.feishu.card(new.pop()))
        asked.tap("deny")
        stage.record.put(CARDS, "attempt: hook", client.printed())
        stage.record.put(CARDS, "attempt: settled", asked.patched())


def show_reviews(stage: Stage) -> None:
    for case in ("allow", "block"):
        command = f"{sys.executable} {reviewer.__file__} {case}"
        _, event = stage.event("stop")
        event = {**event, "cwd": str(stage.served.project)}
        before = set(stage.feishu.app_messages)
        served = stage.served
        done = subprocess.run(
            [served.pyz, "supervisor"], input=json.dumps(event), text=True,
            env={**served.environ, "SUPERVISOR_COMMAND": command},
            cwd=served.project, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        ended = {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
        stage.record.put(CARDS, f"review: {case}, hook", ended)
        new = wait_until(lambda old=before: set(stage.feishu.app_messages) - old)
        card = stage.feishu.card(new.pop())
        stage.record.put(CARDS, f"review: {case}", card)


def show_typed_pass(stage: Stage) -> None:
    before = set(stage.feishu.app_messages)
    served = stage.served
    said = at_terminal(
        served.pyz, served.environ, served.project, "y",
        "passes", "add", "Bash(npm test)", "--calls", "2",
    )  # fmt: skip
    stage.record.text("transcripts/terminal.txt", said)
    new = wait_until(lambda: set(stage.feishu.app_messages) - before)
    stage.record.put(CARDS, "typed pass: notice", stage.feishu.card(new.pop()))
    for arguments in (["passes"], ["passes", "revoke", "all"], ["passes"]):
        stage.record.text("transcripts/terminal.txt", stage.run(*arguments))


def show_muted(stage: Stage) -> None:
    stage.feishu.say("mute 1h")
    wait_until(lambda: stage.feishu.replies)
    hook = stage.served.hook(stage.event("Bash plain")[1])
    out, err = hook.communicate(timeout=60)
    ended = [hook.returncode, out.decode(), err.decode()]
    stage.record.put(CARDS, "muted: hook", ended)


def show_log(stage: Stage) -> None:
    """The ledger as JSON, and a rule that cannot be undone."""
    for arguments in (["log", "--json"], ["log", "undo", "0000000000-00000000"]):
        said = stage.run(*arguments)
        if arguments[-1] == "--json":
            rows = json.loads(said[said.index("[") :])
            for row in rows:
                row.pop("base", None)
            said = json.dumps(rows, ensure_ascii=False, indent=1, sort_keys=True)
        stage.record.text("transcripts/log.txt", said)


def apps(pyz: Path, language: str, record: Record) -> None:
    """An app that cannot work, as `status` tells it."""
    cases: dict[str, dict[str, str]] = {
        "wrong secret": {"FEISHU_APP_SECRET": "wrong"},
        "wrong id": {"FEISHU_APP_ID": "cli_other"},
        "bot off": {},
        "no callback": {},
    }
    for name, changes in cases.items():
        with folder() as home:
            stage = Stage(pyz, home, language, record, PERMISSION_REQUEST_TIMEOUT="2")
            feishu = stage.feishu
            feishu.bot_status = 1 if name == "bot off" else 2
            feishu.subscribed = name != "no callback"
            with feishu:
                stage.served.environ.update(app_environ(stage), **changes)
                with stage.served:
                    wait_until(lambda stage=stage: app_state(stage) == "down")
                    said = f"== {name}\n{stage.run('status')}"
                    record.text("transcripts/apps.txt", said)


def app_environ(stage: Stage) -> dict[str, str]:
    return {
        "FEISHU_APP_ID": APP_ID, "FEISHU_APP_SECRET": APP_SECRET,
        "FEISHU_BASE_URL": stage.feishu.base_url, "FEISHU_RECEIVE_ID": OWNER,
    }  # fmt: skip


def app_state(stage: Stage) -> str:
    status = stage.served.status() or {"channels": ()}
    rows = [row for row in status["channels"] if row["name"] == "app"]
    return str(rows[0]["state"]) if rows else ""


# A terminal.


def at_terminal(
    pyz: str | Path, environ: dict[str, str], cwd: Path, typed: str, *arguments: str
) -> str:
    """A command on a terminal of its own, with what is typed."""
    master, slave = pty.openpty()
    try:
        os.write(master, typed.encode() + b"\n")
        process = subprocess.Popen(
            [str(pyz), *arguments], env={**environ, "TERM": "dumb", "COLUMNS": "88"},
            cwd=cwd, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        said = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not part:
                break
            said += part
        code = process.wait(60)
    finally:
        os.close(master)
    text = said.decode(errors="replace").replace("\r\n", "\n")
    end = f"[exit {code}]\n" if code else ""
    return f"$ feishuperm {' '.join(arguments)}\n{text}{end}\n"


def terminal(pyz: Path, language: str, record: Record) -> None:
    """Commands that ask, and what they say when they are done."""
    with folder() as home:
        environ = clean_env(
            home, FEISHUPERM_LANG=language, SUPERVISOR_COMMAND="no-such-reviewer",
            PERMISSION_SOCKET_PATH=str(home / "s.sock"), CALLBACK_SERVER_PORT="0",
        )  # fmt: skip
        project = home / "project"
        fill_project(project)
        entry = {"event": "Stop", "type": "command", "command": "touch ran"}
        settings = project / ".claude" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"feishuperm": {"callbacks": [entry]}}))

        def put(typed: str, *arguments: str) -> None:
            said = at_terminal(pyz, environ, project, typed, *arguments)
            record.text("transcripts/asked.txt", said)

        put("")
        put("", "hook")
        put("n", "trust")
        put("y", "trust")
        put("", "trust", "list")
        put("", "trust")
        put("", "trust", "revoke", ".")
        install = [
            "install", "--no-input", "--no-service", "--events", "Stop,next",
            "--supervisor", "--ask-list", "--lang", language, "--wait", "10m",
        ]  # fmt: skip
        for arguments in (
            install, ["install", "--no-input", "--no-service", "--no-events", "next"],
            ["install", "--no-input", "--no-service"], ["doctor"], ["status"],
            ["uninstall", "--dry-run"], ["uninstall"], ["uninstall", "--purge"],
        ):  # fmt: skip
            said = run(pyz, environ, project, *arguments)
            record.text("transcripts/installed.txt", said)
            kept = home / ".claude" / "settings.json"
            if arguments is install:
                text = f"{kept}:\n{kept.read_text()}\n"
                record.text("transcripts/installed.txt", text)
