"""What next: a session that is done is woken by a text from elsewhere."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.setup.claude_settings import put_hook, registrations
from tests.conftest import wait_until
from tests.fakes.model import tool
from tests.lab import Lab
from tests.served import EVENT, Served

IDLE = {
    **{key: EVENT[key] for key in ("session_id", "transcript_path", "cwd")},
    "hook_event_name": "Notification",
    "message": "Claude is waiting for your input",
    "notification_type": "idle_prompt",
}
ATTENDED = {"CLAUDE_CODE_SESSION_ATTENDED": "1"}
LATE = "words too late"
FRAME = "This is an automated background-task event, NOT a message from the user"


def line(kind: str, words: str, **fields: Any) -> str:
    return json.dumps({"type": kind, "message": {"content": words}, **fields}) + "\n"


@pytest.fixture(scope="module")
def served(pyz: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(pyz, tmp_path_factory.mktemp("home")) as server:
        yield server


def end_of(hook: Any) -> tuple[int, bytes, bytes]:
    out, err = hook.communicate(timeout=20)
    return hook.returncode, out, err


def test_text_becomes_the_hooks_error_output_and_wakes(
    served: Served, tmp_path: Path
) -> None:
    transcript = tmp_path / "t.jsonl"
    said = [{"type": "text", "text": "All 12 tests pass."}]
    entry = {"type": "assistant", "message": {"content": said}}
    transcript.write_text(line("user", "go") + json.dumps(entry) + "\n")
    event = {**IDLE, "transcript_path": str(transcript)}
    hook, id = served.ask(event, "next", **ATTENDED)
    page = served.get(f"/request?id={id}").text
    assert "Claude Code 完成，接下来？" in page and "All 12 tests pass." in page
    assert "发送" in page and "结束" in page
    assert "不能用来批准任何操作" in page
    assert served.post("/answer", id=id, text="  ").status == 400
    sent = served.post("/answer", id=id, text="继续\r\n跑测试").text
    assert "已发送" in sent
    code, out, err = end_of(hook)
    assert (code, out, err.decode()) == (2, b"", "继续\n跑测试")


def test_end_ends_the_waiter_and_wakes_nobody(served: Served) -> None:
    hook, id = served.ask(IDLE, "next", **ATTENDED)
    assert "已结束" in served.get(f"/deny?id={id}").text
    assert end_of(hook) == (0, b"", b"")


@pytest.mark.parametrize(
    ("kind", "changes", "environ"),
    [
        ("next", {}, {}),
        ("next", {}, {"CLAUDE_CODE_SESSION_ATTENDED": "0"}),
        ("next", {"notification_type": "permission_prompt"}, ATTENDED),
        ("", {}, ATTENDED),
        ("denied", {}, ATTENDED),
    ],
)
def test_nobody_waits_where_no_session_could_be_woken(
    served: Served, kind: str, changes: dict[str, str], environ: dict[str, str]
) -> None:
    hook = served.hook({**IDLE, **changes}, kind, **environ)
    assert end_of(hook) == (0, b"", b"")
    assert served.waiting() == []


def test_newer_waiter_of_a_session_ends_the_older(served: Served) -> None:
    first, old = served.ask(IDLE, "next", **ATTENDED)
    other, foreign = served.ask({**IDLE, "session_id": "x"}, "next", **ATTENDED)
    second, new = served.ask(IDLE, "next", **ATTENDED)
    assert end_of(first) == (0, b"", b"")
    assert sorted(served.waiting()) == sorted([foreign, new])
    assert "会话已结束" in served.get(f"/request?id={old}").text
    for hook, id in ((second, new), (other, foreign)):
        served.post("/answer", id=id, text=id)
        assert end_of(hook) == (2, b"", id.encode())


def test_prompt_typed_at_the_desk_ends_it(served: Served, tmp_path: Path) -> None:
    transcript = tmp_path / "t.jsonl"
    transcript.write_text(line("user", "go"))
    event = {**IDLE, "transcript_path": str(transcript)}
    hook, id = served.ask(event, "next", **ATTENDED)
    with transcript.open("a") as file:
        file.write(line("user", "<x>", origin={"kind": "task-notification"}))
    with transcript.open("a") as file:
        file.write(line("user", "I am back", origin={"kind": "human"}))
    assert end_of(hook) == (0, b"", b"")
    assert "请求已在终端处理" in served.get(f"/request?id={id}").text


def test_prompt_typed_while_the_server_was_away_ends_it(
    served: Served, tmp_path: Path
) -> None:
    transcript = tmp_path / "t.jsonl"
    transcript.write_text(line("user", "go"))
    hook, _ = served.ask(
        {**IDLE, "transcript_path": str(transcript)}, "next", **ATTENDED
    )
    served.kill()
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    with transcript.open("a") as file:
        file.write(line("user", "I am back", timestamp=now))
    served.start()
    assert end_of(hook) == (0, b"", b"")


def test_cleared_session_is_never_woken(served: Served) -> None:
    hook, _ = served.ask(IDLE, "next", **ATTENDED)
    cleared = {**IDLE, "hook_event_name": "SessionEnd", "reason": "clear"}
    assert end_of(served.hook(cleared, "next")) == (0, b"", b"")
    assert end_of(hook) == (0, b"", b"")
    assert served.waiting() == []


def test_restart_of_the_server_loses_nobody(served: Served) -> None:
    hook, id = served.ask(IDLE, "next", **ATTENDED)
    served.kill()
    served.start()
    wait_until(lambda: id in served.waiting())
    served.post("/answer", id=id, text="go on")
    assert end_of(hook) == (2, b"", b"go on")


def test_no_waiter_is_left_behind_by_a_hundred_sessions(served: Served) -> None:
    """Cleared, killed, ended, answered: each of them ends its hook."""
    waiting = []
    for number in range(100):
        event = {**IDLE, "session_id": f"s-{number}"}
        waiting.append((*served.ask(event, "next", **ATTENDED), event))
    for number, (hook, id, event) in enumerate(waiting):
        if number % 4 == 0:  # a client that was killed
            hook.stdout.close()
            hook.stderr.close()
        elif number % 4 == 1:
            hook.send_signal(signal.SIGTERM)
        elif number % 4 == 2:
            end_of(served.hook({**event, "hook_event_name": "SessionEnd"}, "next"))
        else:
            served.post("/answer", id=id, text="go on")
    ends = [hook.wait(20) for hook, _, _ in waiting]
    assert ends == [0, -signal.SIGTERM, 0, 2] * 25
    wait_until(lambda: not served.waiting())


# The real client.


class Room:
    """The real client with our entries, told after a second that nobody types."""

    def __init__(self, lab: Lab, served: Served) -> None:
        self.lab, self.served = lab, served
        lab.socket = served.socket
        lab.state["messageIdleNotifThresholdMs"] = 1000
        text = "{}"
        for row in registrations(55, ["next"]):
            command = shlex.join([lab.pyz, "hook", *filter(None, [row.kind])])
            text = put_hook(text, row, command)
        lab.settings["hooks"] = json.loads(text)["hooks"]

    def idle(self, *others: str) -> str:
        """The id of what waits once the session is idle."""
        fresh = wait_until(lambda: set(self.served.waiting()) - {*others}, timeout=40)
        assert len(fresh) == 1
        id: str = fresh.pop()
        return id

    def send(self, id: str, words: str) -> float:
        """Send a text; the seconds until the model is asked with it."""
        began = time.monotonic()
        count = len(self.lab.model.calls())
        assert "已发送" in self.served.post("/answer", id=id, text=words).text
        asked = self.lab.model.wait(count + 1)[-1]
        took = time.monotonic() - began
        told = json.dumps(asked["messages"][-1], ensure_ascii=False)
        assert words in told and FRAME in told
        return took

    def hooks(self) -> list[int]:
        """The processes that wait for a text in this lab."""
        mine = os.fsencode(self.lab.pyz)
        return [
            int(path.name)
            for path in Path("/proc").glob("[0-9]*")
            if _words(path)[-3:] == [mine, b"hook", b"next"]
            and self.lab.socket.encode() in _read(path / "environ")
        ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _words(path: Path) -> list[bytes]:
    return _read(path / "cmdline").split(b"\0")[:-1]


@pytest.fixture
def room(lab: Lab) -> Iterator[Room]:
    home = Path(lab.root) / "server"
    home.mkdir()
    with Served(Path(lab.pyz), home) as server:
        yield Room(lab, server)


@pytest.mark.claude
def test_idle_session_is_woken_twelve_times_in_a_row(room: Room) -> None:
    room.lab.session("go")
    id = ""
    for number in range(12):
        id = room.idle(id)
        room.send(id, f"step {number}")  # how fast: build.py bench wake
    assert room.idle(id)
    assert len(room.hooks()) == 1


@pytest.mark.claude
def test_prompt_at_the_desk_ends_the_waiter_busy_or_in_a_dialog(room: Room) -> None:
    room.lab.settings["permissions"]["allow"] = ["Bash(sleep:*)"]
    room.lab.settings["hooks"].pop("PermissionRequest")  # the terminal alone asks
    session = room.lab.session("go")
    first = room.idle()
    room.lab.model.push([tool("Bash", command="sleep 5", description="x")])
    session.type("work a little")
    wait_until(lambda: not room.served.waiting())
    assert "已发送" not in room.served.post("/answer", id=first, text=LATE).text
    second = room.idle(first)
    room.lab.model.push([tool("Bash", command="touch x", description="x")])
    session.type("ask me")
    session.wait("Do you want to")
    wait_until(lambda: second not in room.served.waiting())
    assert "已发送" not in room.served.post("/answer", id=second, text=LATE).text
    session.keys("Escape")
    wait_until(lambda: not room.hooks())
    assert LATE not in json.dumps(room.lab.model.calls()[-1])


@pytest.mark.claude
def test_text_for_a_cleared_conversation_reaches_nobody(room: Room) -> None:
    session = room.lab.session("go")
    id = room.idle()
    session.type("/clear")
    wait_until(lambda: not room.hooks())
    assert "会话已结束" in room.served.post("/answer", id=id, text=LATE).text
    assert len(room.lab.model.calls()) == 1


@pytest.mark.claude
@pytest.mark.parametrize("end", ["/exit", "SIGTERM", "SIGKILL"])
def test_session_that_ends_leaves_no_waiter(room: Room, end: str) -> None:
    session = room.lab.session("go")
    room.idle()
    assert len(room.hooks()) == 1
    if end == "/exit":
        session.type("/exit")
    else:
        os.kill(session.pid, getattr(signal, end))
    wait_until(lambda: not room.hooks())
    wait_until(lambda: not room.served.waiting())


@pytest.mark.claude
def test_two_sessions_get_their_own_words(room: Room) -> None:
    room.lab.session("go [[lane:a]]")
    first = room.idle()
    room.lab.session("go [[lane:b]]")
    second = room.idle(first)
    for id, lane in ((second, "b"), (first, "a")):
        room.served.post("/answer", id=id, text=f"for {lane}")
        asked = room.lab.model.wait(2, lane)[-1]
        assert f"for {lane}" in json.dumps(asked["messages"][-1])


@pytest.mark.claude
def test_print_mode_is_not_kept_waiting(room: Room) -> None:
    began = time.monotonic()
    assert room.lab.run("go").returncode == 0
    assert time.monotonic() - began < 30
    assert room.hooks() == [] and room.served.waiting() == []
