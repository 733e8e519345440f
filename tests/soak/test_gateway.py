"""A few runs of the gateways' faults; `build.py soak gateway` makes three hundred."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from feishuperm.models.ask import Answer
from tests.bench.fleet import SimMachine
from tests.fakes.feishu_app import Tap
from tests.soak import forged, gateway
from tests.soak.gateway import GatewayRun, GatewayWorld, Press, said, wait_for

SHORT = [[gateway.kill_gateway], [gateway.kill_redis, gateway.cut_machines]]


@pytest.mark.redis
def test_taps_while_gateways_fail_are_done_once_or_to_be_tried_again(
    pyz: Path, home: Path
) -> None:
    world = GatewayWorld(pyz, home, machines=20)
    violations = []
    words: set[str] = set()
    try:
        world.start()
        for faults in SHORT:
            run = GatewayRun(world, random.Random("short"))
            run.faults = faults
            violations += run.play()
            words |= {press.word for r in run.requests for press in r.presses}
    finally:
        world.close()
    assert violations == []
    assert "done" in words, "nothing was tapped, so nothing was tried"


@pytest.mark.redis
def test_forged_taps_reach_nobody(pyz: Path, home: Path) -> None:
    forging = forged.Forging(pyz, home, taps=400, seed=1, machines=10)
    assert forging.play() == []
    assert forging.genuine and forging.words["done"] == forging.genuine


def reckoned(
    begun: list[str], presses: list[Press], applied: list[str], entered: int = 1
) -> set[str]:
    """The kinds of violations of a request to which this happened."""
    machine: Any = SimpleNamespace(id="m-1", owner="ou_1")
    machine.applied = {
        id: [(0.0, Answer(id, action, who="ou_1")) for action in applied]
        for id in ([REQUEST] if applied else [])
    }
    fleet = SimpleNamespace(machines=[machine], wrong=[])
    world: Any = SimpleNamespace(fleet=fleet, entered={("m-1", REQUEST): entered})
    run = GatewayRun(world, random.Random(1))
    request = gateway.Request(machine, REQUEST)
    request.begun, request.presses, request.events = begun, presses, len(begun)
    run._judge(request)
    return {violation.kind for violation in run.violations}


REQUEST = "1-a"


def test_reckoning_notices_what_must_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "APPLY_SECONDS", 0.0)
    done, sent = Press("allow", "done"), Press("allow", "sent")
    assert reckoned(["allow"], [done], ["allow"]) == set()
    assert reckoned(["allow"], [sent], ["allow"]) == set()
    assert reckoned(["allow"], [done], ["deny"]) == {"lost", "untapped"}
    assert reckoned(["allow"], [sent], [], entered=0) == {"lost"}
    assert reckoned(["deny"], [], ["allow"]) == {"untapped"}
    assert reckoned(["allow"], [done], ["allow", "allow"]) == {"doubled", "lost"}
    assert reckoned(["allow"], [done], ["allow"], entered=2) == {"doubled"}
    assert reckoned(["allow"], [Press("allow", "over")], []) == {"misled"}


def test_words_of_a_phone_are_understood() -> None:
    def toast(kind: str, words: str) -> str:
        return said(Tap(True, {"type": kind, "content": words}, None))

    assert toast("success", "已批准运行") == "done"
    assert toast("info", "已发送给 laptop") == "sent"
    assert toast("info", "已拒绝运行") == "told"
    assert toast("warning", "请再点一次") == "again"
    assert toast("warning", "laptop 不在线（自 10:00 起）") == "away"
    assert toast("warning", "请求无效或已过期") == "over"
    assert toast("error", "只有 …owner 能回答") == "error 只有 …owner 能回答"
    assert said(Tap(False, {}, None, 200341)) == "lost"


def is_record(world: GatewayWorld, message: str) -> bool:
    return not world.feishu.buttons(message)


def is_out(machine: SimMachine) -> bool:
    return not machine.is_in


@pytest.mark.redis
def test_revoked_machine_is_out_on_every_replica(pyz: Path, home: Path) -> None:
    world = GatewayWorld(pyz, home, machines=6)
    try:
        world.start()
        worst = 0.0
        for number, machine in enumerate(world.fleet.machines):
            request = gateway.Request(machine, f"1-{number}")
            world.fleet.ask(machine, request.id)
            assert wait_for(partial(world.card, request), 10)
            message, values = world.card(request) or ("", {})
            operator = world.gateways[number % gateway.GATEWAYS]
            assert operator.run("machines", "revoke", machine.id).returncode == 0
            began = time.monotonic()
            assert wait_for(partial(is_out, machine), 20)
            assert wait_for(partial(is_record, world, message), 20)
            worst = max(worst, time.monotonic() - began)
            action = {"tag": "button", "value": values["allow"]}
            for _ in range(3):
                tap = world.feishu.act(message, action, machine.owner)
                assert said(tap) == "over"
        print(f"out, and its card a record, at most {worst:.2f} s after the command")
        assert not any(machine.applied for machine in world.fleet.machines)
    finally:
        world.close()
