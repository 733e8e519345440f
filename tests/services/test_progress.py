"""Progress cards and stops: exactly the turn that was meant, never another one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feishuperm.models.panel import ERROR, OVER, SUCCESS, WARNING, Asker, Panel, Told
from feishuperm.models.payload import parse_payload
from feishuperm.services import progress as module
from feishuperm.services.progress import AGAIN, LOOK, REST, TYPED, WATCHED, Progress
from feishuperm.services.sessions import Sessions
from tests.served import EVENT
from tests.services.test_approvals import Bench, Waiter

ME = Asker("ou_me", "card", "app")
SESSION = "5f0c2d1e-0000-4000-8000-000000000001"
PLACES = {
    **{"FEISHU_APP_ID": "cli_x", "FEISHU_APP_SECRET": "y", "FEISHU_OWNER_ID": "ou_me"},
    **{"FEISHU_RECEIVE_ID": "ou_me", "FEISHUPERM_GATEWAY": "https://perm.example"},
}
WAKE = "<task-notification>\n<task-id>a1</task-id>\n<status>completed</status>"
WOKEN = "<task-notification>\n<summary>Notification hook feedback</summary>"


class Room:
    """A server's memory of one session, with a transcript and a clock to turn."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.socket = folder / "s.sock"
        self.transcript = folder / f"{SESSION}.jsonl"
        self.transcript.touch()
        bench = self.bench = Bench(
            folder, PERMISSION_SOCKET_PATH=str(self.socket), **PLACES, **settings
        )
        self.skew = 0.0
        self.changed: list[tuple[str, Panel]] = []
        self.jobs: list[Callable[[], None]] = []
        sessions = self.sessions = Sessions(self.clock)
        self.sessions.refresh = lambda then: then()  # type: ignore[method-assign]
        self.progress = Progress(
            bench.settings,
            sessions,
            bench.approvals,
            bench.timers,
            lambda channel, panel: self.changed.append((channel, panel)),
            lambda work, then: self.jobs.append(lambda: then(work())),
            self.clock,
        )

    def clock(self) -> float:
        return 1_700_000_000.0 + self.bench.timers.time + self.skew

    def hear(self, event: str, turn: str = "t1", **fields: Any) -> bytes:
        """A hook comes with an event; what it prints."""
        whole = {
            **{key: EVENT[key] for key in ("session_id", "cwd", "permission_mode")},
            "transcript_path": str(self.transcript),
            "hook_event_name": event,
            **({"prompt_id": turn} if turn else {}),
            **fields,
        }
        payload = parse_payload(whole)
        if event in ("PreToolUse", "PostToolUse"):
            return self.progress.around_call(payload)
        self.sessions.event(payload, str(self.bench.project))
        self.progress.event(payload)
        return b""

    def call(self, turn: str = "t1", **fields: Any) -> bool:
        """Whether a tool call is refused, and its turn ended."""
        said = self.hear("PreToolUse", turn, tool_name="Bash", tool_input={}, **fields)
        if not said:
            return False
        output = json.loads(said)
        assert output["continue"] is False and output["stopReason"]
        assert output["hookSpecificOutput"]["permissionDecision"] == "deny"
        return True

    def write(self, kind: str, content: Any, at: float = 0.0, **fields: Any) -> None:
        """A line of the transcript."""
        when = f"2023-11-14T22:13:{20 + at:06.3f}Z"
        message = {"role": kind, "content": content}
        entry = {"type": kind, "message": message, "timestamp": when, **fields}
        with self.transcript.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def press(self, action: str, words: str = "", asker: Asker = ME) -> Told:
        told: list[Told] = []
        self.progress.press(f"progress:{SESSION}", action, words, asker, told.append)
        return told[-1]

    def open(self, asker: Asker = ME) -> Panel:
        return self.press("open", asker=asker).panel

    def stop(self) -> Told:
        """Tap 停止 on a card that has just come."""
        names = [button.action for button in self.open().buttons]
        return self.press(next(name for name in names if name.startswith("stop.")))

    def states(self) -> list[str]:
        """What the ledger says of stops."""
        self.bench.timers.turn(1)
        ends = self.bench.ledger.ends
        return [row["state"] for row in ends if row["event"] == "stop"]

    @property
    def marked(self) -> bool:
        return Path(f"{self.socket}.retry").exists()

    def told(self) -> str:
        return "\n".join(row.block.text for row in self.open().rows)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    room = Room(tmp_path, FEISHUPERM_LANG="en")
    room.hear("UserPromptSubmit", prompt="go")
    return room


# Stops.


def test_every_call_of_the_message_is_refused_and_the_card_says_when(
    room: Room,
) -> None:
    assert not room.call() and not room.marked
    assert room.stop().status == SUCCESS and room.marked
    assert "Stop asked at" in room.told()
    room.bench.timers.turn(3)
    assert room.call() and room.call()
    assert "The turn was stopped at" in room.told()
    assert room.states() == ["asked", "stopped"]
    first, last = room.bench.ledger.ends
    assert (first["who"], first["surface"], last["session"]) == (
        *("ou_me", "card", SESSION),
    )
    assert last["ended"] - last["created"] == pytest.approx(3)


@pytest.mark.parametrize(
    "end",
    [
        ("Stop", "t1", {}),
        ("StopFailure", "t1", {}),
        ("SessionEnd", "t1", {}),
        ("UserPromptSubmit", "t2", {"prompt": "and now"}),
        ("UserPromptSubmit", "t2", {"prompt": WOKEN}),  # a person, by `next`
    ],
)
def test_wish_that_came_as_the_turn_ended_stops_no_other(room: Room, end: Any) -> None:
    room.stop()
    event, turn, fields = end
    room.hear(event, turn, **fields)
    assert not room.marked
    assert not room.call("t2") and not room.call("t1")
    assert room.states() == ["asked", "missed"]


def test_call_of_a_later_turn_goes_through_though_nobody_told_of_the_prompt(
    room: Room,
) -> None:
    """The hooks of a prompt and of the call after it may come in any order."""
    room.stop()
    assert not room.call("t2") and not room.marked
    room.hear("UserPromptSubmit", "t2", prompt="and now")
    assert not room.call("t2")
    assert room.states() == ["asked", "missed"]


def test_turn_that_was_stopped_leaves_the_next_one_alone(room: Room) -> None:
    room.stop()
    assert room.call()
    room.hear("UserPromptSubmit", "t2", prompt="and now")
    assert not room.call("t2") and not room.marked
    assert room.states() == ["asked", "stopped"]


@pytest.mark.parametrize("later", [False, True])
def test_turn_without_a_name_is_known_by_its_prompt(
    tmp_path: Path, later: bool
) -> None:
    room = Room(tmp_path)
    room.hear("UserPromptSubmit", "", prompt="go")
    room.write("user", "go")
    room.bench.timers.turn(5)
    room.stop()
    if later:
        room.write("user", "and now", at=8)
    assert room.call("") is not later


@pytest.mark.parametrize("late", [False, True])
def test_subagents_stop_too_and_so_does_the_turn_that_one_of_them_wakes(
    room: Room, late: bool
) -> None:
    """As the real client does: their calls bear the turn that started them."""
    if not late:
        room.stop()
    tasks = [{"id": "a1", "type": "subagent", "status": "running"}]
    room.hear("Stop", background_tasks=tasks)
    if late:
        room.stop()
    assert room.call(agent_id="a1") and room.call(agent_id="a1")
    room.hear("UserPromptSubmit", "t2", prompt=WAKE)
    assert room.call("t2")
    room.hear("UserPromptSubmit", "t3", prompt=WAKE)  # the end of something else
    assert not room.call("t3")
    assert room.states() == ["asked", "stopped"]


def test_subagent_of_a_later_turn_goes_on(room: Room) -> None:
    room.stop()
    assert not room.call("t2", agent_id="a2") and room.call()


def test_other_session_goes_on(room: Room) -> None:
    room.stop()
    assert not room.call(session_id="another")


def test_wish_is_over_after_half_an_hour_and_refusals_after_a_minute(
    room: Room,
) -> None:
    room.stop()
    room.bench.timers.turn(WATCHED + 1)
    assert not room.marked and not room.call()
    assert room.states() == ["asked", "missed"]
    room.stop()
    assert room.call()
    room.bench.timers.turn(REST + 1)
    assert not room.call()


def test_button_of_a_turn_that_is_over_stops_nothing(room: Room) -> None:
    old = room.open().buttons[0].action
    room.hear("Stop", background_tasks=[{"id": "b1", "type": "shell"}])
    assert not room.open().buttons
    assert room.press(old).status == WARNING
    assert room.states() == [] and not room.marked


def test_session_of_another_agent_cannot_be_stopped(room: Room) -> None:
    room.sessions.find(SESSION)[0].agent = "codex"
    assert not room.open().buttons


def test_button_of_an_earlier_turn_stops_nothing(room: Room) -> None:
    """A replayed tap, or a card that has lain there since yesterday."""
    old = room.open().buttons[0].action
    room.hear("Stop")
    room.hear("UserPromptSubmit", "t2", prompt="and now")
    for action in (old, "stop.", "stop", "stop.t0"):
        assert room.press(action).status == WARNING
    assert not room.call("t2") and room.states() == []


def test_second_tap_is_no_second_stop(room: Room) -> None:
    room.stop()
    room.stop()
    assert room.states() == ["asked"]


def test_pending_request_is_refused_and_that_ends_the_turn(room: Room) -> None:
    waiter = room.bench.bring(permission(room))
    assert room.stop().said.startswith("Its pending request was")
    decided = waiter.decision()
    assert (decided["behavior"], decided["interrupt"]) == ("deny", True)
    request = room.bench.request
    assert (request.who, request.surface) == ("ou_me", "card")
    assert room.states() == ["asked", "stopped"]


def test_request_of_a_subagent_is_refused_and_its_session_still_has_to_stop(
    room: Room,
) -> None:
    waiter = room.bench.bring({**permission(room), "agent_id": "a1"})
    room.stop()
    assert waiter.decision()["interrupt"] is True
    assert room.call() and room.states() == ["asked", "stopped"]


def permission(room: Room) -> dict[str, Any]:
    event = {**EVENT, "transcript_path": str(room.transcript), "prompt_id": "t1"}
    room.sessions.event(parse_payload(event), "/p")
    return event


def test_without_its_hooks_the_button_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    room = Room(tmp_path, FEISHUPERM_LANG="en")
    room.hear("Notification", message="x", notification_type="x")
    room.sessions.find(SESSION)[0].learn("working", 1.0)
    told = room.stop()
    assert told.status == WARNING and "install --events session" in told.said
    assert room.states() == [] and not room.marked
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    entry = {"command": "'/home/a b/bin/feishuperm-hook' session"}
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [entry]}]}}))
    assert room.stop().status == SUCCESS and room.call()


@pytest.mark.parametrize("problem", ["", "no such job"])
def test_background_session_is_ended_by_the_client(
    room: Room, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    ran: list[tuple[str, ...]] = []

    def run(words: tuple[str, ...], folder: str, environ: object) -> str:
        ran.append(words)
        if problem:
            raise module.FeishupermError(problem)
        return ""

    monkeypatch.setattr(module.claude_client, "run", run)
    room.sessions.find(SESSION)[0].job = "5f0c2d1e"
    assert "being ended" in room.stop().said
    assert room.states() == ["asked"] and ran == []  # not on the loop
    room.jobs.pop()()
    assert ran == [("stop", "5f0c2d1e")]
    assert room.states() == ["asked", "failed" if problem else "stopped"]
    assert ("could not be ended" in room.told()) is bool(problem)
    assert not room.call(), "it is not stopped in two ways"


# Cards.


def test_card_shows_prompt_call_list_and_last_words_without_secrets(room: Room) -> None:
    todo = {"content": "fix it", "status": "in_progress", "activeForm": "fixing"}
    secret = "ghp_" + "a1B2" * 9
    room.write("user", f"deploy with {secret}")
    room.write("assistant", [{"type": "text", "text": f"I use {secret} now."}])
    list_ = {"type": "tool_use", "id": "1", "name": "TodoWrite"}
    room.write("assistant", [{**list_, "input": {"todos": [todo]}}])
    room.write("user", [{"type": "tool_result", "tool_use_id": "1", "content": "ok"}])
    use = {"type": "tool_use", "id": "2", "name": "Bash"}
    room.write("assistant", [{**use, "input": {"command": f"deploy {secret}"}}])
    shown = str(room.open())
    assert secret not in shown
    for words in ("deploy with", "I use", "▶ fix it", "Bash"):
        assert words in shown
    assert room.open().session == SESSION


def test_card_of_another_agent_shows_what_its_transcript_tells(room: Room) -> None:
    room.sessions.find(SESSION)[0].agent = "codex"
    for kind, words in (("user_message", "go on"), ("agent_message", "nearly done")):
        payload = {"type": kind, "message": words}
        room.write("event_msg", "", payload=payload)
    assert room.told() == "go on\nnearly done"


def test_card_changes_only_where_something_has_changed(room: Room) -> None:
    room.open()
    room.bench.timers.turn(30)
    assert room.changed == []
    for second in range(3):
        room.write("assistant", [{"type": "text", "text": f"word {second}"}])
        room.bench.timers.turn(10)
    told = [str(panel) for _, panel in room.changed]
    assert ["word 0" in told[0], "word 1" in told[1], "word 2" in told[2]] == [True] * 3
    assert len(told) == 3


def test_nothing_is_sent_that_nobody_asked_for(room: Room) -> None:
    for turn in range(12):
        room.hear("UserPromptSubmit", f"t{turn}", prompt="go")
        room.write("user", "go")
        room.bench.timers.turn(60)
        room.hear("Stop", f"t{turn}")
    assert room.changed == []


def asleep(room: Room) -> None:
    room.skew += 3600
    room.bench.timers.turn(LOOK)


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (lambda room: room.bench.timers.turn(WATCHED + LOOK), "half an hour"),
        (asleep, "asleep"),
        (lambda room: room.hear("SessionEnd"), "has ended"),
    ],
)
def test_card_freezes_with_the_truth(
    room: Room, happens: Callable[[Room], object], why: str
) -> None:
    room.open()
    happens(room)
    room.bench.timers.turn(LOOK)
    channel, panel = room.changed[-1]
    assert channel == "app" and why in panel.note
    assert panel.look == OVER and not panel.buttons and not panel.field
    seen = len(room.changed)
    room.write("assistant", [{"type": "text", "text": "more"}])
    room.bench.timers.turn(10 * LOOK)
    assert len(room.changed) == seen


def test_killed_session_is_seen_to_have_ended_while_its_card_is_watched(
    room: Room,
) -> None:
    """It tells nobody, and its transcript ends in the middle of a call."""
    looks: list[float] = []

    def look(then: Callable[[], object]) -> None:
        room.sessions.looked = room.clock()
        looks.append(room.clock())
        if len(looks) == 3:
            room.sessions.find(SESSION)[0].learn("ended", room.clock())
        then()

    room.sessions.refresh = look  # type: ignore[method-assign]
    room.open()
    room.bench.timers.turn(2 * AGAIN + 10 * LOOK)
    assert len(looks) == 3 and "has ended" in room.changed[-1][1].note
    room.bench.timers.turn(2 * AGAIN)
    assert len(looks) == 3, "nothing is looked at for nobody"


def test_tap_keeps_a_card_for_another_half_hour(room: Room) -> None:
    room.open()
    room.bench.timers.turn(WATCHED - 60)
    room.open()
    room.bench.timers.turn(120)
    assert room.changed == []


def test_hundred_cards_are_looked_at_a_few_at_a_time(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    read = module.figures
    for number in range(100):
        room.hear("UserPromptSubmit", session_id=f"s{number:03}", prompt="go")
        told: list[Told] = []
        room.progress.command("progress", f"s{number:03}", ME, told.append)
        assert told[0].panel.id == f"progress:s{number:03}"

    def count(path: str, agent: str) -> Any:
        looks.append(path)
        return read(path, agent)

    room.bench.timers.turn(LOOK)  # there was one card when the first look was set
    monkeypatch.setattr(module, "figures", count)
    room.bench.timers.turn(10)
    assert 90 <= len(looks) <= 110


def test_card_that_cannot_be_read_does_not_stop_the_others(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.hear("UserPromptSubmit", session_id="other", prompt="go")
    room.progress.command("progress", "other", ME, lambda told: None)
    room.open()
    read = module.figures
    monkeypatch.setattr(module, "figures", lambda *of: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        room.bench.timers.turn(LOOK)
    monkeypatch.setattr(module, "figures", read)
    room.write("assistant", [{"type": "text", "text": "word"}])
    room.bench.timers.turn(3 * LOOK)
    assert [panel.id for _, panel in room.changed] == [f"progress:{SESSION}"]


def test_press_is_about_the_very_session_of_its_card(room: Room) -> None:
    """One whose id only begins alike, or that is called so, is another one."""
    for id in (SESSION + "0", SESSION[:9], "x"):
        room.hear("UserPromptSubmit", session_id=id, prompt="go", session_title="x1")
    told: list[Told] = []
    for id in (SESSION, "x1", "project", SESSION[:8]):
        room.progress.press(f"progress:{id}", "open", "", ME, told.append)
    assert [row.panel.session for row in told] == [SESSION, "", "", ""]


def test_who_opens_a_card_learns_first_what_the_client_says(room: Room) -> None:
    looks: list[Callable[[], object]] = []
    room.sessions.refresh = looks.append  # type: ignore[method-assign]
    told: list[Told] = []
    room.progress.press(f"progress:{SESSION}", "open", "", ME, told.append)
    room.sessions.find(SESSION)[0].learn("ended", 1.0)
    looks.pop()()
    assert "has ended" in told[0].panel.note and not told[0].panel.buttons
    room.progress.press(f"progress:{SESSION}", "stop.t1", "", ME, told.append)
    assert told[1].status == WARNING and not looks


def test_command_without_an_id_takes_the_one_that_works_or_asks_back(
    room: Room,
) -> None:
    def ask(words: str = "") -> Told:
        told: list[Told] = []
        room.progress.command("progress", words, ME, told.append)
        return told[0]

    assert ask().panel.id == f"progress:{SESSION}"
    room.hear("UserPromptSubmit", session_id="second-one", prompt="go")
    assert ask().status == WARNING and not ask().panel.id
    assert "5f0c2d1e" in ask().said and "second-o" in ask().said
    assert ask("second").panel.id == "progress:second-one"
    assert ask("third").status == WARNING
    for session in (SESSION, "second-one"):
        room.hear("Stop", session_id=session)
    assert "No session is at work" in ask().said
    told: list[Told] = []
    room.progress.press("progress:", "open", "", ME, told.append)
    assert told[0].status == ERROR


# Going on.


def idle(room: Room) -> Waiter:
    """The session is done, and a `next` request is open."""
    room.hear("Stop")
    event = {**EVENT, "hook_event_name": "Notification", "message": "x"}
    del event["tool_name"], event["tool_input"]
    event["transcript_path"] = str(room.transcript)
    return room.bench.bring({**event, "notification_type": "idle_prompt"})


def test_text_of_an_idle_card_answers_the_next_request(room: Room) -> None:
    waiter = idle(room)
    panel = room.open()
    assert panel.field and [b.reads for b in panel.buttons] == [True]
    assert room.press(panel.buttons[0].action, " ").status == WARNING
    assert room.press(panel.buttons[0].action, "run the tests").status == SUCCESS
    assert json.loads(waiter.frames[-1][1]) == {"next": "run the tests"}
    assert room.bench.request.who == "ou_me"
    assert room.press(panel.buttons[0].action, "again").status == WARNING
    assert not room.open().field


@pytest.mark.parametrize(
    ("settings", "channel", "may"),
    [
        ({}, "gateway", False),
        ({"FEISHUPERM_GATEWAY_GRANTS": "on"}, "gateway", True),
        ({"FEISHUPERM_CARD": "title"}, "app", False),
        ({}, "app", True),
    ],
)
def test_text_is_taken_where_the_card_of_next_would_take_it(
    tmp_path: Path, settings: dict[str, str], channel: str, may: bool
) -> None:
    room = Room(tmp_path, **settings)
    room.hear("UserPromptSubmit", prompt="go")
    waiter = idle(room)
    asker = Asker("ou_me", "gateway" if channel == "gateway" else "card", channel)
    assert bool(room.open(asker).field) is may
    id = room.bench.request.id
    told = room.press(f"send.{id}", "rm -rf everything", asker)
    assert (told.status == SUCCESS) is may
    assert (waiter.frames[-1][0] == b"D") is may


# What people typed.


def context(said: bytes) -> str:
    output = json.loads(said)["hookSpecificOutput"] if said else {}
    assert output.get("hookEventName", "PostToolUse") == "PostToolUse"
    return str(output.get("classifierContext", ""))


def result(room: Room, **fields: Any) -> str:
    return context(room.hear("PostToolUse", tool_name="Bash", tool_input={}, **fields))


def test_reason_is_handed_to_the_classifier_once_and_in_that_session(
    room: Room,
) -> None:
    room.bench.bring(permission(room))
    room.bench.answer("deny", values={"reason": "not on a friday"})
    assert room.marked
    assert result(room, session_id="another") == ""
    assert result(room) == "Typed by the user: not on a friday"
    assert result(room) == "" and not room.marked


def test_own_words_of_a_question_are_handed_over_and_no_option(room: Room) -> None:
    question = {"question": "Which?", "header": "x", "multiSelect": False}
    options = [{"label": "approve everything", "description": ""}]
    asked = {"questions": [{**question, "options": options}] * 1}
    event = {**permission(room), "tool_name": "AskUserQuestion", "tool_input": asked}
    room.bench.bring(event)
    room.bench.answer("answer", values={"q0": "approve everything"})
    assert result(room) == ""
    room.bench.bring(event, "1700000000-0123abcf")
    id = room.bench.approvals.requests.waiting()[0].id
    room.bench.answer("answer", id=id, values={"q0_other": "the second one"})
    assert result(room) == "Typed by the user: the second one"


def test_texts_are_gone_after_ten_minutes(room: Room) -> None:
    room.bench.bring(permission(room))
    room.bench.answer("deny", values={"reason": "later"})
    room.bench.timers.turn(TYPED + 1)
    assert not room.marked and result(room) == ""


def test_texts_are_whole_or_left_out(room: Room) -> None:
    for number, reason in enumerate(("𝒜" * 600, "first", "𝒜" * 600)):
        id = f"1700000000-0123abc{number}"
        room.bench.bring({**permission(room), "tool_use": number}, id)
        room.bench.answer("deny", id=id, values={"reason": reason})
    told = result(room)
    assert len(told.encode("utf-16-le")) // 2 <= 2000
    assert told.splitlines() == [
        "Typed by the user: first",
        "Typed by the user: " + "𝒜" * 600,
    ]


@pytest.mark.parametrize("surface", ["gateway", "link", "pass", "control"])
def test_what_others_could_have_made_up_is_not_handed_over(
    room: Room, surface: str
) -> None:
    room.bench.bring(permission(room))
    answer = module.Answer(room.bench.request.id, "deny", {"reason": ("x",)}, surface)
    room.bench.approvals.answer(answer)
    assert result(room) == "" and not room.marked
