"""The compiled code of modules, packed as `loader` reads it.

The build packs what starts often for each CPython, `install` all modules for one.  The
code is what Python's own `compile` makes of a source and `marshal` writes.
"""

from __future__ import annotations
import __future__

import hashlib
import marshal
import zlib

SITE, LOADER = "site-packages/", "feishuperm.loader"
READY = ("feishuperm", "feishuperm.client", "feishuperm.wire")  # what `hook` imports
# The line makes every module look for another one; the flag does the same without.
FUTURE = b"from __future__ import annotations\n"
FLAG = __future__.annotations.compiler_flag
Modules = dict[str, tuple[str, bytes]]  # by name: file below SITE, source


def find_modules(files: dict[str, bytes]) -> Modules:
    paths = [file for file in sorted(files) if file.endswith(".py")]
    names = [file[:-3].removesuffix("/__init__").replace("/", ".") for file in paths]
    return {name: (file, files[file]) for name, file in zip(names, paths)}


def digest_of(files: dict[str, bytes]) -> str:
    rows = [b"%s\0%d\0%s" % (k.encode(), len(v), v) for k, v in sorted(files.items())]
    return hashlib.sha256(b"".join(rows)).hexdigest()


def mark_of(files: dict[str, bytes]) -> bytes:
    """What tells the code of one build from that of another."""
    return digest_of(files)[:16].encode()


def make_pack(modules: Modules, left_out: tuple[str, ...] = ()) -> tuple[bytes, bytes]:
    """A head with what `hook` needs, ready to run; and the other modules' code.

    What is ready is the others' dictionary, which shortens them by an eighth.
    """
    codes = {
        name: compile(text.replace(FUTURE, b"\n", 1), file, "exec", FLAG, True, 2)
        for name, (file, text) in modules.items()
    }
    ready = {name: (modules[name][0], marshal.dumps(codes.pop(name))) for name in READY}
    dictionary = b"".join(code for _, code in ready.values())
    loader, body, places = codes[LOADER], b"", {}
    for name in sorted(codes.keys() - left_out):
        deflater = zlib.compressobj(9, zdict=dictionary)
        packed = deflater.compress(marshal.dumps(codes[name])) + deflater.flush()
        places[name] = modules[name][0], len(packed), len(body)
        body += packed
    return marshal.dumps((loader, ready, marshal.dumps(places))), body
