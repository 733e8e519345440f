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
from feishuperm.lib.config import config_path, read_config
from feishuperm.protocol.machine import POLICY, MachineWire
from feishuperm.setup.join import Pairing, check_url, leave_gateway, take_up
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
    assert enrolment.load() is None, "nothing is in use before it is taken up"
    take_up(own, None)
    assert enrolment.load() == own
    assert [message["t"] for message in gateway.heard] == ["join", "stored"]
    assert gateway.heard[0]["name"] == "box"
    assert joiner.shown == ["123456"]
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


class Killed(BaseException):
    """The process is no more."""


class Steps:
    """Counts what is done, and kills the process at one of them."""

    def __init__(self, last: int) -> None:
        self.left = last

    def __call__(self, do: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Killed
            return do(*given)

        return step


@pytest.mark.parametrize("new_url", [URL, "https://other.example"])
def test_join_that_is_killed_at_any_step_leaves_an_enrolment_that_works(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], new_url: str
) -> None:
    old = Joiner(FakeGateway()).join()
    take_up(old, None)
    before = {name: Path(name).read_bytes() for name in kept_files(environ)}
    killed, taken_up = 0, False
    while not taken_up:
        for name in {*kept_files(environ), *before}:
            Path(name).unlink(missing_ok=True)
        for name, data in before.items():
            Path(name).write_bytes(data)
        gateway = FakeGateway(
            join=[("code", CODE), ("joined", {**JOINED, "machine": "m-2"})]
        )
        with monkeypatch.context() as patch:
            steps = Steps(killed)
            for place, what in ((os, "fsync"), (os, "replace"), (os, "rename"),
                                (gateway, "sendall"), (gateway, "recv")):  # fmt: skip
                patch.setattr(place, what, steps(getattr(place, what)))
            try:
                joiner = Joiner(gateway)
                joiner.pairing._url = new_url
                take_up(joiner.join(), None)
                taken_up = True
            except Killed:
                killed += 1
        configured = read_config(config_path(environ))["FEISHUPERM_GATEWAY"]
        own = enrolment.find(configured)
        is_stored = any(message["t"] == "stored" for message in gateway.heard)
        assert own is not None
        assert own == old or (own.machine == "m-2" and own.url == new_url and is_stored)
    assert own is not None and own.machine == "m-2" and killed > 8


def kept_files(environ: dict[str, str]) -> list[str]:
    folder = os.path.dirname(config_path(environ))
    return [os.path.join(folder, name) for name in os.listdir(folder)]


@every_row("new_url", [URL, "https://other.example"])
def test_gateway_that_never_confirms_changes_nothing(new_url: str) -> None:
    old = Joiner(FakeGateway()).join()
    take_up(old, None)
    joiner = Joiner(FakeGateway(stored=[]))
    joiner.pairing._url = new_url
    with pytest.raises(FeishupermError):
        joiner.join()
    assert enrolment.find(URL) == old == enrolment.load()


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
    take_up(Joiner(FakeGateway()).join(), True, environ)
    assert path.read_text().startswith("# mine\nFEISHUPERM_LANG=en\n")
    assert f"FEISHUPERM_GATEWAY={URL}\n" in path.read_text()
    assert "FEISHUPERM_GATEWAY_GRANTS=on\n" in path.read_text()
    take_up(Joiner(FakeGateway()).join(), None, environ)
    assert "FEISHUPERM_GATEWAY_GRANTS=on\n" in path.read_text()
    take_up(Joiner(FakeGateway()).join(), False, environ)
    assert "FEISHUPERM_GATEWAY_GRANTS=off\n" in path.read_text()
    leave_gateway(environ)
    assert path.read_text() == "# mine\nFEISHUPERM_LANG=en\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_new_settings_are_private(environ: dict[str, str]) -> None:
    take_up(Joiner(FakeGateway()).join(), None, environ)
    assert os.stat(config_path(environ)).st_mode & 0o777 == 0o600


def test_machine_that_leaves_forgets_key_and_address(environ: dict[str, str]) -> None:
    own = Joiner(FakeGateway()).join()
    take_up(own, True, environ)
    Joiner(FakeGateway()).join()  # cut before it was taken up
    assert leave_gateway(environ) == own.url
    assert enrolment.load(environ) is None
    assert "GATEWAY" not in Path(config_path(environ)).read_text()
    assert enrolment.find(URL, environ) is None
    assert leave_gateway(environ) == "", "and once more is no error"


def test_machine_leaves_whatever_its_file_is_like(environ: dict[str, str]) -> None:
    take_up(Joiner(FakeGateway()).join(), None, environ)
    Path(enrolment.path(environ)).write_text("{")
    leave_gateway(environ)
    assert enrolment.load(environ) is None
    assert "GATEWAY" not in Path(config_path(environ)).read_text()
