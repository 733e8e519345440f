"""Taps that nobody made on a button, among those that somebody did.

Every machine has requests with the same ids as every other machine, so that a swapped
part always names something that exists.  A forged tap asks for the opposite of what
the request's owner will tap, so that one that got through is seen in what was applied.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes.feishu_app import STRANGER
from tests.soak.faults import Violation
from tests.soak.gateway import GatewayWorld, Request, said, wait_for
from tests.soak.world import ROOT

TAPS = 100_000
SECONDS = 360.0  # after which the rest is not tried
MACHINES = 100
ROUND = 4_000  # taps around one request of every machine: cards have limits
FINGERS = 24
OPPOSITE = {"allow": "deny", "deny": "allow"}

Event = tuple[str, dict[str, Any], str]  # message, what the button brings, who

Forgery = Callable[[random.Random, "Request", Event, "Request", Event], Event]


def forged_id(rng: random.Random, mine: Request, event: Event, *_: Any) -> Event:
    message, value, who = event
    return message, {**value, "id": f"1-{rng.getrandbits(32):08x}"}, who


def forged_machine(rng: random.Random, mine: Request, event: Event, *_: Any) -> Event:
    message, value, who = event
    return message, {**value, "machine": f"m-{rng.getrandbits(48):012x}"}, who


def swapped_machine(
    rng: random.Random, mine: Request, event: Event, other: Request, theirs: Event
) -> Event:
    """My card's tap, at another machine, whose request has the same id."""
    message, value, who = event
    return message, {**value, "machine": other.machine.id}, who


def swapped_owner(
    rng: random.Random, mine: Request, event: Event, other: Request, theirs: Event
) -> Event:
    """The whole tap of another's card, by me: an owner, but not of that machine."""
    return theirs[0], theirs[1], mine.machine.owner


def swapped_nonce(
    rng: random.Random, mine: Request, event: Event, other: Request, theirs: Event
) -> Event:
    message, value, who = event
    return message, {**value, "nonce": theirs[1]["nonce"]}, who


def swapped_digest(
    rng: random.Random, mine: Request, event: Event, other: Request, theirs: Event
) -> Event:
    message, value, who = event
    return message, {**value, "digest": theirs[1]["digest"]}, who


def flipped_digest(rng: random.Random, mine: Request, event: Event, *_: Any) -> Event:
    message, value, who = event
    digest = value["digest"]
    flipped = f"{int(digest, 16) ^ (1 << rng.randrange(64)):016x}"
    return message, {**value, "digest": flipped}, who


def foreign_message(
    rng: random.Random, mine: Request, event: Event, other: Request, theirs: Event
) -> Event:
    return theirs[0], event[1], event[2]


def unknown_message(rng: random.Random, mine: Request, event: Event, *_: Any) -> Event:
    return f"om_{rng.getrandbits(32):x}", event[1], event[2]


def stranger(rng: random.Random, mine: Request, event: Event, *_: Any) -> Event:
    return event[0], event[1], STRANGER


def nobody(rng: random.Random, mine: Request, event: Event, *_: Any) -> Event:
    return event[0], event[1], ""


def not_offered(rng: random.Random, mine: Request, event: Event, *_: Any) -> Event:
    action = rng.choice(("always", "edit", "interrupt", "", "ALLOW", "__class__"))
    return event[0], {**event[1], "action": action}, event[2]


def missing(rng: random.Random, mine: Request, event: Event, *_: Any) -> Event:
    value = dict(event[1])
    del value[rng.choice(("id", "machine", "nonce", "digest"))]
    return event[0], value, event[2]


def odd(rng: random.Random, mine: Request, event: Event, *_: Any) -> Event:
    """A part that is no text, or one that a key could be broken out of with."""
    thing = rng.choice((None, 7, True, [], {}, ["x"], "\r\n", ":", "*", "\ud800"))
    part = rng.choice(("id", "machine", "nonce", "digest", "action"))
    return event[0], {**event[1], part: thing}, event[2]


FORGERIES: tuple[Forgery, ...] = (
    forged_id, forged_machine, swapped_machine, swapped_owner, swapped_nonce,
    swapped_digest, flipped_digest, foreign_message, unknown_message, stranger, nobody,
    not_offered, missing, odd,
)  # fmt: skip


class Forging:
    """Rounds of one request on each machine, forged taps and then the genuine one."""

    def __init__(
        self, pyz: Path, home: Path, taps: int, seed: int, machines: int = MACHINES
    ) -> None:
        self.world = GatewayWorld(pyz, home, machines, seed)
        self.rng = random.Random(f"forged {seed}")
        self.left = taps
        self.forged = self.genuine = 0
        self.words: Counter[str] = Counter()  # that genuine taps were told
        self.kinds: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self.lock = threading.Lock()

    def play(self) -> list[Violation]:
        until = time.monotonic() + SECONDS
        try:
            self.world.start()
            number = 0
            while self.left > 0 and time.monotonic() < until:
                self._round(number)
                number += 1
        finally:
            self.world.close()
        return self.violations

    def _round(self, number: int) -> None:
        machines = self.world.fleet.machines
        requests = [Request(machine, f"1-{number:08x}") for machine in machines]
        for request in requests:
            self.world.fleet.ask(request.machine, request.id)
        if not wait_for(lambda: all(r.machine.shown.get(r.id) for r in requests), 60):
            raise AssertionError("not every card came out")
        wishes = {request: self.rng.choice(("allow", "deny")) for request in requests}
        count = min(max(0, self.left - len(requests)), ROUND)
        jobs = [self._forge(requests, wishes) for _ in range(count)]
        self._all(jobs)
        self._all([self._owner(request, wishes[request]) for request in requests])
        self.left -= len(jobs) + len(requests)
        for request in requests:
            self._judge(request, wishes[request])

    def _all(self, jobs: list[Callable[[], None]]) -> None:
        """Many fingers at once."""

        def some(place: int) -> None:
            for job in jobs[place::FINGERS]:
                job()

        threads = [threading.Thread(target=some, args=(n,)) for n in range(FINGERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _event(self, request: Request, action: str) -> Event:
        card = self.world.card(request)
        assert card is not None
        return card[0], card[1][action], request.machine.owner

    def _forge(
        self, requests: list[Request], wishes: dict[Request, str]
    ) -> Callable[[], None]:
        mine, other = self.rng.sample(requests, 2)
        forgery = self.rng.choice(FORGERIES)
        event = self._event(mine, OPPOSITE[wishes[mine]])
        theirs = self._event(other, OPPOSITE[wishes[other]])
        message, value, who = forgery(self.rng, mine, event, other, theirs)

        def tap() -> None:
            feishu = self.world.feishu
            pushed = feishu.tap_event(message, {"tag": "button", "value": value}, who)
            word = said(feishu.happen(message, pushed))
            with self.lock:
                self.forged += 1
                self.kinds[word.partition(" ")[0]] += 1
            if word in ("done", "sent", "told", "lost"):
                self._say("strayed", f"{forgery.__name__} {mine} was told {word}")

        return tap

    def _owner(self, request: Request, action: str) -> Callable[[], None]:
        """A genuine tap, whose event comes twice."""
        message, value, who = self._event(request, action)

        def tap() -> None:
            feishu = self.world.feishu
            pushed = feishu.tap_event(message, {"tag": "button", "value": value}, who)
            word = said(feishu.happen(message, pushed))
            feishu.connections.push(pushed)
            with self.lock:
                self.genuine += 1
                self.words[word] += 1
            if word not in ("done", "sent"):
                self._say("lost", f"{request} {action} was told {word}")

        return tap

    def _judge(self, request: Request, wish: str) -> None:
        wait_for(lambda: request.applied, 5)
        applied = [answer.action for _, answer in request.applied]
        entered = self.world.entered[request.machine.id, request.id]
        if applied != [wish] or entered != 1:
            self._say("strayed", f"{request} {wish}: {applied}, {entered} entered")
        while self.world.fleet.wrong:
            self._say("strayed", f"{self.world.fleet.wrong.pop()}")
        if request.machine.refused:
            self._say("strayed", f"{request.machine.refused.pop()} reached a machine")

    def _say(self, kind: str, what: str) -> None:
        self.violations.append(Violation(kind, what))
        print(f"soak forged: {kind} {what}", flush=True)


def main(arguments: list[str]) -> int:
    """Forge, and print what came of it. 1 if anything did."""
    taps = int(arguments[0]) if arguments else TAPS
    seed = int(arguments[1]) if len(arguments) > 1 else 1
    pyz = Path(os.environ.get("SOAK_PYZ") or ROOT / "dist" / "feishuperm.pyz")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="forged") as folder:
        forging = Forging(pyz, Path(folder), taps, seed)
        violations = forging.play()
    seconds = time.monotonic() - began
    answers = ", ".join(f"{n} {word}" for word, n in forging.kinds.most_common())
    print(
        f"soak forged: {forging.forged} forged taps ({answers}), {forging.genuine}"
        f" genuine ones, each twice ({dict(forging.words)}); {seconds:.0f} s, "
        f"{(forging.forged + 2 * forging.genuine) / seconds:.0f} taps/s (seed {seed})"
    )
    print(f"soak forged: {len(violations)} reached a machine they should not have")
    return int(bool(violations))
