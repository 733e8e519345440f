"""`python -m tests.soak.app [RUNS [SEED]]`: taps on cards while the line fails.

Every world has the built file as its server and the strict platform; fingers tap the
cards of hooks, and at random moments, half of them just around a tap, the connection
is cut, reset, half-open or deaf with healthy pongs, refused, or the server is killed,
restarted or frozen.  A finger that is told to try again does so, as a person would.

What must hold whatever happened:

    hung        no hook lives past its deadline
    doubled     of all taps on one card at most one succeeds; one end in the ledger
    lost        an acknowledged tap is what the hook printed and the ledger has
    unrecorded  what a hook printed was tapped, and is in the ledger
    misled      a tap is acknowledged, or told what happened, or told to try again
    stuck       who keeps trying gets through before the time is over
    open        no button is left on the card of a request that has ended
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.fakes.feishu import APP_ID, APP_SECRET, every_element
from tests.fakes.feishu_app import OWNER, FakePlatform, Handshake, Tap
from tests.soak.faults import (
    BEHAVIOUR,
    Soak,
    Violation,
    crash_loop,
    freeze_server,
    hand_over,
    kill_server,
)
from tests.soak.world import ROOT, Hook, World

RUNS = 500
SECONDS = 120  # that a person has: twice a fresh connection, once a minute
KINDS = ("hung", "doubled", "lost", "unrecorded", "misled", "stuck", "open", "broken")
ACTIONS = ("allow", "allow", "always", "deny", "interrupt")
AGAIN = "请再点一次"
TIMED_OUT = "权限请求超时，自动拒绝"
SETTLE_SECONDS = 40.0  # a new server settles lost cards after 20


class Press(NamedTuple):
    """A tap that was made and what the phone said to it."""

    id: str
    action: str
    word: str  # "acknowledged", "told", "again", or what it said instead


class AppWorld(World):
    """A home whose server has an app, and the platform of that app."""

    def __init__(self, pyz: str, home: Path, seed: int = 0) -> None:
        super().__init__(pyz, home)
        self.feishu = FakePlatform(seed=seed)
        self.feishu.__enter__()
        self.environ.update(
            FEISHU_APP_ID=APP_ID,
            FEISHU_APP_SECRET=APP_SECRET,
            FEISHU_BASE_URL=self.feishu.base_url,
            FEISHU_RECEIVE_ID=OWNER,
            PERMISSION_REQUEST_TIMEOUT=str(SECONDS),
        )
        self.presses: list[Press] = []

    def close(self) -> None:
        super().close()
        self.feishu.__exit__()

    def card_of(self, id: str) -> str:
        """The message of a request's card, empty before it has arrived."""
        messages = list(self.feishu.app_messages.items())
        return next((key for key, m in messages if id in m["content"]), "")

    def values(self, message: str) -> dict[str, Any]:
        """What the buttons that decide would bring back, by action."""
        elements = every_element(self.feishu.card(message)["body"])
        buttons = (row for row in elements if row.get("tag") == "button")
        values = [row["behaviors"][0]["value"] for row in buttons]
        return {value["action"]: value for value in values if "action" in value}

    def open_cards(self) -> list[str]:
        """Messages that can still be tapped; reminders are texts."""
        messages = list(self.feishu.app_messages.items())
        cards = [key for key, m in messages if m["msg_type"] == "interactive"]
        return [key for key in cards if self.values(key)]


# Faults of the line; those of the server are shared with the other soak.


def cut(world: AppWorld, hooks: list[Hook], rng: random.Random) -> None:
    world.feishu.connections.cut()


def reset(world: AppWorld, hooks: list[Hook], rng: random.Random) -> None:
    world.feishu.connections.reset()


def half_open(world: AppWorld, hooks: list[Hook], rng: random.Random) -> None:
    world.feishu.connections.silence()


def deafen(world: AppWorld, hooks: list[Hook], rng: random.Random) -> None:
    world.feishu.connections.deafen()


def refuse(world: AppWorld, hooks: list[Hook], rng: random.Random) -> None:
    """Cut, and the way back is closed for a while."""
    refusal = Handshake(514, (("Handshake-Status", "514"),))
    world.feishu.connections.refusals.extend([refusal] * rng.randrange(1, 4))
    world.feishu.connections.cut()


Fault = Callable[[AppWorld, "list[Hook]", random.Random], None]
FAULTS: tuple[Fault, ...] = (
    *(cut, cut, reset, reset, half_open, half_open, deafen, deafen, refuse),
    *(kill_server, kill_server, kill_server, crash_loop, hand_over, hand_over),
    freeze_server,
)


class AppRun:
    """One run: hooks, fingers, at most two faults, and the reckoning."""

    def __init__(self, world: AppWorld, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.hooks: list[Hook] = []
        self.violations: list[Violation] = []
        self.faults: list[Fault] = rng.sample(FAULTS, rng.choice((0, 1, 1, 1, 1, 2)))

    @property
    def names(self) -> list[str]:
        return [fault.__name__ for fault in self.faults]

    def play(self) -> list[Violation]:
        self.world.start()
        wait_for(lambda: self.world.feishu.connections.open, 30)
        self.hooks = [self.world.hook() for _ in range(self.rng.randrange(1, 4))]
        moments = [self.rng.uniform(0.2, 1.5) for _ in self.hooks]
        fingers = [
            threading.Thread(target=self._finger, args=(hook, moment, seed))
            for hook, moment in zip(self.hooks, moments)
            for seed in range(self.rng.choice((1, 1, 1, 2)))
        ]
        began = time.monotonic()
        for finger in fingers:
            finger.start()
        for fault in self.faults:
            self._break(fault, began, moments)
        for finger in fingers:
            finger.join(SECONDS + 20)
        self._judge()
        return self.violations

    def _break(self, fault: Fault, began: float, moments: list[float]) -> None:
        """At any moment, or just when somebody taps."""
        moment = self.rng.uniform(0, 2)
        if self.rng.random() < 0.5:
            moment = self.rng.choice(moments) + self.rng.uniform(-0.02, 0.05)
        time.sleep(max(0.0, began + moment - time.monotonic()))
        fault(self.world, self.hooks, self.rng)

    # A person.

    def _finger(self, hook: Hook, moment: float, seed: int) -> None:
        """Tap until something came of it; two fingers are two devices."""
        rng = random.Random(f"{hook.project} {seed}")
        action = rng.choice(ACTIONS)
        time.sleep(moment)
        until = hook.began + SECONDS
        while time.monotonic() < until:
            if not hook.reader.is_alive() and not hook.id:
                return  # it ended before anybody saw its card
            tap = self._tap(hook, action, twice=rng.random() < 0.1)
            word = said(tap) if tap else "again"
            if tap:
                self.world.presses.append(Press(hook.id, action, word))
            if word in ("acknowledged", "told"):
                return
            if word != "again":
                self._say("misled", hook, f"was told {word}")
                return
            if hook.id and self._is_settled(hook.id):
                return
            time.sleep(rng.uniform(0.1, 0.6))
        self._say("stuck", hook, f"{action} never got through")

    def _tap(self, hook: Hook, action: str, twice: bool) -> Tap | None:
        """One tap, if there is a card with that button; sometimes delivered twice."""
        if not hook.id:
            self.world.learn_ids(self.hooks)
        message = self.world.card_of(hook.id) if hook.id else ""
        value = self.world.values(message).get(action) if message else None
        if value is None:
            return None
        feishu = self.world.feishu
        event = feishu.tap_event(message, {"tag": "button", "value": value})
        if twice:
            feishu.connections.push(event)
        return feishu.happen(message, event)

    def _is_settled(self, id: str) -> bool:
        message = self.world.card_of(id)
        return bool(message) and not self.world.values(message)

    # The reckoning.

    def _judge(self) -> None:
        for hook in self.hooks:
            hook.reader.join(max(0.0, hook.began + SECONDS + 15 - time.monotonic()))
            if hook.reader.is_alive():
                self._say("hung", hook, "lives past its time")
                hook.kill()
                hook.kill_client()
                hook.reader.join(10)
        self.world.start()
        wait_for(self._is_written, 5)
        for hook in self.hooks:
            self._judge_hook(hook)

    def _is_written(self) -> bool:
        entries = list(self.world.ledger().entries())
        ended = {e.get("project") for e in entries if e.get("event") == "request"}
        return all(hook.project in ended for hook in self.hooks)

    def _judge_hook(self, hook: Hook) -> None:
        entries = self.world.ledger().entries()
        ends = [
            entry
            for entry in entries
            if entry.get("project") == hook.project and entry.get("event") == "request"
        ]
        try:
            decision = hook.decision()
        except (ValueError, KeyError, TypeError):
            self._say("broken", hook, f"printed {hook.printed!r}")
            return
        mine = [press for press in self.world.presses if press.id == hook.id]
        successes = [press for press in mine if press.word == "acknowledged"]
        actions = [end["action"] for end in ends]  # or what was about to be done
        if len(ends) > 1 or len(successes) > 1:
            self._say("doubled", hook, f"{successes}, the ledger has {ends}")
        for press in successes:
            if decision.get("behavior") != BEHAVIOUR[press.action]:
                self._say("lost", hook, f"{press.action}, but printed {decision}")
            if actions != [press.action] or ends[0]["who"] != OWNER:
                self._say("lost", hook, f"{press.action}, the ledger has {ends}")
        tapped = {BEHAVIOUR[p.action] for p in mine} & {decision.get("behavior")}
        if not decision and [end["state"] for end in ends] == ["unknown"]:
            return  # killed between the intent and the end: the terminal asks
        if not decision and not ends and not mine:
            return  # there was no server when it came: the terminal asks
        if not decision or decision.get("message") == TIMED_OUT:
            self._say("stuck", hook, f"had no answer: {mine} {ends}")
        elif not tapped or not actions:
            self._say("unrecorded", hook, f"printed {decision}, ledger {ends}")

    def _say(self, kind: str, hook: Hook, what: str) -> None:
        name = Path(hook.project).name
        text = f"{name} ({hook.id}) {what} {self.names}"
        self.violations.append(Violation(kind, text))


def said(tap: Tap) -> str:
    """What a tap came to, in one word where it is one of those that may be."""
    if not tap.ok:
        return "again" if tap.error in (200340, 200341) else f"error {tap.error}"
    kind, words = tap.toast.get("type"), tap.toast.get("content", "")
    if kind == "success":
        return "acknowledged"
    if kind == "info":
        return "told"
    return "again" if kind == "warning" and AGAIN in words else f"{kind} {words}"


def wait_for(condition: Callable[[], object], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def judge_cards(world: AppWorld) -> list[Violation]:
    """Nothing waits any more, so nothing is left to tap."""
    world.start()
    wait_for(lambda: not world.open_cards(), SETTLE_SECONDS)
    return [
        Violation("open", f"{key} {sorted(world.values(key))}")
        for key in world.open_cards()
    ]


class AppSoak(Soak):
    """Every world with an app."""

    name = "soak app"
    kinds = KINDS
    worlds = 8

    def __init__(self, pyz: str, runs: int, seed: int) -> None:
        super().__init__(pyz, runs, seed)
        self.words: Counter[str] = Counter()

    def world(self, number: int, home: Path) -> AppWorld:
        return AppWorld(self.pyz, home, number)

    def run(self, world: AppWorld, rng: random.Random) -> AppRun:
        return AppRun(world, rng)

    def look(self, world: AppWorld, rng: random.Random) -> list[Violation]:
        return judge_cards(world)

    def count(self, world: AppWorld) -> None:
        super().count(world)
        self.words.update(press.word for press in world.presses)


def main(arguments: list[str]) -> int:
    """Run the faults and print what came of them. 1 if anything did."""
    runs = int(arguments[0]) if arguments else RUNS
    seed = int(arguments[1]) if len(arguments) > 1 else 1
    soak = AppSoak(str(ROOT / "dist" / "feishuperm.pyz"), runs, seed)
    seconds = soak.play()
    words = soak.words
    print(
        f"soak app: {soak.runs} runs, {soak.hooks} hooks, {sum(words.values())} taps:"
        f" {words['acknowledged']} acknowledged, {words['told']} told what had"
        f" happened, {words['again']} told to try again; {seconds:.0f} s (seed {seed})"
    )
    soak.tell()
    # Where few taps succeed, little was tried.
    return int(bool(soak.violations) or words["acknowledged"] < soak.hooks // 2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
