"""What install changes can be undone, whatever the user's files look like."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.lib import settings_editor as editor
from feishuperm.setup import installer, service_unit
from feishuperm.setup.installer import (
    CommandsStep,
    ConfigStep,
    Manifest,
    ProgramStep,
    ServiceStep,
    SettingsStep,
    Step,
    interpreter,
    purge_config,
    registrations,
    undo_commands,
    undo_program,
    undo_settings,
)
from feishuperm.setup.service_unit import BackgroundService, SystemdService

COMMAND = "/opt/feishuperm-hook"


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of small files need not reach the disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A user with an empty home."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return {"HOME": str(home)}


def settings_step(
    path: Path, manifest: Manifest, timeout: int = 55, **wishes: Any
) -> SettingsStep:
    values = wishes.pop("values", {})
    rows = registrations(timeout, **wishes)
    hooks = [(row, f"/opt/{row.program}") for row in rows]
    record = manifest.records.get(f"settings:{path}", {})
    return SettingsStep(record, str(path), manifest.folder, hooks, values)


def run(step: Step, manifest: Manifest) -> None:
    manifest.open()
    step.changes()
    step.apply(lambda record: manifest.save(step.name, record))


def undo(manifest: Manifest, path: Path) -> list[str]:
    return undo_settings(manifest.records[f"settings:{path}"])


# Two hundred settings files.


def random_settings(source: random.Random) -> bytes:
    """The bytes of a settings file as some person or program may have left it."""
    value: dict[str, Any] = {}
    for key in source.sample(("model", "env", "permissions", "theme", "中文", "x"), 3):
        value[key] = random_value(source, 3)
    if source.random() < 0.7:
        value["hooks"] = random_hooks(source)
    keys = list(value)
    source.shuffle(keys)
    value = {key: value[key] for key in keys}
    indent = source.choice([None, 0, 1, 2, 3, 4, 8, "\t"])
    separators = source.choice([None, (",", ":"), (" , ", " : ")])
    text = json.dumps(
        value,
        indent=indent,
        separators=separators,
        ensure_ascii=source.random() < 0.5,
    )
    for change in source.sample(SPOILERS, source.randint(0, 2)):
        text = change(text, source)
    data = text.encode()
    if source.random() < 0.2:
        data = b"\xef\xbb\xbf" + data
    return data + source.choice([b"", b"\n", b"\r\n", b"\n\n", b"  \n"])


def random_value(source: random.Random, depth: int) -> Any:
    kinds = ["text", "number", "flag", "null"] + ["object", "list"] * (depth > 0)
    kind = source.choice(kinds)
    if kind == "object":
        return {f"k{n}": random_value(source, depth - 1) for n in range(3)}
    if kind == "list":
        return [random_value(source, depth - 1) for _ in range(source.randint(0, 3))]
    texts = ["a{b}[c],d", 'quote " and \\', "// no comment", "", "\u2028", "\x7f"]
    leaves = {"number": 1.5, "flag": True, "null": None}
    return source.choice(texts) if kind == "text" else leaves[kind]


def random_hooks(source: random.Random) -> Any:
    entry = {"type": "command", "command": source.choice(["true", "it's", "a b"])}
    odd: list[Any] = [
        {"PermissionRequest": [{"matcher": "*", "hooks": [entry]}]},
        {"PermissionRequest": [], "Stop": [{"hooks": [entry, entry]}]},
        {"PermissionRequest": [{"hooks": []}, {}, None, 1]},
        {"Stop": "wrong", "Notification": None},
        {"PermissionRequest": [{"matcher": 3, "hooks": entry}]},
        {"PermissionRequest": {"hooks": [entry]}},
        {},
        [],
        None,
        "hooks",
    ]
    return source.choice(odd)


def _windows(text: str, source: random.Random) -> str:
    return text.replace("\n", "\r\n")


def _comment(text: str, source: random.Random) -> str:
    return text.replace("{", "{ // mine\n", 1)


def _duplicate(text: str, source: random.Random) -> str:
    return text.replace("{", '{"twice": 1, "twice": {"hooks": []}, ', 1)


def _hooks_twice(text: str, source: random.Random) -> str:
    return text.replace("{", '{"hooks": {"Stop": []}, ', 1)


def _cut(text: str, source: random.Random) -> str:
    return text[: source.randint(0, len(text))]


def _huge(text: str, source: random.Random) -> str:
    return text.replace("{", '{"huge": "' + "x" * 300_000 + '", ', 1)


def _empty(text: str, source: random.Random) -> str:
    return source.choice(["", " \n", "{}", "{ }", "{\n}"])


def _wrong(text: str, source: random.Random) -> str:
    return source.choice(["[]", "null", "3", '"text"', "{}{}", "NaN", "not JSON"])


SPOILERS: list[Callable[[str, random.Random], str]] = [
    _windows, _comment, _duplicate, _hooks_twice, _cut, _huge, _empty, _wrong
]  # fmt: skip


def place(folder: Path, data: bytes, source: random.Random) -> Path:
    """The file, or a link to it, perhaps read-only."""
    path = folder / "settings.json"
    kind = source.choice(["plain"] * 6 + ["link", "read-only", "read-only folder"])
    target = path
    if kind == "link":
        (folder / "elsewhere").mkdir()
        target = folder / "elsewhere" / "mine.json"
        path.symlink_to(target)
    target.write_bytes(data)
    target.chmod(source.choice([0o600, 0o644, 0o640]))
    if kind == "read-only":
        target.chmod(0o444)
    if kind == "read-only folder":
        folder.chmod(0o555)
    return path


@pytest.mark.parametrize("block", range(8))
def test_two_hundred_settings_files_come_back_byte_for_byte_or_stay_untouched(
    tmp_path: Path, environ: dict[str, str], block: int
) -> None:
    outcomes = {"changed": 0, "refused": 0}
    for number in range(block * 25, block * 25 + 25):
        source = random.Random(number)
        folder = tmp_path / f"claude{number}"
        folder.mkdir()
        data = random_settings(source)
        path = place(folder, data, source)
        mode = path.stat().st_mode
        manifest = Manifest(environ)
        try:
            run(settings_step(path, manifest), manifest)
        except FeishupermError as error:
            assert str(path) in str(error)
            outcomes["refused"] += 1
        else:
            assert len(editor.find_hooks(editor.decode(path.read_bytes()))) == 1
            assert settings_step(path, manifest).changes() == []
            undo(manifest, path)
            outcomes["changed"] += 1
        assert path.read_bytes() == data, number
        assert path.stat().st_mode == mode
        folder.chmod(0o755)
        assert not [name for name in os.listdir(folder) if name.startswith(".feishu")]
    assert min(outcomes.values()) >= 3, outcomes


def test_random_files_cover_every_spoiler() -> None:
    """Guards the generator: a table of cases nobody draws proves nothing."""
    texts = b"\0".join(random_settings(random.Random(n)) for n in range(200))
    for sign in (b"\xef\xbb\xbf", b"\r\n", b"// mine", b'"twice"', b"xxxxxx", b"\t"):
        assert sign in texts


# Other people's changes.


def test_file_that_others_changed_loses_exactly_our_entries(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{\n    "model": "opus",\n    "hooks": {}\n}\n')
    manifest = Manifest(environ)
    run(settings_step(path, manifest), manifest)
    path.write_text(path.read_text().replace('"opus"', '"haiku"'))
    assert undo(manifest, path) == [f"removed our hooks from {path}"]
    assert path.read_text() == '{\n    "model": "haiku",\n    "hooks": {}\n}\n'


def test_install_again_after_others_changed_it_still_comes_back(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"model": "opus"}')
    manifest = Manifest(environ)
    run(settings_step(path, manifest), manifest)
    path.write_text(path.read_text().replace('"opus"', '"haiku"'))
    run(settings_step(path, manifest, timeout=90), manifest)
    undo(manifest, path)
    assert path.read_text() == '{"model": "haiku"}'


def test_second_install_with_more_events_comes_back_to_the_first_file(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "settings.json"
    before = '{ "model" : "opus" }'
    path.write_text(before)
    manifest = Manifest(environ)
    run(settings_step(path, manifest), manifest)
    run(settings_step(path, manifest, events=["Stop"], supervisor=True), manifest)
    assert len(editor.find_hooks(path.read_text())) == 4
    undo(manifest, path)
    assert path.read_text() == before


def test_file_we_made_is_removed_with_its_folder(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "project" / ".claude" / "settings.json"
    manifest = Manifest(environ)
    run(settings_step(path, manifest), manifest)
    assert path.exists()
    undo(manifest, path)
    assert not (tmp_path / "project").exists()


def test_broken_file_is_left_alone_by_uninstall(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "settings.json"
    manifest = Manifest(environ)
    run(settings_step(path, manifest), manifest)
    path.write_text(path.read_text() + "oops")
    before = path.read_bytes()
    with pytest.raises(FeishupermError, match="left as it is"):
        undo(manifest, path)
    assert path.read_bytes() == before


def test_mode_is_set_when_asked_and_goes_back_to_what_it_was(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"permissions": {"defaultMode": "auto"}, "x": 1}')
    manifest = Manifest(environ)
    mode = {("permissions", "defaultMode"): "default"}
    run(settings_step(path, manifest, values=mode), manifest)
    assert installer.permission_mode(str(path)) == "default"
    path.write_text(path.read_text().replace('"x": 1', '"x": 2'))
    undo(manifest, path)
    assert path.read_text() == '{"permissions": {"defaultMode": "auto"}, "x": 2}'


def test_value_that_somebody_set_is_not_replaced_when_only_wanted_if_absent(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"env": {"CAP": "3"}}')
    manifest = Manifest(environ)
    absent = {("env", "CAP"): "20", ("env", "OTHER"): "1"}
    step = SettingsStep({}, str(path), manifest.folder, [], {}, absent)
    run(step, manifest)
    assert json.loads(path.read_text())["env"] == {"CAP": "3", "OTHER": "1"}


def test_foreign_call_of_our_program_is_kept_and_comes_back_byte_for_byte(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "settings.json"
    entries = [
        {"type": "command", "command": command}
        for command in (
            "/usr/local/bin/permission-notify --sound ding",
            "feishuperm-hook || notify-send failed",
            "FEISHUPERM_LANG=en /opt/feishuperm-hook",
        )
    ]
    before = json.dumps({"hooks": {"PermissionRequest": [{"hooks": entries}]}})
    path.write_text(before)
    manifest = Manifest(environ)
    run(settings_step(path, manifest), manifest)
    after = json.loads(path.read_text())["hooks"]["PermissionRequest"]
    assert after[0] == {"hooks": entries} and len(after) == 2
    record = manifest.records[f"settings:{path}"]
    assert Path(record["backup"]).read_text() == before
    undo(manifest, path)
    assert path.read_text() == before


@pytest.mark.parametrize("recorded", ["program", "settings"])
def test_entry_of_an_earlier_prefix_is_moved_not_doubled(
    tmp_path: Path, environ: dict[str, str], recorded: str
) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"model": "opus"}')
    manifest = Manifest(environ)
    run(settings_step(path, manifest), manifest)
    record = dict(manifest.records[f"settings:{path}"])
    own = ["/opt/feishuperm-hook"] if recorded == "program" else []
    if own:  # as an older version left it
        del record["commands"]
    hooks = [(registrations(55)[0], "/new/feishuperm-hook")]
    step = SettingsStep(record, str(path), manifest.folder, hooks, {}, own=own)
    run(step, manifest)
    [hook] = editor.find_hooks(path.read_text())
    assert hook.entry["command"] == "/new/feishuperm-hook"
    path.write_text(path.read_text().replace("opus", "haiku"))
    undo(manifest, path)
    assert path.read_text() == '{"model": "haiku"}'


def test_only_the_links_that_install_registers_are_its_commands() -> None:
    links = [f"/a b/bin/{name}" for name in installer.LINKS]
    found = installer.own_commands({"links": links})
    assert found == ["'/a b/bin/feishuperm-hook'", "'/a b/bin/feishuperm-supervisor'"]


# Killed.


def _killing(calls: int) -> Iterator[None]:
    """Let `calls` system calls that change files pass, then end the process."""
    left = calls

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            if left == 0:
                os._exit(9)
            left -= 1
            return function(*args, **kwargs)

        return wrapped

    for name in ("open", "write", "rename", "replace", "unlink", "mkdir", "symlink"):
        setattr(os, name, wrap(getattr(os, name)))
    yield


def in_child(work: Callable[[], None], calls: int) -> bool:
    """Run in a process that dies after so many calls; whether it came to its end."""
    pid = os.fork()
    if pid == 0:
        try:
            for _ in _killing(calls):
                work()
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 9)
    return code == 0


def test_killed_install_leaves_the_old_or_the_new_file_and_can_be_undone(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    old = b'{\r\n\t"model": "opus"\r\n}'
    new = editor.put_hook(old.decode(), "PermissionRequest", "*", COMMAND, 60).encode()
    for calls in range(200):
        path = tmp_path / f"{calls}.json"
        path.write_bytes(old)

        def install(path: Path = path) -> None:
            manifest = Manifest(environ)
            run(settings_step(path, manifest), manifest)

        done = in_child(install, calls)
        assert path.read_bytes() in (old, new)
        record = Manifest(environ).records.get(f"settings:{path}")
        if record:
            undo_settings(record)
        assert path.read_bytes() == old
        if done:
            break
    assert 5 < calls < 199


def test_killed_uninstall_leaves_the_old_or_the_new_file(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    old = b'{"model": "opus"}\n'
    for calls in range(50):
        path = tmp_path / f"{calls}.json"
        path.write_bytes(old)
        manifest = Manifest(environ)
        run(settings_step(path, manifest), manifest)
        new = path.read_bytes()
        record = manifest.records[f"settings:{path}"]

        def uninstall(record: dict[str, Any] = record) -> None:
            undo_settings(record)

        done = in_child(uninstall, calls)
        assert path.read_bytes() == old if done else path.read_bytes() in (old, new)
        undo_settings(record)
        assert path.read_bytes() == old
        if done:
            break
    assert 1 < calls < 49


# The other steps.


def program_step(
    tmp_path: Path, environ: dict[str, str], manifest: Manifest, data: bytes = b"one"
) -> ProgramStep:
    source = tmp_path / "built.pyz"
    source.write_bytes(data)
    record = manifest.records.get("program", {})
    prefix = str(tmp_path / "prefix")
    pin = installer.pin_path(environ)
    return ProgramStep(record, str(source), prefix, sys.executable, pin)


def test_program_is_placed_linked_pinned_and_removed(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    manifest = Manifest(environ)
    step = program_step(tmp_path, environ, manifest)
    run(step, manifest)
    archive = tmp_path / "prefix/share/feishuperm/feishuperm.pyz"
    assert archive.read_bytes() == b"one" and archive.stat().st_mode & 0o777 == 0o755
    for name in installer.LINKS:
        assert os.path.realpath(tmp_path / "prefix/bin" / name) == str(archive)
    pin = Path(installer.pin_path(environ))
    assert pin.read_text() == f"{sys.executable}\n"
    again = program_step(tmp_path, environ, Manifest(environ))
    assert again.changes() == []
    undo_program(manifest.records["program"])
    assert not (tmp_path / "prefix").exists() and not pin.exists()


def test_new_version_replaces_the_archive_as_a_whole(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    manifest = Manifest(environ)
    run(program_step(tmp_path, environ, manifest), manifest)
    archive = tmp_path / "prefix/share/feishuperm/feishuperm.pyz"
    running = archive.open("rb")  # a server keeps its old file
    run(program_step(tmp_path, environ, manifest, b"two"), manifest)
    with running:
        assert (running.read(), archive.read_bytes()) == (b"one", b"two")


def test_other_prefix_takes_the_old_program_away(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    manifest = Manifest(environ)
    run(program_step(tmp_path, environ, manifest), manifest)
    old = tmp_path / "prefix"
    source = str(old / "share/feishuperm/feishuperm.pyz")
    pin = installer.pin_path(environ)
    new = str(tmp_path / "new")
    record = manifest.records["program"]
    step = ProgramStep(record, source, new, sys.executable, pin)
    assert f"remove {source}" in step.changes()
    run(step, manifest)
    assert not old.exists() and os.path.exists(pin)
    assert Path(new, "bin/feishuperm").read_bytes() == b"one"
    assert manifest.records["program"]["prefix"] == new
    undo_program(manifest.records["program"])
    assert not os.path.exists(new) and not os.path.exists(pin)


def test_installed_archive_that_somebody_changed_is_refused_until_it_is_replaced(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    manifest = Manifest(environ)
    step = program_step(tmp_path, environ, manifest)
    run(step, manifest)
    with open(step.archive, "ab") as file:
        file.write(b"evil")
    record = dict(manifest.records["program"])
    pin = installer.pin_path(environ)
    again = ProgramStep(record, step.archive, step.prefix, sys.executable, pin)
    with pytest.raises(FeishupermError, match="not the file that was installed") as why:
        again.changes()
    assert "install.sh" in why.value.hint
    assert manifest.records["program"] == record
    run(program_step(tmp_path, environ, manifest, b"two"), manifest)
    assert Path(step.archive).read_bytes() == b"two"


def test_foreign_file_under_our_name_is_refused_before_anything_changes(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    mine = tmp_path / "prefix/bin/feishuperm"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    manifest = Manifest(environ)
    with pytest.raises(FeishupermError, match="is not ours"):
        run(program_step(tmp_path, environ, manifest), manifest)
    assert mine.read_text() == "mine"
    assert not (tmp_path / "prefix/share").exists()


def test_config_keeps_comments_and_other_keys_and_is_private(
    environ: dict[str, str],
) -> None:
    folder = Path(environ["HOME"], ".config/feishuperm")
    folder.mkdir(parents=True)
    path = folder / "config.env"
    path.write_text("# mine\nFEISHUPERM_LANG=en\n")
    manifest = Manifest(environ)
    run(ConfigStep({}, environ, {"CALLBACK_SERVER_PORT": "9"}), manifest)
    assert path.read_text() == "# mine\nFEISHUPERM_LANG=en\nCALLBACK_SERVER_PORT=9\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert ConfigStep({}, environ, {"CALLBACK_SERVER_PORT": "9"}).changes() == []


@pytest.mark.parametrize("existed", [True, False])
def test_purge_takes_only_our_keys_from_a_file_that_was_there_before(
    tmp_path: Path, environ: dict[str, str], existed: bool
) -> None:
    path = tmp_path / "team.env"
    if existed:
        path.write_text("# mine\nFEISHUPERM_LANG=en\n")
    environ = {**environ, "FEISHUPERM_CONFIG": str(path)}
    manifest = Manifest(environ)
    for wanted in ({"FEISHUPERM_LANG": "zh"}, {"CALLBACK_SERVER_PORT": "9"}, {}):
        run(ConfigStep(manifest.records.get("config", {}), environ, wanted), manifest)
    assert "CALLBACK_SERVER_PORT=9" in path.read_text()
    purge_config(manifest.records["config"])
    if existed:
        assert path.read_text() == "# mine\nFEISHUPERM_LANG=zh\n"
    assert path.exists() == existed


def test_home_that_cannot_be_written_is_one_line(environ: dict[str, str]) -> None:
    Path(environ["HOME"], ".local").write_text("a file where a folder should be")
    with pytest.raises(FeishupermError, match=r"cannot make .*\.local"):
        Manifest(environ).open()


def test_slash_command_that_somebody_changed_stays(environ: dict[str, str]) -> None:
    manifest = Manifest(environ)
    texts = {"a.md": "one\n", "b.md": "two\n"}
    run(CommandsStep({}, environ, texts), manifest)
    folder = Path(environ["HOME"], ".claude/commands")
    (folder / "b.md").write_text("mine")
    undo_commands(manifest.records["commands"])
    assert [path.name for path in folder.iterdir()] == ["b.md"]


def test_slash_command_of_another_is_not_replaced(environ: dict[str, str]) -> None:
    folder = Path(environ["HOME"], ".claude/commands")
    folder.mkdir(parents=True)
    (folder / "a.md").write_text("theirs")
    step = CommandsStep({}, environ, {"a.md": "ours"})
    assert step.changes() == []


def test_service_step_is_silent_the_second_time(environ: dict[str, str]) -> None:
    manifest = Manifest(environ)
    service = BackgroundService("/opt/feishuperm", environ)
    run(ServiceStep({}, service, "/s"), manifest)
    assert ServiceStep(manifest.records["service"], service, "/s").changes() == []


def test_server_of_before_is_undone_when_its_kind_or_socket_changes(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[tuple[str, str]] = []
    monkeypatch.setattr(
        installer,
        "stop_service",
        lambda service, socket: stopped.append((service.kind, socket)),
    )
    manifest = Manifest(environ)
    systemd = SystemdService("/opt/feishuperm", environ, lambda command: 0)
    run(ServiceStep({}, systemd, "/old"), manifest)
    unit = Path(systemd.path)
    assert unit.exists() and stopped == []
    background = BackgroundService("/opt/feishuperm", environ)
    monkeypatch.setattr(service_unit, "run_quietly", lambda command: 0)
    for socket in ("/old", "/new"):
        step = ServiceStep(manifest.records["service"], background, socket)
        assert step.changes() == ["keep the server running (background)"]
        run(step, manifest)
    assert not unit.exists()
    assert stopped == [("systemd", "/old"), ("background", "/old")]
    assert manifest.records["service"]["socket"] == "/new"


def test_registrations_outlast_our_own_wait() -> None:
    """Scenario: PermissionRequest Hook 配置"""
    rows = registrations(55, ["Stop", "PermissionRequest"], True, 30, 300)
    found = {(row.event, row.program): (row.matcher, row.timeout) for row in rows}
    assert found == {
        ("PermissionRequest", "feishuperm-hook"): ("*", 60),
        ("Stop", "feishuperm-hook"): ("", 70),
        ("Stop", "feishuperm-supervisor"): ("", 310),
        ("PreToolUse", "feishuperm-supervisor"): ("AskUserQuestion", 40),
    }


# The interpreter.


def test_ordinary_python_is_pinned_as_it_is(tmp_path: Path) -> None:
    assert interpreter("/usr/bin/python3") == ("/usr/bin/python3", "")


def test_base_of_a_virtual_environment_is_pinned_and_said(tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python3"
    python.parent.mkdir(parents=True)
    base = os.path.realpath(sys.executable)
    python.symlink_to(base)
    (tmp_path / "venv/pyvenv.cfg").write_text(f"home = {os.path.dirname(base)}\n")
    pinned, note = interpreter(str(python))
    assert pinned == base
    assert str(python) in note and base in note


def test_virtual_environment_without_base_is_pinned_with_a_warning(
    tmp_path: Path,
) -> None:
    python = tmp_path / "venv/bin/python3"
    python.parent.mkdir(parents=True)
    python.write_text("")
    (tmp_path / "venv/pyvenv.cfg").write_text("home = /nowhere\n")
    pinned, note = interpreter(str(python))
    assert pinned == str(python)
    assert "must not be removed" in note
