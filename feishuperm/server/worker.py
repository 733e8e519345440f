"""Slow calls beside the loop: run in a thread, their results come back to the loop.

Knows nothing of what it runs.  Jobs start in the order they were handed in.
"""

from __future__ import annotations

import queue
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from feishuperm.server.loop import Loop

    Job = tuple[Callable[[], object], Callable[[Any], object]]


class Worker:
    """One or two daemon threads; a stuck call can never keep the program alive."""

    def __init__(self, loop: Loop, threads: int = 1) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"worker-{index}", daemon=True)
            for index in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[[], object], done: Callable[[Any], object]) -> None:
        """Run `fn` in a thread, then `done(result or exception)` on the loop."""
        if self._closed:
            raise RuntimeError("the worker is closed")
        self._jobs.put((fn, done))

    def close(self, timeout: float) -> bool:
        """Finish what is queued, at most so many seconds; whether all of it is done."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        until = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            self._run(*job)

    def _run(self, fn: Callable[[], object], done: Callable[[Any], object]) -> None:
        result: object
        try:
            result = fn()
        except Exception as error:
            result = error
        self._loop.call_soon_threadsafe(lambda: done(result))
