"""Cards that tell and do not ask.

`Notices` are the server's: a turn that ended, a failure, a request that nobody could
read.  Which events make one is a setting; how a card looks is the channel's business.
The functions below send what a hook tells by itself, because no server can: cards
without a button.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from feishuperm.agents.table import CLAUDE
from feishuperm.lib.feishu import (
    Bot,
    build_notice_card,
    card_message,
    permission_messages,
)
from feishuperm.lib.files import current_branch
from feishuperm.lib.log import log
from feishuperm.lib.post import post_json
from feishuperm.models.ask import NOTICES, Notice
from feishuperm.models.names import NOTICE_EVENTS
from feishuperm.models.payload import AskPayload, HookPayload
from feishuperm.models.settings import Settings
from feishuperm.services.presenter import brief_ask
from feishuperm.services.quiet import quiet_hours
from feishuperm.services.session_reader import Figures, figures, spent_by

TWICE_SECONDS = 10.0  # between the hooks of one event, on a machine that is busy


class Notices:
    """Turns events into notices; `tell` hands them to every channel."""

    def __init__(
        self,
        tell: Callable[[Notice], object],
        kinds: frozenset[str],
        clock: Callable[[], float] = time.time,
        complete: Callable[[Notice, HookPayload], Notice] = lambda notice, _: notice,
    ) -> None:
        self._notify = tell
        self._complete = complete  # with what else is known of the event
        self._kinds = kinds
        self._clock = clock
        self._told: dict[int, float] = {}  # when each event was, for a moment

    def event(self, payload: HookPayload, project: str) -> None:
        """An event came by; tell of it if the user asked for its kind."""
        row = NOTICE_EVENTS.get(payload.hook_event_name())
        if row is None or row.kind not in self._kinds or self._is_again(payload):
            return
        now, path = self._clock(), payload.transcript_path()
        turn = figures(path) if row.kind == "stop" else Figures()
        seconds = now - turn.prompted if turn.prompted else 0.0
        project, session = project or payload.base.cwd, payload.session_id()
        notice = self._notice(row.kind, project, session, row.text(payload), seconds)
        notice = notice._replace(spent=spent_by(turn, now))
        self._notify(self._complete(notice, payload))

    def _is_again(self, payload: HookPayload) -> bool:
        """Whether another hook, registered for the same event, has just told of it."""
        now, same = self._clock(), hash(str(payload.fields))
        self._told = {k: at for k, at in self._told.items() if now - at < TWICE_SECONDS}
        is_again = same in self._told
        self._told.setdefault(same, now)
        return is_again

    def unreadable(self, project: str) -> None:
        """A permission request came that nobody can read."""
        self._notify(self._notice("unreadable", project))

    def command(self, command: dict[str, Any]) -> bool:
        """A notice from a command of this program; False if its kind is unknown."""
        kind = str(command.get("kind"))
        if kind not in NOTICES:
            return False
        names = ("project", "session", "text")
        project, session, text = (str(command.get(name) or "") for name in names)
        self._notify(self._notice(kind, project, session, text))
        return True

    def _notice(
        self,
        kind: str,
        project: str,
        session: str = "",
        text: str = "",
        seconds: float = 0.0,
    ) -> Notice:
        log(f"notice: {kind}", "debug")
        now, branch = self._clock(), current_branch(project)
        return Notice(kind, now, project, branch, session, text, seconds)


def send_static_card(payload: AskPayload, request_id: str, settings: Settings) -> None:
    """The request's card from the same template; the terminal asks."""
    named = os.getcwd() if payload.agent != CLAUDE else ""
    project = named or os.environ.get("CLAUDE_PROJECT_DIR") or payload.base.cwd
    ask = brief_ask(payload, request_id, project, settings.feishuperm_lang)
    bot = _bot(settings)
    if bot is None or ask.kind not in settings.feishuperm_notify:
        return
    ask = ask._replace(created=time.time())
    ask = ask.bare() if settings.titles_only() else ask
    bot.send_first(permission_messages(ask, at=settings.feishu_at))


def tell_unreadable(settings: Settings) -> None:
    """A request came that nobody can read: say so, without a server."""
    bot, project = _bot(settings), os.environ.get("CLAUDE_PROJECT_DIR", "")
    if bot is None:
        return
    notice = Notice("unreadable", time.time(), project, current_branch(project))
    notice = notice.bare() if settings.titles_only() else notice
    card = build_notice_card(notice, settings.feishuperm_lang, settings.feishu_at)
    bot.send(card_message(card))


def _bot(settings: Settings) -> Bot | None:
    """The custom bot, if there is one and no card is held back now."""
    if not settings.feishu_webhook_url or quiet_hours(settings).until():
        return None
    post = partial(post_json, ca_file=settings.feishuperm_ca_file)
    return Bot(settings.feishu_webhook_url, settings.feishu_webhook_secret, post)
