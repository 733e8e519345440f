"""The agents whose requests a person can answer: one row of `AGENTS`, one file each.

A row, a section of `agents.txt`, says what tells an agent's events from others', which
buttons it can obey and where it is registered.  Its file, of the same name as its word,
says the rest (`Dialect`): how its event becomes Claude Code's, which is what everything
else here reads, and what its hook prints.  The registered command names the agent
(`feishuperm-hook codex`).  A new agent is a file, a row and a sample in
`tests/agents/samples/`.

Claude Code's row has no file: its events and answers are what others are mapped to.
`PASSED_OVER` are known only to be passed over, see `recognition`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, cast

from feishuperm.errors import PayloadError
from feishuperm.messages import msg
from feishuperm.models.decision import Decision, as_line
from feishuperm.models.fields import decoded, part_at, text_at
from feishuperm.tables import sections
from feishuperm.wire import CLAUDE as CLAUDE

ACP = "acp"
ENTRY, OWN_FILE = "entry", "own file"
PERSON, MODEL, ANSWERED = "person", "model", "answered"  # who acts in a transcript


class Registration(NamedTuple):
    """Where an agent's configuration names the hook; paths below the home folder."""

    program: str  # in PATH, if the agent is here
    variable: str  # names its folder, or what that is in: NAME/REST
    folder: str  # without that variable; it is never made
    file: str  # in that folder
    # ENTRY: an entry of Claude's form below hooks.PermissionRequest in a file that is
    # shared; OWN_FILE: a file that is feishuperm's alone.
    form: str
    limits: str  # what cannot be done from a phone, for `doctor`
    milliseconds_from: int = 0  # a hook's time-out is so many of them from here on
    reviews: bool = False  # a person has to look at a new hook before it runs


class Agent(NamedTuple):
    """A row."""

    word: str  # behind `feishuperm-hook`, and `agent` in the ledger
    name: str  # as people call it; in titles of cards
    # Variables of its hooks; fields of its events, and where its transcripts are.
    variables: tuple[bytes, ...] = ()
    marks: tuple[str, ...] = ()
    # Names of the actions it can obey; empty: all, or those that its event names.
    actions: frozenset[str] = frozenset()
    # Its hook is serial: no dialog while it waits, so it is given back, never denied.
    is_serial: bool = False
    tested: str = ""  # the version that the file was written from
    registration: Registration | None = None
    tools: Mapping[str, str] = MappingProxyType({})  # as Claude Code calls them


class Dialect(Protocol):
    """What an agent's file defines."""

    # Texts of which each line of its transcript has one, if anybody speaks there.
    SPOKEN: tuple[bytes, ...]

    def read(self, fields: dict[str, Any]) -> dict[str, Any] | None:
        """Its event as Claude Code's; None: nothing that a person can decide."""

    def write(self, decision: Decision, action: str) -> dict[str, Any]:
        """What its hook prints; the action is that of the button, or empty."""

    def spoken(self, entry: dict[str, Any]) -> tuple[str, str]:
        """Who acts in a line of its transcript, and what they say."""


def _agent(word: str, lines: list[str]) -> Agent:
    """The row of a section."""
    parts = (line.replace(" = ", ": ", 1).partition(": ") for line in lines)
    said = {key: text for key, _, text in parts}
    variable, folder = said["folder"].split()
    how = Registration(
        *(said["program"], variable, folder, said["file"], said["form"]),
        msg(said["limits"]),
        int(said.get("milliseconds from", 0)),
        "reviews" in said,
    )
    actions, known = said["actions"].split(), _marks(said.get("marks", ""))
    facts = *known, frozenset(actions), "serial" in said, said["tested"], how
    pairs = (pair.partition("=") for pair in said.get("tools", "").split())
    tools = {own: ours for own, _, ours in pairs}
    return Agent(word, said["name"], *facts, tools)


def _marks(text: str) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    variables = tuple(word.encode() for word in text.split() if word.isupper())
    return variables, tuple(word for word in text.split() if not word.isupper())


_TABLE = dict(sections("agents/agents.txt"))
# By the name of each, as `agents.txt` has them.
*PASSED_OVER, UNNAMED = (
    Agent("", name, *_marks(marks))
    for name, _, marks in (x.partition(": ") for x in _TABLE.pop("passed over"))
)
AGENTS = {
    CLAUDE: Agent(CLAUDE, "Claude Code"),
    ACP: Agent(ACP, "ACP"),
    **{word: _agent(word, lines) for word, lines in _TABLE.items()},
}


def dialect(word: str) -> Dialect:
    """The file of an agent. Raises PayloadError for a word that has none."""
    if word not in AGENTS or word == CLAUDE:
        raise PayloadError(f"no agent is called {word!r}")
    return cast(Dialect, import_module(f"feishuperm.agents.{word}"))


def names(word: str, event: Mapping[str, Any] = MappingProxyType({})) -> dict[str, str]:
    """How a sentence calls an agent: the program, and who acts."""
    own = event.get("agent_name") if word == ACP else ""
    name = f"{own} ({AGENTS[word].name})" if own else AGENTS[word].name
    return {"client": name, "agent": "Claude" if word == CLAUDE else name}


def options_of(word: str, event: Mapping[str, Any]) -> dict[str, str]:
    """The buttons that an event itself names, and what it calls them."""
    return part_at(event, "options") if word == ACP else {}


def read_event(word: str, raw: bytes) -> dict[str, Any]:
    """The event of an agent as Claude Code's.

    Raises PayloadError: it cannot be read, is another's, or nobody can decide it.
    """
    from feishuperm.agents.recognition import foreign_agent, is_claude

    speaks, fields = dialect(word), decoded(raw)
    if not isinstance(fields, dict):
        raise PayloadError("the event is not a JSON object")
    other = foreign_agent(fields, {})
    if is_claude(fields, os.environb) or other not in (
        *("", AGENTS[word].name, UNNAMED.name),
    ):
        raise PayloadError(f"an event of {other or 'Claude Code'} came as {word}'s")
    event = speaks.read(fields)
    if event is None:
        raise PayloadError(f"nothing that {word} lets anybody decide")
    name = text_at(event, "tool_name")
    return {**event, "tool_name": AGENTS[word].tools.get(name, name)}


def output_of(word: str, decision: Decision, action: str = "") -> bytes:
    """What the hook of an agent prints."""
    if word == CLAUDE:
        return decision.to_stdout()
    return as_line(dialect(word).write(decision, action))


def claude_form(decision: Decision) -> dict[str, Any]:
    """Claude Code's form of an answer, with no more than all who have it understand."""
    return Decision(decision.behavior, decision.message).to_hook_output()
