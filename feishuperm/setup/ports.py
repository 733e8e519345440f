"""Where a server can listen: free ports, and a socket of this user's own."""

from __future__ import annotations

import errno
import os
import socket
import zlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from feishuperm.errors import FeishupermError, UsageError
from feishuperm.models.settings import BY_KEY, Settings, parse_setting

NEAR_PORTS = range(8081, 8100)  # close to the usual one, so a person can remember it


def own_socket(folder: str) -> str:
    """A socket for one user: in the state folder, or in /tmp when that is too deep."""
    path = os.path.join(folder, "feishuperm.sock")
    try:
        parse_setting(BY_KEY["PERMISSION_SOCKET_PATH"], path)
    except UsageError:
        checksum = zlib.crc32(os.fsencode(folder))
        return f"/tmp/feishuperm-{os.getuid()}-{checksum:08x}.sock"
    return path


def port_number(text: str) -> str:
    """What `--port` was given. Raises ValueError that says what it may be."""
    try:
        return str(BY_KEY["CALLBACK_SERVER_PORT"].parse(text))
    except ValueError:
        raise ValueError(
            f"{text!r} is no port: a number from 1 to 65535, or 0 for a free one"
        ) from None


def port_settings(port: int | str) -> dict[str, str]:
    """The two settings that a port of one's own needs; 0: any that is free now.

    It stays the same from then on: cards that are out lead to it.
    """
    if not str(port).strip("0"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    return {
        "CALLBACK_SERVER_PORT": str(port),
        "CALLBACK_SERVER_URL": f"http://localhost:{port}",
    }


def port_of(status: dict[str, Any] | None) -> int:
    """The port that a server with this status holds, 0 without one."""
    return (urlsplit(str(status["listens"])).port or 0) if status else 0


def check_port(settings: Settings, own: int) -> None:
    """Raise FeishupermError where the server could not listen.

    A port that our own server holds will be free; its host still has to be good.
    """
    port = settings.callback_server_port
    if not can_listen(settings.http_hosts(), 0 if port == own else port):
        raise FeishupermError(
            f"port {port} is taken by another program",
            "choose another one: feishuperm install --port N",
        )


def can_listen(hosts: Sequence[str], port: int) -> bool:
    """Whether a server could listen on all of its addresses.

    Only the first has to be there. Raises FeishupermError for one that is not here.
    """
    return all(port_is_free(host, port, host != hosts[0]) for host in hosts)


def port_is_free(host: str, port: int, optional: bool = False) -> bool:
    """Whether nobody listens there; an address of a missing family is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        if not optional:
            raise FeishupermError(
                f"cannot listen on {host}:{port}: {error.strerror}",
                "set CALLBACK_SERVER_HOST to an address of this machine",
            ) from None
    return True


def free_port(hosts: Sequence[str]) -> int:
    """A free port near the usual one. Raises FeishupermError."""
    for port in NEAR_PORTS:
        if can_listen(hosts, port):
            return port
    raise FeishupermError(
        f"ports 8080 to {NEAR_PORTS[-1]} are all taken", "feishuperm install --port N"
    )
