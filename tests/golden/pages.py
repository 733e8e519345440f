"""Scenes of the browser: every page of the server, and its JSON."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.conftest import wait_until
from tests.golden.events import CASES, OTHERS
from tests.golden.record import Record
from tests.golden.stage import Asked, Stage
from tests.served import Answer

HOOKS, EVENTS = "page_hook_output.json", "page_events.json"
PHONE = "Mozilla/5.0 (iPhone) Mobile Lark/7.30"
# What a person sends: (situation, path, fields).
ANSWERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Bash plain", "/allow", {}),
    ("Bash plain", "/deny", {"reason": "not now"}),
    ("Bash plain", "/interrupt", {}),
    ("Bash plain", "/edit", {"command": "npm run build -- --fast"}),
    ("Edit of a file", "/allow", {}),
    ("AskUserQuestion", "/answer", {"q0": "SQLite", "q1": ["SQLite", "PostgreSQL"]}),
    ("question of one", "/answer", {"q0_other": "MySQL"}),
    ("question of one", "/deny", {"reason": "ask later"}),
    ("ExitPlanMode", "/allow", {}),
    ("ExitPlanMode", "/deny", {"reason": "smaller"}),
    ("denied", "/allow", {}),
    ("denied", "/deny", {}),
    ("form", "/answer", {"f0": "Bob", "f1": "L", "f2": "3"}),
    ("form", "/deny", {}),
    ("next", "/answer", {"text": "go on"}),
    ("next", "/deny", {}),
)
WRONG: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("form", "/answer", {"f0": "B", "f1": "L"}),
    ("question of one", "/answer", {}),
    ("next", "/answer", {"text": " "}),
    ("Bash plain", "/edit", {"command": " "}),
)


def name_of(*parts: str) -> str:
    return "_".join(parts).replace(" ", "_").replace("/", "")


def pages(pyz: Path, language: str, record: Record) -> None:
    """A server whose inbox somebody looks at."""
    with Stage.bare(pyz, language, record) as stage, watched(stage):
        get = stage.served.get
        record.page("inbox_empty", get("/"))
        show_requests(stage)
        show_answers(stage)
        show_lasting(stage)
        show_events(stage)
        show_strays(stage)
        record.page("inbox_recent", get("/"))
        kept = json.loads(get("/healthz").text)
        record.put("status.json", "/healthz", kept)
        record.put("status.json", "/status", shape(json.loads(get("/status").text)))
        record.text("transcripts/pages.txt", stage.run("log"))
        record.text("transcripts/pages.txt", stage.run("log", "verify"))


@contextmanager
def watched(stage: Stage) -> Iterator[None]:
    """While somebody looks at the inbox, and reads all of it."""
    page = http.client.HTTPConnection("127.0.0.1", stage.served.port, timeout=600)
    page.request("GET", "/events")
    stream = page.getresponse()
    stream.readline()

    def read() -> None:
        with suppress(OSError, ValueError, AttributeError):  # closed meanwhile
            while stream.readline():
                pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        if page.sock is not None:
            page.sock.shutdown(socket.SHUT_RDWR)
        reader.join(10)
        page.close()


def show_requests(stage: Stage) -> None:
    """Every request as its page shows it; some together in the inbox."""
    for name in (*CASES, *OTHERS):
        asked = stage.ask(name)
        wait_until(asked.is_shown)  # a large one is put into words some turns later
        page = stage.served.get(f"/request?id={asked.id}")
        stage.record.page(name_of("request", name), page)
        if name in ("AskUserQuestion", "form"):
            page = stage.served.get(f"/answer?id={asked.id}")
            stage.record.page(name_of("answer", name), page)
        asked.drop()
    names = ("Bash danger", "question of one", "ExitPlanMode", "next")
    pending = [stage.ask(name) for name in names]
    stage.record.page("inbox_pending", stage.served.get("/"))
    for asked in pending:
        asked.drop()
    page = stage.served.get(f"/request?id={pending[0].id}")
    stage.record.page("request_gone", page)


def show_answers(stage: Stage) -> None:
    for name, path, fields in ANSWERS:
        asked = stage.ask(name)
        page = send(stage, path, asked, fields)
        stage.record.page(name_of("result", name, path), page)
        stage.record.put(HOOKS, f"{name}: {path} {list(fields)}", asked.end())
    page = stage.served.get(f"/allow?id={asked.id}")
    stage.record.page("result_again", page)
    stage.record.page("request_over", stage.served.get(f"/request?id={asked.id}"))
    for name, path, fields in WRONG:
        asked = stage.ask(name)
        page = send(stage, path, asked, fields)
        stage.record.page(name_of("wrong", name, path), page)
        asked.drop()


def send(stage: Stage, path: str, asked: Asked, fields: dict[str, Any]) -> Answer:
    return stage.served.post(path, id=asked.id, **fields)


def show_lasting(stage: Stage) -> None:
    """What lasts is asked about first, and can be undone."""
    for path in ("/minutes", "/session", "/always"):
        asked = stage.ask("Bash plain")
        page = send(stage, path, asked, {})
        stage.record.page(name_of("confirm", path), page)
        page = send(stage, path, asked, {"confirmed": "1"})
        stage.record.page(name_of("result", path), page)
        stage.record.put(HOOKS, f"Bash plain: {path}", asked.end())
    stage.record.page("inbox_passes", stage.served.get("/"))
    undone = send(stage, "/undo", asked, {})
    stage.record.page("undo", undone)
    stage.record.page("undo_again", send(stage, "/undo", asked, {}))


def show_strays(stage: Stage) -> None:
    """Links that lead nowhere."""
    request = stage.served.request
    strays = {
        "unknown_id": ("GET", stage.served.link("/request?id=1700000000-00000000")),
        "no_signature": ("GET", "/request?id=1700000000-00000000"),
        "unknown_path": ("GET", "/nowhere"),
        "wrong_method": ("PUT", "/"),
        "foreign_host": ("GET", "/"),
    }
    _, unknown = strays["unknown_id"]
    wait_until(lambda: stage.served.get(unknown).status == 410)  # none may come back
    for name, (method, path) in strays.items():
        headers = {"Host": "evil.example"} if name == "foreign_host" else {}
        stage.record.page(f"stray_{name}", request(method, path, None, headers))


def show_events(stage: Stage) -> None:
    """What an open page is told, and the page of what ended without a tap."""
    asked = stage.ask("Bash plain")
    link = stage.served.link(f"/events?id={asked.id}")
    stage.record.put(EVENTS, "inbox, one pending", first_event(stage, "/events"))
    stage.record.put(EVENTS, "request, pending", first_event(stage, link))
    stage.served.post("/deny", id=asked.id, reason="later")
    stage.record.put(HOOKS, "Bash plain: /deny, seen by a page", asked.end())
    stage.record.put(EVENTS, "request, denied", first_event(stage, link))
    transcript = stage.transcript()
    transcript.call("I build it.", command="npm run build", description="build it")
    path = str(transcript.path)
    asked = stage.ask("Bash plain", transcript_path=path)
    stage.served.post("/allow", id=asked.id)
    asked.end()
    link = stage.served.link(f"/events?id={asked.id}")
    transcript.result("Exit code 3\nboom", True)
    wait_until(lambda: first_event(stage, link).get("result"))
    stage.record.put(EVENTS, "request, ran and failed", first_event(stage, link))
    page = stage.served.get(f"/request?id={asked.id}")
    stage.record.page("over_failed", page)
    asked = stage.ask("Bash plain")
    stage.served.control(command="release")
    asked.end()
    page = stage.served.get(f"/request?id={asked.id}")
    stage.record.page("over_released", page)
    transcript.path.write_text("")
    transcript.call("Again.", command="npm run build", description="build it")
    asked = stage.ask("Bash plain", transcript_path=path)
    transcript.result("built")
    asked.end()
    page = stage.served.get(f"/request?id={asked.id}")
    stage.record.page("over_terminal", page)


def first_event(stage: Stage, path: str) -> Any:
    """The state that a stream begins with; without the page's clock."""
    connection = http.client.HTTPConnection("127.0.0.1", stage.served.port, timeout=20)
    connection.request("GET", path)
    with connection.getresponse() as stream:
        line = b""
        while not line.startswith(b"data:"):
            line = stream.readline()
            assert line
    connection.close()
    state = json.loads(line[5:])
    state.pop("ended", None)  # of the last seconds, however many those saw
    return state


def share(pyz: Path, language: str, record: Record) -> None:
    """A server that gives itself to other machines, and one that does not."""
    for setting in ("on", "off"):
        settings = {"CALLBACK_SHARE_INSTALLER": setting}
        with Stage.bare(pyz, language, record, **settings) as stage:
            for path in ("/install.sh", "/SHA256SUMS"):
                answer = stage.served.get(path)
                lines = answer.text.splitlines()
                facts = [one for one in lines if one.startswith(FACTS)]
                kind = answer.headers["Content-Type"]
                told = [answer.status, kind, facts or lines[-1:]]
                record.put("share.json", f"{setting}: {path}", told)


FACTS = ("version='", "url='", "sha256='")


def shape(value: Any) -> Any:
    """The keys of JSON, and the kinds of its values."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return type(value).__name__


def away(pyz: Path, language: str, record: Record) -> None:
    """A server that others can reach: links are confirmed, the inbox needs a ticket."""
    settings = {
        "CALLBACK_SERVER_URL": "https://claude.example.test",
        "CALLBACK_SERVER_HOST": "127.0.0.1",
    }
    with Stage.webhook(pyz, language, record, **settings) as stage:
        served = stage.served
        record.page("away_inbox", served.get("/"))
        asked = stage.ask_on_card("Bash plain")
        record.put("away_cards.json", "Bash plain", stage.feishu.messages[-1])
        for agent, name in (("Slackbot 1.0", "preview"), (PHONE, "phone")):
            page = served.get(f"/request?id={asked.id}", User_Agent=agent)
            record.page(f"away_request_{name}", page)
        record.page("away_allow_preview", served.get(f"/allow?id={asked.id}"))
        page = served.get(f"/allow?id={asked.id}", User_Agent=PHONE)
        record.page("away_allow_phone", page)
        asked.drop()
        status = served.control(command="status", inbox=True) or {}
        ticket = status["inbox"].partition("?ticket=")[2]
        page = served.get(f"/?ticket={ticket}", User_Agent="Slackbot 1.0")
        record.page("away_ticket", page)
        form = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Host": "claude.example.test", "Origin": "https://claude.example.test",
        }  # fmt: skip
        entered = served.request("POST", "/", f"ticket={ticket}", form)
        record.page("away_entered", entered)
        record.page("away_ticket_again", served.get(f"/?ticket={ticket}"))
        cookie = entered.headers["Set-Cookie"].partition(";")[0]
        record.page("away_inbox_entered", served.get("/", Cookie=cookie))
