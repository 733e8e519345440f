"""A card that only says hello: does the group bot take cards?"""

from __future__ import annotations

import time

from feishuperm.lib.feishu import Notice, build_notice_card, send_feishu_card
from feishuperm.lib.post import post_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from feishuperm.lib.feishu import SendResult
    from feishuperm.lib.post import Reply
    from feishuperm.models.settings import Settings


def send_hello(
    settings: Settings, post: Callable[[str, bytes], Reply] = post_json
) -> SendResult:
    """What Feishu said to a test card."""
    card = build_notice_card(Notice("test", time.time()), settings.feishuperm_lang)
    url, secret = settings.feishu_webhook_url, settings.feishu_webhook_secret
    return send_feishu_card(url, card, secret, post)


def send_test(settings: Settings) -> str:
    """What went wrong with a test card, if anything."""
    result = send_hello(settings)
    return "" if result.ok else result.message
