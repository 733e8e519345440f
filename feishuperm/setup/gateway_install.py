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
from feishuperm.setup.service_unit import Run, run_quietly, systemd_unit
from feishuperm.setup.wanted_config import WantedConfig

UNIT = "feishuperm-gateway.service"
START_SECONDS = 20.0


class GatewayStep(Step):
    """The unit file of a gateway."""

    name = "gateway"

    def __init__(self, manifest: Manifest, program: str) -> None:
        super().__init__(manifest)
        environ = manifest.environ
        base = environ.get("XDG_CONFIG_HOME") or f"{home(environ)}/.config"
        self.path = f"{base}/systemd/user/{UNIT}"
        self.content = systemd_unit(program, environ, "gateway").encode()

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
        self._environ = environ
        self._run = run

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
        for words in (["daemon-reload"], ["enable", UNIT], ["restart", UNIT]):
            if self._systemctl(*words):
                hint = f"journalctl --user -u {UNIT} -n 20"
                raise FeishupermError(f"systemctl --user {words[0]} failed", hint)
        self._await()
        say(f"feishuperm {__version__}: the gateway runs")
        say("to keep it running after you log out: loginctl enable-linger")
        return 0

    def _require_systemd(self) -> None:
        if self._systemctl("show-environment"):
            raise FeishupermError(
                "install --gateway needs systemd, and `systemctl --user` does not "
                "answer here; nothing was changed",
                "let launchd, a container or another supervisor run feishuperm gateway",
            )

    def _systemctl(self, *words: str) -> int:
        return self._run(["systemctl", "--user", *words])

    def _await(self) -> None:
        for _ in tries(START_SECONDS):
            if is_listening(gateway_socket(self._environ)):
                return
        raise FeishupermError(
            "the gateway was started, but does not answer",
            f"journalctl --user -u {UNIT} -n 20",
        )

    def _steps(self) -> list[Step]:
        settings = self._config.settings()
        if not settings.feishu_app_id or not settings.feishu_app_secret:
            raise FeishupermError(
                "a gateway needs an app", "FEISHU_APP_ID=... FEISHU_APP_SECRET=..."
            )
        python, note = interpreter()
        if note:
            warn(note)
        program = os.path.join(self._prefix, "bin", "feishuperm")
        return [
            ProgramStep(self.manifest, archive_path(), self._prefix, python),
            ConfigStep(self.manifest, self._config.new),
            GatewayStep(self.manifest, program),
        ]


def undo_gateway(record: Record, run: Run = run_quietly) -> list[str]:
    """Stop the gateway and remove its unit."""
    run(["systemctl", "--user", "disable", "--now", UNIT])
    remove_file(record.get("path", ""))
    run(["systemctl", "--user", "daemon-reload"])
    remove_folders(record.get("folders", []))
    return ["stopped the gateway"]
