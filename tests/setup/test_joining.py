"""Joining a gateway and leaving it: what is believed, stored and undone."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import FeishupermError, SettingError, UsageError
from feishuperm.lib import enrolment
from feishuperm.lib.config import config_path
from feishuperm.protocol.machine import POLICY, MachineWire
from feishuperm.setup.joining import Pairing, check_url, leave, set_gateway
from tests.tables import every_row

URL = "https://g.example"
KEY = "ab" * 32
CODE = {"code": "123456", "seconds": 600}
JOINED = {
    "machine": "m-1", "key": KEY, "name": "box", "owner": "ou_me", "owner_name": "Wang",
}  # fmt: skip


class FakeGateway:
    """A socket with a gateway at its end that answers by a table."""

    def __init__(self, **changes: Any) -> None:
        self.wire = MachineWire(False, 0.0)
        self.heard: list[dict[str, Any]] = []
        self.replies: dict[str, Any] = {
            "join": [("code", CODE), ("joined", JOINED)],
            "stored": [("enrolled", {})],
            **changes,
        }
        self.now = 0.0
        self.closed = False
        self.wire.send("hello", nonce="n")

    def settimeout(self, seconds: float) -> None: ...

    def __enter__(self) -> FakeGateway:
        return self

    def __exit__(self, *reason: object) -> None:
        self.closed = True

    def sendall(self, data: bytes) -> None:
        self.wire.receive_data(data, self.now)
        while (message := self.wire.next_event()) is not None:
            self.heard.append(message)
            for kind, parts in self.replies.get(message["t"], ()):
                self.wire.send(kind, **parts)

    def recv(self, size: int) -> bytes:
        data = self.wire.data_to_send()
        if data:
            return data
        self.now += 1.0
        raise socket.timeout


class Joiner:
    """A machine's side, with a clock that moves while it waits."""

    def __init__(self, gateway: FakeGateway) -> None:
        self.gateway = gateway
        self.shown: list[str] = []
        self.ticks: list[str] = []
        dial: Any = lambda url: (gateway, b"")  # noqa: E731
        self.pairing = Pairing(
            URL, dial, self.shown.append, self.ticks.append, lambda: gateway.now
        )

    def join(self, agree: Callable[[Any], bool] = lambda own: True) -> Any:
        return self.pairing.join("box", "", agree)


@pytest.fixture(autouse=True)
def own_home(environ: dict[str, str]) -> None:
    """Nothing is stored but in a home of its own."""


def test_machine_is_joined_once_its_key_is_on_the_disk() -> None:
    gateway = FakeGateway()
    joiner = Joiner(gateway)
    own = joiner.join()
    assert (own.url, own.machine, own.owner, own.keys) == (URL, "m-1", "ou_me", (KEY,))
    assert enrolment.load() == own
    assert [message["t"] for message in gateway.heard] == ["join", "stored"]
    assert gateway.heard[0]["name"] == "box"
    assert len(joiner.shown) == 1 and "123456" in joiner.shown[0]
    assert gateway.closed


def test_person_who_says_no_stores_nothing_and_the_gateway_is_not_told() -> None:
    gateway = FakeGateway()
    with pytest.raises(FeishupermError, match="nothing was stored"):
        Joiner(gateway).join(lambda own: False)
    assert enrolment.load() is None
    assert [message["t"] for message in gateway.heard] == ["join"]


def test_nobody_confirms_in_time() -> None:
    gateway = FakeGateway(join=[("code", {"code": "123456", "seconds": 3})])
    joiner = Joiner(gateway)
    with pytest.raises(FeishupermError, match="in time"):
        joiner.join()
    assert joiner.ticks[-1] == "0:01" and enrolment.load() is None


def test_refusal_of_the_gateway_is_told_in_its_words() -> None:
    gateway = FakeGateway(join=[])
    gateway.wire.close(POLICY, "too many machines are being paired")
    with pytest.raises(FeishupermError, match="too many machines"):
        Joiner(gateway).join()


def test_gateway_that_goes_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = FakeGateway(join=[("code", CODE)])
    receive = gateway.recv
    monkeypatch.setattr(
        gateway, "recv", lambda size: b"" if gateway.heard else receive(size)
    )
    with pytest.raises(FeishupermError, match="closed the connection"):
        Joiner(gateway).join()


@every_row(
    "joined",
    [
        {},
        {**JOINED, "key": "not hex"},
        {**JOINED, "key": "abab"},
        {**JOINED, "key": None},
        {**JOINED, "machine": ""},
        {**JOINED, "owner": ""},
        {key: value for key, value in JOINED.items() if key != "name"},
    ],
)
def test_enrolment_that_cannot_be_read_is_refused(joined: dict[str, Any]) -> None:
    gateway = FakeGateway(join=[("code", CODE), ("joined", joined)])
    with pytest.raises(FeishupermError, match="cannot be read"):
        Joiner(gateway).join()
    assert enrolment.load() is None


@every_row(
    "code",
    [
        {},
        {"code": "123456"},
        {"seconds": 600},
        {"code": "123456", "seconds": "soon"},
        {"code": "123456", "seconds": None},
        {"code": "123456", "seconds": float("inf")},
        {"code": "123456", "seconds": float("nan")},
        {"code": "123456", "seconds": 10**400},
    ],
)
def test_code_that_cannot_be_read_is_refused(code: dict[str, Any]) -> None:
    gateway = FakeGateway(join=[("code", code)])
    with pytest.raises(FeishupermError, match="cannot be read"):
        Joiner(gateway).join()


def test_messages_of_a_newer_version_are_passed_over() -> None:
    gateway = FakeGateway(
        join=[("news", {}), ("code", CODE), ("news", {}), ("joined", JOINED)]
    )
    assert Joiner(gateway).join().machine == "m-1"


def test_machine_whose_last_word_is_lost_keeps_its_key() -> None:
    """The gateway may have stored it: the next login proves it or not."""
    gateway = FakeGateway(stored=[])
    with pytest.raises(FeishupermError):
        Joiner(gateway).join()
    assert enrolment.load() is not None


@every_row(
    ("url", "allow_http", "fits"),
    [
        ("https://g.example", False, True),
        ("http://localhost:8443", False, True),
        ("http://127.0.0.1:8443", False, True),
        ("http://g.example", False, False),
        ("http://10.0.0.7", False, False),
        ("http://g.example", True, True),
    ],
)
def test_address_without_encryption_has_to_be_asked_for(
    url: str, allow_http: bool, fits: bool
) -> None:
    if fits:
        assert check_url(url, allow_http) == url
    else:
        with pytest.raises(UsageError, match="not encrypted"):
            check_url(url, allow_http)


@every_row(
    "url", ["g.example", "ftp://g.example", "https://", "http://[::1", "https://g:x"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SettingError, match="FEISHUPERM_GATEWAY"):
        check_url(url, True)


def test_other_lines_of_the_settings_stay_as_they_are(environ: dict[str, str]) -> None:
    path = Path(config_path(environ))
    path.parent.mkdir(parents=True)
    path.write_text("# mine\nFEISHUPERM_LANG=en\n")
    path.chmod(0o640)
    set_gateway(URL, environ)
    assert path.read_text().startswith("# mine\nFEISHUPERM_LANG=en\n")
    assert f"FEISHUPERM_GATEWAY={URL}" in path.read_text()
    set_gateway("", environ)
    assert path.read_text() == "# mine\nFEISHUPERM_LANG=en\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_new_settings_are_private(environ: dict[str, str]) -> None:
    os.makedirs(os.path.dirname(config_path(environ)))
    set_gateway(URL, environ)
    assert os.stat(config_path(environ)).st_mode & 0o777 == 0o600


def test_machine_that_leaves_forgets_key_and_address(environ: dict[str, str]) -> None:
    own = Joiner(FakeGateway()).join()
    set_gateway(URL, environ)
    assert leave(environ) == own.url
    assert enrolment.load(environ) is None
    assert "GATEWAY" not in Path(config_path(environ)).read_text()
    assert leave(environ) == "", "and once more is no error"
