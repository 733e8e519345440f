"""What Feishu says of the app itself: is it complete, who shares it, who owns it.

Asked when the connection is first up and after a card that nobody answered, never on a
timer: calls are counted by the month.  Everything here runs in an outbox's thread; what
was learnt is read on the loop.

A connection that has just been cut may be counted for a while, so a second one is
believed when it is still there at a second look.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from feishuperm.lib.display import one_line
from feishuperm.lib.feishu_app import NO_ANSWER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.lib.feishu_app import AppApi

BOT = "/open-apis/bot/v3/info"
APPLICATION = "/open-apis/application/v6/applications/me?lang=zh_cn"
CONNECTIONS = "/open-apis/event/v1/connection"
PERSON = "/open-apis/contact/v3/users/{id}?user_id_type=open_id"
ENABLED = 2
CALLBACK = "card.action.trigger"
NAME = 40  # characters of a person's name


class Finding(NamedTuple):
    """What is wrong with the app, as far as it can be told."""

    problem: str = ""  # a sentence: no tap can arrive until it is mended
    connections: int = 1  # of this app, ours included


def examine(api: AppApi) -> Finding:
    """Ask Feishu about the app; what it does not tell counts as good."""
    return Finding(_bot(api) or _callback(api), _connections(api))


def _bot(api: AppApi) -> str:
    result = api.request("GET", BOT)
    if not result.ok:
        silent = result.retry or result.code == NO_ANSWER
        return "" if silent else result.message
    status = _part(result.data, "bot").get("activate_status")
    return "" if status in (None, ENABLED) else api.problem("app.bot_off")


def _callback(api: AppApi) -> str:
    info = _part(api.request("GET", APPLICATION).data, "app").get("callback_info")
    if not isinstance(info, dict):
        return ""
    listed = info.get("subscribed_callbacks")
    missing = isinstance(listed, list) and CALLBACK not in listed
    elsewhere = info.get("callback_type") == "webhook"
    return api.problem("app.callback") if missing or elsewhere else ""


def _connections(api: AppApi) -> int:
    count = api.request("GET", CONNECTIONS).data.get("online_instance_cnt")
    return count if isinstance(count, int) else 1


def name_of(api: AppApi, open_id: str) -> str:
    """A person's name in the directory; empty if the app may not read it."""
    path = PERSON.format(id=quote(open_id, safe=""))
    name = _part(api.request("GET", path).data, "user").get("name")
    return one_line(name, NAME) if isinstance(name, str) else ""


def _part(data: Any, key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}
