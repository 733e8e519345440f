"""One run: some hooks, some taps, something that goes wrong, and then the reckoning.

What must hold whatever happened:

    hung        no hook lives past its deadline
    doubled     no request has two ends in the ledger
    lost        a tap whose page said "done" reached its hook
    unrecorded  no allow, and no refusal by a person, without a tap in the finger's own
                list and an entry in the ledger
    broken      what a hook prints is one JSON object or nothing; settings files parse;
                the ledger is sound
    disagree    hook, ledger, status and page tell the same end
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from feishuperm.services.ledger import SPOOL_BYTES as SPOOL
from feishuperm.services.ledger_check import check
from tests.soak.world import DONE, LONGEST, Hook, World

BEHAVIOUR = {"allow": "allow", "always": "allow", "deny": "deny", "interrupt": "deny"}
STATES = {"allow": "allowed", "always": "allowed", "deny": "denied"}
KINDS = ("hung", "doubled", "lost", "unrecorded", "broken", "disagree")
AWAY = 0.6  # seconds at most that a server is away
SETTLE = 0.4  # for the ledger to be written after the last end
LATE = 10.0  # for what a lock or a full disk kept from it, which the server knows


class Violation(NamedTuple):
    """Something that must not happen, and did."""

    kind: str  # one of KINDS
    what: str


# Faults: each leaves the world able to go on.


def kill_server(world: World, hooks: list[Hook], rng: random.Random) -> None:
    world.end(signal.SIGKILL)
    time.sleep(rng.uniform(0, AWAY))
    world.start()


def crash_loop(world: World, hooks: list[Hook], rng: random.Random) -> None:
    for _ in range(3):
        world.end(signal.SIGKILL)
        world.start()
        time.sleep(rng.uniform(0, 0.1))


def hand_over(world: World, hooks: list[Hook], rng: random.Random) -> None:
    # Another fault may have deleted the socket file, for a second or so.
    while world.control(command="handover") is None:
        time.sleep(0.1)
    assert world.server is not None
    world.server.wait(15)
    time.sleep(rng.uniform(0, AWAY))
    world.start()


def stop_server(world: World, hooks: list[Hook], rng: random.Random) -> None:
    world.end(signal.SIGTERM)
    world.start()


def freeze_server(world: World, hooks: list[Hook], rng: random.Random) -> None:
    assert world.server is not None
    world.server.send_signal(signal.SIGSTOP)
    time.sleep(rng.uniform(0, AWAY))
    world.server.send_signal(signal.SIGCONT)


def kill_hook(world: World, hooks: list[Hook], rng: random.Random) -> None:
    rng.choice(hooks).kill()


def kill_client(world: World, hooks: list[Hook], rng: random.Random) -> None:
    rng.choice(hooks).kill_client()


def kill_platform(world: World, hooks: list[Hook], rng: random.Random) -> None:
    world.stop_platform()
    time.sleep(rng.uniform(0, AWAY))
    world.start_platform()


def delete_socket(world: World, hooks: list[Hook], rng: random.Random) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(world.environ["PERMISSION_SOCKET_PATH"])


def lock_ledger(world: World, hooks: list[Hook], rng: random.Random) -> None:
    with world.ledger_locked():
        time.sleep(rng.uniform(0, AWAY))


def fill_disk(world: World, hooks: list[Hook], rng: random.Random) -> None:
    """No file of the server can grow: to it, a full disk."""
    # What is overwritten in its place, which a full disk allows, is no longer than
    # this: the head of the ledger, and the spool.
    with world.limited(resource.RLIMIT_FSIZE, SPOOL):
        time.sleep(rng.uniform(0, AWAY))


def take_descriptors(world: World, hooks: list[Hook], rng: random.Random) -> None:
    with world.limited(resource.RLIMIT_NOFILE, world.descriptors() + rng.randrange(3)):
        time.sleep(rng.uniform(0, AWAY))


Fault = Callable[[World, list[Hook], random.Random], None]
FAULTS: tuple[Fault, ...] = (
    *(kill_server, kill_server, kill_server, crash_loop, hand_over, stop_server),
    *(freeze_server, kill_hook, kill_client, kill_platform, delete_socket),
    *(lock_ledger, fill_disk, take_descriptors),
)


class Run:
    """One run in a world; `violations` is what came out."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.violations: list[Violation] = []
        self.taps: list[threading.Thread] = []
        self.hooks: list[Hook] = []
        self.names = [fault.__name__ for fault in self._choose()]

    def _choose(self) -> list[Fault]:
        self.faults = self.rng.sample(FAULTS, self.rng.choice((0, 1, 1, 1, 2)))
        return self.faults

    def play(self) -> list[Violation]:
        """The whole run, from healthy to healthy."""
        self.world.start_platform()
        self.world.start()
        self.hooks = [self.world.hook() for _ in range(self.rng.randrange(4, 9))]
        self._act()
        self._wait()
        self.world.start()
        time.sleep(SETTLE)
        self._await_ledger()
        self._judge()
        return self.violations

    def _act(self) -> None:
        """Taps and faults at random moments of the first seconds."""
        moments: list[tuple[float, Callable[[], None]]] = []
        for hook in self.hooks:
            for _ in range(self.rng.choice((0, 1, 1, 1, 1, 2))):
                action = self.rng.choice(tuple(DONE))
                moments.append((self.rng.uniform(0.1, 1.9), self._tapper(hook, action)))
        for fault in self.faults:
            moments.append((self.rng.uniform(0, 1.6), self._breaker(fault)))
        began = time.monotonic()
        for moment, do in sorted(moments, key=lambda pair: pair[0]):
            time.sleep(max(0.0, began + moment - time.monotonic()))
            do()

    def _tapper(self, hook: Hook, action: str) -> Callable[[], None]:
        def do() -> None:
            if not hook.id:
                self.world.learn_ids(self.hooks)
            if hook.id:
                tap = threading.Thread(target=self.world.tap, args=(hook, action))
                tap.start()
                self.taps.append(tap)

        return do

    def _breaker(self, fault: Fault) -> Callable[[], None]:
        return lambda: fault(self.world, self.hooks, self.rng)

    def _wait(self) -> None:
        for tap in self.taps:
            tap.join(15)
        for hook in self.hooks:
            hook.reader.join(max(0.0, hook.began + LONGEST - time.monotonic()))
            if hook.reader.is_alive():
                self._say("hung", hook, f"lives after {LONGEST:.0f} s")
                hook.kill()
                hook.kill_client()
                hook.reader.join(10)

    def _await_ledger(self) -> None:
        """The server tries again every second until the disk takes what it has."""
        until = time.monotonic() + LATE
        while self._status().get("ledger", {}).get("pending"):
            if time.monotonic() > until:
                return
            time.sleep(0.05)

    # The reckoning.

    def _judge(self) -> None:
        entries = list(self.world.ledger().entries())
        waiting = {row["project"] for row in self._status().get("waiting", ())}
        for hook in self.hooks:
            mine = [e for e in entries if e.get("project") == hook.project]
            ends = [e for e in mine if e.get("event") == "request"]
            self._judge_ends(hook, ends)
            try:
                decision = hook.decision()
            except (ValueError, KeyError, TypeError):
                self._say("broken", hook, f"printed {hook.printed!r}")
                continue
            self._judge_decision(hook, decision, ends)
            self._judge_successes(hook, decision)
            self._judge_rules(hook, mine)
            if hook.project in waiting:
                self._say("disagree", hook, "has ended, and its request waits")
        self._judge_page()

    def _status(self) -> dict[str, Any]:
        return self.world.control(command="status") or {}

    def _judge_ends(self, hook: Hook, ends: list[dict[str, Any]]) -> None:
        by_id: dict[str, int] = {}
        for entry in ends:
            by_id[entry["id"]] = by_id.get(entry["id"], 0) + 1
        if any(count > 1 for count in by_id.values()) or len(by_id) > 1:
            self._say("doubled", hook, f"has the ends {ends}")

    def _judge_decision(
        self, hook: Hook, decision: dict[str, Any], ends: list[dict[str, Any]]
    ) -> None:
        """What a hook said is in the ledger, and somebody tapped it."""
        if not decision:
            return
        expired = decision.get("message") == "权限请求超时，自动拒绝"
        actions = {e["action"] for e in ends}
        if expired:
            if any(e["state"] not in ("expired",) for e in ends):
                self._say("disagree", hook, f"timed out, the ledger has {ends}")
            return
        acts = {act.action for act in self.world.acts if act.project == hook.project}
        fitting = {a for a in acts if BEHAVIOUR[a] == decision["behavior"]}
        if not fitting:
            self._say("unrecorded", hook, f"said {decision}, tapped was {acts}")
        elif not actions & fitting:
            self._say("unrecorded", hook, f"said {decision}, the ledger has {ends}")

    def _judge_successes(self, hook: Hook, decision: dict[str, Any]) -> None:
        """What a page called done was done."""
        done = [a for a in self.world.successes if a.project == hook.project]
        if len(done) > 1:
            self._say("doubled", hook, f"two taps succeeded: {done}")
        if done and not hook.killed:
            wanted = BEHAVIOUR[done[0].action]
            if decision.get("behavior") != wanted:
                self._say("lost", hook, f"{done[0].action} tapped, said {decision}")

    def _judge_rules(self, hook: Hook, entries: list[dict[str, Any]]) -> None:
        """A rule in a settings file is in the ledger too."""
        path = os.path.join(hook.project, ".claude", "settings.local.json")
        if not os.path.exists(path):
            return
        try:
            with open(path, encoding="utf-8") as file:
                rules = json.load(file)["permissions"]["allow"]
        except (ValueError, KeyError, TypeError) as error:
            self._say("broken", hook, f"settings.local.json: {error!r}")
            return
        recorded = [e for e in entries if e.get("action") == "always"]
        if rules and not recorded:
            self._say("unrecorded", hook, f"the rules {rules}")

    def _judge_page(self) -> None:
        """One page, drawn at random, against its ledger entry."""
        known = [hook for hook in self.hooks if hook.id]
        if not known:
            return
        hook = self.rng.choice(known)
        ends = [e for e in self.world.ledger().find(hook.id) if e.get("action")]
        ends = [e for e in ends if e.get("event") == "request"]
        if not ends or ends[-1]["state"] == "unknown":
            return
        page = self.world.get(self.world.links().path("/request", hook.id))
        action = ends[-1]["action"]
        words = (DONE[action], "已批准") if action == "always" else (DONE[action],)
        if not any(word in page for word in words):
            self._say("disagree", hook, f"{action} in the ledger, page {page[:300]!r}")

    def _say(self, kind: str, hook: Hook, what: str) -> None:
        text = f"{os.path.basename(hook.project)} ({hook.id}) {what} {self.names}"
        self.violations.append(Violation(kind, text))


def judge_world(world: World) -> list[Violation]:
    """What must hold when a world ends: a sound ledger."""
    report = check(world.ledger())
    return [Violation("broken", f"ledger: {p}") for p in report.problems] + [
        Violation("unrecorded", f"ledger: {m}") for m in report.missing
    ]


class Soak:
    """All runs, shared out among threads; what a world and a run are is told below."""

    name = "soak"
    kinds: tuple[str, ...] = KINDS
    worlds = 4  # at a time; most of a run is waiting
    runs_per_world = 25

    def __init__(self, pyz: str, runs: int, seed: int) -> None:
        self.pyz = pyz
        self.seed = seed
        self.left = list(range(-(-runs // self.runs_per_world)))
        self.runs = 0
        self.hooks = 0
        self.faults: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self.lock = threading.Lock()

    def world(self, number: int, home: Path) -> Any:
        raise NotImplementedError

    def run(self, world: Any, rng: random.Random) -> Any:
        return Run(world, rng)

    def look(self, world: Any, rng: random.Random) -> list[Violation]:
        """What is wrong after the last run."""
        raise NotImplementedError

    def count(self, world: Any) -> None:
        self.hooks += world.hooks

    def play(self) -> float:
        """Every run; how many seconds they took."""
        began = time.monotonic()
        threads = [threading.Thread(target=self._work) for _ in range(self.worlds)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - began

    def _work(self) -> None:
        while True:
            with self.lock:
                if not self.left:
                    return
                number = self.left.pop()
            with tempfile.TemporaryDirectory(prefix="soak") as folder:
                self._live(number, Path(folder))

    def _live(self, number: int, home: Path) -> None:
        """One world: some runs, then a look at what is left."""
        rng = random.Random(f"{self.name} {self.seed} {number}")
        world = self.world(number, home)
        violations: list[Violation] = []
        try:
            for _ in range(self.runs_per_world):
                run = self.run(world, rng)
                violations += run.play()
                with self.lock:
                    self.runs += 1
                    self.faults.update(run.names or ["none"])
            violations += self.look(world, rng)
        except Exception as error:  # of the soak itself; it must not go unnoticed
            violations.append(Violation("broken", f"the run: {error!r} {world.log()}"))
        finally:
            world.close()
        violations += judge_world(world)
        with self.lock:
            self.violations += violations
            self.count(world)
        for violation in violations:
            print(f"{self.name}: world {number}: {violation}", flush=True)

    def tell(self) -> None:
        """Which faults there were, and what came of them."""
        counts = Counter(violation.kind for violation in self.violations)
        faults = ", ".join(f"{name} {count}" for name, count in self.faults.items())
        print(f"{self.name}: faults {faults}")
        print(
            f"{self.name}: "
            + ", ".join(f"{counts[kind]} {kind}" for kind in self.kinds)
        )
