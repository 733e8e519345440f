"""What both ends of the unix socket agree on, and how one end asks the other.

Frames and their limits, where the socket and the settings file are, who is at the other
end, whose event it is, and the conversation of a waiting hook.  Both ends and every
reader of config.env take it from here.

The hook loads this at every permission request, so it keeps to builtins, `_socket` and
`_signal`: `socket` or `os` alone would cost as much as Python's own start.
"""

from __future__ import annotations

import posix
import sys
from _signal import alarm
from time import monotonic, sleep, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Mapping

    Environ = Mapping[bytes, bytes]

PROTOCOL = b"1"
# How a hook begins that comes back: with the whole seconds it has left, by a clock that
# nobody sets.  One of another agent than Claude Code adds that agent's word: a server
# that knows nothing of agents releases it.
RETURNING = b"1 %d"
CLAUDE = "claude"  # the word of Claude Code: its hook does not say it
MAX_EVENT = 4 << 20  # a longer request no person reads; the terminal has it
MAX_INPUT = 64 << 20  # of any event: a guard sees a large file whole
MAX_ANSWER = 4 << 20  # an answer repeats the questions or the plan, nothing larger
ACK_SECONDS = 10  # a server that has not even said "registered" by then is frozen
GUARD_SECONDS = 3  # past the server's own deadline, and still under the hook timeout
RESTART_SECONDS = 10  # how long a server may be away before the terminal takes over
# How long a new server waits for the hooks of the one before: thousands may come back
# in the last moment, and each is read after the other.
RETURN_SECONDS = 2 * RESTART_SECONDS
# What a hook is told of its request, one after the other, and how it says so when it
# comes back: registered, shown, and its clock stopped by somebody who reads.
NEWS = b" ASH"
FLAGS = (b"", b"again", b"shown", b"held")
DEFAULT_SOCKET = b"/tmp/claude-permission.sock"
SYSTEM_CONFIG = b"/etc/feishuperm/config.env"  # an administrator's, for everybody
HOOK_PURPOSES = ("next", "denied", "form", "session")  # a hook may be for one alone
PLUGIN = "plugin"  # the hook of Claude Code's plugin says so, see `setup.plugin`
# Beside the socket while the server has something to say to a tool call or its result.
MARK = b".retry"


# Inside a JSON string these quotes would be escaped, so only a key can match.  A nested
# key could: then the server parses the event, says so, and `commands.hook` takes it.
PERMISSION = (
    b'"hook_event_name":"PermissionRequest"',
    b'"hook_event_name": "PermissionRequest"',
)
TOOL_CALL = (b'"hook_event_name":"PreToolUse"', b'"hook_event_name": "PreToolUse"')
TOOL_RESULT = (b'"hook_event_name":"PostToolUse"', b'"hook_event_name": "PostToolUse"')


class NoServer(Exception):
    """No server of feishuperm listens on the socket."""


class NotPermission(Exception):
    """The server read the event: it is not a permission request."""


def is_spelled(events: tuple[bytes, ...], raw: bytes) -> bool:
    return any(event in raw for event in events)


def is_marked(path: bytes) -> bool:
    """Whether the server at this socket has something to say to some tool call."""
    try:
        posix.stat(path + MARK)
    except (OSError, ValueError):
        return False
    return True


def read_all(fd: int, limit: int = MAX_INPUT) -> bytes:
    """Everything up to end of file, or to one byte past the limit."""
    parts = []
    size = 0
    while size <= limit:
        part = posix.read(fd, 65536)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def home(environ: Environ) -> bytes:
    """The user's folder; without any, a place that can be neither read nor made."""
    path = environ.get(b"HOME")
    if path:
        return path
    import pwd

    try:
        return pwd.getpwuid(posix.getuid()).pw_dir.encode(errors="surrogateescape")
    except KeyError:
        return b"/dev/null"


def first_text(raw: bytes, key: bytes) -> bytes:
    """The first text with a key in some JSON; empty without one, or with an escape."""
    start = raw.find(b'"%s":' % key) + len(key) + 3
    if start < len(key) + 3:
        return b""
    if raw[start : start + 1] == b" ":
        start += 1
    end = raw.find(b'"', start + 1)
    text = raw[start + 1 : end]
    return b"" if raw[start : start + 1] != b'"' or b"\\" in text else text


def is_claude(raw: bytes, environ: Environ) -> bool:
    """Whether an event is plainly Claude Code's: by its session, or its transcript.

    Of any other, `agents.recognition` looks closer whose it is.
    """
    session = first_text(raw, b"session_id")
    if not session or environ.get(b"CLAUDE_CODE_SESSION_ID") == session:
        return bool(session)
    path = first_text(raw, b"transcript_path")
    base = environ.get(b"CLAUDE_CONFIG_DIR") or environ.get(b"HOME", b"") + b"/.claude"
    named = path.endswith(b"/%s.jsonl" % session)
    return named and path.startswith(base + b"/projects/")


def project_of(environ: Environ, agent: str = "") -> bytes:
    """The project of an event; empty if nothing says it.

    Other agents set Claude Code's variable as well, or have inherited it: they run
    their hooks in the project.
    """
    return posix.getcwdb() if agent else environ.get(b"CLAUDE_PROJECT_DIR", b"")


def config_path(environ: Environ) -> bytes:
    """The file that holds the settings which the environment does not name."""
    named = environ.get(b"FEISHUPERM_CONFIG")
    if named:
        return named
    base = environ.get(b"XDG_CONFIG_HOME") or home(environ) + b"/.config"
    return base + b"/feishuperm/config.env"


def parse_config(data: bytes) -> dict[bytes, bytes]:
    """KEY=VALUE lines, with `export` or without; comments and others are skipped."""
    values = {}
    for line in data.splitlines():
        key, equals, value = line.partition(b"=")
        value = value.strip()
        if value[:1] in (b'"', b"'") and value[-1:] == value[:1] and len(value) > 1:
            value = value[1:-1]
        if equals and not key.lstrip().startswith(b"#"):
            values[key.strip().removeprefix(b"export ").lstrip()] = value
    return values


def socket_path(environ: Environ) -> bytes:
    """Where the server listens: environment, then config.env, then the default."""
    path = environ.get(b"PERMISSION_SOCKET_PATH")
    for file in (config_path(environ), SYSTEM_CONFIG):
        path = path or parse_config(read_file(file)).get(b"PERMISSION_SOCKET_PATH")
    return path or DEFAULT_SOCKET


def read_file(path: bytes) -> bytes:
    """What a file holds; nothing if it cannot be read."""
    try:
        fd = posix.open(path, posix.O_RDONLY)
    except OSError:
        return b""
    try:
        data = read_all(fd)
    except OSError:  # a directory
        data = b""
    posix.close(fd)
    return data


def peer_uid(sock: socket) -> int:
    """The user at the other end: anybody may have put a socket on a path in /tmp."""
    if sys.platform == "darwin":  # struct xucred at SOL_LOCAL: version, uid, ...
        credentials = sock.getsockopt(0, 1, 76)
    else:  # struct ucred at SO_PEERCRED: pid, uid, gid
        from _socket import SOL_SOCKET

        credentials = sock.getsockopt(SOL_SOCKET, 17, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def connect(path: bytes) -> socket:
    """A socket to our own server. Raises NoServer."""
    # Most events never get here, and it is a library to load.
    from _socket import AF_UNIX, SOCK_STREAM, socket

    sock = socket(AF_UNIX, SOCK_STREAM)
    try:
        sock.connect(path)
        if peer_uid(sock) != posix.geteuid():
            raise OSError
    except (OSError, ValueError):
        sock.close()
        raise NoServer from None
    return sock


def frame(kind: bytes, body: bytes = b"") -> bytes:
    """One message: four bytes of length, one of kind, the body."""
    return (len(body) + 1).to_bytes(4, "big") + kind + body


def receive(sock: socket, size: int) -> bytes:
    """Exactly `size` bytes, or nothing when the other end is gone."""
    data = b""
    while len(data) < size:
        try:
            part = sock.recv(size - len(data))
        except OSError:
            return b""
        if not part:
            return b""
        data += part
    return data


def receive_frame(sock: socket) -> tuple[bytes, bytes]:
    """The next (kind, body); kind is empty when the other end is gone or insane."""
    size = int.from_bytes(receive(sock, 4), "big")
    data = receive(sock, size) if 0 < size <= MAX_ANSWER else b""
    return data[:1], data[1:]


def new_id() -> bytes:
    """A request id as the card shows it: whole seconds and eight hex digits."""
    return b"%d-%s" % (time(), posix.urandom(4).hex().encode())


def reconnect(
    path: bytes,
    connect: Callable[[bytes], socket] = connect,
    until: float | None = None,
) -> socket | None:
    """A socket to the restarted server, or None when it stays away too long."""
    limit = monotonic() + RESTART_SECONDS
    if until is not None and until < limit:
        limit = until
    while monotonic() < limit:
        sleep(0.1)  # first of all: a server in a crash loop accepts at once
        try:
            return connect(path)
        except NoServer:
            pass
    return None


def printable(answer: bytes) -> bytes:
    """An answer that may go to stdout: one object on one line, or nothing."""
    return answer if answer[:1] == b"{" and answer[-1:] == b"\n" else b""


def ask(
    raw: bytes,
    path: bytes,
    request_id: bytes,
    project: bytes,
    guard: Callable[[int], object] = alarm,
    connect: Callable[[bytes], socket] = connect,
    agent: bytes = b"",
) -> bytes:
    """Relay one event and wait: the bytes to print, empty for "no decision".

    A connection that ends without a verdict is a server that restarts; the same id is
    registered again, so the card in the person's hand stays good.  The person's time
    runs from the first acknowledgement by our own clock, whatever later servers say; it
    is made longer once, by a person who reads.  A frame of a kind not known here is
    skipped, so that a newer server may say more.
    `guard` is told how many seconds from now the wait must be over at the latest;
    `connect` may be a caller's own, who wants to end the wait by closing the socket;
    `agent` is the word of the agent whose event it is, if that is not Claude Code.
    Raises NoServer and NotPermission.
    """
    sock: socket | None = connect(path)
    knows = 0  # how far it has come with this request
    until: float | None = None
    guard(ACK_SECONDS)
    while sock:
        header = PROTOCOL
        if until is not None:  # one that comes back tells how long it will wait
            header = RETURNING % max(1, until - monotonic() + 1)
        if agent:
            header += b" " + agent
        parts = (header, request_id, FLAGS[knows], project, raw)
        try:
            sock.sendall(frame(b"Q", b"\0".join(parts)))
        except OSError:
            pass  # a refusal may already wait to be read
        kind = b" "
        while kind:
            kind, body = receive_frame(sock)
            news = NEWS.find(kind)
            if news > knows:
                knows = news
                if kind != b"S":  # how long it will wait
                    until = monotonic() + int(body)
                    guard(int(body) + GUARD_SECONDS)
            if kind == b"D":
                return printable(body)
            elif kind == b"R":
                return b""
            elif kind == b"E":
                raise NotPermission
        sock.close()
        sock = reconnect(path, connect, until)
    return b""


def tell(raw: bytes, path: bytes, project: bytes) -> None:
    """Hand over an event that needs no answer. Raises NoServer and OSError."""
    sock = connect(path)
    sock.sendall(frame(b"N", b"\0".join((PROTOCOL, project, raw))))
    sock.close()


def write_all(fd: int, data: bytes) -> None:
    """Write everything, however small the pipe."""
    while data:
        data = data[posix.write(fd, data) :]
