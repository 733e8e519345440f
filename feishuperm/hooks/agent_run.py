"""What every headless run does, whatever its agent speaks.

The agent is a child, driven over its stdin and stdout.  One thread (the caller's) owns
the conversation and writes to the child.  A reader thread brings what the child prints,
no faster than it is taken; questions to people run in threads of their own; all of them
hand over through one queue.  Nobody to ask means: refused.

    state      what is done                                         to
    working    messages are shown, questions asked                  closing, stopping
    stopping   a signal came: the turn is interrupted, in seconds   closing
    closing    its stdin is closed; then SIGTERM, then SIGKILL      gone

A question lives from its arrival to the first of: person, deadline, cancelled by the
agent, end.  `Headless` drives Claude Code, `acp.AcpRun` any agent with that protocol.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import threading
import time
from _socket import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from feishuperm import wire
from feishuperm.errors import FeishupermError
from feishuperm.hooks.screen import Screen
from feishuperm.lib.control import NotRunningError
from feishuperm.messages import message_of, msg
from feishuperm.models.fields import value_at
from feishuperm.protocol.json_lines import JsonLines

INTERRUPT_SECONDS = 5  # for the agent to wind up a turn after an interrupt
END_SECONDS = 10  # for it to exit after its stdin is closed, with its own hooks
TERM_SECONDS = 3  # after each signal
SEND_SECONDS = 30  # for it to read what it is told
TICK = 0.5
PIECES = 16  # of its output that may wait to be read: a flood waits in the pipe

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

    def ask(self, raw: bytes, path: str, project: str, agent: bytes = b"") -> bytes:
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
                agent,
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
        if not self.cancelled:
            self.sock = wire.connect(path)
        if self.cancelled or self.sock is None:  # it may have been meanwhile
            raise wire.NoServer
        return self.sock


class Question:
    """One request of the agent that waits for a person."""

    def __init__(self, id: str, tool_name: str, tool_input: dict[str, Any]) -> None:
        self.id = id
        self.tool_name = tool_name
        self.tool_input = tool_input
        self.asked: Any = None  # what the agent sent, where more of it is needed
        self.wait = Wait()


class AgentRun:
    """One run, from the first line to the exit code."""

    hint = ""  # where the agent is not there
    agent = b""  # its word, if that is not Claude Code

    def __init__(
        self,
        protocol: JsonLines[Any],
        screen: Screen,
        socket_path: str,
        environ: Mapping[str, str],
        root: str,
    ) -> None:
        self.protocol = protocol
        self.screen = screen
        self.socket_path = socket_path
        self.environ = environ
        self.root = root
        self.events: queue.Queue[Callable[[], None]] = queue.Queue()
        self.room = threading.Semaphore(PIECES)
        self.questions: dict[str, Question] = {}
        self.end_deadline = float("inf")  # the agent has been told, or has gone
        self.refusals = 0
        self.ended = False

    def run(self, command: Sequence[str], prompt: str) -> int:
        """The whole session. Raises FeishupermError when the agent cannot start."""
        self._start(command)
        try:
            with _signals():
                return self._converse(prompt)
        except Stopped as stop:
            self.screen.warn(msg("stopping"))
            self._interrupt()
            until = time.monotonic() + INTERRUPT_SECONDS
            while not self.ended and time.monotonic() < until:
                self._turn(0.1)
            return stop.code
        finally:
            try:
                self._end()
            finally:
                self.screen.clear()

    def _start(self, command: Sequence[str]) -> None:
        # Inside a session of Claude Code it would take itself for a child of it.
        env = {key: self.environ[key] for key in self.environ if key != "CLAUDECODE"}
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=env,
                cwd=self.root,
                start_new_session=True,  # Ctrl-C is for us; we tell the agent
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            raise FeishupermError(
                msg("cannot start {}: {}", command[0], message_of(error)), self.hint
            ) from None
        assert self.process.stdin is not None
        os.set_blocking(self.process.stdin.fileno(), False)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        """In a thread: hand over what the agent prints, an empty piece at its end."""
        assert self.process.stdout is not None
        with self.process.stdout as pipe:
            data = b" "
            while data:
                data = os.read(pipe.fileno(), 1 << 16)
                self.room.acquire()
                self._later(partial(self._received, data))

    def _converse(self, prompt: str) -> int:
        """The exit code of a whole conversation."""
        raise NotImplementedError

    def _interrupt(self) -> None:
        """Ask the agent to end its turn."""
        raise NotImplementedError

    def _handle(self, event: Any) -> None:
        """Take one event of the protocol."""
        raise NotImplementedError

    def _not_understood(self, event: Any, why: str) -> None:
        """A message of a shape nobody has seen; what asks still gets an answer."""
        raise NotImplementedError

    def _tell(self, question: Question, decision: dict[str, Any]) -> None:
        """Send the agent what was decided."""
        raise NotImplementedError

    def _live(self) -> None:
        """Take everything that comes, until the end of the conversation."""
        while not self.ended:
            self._turn(TICK)
            self._tick(time.monotonic())

    def _conclude(self, result: dict[str, Any] | None) -> int:
        """Tell how it ended; the exit code."""
        if result is None:
            code = self._wait(END_SECONDS)
            self.screen.warn(msg("the agent ended without a result (exit {})", code))
            return FAILURE
        self.screen.result(result, self.refusals)
        if self.refusals:
            return REFUSED
        return FAILURE if result.get("is_error") else SUCCESS

    def _turn(self, seconds: float) -> None:
        """Do the next thing that was handed over, if one comes in time."""
        with suppress(queue.Empty):
            self.events.get(timeout=seconds)()

    def _received(self, data: bytes) -> None:
        self.room.release()
        if not data:
            self.ended = True
            return
        self.protocol.receive_data(data)
        event = self.protocol.next_event()
        while event is not None:
            try:
                self._handle(event)
            except (
                *(AttributeError, KeyError, TypeError, ValueError, RecursionError),
            ) as error:
                name = type(error).__name__
                why = msg("a message was not understood ({}: {})", name, error)
                self._not_understood(event, why)
            event = self.protocol.next_event()

    def _open(self, question: Question, decide: Callable[[], dict[str, Any]]) -> None:
        """Have it decided in a thread; whatever goes wrong there is a refusal."""

        def work() -> None:
            decision = decide()
            self._later(lambda: self._decided(question, decision))

        self.questions[question.id] = question
        self._in_thread(
            work,
            lambda why: self._decided(question, deny(f"feishuperm failed: {why}")),
        )

    def _ask_person(self, question: Question, event: dict[str, Any]) -> dict[str, Any]:
        """In a thread: what a person says."""
        self._later(lambda: self.screen.asks(question))
        raw = json.dumps(event).encode()
        try:
            answer = question.wait.ask(raw, self.socket_path, self.root, self.agent)
        except NotRunningError:
            if not question.wait.cancelled:
                self._later(self.screen.no_server)
            return deny("no feishuperm server is running, so nobody could be asked")
        decision = decision_of(json.loads(answer)) if answer else None
        return decision or deny("nobody answered the permission request")

    def _decided(self, question: Question, decision: dict[str, Any]) -> None:
        """Back in the main thread: tell the agent, if it still wants to know."""
        if self.questions.get(question.id) is not question:
            return
        del self.questions[question.id]
        self.refusals += decision.get("behavior") != "allow"
        self.screen.decided(question, decision)
        self._tell(question, decision)

    def _tick(self, now: float) -> None:
        for question in list(self.questions.values()):
            if now > question.wait.deadline:
                question.wait.cancel()
                self._decided(question, deny("the feishuperm server does not answer"))
        waiting = [q for q in self.questions.values() if q.wait.registered]
        self.screen.tick(waiting, now)
        # Something else may hold the agent's stdout when it is gone.
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
        if self._wait(TERM_SECONDS) is None:
            self._signal(signal.SIGKILL)
            self._wait(TERM_SECONDS)

    def _send(self, data: bytes) -> None:
        pipe, limit = self.process.stdin, time.monotonic() + SEND_SECONDS
        assert pipe is not None
        # It may be gone, or told that nothing more comes; the reader sees the end.
        with suppress(OSError, ValueError):
            while data:
                sent = pipe.write(data)
                data = data[sent or 0 :]
                if sent is None and time.monotonic() > limit:
                    self.ended = True  # half a message is worse than none
                    return
                if sent is None:
                    select.select((), (pipe,), (), TICK)

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
        """The agent must get an answer, whatever goes wrong in a hook."""
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


def deny(message: str) -> dict[str, Any]:
    return {"behavior": "deny", "message": message}


def decision_of(output: Any) -> dict[str, Any] | None:
    """The decision inside a PermissionRequest hook's output, if there is one."""
    decision = value_at(output, "hookSpecificOutput", "decision")
    if not isinstance(decision, dict):
        return None
    if decision.get("behavior") == "allow":
        return decision
    # An agent wants a message with every refusal.
    return {
        **decision,
        "behavior": "deny",
        "message": decision.get("message") or "denied",
    }
