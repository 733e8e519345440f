"""Requests per second with keep-alive, against a one-write ThreadingHTTPServer.

    python3 build.py bench http

Both serve the same bytes in the same run, in turns, so that this machine's noise falls
on both alike.  Two pairs: a constant page from our loop (what the server itself costs),
and the health check of the built file (made anew for every request, while the opponent
always sends a constant).  The load comes from `wrk` where it is installed, else from a
small client of our own in a third process; it shares the processors with the server, so
beside the rate by the clock stands the rate per second of processor time, which a busy
machine changes less.  Of several short rounds the best counts, on both sides: noise
only ever takes away.
"""

from __future__ import annotations

import os
import re
import select
import shutil
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
SECONDS = 1
CONNECTIONS = 50
LIMIT = 5.0
PAGE = b"<!doctype html><title>page</title>" + b"<p>line of a page</p>\n" * 150

OPPONENT = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
PAGE = sys.stdin.buffer.read()
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20  # head and body leave in one write, however long
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
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

OURS = """
import sys
from feishuperm.protocol.http1 import Response
from feishuperm.server.accept import HttpAcceptor
from feishuperm.server.listen import listen_http
from feishuperm.server.loop import Loop
PAGE = sys.stdin.buffer.read()
def on_request(request, exchange):
    exchange.reply(Response(200, PAGE, "text/html; charset=utf-8"))
loop = Loop(print)
listener = listen_http(["127.0.0.1"], 0)
HttpAcceptor(loop, listener, on_request, 1000)
print(listener.port, flush=True)
loop.run()
"""


class Server:
    """A child process that serves, and the URL to ask."""

    def __init__(self, code: str, page: bytes) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it complains when the load ends
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(page)
        self.process.stdin.close()
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/"

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def cpu_seconds(pid: int) -> float:
    """What a process has used so far; nothing where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(url: str, pid: int) -> tuple[float, float]:
    """Requests per second of the clock, and per second of the server's processor."""
    before = cpu_seconds(pid)
    per_second = rate(url)
    used = cpu_seconds(pid) - before
    return per_second, per_second * SECONDS / used if used else 0.0


def rate(url: str) -> float:
    """Requests per second for one round."""
    if shutil.which("wrk"):
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", url]
        run = subprocess.run(command, capture_output=True, text=True, timeout=30)
        found = re.search(r"Requests/sec:\s+([\d.]+)", run.stdout)
        if found is None or "Non-2xx" in run.stdout:
            raise SystemExit(f"wrk failed on {url}:\n{run.stdout}{run.stderr}")
        return float(found[1])
    command = [sys.executable, __file__, "load", url]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return float(run.stdout)


def load(url: str) -> float:
    """Our own load: each connection asks again as soon as its answer is whole."""
    host, _, path = url.partition("://")[2].partition("/")
    address, _, port = host.partition(":")
    question = f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    whole = 0
    with socket.create_connection((address, int(port)), timeout=5) as probe:
        probe.sendall(question)
        head = probe.recv(1 << 20).partition(b"\r\n\r\n")[0]
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length is not None, head
        whole = len(head) + 4 + int(length[1])
    poll = select.epoll()
    socks = {}
    missing = {}
    for _ in range(CONNECTIONS):
        sock = socket.create_connection((address, int(port)), timeout=5)
        sock.sendall(question)
        socks[sock.fileno()], missing[sock.fileno()] = sock, whole
        poll.register(sock.fileno(), select.EPOLLIN)
    count = 0
    start = time.monotonic()
    while time.monotonic() < start + SECONDS:
        for fd, _ in poll.poll(1):
            missing[fd] -= len(socks[fd].recv(1 << 20))
            if missing[fd] == 0:
                count += 1
                missing[fd] = whole
                socks[fd].send(question)
    return count / (time.monotonic() - start)


def compare(name: str, url: str, pid: int, page: bytes) -> float:
    """Both in turns; returns how many times theirs our best rate is."""
    opponent = Server(OPPONENT, page)
    ours, theirs = [], []
    try:
        for _ in range(ROUNDS):
            ours.append(measure(url, pid))
            theirs.append(measure(opponent.url, opponent.process.pid))
    finally:
        opponent.close()
    print(f"{name}, {len(page)} bytes")
    ratios = []
    for index, unit in enumerate(("second", "CPU second")):
        mine = max(pair[index] for pair in ours)
        other = max(pair[index] for pair in theirs)
        if not other:
            continue
        ratios.append(mine / other)
        rounds = " ".join(f"{a[index] / b[index]:.1f}" for a, b in zip(ours, theirs))
        print(
            f"  requests per {unit:<10} {mine:>8.0f}  ThreadingHTTPServer {other:>7.0f}"
            f"  ratio {mine / other:.1f} (rounds {rounds})",
            flush=True,
        )
    return ratios[0]


def main() -> int:
    go_first()
    server = Server(OURS, PAGE)
    try:
        ratio = compare("loop, constant page", server.url, server.process.pid, PAGE)
    finally:
        server.close()
    built = BuiltServer()
    try:
        page = built.get("/healthz").partition(b"\r\n\r\n")[2]
        compare("built file, /healthz", built.url + "/healthz", built.process.pid, page)
    finally:
        built.close()
    row("requests a second", "ThreadingHTTPServer", ratio, LIMIT, at_least=True)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        print(load(sys.argv[2]))
        sys.exit(0)
    sys.exit(main())
