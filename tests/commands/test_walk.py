"""How far a request walks through the program, and that nothing is done twice.

The counts are of calls of Python functions, which are the same in every run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from feishuperm.commands import serve
from feishuperm.commands.serve import Server
from feishuperm.lib import enrolment
from feishuperm.lib.enrolment import Enrolment
from feishuperm.models.ask import Answer, to_plain
from feishuperm.protocol.machine import TAP, WELCOME, prove, tap_parts
from feishuperm.services import approvals
from tests.app.bench import Api, Delivery
from tests.app.bench import Line as FeishuLine
from tests.asks import ask_of
from tests.channels.test_gateway import FakeLine
from tests.commands.test_serve import folder, make
from tests.served import EVENT
from tests.walk import Walk, walking

__all__ = ["folder"]
ID, OWNER = "1700000000-0123abcd", "ou_owner1"
KEY, NEXT = "ab" * 32, "cd" * 32
APP = {
    "FEISHU_APP_ID": "cli_1",
    "FEISHU_APP_SECRET": "s",
    "FEISHU_OWNER_ID": OWNER,
    "PERMISSION_HOLD": "300",
}
# Of the first edition these were 46 files and 1 818 calls.
MOST_FILES, MOST_CALLS = 34, 1205
MOST_FILES_OF_A_TAP = 20


class Hook:
    """The server's end of a hook's connection."""

    sock = None

    def __init__(self) -> None:
        self.frames: list[tuple[bytes, bytes]] = []

    def send(self, kind: bytes, body: bytes = b"") -> None:
        self.frames.append((kind, body))


def ask(server: Server, project: Path, id: str = ID) -> Hook:
    """A hook asks whether a short command may run."""
    hook = Hook()
    raw = json.dumps({**EVENT, "cwd": str(project)}).encode()
    body = b"\0".join((b"1", id.encode(), b"", str(project).encode(), raw))
    server.hooks._on_frame(hook, b"Q", body)
    return hook


def reads(walk: Walk) -> tuple[int, int]:
    """How often an event was decoded, and danger read."""
    return walk.of("parse_payload"), walk.of("read_call")


class App:
    """A server whose app is a fake; its outboxes are stepped by hand."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.api, self.line = Api(), FeishuLine()
        patch.setattr(serve, "app_of", lambda settings: self.api)
        patch.setattr(serve, "Link", lambda loop, dial, heard, changed: self.line)
        self.server = make(folder, **APP)
        self.channel: Any = self.server.channels[-1]
        self.project = folder / "shop"
        self.project.mkdir()
        self.taps = 0

    def send(self) -> None:
        """Let the outboxes send, and the loop hear of it."""
        for box in (self.channel.sender.cards, self.channel.sender.changes):
            while box.step() is not None:
                pass
        self.server.loop._run_posted()

    def later(self, seconds: float) -> None:
        """Let what is due by then be done."""
        loop = self.server.loop
        real = loop.now
        loop.now = lambda: real() + seconds
        loop._run_timers()
        loop.now = real
        self.send()

    def tap(self, action: str) -> dict[str, Any]:
        """Tap a button of the first card."""
        self.taps += 1
        card = json.dumps(self.api.cards["om_1"])
        nonce = self.channel.store.get(ID).nonce
        assert nonce in card
        (request,) = self.server.approvals.requests.waiting()
        value = {"id": ID, "action": action, "digest": request.short_digest()}
        event = {
            "operator": {"open_id": OWNER},
            "action": {"value": {**value, "nonce": nonce}},
            "context": {"open_message_id": "om_1"},
        }
        header = {"event_type": "card.action.trigger", "event_id": f"e{self.taps}"}
        payload = json.dumps({"header": header, "event": event}).encode()
        replies: list[dict[str, Any]] = []
        self.channel.deliver(Delivery(payload), replies.append)
        (reply,) = replies
        return reply


@pytest.fixture(autouse=True)
def one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine would put a request into words in several turns of the loop."""
    monkeypatch.setattr(approvals, "TURN_SECONDS", 60.0)


@pytest.fixture
def app(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    ask_of(EVENT)  # whatever the first request compiles
    made = App(folder, monkeypatch)
    yield made
    made.server.close()


def test_request_reaches_its_queued_card_by_few_files_and_calls(app: App) -> None:
    with walking() as walk:
        hook = ask(app.server, app.project)
    assert [kind for kind, _ in hook.frames] == [b"A"]
    assert len(app.channel.sender.cards._incoming) == 1
    assert reads(walk) == (1, 1)
    assert len(walk.files()) <= MOST_FILES, walk.files()
    assert walk.count() <= MOST_CALLS, walk.calls.most_common(30)


def test_tap_reaches_its_decision_by_few_files(app: App) -> None:
    hook = ask(app.server, app.project)
    app.send()
    decided: list[str] = []

    def send(kind: bytes, body: bytes = b"") -> None:
        if kind == b"D":
            decided.extend(walk.files())
            hook.frames.append((kind, body))

    hook.send = send  # type: ignore[method-assign]
    with walking() as walk:
        reply = app.tap("allow")
    assert reply["toast"]["content"] == "已批准运行"
    assert [kind for kind, _ in hook.frames][-1] == b"D"
    assert len(decided) <= MOST_FILES_OF_A_TAP, decided
    assert reads(walk) == (0, 0)
    with walking() as after:
        app.later(1.0)
    assert reads(after) == (0, 0)
    made = ("services/presenter.py", "outcome")
    assert walk.calls[made] + after.calls[made] == 1


def test_person_who_reads_costs_one_update(app: App) -> None:
    ask(app.server, app.project)
    app.send()
    before = len(app.api.calls)
    with walking() as walk:
        reply = app.tap("hold")
        app.later(1.0)
    assert reply["toast"]["type"] == "success" and "card" in reply
    assert app.api.calls[before:] == [("update", "om_1")]
    assert reads(walk) == (0, 0)
    app.tap("hold")
    app.later(1.0)
    assert len(app.api.calls) == before + 1


def test_request_and_tap_through_a_gateway_decode_once_and_read_danger_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Enrolment("https://g", "m-1", "laptop", OWNER, "", (KEY,))
    lines: list[FakeLine] = []

    def connect(loop: object, dial: object, heard: Any, changed: Any) -> FakeLine:
        lines.append(FakeLine(heard, changed))
        return lines[-1]

    monkeypatch.setattr(serve, "MachineLine", connect)
    monkeypatch.setattr(enrolment, "find", lambda url: own)
    monkeypatch.setattr(enrolment, "save", lambda enrolment: None)
    server = make(folder, FEISHUPERM_GATEWAY="https://g")
    (line,) = lines
    try:
        line.on_change(True, "")
        now = 1_700_000_000.0
        line.on_message({"t": "hello", "nonce": "theirs", "now": now})
        nonce = line.got("login")[-1]["nonce"]
        proof = prove(bytes.fromhex(KEY), WELCOME, "1", "m-1", nonce, "theirs")
        welcome = {"name": "laptop", "proof": proof, "next": NEXT, "now": now}
        line.on_message({"t": "welcome", "cards": [], **welcome})
        with walking() as walk:
            hook = ask(server, folder)
            (sent,) = line.got("ask")
            line.on_message({"t": "shown", "id": ID, "ok": True})
            answer = Answer(ID, "allow", {}, "", OWNER, sent["ask"]["digest"])
            parts = tap_parts("m-1", "t1", to_plain(answer), now)
            proof = prove(bytes.fromhex(NEXT), TAP, *parts)
            said = {"answer": to_plain(answer), "at": now, "proof": proof}
            line.on_message({"t": "tap", "tap": "t1", **said})
        assert [kind for kind, _ in hook.frames] == [b"A", b"S", b"D"]
        assert reads(walk) == (1, 1)
        assert walk.calls["services/presenter.py", "outcome"] == 1
    finally:
        server.close()
