"""A headless Claude session: the CLI as a child, driven over its control protocol.

One thread (the caller's) owns the conversation and writes to the CLI.  A reader thread
brings what the CLI prints; hooks and questions to people run in threads of their own;
all of them hand over through one queue.  `Screen` shows a person what happens.

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
replaces the one before, and the last is the answer.  A question lives from its
`can_use_tool` to the first of: callback, person, deadline, cancelled by the CLI, end.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from _socket import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TextIO

from feishuperm import wire
from feishuperm.errors import FeishupermError
from feishuperm.hooks.config_manager import ProjectConfig
from feishuperm.hooks.hook_manager import SLACK, HookManager
from feishuperm.lib.control import NotRunningError
from feishuperm.lib.display import one_line, visible
from feishuperm.lib.language import translate
from feishuperm.lib.tool import summary
from feishuperm.messages import message_of, msg
from feishuperm.models.fields import list_at, number_at, part_at, value_at
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
INTERRUPT_SECONDS = 5  # for the CLI to wind up a turn after an interrupt
END_SECONDS = 10  # for the CLI to exit after its stdin is closed, with its own hooks
IDLE_SECONDS = 600  # for background agents after a result, as long as the SDKs wait
TICK = 0.5
WIDTH = 100  # of a tool call; more does not fit beside a countdown
SKIPPED = msg(
    "Claude Code skips this whole file, because `hooks` contains a `script`; "
    "its hooks run here, its permissions do not hold: move it to "
    "`feishuperm.callbacks`"
)

SUCCESS, FAILURE, REFUSED = 0, 1, 3


class Stopped(BaseException):
    """A signal asks this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class Wait:
    """One request at the server. `ask()` runs in a thread, the rest in the owner's.

    The hook client ends its whole process when the wait is over; a program that does
    other things meanwhile looks at `deadline` and calls `cancel()`.
    """

    def __init__(self) -> None:
        self.deadline = float("inf")  # set once the question is on its way
        self.registered = False  # the server has it, and a person may see it
        self.cancelled = False
        self.sock: socket | None = None

    def ask(self, raw: bytes, path: str, project: str) -> bytes:
        """The hook output a person decided on, empty for none.

        Raises NotRunningError.
        """
        try:
            return wire.ask(
                raw,
                os.fsencode(path),
                wire.new_id(),
                os.fsencode(project),
                self._guard,
                self._connect,
            )
        except wire.NoServer:
            raise NotRunningError(
                msg("no server is running"), "feishuperm serve"
            ) from None
        except wire.NotPermission:
            return b""
        finally:
            if self.sock is not None:
                self.sock.close()

    def cancel(self) -> None:
        """End the wait; the server sees the connection close and withdraws the card."""
        self.cancelled = True
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(2)

    def _guard(self, seconds: int) -> None:
        self.registered = self.registered or seconds != wire.ACK_SECONDS
        self.deadline = time.monotonic() + seconds

    def _connect(self, path: bytes) -> socket:
        if self.cancelled:
            raise wire.NoServer
        self.sock = wire.connect(path)
        return self.sock


class Question:
    """One `can_use_tool` that waits for a person."""

    def __init__(self, request: ControlRequest) -> None:
        self.id = request.id
        self.tool_name = str(request.body.get("tool_name", ""))
        self.tool_input = part_at(request.body, "input")
        self.wait = Wait()


class Screen:
    """What a person sees of a run: tool calls, waits, hooks, the cost at the end.

    Progress goes to stderr, the answer to stdout.  On a terminal the line of a wait
    counts down in place; anywhere else each thing is said once, on a plain line.
    """

    def __init__(self, out: TextIO, err: TextIO, as_json: bool) -> None:
        self.out = out
        self.err = err
        self.as_json = as_json
        self.live = err.isatty()
        self.counting = ""  # the countdown now on the last line
        self.held = ""  # a text that is progress only if something follows it
        self.said_no_server = False
        self.warned: set[str] = set()  # each warning is said once
        self.hook_words: list[str] = []  # which the CLI repeats in words of its own

    def message(self, type: str, body: dict[str, Any]) -> None:
        """An assistant's words and tool calls; warnings of the CLI."""
        if type == "system" and body.get("subtype") == "informational":
            said = str(body.get("content"))
            if not any(words in said for words in self.hook_words):
                self._tell(said)
        if type != "assistant":
            return
        inside = "  " if body.get("parent_tool_use_id") else ""
        for block in list_at(body, "message", "content"):
            if value_at(block, "type") == "text":
                self._flush()
                self.held = inside + visible(str(block.get("text"))).strip()
            elif value_at(block, "type") == "tool_use":
                self._flush()
                self.line(f"{inside}* {_call(block.get('name'), block.get('input'))}")

    def hook_output(self, output: dict[str, Any]) -> None:
        """What a hook has to say to the user."""
        for text in (output.get("systemMessage"), output.get("stopReason")):
            if text:
                self.hook_words.append(str(text))
                self.line(translate("hook: {}", visible(str(text))))
        if output.get("decision") == "block":
            reason = visible(str(output.get("reason", "")))
            self.line(translate("hook blocked: {}", reason))

    def asks(self, question: Question) -> None:
        if not self.live:
            self.line(translate("  waiting for approval: {}", _call_of(question)))

    def decided(self, question: Question, decision: dict[str, Any]) -> None:
        if decision.get("behavior") == "allow":
            self.line(translate("  allowed: {}", _call_of(question)))
        else:
            said = one_line(str(decision.get("message", "")))
            self.line(translate("  refused: {}: {}", _call_of(question), said))

    def settled(self, question: Question) -> None:
        how = translate(msg("answered elsewhere"))
        self.line(f"  {how}: {_call_of(question)}")

    def no_server(self) -> None:
        if not self.said_no_server:
            self.said_no_server = True
            self.warn(msg("no server is running, every request is refused"))
            self.line(translate("hint: {}", "feishuperm serve"))

    def tick(self, waiting: list[Question], now: float) -> None:
        """Count down, on a terminal."""
        if not self.live or not waiting:
            return
        first = min(waiting, key=lambda question: question.wait.deadline)
        more = msg(" (and {} more)", len(waiting) - 1) if len(waiting) > 1 else ""
        seconds = max(0, int(first.wait.deadline - now))
        call = f"{_call_of(first)}{translate(more)}"
        text = translate("  waiting for approval: {}: {} s", call, seconds)
        if text != self.counting:
            self._progress(f"\r\x1b[K{text}")
            self.counting = text

    def warn(self, text: str) -> None:
        """A sentence of feishuperm, translated."""
        self._tell(translate(text))

    def _tell(self, text: str) -> None:
        if text not in self.warned:
            self.warned.add(text)
            self.line("feishuperm: " + visible(text))

    def result(self, result: dict[str, Any], refusals: int) -> None:
        """The answer on stdout, what it took on stderr."""
        answer = result.get("result")
        if self.as_json:
            print(json.dumps(result, ensure_ascii=False), file=self.out, flush=True)
        elif isinstance(answer, str):
            self.clear()
            print(visible(answer), file=self.out, flush=True)
        else:
            self._flush()
        for error in list_at(result, "errors"):
            if not str(error).startswith("[ede_diagnostic]"):  # the CLI's own notes
                self._tell(one_line(str(error)))
        seconds = f"{number_at(result, 'duration_ms') / 1000:.1f}"
        done = msg("done in {} s", seconds)
        parts = [msg("failed in {} s", seconds) if result.get("is_error") else done]
        parts.append(msg("{:.0f} turns", number_at(result, "num_turns")))
        parts.append(f"${number_at(result, 'total_cost_usd'):.4f}")
        if refusals:
            parts.append(msg("{} refused", refusals))
        self.line("feishuperm: " + ", ".join(map(translate, parts)))

    def line(self, text: str) -> None:
        self.clear()
        self._progress(text + "\n")

    def _progress(self, text: str) -> None:
        """Nobody may be reading it any more; the session goes on."""
        try:
            self.err.write(text)
            self.err.flush()
        except (OSError, ValueError):
            self.live = False

    def _flush(self) -> None:
        if self.held:
            self.line(self.held)
            self.held = ""

    def clear(self) -> None:
        """Take the countdown from the last line."""
        if self.counting:
            self._progress("\r\x1b[K")
            self.counting = ""


def _call_of(question: Question) -> str:
    return _call(question.tool_name, question.tool_input)


def _call(name: Any, tool_input: Any) -> str:
    """One line that tells a tool call apart from others."""
    command = value_at(tool_input, "command")
    if isinstance(command, str):
        return one_line(f"{name}: {command}", WIDTH)
    return one_line(summary(str(name), part_at(tool_input)), WIDTH)


class Headless:
    """One run, from the first line to the exit code."""

    def __init__(
        self,
        config: ProjectConfig,
        hooks: HookManager,
        screen: Screen,
        socket_path: str,
        environ: Mapping[str, str],
        on_session: Callable[[str], None] = lambda session_id: None,
    ) -> None:
        self.on_session = on_session  # is told the id, which may change, once known
        self.config = config
        self.hooks = hooks
        self.screen = screen
        self.socket_path = socket_path
        self.environ = environ
        self.protocol = StreamJson()
        self.events: queue.Queue[Callable[[], None]] = queue.Queue()
        self.questions: dict[str, Question] = {}
        self.answers: dict[str, Callable[[ControlResponse], None]] = {}
        self.session: dict[str, Any] = {}
        self.result: dict[str, Any] | None = None
        self.state = ""  # the CLI's own word for "running" or "idle"
        self.idle_deadline = 0.0
        self.end_deadline = float("inf")  # the CLI has been told, or has gone
        self.source = "startup"
        self.refusals = 0
        self.ended = False

    def run(self, command: Sequence[str], prompt: str) -> int:
        """The whole session. Raises FeishupermError when the CLI cannot start."""
        self._start(command)
        try:
            with _signals():
                return self._converse(prompt)
        except Stopped as stop:
            self.hooks.stop(for_good=False)  # SessionEnd is still to come
            self.screen.warn(msg("stopping"))
            self._request("interrupt")  # the CLI may end its turn in order
            until = time.monotonic() + INTERRUPT_SECONDS
            while not self.ended and time.monotonic() < until:
                self._turn(0.1)
            return stop.code
        finally:
            try:
                self._end()
            finally:
                self.hooks.stop()
                self.screen.clear()

    def _start(self, command: Sequence[str]) -> None:
        if any(word.startswith(("--continue", "--resume")) for word in command):
            self.source = "resume"
        # Inside a session of Claude Code the CLI would take itself for a child of it.
        env = {key: self.environ[key] for key in self.environ if key != "CLAUDECODE"}
        env["CLAUDE_CODE_SDK_READS_SESSION_STATE"] = "1"
        try:
            self.process = subprocess.Popen(
                [*command, *FLAGS],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=env,
                cwd=self.config.root,
                start_new_session=True,  # Ctrl-C is for us; we tell the CLI
                bufsize=0,
            )
        except OSError as error:
            raise FeishupermError(
                msg("cannot start {}: {}", command[0], message_of(error)),
                msg("install Claude Code, or put `claude` on your PATH"),
            ) from None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        """In a thread: hand over what the CLI prints, an empty piece at its end."""
        assert self.process.stdout is not None
        with self.process.stdout as pipe:
            data = b" "
            while data:
                data = os.read(pipe.fileno(), 1 << 16)
                self._later(partial(self._received, data))

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
        while not self.ended:
            self._turn(TICK)
            self._tick(time.monotonic())
        if self.result is None:
            code = self._wait(END_SECONDS)
            self.screen.warn(msg("Claude ended without a result (exit {})", code))
            return FAILURE
        self.screen.result(self.result, self.refusals)
        if self.refusals:
            return REFUSED
        return FAILURE if self.result.get("is_error") else SUCCESS

    def _turn(self, seconds: float) -> None:
        """Do the next thing that was handed over, if one comes in time."""
        with suppress(queue.Empty):
            self.events.get(timeout=seconds)()

    def _agreed(self, answer: ControlResponse, prompt: str) -> None:
        """Run what the CLI left out; what else stood in a skipped file stays out."""
        entries = list_at(answer.body, "sources")
        loaded = {str(value_at(entry, "source")) for entry in entries}
        self.hooks.load_hooks(self.config.left_over(loaded))
        for file in self.config.skippable():
            if file.source not in loaded:
                self.screen.warn(msg("{}: {}", file.path, SKIPPED))
        self._send(self.protocol.user_message(prompt))

    def _received(self, data: bytes) -> None:
        if not data:
            self.ended = True
            return
        self.protocol.receive_data(data)
        event = self.protocol.next_event()
        while event is not None:
            try:
                self._handle(event)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                self._not_understood(event, error)
            event = self.protocol.next_event()

    def _not_understood(self, event: Any, error: Exception) -> None:
        """A message of a shape nobody has seen; what asks still gets an answer."""
        why = msg("a message was not understood ({}: {})", type(error).__name__, error)
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
            question = Question(request)
            self.questions[question.id] = question
            self._in_thread(
                lambda: self._ask(question, request.body),
                lambda why: self._decided(question, _deny(f"feishuperm failed: {why}")),
            )
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

    def _ask(self, question: Question, body: dict[str, Any]) -> None:
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
        decision = _decision_of(output) or self._ask_person(question, event)
        self._later(lambda: self._decided(question, decision))

    def _ask_person(self, question: Question, event: dict[str, Any]) -> dict[str, Any]:
        self._later(lambda: self.screen.asks(question))
        raw = json.dumps(event).encode()
        try:
            answer = question.wait.ask(raw, self.socket_path, self.config.root)
        except NotRunningError:
            self._later(self.screen.no_server)
            return _deny("no feishuperm server is running, so nobody could be asked")
        decision = _decision_of(json.loads(answer)) if answer else None
        return decision or _deny("nobody answered the permission request")

    def _decided(self, question: Question, decision: dict[str, Any]) -> None:
        """Back in the main thread: tell the CLI, unless it no longer wants to know."""
        if self.questions.pop(question.id, None) is None:
            return
        allowed = decision.get("behavior") == "allow"
        self.refusals += not allowed
        self.screen.decided(question, decision)
        response = dict(decision)
        if allowed and not response.get("updatedInput"):
            response["updatedInput"] = question.tool_input
        self._send(self.protocol.reply(question.id, response))

    def _tick(self, now: float) -> None:
        for question in list(self.questions.values()):
            if now > question.wait.deadline:
                question.wait.cancel()
                self._decided(question, _deny("the feishuperm server does not answer"))
        waiting = [q for q in self.questions.values() if q.wait.registered]
        self.screen.tick(waiting, now)
        if self.result is not None and now > self.idle_deadline:
            self._close_input()
        # Something else may hold the CLI's stdout when it is gone.
        if self.process.poll() is not None:
            self.end_deadline = min(self.end_deadline, now + 2)
        self.ended = self.ended or now > self.end_deadline

    def _end(self) -> None:
        """Nothing of this session outlives it."""
        for question in list(self.questions.values()):
            question.wait.cancel()
        self._close_input()
        if self._wait(END_SECONDS if self.ended else 0) is None:
            self._signal(signal.SIGTERM)
        if self._wait(3) is None:
            self._signal(signal.SIGKILL)
            self._wait(3)
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

    def _send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        # It may be gone, or told that nothing more comes; the reader sees the end.
        with suppress(OSError, ValueError):
            while data:
                data = data[self.process.stdin.write(data) or 0 :]

    def _close_input(self) -> None:
        self.end_deadline = min(self.end_deadline, time.monotonic() + END_SECONDS)
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()

    def _wait(self, seconds: float) -> int | None:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _signal(self, number: int) -> None:
        with suppress(OSError):
            os.killpg(self.process.pid, number)

    def _later(self, call: Callable[[], None]) -> None:
        self.events.put(call)

    def _in_thread(
        self, call: Callable[[], object], failed: Callable[[str], None]
    ) -> None:
        work = partial(self._guarded, call, failed)
        threading.Thread(target=work, daemon=True).start()

    def _guarded(
        self, call: Callable[[], object], failed: Callable[[str], None]
    ) -> None:
        """The CLI must get an answer, whatever goes wrong in a hook."""
        try:
            call()
        except Exception as error:
            self._later(partial(failed, f"{type(error).__name__}: {error}"))


@contextmanager
def _signals() -> Iterator[None]:
    """While it is open, the usual signals end the run in order."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    old = {number: signal.signal(number, _stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _stop(number: int, frame: object) -> None:
    raise Stopped(number)


def _ignore(answer: ControlResponse) -> None:
    pass


def _deny(message: str) -> dict[str, Any]:
    return {"behavior": "deny", "message": message}


def _decision_of(output: Any) -> dict[str, Any] | None:
    """The decision inside a PermissionRequest hook's output, if there is one."""
    decision = value_at(output, "hookSpecificOutput", "decision")
    if not isinstance(decision, dict):
        return None
    if decision.get("behavior") == "allow":
        return decision
    # The CLI wants a message with every refusal.
    return {
        **decision,
        "behavior": "deny",
        "message": decision.get("message") or "denied",
    }
