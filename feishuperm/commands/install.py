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
from feishuperm.setup.install import Install
from feishuperm.setup.join import GatewayInstall
from feishuperm.setup.service import SERVICE_MANAGERS, port_number
from feishuperm.setup.steps import Manifest

EPILOG = msg("""\
Installs the file it runs from for the current user: the program, hooks in Claude Code's
settings, config.env, a running server. Running it again is safe, and upgrades.
Settings in the environment, such as FEISHU_WEBHOOK_URL, are kept in config.env.""")
FLAGS = {
    "--project": msg("register the hooks in this folder's .claude/settings.local.json"),
    "--shared": msg(
        "with --project: write to the shared settings.json; does nothing for people "
        "without feishuperm"
    ),
    "--no-hooks": msg("leave Claude Code's settings alone"),
    "--supervisor": msg("also review stops and questions before they reach you"),
    "--no-supervisor": msg("remove the supervisor's hooks"),
    "--ask-list": msg(
        "always ask before pushing, publishing, deleting and other risky actions"
    ),
    "--no-ask-list": msg("remove those rules"),
    "--remote": msg("let owners start and continue sessions from the chat"),
    "--no-remote": msg("forbid that again"),
    "--no-service": msg("do not start the server or keep it running"),
    "--setup": msg("go through the questions again"),
    "--rescan": msg("scan again to add missing permissions to the app"),
    "--no-qr": msg("show the link alone"),
    "--no-input": msg("never ask anything"),
    "--gateway": msg(
        "keep a gateway running instead (systemd): one app for many machines"
    ),
    "--dry-run": msg("only say what would be done"),
}


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
    for word in agents.names(options.agents):
        if word in agents.names(options.no_agents):
            both = f"agents {word}", f"no-agents {word}"
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
    made = ArgumentParser("install", EPILOG)
    add = made.add_argument
    prefix = msg("where share/ and bin/ are (default: ~/.local)")
    add("--prefix", metavar="DIR", help=prefix)
    more = msg(
        "extra events: notify (Stop, Notification, ...), ask you (next, denied, form), "
        "or follow sessions (session: list, progress, stop)"
    )
    add("--events", metavar="LIST", default="", help=more)
    mode = msg("make Claude Code ask: sets permissions.defaultMode")
    fewer = msg("events to unregister")
    add("--no-events", metavar="LIST", default="", help=fewer)
    others = msg("other agents to answer too: codex, qwen, copilot, opencode")
    add("--agents", metavar="LIST", default="", help=others)
    add("--no-agents", metavar="LIST", default="", help=msg("agents to unregister"))
    add("--permission-mode", choices=("default",), help=mode)
    keep = msg("how to keep the server running")
    add("--service", choices=tuple(SERVICE_MANAGERS), help=keep)
    add("--webhook", metavar="URL", help=msg("the Feishu group bot"))
    add("--secret", metavar="TEXT", help=msg("its signing secret"))
    add("--qr", metavar="FILE", help=msg("write the QR code to this SVG file"))
    add("--callback-url", metavar="URL", help=msg("address that the buttons lead to"))
    folders = msg("with --remote: the folders in which they may, separated by colons")
    add("--projects", metavar="DIRS", default="", help=folders)
    lang = msg("language of cards, pages and the command line")
    add("--lang", choices=LANGUAGES, help=lang)
    wait = msg("how long a request waits, such as 10m; also sets the hook's time-out")
    add("--wait", metavar="TIME", type=duration, help=wait)
    port = msg("port of the server; 0 picks a free one")
    add("--port", metavar="N", type=port_number, help=port)
    for name, text in FLAGS.items():
        add(name, action="store_true", help=text)
    return made
