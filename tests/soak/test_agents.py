"""Random faults around the hooks of other agents: nobody is let through by accident.

The built file is hook and server; a process plays each agent.  In a round many of them
ask at once; something happens to each (somebody taps, forges, comes too late, the agent
is killed) and perhaps to the server, and then it is looked at what each was told.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from feishuperm.agents.table import AGENTS
from tests.agents.hooks import AgentHook
from tests.agents.parts import HOOKED, about, said_in
from tests.served import Served

ROUNDS, AT_ONCE = 5, 20  # a hundred faults for each agent
WAIT = 2  # seconds that a person has
OWN_SECONDS = 40.0  # after which the agent would end its hook itself
FAULTS = ("nobody", "allow", "deny", "forged", "killed", "late")
FORGED = "always"
TAPS = {"allow": "allow", "deny": "deny", "forged": FORGED, "late": "allow"}
OF_THE_SERVER = ("", "", "killed", "restarted", "gone")


class Asking(NamedTuple):
    """An agent's hook, and what happens to it."""

    hook: AgentHook
    fault: str
    began: float


def begin(server: Served, agent: str, number: int, fault: str) -> Asking:
    event = about(agent, command=f"touch {number}")
    return Asking(AgentHook(server, agent, event), fault, time.monotonic())


def tap(server: Served, rows: list[Asking], chance: random.Random) -> set[int]:
    """Tap on what is pending; the numbers of those that were to be allowed."""
    allowed = set()
    for row in (server.control(command="status") or {}).get("waiting", ()):
        number = int(row["summary"].rpartition(" ")[2])
        fault = rows[number].fault
        if fault not in TAPS or (fault == "late" and chance.random() < 0.9):
            continue
        if TAPS[fault] == "allow":
            allowed.add(number)
        action = TAPS[fault]
        if action == FORGED and action in AGENTS[row["agent"]].actions:
            action = "edit"
        try:
            server.post(f"/{action}", id=row["id"], confirmed="1")
        except OSError:
            return allowed  # it was just ended
    return allowed


def upset(server: Served, fault: str) -> None:
    if fault:
        server.kill() if fault == "killed" else server.stop()
    if fault and fault != "gone":
        server.start()


@pytest.mark.parametrize("agent", HOOKED)
def test_agent_is_never_let_through_without_a_tap_and_never_left_hanging(
    pyz: Path, home: Path, agent: str
) -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    wait = {"PERMISSION_REQUEST_TIMEOUT": str(WAIT)}
    told = 0
    with Served(pyz, home, **wait) as server:
        for round in range(ROUNDS):
            faults = [chance.choice(FAULTS) for _ in range(AT_ONCE)]
            rows = [begin(server, agent, *row) for row in enumerate(faults)]
            allowed: set[int] = set()
            moment, fault = chance.randrange(8), chance.choice(OF_THE_SERVER)
            for step in range(8):
                if step == moment:
                    upset(server, fault)
                if fault != "gone" or step < moment:
                    allowed |= tap(server, rows, chance)
                for row in rows:
                    if row.fault == "killed" and chance.random() < 0.2:
                        row.hook.kill()
                time.sleep(chance.random() * 0.2)
            for number, row in enumerate(rows):
                what = (seed, round, number, row.fault, fault)
                if row.fault == "killed":
                    row.hook.kill()
                    continue
                said = row.hook.finish(OWN_SECONDS)
                assert time.monotonic() - row.began < OWN_SECONDS, what
                decision = said_in(said)["behavior"] if said else ""
                assert decision != "allow" or number in allowed, (what, said)
                told += bool(decision)
            if fault == "gone":
                server.start()
        ends = [row for row in server.ledger() if row["event"] == "request"]
    assert told
    assert all(row["action"] == "allow" for row in ends if row["state"] == "allowed")
