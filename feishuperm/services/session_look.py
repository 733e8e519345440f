"""What can be seen of this machine's sessions, at the moment somebody looks.

    the client    `claude agents --json`: which sessions live, and what they do
    transcripts   those of these sessions, and what else was written to lately

A look takes a second or two, so it happens in a thread, on values of its own.  It
bounds what it reads: a folder may hold years of sessions.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from glob import escape, iglob
from itertools import islice
from typing import Any, NamedTuple

from feishuperm.errors import FeishupermError
from feishuperm.lib import claude_client
from feishuperm.lib.config import claude_dir
from feishuperm.messages import message_of
from feishuperm.models.fields import text_at
from feishuperm.services.session_reader import Figures, Turn
from feishuperm.services.transcript import encoded, is_headless

COMMAND_SECONDS = 10.0  # it needs a fifth of one, where nothing else wants the machine
SESSIONS_MOST = 200
FILES_MOST = 20_000  # transcripts whose age is looked at
RECENT_SECONDS = 24 * 3600.0
SESSION_ID = re.compile(r"[\w-]{1,64}")


class Seen(NamedTuple):
    """A session."""

    id: str
    status: str = ""  # in the client's own word; empty: it lists no such session
    waits_for: str = ""  # the same, of one that waits at its terminal
    folder: str = ""
    name: str = ""
    job: str = ""  # id of a background session
    transcript: str = ""  # path
    figures: Figures = Figures()
    is_headless: bool = False  # it has no terminal: the client lists no such session


class Look(NamedTuple):
    """Everything that was seen."""

    began: float  # wall clock
    rows: tuple[Seen, ...] = ()
    problem: str = ""  # why there is no list; then nobody knows which sessions live


def look(
    known: Mapping[str, str],
    environ: Mapping[str, str],
    clock: Callable[[], float] = time.time,
) -> Look:
    """See which sessions there are; `known` are the transcripts of those we know."""
    began, problem, listed = clock(), "", dict[str, Seen]()
    try:
        said = claude_client.listed(environ, COMMAND_SECONDS)
        listed = {row.id: row for row in _listed(said)}
    except FeishupermError as error:
        problem = message_of(error)
    found = dict(_written(environ, began - RECENT_SECONDS, listed))
    paths = {**found, **{id: path for id, path in known.items() if path}}
    # Who is listed or known is never left out: it would look as if it had ended.
    ids = islice(dict.fromkeys([*listed, *known, *found]), 2 * SESSIONS_MOST)
    rows = (_read(listed.get(id, Seen(id)), paths.get(id, "")) for id in ids)
    seen = (row for row in rows if row.id in known or row.status or row.figures.prompt)
    return Look(began, tuple(seen), problem)


def _listed(said: list[Any]) -> Iterator[Seen]:
    for row in said[:SESSIONS_MOST]:
        id, is_job = text_at(row, "sessionId"), text_at(row, "kind") == "background"
        if SESSION_ID.fullmatch(id):
            yield Seen(
                id,
                text_at(row, "status") or text_at(row, "state") or "?",
                text_at(row, "waitingFor"),
                text_at(row, "cwd"),
                # That of a session at a terminal is made up from its folder.
                text_at(row, "name") if is_job else "",
                text_at(row, "id") if is_job else "",
            )


def _written(
    environ: Mapping[str, str], since: float, wanted: Mapping[str, Seen]
) -> list[tuple[str, str]]:
    """Ids and paths of transcripts, the latest first: wanted ones, and recent ones."""
    pattern = os.path.join(escape(claude_dir(environ)), "projects", "*", "*.jsonl")
    found = []
    for path in islice(iglob(pattern), FILES_MOST):
        id = os.path.basename(path)[: -len(".jsonl")]
        with suppress(OSError):
            written = os.lstat(path).st_mtime
            if SESSION_ID.fullmatch(id) and (written >= since or id in wanted):
                found.append((written, id, path))
    return [(id, path) for _, id, path in sorted(found, reverse=True)]


def _read(seen: Seen, path: str) -> Seen:
    figures = Turn(encoded(path)).look() if path else Figures()
    folder = seen.folder or figures.folder
    return seen._replace(
        transcript=path,
        figures=figures,
        folder=folder,
        is_headless=not seen.status and is_headless(path),
    )
