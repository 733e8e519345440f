"""A request ends exactly once, whatever ends it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from feishuperm.models.request import TRANSITIONS, WAITING, Request
from tests.asks import make_ask
from tests.fakes.hook_server import EVENT
from tests.tables import every_row

ENDS = sorted(TRANSITIONS[WAITING])


def make() -> Request:
    return Request("1-0", EVENT, "Bash", "/p", created=100.0, deadline=155.0)


def test_new_request_waits_undecided() -> None:
    request = make()
    assert request.waits()
    assert (request.decision, request.shown, request.ended) == (None, False, 0.0)
    assert request.payload().tool_input == {"command": "npm run build"}


@every_row("first", ENDS)
@every_row("second", [*ENDS, WAITING])
def test_every_end_is_final(first: str, second: str) -> None:
    request = make()
    assert request.end(first, 120.0) is True
    assert request.end(second, 130.0) is False
    assert (request.state, request.ended, request.waits()) == (first, 120.0, False)


@given(st.lists(st.sampled_from([*ENDS, WAITING]), min_size=1))
def test_of_many_ends_the_first_real_one_wins(states: list[str]) -> None:
    request = make()
    won = [state for state in states if request.end(state, 1.0)]
    assert won == [state for state in states if state != WAITING][:1]


def test_table_names_every_state_once_and_only_waiting_goes_on() -> None:
    assert set(TRANSITIONS) == {WAITING, *ENDS}
    assert [state for state, following in TRANSITIONS.items() if following] == [WAITING]


def test_unknown_state_is_no_end() -> None:
    request = make()
    assert request.end("nonsense", 1.0) is False
    assert request.waits()


def test_request_holds_its_ask_in_few_bytes_and_gives_it_back_as_it_is_now() -> None:
    first, second = (Request(f"1-{n}", b"{}", "Bash", "/p", 1.0) for n in "ab")
    ask = make_ask()._replace(branch="half \ud83d", hold=True, seconds=0)
    assert first.ask() is None and first.masked and first.veiled
    whole = first.keep_ask(ask)
    second.keep_ask(ask._replace(id="1-b"), whole)
    for request in (first, second):
        request.seconds = 55
        held = request.ask()
        assert held == ask._replace(id=held.id, seconds=55)
        assert (request.masked, request.veiled) == (False, False)
    assert len(second._ask) < 100 < len(whole)
    second.why, second.prompt = "because", "the task"
    second.extend(300)
    held = second.ask()
    assert held is not None and (held.why, held.prompt) == ("because", "the task")
    assert (held.seconds, held.hold) == (355, False)
    second.forget_words()
    assert second.ask() is None and second.raw == b""


def test_request_that_is_not_shown_whole_is_for_no_pass() -> None:
    for change in ({"masked": True}, {"veiled": True}, {"cut": 1}):
        request = Request("1-a", b"{}", "Bash", "/p", 1.0)
        request.passable = True
        request.keep_ask(make_ask(**change))
        assert not request.passable
