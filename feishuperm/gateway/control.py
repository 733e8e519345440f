"""Commands that `feishuperm machines` and `status` send to a gateway over its socket.

Whoever can open the socket is the gateway's own user.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from feishuperm.gateway.engine import EngineDown
from feishuperm.gateway.hub import Hub
from feishuperm.lib.task import run
from feishuperm.models.fields import decoded, part_at


class GatewayControl:
    """Answers control commands, when the engine has answered."""

    def __init__(
        self,
        hub: Hub,
        line_state: Callable[[], tuple[str, str]],
        problem: Callable[[], str],
    ) -> None:
        self._hub = hub
        self._line_state = line_state
        self._problem = problem

    def on_frame(self, connection: Any, kind: bytes, body: bytes) -> None:
        """One command, one answer."""

        def reply(answer: dict[str, Any]) -> None:
            connection.send(b"J", json.dumps(answer).encode())

        def failed(error: Exception) -> None:
            down = isinstance(error, EngineDown)
            why = f"the engine does not answer: {error}" if down else repr(error)
            reply({"error": why})

        if kind != b"C":
            connection.close()
            return
        run(self._answer(part_at(decoded(body)), reply), failed)

    async def _answer(
        self, command: dict[str, Any], reply: Callable[[dict[str, Any]], None]
    ) -> None:
        row = _COMMANDS.get(str(command.get("command")))
        if row is None:
            reply({"error": f"unknown control command {command.get('command')!r}"})
        else:
            reply(await row(self, command))

    async def machines(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"machines": await self._hub.listing()}

    async def rename(self, command: dict[str, Any]) -> dict[str, Any]:
        id, name = str(command.get("id")), str(command.get("name"))
        machine = await self._hub.registry.rename(id, name)
        return {"name": machine.name} if machine else {"error": f"no machine {id}"}

    async def revoke(self, command: dict[str, Any]) -> dict[str, Any]:
        owner, id = command.get("owner"), command.get("id")
        rows = await self._hub.registry.all()
        by_owner = [row.id for row in rows if owner and owner == row.owner]
        ids = by_owner or [row.id for row in rows if row.id == id]
        if not ids:
            return {"error": f"no machine {'of ' if owner else ''}{owner or id}"}
        for each in ids:
            await self._hub.revoke(each, "the gateway's operator")
        return {"revoked": ids}

    async def status(self, command: dict[str, Any]) -> dict[str, Any]:
        state, detail = self._line_state()
        engine = self._hub.engine
        return {
            "replica": self._hub.replica,
            "app": {"state": state, "detail": detail},
            "engine": {"state": "up" if engine.ready else "down",
                       "detail": engine.problem},
            "machines": len(self._hub.connected),
            "problem": self._problem(),
            "clock": self._hub.clock_problem(),
        }  # fmt: skip


_COMMANDS: dict[str, Callable[[GatewayControl, dict[str, Any]], Any]] = {
    "machines": GatewayControl.machines,
    "rename": GatewayControl.rename,
    "revoke": GatewayControl.revoke,
    "status": GatewayControl.status,
}
