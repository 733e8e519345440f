"""What the hook client cannot do by relaying bytes: every event it hands over.

A permission request comes here when no server listens (the hook itself sends the card,
without buttons) or when its JSON is spelled in a way the client does not recognise.
All other events run the user's own callbacks and may make a notice.  What a hook prints
is one JSON object or nothing; what it logs goes to the log.

Every module is compiled anew at each start, so an event loads only what it needs.
"""

from __future__ import annotations

import gc
import os
from _signal import SIGALRM, SIGHUP, SIGTERM, alarm, signal

from feishuperm import wire
from feishuperm.lib import quick_json
from feishuperm.models.notice import NOTICE_EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from feishuperm.models.settings import Settings

# As in `client.PERMISSION`: only a key can look like this.
PRE_TOOL_USE = (b'"hook_event_name":"PreToolUse"', b'"hook_event_name": "PreToolUse"')
CARD_SECONDS = 8  # for sending a card from the hook; Claude Code is waiting


def handle(raw: bytes, request_id: str, reason: str) -> bytes:
    """The bytes to print for an event; `reason` is why the client gave it away."""
    gc.disable()  # there is little garbage, and looking for it takes milliseconds
    if len(raw) > wire.MAX_INPUT:
        return _endless(raw)
    fields = _decoded(raw)
    event = fields.get("hook_event_name")
    if not isinstance(event, str) or event in ("", "PermissionRequest"):
        if _is_of_a_run(fields):  # which asks by itself, once
            return b""
        return _permission(raw, request_id, reason)
    if event in NOTICE_EVENTS:
        _relay_notice(event, raw)
    alarm(0)  # callbacks have time-outs of their own
    return _callbacks(fields)


def _decoded(raw: bytes) -> dict[str, Any]:
    try:
        fields = quick_json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _endless(raw: bytes) -> bytes:
    """An event cut off: a guard that cannot be shown a tool call stops it."""
    _warn("an event is too long to be read")
    if not any(key in raw for key in PRE_TOOL_USE):
        return b""
    from feishuperm.engine.application import has_callbacks

    if not has_callbacks("PreToolUse", os.environ, _warn):
        return b""
    from feishuperm.engine.hook_output import for_client

    reason = "the tool call is too long for the hooks that would check it"
    output = for_client("PreToolUse", {"decision": "block", "reason": reason})
    return quick_json.dumps(output).encode() + b"\n"


def _is_of_a_run(fields: dict[str, Any]) -> bool:
    if "FEISHUPERM_RUN" not in os.environ:
        return False
    from feishuperm.engine.run_mark import is_of_a_run

    return is_of_a_run(os.environ, fields.get("session_id"))


def _permission(raw: bytes, request_id: str, reason: str) -> bytes:
    """Ask the server after all, or tell people that the terminal asks."""
    from feishuperm.errors import PayloadError
    from feishuperm.models.payload import PermissionRequestPayload, parse_payload

    settings = _settings()
    if len(raw) > wire.MAX_EVENT:
        _warn(f"{request_id}: too long to be relayed, left to the terminal")
        return b""
    try:
        payload = parse_payload(raw)
    except PayloadError as error:
        return _unreadable(error, settings)
    assert isinstance(payload, PermissionRequestPayload)
    if reason != "no server":
        path = os.fsencode(settings.permission_socket_path)
        try:
            return wire.ask(raw, path, request_id.encode(), _project())
        except (wire.NoServer, wire.NotPermission):
            pass
    _warn(f"{request_id}: no server, left to the terminal")
    alarm(CARD_SECONDS)
    from feishuperm.services.static_card import send_static_card

    send_static_card(payload, request_id, settings)
    return b""


def _unreadable(error: Exception, settings: Settings) -> bytes:
    from feishuperm.services.static_card import tell_unreadable

    _warn(f"unreadable event: {error}")
    alarm(CARD_SECONDS)
    tell_unreadable(settings)
    return b""


def _relay_notice(event: str, raw: bytes) -> None:
    """Hand the event to the server if a card was asked for; nobody waits for it."""
    settings = _settings()
    if NOTICE_EVENTS[event].kind not in settings.feishuperm_notify:
        return
    # A frozen server may keep even connect() for ever; the callbacks must run.
    signal(SIGALRM, _give_up)
    alarm(CARD_SECONDS)
    problem = ""
    try:
        _send(raw, os.fsencode(settings.permission_socket_path))
    except wire.NoServer:
        problem = f"no server, no card for {event}"
    except OSError:
        problem = "the server went away, no card"
    alarm(0)
    if problem:
        _warn(problem)


def _send(raw: bytes, path: bytes) -> None:
    sock = wire.connect(path)
    try:
        body = b"\0".join((wire.PROTOCOL, _project(), raw))
        sock.sendall(wire.frame(b"N", body))
    finally:
        sock.close()


def _leave(*_: object) -> None:
    raise SystemExit


def _give_up(*_: object) -> None:
    raise TimeoutError


def _callbacks(fields: dict[str, Any]) -> bytes:
    """Run the user's callbacks for this event; their merged answer, or nothing."""
    from feishuperm.engine.application import run_interactive

    # Who ends us means the callback as well: its child is killed on the way out.
    for number in (SIGTERM, SIGHUP):
        signal(number, _leave)
    signal(SIGALRM, _give_up)
    output = run_interactive(fields, os.environ, _warn, _error, alarm)
    return quick_json.dumps(output).encode() + b"\n" if output else b""


def _project() -> bytes:
    return os.environb.get(b"CLAUDE_PROJECT_DIR", b"")


def _settings() -> Settings:
    from feishuperm.lib.config import load_settings

    return load_settings(lenient=True)


def _error(message: str) -> None:
    _warn(message, "error")


def _warn(message: str, level: str = "warning") -> None:
    from feishuperm.lib import log

    settings = _settings()
    log.configure(level=settings.feishuperm_log_level)
    for secret in (settings.feishu_webhook_url, settings.feishu_webhook_secret):
        log.hide(secret)
    log.log(message, level)
