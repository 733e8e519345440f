"""Passes: never a use more than granted, none after its end, whatever breaks."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.models.ask import to_plain
from feishuperm.services.grants import (
    DAY,
    MARK,
    MOST,
    Pass,
    Passes,
    check_rule,
    read_pass,
)
from feishuperm.services.ledger import Ledger
from tests.conftest import examples
from tests.tables import every_row

RULE = "Bash(npm test)"
CALL = Pass(rules=(RULE,), call="d1", session="s1", project="/p")
SCOPE = Pass(rules=(RULE,), shown=RULE, session="s1", project="/p")


class Disk:
    """A ledger in memory: what it took is there after a kill, what waits is not."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []
        self.waiting: list[dict[str, Any]] = []
        self.full = False

    def intend(self, entry: dict[str, Any]) -> int:
        self.flush()
        if self.full:
            raise OSError(28, "No space left on device")
        self.lines.append({**entry, "event": "intent"})
        return len(self.lines)

    def finish(self, intent: int, entry: dict[str, Any]) -> None:
        self.note(entry)
        self.flush()

    def note(self, entry: dict[str, Any]) -> None:
        self.waiting.append(entry)

    def flush(self) -> int:
        if not self.full:
            self.lines += self.waiting
            self.waiting = []
        return len(self.waiting)

    def pending(self) -> int:
        return len(self.waiting)

    def kill(self) -> None:
        self.waiting = []


class World:
    """Clocks, a disk, and a server that dies now and then."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.disk = Disk(str(folder / "ledger"))
        (folder / MARK).unlink(missing_ok=True)
        self.wall = 1_000_000.0
        self.ticks = 500.0
        self.boot = "b"
        self.true = 0.0  # seconds that have really passed
        self.requests = 0
        self.granted: dict[str, tuple[int, float]] = {}  # calls, and the real end
        self.allowed: dict[str, int] = {}
        self.revoked: set[str] = set()
        self.start()

    def start(self) -> None:
        self.passes = Passes(
            self.disk,  # type: ignore[arg-type]
            lambda: self.wall,
            lambda: self.ticks,
            self.boot,
        )
        if not self.disk.pending():
            self.passes.restore(self.disk.lines)

    def make(self) -> None:
        calls, seconds = self.rng.choice((0, 1, 2, 3)), self.rng.choice((5, 60, 9e9))
        rule = self.rng.choice((RULE, "Bash(ls)"))
        try:
            row = self.passes.make(
                SCOPE._replace(rules=(rule,), calls=calls), seconds, "page"
            )
        except FeishupermError:
            return
        self.granted[row.id] = (calls, self.true + min(seconds, DAY))

    def use(self) -> None:
        """As the desk does: found, on the disk, counted, then allowed."""
        rule = self.rng.choice((RULE, "Bash(ls)"))
        row = self.passes.find(CALL._replace(rules=(rule,)))
        if row is None:
            return
        assert rule in row.rules
        self.requests += 1
        entry = {"id": f"r{self.requests}", "pass": row.id}
        try:
            ticket = self.disk.intend(entry)
        except OSError:
            return
        if self.rng.random() < 0.1:  # killed before the allow was sent
            self.restart()
            return
        self.passes.spend(row.id)
        self.allow(row.id)
        if self.rng.random() < 0.1:  # or right after it
            self.restart()
            return
        self.disk.finish(ticket, {**entry, "event": "request", "state": "allowed"})

    def allow(self, id: str) -> None:
        calls, end = self.granted[id]
        self.allowed[id] = self.allowed.get(id, 0) + 1
        assert not calls or self.allowed[id] <= calls, "more uses than granted"
        assert self.true < end, "used after its end"
        assert id not in self.revoked, "used after it was revoked"

    def revoke(self) -> None:
        ids = [row.id for row in self.passes.all()]
        target = self.rng.choice([*ids, "all"])
        self.revoked |= {row.id for row in self.passes.revoke(target, "inbox")}

    def restart(self) -> None:
        self.disk.kill()
        self.start()

    def reboot(self) -> None:
        self.ticks, self.boot = self.rng.random() * 1000, f"b{self.rng.random()}"
        self.restart()

    def wait(self) -> None:
        seconds = self.rng.choice((1, 4, 30, 4000, 50_000))
        self.true += seconds
        self.ticks += seconds
        self.wall += seconds

    def set_clock(self) -> None:
        self.wall += self.rng.choice((-90_000, -3600, -10, 10, 3600, 90_000))

    def fill_disk(self) -> None:
        self.disk.full = not self.disk.full

    STEPS = (make, use, use, use, use, revoke, restart, wait, set_clock, fill_disk)


def test_ten_thousand_random_sequences_never_use_more_than_granted(
    tmp_path: Path,
) -> None:
    uses = revoked = 0
    tries = examples(10_000)
    for seed in range(tries):
        world = World(tmp_path, seed)
        for _ in range(40):
            world.rng.choice(World.STEPS)(world)
        if seed % 10 == 0:
            world.reboot()
            assert not world.passes.all()
        uses += sum(world.allowed.values())
        revoked += len(world.revoked)
    assert uses > tries / 2 and revoked > tries / 20, "or nothing was tried"


class Desk:
    """Passes on a real ledger."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_700_000_000.0
        self.ticks = 1000.0
        self.path = folder / "ledger.jsonl"
        self.start()

    def start(self) -> None:
        self.ledger = Ledger(str(self.path), lambda: self.now)
        self.ledger.recover()
        self.passes = Passes(self.ledger, lambda: self.now, lambda: self.ticks, "b")
        self.passes.restore(self.ledger.vouched(DAY))

    def use(self, id: str = "r1", call: Pass = CALL) -> bool:
        row = self.passes.find(call)
        if row is None:
            return False
        entry = {"id": id, "pass": row.id, "state": "allowed"}
        self.ledger.finish(self.ledger.intend(entry), {**entry, "event": "request"})
        self.passes.spend(row.id)
        return True


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_pass_survives_a_restart_with_the_uses_it_has_left(desk: Desk) -> None:
    desk.passes.make(SCOPE._replace(calls=3), 600, "command")
    assert desk.use("r1")
    desk.start()
    [row] = desk.passes.all()
    assert (desk.passes.left(row), desk.passes.seconds_left(row)) == (2, 600)
    assert desk.use("r2") and desk.use("r3") and not desk.use("r4")
    desk.start()
    assert not desk.use("r5")


def test_use_whose_server_died_before_the_allow_is_a_use(desk: Desk) -> None:
    row = desk.passes.make(SCOPE._replace(calls=1), 600, "command")
    desk.ledger.intend({"id": "r1", "pass": row.id})
    desk.start()
    assert not desk.use("r2")


def test_revoked_pass_does_not_come_back(desk: Desk) -> None:
    row = desk.passes.make(SCOPE, 600, "command")
    assert desk.passes.revoke(row.id, "inbox") == [row]
    assert not desk.use()
    desk.start()
    assert not desk.use()
    assert desk.passes.revoke(row.id, "inbox") == []


def test_pass_without_its_mark_is_not_restored(desk: Desk, tmp_path: Path) -> None:
    desk.passes.make(SCOPE, 600, "command")
    (tmp_path / MARK).unlink()
    desk.start()
    assert not desk.passes.all()


def test_line_that_somebody_wrote_into_the_ledger_is_no_pass(desk: Desk) -> None:
    row = desk.passes.make(SCOPE, 600, "command")
    forged = desk.path.read_text().replace(row.id, "deadbeef").replace("npm test", "ls")
    desk.path.write_text(forged)
    desk.start()
    assert not desk.passes.all()


def test_ledger_put_back_to_before_its_uses_restores_nothing(desk: Desk) -> None:
    desk.passes.make(SCOPE._replace(calls=1), 600, "command")
    before = desk.path.read_bytes()
    assert desk.use()
    desk.ledger.flush()
    desk.path.write_bytes(before)
    desk.start()
    assert not desk.use("r2")


@pytest.mark.parametrize("jump", [-100_000.0, -10.0, 0.0])
def test_clock_set_back_prolongs_nothing(desk: Desk, jump: float) -> None:
    desk.passes.make(SCOPE, 600, "command")
    desk.now += 600 + jump
    desk.ticks += 600
    assert not desk.use()
    desk.start()
    assert not desk.use()


def test_clock_set_forward_ends_it(desk: Desk) -> None:
    desk.passes.make(SCOPE, 600, "command")
    desk.now += 700
    assert not desk.use()


def test_no_pass_lives_longer_than_a_day(desk: Desk) -> None:
    row = desk.passes.make(SCOPE, 10 * DAY, "command")
    assert row.ends - row.made == DAY
    assert row.until - desk.ticks == DAY


@pytest.mark.parametrize(
    "call",
    [
        CALL._replace(rules=("Bash(npm test )",)),
        CALL._replace(rules=("Bash(npm test && rm -rf ~)",)),
        CALL._replace(rules=()),
        CALL._replace(session="s2"),
        CALL._replace(session=""),
        CALL._replace(project="/p/sub"),
        CALL._replace(project=""),
    ],
)
def test_pass_covers_nothing_else(desk: Desk, call: Pass) -> None:
    desk.passes.make(SCOPE, 600, "command")
    assert not desk.use(call=call)
    assert desk.use(call=CALL)


def test_pass_for_one_call_covers_that_call_only(desk: Desk) -> None:
    desk.passes.make(SCOPE._replace(rules=(), call="d1"), 600, "command")
    assert desk.use(call=CALL._replace(rules=()))
    assert not desk.use("r2", CALL._replace(call="d2"))


def test_pass_bound_to_nothing_covers_nothing(desk: Desk) -> None:
    desk.passes.make(SCOPE._replace(session="", project=""), 600, "command")
    assert not desk.use()


def test_pass_of_a_project_covers_every_session_in_it(desk: Desk) -> None:
    desk.passes.make(SCOPE._replace(session=""), 600, "command")
    assert desk.use(call=CALL._replace(session="s9"))


def test_there_are_only_so_many_passes(desk: Desk) -> None:
    for number in range(MOST):
        desk.passes.add(desk.passes.draft(SCOPE._replace(call=str(number)), 600))
    with pytest.raises(FeishupermError, match="100 passes"):
        desk.passes.make(SCOPE, 600, "command")


@every_row(
    "rule",
    [
        *("Bash", "Bash(*)", "Bash(npm *)", "Bash(npm:*)", "Bash()", "WebSearch", "*"),
        *("", "mcp__x__y", "Edit", "Edit(/p/a)", "Edit(//p/*)", "Edit(//p/a?)"),
        *("Read(//[a]b)", "WebFetch", "WebFetch(domain:*)", "WebFetch(https://a.b)"),
        "Write(//p/a)",
        "Bash(curl -H 'Authorization: Bearer abcdefghijklmnop')",
    ],
)
def test_rule_that_is_not_exact_makes_no_pass(rule: str) -> None:
    with pytest.raises(FeishupermError):
        check_rule(rule)


@every_row(
    "rule", [RULE, "Edit(//p/a.py)", "Read(//p/a)", "WebFetch(domain:example.com)"]
)
def test_exact_rule_makes_a_pass(rule: str) -> None:
    check_rule(rule)


def test_pass_is_read_as_it_was_kept_and_nothing_else_is() -> None:
    row = SCOPE._replace(id="a", made=1.0, ends=2.0, until=2.0)
    assert read_pass(to_plain(row)) == row
    kept = to_plain(row)
    for name in kept:
        assert read_pass({**kept, name: None}) is None
    assert read_pass({**kept, "rules": [1]}) is None
    assert read_pass({**kept, "calls": -1}) is None
    assert read_pass([]) is None
