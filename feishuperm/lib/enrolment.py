"""What a machine keeps of its gateway: who it is there, its keys, whose taps count.

One small file of this user's alone.  A new key is put before the old ones, and the last
few are kept: a crash at any moment, or a gateway that has lost its latest writes,
leaves a key that both know.

The enrolment of a `join` lies beside it until the gateway has confirmed it:

    gateway.json        in use
    gateway.json.new    told to a gateway; `promote()` puts it in use, once config.env
                        names its gateway.  Killed in between, the server finds it by
                        that address.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import NamedTuple

from feishuperm.errors import FileError, PayloadError
from feishuperm.lib.config import config_dir
from feishuperm.lib.files import private_dir, read_json, write_atomic
from feishuperm.messages import message_of, msg
from feishuperm.models.ask import from_plain, to_plain

KEPT_KEYS = 8  # a gateway that was set back by as many logins knows one of them


class Enrolment(NamedTuple):
    """This machine, as its gateway knows it."""

    url: str = ""
    machine: str = ""
    name: str = ""
    owner: str = ""  # open_id: only this person's taps count
    owner_name: str = ""
    keys: tuple[str, ...] = ()  # hex, the newest first

    def with_key(self, fresh: str, proven: str) -> Enrolment:
        """With a key to come, the one that the gateway has just proven, and others."""
        others = (key for key in self.keys if key not in (fresh, proven))
        return self._replace(keys=(fresh, proven, *others)[:KEPT_KEYS])


def path(environ: Mapping[str, str] = os.environ) -> str:
    return os.path.join(config_dir(environ), "gateway.json")


def coming_path(environ: Mapping[str, str] = os.environ) -> str:
    return path(environ) + ".new"


def load(environ: Mapping[str, str] = os.environ) -> Enrolment | None:
    """The enrolment in use, None if there is none. Raises FileError."""
    return _read(path(environ))


def find(url: str, environ: Mapping[str, str] = os.environ) -> Enrolment | None:
    """The enrolment at this gateway, None if there is none. Raises FileError."""
    problem = None
    for place in (path(environ), coming_path(environ)):
        try:
            own = _read(place)
        except FileError as error:
            problem = problem or error
            continue
        if own is not None and own.url == url:
            if place != path(environ):
                promote(environ)
            return own
    if problem is not None:
        raise problem
    return None


def save(enrolment: Enrolment, environ: Mapping[str, str] = os.environ) -> None:
    """Keep what changed of the enrolment in use, on the disk when this returns.

    Raises FileError, also when this machine has left or joined again meanwhile.
    """
    kept = load(environ)
    if kept is None or kept.machine != enrolment.machine:
        raise FileError(msg("{} is no longer this server's: restart it", path(environ)))
    _write(path(environ), enrolment, environ)


def save_coming(enrolment: Enrolment, environ: Mapping[str, str] = os.environ) -> None:
    """Keep an enrolment that its gateway has yet to confirm. Raises FileError."""
    _write(coming_path(environ), enrolment, environ)


def promote(environ: Mapping[str, str] = os.environ) -> None:
    """The gateway has confirmed it: it is in use from now on. Raises FileError."""
    try:
        os.replace(coming_path(environ), path(environ))
    except OSError as error:
        raise FileError(f"{path(environ)}: {message_of(error)}") from None


def _read(place: str) -> Enrolment | None:
    plain = read_json(place)
    if plain is None:
        return None
    try:
        enrolment = from_plain(Enrolment, plain)
        for key in enrolment.keys:
            bytes.fromhex(key)
    except (PayloadError, ValueError) as error:
        raise FileError(msg("{}: {}", place, error)) from None
    return enrolment if enrolment.machine and enrolment.keys else None


def _write(place: str, enrolment: Enrolment, environ: Mapping[str, str]) -> None:
    data = json.dumps(to_plain(enrolment), indent=2).encode() + b"\n"
    private_dir(config_dir(environ))
    write_atomic(place, data, 0o600)
