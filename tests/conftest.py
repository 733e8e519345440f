"""What every test may use: the built file, a clean home, waiting without hanging.

Helpers are imported by name: `from tests.conftest import clean_env, wait_until`.
Quick tests are all but those marked `full`; what a test needs and where it lies decides
that (`is_full`), and only a quick file's slowest tests say it themselves.
Tests marked `browser`, `claude`, `agents`, `sdk` or `node` need a part of the system
that may be missing; they are skipped then, by name, and with CI=true they fail instead.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import hypothesis
import pytest

import build
from feishuperm.lib.language import spoken
from tests import packages, system_parts

ROOT = Path(build.__file__).resolve().parent
QUICK_EXAMPLES = 25
# A busy machine makes an example slow, not wrong.
hypothesis.settings.register_profile("full", deadline=None)
hypothesis.settings.register_profile(
    "quick", deadline=None, max_examples=QUICK_EXAMPLES
)
hypothesis.settings.load_profile("quick")
TEST_SECONDS = 300  # no test may hang; the slowest takes a tenth, on a quiet machine

# marker: (what it needs, how it is found, how to get it)
PARTS: dict[str, tuple[str, Callable[[], object], str]] = {
    "browser": ("Chromium", lambda: shutil.which("chromium"), "apt install chromium"),
    "redis": ("Redis", lambda: shutil.which("redis-server"), "apt install redis"),
    "claude": (
        "Claude Code",
        system_parts.find_claude,
        "python3 build.py test --full --system",
    ),
    "agents": (
        "the other coding agents",
        system_parts.find_agents,
        "python3 build.py test --full --system",
    ),
    "sdk": (
        "the official SDKs",
        lambda: (
            importlib.util.find_spec("claude_agent_sdk")
            and importlib.util.find_spec("lark_oapi")
        ),
        "python3 build.py test --full",
    ),
    "node": (
        "Feishu's Node SDK",
        system_parts.find_node_sdk,
        "python3 build.py test --full --system",
    ),
}


# End-to-end tests that are quick: the permission loop over inbox, webhook and app,
# rules, time-outs, no server, the user's hooks, restarts, supervisor, (un)install.
CORE = {
    *("test_app.py", "test_cards.py", "test_install.py", "test_permission_loop.py"),
    *("test_restart.py", "test_start.py", "test_supervisor.py"),
}


def is_full(item: pytest.Item) -> bool:
    """Whether a test is none of the quick ones."""
    folder = item.path.relative_to(ROOT / "tests").parts[0]
    if folder == "soak" or (folder == "e2e" and item.path.name not in CORE):
        return True
    return any(item.get_closest_marker(name) for name in PARTS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_full(item):
            item.add_marker("full")


def is_thorough() -> bool:
    """Whether tests try as much as in `build.py test --full`."""
    return hypothesis.settings.default.max_examples > QUICK_EXAMPLES


def examples(count: int) -> int:
    """So many tries in the full tests, a twentieth of them in the quick ones."""
    return count if is_thorough() else count // 20


def clean_env(home: str | os.PathLike[str], **extra: str) -> dict[str, str]:
    """An environment with nothing of the caller's but this HOME and what is named."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": os.fspath(home),
        "LANG": "C.UTF-8",
        **extra,
    }


def free_port() -> int:
    """A TCP port on loopback that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def wait_until(predicate: Callable[[], Any], timeout: float = 60) -> Any:
    """The first true value of `predicate`. Raises AssertionError after `timeout`."""
    until = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        assert time.monotonic() < until, f"not within {timeout:g} s"
        time.sleep(0.02)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A fresh HOME with nothing in it."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def decide_language() -> None:
    """A process decides once what it speaks, a test for itself."""
    spoken.cache_clear()


@pytest.fixture(scope="session")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the built file, built again if a source has changed.

    A copy, because one file is all a user gets, and because a build that somebody
    starts meanwhile must not change what is being tested.
    """
    # In a process of its own: after some properties `ast` of CPython 3.11 fails here.
    command = [sys.executable, "-c", "import build; build.ensure_archive()"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    copy = tmp_path_factory.mktemp("dist") / build.ARCHIVE.name
    shutil.copy2(build.ARCHIVE, copy)
    return copy


@pytest.fixture(scope="session")
def pythons() -> list[build.Python]:
    """One CPython of each kind found on this machine, oldest first."""
    return build.find_pythons()


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "print how much of each package the tests run (needs coverage)"
    parser.addoption("--packages", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--packages"):
        config.pluginmanager.register(packages.Packages(config))
    hear_signals()


def hear_signals() -> None:
    """A job started in the background ignores signals, and so would every child."""
    keepers = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGHUP: lambda *_: None,
    }
    for number, keep in keepers.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, keep)


def pytest_report_header() -> str:
    return "CPythons: " + ", ".join(python.version for python in build.find_pythons())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End a test that hangs, with its traceback."""

    def give_up(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"still running after {TEST_SECONDS} s", pytrace=True)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(TEST_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Do not run a test whose part of the system is missing."""
    for marker, (name, find, remedy) in PARTS.items():
        if item.get_closest_marker(marker) and not find():
            missing(f"{name} is not installed ({remedy})")


def need(program: str) -> None:
    """Do not run this test where a program is missing."""
    if not shutil.which(program):
        missing(f"{program} is not installed (python3 build.py test --full --system)")


def missing(text: str) -> NoReturn:
    """Skip the test, or with CI=true fail it: there, everything has to be run."""
    if os.environ.get("CI") == "true":
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line per part what was not run."""
    skipped = terminalreporter.stats.get("skipped", [])
    for name, _, remedy in PARTS.values():
        count = sum(f"{name} is not installed" in str(r.longrepr) for r in skipped)
        if count:
            line = f"not run: {count} tests that need {name} ({remedy})"
            terminalreporter.write_line(line, yellow=True)
