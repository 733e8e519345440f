"""The scripted model for agents that speak OpenAI's APIs: Responses, chat completions.

Scripts, lanes and records are those of `tests.fakes.model`.  A request takes a turn
only if it offers tools and goes on with the conversation: some agents ask, with tools,
for suggestions and memories of their own.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.fakes.model import (
    LANE,
    Block,
    Model,
    ToolResult,
    _Handler,
    lane_of,
    words_of,
)

Events = Iterable[tuple[str, object]]
# How the last message of a request begins that is no part of the conversation.
ASIDE = re.compile(r"\[SUGGESTION MODE|Managed memory has")
USAGE = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}


class AgentModel(Model):
    """The endpoint; an agent's base URL is `url` and `/v1`."""

    def lane_of(self, body: Mapping[str, Any]) -> str:
        if "input" not in body and "messages" not in body:
            return "side"
        said = [words for role, words in _messages(body) if role == "user"]
        found = [lane for words in said for lane in LANE.findall(words)]
        if found:
            return str(found[-1])
        if said and ASIDE.match(said[-1]):
            return "side"
        return lane_of({"tools": body.get("tools")})

    def tool_results(self, lane: str = "main") -> dict[str, ToolResult]:
        results = super().tool_results(lane)
        for body in self.calls(lane):
            for item in _items(body):
                id = item.get("call_id") or item.get("tool_call_id")
                said = item.get("output", item.get("content"))
                is_result = str(item.get("type")).endswith("_call_output")
                if id and (is_result or item.get("role") == "tool"):
                    results[id] = ToolResult(_plain(said), False)
        return results


def _items(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    items = body.get("messages") or body.get("input") or []
    return items if isinstance(items, list) else [{"role": "user", "content": items}]


def _messages(body: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for item in _items(body):
        yield str(item.get("role")), _plain(item.get("content"))


def _plain(content: Any) -> str:
    """The text of a message in either API, or in Anthropic's."""
    if isinstance(content, list):
        texts = [str(part["text"]) for part in content if "text" in part]
        return "\n".join(texts) or words_of(content)
    return content if isinstance(content, str) else ""


class _AgentHandler(_Handler):
    def do_POST(self) -> None:  # noqa: N802
        path = self.path.partition("?")[0]
        answer = next((row for end, row in ROUTES.items() if path.endswith(end)), None)
        if answer is None:
            return super().do_POST()
        size = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(size) or b"{}")
        blocks = self.server.model.take(self.command, path, body)
        whole, events = answer(body, blocks)
        if not body.get("stream"):
            return self._json(whole)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for kind, data in events:
            head = f"event: {kind}\n" if kind else ""
            said = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write(f"{head}data: {said}\n\n".encode())


def _response(
    body: dict[str, Any], blocks: list[Block]
) -> tuple[dict[str, Any], Events]:
    """A whole reply of the Responses API, and the events that stream it."""
    counts = {"input_tokens": 10, "output_tokens": 20, "total_tokens": 30}
    whole = {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "model": body.get("model"),
        "status": "completed",
        "output": [_output(block) for block in blocks],
        "usage": {
            **counts,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
    began = {**whole, "output": [], "status": "in_progress", "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": began}]
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item": item}
        events.append({"type": "response.output_item.added", **at})
        events.append({"type": "response.output_item.done", **at})
    events.append({"type": "response.completed", "response": whole})
    numbered = [{**row, "sequence_number": n} for n, row in enumerate(events)]
    return whole, [(row["type"], row) for row in numbered]


def _output(block: Block) -> dict[str, Any]:
    if block["type"] == "text":
        said = {"type": "output_text", "text": block["text"], "annotations": []}
        message = {"type": "message", "role": "assistant", "status": "completed"}
        return {**message, "id": f"msg_{uuid.uuid4().hex}", "content": [said]}
    return {
        "type": "function_call",
        "id": f"fc_{uuid.uuid4().hex}",
        "call_id": block["id"],
        "name": block["name"],
        "arguments": json.dumps(block["input"]),
        "status": "completed",
        **({"namespace": block["namespace"]} if "namespace" in block else {}),
    }


def _completion(
    body: dict[str, Any], blocks: list[Block]
) -> tuple[dict[str, Any], Events]:
    """A whole chat completion, and the chunks that stream it."""
    said = "".join(block["text"] for block in blocks if block["type"] == "text")
    calls = [
        {"id": block["id"], "type": "function", "function": _function(block)}
        for block in blocks
        if block["type"] == "tool_use"
    ]
    id = f"chatcmpl-{uuid.uuid4().hex}"
    head = {"id": id, "created": 0, "model": body.get("model")}
    message: dict[str, Any] = {"role": "assistant", "content": said or None}
    if calls:
        message["tool_calls"] = calls
    finish = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    whole = {**head, "object": "chat.completion", "usage": USAGE, "choices": [choice]}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": said}]
    deltas += [{"tool_calls": [{**call, "index": n}]} for n, call in enumerate(calls)]
    choices = [{"index": 0, "delta": row, "finish_reason": None} for row in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    chunk = {**head, "object": "chat.completion.chunk"}
    chunks = [{**chunk, "choices": [row]} for row in choices]
    chunks.append({**chunk, "choices": [], "usage": USAGE})
    return whole, [*(("", row) for row in chunks), ("", "[DONE]")]


def _function(block: Block) -> dict[str, str]:
    return {"name": block["name"], "arguments": json.dumps(block["input"])}


ROUTES: dict[
    str, Callable[[dict[str, Any], list[Block]], tuple[dict[str, Any], Events]]
] = {"/responses": _response, "/chat/completions": _completion}
AgentModel.HANDLER = _AgentHandler
