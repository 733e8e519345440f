"""What a session's transcript says of its turn: for lists and progress cards.

One bounded look at the end of the file, whatever its size; nothing is kept.  What a
line does not say is empty: other agents write less, and some nothing at all.
"""

from __future__ import annotations

from typing import NamedTuple


class Todo(NamedTuple):
    """An entry of the session's to-do list."""

    text: str = ""
    state: str = ""  # "pending", "in_progress" or "completed"


class Figures(NamedTuple):
    """A turn so far, without secrets masked: who shows it masks it."""

    title: str = ""  # of the session
    prompt: str = ""  # what the person wrote
    prompted: float = 0.0  # wall clock; 0.0: nobody knows
    running: str = ""  # the tool call that is not over, in words; empty: none
    running_since: float = 0.0
    said: str = ""  # the last words of the model
    todos: tuple[Todo, ...] = ()
    calls: int = 0  # tool calls of this turn, as far as was read
    tokens: int = 0  # of context, after the last message
    cost: float = -1.0  # dollars; below zero: the transcript does not say
    is_over: bool = False  # the turn has ended
    last: float = 0.0  # when the last line was written
