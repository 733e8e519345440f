"""A tiny MCP server on stdio, named `lab`: the tools `echo` (text) and `wipe` (target).

Run by the real client as `python3 mcp.py`; it answers one JSON-RPC line with another.
"""

from __future__ import annotations

import json
import sys
from typing import Any

ARGUMENTS = {"echo": "text", "wipe": "target"}
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
    said = "mcp-ok " + json.dumps(params.get("arguments"))
    return {"content": [{"type": "text", "text": said}]}


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
