"""What several callbacks answer, as one answer, in the words the client obeys.

block wins, and so do deny over ask over allow and `continue: false`; the reasons of
the winners, all messages and all added context are joined by line ends; of
`updatedInput`, and of everything else, the last one stays.  "Do not wait for me" goes
only for a callback that is alone and refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from feishuperm.models.fields import part_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Output = dict[str, Any]

# How strong an answer is; the strongest of several wins.
STRENGTH = ("", "allow", "defer", "ask", "deny")
DETACHES = ("async", "asyncTimeout")


def merge(outputs: list[Output]) -> Output:
    """One answer out of several; the rule is at the top of this module."""
    merged: Output = {}
    for output in outputs:
        merged = _merge_two(merged, output)
    refuses = merged.get("decision") == "block" or _said(merged) == "deny"
    if len(outputs) > 1 or refuses:
        return {key: merged[key] for key in merged if key not in DETACHES}
    return merged


def for_client(event: str, output: Output) -> Output:
    """The same answer in the words the client obeys, which differ by event."""
    if output.get("decision") != "block":
        return output
    given = output.get("hookSpecificOutput") or {}
    reasons = filter(None, (output.get("reason"), _reason_to_deny(given)))
    reason = "\n".join(reasons) or "blocked by a hook"
    specific: dict[str, Any] = {}
    if event == "PreToolUse":
        specific = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    if event == "PermissionRequest":
        specific = {"decision": {"behavior": "deny", "message": reason}}
    if not specific:
        return output
    return {
        **output,
        "hookSpecificOutput": {**given, "hookEventName": event, **specific},
    }


def decided(output: Output) -> str:
    """What an output decides, in a word; nothing for one that just goes on."""
    if output.get("decision") == "block":
        return "block"
    if output.get("continue") is False:
        return "stop"
    approved = output.get("decision") == "approve"
    return _said(output) or ("allow" if approved else "")


def without_allow(output: Output) -> Output:
    """The answer of a callback that may refuse, and may not allow."""
    kept = dict(output)
    if kept.get("decision") == "approve":
        del kept["decision"]
    if _said(output) in ("allow", "defer"):
        said = ("permissionDecision", "permissionDecisionReason", "decision")
        specific = output["hookSpecificOutput"]
        kept["hookSpecificOutput"] = {
            key: specific[key] for key in specific if key not in said
        }
    return kept


def _said(output: Output) -> str:
    return STRENGTH[_strength(part_at(output, "hookSpecificOutput"))]


def _merge_two(first: Output, second: Output) -> Output:
    if not first:
        return second
    merged = {**first, **second}
    if first.get("continue") is False:
        merged["continue"] = False
    blocks = [out for out in (first, second) if out.get("decision") == "block"]
    if blocks:
        merged["decision"] = "block"
        merged["reason"] = _joined(blocks, "reason")
    for key in ("systemMessage", "stopReason"):
        if key in merged:
            merged[key] = _joined((first, second), key)
    specific = [part_at(out, "hookSpecificOutput") for out in (first, second)]
    if any(specific):
        merged["hookSpecificOutput"] = _merge_specific(*specific)
    return merged


def _merge_specific(first: Output, second: Output) -> Output:
    merged = {**first, **second}
    if "additionalContext" in merged:
        merged["additionalContext"] = _joined((first, second), "additionalContext")
    stronger = max((second, first), key=_strength)
    equal = _strength(first) == _strength(second)
    winners = (first, second) if equal else (stronger,)
    if not _strength(stronger):
        return merged
    if "permissionDecision" in stronger:
        merged["permissionDecision"] = stronger["permissionDecision"]
        merged.pop("permissionDecisionReason", None)
        reason = _joined(winners, "permissionDecisionReason")
        if reason:
            merged["permissionDecisionReason"] = reason
    if "decision" in stronger:
        merged["decision"] = dict(stronger["decision"])
        message = _joined([_decision(specific) for specific in winners], "message")
        if message:
            merged["decision"]["message"] = message
    return merged


def _reason_to_deny(specific: Output) -> str:
    if STRENGTH[_strength(specific)] != "deny":
        return ""
    said = specific.get("permissionDecisionReason")
    return str(said or _decision(specific).get("message") or "")


def _strength(specific: Output) -> int:
    said = specific.get("permissionDecision") or _decision(specific).get("behavior")
    return STRENGTH.index(said) if said in STRENGTH else 0


def _decision(specific: Output) -> Output:
    """The decision of a PermissionRequest hook; nothing in an output without one."""
    return part_at(specific, "decision")


def _joined(outputs: Iterable[Output], key: str) -> str:
    return "\n".join(str(output[key]) for output in outputs if output.get(key))
