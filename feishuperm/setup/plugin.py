"""The Claude Code plugin: a second entrance for the hook that `install` registers.

`feishuperm plugin` keeps a folder up to date that is a marketplace with one plugin,
whose hook calls the installed program.  Claude Code runs a plugin's hook beside the
same hook in its settings, so this one says who it is (`feishuperm-hook plugin`) and is
silent while settings ask.  A plugin can bring no server, no secrets and no rules about
what to ask: those stay with `install`.

    settings have our hook  plugin enabled   who asks
    yes                     no, yes          the settings' hook
    no                      yes              the plugin's
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping

from feishuperm.lib.config import claude_settings, managed_settings, state_dir
from feishuperm.messages import msg
from feishuperm.models.hooks import matches
from feishuperm.models.names import HOOK_PROGRAM
from feishuperm.models.settings import Settings
from feishuperm.setup import claude_settings as claude
from feishuperm.setup.steps import FilesStep, Manifest, Record, own_file, undo_files
from feishuperm.wire import PLUGIN

NAME = "feishuperm"
ID = f"{NAME}@{NAME}"  # the plugin, and the marketplace that it is in
PLACES = {  # where each file of it goes
    "marketplace.json": ".claude-plugin",
    "plugin.json": f"{NAME}/.claude-plugin",
    "hooks.json": f"{NAME}/hooks",
}
REMOVE = f"claude plugin uninstall {ID} && claude plugin marketplace remove {NAME}"


def folder(environ: Mapping[str, str]) -> str:
    return os.path.abspath(os.path.join(state_dir(environ), "plugin"))


def step(manifest: Manifest, link: str, settings: Settings) -> FilesStep:
    """What makes the plugin's files."""
    command = claude.guarded(shlex.quote(link), PLUGIN)
    seconds, top = claude.hook_seconds(settings), folder(manifest.environ)
    files = {
        os.path.join(top, place, name): own_file(
            f"setup/claude_plugin/{name}", command, seconds
        )
        for name, place in PLACES.items()
    }
    return FilesStep(manifest, PLUGIN, files)


def is_enabled(texts: Iterable[str]) -> bool:
    """Whether settings, the strongest last, enable the plugin."""
    values = [claude.value_in(text, ("enabledPlugins", ID)) for text in texts]
    return ([False] + [value for value in values if isinstance(value, bool)])[-1]


def undo(record: Record, environ: Mapping[str, str]) -> list[str]:
    """Remove the files; how Claude Code forgets them."""
    rows = undo_files(record)
    path = claude_settings("", environ)["userSettings"]
    if is_enabled([claude.settings_text(path)]):
        rows.append(msg("Claude Code still names the plugin: {}", REMOVE))
    return rows


def settings_ask(environ: Mapping[str, str], tool: str) -> bool:
    """Whether a hook in settings that Claude Code reads will ask for a call."""
    project = environ.get("CLAUDE_PROJECT_DIR", "")
    paths = [*claude_settings(project, environ).values(), *managed_settings()]
    return any(
        hook.program == HOOK_PROGRAM
        and (hook.event, claude.kind_in(hook.entry["command"]))
        == ("PermissionRequest", "")
        and matches(hook.matcher, tool)
        and not claude.missing_program(hook.entry["command"], environ)
        for path in paths
        for hook in claude.find_hooks(claude.settings_text(path))
    )
