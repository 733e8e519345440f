"""The way to a long connection, against the strict platform."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from feishuperm.app.api import AppApi, dial_feishu, shake_hands
from feishuperm.errors import ProtocolError
from feishuperm.lib.post import dial
from feishuperm.protocol.long_connection import UNPUBLISHED, Refusal
from feishuperm.protocol.websocket import HandshakeRefused
from feishuperm.server.loop import Loop
from feishuperm.server.outgoing import UP, WAITING, Link
from tests.fakes.feishu import APP_ID, APP_SECRET
from tests.fakes.feishu_app import OWNER, FakePlatform, Handshake


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform() as platform:
        yield platform


def api(feishu: FakePlatform, secret: str = APP_SECRET) -> AppApi:
    return AppApi(APP_ID, secret, feishu.base_url)


def test_connection_is_made_for_one_ticket(feishu: FakePlatform) -> None:
    sock, rest, endpoint = dial_feishu(api(feishu))
    sock.close()
    assert rest == b"" and endpoint.service_id == 33554678
    with dial(endpoint.url) as again, pytest.raises(HandshakeRefused):
        shake_hands(again, endpoint.url)


def test_wrong_secret_is_refused_by_its_name(feishu: FakePlatform) -> None:
    with pytest.raises(Refusal) as caught:
        dial_feishu(api(feishu, "wrong-secret"))
    assert (
        caught.value.key == "FEISHU_APP_ID or FEISHU_APP_SECRET is wrong"
        and caught.value.fatal
    )
    assert "wrong-secret" not in str(caught.value)


def test_app_that_is_not_published_is_not_told_to_have_a_wrong_secret(
    feishu: FakePlatform,
) -> None:
    feishu.published = False
    with pytest.raises(Refusal) as caught:
        dial_feishu(api(feishu))
    assert caught.value.key == UNPUBLISHED and caught.value.fatal


def test_answer_without_a_word_of_feishu_is_a_proxys(feishu: FakePlatform) -> None:
    feishu.connections.refusals.append(Handshake(403))
    with pytest.raises(Refusal) as caught:
        dial_feishu(api(feishu))
    assert "a proxy on the way does not pass WebSockets" in str(caught.value)


def test_refused_handshake_has_its_meaning(feishu: FakePlatform) -> None:
    limit = (("Handshake-Status", "514"), ("Handshake-Autherrcode", "1000040350"))
    feishu.connections.refusals.append(Handshake(514, limit))
    with pytest.raises(Refusal) as caught:
        dial_feishu(api(feishu))
    assert caught.value.key == "the app has too many long connections (50 at most)"


def test_platform_that_is_not_there_is_told_without_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(OSError) as caught:
        dial_feishu(AppApi(APP_ID, APP_SECRET, f"http://127.0.0.1:{port}"))
    assert str(caught.value).startswith("127.0.0.1: ")


def test_end_inside_the_handshake_is_told() -> None:
    near, far = socket.socketpair()
    far.close()
    with near, pytest.raises((ProtocolError, OSError)):
        shake_hands(near, "ws://h/?ticket=secret")


# With the link on a real loop.


class App:
    """A link to the platform, its loop running in a thread."""

    def __init__(self, feishu: FakePlatform) -> None:
        self.errors: list[Exception] = []
        self.loop = Loop(self.errors.append)
        self.taps: list[dict[str, object]] = []
        self.link = Link(self.loop, lambda: dial_feishu(api(feishu)), self.deliver)
        self.thread = threading.Thread(target=self.loop.run)
        self.loop.call_soon_threadsafe(self.link.start)
        self.thread.start()

    def deliver(self, delivery: object, answer: Callable[[object], bool]) -> None:
        event = json.loads(delivery.payload)["event"]  # type: ignore[attr-defined]
        self.taps.append(event)
        answer({"toast": {"type": "success", "content": "ok"}})

    def wait(self, condition: Callable[[], object]) -> None:
        waiting = threading.Event()
        for _ in range(500):
            if condition():
                return
            waiting.wait(0.02)
        raise AssertionError("nothing happened")

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.link.close)
        self.wait(lambda: not self.link._is_dialling)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


@pytest.fixture
def app(feishu: FakePlatform) -> Iterator[App]:
    app = App(feishu)
    yield app
    app.close()
    assert app.errors == []


def test_tap_arrives_in_parts_and_is_answered(app: App, feishu: FakePlatform) -> None:
    app.wait(lambda: app.link.state == UP)
    action = {"tag": "button", "value": {"id": "1"}}
    for type, parts in (("event", 1), ("card", 1), ("event", 5)):
        tap = feishu.act("om_1", action, type=type, parts=parts)
        assert tap.ok and tap.toast["content"] == "ok"
    assert app.taps[-1]["operator"]["open_id"] == OWNER  # type: ignore[index]


def test_cut_connection_comes_back_by_itself(app: App, feishu: FakePlatform) -> None:
    app.wait(lambda: app.link.state == UP)
    feishu.connections.cut()
    app.wait(lambda: feishu.connections.made == 2 and app.link.state == UP)
    assert feishu.act("om_1", {"tag": "button", "value": {}}).ok


def test_refusal_shows_in_the_state(feishu: FakePlatform) -> None:
    feishu.discovery.append({"code": 1000040345, "msg": "x"})
    app = App(feishu)
    app.wait(lambda: app.link.state == WAITING and app.link.detail == UNPUBLISHED)
    app.close()
