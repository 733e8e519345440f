"""The approvals from inside: fake channels, waiters, ledger and clock."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.cards import ask_card, confirm_words
from feishuperm.channels.base import Announcement
from feishuperm.lib.feishu import build_permission_card, encode
from feishuperm.models import ask as statuses
from feishuperm.models import request as states
from feishuperm.models.ask import Answer, Ask, Notice, Outcome, Receipt
from feishuperm.models.kind import KINDS, Kind
from feishuperm.models.names import DOCTOR_ANSWER, DOCTOR_TOOL
from feishuperm.models.payload import (
    AskPayload,
    PreToolUsePayload,
    parse_payload,
)
from feishuperm.models.request import Request
from feishuperm.models.settings import Settings
from feishuperm.protocol.frames import NOT_TOLD, HookRequest
from feishuperm.services import approvals as module
from feishuperm.services.approvals import Approvals
from feishuperm.services.notifier import Notifier
from feishuperm.services.presenter import Presenter
from feishuperm.services.quiet import QuietHours
from feishuperm.services.request_manager import remembered
from feishuperm.services.rule_writer import RuleWriter
from tests.kinds import extra, refusals
from tests.lib.samples import CALLS
from tests.served import EVENT

__all__ = ["extra"]
ID = "1700000000-0123abcd"
QUESTION = CALLS["AskUserQuestion"]


class Waiter:
    """The hook's end."""

    def __init__(self) -> None:
        self.frames: list[tuple[bytes, bytes]] = []

    def send(self, kind: bytes, body: bytes = b"") -> None:
        self.frames.append((kind, body))

    def decision(self) -> dict[str, Any]:
        kind, body = self.frames[-1]
        assert kind == b"D"
        output: dict[str, Any] = json.loads(body)["hookSpecificOutput"]["decision"]
        return output


class Channel:
    """Remembers what it is told."""

    stands_in_for = ""

    def __init__(self, name: str = "fake", passive: bool = False) -> None:
        self.name = name
        self.passive = passive
        self.asks: list[tuple[Ask, Announcement]] = []
        self.outcomes: list[Outcome] = []
        self.updates: list[Outcome] = []
        self.notices: list[Notice] = []
        self.looked_at = False
        self.kept = False
        self.renewed = 0

    def start(self) -> None: ...

    def close(self) -> None: ...

    def busy(self) -> bool:
        return False

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        self.asks.append((ask, announcement))

    def renew(self) -> None:
        self.renewed += 1

    def settle(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def update(self, outcome: Outcome) -> None:
        self.updates.append(outcome)

    def notify(self, notice: Notice) -> None:
        self.notices.append(notice)

    def watched(self) -> bool:
        return self.looked_at

    def muted(self) -> bool:
        return False

    def keeps(self, id: str, is_back: bool = False) -> bool:
        return self.kept

    def state(self) -> tuple[str, str]:
        return "up", ""

    def facts(self) -> dict[str, Any]:
        return {}


class Timers:
    """A clock to turn."""

    def __init__(self) -> None:
        self.time = 0.0
        self.calls: list[tuple[float, int, Callable[[], None]]] = []

    def now(self) -> float:
        return self.time

    def call_at(self, when: float, fn: Callable[[], None]) -> object:
        self.calls.append((when, len(self.calls), fn))
        return None

    def turn(self, seconds: float) -> None:
        """Let time pass, and do what is due in its order."""
        until = self.time + seconds
        while True:
            due = [call for call in self.calls if call[0] <= until]
            if not due:
                break
            call = min(due, key=lambda call: call[:2])
            self.calls.remove(call)
            self.time = max(self.time, call[0])
            call[2]()
        self.time = until


class FakeLedger:
    """A ledger on a disk that can be full, and a record of what happened when."""

    path = "/proc/nowhere/ledger.jsonl"

    def __init__(self, history: list[str]) -> None:
        self.history = history
        self.full = False
        self.intents: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        self.waiting: list[dict[str, Any]] = []
        self.problem = ""
        self.before: list[dict[str, Any]] = []

    def state(self) -> dict[str, Any]:
        return {"head": "", "pending": self.pending(), "problem": self.problem}

    def intend(self, entry: dict[str, Any]) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "no space left")
        self.history.append("intent")
        self.intents.append(entry)
        return len(self.intents)

    def finish(self, intent: int, entry: dict[str, Any]) -> None:
        self.note({**entry, "intent": intent})
        self.flush()

    def note(self, entry: dict[str, Any]) -> None:
        self.waiting.append(entry)

    def flush(self, sync: bool = True) -> int:
        if not self.full:
            if self.waiting:
                self.history.append("end")
            self.ends += self.waiting
            self.waiting = []
        return len(self.waiting)

    def pending(self) -> int:
        return len(self.waiting)

    def head(self) -> str:
        return "0123abcd"

    def recover(self) -> list[dict[str, Any]]:
        return []

    def recent(self, seconds: float) -> list[dict[str, Any]]:
        return self.before

    def vouched(self, seconds: float) -> list[dict[str, Any]]:
        return self.before

    def find(self, id: str, since: float) -> list[dict[str, Any]]:
        return [entry for entry in self.ends if entry["id"] == id]


class Bench:
    """A desk with everything around it faked."""

    def __init__(self, project: Path, **settings: str) -> None:
        self.project = project
        self.history: list[str] = []
        self.timers = Timers()
        self.ledger = FakeLedger(self.history)
        self.channel, self.inbox = Channel(), Channel("inbox", passive=True)
        read = self.settings = Settings(settings)
        writer = RuleWriter()
        self.presenter = Presenter(read, writer)
        clock = lambda: 1_700_000_000.0 + self.timers.time  # noqa: E731
        path = str(project / "quiet.json")
        self.quiet = QuietHours(read.feishuperm_quiet, path, clock)
        notifier = Notifier(
            [self.inbox, self.channel],
            read.feishuperm_notify | {"trip"},
            lambda seconds, fn: self.timers.call_at(self.timers.time + seconds, fn),
            quiet=self.quiet,
        )
        self.approvals = Approvals(
            read,
            self.presenter,
            notifier,
            writer,
            self.ledger,  # type: ignore[arg-type]
            self.timers,
            clock,
        )

    def ask(
        self,
        tool_name: str = "Bash",
        id: str = ID,
        shown: str = "",
        transcript_path: str = "",
        **tool_input: Any,
    ) -> Waiter:
        """A hook comes with a permission request."""
        call = tool_input or CALLS.get(tool_name, {})
        event = {**EVENT, "tool_name": tool_name, "tool_input": call}
        if transcript_path:
            event["transcript_path"] = transcript_path
        return self.bring(event, id, shown)

    def bring(
        self, event: dict[str, Any], id: str = ID, shown: str = "", left: int = NOT_TOLD
    ) -> Waiter:
        """A hook comes with an event."""
        waiter = Waiter()
        raw = json.dumps(event).encode()
        hook = HookRequest(id, shown, str(self.project), raw, left)
        payload = parse_payload(raw)
        assert isinstance(payload, AskPayload)
        self.approvals.register(hook, payload, waiter)
        return waiter

    def answer(self, action: str, **more: Any) -> Receipt:
        values = {name: (text,) for name, text in more.pop("values", {}).items()}
        answer = Answer(more.pop("id", ID), action, values, "page", **more)
        return self.approvals.answer(answer)

    def settle_transcript(self) -> None:
        """Let whatever is young in a transcript grow old."""
        for watch in self.approvals.watcher._watches.values():
            watch.began -= 10
        for watch, _ in self.approvals.watcher._results.values():
            watch.began -= 10
        self.timers.turn(2.0)

    @property
    def request(self) -> Request:
        return self.request_of(ID)

    def request_of(self, id: str) -> Request:
        request = self.approvals.requests.get(id)
        assert request is not None
        return request

    def rules(self) -> list[str]:
        path = self.project / ".claude" / "settings.local.json"
        if not path.exists():
            return []
        rules: list[str] = json.loads(path.read_text())["permissions"]["allow"]
        return rules


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# One channel in the place of another.


def test_channel_stands_in_once_while_no_answer_can_come_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    other = Channel("webhook")
    other.stands_in_for = bench.channel.name
    bench.approvals.notifier._channels = [bench.inbox, bench.channel, other]
    waiter = bench.ask()
    ((_, announcement),) = bench.channel.asks
    assert other.asks == [] and announcement.has_stand_in
    announcement.shown()
    for _ in range(2):
        announcement.stand_in()
    ((_, stood_in),) = other.asks
    assert not stood_in.has_stand_in
    stood_in.failed("19001")
    assert bench.request.waits()  # the first card is still out
    bench.answer("deny")
    announcement.stand_in()
    assert waiter.decision()["behavior"] == "deny" and len(other.asks) == 1
    assert len(bench.channel.outcomes) == len(other.outcomes) == 1


def test_large_request_is_shown_a_turn_after_it_was_read(tmp_path: Path) -> None:
    """Both in one turn would hold up everybody else."""
    bench = Bench(tmp_path)
    waiter = bench.ask(command="x" * (module.LARGE + 1))
    assert waiter.frames[0][0] == b"A" and bench.channel.asks == []
    bench.timers.turn(module.NEXT_TURN)
    assert len(bench.channel.asks) == 1
    bench.ask(id="1700000000-0123abce", command="x" * (module.LARGE + 1))
    bench.approvals.close()
    bench.timers.turn(module.NEXT_TURN)
    assert len(bench.channel.asks) == 1, "what has ended is not shown"


@pytest.mark.parametrize("action", ["minutes", "session"])
def test_no_pass_for_a_large_request_before_it_is_in_words(
    tmp_path: Path, action: str
) -> None:
    """Its page may be open by then; what a mask hides is not known yet."""
    bench = Bench(tmp_path)
    bench.ask(command="echo " + "x" * (module.LARGE + 1))
    page = bench.approvals.presenter.ask(bench.request)
    assert not any(offer.look == "while" for offer in page.actions)
    answer = Answer(ID, action, surface="page", confirmed=True)
    assert bench.approvals.answer(answer).status == statuses.REFUSED
    assert bench.request.waits()


# What is masked.

ELSEWHERE = ["card", "message", "link", "inbox", "gateway"]


@pytest.mark.parametrize("surface", ELSEWHERE)
def test_nothing_that_lasts_is_granted_where_a_call_is_masked(
    tmp_path: Path, surface: str
) -> None:
    bench = Bench(tmp_path)
    bench.approvals._surfaces = frozenset(("inbox", "webhook", "app", "gateway"))
    waiter = bench.ask(command="mysql -pHunter22 shop")
    ((ask, _),) = bench.channel.asks
    assert sorted(o.name for o in ask.offered) == sorted(["allow", *refusals()])
    for action in ("always", "minutes", "session"):
        answer = Answer(ID, action, surface=surface, confirmed=True)
        assert bench.approvals.answer(answer).status == statuses.REFUSED
    assert bench.rules() == [] and bench.request.waits()
    bench.approvals.answer(Answer(ID, "allow", surface=surface))
    assert waiter.decision()["behavior"] == "allow"


@pytest.mark.parametrize("surface", ELSEWHERE)
def test_what_a_mask_may_hide_is_granted_on_its_page_alone(
    tmp_path: Path, surface: str
) -> None:
    bench = Bench(tmp_path)
    bench.approvals._surfaces = frozenset(("inbox", "webhook", "app", "gateway"))
    waiter = bench.ask(command="SECRET=./x.sh; sh $SECRET")
    ((ask, _),) = bench.channel.asks
    assert sorted(offer.name for offer in ask.offered) == refusals()
    for action in ("allow", "always", "edit"):
        answer = Answer(ID, action, {"command": ("x",)}, surface, confirmed=True)
        assert bench.approvals.answer(answer).status == statuses.REFUSED
    assert bench.rules() == []
    assert bench.answer("allow").status == statuses.SETTLED
    assert waiter.decision()["behavior"] == "allow"


# What is changed before it runs.


def test_edited_command_is_on_the_disk_before_it_runs_and_without_its_secrets(
    bench: Bench,
) -> None:
    secret = "ghp_" + "a1B2" * 9
    waiter = bench.ask(command="npm test", timeout=5)
    receipt = bench.answer("edit", values={"command": f"X={secret} npm test"})
    assert waiter.decision()["updatedInput"] == {
        "command": f"X={secret} npm test",
        "timeout": 5,
    }
    (intent,), (end,) = bench.ledger.intents, bench.ledger.ends
    for entry in (intent, end):
        assert entry["action"] == "edit" and entry["ran"].endswith("npm test")
    assert receipt.outcome.ran == end["ran"]
    assert secret not in repr((bench.ledger.intents, bench.ledger.ends, receipt))
    again = remembered(end)
    assert again is not None and again.ran == end["ran"]
    assert bench.history[0] == "intent"


def test_unchanged_command_is_merely_allowed(bench: Bench) -> None:
    waiter = bench.ask(command="npm test")
    receipt = bench.answer("edit", values={"command": "npm test"})
    assert waiter.decision() == {"behavior": "allow"}
    assert receipt.outcome.done == "已批准运行"
    assert "ran" not in bench.ledger.ends[0]


def test_edit_of_another_tool_or_of_what_was_not_shown_is_refused(
    bench: Bench,
) -> None:
    bench.ask("mcp__shell__run", command="ls")
    receipt = bench.answer("edit", values={"command": "rm -rf /"})
    assert receipt.status == statuses.REFUSED and bench.request.waits()
    bench.ask(id="1700000001-0123abcd", command="ls")
    receipt = bench.answer(
        "edit", id="1700000001-0123abcd", values={"command": "x"}, digest="0" * 16
    )
    assert receipt.status == statuses.REFUSED
    receipt = bench.answer("edit", id="1700000001-0123abcd")
    assert receipt.status == statuses.INCOMPLETE and not bench.ledger.intents


# In.


def test_request_is_acknowledged_before_anybody_is_shown_it(bench: Bench) -> None:
    waiter = bench.ask()
    assert waiter.frames == [(b"A", b"55")]
    [(ask, announcement)] = bench.channel.asks
    assert (ask.id, ask.kind, ask.digest) == (
        ID,
        "permission",
        bench.request.digest[:16],
    )
    assert announcement.is_wanted()
    assert announcement.until == 1_700_000_055.0
    assert len(bench.inbox.asks) == 1


def test_card_that_was_shown_before_a_restart_is_not_sent_again(bench: Bench) -> None:
    bench.ask(shown="shown")
    assert bench.request.shown
    assert bench.channel.asks == []
    assert len(bench.inbox.asks) == 1


def test_channel_whose_card_is_out_takes_a_request_back(bench: Bench) -> None:
    """It is not pushed again, but somebody has to watch over its card."""
    bench.channel.kept = True
    bench.ask(shown="shown")
    assert len(bench.channel.asks) == 1


def test_kind_that_is_not_pushed_is_in_the_inbox_only(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FEISHUPERM_NOTIFY="question")
    bench.ask()
    assert (len(bench.channel.asks), len(bench.inbox.asks)) == (0, 1)


def test_card_waits_for_the_delay_and_is_not_sent_if_that_was_enough(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, PERMISSION_NOTIFY_DELAY="5")
    bench.ask()
    bench.ask(id="1700000001-0123abcd")
    assert bench.channel.asks == []
    bench.answer("deny")
    bench.timers.turn(5)
    assert [ask.id for ask, _ in bench.channel.asks] == ["1700000001-0123abcd"]


def test_shown_card_tells_the_hook(bench: Bench) -> None:
    waiter = bench.ask()
    bench.channel.asks[0][1].shown()
    assert waiter.frames[-1] == (b"S", b"")
    assert bench.request.shown


def test_request_that_no_channel_could_show_is_released_at_once(bench: Bench) -> None:
    waiter = bench.ask()
    bench.channel.asks[0][1].failed("19001: the bot is unknown")
    assert waiter.frames[-1] == (b"R", b"")
    assert bench.request.state == states.RELEASED


def test_request_somebody_looks_at_is_kept_though_no_card_went_out(
    bench: Bench,
) -> None:
    bench.inbox.looked_at = True
    bench.ask()
    bench.channel.asks[0][1].failed("19001")
    assert bench.request.waits()


def test_doctors_call_is_denied_at_once_and_nowhere_to_be_seen(bench: Bench) -> None:
    waiter = bench.ask(DOCTOR_TOOL, check="1")
    assert waiter.decision() == {"behavior": "deny", "message": DOCTOR_ANSWER}
    assert bench.channel.asks == bench.inbox.asks == []
    assert bench.approvals.requests.get(ID) is None
    bench.timers.turn(1)
    assert bench.ledger.ends == []


def test_closed_desk_releases_what_still_comes(bench: Bench) -> None:
    first = bench.ask()
    assert bench.approvals.close() == 1
    second = bench.ask(id="1700000001-0123abcd")
    assert first.frames[-1] == second.frames[-1] == (b"R", b"")


def test_handed_over_desk_says_nothing_to_anybody(bench: Bench) -> None:
    waiter = bench.ask()
    assert bench.approvals.hand_over() == 1
    bench.approvals.hook_gone(waiter)
    assert bench.request.waits()
    assert bench.ask(id="1700000001-0123abcd").frames == []


def test_answer_to_a_handed_over_desk_is_to_be_given_again(bench: Bench) -> None:
    """Its hook is on the way to the next server: nobody would hear the decision."""
    waiter = bench.ask()
    frames = list(waiter.frames)
    bench.approvals.hand_over()
    receipt = bench.approvals.answer(Answer(ID, "allow", {}, "inbox"))
    assert receipt.status == statuses.INCOMPLETE and "请再点一次" in receipt.error
    bench.timers.turn(100)  # past the deadline
    assert bench.request.waits() and waiter.frames == frames


# Answers.


@pytest.mark.parametrize(
    ("action", "state", "behavior"),
    [
        ("allow", states.ALLOWED, "allow"),
        ("deny", states.DENIED, "deny"),
        ("interrupt", states.DENIED, "deny"),
    ],
)
def test_answer_settles_and_tells_everybody(
    bench: Bench, action: str, state: str, behavior: str
) -> None:
    waiter = bench.ask()
    receipt = bench.answer(action, who="ou_1")
    assert receipt.status == statuses.SETTLED
    assert waiter.decision()["behavior"] == behavior
    outcome = receipt.outcome
    assert (outcome.state, outcome.action, outcome.surface) == (state, action, "page")
    assert (outcome.who, outcome.head) == ("ou_1", "0123abcd")
    assert bench.channel.outcomes == bench.inbox.outcomes == [outcome]


def test_second_answer_is_told_what_the_first_one_was(bench: Bench) -> None:
    waiter = bench.ask()
    bench.answer("deny")
    receipt = bench.answer("allow")
    assert receipt.status == statuses.ENDED
    assert receipt.outcome.action == "deny"
    assert [kind for kind, _ in waiter.frames] == [b"A", b"D"]


def test_answer_to_nothing_is_unknown(bench: Bench) -> None:
    assert bench.answer("allow").status == statuses.UNKNOWN


@pytest.mark.parametrize(
    ("tool_name", "action"),
    [
        ("Bash", "approve"),
        ("Bash", ""),
        ("AskUserQuestion", "allow"),
        ("AskUserQuestion", "always"),
        ("ExitPlanMode", "always"),
        ("ExitPlanMode", "allow"),
    ],
)
def test_action_that_the_kind_does_not_offer_is_refused(
    bench: Bench, tool_name: str, action: str
) -> None:
    waiter = bench.ask(tool_name)
    receipt = bench.answer(action)
    assert receipt.status == statuses.REFUSED
    assert receipt.error
    assert bench.request.waits()
    assert waiter.frames == [(b"A", b"55")]
    assert bench.ledger.intents == []


@pytest.mark.parametrize("digest", ["0" * 16, "0", "x"])
def test_answer_to_something_else_is_refused(bench: Bench, digest: str) -> None:
    bench.ask()
    assert bench.answer("allow", digest=digest).status == statuses.REFUSED
    short = bench.request.digest[:15]
    assert bench.answer("allow", digest=short).status == statuses.REFUSED
    right = bench.request.digest[:16]
    assert bench.answer("allow", digest=right).status == statuses.SETTLED


def test_question_without_an_answer_is_asked_again(bench: Bench) -> None:
    waiter = bench.ask("AskUserQuestion")
    receipt = bench.answer("answer")
    assert (receipt.status, receipt.error) == (
        statuses.INCOMPLETE,
        "请至少回答一个问题。",
    )
    assert bench.request.waits()
    receipt = bench.answer("answer", values={"q0": "SQLite"})
    assert receipt.status == statuses.SETTLED
    answers = waiter.decision()["updatedInput"]["answers"]
    assert answers == {"Which database?": "SQLite"}


def test_approved_plan_lets_the_client_leave_plan_mode(bench: Bench) -> None:
    waiter = bench.ask("ExitPlanMode")
    assert bench.answer("approve").outcome.done == "已批准计划"
    assert waiter.decision() == {"behavior": "allow", "updatedInput": {}}


def test_typed_reason_is_cut_to_what_a_field_holds(bench: Bench) -> None:
    waiter = bench.ask()
    bench.answer("deny", values={"reason": "x" * 5000})
    assert waiter.decision()["message"] == "用户通过飞书拒绝：" + "x" * 1000
    assert bench.request.reason == "x" * 1000


def test_always_writes_the_rule_and_the_session_obeys_at_once(bench: Bench) -> None:
    waiter = bench.ask(command="npm test")
    receipt = bench.answer("always")
    assert bench.rules() == ["Bash(npm test)"]
    assert receipt.outcome.rules == ("Bash(npm test)",)
    assert receipt.outcome.done == "已始终允许"
    [update] = waiter.decision()["updatedPermissions"]
    assert update["rules"] == [{"toolName": "Bash", "ruleContent": "npm test"}]


def test_always_without_an_exact_rule_allows_this_once(bench: Bench) -> None:
    waiter = bench.ask(command="rm *.o")
    receipt = bench.answer("always")
    assert bench.rules() == []
    assert receipt.outcome.done == "已批准运行"
    assert any("*" in line for line in receipt.outcome.lines)
    assert waiter.decision() == {"behavior": "allow"}


def test_rule_that_cannot_be_written_grants_no_more_than_was_said(
    bench: Bench,
) -> None:
    (bench.project / ".claude").mkdir()
    settings = bench.project / ".claude" / "settings.local.json"
    settings.write_text("{broken")
    waiter = bench.ask(command="npm test")
    receipt = bench.answer("always")
    assert settings.read_text() == "{broken"
    assert receipt.outcome.done == "已批准运行"
    assert waiter.decision() == {"behavior": "allow"}


def test_new_kind_and_button_are_answered_like_the_others(
    bench: Bench, extra: Kind
) -> None:
    waiter = bench.ask("TripTool", where="Rome")
    [(ask, _)] = bench.channel.asks
    assert (ask.kind, ask.title, ask.at_zero) == ("trip", "行程请求", "terminal")
    assert [offer.label for offer in ask.actions] == ["批准运行", "以后再说"]
    assert bench.answer("later").outcome.done == "已推迟"
    assert waiter.decision() == {"behavior": "deny", "message": "用户推迟了"}


def test_time_out_of_a_kind_that_tells_nothing_is_a_release(
    bench: Bench, extra: Kind
) -> None:
    waiter = bench.ask("TripTool", where="Rome")
    bench.channel.asks[0][1].shown()
    bench.timers.turn(55)
    assert waiter.frames[-1] == (b"R", b"")
    assert bench.request.state == states.EXPIRED


def test_rule_for_every_call_of_a_tool_waits_for_the_words(bench: Bench) -> None:
    waiter = bench.ask("WebSearch", query="x")
    receipt = bench.answer("always")
    assert receipt.status == statuses.CONFIRM
    assert receipt.error == "这个工具的任何调用都将直接通过"
    assert bench.rules() == []
    assert bench.ledger.intents == []
    assert waiter.frames == [(b"A", b"55")]
    assert bench.answer("always", confirmed=True).status == statuses.SETTLED
    assert bench.rules() == ["WebSearch"]


@pytest.mark.parametrize(
    ("surfaces", "refused"),
    [
        ("inbox,webhook", ()),
        ("inbox", ()),
        ("webhook", ("inbox",)),
        ("app", ("inbox", "page", "link")),
    ],
)
def test_answers_come_from_the_surfaces_the_user_named(
    tmp_path: Path, surfaces: str, refused: tuple[str, ...]
) -> None:
    bench = Bench(
        tmp_path,
        FEISHUPERM_SURFACES=surfaces,
        FEISHU_WEBHOOK_URL="0123456789abcdef0123456789abcdef",
    )
    for number, surface in enumerate(("inbox", "page", "link", "terminal")):
        id = f"1700000000-{number:08x}"
        bench.ask(id=id)
        receipt = bench.approvals.answer(Answer(id, "allow", surface=surface))
        no = surface in refused or surface == "terminal"
        assert receipt.status == (statuses.REFUSED if no else statuses.SETTLED)


def test_session_that_tries_to_answer_itself_is_written_down_and_told(
    bench: Bench,
) -> None:
    waiter = bench.ask()
    for _ in range(3):
        receipt = bench.approvals.refuse(ID, "allow", "curl (pid 5)")
        assert receipt.status == statuses.REFUSED
        assert "curl (pid 5)" in receipt.error
    bench.approvals.refuse(ID, "always", "curl (pid 5)")
    assert waiter.frames == [(b"A", b"55")]
    bench.timers.turn(1)
    assert [entry["event"] for entry in bench.ledger.ends] == ["refused"] * 2
    [notice] = bench.channel.notices
    assert "curl (pid 5)" in notice.text
    bench.answer("deny")
    assert "curl (pid 5)" in "".join(bench.channel.outcomes[0].lines)


def test_endless_attempts_do_not_fill_the_ledger(bench: Bench) -> None:
    for number in range(module.REFUSED_MOST + 50):
        bench.approvals.refuse(f"1-{number}", "allow", "curl (pid 5)")
    bench.timers.turn(1)
    assert len(bench.ledger.ends) == module.REFUSED_MOST


# The record.


def test_intent_is_on_the_disk_before_rule_and_decision(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = RuleWriter.write

    def noted(self: RuleWriter, *args: Any) -> Any:
        bench.history.append("rule")
        return write(self, *args)

    monkeypatch.setattr(RuleWriter, "write", noted)
    waiter = bench.ask(command="npm test")

    def send(kind: bytes, body: bytes = b"") -> None:
        bench.history.append("decision")

    waiter.send = send  # type: ignore[method-assign]
    bench.answer("always", who="me", values={"reason": "ignored"})
    assert bench.history == ["intent", "rule", "decision", "end"]
    [intent] = bench.ledger.intents
    [end] = bench.ledger.ends
    for entry in (intent, end):
        assert (entry["action"], entry["state"]) == ("always", states.ALLOWED)
        assert (entry["surface"], entry["who"]) == ("page", "me")
        assert entry["rules"] == ["Bash(npm test)"]
        assert entry["reason"] == ""
    assert end["intent"] == 1


def test_allow_that_cannot_be_recorded_is_left_to_the_terminal(bench: Bench) -> None:
    waiter = bench.ask(command="npm test")
    bench.ledger.full = True
    receipt = bench.answer("always")
    assert receipt.status == statuses.REFUSED
    assert "终端" in receipt.error
    assert bench.rules() == []
    assert waiter.frames[-1] == (b"R", b"")
    assert bench.request.state == states.RELEASED


def test_denial_goes_through_and_is_recorded_when_the_disk_takes_it(
    bench: Bench,
) -> None:
    waiter = bench.ask()
    bench.ledger.full = True
    receipt = bench.answer("deny")
    assert receipt.status == statuses.SETTLED
    assert receipt.outcome.head == ""
    assert waiter.decision()["behavior"] == "deny"
    bench.timers.turn(30)
    assert bench.ledger.ends == []
    bench.ledger.full = False
    bench.timers.turn(module.LEDGER_AGAIN_SECONDS)
    assert [entry["action"] for entry in bench.ledger.ends] == ["deny"]


def test_session_that_answers_itself_is_written_down_and_named_at_the_end(
    bench: Bench,
) -> None:
    bench.ask()
    for _ in range(3):
        receipt = bench.approvals.refuse(ID, "allow", "curl (pid 51)")
        assert receipt.status == statuses.REFUSED and "curl (pid 51)" in receipt.error
    bench.timers.turn(module.LEDGER_SECONDS)
    [entry] = bench.ledger.ends
    assert (entry["event"], entry["id"], entry["action"], entry["who"]) == (
        "refused", ID, "allow", "curl (pid 51)"
    )  # fmt: skip
    assert remembered(entry) is None
    assert bench.request.waits()
    outcome = bench.answer("deny").outcome
    assert any("curl (pid 51)" in line for line in outcome.lines)


def test_what_is_tried_without_a_request_is_written_down_too(bench: Bench) -> None:
    bench.approvals.refuse("", "stop", "curl (pid 51)")
    bench.approvals.refuse("unknown", "allow", "curl (pid 51)")
    bench.timers.turn(module.LEDGER_SECONDS)
    assert [(row["id"], row["action"]) for row in bench.ledger.ends] == [
        ("", "stop"),
        ("", "allow"),
    ]


def test_ends_by_themselves_are_written_together(bench: Bench) -> None:
    for number in range(100):
        bench.ask(id=f"1700000000-{number:08x}")
    bench.approvals.release_all("why")
    assert bench.history == []
    bench.timers.turn(module.LEDGER_SECONDS)
    assert bench.history == ["end"]
    assert len(bench.ledger.ends) == 100


def test_server_that_ends_gives_the_ledger_a_last_chance(bench: Bench) -> None:
    bench.ask()
    bench.ledger.full = True
    bench.approvals.close()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        bench.ledger.full = len(pauses) < 3

    bench.approvals.write_ledger(pause)
    assert len(pauses) == 3
    assert len(bench.ledger.ends) == 1


def test_ledger_that_never_takes_it_does_not_keep_the_server(bench: Bench) -> None:
    bench.ask()
    bench.ledger.full = True
    bench.approvals.close()
    pauses: list[float] = []
    bench.approvals.write_ledger(pauses.append)
    assert sum(pauses) <= 5


def test_ends_of_the_last_server_are_known_to_the_next(bench: Bench) -> None:
    bench.ask(command="npm test")
    bench.answer("always")
    entry = bench.ledger.ends[0]
    bench.approvals.requests = Bench(bench.project).approvals.requests
    bench.ledger.before = [entry, {"event": "rule"}, {**entry, "state": "nonsense"}]
    bench.approvals.remember()
    receipt = bench.answer("allow")
    assert receipt.status == statuses.ENDED
    assert receipt.outcome.done == "已始终允许"
    assert receipt.outcome.rules == ("Bash(npm test)",)


def test_what_the_last_server_could_not_write_is_tried_again_by_itself(
    bench: Bench,
) -> None:
    """The disk may take nothing at the start, and nobody may ever tap again."""
    bench.ledger.full = True
    bench.ledger.waiting = [{"event": "request"}]
    bench.approvals.remember()
    bench.ledger.full = False
    bench.timers.turn(2)
    assert bench.ledger.ends == [{"event": "request"}]


def test_hook_whose_server_died_while_it_decided_is_left_to_the_terminal(
    bench: Bench,
) -> None:
    """The ledger has its one end already, and nobody knows what the hook heard."""
    bench.ask()
    bench.answer("always")
    entry = {**bench.ledger.ends[0], "state": states.UNKNOWN}
    bench.approvals.requests = Bench(bench.project).approvals.requests
    bench.ledger.before = [entry]
    bench.ledger.ends.clear()
    bench.approvals.remember()
    waiter = bench.ask(shown="again")
    assert waiter.frames == [(b"R", b"")]
    receipt = bench.answer("allow")
    assert (receipt.status, receipt.outcome.done) == (statuses.ENDED, "结果未知")
    assert bench.ledger.ends == []


# Ends without a person.


def test_hook_that_ends_by_itself_takes_its_request_along(bench: Bench) -> None:
    waiter = bench.ask()
    bench.approvals.hook_gone(waiter)
    assert bench.request.state == states.GONE
    assert bench.channel.outcomes[0].done == "会话已结束"


def test_time_is_over_for_each_request_at_its_own_deadline(bench: Bench) -> None:
    first = bench.ask()
    bench.channel.asks[0][1].shown()
    bench.timers.turn(20)
    bench.ask(id="1700000001-0123abcd")
    assert bench.approvals.seconds_left(bench.request.id) == 35
    bench.timers.turn(35)
    assert first.decision()["message"] == "权限请求超时，自动拒绝"
    assert len(bench.approvals.requests.waiting()) == 1
    bench.timers.turn(20)
    assert len(bench.approvals.requests.waiting()) == 0


def test_every_kind_of_the_table_can_be_asked_and_refused(bench: Bench) -> None:
    for number, kind in enumerate(KINDS.values()):
        id = f"1700000000-{number:08x}"
        tool_name = next(iter(kind.tools), "Bash")
        waiter = bench.ask(tool_name, id)
        assert bench.answer("deny", id=id).status == statuses.SETTLED
        assert waiter.decision()["behavior"] == "deny"


def test_tap_of_a_stranger_is_in_the_ledger_once(bench: Bench) -> None:
    bench.ask()
    for _ in range(3):
        bench.approvals.note_refused(ID, "allow", "ou_stranger")
    bench.approvals.note_refused("gone", "allow\n" + "x" * 1000, "ou_stranger")
    bench.timers.turn(1)
    refused = [e for e in bench.ledger.ends if e["event"] == "refused"]
    assert [entry["id"] for entry in refused] == [ID, ""]
    assert refused[0]["who"] == "ou_stranger" and refused[0]["summary"]
    assert len(refused[1]["action"]) <= 64 and "\n" not in refused[1]["action"]
    assert bench.request.waits() and not bench.request.tried


# What auto mode refused.

DENIED = {**EVENT, "hook_event_name": "PermissionDenied", "reason": "Looks risky"}


def let_through(bench: Bench, **changes: Any) -> tuple[bytes, bytes]:
    waiter = Waiter()
    event = {**EVENT, "hook_event_name": "PreToolUse", **changes}
    bench.approvals.let_through(PreToolUsePayload(event), waiter)
    return waiter.frames[-1]


@pytest.fixture
def denying(tmp_path: Path) -> Bench:
    return Bench(
        tmp_path,
        FEISHUPERM_NOTIFY="denied",
        PERMISSION_SOCKET_PATH=str(tmp_path / "s.sock"),
    )


def test_refused_call_is_asked_about_with_the_reason(denying: Bench) -> None:
    waiter = denying.bring(DENIED)
    [(ask, _)] = denying.channel.asks
    assert (ask.kind, ask.at_zero, ask.blocks[-1].text) == (
        "denied",
        "stands",
        "Looks risky",
    )
    assert [offer.label for offer in ask.actions] == ["放行一次", "不放行"]
    assert denying.answer("allow").status == statuses.SETTLED
    assert json.loads(waiter.frames[-1][1])["hookSpecificOutput"]["retry"] is True
    assert denying.history[0] == "intent"
    assert let_through(denying)[0] == b"D"
    assert let_through(denying) == (b"R", b"")


def test_refusal_that_stands_lets_nothing_through(denying: Bench) -> None:
    waiter = denying.bring(DENIED)
    denying.answer("deny")
    assert waiter.frames[-1] == (b"R", b"")
    assert let_through(denying) == (b"R", b"")


def test_refusal_that_cannot_be_recorded_is_not_lifted(denying: Bench) -> None:
    waiter = denying.bring(DENIED)
    denying.ledger.full = True
    assert denying.answer("allow").status == statuses.REFUSED
    denying.ledger.full = False
    assert waiter.frames[-1] == (b"R", b"")
    assert let_through(denying) == (b"R", b"")


def test_permission_that_was_given_lets_no_refused_call_through(
    denying: Bench,
) -> None:
    denying.ask()
    denying.answer("allow")
    assert let_through(denying) == (b"R", b"")


def test_terminal_that_can_do_nothing_is_not_kept_where_nobody_looks(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, FEISHUPERM_NOTIFY="permission")
    assert bench.bring(DENIED).frames[-1] == (b"R", b"")
    bench.inbox.looked_at = True
    waiter = bench.bring(DENIED, "1700000001-0123abcd")
    assert waiter.frames[-1][0] == b"A"


def test_refused_call_that_comes_back_after_a_restart_keeps_waiting(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, FEISHUPERM_NOTIFY="permission")
    assert bench.bring(DENIED, shown="shown").frames[-1][0] == b"A"


def test_no_pass_is_offered_for_what_auto_mode_refused(denying: Bench) -> None:
    denying.bring(DENIED)
    assert not denying.request.passable


# What came of it.


def test_answers_to_a_question_are_shown(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.ask("AskUserQuestion")
    values = {"q0": QUESTION["questions"][0]["options"][0]["label"]}
    assert bench.answer("answer", values=values).status == statuses.SETTLED
    (outcome,) = bench.channel.outcomes
    (answer,) = outcome.answers
    assert answer.startswith(QUESTION["questions"][0]["question"][:20])
    assert answer.endswith(values["q0"])


def test_undo_at_a_terminal_is_shown_once_the_ledger_has_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.ask(command="npm test")
    bench.answer("always")
    bench.timers.turn(1)
    assert not bench.approvals.learn_undo(ID), "nothing was taken back"
    assert bench.channel.updates == []
    bench.ledger.note({"event": "undo", "id": ID})
    bench.ledger.flush()
    assert bench.approvals.learn_undo(ID) and not bench.approvals.learn_undo(ID)
    (outcome,) = bench.channel.updates
    assert outcome.undone == ("Bash(npm test)",) and not outcome.undoable


def test_undo_of_what_wrote_no_rule_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.approvals.undo(ID, "page").status == statuses.UNKNOWN
    bench.ask()
    assert bench.approvals.undo(ID, "page").status == statuses.REFUSED
    bench.answer("allow")
    assert bench.approvals.undo(ID, "page").status == statuses.REFUSED
    assert bench.approvals.undo(ID, "card").status == statuses.REFUSED


# At the desk.


def spoken(*texts: str, prompt: str = "fix the build\nplease") -> str:
    """A transcript: a prompt, and what Claude said since."""
    lines: list[Any] = [{"type": "user", "message": {"content": prompt}}]
    for text in texts:
        content = [{"type": "text", "text": text}]
        lines.append({"type": "assistant", "message": {"content": content}})
    return "".join(json.dumps(line) + "\n" for line in lines)


def called(command: str = "npm test") -> str:
    block = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "Bash",
        "input": {"command": command},
    }
    line = {"type": "assistant", "message": {"content": [block]}}
    return json.dumps(line) + "\n"


def ran(content: str = "done", is_error: bool = False) -> str:
    block = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": content,
        "is_error": is_error,
    }
    return json.dumps({"type": "user", "message": {"content": [block]}}) + "\n"


def typed(seconds_ago: float) -> str:
    """A prompt that a person typed, and the call that came of it."""
    moment = datetime.fromtimestamp(1_700_000_000.0 - seconds_ago, timezone.utc)
    prompt = {
        "type": "user",
        "message": {"content": "go"},
        "timestamp": moment.isoformat().replace("+00:00", "Z"),
    }
    return json.dumps(prompt) + "\n" + called()


# What next.

IDLE = {
    **{key: EVENT[key] for key in ("session_id", "transcript_path", "cwd")},
    "hook_event_name": "Notification",
    "notification_type": "idle_prompt",
    "last_assistant_message": "All 12 tests pass.",
}
OTHER = "1700000001-0123abcd"


@pytest.fixture
def waking(tmp_path: Path) -> Bench:
    return Bench(tmp_path, FEISHUPERM_NOTIFY="next,form")


def test_session_that_is_done_is_asked_about_for_half_a_day(waking: Bench) -> None:
    waiter = waking.bring(IDLE)
    assert waiter.frames == [(b"A", b"43200")]
    ((ask, _),) = waking.channel.asks
    assert (ask.kind, ask.seconds, ask.why) == ("next", 43200, "")
    assert ask.blocks[0].text == "All 12 tests pass."
    assert "不能用来批准任何操作" in ask.blocks[-1].text
    assert waking.answer("send", values={"text": " "}).status == statuses.INCOMPLETE
    assert waking.answer("send", values={"text": "go on"}).status == statuses.SETTLED
    assert json.loads(waiter.frames[-1][1]) == {"next": "go on"}
    assert waking.ledger.intents[-1]["reason"] == "go on"


def test_only_the_newest_of_a_session_waits(waking: Bench) -> None:
    old, new = waking.bring(IDLE), waking.bring(IDLE, OTHER)
    assert old.frames[-1] == (b"R", b"")
    assert new.frames[-1][0] == b"A"
    assert waking.request.state == states.GONE


def test_session_that_is_over_is_woken_by_nobody(waking: Bench) -> None:
    waiter, call = waking.bring(IDLE), waking.ask(id=OTHER)
    waking.approvals.session_over("another")
    waking.approvals.session_over("")
    assert waking.request.waits()
    waking.approvals.session_over(EVENT["session_id"])
    assert waiter.frames[-1] == (b"R", b"")
    assert call.frames[-1][0] == b"A"  # its own hook ends it
    assert waking.answer("send", values={"text": "x"}).status == statuses.ENDED


FORM = {
    **IDLE,
    "hook_event_name": "Elicitation",
    "mode": "form",
    "message": "?",
    "requested_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
}


@pytest.mark.parametrize(
    ("session", "seconds", "frame"),
    [(EVENT["session_id"], 0, b"R"), (EVENT["session_id"], 7, b"A"), ("x", 0, b"A")],
)
def test_form_is_left_to_who_has_just_answered_a_dialog_of_that_session(
    tmp_path: Path, session: str, seconds: float, frame: bytes
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(typed(60.0))
    bench = Bench(tmp_path, FEISHUPERM_NOTIFY="permission,form")
    bench.ask(command="npm test", transcript_path=str(path))
    bench.settle_transcript()
    with path.open("a") as file:
        file.write(ran())  # seen no sooner than the form comes
    if seconds:
        bench.timers.turn(1)
    bench.timers.turn(seconds)
    event = {**FORM, "session_id": session, "transcript_path": str(path)}
    assert bench.bring(event, OTHER).frames[-1][0] == frame


def test_card_that_holds_a_desk_leaves_soon_or_not_at_all(waking: Bench) -> None:
    waking.bring(FORM)
    waking.bring(IDLE, OTHER)
    (form, held), (idle, free) = waking.channel.asks
    assert held.until == form.created + 12
    assert free.until == idle.created + idle.seconds


def test_form_that_nothing_is_wrong_with_is_taken(waking: Bench) -> None:
    waiter = waking.bring(FORM)
    wrong = waking.answer("answer", values={"f0": "x"})
    assert (wrong.status, wrong.error) == (statuses.INCOMPLETE, "“n”应当是整数。")
    assert waking.request.waits()
    waking.answer("answer", values={"f0": "3"})
    said = json.loads(waiter.frames[-1][1])["hookSpecificOutput"]
    assert said["content"] == {"n": 3}


# What nobody can approve.


@pytest.mark.parametrize("plan", ["", " \n", None])
def test_plan_without_text_can_only_be_refused(bench: Bench, plan: str | None) -> None:
    waiter = bench.ask("ExitPlanMode", plan=plan, planFilePath="/p/x.md")
    names = sorted(offer.name for offer in bench.inbox.asks[0][0].actions)
    assert names == refusals("plan")
    assert bench.answer("approve").status == statuses.REFUSED
    assert bench.request.waits()
    assert bench.answer("deny").status == statuses.SETTLED
    assert waiter.decision()["behavior"] == "deny"


def test_rule_that_leaves_something_to_ask_says_so_before_and_after(
    bench: Bench,
) -> None:
    bench.ask(command="npm test > out.txt")
    ask = bench.inbox.asks[0][0]
    note = bench.presenter.say(
        "The command writes to a file by > or tee: even with the rule, Claude Code "
        "asks for that every time."
    )
    [always] = [offer for offer in ask.actions if offer.name == "always"]
    assert note in confirm_words(always, ask)
    card, _ = ask_card(ask, "nonce")
    web = build_permission_card(ask, lambda path, id: f"https://h{path}?id={id}")
    for drawn in (card, web):
        assert note in encode(drawn)
    receipt = bench.answer("always")
    assert note in receipt.outcome.lines
    assert bench.rules() == ["Bash(npm test > out.txt)"]


# Subagents: their sessions show no dialog while the hook waits.


def agent_asks(bench: Bench, path: Path, **fields: Any) -> Waiter:
    """A subagent's request, half a second after its card is out."""
    event = {**EVENT, "transcript_path": str(path), "agent_id": "a1", **fields}
    waiter = bench.bring({**event, "tool_input": {"command": "npm test"}})
    bench.timers.turn(0.5)
    bench.channel.asks[0][1].shown()
    return waiter


@pytest.mark.parametrize(
    ("settings", "denied"),
    [
        ({}, False),
        ({"PERMISSION_SUBAGENT_ACTION": "deny"}, True),
        (
            {
                "PERMISSION_SUBAGENT_ACTION": "deny",
                "PERMISSION_TIMEOUT_ACTION": "terminal",
            },
            False,
        ),
    ],
)
def test_subagent_is_never_denied_by_the_clock_unless_that_is_wanted(
    tmp_path: Path, settings: dict[str, str], denied: bool
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(typed(500.0))
    bench = Bench(tmp_path, **settings)
    waiter = agent_asks(bench, path)
    assert bench.channel.asks[0][0].at_zero == ("deny" if denied else "terminal")
    assert bench.channel.asks[0][0].seconds == 55
    bench.timers.turn(54.0)
    assert bench.request.waits()
    bench.timers.turn(2.0)
    assert bench.request.state == states.EXPIRED
    assert waiter.frames[-1][0] == (b"D" if denied else b"R")


def test_session_itself_is_denied_as_before(tmp_path: Path) -> None:
    """`claude --bg` too: its events name no agent."""
    path = tmp_path / "session.jsonl"
    path.write_text(typed(5.0))
    bench = Bench(tmp_path)
    waiter = agent_asks(bench, path, agent_id="")
    bench.timers.turn(56.0)
    assert waiter.frames[-1][0] == b"D"


@pytest.mark.parametrize("seconds_ago", [1.0, 119.0])
def test_subagent_is_given_back_soon_while_somebody_is_at_the_terminal(
    tmp_path: Path, seconds_ago: float
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(typed(seconds_ago))
    bench = Bench(tmp_path)
    waiter = agent_asks(bench, path)
    for ask, _ in (bench.inbox.asks[0], bench.channel.asks[0]):
        assert ask.seconds == 8 and ask.at_zero == "terminal"
        assert "8 秒后交回终端" in ask.facts[-1]
    bench.timers.turn(6.0)
    assert bench.request.waits()
    bench.timers.turn(1.5)
    assert waiter.frames[-1] == (b"R", b"")
    outcome = bench.presenter.outcome(bench.request)
    assert outcome.done == "已超时，交回终端"
    assert any("有人在这个会话的终端操作" in line for line in outcome.lines)


def test_subagent_is_given_back_when_somebody_comes_to_the_terminal(
    tmp_path: Path,
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(typed(500.0))
    bench = Bench(tmp_path)
    waiter = agent_asks(bench, path)
    bench.timers.turn(20.0)
    assert bench.request.waits() and bench.channel.asks[0][0].facts == ()
    path.write_text(typed(-20.0))
    bench.timers.turn(8.0)
    assert waiter.frames[-1] == (b"R", b"")


@pytest.mark.parametrize("held", [False, True])
def test_subagent_is_not_given_back_while_somebody_reads_it_elsewhere(
    tmp_path: Path, held: bool
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(typed(500.0))
    bench = Bench(tmp_path, PERMISSION_HOLD="100")
    agent_asks(bench, path)
    assert not held or bench.approvals.extend_deadline(ID)
    path.write_text(typed(-1.0))
    bench.timers.turn(20.0)
    assert bench.request.waits() is held


def test_session_without_a_terminal_gives_nothing_back_early(tmp_path: Path) -> None:
    """Its prompt is as young, but nobody typed it: `claude -p`."""
    path = tmp_path / "session.jsonl"
    prompt = json.loads(typed(1.0).splitlines()[0])
    line = json.dumps({**prompt, "entrypoint": "sdk-cli"}) + "\n"
    path.write_text(line)
    bench = Bench(tmp_path)
    agent_asks(bench, path)
    bench.timers.turn(50.0)
    assert bench.request.waits() and bench.channel.asks[0][0].seconds == 55


def test_dialog_answered_after_it_was_given_back_is_a_person(tmp_path: Path) -> None:
    """Who answers one dialog after the other is not locked out of the next one."""
    path = tmp_path / "session.jsonl"
    path.write_text(typed(100.0))
    (folder := tmp_path / "session" / "subagents").mkdir(parents=True)
    own = folder / "agent-a1.jsonl"
    own.write_text(called())
    bench = Bench(tmp_path)
    agent_asks(bench, path)
    bench.timers.turn(9.0)
    assert bench.request.is_given_back()
    bench.timers.turn(30.0)
    with own.open("a") as file:
        file.write(ran())
    bench.settle_transcript()
    assert bench.approvals._answered[EVENT["session_id"]] > 0
    bench.timers.turn(60.0)  # three minutes after the prompt
    event = {**EVENT, "transcript_path": str(path), "agent_id": "a1"}
    bench.bring(event, "1700000002-0123abcd")
    assert bench.inbox.asks[-1][0].seconds == 8
