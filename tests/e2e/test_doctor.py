"""The doctor beside a running server: what keeps taps away is found and told alike.

Server, doctor, `status` and `test-card` are processes of the built file.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.health import SCOPES
from tests.conftest import wait_until
from tests.e2e.test_app import app_settings
from tests.fakes.feishu_app import FakePlatform, Handshake
from tests.fakes.proxy import BlockingProxy
from tests.served import Served


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform() as platform:
        platform.granted = list(SCOPES)
        yield platform


def run(served: Served, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [served.pyz, *words], env=served.environ, cwd=served.home, text=True,
        capture_output=True, timeout=120, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def failures(served: Served) -> list[dict[str, str]]:
    """What the doctor says that keeps taps away; then it must end with 1."""
    done = run(served, "doctor", "--json")
    rows = [row for row in json.loads(done.stdout) if row["check"] == "feishu"]
    failed = [row for row in rows if row["state"] == "fail"]
    assert done.returncode == 1 or not failed
    return failed


def is_settled(served: Served) -> bool:
    """Whether the server has dialled, and knows how that went."""
    return served.control(command="look") == {"busy": False}


def refuse_lines(feishu: FakePlatform) -> None:
    said = (("Handshake-Status", "403"),)
    feishu.connections.refusals.append(Handshake(403, said, lasts=True))


def unpublish(feishu: FakePlatform) -> None:
    feishu.published = False


def take_scopes(feishu: FakePlatform) -> None:
    feishu.granted = list(SCOPES[1:])


def leave(feishu: FakePlatform) -> None:
    pass


CASES: list[tuple[Callable[[FakePlatform], None], Any, str, str]] = [
    (refuse_lines, None, "Feishu refuses the app's connection", "/version"),
    (unpublish, None, "never published", "/capability"),
    (take_scopes, None, SCOPES[0], "install --rescan"),
    (leave, False, "the proxy refuses the connection: 403", "NO_PROXY"),
    (leave, True, "does not pass WebSockets (HTTP 403)", "NO_PROXY"),
]


@pytest.mark.parametrize(("fault", "tunnels", "text", "fix"), CASES)
def test_what_keeps_taps_away_is_a_failure_with_its_repair(
    pyz: Path,
    tmp_path: Path,
    feishu: FakePlatform,
    fault: Callable[[FakePlatform], None],
    tunnels: bool | None,
    text: str,
    fix: str,
) -> None:
    way: AbstractContextManager[Any] = nullcontext()
    if tunnels is not None:
        way = BlockingProxy(tunnels)
    fault(feishu)
    with way as proxy:
        more = {"HTTP_PROXY": proxy.url} if proxy else {}
        with Served(pyz, tmp_path, **app_settings(feishu), **more) as served:
            wait_until(lambda: is_settled(served))
            (row,) = failures(served)
    assert text in row["text"] and fix in row["fix"]
    assert "SECRET" not in row["text"]


def test_app_that_is_fine_has_no_failure(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    with Served(pyz, tmp_path, **app_settings(feishu)) as served:
        wait_until(lambda: feishu.connections.open)
        assert failures(served) == []


def test_test_card_repeats_the_reason_of_the_doctor(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    settings = {**app_settings(feishu), "PERMISSION_REQUEST_TIMEOUT": "3"}
    with (
        BlockingProxy(tunnels=True) as proxy,
        Served(pyz, tmp_path, **settings, HTTP_PROXY=proxy.url) as served,
    ):
        wait_until(lambda: is_settled(served))
        (row,) = failures(served)
        done = run(served, "test-card")
    assert done.returncode == 1 and row["text"] in done.stdout
    said, hint = done.stderr.splitlines()
    assert said == f"feishuperm: {row['text']}"
    # The doctor names the file as this user has to type it.
    assert hint.startswith("hint: let this machine reach Feishu by WebSocket")


@pytest.mark.full
def test_second_machine_is_named_within_two_minutes(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    def is_named(served: Served) -> bool:
        return "the app has 2 connections" in run(served, "status").stdout

    homes = [tmp_path / "first", tmp_path / "second"]
    for home in homes:
        home.mkdir()
    first, second = (Served(pyz, home, **app_settings(feishu)) for home in homes)
    with first:
        wait_until(lambda: feishu.connections.open)
        with second:
            wait_until(lambda: len(feishu.connections.open) == 2)
            began = time.monotonic()
            wait_until(lambda: is_named(second) and is_named(first), timeout=120)
            assert time.monotonic() - began < 120
            (row,) = failures(first)
            assert "2 connections" in row["text"] and "stop" in row["fix"]
