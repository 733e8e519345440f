"""The service: its unit file, its server, and how both are stopped and started again.

`stop` and `restart` work by the record of the install, however it keeps the server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from feishuperm.errors import FeishupermError
from feishuperm.lib.config import load_settings
from feishuperm.lib.control import is_listening
from feishuperm.lib.files import read_bytes, write_atomic
from feishuperm.setup.files import remove_file, remove_folders
from feishuperm.setup.manifest import Manifest, Record, Step
from feishuperm.setup.ports import check_port, port_of
from feishuperm.setup.server_process import (
    StuckError,
    background_pid,
    hand_over,
    restart_in_place,
    running_status,
    stop_server,
    wait_until_running,
)
from feishuperm.setup.service_unit import KINDS, Service


class ServiceStep(Step):
    """The unit file. Starting and stopping is the caller's, at the right moment."""

    name = "service"

    def __init__(self, manifest: Manifest, service: Service, socket: str) -> None:
        super().__init__(manifest)
        self.service = service
        # The socket is where its server will listen.
        kind, program = service.kind, service.program
        self.here = {"kind": kind, "program": program, "socket": socket}

    def changes(self) -> list[str]:
        if self._wants_unit():
            return [f"write {self.service.path}"]
        if not self.record or self._moves():
            return [f"keep the server running ({self.service.kind})"]
        return []

    def _wants_unit(self) -> bool:
        path = self.service.path
        return bool(path) and read_bytes(path) != self.service.content()

    def _moves(self) -> bool:
        """Whether the earlier install runs its server in another way or place."""
        return any(self.record.get(k, v) != v for k, v in self.here.items())

    def apply(self) -> None:
        if self._moves():
            undo_service(self.record, self.service.environ)
        path = self.service.path
        self.save([os.path.dirname(path)], {**self.here, "path": path})
        if self._wants_unit():
            write_atomic(path, self.service.content(), 0o644)


def recorded_service(record: Record, environ: Mapping[str, str]) -> Service:
    """The service that an install has recorded."""
    return KINDS[record["kind"]](record["program"], environ)


def stop_service(service: Service, socket: str) -> None:
    """Stop a server for good: ask, then use force. Raises while one still listens."""
    try:
        stop_server(socket)
    except StuckError:  # it is told once more, by its manager or by a signal
        pass
    service.stop()
    _must_be_gone(socket)


def _must_be_gone(socket: str) -> None:
    if is_listening(socket):
        raise FeishupermError(
            f"a server still listens on {socket}", "end it by hand: feishuperm status"
        )


def undo_service(record: Record, environ: Mapping[str, str]) -> list[str]:
    """Stop the server and remove its unit. Raises FeishupermError while it lives."""
    service = recorded_service(record, environ)
    stop_service(service, record["socket"])
    remove_file(record.get("path", ""))
    if record["kind"] == "systemd":
        service.run(["systemctl", "--user", "daemon-reload"])
    remove_folders(record.get("folders", []))
    return ["stopped the server"]


def kept_by(pid: int, environ: Mapping[str, str]) -> str:
    """What keeps the server running: systemd, launchd, background, or a person."""
    kind = str(Manifest(environ).record("service").get("kind", ""))
    if kind == "background" and background_pid(environ) != pid:
        return "foreground"
    return kind or "foreground"


def stop(environ: Mapping[str, str]) -> str:
    """End the server; what waits goes back to the terminals. What was done."""
    record = Manifest(environ).record("service")
    socket, status = find_server(record, environ)
    if status is None and not is_listening(socket):
        return "the server is not running"
    released = 0
    try:
        released = stop_server(socket)
    except StuckError:
        if not record:
            raise
    if record:
        recorded_service(record, environ).halt()
    _must_be_gone(socket)
    more = "; it starts again at the next login" if record.get("path") else ""
    if released:
        more = f"; {released} waiting went back to the terminal{more}"
    return f"stopped the server{more}"


def restart(environ: Mapping[str, str]) -> str:
    """Start the server anew, and hand it what waits. What was done.

    All that can be known to fail is tried while the old one still runs.
    """
    record = Manifest(environ).record("service")
    socket, status = find_server(record, environ)
    if status and kept_by(status["pid"], environ) == "foreground":
        restart_in_place(socket, status)
        return f"restarted (foreground, pid {status['pid']})"
    if not record:
        raise FeishupermError(
            "no installed server to restart: no server is running",
            "keep one running: feishuperm install",
        )
    service = recorded_service(record, environ)
    service.must_work()
    check_port(load_settings(environ), port_of(status))
    waiting = hand_over(socket)
    service.start()
    pid = wait_until_running()["pid"]
    more = f"; {waiting}" if waiting else ""
    return f"restarted ({service.kind}, pid {pid}){more}"


def try_restart(environ: Mapping[str, str]) -> str:
    """Start an installed server anew for new settings, or say why it could not be."""
    try:
        return restart(environ)
    except FeishupermError as error:
        return f"the server has to start anew to use it: {error}"


def find_server(
    record: Record, environ: Mapping[str, str]
) -> tuple[str, dict[str, Any] | None]:
    """Where the server is and what it says: by the settings, else by the record."""
    sockets = [load_settings(environ).permission_socket_path, record.get("socket", "")]
    for socket in filter(None, sockets):
        status = running_status(socket)
        if status is not None:
            return socket, status
    return sockets[0], None
