"""What a person is shown of a request: the same for a card, a page and the inbox."""

from __future__ import annotations

from typing import Any, NamedTuple

from feishuperm.models.payload import PermissionRequestPayload
from feishuperm.models.request import PLAN_TOOL, QUESTION_TOOL


class RequestView(NamedTuple):
    """A request as a person sees it, without any markup."""

    id: str
    tool_name: str
    tool_input: dict[str, Any]
    project: str  # directory
    branch: str  # empty outside git
    session_id: str
    agent: str  # the subagent that asks, empty for the main session
    created: float  # wall clock
    seconds: int  # how long the person has, from `created`

    @property
    def kind(self) -> str:
        """Which of the notify kinds this is: permission, question or plan."""
        return kind_of(self.tool_name)

    @property
    def project_name(self) -> str:
        return self.project.rstrip("/").rpartition("/")[2] or self.project


def kind_of(tool_name: str) -> str:
    """Which of the notify kinds a tool makes."""
    kinds = {QUESTION_TOOL: "question", PLAN_TOOL: "plan"}
    return kinds.get(tool_name, "permission")


def view_of(
    payload: PermissionRequestPayload,
    id: str,
    project: str,
    branch: str,
    created: float,
    seconds: int,
) -> RequestView:
    """The view of an event."""
    agent = payload.fields.get("agent_type")
    return RequestView(
        id,
        payload.tool_name,
        payload.tool_input,
        project or payload.base.cwd,
        branch,
        payload.session_id(),
        agent if isinstance(agent, str) else "",
        created,
        seconds,
    )
