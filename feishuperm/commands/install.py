"""`feishuperm install`: the program in its place, hooks, settings, a running server."""

from __future__ import annotations

import os
from argparse import Namespace

from feishuperm.errors import FeishupermError, UsageError
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import claude_dir, config_dir, home, state_dir
from feishuperm.lib.files import locked, require_own
from feishuperm.lib.language import KEY
from feishuperm.lib.program import archive_path
from feishuperm.messages import msg
from feishuperm.models.names import LANGUAGES
from feishuperm.setup import agents
from feishuperm.setup.feishu_setup import duration
from feishuperm.setup.install import Install, event_names
from feishuperm.setup.join import GatewayInstall
from feishuperm.setup.service import SERVICE_MANAGERS, port_number
from feishuperm.setup.steps import Manifest

FLAGS = (
    *("--project", "--shared", "--no-hooks", "--supervisor", "--no-supervisor"),
    *("--ask-list", "--no-ask-list", "--remote", "--no-remote", "--no-service"),
    *("--setup", "--rescan", "--no-qr", "--no-input", "--gateway", "--dry-run"),
)


def main(args: list[str]) -> int:
    options = parser().parse_args(args)
    _check(options)
    places = [config_dir(), state_dir(), claude_dir(), options.prefix or home()]
    for place in places + [os.getcwd()] * options.project:
        require_own(place, ["install", *args])
    if options.lang:  # it is spoken from here on
        os.environ[KEY] = options.lang
    kind = GatewayInstall if options.gateway else Install
    if options.dry_run:
        return kind(options, os.environ).rehearse()
    manifest = Manifest(os.environ)
    manifest.open()
    with locked(manifest.path):  # by what another one has left just now
        return kind(options, os.environ).run()


def _check(options: Namespace) -> None:
    for option, names in (("agents", agents.names), ("events", event_names)):
        away = names(getattr(options, f"no_{option}"))
        for name in names(getattr(options, option)):
            if name in away:
                both = f"{option} {name}", f"no-{option} {name}"
                raise UsageError(msg("--{} and --{} contradict each other", *both))
    for name in ("supervisor", "ask-list", "remote"):
        flag = name.replace("-", "_")
        if getattr(options, flag) and getattr(options, f"no_{flag}"):
            both = name, f"no-{name}"
            raise UsageError(msg("--{} and --{} contradict each other", *both))
    if options.shared and not options.project:
        raise UsageError(msg("--shared needs --project"), "feishuperm install --help")
    if not archive_path():
        raise FeishupermError(
            msg("only a built file can install itself"), "./install.sh"
        )
    if not os.path.isdir(home()):
        raise FeishupermError(
            msg("this user has no home folder"), msg("set HOME to one")
        )


def parser() -> ArgumentParser:
    """The arguments."""
    made = ArgumentParser("install", *FLAGS)
    add = made.add_argument
    for name in ("--prefix", "--webhook", "--secret", "--qr", "--callback-url"):
        add(name)
    for name in ("--events", "--no-events", "--agents", "--no-agents", "--projects"):
        add(name, default="")
    add("--permission-mode", choices=("default",))
    add("--service", choices=tuple(SERVICE_MANAGERS))
    add("--lang", choices=LANGUAGES)
    add("--wait", type=duration)
    add("--port", type=port_number)
    return made
