"""The built file: what it consists of, how it starts, and the check that it does.

    sh text    TEXT_SIZE bytes: finds the interpreter and runs BOOT with it, isolated
    table      for each minor version length and place of its head, if it has one;
               first of all those of the list of sources
    packs      per CPython: a head, ready to run, with the loader and what `hook`
               needs, magic and mark; then each module that starts often, compressed
    sources    the list of the sources in the zip
    zip        from shiv: site-packages/, and our own __main__.py

sh finds the interpreter that `install` has pinned, else the one in PATH, and runs BOOT
with it, isolated.  BOOT runs the code of its CPython in the archive; for want of that,
OTHERS runs what `install` put beside the archive, else the sources.  No variable but
XDG_CONFIG_HOME and HOME has a say in which code runs.
"""

from __future__ import annotations

import io
import json
import marshal
import os
import re
import socket
import subprocess
import tempfile
import threading
import time
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

from feishuperm import loader
from feishuperm.codes import SITE, find_modules
from feishuperm.models.names import PROGRAMS

TEXT_SIZE = loader.SOURCES_AT  # of the sh text; the table follows
TABLE_SIZE = 8 * 32  # two numbers for Python 3.0 to 3.31; 3.0 stands for the sources

HOOK_NAMES = tuple(name for name, command in PROGRAMS.items() if command == "hook")

# Runs before anything else and is compiled at every start, so it is short.  It stands
# between single quotes in sh and must not contain one.
BOOT = """\
import sys
from posix import open, pread
f = open(sys.argv[1], 0)
try:
    from _frozen_importlib_external import MAGIC_NUMBER
    from marshal import loads
    m = b"@MARK@"
    t = pread(f, 8, @TEXT@ + 8 * sys.version_info[1])
    n, o = int.from_bytes(t[:4], "big"), int.from_bytes(t[4:], "big")
    h = pread(f, n, o)
    b, o = f, o + n
    if h[-20:] != MAGIC_NUMBER + m:
        raise KeyError
    l, *p = loads(h)
    g = {"__name__": "feishuperm.loader"}
    exec(l, g)
except Exception:
    exec(pread(f, @TEXT@ - @OTHERS@, @OTHERS@))
g["start"](f, m, b, o, *p)
"""

# What BOOT runs for want of a head that fits: the code beside the archive, else the
# sources, with nothing ready and no places (as marshal writes that).  It speaks Python
# of any age until the version is known.
OTHERS = """\
a = sys.argv[1:]
k = a[1:] == ["hook"] or len(a) == 1 and a[0].split("/")[-1] in @NAMES@
if sys.version_info < (3, 9):
    v = sys.version.split()[0]
    sys.stderr.write("feishuperm: needs Python 3.9 or newer, this is %s\\n" % v)
    sys.exit(not k)
@BESIDE@
g = {"__name__": "feishuperm.loader"}
try:
    m = b"@MARK@"
    try:
        b, h = open_beside(a[0], f, m)
        l, *p = loads(h)
        o = 32 + len(h)
    except Exception:
        exec(@SOURCES@)
    exec(l, g)
except Exception:
    if not k:
        raise
    sys.exit()
"""

# Only compiled if it is needed: for this, the code of `loader` is its source.
SOURCES = """\
from zlib import decompress
t = pread(f, 8, @TEXT@)
n, o = int.from_bytes(t[:4], "big"), int.from_bytes(t[4:], "big")
h = loads(decompress(pread(f, n, o)))["feishuperm.loader"]
l = decompress(pread(f, h[1], n + o + h[2]), -15)
b, p = f, [{}, b"{0"]
"""

# The interpreter `install` has pinned, else the one in PATH.  Only absolute paths are
# good: the current directory belongs to whatever project Claude Code works on.
SH = """\
#!/bin/sh
# feishuperm @VERSION@, one file for Python 3.9 and newer. Try: feishuperm --help
c=${XDG_CONFIG_HOME:-${HOME-}/.config}/feishuperm/python p=
case $c in /*) [ -f "$c" ] && [ -r "$c" ] && IFS= read -r p <"$c" ;; esac
case $p in /*) [ -f "$p" ] && [ -x "$p" ] ;; *) false ;; esac || {
  p=python3
  command -v $p >/dev/null 2>&1 || {
    echo "feishuperm: python3 is not in PATH; install Python 3.9 or newer" >&2
    case ${0##*/} in @SH_NAMES@) exit 0 ;; esac
    [ "${1-}" = hook ]
    exit
  }
}
exec "$p" -IBS -c '@BOOT@' "$0" "$@"
"""

# For `python3 feishuperm.pyz`: that Python obeys PYTHONPATH and .pth files, so it hands
# over to an isolated one before any of our modules is looked for.
MAIN = """\
import sys
import posix

boot = @BOOT@
archive = __file__.rpartition("/")[0]
sys.argv[0] = archive
if sys.executable and not (sys.flags.isolated and sys.flags.no_site):
    command = [sys.executable, "-IBS", "-c", boot] + sys.argv
    posix.execve(sys.executable, command, posix.environ)
sys.argv.insert(0, "-c")
exec(compile(boot, "boot", "exec"), {"__name__": "__main__"})
"""


class BuildError(Exception):
    """Ends the build; its text says what to do."""


class Python(NamedTuple):
    """An interpreter on this machine."""

    path: str
    magic: str
    version: str

    @property
    def minor(self) -> int:
        return int(self.version.split(".")[1])


def replaced(text: str, facts: dict[str, str]) -> str:
    for name, fact in facts.items():
        text = text.replace(name, fact)
    return text


def make_text(version: str, mark: bytes) -> tuple[bytes, bytes]:
    """The sh text, and the `__main__.py` for `python3 feishuperm.pyz`."""
    source = Path(loader.__file__).read_text("utf-8")
    function = re.search(r"^def open_beside.*?(?=^def )", source, re.M | re.S)
    assert function
    facts = {"@SOURCES@": repr(SOURCES), "@BESIDE@": function[0]}
    facts.update({"@NAMES@": repr(HOOK_NAMES), "@MARK@": mark.decode()})
    facts["@TEXT@"] = str(TEXT_SIZE)
    others = replaced(OTHERS, facts)
    room = TEXT_SIZE - len(others)
    boot = BOOT.replace("@OTHERS@", str(room)).replace("@MARK@", mark.decode())
    boot = boot.replace("@TEXT@", str(TEXT_SIZE))
    facts = {"@VERSION@": version, "@SH_NAMES@": " | ".join(HOOK_NAMES)}
    text = replaced(SH, {**facts, "@BOOT@": boot})
    if len(text) > room:
        raise BuildError(f"the sh text has {len(text)} bytes, there is room for {room}")
    main = MAIN.replace("@BOOT@", repr(boot))
    return (text.ljust(room, "\n") + others).encode(), main.encode()


def number_pair(length: int, place: int) -> bytes:
    return length.to_bytes(4, "big") + place.to_bytes(4, "big")


def make_codes(
    packs: dict[Python, tuple[bytes, bytes]], mark: bytes, sources: bytes
) -> bytes:
    """What stands between sh text and zip: table, packs, list of sources."""
    table, data = bytearray(TABLE_SIZE), b""
    begin = TEXT_SIZE + TABLE_SIZE
    for python, (head, codes) in packs.items():
        # Should the file be replaced between sh and Python, what BOOT finds is not what
        # it knows: the mark says so before marshal reads code of another loader.
        head += bytes.fromhex(python.magic) + mark
        row = number_pair(len(head), begin + len(data))
        table[8 * python.minor : 8 * python.minor + 8] = row
        data += head + codes
    table[:8] = number_pair(len(sources), begin + len(data))
    return bytes(table) + data + sources


def list_sources(zipped: bytes) -> bytes:
    """Of every module: its file; length, place in the zip and sum of its source."""
    with zipfile.ZipFile(io.BytesIO(zipped)) as archive:
        infos = {info.filename[len(SITE) :]: info for info in archive.infolist()}
    files = {name: b"" for name, info in infos.items() if info.filename == SITE + name}
    rows = {}
    for name, (file, _) in find_modules(files).items():
        info = infos[file]
        place = info.header_offset + 30 + len(info.filename)  # behind its own header
        rows[name] = file, info.compress_size, place, info.CRC
    return zlib.compress(marshal.dumps(rows, 2), 9)


def make_zip(members: dict[str, bytes], epoch: int, offset: int) -> bytes:
    """A zip that stands `offset` bytes into a file and depends on nothing else."""
    date = time.gmtime(max(epoch, 315_532_800))[:6]  # zip begins in 1980
    output = io.BytesIO()
    output.seek(offset)
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(name for name in members if not name.endswith("/")):
            info = zipfile.ZipInfo(name, date)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, members[name])
    return output.getvalue()[offset:]


def write_file(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write so that a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.chmod(mode)
    temporary.replace(path)


def answer_one_hook(server: socket.socket, answer: bytes) -> None:
    """A server for one request: registered, then decided."""
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        for kind, body in ((b"A", b"5"), (b"D", answer)):
            connection.sendall((len(body) + 1).to_bytes(4, "big") + kind + body)


def check_hook(archive: Path, python: Python, scratch: Path) -> None:
    """The built hook relays one answer."""
    answer = b'{"hookSpecificOutput": {}}\n'
    path = str(scratch / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        server.settimeout(30)
        thread = threading.Thread(
            target=answer_one_hook, args=(server, answer), daemon=True
        )
        thread.start()
        event = b'{"hook_event_name":"PermissionRequest"}'
        environ = {"PERMISSION_SOCKET_PATH": path}
        result = run_built(archive, python, ["hook"], scratch, environ, event)
        thread.join(30)
    os.unlink(path)
    if result.stdout != answer or result.stderr or result.returncode:
        raise BuildError(f"{python.version}: the built hook said {result}")


def check_version(archive: Path, python: Python, scratch: Path) -> None:
    """The built command line runs, and the hook's code is compiled for this Python."""
    result = run_built(archive, python, ["version", "--json"], scratch, {})
    try:
        facts = json.loads(result.stdout)
    except ValueError:
        raise BuildError(f"{python.version}: `version` said {result}") from None
    if not facts["fast"] or facts["python"] != python.version:
        raise BuildError(f"{python.version}: `version` said {facts}")


def run_built(
    archive: Path,
    python: Python,
    arguments: list[str],
    scratch: Path,
    environ: dict[str, str],
    stdin: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run the built file with a certain interpreter, as an installation pins it."""
    write_file(scratch / "feishuperm" / "python", python.path.encode() + b"\n")
    return subprocess.run(
        [str(archive), *arguments],
        env={"PATH": os.defpath, "XDG_CONFIG_HOME": str(scratch), **environ},
        cwd=scratch,
        input=stdin,
        capture_output=True,
        timeout=60,
    )


def check(archive: Path, pythons: list[Python]) -> None:
    """Raises BuildError when the file does not run somewhere."""
    with tempfile.TemporaryDirectory(prefix="feishuperm-check-") as scratch:
        for python in pythons:
            check_version(archive, python, Path(scratch))
            check_hook(archive, python, Path(scratch))
