"""JSON-RPC lines, whatever the other program prints."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from feishuperm.protocol.json_rpc import JsonRpc, Message
from tests.tables import every_row


def read(*bodies: Any, size: int = 1 << 20) -> list[Message]:
    """The events of these lines, fed in pieces."""
    data = b"".join(json.dumps(body).encode() + b"\n" for body in bodies)
    rpc, found = JsonRpc(), []
    for start in range(0, len(data), size):
        rpc.receive_data(data[start : start + size])
        while (event := rpc.next_event()) is not None:
            found.append(event)
    return found


@every_row(
    ("body", "event"),
    [
        ({"id": 1, "method": "m", "params": {"a": 1}}, Message("m", {"a": 1}, True, 1)),
        ({"id": None, "method": "m"}, Message("m", {}, True, None)),
        ({"method": "m", "params": [1]}, Message("m", {})),
        ({"id": "x", "result": {"a": 1}}, Message("", {"a": 1}, id="x")),
        ({"id": 1, "result": None}, Message("", {}, id=1)),
        ({"id": 1, "error": {"message": "no"}}, Message("", {}, id=1, error="no")),
        ({"id": 1, "error": 3}, Message("", {}, id=1, error="unknown error")),
        ({"id": 1, "error": None, "result": {}}, Message("", {}, id=1)),
        ({"id": 1}, None),
        ({"id": [], "method": "m"}, None),
        ({"id": {}, "result": {}}, None),
        ({"method": 3, "id": 1}, None),
        ([{"id": 1, "method": "m"}], None),
    ],
)
def test_line_is_a_request_a_note_an_answer_or_nothing(
    body: Any, event: Message | None
) -> None:
    for size in (1, 7, 1 << 20):
        assert read(body, size=size) == ([] if event is None else [event])


def test_what_is_written_is_read_by_the_other_end() -> None:
    rpc = JsonRpc()
    sent = (rpc.request("a", {"x": "\u2028"}), rpc.request("b", {}), rpc.note("c", {}))
    assert [json.loads(line).get("id") for line in sent] == [1, 2, None]
    answers = rpc.reply("i", {"y": 1}), rpc.refuse(None, -32601, "no")
    assert all(line.count(b"\n") == 1 for line in (*sent, *answers))
    assert read(*map(json.loads, (*sent, *answers))) == [
        Message("a", {"x": "\u2028"}, True, 1),
        Message("b", {}, True, 2),
        Message("c", {}),
        Message("", {"y": 1}, id="i"),
        Message("", {}, error="no"),
    ]


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    rpc = JsonRpc()
    rpc.receive_data(data + b"\n")
    while rpc.next_event() is not None:
        pass
