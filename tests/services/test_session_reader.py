"""What a transcript says of its turn; `tasks` was recorded from the real client.

The client was told to make and change two tasks, to run a command, and was interrupted
in a second turn.  Lines and fields that say nothing here are left out.
"""

from __future__ import annotations

import json
import os
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.lib.feishu import spent
from feishuperm.messages import text
from feishuperm.services import session_reader as reader
from feishuperm.services.session_reader import (
    Figures,
    Todo,
    Turn,
    figures,
    spent_by,
)
from feishuperm.services.transcript import agent_transcript, moment
from tests.tables import every_row

DATA = Path(__file__).parents[1] / "data" / "transcripts"
TASKS = (DATA / "tasks.jsonl").read_bytes().splitlines(keepends=True)
USAGE = {"input_tokens": 10, "cache_read_input_tokens": 40_000, "output_tokens": 90}


def line(kind: str, words: Any = "", **fields: Any) -> bytes:
    message = {"content": words, **fields.pop("message", {})}
    stamp = {"timestamp": "2026-11-19T06:00:00Z"}
    entry = {"type": kind, "message": message, **stamp, **fields}
    return json.dumps(entry).encode()


def said(words: str, **fields: Any) -> bytes:
    return line("assistant", [{"type": "text", "text": words}], **fields)


def use(id: str, name: str = "Bash", message: str = "m", **given: Any) -> bytes:
    block = {"type": "tool_use", "id": id, "name": name, "input": given}
    return line("assistant", [block], message={"id": message, "usage": USAGE})


def result(id: str, size: int = 1) -> bytes:
    block = {"type": "tool_result", "tool_use_id": id, "content": "x" * size}
    return line("user", [block])


def read(path: Path, *lines: bytes) -> Figures:
    """What these lines say."""
    path.write_bytes(b"".join(row + b"\n" for row in lines))
    return Turn(os.fsencode(path)).look()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def until(path: Path, mark: bytes, occurrence: int = 0) -> Figures:
    """What the recorded transcript says up to the n-th line with this mark."""
    found = [n for n, row in enumerate(TASKS) if mark in row]
    path.write_bytes(b"".join(TASKS[: found[occurrence] + 1]))
    return Turn(os.fsencode(path)).look()


def test_recorded_turn_is_told_as_it_goes_on(path: Path) -> None:
    begun = until(path, b"TaskCreate")
    assert (begun.prompt, begun.running) == ("go on and build", "TaskCreate: build it")
    made = until(path, b"Task #2 created")
    assert made.todos == (Todo("build it", "pending"), Todo("test it", "pending"))
    assert (made.running, made.calls) == ("", 2)
    changed = until(path, b"Updated task #2")
    assert [todo.state for todo in changed.todos] == ["completed", "in_progress"]
    running = until(path, b'"touch x"')
    assert running.running == "Bash: touch x" and running.running_since > 1.7e9
    assert (running.said, running.tokens, running.calls) == ("hello", 30, 5)
    assert not running.is_over
    over = until(path, b"turn_duration")
    assert over.is_over and over.said == "bye" and over.cost < 0
    assert 0 < over.last - over.prompted < 60
    assert (over.title, over.folder) == ("Build and test", "/home/user/project")


def test_recorded_turn_that_was_interrupted_is_over(path: Path) -> None:
    asked = until(path, b'"touch y"')
    assert (asked.prompt, asked.running) == ("once more", "Bash: touch y")
    assert (asked.calls, asked.said, len(asked.todos)) == (1, "", 2)
    stopped = until(path, b"[Request interrupted")
    assert stopped.is_over and stopped.running == ""


def test_cost_is_told_once_the_client_has_written_it_down(path: Path) -> None:
    path.write_bytes(b"".join(TASKS))
    assert Turn(os.fsencode(path)).look().cost == 0.0022
    with path.open("ab") as file:
        file.write(said("more, which costs more") + b"\n")
    assert Turn(os.fsencode(path)).look().cost < 0


@every_row("step", [1, 2, 7, 100, 1000])
def test_what_is_read_as_it_grows_is_what_one_look_reads(
    tmp_path: Path, step: int
) -> None:
    """Also where a look comes in the middle of a line."""
    whole, path = b"".join(TASKS), tmp_path / "grows.jsonl"
    growing = Turn(os.fsencode(path))
    for end in range(0, len(whole) + step, max(step, len(whole) // 150)):
        path.write_bytes(whole[:end])
        told = growing.look()
        assert told == Turn(os.fsencode(path)).look()
    path.write_bytes(whole)
    assert growing.look() == Turn(os.fsencode(path)).look() != Figures()


def test_context_is_that_of_the_last_message(path: Path) -> None:
    later = {"id": "n", "usage": {**USAGE, "cache_creation_input_tokens": 900}}
    empty = {"id": "o", "usage": {"input_tokens": 0}}  # an error of the client's
    rows = [use("1", command="ls"), said("a", message=later), said("b", message=empty)]
    assert read(path, *rows).tokens == 41_000
    assert read(path, *rows, line("system", subtype="compact_boundary")).tokens == 0


def test_calls_at_once_are_over_one_by_one_and_with_the_next_message(
    path: Path,
) -> None:
    rows = [line("user", "go"), use("1", command="one"), use("2", command="two")]
    assert read(path, *rows).running == "Bash: one"
    assert read(path, *rows, result("1")).running == "Bash: two"
    assert read(path, *rows, said("so", message={"id": "n"})).running == ""


def test_line_that_is_too_long_to_be_looked_at_is_passed_over(path: Path) -> None:
    read(path, line("user", "go"), use("1", command="one"))
    turn, long = Turn(os.fsencode(path)), result("1", 3 << 20) + b"\n"
    assert turn.look().running == "Bash: one"
    after = long + use("3", "Read", "n", file_path="/a/b") + b"\n"
    for start in range(0, len(after), 700_000):
        with path.open("ab") as file:
            file.write(after[start : start + 700_000])
        told = turn.look()
    assert (told.running, told.calls) == ("Read: /a/b", 2)


def test_list_of_older_clients_is_read(path: Path) -> None:
    todos = [{"content": "a", "status": "completed", "activeForm": "doing a"}]
    assert read(path, use("1", "TodoWrite", todos=todos)).todos == (
        Todo("a", "completed"),
    )


def test_list_is_known_again_when_the_client_reminds_the_model(path: Path) -> None:
    items = [{"id": "7", "subject": "a", "status": "pending"}]
    reminder = {"type": "task_reminder", "content": items, "itemCount": 1}
    rows = [
        line("attachment", attachment=reminder),
        use("1", "TaskUpdate", taskId="7", status="in_progress"),
        use("2", "TaskUpdate", taskId="8", status="completed"),  # never heard of
    ]
    assert read(path, *rows).todos == (Todo("a", "in_progress"),)
    gone = use("3", "TaskUpdate", taskId="7", status="deleted")
    assert read(path, *rows, gone).todos == ()


def test_command_of_the_client_is_no_prompt_unless_the_model_answers_it(
    path: Path,
) -> None:
    rows = [line("user", "go"), use("1", command="ls"), result("1")]
    rows.append(line("user", "<command-name>/model</command-name>"))
    assert (read(path, *rows).prompt, read(path, *rows).calls) == ("go", 1)
    noted = json.dumps({"type": "last-prompt", "lastPrompt": "/fix all"}).encode()
    answered = read(path, *rows, said("ok", message={"id": "n"}), noted)
    assert (answered.prompt, answered.calls, answered.said) == ("/fix all", 0, "ok")


def test_subagent_is_read_in_its_own_transcript(tmp_path: Path) -> None:
    (folder := tmp_path / "s" / "subagents").mkdir(parents=True)
    path = tmp_path / "s.jsonl"
    side = {"isSidechain": True}
    read(folder / "agent-a1.jsonl", line("user", "sub", **side), said("in", **side))
    read(path, line("user", "main"), said("out"), said("in", **side))
    assert figures(str(path)).said == "out"
    assert figures(agent_transcript(str(path), "a1")).said == "in"


def test_only_the_end_of_a_long_transcript_is_read(path: Path) -> None:
    """A file of 500 MB, nearly all of it a hole, costs what a small one does."""
    rows = b"".join(
        use(str(n), command="x" * 500) + b"\n" + result(str(n), 500) + b"\n"
        for n in range(2000)
    )
    with path.open("wb") as file:
        file.seek(500 << 20)
        file.write(b"\n" + rows)
    turn = Turn(os.fsencode(path))
    tracemalloc.start()
    told = turn.look()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 500 < told.calls < 2000 and peak < 8 << 20
    assert turn.look() == told


def test_nothing_is_read_where_nothing_was_added(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"".join(TASKS))
    first = figures(str(path))
    monkeypatch.setattr(reader, "decoded", None)  # it would be called
    assert figures(str(path)) == first != Figures()


def test_transcript_that_is_written_anew_is_read_anew(path: Path) -> None:
    path.write_bytes(b"".join(TASKS))
    assert figures(str(path)).prompt == "once more"
    path.write_bytes(line("user", "new") + b"\n")
    assert figures(str(path)).prompt == "new"
    path.unlink()
    assert figures(str(path)) == Figures()


def test_turn_goes_on_behind_a_line_of_megabytes(path: Path) -> None:
    """A picture that the model has looked at, written between two looks."""
    read(path, line("user", "go"), use("1", "Read", file_path="/a.png"))
    turn = Turn(os.fsencode(path))
    assert turn.look().running == "Read: /a.png"
    with path.open("ab") as file:
        rows = result("1", 3 << 20), said("nice", message={"id": "n"}), b""
        file.write(b"\n".join(rows))
    told = turn.look()
    assert (told.prompt, told.calls, told.said, told.running) == ("go", 1, "nice", "")


def test_other_file_by_the_same_name_is_read_anew(path: Path) -> None:
    read(path, line("user", "old"), said("a"))
    assert figures(str(path)).prompt == "old"
    other = path.with_suffix(".new")
    read(other, line("user", "new"), *[said("b")] * 9, line("system"))
    other.replace(path)
    told = figures(str(path))
    assert (told.prompt, told.said) == ("new", "b")


@every_row(
    ("rows", "typed"),
    [
        ([("user", "go", "06:00")], "06:00"),
        ([("user", "go", "06:00"), ("queue", "and then", "06:01")], "06:01"),
        ([("user", "go", "06:00"), ("queue", "<task-notification>", "06:01")], "06:00"),
        ([("user", "go", "06:00"), ("user", "<command-name>/x", "06:02")], "06:02"),
        ([("user", "[Request interrupted by user]", "06:03")], "06:03"),
        ([("queue", "and then", "06:04"), ("user", "and then", "06:03")], "06:04"),
    ],
)
def test_when_somebody_typed_is_known(
    path: Path, rows: list[tuple[str, str, str]], typed: str
) -> None:
    queued = {"operation": "enqueue"}
    lines = [
        line("user", words, timestamp=f"2026-11-19T{at}:00Z")
        if kind == "user"
        else line(
            "queue-operation", content=words, timestamp=f"2026-11-19T{at}:00Z", **queued
        )
        for kind, words, at in rows
    ]
    assert read(path, *lines).typed == moment(f"2026-11-19T{typed}:00Z")


@every_row("kind", ["fifo", "folder", "nothing", "device", "loop"])
def test_what_is_no_file_says_nothing_and_stops_nobody(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"{kind}.jsonl"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to(path)
    assert figures(str(path))._replace(last=0.0) == Figures()


@every_row("name", ["", "\0", "a\0b", "\ud800", "relative", "/" + "x" * 5000])
def test_what_is_no_path_says_nothing(name: str) -> None:
    assert figures(name) == Figures()


HOSTILE = (
    b"", b"[]", b"null", b"\0\0", b"\xff\xfe", b'{"type":"user"', b'{"type":"user"}',
    b'{"type":"assistant","message":[]}', b'{"type":"assistant","message":{"id":7}}',
    b'{"type":"assistant","message":{"content":[{"type":"tool_use"}],"usage":[]}}',
    b'{"type":"assistant","message":{"usage":{"input_tokens":-5e300}}}',
    b'{"type":"assistant","message":{"usage":{"input_tokens":NaN,"output_tokens":1}}}',
    b'{"type":"assistant","message":{"usage":{"input_tokens":true}}}',
    b'{"type":"cost-state","totalCostUSD":"7"}', b'{"type":"cost-state"}',
    b'{"type":"cost-state","totalCostUSD":Infinity}',
    b'{"type":"custom-title","customTitle":["x"]}', b'{"type":"last-prompt"}',
    b'{"type":"attachment","attachment":{"type":"task_reminder","content":[7,{}]}}',
    b'{"type":"user","timestamp":"9999-99-99","message":{"content":"a"}}',
    b'{"type":"assistant","message":' + b"[" * 100_000,
    use("1", "TodoWrite", todos={"a": 1}), use("2", "TodoWrite", todos=[None, "x"]),
    use("3", "TaskUpdate", taskId=[1]), use("4", "", command={"a": []}),
    use("5", "TaskCreate", subject=9), use("6", command="\ud800" * 9),
    use("7", "Write", content="x" * 900_000, file_path="\0" * 3000),
    result("1") + b'"tool_use_id":"' + b"x" * 5000, b"x" * (3 << 20),
    b'{"type":"user","message":{"content":"' + b"[" * (2 << 20) + b'"}}',
)  # fmt: skip


def test_hostile_lines_take_nothing_away_from_the_others(tmp_path: Path) -> None:
    rows = [line("user", "go"), *HOSTILE, said("still here", message={"id": "z"})]
    assert read(tmp_path / "s.jsonl", *rows).said == "still here"
    for row in HOSTILE:
        told = read(tmp_path / "s.jsonl", line("user", "go"), row, said("here"))
        assert told.said == "here" and 0 <= told.tokens < 1e15 and told.calls < 2


@given(st.lists(st.sampled_from(HOSTILE) | st.binary(max_size=50), max_size=12))
def test_no_transcript_breaks_it(
    tmp_path_factory: pytest.TempPathFactory, rows: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("t") / "s.jsonl"
    growing = Turn(os.fsencode(path))
    for number in range(len(rows) + 1):
        path.write_bytes(b"\n".join(rows[:number]))
        assert len(growing.look().todos) <= reader.TODOS


def test_what_is_kept_of_a_transcript_is_bounded(path: Path) -> None:
    rows = [use(str(n), command="x" * 5000) for n in range(300)]
    rows += [said("y" * 60_000, message={"id": "m"}), line("user", "z" * 60_000)]
    told = read(path, *rows)
    assert len(told.running) <= reader.CALL * 2 and len(told.said) <= reader.WORDS
    assert len(told.prompt) == reader.WORDS


@every_row(
    ("told", "line"),
    [
        (Figures(), ""),
        (Figures(calls=3, tokens=900), "tool calls: 3 · context: 900 tokens"),
        (
            Figures(prompted=100.0, calls=1, tokens=48_300, cost=0.354, is_over=True,
                    last=165.0),
            "took 1:05 · tool calls: 1 · context: 48k tokens · $0.35",
        ),
        (Figures(prompted=100.0, cost=0.0), "took 1:00:00"),
        (Figures(prompted=9000.0), ""),
    ],
)  # fmt: skip
def test_figures_are_one_line_of_what_is_known(told: Figures, line: str) -> None:
    assert spent(partial(text, "en"), spent_by(told, 3700.0)) == line
