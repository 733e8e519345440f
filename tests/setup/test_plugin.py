"""The plugin's folder, who asks beside settings, and what is told of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from feishuperm.commands import plugin as command
from feishuperm.commands.hook import handle
from feishuperm.commands.install import parser
from feishuperm.errors import FeishupermError
from feishuperm.models.settings import Settings
from feishuperm.setup import plugin
from feishuperm.setup.install import Install
from feishuperm.setup.steps import Manifest
from tests.setup.conftest import run
from tests.setup.patient import Patient, fixes, states

LINK = "/opt/fei shu/feishuperm-hook"
ENABLED = {"enabledPlugins": {plugin.ID: True}}


def hooks(command: str, matcher: str = "*") -> dict[str, Any]:
    entry = {"type": "command", "command": command}
    return {"hooks": {"PermissionRequest": [{"matcher": matcher, "hooks": [entry]}]}}


def installed(environ: dict[str, str]) -> Manifest:
    """A manifest with a program, whose hook can be started."""
    link = Path(environ["HOME"], "bin/feishuperm-hook")
    link.parent.mkdir(exist_ok=True)
    link.write_text("#!/bin/sh\n")
    link.chmod(0o755)
    manifest = Manifest(environ)
    manifest.open()
    manifest.save("program", {"links": [str(link)]})
    return manifest


def test_folder_is_printed_alone_and_kept_up_to_date(
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "environ", environ)
    installed(environ)
    assert command.main([]) == 0
    folder = capsys.readouterr().out
    assert folder == f"{plugin.folder(environ)}\n"
    hook = Path(folder.strip(), "feishuperm/hooks/hooks.json")
    before = hook.read_bytes()
    stamp = hook.stat().st_mtime_ns
    assert command.main([]) == 0
    assert hook.stat().st_mtime_ns == stamp  # nothing is written again
    assert (capsys.readouterr().out, hook.read_bytes()) == (folder, before)
    environ["PERMISSION_REQUEST_TIMEOUT"] = "600"
    assert command.main([]) == 0
    assert b'"timeout": 605' in hook.read_bytes()


def test_file_that_somebody_changed_is_kept_and_the_folder_printed(
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "environ", environ)
    installed(environ)
    foreign = Path(plugin.folder(environ), ".claude-plugin/marketplace.json")
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    assert command.main([]) == 0
    said = capsys.readouterr()
    assert said.out.count("\n") == 1 and "is kept" in said.err
    assert foreign.read_text() == "mine"


def test_without_an_installed_program_there_is_no_folder(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", environ)
    with pytest.raises(FeishupermError, match="not installed"):
        command.main([])
    assert not os.path.exists(plugin.folder(environ))


def test_files_are_json_and_call_the_program_quoted_and_guarded(
    environ: dict[str, str],
) -> None:
    step = plugin.step(Manifest(environ), LINK, Settings({}))
    values = [json.loads(data) for data in step.files.values()]
    assert "VERSION" not in str(values) and "SECONDS" not in str(values)
    [entry] = values[2]["hooks"]["PermissionRequest"][0]["hooks"]
    guarded = f"command -v '{LINK}' >/dev/null 2>&1 && '{LINK}' plugin || true"
    assert entry == {"type": "command", "command": guarded, "timeout": 60}


HOOK = "{home}/bin/feishuperm-hook"
SILENT = {
    "the same hook": hooks(HOOK),
    "guarded": hooks(f"command -v {HOOK} >/dev/null 2>&1 && {HOOK} || true"),
    "every tool by a pattern": hooks(HOOK, ".*"),
    "for this tool": hooks(HOOK, "Edit|Write"),
}
ASKS = {
    "nothing": {},
    "another's hook": hooks("other-program"),
    "for other tools": hooks(HOOK, "Bash"),
    "for one purpose": hooks(f"{HOOK} denied"),
    "another event": {"hooks": {"Stop": hooks(HOOK)["hooks"]["PermissionRequest"]}},
    "a program that is not here": hooks(
        "command -v feishuperm-hook >/dev/null 2>&1 && feishuperm-hook || true"
    ),
}


@pytest.mark.parametrize(
    ("value", "is_silent"),
    [(x, True) for x in SILENT.values()] + [(x, False) for x in ASKS.values()],
    ids=[*SILENT, *ASKS],
)
@pytest.mark.parametrize("where", ["settings.json", "settings.local.json", "home"])
def test_plugin_is_silent_where_settings_ask(
    environ: dict[str, str], where: str, value: dict[str, Any], is_silent: bool
) -> None:
    installed(environ)
    project = Path(environ["HOME"], "project")
    environ.update(CLAUDE_PROJECT_DIR=str(project), PATH="/nowhere")
    home = where == "home"
    folder = (Path(environ["HOME"]) if home else project) / ".claude"
    folder.mkdir(parents=True)
    text = json.dumps(value).replace("{home}", environ["HOME"])
    (folder / ("settings.json" if home else where)).write_text(text)
    assert plugin.settings_ask(environ, "Edit") is is_silent


@pytest.mark.parametrize("data", [b"{", b"\xff", b'{"hooks": []}', b'{"hooks": 1}'])
def test_settings_that_cannot_be_read_ask_nobody(
    environ: dict[str, str], data: bytes
) -> None:
    path = Path(environ["HOME"], ".claude/settings.json")
    path.parent.mkdir()
    path.write_bytes(data)
    assert not plugin.settings_ask(environ, "Edit")


def test_hook_of_the_plugin_prints_nothing_where_settings_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugin, "settings_ask", lambda *_: True)
    assert handle(b"{}", "1-x", "event", "plugin") == b""


@pytest.mark.parametrize(
    ("texts", "enabled"),
    [
        ([], False),
        (['{"enabledPlugins": {"feishuperm@feishuperm": true}}'], True),
        (['{"enabledPlugins": {"other@feishuperm": true}}'], False),
        (['{"enabledPlugins": {"feishuperm@feishuperm": true}}', "{}"], True),
        (
            [
                '{"enabledPlugins": {"feishuperm@feishuperm": true}}',
                '{"enabledPlugins": {"feishuperm@feishuperm": false}}',
            ],
            False,
        ),
        (['{"enabledPlugins": []}'], False),
        (['{"enabledPlugins": {"feishuperm@feishuperm": "yes"}}'], False),
    ],
)
def test_plugin_is_enabled_by_the_strongest_settings(
    texts: list[str], enabled: bool
) -> None:
    assert plugin.is_enabled(texts) is enabled


# With install, doctor and uninstall.


def with_plugin(environ: dict[str, str], settings: dict[str, Any]) -> Manifest:
    manifest = installed(environ)
    run(plugin.step(manifest, manifest.record("program")["links"][0], Settings({})))
    path = Path(environ["HOME"], ".claude/settings.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(settings))
    return manifest


@pytest.mark.parametrize(
    ("settings", "args", "events"),
    [
        (ENABLED, [], []),
        (ENABLED, ["--events", "denied"], ["PermissionDenied", "PreToolUse"]),
        ({}, [], ["PermissionRequest"]),
        ({**ENABLED, **hooks("/x/feishuperm-hook")}, [], ["PermissionRequest"]),
    ],
)
def test_install_registers_nothing_that_the_plugin_asks(
    environ: dict[str, str],
    settings: dict[str, Any],
    args: list[str],
    events: list[str],
) -> None:
    with_plugin(environ, settings)
    install = Install(parser().parse_args(args), environ)
    assert [row.event for row, _ in install.hooks(Settings({}))] == events
    said = any("nothing is registered twice" in note for note in install.notes())
    assert said == ("PermissionRequest" not in events)


def test_install_keeps_the_plugins_files_up_to_date(environ: dict[str, str]) -> None:
    with_plugin(environ, ENABLED)
    install = Install(parser().parse_args(["--prefix", "/new"]), environ)
    assert plugin.step(
        install.manifest, install.link("feishuperm-hook"), Settings({})
    ).changes() == [
        f"write {plugin.folder(environ)}/feishuperm/hooks/hooks.json",
    ]


def test_doctor_says_which_one_asks(patient: Patient) -> None:
    patient.settings_value.update(ENABLED)
    patient.write_settings()
    assert fixes(patient, "hooks") == ["feishuperm plugin; feishuperm install"]
    manifest = Manifest(patient.environ)
    link = str(patient.home / "feishuperm-hook")
    run(plugin.step(manifest, link, Settings({})))
    rows = [text for _, text, _ in patient.examine("hooks")]
    assert "is silent: settings ask" in rows[0] and "claude plugin uninstall" in rows[0]
    del patient.settings_value["hooks"]
    patient.write_settings()
    assert states(patient, "hooks") == "ok"
    [row] = patient.examine("hooks")
    assert row[1] == f"the plugin {plugin.ID} asks"


@pytest.mark.parametrize("settings", [{}, ENABLED])
def test_uninstall_says_how_claude_code_forgets_the_plugin(
    environ: dict[str, str], settings: dict[str, Any]
) -> None:
    manifest = with_plugin(environ, settings)
    rows = plugin.undo(manifest.record("plugin"), environ)
    assert (f"Claude Code still names the plugin: {plugin.REMOVE}" in rows) == bool(
        settings
    )
    assert not os.path.exists(plugin.folder(environ))
