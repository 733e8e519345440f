"""An app channel between fakes: no thread, no socket, a clock to turn."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from feishuperm.app.api import AppApi, Result
from feishuperm.channels.app import AppChannel, CardStore, People
from feishuperm.channels.base import (
    ApprovalsPort,
    BareApprovals,
    BareSessions,
    SessionsPort,
    bare_ask,
)
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Ask, Outcome, Receipt, fit
from feishuperm.services.presenter import BRIEF
from tests.fakes.feishu import check_card, every_element
from tests.ports import FakeApprovals, FakeReports, chat_of
from tests.services.test_approvals import Timers
from tests.services.test_presenter import brief

OWNER, STRANGER = "ou_owner1", "ou_stranger"
START = 1_700_000_000.0
Json = dict[str, Any]


class Delivery(NamedTuple):
    payload: bytes


class Api:
    """Takes calls down; refuses when told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.cards: dict[str, Json] = {}  # as they look now
        self.sent: dict[str, str] = {}  # uuid -> message id
        self.replies: list[Json] = []  # cards below a text
        self.texts: list[tuple[str, str]] = []
        self.files: list[bytes] = []
        self.receivers: list[str] = []
        self.pins: list[tuple[bool, list[str]]] = []
        self.pin_answers: list[Result] = []
        self.refuses = False
        self.is_busy = False
        self.asked: list[str] = []
        self.about: dict[str, Json] = {}  # path -> data
        self.while_sending: Callable[[], object] = lambda: None

    def _result(self, **data: str) -> Result:
        if self.is_busy:
            return Result(False, 1, "busy", retry=True)
        if self.refuses:
            return Result(False, 230013, "not available")
        return Result(True, 0, "", data=data)

    def send(self, receiver: str, card: Json, uuid: str, kind: str = "") -> Result:
        check_card(card, webhook=False)
        id = self.sent.get(uuid) or f"om_{len(self.sent) + 1}"
        self.receivers.append(receiver)
        self.calls.append(("send", id))
        if not self.refuses and uuid not in self.sent:
            self.sent[uuid] = id
            self.cards[id] = card
        self.while_sending()
        return self._result(message_id=id)

    def update(self, message_id: str, card: Json) -> Result:
        check_card(card, webhook=False)
        assert message_id
        self.calls.append(("update", message_id))
        self.cards[message_id] = card
        return self._result()

    def reply(
        self, message_id: str, content: Json, uuid: str, kind: str = "interactive"
    ) -> Result:
        self.calls.append(("reply", message_id, kind))
        if kind == "interactive":
            check_card(content, webhook=False)
            self.replies.append(content)
        if kind == "text":
            self.texts.append((message_id, content["text"]))
        return self._result(message_id="om_reply")

    def upload(self, name: str, data: bytes) -> Result:
        self.files.append(data)
        return self._result(file_key="file_1")

    def request(self, method: str, path: str) -> Result:
        self.asked.append(path)
        data = self.about.get(path.partition("?")[0])
        return Result(data is not None, 0 if data else 404, "", data=data or {})

    def problem(self, key: str, **values: object) -> str:
        return AppApi("cli_1", "s", "https://open.feishu.cn").problem(key, **values)

    def console(self, page: str) -> str:
        return f"https://open.feishu.cn/app/cli_1/{page}"

    def pin(self, people: list[str], is_up: bool) -> Result:
        self.pins.append((is_up, people))
        return self.pin_answers.pop(0) if self.pin_answers else Result(True, 0, "")

    def urge(self, message_id: str, who: str) -> Result:
        self.calls.append(("urge", message_id, who))
        return self._result()


class Line:
    """A long connection that is up."""

    def __init__(self) -> None:
        self.state, self.detail, self.since = "up", "", START
        self.changed: Callable[[], object] = lambda: None
        self.sent = 0
        self.settled = 0
        self.is_watched = False

    def start(self) -> None: ...

    def close(self) -> None: ...

    def of(self, changed: Callable[[], object]) -> Line:
        self.changed = changed
        return self

    def enter(self, state: str, detail: str = "") -> None:
        self.state, self.detail = state, detail
        self.changed()

    def watch(self, is_card_out: bool) -> None:
        self.sent += is_card_out
        self.settled += not is_card_out
        self.is_watched = is_card_out


class Bench(FakeApprovals):
    """One channel and everything around it, the approvals included."""

    def __init__(
        self,
        folder: Path,
        bare: bool = False,
        sessions: SessionsPort | None = None,
        owners: tuple[str, ...] = (OWNER,),
        **options: Any,
    ) -> None:
        self.folder = folder
        self.sessions = sessions or chat_of(BareApprovals(self, "zh") if bare else self)
        self.owners = frozenset(owners)
        self.bare = bare  # cards are titles
        self.options = options
        self.api = Api()
        self.timers = Timers()
        self.asks: dict[str, Ask] = {}  # those that wait, whole
        self.outcomes: dict[str, Outcome] = {}
        self.answers: list[Answer] = []
        self.refused: list[tuple[str, str, str]] = []
        self.reports = FakeReports(self.is_pending)
        self.done = self.reports.done
        self.rules: list[list[str]] = []  # that could be undone
        self.undo_error = ""
        self.revoked: list[str] = []  # passes
        self.passes: list[tuple[str, str, str]] = []
        self.stand_ins: list[str] | None = None  # ids left to another channel
        self.replied: Receipt | None = None  # to every answer, if not what it did
        self.events = 0
        self.receivers = self.api.receivers
        self.has_receipts = False
        self.seen: dict[str, float] = {}  # requests whose cards were read
        self.night = (0.0, 0.0)  # quiet hours, from START on
        self.start()

    def start(self) -> None:
        """A server starts; the one before is gone."""
        self.line = Line()
        port: ApprovalsPort = BareApprovals(self, "zh") if self.bare else self
        self.channel = AppChannel(
            self.api,  # type: ignore[arg-type]
            People(OWNER, self.owners),
            port,
            BareSessions(self.sessions, "zh") if self.bare else self.sessions,
            CardStore(str(self.folder / "cards")),
            lambda deliver, changed: self.line.of(changed),
            lambda fn: fn(),
            lambda seconds, fn: self.timers.call_at(self.timers.time + seconds, fn),
            clock=lambda: self.timers.time,
            wall=lambda: START + self.timers.time,
            **self.options,
        )
        for box in (self.channel.sender.cards, self.channel.sender.changes):
            box._clock = lambda: self.timers.time

    # The approvals.

    def is_pending(self, id: str) -> bool:
        return id in self.asks

    def ask(self, id: str) -> Ask | None:
        ask = self.asks.get(id)
        return fit(ask, BRIEF) if ask else None

    def whole(self, id: str, most: int, then: Callable[[Ask], object]) -> bool:
        if id in self.asks:
            then(self.asks[id])
        return id in self.asks

    def outcome(self, id: str) -> Outcome | None:
        return self.outcomes.get(id)

    def note_refused(self, id: str, action: str, who: str) -> None:
        self.refused.append((id, action, who))

    def note_seen(self, ids: Iterable[str], at: float) -> None:
        self.has_receipts = True
        self.seen.update(dict.fromkeys(ids, at))

    def quiet_hours(self) -> tuple[float, float]:
        begin, end = self.night
        return START + begin, START + end

    def end_quiet(self) -> bool:
        begin, end = self.night
        self.night = (0.0, 0.0)
        return begin <= self.timers.time < end

    def status(self) -> list[tuple[str, str]]:
        return [(ask.title, ask.summary) for ask in self.asks.values()]

    def pass_rows(self) -> list[tuple[str, str, str]]:
        return self.passes

    def revoke_passes(self, id: str, surface: str, who: str = "") -> list[str]:
        self.revoked.append(id)
        return [id]

    def undo_last(self, who: str, then: Callable[[list[str], str], object]) -> None:
        then(self.rules.pop() if self.rules else [], self.undo_error)

    def answer(self, answer: Answer) -> Receipt:
        self.answers.append(answer)
        if self.replied is not None:
            return self.replied
        ask = self.asks.get(answer.id)
        if ask is None:
            outcome = self.outcomes.get(answer.id)
            if outcome is None:
                return Receipt(statuses.UNKNOWN)
            return Receipt(statuses.ENDED, outcome)
        if answer.digest != ask.digest:
            return Receipt(statuses.REFUSED, error="other")
        outcome = self.end(answer.id, answer.action, "card", answer.who)
        return Receipt(statuses.SETTLED, outcome)

    def seconds_left(self, id: str) -> int:
        ask = self.asks.get(id)
        ends = ask.created + ask.seconds if ask else 0.0
        return max(0, math.ceil(ends - START - self.timers.time))

    def extend_deadline(self, id: str, who: str = "") -> bool:
        ask = self.asks.get(id)
        if ask is not None and ask.hold:
            self.asks[id] = ask._replace(hold=False, seconds=ask.seconds + 600)
            self.channel.renew()
        return ask is not None and ask.hold

    def end(
        self, id: str, action: str = "", surface: str = "", who: str = ""
    ) -> Outcome:
        """A request ends, here or elsewhere."""
        ask = self.asks.pop(id)
        outcome = Outcome(
            id, ask.kind, "zh", "allowed", action, surface, who, START, f"done {action}"
        )
        self.outcomes[id] = outcome
        self.channel.settle(outcome.bare() if self.bare else outcome)
        return outcome

    # A session.

    def bring(self, id: str = "1-00000001", **tool_input: Any) -> Ask:
        """A request that is pending."""
        made = brief(**(tool_input or {"command": f"npm run {id}"}))
        made = made._replace(id=id, digest=f"d-{id}", created=START + self.timers.time)
        return self.announce(made)

    def announce(self, made: Ask) -> Ask:
        self.asks[made.id] = made
        if self.stand_ins is not None:
            self.reports.stood_in = self.stand_ins
        told = self.reports.announcement(
            made.id,
            made.created + made.seconds,
            has_stand_in=self.stand_ins is not None,
        )
        self.channel.announce(bare_ask(made) if self.bare else made, told)
        self.pump()
        return made

    def turn(self, seconds: float) -> None:
        self.timers.turn(seconds)
        self.pump()

    def pump(self) -> None:
        """Let the outboxes send what they may."""
        for box in (self.channel.sender.cards, self.channel.sender.changes):
            for _ in range(100):
                wait = box.step()
                if wait is None:
                    break
                self.timers.time += wait

    # A phone.

    def buttons(self, message_id: str) -> dict[str, Json]:
        """Action and request -> value, of every button that answers one."""
        values = [value for value in self.values(message_id) if "action" in value]
        return {f"{value['action']} {value['id']}": value for value in values}

    def values(self, message_id: str) -> list[Json]:
        """Of every button that calls back."""
        return [
            element["behaviors"][0]["value"]
            for element in every_element(self.api.cards[message_id]["body"])
            if element["tag"] == "button"
        ]

    def tap(self, message_id: str, action: str, **options: Any) -> Json:
        """Tap the first button of this action, whatever its request."""
        found = self.buttons(message_id)
        key = next(key for key in found if key.startswith(action))
        return self.act(message_id, found[key], **options)

    def act(
        self, message_id: str, value: Json, who: str = OWNER, event_id: str = "",
        form: Json | None = None,
    ) -> Json:  # fmt: skip
        (reply,) = self.press(message_id, value, who, event_id, form)
        if "card" in reply:
            check_card(reply["card"]["data"], webhook=False)
        return reply

    def press(
        self, message_id: str, value: Json, who: str = OWNER, event_id: str = "",
        form: Json | None = None,
    ) -> list[Json]:  # fmt: skip
        """Tap; its answer is in the list once it is there."""
        self.events += 1
        header = {
            "event_type": "card.action.trigger",
            "event_id": event_id or f"e{self.events}",
        }
        event = {
            "operator": {"open_id": who},
            "action": {"value": value, "form_value": form or {}},
            "context": {"open_message_id": message_id},
        }
        return self._deliver({"header": header, "event": event})

    def say(self, text: str, parent: str = "", who: str = OWNER, **message: Any) -> str:
        """Write to the bot; what it says back, or nothing."""
        self.events += 1
        before = len(self.api.texts)
        content = {
            "message_id": f"om_t{self.events}", "parent_id": parent,
            "message_type": "text", "content": json.dumps({"text": text}), **message,
        }  # fmt: skip
        sender = {"sender_type": "user", "sender_id": {"open_id": who}}
        header = {"event_type": "im.message.receive_v1"}
        event = {"sender": sender, "message": content}
        assert self.deliver({"header": header, "event": event}) == {}
        self.pump()
        told = self.api.texts[before:]
        return told[0][1] if told else ""

    def _deliver(self, event: object) -> list[Json]:
        replies: list[Json] = []
        payload = json.dumps(event).encode()
        self.channel.deliver(
            Delivery(payload), lambda reply: bool(replies.append(reply) or True)
        )
        return replies

    def read(self, *ids: str, who: str = OWNER, ago: float = 0.0) -> None:
        """Messages of the bot were read."""
        moment = str(int((START + self.timers.time - ago) * 1000))
        reader = {"reader_id": {"open_id": who}, "read_time": moment}
        header = {"event_type": "im.message.message_read_v1"}
        event = {"reader": reader, "message_id_list": list(ids)}
        assert self.deliver({"header": header, "event": event}) == {}

    def deliver(self, event: object) -> Json:
        (reply,) = self._deliver(event)
        return reply
