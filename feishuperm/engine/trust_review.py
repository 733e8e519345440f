"""A person looks at what a project would run, and trusts it or does not.

Everything that is trusted together is shown as it is, with whatever the eye cannot see
spelled out.  The answer comes from a person at a terminal: a session of Claude Code, or
anything that it started, is not one.  That keeps an agent from trusting by the way; it
is no wall, since the same user can write our records by hand.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping

from feishuperm.engine.config_manager import ConfigManager
from feishuperm.engine.trust import (
    NAMES,
    Records,
    Trust,
    content_hash,
    project_content,
)
from feishuperm.errors import FeishupermError, FileError
from feishuperm.lib.ancestry import Clients
from feishuperm.lib.display import one_line, visible
from feishuperm.lib.terminal import can_ask
from feishuperm.lib.tongue import translate
from feishuperm.models.fields import value_at
from feishuperm.services.history import pad
from feishuperm.services.ledger import Ledger

SESSION = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID")


class Review:
    """One folder, from the look at it to the record. Raises FeishupermError."""

    def __init__(
        self, folder: str, environ: Mapping[str, str], ledger: Ledger | None = None
    ) -> None:
        self.root = os.path.realpath(folder)
        self.environ = environ
        self.records = Records(environ)
        self.ledger = ledger or Ledger()

    def require_folder(self) -> None:
        if not os.path.isdir(self.root):
            raise FeishupermError(f"there is no folder {self.root}")

    def is_empty(self) -> bool:
        """Whether the folder has no say in a session at all."""
        named = (os.path.lexists(os.path.join(self.root, name)) for name in NAMES)
        return not any(named) and not project_content(self.root)

    def trust(self, ask: Callable[[str], str], show: Callable[[str], object]) -> bool:
        """Show the content and ask; whether it is trusted now."""
        self.require_folder()
        trust = Trust(self.environ)
        if trust.by_claude(self.root):
            root = visible(self.root)
            show(translate(f"Claude Code itself trusts {root}: nothing to do"))
            return True
        content = project_content(self.root)
        if trust.by_content(self.root):
            show(translate(f"{visible(self.root)} is trusted as it is"))
            return True
        for line in self.lines(content):
            show(line)
        if ask("trust exactly this? [y/N] ") not in ("y", "yes"):
            return False
        if content_hash(project_content(self.root)) != content_hash(content):
            raise FeishupermError("it has changed meanwhile, and is not trusted")
        self._record("trusted", content_hash(content))
        return True

    def revoke(self) -> bool:
        """Take trust back; whether there was any."""
        if self.root not in self.records.read():
            return False
        self._record("revoked", "")
        return True

    def lines(self, content: dict[str, bytes]) -> Iterator[str]:
        """What a person has to see."""
        yield translate(f"{visible(self.root)}: what would run")
        yield from self._callbacks()
        for name, data in sorted(content.items()):
            yield f"--- {visible(name)}"
            yield visible(_text(data)).rstrip("\n")
        yield translate("--- end")
        yield translate(
            "Claude Code's own hooks, permissions, environment and MCP servers are in\n"
            "these files too. What they call in turn is not shown, and not checked."
        )

    def _callbacks(self) -> Iterator[str]:
        complaints: list[str] = []
        config = ConfigManager(self.environ, complaints.append)
        loaded = config.load_project_config(self.root)
        for event, group in (*loaded.hooks.pairs(), *loaded.callbacks.pairs()):
            for callback in group.callbacks:
                if callback.origin is not None and callback.origin.is_project:
                    where = one_line(f"{event} {group.matcher}".strip())
                    yield f"  {where}: {callback.type}: {one_line(callback.text)}"
        for complaint in complaints:
            yield "  " + translate(f"note: {one_line(complaint, 400)}")

    def _record(self, action: str, content: str) -> None:
        """First into the ledger: nothing is trusted that is not recorded."""
        entry = {"event": "trust", "action": action, "project": self.root}
        try:
            self.ledger.append({**entry, "content": content} if content else entry)
        except OSError as error:
            raise FileError(f"the ledger cannot be written: {error}") from None
        self.records.set(self.root, content)


def listing(environ: Mapping[str, str]) -> Iterator[str]:
    """Every folder that was trusted, when, and whether that still holds."""
    for root, entry in sorted(Records(environ).read().items()):
        seconds = value_at(entry, "time")
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds or 0))
        state = "trusted" if Trust(environ).by_content(root) else "changed since"
        yield f"{day}  {pad(translate(state), 13)}  {visible(root)}"


def require_outside(environ: Mapping[str, str]) -> None:
    """Raises FeishupermError inside a session: the agent must not let itself in."""
    inside = any(name in environ for name in SESSION) or is_below_a_session()
    if inside:
        raise FeishupermError(
            "inside a session of Claude Code nobody can be asked",
            "run it in a terminal of your own",
        )


def require_person(environ: Mapping[str, str]) -> None:
    """Raises FeishupermError unless a person at a terminal can be asked."""
    require_outside(environ)
    if not can_ask():
        raise FeishupermError("a person has to answer: this needs a terminal")


def is_below_a_session() -> bool:
    """Whether this process, or one above it, was started by a session."""
    return Clients().suspect_pid(os.getpid(), any_session=True) is not None


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return translate(f"({len(data)} bytes that are no text)")
