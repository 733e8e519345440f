"""What several callbacks answer, as one answer, in the words the client obeys.

block wins, and so do deny over ask over allow and `continue: false`; the reasons of
the winners, all messages and all added context are joined by line ends; of
`updatedInput`, and of everything else, the last one stays.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Output = dict[str, Any]

# How strong an answer is; the strongest of several wins.
STRENGTH = ("", "allow", "defer", "ask", "deny")


def merge(outputs: list[Output]) -> Output:
    """One answer out of several; the rule is at the top of this module."""
    merged: Output = {}
    for output in outputs:
        merged = _merge_two(merged, output)
    return merged


def for_client(event: str, output: Output) -> Output:
    """The same answer in the words the client obeys, which differ by event."""
    if output.get("decision") != "block":
        return output
    reason = output.get("reason") or "blocked by a hook"
    specific: dict[str, Any] = {}
    if event == "PreToolUse":
        specific = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    if event == "PermissionRequest":
        specific = {"decision": {"behavior": "deny", "message": reason}}
    if not specific:
        return output
    known = output.get("hookSpecificOutput") or {}
    return {
        **output,
        "hookSpecificOutput": {**known, "hookEventName": event, **specific},
    }


def _merge_two(first: Output, second: Output) -> Output:
    if not first:
        return second
    merged = {**first, **second}
    if first.get("continue") is False:
        merged["continue"] = False
    blocks = [one for one in (first, second) if one.get("decision") == "block"]
    if blocks:
        merged["decision"] = "block"
        merged["reason"] = _joined(blocks, "reason")
    for key in ("systemMessage", "stopReason"):
        if key in merged:
            merged[key] = _joined((first, second), key)
    specific = [
        one["hookSpecificOutput"]
        for one in (first, second)
        if isinstance(one.get("hookSpecificOutput"), dict)
    ]
    if len(specific) == 2:
        merged["hookSpecificOutput"] = _merge_specific(*specific)
    return merged


def _merge_specific(first: Output, second: Output) -> Output:
    merged = {**first, **second}
    if "additionalContext" in merged:
        merged["additionalContext"] = _joined((first, second), "additionalContext")
    stronger = max((second, first), key=_strength)
    for key in ("permissionDecision", "permissionDecisionReason", "decision"):
        if key in stronger and _strength(stronger):
            merged[key] = stronger[key]
    return merged


def _strength(specific: Output) -> int:
    decision = specific.get("decision")
    behavior = decision.get("behavior") if isinstance(decision, dict) else ""
    said = specific.get("permissionDecision") or behavior
    return STRENGTH.index(said) if said in STRENGTH else 0


def _joined(outputs: Iterable[Output], key: str) -> str:
    return "\n".join(str(one[key]) for one in outputs if one.get(key))
