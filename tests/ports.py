"""What stands around a channel in its tests: approvals, sessions, the notifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from feishuperm.channels.base import Announcement, ApprovalsPort
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Ask, Block, Outcome, Receipt
from feishuperm.models.panel import Asker, Button, Panel, Row, Told
from feishuperm.services.chat_commands import ChatCommands
from feishuperm.services.sessions import Panels


class FakeApprovals:
    """Knows nothing; a test gives it what it needs."""

    def answer(self, answer: Answer) -> Receipt:
        return Receipt(statuses.UNKNOWN)

    def is_pending(self, id: str) -> bool:
        return False

    def seconds_left(self, id: str) -> int:
        return 0

    def ask(self, id: str) -> Ask | None:
        return None

    def whole(self, id: str, most: int, then: Callable[[Ask], object]) -> bool:
        return False

    def outcome(self, id: str) -> Outcome | None:
        return None

    def extend_deadline(self, id: str, who: str = "") -> bool:
        return False

    def note_refused(self, id: str, action: str, who: str) -> None: ...

    def note_seen(self, ids: Iterable[str], at: float) -> None: ...

    def quiet_hours(self) -> tuple[float, float]:
        return 0.0, 0.0

    def end_quiet(self) -> bool:
        return False

    def status(self) -> list[tuple[str, str]]:
        return []

    def pass_rows(self) -> list[tuple[str, str, str]]:
        return []

    def revoke_passes(self, id: str, surface: str, who: str = "") -> list[str]:
        return []

    def undo_last(self, who: str, then: Callable[[list[str], str], object]) -> None:
        then([], "")


class FakeReports:
    """Writes down what a channel says of the requests it was given."""

    def __init__(self, is_wanted: Callable[[str], bool] = lambda id: True) -> None:
        self.is_wanted = is_wanted
        self.done: list[tuple[bool, str]] = []
        self.by_id: list[tuple[str, bool, str]] = []
        self.last: dict[str, bool] = {}  # whether each is shown, or was
        self.stood_in: list[str] = []

    def shown(self, id: str, channel: str) -> None:
        self.last[id] = True
        self._note(id, True, "")

    def failed(self, id: str, channel: str, why: str) -> None:
        self.last[id] = False
        self._note(id, False, why)

    def lost(self, id: str, channel: str) -> None:
        self._note(id, False, "lost")

    def stand_in(self, id: str, channel: str) -> None:
        self.stood_in.append(id)

    def _note(self, id: str, shown: bool, why: str) -> None:
        self.done.append((shown, why))
        self.by_id.append((id, shown, why))

    def announcement(self, id: str, until: float, **more: Any) -> Announcement:
        return Announcement(id, "test", until, self, **more)


def chat_of(approvals: ApprovalsPort, grants: bool = False) -> Panels:
    """What the chat asks of some approvals, as a server answers it."""
    panels = Panels(print)
    panels.serve(ChatCommands(approvals, "zh", grants))
    return panels


# Sessions.

SESSION = "1a2b3c4d-0000-0000-0000-000000000000"
PROGRESS = f"progress:{SESSION}"


def progress(said: str = "one", **parts: Any) -> Panel:
    return Panel(
        PROGRESS, "zh", "进展", "修复登录 · shop", rows=(Row(Block("text", "", said)),),
        buttons=(Button("stop", "停止", "stop"),), session=SESSION,
    )._replace(**parts)  # fmt: skip


LISTED = Row(Block("text", "", "修复登录"), "shop · 3 分钟", (
    Button("open", "进展", panel=PROGRESS),))  # fmt: skip
LIST = Panel("sessions", "zh", "会话", "1 个", rows=(LISTED,),
             buttons=(Button("refresh", "刷新"),))  # fmt: skip


class FakeSessions:
    """Answers what a test says, at once or when it says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.askers: list[Asker] = []
        self.told = Told(panel=progress())
        self.waits = False
        self.waiting: list[Callable[[Told], object]] = []

    def command(self, name: str, words: str, asker: Asker, then: Any) -> None:
        self._asked((name, words), asker, then)

    def press(
        self, panel: str, action: str, words: str, asker: Asker, then: Any
    ) -> None:
        self._asked((panel, action, words), asker, then)

    def _asked(self, asked: tuple[str, ...], asker: Asker, then: Any) -> None:
        self.asked.append(asked)
        self.askers.append(asker)
        if self.waits:
            self.waiting.append(then)
        else:
            then(self.told)
