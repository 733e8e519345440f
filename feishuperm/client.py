"""The hook client: one event from stdin to the server, one answer to stdout.

Claude Code starts this for every permission request, so it has to cost no more than
Python itself: it relays bytes and lets the server think.  It never parses JSON, and on
its normal path imports nothing but builtins and `wire`.  What needs more (no server,
another event, unreadable input) is handed to `commands.hook`, late.

    hook            Claude Code's; any other caller who read its settings gets nothing,
                    see `agents.recognition`
    hook PURPOSE    the same, for one of `HOOK_PURPOSES` alone
    hook AGENT      registered with another agent, which this word names: the server
                    knows its row, and a word that it does not know gets nothing

It always exits 0 and prints one JSON object or nothing: nothing means "no decision",
and the terminal dialog stays as it is.  SIGTERM keeps its default action, which ends
the process at once; the server sees the connection close.
"""

from __future__ import annotations

import posix
import sys
from _signal import SIGALRM, alarm, signal

from feishuperm.wire import (
    ACK_SECONDS,
    HOOK_PURPOSES,
    MAX_EVENT,
    PERMISSION,
    PLUGIN,
    TOOL_CALL,
    TOOL_RESULT,
    NoServer,
    NotPermission,
    ask,
    connect,
    is_claude,
    is_marked,
    is_spelled,
    new_id,
    project_of,
    read_all,
    socket_path,
    tell,
    write_all,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

    from feishuperm.wire import Environ

TELL_SECONDS = 1  # for an event that the server only hears of; the client waits for it


def run(environ: Environ) -> None:
    """One event, start to end."""
    hold = end_in_time()
    raw = read_all(0)
    kind, agent = called_for()
    # Around every tool call: nearly always there is nothing to ask for.
    is_call = kind and is_spelled((*TOOL_CALL, *TOOL_RESULT), raw)
    if is_call and not is_marked(socket_path(environ)):
        return
    if is_anothers(raw, environ, agent):
        return
    request_id = new_id()
    reason = "event"
    project = project_of(environ, agent)
    if kind == "session" and not is_call and b"FEISHUPERM_RUN" not in environ:
        alarm(TELL_SECONDS)
        return tell(raw, socket_path(environ), project)
    if not kind and can_relay(raw, environ, agent):
        try:
            path, of = socket_path(environ), agent.encode()
            answer = ask(raw, path, request_id, project, alarm, hold, of)
            return write_all(1, answer)
        except NoServer:
            reason = "no server"
        except NotPermission:
            pass
    import gc

    gc.disable()  # there is little garbage, and looking for it takes milliseconds
    from feishuperm.commands.hook import handle

    write_all(1, handle(raw, request_id.decode(), reason, kind, agent))


def end_in_time() -> Callable[[bytes], socket]:
    """Never outlast the time there is; gives what a connection is to be made with."""
    held: list[socket] = []  # the connection to the server

    def hold(path: bytes) -> socket:
        held[:] = [connect(path)]
        return held[0]

    def look_once_more(*_: object) -> None:
        """Time is up.  A decision that came while nobody let us run still counts."""
        signal(SIGALRM, lambda *_: posix._exit(0))
        if not held:
            posix._exit(0)
        alarm(1)
        held[0].setblocking(False)

    signal(SIGALRM, look_once_more)
    alarm(ACK_SECONDS)
    return hold


def called_for() -> tuple[str, str]:
    """The purpose this hook is for alone, or the agent it is registered with."""
    word = argument()
    return (word, "") if word in (*HOOK_PURPOSES, PLUGIN) else ("", word)


def argument() -> str:
    """The word behind `hook`; empty without one."""
    word = sys.argv[-1] if len(sys.argv) > 1 else ""
    return "" if word == "hook" or "/" in word else word


def is_anothers(raw: bytes, environ: Environ, agent: str) -> bool:
    """Whether an event is not of the agent that this hook is registered with.

    Of the word of another agent than Claude Code the server knows more.
    """
    if is_claude(raw, environ):
        return bool(agent)
    if agent:
        return False
    from feishuperm.agents.recognition import should_ignore

    return should_ignore(raw, environ)


def can_relay(raw: bytes, environ: Environ, agent: str) -> bool:
    """Whether it is a permission request that the server takes as it is.

    Inside a `run`, which asks by itself, somebody has to look whose event it is.
    """
    is_alone = b"FEISHUPERM_RUN" not in environ
    is_ours = bool(agent) or is_spelled(PERMISSION, raw)
    return len(raw) <= MAX_EVENT and is_alone and is_ours


# To a person who types it: this is no command for people.
EXPLANATION = """\
feishuperm hook is for Claude Code: it reads one hook event (JSON) on stdin and prints
the decision. `feishuperm install` registers it, `feishuperm demo` shows it at work.
feishuperm hook 由 Claude Code 调用：从标准输入读一个事件（JSON），输出决定。
用 `feishuperm install` 注册，用 `feishuperm demo` 试用。
"""


def main() -> None:
    """The `hook` command. Never returns."""
    try:
        if posix.isatty(0):
            # Another agent may take what is no JSON for a refusal.
            write_all(2 if argument() else 1, EXPLANATION.encode())
        else:
            run(posix.environ)
    except BaseException:  # whatever it is, it must not stop the agent
        pass
    posix._exit(0)
