"""`feishuperm run PROMPT`: a headless Claude session that asks a phone.

Exit code: 0 finished and nothing was refused; 1 Claude failed; 2 wrong arguments;
3 somebody (or nobody) refused a tool; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial

from feishuperm.errors import FeishupermError, UsageError
from feishuperm.hooks.application import RUN_VARIABLE, RunLock, record_callback
from feishuperm.hooks.config_manager import ConfigManager, trust_command
from feishuperm.hooks.headless import Headless
from feishuperm.hooks.hook_manager import HookManager
from feishuperm.hooks.screen import Screen
from feishuperm.hooks.trust import NAMES, Trust
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import load_settings
from feishuperm.messages import msg


def main(args: list[str]) -> int:
    """Run one prompt to its end."""
    own, extra = _split(args)
    options = _parser().parse_args(own)
    prompt = _prompt(options.prompt)
    settings = load_settings()
    # A closed descriptor has no stream at all.
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    screen = Screen(sys.stdout or nowhere, sys.stderr or nowhere, options.json)
    manager = ConfigManager(os.environ, screen.warn, Trust(os.environ).covers)
    root = manager.project_root(os.getcwd())
    config = manager.load_project_config(root, for_sdk=False)
    sources = _sources(root, manager.is_trusted, screen)
    chosen = [*_claude_options(options), *sources, *extra]
    claude = _claude()
    try:  # a command callback may well be our own hook, which must do nothing here
        lock = RunLock()
    except OSError as error:
        raise FeishupermError(
            msg("cannot keep a file for this run: {}", error)
        ) from None
    environ = {**os.environ, RUN_VARIABLE: lock.word}
    record = partial(record_callback, root=config.root, warn=screen.warn)
    hooks = HookManager(config.root, environ, screen.warn, record=record)
    path = settings.permission_socket_path
    headless = Headless(config, hooks, screen, path, environ, lock.add)
    try:
        return headless.run([claude, *chosen], prompt)
    finally:
        lock.remove()


def _sources(root: str, covers: Callable[[str], bool], screen: Screen) -> list[str]:
    """What keeps the client from obeying a project that nobody has looked at.

    In print mode it asks nobody, and runs a clone's hooks and MCP servers.
    """
    if covers(root):
        return []
    if any(os.path.lexists(os.path.join(root, name)) for name in NAMES):
        screen.warn(
            msg(
                "nobody has trusted {}: its settings, callbacks, MCP servers and "
                "CLAUDE.md are left out; look at them with `{}`",
                root,
                trust_command(root),
            )
        )
    return ["--setting-sources", "user"]


def _split(args: list[str]) -> tuple[list[str], list[str]]:
    """Our arguments, and those after `--`, which are Claude's."""
    at = args.index("--") if "--" in args else len(args)
    return args[:at], args[at + 1 :]


def _parser() -> ArgumentParser:
    parser = ArgumentParser("run", "--json")
    add = parser.add_argument
    add("prompt", nargs="?")
    add("-c", "--continue", dest="resume_last", action="store_true")
    add("-r", "--resume")
    add("--model")
    add("--permission-mode")
    return parser


def _claude_options(options: Namespace) -> list[str]:
    chosen = ["--continue"] if options.resume_last else []
    # One word each: a value that starts with a dash must not become an option.
    for name in ("resume", "model", "permission_mode"):
        value = getattr(options, name)
        if value:
            chosen.append(f"--{name.replace('_', '-')}={value}")
    return chosen


def _prompt(given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        raise UsageError(msg("no prompt given"), msg("feishuperm run 'what to do'"))
    text = sys.stdin.read() if given in (None, "-") else given
    if not text or not text.strip():
        raise UsageError(msg("the prompt is empty"), msg("feishuperm run 'what to do'"))
    return text


def _claude() -> str:
    from shutil import which

    path = which("claude")
    if not path:
        raise FeishupermError(
            msg("there is no `claude` on your PATH"),
            "npm install -g @anthropic-ai/claude-code",
        )
    return path
