"""Which buttons there are; a kind and a button of our own, for every surface to show.

    def test_...(extra: Kind) -> None:   # with `from tests.kinds import extra`

The kind is called `trip`, its tool `TripTool`; the button is `later`, at `/later`, and
permission requests have it too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from feishuperm.models.ask import NO
from feishuperm.models.kind import KINDS, Action, Kind
from feishuperm.models.request import DENIED

LATER = Action("later", "/later", "以后再说", "已推迟", NO, DENIED, "l", "用户推迟了")


def buttons(kind: str = "permission", tool: str = "Bash") -> list[Action]:
    """The buttons of a tool's requests, as the table has them."""
    return [a for a in KINDS[kind].actions if not a.tools or tool in a.tools]


def plain_buttons(kind: str = "permission") -> list[Action]:
    """Those that need nothing typed and last no longer than their request."""
    return [a for a in buttons(kind) if not a.needs and not a.passes]


def refusals(kind: str = "permission") -> list[str]:
    """Names of the buttons that let nothing happen, sorted."""
    return sorted(action.name for action in buttons(kind) if action.state == DENIED)


@pytest.fixture
def extra(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kind]:
    """One more kind, and one more button of an old one."""
    permission = KINDS["permission"]
    kind = permission._replace(
        name="trip",
        tools=frozenset(("TripTool",)),
        title="行程请求",
        heading="行程",
        empty="（没有行程）",
        actions=(permission.actions[0], LATER),
        expired="",
    )
    monkeypatch.setitem(KINDS, "trip", kind)
    more = permission._replace(actions=(*permission.actions, LATER))
    monkeypatch.setitem(KINDS, "permission", more)
    yield kind
