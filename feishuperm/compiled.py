"""What is compiled ahead: code as `loader` reads it, sentences as gettext reads them.

The build packs the code of what starts often for each CPython, `install` that of all
modules for one.  It is what Python's own `compile` makes of a source and `marshal`
writes.  Of a .po file only what ours holds is understood: contexts, no plurals; a
program that runs from its sources compiles it when it first has to speak Chinese.
"""

from __future__ import annotations
import __future__

import hashlib
import json
import marshal
import struct
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


# Sentences.

MAGIC = 0x950412DE  # how a .mo file begins
HEAD = 28  # bytes before its tables
CONTEXT = "\x04"  # between context and sentence, as gettext has it


def read_po(po: str) -> dict[str, str]:
    """Every sentence, with its context before it, and its translation."""
    found: dict[str, str] = {}
    entry: dict[str, str] = {}
    part = ""
    for line in [*po.splitlines(), ""]:
        word, _, rest = line.partition(" ")
        if not line and entry.get("msgstr"):
            context = entry["msgctxt"] + CONTEXT if "msgctxt" in entry else ""
            found[context + entry["msgid"]] = entry["msgstr"]
        if not line:
            entry = {}
        elif line.startswith('"'):
            entry[part] += json.loads(line)
        elif not line.startswith("#"):
            part = word
            entry[part] = json.loads(rest)
    return found


def compile_po(po: str) -> bytes:
    """The .mo of a .po: two tables of lengths and places, then all texts, sorted."""
    pairs = sorted((k.encode(), v.encode()) for k, v in read_po(po).items())
    place = HEAD + 16 * len(pairs)
    tables, texts = [], []
    for column in (0, 1):
        for pair in pairs:
            tables.append(struct.pack("<2I", len(pair[column]), place))
            texts.append(pair[column] + b"\0")
            place += len(texts[-1])
    middle = HEAD + 8 * len(pairs)
    head = struct.pack("<7I", MAGIC, 0, len(pairs), HEAD, middle, 0, HEAD)
    return head + b"".join(tables) + b"".join(texts)
