"""A gate whose kernel and process table are a test's own."""

from __future__ import annotations

import os
from collections.abc import Iterable

from feishuperm.handlers.access import Gate
from feishuperm.lib.process_tree import Owner, SessionProcesses, Suspect, TcpOwners
from feishuperm.services.web_access import WebSessions

LOCAL, PUBLIC = "http://localhost:8080", "https://box.example"
OWN = Owner(os.geteuid(), 7)
OTHER = Owner(os.geteuid() + 1, 7)
NOWHERE = "/dev/null/none"  # sessions are kept in memory alone
AGENT = Suspect(51, "curl")


class FakeOwners(TcpOwners):
    """Says who is at the other end, and keeps what it was asked."""

    def __init__(self, owner: Owner | None) -> None:
        self.owner = owner
        self.asked: list[object] = []

    def find(self, ours: object, theirs: object) -> Owner | None:
        self.asked.append((ours, theirs))
        return self.owner


class FakeClients(SessionProcesses):
    """Suspects whom the test says, and keeps who was added."""

    def __init__(self, suspect: Suspect | None = None) -> None:
        self.answer = suspect
        self.added: list[tuple[int, str]] = []
        self.asked: list[tuple[int, bool]] = []

    def add(self, hook_pid: int, session: str = "", is_known: bool = False) -> None:
        self.added.append((hook_pid, session))

    def suspect(self, owner: Owner) -> Suspect | None:
        return self.answer

    def suspect_pid(self, pid: int, any_session: bool = False) -> Suspect | None:
        self.asked.append((pid, any_session))
        return self.answer


def make_gate(
    url: str = LOCAL,
    owner: Owner | None = OWN,
    suspect: Suspect | None = None,
    sessions: WebSessions | None = None,
    names: Iterable[str] = ("mybox", "mybox.local"),
) -> Gate:
    sessions = sessions or WebSessions(NOWHERE, url)
    return Gate(url, sessions, FakeClients(suspect), FakeOwners(owner), names)
