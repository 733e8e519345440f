"""A catalogue of sentences: read as a .po file, written as the .mo that gettext reads.

Only what our own catalogue holds is understood: contexts, no plurals.  build.py puts
the .mo into the file it builds; a program that runs from its sources compiles the .po
when it first has to speak Chinese.
"""

from __future__ import annotations

import json
import struct

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
        if not line:
            _keep(entry, found)
            entry = {}
        elif line.startswith('"'):
            entry[part] += json.loads(line)
        elif not line.startswith("#"):
            part = word
            entry[part] = json.loads(rest)
    return found


def _keep(entry: dict[str, str], found: dict[str, str]) -> None:
    if not entry.get("msgstr"):
        return
    context = entry["msgctxt"] + CONTEXT if "msgctxt" in entry else ""
    found[context + entry["msgid"]] = entry["msgstr"]


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
