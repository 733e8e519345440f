"""Control commands: one question, one answer, a clear word when nobody is there."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from feishuperm import wire
from feishuperm.errors import FeishupermError
from feishuperm.lib.control import NotRunningError, ask_server


class OneAnswer:
    """A server that takes one frame and sends what it is told to."""

    def __init__(self, path: Path, answer: bytes) -> None:
        self.path = str(path)
        self.frame = (b"", b"")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(10)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, args=(answer,))
        self._thread.start()

    def _serve(self, answer: bytes) -> None:
        with self._listener:
            sock, _ = self._listener.accept()
        with sock:
            sock.settimeout(10)
            self.frame = wire.receive_frame(sock)
            sock.sendall(answer)

    def join(self) -> None:
        self._thread.join(15)
        assert not self._thread.is_alive()


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "s"


def test_answer_comes_back_as_an_object(path: Path) -> None:
    server = OneAnswer(path, wire.frame(b"J", b'{"pid": 7}'))
    assert ask_server({"command": "status"}, path=str(path)) == {"pid": 7}
    server.join()
    kind, body = server.frame
    assert (kind, json.loads(body)) == (b"C", {"command": "status"})


def test_no_server_is_told_with_a_hint(path: Path) -> None:
    with pytest.raises(NotRunningError, match="not running on") as caught:
        ask_server({"command": "status"}, path=str(path))
    assert caught.value.hint


@pytest.mark.parametrize(
    "answer", [b"", b"\0\0\0", wire.frame(b"R", b""), wire.frame(b"", b"")]
)
def test_server_that_talks_rubbish_counts_as_absent(path: Path, answer: bytes) -> None:
    server = OneAnswer(path, answer)
    with pytest.raises(NotRunningError, match="did not answer"):
        ask_server({"command": "status"}, path=str(path))
    server.join()


def test_refusal_of_the_server_is_raised(path: Path) -> None:
    server = OneAnswer(path, wire.frame(b"J", b'{"error": "unknown"}'))
    with pytest.raises(FeishupermError, match="unknown"):
        ask_server({"command": "dance"}, path=str(path))
    server.join()


def test_answer_that_is_no_object_is_refused(path: Path) -> None:
    server = OneAnswer(path, wire.frame(b"J", b"[]"))
    with pytest.raises(FeishupermError, match="something else"):
        ask_server({"command": "status"}, path=str(path))
    server.join()


@pytest.mark.parametrize("body", [b"[]", b"5", b"not JSON", b"\xff"])
def test_answer_that_is_none_is_told_in_a_sentence(path: Path, body: bytes) -> None:
    server = OneAnswer(path, wire.frame(b"J", body))
    with pytest.raises(FeishupermError, match="something else than an object"):
        ask_server({"command": "status"}, path=str(path))
    server.join()


def test_part_that_a_server_of_another_version_leaves_out_is_named(path: Path) -> None:
    server = OneAnswer(path, wire.frame(b"J", b'{"channels": [{"name": "inbox"}]}'))
    status = ask_server({"command": "status"}, path=str(path))
    server.join()
    assert status.get("pid") is None
    for part in (lambda: status["pid"], lambda: status["channels"][0]["state"]):
        with pytest.raises(FeishupermError, match="another version") as caught:
            part()
        assert caught.value.hint
