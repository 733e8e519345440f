from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.lib import process_tree
from feishuperm.lib.process_tree import (
    Owner,
    Packed,
    TcpOwners,
    find_row,
    is_here,
    parse_diag,
    parse_pcblist,
    peer_pid,
    read_tables,
)
from tests.conftest import wait_until
from tests.tables import every_row

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks a Linux kernel")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")

# (where the server listens, where the client connects to, what kind of socket it has)
PLACES = [
    ("127.0.0.1", "127.0.0.1", socket.AF_INET),
    ("127.0.0.2", "127.0.0.2", socket.AF_INET),
    ("::1", "::1", socket.AF_INET6),
    ("::", "127.0.0.1", socket.AF_INET),
    ("::", "::1", socket.AF_INET6),
    ("::", "::ffff:127.0.0.1", socket.AF_INET6),
]


class Pair:
    """A connection on this machine, both ends at hand."""

    def __init__(self, listens: str, connects: str, family: int) -> None:
        v6 = ":" in listens
        self.listening = socket.create_server(
            (listens, 0),
            family=socket.AF_INET6 if v6 else socket.AF_INET,
            dualstack_ipv6=listens == "::",
        )
        self.client = socket.socket(family)
        self.client.connect((connects, self.listening.getsockname()[1]))
        self.accepted = self.listening.accept()[0]

    def ends(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Ours and theirs, as the server sees them."""
        ours, theirs = self.accepted.getsockname(), self.accepted.getpeername()
        return (ours[0], ours[1]), (theirs[0], theirs[1])

    def close(self) -> None:
        for sock in (self.client, self.accepted, self.listening):
            sock.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair("127.0.0.1", "127.0.0.1", socket.AF_INET)
    yield made
    made.close()


@pytest.fixture(params=["netlink", "tables"])
def owners(request: Any, monkeypatch: pytest.MonkeyPatch) -> TcpOwners:
    """Both ways of asking Linux."""
    if request.param == "tables":

        def refuse(*_: object) -> None:
            raise PermissionError(errno.EPERM, "no netlink here")

        monkeypatch.setattr(process_tree, "ask_kernel", refuse)
        # Other tests leave thousands of closed connections in the tables for a minute.
        monkeypatch.setattr(process_tree, "TABLE_BYTES", 64 << 20)
    return TcpOwners("linux")


@linux
@pytest.mark.parametrize(("listens", "connects", "family"), PLACES)
def test_own_connection_has_our_user(
    owners: TcpOwners, listens: str, connects: str, family: int
) -> None:
    pair = Pair(listens, connects, family)
    owner = owners.find(*pair.ends())
    inode = os.fstat(pair.client.fileno()).st_ino
    pair.close()
    assert owner == Owner(os.geteuid(), inode)


@linux
def test_half_closed_client_is_still_there(owners: TcpOwners, pair: Pair) -> None:
    pair.client.shutdown(socket.SHUT_WR)
    assert owners.find(*pair.ends()) is not None


@linux
def test_closed_client_is_nobody(owners: TcpOwners, pair: Pair) -> None:
    """The remains of a connection belong to user 0, whoever made it."""
    ends = pair.ends()
    pair.client.close()
    assert owners.find(*ends) is None
    pair.accepted.close()  # now a row in TIME_WAIT
    assert owners.find(*ends) is None


@linux
def test_listening_socket_is_not_a_client(owners: TcpOwners, pair: Pair) -> None:
    name = pair.listening.getsockname()
    assert owners.find(("127.0.0.1", 1), name) is None


@linux
def test_another_connection_from_the_same_port_is_not_taken_for_it(
    owners: TcpOwners,
) -> None:
    first = Pair("127.0.0.1", "127.0.0.1", socket.AF_INET)
    port = first.client.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as other, socket.socket() as second:
        second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ours = other.getsockname()
        assert owners.find(ours, ("127.0.0.1", port)) is None
        assert owners.find(("127.0.0.2", ours[1]), ("127.0.0.1", port)) is None
    first.close()


@linux
@pytest.mark.parametrize("address", ["", "not an address", "1.2.3", "::1%nowhere"])
def test_what_is_no_address_is_nobody(owners: TcpOwners, address: str) -> None:
    assert owners.find((address, 80), ("127.0.0.1", 8080)) is None


@linux
@as_root
def test_other_user_is_told_apart(owners: TcpOwners, pair: Pair) -> None:
    port = pair.listening.getsockname()[1]
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            with socket.socket() as sock:
                sock.connect(("127.0.0.1", port))
                sock.recv(1)
        finally:
            os._exit(0)
    pair.listening.settimeout(10)
    accepted = pair.listening.accept()[0]
    owner = owners.find(accepted.getsockname(), accepted.getpeername())
    accepted.close()
    os.waitpid(child, 0)
    assert owner is not None and owner.uid == 65534


@linux
def test_kernel_that_cannot_tell_is_known_by_our_own_end(
    monkeypatch: pytest.MonkeyPatch, pair: Pair
) -> None:
    """Without its module, netlink says "no such connection" to every question."""

    def absent(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "no module")

    monkeypatch.setattr(process_tree, "ask_kernel", absent)
    owner = TcpOwners("linux").find(*pair.ends())
    assert owner is not None and owner.uid == os.geteuid()


@linux
def test_tables_are_not_read_where_netlink_answers(
    monkeypatch: pytest.MonkeyPatch, pair: Pair
) -> None:
    owners = TcpOwners("linux")
    monkeypatch.setattr(process_tree, "read_tables", lambda *_: pytest.fail("read"))
    assert owners.find(*pair.ends()) is not None
    ours, theirs = pair.ends()
    assert owners.find(ours, (theirs[0], 1)) is None


NEAR = Packed(socket.inet_aton("127.0.0.1"), 0x1234)
FAR = Packed(socket.inet_aton("127.0.0.1"), 8080)
ROW = "   1: 0100007F:1234 0100007F:1F90 {state} 00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1 0\n"  # noqa: E501
little = pytest.mark.skipif(sys.byteorder != "little", reason="rows of another order")


@little
@pytest.mark.parametrize(
    ("state", "inode", "counts"),
    [
        ("01", 77, True),
        ("04", 77, True),
        ("05", 77, True),
        ("05", 0, False),
        ("06", 0, False),
        ("0A", 77, False),
        ("02", 77, False),
        ("08", 77, False),
        ("zz", 77, False),
    ],
)
def test_row_counts_while_a_process_holds_the_connection(
    state: str, inode: int, counts: bool
) -> None:
    row = ROW.format(state=state, uid=1000, inode=inode).encode()
    other = ROW.replace("1F90", "1F91").format(state="01", uid=0, inode=1).encode()
    expected = Owner(1000, 77) if counts else None
    assert find_row(other + row + other, NEAR, FAR) == expected


def test_long_table_is_read_up_to_a_bound(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    row = ROW.format(state="01", uid=1000, inode=77).encode()
    filler = ROW.replace("1234", "4321").format(state="06", uid=0, inode=0).encode()
    table.write_bytes(filler * (process_tree.TABLE_BYTES // len(filler) + 1) + row)
    assert read_tables(NEAR, FAR, (str(table),)) is None
    assert read_tables(NEAR, FAR, (str(tmp_path / "none"),)) is None


@given(st.binary(max_size=100))
def test_any_answer_of_the_kernel_is_survived(body: bytes) -> None:
    owner = parse_diag(body, NEAR, FAR)
    assert owner is None or body[1] in process_tree.CONNECTED


# macOS: records as its kernel writes them, packed to four bytes.


def record(kind: int, size: int, *parts: tuple[int, bytes]) -> bytes:
    data = bytearray((size + 7) & ~7)
    struct.pack_into("=II", data, 0, size, kind)
    for at, part in parts:
        data[at : at + len(part)] = part
    return bytes(data)


def mac_connection(
    near: Packed, far: Packed, uid: int = 501, state: int = 4, so_state: int = 2
) -> bytes:
    v4 = len(near.address) == 4
    pcb = record(
        process_tree.MAC_PCB, 104,
        (16, struct.pack("!HH", far.port, near.port)),
        (44, b"\1" if v4 else b"\2"),
        (48, far.address.rjust(16, b"\0")),
        (64, near.address.rjust(16, b"\0")),
    )  # fmt: skip
    held = struct.pack("=H", so_state)
    owner = struct.pack("=Iii", uid, 4711, 0)
    sock = record(process_tree.MAC_SOCKET, 76, (26, held), (64, owner))
    buffers = record(2, 32) + record(4, 32) + record(8, 136)
    tcp = record(process_tree.MAC_TCP, 204, (36, struct.pack("=i", state)))
    return pcb + sock + buffers + tcp


def mac_table(*connections: bytes) -> bytes:
    generation = struct.pack("=IIQQ", 24, len(connections), 1, 1)
    return generation + b"".join(connections) + generation


V6_NEAR = Packed(socket.inet_pton(socket.AF_INET6, "::1"), 50000)
V6_FAR = Packed(socket.inet_pton(socket.AF_INET6, "::1"), 8080)


@every_row(("near", "far"), [(NEAR, FAR), (V6_NEAR, V6_FAR)])
def test_mac_connection_is_known_by_all_four_parts(near: Packed, far: Packed) -> None:
    others = [
        mac_connection(near._replace(port=1), far, uid=1),
        mac_connection(near, far._replace(port=1), uid=2),
        mac_connection(far, near, uid=3),
    ]
    table = mac_table(*others, mac_connection(near, far), *others)
    assert parse_pcblist(table, near, far) == Owner(501, pid=4711)
    assert parse_pcblist(mac_table(*others), near, far) is None


@every_row("state", [0, 1, 2, 3, 5, 7, 8, 10])
def test_mac_connection_that_is_over_or_not_yet_is_nobodys(state: int) -> None:
    table = mac_table(mac_connection(NEAR, FAR, state=state))
    assert parse_pcblist(table, NEAR, FAR) is None


def test_mac_connection_that_no_process_holds_is_nobodys() -> None:
    table = mac_table(mac_connection(NEAR, FAR, so_state=3))
    assert parse_pcblist(table, NEAR, FAR) is None


@given(st.binary(max_size=300), st.integers(0, 700))
def test_any_table_of_a_mac_is_survived(noise: bytes, cut: int) -> None:
    table = mac_table(mac_connection(V6_NEAR, V6_FAR))
    parse_pcblist(table[:cut] + noise, NEAR, FAR)
    parse_pcblist(noise, NEAR, FAR)


def test_mac_asks_its_own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    table = mac_table(mac_connection(V6_NEAR, V6_FAR))
    monkeypatch.setattr(process_tree, "_sysctl", lambda name: table)
    owners = TcpOwners("darwin")
    assert owners.find(("::1", 8080), ("::1", 50000)) == Owner(501, pid=4711)
    assert owners.find(("::1", 8081), ("::1", 50000)) is None


# Here or elsewhere.


def test_addresses_of_this_machine_are_here() -> None:
    assert is_here("127.0.0.1")
    assert not is_here("192.0.2.1")
    assert not is_here("2001:db8::1")
    assert not is_here("not an address")


def test_machine_that_binds_anything_knows_only_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_tree, "has_address", lambda address: True)
    assert is_here("127.0.0.2") and is_here("::1")
    assert not is_here("198.51.100.7") and not is_here("2001:db8::7")


def test_process_at_the_other_end_of_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        child = os.fork()
        if child == 0:
            try:
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.connect(path)
                    sock.recv(1)
            finally:
                os._exit(0)
        listening.settimeout(10)
        accepted = listening.accept()[0]
        pid = peer_pid(accepted)
        accepted.close()
        wait_until(lambda: os.waitpid(child, os.WNOHANG)[0])
    assert pid == child
    with socket.socket() as tcp:
        assert peer_pid(tcp) == 0
