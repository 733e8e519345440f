"""Reading files: bytes up to a limit, and JSON with errors a person can act on.

What the file system refuses, and what is no JSON, is raised as `FileError`, with a text
that names the file.  `lib.store` writes; the two are apart because a hook only reads.
"""

from __future__ import annotations

import errno
import os
import stat

from feishuperm.errors import FileError
from feishuperm.lib import quick_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_JSON = 16 << 20  # settings files are kilobytes; this only stops an accident
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_bytes(path: str, limit: int = MAX_JSON) -> bytes | None:
    """The whole file, None when there is none. Raises FileError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise failure("cannot read", path, error) from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        with open(fd, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise failure("cannot read", path, error) from None
    finally:
        os.close(fd)
    if len(data) > limit:
        raise FileError(f"cannot read {path}: larger than {limit} bytes")
    return data


def read_json(path: str) -> Any:
    """What a JSON file holds, None when there is none. Raises FileError."""
    data = read_bytes(path)
    return None if data is None else parse_json(data, path)


def parse_json(data: bytes, path: str) -> Any:
    """The value in a file's bytes; a byte order mark is skipped. Raises FileError."""
    if data.startswith(BYTE_ORDER_MARK):  # the codec for it is a module to load
        data = data[3:]
    try:
        return quick_json.loads(data.decode(), _refuse_constant)
    except UnicodeDecodeError as error:
        problem = f"line {data.count(10, 0, error.start) + 1}: not UTF-8"
    except RecursionError:
        problem = "nested too deeply"
    except ValueError as error:
        problem = _json_problem(error)
    raise FileError(f"{path}, {problem}")


def _json_problem(error: ValueError) -> str:
    import json

    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}: not JSON: {error.msg}"
    return f"not JSON: {error}"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def failure(what: str, path: str, error: Exception) -> FileError:
    """The error to raise for one of the file system's."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return FileError(f"{what} {path}: {reason}")
