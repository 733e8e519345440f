"""Cards that a hook sends by itself, because no server can: they have no buttons."""

from __future__ import annotations

import os
import time
from functools import partial

from feishuperm.lib.feishu import (
    Bot,
    Post,
    build_notice_card,
    permission_messages,
    send_feishu_card,
)
from feishuperm.lib.git import current_branch
from feishuperm.lib.post import post_json
from feishuperm.lib.text import text
from feishuperm.models.ask import Notice
from feishuperm.models.payload import AskPayload
from feishuperm.models.settings import Settings
from feishuperm.services.presenter import brief_ask


def send_static_card(payload: AskPayload, request_id: str, settings: Settings) -> None:
    """The request's card from the same template; the terminal asks."""
    project = os.environ.get("CLAUDE_PROJECT_DIR") or payload.base.cwd
    ask = brief_ask(payload, request_id, project, settings.feishuperm_lang)
    if not settings.feishu_webhook_url or ask.kind not in settings.feishuperm_notify:
        return
    ask = ask._replace(created=time.time())
    if settings.titles_only():
        ask = ask.bare(text(ask.language, "card.title_only"))
    messages = permission_messages(ask, at=settings.feishu_at)
    url, secret = settings.feishu_webhook_url, settings.feishu_webhook_secret
    Bot(url, secret, _post(settings)).send_first(messages)


def tell_unreadable(settings: Settings) -> None:
    """A request came that nobody can read: say so, through nobody's server."""
    if not settings.feishu_webhook_url:
        return
    project = os.environ.get("CLAUDE_PROJECT_DIR", "")
    notice = Notice("unreadable", time.time(), project, current_branch(project))
    notice = notice.bare() if settings.titles_only() else notice
    card = build_notice_card(notice, settings.feishuperm_lang, settings.feishu_at)
    url, secret = settings.feishu_webhook_url, settings.feishu_webhook_secret
    send_feishu_card(url, card, secret, _post(settings))


def _post(settings: Settings) -> Post:
    return partial(post_json, ca_file=settings.feishuperm_ca_file)
