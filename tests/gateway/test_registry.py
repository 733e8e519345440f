"""Who is enrolled: names, codes, and how often one may guess or ask."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from feishuperm.errors import PayloadError
from feishuperm.gateway.machines import (
    ASKED_ALL,
    CODE_TRIES,
    WRONG_EACH,
    Pairing,
    clean_name,
)
from feishuperm.gateway.store import FileStore, Joining, Machine, person, read
from tests.gateway.parts import OTHER, OWNER, Bench, Clock, done
from tests.tables import every_row

JOINING = Joining("j1", "r1", "box", "me", "192.0.2.7")


@pytest.fixture
def registry(tmp_path: Path, clock: Clock) -> Pairing:
    store = FileStore("cli_x", str(tmp_path / "e"), clock)
    store.start()
    return Bench(store, clock).hub.pairing


def enrol(registry: Pairing, name: str = "box", owner: str = OWNER) -> Machine:
    machine: Machine = done(registry.enrol(JOINING._replace(name=name), owner, ""))
    done(registry._hub.store.put_machine(machine))
    return machine


def test_enrolment_holds_once_it_is_put(registry: Pairing) -> None:
    machine = done(registry.enrol(JOINING, OWNER, "Wang"))
    assert done(registry._hub.store.machine(machine.id)) is None
    done(registry._hub.store.put_machine(machine))
    assert done(registry._hub.store.machine(machine.id)) == machine
    assert (machine.owner, machine.owner_name, machine.user) == (OWNER, "Wang", "me")
    assert len(bytes.fromhex(machine.key)) == 32
    assert enrol(registry).key != machine.key


def test_machines_of_one_person_have_names_of_their_own(registry: Pairing) -> None:
    first, second = enrol(registry), enrol(registry)
    other = enrol(registry, owner=OTHER)
    assert (first.name, second.name, other.name) == ("box", "box-2", "box")
    assert done(registry.rename(second.id, "box")).name == "box-2"
    assert done(registry.rename(first.id, "box")).name == "box", "it has it already"
    assert done(registry.rename("m-none", "x")) is None


def test_revoked_machine_stays_out_even_if_it_is_written_again(
    registry: Pairing,
) -> None:
    machine, other = enrol(registry), enrol(registry)
    assert done(registry._hub.revoke(machine.id, "me")) == machine
    done(registry._hub.store.put_machine(machine))
    assert done(registry._hub.store.machine(machine.id)) is None
    assert done(registry._hub.store.machines()) == [other]
    assert done(registry.rename(machine.id, "x")) is None
    assert done(registry._hub.revoke(machine.id, "me")) is None


def test_list_of_owners_says_who_may_join(registry: Pairing) -> None:
    assert registry.may_join(OTHER)
    strict = Pairing(registry._hub, frozenset((OWNER,)))
    assert strict.may_join(OWNER) and not strict.may_join(OTHER)


def test_code_is_kept_as_a_hash_and_is_good_once(
    registry: Pairing,
) -> None:
    code = done(registry.open_code(JOINING))
    assert code.isdigit() and len(code) == 6
    keys = registry._hub.store._texts  # type: ignore[attr-defined]
    assert keys and not any(code in key for key in keys)
    assert done(registry.spend_code(code, OWNER)) == JOINING
    assert (
        done(registry.spend_code(code, OWNER))
        == "No machine shows this code, or it has expired"
    )


def test_dropped_code_and_old_code_are_wrong(registry: Pairing, clock: Clock) -> None:
    code = done(registry.open_code(JOINING))
    done(registry._hub.store.drop_code(code))
    assert (
        done(registry.spend_code(code, OWNER))
        == "No machine shows this code, or it has expired"
    )
    code = done(registry.open_code(JOINING))
    clock.turn(601)
    assert (
        done(registry.spend_code(code, OWNER))
        == "No machine shows this code, or it has expired"
    )


def test_code_that_another_machine_has_is_not_given_twice(
    registry: Pairing, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter([7, 7, 8])
    monkeypatch.setattr(secrets, "randbelow", lambda most: next(numbers))
    assert done(registry.open_code(JOINING)) == "000007"
    assert done(registry.open_code(JOINING)) == "000008"
    monkeypatch.setattr(secrets, "randbelow", lambda most: 8)
    with pytest.raises(PayloadError, match="too many"):
        done(registry.open_code(JOINING))
    assert CODE_TRIES > 1


def test_right_code_is_no_guess_and_costs_nothing(registry: Pairing) -> None:
    for _ in range(WRONG_EACH * 2):
        code = done(registry.open_code(JOINING))
        assert done(registry.spend_code(code, OWNER)) == JOINING


def test_guesses_are_counted_per_person_and_forgotten_after_a_while(
    registry: Pairing, clock: Clock
) -> None:
    code = done(registry.open_code(JOINING))
    wrong = f"{(int(code) + 1) % 10**6:06d}"
    for _ in range(WRONG_EACH):
        assert (
            done(registry.spend_code(wrong, OTHER))
            == "No machine shows this code, or it has expired"
        )
    assert (
        done(registry.spend_code(code, OTHER))
        == "Too many wrong codes: try again in ten minutes"
    )
    clock.turn(601)
    code = done(registry.open_code(JOINING))
    assert done(registry.spend_code(code, OTHER)) == JOINING


def test_answer_to_a_card_counts_once(registry: Pairing, clock: Clock) -> None:
    done(registry.ask(JOINING, OWNER))
    asked = done(registry._hub.store.asked("j1"))
    assert (asked.who, bool(asked.nonce)) == (OWNER, True)
    assert done(registry._hub.store.spend_asked("j1")) and not done(
        registry._hub.store.spend_asked("j1")
    )
    assert done(registry._hub.store.asked("j1")) is None
    done(registry.ask(JOINING, OWNER))
    clock.turn(601)
    assert done(registry._hub.store.asked("j1")) is None


def test_nobody_is_flooded_with_cards_they_did_not_ask_for(
    registry: Pairing, clock: Clock
) -> None:
    assert done(registry.may_ask("Boss@example.com"))
    assert not done(registry.may_ask("boss@EXAMPLE.com")), "the same person"
    allowed = [done(registry.may_ask(f"ou_{number}")) for number in range(40)]
    assert sum(allowed) < ASKED_ALL
    clock.turn(61)
    assert done(registry.may_ask("boss@example.com"))


@every_row("raw", [None, 7, "text", "", "[]", b"", b"[]", b"{", b"[" * 10_000])
def test_what_the_store_should_not_hold_reads_as_nothing(raw: object) -> None:
    assert read(Machine, raw) is None


@every_row(
    ("given", "name"),
    [("box", "box"), (" a\nb ", "a b"), ("", "machine"), (7, "machine")],
)
def test_name_fits_on_a_card(given: object, name: str) -> None:
    assert clean_name(given) == name
    assert len(clean_name("x" * 500)) <= 41


def test_person_without_a_name_is_told_by_the_end_of_their_id() -> None:
    assert person("ou_0123456789") == "…456789" and person("") == ""
