"""A gateway: joining and leaving one, and `install --gateway`, which keeps one running.

A code is shown; the owner says it to the bot and confirms there; what comes back is
shown before it is believed, and stored before the gateway counts on it.  An enrolment
that worked stays in use until the gateway has confirmed the new one.
"""

from __future__ import annotations

import getpass
import os
import socket
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

from feishuperm import __version__
from feishuperm.errors import FeishupermError, FileError, UsageError
from feishuperm.lib import enrolment
from feishuperm.lib.config import config_path, gateway_socket, home
from feishuperm.lib.control import is_listening
from feishuperm.lib.enrolment import Enrolment
from feishuperm.lib.files import read_bytes, write_atomic
from feishuperm.lib.program import archive_path
from feishuperm.lib.terminal import say, warn
from feishuperm.messages import msg
from feishuperm.models.settings import BY_KEY, host_is_local, parse_setting, url_host
from feishuperm.protocol.machine import MachineWire
from feishuperm.setup import service as server
from feishuperm.setup import steps
from feishuperm.setup.feishu_setup import WantedConfig

Dial = Callable[[str], tuple[socket.socket, bytes]]
Show = Callable[[str], object]
Message = dict[str, Any]

KEY, GRANTS = "FEISHUPERM_GATEWAY", "FEISHUPERM_GATEWAY_GRANTS"
STEP_SECONDS = 1.0  # between two looks at the clock
RECEIVE_SIZE = 65536
STORED_SECONDS = 10.0  # for the gateway's last word
LONGEST_SECONDS = 86400.0  # that a code may be good for


def check_url(url: str, allow_http: bool) -> str:
    """The gateway's address as it is kept. Raises UsageError and SettingError."""
    url = parse_setting(BY_KEY[KEY], url)
    plain = url.startswith("http://")
    if plain and not allow_http and not host_is_local(url_host(url)):
        raise UsageError(
            msg(
                "{} is not encrypted: anyone on the network could approve in your name",
                url,
            ),
            msg("use https://, or --allow-http if you accept the risk"),
        )
    return url


class Pairing:
    """One try to join."""

    def __init__(
        self,
        url: str,
        dial: Dial,
        show: Show,
        tick: Show = lambda words: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._dial = dial
        self._show = show
        self._tick = tick
        self._clock = clock
        self._until = clock() + 30.0

    def join(
        self, name: str, owner: str, agree: Callable[[Enrolment], bool]
    ) -> Enrolment:
        """Wait for the owner; both ends have the enrolment when this returns."""
        sock, rest = self._dial(self._url)
        with sock:
            sock.settimeout(STEP_SECONDS)
            self._sock, self._wire = sock, MachineWire(True, self._clock())
            self._wire.receive_data(rest, self._clock())
            self._expect("hello")
            self._wire.send("join", name=name, user=_user(), owner=owner)
            self._show(self._expect("code", self._read_code))
            own: Enrolment = self._expect("joined", self._read_joined)
            if not agree(own):
                raise FeishupermError(msg("not joined: nothing was stored"))
            enrolment.save_coming(own)
            self._wire.send("stored")
            self._until = self._clock() + STORED_SECONDS
            self._expect("enrolled")
            return own

    def _read_code(self, message: Message) -> str:
        code, seconds = str(message["code"]), float(message["seconds"])
        if not 0 < seconds <= LONGEST_SECONDS:
            raise ValueError
        self._until = self._clock() + seconds
        return code

    def _read_joined(self, message: Message) -> Enrolment:
        machine, name, owner, key = (
            str(message[key]) for key in ("machine", "name", "owner", "key")
        )
        key = bytes.fromhex(key).hex()
        if len(key) != 64 or not machine or not owner:
            raise ValueError
        owner_name = str(message.get("owner_name", ""))
        return Enrolment(self._url, machine, name, owner, owner_name, (key,))

    def _expect(self, kind: str, read: Callable[[Message], Any] = dict) -> Any:
        """What is read from the next message, which must be of this kind."""
        while True:
            message: Message | None = self._wire.next_event()
            self._sock.sendall(self._wire.data_to_send())
            if message is not None and message["t"] == kind:
                try:
                    return read(message)
                except (KeyError, TypeError, ValueError, OverflowError):
                    problem = msg("the gateway's answer cannot be read")
                    raise FeishupermError(problem) from None
            if self._wire.trouble:
                raise FeishupermError(msg("the gateway says: {}", self._wire.trouble))
            if message is None:
                self._receive()

    def _receive(self) -> None:
        left = self._until - self._clock()
        if left <= 0:
            raise FeishupermError(
                msg("nobody confirmed it in time"), msg("feishuperm join again")
            )
        self._tick(f"{int(left) // 60}:{int(left) % 60:02d}")
        try:
            data = self._sock.recv(RECEIVE_SIZE)
        except (socket.timeout, TimeoutError):
            return
        if not data:
            raise FeishupermError(msg("the gateway closed the connection"))
        self._wire.receive_data(data, self._clock())


def take_up(
    own: Enrolment, grants: bool | None, environ: Mapping[str, str] = os.environ
) -> None:
    """Use an enrolment that is confirmed.

    `grants`: whether lasting permissions may come from there; None: as it was.
    """
    values = {KEY: own.url}
    if grants is not None:
        values[GRANTS] = "on" if grants else "off"
    change_config(lambda data: steps.merge_config(data, values), environ)
    enrolment.promote(environ)


def change_config(change: Callable[[bytes], bytes], environ: Mapping[str, str]) -> None:
    """Change lines of config.env; all others stay as they are."""
    path = config_path(environ)
    data = read_bytes(path) or b""
    changed = change(data)
    if changed != data:
        write_atomic(path, changed, 0o600 if not data else None)


def leave_gateway(environ: Mapping[str, str] = os.environ) -> str:
    """Forget the gateway; returns its address, empty if there was none."""
    try:
        own = enrolment.load(environ)
    except FileError:  # nobody can read it: it goes as well
        own = None
    change_config(lambda data: steps.drop_keys(data, [KEY, GRANTS]), environ)
    for path in (enrolment.coming_path(environ), enrolment.path(environ)):
        steps.remove_file(path)
    return own.url if own else ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


# `install --gateway`: the program, its settings, and a systemd unit.
#
# A gateway is a server's program: it is kept by systemd or by whatever a container has,
# and registers nothing in anybody's Claude Code.


class GatewayService(server.SystemdService):
    """The unit of a gateway."""

    unit, role = "feishuperm-gateway.service", "gateway"
    instead = msg(
        "let launchd, a container or another supervisor run feishuperm gateway"
    )


class GatewayStep(server.ServiceStep):
    """Its unit file."""

    name = "gateway"

    def _moves(self) -> bool:
        return False  # the unit is written over, wherever the program was


class GatewayInstall:
    """One run of the command; all that can be refused is refused before a change."""

    def __init__(
        self,
        options: Namespace,
        environ: Mapping[str, str],
        run: server.Run = server.run_quietly,
    ) -> None:
        self.manifest = steps.Manifest(environ)
        self._config = WantedConfig(options, environ)
        self._prefix = os.path.abspath(options.prefix or f"{home(environ)}/.local")
        program = os.path.join(self._prefix, "bin", "feishuperm")
        self._service = GatewayService(program, environ, run)
        self._socket = gateway_socket(environ)

    def rehearse(self) -> int:
        for row in [row for step in self._steps() for row in step.changes()]:
            say("would {}", row)
        return 0

    def run(self) -> int:
        wanted = self._steps()
        changes = [row for step in wanted for row in step.changes()]
        for step in wanted:
            step.apply()
        for row in changes:
            say("  {}", row)
        self._service.start()
        for _ in server.tries(server.START_SECONDS):
            if is_listening(self._socket):
                say("feishuperm {}: the gateway runs", __version__)
                say(self._service.keeps)
                return 0
        problem = msg("the gateway was started, but does not answer")
        raise FeishupermError(problem, self._service.hint)

    def _steps(self) -> list[steps.Step]:
        self._service.must_work()
        settings = self._config.settings()
        if not settings.feishu_app_id or not settings.feishu_app_secret:
            raise FeishupermError(
                msg("a gateway needs an app"), "FEISHU_APP_ID=... FEISHU_APP_SECRET=..."
            )
        python, note = steps.interpreter()
        if note:
            warn(note)
        return [
            steps.ProgramStep(self.manifest, archive_path(), self._prefix, python),
            steps.ConfigStep(self.manifest, self._config.new),
            GatewayStep(self.manifest, self._service, self._socket),
        ]


def undo_gateway(
    record: steps.Record, run: server.Run = server.run_quietly
) -> list[str]:
    """Stop the gateway and remove its unit."""
    GatewayService("", {}, run).stop()
    steps.remove_file(record.get("path", ""))
    run(["systemctl", "--user", "daemon-reload"])
    steps.remove_folders(record.get("folders", []))
    return [msg("stopped the gateway")]
