"""Tables of cases: one test that tries every row, or rows for the full tests alone."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def every_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[..., Any]:
    """Like `pytest.mark.parametrize`, for rows that need no fixture of their own."""
    listed = list(rows)
    keys = (
        [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    )

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def table(**others: Any) -> None:
            failed = []
            for row in listed:
                values = row if len(keys) > 1 else (row,)
                try:
                    test(**others, **dict(zip(keys, values)))
                except Exception as error:
                    failed.append(f"{row!r:.120}: {type(error).__name__} {error}")
            assert not failed, "\n".join([f"{len(failed)} of {len(listed)}:", *failed])

        signature = inspect.signature(test)
        left = [p for name, p in signature.parameters.items() if name not in keys]
        table.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return table

    return decorate


def full(rows: Iterable[Any]) -> list[Any]:
    """Rows of a `parametrize` that are none of the quick tests."""
    return [pytest.param(row, marks=pytest.mark.full) for row in rows]
