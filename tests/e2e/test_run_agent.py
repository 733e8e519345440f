"""`run --agent`: real agents by the Agent Client Protocol, asking a real server."""

from __future__ import annotations

import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.agent_lab import BUSY, AgentLab, agent_lab, processes_of
from tests.conftest import wait_until
from tests.fakes.model import text
from tests.served import Served

pytestmark = pytest.mark.agents
# Arguments that make each speak the protocol, and those of `run` that make it ask.
AGENTS: dict[str, tuple[list[str], list[str]]] = {
    "qwen": (["--acp"], []),
    "opencode": (["acp"], []),
    "codex-acp": ([], ["--permission-mode", "read-only"]),
}
# What its cards call it, and what it says of its option that lasts.
NAMES = {
    "qwen": ("Qwen Code (ACP)", "Always Allow in project: touch *"),
    "opencode": ("OpenCode (ACP)", "Always allow"),
    "codex-acp": ("Codex (ACP)", "ask again for commands that start with"),
}


class Run:
    """One `feishuperm run --agent` in an agent's lab, and the server it asks."""

    def __init__(self, name: str, pyz: Path, home: Path, **settings: str) -> None:
        self.open, self.name = ExitStack(), name
        self.server = self.open.enter_context(Served(pyz, home, **settings))
        self.lab: AgentLab = self.open.enter_context(agent_lab(name, str(pyz)))
        self.lab.extra["PERMISSION_SOCKET_PATH"] = self.server.socket

    def start(self, *names: str) -> None:
        """Have the model call for `touch NAME` one after the other."""
        calls = [[self.lab.shell(f"touch {name}.txt")] for name in names]
        self.lab.model.push(*calls, [text("all over")])
        words, own = AGENTS[self.name]
        command = shlex.join([*self.lab.command, *words])
        self.process = subprocess.Popen(
            [self.lab.pyz, "run", "--agent", command, *own, "go"],
            env=self.lab.environ(),
            cwd=self.lab.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        self.open.callback(self.close)

    def asked(self) -> str:
        (id,) = wait_until(self.server.waiting, BUSY)
        return str(id)

    def answer(self, action: str) -> None:
        id = self.asked()
        self.server.post(f"/{action}", id=id, confirmed="1")
        wait_until(lambda: id not in self.server.waiting(), BUSY)

    def end(self) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)"""
        out, err = self.process.communicate(timeout=BUSY)
        return self.process.returncode, out, err

    def ends(self, count: int = 1) -> list[dict[str, Any]]:
        """How its requests ended, once the ledger has so many."""

        def rows() -> list[dict[str, Any]]:
            return [row for row in self.server.ledger() if row["event"] == "request"]

        wait_until(lambda: len(rows()) >= count, BUSY)
        return rows()

    def close(self) -> None:
        if self.process.returncode is None:
            self.process.terminate()
            self.process.communicate(timeout=BUSY)


Make = Callable[..., Run]


@pytest.fixture
def make(pyz: Path, home: Path) -> Iterator[Make]:
    with ExitStack() as stack:

        def made(name: str, **settings: str) -> Run:
            run = Run(name, pyz, home, FEISHUPERM_LANG="en", **settings)
            stack.callback(run.open.close)
            return run

        yield made


@pytest.mark.parametrize("name", AGENTS)
def test_tap_lets_it_run_and_a_refusal_keeps_it_from_running(
    make: Make, name: str
) -> None:
    run = make(name)
    if name == "qwen":  # its own hook is silent: nothing is asked twice
        run.lab.our_hook()
    run.start("one", "two")
    page = run.server.get(f"/request?id={run.asked()}").text
    called, lasting = NAMES[name]
    assert f"{called} permission request" in page and lasting in page
    run.answer("allow")
    run.answer("deny")
    code, _, err = run.end()
    assert code == 3, err
    assert run.lab.has("one.txt") and not run.lab.has("two.txt")
    assert "  allowed: Bash: touch one.txt" in err.splitlines()
    assert "  refused: Bash: touch two.txt" in err
    ends = [(row["agent"], row["tool"], row["action"]) for row in run.ends(2)]
    assert ends == [("acp", "Bash", "allow"), ("acp", "Bash", "deny")]


@pytest.mark.parametrize("name", ["qwen", "opencode"])
def test_option_that_lasts_is_kept_by_the_agent_itself(make: Make, name: str) -> None:
    run = make(name)
    run.start("one", "two")
    run.answer("always")
    code, out, err = run.end()
    assert (code, out) == (0, "all over\n"), err
    assert run.lab.has("one.txt") and run.lab.has("two.txt")
    assert [row["action"] for row in run.ends()] == ["always"]


@pytest.mark.parametrize("name", ["qwen", "opencode"])
def test_time_that_is_over_is_no_permission(make: Make, name: str) -> None:
    run = make(name, PERMISSION_REQUEST_TIMEOUT="3")
    run.start("one")
    run.server.get(f"/request?id={run.asked()}")  # somebody sees it
    code, _, err = run.end()
    assert code == 3 and "  refused: Bash: touch one.txt" in err
    assert not run.lab.has("one.txt")
    assert [row["state"] for row in run.ends()] == ["expired"]


def test_without_a_server_everything_is_refused(make: Make) -> None:
    run = make("qwen")
    run.server.stop()
    run.start("one")
    code, _, err = run.end()
    assert code == 3 and "hint: feishuperm serve" in err
    assert not run.lab.has("one.txt")


@pytest.mark.parametrize("name", AGENTS)
def test_interrupt_ends_the_turn_and_the_agent_with_all_below_it(
    make: Make, name: str
) -> None:
    run = make(name)
    run.start("one")
    id = run.asked()
    run.process.send_signal(signal.SIGINT)
    code, _, err = run.end()
    assert code == 130, err
    run.server.get(f"/allow?id={id}")
    assert not run.lab.has("one.txt")
    assert [row["state"] for row in run.ends()] == ["gone"]
    wait_until(lambda: not processes_of(run.lab.home), BUSY)
