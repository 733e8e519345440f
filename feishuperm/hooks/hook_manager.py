"""HookManager: runs command, script and prompt callbacks, and nothing else.

It is given its configuration and reads no configuration files; `ConfigManager` does.
Several callbacks for one event run in the order they are written, and their answers
become one, in the words the client obeys: block wins, and so do deny over ask over
allow and `continue: false`; the reasons of the winners, all messages and all added
context are joined by line ends; of `updatedInput`, and of everything else, the last one
stays.  "Do not wait for me" goes only for a callback that is alone and refuses nothing.

What goes wrong inside a callback (time-out, missing or broken script) is a line in the
log and `{"continue": true}`: a hook that fails must not stop a session.  One that says
`"onFailure": "block"` is a guard, and blocks then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from threading import Lock

from feishuperm.hooks.variables import (
    PATHS,
    VARIABLES,
    expand_prompt,
    shell_template,
    used_variables,
    variables,
)
from feishuperm.lib.child import RESULT, SHELL, STDERR, STDOUT, Child
from feishuperm.messages import message_of, msg
from feishuperm.models.fields import part_at
from feishuperm.models.hooks import (
    COMMAND,
    PLAIN,
    SCRIPT,
    HookCallback,
    HookGroup,
    HooksConfig,
    Origin,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from feishuperm.hooks.message_router import HookMatcher, SdkCallback

    Fields = dict[str, Any]
    Output = dict[str, Any]

# One variable must fit into one string of execve (128 KiB on Linux), and all of them
# beside the user's own environment (1 MiB for everything on macOS).
MAX_VALUE = 96 << 10
MAX_VALUES = 384 << 10
SLACK = 5  # seconds past our own deadlines before a client gives a callback up
MATCH_SECONDS = 3  # for one matcher; a regular expression can take for ever
CONTINUE = {"continue": True}
MAX_REASON = 10_000  # characters of a failed command's output that the model reads
# How strong an answer is; the strongest of several wins.
STRENGTH = ("", "allow", "defer", "ask", "deny")
DETACHES = ("async", "asyncTimeout")


class HookManager:
    """Executes callbacks for the project at `root`; complaints go to `warn`.

    What could not run at all goes to `error`, by default the same.  `alarm` is told
    how long a matcher may take, and raises TimeoutError then; 0 takes it back.
    `record` gets an entry for the ledger whenever a callback decides anything.
    `script_paths` is for callbacks that come from no settings file.
    """

    def __init__(
        self,
        root: str,
        environ: Mapping[str, str],
        warn: Callable[[str], None],
        script_paths: Iterable[str] = (),
        error: Callable[[str], None] | None = None,
        alarm: Callable[[int], object] = lambda seconds: None,
        record: Callable[[dict[str, Any]], object] = lambda entry: None,
    ) -> None:
        self.root = root
        self.environ = environ
        self.warn = warn
        self.error = error or warn
        self.alarm = alarm
        self.record = record
        self.origin = Origin("", root, script_paths)
        self.config = HooksConfig()
        self.children: set[Child] = set()  # those that run now
        self.lock = Lock()  # over the set: callbacks may run in threads
        self.stopped = False

    def load_hooks(self, config: HooksConfig) -> None:
        """Take over what ConfigManager has found."""
        self.config = config

    def run(self, fields: Fields, tool_use_id: str | None = None) -> Output | None:
        """Every callback that matches an event, merged for the client; None if none."""
        event = str(fields.get("hook_event_name", ""))
        matching = [
            callback
            for group in self.config[event]
            if self._matches(group, fields)
            for callback in group.callbacks
        ]
        if not matching:
            return None
        outputs = [self.execute(callback, fields, tool_use_id) for callback in matching]
        return for_client(event, merge(outputs))

    def execute(
        self, callback: HookCallback, fields: Fields, tool_use_id: str | None = None
    ) -> Output:
        """One callback of any kind, within its rights; what it decides is recorded."""
        if callback.problem:
            output = self._failed(callback, callback.problem)
        elif callback.type == COMMAND:
            output = self.execute_command(callback, fields)
        elif callback.type == SCRIPT:
            output = self.execute_script(callback, fields, tool_use_id)
        else:
            output = self.execute_prompt(callback, fields)
        if callback.origin is not None and callback.origin.is_bound:
            output = without_allow(output)
        decision = decided(output)
        if decision:
            self.record(
                {
                    "event": "callback",
                    "decision": decision,
                    "callback": callback.source or callback.type,
                    "hook_event": str(fields.get("hook_event_name", "")),
                    "tool": str(fields.get("tool_name", "")),
                    "session": str(fields.get("session_id", "")),
                }
            )
        return output

    def stop(self, for_good: bool = True) -> None:
        """End every command and script that runs; afterwards none starts again."""
        with self.lock:
            self.stopped = for_good
            for child in self.children:
                child.kill()

    def _matches(self, group: HookGroup, fields: Fields) -> bool:
        if PLAIN.issuperset(group.matcher):  # no regular expression
            return group.matches(fields)
        self.alarm(MATCH_SECONDS)
        try:
            return group.matches(fields)
        except TimeoutError:
            guards = any(callback.blocks for callback in group.callbacks)
            fate = "it matches" if guards else "it does not match"
            self.warn(f"matcher {group.matcher!r} takes too long; {fate}")
            return guards
        finally:
            self.alarm(0)

    def execute_prompt(self, callback: HookCallback, fields: Fields) -> Output:
        """The text with its variables, for the person at the terminal."""
        text = expand_prompt(callback.text, variables(fields))
        return {"systemMessage": text, "continue": True}

    def execute_command(self, callback: HookCallback, fields: Fields) -> Output:
        """Exit 0 continues, anything else blocks with what the command said."""
        values = self._values(callback, fields)
        missing = used_variables(callback.text) - set(values)
        if missing:  # a guard must not pass what it could not be shown
            return _block(f"hook: ${min(missing)} is too long for the command line")
        env = self._environ(callback, values)
        argv = (SHELL, "-c", shell_template(callback.text))
        ended = self._child(callback, argv, _event_json(fields), env, fields)
        if isinstance(ended, str):
            return self._failed(callback, ended)
        if ended.code == 0:
            return dict(CONTINUE)
        said = ended.output(STDERR).strip() or ended.output(STDOUT).strip()
        reason = said.decode(errors="replace")[:MAX_REASON]
        return _block(reason or f"hook command ended with exit {ended.code}")

    def execute_script(
        self, callback: HookCallback, fields: Fields, tool_use_id: str | None = None
    ) -> Output:
        """The full output of a script's exported function, shape checked."""
        from feishuperm.hooks import script_host

        origin = callback.origin or self.origin
        path = script_host.allowed_path(callback.text, origin)
        if not path:
            inside = f" inside of {origin.root}" if origin.is_project else ""
            folders = ", ".join(origin.folders) + inside
            return self._failed(callback, f"{callback.text} is outside {folders}")
        argv = script_host.command(path)
        request = {"input": fields, "tool_use_id": tool_use_id, "context": {}}
        env = self._environ(callback, self._values(callback, fields))
        outputs = (STDOUT, STDERR, RESULT)
        ended = self._child(callback, argv, _event_json(request), env, fields, outputs)
        if isinstance(ended, str):
            return self._failed(callback, ended)
        output, problem = script_host.read_result(ended, fields)
        return self._failed(callback, problem) if problem else output

    def convert_to_sdk_format(
        self, config: HooksConfig | None = None
    ) -> dict[str, list[HookMatcher]]:
        """Event -> matchers with one async callback per hook, as the SDKs take them."""
        from feishuperm.hooks.message_router import matchers

        return matchers(self, self.config if config is None else config)

    def create_sdk_callback(self, callback: HookCallback) -> SdkCallback:
        """One hook as the async function an SDK calls."""
        from feishuperm.hooks.message_router import Turns, sdk_callback

        return sdk_callback(self, callback, Turns())

    def _values(self, callback: HookCallback, fields: Fields) -> dict[str, str]:
        """The variables that can be handed over; the ones in use come first."""
        used = used_variables(callback.text)
        room = MAX_VALUES
        handed = {}
        values = variables(fields)
        for name in sorted(values, key=lambda name: name not in used):
            value = values[name]
            if "\0" in value:
                value = value.replace("\0", "")
                if name in used:
                    where = callback.source or callback.type
                    self.warn(f"{where}: ${name} had NUL characters; removed")
            if name in PATHS and value.startswith("-"):
                value = f"./{value}"  # the same file, and no option of any program
            size = len(value.encode("utf-8", "surrogatepass"))
            if size <= min(MAX_VALUE, room):
                handed[name] = value
                room -= size
        return handed

    def _environ(
        self, callback: HookCallback, values: dict[str, str]
    ) -> dict[str, str | bytes]:
        origin = callback.origin or self.origin
        env: dict[str, str | bytes] = dict(origin.environ or self.environ)
        env["CLAUDE_PROJECT_DIR"] = self.root
        env["PYTHONDONTWRITEBYTECODE"] = "1"  # a trusted folder stays as it was seen
        for name in VARIABLES:  # one of the user's own would be taken for the event's
            env.pop(name, None)
        for name, value in values.items():
            env[name] = value.encode("utf-8", "surrogatepass")
        return env

    def _child(
        self,
        callback: HookCallback,
        argv: tuple[str, ...],
        data: bytes,
        env: dict[str, str | bytes],
        fields: Fields,
        outputs: tuple[int, ...] = (STDOUT, STDERR),
    ) -> Child | str:
        """The child after its own end, or why there is none."""
        folder = fields.get("cwd")
        # Of a project, the files at its top are those that somebody looked at.
        bound = callback.origin is not None and callback.origin.is_bound
        if bound or not isinstance(folder, str) or not _is_folder(folder):
            folder = self.root
        with self.lock:
            if self.stopped:
                return "the session has ended"
            try:
                child = Child(argv, data, env, folder, outputs)
            except OSError as error:
                return msg("cannot start {}: {}", argv[0], message_of(error))
            self.children.add(child)
        try:
            code = child.run(callback.timeout)
        finally:
            with self.lock:
                self.children.discard(child)
        late = f"no end within {callback.timeout:g} s; killed"
        return child if code is not None else late

    def _failed(self, callback: HookCallback, problem: str) -> Output:
        """What a callback that could not do its work answers."""
        self.error(f"{callback.source or callback.type}: {problem}")
        if callback.blocks:
            return _block(f"a hook that must not fail has failed: {problem}")
        return dict(CONTINUE)


def _block(reason: str) -> Output:
    return {"decision": "block", "reason": reason}


def _event_json(value: Any) -> bytes:
    # ASCII: an event may hold half a character, which UTF-8 cannot.
    return json.dumps(value).encode() + b"\n"


def _is_folder(path: str) -> bool:
    try:
        return path[:1] == "/" and os.path.isdir(path) and os.access(path, os.X_OK)
    except ValueError:  # a NUL
        return False


# What several callbacks answer, as one answer.


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
    given = part_at(output, "hookSpecificOutput")
    denial = given.get("permissionDecisionReason") or _decision(given).get("message")
    denial = str(denial or "") if _said(output) == "deny" else ""
    reason = "\n".join(filter(None, (output.get("reason"), denial)))
    reason = reason or "blocked by a hook"
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


def _strength(specific: Output) -> int:
    said = specific.get("permissionDecision") or _decision(specific).get("behavior")
    return STRENGTH.index(said) if said in STRENGTH else 0


def _decision(specific: Output) -> Output:
    """The decision of a PermissionRequest hook; nothing in an output without one."""
    return part_at(specific, "decision")


def _joined(outputs: Iterable[Output], key: str) -> str:
    return "\n".join(str(output[key]) for output in outputs if output.get(key))
