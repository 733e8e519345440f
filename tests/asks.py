"""Asks of realistic calls, made as the server makes them."""

from __future__ import annotations

import json
from typing import Any

from feishuperm.lib.log import finish
from feishuperm.models.ask import Ask
from feishuperm.models.kind import KINDS
from feishuperm.models.payload import (
    AskPayload,
    PermissionRequestPayload,
    parse_payload,
)
from feishuperm.models.settings import Settings
from feishuperm.protocol.frames import HookRequest
from feishuperm.services.presenter import Presenter
from feishuperm.services.request_manager import new_request
from feishuperm.services.rule_writer import RuleWriter
from tests.lib.samples import CALLS
from tests.served import EVENT

ID = "1700000000-0a1b2c3d"
URL = "http://host:8080"


def payload_of(
    tool_name: str = "Bash", tool_input: dict[str, Any] | None = None, **fields: Any
) -> PermissionRequestPayload:
    """The event of a call; without input, the sample of its tool."""
    call = CALLS[tool_name] if tool_input is None else tool_input
    event = {**EVENT, "tool_name": tool_name, "tool_input": call, **fields}
    return PermissionRequestPayload(event)


def make_ask(
    tool_name: str = "Bash",
    tool_input: dict[str, Any] | None = None,
    language: str = "zh",
    **changes: Any,
) -> Ask:
    """What a person is asked about a call."""
    payload = payload_of(tool_name, tool_input, session_id="0123456789abcdef")
    project = "/home/me/my-project"
    hook = HookRequest(ID, "", project, b"{}")
    request = new_request(hook, payload, 1700000000.0, 0.0)
    settings = Settings({"FEISHUPERM_LANG": language})
    request.seconds = settings.permission_request_timeout
    presenter = Presenter(settings, RuleWriter())
    request.keep_ask(finish(presenter.brief(request, payload)))
    ask = presenter.ask(request, payload)
    return ask._replace(branch="feature/x")._replace(**changes)


def ask_of(event: dict[str, Any]) -> Ask:
    """What a person is asked by any event, as a card may show it."""
    raw = json.dumps(event).encode()
    payload = parse_payload(raw)
    assert isinstance(payload, AskPayload)
    hook = HookRequest(ID, "", "/home/me/my-project", raw)
    request = new_request(hook, payload, 1700000000.0, 0.0)
    request.seconds = KINDS[request.kind].seconds or 55
    return finish(Presenter(Settings({}), RuleWriter()).brief(request, payload))


def url(path: str, id: str) -> str:
    """Where a button leads."""
    return f"{URL}{path}?id={id}"
