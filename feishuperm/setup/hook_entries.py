"""Our own entries under `hooks` in a settings text of Claude Code.

An entry is ours if it has exactly a command that an install wrote.  Somebody's own call
of our program, with more words around it, is found too, and is theirs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from feishuperm.lib import settings_editor as editor
from feishuperm.models.hooks import DEFAULT_TIMEOUT
from feishuperm.models.kind import NEXT_SECONDS
from feishuperm.models.names import ARCHIVE, IDLE_TYPE, PROGRAMS, QUESTION_TOOL
from feishuperm.wire import KINDS

HOOK, SUPERVISOR = "feishuperm-hook", "feishuperm-supervisor"
HOOK_SLACK = 5  # seconds by which Claude Code's limit must exceed our own wait
REVIEW_SLACK = 10  # a reviewer is a whole process tree that has to be ended
# Other events run the user's callbacks, which have so long unless they say otherwise.
EVENT_TIMEOUT = int(DEFAULT_TIMEOUT) + REVIEW_SLACK
CALL_TIMEOUT = 20  # for a look before a tool call; it takes milliseconds
END_TIMEOUT = 5  # to tell that a session is over; the client waits 1.5 s at most
# What each kind of `wire.KINDS` is asked by: event, matcher and seconds, 0 for those
# that a person has.
KIND_EVENTS: dict[str, tuple[tuple[str, str, int], ...]] = {
    "next": (
        ("Notification", IDLE_TYPE, NEXT_SECONDS + HOOK_SLACK),
        ("SessionEnd", "", END_TIMEOUT),
    ),
    "denied": (("PermissionDenied", "", 0), ("PreToolUse", "", CALL_TIMEOUT)),
    "form": (("Elicitation", "", 0),),
}
# For a file that others share: whoever has not installed us must not see a failure,
# which some hosts take for a refusal.  The exit code of `hook next` means something.
GUARDED = "command -v {} >/dev/null 2>&1 && {} || true"
GUARDED_NEXT = "command -v {} >/dev/null 2>&1 || exit 0; exec {}"
IS_GUARDED = re.compile(
    r"command -v ([\w-]+) >/dev/null 2>&1 (?:&&|\|\| exit 0; exec)"
    r" (\1(?: \w+)?)(?: \|\| true)?"
)
BACKGROUND = "asyncRewake"  # runs beside the session, and wakes it with exit code 2
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class Registration(NamedTuple):
    """One hook entry that should be there."""

    event: str
    matcher: str
    program: str
    timeout: int
    exactly: bool = False  # a longer time-out that is there does not stay
    kind: str = ""  # a word after the program: it is there for this alone


class Hook(NamedTuple):
    """One hook entry that runs a program of ours."""

    path: editor.Path
    event: str
    matcher: str
    program: str
    entry: dict[str, Any]


def registrations(
    timeout: int,
    events: Iterable[str] = (),
    supervisor: bool = False,
    review: int = 0,
    review_stop: int = 0,
    exactly: bool = False,
) -> list[Registration]:
    """The hook entries for a set of wishes, the permission hook first.

    `timeout` is how long it may wait; `exactly` so, whatever its entry says now.
    """
    asks = "PermissionRequest"
    rows = [Registration(asks, "*", HOOK, timeout + HOOK_SLACK, exactly)]
    kinds = [name for name in events if name in KINDS]
    plain = [name for name in events if name not in (asks, *KINDS)]
    rows += [Registration(event, "", HOOK, EVENT_TIMEOUT) for event in plain]
    rows += [row for kind in kinds for row in _kind_rows(kind, timeout, plain)]
    if supervisor:
        question, stop = review + REVIEW_SLACK, review_stop + REVIEW_SLACK
        rows.append(Registration("Stop", "", SUPERVISOR, stop))
        rows.append(Registration("PreToolUse", QUESTION_TOOL, SUPERVISOR, question))
    return rows


def _kind_rows(
    kind: str, timeout: int, plain: Collection[str]
) -> Iterator[Registration]:
    """The entries of a kind; but for `next`, one for everything does its work."""
    for event, matcher, seconds in KIND_EVENTS[kind]:
        if event in plain and kind != "next":
            continue
        yield Registration(
            event,
            matcher,
            HOOK,
            seconds or timeout + HOOK_SLACK,
            kind=kind,
        )


def kind_in(command: object) -> str:
    """What a hook command of ours is there for alone; empty: for everything."""
    word = unguarded(command).rpartition(" ")[2] if isinstance(command, str) else ""
    return word if word in KINDS else ""


def guarded(program: str, kind: str = "") -> str:
    """A command that does nothing where the program is not installed."""
    template = GUARDED_NEXT if kind == "next" else GUARDED
    return template.format(program, f"{program} {kind}".rstrip())


def unguarded(command: str) -> str:
    """What a guarded command runs; any other is what it is."""
    match = IS_GUARDED.fullmatch(command)
    return match[2] if match else command


def program_of(command: object) -> str:
    """Which of our programs a hook command runs, empty for another's."""
    try:
        words = shlex.split(unguarded(command)) if isinstance(command, str) else []
    except ValueError:
        return ""
    while words and ASSIGNMENT.match(words[0]):
        words.pop(0)
    name = words[0].rpartition("/")[2] if words else ""
    if name in ("feishuperm", ARCHIVE) and len(words) > 1:
        name = f"feishuperm-{words[1]}"
    does = PROGRAMS.get(name, "")
    return f"feishuperm-{does}" if does in ("hook", "supervisor") else ""


def find_hooks(text: str) -> list[Hook]:
    """The entries that run our programs, whoever wrote them, in the text's order."""
    return [
        Hook(path, event, matcher, program_of(entry.get("command")), entry)
        for path, event, matcher, entry in _entries(editor.get_value(text, ("hooks",)))
        if program_of(entry.get("command"))
    ]


def own_hooks(text: str, own: Collection[str]) -> list[Hook]:
    """The entries an install wrote: those with exactly one of its commands."""
    return [hook for hook in find_hooks(text) if hook.entry["command"] in own]


def put_hook(
    text: str, wanted: Registration, command: str, own: Collection[str] = ()
) -> str:
    """The text with our entry for an event, as it should be. Raises SettingsError.

    `own` are commands of earlier installs.  An entry of ours that is there is mended
    where it stands, and a longer time-out that somebody gave it stays; a second one of
    the same program is cut out.
    """
    program = program_of(command)
    present = [
        hook
        for hook in own_hooks(text, {command, *own})
        if hook.event == wanted.event
        and hook.program == program
        and kind_in(hook.entry["command"]) == kind_in(command)
    ]
    for hook in reversed(present[1:]):
        text = drop_hook(text, hook, "")
    if present:
        return _mend(text, present[0], command, wanted)
    entry = {**_entry(wanted, command), "timeout": wanted.timeout}
    matcher = {"matcher": wanted.matcher} if wanted.matcher else {}
    group = {**matcher, "hooks": [entry]}
    return editor.add_item(text, ("hooks", wanted.event), group)


def drop_hooks(text: str, own: Collection[str], original: str = "") -> str:
    """The text without our entries and without what is empty for it.

    Lists and objects that `original` holds too are kept, empty or not.
    """
    for hook in reversed(own_hooks(text, own)):
        text = drop_hook(text, hook, original)
    return text


def _entries(hooks: Any) -> Iterator[tuple[editor.Path, str, str, dict[str, Any]]]:
    """Every well-formed entry: path, event, matcher, entry."""
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for index, group in enumerate(groups if isinstance(groups, list) else ()):
            entries = group.get("hooks") if isinstance(group, dict) else None
            for place, entry in enumerate(entries if isinstance(entries, list) else ()):
                if isinstance(entry, dict):
                    path = ("hooks", event, index, "hooks", place)
                    yield path, event, str(group.get("matcher", "")), entry


def _entry(wanted: Registration, command: str) -> dict[str, Any]:
    background = wanted.event == "Notification" and kind_in(command)
    return {
        "type": "command",
        "command": command,
        **({BACKGROUND: True} if background else {}),
    }


def _mend(text: str, hook: Hook, command: str, wanted: Registration) -> str:
    entry = _entry(wanted, command)
    given = hook.entry.get("timeout")
    if not isinstance(given, float) or given < wanted.timeout or wanted.exactly:
        entry["timeout"] = wanted.timeout
    for key, value in entry.items():
        if hook.entry.get(key, editor.MISSING) != value:
            text = editor.set_value(text, (*hook.path, key), value)
    return text


def drop_hook(text: str, hook: Hook, original: str) -> str:
    """Cut the entry, or its whole group if it was alone there."""
    entries = editor.get_value(text, hook.path[:4])
    if len(entries) > 1:
        return editor.cut(text, hook.path)
    group = hook.path[:3]
    return editor.prune(editor.cut(text, group), group[:2], original)
