"""A headless run of any agent that speaks the Agent Client Protocol, version 1.

How a run works at all is in `agent_run`.  What the agent asks permission for goes to a
person, with its own options as buttons, and the chosen one goes back.  Whatever else it
asks for is refused: it was offered neither files nor a terminal.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping
from io import StringIO
from typing import Any

from feishuperm import __version__
from feishuperm.agents.acp import chosen, tool_of
from feishuperm.hooks.agent_run import AgentRun, Question
from feishuperm.hooks.screen import Screen
from feishuperm.lib.display import visible
from feishuperm.messages import msg
from feishuperm.models.fields import list_at, part_at, text_at
from feishuperm.protocol.json_rpc import FAILED, NO_METHOD, JsonRpc, Message

VERSION = 1
MOST_CALLS = 1000  # of tools, of which more may still be told
MOST_TEXT = 1 << 20  # characters of an answer
Fields = dict[str, Any]


class AcpRun(AgentRun):
    """One run."""

    protocol: JsonRpc
    agent = b"acp"

    def __init__(
        self,
        screen: Screen,
        socket_path: str,
        environ: Mapping[str, str],
        root: str,
        on_session: Callable[[str], None] = lambda session_id: None,
        mode: str = "",
    ) -> None:
        super().__init__(JsonRpc(), screen, socket_path, environ, root)
        self.on_session = on_session  # is told the id
        self.mode = mode  # of the session, as the agent calls it; empty: its first
        self.name = self.session = ""
        self.result: Fields | None = None
        self.calls: dict[str, Fields] = {}  # of tools, as far as they are told
        self.shown: set[str] = set()  # of these
        self.text = StringIO()  # said since the last of them

    def _converse(self, prompt: str) -> int:
        self.requests = self._requests(prompt)
        self._send(self.protocol.request(*next(self.requests)))
        self._live()
        return self._conclude(self.result)

    def _requests(self, prompt: str) -> Generator[tuple[str, Fields], Fields, None]:
        """Our own requests one after the other; each comes back with its answer."""
        began, info = time.monotonic(), {"name": "feishuperm", "version": __version__}
        offer = {"protocolVersion": VERSION, "clientCapabilities": {}}
        known = yield "initialize", {**offer, "clientInfo": info}
        if known.get("protocolVersion") != VERSION:
            self.screen.warn(msg("the agent speaks another version of the protocol"))
            return
        agent = part_at(known, "agentInfo")
        self.name = text_at(agent, "title") or text_at(agent, "name")
        known = yield "session/new", {"cwd": self.root, "mcpServers": []}
        self.session = text_at(known, "sessionId")
        if not self.session:
            raise ValueError("no session")
        self.on_session(self.session)
        here = {"sessionId": self.session}
        if self.mode:
            yield "session/set_mode", {**here, "modeId": self.mode}
        said = [{"type": "text", "text": prompt}]
        known = yield "session/prompt", {**here, "prompt": said}
        reason = text_at(known, "stopReason")
        failed = reason != "end_turn" and not self.refusals
        if failed:
            self.screen.warn(msg("the agent stopped: {}", reason))
        self.result = {
            "result": self.text.getvalue().strip(),
            "session_id": self.session,
            "stop_reason": reason,
            "is_error": failed,
            "duration_ms": round((time.monotonic() - began) * 1000),
        }

    def _go_on(self, answer: Message) -> None:
        """Send the next of our requests, or let the agent end."""
        if answer.error:
            self.screen.warn(msg("the agent refused: {}", answer.error))
            self.requests.close()
        try:
            self._send(self.protocol.request(*self.requests.send(answer.body)))
        except StopIteration:
            self._close_input()

    def _interrupt(self) -> None:
        if self.session:
            here = {"sessionId": self.session}
            self._send(self.protocol.note("session/cancel", here))
        else:
            self._close_input()
        self.session = ""  # so that nobody is asked any more
        for id in list(self.questions):
            self._withdraw(id)

    def _handle(self, event: Any) -> None:
        if event.waits and event.method == "session/request_permission":
            self._permission(event)
        elif event.waits:
            why = f"feishuperm does not serve {event.method}"
            self._send(self.protocol.refuse(event.id, NO_METHOD, why))
        elif event.method == "session/update":
            self._hear(part_at(event.body, "update"))
        elif event.method == "$/cancel_request":
            self._withdraw(json.dumps(event.body.get("requestId")))
        elif not event.method and event.id == self.protocol.requests:
            self._go_on(event)

    def _not_understood(self, event: Any, why: str) -> None:
        self.screen.warn(why)
        if event.waits:
            self.questions.pop(json.dumps(event.id), None)
            self._send(self.protocol.refuse(event.id, FAILED, why))
        elif not event.method:  # nothing follows from such an answer
            self._close_input()

    def _permission(self, message: Message) -> None:
        if message.body["sessionId"] != self.session:
            raise ValueError("another session")
        id, call = json.dumps(message.id), self._gather(message.body["toolCall"])
        self._withdraw(id)  # or nobody could tell two answers apart
        self._show(call)
        question = Question(id, *tool_of(call))
        question.asked = message
        known = {"toolCall": call, "agentName": self.name, "cwd": self.root}
        event = {**message.body, **known}
        self._open(question, lambda: self._ask_person(question, event))

    def _tell(self, question: Question, decision: Fields) -> None:
        asked = question.asked
        answer = chosen(list_at(asked.body, "options"), decision)
        self._send(self.protocol.reply(asked.id, answer))

    def _withdraw(self, id: str) -> None:
        """A question is no longer asked; the agent hears `cancelled` all the same."""
        question = self.questions.pop(id, None)
        if question is not None:
            question.wait.cancel()
            self.screen.clear()
            self._tell(question, {})

    def _hear(self, update: Fields) -> None:
        sort = text_at(update, "sessionUpdate")
        if sort == "agent_message_chunk" and self.text.tell() < MOST_TEXT:
            self.text.write(text_at(update, "content", "text"))
        elif sort in ("tool_call", "tool_call_update"):
            call = self._gather(update)
            is_over = call.get("status") in ("completed", "failed")
            if is_over or call.get("rawInput"):  # what is called may come bit by bit
                self._show(call)

    def _gather(self, part: Fields) -> Fields:
        """All that is known of a tool call: an update has only what is new."""
        if len(self.calls) > MOST_CALLS:
            self.calls, self.shown = {}, set()
        id = text_at(part, "toolCallId")
        new = {key: value for key, value in part.items() if value is not None}
        self.calls[id] = {**self.calls.get(id, {}), **new}
        return self.calls[id]

    def _show(self, call: Fields) -> None:
        """Tell a person of a call, once, and before it what was said."""
        id, said = text_at(call, "toolCallId"), self.text.getvalue()
        if id not in self.shown:
            self.shown.add(id)
            self.text = StringIO()
            self.screen.said(visible(said).strip())
            self.screen.called(*tool_of(call))
