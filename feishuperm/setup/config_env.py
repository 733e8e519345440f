"""config.env: what an install wants in it, and how the file is edited in place.

Comments, order and other keys stay; the file is never removed but by a purge.
"""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Iterable, Mapping
from contextlib import suppress

from feishuperm.errors import UsageError
from feishuperm.lib.config import (
    config_dir,
    config_path,
    keys_of,
    read_config,
    state_dir,
)
from feishuperm.lib.files import read_bytes, write_atomic
from feishuperm.lib.terminal import ask, say
from feishuperm.messages import msg
from feishuperm.models.settings import BY_KEY, Settings
from feishuperm.setup import service as server
from feishuperm.setup.steps import Manifest, Record, Step, remove_file, remove_folders

USUAL = 600  # seconds that `install` offers on a terminal
SHORT = 60  # up to here a wait ends as specified: with a refusal
LONGEST = 86400
DURATION = re.compile(r"([0-9]{1,5})([smh]?)")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
SECONDS = "PERMISSION_REQUEST_TIMEOUT"
ACTION = "PERMISSION_TIMEOUT_ACTION"


def duration(text: str) -> int:
    """Seconds of `10m`, `55s` or `600`. Raises ValueError."""
    match = DURATION.fullmatch(text.strip().lower())
    seconds = int(match[1]) * UNITS[match[2]] if match else 0
    if not 0 < seconds <= LONGEST:
        raise ValueError(msg("{!r} is not a time from 1s to 24h, such as 10m", text))
    return seconds


def wait_settings(seconds: int) -> dict[str, str]:
    """The settings for a wait of so many seconds."""
    action = "deny" if seconds <= SHORT else "terminal"
    return {SECONDS: str(seconds), ACTION: action}


def ask_wait() -> dict[str, str]:
    """Offer the longer wait; Enter takes it."""
    say(
        "How long should a request wait for you? After 10 minutes the terminal\n"
        "decides, where the dialog stays open; otherwise it is denied after 55 s."
    )
    answer = ask("Wait 10 minutes? [Y/n] ")
    return wait_settings(55 if answer in ("n", "no") else USUAL)


# What an install wants: flags, environment, and what nobody said.


FLAGS = {
    "webhook": "FEISHU_WEBHOOK_URL",
    "secret": "FEISHU_WEBHOOK_SECRET",
    "callback_url": "CALLBACK_SERVER_URL",
    "port": "CALLBACK_SERVER_PORT",
    "lang": "FEISHUPERM_LANG",
}
SURFACES = "FEISHUPERM_SURFACES"
BOT = ("FEISHU_WEBHOOK_URL", "FEISHU_WEBHOOK_SECRET")


class WantedConfig:
    """`old` is what the file holds, `new` what this install wants to set in it."""

    def __init__(self, options: Namespace, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.old = read_config(config_path(environ))
        self.new = asked_config(options, environ)

    def settings(self) -> Settings:
        """The settings the server will have. Raises SettingError for a bad one."""
        return Settings({**self.old, **self.new})

    def has(self, key: str) -> bool:
        return bool(self.new.get(key) or self.old.get(key))

    def has_new_bot(self) -> bool:
        """Whether a bot is given that was not there before."""
        return self.has(BOT[0]) and any(
            key in self.new and self.new[key] != self.old.get(key) for key in BOT
        )

    def with_surface(self, name: str) -> dict[str, str]:
        """What to set so that a surface is used; nothing where no list forbids it."""
        listed = self.settings().feishuperm_surfaces
        if not listed or name in listed:
            return {}
        return {SURFACES: ",".join(sorted({*listed, name}))}

    def complete(self, own_port: int, serves: bool = True) -> None:
        """Choose what nobody said: a socket of this user's own, a port that is free.

        `own_port` is held by the server that is there. Raises FeishupermError.
        """
        if self.has_new_bot() and SURFACES not in self.new:
            self.new.update(self.with_surface("webhook"))
        if not self.has("PERMISSION_SOCKET_PATH"):
            socket = server.own_socket(state_dir(self.environ))
            self.new["PERMISSION_SOCKET_PATH"] = socket
        settings = self.settings()
        if not serves:
            return
        if self.has("CALLBACK_SERVER_PORT") or self.has("CALLBACK_SERVER_URL"):
            return server.check_port(settings, own_port)
        port, hosts = settings.callback_server_port, settings.http_hosts()
        if not server.can_listen(hosts, 0 if port == own_port else port):
            self.new.update(server.port_settings(server.free_port(hosts)))


def asked_config(options: Namespace, environ: Mapping[str, str]) -> dict[str, str]:
    """Settings from flags and the environment, which the service will not have."""
    asked = {key: environ[key] for key in BY_KEY if environ.get(key)}
    for flag, key in FLAGS.items():
        if getattr(options, flag):
            asked[key] = getattr(options, flag)
    if options.wait:
        asked.update(wait_settings(options.wait))
    if options.port and "CALLBACK_SERVER_URL" not in asked:
        asked.update(server.port_settings(options.port))
    return asked


# The file.


HEADER = b"# feishuperm's settings, KEY=VALUE. The environment wins over this file.\n"


class ConfigStep(Step):
    """Sets keys; what FEISHUPERM_CONFIG names and was there before us stays theirs."""

    name = "config"

    def __init__(self, manifest: Manifest, wanted: Mapping[str, str]) -> None:
        super().__init__(manifest)
        self.path = config_path(manifest.environ)
        self.elsewhere = os.path.dirname(self.path) != config_dir(manifest.environ)
        self.wanted = wanted

    def changes(self) -> list[str]:
        keys = ", ".join(self.wanted)
        old, new = self._texts()
        return [msg("set {} in {}", keys, self.path)] if new != old else []

    def _texts(self) -> tuple[bytes, bytes]:
        old = read_bytes(self.path) or b""
        return old, merge_config(old, self.wanted) if self.wanted else old

    def apply(self) -> None:
        old, new = self._texts()
        self.save([os.path.dirname(self.path)], self._ownership())
        if new != old:
            write_atomic(self.path, new, 0o600)

    def _ownership(self) -> Record:
        """Whose file it is, and which keys are in it because of us."""
        before = self.record if self.record.get("path") == self.path else {}
        theirs = before.get("theirs", False) if before else os.path.exists(self.path)
        added = set(self.wanted) - set(read_config(self.path))
        added.update(before.get("added", []))
        owner = {"theirs": self.elsewhere and theirs, "added": sorted(added)}
        return {"path": self.path, **owner}


def purge_config(record: Record) -> list[str]:
    """Remove the settings too; from somebody's own file, only what we added.

    An app's secret goes with them, and nobody but Feishu has it then.
    """
    path, rows = record.get("path", ""), []
    with suppress(UsageError):  # a broken line must not keep the file
        settings = Settings(read_config(path), lenient=True)
        app, base = settings.feishu_app_id, settings.feishu_base_url
        if app:
            rows = [msg("the app {} still exists in Feishu: {}/app/{}", app, base, app)]
    if record.get("theirs"):
        data = read_bytes(path)
        if data is not None:
            write_atomic(path, drop_keys(data, record["added"]))
        return [msg("removed feishuperm's settings from {}", path), *rows]
    remove_file(path)
    remove_folders(record.get("folders", []))
    return [msg("removed {}", record.get("path", msg("the settings"))), *rows]


def merge_config(data: bytes, changes: Mapping[str, str]) -> bytes:
    """The file with each changed key set once, where it stood last or at the end.

    Raises UsageError for a value that a line cannot hold.
    """
    lines = (data or HEADER).splitlines(keepends=True)
    ending = b"\r\n" if lines[0].endswith(b"\r\n") else b"\n"
    for key, value in changes.items():
        if value != value.strip() or "\n" in value or "\r" in value:
            raise UsageError(
                msg("{}: a value cannot have line breaks, or spaces at its ends", key)
            )
        name = key.encode()
        line = name + b"=" + _quoted(value.encode()) + ending
        places = [place for place, old in enumerate(lines) if name in keys_of(old)]
        if places:
            lines[places[-1]] = line  # the last of its key is the one that counts
            continue
        if not lines[-1].endswith(b"\n"):
            lines[-1] += ending
        lines.append(line)
    return b"".join(lines)


def drop_keys(data: bytes, keys: Iterable[str]) -> bytes:
    """The file without the lines of some keys."""
    names = {key.encode() for key in keys}
    lines = data.splitlines(keepends=True)
    return b"".join(line for line in lines if names.isdisjoint(keys_of(line)))


def _quoted(value: bytes) -> bytes:
    """A value in quotes of its own would lose them when it is read."""
    outer = value[:1] in (b'"', b"'") and value[-1:] == value[:1] and len(value) > 1
    return b'"' + value + b'"' if outer else value
