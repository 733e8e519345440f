"""JSON-RPC 2.0, one object per line, both ways, without any I/O; see `json_lines`."""

from __future__ import annotations

from typing import Any, NamedTuple

from feishuperm.models.fields import part_at, text_at
from feishuperm.protocol.json_lines import JsonLines, line

NO_METHOD, FAILED = -32601, -32603


class Message(NamedTuple):
    """What the other program says, asks, or answers to one of our own requests."""

    method: str  # empty: it answers
    body: dict[str, Any]  # parameters, or the result
    waits: bool = False  # for `reply()` or `refuse()`
    id: object = None  # a text or a number, of what is asked or answered
    error: str = ""  # of an answer; empty on success


class JsonRpc(JsonLines[Message]):
    """One conversation."""

    def event(self, body: dict[str, Any]) -> Message | None:
        id, method = body.get("id"), text_at(body, "method")
        is_answer = "result" in body or "error" in body
        is_known = isinstance(id, (str, int, float, type(None)))
        if not is_known or not (method or is_answer):
            return None
        if method:
            return Message(method, part_at(body, "params"), "id" in body, id)
        said = text_at(body, "error", "message") or "unknown error"
        error = said if body.get("error") is not None else ""
        return Message("", part_at(body, "result"), id=id, error=error)

    def request(self, method: str, params: dict[str, Any]) -> bytes:
        """One of our requests; the answer carries their number as its id."""
        self.requests += 1
        return _line(id=self.requests, method=method, params=params)

    def note(self, method: str, params: dict[str, Any]) -> bytes:
        return _line(method=method, params=params)

    def reply(self, id: object, result: dict[str, Any]) -> bytes:
        return _line(id=id, result=result)

    def refuse(self, id: object, code: int, why: str) -> bytes:
        return _line(id=id, error={"code": code, "message": why})


def _line(**parts: Any) -> bytes:
    return line({"jsonrpc": "2.0", **parts})
