"""`feishuperm trust`: look at what a project would run, and trust exactly that.

Everything that is trusted together is shown as it is, with whatever the eye cannot see
spelled out.  There is no option to answer for the person: what nobody looked at is not
trusted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping

from feishuperm.errors import FeishupermError, FileError
from feishuperm.hooks.config_manager import ConfigManager
from feishuperm.hooks.trust import NAMES, Records, Trust, content_hash, project_content
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.display import one_line, pad, visible
from feishuperm.lib.language import translate
from feishuperm.lib.process_tree import require_person
from feishuperm.lib.terminal import ask, say, show
from feishuperm.messages import msg
from feishuperm.models.fields import value_at
from feishuperm.services.ledger import Ledger


def main(args: list[str]) -> int:
    """List, revoke, or ask about one folder."""
    parser = ArgumentParser("trust")
    parser.add_argument("what", nargs="?")
    parser.add_argument("folder", nargs="?")
    options = parser.parse_args(args)
    if options.what == "list" and not options.folder:
        lines = list(listing(os.environ))
        show("\n".join(lines)) if lines else say("no folder is trusted here")
        return 0
    if options.what == "revoke":  # by anybody, of any folder: it makes things stricter
        if not options.folder:
            parser.error(msg("which folder?"))
        review = Review(options.folder, os.environ)
        say("revoked" if review.revoke() else msg("{} was not trusted", review.root))
        return 0
    if options.folder:
        parser.error(msg("unknown argument {!r}", options.folder))
    review = Review(options.what or ".", os.environ)
    review.require_folder()
    require_person(os.environ)
    if review.is_empty():
        say("nothing to trust: {} has no settings and no scripts", review.root)
        return 0
    trusted = review.trust(ask, print)
    say("trusted" if trusted else "not trusted")
    return 0 if trusted else 1


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
            raise FeishupermError(msg("no such folder: {}", self.root))

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
            show(translate("Claude Code itself trusts {}: nothing to do", root))
            return True
        content = project_content(self.root)
        if trust.by_content(self.root):
            show(translate("{} is trusted as it is", visible(self.root)))
            return True
        for line in self.lines(content):
            show(line)
        if ask("trust exactly this? [y/N] ") not in ("y", "yes"):
            return False
        if content_hash(project_content(self.root)) != content_hash(content):
            raise FeishupermError(msg("it changed in the meantime and is not trusted"))
        self._record("trusted", content_hash(content))
        return True

    def revoke(self) -> bool:
        """Undo trust; whether there was any."""
        if self.root not in self.records.read():
            return False
        self._record("revoked", "")
        return True

    def lines(self, content: dict[str, bytes]) -> Iterator[str]:
        """What a person has to see."""
        yield translate("{}: what would run", visible(self.root))
        yield from self._callbacks()
        for name, data in sorted(content.items()):
            yield f"--- {visible(name)}"
            yield visible(_text(data)).rstrip("\n")
        yield translate("--- end")
        yield translate(
            "Claude Code's own hooks, permissions, environment and MCP servers are "
            "in\n"
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
            yield "  " + translate("note: {}", one_line(complaint, 400))

    def _record(self, action: str, content: str) -> None:
        """First into the ledger: nothing is trusted that is not recorded."""
        entry = {"event": "trust", "action": action, "project": self.root}
        try:
            self.ledger.append({**entry, "content": content} if content else entry)
        except OSError as error:
            raise FileError(msg("the ledger cannot be written: {}", error)) from None
        self.records.set(self.root, content)


def listing(environ: Mapping[str, str]) -> Iterator[str]:
    """Every folder that was trusted, when, and whether that still holds."""
    for root, entry in sorted(Records(environ).read().items()):
        seconds = value_at(entry, "time")
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds or 0))
        holds = Trust(environ).by_content(root)
        state = msg("trusted") if holds else msg("changed since")
        yield f"{day}  {pad(translate(state), 13)}  {visible(root)}"


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return translate("({} bytes that are no text)", len(data))
