"""What the chat asks of the approvals: 状态, 通行证, 撤销.

It is given the approvals as its channels are: where cards are titles, by titles alone.
So nothing that it tells has to be hidden again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from feishuperm.channels.base import ApprovalsPort, Then
from feishuperm.messages import msg, text
from feishuperm.models.ask import NO, STOP, Block
from feishuperm.models.kind import Say
from feishuperm.models.names import NOT_OFFERED
from feishuperm.models.panel import (
    ERROR,
    INFO,
    OVER,
    SUCCESS,
    Asker,
    Button,
    Panel,
    Row,
    Told,
)

LISTED = 10  # requests of a list
REVOKE = "revoke"  # a press; the id of a pass, or "all", stands behind its dot
NO_PASSES = msg("There are no passes")


class ChatCommands:
    """One per server."""

    COMMANDS: tuple[str, ...] = ("status", "passes", "undo")
    PANELS: tuple[str, ...] = ("passes",)

    def __init__(
        self, approvals: ApprovalsPort, language: str = "zh", grants: bool = False
    ) -> None:
        self._approvals = approvals
        self._language = language
        self._grants = grants  # what lasts may be seen through a gateway
        self._say = partial(text, language)

    def command(self, name: str, words: str, asker: Asker, then: Then) -> None:
        """Tell it; behind 通行证 stands the id of a pass to end, or "all"."""
        if name == "undo":

            def tell(rules: list[str], error: str) -> None:
                then(_told(undone(self._say, rules, error)))

            self._approvals.undo_last(asker.who, tell)
        elif name == "status":
            lines = [words or title for title, words in self._approvals.status()]
            then(_told(listed(lines, self._say(msg("Nothing is waiting")))))
        elif words:
            then(self._revoke(words, asker)._replace(panel=Panel()))
        elif not self._may_see(asker):
            then(_told(self._say(NOT_OFFERED), ERROR))
        else:
            panel = self._passes()
            none = _told(self._say(NO_PASSES))
            then(Told(panel=panel) if panel.look != OVER else none)

    def press(
        self, panel: str, action: str, words: str, asker: Asker, then: Then
    ) -> None:
        then(self._revoke(action.partition(".")[2], asker))

    def _revoke(self, id: str, asker: Asker) -> Told:
        """End a pass, or all; to end one twice is no harm."""
        count = len(self._approvals.revoke_passes(id, asker.surface, asker.who))
        said = self._say("{count} passes revoked", count=count)
        left = self._passes() if self._may_see(asker) else Panel()
        return _told(said, SUCCESS if count else INFO)._replace(panel=left)

    def _may_see(self, asker: Asker) -> bool:
        return self._grants or asker.channel != "gateway"

    def _passes(self) -> Panel:
        """Each pass by its words, with a button that ends it."""
        rows = [
            Row(
                Block("text", "", " · ".join(filter(None, (what, until)))),
                buttons=(Button(f"{REVOKE}.{id}", self._say("Revoke"), NO),),
            )
            for id, what, until in self._approvals.pass_rows()
        ]
        whole = Button(f"{REVOKE}.all", self._say("Revoke all"), STOP)
        panel = Panel(
            "passes", self._language, self._say("Passes"), is_bare=True,
            rows=tuple(rows), buttons=(whole,) if len(rows) > 1 else (),
        )  # fmt: skip
        none = Row(Block("text", "", self._say(NO_PASSES)))
        return panel if rows else panel._replace(look=OVER, rows=(none,))


def _told(said: str, status: str = SUCCESS) -> Told:
    return Told(said, status, fixed=True)


def listed(lines: list[str], none: str) -> str:
    """Pending requests, in a few lines."""
    numbered = [f"{n}. {line}" for n, line in enumerate(lines, 1)]
    more = [f"… +{len(lines) - LISTED}"] if len(lines) > LISTED else []
    return "\n".join(numbered[:LISTED] + more) or none


def undone(say: Say, rules: Iterable[str], error: str) -> str:
    """What became of the wish to undo."""
    gone = "\n".join(rules)
    if error:
        return say("Nothing was undone: {why}", why=error)
    if not gone:
        return say("This chat has written no rule that could be undone.")
    return say(
        "This rule was removed:\n{rules}\n"
        "Sessions that are running keep it until they end.",
        rules=gone,
    )
