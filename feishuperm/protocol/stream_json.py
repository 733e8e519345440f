"""The control protocol of the Claude CLI: one JSON object per line, both ways.

The host's half, without any I/O: feed what the CLI printed to `receive_data()`, take
events from `next_event()` until it returns None, and write what the other methods
return to the CLI's stdin.  It knows the shape of messages and nothing of hooks,
permissions or processes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Union

from feishuperm.models.fields import part_at
from feishuperm.protocol.json_lines import JsonLines, line


class ControlRequest(NamedTuple):
    """The CLI asks; it waits for `reply()` or `refuse()` with this id."""

    id: str
    subtype: str
    body: dict[str, Any]


class ControlCancel(NamedTuple):
    """The CLI no longer waits for the answer to a request."""

    id: str


class ControlResponse(NamedTuple):
    """The answer to one of our own requests; `error` is empty on success."""

    id: str
    error: str
    body: dict[str, Any]


class Message(NamedTuple):
    """Anything else: "system", "assistant", "user", "result", or newer."""

    type: str
    body: dict[str, Any]


Event = Union[ControlRequest, ControlCancel, ControlResponse, Message]


class StreamJson(JsonLines[Event]):
    """One conversation with a CLI."""

    def event(self, body: dict[str, Any]) -> Event | None:
        return _event(body)

    def request(self, subtype: str, **fields: Any) -> tuple[str, bytes]:
        """One of our requests: its id, which the answer will carry, and the line."""
        self.requests += 1
        id = f"feishuperm_{self.requests}"
        request = {"subtype": subtype, **fields}
        return id, _line("control_request", request_id=id, request=request)

    def user_message(self, text: str) -> bytes:
        message = {"role": "user", "content": text}
        return _line("user", session_id="", message=message, parent_tool_use_id=None)

    def reply(self, id: str, response: dict[str, Any]) -> bytes:
        """The answer to a ControlRequest."""
        body = {"subtype": "success", "request_id": id, "response": response}
        return _line("control_response", response=body)

    def refuse(self, id: str, error: str) -> bytes:
        """The answer to a ControlRequest that cannot be served."""
        body = {"subtype": "error", "request_id": id, "error": error}
        return _line("control_response", response=body)


def _line(type: str, **parts: Any) -> bytes:
    return line({"type": type, **parts})


def _event(body: dict[str, Any]) -> Event | None:
    """The event of an object; None for one that is none (a tool's own print)."""
    type = body.get("type")
    if not isinstance(type, str):
        return None
    if type == "control_cancel_request":
        return ControlCancel(str(body.get("request_id", "")))
    if type not in ("control_request", "control_response"):
        return Message(type, body)
    inner = body.get(type.removeprefix("control_"))
    if not isinstance(inner, dict):
        return None
    subtype = str(inner.get("subtype", ""))
    if type == "control_request":
        return ControlRequest(str(body.get("request_id", "")), subtype, inner)
    error = str(inner.get("error") or "unknown error") if subtype == "error" else ""
    id = str(inner.get("request_id", ""))
    return ControlResponse(id, error, part_at(inner, "response"))
