"""What a machine keeps of its gateway: who it is there, its keys, whose taps count.

One small file of this user's alone.  A new key is put before the old one and the old
one goes when the gateway has confirmed the new one, so that a crash at any moment
leaves a key that the gateway knows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import NamedTuple

from feishuperm.errors import FileError, PayloadError
from feishuperm.lib.config import config_dir
from feishuperm.lib.files import private_dir, read_json, write_atomic
from feishuperm.models.ask import from_plain, to_plain


class Enrolment(NamedTuple):
    """This machine, as its gateway knows it."""

    url: str = ""
    machine: str = ""
    name: str = ""
    owner: str = ""  # open_id: only this person's taps count
    owner_name: str = ""
    keys: tuple[str, ...] = ()  # hex, the newest first

    def with_key(self, fresh: str, proven: str) -> Enrolment:
        """With a key to come, beside the one that the gateway has just proven."""
        return self._replace(keys=(fresh, proven))


def path(environ: Mapping[str, str] = os.environ) -> str:
    return os.path.join(config_dir(environ), "gateway.json")


def load(environ: Mapping[str, str] = os.environ) -> Enrolment | None:
    """The enrolment, None if there is none. Raises FileError."""
    plain = read_json(path(environ))
    if plain is None:
        return None
    try:
        enrolment = from_plain(Enrolment, plain)
        for key in enrolment.keys:
            bytes.fromhex(key)
    except (PayloadError, ValueError) as error:
        raise FileError(f"{path(environ)}: {error}") from None
    return enrolment if enrolment.machine and enrolment.keys else None


def save(enrolment: Enrolment, environ: Mapping[str, str] = os.environ) -> None:
    """Keep it, on the disk when this returns. Raises FileError."""
    data = json.dumps(to_plain(enrolment), indent=2).encode() + b"\n"
    private_dir(config_dir(environ))
    write_atomic(path(environ), data, 0o600)
