"""`feishuperm run PROMPT`: a headless session that asks a phone.

It is Claude Code's, or that of an agent that speaks the Agent Client Protocol.

Exit code: 0 finished and nothing was refused; 1 the agent failed; 2 wrong arguments;
3 somebody (or nobody) refused a tool; 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
"""

from __future__ import annotations

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import TextIO

from feishuperm.errors import FeishupermError, UsageError
from feishuperm.hooks.acp import AcpRun
from feishuperm.hooks.agent_run import AgentRun
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
    screen = Screen(sys.stdout or _no_one(), sys.stderr or _no_one(), options.json)
    try:  # a command callback may well be our own hook, which must do nothing here
        lock = RunLock()
    except OSError as error:
        raise FeishupermError(
            msg("cannot keep a file for this run: {}", error)
        ) from None
    prepare = _run_of_claude if options.agent is None else _run_of_agent
    try:
        path = settings.permission_socket_path
        run, command = prepare(options, screen, path, lock)
        return run.run([*command, *extra], prompt)
    finally:
        lock.remove()


def _no_one() -> TextIO:
    """A closed descriptor has no stream at all."""
    return open(os.devnull, "w", encoding="utf-8")


def _run_of_claude(
    options: Namespace, screen: Screen, path: str, lock: RunLock
) -> tuple[AgentRun, list[str]]:
    """A run of Claude Code, and what starts it."""
    environ = {**os.environ, RUN_VARIABLE: lock.word}
    manager = ConfigManager(os.environ, screen.warn, Trust(os.environ).covers)
    root = manager.project_root(os.getcwd())
    config = manager.load_project_config(root, for_sdk=False)
    sources = _sources(root, manager.is_trusted, screen)
    command = [_claude(), *_claude_options(options), *sources]
    record = partial(record_callback, root=config.root, warn=screen.warn)
    hooks = HookManager(config.root, environ, screen.warn, record=record)
    return Headless(config, hooks, screen, path, environ, lock.add), command


def _run_of_agent(
    options: Namespace, screen: Screen, path: str, lock: RunLock
) -> tuple[AgentRun, list[str]]:
    """The same of another agent, which is told all by the protocol."""
    if not options.agent or options.resume_last or options.resume or options.model:
        said = msg("--agent takes a command, and no --continue, --resume or --model")
        raise UsageError(said, "--agent 'qwen --acp'")
    environ, mode = {**os.environ, RUN_VARIABLE: lock.word}, options.permission_mode
    run = AcpRun(screen, path, environ, os.getcwd(), lock.add, mode or "")
    return run, options.agent


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
    """Our arguments, and those after `--`, which are the agent's."""
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
    add("--agent", type=shlex.split)
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
