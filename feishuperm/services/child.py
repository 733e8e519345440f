"""A child process with a deadline: its whole group ends with it, its output is bounded.

A child that does not read its input, floods its output, or leaves a background process
holding the pipes must not stop us; that is why this is not `subprocess.run`.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

MAX_OUTPUT = 1 << 20  # of each stream; a hook's answer is far smaller
RESULT_FD = b"FEISHUPERM_RESULT_FD"  # names the descriptor to a child that has one
TICK = 0.05  # how often an ended child is noticed while others hold its pipes


class ChildResult:
    """How a child ended. `code` is None when it was killed at its deadline."""

    __slots__ = ("code", "result", "stderr", "stdout")

    def __init__(self, code: int | None, outputs: Sequence[bytes]) -> None:
        self.code = code
        self.stdout, self.stderr, self.result = outputs


class Child:
    """One run. `result` is what came through a pipe of its own, see RESULT_FD."""

    def __init__(
        self,
        argv: Sequence[str],
        data: bytes,
        timeout: float,
        env: Mapping[bytes, bytes],
        cwd: str | None,
        with_result: bool = False,
    ) -> None:
        self.deadline = time.monotonic() + timeout
        self.pending = memoryview(data)
        read_end, write_end = os.pipe()
        try:
            if with_result:
                env = {**env, RESULT_FD: b"%d" % write_end}
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=cwd,
                pass_fds=(write_end,) if with_result else (),
                start_new_session=True,
                bufsize=0,
            )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        self.result_pipe = os.fdopen(read_end, "rb", 0)
        self.selector = selectors.DefaultSelector()
        self.outputs: dict[int, bytearray] = {}
        for pipe in (self.process.stdout, self.process.stderr, self.result_pipe):
            self._watch(pipe, selectors.EVENT_READ)
        self._watch(self.process.stdin, selectors.EVENT_WRITE)

    def run(self) -> ChildResult:
        """Wait for the end, or bring it about."""
        try:
            while self._reading() and self._turn():
                pass
            code = self._wait()
        finally:
            if self.process.returncode is None:
                self._kill()
            self._close()
        return ChildResult(code, [bytes(data) for data in self.outputs.values()])

    def _watch(self, pipe: IO[bytes] | None, event: int) -> None:
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
        self.selector.register(pipe, event)
        if event == selectors.EVENT_READ:
            self.outputs[pipe.fileno()] = bytearray()

    def _reading(self) -> bool:
        return any(fd in self.outputs for fd in self.selector.get_map())

    def _turn(self) -> bool:
        """Move some bytes; False when there is nothing more to wait for."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            return False
        ended = self.process.poll() is not None
        ready = self.selector.select(0 if ended else min(left, TICK))
        for key, _ in ready:
            self._write(key.fd) if key.fd not in self.outputs else self._read(key.fd)
        return bool(ready) or not ended

    def _read(self, fd: int) -> None:
        data = os.read(fd, 65536)
        if not data:
            self.selector.unregister(fd)
        elif len(self.outputs[fd]) < MAX_OUTPUT:  # the rest is read and dropped
            self.outputs[fd] += data

    def _write(self, fd: int) -> None:
        try:
            self.pending = self.pending[os.write(fd, self.pending[:65536]) :]
        except BlockingIOError:
            return
        except OSError:  # the child does not care for its input
            self.pending = self.pending[:0]
        if not self.pending:
            self.selector.unregister(fd)
            assert self.process.stdin is not None
            self.process.stdin.close()

    def _wait(self) -> int | None:
        try:
            return self.process.wait(max(0.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None

    def _kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def _close(self) -> None:
        self.selector.close()
        for pipe in (
            self.process.stdin,
            self.process.stdout,
            self.process.stderr,
            self.result_pipe,
        ):
            assert pipe is not None
            pipe.close()
