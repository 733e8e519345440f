"""What the ledger says of a request: its end, an intent, an attempt; and back again.

An entry is enough to know what was decided, not to repeat it.  Nothing here reads or
writes the file; `ledger` does, and `desk` says when.
"""

from __future__ import annotations

from typing import Any

from feishuperm.lib.log import redact
from feishuperm.models import request as states
from feishuperm.models.ask import Answer
from feishuperm.models.decision import Decision
from feishuperm.models.kind import KINDS, Action, kind_of
from feishuperm.models.request import Request
from feishuperm.services.ledger_lines import LATEST


def ledger_entry(request: Request) -> dict[str, Any]:
    """The record of one end."""
    return {
        "event": "request",
        "id": request.id,
        "state": request.state,
        "action": request.action,
        "surface": request.surface,
        "who": request.who,
        "reason": request.reason,
        "rules": list(request.rules),
        "denied": request.decision is not None and request.decision.is_denial(),
        "kind": request.kind,
        "tool": request.tool_name,
        "summary": request.summary,
        "detail": request.detail,
        "danger": list(request.danger),
        "digest": request.digest,
        "project": request.project,
        "session": request.session,
        **({"call": request.call} if request.until else {}),
        **({"until": round(request.until, 3)} if request.until else {}),
        **({"pass": request.pass_id} if request.pass_id else {}),
        **({"grants": request.grants} if request.grants else {}),
        "created": round(request.created, 3),
        "ended": round(request.ended, 3),
        **_changed(request.ran),
    }


def intent_entry(
    request: Request, row: Action, answer: Answer, rules: tuple[str, ...], ran: str = ""
) -> dict[str, Any]:
    """The record of what is about to be done: the end it leads to."""
    return {
        **ledger_entry(request),
        "state": row.state,
        "action": row.name,
        "surface": answer.surface,
        "who": answer.who,
        "reason": row.reason(answer),
        "rules": list(rules),
        "denied": bool(row.message),
        **_changed(redact(ran)),
    }


def _changed(ran: str) -> dict[str, str]:
    """What an entry says of a command that a person changed before it ran."""
    return {"ran": ran} if ran else {}


def refusal_entry(request: Request | None, what: str, who: str) -> dict[str, Any]:
    """The record of something that was tried by who must not."""
    return {
        "event": "refused",
        "id": request.id if request else "",
        "action": what,
        "who": who,
        "tool": request.tool_name if request else "",
        "summary": request.summary if request else "",
        "project": request.project if request else "",
        "session": request.session if request else "",
    }


def remembered(entry: dict[str, Any]) -> Request | None:
    """The end a ledger entry tells of, or None if it tells of something else."""
    state = str(entry.get("state"))
    if entry.get("event") != "request" or state not in states.ENDS:
        return None
    try:
        return _remembered(entry, state)
    except (KeyError, TypeError, ValueError, OverflowError):  # somebody edited the file
        return None


def _remembered(entry: dict[str, Any], state: str) -> Request:
    id, tool_name = str(entry["id"]), str(entry["tool"])
    created, ended = float(entry["created"]), float(entry["ended"])
    # What was about to be done is in the ledger; that it was done, nobody knows.
    action = "" if state == states.UNKNOWN else str(entry["action"])
    kind = KINDS.get(str(entry.get("kind"))) or kind_of(tool_name)
    row = kind.action(action)
    deciding = row is not None and row.state == state
    if not deciding and (action or state in states.DECIDED):
        raise ValueError
    if not 0 <= created <= ended < LATEST:
        raise ValueError
    request = Request(
        id, b"", tool_name, str(entry["project"]), created, 0.0, kind.name
    )
    request.state = state
    request.action = action
    request.surface = str(entry["surface"])
    request.who = str(entry.get("who") or "")
    request.rules = tuple(map(str, entry["rules"]))
    request.summary = str(entry["summary"])
    request.ran = str(entry.get("ran") or "")
    request.danger = tuple(map(str, entry.get("danger") or ()))
    request.ended = ended
    # Whether the clock denied it; its hook has long been told.
    request.decision = Decision.deny() if entry["denied"] else None
    return request
