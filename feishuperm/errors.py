"""What can go wrong for a user, in words that are ready to print.

`str(error)` is one line without a full stop; `hint`, if any, is the command that
repairs it.  The entry point prints both; nothing else in the program prints errors.
"""

from __future__ import annotations


class FeishupermError(Exception):
    """A failure whose text is meant for the person at the terminal."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(FeishupermError):
    """The command line or the configuration cannot be understood."""

    exit_code = 2


class SettingError(UsageError):
    """A setting has a value that is not allowed; names key, value and what is."""


class FileError(FeishupermError):
    """A file that cannot be read, understood, locked or written; names it."""


class PayloadError(FeishupermError):
    """A hook event that cannot be read."""


class ProtocolError(FeishupermError):
    """Bytes that break the rules of a protocol; `status` is the HTTP answer, if any."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
