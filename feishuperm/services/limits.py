"""到时继续: a session that a usage limit has stopped goes on when the limit resets.

    told -> armed         a person pressed the button of the notice
    armed -> told         the same button again
    armed -> over         the limit has reset: the session gets one prompt, once

It is kept in a file of this user, so that a restart of the server loses none; what is
due is taken out of it before anything is done.  A session that lives is woken as a
person's `next` wakes it; one that has ended is continued (`services.starts`).
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from typing import NamedTuple

from feishuperm.errors import FeishupermError, FileError
from feishuperm.lib.config import state_dir
from feishuperm.lib.files import read_json, write_atomic
from feishuperm.lib.log import log
from feishuperm.messages import message_of, msg, text
from feishuperm.models.ask import (
    NOTICE_PRESS,
    SETTLED,
    Answer,
    Block,
    Notice,
    from_plain,
    to_plain,
)
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
PROMPT = "The usage limit has reset: go on where you stopped."
LABEL, CANCEL = msg("Continue then"), msg("Cancel")


class Limit(NamedTuple):
    """A session that waits for its limit; every field has a default."""

    session: str = ""
    resets: float = 0.0  # wall clock
    asker: Asker = Asker()  # who pressed; nobody: it is not armed


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
        self._rows = self._read()  # by the id of the panel
        later(TICK, self._tick)

    def complete(self, notice: Notice, payload: HookPayload) -> Notice:
        """The notice of a failure: of a usage limit with its time and its button."""
        now = self._clock()
        resets = resets_at(payload, now)
        if not resets:
            return notice
        session = payload.session_id()
        said = self._say(msg("It resets at {}", clock_time(resets, now)))
        notice = notice._replace(text=f"{notice.text}\n{said}")
        id, row = f"limit:{session}", Limit(session, resets)
        old = self._rows.get(id, row)
        if abs(old.resets - resets) < LATE:  # the same limit, met again
            row = old
        try:
            self._keep(id, row)
        except FileError as error:
            log(f"a usage limit cannot be kept: {error}", "error")
            return notice
        label = CANCEL if row.asker.who else LABEL
        return notice._replace(panel=id, button=self._say(label))

    def command(self, name: str, words: str, asker: Asker, then: Then) -> None:
        """It has none."""

    def press(
        self, panel: str, action: str, words: str, asker: Asker, then: Then
    ) -> None:
        """Go on when it resets; pressed again: do not."""
        row = self._rows.get(panel)
        try:
            self._starts.must_be_owner(asker)
            if row is None:
                raise FeishupermError(
                    msg("That is over: this limit has been dealt with")
                )
            row = row._replace(asker=Asker() if row.asker.who else asker)
            self._keep(panel, row)
        except FeishupermError as error:
            then(Told(self._say(message_of(error)), ERROR))
            return
        self._note(row, asker, "armed" if row.asker.who else "cancelled")
        at = clock_time(row.resets, self._clock())
        no = msg("Cancelled: the session does not go on by itself")
        said = self._say(msg("The session goes on at {}", at) if row.asker.who else no)
        label = CANCEL if row.asker.who else LABEL
        button = Button(NOTICE_PRESS, self._say(label))
        then(Told(said, panel=self._panel(row, said)._replace(buttons=(button,))))

    def _tick(self) -> None:
        """Whatever is due goes on now: by the wall clock, which sleep does not stop."""
        self._later(TICK, self._tick)
        now = self._clock()
        for id, row in list(self._rows.items()):
            is_due = row.asker.who and row.resets + LATE <= now
            if is_due and not self._starts.is_busy(row.asker.who):  # else soon
                try:
                    self._keep(id, None)
                except FileError as error:
                    log(f"a session does not go on: {error}", "error")
                else:
                    self._go_on(row)

    def _go_on(self, row: Limit) -> None:
        """Once: by its open `next`, or by the client."""
        who, surface = row.asker.who, row.asker.surface
        try:
            self._starts.must_be_owner(row.asker)
        except FeishupermError as error:
            self._tell(row, message_of(error))
            return
        for request in self._approvals.requests.waiting():
            if request.kind == "next" and request.session == row.session:
                answer = Answer(request.id, "send", {TEXT: (PROMPT,)}, surface, who)
                receipt = self._approvals.answer(answer)
                self._tell(row, "" if receipt.status == SETTLED else receipt.error)
                return
        self._starts.resume(
            row.session, PROMPT, row.asker, lambda _, problem: self._tell(row, problem)
        )

    def _tell(self, row: Limit, problem: str) -> None:
        """The card says how it went; what went wrong is a notice as well."""
        said = problem or msg("The session went on at {}", clock_time(self._clock()))
        self._show(row.asker.channel, self._panel(row, self._say(said)))
        if problem:
            self._note(row, row.asker, "failed", problem)
            now, why = self._clock(), msg("The session did not go on: {}", problem)
            self._approvals.notifier.notify(
                Notice("failure", now, session_id=row.session, text=self._say(why))
            )

    def _note(self, row: Limit, asker: Asker, state: str, reason: str = "") -> None:
        entry = {"event": START, "action": "limit", "state": state}
        entry.update(id=f"limit:{row.session[:8]}", session=row.session)
        entry.update(surface=asker.surface, who=asker.who, reason=str(reason))
        self._approvals.record(entry)

    def _panel(self, row: Limit, sentence: str) -> Panel:
        return Panel(
            id=f"limit:{row.session}",
            language=self._language,
            title=self._say(msg("Usage limit")),
            look=OVER,
            rows=(Row(Block("text", "", sentence)),),
            session=row.session,
        )

    def _say(self, sentence: str) -> str:
        return text(self._language, sentence)

    # The file.

    def _keep(self, id: str, row: Limit | None) -> None:
        """Keep a row, or none of that id. Raises FileError."""
        rows = {key: value for key, value in self._rows.items() if key != id}
        if row is not None:
            rows[id] = row
        while len(rows) > MOST:
            del rows[next(iter(rows))]
        plain = {key: to_plain(value) for key, value in rows.items()}
        write_atomic(self._path, json.dumps(plain).encode(), 0o600)
        self._rows = rows

    def _read(self) -> dict[str, Limit]:
        try:
            plain = part_at(read_json(self._path))
            return {id: from_plain(Limit, row) for id, row in plain.items()}
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
