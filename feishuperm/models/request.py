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
from collections.abc import Mapping
from types import MappingProxyType
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


class Facts:
    """What is known of a request, and what each fact is at first.

    Times are the wall clock's, which people read, or monotonic, for the loop.
    """

    __slots__ = ()
    id: str = ""
    raw: bytes = b""  # its event; empty when only its end is remembered
    kind: str = "permission"  # a row of `KINDS`
    agent: str = "claude"  # that asks: a row of `agents.table`
    offered: frozenset[str] = frozenset()  # names of the actions its agent can obey
    tool_name: str = ""
    project: str = ""
    session: str = ""
    session_title: str = ""  # without secrets
    created: float = 0.0  # wall clock
    deadline: float = 0.0  # monotonic
    asked: float = 0.0  # monotonic: when its hook asked last
    state: str = WAITING
    shown: bool = False  # a card was delivered or a page displayed it
    from_agent: bool = False  # a subagent asks: the terminal shows no dialog so far
    serial: bool = False  # nor does it for this agent's hook: the clock never denies
    patience: int = 0  # seconds, if it is given back soon to a person who types
    seconds: int = 0  # that a person has, from `created` to `deadline`
    spared: bool = False  # a part of its time is quiet: the clock does not deny it
    seen: float = 0.0  # wall clock: when its card was read
    extended: bool = False  # somebody reads it: its deadline was moved, once
    summary: str = ""  # one line for lists, without secrets
    detail: str = ""  # the beginning of what it is about, for the ledger
    digest: str = ""  # of the event: an answer to something else is refused
    why: str = ""  # what Claude said last, as it may be shown
    prompt: str = ""  # the first line of what it works on, the same
    reading: object = None  # what danger was found in it
    danger: tuple[str, ...] = ()  # names of its marks, or of what ran instead
    # Until it is put into words nobody has seen it: only its page could grant it.
    _ask: bytes = b""  # see `keep_ask`
    _like: bytes = b""
    masked: bool = True  # a card may hide secrets
    veiled: bool = True  # or more than that
    # Passes, and calls that may run once.
    passable: bool = False  # a pass may be made for its call, or cover it
    pass_id: str = ""  # which let it through
    stale_pass: str = ""  # that would have, had no file changed since
    folder: str = ""  # where the call was made, links resolved
    files: tuple[str, ...] = ()  # paths that may be files which it runs
    grants: Mapping[str, Any] = MappingProxyType({})  # the pass that its answer made
    call: str = ""  # digest of the call, where an answer may let it run later
    until: float = 0.0  # monotonic: how long it may
    # How it ended.
    ended: float = 0.0  # wall clock
    decision: Decision | None = None
    action: str = ""  # of its kind, if a person answered
    surface: str = ""  # "link", "page", "inbox", "terminal", ...
    who: str = ""  # as far as the surface can tell
    reason: str = ""  # what the person typed, or why it ended by itself
    tried: str = ""  # the process of its own session that tried to answer it
    rules: tuple[str, ...] = ()  # rule texts an "always" wrote
    known_rules: tuple[str, ...] = ()  # those that were there already
    undone: bool = False  # its rules were removed again
    ran: str = ""  # the command that ran instead, without its secrets
    answers: tuple[str, ...] = ()  # to a question, as they may be shown
    note: str = ""  # key of a sentence the result page adds
    result: tuple[str, str] = ("", "")  # how the call went on, and a detail of that
    head: str = ""  # the first characters of the ledger's head after it
    outcome: Outcome | None = None  # made once after each change


class Request(Facts):
    """One permission request, from registration until a day after its end."""

    __slots__ = tuple(Facts.__annotations__)

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
        for name in self.__slots__:
            setattr(self, name, getattr(Facts, name))
        self.id = id
        self.raw = raw
        self.kind = kind
        self.tool_name = self.summary = tool_name
        self.project = project
        self.created = created
        self.deadline = deadline

    def payload(self) -> AskPayload:
        """The event, decoded again."""
        payload = parse_payload(self.raw)
        assert isinstance(payload, AskPayload)
        payload.agent = self.agent
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
        """Whether it ended undecided where only now the terminal asks."""
        undecided = self.state in (EXPIRED, RELEASED) and self.decision is None
        return (self.from_agent or self.serial) and undecided

    def waits(self) -> bool:
        return self.state == WAITING

    def end(self, state: str, now: float) -> bool:
        """Move to an end; False when the request has ended already."""
        if state not in TRANSITIONS[self.state]:
            return False
        self.state = state
        self.ended = now
        return True
