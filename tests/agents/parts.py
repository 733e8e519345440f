"""Recorded events of each agent, and what they are to become.

`samples/AGENT.json` has, of each event, what it is about, its tool and input as Claude
Code would name them, and no tool where nobody can decide it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from feishuperm.handlers.permission import read_request
from feishuperm.models.payload import AskPayload
from feishuperm.protocol.frames import HookRequest
from tests.services.test_approvals import ID, Bench, Waiter

FOLDER = Path(__file__).parent / "samples"
SERIAL = ("codex", "qwen", "copilot")  # they show no dialog while their hook waits
HOOKED = (*SERIAL, "opencode")


class Sample(NamedTuple):
    """A row of a file."""

    agent: str
    what: str
    event: dict[str, Any]
    tool: str
    input: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.agent}: {self.what}"


SAMPLES = [
    Sample(path.stem, **row)
    for path in sorted(FOLDER.glob("*.json"))
    for row in json.loads(path.read_text("utf-8"))
]


def first(agent: str) -> dict[str, Any]:
    """The event of an agent about a command."""
    rows = (row for row in SAMPLES if (row.agent, row.tool) == (agent, "Bash"))
    event: dict[str, Any] = json.loads(json.dumps(next(rows).event))
    return event


def about(agent: str, **given: Any) -> dict[str, Any]:
    """The same event, with other things given to the command's tool."""
    event = first(agent)
    input_of(event).update(given)
    return event


def input_of(event: dict[str, Any]) -> dict[str, Any]:
    """What was given to the tool, as the agent's event has it."""
    held: dict[str, Any] = event.get("call") or event
    key = next(key for key in ("toolInput", "tool_input", "input") if key in held)
    given: dict[str, Any] = held[key]
    return given


def said_in(output: bytes) -> dict[str, Any]:
    """The decision in what a hook printed, in one form for all agents."""
    said: dict[str, Any] = json.loads(output)
    if "reply" in said:
        reply = said.pop("reply")
        return {"behavior": "deny" if reply == "reject" else "allow", **said}
    said = said.get("hookSpecificOutput", said)
    return dict(said.get("decision", said))


def agent_asks(
    bench: Bench, agent: str, event: dict[str, Any] | None = None, id: str = ID
) -> Waiter:
    """The hook of an agent comes with an event."""
    waiter, raw = Waiter(), json.dumps(event or first(agent)).encode()
    sent = HookRequest(id, "", str(bench.project), raw, agent=agent)
    hook, payload = read_request(sent)
    assert isinstance(payload, AskPayload)
    bench.approvals.register(hook, payload, waiter)
    return waiter
