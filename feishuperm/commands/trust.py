"""`feishuperm trust`: look at what a project would run, and trust exactly that.

There is no option to answer for the person: what nobody looked at is not trusted.
"""

from __future__ import annotations

import os

from feishuperm.engine.trust_review import Review, listing, require_person
from feishuperm.errors import UsageError
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.terminal import ask, say, show

SUMMARY = "look at what a project would run, and trust exactly that"
USAGE = "feishuperm trust [DIR] | trust list | trust revoke DIR"
NOTE = (
    "DIR is the folder a session starts in, by default this one. Trust holds for the\n"
    "very content that was shown; any change needs it again. Folders that Claude Code\n"
    "itself trusts need none."
)


def main(args: list[str]) -> int:
    """List, revoke, or ask about one folder."""
    parser = ArgumentParser("trust", SUMMARY, NOTE, USAGE)
    parser.add_argument("what", nargs="?")
    parser.add_argument("folder", nargs="?")
    options = parser.parse_args(args)
    if options.what == "list" and not options.folder:
        return _list()
    if options.what == "revoke":
        if not options.folder:
            raise UsageError("which folder?", "feishuperm trust revoke DIR")
        return _revoke(options.folder)
    if options.folder:
        raise UsageError(f"unknown argument {options.folder!r}", USAGE)
    return _trust(options.what or ".")


def _list() -> int:
    lines = list(listing(os.environ))
    if lines:
        show("\n".join(lines))
    else:
        say("no folder is trusted here")
    return 0


def _revoke(folder: str) -> int:
    """By anybody, of any folder: it makes things stricter."""
    review = Review(folder, os.environ)
    say("revoked" if review.revoke() else f"{review.root} was not trusted")
    return 0


def _trust(folder: str) -> int:
    review = Review(folder, os.environ)
    review.require_folder()
    require_person(os.environ)
    if review.is_empty():
        say(f"nothing to trust: {review.root} has no settings and no scripts")
        return 0
    trusted = review.trust(ask, print)
    say("trusted" if trusted else "not trusted")
    return 0 if trusted else 1
