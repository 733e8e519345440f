"""Claude Code's public commands, as the server runs them: to start, continue and list.

    claude --bg                  a new session in this folder
    claude --bg --resume ID      goes on with one that has ended
    claude agents --json         the sessions that live

There is no shell in between, and what people wrote comes by standard input: so none of
it is an option, and no list of processes shows it.  No permission mode is ever passed:
a folder and a session have their own, which is read here.  The child has the
environment of this process without the settings of feishuperm, which hold its secrets.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import escape, glob
from typing import Any

from feishuperm.errors import FeishupermError, FileError
from feishuperm.lib.child import STDERR, STDOUT, Child
from feishuperm.lib.config import claude_dir, claude_settings, home, managed_settings
from feishuperm.lib.display import one_line
from feishuperm.lib.files import main_folder, read_json, top_folder
from feishuperm.messages import msg
from feishuperm.models.fields import decoded, list_at, part_at, text_at, value_at

PROGRAM = "claude"
SECONDS = 30.0  # a start takes one or two, the first one also starts a daemon
# Modes in which nobody is asked: none of them is ever started or continued from afar.
BYPASSES = ("bypassPermissions", "dontAsk")
SESSION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
STARTED = re.compile(r"backgrounded\W+([0-9a-f]{8})\b")
FIRST, MOST = 1 << 20, 8 << 20  # bytes of a transcript, from its start and its end
# The hook of a started session finds its server by these.
KEPT = ("FEISHUPERM_CONFIG", "PERMISSION_SOCKET_PATH")
# Marks of the session that this process may run in.
INSIDE = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID")
KEYS = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
)
# Set by hosts that start the client in folders they do not vouch for.
IGNORE = "CLAUDE_CODE_IGNORE_PERSISTED_TRUST"
ACCEPTED = "hasTrustDialogAccepted"
NOT_FOUND = msg(
    "claude is not in the PATH: `feishuperm help sessions` says how to set it"
)
TOO_OLD = msg("this Claude Code is too old to start sessions: claude update")
NO_LIST = msg("it lists no sessions; update it: claude update")
NO_KEY = msg(
    "The server's environment has no API key and no login for Claude Code: it may "
    "refuse. `feishuperm help sessions` says where to set one."
)


def find(environ: Mapping[str, str] = os.environ) -> str:
    """The client's path. Raises FeishupermError."""
    found = shutil.which(PROGRAM, path=environ.get("PATH", os.defpath))
    if not found:
        raise FeishupermError(NOT_FOUND, "feishuperm help sessions")
    return found


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the client gets of our environment."""
    from feishuperm.models.settings import BY_KEY  # late: hooks ask for trust alone

    own = {key for key in environ if key.startswith(("FEISHU", "GATEWAY_"))}
    own.update(key for key, row in BY_KEY.items() if row.secret)
    left_out = {*own, *INSIDE}.difference(KEPT)
    return {key: environ[key] for key in environ if key not in left_out}


def run(
    words: Sequence[str],
    folder: str,
    environ: Mapping[str, str],
    seconds: float = SECONDS,
    data: bytes = b"",
) -> str:
    """What the client prints. Raises FeishupermError with its own sentence."""
    try:
        child = Child([find(environ), *words], data, environment(environ), folder)
        code = child.run(seconds)
    except (OSError, ValueError) as error:
        raise FeishupermError(msg("cannot run claude: {}", error)) from None
    if code is None:
        raise FeishupermError(msg("claude did not answer within {:g} s", seconds))
    out, err = (child.output(n).decode(errors="replace") for n in (STDOUT, STDERR))
    if "unknown option" in err:
        raise FeishupermError(TOO_OLD)
    if code:
        said = one_line((err.strip() or out.strip() or msg("exit code {}", code)), 500)
        raise FeishupermError(msg("Claude Code refused: {}", said))
    return out


def start(text: str, folder: str, session: str, environ: Mapping[str, str]) -> str:
    """Start a session, or go on with one; returns its short id. Raises FeishupermError.

    A session that came to life meanwhile would be copied: the copy is ended.
    """
    words = ["--bg", "--resume", session] if session else ["--bg"]
    said = run(words, folder, environ, data=text.encode())
    match = STARTED.search(said)
    if match is None:
        raise FeishupermError(TOO_OLD)
    if session and not session.startswith(match[1]):
        run(["stop", match[1]], folder, environ)
        raise FeishupermError(
            msg("the session runs elsewhere now; the copy that began was stopped")
        )
    return match[1]


def living(environ: Mapping[str, str], session: str) -> str:
    """How a session lives: `interactive` or `background`; empty: it has ended.

    Raises FeishupermError.
    """
    rows = listed(environ)
    kinds = {text_at(row, "sessionId"): text_at(row, "kind") for row in rows}
    return kinds.get(session, "")


def listed(environ: Mapping[str, str], seconds: float = SECONDS) -> list[Any]:
    """The sessions that live, in the client's own words. Raises FeishupermError."""
    rows = decoded(run(["agents", "--json"], home(environ), environ, seconds))
    if not isinstance(rows, list):
        raise FeishupermError(NO_LIST)
    return rows


# What the client has written down.


def saved(session: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """A session's folder, and the permission mode in which it would go on.

    Empty: nobody knows. Raises FeishupermError for a mode in which nobody is asked.
    """
    pattern = os.path.join(escape(claude_dir(environ)), "projects", "*", f"{session}.*")
    paths = glob(pattern) if SESSION_ID.fullmatch(session) else []
    job = os.path.join(claude_dir(environ), "jobs", session[:8], "state.json")
    try:
        with open(next((p for p in paths if p.endswith(".jsonl")), ""), "rb") as file:
            folder = _first(file.read(FIRST).split(b"\n"), "cwd")
            file.seek(-min(MOST, file.seek(0, os.SEEK_END)), os.SEEK_END)
            mode = _first(reversed(file.read(MOST).split(b"\n")), "permissionMode")
        flags = " ".join(map(str, list_at(read_json(job), "respawnFlags")))
    except (OSError, FileError):
        return "", ""
    if "dangerously" in flags:
        flags = BYPASSES[0]
    asking(next((each for each in BYPASSES if each in flags), ""))
    return folder, asking(mode)


def _first(lines: Iterable[bytes], key: str) -> str:
    """The first text that a line has by this name itself, not in what it quotes."""
    found = (text_at(decoded(row), key) for row in lines if key.encode() in row)
    return next(filter(None, found), "")


def folder_mode(folder: str, environ: Mapping[str, str]) -> str:
    """The permission mode in which sessions start there; empty: the client's own.

    Raises FeishupermError if any file names one in which nobody is asked: the client
    passes over a stronger file in which it finds a mistake.  And for settings that
    cannot be read.
    """
    mode = ""
    for path in (*claude_settings(folder, environ).values(), *managed_settings()):
        named = text_at(read_json(path), "permissions", "defaultMode")
        mode = asking(named) or mode
    return mode


def asking(mode: str) -> str:
    """A permission mode. Raises FeishupermError if nobody is asked in it."""
    if mode in BYPASSES:
        raise FeishupermError(
            msg("Refused: in the permission mode {} nobody is asked", mode)
        )
    return mode


def has_key(environ: Mapping[str, str]) -> bool:
    """Whether the client could log in, as far as can be seen from here."""
    if sys.platform == "darwin" or any(environ.get(key) for key in KEYS):
        return True  # a Mac keeps the login in its keychain
    folder = claude_dir(environ)
    if os.path.exists(os.path.join(folder, ".credentials.json")):
        return True
    try:
        settings = part_at(read_json(os.path.join(folder, "settings.json")))
    except FileError:
        return False
    named = {*settings, *part_at(settings, "env")}
    return not named.isdisjoint((*KEYS, "apiKeyHelper"))


def trusts(folder: str, environ: Mapping[str, str]) -> bool:
    """Whether Claude Code's own dialog was answered with yes for this folder."""
    base = environ.get("CLAUDE_CONFIG_DIR") or home(environ)
    try:
        state = read_json(os.path.join(base, ".claude.json"))
    except FileError:
        return False
    if environ.get(IGNORE):
        return False
    places = [(place, ACCEPTED) for place in _folders_above(folder)]
    return any(value_at(state, "projects", *place) is True for place in places)


def _folders_above(root: str) -> Iterator[str]:
    """The paths under which Claude Code may have recorded its answer."""
    here = os.path.realpath(root)
    top = top_folder(here)
    if top:
        yield main_folder(top)
    while True:
        yield here
        if here in (top, os.path.dirname(here)):
            return
        here = os.path.dirname(here)
