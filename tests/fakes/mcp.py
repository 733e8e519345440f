"""A tiny MCP server on stdio, named `lab`: the tools `echo` (text) and `wipe` (target),
and `ask` (params), which asks the person for something and tells what came of it.

Run by the real client as `python3 mcp.py`; it answers one JSON-RPC line with another.
"""

from __future__ import annotations

import json
import sys
from typing import Any

ARGUMENTS = {"echo": "text", "wipe": "target", "ask": "params"}
TOOLS = [
    {
        "name": name,
        "description": name,
        "inputSchema": {"type": "object", "properties": {key: {"type": "string"}}},
    }
    for name, key in ARGUMENTS.items()
]


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": params.get("protocolVersion", "2025-06-18"),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "lab", "version": "1"},
    }


def list_tools(params: dict[str, Any]) -> dict[str, Any]:
    return {"tools": TOOLS}


def call_tool(params: dict[str, Any]) -> dict[str, Any]:
    given = params.get("arguments") or {}
    if params.get("name") == "ask":
        return {"content": [{"type": "text", "text": elicit(given["params"])}]}
    said = "mcp-ok " + json.dumps(given)
    return {"content": [{"type": "text", "text": said}]}


def elicit(params: str) -> str:
    """What the person says to a form or an address, as the client passes it on."""
    asked = {"jsonrpc": "2.0", "id": "asked", "method": "elicitation/create"}
    print(json.dumps({**asked, "params": json.loads(params)}), flush=True)
    for line in sys.stdin:
        answer = json.loads(line)
        if answer.get("id") == "asked":
            return "mcp-said " + json.dumps(answer.get("result"))
    return ""


METHODS = {
    "initialize": initialize,
    "tools/list": list_tools,
    "tools/call": call_tool,
}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:  # a notification wants no answer
            continue
        method = METHODS.get(message.get("method"))
        result = method(message.get("params") or {}) if method else {}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
