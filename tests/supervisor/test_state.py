from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest

from feishuperm.errors import UsageError
from feishuperm.supervisor.supervisor import (
    KEPT_SECONDS,
    KEPT_VERDICTS,
    SupervisorState,
    check_session,
)
from tests.tables import every_row

NOW = time.time()


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


@pytest.fixture
def state(home: Path) -> SupervisorState:
    return SupervisorState(str(home / "supervisor"))


def take(state: SupervisorState, prompt: str = "p", limit: int = 20) -> int:
    return state.take_turn("s", prompt, limit)


def test_every_review_is_counted_until_the_limit(state: SupervisorState) -> None:
    """迭代计数已达上限，当任何 hook 事件被触发，那么应自动允许操作并停止审查"""
    assert [take(state, limit=3) for _ in range(5)] == [1, 2, 3, 0, 0]
    assert state.session("s")["count"] == 3


def test_new_prompt_starts_a_new_count(state: SupervisorState) -> None:
    assert [take(state, p) for p in ("a", "a", "b")] == [1, 2, 1]


def test_prompts_taking_turns_still_reach_the_limit(state: SupervisorState) -> None:
    counts = [take(state, p, 4) for p in ("a", "b", "a", "b", "a", "b")]
    assert counts == [1, 1, 2, 3, 4, 0]


def test_without_prompt_id_the_count_is_the_sessions(state: SupervisorState) -> None:
    assert [take(state, "", 2) for _ in range(3)] == [1, 2, 0]


def test_limit_of_zero_reviews_nothing(state: SupervisorState) -> None:
    assert take(state, limit=0) == 0


def test_processes_at_once_count_exactly_and_stop_at_the_limit(
    state: SupervisorState,
) -> None:
    reader, writer = os.pipe()
    children = []
    for _ in range(40):
        pid = os.fork()
        if not pid:
            try:
                count = state.take_turn("s", "p", 30)
                os.write(writer, b"%d\n" % count)
            finally:
                os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    os.close(writer)
    with open(reader, "rb") as file:
        counts = sorted(int(line) for line in file)
    assert counts == [0] * 10 + list(range(1, 31))
    assert state.session("s")["count"] == 30


def test_only_the_last_verdicts_are_kept(state: SupervisorState) -> None:
    for number in range(KEPT_VERDICTS + 5):
        state.record("s", {"n": number})
    kept = [verdict["n"] for verdict in state.session("s")["verdicts"]]
    assert kept == list(range(5, KEPT_VERDICTS + 5))


def test_files_are_private_and_nothing_else_is_left(state: SupervisorState) -> None:
    take(state)
    state.switch_project("/somewhere", "off")
    names = sorted(os.listdir(state.folder))
    assert names == ["projects.json", "session-s.json"]
    for name in names:
        mode = os.stat(os.path.join(state.folder, name)).st_mode
        assert stat.S_IMODE(mode) == 0o600
    assert stat.S_IMODE(os.stat(state.folder).st_mode) == 0o700


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"count": "many", "prompts": 3, "verdicts": {}}'],
)
def test_damaged_file_counts_as_none(state: SupervisorState, content: bytes) -> None:
    os.makedirs(state.folder)
    Path(state.folder, "session-s.json").write_bytes(content)
    assert take(state) == 1
    state.record("s", {"n": 1})
    assert state.session("s")["verdicts"] == [{"n": 1}]


def test_session_idle_for_a_month_is_forgotten_with_the_next_new_one(
    state: SupervisorState,
) -> None:
    for name, age in (("old", KEPT_SECONDS + 1), ("young", KEPT_SECONDS - 3600)):
        state.switch_session(name, "on")
        path = os.path.join(state.folder, f"session-{name}.json")
        os.utime(path, (NOW - age, NOW - age))
    Path(state.folder, "session-.json").write_text("{}")  # nobody's
    take(state)
    os.utime(os.path.join(state.folder, "session-s.json"), (NOW, NOW))
    assert [name for name, _ in state.sessions()] == ["s", "young"]


@pytest.mark.parametrize(
    ("session", "project", "on"),
    [
        ("", "", True),
        ("", "off", False),
        ("", "on", True),
        ("off", "", False),
        ("off", "on", False),
        ("on", "off", True),
    ],
)
def test_session_switch_goes_before_project_switch_before_on(
    state: SupervisorState, tmp_path: Path, session: str, project: str, on: bool
) -> None:
    if session:
        state.switch_session("s", session)
    if project:
        state.switch_project(str(tmp_path), project)
    assert state.switched_on("s", str(tmp_path)) is on
    assert state.switched_on("s", str(tmp_path.parent)) is (session != "off")


def test_projects_are_switched_one_by_one(
    state: SupervisorState, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for name in ("a", "b"):
        state.switch_project(str(tmp_path / name), "off")
    state.switch_project(str(tmp_path / "link"), "on")
    on = [state.switched_on("", str(tmp_path / name)) for name in ("a", "b", "c")]
    assert on == [True, False, True]


def test_switching_keeps_the_count(state: SupervisorState) -> None:
    take(state)
    state.switch_session("s", "off")
    assert json.loads(Path(state.folder, "session-s.json").read_text())["count"] == 1


@every_row("session", ["a", "5c8e1f6e-0000-4000", "A.b_c", "x" * 128])
def test_plain_session_ids_are_taken(session: str) -> None:
    assert check_session(session) == session


@every_row(
    "session",
    ["", ".", "..", "../x", "a/b", "/etc/passwd", "-p", ".x", "ä", "a\n", "a\0", "a b"],
)
def test_session_ids_that_could_be_paths_or_options_are_refused(session: str) -> None:
    with pytest.raises(UsageError):
        check_session(session)
