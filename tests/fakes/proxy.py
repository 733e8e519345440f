"""A company's proxy that opens TLS: hosts of the world, answered on loopback.

A program that names a real host by `https://` can so be run against a fake.  Whoever
trusts the certificate is let through to the fake of the host they asked for; any other
host is refused, so that nothing ever leaves the machine.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

SECONDS = 30
BLOCK = 65536


class BlockingProxy:
    """A proxy for plain HTTP that lets no WebSocket through.

    It refuses tunnels, or opens them and answers the upgrade by itself.
    """

    def __init__(self, tunnels: bool) -> None:
        self.tunnels = tunnels
        self.blocked = 0
        self._listener = socket.create_server(("127.0.0.1", 0))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> BlockingProxy:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(connection,), daemon=True).start()

    def _pass(self, near: socket.socket) -> None:
        near.settimeout(SECONDS)
        with near, suppress(OSError):
            head = _head(near)
            method, target, rest = head.split(b" ", 2)
            if method != b"CONNECT":
                address = urlsplit(target.decode())
                path = target.partition(b"//")[2].partition(b"/")[2]
                there = (address.hostname, address.port)
                with socket.create_connection(there, SECONDS) as far:
                    far.sendall(method + b" /" + path + b" " + rest)
                    more = threading.Thread(target=_copy, args=(near, far), daemon=True)
                    more.start()
                    _copy(far, near)
                return
            self.blocked += 1
            if self.tunnels:
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _head(near)
            near.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")


class Proxy:
    """`hosts` names the fake for each host; `asked` is who was asked for."""

    def __init__(self, folder: Path, hosts: Mapping[str, str]) -> None:
        self.hosts = {host: urlsplit(url).port or 80 for host, url in hosts.items()}
        self.certificate = folder / "proxy.crt"
        self.asked: list[str] = []
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(self.certificate, self._make_key(folder))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _make_key(self, folder: Path) -> Path:
        key = folder / "proxy.key"
        names = ",".join(f"DNS:{host}" for host in self.hosts)
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"]
        command += ["-days", "2", "-subj", "/CN=proxy", "-addext"]
        command += [f"subjectAltName={names}", "-keyout", str(key)]
        command += ["-out", str(self.certificate)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return key

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(connection,), daemon=True).start()

    def _pass(self, connection: socket.socket) -> None:
        """One tunnel, from CONNECT to the answer's end."""
        connection.settimeout(SECONDS)
        try:
            with connection:
                host = _target(connection)
                self.asked.append(host)
                if host not in self.hosts:
                    connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                    return
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                there = ("127.0.0.1", self.hosts[host])
                with (
                    self._tls.wrap_socket(connection, server_side=True) as near,
                    socket.create_connection(there, SECONDS) as far,
                ):
                    back = threading.Thread(target=_copy, args=(far, near), daemon=True)
                    back.start()
                    _copy(near, far)
                    back.join(SECONDS)
        except OSError:
            return


def _target(connection: socket.socket) -> str:
    """The host that a CONNECT names."""
    return _head(connection).split()[1].decode().rpartition(":")[0]


def _head(connection: socket.socket) -> bytes:
    """A request to the end of its head, and what came behind it."""
    head = b""
    while b"\r\n\r\n" not in head:
        data = connection.recv(BLOCK)
        if not data:
            raise OSError("no request")
        head += data
    return head


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Everything, until either end is gone."""
    try:
        while data := source.recv(BLOCK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return
