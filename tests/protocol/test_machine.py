"""Machine and gateway: proofs, messages, liveness, and what ends a connection."""

from __future__ import annotations

from feishuperm.protocol.machine import (
    DEAD_SECONDS,
    EARLY_MESSAGE,
    PING_SECONDS,
    POLICY,
    MachineWire,
    is_proof,
    prove,
)
from tests.tables import every_row


def pair() -> tuple[MachineWire, MachineWire]:
    return MachineWire(True, 0.0), MachineWire(False, 0.0)


def test_proof_is_the_one_of_the_published_vector() -> None:
    parts = ("feishuperm tap v1", "m-01", "1794814672-0a1b2c3d", "allow")
    proof = prove(bytes(range(32)), *parts, "0011223344556677")
    assert proof == "752d0205b26e752665e2dfb2b9248a5f1162f2eb5f6fc0ff9dd4dfdc430ec9c6"


def test_parts_cannot_be_cut_differently() -> None:
    key = b"k" * 32
    assert prove(key, "ab", "c") != prove(key, "a", "bc")


@every_row("proof", [None, "", 7, "é", [], "00" * 32])
def test_anything_else_is_no_proof(proof: object) -> None:
    assert not is_proof(proof, b"k" * 32, "a")
    assert not is_proof(prove(b"", "a"), b"", "a"), "no key proves nothing"


def test_message_arrives_as_it_was_sent() -> None:
    machine, gateway = pair()
    machine.send("login", machine="m-1", text="一\ud800")
    gateway.receive_data(machine.data_to_send(), 1.0)
    assert gateway.next_event() == {"t": "login", "machine": "m-1", "text": "一?"}
    gateway.send("hello", nonce="n")
    machine.receive_data(gateway.data_to_send(), 1.0)
    assert machine.next_event() == {"t": "hello", "nonce": "n"}


def test_gateway_pings_and_the_machine_answers() -> None:
    machine, gateway = pair()
    gateway.tick(PING_SECONDS)
    machine.receive_data(gateway.data_to_send(), PING_SECONDS)
    assert machine.next_event() is None
    gateway.receive_data(machine.data_to_send(), PING_SECONDS)
    assert gateway.next_event() is None
    gateway.tick(PING_SECONDS + DEAD_SECONDS - 1)
    assert not gateway.trouble


@every_row("client", [True, False])
def test_silence_is_the_end(client: bool) -> None:
    wire = MachineWire(client, 0.0)
    wire.tick(DEAD_SECONDS + 1)
    assert wire.trouble


def test_machine_that_slept_starts_anew() -> None:
    """What was sent to it meanwhile lies in its socket, and must not be applied."""
    machine = MachineWire(True, 0.0, 1000.0)
    machine.tick(5.0, 1005.0)
    assert not machine.trouble
    machine.tick(10.0, 1100.0)
    assert machine.trouble == "this machine slept"


@every_row("data", [b"[]", b"{}", b'{"t": 1}', b"\xff", b"[" * 9000])
def test_what_is_no_message_ends_it(data: bytes) -> None:
    machine, gateway = pair()
    raw = machine._socket.send_message(data, text=False)
    gateway.receive_data(raw, 1.0)
    assert gateway.next_event() is None
    assert gateway.trouble


def test_close_tells_its_code() -> None:
    machine, gateway = pair()
    gateway.close(POLICY, "revoked")
    machine.receive_data(gateway.data_to_send(), 1.0)
    assert machine.next_event() is None
    assert (machine.code, machine.trouble) == (POLICY, "revoked")


def test_broken_frame_is_answered_with_its_code() -> None:
    gateway = MachineWire(False, 0.0)
    gateway.receive_data(b"\x81\x05Hello", 1.0)
    assert gateway.next_event() is None
    assert gateway.trouble
    assert gateway.data_to_send()[:4] == b"\x88" + bytes(
        (len(gateway.trouble) + 2,)
    ) + (1002).to_bytes(2, "big")


def test_stranger_cannot_make_us_hold_much() -> None:
    """A thousand of them may be at the door, each with half a message."""
    machine, gateway = pair()
    machine.send("login", machine="m" * EARLY_MESSAGE)
    gateway.receive_data(machine.data_to_send(), 1.0)
    assert gateway.next_event() is None
    assert gateway.trouble
    machine, gateway = pair()
    gateway.trust()
    machine.send("ask", text="x" * EARLY_MESSAGE)
    gateway.receive_data(machine.data_to_send(), 1.0)
    assert gateway.next_event() is not None
