"""The control protocol: lines in any pieces, requests, answers, odd lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.errors import ProtocolError
from feishuperm.protocol import json_lines
from feishuperm.protocol.stream_json import (
    ControlCancel,
    ControlRequest,
    ControlResponse,
    Message,
    StreamJson,
)
from tests.tables import every_row

LINES: list[tuple[Any, Any]] = [
    (
        {
            "type": "control_request",
            "request_id": "1",
            "request": {"subtype": "x", "a": 1},
        },
        ControlRequest("1", "x", {"subtype": "x", "a": 1}),
    ),
    ({"type": "control_cancel_request", "request_id": "1"}, ControlCancel("1")),
    (
        {
            "type": "control_response",
            "response": {"subtype": "success", "request_id": "2", "response": {"b": 2}},
        },
        ControlResponse("2", "", {"b": 2}),
    ),
    (
        {
            "type": "control_response",
            "response": {"subtype": "error", "request_id": "2", "error": "no"},
        },
        ControlResponse("2", "no", {}),
    ),
    (
        {"type": "result", "result": "\u2028"},
        Message("result", {"type": "result", "result": "\u2028"}),
    ),
    (
        {"type": "from_the_future"},
        Message("from_the_future", {"type": "from_the_future"}),
    ),
]
ODD = (
    *(b"", b"noise", b"[]", b"{}", b'{"type": 3}', b'{"type": "control_request"}'),
    *(b'{"type": "control_response", "response": []}', b"\xff\xfe", b"[" * 100000),
)


def events(protocol: StreamJson) -> list[Any]:
    return list(iter(protocol.next_event, None))


@every_row(("value", "event"), LINES)
def test_line_becomes_its_event_whatever_the_pieces(value: Any, event: Any) -> None:
    data = json.dumps(value, ensure_ascii=False).encode() + b"\n"
    protocol = StreamJson()
    for index in range(len(data)):
        assert protocol.next_event() is None
        protocol.receive_data(data[index : index + 1])
    assert events(protocol) == [event]


@given(st.lists(st.integers(0, len(LINES) - 1)), st.integers(1, 50))
def test_many_lines_in_pieces_of_any_size(choice: list[int], size: int) -> None:
    data = b"".join(json.dumps(LINES[index][0]).encode() + b"\n" for index in choice)
    protocol = StreamJson()
    found = []
    for start in range(0, len(data), size):
        protocol.receive_data(data[start : start + size])
        found += events(protocol)
    assert found == [LINES[index][1] for index in choice]


@every_row("line", ODD)
def test_odd_line_is_skipped(line: bytes) -> None:
    protocol = StreamJson()
    protocol.receive_data(line + b"\n" + b'{"type": "result"}\n')
    assert events(protocol) == [Message("result", {"type": "result"})]


def test_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "MAX_LINE", 100)
    protocol = StreamJson()
    protocol.receive_data(b"x" * 100)
    with pytest.raises(ProtocolError):
        protocol.receive_data(b"x")


def test_our_lines_have_the_shapes_of_the_cli() -> None:
    protocol = StreamJson()
    id, line = protocol.request("initialize", hooks={"Stop": []})
    first = json.loads(line)
    assert first["type"] == "control_request" and first["request_id"] == id
    assert first["request"] == {"subtype": "initialize", "hooks": {"Stop": []}}
    other, line = protocol.request("interrupt")
    assert json.loads(line)["request"] == {"subtype": "interrupt"} and other != id
    user = json.loads(protocol.user_message("hi"))
    assert user["message"] == {"role": "user", "content": "hi"}
    assert json.loads(protocol.reply("7", {"a": 1}))["response"] == {
        "subtype": "success",
        "request_id": "7",
        "response": {"a": 1},
    }
    assert json.loads(protocol.refuse("7", "no"))["response"] == {
        "subtype": "error",
        "request_id": "7",
        "error": "no",
    }


def test_text_with_line_separators_stays_on_one_line() -> None:
    line = StreamJson().user_message("a\nb\u2028c\x85")
    assert line.count(b"\n") == 1 and line.isascii()
