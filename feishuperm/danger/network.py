"""Programs that fetch and send."""

from __future__ import annotations

import re

from feishuperm.danger.arguments import HOST, has, leak, operands, value_of, words
from feishuperm.danger.places import UNKNOWN
from feishuperm.danger.scene import DOWNLOADED, SECRET, Flow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.danger.scene import Args, Scene


def download(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """curl, wget: hosts, files written, what is sent."""
    texts = [arg for arg in args if HOST.search(arg[:2000])]
    texts = texts or operands(args, "-o -O -H -X -d -A -u -e -T -F")[:3]
    hosts = [_host(arg) for arg in texts if _host(arg)]
    for host in hosts:
        scene.fact("fact.host", host)
    what = hosts[0] if hosts else "…"
    origin = Flow(None, DOWNLOADED, what)
    _sent(scene, args, flow, what)
    to = ("-O", "--output-document") if name.startswith("wget") else ("-o", "--output")
    target = value_of(args, *to)
    if target is not None and target != "-":
        scene.writes(target)
        scene.keep(target, origin)
    elif name != "curl" or has(args, "O", "--remote-name", "--remote-name-all"):
        for arg in texts:
            leaf = re.split(r"[?#]", arg)[0].rstrip("/").rpartition("/")[2]
            scene.keep(leaf or "index.html", origin)
    return origin


def _host(text: str) -> str:
    match = HOST.search(text[:2000]) or re.match(r"([\w-]+(?:\.[\w-]+)+)", text[:2000])
    return match[1].replace(UNKNOWN, "…") if match else ""


_FILE = re.compile(r"@([~/.\w][^;,\s]*)|(?:\A|\A--[\w-]+=)([~/][^\s]*)\Z")


def _sent(scene: Scene, args: Args, flow: Flow, host: str) -> None:
    """Files among what is sent: keys must not leave silently."""
    leak(scene, flow, host)
    for arg in args:
        for match in _FILE.finditer(arg[:4096]):
            path = match[1] or match[2]
            sent = scene.reads(path) if not HOST.search(arg[:4096]) else None
            if sent is not None:
                leak(scene, sent, host)
        if arg.origin == SECRET:
            leak(scene, Flow(None, SECRET, arg.what), host)


def netcat(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(args, "-p -w -s -X -x -c -e")
    if rest:
        scene.fact("fact.host", rest[0])
        leak(scene, flow, rest[0])
    text = value_of(args, "-e", "-c", "--exec", "--sh-exec")
    if text is not None:
        scene.mark("danger.downloaded", words("nc", args))
        scene.run(text)
    return Flow(None, DOWNLOADED, rest[0] if rest else "nc")
