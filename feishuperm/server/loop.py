"""The one thread that owns every socket and all state: readiness, timers, wake-ups.

Knows file descriptors and moments, and nothing of what travels over them.  It sleeps
until the nearest deadline; other threads and signals wake it through a pair of sockets.
An exception in one handler costs that handler its connection and nobody else theirs.

A turn takes a bounded while, however much is ready: what was not reached is first in
the next turn, so that no crowd of sockets holds up a timer, nor timers a socket.  One
call is the smallest unit; a handler with more to do asks for `again()`.
"""

from __future__ import annotations

import heapq
import itertools
import resource
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE
MACOS_FILE_LIMIT = 10240  # OPEN_MAX: there "unlimited" is refused, this is not
SPARE_FILES = 64  # log, ledger, rule files, the worker's connections, the reserve
# The same for a gateway, with its control socket's clients and refused browsers.
GATEWAY_FILES = SPARE_FILES + 64 + 32
MIN_CANCELLED = 64  # below this, clearing the heap costs more than it frees
# For each part of a turn (posted calls, descriptors, timers): a person notices a tenth
# of a second, and a turn has three parts and one call that may come last in each.
PART_SECONDS = 0.01


class Handler:
    """What the loop calls when a descriptor is ready, and when that call failed."""

    __slots__ = ()

    def handle(self, mask: int) -> None:
        """The descriptor is readable or writable, or both; 0 after `again()`."""
        raise NotImplementedError

    def fail(self) -> None:
        """`handle` raised (already reported): close what it was about."""
        raise NotImplementedError


class Timer:
    """A call in the future. `cancel()` may come at any time, also too late."""

    __slots__ = ("_fn", "_loop")

    def __init__(self, loop: Loop, fn: Callable[[], object]) -> None:
        self._loop = loop
        self._fn: Callable[[], object] | None = fn

    def cancel(self) -> None:
        """Do not call it after all."""
        if self._fn is not None:
            self._fn = None
            self._loop._forget_cancelled()

    def _take(self) -> Callable[[], object] | None:
        fn, self._fn = self._fn, None
        return fn


class Loop:
    """Calls handlers, timers and posted functions, one after another."""

    def __init__(
        self,
        on_error: Callable[[Exception], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.now = clock
        self.report = on_error  # an unexpected exception, to the writer of the log
        self._selector = selectors.DefaultSelector()
        self._handlers: dict[int, Handler] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()  # equal moments: first set, first called
        self._cancelled = 0
        self._posted: deque[Callable[[], object]] = deque()
        self._ready: deque[tuple[int, Handler, int]] = deque()  # not yet handled
        self.longest = 0.0  # seconds that the longest turn took
        self._stopping = False
        self._old_signals: dict[int, Any] = {}
        self._old_wakeup_fd: int | None = None
        self._awake, self._alarm = socket.socketpair()
        self._awake.setblocking(False)
        self._alarm.setblocking(False)
        self.watch(self._awake.fileno(), READ, _Drain(self._awake))

    def watch(self, fd: int, mask: int, handler: Handler) -> None:
        """Call the handler when the descriptor is ready for `mask`; 0 ends it."""
        is_watched = fd in self._handlers
        if not mask:
            if is_watched:
                del self._handlers[fd]
                self._selector.unregister(fd)
            return
        self._handlers[fd] = handler
        if is_watched:
            self._selector.modify(fd, mask, handler)
        else:
            self._selector.register(fd, mask, handler)

    def call_at(self, when: float, fn: Callable[[], object]) -> Timer:
        """Call `fn` at a moment of `now()`, or as soon after it as possible."""
        timer = Timer(self, fn)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def again(self, handler: Handler) -> None:
        """Call `handler.handle(0)` in the next turn, after all that is ready."""
        self._ready.append((-1, handler, 0))

    def call_soon_threadsafe(self, fn: Callable[[], object]) -> None:
        """Call `fn` on the loop; the one method that other threads may use."""
        self._posted.append(fn)
        try:
            self._alarm.send(b"\0")
        except OSError:
            pass  # a full pipe wakes as well; a worker may finish after close()

    def on_signal(self, signum: int, fn: Callable[[], object]) -> None:
        """Call `fn` on the loop when the signal comes. From the main thread only."""

        def post(_signum: int, _frame: object) -> None:
            self._posted.append(fn)

        if self._old_wakeup_fd is None:
            # Without it, a signal between the last check and the wait is slept over.
            self._old_wakeup_fd = signal.set_wakeup_fd(
                self._alarm.fileno(), warn_on_full_buffer=False
            )
        old = signal.signal(signum, post)
        self._old_signals.setdefault(signum, old)

    def run(self) -> None:
        """Serve until `stop()`."""
        while not self._stopping:
            self.tick()
        self._stopping = False

    def stop(self) -> None:
        """Let `run()` return after the current round. From the loop's thread."""
        self._stopping = True

    def tick(self) -> None:
        """One turn: wait, then posted calls, ready descriptors, due timers."""
        events = self._selector.select(self._timeout())
        began = self.now()
        # Only those that are there now: one that posts itself again must not starve
        # the sockets.
        if self._posted:
            self._run_posted()
        if self._ready:  # each descriptor once, behind what the last turn left
            left = {fd for fd, _, _ in self._ready}
            events = [row for row in events if row[0].fd not in left]
        self._ready.extend([(key.fd, key.data, mask) for key, mask in events])
        self._handle_ready()
        self._run_timers()
        self.longest = max(self.longest, self.now() - began)

    def _handle_ready(self) -> None:
        now, ready, handlers = self.now, self._ready, self._handlers
        until = now() + PART_SECONDS
        for _ in range(len(ready)):
            fd, handler, mask = ready.popleft()
            # An earlier handler may have closed it; its number may even belong to
            # somebody else by now.
            if fd >= 0 and handlers.get(fd) is not handler:
                continue
            try:
                handler.handle(mask)
            except Exception as error:
                self.report(error)
                self._call(handler.fail)
            if now() > until:
                return

    def close(self) -> None:
        """Give back the descriptors and the signals that the loop itself took."""
        for signum, old in self._old_signals.items():
            signal.signal(signum, old)
        if self._old_wakeup_fd is not None:
            signal.set_wakeup_fd(self._old_wakeup_fd)
        self._old_signals, self._old_wakeup_fd = {}, None
        self._selector.close()
        self._awake.close()
        self._alarm.close()

    def _timeout(self) -> float | None:
        if self._posted or self._ready or self._stopping:
            return 0
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - self.now())

    def _run_timers(self) -> None:
        if not self._timers:
            return
        now = self.now()
        until = now + PART_SECONDS
        newest = next(self._order)  # one that sets itself again waits for its turn
        while self._timers and self._timers[0] < (now, newest):
            fn = heapq.heappop(self._timers)[2]._take()
            if fn is None:
                self._cancelled -= 1
            else:
                self._call(fn)
                if self.now() > until:
                    return

    def _run_posted(self) -> None:
        until = self.now() + PART_SECONDS
        for _ in range(len(self._posted)):
            self._call(self._posted.popleft())
            if self.now() > until:
                return

    def _call(self, fn: Callable[[], object]) -> None:
        try:
            fn()
        except Exception as error:
            self.report(error)

    def _forget_cancelled(self) -> None:
        """Clear the heap when most of it will never be called."""
        self._cancelled += 1
        if self._cancelled < max(MIN_CANCELLED, len(self._timers) // 2):
            return
        self._timers = [entry for entry in self._timers if entry[2]._fn is not None]
        heapq.heapify(self._timers)
        self._cancelled = 0


class _Drain(Handler):
    """Empties the wake-up socket; being woken is all it is for."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def handle(self, mask: int) -> None:
        try:
            self._sock.recv(4096)
        except BlockingIOError:
            pass

    def fail(self) -> None:
        """Nothing to close: without it the loop would be deaf."""


def raise_file_limit() -> int:
    """Raise the soft limit of open files to the hard one; returns what is in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (hard, MACOS_FILE_LIMIT):
        if _files(limit) <= _files(soft):
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return _files(limit)
        except (ValueError, OSError):
            pass  # the next one is smaller
    return _files(soft)


def _files(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def caps(file_limit: int) -> tuple[int, int]:
    """How many hooks and browsers fit under the file limit: of browsers a few."""
    usable = max(2, min(file_limit, 1 << 17) - SPARE_FILES)
    http = max(1, min(usable // 4, 2048))
    return usable - http, http


class GatewayCaps(NamedTuple):
    """The same for a gateway: browsers, and machines of three kinds."""

    http: int
    early: int
    joins: int
    machines: int


def gateway_caps(file_limit: int) -> GatewayCaps:
    """Share the files out: machines that have logged in get most of them."""
    usable = max(8, min(file_limit, 1 << 17) - GATEWAY_FILES)
    share = max(1, usable // 8)
    http, early, joins = min(share, 2048), min(share, 2048), min(share, 200)
    return GatewayCaps(http, early, joins, usable - http - early - joins)
