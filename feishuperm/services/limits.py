"""到时继续: a session that a usage limit has stopped goes on when the limit resets.

    told -> armed         a person pressed the button of the notice
    armed -> told         the same button again
    armed -> over         the limit has reset: the session gets one prompt, once

A notice names session and time in the id of its panel.  What is armed is kept in a file
of this user, so that a restart of the server loses none; what is due is taken out of it
before anything is done.  A session that lives is woken as a person's `next` wakes it;
one that has ended is continued (`services.starts`).
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from feishuperm.errors import FeishupermError, FileError
from feishuperm.lib.config import state_dir
from feishuperm.lib.files import read_json, write_atomic
from feishuperm.lib.log import log
from feishuperm.lib.task import run
from feishuperm.messages import message_of, msg, text
from feishuperm.models import ask as kinds
from feishuperm.models.ask import Answer, Block, Notice, from_plain, to_plain
from feishuperm.models.fields import part_at
from feishuperm.models.kind import TEXT
from feishuperm.models.panel import ERROR, OVER, Asker, Button, Panel, Row, Told
from feishuperm.models.payload import HookPayload
from feishuperm.services.approvals import Approvals
from feishuperm.services.ledger import START
from feishuperm.services.sessions import Then
from feishuperm.services.starts import Starts

TICK, LATE = 30.0, 60.0  # seconds: between two looks; after the limit has reset
MOST = 100  # sessions
TAIL = 64 << 10  # bytes of a transcript
RESETS = re.compile(rb'"quotaLimits":\{[^{}]*"resetsAt":([0-9]{10})\b')
PANEL = re.compile(r"limit:(.+):([0-9]{10})")
PROMPT = "The usage limit has reset: go on where you stopped."
LABEL, CANCEL = msg("Continue then"), msg("Cancel")


class Limit(NamedTuple):
    """A session that goes on after its limit; every field has a default."""

    session: str = ""
    resets: float = 0.0  # wall clock, whole seconds
    asker: Asker = Asker()  # who pressed

    @property
    def panel(self) -> str:
        return f"limit:{self.session}:{self.resets:.0f}"


class Limits:
    """One per server."""

    COMMANDS: tuple[str, ...] = ()
    PANELS: tuple[str, ...] = ("limit",)

    def __init__(
        self,
        starts: Starts,
        approvals: Approvals,
        show: Callable[[str, Panel], object],
        later: Callable[[float, Callable[[], None]], object],
        language: str = "zh",
        clock: Callable[[], float] = time.time,
        path: str = "",
    ) -> None:
        self._starts = starts
        self._approvals = approvals
        self._show = show
        self._later = later
        self._language = language
        self._clock = clock
        self._path = path or os.path.join(state_dir(), "limits.json")
        self._armed = self._read()  # by session
        later(TICK, self._tick)

    def complete(self, notice: Notice, payload: HookPayload) -> Notice:
        """The notice of a failure: of a usage limit with its time and its button."""
        now, session = self._clock(), payload.session_id()
        resets = resets_at(payload, now)
        if not resets:
            return notice
        row = self._armed.get(session)
        if row is None or abs(row.resets - resets) >= LATE:  # else met again
            row = Limit(session, resets)
        said = self.say(msg("It resets at {}", clock_time(resets, now)))
        button = self.say(CANCEL if row.asker.who else LABEL)
        said = f"{notice.text}\n{said}"
        return notice._replace(text=said, panel=row.panel, button=button)

    def command(self, name: str, words: str, asker: Asker, then: Then) -> None:
        """It has none."""

    def press(
        self, panel: str, action: str, words: str, asker: Asker, then: Then
    ) -> None:
        """Go on when it resets; pressed again: do not."""
        try:
            then(self._pressed(panel, asker))
        except FeishupermError as error:
            then(Told(self.say(message_of(error)), ERROR))

    def _pressed(self, panel: str, asker: Asker) -> Told:
        self._starts.must_be_owner(asker)
        match, now = PANEL.fullmatch(panel), self._clock()
        if match is None or float(match[2]) + LATE <= now:
            raise FeishupermError(msg("That is over: this limit has been dealt with"))
        row = Limit(match[1], float(match[2]), asker)
        is_armed = row.session not in self._armed
        self._keep(row, is_armed)
        self._note(row, asker, "armed" if is_armed else "cancelled")
        said = msg("Cancelled: the session does not go on by itself")
        if is_armed:
            said = msg("The session goes on at {}", clock_time(row.resets, now))
        button = Button(kinds.NOTICE_PRESS, self.say(CANCEL if is_armed else LABEL))
        shown = self._panel(row, said)._replace(buttons=(button,))
        return Told(self.say(said), panel=shown)

    def _tick(self) -> None:
        """Whatever is due goes on now: by the wall clock, which sleep does not stop."""
        self._later(TICK, self._tick)
        for row in list(self._armed.values()):
            is_due = row.resets + LATE <= self._clock()
            if is_due and not self._starts.is_busy(row.asker.who):  # else soon
                try:
                    self._keep(row, False)
                except FileError as error:
                    log(f"a session does not go on: {error}", "error")
                else:
                    run(self._go_on(row), partial(self._failed, row))

    async def _go_on(self, row: Limit) -> None:
        """Once: by its open `next`, or by the client."""
        self._starts.must_be_owner(row.asker)
        for request in self._approvals.requests.waiting():
            if request.kind == "next" and request.session == row.session:
                who, surface = row.asker.who, row.asker.surface
                answer = Answer(request.id, "send", {TEXT: (PROMPT,)}, surface, who)
                receipt = self._approvals.answer(answer)
                if receipt.status != kinds.SETTLED:
                    raise FeishupermError(receipt.error)
                break
        else:
            await self._starts.resume(row.session, PROMPT, row.asker)
        said = msg("The session went on at {}", clock_time(self._clock()))
        self._show(row.asker.channel, self._panel(row, said))

    def _failed(self, row: Limit, error: Exception) -> None:
        """What went wrong is told by the card, and by a notice."""
        problem, now = message_of(error), self._clock()
        self._show(row.asker.channel, self._panel(row, problem))
        self._note(row, row.asker, "failed", problem)
        why = self.say(msg("The session did not go on: {}", problem))
        notice = Notice("failure", now, session_id=row.session, text=why)
        self._approvals.notifier.notify(notice)

    def _note(self, row: Limit, asker: Asker, state: str, reason: str = "") -> None:
        entry = {"event": START, "action": "limit", "state": state}
        entry.update(id=f"limit:{row.session[:8]}", session=row.session)
        entry.update(surface=asker.surface, who=asker.who, reason=str(reason))
        self._approvals.record(entry)

    def _panel(self, row: Limit, sentence: str) -> Panel:
        return Panel(
            id=row.panel,
            language=self._language,
            title=self.say("Usage limit"),
            look=OVER,
            rows=(Row(Block("text", "", self.say(sentence))),),
            session=row.session,
        )

    def say(self, sentence: str) -> str:
        return text(self._language, sentence)

    # The file.

    def _keep(self, row: Limit, is_armed: bool) -> None:
        """Keep it from now on, or forget it. Raises FileError."""
        others = [each for each in self._armed.values() if each.session != row.session]
        rows = [*others, *([row] if is_armed else [])][-MOST:]
        plain = {each.session: to_plain(each) for each in rows}
        write_atomic(self._path, json.dumps(plain).encode(), 0o600)
        self._armed = {each.session: each for each in rows}

    def _read(self) -> dict[str, Limit]:
        try:
            plain = part_at(read_json(self._path)).values()
            rows = [from_plain(Limit, row) for row in plain]
            return {row.session: row for row in rows if row.asker.who}
        except FeishupermError as error:
            log(f"forgot which sessions go on after a limit: {error}", "error")
            return {}


def resets_at(payload: HookPayload, now: float) -> float:
    """When the limit that a turn has met resets, by its transcript; 0: it met none."""
    if payload.fields.get("error") != "rate_limit":
        return 0.0
    try:
        with open(payload.transcript_path(), "rb") as file:
            file.seek(-min(TAIL, file.seek(0, os.SEEK_END)), os.SEEK_END)
            found = [float(each) for each in RESETS.findall(file.read(TAIL))]
    except (OSError, ValueError):
        return 0.0
    return next((each for each in found[-1:] if each > now), 0.0)


def clock_time(moment: float, now: float = 0.0) -> str:
    """As people say it: with its day unless that is today."""
    there, here = time.localtime(moment), time.localtime(now or moment)
    form = "%H:%M" if there[:3] == here[:3] else "%m-%d %H:%M"
    return time.strftime(form, there)
