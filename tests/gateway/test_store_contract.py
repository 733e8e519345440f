"""What both stores promise: one test for each operation, over a file and over Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.store import OpenCard, Shown
from feishuperm.gateway.store import (
    SEEN_SECONDS,
    FileStore,
    Joining,
    Location,
    Machine,
    TapFacts,
)
from feishuperm.models.ask import to_plain
from tests.conftest import wait_until
from tests.gateway.parts import done, make_ask
from tests.gateway.test_redis_real import Running
from tests.gateways import RedisServer

OWNER = "ou_owner"
MACHINE = Machine("m-1", "box", OWNER, key="ab" * 32, created=5.0)
OTHER = Machine("m-2", "tower", "ou_other", key="cd" * 32, created=3.0)
HERE = Location("r1", "p1", "i1", "192.0.2.7", 9.0)
JOINING = Joining("j1", "r1", "box", "me", "192.0.2.7")
CARD = OpenCard(make_ask(), "nonce", machine="m-1", owner=OWNER)
TAP = {"tap": "t1", "machine": "m-1", "at": 5.0}


class Both:
    """A store of either kind, whose operations are called as if they were at once."""

    def __init__(self, store: Any, do: Callable[[Callable[[], Any]], Any]) -> None:
        self.store = store
        self._do = do
        self.heard: list[dict[str, Any]] = []
        store.listen(self.heard.append)

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.store, name)
        return lambda *parts: self._do(lambda: operation(*parts))

    def told(self, kind: str) -> list[dict[str, Any]]:
        """Entries of the bus, once they have come."""
        wait_until(lambda: any(entry["k"] == kind for entry in self.heard), 10)
        return [
            {name: part for name, part in entry.items() if name not in "ek"}
            for entry in self.heard
            if entry["k"] == kind
        ]


@pytest.fixture(params=["file", pytest.param("redis", marks=pytest.mark.redis)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Both]:
    if request.param == "file":
        made = FileStore("cli_x", str(tmp_path / "e"))
        made.start()
        yield Both(made, lambda operation: done(operation()))
        return
    with (
        RedisServer(tmp_path / "redis") as redis,
        Running(f"redis://127.0.0.1:{redis.port}") as running,
    ):
        running.ready()
        yield Both(running.store, running.run)


def test_machine_is_enrolled_renamed_and_revoked_for_good(store: Both) -> None:
    assert store.machine("m-1") is None and store.machines() == []
    store.put_machine(MACHINE)
    store.put_machine(OTHER)
    assert store.machine("m-1") == MACHINE
    assert store.machines() == [OTHER, MACHINE], "the oldest first"
    named = MACHINE._replace(name="desk")
    store.rename_machine(named)
    assert store.told("renamed") == [{"machine": "m-1", "name": "desk"}]
    store.put_tap(TAP)
    assert not store.is_revoked("m-1")
    store.revoke_machine("m-1")
    store.put_machine(MACHINE)  # by a replica that had read it before
    store.put_shown("m-1", Shown("k", "om_1", session="s"))  # a card that was changed
    assert store.shown("m-1") == []
    assert store.machine("m-1") is None and store.is_revoked("m-1")
    assert store.machines() == [OTHER] and store.kept_taps("m-1") == {}
    assert store.told("revoked") == [{"machine": "m-1"}]


def test_login_keeps_key_and_location_and_tells_the_others(store: Both) -> None:
    assert store.location("m-1") is None
    assert store.log_in(MACHINE, HERE) is True
    assert store.machine("m-1") == MACHINE and store.location("m-1") == HERE
    assert store.log_in(MACHINE, HERE, True) is True
    entry = {"machine": "m-1", "peer": "p1", "restarted": False}
    assert store.told("login") == [entry, {**entry, "restarted": True}]
    left = HERE._replace(replica="", since=10.0)
    store.put_location("m-1", left)
    store.put_card(CARD)
    assert store.census(["m-1", "m-2"]) == [(left, 1), (None, 0)]
    store.revoke_machine("m-1")
    assert store.location("m-1") is None
    assert store.log_in(MACHINE, HERE) is False, "revoked meanwhile"


def test_signs_of_life_tell_who_lives_and_who_has_feishu(store: Both) -> None:
    now, holder = store.sign("r1", False)
    assert now > 1_600_000_000 and holder == ""
    store.sign("r2", True)
    assert store.sign("r1", False)[1] == "r2"
    assert store.alive(["r1", "r2", "r3", ""]) == {"r1", "r2"}
    store.sign_off("r1")
    assert store.alive(["r1", "r2"]) == {"r2"} and store.alive([]) == set()


def test_warning_is_due_once_in_a_while(store: Both) -> None:
    due = [store.may_warn(name) for name in ("m-1", "m-1", "m-2")]
    assert due == [True, False, True]


def test_code_belongs_to_one_machine_and_is_spent_once(store: Both) -> None:
    assert store.open_code("123456", JOINING)
    assert not store.open_code("123456", JOINING)
    assert store.try_code("123456", OWNER) == (1, 0, JOINING)
    assert store.spend_code("123456", OWNER) is True
    assert store.spend_code("123456", OWNER) is False
    assert store.open_code("123456", JOINING)
    store.drop_code("123456")
    assert store.try_code("123456", OWNER)[2] is None


def test_tries_are_counted_by_person_and_wrong_codes_in_all(store: Both) -> None:
    tries = [store.try_code("000000", who)[0] for who in (OWNER, OWNER, "ou_b")]
    assert tries == [1, 2, 1]
    store.count_wrong_code(OWNER)
    store.count_wrong_code("ou_b")
    assert store.try_code("000000", OWNER) == (3, 2, None)


def test_card_about_a_machine_is_answered_once(store: Both) -> None:
    assert store.asked("j1") is None
    store.put_asked(JOINING._replace(who=OWNER))
    assert store.asked("j1").who == OWNER
    assert store.spend_asked("j1") is True and store.spend_asked("j1") is False
    counts = [store.count_asked(who) for who in ("a", "a", "b")]
    assert counts == [(True, 1), (False, 2), (True, 3)]
    store.tell_joined("j1", MACHINE)
    assert store.told("joined") == [{"join": "j1", "machine": to_plain(MACHINE)}]


def test_card_is_found_by_its_request_and_by_its_message(store: Both) -> None:
    assert store.card("m-1", CARD.ask.id) is None
    store.put_card(CARD)
    assert store.card("m-1", CARD.ask.id) == CARD
    out = CARD._replace(message_id="om_1", grants=True)
    store.put_card(out)
    assert store.cards_of("m-1") == [out] and store.cards_of("m-2") == []
    assert store.card_of_message("om_1") == out
    assert store.card_of_message("om_2") is None
    store.drop_card("m-1", CARD.ask.id)
    assert store.cards_of("m-1") == [] and store.card_of_message("om_1") is None


def test_records_are_kept_within_their_budget(
    store: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feishuperm.gateway.store.MAX_RECORDS", 3_000)
    large = [
        CARD._replace(ask=make_ask(id=f"1-{n}", rule_note="x" * 1_500))
        for n in range(2)
    ]
    for card in large:
        store.put_record(card)
    assert store.record("m-1", "1-0") == large[0]
    assert store.record("m-1", "1-1") is None, "too much of this machine"
    store.put_record(CARD._replace(machine="m-2"))
    assert store.record("m-2", CARD.ask.id).machine == "m-2"


def test_event_is_new_once_and_carried_with_its_tap(store: Both) -> None:
    assert store.is_new_event("e0") and not store.is_new_event("e0")
    nothing = TapFacts(True, False, None, None, None)
    assert store.tap_facts("e1", "m-1", CARD.ask.id) == nothing
    store.log_in(MACHINE, HERE)
    store.put_card(CARD)
    facts = TapFacts(False, False, CARD, MACHINE, HERE)
    assert store.tap_facts("e1", "m-1", CARD.ask.id) == facts
    store.put_tap(TAP, "e1")
    assert store.tap_facts("e1", "m-1", CARD.ask.id).is_carried
    store.revoke_machine("m-1")
    assert store.tap_facts("e2", "m-1", CARD.ask.id).machine is None


def test_tap_is_kept_until_it_is_judged(store: Both) -> None:
    store.put_tap(TAP)
    assert store.told("tap") == [{"tap": TAP}]
    assert store.kept_taps("m-1") == {"t1": TAP}
    store.note_sent(TAP)
    assert store.told("sent") == [{"tap": "t1"}]
    assert store.kept_taps("m-1") == {"t1": {**TAP, "sent": True}}
    store.tell_receipt("m-1", "t1", {"status": "settled"})
    receipt = {"tap": "t1", "receipt": {"status": "settled"}}
    assert store.told("receipt") == [receipt] and store.kept_taps("m-1") == {}
    store.put_tap(TAP)
    store.drop_tap("m-1", "t1")
    assert store.kept_taps("m-1") == {}


@pytest.mark.redis
def test_keys_of_redis_are_those_of_other_versions_and_end(tmp_path: Path) -> None:
    """Replicas of two versions may run beside each other."""
    with (
        RedisServer(tmp_path / "redis") as redis,
        Running(f"redis://127.0.0.1:{redis.port}") as running,
    ):
        running.ready()
        both = Both(running.store, running.run)
        both.log_in(MACHINE, HERE)
        both.sign("r1", True)
        both.put_card(CARD._replace(message_id="om_1"))
        both.put_record(CARD)
        both.put_tap(TAP, "e1")
        both.open_code("123456", JOINING)
        both.put_asked(JOINING)
        both.try_code("000000", OWNER)
        both.count_wrong_code(OWNER)
        both.count_asked(OWNER)
        both.may_warn("m-1")
        both.revoke_machine("m-9")
        (names,) = running.run(running.do(("KEYS", "*")))
        rest = {name.decode().removeprefix("fp:cli_x:") for name in names}
        code = next(name for name in rest if name.startswith("code:"))
        lasting = {"machines", "revoked", "at", "cards:m-1", "taps:m-1", "bus"}
        brief = {
            "alive:r1", "feishu", f"record:m-1:{CARD.ask.id}", "recorded:m-1",
            "message:om_1", "seen:e1", code, "join:j1", "wrong", f"wrong:{OWNER}",
            "asked", f"asked:{OWNER}", "twice:m-1",
        }  # fmt: skip
        assert rest == lasting | brief and "123456" not in code
        keys = sorted(rest)
        ends = running.run(running.do(*(("TTL", f"fp:cli_x:{key}") for key in keys)))
        assert {key for key, end in zip(keys, ends) if end == -1} == lasting
        assert all(end <= 86400 for end in ends) and SEEN_SECONDS in ends
