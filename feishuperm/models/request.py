"""A permission request and the table of its states.

A request waits, and then ends exactly once.  Whatever ends it (a tap, the clock, the
terminal, a closed connection) calls `Request.end()`; the table says which ends exist,
and a request that has ended refuses every further one.

It keeps the event as the bytes it came in: ten thousand waiting requests must not cost
ten thousand decoded trees.  `payload()` decodes anew for the few moments that need it.
"""

from __future__ import annotations

from typing import Any

from feishuperm.models.decision import Decision
from feishuperm.models.payload import DANGER, AskPayload, parse_payload

WAITING = "waiting"
ALLOWED = "allowed"  # a person let it run, once or always
DENIED = "denied"  # a person refused it, perhaps ending the turn
ANSWERED = "answered"  # a question answered, a plan approved
EXPIRED = "expired"  # shown, and nobody answered in time
TERMINAL = "terminal"  # answered at the keyboard
GONE = "gone"  # the hook or its session ended
RELEASED = "released"  # nothing showed it, or the server stopped: the terminal decides
UNKNOWN = "unknown"  # its server died while it decided; only a ledger tells of it

SHORT_DIGEST = 16  # hexadecimal digits; enough to tell one request from another

ENDS = frozenset(
    (ALLOWED, DENIED, ANSWERED, EXPIRED, TERMINAL, GONE, RELEASED, UNKNOWN)
)
# From each state, the states it may go to. Every end is final.
TRANSITIONS = {WAITING: ENDS, **dict.fromkeys(ENDS, frozenset[str]())}

# The ends that a person's answer leads to; the others happen without one.
DECIDED = frozenset((ALLOWED, DENIED, ANSWERED))


class Request:
    """One permission request, from registration until a day after its end."""

    __slots__ = (
        "action",
        "answers",
        "call",
        "created",
        "danger",
        "deadline",
        "decision",
        "detail",
        "digest",
        "ended",
        "files",
        "folder",
        "from_agent",
        "grants",
        "head",
        "held",
        "id",
        "is_worded",
        "kind",
        "known_rules",
        "masked",
        "note",
        "pass_id",
        "passable",
        "patience",
        "project",
        "prompt",
        "ran",
        "raw",
        "reading",
        "reason",
        "result",
        "rules",
        "session",
        "shown",
        "stale_pass",
        "state",
        "summary",
        "surface",
        "tool_name",
        "tried",
        "undone",
        "until",
        "veiled",
        "who",
        "why",
    )

    def __init__(
        self,
        id: str,
        raw: bytes,
        tool_name: str,
        project: str,
        created: float,
        deadline: float = 0.0,
        kind: str = "permission",
    ) -> None:
        self.id = id
        self.raw = raw  # empty when only its end is remembered
        self.kind = kind  # a row of `KINDS`
        self.tool_name = tool_name
        self.project = project
        self.created = created  # wall clock: people read it
        self.deadline = deadline  # monotonic: the loop waits for it
        self.state = WAITING
        self.shown = False  # a card was delivered or a page displayed it
        self.from_agent = False  # a subagent asks: the terminal shows no dialog so far
        self.patience = 0  # seconds, where it is given back soon to who is at the desk
        self.held = False  # somebody reads it: its clock was stopped, once
        self.decision: Decision | None = None
        self.action = ""  # of its kind, if a person answered
        self.surface = ""  # "link", "page", "inbox", "terminal", ...
        self.who = ""  # as far as the surface can tell
        self.reason = ""  # what the person typed, or why it ended by itself
        self.rules: tuple[str, ...] = ()  # rule texts an "always" wrote
        self.known_rules: tuple[str, ...] = ()  # those that were there already
        self.ran = ""  # the command that ran instead, without its secrets
        self.summary = tool_name  # one line for lists, without secrets
        self.detail = ""  # the beginning of what it is about, for the ledger
        self.why = ""  # what Claude said last before it, without secrets
        self.prompt = ""  # the first line of what it works on, the same
        self.reading: object = None  # of a large event, which takes long to read
        self.danger: tuple[str, ...] = ()  # names of its marks, or of what ran instead
        # Until it is put into words nobody has seen it: only its page could grant it.
        self.is_worded = False
        self.masked = True  # cards show it without its secrets
        self.veiled = True  # and those could be more than secrets
        self.passable = False  # a pass may be made for its call, or cover it
        self.pass_id = ""  # which let it through
        self.stale_pass = ""  # that would have, had no file changed since
        self.folder = ""  # where the call was made, links resolved
        self.files: tuple[str, ...] = ()  # paths that may be files which it runs
        self.grants: dict[str, Any] = {}  # the pass that its answer made, as recorded
        self.session = ""
        self.call = ""  # digest of the call, where an answer may let it run later
        self.until = 0.0  # monotonic: how long it may
        self.digest = ""  # of the event: an answer to something else is refused
        self.note = ""  # key of a sentence the result page adds
        self.tried = ""  # the process of its own session that tried to answer it
        self.ended = 0.0  # wall clock
        self.result = ("", "")  # how the call went on, and a detail of that
        self.undone = False  # its rules were taken back
        self.answers: tuple[str, ...] = ()  # to a question, as they may be shown
        self.head = ""  # the first characters of the ledger's head after it

    def payload(self) -> AskPayload:
        """The event, decoded anew."""
        payload = parse_payload(self.raw)
        assert isinstance(payload, AskPayload)
        if self.reading is not None:
            payload.known[DANGER, self.project] = self.reading
        return payload

    def short_digest(self) -> str:
        """As much of the digest as a button carries."""
        return self.digest[:SHORT_DIGEST]

    def is_given_back(self) -> bool:
        """Whether a subagent's request ended undecided: now the terminal asks."""
        undecided = self.state in (EXPIRED, RELEASED) and self.decision is None
        return self.from_agent and undecided

    def waits(self) -> bool:
        return self.state == WAITING

    def end(self, state: str, now: float) -> bool:
        """Move to an end; False when the request has ended already."""
        if state not in TRANSITIONS[self.state]:
            return False
        self.state = state
        self.ended = now
        return True
