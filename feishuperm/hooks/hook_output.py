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
    merged = _last_of(outputs)
    blocks = [output for output in outputs if output.get("decision") == "block"]
    if len(outputs) > 1:
        _merge_general(outputs, merged)
        if blocks:
            merged.update(decision="block", reason=_joined(blocks, "reason"))
    if len(outputs) > 1 or blocks or _said(merged) == "deny":
        return {key: merged[key] for key in merged if key not in DETACHES}
    return merged


def _merge_general(outputs: list[Output], merged: Output) -> None:
    """What several outputs say together, whatever they decide."""
    if any(output.get("continue") is False for output in outputs):
        merged["continue"] = False
    for key in ("systemMessage", "stopReason"):
        if key in merged:
            merged[key] = _joined(outputs, key)
    specific = [part_at(output, "hookSpecificOutput") for output in outputs]
    if any(specific):
        merged["hookSpecificOutput"] = _merge_specific(specific)


def _merge_specific(outputs: list[Output]) -> Output:
    merged = _last_of(outputs)
    if "additionalContext" in merged:
        merged["additionalContext"] = _joined(outputs, "additionalContext")
    strongest = max(map(_strength, outputs))
    winners = [output for output in outputs if strongest == _strength(output) > 0]
    for output in winners:
        if "permissionDecision" in output:
            merged["permissionDecision"] = output["permissionDecision"]
            merged.pop("permissionDecisionReason", None)
            reason = _joined(winners, "permissionDecisionReason")
            if reason:
                merged["permissionDecisionReason"] = reason
        if "decision" in output:
            merged["decision"] = dict(output["decision"])
            message = _joined(map(_decision, winners), "message")
            if message:
                merged["decision"]["message"] = message
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


def _last_of(outputs: Iterable[Output]) -> Output:
    return {key: output[key] for output in outputs for key in output}


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
