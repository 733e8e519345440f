"""One server of the built file with everything around it that a scene needs."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import wait_until
from tests.fakes.feishu import APP_ID, APP_SECRET
from tests.fakes.feishu_app import OWNER, FakePlatform, Tap
from tests.golden.events import NOTIFY, event_of
from tests.golden.record import Record, normalise
from tests.served import Served, Transcript

Json = dict[str, Any]
ATTENDED = {"CLAUDE_CODE_SESSION_ATTENDED": "1"}


@contextmanager
def folder() -> Iterator[Path]:
    """A folder whose path is always as long; the records say /GOLD."""
    path = Path(tempfile.mkdtemp(prefix="gold-", dir="/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def fill_project(project: Path) -> None:
    """What the events speak of."""
    project.mkdir(parents=True, exist_ok=True)
    (project / "app.py").write_text("one\ntwo\nthree\n")
    (project / "deploy.sh").write_text("#!/bin/sh\necho deploys\nrm -rf build\n")
    (project / "deploy.sh").chmod(0o755)
    (project / ".git").mkdir(exist_ok=True)
    (project / ".git" / "HEAD").write_text("ref: refs/heads/feature/x\n")


class Stage:
    """A server, a platform, a record; a scene asks and answers on it."""

    def __init__(
        self,
        pyz: Path,
        home: Path,
        language: str,
        record: Record,
        feishu: FakePlatform | None = None,
        **settings: str,
    ) -> None:
        self.language = language
        self.record = record
        self.feishu = feishu or FakePlatform(limits=False)
        self.feishu.people[OWNER] = "王小明"
        settings = {
            "FEISHUPERM_LANG": language, "FEISHUPERM_NOTIFY": NOTIFY,
            "PERMISSION_REQUEST_TIMEOUT": "900", **settings,
        }  # fmt: skip
        self.served = Served(pyz, home, **settings)
        fill_project(self.served.project)
        self.sessions = 0

    @classmethod
    @contextmanager
    def app(
        cls, pyz: Path, language: str, record: Record, **settings: str
    ) -> Iterator[Stage]:
        """A server whose cards go through an app."""
        with folder() as home:
            stage = cls(pyz, home, language, record, **settings)
            with stage.feishu as feishu:
                stage.served.environ.update(
                    FEISHU_APP_ID=APP_ID, FEISHU_APP_SECRET=APP_SECRET,
                    FEISHU_BASE_URL=feishu.base_url, FEISHU_RECEIVE_ID=OWNER,
                )  # fmt: skip
                with stage.served:
                    wait_until(lambda: feishu.connections.open)
                    wait_until(stage.knows_people)
                    yield stage

    @classmethod
    @contextmanager
    def webhook(
        cls, pyz: Path, language: str, record: Record, **settings: str
    ) -> Iterator[Stage]:
        """A server whose cards go through a group bot."""
        with folder() as home:
            stage = cls(pyz, home, language, record, **settings)
            with stage.feishu as feishu:
                stage.served.environ["FEISHU_WEBHOOK_URL"] = feishu.webhook_url
                with stage.served:
                    yield stage

    @classmethod
    @contextmanager
    def bare(
        cls, pyz: Path, language: str, record: Record, **settings: str
    ) -> Iterator[Stage]:
        """A server with its inbox alone."""
        with folder() as home:
            stage = cls(pyz, home, language, record, **settings)
            with stage.feishu, stage.served:
                yield stage

    def knows_people(self) -> bool:
        """Whether the server has asked for the owner's name."""
        asked = (path for path, _ in self.feishu.requests)
        return any("/contact/v3/users/" in path for path in asked)

    def has_recorded(self) -> bool:
        """Whether the ledger has all that the server knows; ends follow in 0.1 s."""
        status = self.served.control(command="status")
        return status is None or not status["ledger"]["pending"]

    # Asking.

    def event(self, name: str, **more: Any) -> tuple[str, Json]:
        """The event of a situation, each in a session of its own."""
        self.sessions += 1
        kind, event = event_of(name, self.sessions, str(self.served.project))
        return kind, {**event, **more}

    def ask(self, name: str, **more: Any) -> Asked:
        """Start a hook; it is pending when this returns."""
        kind, event = self.event(name, **more)
        hook, id = self.served.ask(event, kind, **ATTENDED)
        return Asked(self, name, hook, id)

    def ask_on_card(self, name: str, **more: Any) -> Asked:
        """The same, once its card is out."""
        cards = len(self.feishu.app_messages) + len(self.feishu.messages)
        asked = self.ask(name, **more)
        wait_until(
            lambda: len(self.feishu.app_messages) + len(self.feishu.messages) > cards
        )
        if self.feishu.app_messages:
            asked.message = self.feishu.last
        return asked

    def transcript(self) -> Transcript:
        path = Path(tempfile.mkdtemp(dir=self.served.home))
        return Transcript(path)

    def run(self, *arguments: str, **environ: str) -> str:
        """A command as a transcript: what was typed, what it said, how it ended."""
        if arguments[0] == "log":
            wait_until(self.has_recorded)
        return run(
            self.served.pyz, {**self.served.environ, **environ},
            self.served.project, *arguments,
        )  # fmt: skip


def run(pyz: str | Path, environ: dict[str, str], cwd: Path, *arguments: str) -> str:
    """A command as a transcript."""
    result = subprocess.run(
        [str(pyz), *arguments], env=environ, cwd=cwd, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    said = result.stdout + "".join(f"! {one}\n" for one in result.stderr.splitlines())
    end = f"[exit {result.returncode}]\n" if result.returncode else ""
    return f"$ feishuperm {' '.join(arguments)}\n{said}{end}\n"


class Asked:
    """A request that is pending, or was."""

    def __init__(self, stage: Stage, name: str, hook: Any, id: str) -> None:
        self.stage, self.name, self.hook, self.id = stage, name, hook, id
        self.message = ""

    # On the app's card.

    def card(self) -> Json:
        return self.stage.feishu.card(self.message)

    def tap(self, action: str, form: Json | None = None, nth: int = 0) -> Tap:
        """Tap a button by what it does; `nth` of those that do it."""
        feishu = self.stage.feishu
        buttons = [
            one for one in feishu.buttons(self.message)
            if one["behaviors"][0].get("value", {}).get("action") == action
        ]  # fmt: skip
        assert buttons, f"{self.name}: no {action} among {feishu.buttons(self.message)}"
        button = buttons[nth]
        pressed: Json = {"tag": "button", "value": button["behaviors"][0]["value"]}
        if "form_action_type" in button:
            pressed.update(name=button["name"], form_value=form or {})
        tap = feishu.act(self.message, pressed)
        assert tap.error == 0, tap
        return tap

    def patched(self, words: str = "") -> Json:
        """The card once it was changed by a call, and says this."""

        def found() -> Json | None:
            patches = [
                one for id, one in self.stage.feishu.patches if id == self.message
            ]
            fits = patches and words in json.dumps(patches[-1], ensure_ascii=False)
            return patches[-1] if fits else None

        card: Json = wait_until(found)
        return card

    def is_shown(self) -> bool:
        """Whether an open inbox, or a card, shows it."""
        status = self.stage.served.status() or {"waiting": ()}
        return any(row["id"] == self.id and row["shown"] for row in status["waiting"])

    # The hook.

    def end(self) -> Json:
        """How the hook ended."""
        out, err = self.hook.communicate(timeout=60)
        printed = out.decode()
        end: Json = {"code": self.hook.returncode}
        if printed:
            end["stdout"] = json.loads(printed) if printed[:1] == "{" else printed
        if err:
            end["stderr"] = normalise(err.decode())
        return end

    def drop(self) -> None:
        """End the request as a session that is killed would."""
        self.hook.terminate()
        self.hook.communicate(timeout=30)
        wait_until(lambda: self.id not in self.stage.served.waiting())
