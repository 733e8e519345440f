"""What the hook client cannot do by relaying bytes: every event it hands over.

A permission request comes here when no server listens (the hook itself sends the card,
without buttons) or when its JSON is spelled in a way the client does not recognise.
All other events run the user's own callbacks and may make a notice.  What a hook prints
is one JSON object or nothing; what it logs goes to the log.
"""

from __future__ import annotations

import json
import os
import signal

from feishuperm import client
from feishuperm.errors import PayloadError
from feishuperm.lib import log as logging
from feishuperm.lib.config import load_settings
from feishuperm.lib.log import log
from feishuperm.models.notice import NOTICE_EVENTS
from feishuperm.models.payload import PermissionRequestPayload, parse_payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.models.payload import HookPayload
    from feishuperm.models.settings import Settings

CARD_SECONDS = 8  # for sending a card from the hook; Claude Code is waiting


def handle(raw: bytes, request_id: str, reason: str) -> bytes:
    """The bytes to print for an event; `reason` is why the client gave it away."""
    settings = load_settings(lenient=True)
    logging.configure(level=settings.feishuperm_log_level)
    for secret in (settings.feishu_webhook_url, settings.feishu_webhook_secret):
        logging.hide(secret)
    try:
        payload = parse_payload(raw)
    except PayloadError as error:
        log(f"unreadable event: {error}", "warning")
        signal.alarm(CARD_SECONDS)
        _tell_unreadable(settings)
        return b""
    if isinstance(payload, PermissionRequestPayload):
        return _permission(payload, raw, request_id, reason, settings)
    signal.alarm(0)  # callbacks have time-outs of their own
    _relay_notice(payload, raw, settings)
    return _callbacks(payload)


def _permission(
    payload: PermissionRequestPayload,
    raw: bytes,
    request_id: str,
    reason: str,
    settings: Settings,
) -> bytes:
    """Ask the server after all, or tell people that the terminal asks."""
    if reason != "no server":
        try:
            return client.ask(
                raw,
                os.fsencode(settings.permission_socket_path),
                request_id.encode(),
                os.environb.get(b"CLAUDE_PROJECT_DIR", b""),
            )
        except (client.NoServer, client.NotPermission):
            pass
    log(f"{request_id}: no server, left to the terminal", "warning")
    signal.alarm(CARD_SECONDS)
    _send_static_card(payload, request_id, settings)
    return b""


def _send_static_card(
    payload: PermissionRequestPayload, request_id: str, settings: Settings
) -> None:
    """The request's card from the same template, without buttons."""
    import time

    from feishuperm.lib.feishu import permission_messages, send_first
    from feishuperm.lib.git import current_branch
    from feishuperm.models.view import view_of

    project = os.environ.get("CLAUDE_PROJECT_DIR") or payload.base.cwd
    branch = current_branch(project)
    view = view_of(payload, request_id, project, branch, time.time(), 0)
    if not settings.feishu_webhook_url or view.kind not in settings.feishuperm_notify:
        return
    send_first(
        settings.feishu_webhook_url,
        permission_messages(view, settings.feishuperm_lang, at=settings.feishu_at),
        settings.feishu_webhook_secret,
    )


def _tell_unreadable(settings: Settings) -> None:
    """A request came that nobody can read: say so, through nobody's server."""
    if not settings.feishu_webhook_url:
        return
    import time

    from feishuperm.lib.feishu import build_notice_card, send_feishu_card
    from feishuperm.services.notices import unreadable_notice

    project = os.environ.get("CLAUDE_PROJECT_DIR", "")
    notice = unreadable_notice(project, time.time())
    card = build_notice_card(notice, settings.feishuperm_lang, settings.feishu_at)
    send_feishu_card(settings.feishu_webhook_url, card, settings.feishu_webhook_secret)


def _relay_notice(payload: HookPayload, raw: bytes, settings: Settings) -> None:
    """Hand the event to the server if a card was asked for; nobody waits for it."""
    row = NOTICE_EVENTS.get(payload.hook_event_name())
    if row is None or row.kind not in settings.feishuperm_notify:
        return
    project = os.environb.get(b"CLAUDE_PROJECT_DIR", b"")
    try:
        sock = client.connect(os.fsencode(settings.permission_socket_path))
    except client.NoServer:
        log(f"no server, no card for {payload.hook_event_name()}", "warning")
        return
    try:
        sock.settimeout(CARD_SECONDS)
        sock.sendall(client.frame(b"N", b"\0".join((client.PROTOCOL, project, raw))))
    except OSError:
        log("the server went away, no card", "warning")
    sock.close()


def _callbacks(payload: HookPayload) -> bytes:
    """Run the user's callbacks for this event; their merged answer, or nothing."""
    from feishuperm.services.application import run_interactive

    def warn(message: str) -> None:
        log(message, "warning")

    output = run_interactive(payload.fields, os.environ, warn)
    return json.dumps(output).encode() + b"\n" if output else b""
