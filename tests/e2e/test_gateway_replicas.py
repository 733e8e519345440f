"""Several gateways on one real redis-server; each event goes to a random one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.e2e.test_gateway import channel
from tests.fakes.feishu_app import FakePlatform
from tests.gateways import Balancer, RedisServer, RunningGateway, enrolment, join
from tests.served import Served, decision, event, finish

pytestmark = pytest.mark.redis


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform() as platform:
        yield platform


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis", requirepass="s3cret") as server:
        yield server


@pytest.fixture
def balancer() -> Iterator[Balancer]:
    balancer = Balancer()
    yield balancer
    balancer.close()


@pytest.fixture
def gateways(
    pyz: Path, tmp_path: Path, feishu: FakePlatform, redis: RedisServer,
    balancer: Balancer,
) -> Iterator[list[RunningGateway]]:  # fmt: skip
    running = [
        RunningGateway(
            pyz, tmp_path / f"gateway{number}", feishu, FEISHUPERM_ENGINE=redis.url
        )
        for number in range(3)
    ]
    try:
        for gateway in running:
            gateway.start()
            balancer.ports.append(gateway.port)
        wait_until(lambda: len(feishu.connections.open) == 3)
        yield running
    finally:
        for gateway in running:
            if gateway.process is not None:
                gateway.stop()


@pytest.fixture
def machine(
    pyz: Path, tmp_path: Path, gateways: list[RunningGateway], balancer: Balancer,
    feishu: FakePlatform,
) -> Iterator[Served]:  # fmt: skip
    home = tmp_path / "laptop"
    join(pyz, home, balancer, feishu, "--name", "laptop")
    with Served(pyz, home) as server:
        wait_until(lambda: channel(server)["state"] == "up")
        yield server


def asked(machine: Served, feishu: FakePlatform) -> tuple[object, str]:
    cards = len(feishu.app_messages)
    hook = machine.hook(event())
    wait_until(lambda: len(feishu.app_messages) > cards)
    return hook, feishu.last


def test_taps_find_the_machine_through_any_replica(
    machine: Served, feishu: FakePlatform
) -> None:
    for _ in range(6):
        hook, message = asked(machine, feishu)
        tap = feishu.tap(message, "批准运行")
        assert tap.ok and tap.toast["content"] == "已批准运行", tap
        assert decision(finish(hook)) == {"behavior": "allow"}


def test_killed_replica_loses_no_request(
    machine: Served, feishu: FakePlatform, gateways: list[RunningGateway]
) -> None:
    hook, message = asked(machine, feishu)
    holder = next(g for g in gateways if "is here from" in g.output())
    wait_until(lambda: "feishuperm_cards_total 1\n" in holder.get("/metrics")[1])
    holder.kill()
    wait_until(lambda: channel(machine)["state"] == "down")
    wait_until(lambda: channel(machine)["state"] == "up", timeout=40)

    def tapped() -> bool:
        tap = feishu.tap(message, "批准运行")
        return tap.ok and tap.toast["type"] == "success"

    wait_until(tapped, timeout=20)
    assert decision(finish(hook)) == {"behavior": "allow"}


def test_restarted_engine_forgets_nothing(
    machine: Served, feishu: FakePlatform, gateways: list[RunningGateway],
    redis: RedisServer,
) -> None:  # fmt: skip
    hook, message = asked(machine, feishu)
    redis.kill()
    tap = feishu.tap(message, "批准运行")
    assert tap.toast == {"type": "warning", "content": "请再点一次"}
    assert hook.poll() is None  # type: ignore[attr-defined]
    wait_until(lambda: gateways[0].get("/readyz")[0] == 503)
    redis.start()
    wait_until(lambda: all(g.get("/readyz")[0] == 200 for g in gateways), timeout=30)

    def tapped() -> bool:
        return feishu.tap(message, "批准运行").toast["type"] == "success"

    wait_until(tapped, timeout=30)
    assert decision(finish(hook)) == {"behavior": "allow"}


@pytest.fixture
def lone(
    pyz: Path, tmp_path: Path, feishu: FakePlatform, redis: RedisServer
) -> Iterator[RunningGateway]:
    """One gateway, which is enough where only its engine matters."""
    home = tmp_path / "lone"
    with RunningGateway(pyz, home, feishu, FEISHUPERM_ENGINE=redis.url) as running:
        yield running


@pytest.fixture
def laptop(
    pyz: Path, tmp_path: Path, lone: RunningGateway, feishu: FakePlatform
) -> Iterator[Served]:
    home = tmp_path / "laptop"
    join(pyz, home, lone, feishu, "--name", "laptop")
    with Served(pyz, home, PERMISSION_REQUEST_TIMEOUT="15") as server:
        wait_until(lambda: channel(server)["state"] == "up")
        yield server


@contextlib.contextmanager
def away(redis: RedisServer, is_killed: bool = False) -> Iterator[None]:
    """The engine does not answer, since it is frozen or gone; then it is back."""
    assert redis.process is not None
    if is_killed:
        redis.kill()
        yield
        redis.start()
        return
    os.kill(redis.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(redis.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("is_killed", [False, True])
def test_request_is_released_while_the_engine_is_away(
    laptop: Served, lone: RunningGateway, feishu: FakePlatform, redis: RedisServer,
    is_killed: bool,
) -> None:  # fmt: skip
    hook, message = asked(laptop, feishu)
    with away(redis, is_killed):
        wait_until(lambda: channel(laptop)["state"] == "down")
        assert "engine" in channel(laptop)["detail"]
        assert finish(laptop.hook(event())) == "", "released at once"
        assert finish(hook, timeout=40) == "", "nobody could answer it"
    wait_until(lambda: feishu.buttons(message) == [], timeout=40)
    wait_until(lambda: lone.machines()[0]["waiting"] == 0)


def test_card_of_what_ended_while_the_engine_was_frozen_becomes_a_record(
    laptop: Served, lone: RunningGateway, feishu: FakePlatform, redis: RedisServer
) -> None:
    hook, message = asked(laptop, feishu)
    with away(redis):
        hook.kill()  # type: ignore[attr-defined]
        wait_until(lambda: laptop.waiting() == [])
        wait_until(lambda: lone.get("/readyz")[0] == 503)
    wait_until(lambda: feishu.buttons(message) == [], timeout=40)
    wait_until(lambda: lone.machines()[0]["waiting"] == 0)


def test_engine_that_lost_its_last_writes_locks_nobody_out(
    laptop: Served, lone: RunningGateway, redis: RedisServer
) -> None:
    backup = redis.home.with_name("backup")
    redis.kill()
    shutil.copytree(redis.home, backup)
    redis.start()
    wait_until(lambda: channel(laptop)["state"] == "up", timeout=40)
    key = enrolment(laptop.home)["keys"][0]
    laptop.stop()
    laptop.start()
    wait_until(lambda: enrolment(laptop.home)["keys"][0] != key)
    wait_until(lambda: channel(laptop)["state"] == "up")
    laptop.stop()
    redis.kill()
    shutil.rmtree(redis.home)
    shutil.copytree(backup, redis.home)
    redis.start()
    wait_until(lambda: lone.get("/readyz")[0] == 200, timeout=30)
    laptop.start()
    wait_until(lambda: channel(laptop)["state"] == "up", timeout=40)


def test_tap_after_a_replica_was_killed_is_not_told_as_sent(
    machine: Served, feishu: FakePlatform, gateways: list[RunningGateway],
    balancer: Balancer,
) -> None:  # fmt: skip
    _, message = asked(machine, feishu)
    holder = next(g for g in gateways if "is here from" in g.output())
    balancer.ports.clear()  # the machine cannot come back
    holder.kill()
    wait_until(lambda: len(feishu.connections.open) == 2)
    tap = feishu.tap(message, "批准运行")
    assert tap.toast["type"] == "warning" and "已发送" not in tap.toast["content"]


def test_revoke_on_one_replica_holds_on_all(
    machine: Served, feishu: FakePlatform, gateways: list[RunningGateway]
) -> None:
    _, message = asked(machine, feishu)
    (row,) = gateways[1].machines()
    assert gateways[1].run("machines", "revoke", row["id"]).returncode == 0
    wait_until(lambda: channel(machine)["state"] == "down")
    wait_until(lambda: feishu.buttons(message) == [])
    assert all(gateway.machines() == [] for gateway in gateways)


def test_wrong_password_is_one_sentence(
    pyz: Path, tmp_path: Path, feishu: FakePlatform, redis: RedisServer
) -> None:
    wrong = redis.url.replace("s3cret", "hunter2")
    gateway = RunningGateway(pyz, tmp_path / "wrong", feishu, FEISHUPERM_ENGINE=wrong)
    done = gateway.run("gateway")
    assert done.returncode == 1
    assert "WRONGPASS" in done.stderr and "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
