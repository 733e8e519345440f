"""A port counts as free when all of the server's addresses are."""

from __future__ import annotations

import socket

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.lib.config import own_socket
from feishuperm.models.settings import Settings
from feishuperm.setup.service import can_listen, check_port
from tests.tables import every_row


@every_row("depth", [1, 40])
def test_socket_is_of_this_user_alone_and_fits(depth: int) -> None:
    folder = "/home/me" + "/deep" * depth
    path = own_socket("s", {"XDG_STATE_HOME": folder})
    assert Settings({"PERMISSION_SOCKET_PATH": path}).permission_socket_path == path
    assert path.startswith(folder) == (depth == 1)
    assert own_socket("s", {"XDG_STATE_HOME": folder + "er"}) != path
    assert own_socket("t", {"XDG_STATE_HOME": folder}) != path


def test_taken_port_is_noticed() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert not can_listen(("127.0.0.1",), other.getsockname()[1])
    assert can_listen(("127.0.0.1",), 0)


def test_port_that_is_taken_on_either_loopback_family_is_taken() -> None:
    with socket.socket(socket.AF_INET6) as other:
        try:
            other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            other.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
        other.listen()
        port = other.getsockname()[1]
        assert can_listen(("127.0.0.1",), port)
        assert not can_listen(("127.0.0.1", "::1"), port)


def test_address_that_is_not_here_matters_only_in_the_first_place() -> None:
    assert can_listen(("127.0.0.1", "192.0.2.1"), 0)
    with pytest.raises(FeishupermError, match="cannot listen on 192"):
        can_listen(("192.0.2.1", "127.0.0.1"), 0)


def test_port_that_our_own_server_holds_is_no_hindrance() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        settings = Settings({"CALLBACK_SERVER_PORT": str(port)})
        check_port(settings, port)
        with pytest.raises(FeishupermError, match=f"port {port} is taken"):
            check_port(settings, port - 1)
