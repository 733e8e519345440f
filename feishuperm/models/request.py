"""A permission request and the table of its states.

A request waits, and then ends exactly once.  Whatever ends it (a tap, the clock, the
terminal, a closed connection) calls `Request.end()`; the table says which ends exist,
and a request that has ended refuses every further one.

It keeps what a person is shown of it (`ask()`), made once, and the event as the bytes
it came in: ten thousand pending requests must not cost ten thousand decoded trees.
`payload()` decodes those again for the few moments that need all of it: its own page,
the attachment of a card, an answer that depends on the call's input.
"""

from __future__ import annotations

import pickle
import zlib
from typing import Any

from feishuperm.models.ask import Ask, Outcome
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
        "_ask",
        "_like",
        "action",
        "answers",
        "asked",
        "call",
        "created",
        "danger",
        "deadline",
        "decision",
        "detail",
        "digest",
        "ended",
        "extended",
        "files",
        "folder",
        "from_agent",
        "grants",
        "head",
        "id",
        "kind",
        "known_rules",
        "masked",
        "note",
        "outcome",
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
        "seconds",
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
        self.asked = 0.0  # monotonic: when its hook asked last
        self.state = WAITING
        self.shown = False  # a card was delivered or a page displayed it
        self.from_agent = False  # a subagent asks: the terminal shows no dialog so far
        self.patience = 0  # seconds, if it is given back soon to a person who types
        self.seconds = 0  # that a person has, from `created` to `deadline`
        self.extended = False  # somebody reads it: its deadline was moved, once
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
        self.why = self.prompt = ""  # see `set_context`
        self.reading: object = None  # what danger was found in it
        self.danger: tuple[str, ...] = ()  # names of its marks, or of what ran instead
        # Until it is put into words nobody has seen it: only its page could grant it.
        self._ask = self._like = b""  # see `keep_ask`
        self.masked = self.veiled = True  # a card may hide secrets, or more than that
        self.outcome: Outcome | None = None  # made once after each change
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
        self.undone = False  # its rules were removed again
        self.answers: tuple[str, ...] = ()  # to a question, as they may be shown
        self.head = ""  # the first characters of the ledger's head after it

    def payload(self) -> AskPayload:
        """The event, decoded again."""
        payload = parse_payload(self.raw)
        assert isinstance(payload, AskPayload)
        payload.known[DANGER, self.project] = self.reading
        return payload

    def keep_ask(self, ask: Ask, like: bytes = b"") -> bytes:
        """Put into words: from now on people may see it.  Returns the ask as bytes.

        Ten thousand asks of some kilobytes each are alike but for some dozen bytes: so
        each is kept as what makes it different from the bytes of another (`like`).
        """
        whole = pickle.dumps(ask, 4)
        packer = zlib.compressobj(1, zlib.DEFLATED, -15, 9, 0, like)
        self._ask, self._like = packer.compress(whole) + packer.flush(), like
        self.masked, self.veiled = ask.masked, ask.veiled
        if ask.masked or ask.partial:
            # Nobody could tell what a pass would let through.
            self.passable = False
        return whole

    def ask(self) -> Ask | None:
        """The request as cards and lists show it now; None before it is in words."""
        if not self._ask:
            return None
        packed = zlib.decompressobj(-15, self._like)
        ask: Ask = pickle.loads(packed.decompress(self._ask))  # this server's own bytes
        return ask._replace(
            why=self.why,
            prompt=self.prompt,
            seconds=self.seconds,
            hold=ask.hold and not self.extended,
        )

    @property
    def is_worded(self) -> bool:
        return bool(self._ask)

    def set_context(self, why: str, prompt: str) -> None:
        """Why the call is made: what Claude said last, the first line of the prompt.

        Both without secrets, as they may be shown.
        """
        self.why, self.prompt = why, prompt

    def extend(self, seconds: int) -> None:
        """Move the deadline; it is done once."""
        self.extended = True
        self.seconds += seconds
        self.deadline += seconds

    def forget_words(self) -> None:
        """Keep no more than how it ended."""
        self.raw = self._ask = self._like = b""
        self.reading = self.outcome = None

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
