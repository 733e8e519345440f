"""What every outgoing connection has: pauses between tries, and sockets with TLS.

Dialling, ends and sleep are tested with what is spoken: `test_link`,
`test_machine_line`, `test_redis`.
"""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

from feishuperm.server.connection import Connection
from feishuperm.server.outgoing import Backoff
from tests.server.conftest import LoopDriver


def test_backoff_grows_with_jitter_and_starts_anew() -> None:
    for jitter, part in ((0.0, 0.5), (1.0, 1.0)):
        backoff = Backoff(jitter=lambda jitter=jitter: jitter)  # type: ignore[misc]
        waits = [backoff.failed() for _ in range(8)]
        assert waits == [part * w for w in (0.5, 1, 2, 4, 8, 16, 30, 30)]
        backoff.worked()
        assert backoff.failed() == part * 0.5


def test_tls_socket_is_read_to_its_last_decrypted_byte(
    driver: LoopDriver, certificate: Path
) -> None:
    near, far = socket.socketpair()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    client = ssl.create_default_context(cafile=str(certificate))
    wrapped: list[ssl.SSLSocket] = []
    thread = threading.Thread(
        target=lambda: wrapped.append(server.wrap_socket(far, server_side=True))
    )
    thread.start()
    secure = client.wrap_socket(near, server_hostname="localhost")
    thread.join(10)
    received = bytearray()
    gone: list[bool] = []

    class Wire(Connection):
        def received(self, data: bytes) -> None:
            received.extend(data)

    wire = Wire(driver.loop, secure, lambda _: gone.append(True))
    data = bytes(range(256)) * 2000
    sender = threading.Thread(target=wrapped[0].sendall, args=(data,))
    sender.start()
    driver.until(lambda: len(received) == len(data))
    sender.join(10)
    assert received == data
    back = bytearray()

    def read_back() -> None:
        while len(back) < len(data):
            back.extend(wrapped[0].recv(65536))

    reader = threading.Thread(target=read_back)
    reader.start()
    wire.write(data)
    driver.until(lambda: not reader.is_alive())
    assert back == data
    wrapped[0].close()
    driver.until(lambda: gone)
