"""A child process in a session of its own, with bounded output and no hold on us.

What `subprocess` leaves to its caller: a child that does not read its input, floods its
output, or leaves a background process holding the pipes must not stop us; ending it
ends its whole group.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from _signal import (
    SIG_IGN,
    SIGALRM,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGTERM,
    getsignal,
    raise_signal,
    signal,
)
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SHELL = "/bin/sh"
# What is read of the child; RESULT is one more descriptor, which RESULT_FD names to it.
STDOUT, STDERR, RESULT = 1, 2, 3
RESULT_FD = "FEISHUPERM_RESULT_FD"
MAX_OUTPUT = 1 << 20  # of each stream; a hook's answer is far smaller
STEP = 0.05  # how often an ended child is noticed while others hold its pipes


@contextmanager
def signals_after() -> Iterator[None]:
    """Let what would end us wait until this is over.

    Between the start of a process and the moment its number is known, a handler that
    raises would leave it to nobody; an answer may hold a secret, once.  Blocking the
    signals would not do: another thread may take them.  Only the first gets here.
    """
    came: list[int] = []
    old: dict[int, Any] = {}
    with suppress(ValueError):  # not in the main thread
        for number in (SIGALRM, SIGHUP, SIGINT, SIGTERM):
            if getsignal(number) not in (SIG_IGN, None):
                old[number] = signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in old.items():
            signal(number, handler)
        for number in came:
            raise_signal(number)


class Child:
    """One process from start to end: `run()`, or `turn()` until `over()`, then `end()`.

    `outputs` says which descriptors are read; those of 1 and 2 that are not go nowhere.
    Raises OSError when it cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        data: bytes,
        env: Mapping[str, Any],
        cwd: str = "",
        outputs: Sequence[int] = (STDOUT, STDERR),
    ) -> None:
        self.outputs = {number: bytearray() for number in outputs}
        self.pending = memoryview(data)
        self.pause = STEP / 64
        self.reading: dict[int, int] = {}  # our ends of the pipes, by what they carry
        source, self.stdin = os.pipe()
        theirs = {0: source, STDOUT: subprocess.DEVNULL, STDERR: subprocess.DEVNULL}
        for number in outputs:
            reader, theirs[number] = os.pipe()
            self.reading[reader] = number
        kept = [theirs[RESULT]] if RESULT in theirs else []
        # In two steps: a signal that ends us meanwhile has to find whom to kill.
        self.process = subprocess.Popen.__new__(subprocess.Popen)
        try:
            with signals_after():
                self.process.__init__(  # type: ignore[misc]
                    argv,
                    stdin=theirs[0],
                    stdout=theirs[STDOUT],
                    stderr=theirs[STDERR],
                    env={**env, RESULT_FD: str(kept[0])} if kept else env,
                    cwd=cwd or None,
                    pass_fds=kept,
                    start_new_session=True,
                )
        except BaseException:
            if getattr(self.process, "pid", None):
                self.end()
            self._close()
            raise
        finally:
            for fd in theirs.values():
                if fd >= 0:
                    os.close(fd)
        os.set_blocking(self.stdin, False)
        self.poll = select.poll()
        self.poll.register(self.stdin, select.POLLOUT)
        for fd in self.reading:
            self.poll.register(fd, select.POLLIN)

    def __del__(self) -> None:
        """A signal came before anybody could see to it."""
        if getattr(getattr(self, "process", None), "pid", None):
            self.end()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, minus the signal that ended it, None while it runs."""
        return self.process.poll()

    def run(self, timeout: float) -> int | None:
        """The exit code; None when it was killed after so many seconds."""
        until = time.monotonic() + timeout
        try:
            while not self.over():
                left = until - time.monotonic()
                if left <= 0:
                    return None
                self.turn(left)
            return self.code
        finally:
            self.end()

    def output(self, number: int) -> bytes:
        """What came through one of its descriptors so far."""
        return bytes(self.outputs[number])

    def over(self) -> bool:
        return not self.reading and self.code is not None

    def turn(self, seconds: float) -> None:
        """Move what can be moved; wait for something to move, but not for long."""
        ended = self.code is not None
        pause = 0 if ended else min(seconds, STEP if self.reading else self.pause)
        ready = self.poll.poll(pause * 1000)
        for fd, _ in ready:
            self._write() if fd == self.stdin else self._read(fd)
        if ended and not ready:  # what is still open is held by others
            self._close()
        elif not self.reading:  # it ends in no time, or it never meant to say more
            self.pause = min(STEP, self.pause * 2)

    def end(self) -> None:
        """Let go of it: of what still runs, the whole group is killed."""
        if self.code is None:
            self.kill()
            self.process.wait()
        self._close()

    def kill(self) -> None:
        """End its whole group; from any thread, `run()` sees that it has ended."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, SIGKILL)

    def _read(self, fd: int) -> None:
        data = os.read(fd, 65536)
        output = self.outputs[self.reading[fd]]
        if not data:
            self.poll.unregister(fd)
            del self.reading[fd]
            os.close(fd)
        elif len(output) <= MAX_OUTPUT:  # the rest is read and dropped
            output += data

    def _write(self) -> None:
        try:
            self.pending = self.pending[os.write(self.stdin, self.pending) :]
        except BlockingIOError:
            return
        except OSError:  # the child does not care for its input
            self.pending = self.pending[:0]
        if not self.pending:
            self.poll.unregister(self.stdin)
            os.close(self.stdin)
            self.stdin = -1

    def _close(self) -> None:
        for fd in (self.stdin, *self.reading):
            if fd >= 0:
                os.close(fd)
        self.stdin = -1
        self.reading = {}
