"""Claude Code's settings come back, whatever they look like."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.lib import settings_editor as editor
from feishuperm.setup.claude_settings import (
    ClaudeStep,
    find_hooks,
    permission_mode,
    put_hook,
    registrations,
    undo_claude,
)
from feishuperm.setup.steps import FilesStep, Manifest, undo_files
from tests.setup.conftest import run
from tests.tables import full

COMMAND = "/opt/feishuperm-hook"


def settings_step(
    path: Path, manifest: Manifest, timeout: int = 55, **wishes: Any
) -> ClaudeStep:
    values = wishes.pop("values", {})
    rows = registrations(timeout, **wishes)
    hooks = [(row, f"/opt/{row.program}") for row in rows]
    return ClaudeStep(manifest, str(path), hooks, values)


def undo(manifest: Manifest, path: Path) -> list[str]:
    return undo_claude(manifest.records[f"settings:{path}"])


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


@pytest.mark.parametrize("block", [0, *full(range(1, 8))])
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
            run(settings_step(path, manifest))
        except FeishupermError as error:
            assert str(path) in str(error)
            outcomes["refused"] += 1
        else:
            assert len(find_hooks(editor.decode(path.read_bytes()))) == 1
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
    run(settings_step(path, manifest))
    path.write_text(path.read_text().replace('"opus"', '"haiku"'))
    assert undo(manifest, path) == [f"removed feishuperm's hooks from {path}"]
    assert path.read_text() == '{\n    "model": "haiku",\n    "hooks": {}\n}\n'


def test_install_again_after_others_changed_it_still_comes_back(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"model": "opus"}')
    manifest = Manifest(environ)
    run(settings_step(path, manifest))
    path.write_text(path.read_text().replace('"opus"', '"haiku"'))
    run(settings_step(path, manifest, timeout=90))
    undo(manifest, path)
    assert path.read_text() == '{"model": "haiku"}'


def test_second_install_with_more_events_comes_back_to_the_first_file(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "settings.json"
    before = '{ "model" : "opus" }'
    path.write_text(before)
    manifest = Manifest(environ)
    run(settings_step(path, manifest))
    run(settings_step(path, manifest, events=["Stop"], supervisor=True))
    assert len(find_hooks(path.read_text())) == 4
    undo(manifest, path)
    assert path.read_text() == before


def test_file_we_made_is_removed_with_its_folder(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "project" / ".claude" / "settings.json"
    manifest = Manifest(environ)
    run(settings_step(path, manifest))
    assert path.exists()
    undo(manifest, path)
    assert not (tmp_path / "project").exists()


def test_broken_file_is_left_alone_by_uninstall(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    path = tmp_path / "settings.json"
    manifest = Manifest(environ)
    run(settings_step(path, manifest))
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
    run(settings_step(path, manifest, values=mode))
    assert permission_mode(str(path)) == "default"
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
    run(ClaudeStep(manifest, str(path), [], absent=absent))
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
    run(settings_step(path, manifest))
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
    run(settings_step(path, manifest))
    if recorded == "program":  # as an older version left it
        manifest.records["program"] = {"links": ["/opt/feishuperm-hook"]}
        del manifest.records[f"settings:{path}"]["commands"]
    hooks = [(registrations(55)[0], "/new/feishuperm-hook")]
    run(ClaudeStep(manifest, str(path), hooks))
    [hook] = find_hooks(path.read_text())
    assert hook.entry["command"] == "/new/feishuperm-hook"
    path.write_text(path.read_text().replace("opus", "haiku"))
    undo(manifest, path)
    assert path.read_text() == '{"model": "haiku"}'


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
    new = put_hook(old.decode(), registrations(55)[0], COMMAND).encode()
    for calls in range(200):
        path = tmp_path / f"{calls}.json"
        path.write_bytes(old)

        def install(path: Path = path) -> None:
            manifest = Manifest(environ)
            run(settings_step(path, manifest))

        done = in_child(install, calls)
        assert path.read_bytes() in (old, new)
        record = Manifest(environ).records.get(f"settings:{path}")
        if record:
            undo_claude(record)
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
        run(settings_step(path, manifest))
        new = path.read_bytes()
        record = manifest.records[f"settings:{path}"]

        def uninstall(record: dict[str, Any] = record) -> None:
            undo_claude(record)

        done = in_child(uninstall, calls)
        assert path.read_bytes() == old if done else path.read_bytes() in (old, new)
        undo_claude(record)
        assert path.read_bytes() == old
        if done:
            break
    assert 1 < calls < 49


# Files of ours alone.


def test_own_file_that_somebody_changed_stays(environ: dict[str, str]) -> None:
    manifest = Manifest(environ)
    folder = Path(environ["HOME"], ".claude/commands")
    files = {str(folder / "a.md"): b"one\n", str(folder / "b.md"): b"two\n"}
    run(FilesStep(manifest, "commands", files))
    (folder / "b.md").write_text("mine")
    said = undo_files(manifest.records["commands"])
    assert [path.name for path in folder.iterdir()] == ["b.md"]
    assert [row.partition(" ")[0] for row in said] == ["removed", "kept"]


def test_file_of_another_is_not_replaced_and_said(environ: dict[str, str]) -> None:
    path = Path(environ["HOME"], "a.md")
    path.write_text("theirs")
    step = FilesStep(Manifest(environ), "commands", {str(path): b"ours"})
    assert (step.changes(), step.kept()) == ([], [str(path)])
