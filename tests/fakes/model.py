"""A scripted Messages API on loopback, so that the real client can run without a model.

A script maps a lane to its turns; a turn is a list of blocks (`text`, `tool`) or a
function from the request's body to such a list.  The lane of a request is X when a user
message says `[[lane:X]]` (the last one wins; put it in a subagent's prompt), `review`
when the client offers the StructuredOutput tool (`--json-schema`), `side` when it
offers no tools (titles, summaries), and `main` otherwise.  A lane without turns says
"DONE".  It knows nothing of feishuperm.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Union

Block = dict[str, Any]
Turn = Union[list[Block], Callable[[dict[str, Any]], list[Block]]]
LANE = re.compile(r"\[\[lane:([\w-]+)\]\]")
PLAN_FILE = re.compile(r"/[\w./@+-]+/plans/[\w.-]+\.md")


class Exchange(NamedTuple):
    """One recorded request: its lane is empty unless it asked for a message."""

    lane: str
    method: str
    path: str
    body: dict[str, Any]
    reply: list[Block]


class ToolResult(NamedTuple):
    text: str
    is_error: bool


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def tool(name: str, /, **tool_input: object) -> Block:
    """A tool call; it gets a fresh id."""
    return {
        "type": "tool_use",
        "id": "toolu_" + uuid.uuid4().hex[:20],
        "name": name,
        "input": tool_input,
    }


def write_plan(words: str) -> Turn:
    """A turn that writes the plan into the file which the client names in plan mode.

    The client takes a plan from there alone; what ExitPlanMode is called with is lost.
    """

    def turn(body: dict[str, Any]) -> list[Block]:
        named = PLAN_FILE.search(json.dumps(body))
        assert named, "the client names no file for the plan"
        return [tool("Write", file_path=named[0], content=words)]

    return turn


def words_of(content: Any) -> str:
    """The text of a message or of a tool result, whatever its shape."""
    if isinstance(content, str):
        return content
    parts = []
    for block in content or ():
        if block.get("type") == "text":
            parts.append(block["text"])
        elif block.get("type") == "tool_result":
            parts.append(words_of(block.get("content")))
    return "\n".join(parts)


def lane_of(body: Mapping[str, Any]) -> str:
    """Which script a request belongs to."""
    for message in reversed(body.get("messages", ())):
        found = LANE.findall(words_of(message.get("content")))
        if message.get("role") == "user" and found:
            return str(found[-1])
    names = [offered.get("name") for offered in body.get("tools") or ()]
    if "StructuredOutput" in names:
        return "review"
    return "main" if names else "side"


class Model:
    """The endpoint. Start it with `with Model({...}) as model:`."""

    HANDLER: type[_Handler] | None = None

    def __init__(self, script: Mapping[str, Iterable[Turn]] | None = None) -> None:
        self.script = {lane: list(turns) for lane, turns in (script or {}).items()}
        self.requests: list[Exchange] = []
        # In auto mode: why a call is flagged, or nothing.
        self.flags: Callable[[Block], str] = lambda block: ""
        self.changed = threading.Condition()
        self.httpd = _Server(("127.0.0.1", 0), self.HANDLER or _Handler)
        self.httpd.model = self
        self.url = f"http://127.0.0.1:{self.httpd.server_address[1]}"
        self._thread = threading.Thread(
            target=self.httpd.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.httpd.shutdown()
        self.httpd.server_close()
        self._thread.join(5)

    def push(self, *turns: Turn, lane: str = "main") -> None:
        """More turns for a session that is already running."""
        with self.changed:
            self.script.setdefault(lane, []).extend(turns)

    def calls(self, lane: str = "main") -> list[dict[str, Any]]:
        """The bodies of a lane's requests so far."""
        with self.changed:
            return [
                exchange.body for exchange in self.requests if exchange.lane == lane
            ]

    def wait(
        self, count: int, lane: str = "main", timeout: float = 30
    ) -> list[dict[str, Any]]:
        """The bodies of a lane once there are `count`. Raises TimeoutError."""
        until = time.monotonic() + timeout
        with self.changed:
            while len(self.calls(lane)) < count:
                left = until - time.monotonic()
                if left <= 0:
                    seen = [exchange.lane for exchange in self.requests]
                    raise TimeoutError(f"wanted {count} on lane {lane}, saw {seen}")
                self.changed.wait(left)
        return self.calls(lane)

    def tool_results(self, lane: str = "main") -> dict[str, ToolResult]:
        """What the model was last told about each tool call, by its id."""
        results = {}
        for body in self.calls(lane):
            for message in body.get("messages", ()):
                content = message.get("content")
                for block in content if isinstance(content, list) else ():
                    if block.get("type") == "tool_result":
                        results[block["tool_use_id"]] = ToolResult(
                            words_of(block.get("content")),
                            bool(block.get("is_error")),
                        )
        return results

    def lane_of(self, body: Mapping[str, Any]) -> str:
        """Which script a request belongs to."""
        return lane_of(body)

    def take(self, method: str, path: str, body: dict[str, Any]) -> list[Block]:
        """Record a request for a message and give it its turn."""
        lane = self.lane_of(body)
        with self.changed:
            turns = self.script.get(lane)
            turn = turns.pop(0) if turns else [text("DONE")]
        blocks = turn(body) if callable(turn) else turn
        self.record(Exchange(lane, method, path, body, blocks))
        return blocks

    def record(self, exchange: Exchange) -> None:
        with self.changed:
            self.requests.append(exchange)
            self.changed.notify_all()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    model: Model

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up in the middle of an answer is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.model.record(Exchange("", self.command, self.path, {}, []))
        self._json({"data": [], "has_more": False} if "/models" in self.path else {})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(size) or b"{}")
        path = self.path.partition("?")[0]
        if not path.endswith("/v1/messages"):
            self.server.model.record(Exchange("", self.command, path, body, []))
            return self._json({"input_tokens": 100} if "count_tokens" in path else {})
        model = self.server.model
        message = _message(body, model.take(self.command, path, body))
        if body.get("safeguards"):
            message["safeguard_results"] = [_verdict(message["content"], model.flags)]
        return self._stream(message) if body.get("stream") else self._json(message)

    def _json(self, reply: Mapping[str, Any]) -> None:
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, message: Mapping[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in _events(message):
            line = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            self.wfile.write(line.encode())


def _message(body: Mapping[str, Any], blocks: list[Block]) -> dict[str, Any]:
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": "msg_" + uuid.uuid4().hex[:20],
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": blocks,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 20},
    }


def _verdict(blocks: list[Block], flags: Callable[[Block], str]) -> Block:
    """What the client's auto mode is told of the calls in a message."""
    told = {}
    for block in blocks:
        if block["type"] == "tool_use":
            why = flags(block)
            outcome = "flagged" if why else "not_flagged"
            told[block["id"]] = {
                "type": "evaluated",
                "outcome": outcome,
                **({"explanation": why} if why else {}),
            }
    status = {"type": "available", "tool_uses": told}
    return {"type": "dangerous_tool_use", "status": status}


def _events(message: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """The server-sent events of one message, each block in a single delta."""
    start = {**message, "content": [], "stop_reason": None}
    start.pop("safeguard_results", None)
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty: Block = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            partial = json.dumps(block["input"])
            delta = {"type": "input_json_delta", "partial_json": partial}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    if "safeguard_results" in message:
        end["safeguard_results"] = message["safeguard_results"]
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 20}}
    yield {"type": "message_stop"}
