"""`install --gateway`: the program, its settings, and a systemd unit for a gateway.

A gateway is a server's program: it is kept by systemd or by whatever a container has,
and registers nothing in anybody's Claude Code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from feishuperm import __version__
from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import Options
from feishuperm.lib.config import gateway_socket, home
from feishuperm.lib.control import is_listening
from feishuperm.lib.files import read_bytes, write_atomic
from feishuperm.lib.program import archive_path
from feishuperm.lib.terminal import say, warn
from feishuperm.setup.config_step import ConfigStep
from feishuperm.setup.files import remove_file, remove_folders
from feishuperm.setup.manifest import Manifest, Record, Step
from feishuperm.setup.program_step import ProgramStep, interpreter
from feishuperm.setup.server_process import tries
from feishuperm.setup.service_unit import Run, SystemdService, run_quietly
from feishuperm.setup.wanted_config import WantedConfig

START_SECONDS = 20.0


class GatewayService(SystemdService):
    """The unit of a gateway."""

    unit, role = "feishuperm-gateway.service", "gateway"


class GatewayStep(Step):
    """Its file."""

    name = "gateway"

    def __init__(self, manifest: Manifest, service: GatewayService) -> None:
        super().__init__(manifest)
        self.path, self.content = service.path, service.content()

    def changes(self) -> list[str]:
        wanted = read_bytes(self.path) != self.content
        return [f"write {self.path}"] if wanted else []

    def apply(self) -> None:
        self.save([os.path.dirname(self.path)], {"path": self.path})
        write_atomic(self.path, self.content, 0o644)


class GatewayInstall:
    """One run of the command."""

    def __init__(
        self, options: Options, environ: Mapping[str, str], run: Run = run_quietly
    ) -> None:
        self.manifest = Manifest(environ)
        self._config = WantedConfig(options, environ)
        self._prefix = os.path.abspath(options.prefix or f"{home(environ)}/.local")
        program = os.path.join(self._prefix, "bin", "feishuperm")
        self._service = GatewayService(program, environ, run)

    def rehearse(self) -> int:
        self._require_systemd()
        for row in [row for step in self._steps() for row in step.changes()]:
            say(f"would {row}")
        return 0

    def run(self) -> int:
        """Everything that can be refused is refused before the first change."""
        self._require_systemd()
        steps = self._steps()
        changes = [row for step in steps for row in step.changes()]
        for step in steps:
            step.apply()
        for row in changes:
            say(f"  {row}")
        self._service.start()
        self._await()
        say(f"feishuperm {__version__}: the gateway runs")
        say(self._service.keeps)
        return 0

    def _require_systemd(self) -> None:
        if not self._service.works():
            raise FeishupermError(
                "install --gateway needs systemd, and `systemctl --user` does not "
                "answer here; nothing was changed",
                "let launchd, a container or another supervisor run feishuperm gateway",
            )

    def _await(self) -> None:
        for _ in tries(START_SECONDS):
            if is_listening(gateway_socket(self.manifest.environ)):
                return
        problem = "the gateway was started, but does not answer"
        raise FeishupermError(problem, self._service.journal())

    def _steps(self) -> list[Step]:
        settings = self._config.settings()
        if not settings.feishu_app_id or not settings.feishu_app_secret:
            raise FeishupermError(
                "a gateway needs an app", "FEISHU_APP_ID=... FEISHU_APP_SECRET=..."
            )
        python, note = interpreter()
        if note:
            warn(note)
        return [
            ProgramStep(self.manifest, archive_path(), self._prefix, python),
            ConfigStep(self.manifest, self._config.new),
            GatewayStep(self.manifest, self._service),
        ]


def undo_gateway(record: Record, run: Run = run_quietly) -> list[str]:
    """Stop the gateway and remove its unit."""
    GatewayService("", {}, run).stop()
    remove_file(record.get("path", ""))
    run(["systemctl", "--user", "daemon-reload"])
    remove_folders(record.get("folders", []))
    return ["stopped the gateway"]
