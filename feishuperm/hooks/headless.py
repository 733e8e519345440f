"""A headless Claude session: the CLI as a child, driven over its control protocol.

How a run works at all is in `agent_run`.

Every configured hook runs exactly once.  Claude Code runs what it can read in the
settings files; this registers the rest.  Permission requests come as `can_use_tool`:
callbacks for PermissionRequest run first, then the running server is asked; our own
command hook does nothing, see `RunLock`.  Nobody to ask means: refused.

A session is in one of these states:

    state      from                              what is done                 to
    setting    the CLI has started               `initialize`; which settings working
                                                 files does it load?
    working    the prompt was sent               messages shown, hooks run,   idle, gone
                                                 questions asked
    idle       a result came, and the CLI says   its stdin is closed          gone
               idle (or says nothing, or
               IDLE_SECONDS have passed)
    stopping   a signal                          interrupt, a few seconds     gone
    gone       its output ended, or it exited,   SessionEnd, nothing of it
               or END_SECONDS after the close    is left running

"working" can come back from "idle" while agents run in the background: each result
replaces the one before, and the last is the answer.  A callback may answer a question
before anybody is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from feishuperm.hooks.agent_run import (
    AgentRun,
    Question,
    decision_of,
)
from feishuperm.hooks.config_manager import ProjectConfig
from feishuperm.hooks.hook_manager import SLACK, HookManager
from feishuperm.hooks.screen import Screen
from feishuperm.messages import msg
from feishuperm.models.fields import list_at, part_at, value_at
from feishuperm.protocol.stream_json import (
    ControlCancel,
    ControlRequest,
    ControlResponse,
    Message,
    StreamJson,
)

FLAGS = (
    "--output-format", "stream-json",
    "--input-format", "stream-json",
    "--verbose",
    "--permission-prompt-tool", "stdio",
)  # fmt: skip
# These reach no callback over the protocol: the session starts before it is set up and
# ends after it is closed.  They are run from here.
OWN_EVENTS = ("SessionStart", "SessionEnd", "PermissionRequest")
IDLE_SECONDS = 600  # for background agents after a result, as long as the SDKs wait
SKIPPED = msg(
    "Claude Code skips this whole file, because `hooks` contains a `script`; "
    "its hooks run here, its permissions do not hold: move it to "
    "`feishuperm.callbacks`"
)


class Headless(AgentRun):
    """One run of Claude Code."""

    hint = msg("install Claude Code, or put `claude` on your PATH")
    protocol: StreamJson

    def __init__(
        self,
        config: ProjectConfig,
        hooks: HookManager,
        screen: Screen,
        socket_path: str,
        environ: Mapping[str, str],
        on_session: Callable[[str], None] = lambda session_id: None,
    ) -> None:
        super().__init__(StreamJson(), screen, socket_path, environ, config.root)
        self.on_session = on_session  # is told the id, which may change, once known
        self.config = config
        self.hooks = hooks
        self.answers: dict[str, Callable[[ControlResponse], None]] = {}
        self.session: dict[str, Any] = {}
        self.result: dict[str, Any] | None = None
        self.state = ""  # the CLI's own word for "running" or "idle"
        self.idle_deadline = 0.0
        self.source = "startup"

    def run(self, command: Sequence[str], prompt: str) -> int:
        try:
            return super().run(command, prompt)
        finally:
            self.hooks.stop()

    def _interrupt(self) -> None:
        self.hooks.stop(for_good=False)  # SessionEnd is still to come
        self._request("interrupt")  # the CLI may end its turn in order

    def _start(self, command: Sequence[str]) -> None:
        if any(word.startswith(("--continue", "--resume")) for word in command):
            self.source = "resume"
        sdk = {"CLAUDE_CODE_SDK_READS_SESSION_STATE": "1"}
        self.environ = {**self.environ, **sdk}
        super()._start([*command, *FLAGS])

    def _converse(self, prompt: str) -> int:
        self.hooks.load_hooks(self.config.left_over(()))  # at most
        # One callback per event; HookManager does matching, order and merging.
        config = self.hooks.config
        rows = {
            event: {
                "hookCallbackIds": [event],
                "timeout": config.seconds(event) + SLACK,
            }
            for event in config
            if event not in OWN_EVENTS
        }
        registered = {event: [row] for event, row in rows.items()}
        self._request("initialize", hooks=registered or None)
        if self.config.skippable():  # find out which settings files the CLI skips
            self._request("get_settings", lambda answer: self._agreed(answer, prompt))
        else:
            self._send(self.protocol.user_message(prompt))
        self._live()
        return self._conclude(self.result)

    def _agreed(self, answer: ControlResponse, prompt: str) -> None:
        """Run what the CLI left out; what else stood in a skipped file stays out."""
        entries = list_at(answer.body, "sources")
        loaded = {str(value_at(entry, "source")) for entry in entries}
        self.hooks.load_hooks(self.config.left_over(loaded))
        for file in self.config.skippable():
            if file.source not in loaded:
                self.screen.warn(msg("{}: {}", file.path, SKIPPED))
        self._send(self.protocol.user_message(prompt))

    def _not_understood(self, event: Any, why: str) -> None:
        if isinstance(event, ControlRequest):
            self.questions.pop(event.id, None)
            self._refuse(event.id, why)
        else:
            self.screen.warn(why)

    def _handle(self, event: Any) -> None:
        if isinstance(event, Message):
            self._message(event)
        elif isinstance(event, ControlRequest):
            self._requested(event)
        elif isinstance(event, ControlCancel):
            question = self.questions.pop(event.id, None)
            if question is not None:
                question.wait.cancel()
                self.screen.settled(question)
        elif isinstance(event, ControlResponse):
            if event.error:
                self.screen.warn(msg("the CLI refused a request: {}", event.error))
            self.answers.pop(event.id, _ignore)(event)

    def _requested(self, request: ControlRequest) -> None:
        if request.subtype == "hook_callback":
            failed = partial(self._refuse, request.id)
            self._in_thread(lambda: self._hook(request), failed)
        elif request.subtype == "can_use_tool":
            tool_name = str(request.body.get("tool_name", ""))
            question = Question(request.id, tool_name, part_at(request.body, "input"))
            self._open(question, lambda: self._ask(question, request.body))
        else:
            error = f"feishuperm does not serve {request.subtype!r}"
            self._send(self.protocol.refuse(request.id, error))

    def _message(self, message: Message) -> None:
        body = message.body
        if message.type == "result":
            self.result = body
            self.idle_deadline = time.monotonic() + IDLE_SECONDS
        elif message.type == "system" and body.get("subtype") == "init":
            self._began(body)
        elif body.get("subtype") == "session_state_changed":
            self.state = str(body.get("state"))
        else:
            self.screen.message(message.type, body)
        if self.result is not None and self.state in ("", "idle"):
            self._close_input()

    def _began(self, body: dict[str, Any]) -> None:
        """The first turn of the session: from here on its id is known."""
        first = not self.session
        if body.get("session_id") != self.session.get("session_id"):
            self.on_session(str(body.get("session_id")))
        self.session = {
            "session_id": body.get("session_id"),
            "cwd": body.get("cwd"),
            "permission_mode": body.get("permissionMode"),
        }
        if first:
            self._in_thread(
                lambda: self._own_event("SessionStart", source=self.source),
                self.screen.warn,
            )

    def _hook(self, request: ControlRequest) -> None:
        """In a thread: a registered callback."""
        fields = part_at(request.body, "input")
        output = self._run_hooks(fields, request.body.get("tool_use_id"))
        self._later(lambda: self._send(self.protocol.reply(request.id, output)))

    def _refuse(self, id: str, why: str) -> None:
        self.screen.warn(why)
        self._send(self.protocol.refuse(id, why))

    def _own_event(self, event: str, **extra: str) -> None:
        self._run_hooks({**self.session, **extra, "hook_event_name": event})

    def _run_hooks(
        self, fields: dict[str, Any], tool_use_id: str | None = None
    ) -> dict[str, Any]:
        """What callbacks answer; the person sees what they have to say."""
        output = self.hooks.run(fields, tool_use_id) or {}
        self._later(lambda: self.screen.hook_output(output))
        return output

    def _ask(self, question: Question, body: dict[str, Any]) -> dict[str, Any]:
        """In a thread: callbacks first, then a person."""
        event = {
            **self.session,
            "hook_event_name": "PermissionRequest",
            "tool_name": question.tool_name,
            "tool_input": question.tool_input,
        }
        for key in ("permission_suggestions", "agent_id", "tool_use_id"):
            if body.get(key):
                event[key] = body[key]
        output = self._run_hooks(event, body.get("tool_use_id"))
        return decision_of(output) or self._ask_person(question, event)

    def _tell(self, question: Question, decision: dict[str, Any]) -> None:
        response = dict(decision)
        if decision.get("behavior") == "allow" and not response.get("updatedInput"):
            response["updatedInput"] = question.tool_input
        self._send(self.protocol.reply(question.id, response))

    def _tick(self, now: float) -> None:
        if self.result is not None and now > self.idle_deadline:
            self._close_input()
        super()._tick(now)

    def _end(self) -> None:
        super()._end()
        if self.session:
            self._guarded(
                lambda: self._own_event("SessionEnd", reason="other"), self.screen.warn
            )
        while not self.events.empty():
            self.events.get()()

    def _request(
        self,
        subtype: str,
        then: Callable[[ControlResponse], None] | None = None,
        **fields: Any,
    ) -> None:
        """Ask the CLI something; `then` gets the answer."""
        id, line = self.protocol.request(subtype, **fields)
        self.answers[id] = then or _ignore
        self._send(line)


def _ignore(answer: ControlResponse) -> None:
    pass
