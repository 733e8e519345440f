"""Other agents' files: registered, repaired and brought back as they were."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feishuperm.agents import table
from feishuperm.agents.table import AGENTS
from feishuperm.app.health import OK, Finding, ok
from feishuperm.commands.install import parser
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.models.names import PROGRAMS
from feishuperm.models.settings import Settings
from feishuperm.setup import agents, uninstall
from feishuperm.setup import claude_settings as claude
from feishuperm.setup.install import Install
from feishuperm.setup.steps import FilesStep, Manifest
from tests.setup.conftest import run

SOURCES = Path(table.__file__).parent
ENTRIES = ("codex", "qwen")
FILES = {
    "codex": ".codex/hooks.json",
    "qwen": ".qwen/settings.json",
    "copilot": ".copilot/hooks/feishuperm.json",
    "opencode": ".config/opencode/plugin/feishuperm.js",
}
FOREIGN = (
    b'{"hooks":{"PermissionRequest":[{"hooks":[{"type":"command","command":"x"}]}]}}'
)
# What a person may have; each comes back byte for byte.
ODD = {
    "missing": None,
    "empty": b"",
    "two spaces": b'{\n  "theme": "x"\n}\n',
    "one line": b'{"a":1,"hooks":{}}',
    "CRLF": b'{\r\n\t"theme": "x",\r\n\t"hooks": {"Stop": []}\r\n}\r\n',
    "byte order mark": b'\xef\xbb\xbf{"theme": "x"}',
    "foreign entry": FOREIGN,
    "doubled keys": b'{"hooks": {}, "a": 1, "hooks": {"Stop": []}}',
    "a doubled event": b'{"hooks":{"PermissionRequest":[],"PermissionRequest":[{}]}}',
    "escaped names": b'{"h\\u006foks": {"Permission\\u0052equest": [ ]}}',
    "CR alone": b'{\r"a": 1\r}\r',
    "spaces alone": b"  \n\n",
    "half of a character": b'{"a": "\\ud800", "b": 1e400, "c": -0.0}',
}
BROKEN = {
    "comments": b'{\n  // mine\n  "theme": "x"\n}\n',
    "cut off": b'{"theme": ',
    "a list": b"[]",
    "hooks of another kind": b'{"hooks": []}',
    "not UTF-8": b'{"a": "\xff"}',
    "text behind": b'{"a": 1}\0',
    "a comma too many": b'{"a": 1,}',
}
OWN = [word for word in ("copilot", "opencode") if list(SOURCES.glob(f"{word}.js*"))]
SETTINGS = Settings({})
LINK = "/opt/fei shu/feishuperm-hook"


class Desk:
    """A home with agents in PATH, and the program's record in the manifest."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.home = Path(environ["HOME"])
        self.environ = environ
        environ["PATH"] = str(self.home / "bin")
        (self.home / "bin").mkdir()
        self.manifest.open()
        links = [str(self.home / "bin" / name) for name in PROGRAMS]
        archive = str(self.home / ".local/feishuperm.pyz")
        self.manifest.save("program", {"links": links, "archive": archive})

    @property
    def manifest(self) -> Manifest:
        """As the next process reads it."""
        return Manifest(self.environ)

    def with_agent(
        self, word: str, data: bytes | None = None, version: str = "1.2.3"
    ) -> agents.Place:
        """Put an agent in PATH, its folder in the home, and a file of it."""
        program = self.home / "bin" / word
        program.write_text(f"#!/bin/sh\necho {word}-cli {version}.\n")
        program.chmod(0o755)
        place = self.place(word)
        os.makedirs(place.folder, exist_ok=True)
        if data is not None:
            Path(place.path).parent.mkdir(parents=True, exist_ok=True)
            Path(place.path).write_bytes(data)
        return place

    def place(self, word: str) -> agents.Place:
        return next(x for x in agents.places(self.manifest) if x.row.word == word)

    def install(self, word: str, settings: Settings = SETTINGS) -> None:
        run(self.place(word).step(LINK, settings, exactly=False))

    def remove(self, word: str) -> None:
        run(self.place(word).removal())

    def uninstall(self) -> bool:
        return uninstall.undo(self.manifest, False, self.environ)

    def rows(self, word: str) -> list[Finding]:
        def check(path: str, hook: claude.Hook) -> Finding:
            return ok(path)

        return list(agents.findings(self.place(word), SETTINGS, check))

    def entry(self, word: str) -> Any:
        text = Path(self.place(word).path).read_text("utf-8-sig")
        return json.loads(text)["hooks"]["PermissionRequest"][-1]["hooks"][0]


@pytest.fixture
def desk(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in ("CODEX_HOME", "QWEN_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return Desk(environ)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below, without our own records."""
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if ".local" not in path.parts
    }


@pytest.mark.parametrize("way", ["remove", "uninstall"])
@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
@pytest.mark.parametrize("word", ENTRIES)
def test_file_comes_back_byte_for_byte(
    desk: Desk, word: str, data: bytes | None, way: str
) -> None:
    desk.with_agent(word, data)
    before = tree(desk.home)
    desk.install(word)
    assert desk.entry(word)["command"].endswith(f" {word} || true")
    assert desk.place(word).step(LINK, SETTINGS, False).changes() == []  # and again
    desk.install(word)
    if way == "remove":
        desk.remove(word)
    else:
        assert desk.uninstall()
    assert tree(desk.home) == before
    assert way == "uninstall" or not desk.place(word).record()


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("word", ENTRIES)
def test_file_that_cannot_be_edited_is_left_byte_for_byte(
    desk: Desk, word: str, data: bytes
) -> None:
    place = desk.with_agent(word, data)
    with pytest.raises(FeishupermError, match="is left as it is"):
        desk.install(word)
    assert Path(place.path).read_bytes() == data
    assert not desk.place(word).record()
    if data not in (BROKEN["hooks of another kind"],):
        assert [row.state for row in desk.rows(word)] == ["fail"]


@pytest.mark.parametrize("word", OWN)
def test_own_file_is_written_once_and_goes_with_its_folder(
    desk: Desk, word: str
) -> None:
    place = desk.with_agent(word)
    before = tree(desk.home)
    desk.install(word)
    text = Path(place.path).read_text()
    assert LINK in text and "SECONDS" not in text and "VERSION" not in text
    desk.install(word)
    assert Path(place.path).read_text() == text
    desk.remove(word)
    assert tree(desk.home) == before


def test_copilot_gets_its_own_form(desk: Desk) -> None:
    place = desk.with_agent("copilot")
    desk.install("copilot")
    value = json.loads(Path(place.path).read_bytes())
    [entry] = value["hooks"]["permissionRequest"]
    assert value["version"] == 1
    assert entry == {
        "type": "command",
        "bash": f"command -v '{LINK}' >/dev/null 2>&1 && '{LINK}' copilot || true",
        "timeoutSec": 60,
    }


@pytest.mark.parametrize("word", OWN)
def test_own_file_that_somebody_changed_is_kept_and_named(
    desk: Desk, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = desk.with_agent(word)
    desk.install(word)
    Path(place.path).write_text("mine")
    step = desk.place(word).step(LINK, SETTINGS, False)
    assert isinstance(step, FilesStep)
    run(step)
    step.tell_kept()
    assert "is kept" in capsys.readouterr().err
    [row] = desk.rows(word)
    assert row.state == "warn" and row.fix.startswith("rm ")
    assert desk.uninstall()
    assert Path(place.path).read_text() == "mine"


@pytest.mark.parametrize(
    ("word", "wait", "written"),
    [("codex", 1800, 1805), ("qwen", 55, 60), ("qwen", 994, 999), ("qwen", 995, 10**6)],
)
def test_time_out_fits_the_wait_in_the_agents_unit(
    desk: Desk, word: str, wait: int, written: int
) -> None:
    desk.with_agent(word)
    desk.install(word, Settings({"PERMISSION_REQUEST_TIMEOUT": str(wait)}))
    assert desk.entry(word)["timeout"] == written


def test_link_stays_a_link_and_mode_stays(desk: Desk) -> None:
    place = desk.with_agent("qwen")
    real = desk.home / "dotfiles.json"
    real.write_bytes(b"{}\n")
    real.chmod(0o640)
    Path(place.path).symlink_to(real)
    desk.install("qwen")
    assert os.path.islink(place.path)
    assert real.stat().st_mode & 0o777 == 0o640
    assert b"feishuperm-hook" in real.read_bytes()
    desk.remove("qwen")
    assert os.path.islink(place.path)
    assert real.read_bytes() == b"{}\n"


def test_link_to_a_place_that_is_not_there_leads_there_and_back(desk: Desk) -> None:
    place = desk.with_agent("qwen")
    Path(place.path).symlink_to(desk.home / "dotfiles/qwen.json")
    before = tree(desk.home)
    desk.install("qwen")
    assert b"feishuperm-hook" in (desk.home / "dotfiles/qwen.json").read_bytes()
    desk.remove("qwen")
    assert os.path.islink(place.path)
    assert tree(desk.home) == before


@pytest.mark.parametrize(
    "make", [os.mkdir, os.mkfifo, lambda path: os.symlink(path, path)]
)
def test_place_that_is_no_file_is_refused_and_named(
    desk: Desk, make: Callable[[str], None]
) -> None:
    place = desk.with_agent("qwen")
    make(place.path)
    with pytest.raises(FeishupermError, match="cannot read"):
        desk.install("qwen")
    assert not desk.place("qwen").record()
    assert [row.state for row in desk.rows("qwen")] == ["fail"]


def test_what_others_change_between_install_and_removal_stays(desk: Desk) -> None:
    """Their keys and entries, whatever the order and the form they leave behind."""
    for seed in range(60):
        chance = random.Random(seed)
        place = desk.with_agent("qwen", chance.choice([FOREIGN, b'{"theme": "x"}']))
        path = Path(place.path)
        expected = json.loads(path.read_bytes())
        desk.install("qwen")
        value = json.loads(path.read_bytes())
        theirs = json.loads(FOREIGN)["hooks"]["PermissionRequest"]
        for one in (value, expected):
            one["new"] = {"k": [seed]}
            one.setdefault("hooks", {})["Stop"] = theirs
            one["hooks"].setdefault("PermissionRequest", []).extend(theirs)
        value["hooks"]["PermissionRequest"].reverse()
        path.write_text(json.dumps(value, indent=chance.choice([None, 2])))
        if chance.random() < 0.5:
            desk.install("qwen")
        desk.remove("qwen")
        assert json.loads(path.read_bytes()) == expected, seed


@pytest.mark.parametrize("word", ["qwen", "copilot"])
def test_read_only_place_is_refused_before_anything_changes(
    desk: Desk, word: str
) -> None:
    place = desk.with_agent(word, b"{}" if word == "qwen" else None)
    guarded = place.path if word == "qwen" else place.folder
    os.chmod(guarded, 0o400 if word == "qwen" else 0o500)
    try:
        with pytest.raises(FeishupermError, match="read-only"):
            desk.install(word)
    finally:
        os.chmod(guarded, 0o700)
    assert not desk.place(word).record()


def test_entry_moved_by_hand_is_found_and_goes(desk: Desk) -> None:
    place = desk.with_agent("codex", FOREIGN)
    desk.install("codex")
    value = json.loads(Path(place.path).read_bytes())
    groups = value["hooks"]["PermissionRequest"]
    groups[0]["hooks"].insert(0, groups.pop()["hooks"][0])
    Path(place.path).write_text(json.dumps(value))
    assert desk.place("codex").step(LINK, SETTINGS, False).changes() == []
    desk.remove("codex")
    assert json.loads(Path(place.path).read_bytes()) == json.loads(FOREIGN)


def test_program_that_moves_is_followed(desk: Desk) -> None:
    desk.with_agent("codex", FOREIGN)
    desk.install("codex")
    run(desk.place("codex").step("/new/feishuperm-hook", SETTINGS, False))
    text = Path(desk.place("codex").path).read_text()
    assert "/new/feishuperm-hook codex" in text and "/opt" not in text
    desk.remove("codex")
    assert Path(desk.place("codex").path).read_bytes() == FOREIGN


def copied(desk: Desk, word: str) -> bytes:
    """Hooks of Claude Code's settings, as a program copies them."""
    command = str(desk.home / "bin/feishuperm-hook")
    group = {"hooks": [{"type": "command", "command": command}]}
    hooks = {"PermissionRequest": [group], "Stop": [group, {"hooks": []}]}
    return json.dumps({"hooks": hooks}).encode()


def test_copied_hooks_are_named_and_replaced(desk: Desk) -> None:
    place = desk.with_agent("codex", copied(desk, "codex"))
    first, second = desk.rows("codex")
    assert (first.state, first.fix) == ("warn", "feishuperm install --agents codex")
    assert "not registered" in second.text
    desk.install("codex")
    commands = [hook.entry["command"] for hook in desk.place("codex").hooks()]
    assert [claude.kind_in(command) for command in commands] == ["codex"]
    assert desk.uninstall()
    assert b"feishuperm" not in Path(place.path).read_bytes()


def test_uninstall_takes_copied_hooks_that_would_name_a_missing_program(
    desk: Desk,
) -> None:
    place = desk.with_agent("codex", copied(desk, "codex"))
    assert desk.uninstall()
    assert json.loads(Path(place.path).read_bytes()) == {
        "hooks": {"Stop": [{"hooks": []}]}
    }


def test_hooks_that_qoder_copied_are_named_and_go_with_the_program(desk: Desk) -> None:
    path = desk.home / ".qoder/settings.json"
    path.parent.mkdir()
    path.write_bytes(copied(desk, "qoder"))
    [row] = agents.copies(desk.environ)
    assert (row.state, row.fix) == ("warn", f"edit {path}: remove feishuperm-hook")
    assert desk.uninstall()
    assert b"feishuperm" not in path.read_bytes()
    assert list(agents.copies(desk.environ)) == []


def test_somebodys_own_call_is_named_and_kept(desk: Desk) -> None:
    data = copied(desk, "codex").replace(b"feishuperm-hook", b"feishuperm-hook --x")
    place = desk.with_agent("codex", data)
    assert desk.rows("codex")[0].fix.startswith("edit ")
    assert desk.uninstall()
    assert Path(place.path).read_bytes() == data


# What doctor says.


def test_review_of_codex_is_seen_in_its_state(desk: Desk) -> None:
    place = desk.with_agent("codex", FOREIGN)
    desk.install("codex")
    [row] = desk.rows("codex")
    assert (row.state, row.fix) == ("warn", "start codex and choose to trust the hook")
    state = Path(place.folder, "config.toml")
    key = f"{place.path}:permission_request:1:0"
    state.write_text(f'[hooks.state."{key}"]\ntrusted_hash = "sha256:0"\n')
    [row] = desk.rows("codex")
    assert row.state == OK
    said = f"Codex 1.2.3 (tested: {AGENTS['codex'].tested}): registered in"
    assert row.text.startswith(said) and "no dialog" in row.text


def test_entry_that_changed_after_the_review_of_codex_is_seen(desk: Desk) -> None:
    place = desk.with_agent("codex", version=AGENTS["codex"].tested)
    desk.install("codex")
    [hook] = place.hooks()
    state = Path(place.folder, "config.toml")
    key = f'[hooks.state."{place.path}:permission_request:0:0"]'
    state.write_text(
        f'{key}\ntrusted_hash = "sha256:{agents.reviewed_hash(hook)}"\n[x]\n'
    )
    [row] = desk.rows("codex")
    assert row.state == OK and "tested" not in row.text
    desk.install("codex", Settings({"PERMISSION_REQUEST_TIMEOUT": "600"}))
    [row] = desk.rows("codex")
    assert (row.state, row.fix) == ("warn", "start codex and choose to trust the hook")


def test_hash_is_the_one_that_codex_keeps() -> None:
    """Recorded from its configuration, after its screen was answered."""
    command = "/tmp/lab-ol_wq0so/bin/feishuperm-hook codex"
    entry = {"type": "command", "command": command, "timeout": 20.0}
    hook = claude.Hook((), agents.EVENT, "*", "feishuperm-hook", entry)
    kept = "13984f0086fce78ed0ae9b088230f280f9c88b54629edfb2272c1db3f93c8e8b"
    assert agents.reviewed_hash(hook) == kept


def test_hooks_that_are_switched_off_cannot_decide(desk: Desk) -> None:
    desk.with_agent("qwen", b'{"disableAllHooks": true}')
    desk.install("qwen")
    assert [row.state for row in desk.rows("qwen")] == ["fail"]


def test_agent_that_is_gone_is_unregistered_by_hand(desk: Desk) -> None:
    desk.with_agent("qwen")
    desk.install("qwen")
    (desk.home / "bin/qwen").unlink()
    [row] = desk.rows("qwen")
    assert (row.state, row.fix) == ("warn", "feishuperm install --no-agents qwen")
    assert desk.rows("codex") == []  # never here, nothing to say


def test_old_own_file_is_brought_up_to_date(desk: Desk) -> None:
    desk.with_agent("copilot")
    desk.install("copilot", Settings({"PERMISSION_REQUEST_TIMEOUT": "20"}))
    [row] = desk.rows("copilot")
    assert (row.state, row.fix) == ("warn", "feishuperm install --agents copilot")


# The command.


def installing(desk: Desk, *args: str) -> Install:
    return Install(parser().parse_args(args), desk.environ)


def test_unknown_agent_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="unknown agent 'gemini'") as error:
        agents.names("codex,gemini")
    assert "codex, qwen, copilot, opencode" in str(error.value.hint)
    assert agents.names(" Codex, ,qwen") == ["codex", "qwen"]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda place: os.rmdir(place.folder), "has never been started here"),
        (lambda place: os.unlink(place.program()), "is not here: no `qwen`"),
    ],
)
def test_agent_that_is_not_here_is_said_and_gets_no_file(
    desk: Desk,
    spoil: Callable[[agents.Place], None],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = desk.with_agent("qwen")
    spoil(place)
    assert list(installing(desk, "--agents", "qwen").agent_steps(SETTINGS)) == []
    assert said in capsys.readouterr().err
    assert not os.path.exists(place.path)


def test_registered_agent_is_kept_up_to_date_without_being_named(desk: Desk) -> None:
    desk.with_agent("qwen")
    desk.with_agent("codex")
    desk.install("qwen")
    names = [step.name for step in installing(desk).agent_steps(SETTINGS)]
    assert names == [desk.place("qwen").step_name]


def test_broken_file_of_an_agent_does_not_keep_an_upgrade_away(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    place = desk.with_agent("qwen")
    desk.install("qwen")
    Path(place.path).write_bytes(BROKEN["comments"])
    assert list(installing(desk).agent_steps(SETTINGS)) == []
    assert "is left as it is" in capsys.readouterr().err
    with pytest.raises(FeishupermError):
        list(installing(desk, "--agents", "qwen").agent_steps(SETTINGS))


def test_folder_that_a_variable_names_is_taken(desk: Desk) -> None:
    desk.environ.update(CODEX_HOME="/c", XDG_CONFIG_HOME="/x")
    assert desk.place("codex").path == "/c/hooks.json"
    assert desk.place("opencode").path == "/x/opencode/plugin/feishuperm.js"


def test_new_agent_is_a_row_and_nothing_else(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = table.Registration("zed", "", ".zed", "hooks.json", table.ENTRY, "nothing")
    monkeypatch.setitem(AGENTS, "zed", table.Agent("zed", "Zed", registration=how))
    monkeypatch.setattr(claude, "WORDS", (*claude.WORDS, "zed"))
    place = desk.with_agent("zed")
    assert agents.names("zed") == ["zed"]
    desk.install("zed")
    assert [row.state for row in desk.rows("zed")] == [OK]
    desk.remove("zed")
    assert not os.path.exists(place.path)


@pytest.mark.parametrize(
    ("args", "answers", "asked", "wanted"),
    [
        # Three questions at most: the wait is taken as it would be offered.
        (["--setup"], ["4", "", "3"], ["Choose", "Should", "Choose"], ["codex"]),
        (["--setup"], ["4", "n", "3"], ["Choose", "Should", "Choose"], []),
        (["--setup", "--no-hooks"], ["4", "y", ""], ["Choose", "Wait", "Should"], None),
        (["--setup", "--agents", "qwen"], ["4", "", "3"], ["Choose", "Wait"], ["qwen"]),
        (["--setup", "--no-agents", "codex"], ["4", "", "3"], ["Choose", "Wait"], []),
        ([], [], [], []),  # a later run does what it is told
    ],
)
def test_terminal_offers_the_agents_that_are_here(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    answers: list[str],
    asked: list[str],
    wanted: list[str] | None,
) -> None:
    desk.with_agent("codex")
    prompts: list[str] = []
    rest = iter(answers)

    def answer(prompt: str) -> str:
        prompts.append(prompt.split()[0])
        return next(rest)

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("feishuperm.setup.install.can_ask", lambda: True)
    install = installing(desk, *args)
    install.ask()
    assert len(prompts) <= 3
    assert set(asked) <= set(prompts)
    assert install.wanted == (["codex"] if wanted is None else wanted)
    waits = install.config.new.get("PERMISSION_REQUEST_TIMEOUT")
    assert waits == ("600" if args else None)
