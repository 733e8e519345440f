"""Requests per second of processor time, the built file against a reference.

    python3 build.py bench http
    python3 tests/bench/bench_http.py OTHER.pyz     against another build, as reference

The built file answers `/healthz` over kept connections.  The reference is a
ThreadingHTTPServer that sends the same bytes in one write, or another build.  Each is
pinned to a processor of its own; the load comes from the other one, whose server has
nothing to do then.  They are measured by turns, and only the time that the server
itself was on its processor counts: a busy machine changes that least.  Of several
rounds the best counts, on both sides: noise only takes away.
"""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.serving import BuiltServer, go_first  # noqa: E402
from tests.bench.table import row  # noqa: E402

ROUNDS = 8
REQUESTS = 10_000  # of a round
CONNECTIONS = 50
# On a processor of their own the reference's threads do not fight for the interpreter's
# lock: it then makes three times as many requests as when they may use all processors.
LIMIT = 2.3
LIMIT_OF_BUILDS = 0.95  # of 5ab2daa, which had the least calls for a request

THREADS = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
PAGE = sys.stdin.buffer.read()
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20  # head and body leave in one write, however long
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)
    def log_message(self, *args):
        pass
class Server(ThreadingHTTPServer):
    request_queue_size = 1024
server = Server(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


class ThreadingServer:
    """A child process that serves one page."""

    def __init__(self, page: bytes) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", THREADS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it complains when the load ends
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(page)
        self.process.stdin.close()
        self.port = int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def pin(pid: int, processor: int) -> None:
    """Keep a process and its threads on one processor, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(task), {processor})


def processors() -> tuple[int, int]:
    """Two processors that this process may use; the same twice if it has one."""
    if not hasattr(os, "sched_getaffinity"):
        return 0, 0
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


def busy_seconds(pid: int) -> float:
    """How long a process has been on a processor, with threads that have ended."""
    # What clock_getcpuclockid(3) gives on Linux, which Python does not have; /proc
    # counts in hundredths of a second.
    return time.clock_gettime(~pid << 3 | 2)


def ask(port: int) -> tuple[bytes, int]:
    """What is asked all the time, and the length of the answer to it."""
    question = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
        probe.sendall(question)
        head = probe.recv(1 << 20).partition(b"\r\n\r\n")[0]
    length = re.search(rb"(?i)content-length: (\d+)", head)
    assert length is not None and head.startswith(b"HTTP/1.1 200"), head
    return question, len(head) + 4 + int(length[1])


def rate(port: int, pid: int, processor: int) -> float:
    """Requests per processor second of one round; the load runs on `processor`."""
    pin(os.getpid(), processor)
    question, whole = ask(port)
    poll = select.epoll()
    socks = {}
    for _ in range(CONNECTIONS):
        sock = socket.create_connection(("127.0.0.1", port), timeout=5)
        socks[sock.fileno()] = sock
        poll.register(sock.fileno(), select.EPOLLIN)
    missing = dict.fromkeys(socks, whole)
    before, left = busy_seconds(pid), REQUESTS - CONNECTIONS
    for sock in socks.values():
        sock.send(question)
    while missing:
        for fd, _ in poll.poll(5):
            missing[fd] -= len(socks[fd].recv(1 << 20))
            if missing[fd]:
                continue
            if left:
                left -= 1
                missing[fd] = whole
                socks[fd].send(question)
            else:
                del missing[fd]
    used = busy_seconds(pid) - before
    for sock in socks.values():
        sock.close()
    return REQUESTS / used


def compare(ours: BuiltServer, other: ThreadingServer | BuiltServer) -> float:
    """Both by turns; how many times the reference's best rate ours is."""
    first, second = processors()
    pin(ours.process.pid, first)
    pin(other.process.pid, second)
    rates = [
        (
            rate(ours.port, ours.process.pid, second),
            rate(other.port, other.process.pid, first),
        )
        for _ in range(ROUNDS)
    ]
    mine, theirs = (max(column) for column in zip(*rates))
    rounds = " ".join(f"{a / b:.2f}" for a, b in rates)
    print(
        f"requests per processor second: {mine:.0f}, reference {theirs:.0f}, "
        f"ratio {mine / theirs:.2f} (rounds {rounds})",
        flush=True,
    )
    return mine / theirs


def main(reference: str = "") -> int:
    go_first()
    ours = BuiltServer()
    page = ours.get("/healthz").partition(b"\r\n\r\n")[2]
    other = BuiltServer(Path(reference)) if reference else ThreadingServer(page)
    try:
        ratio = compare(ours, other)
    finally:
        ours.close()
        other.close()
    name = reference or "ThreadingHTTPServer"
    limit = LIMIT_OF_BUILDS if reference else LIMIT
    row("/healthz per processor second", name, ratio, limit, at_least=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
