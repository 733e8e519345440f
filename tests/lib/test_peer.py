from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from feishuperm.lib.peer import NOBODY, TABLES, tcp_owner

linux = pytest.mark.skipif(
    not os.path.exists(TABLES[0]), reason="only Linux tells the owner of a socket"
)


@linux
@pytest.mark.parametrize(
    ("family", "server", "client"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::", "127.0.0.1"),
    ],
)
def test_own_connection_has_our_user(
    family: socket.AddressFamily, server: str, client: str
) -> None:
    dual = server == "::"
    with socket.create_server(
        (server, 0), family=family, dualstack_ipv6=dual
    ) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection((client, port)) as connection:
            address, own_port = connection.getsockname()[:2]
            assert tcp_owner(address, own_port) == os.geteuid()


@linux
def test_connection_that_is_not_there_is_nobodys() -> None:
    assert tcp_owner("127.0.0.1", 1) == NOBODY
    assert tcp_owner("not an address", 80) == NOBODY


def test_without_tables_nothing_can_be_told(tmp_path: Path) -> None:
    assert tcp_owner("127.0.0.1", 80, (str(tmp_path / "none"),)) is None
