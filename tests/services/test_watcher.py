"""Transcripts are looked at while a request waits, and a while after."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.models import ask as statuses
from feishuperm.models import request as states
from feishuperm.services import approvals as module
from feishuperm.services import transcript as watcher
from feishuperm.services.transcript import Result, Transcripts
from tests.services.test_approvals import Bench, called, ran, spoken


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class Watched:
    """A transcript that says what it is told to say."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.result = Result()
        self.unheard = False

    def check(self) -> str:
        return self.state

    def has_call(self) -> bool:
        return False

    def may_follow(self) -> bool:
        return False

    def close(self) -> None: ...


@pytest.mark.parametrize("state", ["answered", "moved_on"])
def test_answer_after_the_terminals_comes_too_late(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    watch = Watched("pending")
    monkeypatch.setattr(Transcripts, "begin", lambda *args: watch)
    waiter = bench.ask()
    watch.state = state
    receipt = bench.answer("allow")
    assert receipt.status == statuses.ENDED
    assert receipt.outcome.state == states.TERMINAL
    assert waiter.frames[-1] == (b"R", b"")


def test_transcripts_are_looked_at_while_anything_waits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watched("pending")
    monkeypatch.setattr(Transcripts, "begin", lambda *args: watch)
    bench.ask()
    bench.timers.turn(3)
    assert bench.request.waits()
    watch.state = "answered"
    bench.timers.turn(watcher.TRANSCRIPT_SECONDS)
    assert bench.request.state == states.TERMINAL
    bench.timers.turn(watcher.TRANSCRIPT_SECONDS)
    looks = [
        call for call in bench.timers.calls if call[2] == bench.approvals.watcher._look
    ]
    assert looks == []


def test_card_says_why_and_what_claude_works_on(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(spoken("Earlier words", "First.\n\nNow the tests.") + called())
    bench = Bench(tmp_path)
    bench.ask(command="npm test", transcript_path=str(path))
    ((ask, _),) = bench.channel.asks
    assert (ask.why, ask.prompt) == ("Now the tests.", "fix the build")


def test_card_waits_a_moment_for_words_that_come_late(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(spoken("Of an earlier call"))
    bench = Bench(tmp_path)
    bench.ask(command="npm test", transcript_path=str(path))
    assert bench.channel.asks == []
    ((ask, _),) = bench.inbox.asks  # whoever looks need not wait
    assert ask.why == ""
    with path.open("a") as file:
        file.write(spoken("Of this call")[len(spoken()) :] + called())
    bench.timers.turn(0.1)
    ((ask, _),) = bench.channel.asks
    assert ask.why == "Of this call"
    assert bench.inbox.renewed == 1


def test_card_does_not_wait_long_for_words_that_never_come(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(spoken("Of an earlier call"))
    bench = Bench(tmp_path)
    bench.ask(command="npm test", transcript_path=str(path))
    bench.timers.turn(module.WORDS_SECONDS + 0.1)
    ((ask, _),) = bench.channel.asks
    assert ask.why == ""
    with path.open("a") as file:
        file.write(called())
    bench.timers.turn(1.0)
    assert bench.approvals.requests.waiting()[0].why == "Of an earlier call"
    assert bench.inbox.renewed == 1


@pytest.mark.parametrize(
    ("content", "is_error", "said", "look"),
    [
        ("fine", False, "已完成", "good"),
        ("Exit code 3\nboom", True, "失败（退出码 3）", "bad"),
        ("API_KEY=sk-ant-0123456789abcdef0123\nx", True,
         "失败：API_KEY=***", "bad"),
        ("Permission to use Bash has been denied.", True,
         "被规则拒绝，没有运行", "bad"),
    ],
)  # fmt: skip
def test_channels_are_told_what_came_of_an_allow(
    tmp_path: Path, content: str, is_error: bool, said: str, look: str
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(spoken("Now.") + called())
    bench = Bench(tmp_path)
    bench.ask(command="npm test", transcript_path=str(path))
    bench.answer("allow")
    assert bench.channel.outcomes[0].result == ""
    bench.timers.turn(2.0)
    assert bench.channel.updates == []
    with path.open("a") as file:
        file.write(ran(content, is_error))
    bench.settle_transcript()
    (outcome,) = bench.channel.updates
    assert (outcome.result, outcome.result_look) == (said, look)


def test_result_that_never_comes_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(spoken("Now.") + called())
    bench = Bench(tmp_path)
    bench.ask(command="npm test", transcript_path=str(path))
    bench.answer("allow")
    bench.timers.turn(watcher.RESULT_SECONDS + 10)
    before = len(bench.timers.calls)
    with path.open("a") as file:
        file.write(ran())
    bench.timers.turn(60)
    assert bench.channel.updates == []
    assert len(bench.timers.calls) == before
    bench.ask(command="npm test", id="1700000001-0123abcd", transcript_path=str(path))
    bench.timers.turn(2.0)  # a new request is looked at again, quickly


def test_refusal_has_no_result(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(spoken("Now.") + called())
    bench = Bench(tmp_path)
    bench.ask(command="npm test", transcript_path=str(path))
    bench.answer("deny")
    with path.open("a") as file:
        file.write(ran("用户通过飞书拒绝", True))
    bench.timers.turn(5.0)
    assert bench.channel.updates == []
