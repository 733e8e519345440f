"""Changing a config.env in place: comments, order and other keys stay."""

from __future__ import annotations

from feishuperm.errors import UsageError
from feishuperm.lib.config import keys_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HEADER = b"# feishuperm's settings, KEY=VALUE. The environment wins over this file.\n"


def merge_config(data: bytes, changes: Mapping[str, str]) -> bytes:
    """The file with each changed key set once, where it stood last or at the end.

    Raises UsageError for a value that a line cannot hold.
    """
    lines = (data or HEADER).splitlines(keepends=True)
    for key, value in changes.items():
        if value != value.strip() or "\n" in value or "\r" in value:
            raise UsageError(f"{key}: a value cannot hold line ends or outer blanks")
        _set(lines, key.encode(), value.encode())
    return b"".join(lines)


def drop_keys(data: bytes, keys: Iterable[str]) -> bytes:
    """The file without the lines of some keys."""
    names = {key.encode() for key in keys}
    lines = data.splitlines(keepends=True)
    return b"".join(line for line in lines if names.isdisjoint(keys_of(line)))


def _set(lines: list[bytes], key: bytes, value: bytes) -> None:
    """Change the line that counts, which is the last of its key, or add one."""
    ending = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
    for index in reversed(range(len(lines))):
        if key in keys_of(lines[index]):
            lines[index] = key + b"=" + _quoted(value) + ending
            return
    if lines and not lines[-1].endswith(b"\n"):
        lines[-1] += ending
    lines.append(key + b"=" + _quoted(value) + ending)


def _quoted(value: bytes) -> bytes:
    """A value in quotes of its own would lose them when it is read."""
    outer = value[:1] in (b'"', b"'") and value[-1:] == value[:1] and len(value) > 1
    return b'"' + value + b'"' if outer else value
