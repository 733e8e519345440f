"""What a ledger is on the disk: its lines, its key, its head.

Entries say what their caller wants; they get `time`, `seq` (1, 2, 3, ...), `prev` (the
hash of the line before) and `hash`, which is keyed: HMAC-SHA256 over the rest of the
line.  An end repeats the `seq` of its intent as `intent`.  Secrets are masked here,
whoever calls; of a rule that holds one, `marks` keeps a keyed hash, by which `exact()`
finds it again in a settings file.

The head, which is the last `seq` and `hash` that are safely on the disk, is kept in the
configuration folder: whoever cleans out, restores or rewrites the state folder does not
reach it.  It is written in place, in one write of its full length, after the line is
synced: it may be behind the ledger for a moment, never ahead.  `base` in a line is the
last head that was synced when the line was written, if that is not the line before; so
a head that a crash or a power cut left behind can be told from one that somebody put
back.  A writer that finds the ledger's end missing or the head gone goes on, and says
so in its line (`gap`); nothing repairs itself silently.  A line that a crash cut off
stays, and the next one vouches for it (`torn`).
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from feishuperm.errors import FileError
from feishuperm.lib.files import private_dir, write_all, write_atomic
from feishuperm.lib.secrets import mask
from feishuperm.models.fields import decoded

Entry = dict[str, Any]
Name = tuple[str, str]  # a rule as shown, and its mark

BLOCK = 4 << 10  # what is read at first from the end of the file: a few lines
MAX_BLOCK = 64 << 10  # and what at last, for whoever reads on
MAX_LINE = 1 << 20  # bytes; none of ours comes near, so a longer one is no entry
MAX_TEXT = 8192  # characters of one value
LOOK_BACK = 1000  # lines among which the last entry is looked for
LATEST = 1e11  # seconds: the year 5138, and still a date that can be shown
TOO_LONG = b"\0"
KEY_BYTES = 32
# What others look up by its exact text; none of it comes out of a tool call.
EXACT = frozenset(("event", "id", "state", "action", "surface", "project", "session"))
RESERVED = ("seq", "prev", "base", "gap", "torn", "hash")
_SEAL = (b', "hash": "', b'"}')
# How most lines begin and end.
_BEGIN = re.compile(rb'\{"time": ([0-9]{1,11}(?:\.[0-9]{1,6})?), "event": "(\w{1,20})"')
_END = re.compile(
    rb'(?:, "intent": (\d{1,18}))?(?:, "base": (\d{1,18}))?, "seq": (\d{1,18})'
    rb', "prev": "([0-9a-f]{0,64})", "hash": "[0-9a-f]{64}"\}\Z'
)
_SEAL_LENGTH = 64 + len(_SEAL[0]) + len(_SEAL[1])


class Place(NamedTuple):
    """A point in the chain, and the last synced head when it was written."""

    seq: int = 0
    hash: str = ""
    base: int = 0


class Head(NamedTuple):
    """The last place that was safely on the disk, or why that is not known."""

    seq: int = 0
    hash: str = ""
    why: str = ""
    synced: int = 0  # the last one that no power cut can take back


class Chain:
    """Lines that follow from the last one."""

    def __init__(
        self, key: bytes, last: Place, torn: bytes, head: Head, now: float
    ) -> None:
        self.last = last
        self._key = key
        self._now = now
        # What was there has numbers of its own, even if it is gone.
        self._seq = max(last.seq, head.seq)
        self._base = head.synced
        self._lines = [b""] if torn else []
        self._first: Entry = {}  # what only the first of them says
        self._gap = gap_between(head, last)
        if self._gap:
            self._first["gap"] = self._gap
        if torn:
            self._first["torn"] = hashlib.sha256(torn).hexdigest()

    def add(self, entry: Entry) -> Entry:
        """Chain an entry; returns it as stored."""
        stored = {"time": self._now, **with_marks(self._key, entry), **self._first}
        self._first = {}
        self._seq += 1
        if self._base != self._seq - 1:
            stored["base"] = self._base
        stored.update(seq=self._seq, prev=self.last.hash)
        line, digest = seal(self._key, stored)
        self._lines.append(line)
        self.last = Place(self._seq, digest, self._base)
        return {**stored, "hash": digest}

    def data(self) -> bytes:
        return b"\n".join([*self._lines, b""]) if any(self._lines) else b""

    def anchors(self) -> bool:
        """Whether the last line may become the head: not if that would hide a gap."""
        return any(self._lines) or (self.last.seq > 0 and not self._gap)


def clean(entry: Entry) -> Entry:
    """An entry without secrets, and without what is not its caller's to say.

    Its rules are left to the writer, who has the key.
    """
    return {
        name: value if name in EXACT or name == "rules" else masked(value)
        for name, value in entry.items()
        if name not in RESERVED
    }


def with_marks(key: bytes, entry: Entry) -> Entry:
    """A clean entry with its rules masked, and marks of those that held a secret."""
    rules = entry.get("rules")
    if not rules:
        return entry
    shown = masked(rules)
    if shown == rules or entry.get("marks"):
        return {**entry, "rules": shown}
    marks = ["" if a == b else rule_mark(key, b) for a, b in zip(shown, rules)]
    return {**entry, "rules": shown, "marks": marks}


def masked(value: Any) -> Any:
    """A value without secrets, of a length that an entry may have."""
    if isinstance(value, str):
        # Masked before it is cut: half a secret looks like nothing.
        value = mask(value[: 2 * MAX_TEXT])
        return value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 1] + "…"
    if isinstance(value, (list, tuple)):
        return [masked(part) for part in value]
    if isinstance(value, dict):
        return {str(name): masked(part) for name, part in value.items()}
    # Nothing that JSON does not know may stop the entries behind it.
    return value if value is None or isinstance(value, (int, float)) else str(value)


def seal(key: bytes, entry: Entry) -> tuple[bytes, str]:
    """An entry as a line without its end, and the hash it carries."""
    body = json.dumps(entry).encode()
    digest = _mac(key, body)
    return body[:-1] + _SEAL[0] + digest.encode() + _SEAL[1], digest


def unseal(line: bytes) -> tuple[bytes, str]:
    """What a line's hash is about, and that hash; empty for a line without one."""
    start = len(line) - _SEAL_LENGTH
    if start < 1 or not line.startswith(_SEAL[0], start) or line[-2:] != _SEAL[1]:
        return b"", ""
    return line[:start] + b"}", line[start + len(_SEAL[0]) : -2].decode("latin-1")


def is_sealed(key: bytes, line: bytes) -> bool:
    """Whether a line was written with this key and not changed since."""
    body, digest = unseal(line)
    return bool(body) and is_mac(key, body, digest)


def is_mac(key: bytes, body: bytes, digest: str) -> bool:
    """Whether this is the hash of that."""
    # As bytes: of texts it takes none that is not ASCII, and a file holds anything.
    return hmac.compare_digest(_mac(key, body).encode(), digest.encode("latin-1"))


def gap_between(head: Head, last: Place) -> str:
    """What is missing between the ledger's end and its head; empty when nothing is."""
    if head.seq == last.seq and (head.hash == last.hash or not last.seq):
        return head.why if head.why and head.why != "missing" else ""
    if not head.why and last.base <= head.seq < last.seq:
        return ""  # written, but the head not yet
    if head.why == "missing" and last.base == 0 and last.seq:
        return ""
    return head.why or f"{head.seq} {head.hash[:8]}"


def read_head(path: str, key: bytes) -> Head:
    """The head, if it was written with this key. Raises OSError if out of files."""
    try:
        with open(path, "rb") as file:
            data = file.read(1024)
    except FileNotFoundError:
        return Head(why="missing")
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # it will be read a little later
        return Head(why="unreadable")
    fields = data.decode("latin-1").split()
    if len(fields) != 5 or not (fields[0] + fields[1]).isdecimal():
        return Head(why="unreadable")
    head = Head(int(fields[0]), fields[2], synced=int(fields[1]))
    if fields[3] != key_name(key):
        return Head(why="of another key")
    return head if _packed_head(key, head) == data else Head(why="unreadable")


def write_head(path: str, key: bytes, place: Place, synced: int) -> str:
    """Keep the head; returns why not. That is no failure of the entry.

    It is synced if `synced`, the last head that is, is to be itself.
    """
    data = _packed_head(key, Head(place.seq, place.hash, synced=synced))
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        private_dir(os.path.dirname(path))
        fd = os.open(path, flags, 0o600)
        try:
            # It is always of the same length, if nobody meddled.
            os.ftruncate(fd, os.pwrite(fd, data, 0))
            if synced == place.seq:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""


def _packed_head(key: bytes, head: Head) -> bytes:
    body = f"{head.seq:020d} {head.synced:020d} {head.hash} {key_name(key)}"
    return f"{body} {_mac(key, b'head ' + body.encode())}\n".encode()


def read_key(path: str) -> bytes:
    """The key; empty when there is none. Raises OSError when it may not be read."""
    try:
        with open(path, "rb") as file:
            key = file.read(KEY_BYTES + 1)
    except FileNotFoundError:
        return b""
    return key if len(key) == KEY_BYTES else b""


def make_key(path: str) -> bytes:
    """A new key; only who holds a lock may call. Raises OSError."""
    key = os.urandom(KEY_BYTES)
    try:
        write_atomic(path, key, mode=0o600)
    except FileError as error:
        raise OSError(errno.EIO, str(error)) from None
    return key


def key_name(key: bytes) -> str:
    """By what a key is told from another without showing it."""
    return _mac(key, b"name")[:16]


def rule_mark(key: bytes, rule: str) -> str:
    """What the ledger keeps of a rule that must not stand in it."""
    return _mac(key, b"rule " + rule.encode("utf-8", "surrogatepass"))[:32]


def rule_names(entry: Entry) -> list[Name]:
    """The rules of an entry, each with its mark; that is empty where none is kept."""
    rules, marks = entry.get("rules"), entry.get("marks")
    if not isinstance(rules, list):
        return []
    if not isinstance(marks, list) or len(marks) != len(rules):
        marks = [""] * len(rules)
    return [(str(rule), str(mark)) for rule, mark in zip(rules, marks)]


def entry_time(entry: Entry) -> float:
    """When an entry was written, in seconds; 0 if somebody edited that."""
    value = entry.get("time")
    return value if isinstance(value, (int, float)) and 0 <= value < LATEST else 0.0


def place_in(entry: Entry) -> int:
    """An entry's number; 0 for one without."""
    seq = entry.get("seq")
    return seq if isinstance(seq, int) else 0


def end_of(entry: Entry) -> int:
    """The number of the intent that an entry ends; 0 if it ends none."""
    intent = entry.get("intent")
    return intent if isinstance(intent, int) else 0


def decode(line: bytes) -> Entry | None:
    """The entry in a line, None if it holds none."""
    entry = decoded(line)
    return entry if isinstance(entry, dict) else None


def place_of(line: bytes) -> Place | None:
    """Where a keyed line stands, as far as it says so."""
    body, digest = unseal(line)
    return entry_place(decode(body) if body else None, digest)


def entry_place(entry: Entry | None, digest: str) -> Place | None:
    """The same of a line that is decoded."""
    seq = entry.get("seq") if entry else None
    if entry is None or not isinstance(seq, int):
        return None
    base = entry.get("base", seq - 1)
    return Place(seq, digest, base if isinstance(base, int) else seq - 1)


def peek(line: bytes) -> Entry | None:
    """What a check wants to know of a sealed line; None if it has to be decoded.

    A quote inside a value has a backslash before it, so what looks like a name is one.
    """
    if b'"gap": ' in line or b'"torn": ' in line or b'"state": "unknown"' in line:
        return None
    places = (
        line.find(name) for name in (b', "intent": ', b', "base": ', b', "seq": ')
    )
    place = next((place for place in places if place >= 0), len(line))
    begin, end = _BEGIN.match(line), _END.match(line, place)
    if begin is None or end is None or begin[2] == b"lost":
        return None
    entry = {"time": float(begin[1]), "event": begin[2].decode()}
    if end[1] is not None:
        entry["intent"] = int(end[1])
    seq = int(end[3])
    base = seq - 1 if end[2] is None else int(end[2])
    return {**entry, "base": base, "seq": seq, "prev": end[4].decode()}


def reversed_lines(fd: int, size: int) -> Iterator[bytes]:
    """The lines of a file from its end; what follows the last line end comes first.

    In place of a line that is too long for an entry comes a zero byte.
    """
    data, start, skipping = b"", size, False
    block = BLOCK
    while start > 0:
        length = min(block, start)
        block = min(2 * block, MAX_BLOCK)
        start -= length
        data, *lines = (os.pread(fd, length, start) + data).split(b"\n")
        if lines and skipping:
            lines[-1], skipping = TOO_LONG, False
        yield from reversed(lines)
        if skipping or len(data) > MAX_LINE:
            data, skipping = b"", True
    yield TOO_LONG if skipping else data


def read_tail(fd: int, size: int, key: bytes) -> tuple[Place, bytes]:
    """The last entry's place, and what a crash left behind it."""
    lines = reversed_lines(fd, size)
    torn = next(lines, b"")
    likely = None
    for number, line in enumerate(lines):
        place = place_of(line)
        if place is not None and is_sealed(key, line):
            return place, torn
        likely = likely or place
        if number >= LOOK_BACK:
            break
    return likely or Place(), torn


def append_data(fd: int, size: int, data: bytes, sync: bool) -> None:
    """Write lines at the end, all or none. Raises OSError."""
    try:
        write_all(fd, data)
        if sync:
            os.fsync(fd)
    except OSError:
        os.ftruncate(fd, size)  # a full disk must not leave half an entry
        raise


def _mac(key: bytes, data: bytes) -> str:
    return hmac.digest(key, data, "sha256").hex()
