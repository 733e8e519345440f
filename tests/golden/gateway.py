"""Scenes of the gateway: joining, its machines, and cards that it carries."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.conftest import wait_until
from tests.fakes.feishu_app import OWNER, STRANGER, FakePlatform
from tests.gateways import Join, RunningGateway
from tests.golden.app import put_tap, say, show_ledger
from tests.golden.record import Record
from tests.golden.stage import Stage, folder, run

CARDS, NOTES = "gateway_cards.json", "gateway_notes.json"
PENDING = ("Bash plain", "Bash danger", "Bash secret", "Edit of a file", "Write long",
           "AskUserQuestion", "ExitPlanMode", "denied", "form")  # fmt: skip
TAPS: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("Bash plain", "allow", None),
    ("Bash plain", "deny", {"reason": "not now"}),
    ("Bash plain", "interrupt", None),
    ("question of one", "answer:1", None),
    ("ExitPlanMode", "deny", {"reason": "smaller steps"}),
    ("form", "deny", None),
)
GRANTS: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("Bash plain", "always", None),
    ("Bash suggested rule", "minutes", None),
    ("next", "send", {"text": "go on"}),
)


def gateway(pyz: Path, language: str, record: Record) -> None:
    """One machine joins, asks, is renamed, goes away and is revoked."""
    with folder() as home, FakePlatform(limits=False) as feishu:
        feishu.people[OWNER] = "王小明"
        settings = {"FEISHUPERM_LANG": language}
        with RunningGateway(pyz, home / "gateway", feishu, **settings) as running:
            wait_until(lambda: feishu.connections.open)
            Scene(pyz, home, language, record, feishu, running).play()


class Scene:
    """A gateway with what is needed around it."""

    def __init__(
        self, pyz: Path, home: Path, language: str, record: Record,
        feishu: FakePlatform, running: RunningGateway,
    ) -> None:  # fmt: skip
        self.pyz, self.home, self.language = pyz, home, language
        self.record, self.feishu, self.gateway = record, feishu, running

    def play(self) -> None:
        self.show_chat()
        self.join("refused", "refuse")
        laptop = self.join("laptop", "join")
        stage = Stage(self.pyz, laptop, self.language, self.record, self.feishu)
        with stage.served:
            wait_until(lambda: channel(stage) == "up")
            self.show_requests(stage)
            self.show_machines("connected")
            self.command("machines")
            self.record.text("transcripts/gateway.txt", stage.run("status"))
            asked = stage.ask_on_card("Bash plain")
            stage.served.kill()
            asked.hook.kill()
            wait_until(lambda: not self.gateway.machines()[0]["connected"])
            value = first_value(self.feishu, asked.message)
            tap = self.feishu.act(asked.message, {"tag": "button", "value": value})
            self.record.put(CARDS, "toast: the machine is away", tap.toast)
        self.show_machines("away")
        self.show_grants(stage)
        self.rename_and_revoke()
        self.show_pages()
        self.record.text(
            "transcripts/gateway.txt",
            run(self.pyz, stage.served.environ, stage.served.project, "leave"),
        )
        show_ledger(stage, "ledger_machine.txt")

    # Joining.

    def join(self, name: str, action: str) -> Path:
        """A machine's `join`, answered on the card; its home."""
        home = self.home / name
        config = home / ".config" / "feishuperm" / "config.env"
        config.parent.mkdir(parents=True)
        config.write_text(f"FEISHUPERM_LANG={self.language}\n")
        joining = Join(self.pyz, home, self.gateway.url, "--name", name)
        try:
            code = joining.code()
            message = self.new_message(lambda: self.feishu.say(code))
            self.record.put(NOTES, f"join {name}", self.feishu.card(message))
            tap = self.tap(message, action, STRANGER)
            self.record.put(NOTES, f"join {name}: toast of a stranger", tap.toast)
            old = self.value(message, action)
            tap = self.tap(message, action)
            told = {"toast": tap.toast, "card": tap.card}
            self.record.put(NOTES, f"join {name}: {action}", told)
            late = self.feishu.act(message, {"tag": "button", "value": old})
            self.record.put(NOTES, f"join {name}: too late", late.toast)
            said = joining.said
            if action == "join":  # one that was refused waits on
                said += joining.process.stdout.read()
                joining.process.wait(30)
        finally:
            joining.close()
        said = said.replace(code, "CODE")
        end = f"[exit {joining.process.returncode}]\n"
        line = f"$ feishuperm join {self.gateway.url} --name {name}\n{said}{end}"
        self.record.text("transcripts/gateway.txt", line)
        return home

    def new_message(self, cause: Any) -> str:
        before = set(self.feishu.app_messages)
        cause()
        fresh: set[str] = wait_until(lambda: set(self.feishu.app_messages) - before)
        return fresh.pop()

    def value(self, message: str, action: str) -> Any:
        values = [b["behaviors"][0]["value"] for b in self.feishu.buttons(message)]
        return next(value for value in values if value["action"] == action)

    def tap(self, message: str, action: str, who: str = OWNER, **form: str) -> Any:
        pressed: dict[str, Any] = {"tag": "button"}
        pressed["value"] = self.value(message, action)
        if form:
            pressed.update(name="x", form_value=form)
        return self.feishu.act(message, pressed, who)

    # What it carries.

    def show_requests(self, stage: Stage) -> None:
        for name in PENDING:
            asked = stage.ask_on_card(name)
            self.record.put(CARDS, name, asked.card())
            asked.drop()
            if name == "Bash plain":
                self.record.put(CARDS, f"{name}: gone", asked.patched())
        for name, action, form in TAPS:
            asked = stage.ask_on_card(name)
            put_tap(asked, f"{name}: {action}", action, form, CARDS)
        asked = stage.ask_on_card("Bash plain")
        value = first_value(self.feishu, asked.message)
        tap = self.feishu.act(
            asked.message, {"tag": "button", "value": value}, STRANGER
        )
        self.record.put(CARDS, "toast: a stranger", tap.toast)
        say(stage, "what", asked.message, "reply: unclear", NOTES)
        say(stage, "always", asked.message, "reply: always", NOTES)
        say(stage, "拒绝 太危险", asked.message, "reply: deny", NOTES)
        self.record.put(CARDS, "Bash plain: denied in words, hook", asked.end())
        self.record.put(CARDS, "Bash plain: denied in words", asked.patched())

    def show_grants(self, stage: Stage) -> None:
        """The same machine, once its owner may grant what lasts."""
        stage.served.environ["FEISHUPERM_GATEWAY_GRANTS"] = "on"
        with stage.served:
            wait_until(lambda: channel(stage) == "up")
            for name, action, form in GRANTS:
                asked = stage.ask_on_card(name)
                self.record.put(CARDS, f"grants: {name}, to {action}", asked.card())
                put_tap(asked, f"grants: {name}: {action}", action, form, CARDS)

    # What it says itself.

    def show_chat(self) -> None:
        for words in ("help", "000000", "status"):
            before = len(self.feishu.replies)
            self.feishu.say(words)
            wait_until(lambda old=before: len(self.feishu.replies) > old)
            content = json.loads(self.feishu.replies[before][1]["content"])
            self.record.put(NOTES, f"says: {words}", content)
        message = self.new_message(lambda: self.feishu.say("machines"))
        self.record.put(NOTES, "machines: none", self.feishu.card(message))
        self.command("machines")

    def show_machines(self, title: str) -> str:
        message = self.new_message(lambda: self.feishu.say("机器"))
        self.record.put(NOTES, f"machines: {title}", self.feishu.card(message))
        return message

    def rename_and_revoke(self) -> None:
        message = self.new_message(lambda: self.feishu.say("machines"))
        tap = self.tap(message, "revoke", STRANGER)
        self.record.put(NOTES, "machines: toast of a stranger", tap.toast)
        tap = self.tap(message, "rename", name="desk")
        told = {"toast": tap.toast, "card": tap.card}
        self.record.put(NOTES, "machines: renamed", told)
        id = self.gateway.machines()[0]["id"]
        self.command("machines")
        self.command("machines", "rename", id, "table")
        self.command("machines", "rename", "nobody", "table")
        self.command("machines", "revoke", id)
        self.command("machines", "revoke", id)
        tap = self.tap(message, "revoke")
        self.record.put(NOTES, "machines: revoked before", tap.toast)
        self.show_machines("all revoked")

    def command(self, *arguments: str) -> None:
        gateway = self.gateway
        said = run(self.pyz, gateway.environ, gateway.home, *arguments)
        self.record.text("transcripts/gateway.txt", said)

    def show_pages(self) -> None:
        for path in ("/healthz", "/readyz", "/", "/nowhere", "/metrics"):
            status, text = self.gateway.get(path)
            if path == "/metrics":  # the numbers are another matter
                text = re.sub(r"(?m)^(?!#)(\S+) .*$", r"\1", text)
            self.record.put("gateway_pages.json", path, [status, text])


def channel(stage: Stage) -> str:
    status = stage.served.status() or {"channels": ()}
    rows = [row for row in status["channels"] if row["name"] == "gateway"]
    return str(rows[0]["state"]) if rows else ""


def first_value(feishu: FakePlatform, message: str) -> Any:
    return feishu.buttons(message)[0]["behaviors"][0]["value"]
