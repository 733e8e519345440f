"""The agents whose requests a person can answer: one row of `AGENTS`, one file each.

A row says how an agent's event becomes Claude Code's, which is what everything else
here reads, which buttons it can obey, what its hook prints, and where it is registered.
The registered command names the agent (`feishuperm-hook codex`); who calls plain `hook`
is looked at by `wire` and `lib.other_agents`.  A new agent is a file, a row and a
sample in `tests/agents/samples/`.

Nothing is loaded for an event of Claude Code: its row has no `module`.
"""

from __future__ import annotations

from typing import NamedTuple

from feishuperm.messages import msg

ENTRY, OWN_FILE = "entry", "own file"


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
    """A row; what it does stands in its module, see `codex`."""

    word: str  # behind `feishuperm-hook`, and `agent` in the ledger
    name: str  # as people call it; in titles of cards
    # Names of the actions it can obey; empty: all.
    actions: frozenset[str] = frozenset()
    # Its hook is serial: no dialog while it waits, so it is given back, never denied.
    is_serial: bool = False
    registration: Registration | None = None


PASSES = ("minutes", "session")
AGENTS = {
    row.word: row
    for row in (
        Agent("claude", "Claude Code"),
        Agent(
            "codex", "Codex", frozenset(("allow", "deny", *PASSES)), True,
            Registration(
                "codex", "CODEX_HOME", ".codex", "hooks.json", ENTRY,
                msg("no dialog while a phone is asked, no “always”, no `codex exec`"),
                reviews=True,
            ),
        ),
        Agent(
            "qwen", "Qwen Code", frozenset(("allow", "deny", "edit", *PASSES)), True,
            Registration(
                "qwen", "QWEN_HOME", ".qwen", "settings.json", ENTRY,
                msg("no dialog while a phone is asked, no “always”, no questions"),
                milliseconds_from=1000,
            ),
        ),
        Agent(
            "copilot", "Copilot CLI",
            frozenset(("allow", "deny", "interrupt", *PASSES)), True,
            Registration(
                "copilot", "COPILOT_HOME", ".copilot", "hooks/feishuperm.json",
                OWN_FILE,
                msg("no dialog while a phone is asked, no “always”, no edit"),
            ),
        ),
        Agent(
            "opencode", "opencode", frozenset(("allow", "always", "deny", *PASSES)),
            registration=Registration(
                "opencode", "XDG_CONFIG_HOME/opencode", ".config/opencode",
                "plugin/feishuperm.js", OWN_FILE,
                msg("it asks only what `permission` in opencode.json names; no edit"),
            ),
        ),
    )
}  # fmt: skip
