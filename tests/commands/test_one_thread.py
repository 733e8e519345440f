"""One thread owns the state: a server whose classes notice writes of any other.

The outboxes have their own threads here, as they have in a real server; the app is a
fake that answers at once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.bursts import Burst, BurstRow
from feishuperm.app.health import PERSON, Health
from feishuperm.channels.app import AppChannel, CardStore
from feishuperm.commands import serve
from feishuperm.models.request import Request
from feishuperm.services.approvals import Approvals
from feishuperm.services.notifier import Notifier, Showing
from feishuperm.services.request_manager import RequestManager
from feishuperm.services.transcript import Watcher
from tests.app.bench import Api, Delivery
from tests.app.bench import Line as FeishuLine
from tests.commands.test_serve import folder, make
from tests.commands.test_walk import APP, OWNER, Hook, ask
from tests.conftest import wait_until

__all__ = ["folder"]
OWNERS = (
    *(Approvals, RequestManager, Request, Watcher, Notifier, Showing),
    *(AppChannel, Health, CardStore, Burst, BurstRow),
)
CHANGING = ("pop", "popitem", "clear", "update", "setdefault")


class Guard:
    """Notes every write that does not come from the thread of the loop."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.owner = 0  # nobody yet: the server is being made
        self.wrong: list[str] = []
        for kind in OWNERS:
            self._guard(kind, patch)

    def note(self, what: str) -> None:
        thread = threading.current_thread()
        if self.owner and thread.ident != self.owner:
            self.wrong.append(f"{what} in {thread.name}")

    def _guard(self, kind: type, patch: pytest.MonkeyPatch) -> None:
        write = kind.__setattr__

        def guarded(instance: Any, name: str, value: object) -> None:
            self.note(f"{kind.__name__}.{name}")
            if type(value) is dict:
                value = self._dict(f"{kind.__name__}.{name}")(value)
            write(instance, name, value)

        patch.setattr(kind, "__setattr__", guarded)

    def _dict(self, name: str) -> type[dict[Any, Any]]:
        """A dict that notes what changes it."""

        def changing(method: str) -> Callable[..., Any]:
            change = getattr(dict, method)

            def noted(own: Any, *parts: Any, **more: Any) -> Any:
                self.note(f"{name}.{method}")
                return change(own, *parts, **more)

            return noted

        methods = (*CHANGING, "__setitem__", "__delitem__")
        return type("Guarded", (dict,), {m: changing(m) for m in methods})


class World:
    """A running server: its loop in one thread, the outboxes in others."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.guard = Guard(patch)
        self.api, self.line = Api(), FeishuLine()
        self.api.about[PERSON.format(id=OWNER).partition("?")[0]] = {
            "user": {"name": "Li Lei"}
        }
        patch.setattr(serve, "app_of", lambda settings: self.api)

        def link(loop: object, dial: object, heard: Any, changed: Any) -> FeishuLine:
            return self.line.of(changed)

        patch.setattr(serve, "Link", link)
        self.server = make(folder, **APP)
        self.channel: Any = self.server.channels[-1]
        self.project = folder / "shop"
        self.project.mkdir()
        self.events = 0
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)
        self._thread.start()
        wait_until(lambda: self.guard.owner)

    def _run(self) -> None:
        self.guard.owner = threading.get_ident()
        for channel in self.server.channels:
            channel.start()
        self.server.loop.run()

    def on_loop(self, fn: Callable[[], Any]) -> Any:
        """The result of a call on the loop."""
        made: list[Any] = []
        self.server.loop.call_soon_threadsafe(lambda: made.append(fn()))
        wait_until(lambda: made)
        return made[0]

    def ask(self, number: int = 1) -> tuple[str, Hook]:
        id = f"1700000000-{number:08x}"
        return id, self.on_loop(lambda: ask(self.server, self.project, id))

    def is_out(self, id: str) -> bool:
        card = self.channel.store.get(id)
        return card is not None and bool(card.message_id)

    def tap(self, id: str, action: str) -> dict[str, Any]:
        self.events += 1
        card = self.channel.store.get(id)
        value = {"id": id, "action": action, "digest": card.ask.digest}
        event = {
            "operator": {"open_id": OWNER},
            "action": {"value": {**value, "nonce": card.nonce}},
            "context": {"open_message_id": card.message_id},
        }
        header = {"event_type": "card.action.trigger", "event_id": f"e{self.events}"}
        return self._deliver({"header": header, "event": event})

    def say(self, words: str) -> None:
        self.events += 1
        message = {
            "message_id": f"om_t{self.events}", "message_type": "text",
            "content": json.dumps({"text": words}),
        }  # fmt: skip
        sender = {"sender_type": "user", "sender_id": {"open_id": OWNER}}
        header = {"event_type": "im.message.receive_v1"}
        self._deliver(
            {"header": header, "event": {"sender": sender, "message": message}}
        )

    def _deliver(self, event: dict[str, Any]) -> dict[str, Any]:
        replies: list[dict[str, Any]] = []
        delivery = Delivery(json.dumps(event).encode())
        self.on_loop(lambda: self.channel.deliver(delivery, replies.append) or True)
        return replies[0]

    def close(self) -> None:
        self.on_loop(lambda: self.server.loop.stop() or True)
        self._thread.join(10)
        self.guard.owner = 0
        self.server.close()


@pytest.fixture
def world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(folder, monkeypatch)
    yield made
    made.close()


def test_guard_notices_a_write_of_another_thread(world: World) -> None:
    world.ask()
    (request,) = world.server.approvals.requests.waiting()
    request.shown = request.shown
    world.channel._health.names["ou_x"] = "x"
    world.channel.store.mute(0.0)
    noted = {said.partition(" ")[0] for said in world.guard.wrong}
    assert noted == {
        "Request.shown",
        "Health.names.__setitem__",
        "CardStore.muted_until",
    }


def test_cards_names_and_health_are_written_on_the_loop_only(world: World) -> None:
    world.on_loop(lambda: world.line.enter("up") or True)  # it looks at the app
    id, hook = world.ask()
    wait_until(lambda: world.is_out(id))
    assert world.tap(id, "hold")["toast"]["type"] == "success"
    assert world.tap(id, "always")["toast"]["content"] == "已始终允许"
    wait_until(lambda: world.channel.store.get(id) is None)
    assert hook.frames[-1][0] == b"D"
    for number in range(2, 10):  # the last of them share a card
        world.ask(number)
    wait_until(lambda: world.is_out("1700000000-00000009"))
    for words in ("状态", "静音 1h", "恢复", "通行证", "撤销"):
        world.say(words)
    wait_until(lambda: any("npm run build" in said for _, said in world.api.texts))
    wait_until(lambda: world.channel._health.names)
    assert world.channel._health.names == {OWNER: "Li Lei"}
    world.on_loop(lambda: world.server.approvals.release_all("over") or True)
    wait_until(lambda: not world.channel.store.all())
    assert world.guard.wrong == []
