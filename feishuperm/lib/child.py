"""A child process in a session of its own, with bounded output and no hold on us.

A child that does not read its input, floods its output, or leaves a background process
holding the pipes must not stop us.  `subprocess` is left out: to import it takes longer
than all that a hook loads of ours.
"""

from __future__ import annotations

import os
import select
import time
from _signal import SIGKILL, SIGPIPE, SIGXFSZ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SHELL = "/bin/sh"
# Descriptors of the child; RESULT is one more, named by RESULT_FD, if it is asked for.
STDIN, STDOUT, STDERR, RESULT = range(4)
RESULT_FD = b"FEISHUPERM_RESULT_FD"
MAX_OUTPUT = 1 << 20  # of each stream; a hook's answer is far smaller
STEP = 0.05  # how often an ended child is noticed while others hold its pipes


class Child:
    """One that runs; `turn()` until `over()`, and at last `end()`, or just `run()`.

    `outputs` says which descriptors are read; those of 1 and 2 that are not go nowhere.
    Raises OSError when it cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        data: bytes,
        env: Mapping[Any, Any],
        cwd: str = "",
        outputs: Sequence[int] = (STDOUT, STDERR),
    ) -> None:
        argv = _in_folder([_program(argv[0], env), *argv[1:]], cwd)
        self.code: int | None = None
        self.pending = memoryview(data)
        self.outputs = {number: bytearray() for number in outputs}
        self.pause = STEP / 64
        source, self.stdin = os.pipe()
        os.set_blocking(self.stdin, False)
        self.reading: dict[int, int] = {}  # our ends of the pipes, by theirs
        theirs = {STDIN: source}
        for number in outputs:
            reader, theirs[number] = os.pipe()
            self.reading[reader] = number
        try:
            self.pid = _spawn(argv, env, theirs)
        except BaseException:
            self._close()
            raise
        finally:
            for fd in theirs.values():
                os.close(fd)
        self.poll = select.poll()
        self.poll.register(self.stdin, select.POLLOUT)
        for fd in self.reading:
            self.poll.register(fd, select.POLLIN)

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
        return not self.reading and self._ended()

    def turn(self, seconds: float) -> None:
        """Move what can be moved; wait for something to move, but not for long."""
        ended = self._ended()
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
        if not self._ended():
            self.kill()
            os.waitpid(self.pid, 0)
        self._close()

    def kill(self) -> None:
        """End its whole group; from any thread, `run()` sees that it has ended."""
        if self.code is None:
            try:
                os.killpg(self.pid, SIGKILL)
            except ProcessLookupError:
                pass

    def _ended(self) -> bool:
        if self.code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # the program we are part of ignores its children
                pid, status = self.pid, 0
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

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


def _program(name: str, env: Mapping[Any, Any]) -> str:
    """The path of a program by the child's own PATH. Raises FileNotFoundError."""
    if "/" in name:
        return name
    for folder in os.get_exec_path(env):
        path = os.path.join(os.fsdecode(folder), name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise FileNotFoundError(2, "not found in PATH")


def _in_folder(argv: list[str], cwd: str) -> list[str]:
    """posix_spawn knows no folder, and ours is not ours alone: a shell goes there."""
    if not cwd or os.path.samefile(cwd, "."):
        return argv
    return [SHELL, "-c", 'cd -- "$0" && exec "$@"', cwd, *argv]


def _spawn(argv: list[str], env: Mapping[Any, Any], fds: dict[int, int]) -> int:
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0)
        for number in (STDOUT, STDERR)
        if number not in fds
    ]
    actions += [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in fds.items()]
    if RESULT in fds:
        env = {**env, RESULT_FD: b"%d" % RESULT}
    # Python ignores two signals that other programs expect to die of.
    ignored = (SIGPIPE, SIGXFSZ)
    return os.posix_spawn(
        argv[0], argv, env, file_actions=actions, setsid=True, setsigdef=ignored
    )
