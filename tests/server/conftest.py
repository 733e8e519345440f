"""A loop that a test drives by hand, under a clock that the test moves."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from feishuperm.server.loop import Loop


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


HAS_IPV6 = has_ipv6()


def dead_socket(path: str) -> None:
    """A socket file whose server is gone."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class LoopDriver:
    """A loop on a fake clock, and the exceptions it reported."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.errors: list[Exception] = []
        self.loop = Loop(self.errors.append, clock=self.clock)

    def step(self) -> None:
        """One round that does not wait."""
        self.loop.call_soon_threadsafe(lambda: None)
        self.loop.tick()

    def advance(self, seconds: float) -> None:
        """Let time pass, then everything that is due happen."""
        self.clock.seconds += seconds
        self.step()

    def until(self, condition: Callable[[], object], seconds: float = 10) -> None:
        """Rounds until the condition holds; a failure, not a hang, if it never does."""
        limit = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < limit, "nothing happened"
            self.step()


@pytest.fixture
def driver() -> Iterator[LoopDriver]:
    driver = LoopDriver()
    yield driver
    driver.loop.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for localhost, in one file."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-keyout", str(path), "-out", f"{path}.crt"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path
