"""The transcripts in tests/data were recorded from the real client, then trimmed."""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from feishuperm.services import transcript
from feishuperm.services.session_reader import figures
from feishuperm.services.transcript import (
    ANSWERED,
    MOVED_ON,
    PENDING,
    UNKNOWN,
    Transcripts,
    Watch,
    agent_transcript,
)
from tests.tables import every_row

DATA = Path(__file__).parents[1] / "data" / "transcripts"
SLEEP = {"command": "sleep 4; echo hi > /dev/null; ls /nonexist", "description": "x"}
TOUCH = {"command": "touch /tmp/one", "description": "x"}
TOUCH_TWO = {"command": "touch /tmp/two", "description": "x"}


def recorded(name: str) -> list[str]:
    return (DATA / f"{name}.jsonl").read_text().splitlines(keepends=True)


def index_of(lines: list[str], kind: str, block: str, occurrence: int = 0) -> int:
    """The line of the n-th block of a kind ("tool_use", "tool_result")."""
    found = [
        number
        for number, line in enumerate(lines)
        if json.loads(line)["type"] == kind and f'"type":"{block}"' in line
    ]
    return found[occurrence]


def states(path: Path, watch: Watch | None, lines: list[str]) -> list[str]:
    """The state after each further line."""
    assert watch is not None
    seen = []
    for line in lines:
        with path.open("a") as file:
            file.write(line)
        seen.append(watch.check())
    return seen


def use(id: str, name: Any = "Bash", **tool_input: Any) -> str:
    block = {"type": "tool_use", "id": id, "name": name, "input": tool_input}
    return line("assistant", [block])


def result(id: str, text: str = "") -> str:
    block = {"type": "tool_result", "tool_use_id": id, "content": text}
    return line("user", [block])


def line(kind: str, content: Any, **fields: Any) -> str:
    message = {"role": kind, "content": content}
    return json.dumps({"type": kind, "message": message, **fields}) + "\n"


def begin(path: str, tool: str, tool_input: dict[str, Any], agent: str = "") -> Any:
    """A watch on which every look is minutes after the last."""
    clock = itertools.count(0.0, 100.0)
    return Transcripts(lambda: next(clock)).begin(path, tool, tool_input, agent)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


@pytest.mark.parametrize(
    ("name", "tool", "tool_input"),
    [
        ("terminal-yes", "Bash", SLEEP),
        ("terminal-no", "Bash", TOUCH),
        (
            "edit",
            "Edit",
            {
                "file_path": "/home/user/project/f.txt",
                "old_string": "one",
                "new_string": "1",
                "replace_all": False,
                "added_by_the_event": True,
            },
        ),
        (
            "question",
            "AskUserQuestion",
            {
                "questions": [
                    {
                        "question": "Which color?",
                        "header": "Color",
                        "options": [
                            {"label": "Red", "description": "r"},
                            {"label": "Blue", "description": "b"},
                        ],
                        "multiSelect": False,
                    }
                ]
            },
        ),
    ],
)
def test_answer_in_the_terminal_is_seen_with_the_result(
    path: Path, name: str, tool: str, tool_input: dict[str, Any]
) -> None:
    lines = recorded(name)
    asked = index_of(lines, "assistant", "tool_use", -1)
    over = index_of(lines, "user", "tool_result", -1)
    path.write_text("".join(lines[: asked + 1]))
    watch = begin(str(path), tool, tool_input)
    assert watch is not None
    assert watch.check() == PENDING
    seen = states(path, watch, lines[asked + 1 :])
    waited = over - asked - 1
    assert seen == [PENDING] * waited + [ANSWERED] * (len(lines) - over)


def test_of_two_calls_alike_both_must_be_over(path: Path) -> None:
    lines = recorded("two-alike")
    asked = index_of(lines, "assistant", "tool_use", 1)
    first = index_of(lines, "user", "tool_result", 0)
    second = index_of(lines, "user", "tool_result", 1)
    path.write_text("".join(lines[: asked + 1]))
    watch = begin(str(path), "Bash", TOUCH)
    seen = states(path, watch, lines[asked + 1 : second + 1])
    assert first < second
    assert seen == [PENDING] * (second - asked - 1) + [ANSWERED]


def test_result_written_late_is_not_taken_for_the_answer_of_the_next_call(
    path: Path,
) -> None:
    """The same command twice: its first result may appear after the second event."""
    now = [0.0]
    path.write_text(use("1", **TOUCH))
    watch = Transcripts(lambda: now[0]).begin(str(path), "Bash", TOUCH)
    assert watch is not None
    now[0] = 0.2
    assert states(path, watch, [result("1")]) == [UNKNOWN]
    assert states(path, watch, [use("2", **TOUCH)]) == [PENDING]
    now[0] = 5.0
    assert watch.check() == PENDING
    assert states(path, watch, [result("2")]) == [ANSWERED]


def test_pending_call_of_the_same_tool_is_not_taken_for_the_events_own(
    path: Path,
) -> None:
    now = [0.0]
    path.write_text(use("1", **TOUCH))
    watch = Transcripts(lambda: now[0]).begin(str(path), "Bash", TOUCH_TWO)
    assert watch is not None
    assert states(path, watch, [result("1"), use("2", **TOUCH_TWO)])[-1] == PENDING
    now[0] = 5.0
    assert watch.check() == PENDING


def test_quick_answer_is_seen_as_soon_as_it_is_certain(path: Path) -> None:
    now = [0.0]
    path.write_text(use("1", **TOUCH))
    watch = Transcripts(lambda: now[0]).begin(str(path), "Bash", TOUCH)
    assert watch is not None
    assert states(path, watch, [result("1")]) == [UNKNOWN]
    now[0] = transcript.YOUNG_SECONDS
    assert watch.check() == ANSWERED


def test_subagent_is_watched_in_its_own_transcript(tmp_path: Path) -> None:
    """The main session goes on to another prompt while the subagent waits."""
    main = tmp_path / "session.jsonl"
    own = tmp_path / "session" / "subagents" / "agent-a2cd7a156e00c1d57.jsonl"
    own.parent.mkdir(parents=True)
    lines = recorded("agent")
    over = index_of(lines, "user", "tool_result")
    own.write_text("".join(lines[:over]))
    main.write_text("")
    watch = begin(str(main), "Bash", TOUCH_TWO, "a2cd7a156e00c1d57")
    assert set(states(main, watch, recorded("agent-main"))) == {PENDING}
    assert states(own, watch, lines[over : over + 1]) == [ANSWERED]


def test_main_session_going_on_says_nothing_of_a_call_it_does_not_hold(
    path: Path,
) -> None:
    path.write_text("")
    watch = begin(str(path), "Bash", TOUCH_TWO)
    assert set(states(path, watch, recorded("agent-main"))) == {UNKNOWN}


@every_row("agent", ["../../etc", "a/b", "a.b", "a\0b"])
def test_agent_id_cannot_lead_elsewhere(agent: str) -> None:
    assert agent_transcript("/x/s.jsonl", agent) == "/x/s.jsonl"


def test_next_prompt_means_moved_on(path: Path) -> None:
    path.write_text(use("1", command="a"))
    watch = begin(str(path), "Bash", {"command": "a"})
    others = [
        line("user", "hook feedback", isMeta=True),
        line("user", "done", origin={"kind": "task-notification"}),
        line("user", "summary", isCompactSummary=True),
        line("assistant", [{"type": "text", "text": "hm"}]),
        '{"type":"queue-operation","content":"user"}\n',
    ]
    assert states(path, watch, others) == [PENDING] * len(others)
    assert states(path, watch, [line("user", "next")]) == [MOVED_ON]
    assert states(path, watch, [result("1")]) == [MOVED_ON]


def test_prompt_written_from_now_on_ends_what_only_waits_for_one(path: Path) -> None:
    path.write_text(line("user", "before") + "\n")
    watch = Transcripts().follow(str(path))
    assert (
        states(path, watch, [use("a"), result("a"), line("assistant", "said")])
        == [PENDING] * 3
    )
    machine = line("user", "<task-notification>", origin={"kind": "task-notification"})
    assert states(path, watch, [machine, line("user", "go on")]) == [PENDING, MOVED_ON]


def test_earlier_call_of_the_same_kind_is_no_answer(path: Path) -> None:
    path.write_text(use("1", command="a") + result("1") + use("2", command="a"))
    watch = begin(str(path), "Bash", {"command": "a"})
    assert watch is not None
    assert watch.ids == (b"2",)
    assert states(path, watch, [result("1"), result("2")]) == [PENDING, ANSWERED]


def test_call_left_open_by_an_earlier_turn_is_not_waited_for(path: Path) -> None:
    path.write_text(
        use("dead", command="a") + line("user", "again") + use("2", command="a")
    )
    watch = begin(str(path), "Bash", {"command": "a"})
    assert states(path, watch, [result("2")]) == [ANSWERED]


def test_call_whose_input_the_event_changed_is_found_by_its_tool(path: Path) -> None:
    path.write_text(
        use("1", "ExitPlanMode", plan="of the model") + use("2", command="x")
    )
    event = {"plan": "from the file", "planFilePath": "/plans/x.md"}
    watch = begin(str(path), "ExitPlanMode", event)
    assert watch is not None
    assert watch.ids == (b"1",)


def test_call_written_late_is_found_late(path: Path) -> None:
    watch = begin(str(path), "Bash", {"command": "a"})
    assert watch is not None
    assert watch.check() == UNKNOWN
    seen = states(path, watch, [line("user", "go"), use("1", command="a"), result("1")])
    assert seen == [UNKNOWN, PENDING, ANSWERED]


def test_call_written_and_over_between_two_looks(path: Path) -> None:
    watch = begin(str(path), "Bash", {"command": "a"})
    assert watch is not None
    path.write_text(use("1", command="a") + result("1"))
    assert watch.check() == ANSWERED


def test_half_a_line_is_read_when_it_is_whole(path: Path) -> None:
    path.write_text(use("1", command="a"))
    watch = begin(str(path), "Bash", {"command": "a"})
    end = result("1")
    assert states(path, watch, list(end)) == [PENDING] * (len(end) - 1) + [ANSWERED]


def test_long_result_is_one_line_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "TAIL", 1000)
    path.write_text(use("1", command="a"))
    watch = begin(str(path), "Bash", {"command": "a"})
    assert states(path, watch, [result("1", "x" * 50_000)]) == [ANSWERED]


def test_line_beyond_all_limits_is_skipped(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "TAIL", 1000)
    monkeypatch.setattr(transcript, "MAX_LINE", 5000)
    path.write_text(use("1", command="a"))
    watch = begin(str(path), "Bash", {"command": "a"})
    states(path, watch, [line("user", "x" * 20_000, isMeta=True)])
    assert watch is not None
    with path.open("a") as file:
        file.write(result("1"))
    assert ANSWERED in [watch.check() for _ in range(30)]


@pytest.mark.parametrize("spelled", [0, 1 << 30], ids=["spelled", "decoded"])
def test_line_that_takes_several_looks_is_read_once_and_understood(
    path: Path, monkeypatch: pytest.MonkeyPatch, spelled: int
) -> None:
    read = []
    real = transcript._read

    def spy(path: bytes, offset: int) -> bytes:
        data = real(path, offset)
        read.append(len(data))
        return data

    path.write_text(use("1", command="a"))
    watch = begin(str(path), "Bash", {"command": "a"})
    monkeypatch.setattr(transcript, "_read", spy)
    monkeypatch.setattr(transcript, "TAIL", 1000)
    monkeypatch.setattr(transcript, "STEP", 3000)
    monkeypatch.setattr(transcript, "MAX_DECODED", spelled)
    long = result("1", "x" * 20_000)
    seen = states(path, watch, [long[:9000], "", "", long[9000:], *[""] * 3])
    assert seen == [PENDING] * 6 + [ANSWERED]
    assert max(read) <= 3000
    assert sum(read) == len(long)


def test_long_result_that_only_mentions_the_call_is_no_answer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "MAX_DECODED", 100)
    path.write_text(use("1", command="a") + use("2", command="b"))
    watch = begin(str(path), "Bash", {"command": "a"})
    mention = json.dumps({"tool_use_id": "1"}) + "x" * 200
    assert states(path, watch, [result("2", mention)]) == [PENDING]
    assert states(path, watch, [result("1", "y" * 200)]) == [ANSWERED]


def test_only_the_end_of_a_long_transcript_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    real = transcript._read

    def spy(path: bytes, offset: int) -> bytes:
        data = real(path, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(transcript, "_read", spy)
    monkeypatch.setattr(transcript, "FIRST_TAIL", 500)
    monkeypatch.setattr(transcript, "TAIL", 2000)
    before = line("user", "x" * 300) * 50 + use("1", command="a")
    for after, tails in (
        ("", [500]),
        (line("user", "y", isMeta=True) * 10, [500, 2000]),
    ):
        read.clear()
        path.write_text(before + after)
        watch = begin(str(path), "Bash", {"command": "a"})
        assert read == tails
        assert states(path, watch, [result("1")]) == [ANSWERED]


def test_transcript_written_anew_is_read_anew(path: Path) -> None:
    path.write_text(line("user", "go") * 20 + use("1", command="a"))
    watch = begin(str(path), "Bash", {"command": "a"})
    path.write_text(use("1", command="a"))
    assert watch is not None
    assert watch.check() == PENDING
    assert states(path, watch, [result("1")]) == [ANSWERED]


def test_old_calls_in_a_transcript_written_anew_are_no_answer(path: Path) -> None:
    path.write_text(line("user", "go") * 20)
    watch = begin(str(path), "Bash", {"command": "a"})
    path.write_text(use("1", command="a") + result("1"))
    assert watch is not None
    assert watch.check() == UNKNOWN


def test_no_path_no_watch() -> None:
    for path in ("", "relative.jsonl", "/tmp/\udcff\ud800"):
        assert begin(path, "Bash", {}) is None


def test_transcript_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "x", Path("/tmp/a\0b")):
        watch = begin(str(path), "Bash", {})
        assert watch is not None
        assert watch.check() == UNKNOWN


@limits(deadline=None)
@given(st.lists(st.binary(max_size=60) | st.sampled_from([b'{"type":"user"}', b"[]"])))
def test_rubbish_is_unknown(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("transcript") / "x"
    path.write_bytes(b"\n".join(lines))
    watch = begin(str(path), "Bash", {"command": "a"})
    assert watch is not None
    assert watch.check() == UNKNOWN
    figures(str(path))


def test_odd_entries_are_unknown(path: Path) -> None:
    odd = [
        {"type": "user", "message": "text"},
        {"type": "assistant", "message": {"content": [1, {"type": "tool_use"}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result"}]}},
        {"type": "assistant", "message": {"content": {"type": "tool_use"}}},
        json.loads(use("1", ["Bash"])),
        {"type": ["user"], "message": None},
    ]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in odd))
    for tool in ("Bash", "\ud800"):
        watch = begin(str(path), tool, {})
        assert watch is not None
        assert watch.check() == UNKNOWN


def test_watch_of_a_found_call_is_small(path: Path) -> None:
    path.write_text(use("toolu_01AbCdEfGhIjKlMnOpQrStUv", command="a" * 10_000))
    watch = begin(str(path), "Bash", {"command": "a" * 10_000})
    assert watch is not None
    assert watch.shape is None
    parts = [watch, watch.ids, watch.ids[0], watch.exact, watch.alike]
    assert sum(map(sys.getsizeof, parts)) < 500


def test_watch_of_a_call_that_is_not_found_keeps_no_input(path: Path) -> None:
    watch = begin(str(path), "Bash", {"command": "a" * 10_000})
    assert watch is not None
    assert watch.shape is not None
    assert sys.getsizeof(watch.shape) < 300
    assert all(isinstance(value, int) for value in watch.shape.values())


def test_many_watches_read_a_transcript_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line of a session with forty calls at once is decoded once."""
    decoded: list[int] = []
    real = transcript._entry

    def spy(line: bytes) -> dict[str, Any]:
        decoded.append(len(line))
        return real(line)

    clock = itertools.count(0.0, 100.0)
    transcripts = Transcripts(lambda: next(clock))
    inputs = [{"command": f"echo {number} " + "x" * 1000} for number in range(40)]
    path.write_text(line("user", "go"))
    watches = [transcripts.begin(str(path), "Bash", call) for call in inputs]
    monkeypatch.setattr(transcript, "_entry", spy)
    with path.open("a") as file:
        for number, call in enumerate(inputs):
            file.write(use(f"toolu_{number}_", **call))
    assert {watch.check() for watch in watches if watch} == {PENDING}
    assert len(decoded) == 40
    with path.open("a") as file:
        file.write(result("toolu_7_"))
    found = [watch.check() for watch in watches if watch]
    assert found == [ANSWERED if number == 7 else PENDING for number in range(40)]
    assert len(decoded) == 41


def test_late_watch_knows_what_an_earlier_one_has_read(path: Path) -> None:
    clock = itertools.count(0.0, 100.0)
    transcripts = Transcripts(lambda: next(clock))
    path.write_text(use("1", command="a"))
    first = transcripts.begin(str(path), "Bash", {"command": "a"})
    with path.open("a") as file:
        file.write(use("2", command="b"))
    second = transcripts.begin(str(path), "Bash", {"command": "b"})
    assert first is not None
    assert second is not None
    assert (first.check(), second.check()) == (PENDING, PENDING)
    with path.open("a") as file:
        file.write(result("2"))
    assert (first.check(), second.check()) == (PENDING, ANSWERED)


def test_transcript_nobody_watches_is_forgotten(tmp_path: Path) -> None:
    transcripts = Transcripts()
    for number in range(100):
        watch = transcripts.begin(str(tmp_path / str(number)), "Bash", {})
        assert watch is not None
        watch.close()
    assert len(transcripts._readers) == 1


def test_result_too_long_to_decode_is_known_by_its_id(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "MAX_DECODED", 1000)
    path.write_text(use("1", command="a"))
    watch = begin(str(path), "Bash", {"command": "a"})
    quoted = '{"tool_use_id":"1"}' * 100
    assert states(path, watch, [result("2", quoted), result("1", quoted)]) == [
        PENDING,
        ANSWERED,
    ]


def test_turn_started_is_the_time_of_the_last_prompt(path: Path) -> None:
    path.write_text("".join(recorded("terminal-yes")))
    assert figures(str(path)).prompted == pytest.approx(1794801826.634)
    path.write_text(line("user", "go", timestamp="soon"))
    assert figures(str(path)).prompted == 0.0
    path.write_text(line("user", "go"))
    assert figures(str(path)).prompted == 0.0
    for none in ("", "/none", str(path.parent)):
        assert figures(none).prompted == 0.0


# What was said.


def words(path: Path) -> tuple[str, str]:
    told = figures(str(path))
    return told.said, told.prompt


def said(text: str) -> str:
    """A line of a message that goes on with a call, as the client writes it."""
    content = [{"type": "text", "text": text}]
    message = {"role": "assistant", "content": content, "stop_reason": "tool_use"}
    return json.dumps({"type": "assistant", "message": message}) + "\n"


def test_last_words_are_those_of_this_turn(path: Path) -> None:
    path.write_text(
        line("user", "old") + said("old words") + line("user", "new\nmore") + use("t1")
    )
    assert words(path) == ("", "new\nmore")


def test_last_words_stand_before_calls_and_results(path: Path) -> None:
    earlier = line("user", [{"type": "text", "text": "go"}]) + said("one") + said("two")
    path.write_text(earlier + use("t1") + result("t1", "output") + use("t2"))
    assert words(path) == ("two", "go")


def test_prompt_of_a_long_turn_is_the_one_the_client_notes(path: Path) -> None:
    note = json.dumps({"type": "last-prompt", "lastPrompt": "go on"}) + "\n"
    long = "".join(result(f"t{number}", "x" * 50_000) for number in range(30))
    path.write_text(line("user", "go on\nhere") + long + note + said("now") + use("t"))
    assert words(path) == ("now", "go on")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe\n",
        b'{"type":"assistant","message":{"content":[{"type":"text","text":7}]}}\n',
        b'{"type":"assistant","message":"text"}\n',
        b'{"type":"last-prompt","lastPrompt":["x"]}\n',
        b'["last-prompt"]\n',
        b"[" * 100_000 + b'"assistant"',
        b'{"assistant"' * 5000,
    ],
)
def test_transcript_without_words_has_none(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert words(path) == ("", "")


def test_last_words_of_a_huge_transcript_come_quickly(path: Path) -> None:
    lines = said("x" * 100) * 3000 + result("t", "y" * (3 << 20))
    path.write_text(lines + said("z" * 100_000) * 20 + use("t"))
    began = time.thread_time()
    figures(bytes(path))
    assert time.thread_time() - began < 0.5  # a hundredth of it on a quiet machine


# How it went on.


def ended(id: str, content: Any, **fields: Any) -> str:
    block = {"type": "tool_result", "tool_use_id": id, "content": content}
    error = fields.pop("is_error", True)
    return line("user", [{**block, "is_error": error}], **fields)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (ended("t1", "(Bash completed with no output)", is_error=False), ("ran", "")),
        (result("t1", "fine"), ("ran", "")),
        (ended("t1", "Exit code 3"), ("exit", "3")),
        (ended("t1", "Exit code 1\ntouch: cannot touch"), ("exit", "1")),
        (ended("t1", "no", toolDenialKind="permission-rule"), ("refused", "")),
        (
            ended("t1", "Permission to use Bash with command x has been denied."),
            ("refused", ""),
        ),
        (ended("t1", "[Request interrupted by user for tool use]"), ("stopped", "")),
        (ended("t1", [{"type": "text", "text": "boom"}]), ("failed", "boom")),
        (ended("t1", 7), ("failed", "")),
        (ended("t1", [7]), ("failed", "")),
        (ended("t1", "x" * (2 << 20)), ("", "")),
    ],
)
def test_result_of_a_call_is_known_with_its_end(
    path: Path, written: str, wanted: tuple[str, str]
) -> None:
    path.write_text(use("t1", command="x"))
    watch = begin(str(path), "Bash", {"command": "x"})
    assert watch.check() == PENDING and watch.result == ("", "")
    with path.open("a") as file:
        file.write(written)
    assert watch.check() == ANSWERED
    assert watch.result == wanted


def test_result_of_a_call_that_appears_and_ends_at_once_is_known(path: Path) -> None:
    path.write_text(line("user", "go"))
    watch = begin(str(path), "Bash", {"command": "x"})
    watch.check()
    with path.open("a") as file:
        file.write(use("t1", command="x") + ended("t1", "Exit code 2"))
    assert watch.check() == ANSWERED
    assert watch.result == ("exit", "2")


def test_when_the_prompt_was_typed_is_known(path: Path) -> None:
    path.write_text(line("user", "go", timestamp="2023-11-14T22:13:20Z") + use("t"))
    assert figures(bytes(path)).prompted == 1_700_000_000.0
