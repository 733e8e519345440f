"""Sessions started and continued from the chat: what runs, and what never does.

Nothing sleeps and nothing is real but the folders and a program called `claude`, which
writes down how it was called.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feishuperm.models.panel import Asker, Panel, Told
from feishuperm.models.settings import Settings
from feishuperm.services import starts as module
from feishuperm.services.ledger import Ledger
from feishuperm.services.sessions import Sessions
from feishuperm.services.starts import Starts
from tests.conftest import clean_env
from tests.fakes.claude_program import (
    TOO_OLD,
    UNTRUSTED,
    ClaudeProgram,
    record_session,
)

OWNER = Asker("ou_owner", "message", "app")
TAP = Asker("ou_owner", "card", "app")
SECRETS = {
    "FEISHU_APP_SECRET": "s1",
    "FEISHU_WEBHOOK_URL": "s2",
    "FEISHUPERM_ENGINE": "s3",
    "FEISHUPERM_JOIN_KEY": "s4",
    "GATEWAY_METRICS_TOKEN": "s5",
}


class Bench:
    """A server's part for starts, two projects, and a person."""

    def __init__(self, root: Path, **settings: str) -> None:
        self.root = Path(os.path.realpath(root))
        self.home = self.root / "home"
        self.shop, self.other = self.folder("work/shop"), self.folder("work/my notes")
        self.outside = self.folder("outside")
        self.claude = ClaudeProgram(self.root / "bin")
        self.environ = clean_env(
            self.home,
            PATH=f"{self.root}/bin:/usr/bin:/bin",
            ANTHROPIC_API_KEY="sk-ant-of-the-service",
            FEISHUPERM_CONFIG="/c/config.env",
            CLAUDECODE="1",
            **SECRETS,
        )
        self.settings = Settings(
            {
                "FEISHUPERM_REMOTE": "on",
                "FEISHUPERM_PROJECTS": f"{self.shop}:{self.other}",
                "FEISHU_OWNER_ID": "ou_owner,ou_second",
                "FEISHU_RECEIVE_ID": "ou_owner",
                "FEISHUPERM_LANG": "en",
                **settings,
            }
        )
        self.now = 1_800_000_000.0
        self.ledger = Ledger(str(self.root / "ledger.jsonl"), lambda: self.now)
        self.changed: list[Panel] = []
        self.held: list[Callable[[], object]] = []  # work of threads, if it is held
        self.holds = False
        self.starts = self.serve()

    def serve(self) -> Starts:
        """The part, in a server that has just started."""
        return Starts(
            self.settings,
            Sessions(environ=self.environ),
            self.ledger,
            self.ledger.append,
            lambda channel, panel: self.changed.append(panel),
            self.in_thread,
            lambda: self.now,
            self.environ,
        )

    def in_thread(self, work: Callable[[], Any], then: Callable[[Any], object]) -> None:
        if self.holds:
            self.held.append(lambda: then(work()))
        else:
            then(work())

    def folder(self, name: str) -> str:
        (self.root / name).mkdir(parents=True)
        return str(self.root / name)

    def write(self, path: str, value: object) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(value))

    def say(self, words: str, asker: Asker = OWNER, name: str = "start") -> Told:
        told: list[Told] = []
        self.starts.command(name, words, asker, told.append)
        assert len(told) == 1
        return told[0]

    def press(self, panel: str, asker: Asker = TAP, action: str = "go") -> Told:
        told: list[Told] = []
        self.starts.press(panel, action, "", asker, told.append)
        assert len(told) == 1
        return told[0]

    def entries(self) -> list[dict[str, Any]]:
        return list(self.ledger.entries())

    def refused(self, words: str, said: str, **more: Any) -> None:
        """No card, so nothing to press, and the sentence says why."""
        told = self.say(words, **more)
        assert told.status == "error" and not told.panel.id, told
        assert re.search(said, told.said), told.said
        assert self.claude.calls() == [] and self.entries() == []


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def shown(panel: Panel) -> str:
    return " | ".join(f"{row.block.label}: {row.block.text}" for row in panel.rows)


# What runs.


def test_new_task_shows_a_card_first_and_starts_once_on_its_button(
    bench: Bench,
) -> None:
    told = bench.say("shop fix the build")
    assert bench.claude.calls() == []
    assert bench.shop in shown(told.panel) and "fix the build" in shown(told.panel)
    assert "default" in shown(told.panel)

    started = bench.press(told.panel.id)
    assert started.status == "info" and not started.panel.buttons
    assert started.panel.look == "open"  # it will be changed
    (call,) = bench.claude.calls()
    assert call.folder == bench.shop
    assert (call.arguments, call.text) == (["--bg"], "fix the build")
    assert bench.changed[-1].look == "good" and "1a2b3c4d" in bench.changed[-1].note
    assert not bench.changed[-1].buttons

    again = bench.press(told.panel.id)
    assert again.status == "error" and "used" in again.said
    assert len(bench.claude.calls()) == 1


def test_client_gets_the_environment_without_secrets_and_marks_of_a_session(
    bench: Bench,
) -> None:
    bench.press(bench.say("shop go").panel.id)
    (call,) = bench.claude.calls()
    assert call.environ["ANTHROPIC_API_KEY"] == "sk-ant-of-the-service"
    assert call.environ["FEISHUPERM_CONFIG"] == "/c/config.env"
    assert not {*SECRETS, "CLAUDECODE"} & set(call.environ)


@pytest.mark.parametrize(
    ("words", "folder", "text"),
    [
        ("shop go", "work/shop", "go"),
        ("my notes sort them", "work/my notes", "sort them"),
        ("shop\nline one\r\nline two", "work/shop", "line one\nline two"),
        ("shop　全角空格", "work/shop", "全角空格"),
        ("{root}/work/my notes a b", "work/my notes", "a b"),
    ],
)
def test_project_is_named_by_its_last_name_or_whole_path(
    bench: Bench, words: str, folder: str, text: str
) -> None:
    told = bench.say(words.format(root=bench.root))
    bench.press(told.panel.id)
    (call,) = bench.claude.calls()
    assert (call.folder, call.text) == (str(bench.root / folder), text)


def test_ended_session_is_continued_in_its_folder_with_its_saved_mode(
    bench: Bench,
) -> None:
    session = record_session(bench.home, bench.shop, "acceptEdits")
    told = bench.say(f"{session} now the tests", name="continue")
    assert "acceptEdits" in shown(told.panel) and bench.shop in shown(told.panel)
    bench.press(told.panel.id)
    (call,) = bench.claude.calls()
    assert call.folder == bench.shop
    assert call.arguments == ["--bg", "--resume", session]
    assert call.text == "now the tests"


def test_copy_of_a_session_that_came_to_life_is_stopped_and_told(bench: Bench) -> None:
    session = record_session(bench.home, bench.shop)
    told = bench.say(f"{session} go", name="continue")
    bench.claude.answers(
        'if [ "$1" = --bg ]; then echo "backgrounded \302\267 99999999"; fi'
    )
    bench.press(told.panel.id)
    assert bench.claude.calls()[-1].arguments == ["stop", "99999999"]
    assert "runs elsewhere" in bench.changed[-1].note
    assert bench.changed[-1].look == "over"


def test_every_start_and_its_end_are_in_the_ledger_with_secrets_masked(
    bench: Bench,
) -> None:
    secret = "ghp_" + "a1B2c3D4" * 5
    bench.press(bench.say(f"shop use {secret} to push").panel.id)
    intent, end = bench.entries()
    assert (intent["event"], end["event"]) == ("intent", "start")
    assert end["intent"] == intent["seq"]
    assert (end["who"], end["surface"]) == ("ou_owner", "message")
    assert (end["project"], end["session"]) == (bench.shop, "1a2b3c4d")
    assert (end["action"], end["state"]) == ("start", "started")
    assert "to push" in end["detail"] and secret not in json.dumps([intent, end])


def test_server_that_died_while_it_started_leaves_an_unknown_start(
    bench: Bench,
) -> None:
    bench.holds = True
    told: list[Told] = []
    bench.starts.command("start", "shop go", OWNER, told.append)
    bench.held.pop()()
    bench.starts.press(told[0].panel.id, "go", "", TAP, told.append)
    ledger = Ledger(bench.ledger.path, lambda: bench.now + 3600)
    ledger.recover()
    last = list(ledger.entries())[-1]
    assert (last["event"], last["state"], last["action"]) == (
        "start",
        "unknown",
        "start",
    )


def test_what_cannot_be_recorded_is_not_started(bench: Bench) -> None:
    told = bench.say("shop go")
    os.mkdir(bench.ledger.path)
    pressed = bench.press(told.panel.id)
    assert pressed.status == "error" and "not be recorded" in pressed.said
    assert bench.claude.calls() == []


# What never does.


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"FEISHUPERM_REMOTE": "off"}, "install --remote"),
        ({"FEISHUPERM_PROJECTS": ""}, "No project is called shop"),
        ({"FEISHUPERM_CARD": "title"}, "show no content"),
    ],
)
def test_nothing_starts_while_it_is_off_or_no_folder_is_named(
    tmp_path: Path, change: dict[str, str], said: str
) -> None:
    Bench(tmp_path, **change).refused("shop go", said)


@pytest.mark.parametrize(
    ("asker", "said"),
    [
        (Asker("ou_stranger", "message", "app"), "Only an owner"),
        (Asker("", "message", "app"), "Only an owner"),
        (Asker("ou_owner", "page", "inbox"), "Only an owner"),
        (Asker("ou_owner", "webhook", "webhook"), "Only an owner"),
        (Asker("ou_owner", "gateway", "gateway"), "GATEWAY_GRANTS"),
        (Asker("ou_owner", "gateway", "app"), "GATEWAY_GRANTS"),
    ],
)
def test_only_owners_and_only_over_the_app(
    bench: Bench, asker: Asker, said: str
) -> None:
    bench.refused("shop go", said, asker=asker)


def test_through_a_gateway_only_where_the_computer_allows_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FEISHUPERM_GATEWAY_GRANTS="on")
    asker = Asker("ou_elsewhere", "gateway", "gateway")
    bench.press(bench.say("shop go", asker).panel.id, asker)
    assert len(bench.claude.calls()) == 1


def test_button_works_for_the_person_who_asked_alone(bench: Bench) -> None:
    told = bench.say("shop go")
    second = bench.press(told.panel.id, Asker("ou_second", "card", "app"))
    assert second.status == "error" and "who asked" in second.said
    stranger = bench.press(told.panel.id, Asker("ou_stranger", "card", "app"))
    assert stranger.status == "error"
    assert bench.claude.calls() == []
    bench.press(told.panel.id)
    assert len(bench.claude.calls()) == 1


def test_two_owners_at_once_start_two_tasks_but_continue_a_session_once(
    bench: Bench,
) -> None:
    first, second = Asker("ou_owner", "card", "app"), Asker("ou_second", "card", "app")
    session = record_session(bench.home, bench.shop)
    cards = [
        bench.say(words, asker, name).panel.id
        for name, words in (("start", "shop go"), ("continue", f"{session} go"))
        for asker in (first, second)
    ]
    bench.holds = True
    assert bench.press(cards[0], first).status == "info"
    assert bench.press(cards[1], second).status == "info"
    for work in (bench.held.pop(), bench.held.pop()):
        work()
    assert bench.press(cards[2], first).status == "info"
    assert "not over yet" in bench.press(cards[3], second).said
    bench.held.pop()()
    assert len(bench.claude.calls()) == 3
    bench.claude.live(**{session: "background"})
    bench.holds = False
    bench.press(cards[3], second)
    assert "still runs" in bench.changed[-1].note and len(bench.claude.calls()) == 3


def test_card_of_the_server_before_starts_nothing(bench: Bench) -> None:
    told = bench.say("shop go")
    bench.starts = bench.serve()
    again = bench.press(told.panel.id)
    assert again.status == "error" and "before a restart" in again.said
    assert bench.claude.calls() == [] and bench.entries() == []


def test_card_is_void_after_ten_minutes_and_after_cancel(bench: Bench) -> None:
    first, second = bench.say("shop go"), bench.say("shop go on")
    assert "Cancelled" in bench.press(first.panel.id, action="cancel").said
    assert "used" in bench.press(first.panel.id).said
    bench.now += 601
    late = bench.press(second.panel.id)
    assert late.status == "warning" and not late.panel.buttons
    assert bench.claude.calls() == []


def test_one_start_at_a_time_and_twenty_an_hour(bench: Bench) -> None:
    bench.holds = True
    told: list[Told] = []
    for _ in range(2):
        bench.starts.command("start", "shop go", OWNER, told.append)
        bench.held.pop()()
    bench.starts.press(told[0].panel.id, "go", "", TAP, told.append)
    assert "not over yet" in bench.press(told[1].panel.id).said
    bench.held.pop()()
    bench.holds = False
    bench.press(told[1].panel.id)
    for _ in range(18):
        bench.press(bench.say("shop go").panel.id)
    assert len(bench.claude.calls()) == 20
    last = bench.say("shop go")
    assert "20 starts" in bench.press(last.panel.id).said
    bench.now += 3601
    bench.press(bench.say("shop go").panel.id)
    assert len(bench.claude.calls()) == 21


@pytest.mark.parametrize("mode", ["bypassPermissions", "dontAsk"])
@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_folder_whose_mode_asks_nobody_is_refused(
    bench: Bench, mode: str, name: str
) -> None:
    path = f"{bench.shop}/.claude/{name}"
    bench.write(path, {"permissions": {"defaultMode": mode}})
    bench.refused("shop go", f"mode {mode} nobody is asked")


def test_stronger_file_is_no_leave_to_start_where_another_asks_nobody(
    bench: Bench,
) -> None:
    """The client skips a whole file for one mistake in it: another file counts then."""
    everywhere = bench.home / ".claude" / "settings.json"
    bench.write(str(everywhere), {"permissions": {"defaultMode": "bypassPermissions"}})
    own = {"permissions": {"defaultMode": "default"}, "hooks": {"Stop": "no list"}}
    bench.write(f"{bench.shop}/.claude/settings.json", own)
    bench.refused("shop go", "bypassPermissions nobody is asked")


def test_settings_that_cannot_be_read_are_no_leave_to_start(bench: Bench) -> None:
    os.makedirs(f"{bench.shop}/.claude")
    Path(f"{bench.shop}/.claude/settings.json").write_text("{")
    bench.refused("shop go", "not JSON")


def test_mode_or_folder_that_changes_after_the_card_starts_nothing(
    bench: Bench,
) -> None:
    first, second = bench.say("shop go"), bench.say("my notes go")
    path = f"{bench.shop}/.claude/settings.json"
    bench.write(path, {"permissions": {"defaultMode": "acceptEdits"}})
    bench.press(first.panel.id)
    assert "not as shown" in bench.changed[-1].note
    os.rmdir(bench.other)
    os.symlink(bench.outside, bench.other)
    bench.press(second.panel.id)
    assert "is a link to" in bench.changed[-1].note
    assert bench.claude.calls() == []
    assert [row["state"] for row in bench.entries() if "state" in row] == ["failed"] * 2


def test_sessions_that_are_not_continued_each_have_their_sentence(
    bench: Bench,
) -> None:
    alive = record_session(bench.home, bench.shop)
    behind = record_session(bench.home, bench.shop)
    bypass = record_session(bench.home, bench.shop, "bypassPermissions")
    flagged = record_session(bench.home, bench.shop)
    outside = record_session(bench.home, bench.outside)
    silent = record_session(bench.home, bench.shop, "")
    missing = "00000000-0000-4000-8000-000000000000"
    bench.claude.live(**{alive: "interactive", behind: "background"})
    silenced = record_session(bench.home, bench.shop)
    for id, flags in {
        flagged: ["--dangerously-skip-permissions"],
        silenced: ["--permission-mode", "dontAsk"],
    }.items():
        state = bench.home / ".claude" / "jobs" / id[:8] / "state.json"
        bench.write(str(state), {"respawnFlags": flags})
    for session, said in {
        alive: "still runs: answer its card",
        behind: f"claude stop {behind[:8]}",
        bypass: "bypassPermissions nobody is asked",
        flagged: "bypassPermissions nobody is asked",
        silenced: "dontAsk nobody is asked",
        outside: "not in FEISHUPERM_PROJECTS",
        silent: "is not known",
        missing: "no record here",
        "4f4f4f4f": "No session is called",
        "../../etc/passwd": "No session is called",
    }.items():
        bench.refused(f"{session} go", said, name="continue")
    bench.refused("", "Like this", name="continue")
    bench.refused(alive, "Like this", name="continue")


@pytest.mark.parametrize(
    "line",
    [
        {"message": {"content": [{"input": {"permissionMode": "default"}}]}},
        {"toolUseResult": {"permissionMode": "default", "cwd": "/"}},
        {"message": {"content": '"permissionMode":"default"'}},
        {"permissionMode": None},
    ],
)
def test_mode_that_a_call_or_a_text_names_is_not_that_of_the_session(
    bench: Bench, line: dict[str, Any]
) -> None:
    session = record_session(bench.home, bench.shop, "bypassPermissions")
    (path,) = bench.home.glob(f".claude/projects/*/{session}.jsonl")
    said = json.dumps({"type": "assistant", **line}, separators=(",", ":"))
    path.write_text(path.read_text() + said + "\n" + said[:-9])
    bench.refused(f"{session} go", "bypassPermissions nobody", name="continue")


def test_folder_of_a_session_is_not_one_that_a_call_names(bench: Bench) -> None:
    session = record_session(bench.home, bench.outside)
    (path,) = bench.home.glob(f".claude/projects/*/{session}.jsonl")
    early = json.dumps({"toolUseResult": {"cwd": bench.shop}}, separators=(",", ":"))
    path.write_text(early + "\n" + path.read_text())
    bench.refused(f"{session} go", "not in FEISHUPERM_PROJECTS", name="continue")


def test_project_that_fits_two_is_asked_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    twin = bench.folder("elsewhere/shop")
    both = f"{bench.shop}:{twin}"
    bench.starts._settings.feishuperm_projects = tuple(both.split(":"))
    bench.refused("shop go", f"Which one\\? {bench.shop}, {twin}")
    bench.press(bench.say(f"{twin} go").panel.id)
    assert bench.claude.calls()[0].folder == twin


def test_folders_that_are_refused_each_have_their_sentence(bench: Bench) -> None:
    link, gone, file = (f"{bench.root}/work/{n}" for n in ("link", "gone", "file"))
    os.symlink(bench.outside, link)
    Path(file).write_text("")
    projects = (*bench.settings.feishuperm_projects, link, gone, file)
    bench.starts._settings.feishuperm_projects = projects
    bench.refused("link go", f"is a link to {bench.outside}")
    bench.refused("gone go", "is no folder")
    bench.refused("file go", "is no folder")
    bench.refused(f"{bench.outside} go", "No project is called")
    # A session in the folder that a listed link leads to is outside as well.
    session = record_session(bench.home, bench.outside)
    bench.refused(f"{session} go", "not in FEISHUPERM_PROJECTS", name="continue")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (TOO_OLD, "too old.*claude update"),
        ("echo something else", "too old"),
        (f'echo "{UNTRUSTED}" >&2; exit 1', "Workspace not trusted"),
        ("exit 3", "exit code 3"),
    ],
)
def test_client_that_fails_is_told_with_its_own_sentence(
    bench: Bench, script: str, said: str
) -> None:
    told = bench.say("shop go")
    bench.claude.answers(script)
    bench.press(told.panel.id)
    assert re.search(said, bench.changed[-1].note), bench.changed[-1].note
    assert bench.entries()[-1]["state"] == "failed"


def test_client_that_hangs_is_ended_and_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.client.run, "__defaults__", (0.2, b""))
    told = bench.say("shop go")
    bench.claude.answers("sleep 60")
    bench.press(told.panel.id)
    assert "did not answer" in bench.changed[-1].note


def test_missing_client_is_told_before_anything_is_shown(bench: Bench) -> None:
    bench.environ["PATH"] = "/nonexistent"
    bench.refused("shop go", "claude is not in the PATH: `feishuperm help")


def test_service_without_a_key_says_so_on_the_card(bench: Bench) -> None:
    del bench.environ["ANTHROPIC_API_KEY"]
    assert "no API key" in bench.say("shop go").panel.note
    settings = {"env": {"ANTHROPIC_AUTH_TOKEN": "x"}}
    bench.write(str(bench.home / ".claude" / "settings.json"), settings)
    assert "no API key" not in bench.say("shop go").panel.note


# Two hundred hostile texts, paths and senders.

OPTIONS = (
    *("--dangerously-skip-permissions", "-p", "--", "-", "--bg", "-n x", "--resume"),
    *("--permission-mode bypassPermissions", "--settings {}", "--add-dir /", "-h"),
    *("--mcp-config /tmp/x", "--model x", "--version", "-c", "--continue", "--print"),
    *("--ide", "--fork-session", "--session-id x", "--system-prompt x", "-d", "--tmux"),
    *("--allowedTools Bash", "--plugin-dir /tmp", "--worktree", "-w", "--agents {}"),
)
SHELL = (
    *("; rm -rf ~", "$(touch /tmp/x)", "`id`", "&& id", "| sh", "> /etc/passwd", "*"),
    *("$HOME", "${IFS}", "~", "'", '"', "\\", "!touch x", "#x", "%s", "{0}", "{x}"),
    *("\n-p", "a\n--bg", "@/etc/passwd", "agents", "stop 1a2b3c4d", "🙂", "é" * 50),
)
PATHS = (
    *("..", ".", "/", "~", "../outside", "/etc", "/work/shop/..", "shop/../../outside"),
    *("shop/.claude", "SHOP", "sho", "shopp", "shop;", "shop\0", "*", "?", "", " "),
    *("work/shop", "./shop", "-p", "--add-dir", "file:///", "\\shop", "$PWD", "%2e"),
)
SENDERS = ("", "ou_", "ou_owner ", " ou_owner", "OU_OWNER", "ou_owner\n", "*", "ou_o")
UNSENT = (
    *("/help", "/add-dir /", "  /x", "\ufeff/x", "\u3000/x", "a\0b", "\x1b[2J"),
    *("a\rb", "\x7f", chr(0xD800), "\n/x", "\t/x", "\u200b/x", "\xad /x", "\u2060/x"),
    *("\ufe0f/x", "\u3164/x", "\u115f\u200d/x", "\U000e0041/x", "\u0378/x", "\ue000/x"),
    *("\U000e0101/x", "\u034f/x", "\u17b4/x", "\u180e/x", "\uffa0\n/x", "\u202e/x"),
)
HOSTILE = [
    *((text, OWNER) for text in (f"shop {each}" for each in (*OPTIONS, *SHELL))),
    *((f"shop {each}{each}", OWNER) for each in (*OPTIONS, *SHELL)),
    *((f"shop {each} go on", OWNER) for each in OPTIONS),
    *((f"{path} go", OWNER) for path in PATHS),
    *((f"{{root}}/{path} go", OWNER) for path in PATHS),
    *((f"shop {each}", OWNER) for each in (*UNSENT, "x" * 2001, "x" * 100_000)),
    *(("shop go", Asker(who, "message", "app")) for who in SENDERS),
    *(("shop go", Asker("ou_owner", how, how)) for how in ("link", "page", "pass", "")),
]


@pytest.mark.full
def test_hostile_texts_paths_and_senders_start_nothing_that_was_not_confirmed(
    bench: Bench,
) -> None:
    assert len(HOSTILE) >= 200
    confirmed = 0
    for hostile, asker in HOSTILE:
        words = hostile.replace("{root}", str(bench.root))
        bench.now += 200
        told = bench.say(words, asker)
        assert bench.claude.count() == confirmed, words
        if not told.panel.id:
            assert told.status == "error" and told.said, words
            continue
        bench.press(told.panel.id)
        bench.press(told.panel.id)
        confirmed += 1
        assert bench.claude.count() == confirmed, words
        call = bench.claude.last()
        assert call.folder == bench.shop
        assert call.arguments == ["--bg"], words
        assert call.text == words.partition("shop")[2].strip(), words
    # One of the paths is that of a project.
    assert confirmed == 2 * len((*OPTIONS, *SHELL)) + len(OPTIONS) + 1
