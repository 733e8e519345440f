"""Steps that wait for something in between, on a loop with one thread.

A `Promise` is a value that comes later; a coroutine awaits it, and `run()` starts one.
Nothing here knows sockets or clocks: the code that keeps a promise
calls `resolve()`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Later = Callable[[float, Callable[[], None]], object]


class Promise(Generic[T]):
    """Resolved or failed once; later calls change nothing."""

    def __init__(self) -> None:
        self.is_kept = False
        self._value: Any = None
        self._error: Exception | None = None
        self._waiting: list[Callable[[], object]] = []

    def resolve(self, value: T) -> None:
        self._keep(value, None)

    def fail(self, error: Exception) -> None:
        self._keep(None, error)

    def _keep(self, value: Any, error: Exception | None) -> None:
        if not self.is_kept:
            self.is_kept, self._value, self._error = True, value, error
            for go_on in self._waiting:
                go_on()

    def then(self, go_on: Callable[[], object]) -> None:
        """Call it once the promise is kept, or now."""
        if self.is_kept:
            go_on()
        else:
            self._waiting.append(go_on)

    def __await__(self) -> Generator[Promise[T], None, T]:
        if not self.is_kept:
            yield self
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[no-any-return]


def pause(later: Later, seconds: float) -> Promise[None]:
    """Wait so long, by the timers that are given."""
    over = Promise[None]()
    later(seconds, partial(over.resolve, None))
    return over


async def together(steps: Sequence[Coroutine[Any, None, T]]) -> list[T]:
    """The results of several, which do not wait for each other."""
    promises: list[Promise[T]] = [Promise() for _ in steps]
    for promise, each in zip(promises, steps):
        run(_resolve(promise, each), promise.fail)
    return [await promise for promise in promises]


async def _resolve(promise: Promise[T], steps: Coroutine[Any, None, T]) -> None:
    promise.resolve(await steps)


def at_once(steps: Coroutine[Any, None, T]) -> T:
    """The result of steps that have nothing to wait for."""
    try:
        steps.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError("there is something to wait for")


def run(
    steps: Coroutine[Any, None, object], on_error: Callable[[Exception], object]
) -> None:
    """Take the steps, now and whenever what they wait for has come."""

    def go_on() -> None:
        try:
            promise = steps.send(None)
        except StopIteration:
            return
        except Exception as error:  # nobody else is there to see it
            on_error(error)
            return
        promise.then(go_on)

    go_on()
