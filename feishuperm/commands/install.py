"""`feishuperm install`: the program in its place, hooks, settings, a running server.

Talks with the person and puts the steps in order; what a step changes, and how it is
undone, is `setup.installer`'s.
"""

from __future__ import annotations

import difflib
import errno
import getpass
import os
import shlex
import socket
import stat
import sys
import time
import zlib
from functools import partial
from urllib.parse import urlsplit

from feishuperm import __version__
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.lib import settings_editor as editor
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import (
    claude_dir,
    config_path,
    home,
    read_config,
    state_dir,
)
from feishuperm.lib.control import NotRunningError, ask_server
from feishuperm.lib.feishu import Notice, build_notice_card, send_feishu_card
from feishuperm.lib.program import archive_path
from feishuperm.lib.store import locked
from feishuperm.models.hooks import HOOK_EVENTS
from feishuperm.models.settings import BY_KEY, Settings, parse_setting
from feishuperm.setup.installer import (
    CommandsStep,
    ConfigStep,
    Manifest,
    ProgramStep,
    ServiceStep,
    SettingsStep,
    hook_command,
    interpreter,
    own_commands,
    permission_mode,
    pin_path,
    registrations,
    written_hooks,
)
from feishuperm.setup.service_unit import (
    KINDS,
    background_pid,
    choose_service,
    is_server,
    stop_server,
    wait_until_running,
)
from feishuperm.supervisor.supervisor import CAP_VARIABLE
from feishuperm.supervisor.switch import slash_commands, wanted_cap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from feishuperm.lib.arguments import Options
    from feishuperm.setup.installer import Step
    from feishuperm.setup.service_unit import Service

SUMMARY = "register hooks, service and config file"
DEFAULT_MODE: editor.Path = ("permissions", "defaultMode")
NEAR_PORTS = range(8081, 8100)  # close to the known one, so a person can remember it
FLAGS = {
    "webhook": "FEISHU_WEBHOOK_URL",
    "secret": "FEISHU_WEBHOOK_SECRET",
    "callback_url": "CALLBACK_SERVER_URL",
    "port": "CALLBACK_SERVER_PORT",
}
EPILOG = """\
Installs the file it runs from for the current user: the program, hooks in Claude Code's
settings, config.env, a running server. Running it again is safe, and upgrades.
Settings in the environment, such as FEISHU_WEBHOOK_URL, are kept in config.env."""
AUTO_MODE = """\
Interactive sessions start in auto mode, in which Claude Code asks about few tool
calls, so few cards come. With permissions.defaultMode "default" it asks."""


def main(args: list[str]) -> int:
    options = parser().parse_args(args)
    if not archive_path():
        raise FeishupermError("only a built file can install itself", "./install.sh")
    if not os.path.isdir(home()):
        raise FeishupermError("this user has no home folder", "set HOME to one")
    install = Install(options, os.environ)
    if install.options.dry_run:
        return install.rehearse()
    install.manifest.open()
    with locked(install.manifest.path):
        return install.run()


def parser() -> ArgumentParser:
    """The arguments."""
    made = ArgumentParser("install", SUMMARY, EPILOG)
    add = made.add_argument
    add("--prefix", metavar="DIR", help="where share/ and bin/ are (default: ~/.local)")
    add(
        "--project",
        action="store_true",
        help="register the hooks in this folder's .claude/settings.json",
    )
    add("--no-hooks", action="store_true", help="leave Claude Code's settings alone")
    add(
        "--supervisor",
        action="store_true",
        help="also review stops and questions before they reach you",
    )
    add(
        "--events",
        metavar="LIST",
        default="",
        help="more events for cards without buttons, such as Stop,Notification",
    )
    add(
        "--permission-mode",
        choices=("default",),
        help="let Claude Code ask: sets permissions.defaultMode",
    )
    add("--no-service", action="store_true", help="do not start or keep the server")
    add("--service", choices=tuple(KINDS), help="how to keep the server running")
    add("--webhook", metavar="URL", help="the Feishu group bot")
    add("--secret", metavar="TEXT", help="its signing secret")
    add("--callback-url", metavar="URL", help="what the buttons point to")
    add("--port", metavar="N", help="the port of the server")
    add("--no-input", action="store_true", help="never ask anything")
    add("--dry-run", action="store_true", help="only say what would be done")
    return made  # fmt: skip


class Install:
    """One run of the command."""

    def __init__(self, options: Options, environ: Mapping[str, str]) -> None:
        self.options = options
        self.environ = environ
        self.manifest = Manifest(environ)
        self.old_config = read_config(config_path(environ))
        self.config = asked_config(options, environ)
        # Before the first install there is no server of ours: one on the shared default
        # socket is somebody's own and stays.
        self.socket = ""  # where the running server was found; empty: where it should
        known = self.known("PERMISSION_SOCKET_PATH")
        self.status = running_status() if known else None
        recorded = self.manifest.records.get("service", {}).get("socket", "")
        if self.status is None and recorded:
            self.socket, self.status = recorded, running_status(recorded)
        self.asked = False  # whether a person gave the bot, which was tried at once
        self.values: dict[editor.Path, Any] = {}
        if options.permission_mode:
            self.values[DEFAULT_MODE] = options.permission_mode

    def rehearse(self) -> int:
        """Say what would be changed, and change nothing."""
        changes = [row for step in self.steps() for row in step.changes()]
        for row in changes:
            print(f"would {row}")
        stale = bool(changes) or self.status is None or self.is_stale()
        if stale and not self.options.no_service:
            print("would start the server" if not self.status else "would restart it")
        if not changes:
            print("nothing to change")
        return 0

    def run(self) -> int:
        """Change what has to be changed, and tell how it went."""
        self.ask()
        steps = self.steps()
        changes = {step.name: step.changes() for step in steps}  # may refuse, in time
        if not self.asked:
            self.check_webhook()
        service = self.apply(steps, changes)
        for rows in changes.values():
            for row in rows:
                print(f"  {row}")
        done = "installed" if any(changes.values()) else "up to date"
        print(f"feishuperm {__version__} is {done}{self.where(service)}")
        self.tell(service)
        return 0

    # The person.

    def ask(self) -> None:
        """On a terminal, ask for what nothing else says; an empty line skips."""
        if self.options.no_input or not (sys.stdin.isatty() and sys.stdout.isatty()):
            return
        try:
            if not self.known("FEISHU_WEBHOOK_URL") or self.fails_new_webhook():
                self.ask_webhook()
            if not self.options.no_hooks and not self.values and self.needs_mode():
                self.ask_mode()
        except EOFError:  # Ctrl-D: no more answers
            print()

    def fails_new_webhook(self) -> bool:
        """Whether a bot that was just given does not take a card; says so."""
        if not self.has_new_webhook():
            return False
        problem = self.send_test()
        if problem:
            print(f"Feishu did not take the test card: {problem}")
        self.asked = True
        return bool(problem)

    def has_new_webhook(self) -> bool:
        keys = ("FEISHU_WEBHOOK_URL", "FEISHU_WEBHOOK_SECRET")
        return self.known(keys[0]) and any(map(self.is_new, keys))

    def ask_mode(self) -> None:
        """Offer to let Claude Code ask; nothing is changed without a yes."""
        print(AUTO_MODE)
        if input("Set it now? [y/N] ").strip().lower() in ("y", "yes"):
            self.values[DEFAULT_MODE] = "default"

    def ask_webhook(self) -> None:
        """Ask for the group bot until it works or the person gives up."""
        print("Feishu: open the group's settings, add a custom bot, copy its address.")
        while True:
            url = input("Webhook address (empty: later, use the inbox): ").strip()
            if not url:
                return
            secret = getpass.getpass("Signing secret (empty: none): ").strip()
            try:
                parse_setting(BY_KEY["FEISHU_WEBHOOK_URL"], url)
            except UsageError as error:
                print(error)
                continue
            self.config["FEISHU_WEBHOOK_URL"] = url
            if secret or self.old_config.get("FEISHU_WEBHOOK_SECRET"):
                self.config["FEISHU_WEBHOOK_SECRET"] = secret  # not the old bot's
            problem = self.send_test()
            if not problem:
                print("a test card is in the group")
                self.asked = True
                return
            print(f"Feishu did not take the test card: {problem}")
            self.config.pop("FEISHU_WEBHOOK_URL")
            self.config.pop("FEISHU_WEBHOOK_SECRET", None)

    def check_webhook(self) -> None:
        """Without a person, a bot that does not answer is told and kept."""
        if self.has_new_webhook():
            problem = self.send_test()
            if problem:
                warn(f"Feishu did not take a test card: {problem}")

    def send_test(self) -> str:
        """Send a card that only says hello; what went wrong, if anything."""
        settings = Settings({**self.old_config, **self.config})
        card = build_notice_card(Notice("test", time.time()), settings.feishuperm_lang)
        url, secret = settings.feishu_webhook_url, settings.feishu_webhook_secret
        result = send_feishu_card(url, card, secret)
        return "" if result.ok else result.message

    def tell(self, service: Service | None) -> None:
        """Three things to do next, and where the inbox is."""
        settings = Settings({**self.old_config, **self.config})
        program = self.command("feishuperm")
        if service is not None:
            print(f"inbox: {self.status_after['inbox']}")
            if service.kind == "background" or "linger" in service.keeps:
                print(f"note: {service.keeps}")
        if settings.feishu_webhook_url:
            first = f"see a card on your phone: {program} test-card"
        else:
            first = f"connect Feishu (it asks for the group bot): {program} install"
        print("next:")
        print(f"  1. {first}")
        print(f"  2. check every hop from hook to phone: {program} doctor")
        if self.needs_mode() and not self.values:
            third = f"make Claude Code ask: {program} install --permission-mode default"
        else:
            third = f"try it without Claude Code: {program} demo"
        print(f"  3. {third}")
        folder = os.path.dirname(self.link("feishuperm"))
        if folder not in self.environ.get("PATH", "").split(os.pathsep):
            print(f'hint: export PATH={shlex.quote(folder)}:"$PATH"')

    def where(self, service: Service | None) -> str:
        if service is None:
            return ""
        return f" and running ({service.kind}, pid {self.status_after['pid']})"

    # The steps.

    def steps(self) -> list[Step]:
        """Everything this run is about, in order. Raises for a bad setting."""
        self.complete_config()
        settings = Settings({**self.old_config, **self.config})
        records = self.manifest.records
        python, note = interpreter()
        if note:
            warn(note)
        self.program = ProgramStep(
            records.get("program", {}),
            archive_path(),
            self.prefix(),
            python,
            pin_path(self.environ),
        )
        steps: list[Step] = [self.program]
        if not self.options.no_hooks:
            steps.append(self.settings_step(settings))
            steps.extend(self.other_settings_steps())
        if self.options.supervisor and not self.options.no_hooks:
            texts = slash_commands(hook_command(self.link("feishuperm")))
            record = records.get("commands", {})
            steps.append(CommandsStep(record, self.environ, texts))
        record = records.get("config", {})
        steps.append(ConfigStep(record, self.environ, self.config))
        if not self.options.no_service:
            record = records.get("service", {})
            socket_path = settings.permission_socket_path
            steps.append(ServiceStep(record, self.service(), socket_path))
        return steps

    def settings_step(self, settings: Settings) -> SettingsStep:
        rows = registrations(
            settings.permission_request_timeout,
            event_names(self.options.events),
            self.options.supervisor,
            settings.supervisor_timeout,
            settings.supervisor_stop_timeout,
        )
        hooks = [(row, hook_command(self.link(row.program))) for row in rows]
        absent: dict[editor.Path, Any] = {}
        if self.options.supervisor:
            absent["env", CAP_VARIABLE] = wanted_cap(settings.supervisor_max_iterations)
        path = self.settings_path()
        record = self.manifest.records.get(f"settings:{path}", {})
        own = own_commands(self.manifest.records.get("program", {}))
        folder = self.manifest.folder
        return SettingsStep(record, path, folder, hooks, self.values, absent, own)

    def other_settings_steps(self) -> list[Step]:
        """Other files with our hooks, which have to name a program that moves."""
        own = own_commands(self.manifest.records.get("program", {}))
        steps: list[Step] = []
        for name, record in self.manifest.records.items():
            path = record.get("path", "")
            if name != f"settings:{path}" or path == self.settings_path():
                continue
            rows = written_hooks(record, own)
            hooks = [(row, hook_command(self.link(row.program))) for row in rows]
            if hooks:
                folder = self.manifest.folder
                steps.append(SettingsStep(record, path, folder, hooks, {}, own=own))
        return steps

    def service(self) -> Service:
        program = self.link("feishuperm")
        if self.options.service:
            return KINDS[self.options.service](program, self.environ)
        return choose_service(program, self.environ)

    def apply(self, steps: list[Step], changes: dict[str, list[str]]) -> Service | None:
        """Make the changes; the server is stopped only for those it must notice."""
        service: Service | None = None
        kinds = ("program", ConfigStep.name, ServiceStep.name)
        noticed = any(changes.get(name) for name in kinds) or self.is_stale()
        if noticed and self.status is not None and not self.options.no_service:
            self.stop()
        for step in steps:
            step.apply(partial(self.manifest.save, step.name))
            if isinstance(step, ServiceStep):
                service = step.service
        if service is not None:
            if noticed or self.status is None:
                service.start()
            self.status_after = wait_until_running()
        return service

    def is_stale(self) -> bool:
        """Whether the running server has to start again though no step changes a thing.

        It read an older config.env or archive, or others may write to its socket.
        """
        if self.status is None:
            return False
        started = float(self.status["started"])
        archive = self.manifest.records.get("program", {}).get("archive", "")
        paths = (config_path(self.environ), archive)
        return any(modified(path) > started for path in paths) or is_open(
            self.status.get("socket", "")
        )

    def stop(self) -> None:
        """Stop the running server; hooks that wait go back to their terminals."""
        released = stop_server(self.socket)
        if released:
            print(f"  handed back to the terminal: {released} waiting")

    # Places and settings.

    def prefix(self) -> str:
        if self.options.prefix:
            return absolute(str(self.options.prefix))
        record = self.manifest.records.get("program", {})
        return str(record.get("prefix") or os.path.join(home(self.environ), ".local"))

    def link(self, name: str) -> str:
        return os.path.join(self.prefix(), "bin", name)

    def command(self, name: str) -> str:
        """How a person calls one of our programs from this shell."""
        link = self.link(name)
        folders = self.environ.get("PATH", "").split(os.pathsep)
        return name if os.path.dirname(link) in folders else shlex.quote(link)

    def settings_path(self) -> str:
        if self.options.project:
            return absolute(os.path.join(".claude", "settings.json"))
        return os.path.join(claude_dir(self.environ), "settings.json")

    def needs_mode(self) -> bool:
        """Whether interactive sessions would start in a mode that asks rarely."""
        return permission_mode(self.settings_path()) in ("", "auto")

    def known(self, key: str) -> bool:
        return bool(self.config.get(key) or self.old_config.get(key))

    def is_new(self, key: str) -> bool:
        return key in self.config and self.config[key] != self.old_config.get(key)

    def complete_config(self) -> None:
        """Choose what nobody said: a socket of this user's own, a port that is free."""
        if not self.known("PERMISSION_SOCKET_PATH"):
            self.config["PERMISSION_SOCKET_PATH"] = own_socket(state_dir(self.environ))
        if self.options.no_service:
            return
        settings = Settings({**self.old_config, **self.config})
        host, port = settings.http_host(), settings.callback_server_port
        # A port that our own server holds will be free; its host still has to be good.
        if port_is_free(host, 0 if port == self.own_port() else port):
            return
        if self.known("CALLBACK_SERVER_PORT") or self.known("CALLBACK_SERVER_URL"):
            raise FeishupermError(
                f"port {port} is taken by another program",
                "choose another one: feishuperm install --port N",
            )
        self.config.update(port_settings(free_port(host)))

    def own_port(self) -> int:
        """The port the server of the earlier install listens on, 0 without one."""
        if self.status is not None:
            return urlsplit(str(self.status["listens"])).port or 0
        record = self.manifest.records.get("service", {})
        if is_server(background_pid(self.environ), record.get("program", "")):
            return Settings(self.old_config).callback_server_port  # it is stuck
        return 0


def warn(message: str) -> None:
    print(f"feishuperm: {message}", file=sys.stderr)


def running_status(path: str = "") -> dict[str, Any] | None:
    """What the server on a socket says, None without one."""
    try:
        return ask_server({"command": "status"}, path=path)
    except NotRunningError:
        return None


def absolute(path: str) -> str:
    """A path from the root on. Raises FeishupermError without a current folder."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise FeishupermError("the current folder is gone", "cd, and again") from None


def modified(path: str) -> float:
    """When a file was written, 0 without one."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def is_open(path: str) -> bool:
    """Whether a socket has another mode than the one our server gives it."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode) != 0o600
    except OSError:
        return False


def asked_config(options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """Settings from flags and the environment, which the service will not have."""
    asked = {key: environ[key] for key in BY_KEY if environ.get(key)}
    for flag, key in FLAGS.items():
        if getattr(options, flag):
            asked[key] = getattr(options, flag)
    if options.port and "CALLBACK_SERVER_URL" not in asked:
        asked.update(port_settings(options.port))
    return asked


def event_names(given: str) -> list[str]:
    """The events of a comma list. Raises UsageError for one Claude Code never sends."""
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in HOOK_EVENTS:
            near = difflib.get_close_matches(name, HOOK_EVENTS, 1)
            hint = f"did you mean {near[0]}?" if near else ", ".join(HOOK_EVENTS)
            raise UsageError(f"--events: {name!r} is no hook event", hint)
    return names


def own_socket(folder: str) -> str:
    """A socket for one user: in the state folder, or in /tmp when that is too deep."""
    path = os.path.join(folder, "feishuperm.sock")
    try:
        parse_setting(BY_KEY["PERMISSION_SOCKET_PATH"], path)
    except UsageError:
        checksum = zlib.crc32(os.fsencode(folder))
        return f"/tmp/feishuperm-{os.getuid()}-{checksum:08x}.sock"
    return path


def port_settings(port: int | str) -> dict[str, str]:
    """The two settings that a port of one's own needs."""
    return {
        "CALLBACK_SERVER_PORT": str(port),
        "CALLBACK_SERVER_URL": f"http://localhost:{port}",
    }


def port_is_free(host: str, port: int) -> bool:
    """Whether a server could listen there. Raises for a host that is not here."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise FeishupermError(
                f"cannot listen on {host}:{port}: {error.strerror}",
                "set CALLBACK_SERVER_HOST to an address of this machine",
            ) from None
    return True


def free_port(host: str) -> int:
    """A free port near the usual one. Raises FeishupermError."""
    for port in NEAR_PORTS:
        if port_is_free(host, port):
            return port
    raise FeishupermError(
        f"ports 8080 to {NEAR_PORTS[-1]} are all taken", "feishuperm install --port N"
    )
