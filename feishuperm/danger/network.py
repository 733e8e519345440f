"""Programs that fetch and send."""

from __future__ import annotations

import re

from feishuperm.danger.arguments import HOST, has, look, operands, value_of, words
from feishuperm.danger.places import UNKNOWN
from feishuperm.danger.scene import (
    DOWNLOADED,
    LOCAL,
    NOTHING,
    SECRET,
    SHELL,
    Arg,
    Args,
    Flow,
    Scene,
)


def download(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """curl, wget: hosts, files written, what is sent."""
    texts = [arg for arg in args if HOST.search(arg[:2000])]
    texts = texts or operands(args, "-o -O -H -X -d -A -u -e -T -F")[:3]
    hosts = list(filter(None, map(_host, texts)))
    for host in hosts:
        scene.note("fact.host", host)
    what = hosts[0] if hosts else "…"
    origin = Flow(None, DOWNLOADED, what)
    _sent(scene, args, flow, what)
    if args:
        _deletes_there(scene, args, what, texts)
        _pays(scene, args, texts)
    for path in _saved(name, args, texts):
        scene.writes(path)
        scene.keep(path, origin)
    return origin


def _saved(name: str, args: Args, texts: Args) -> list[str]:
    """The files that what is fetched becomes."""
    to = ("-O", "--output-document") if name.startswith("wget") else ("-o", "--output")
    target = value_of(args, *to) or "-"
    if target != "-":
        return [target]
    if name == "curl" and not has(args, "O", "--remote-name", "--remote-name-all"):
        return []
    folder = value_of(args, "-P", "--directory-prefix", "--output-dir") or "."
    paths = (re.split(r"[?#]", text)[0].rstrip("/") for text in texts)
    return [f"{folder}/{path.rpartition('/')[2] or 'index.html'}" for path in paths]


# Deleting on this machine is what one tries out; here it is all of a database.
_ALL_OF_IT = re.compile(r":9200/|/_all\b|/_delete_by_query")


def _deletes_there(scene: Scene, args: Args, host: str, texts: Args) -> None:
    method = value_of(args, "-X", "--request", "--method") or args[0]
    if method.upper() == "DELETE" and (
        host not in LOCAL or any(_ALL_OF_IT.search(text[:2000]) for text in texts)
    ):
        scene.note("danger.data", words("DELETE", texts))


_PAYS = re.compile(
    r"\b(?:stripe|paypal|squareup|adyen|braintree\w*|mollie|razorpay|wise)\.\w+/\S*"
    r"(?:refund|payout|transfer|charge|capture|payment)",
    re.IGNORECASE,
)


def _pays(scene: Scene, args: Args, texts: Args) -> None:
    """Something is posted to who moves money."""
    method = value_of(args, "-X", "--request", "--method") or args[0]
    posts = method.upper() in ("POST", "PUT") or has(args, "dF", "--json", "--data")
    asks = has(args, "G", "--get") or method.upper() == "GET"
    for text in texts if posts and not asks else ():
        if _PAYS.search(text[:2000]):
            scene.note("danger.money", text)


_BARE_HOST = re.compile(r"(localhost|[\w-]+(?:\.[\w-]+)+)(?![\w.-])")


def _host(text: str) -> str:
    match = HOST.search(text[:2000]) or _BARE_HOST.match(text[:2000])
    return match[1].replace(UNKNOWN, "…") if match else ""


_FILE = re.compile(r"(?:@|=<)([~/.\w][^;,\s]*)")
_FILES = ("-T", "--upload-file", "--post-file", "--body-file")
_NAMED = ("-H", "--header", "-u", "--user", "--oauth2-bearer", "-A", "--auth", "-a")
_VENDOR = re.compile(r"\$([A-Z0-9]+)_")
# First words of a variable's name that say nothing about whose key it is.
_ANYBODYS = frozenset(
    [
        *("API", "AUTH", "ACCESS", "APP", "MY", "USER", "TEST", "BEARER", "JWT", "ID"),
        *("REFRESH", "SESSION", "ADMIN", "DB", "CLIENT", "LOGIN", "SECRET", "PRIVATE"),
    ]
)


def _sent(scene: Scene, args: Args, flow: Flow, host: str) -> None:
    """Files among what is sent: keys must not leave silently."""
    scene.leaks(flow, host)
    paths = [match[1] for arg in args for match in _FILE.finditer(arg[:4096])]
    paths += [path for path in (value_of(args, name) for name in _FILES) if path]
    for path in paths:
        scene.leaks(scene.reads(path) or Flow(), host)
    for before, arg in zip(["", *args], args):
        if arg.origin == SECRET and not _is_its_own(before, arg, host):
            scene.leaks(arg, host)


def _is_its_own(option: str, arg: Arg, host: str) -> bool:
    """A token in a header is what it is for, and so is one sent to its own vendor."""
    if not arg.what.startswith("$"):
        return False
    vendor = _VENDOR.match(arg.what)
    name = vendor[1] if vendor else "API"
    name = {"GH": "GITHUB", "AWS": "AMAZON"}.get(name, name)
    its_own = name in _ANYBODYS or name.lower() in host.lower()
    return its_own or option in _NAMED or option.startswith("--header")


_LISTENS = re.compile(r"(?:tcp|udp|openssl|sctp)[46]?-l(?:isten)?:", re.IGNORECASE)
_LOOPBACK = re.compile(r"bind=(?:127\.|localhost|\[?::1)")


def netcat(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(args, "-p -w -s -X -x -c -e")
    if rest:
        scene.note("fact.host", rest[0])
        scene.leaks(flow, rest[0])
    text = value_of(args, "-e", "-c", "--exec", "--sh-exec")
    runs = [arg for arg in args if re.match(r"(?:exec|system|shell):", arg, re.I)]
    if any(_LISTENS.match(arg) and not _LOOPBACK.search(arg) for arg in args):
        scene.note("danger.tunnel", words(name, args))
    if text is not None or runs or flow.origin == SHELL:
        scene.note("danger.downloaded", words(name, args))
    if text is not None:
        scene.run(text)
    return Flow(None, DOWNLOADED, rest[0] if rest else "nc")


def sends(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """Other ways to make something known to a host: a question to a name server."""
    out = look(scene, args)
    host = "".join(operands(args)[-1:]).replace(UNKNOWN, "…") or name
    for sent in (flow, out):
        scene.leaks(sent, host)
    for arg in args:
        scene.leaks(arg, host)
    for word in (flow.text or "").split()[:50]:  # sftp: put FILE
        scene.leaks(scene.reads(word) or NOTHING, host)
    return Flow(None, DOWNLOADED, host)
