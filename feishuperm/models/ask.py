"""What a person is shown and told, what they answer, what came of it: plain values.

An `Ask` is everything a surface needs to show a request and offer its answers: texts
in the person's language, no markup, no address, nothing that has to be looked up.  An
`Answer` is what comes back from any surface, an `Outcome` how the request ended.  All
of them survive JSON (`to_plain()`, `from_plain()`), so that a surface may as well be on
another machine; what comes from there is checked field by field.

Every field has a default, and the type of the default is the type of the field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from feishuperm.errors import PayloadError
from feishuperm.messages import msg

# How a button looks, by what it does; each surface has its own colours for them.
YES, FOREVER, NO, STOP, WHILE = "yes", "forever", "no", "stop", "while"
TEXT_LIMIT = 1000  # characters; as much as Feishu's own input field takes


ASKED, DETAIL = "question", "detail"  # blocks: fields ask it again; rarely needed


class Block(NamedTuple):
    """One piece of what a request is about."""

    kind: str = ""  # "code", "diff", "markdown", "text", "path", or one of the above
    label: str = ""
    text: str = ""
    language: str = ""  # of a code block
    hidden: int = 0  # characters left out after the text, and before
    tail: str = ""  # this, its end: a harmless start must not hide a harmful end


class Option(NamedTuple):
    """One of the choices of a field."""

    value: str = ""  # what an answer names, and what is shown
    detail: str = ""


class Field(NamedTuple):
    """Something a person may fill in."""

    name: str = ""
    type: str = "text"  # "lines": a longer one; "one", "many": a choice of options
    label: str = ""
    hint: str = ""
    heading: str = ""  # a word or two above the label
    options: tuple[Option, ...] = ()
    value: str = ""  # what it holds at first
    limit: int = TEXT_LIMIT

    @property
    def edits(self) -> bool:
        """Whether it holds a text of the call, to be changed."""
        return self.type == "lines" and bool(self.value)


class Offer(NamedTuple):
    """A button as it is offered."""

    name: str = ""  # of the action
    label: str = ""
    submit: str = ""  # its label beside the fields it needs
    look: str = NO
    key: str = ""  # on a keyboard
    fields: tuple[str, ...] = ()  # names of the fields it takes along
    needs: bool = False  # means nothing without them: where none fit, open the page
    grants: bool = False  # lets something happen
    confirm: str = ""  # words a person has to agree to in a step of their own
    words: bool = False  # what somebody writes without naming a button is meant for it


class Ask(NamedTuple):
    """A request as a person sees it."""

    id: str = ""
    kind: str = ""  # a row of `KINDS`
    language: str = "zh"
    title: str = ""  # of a message that arrives somewhere
    heading: str = ""  # of a page about it
    tool: str = ""
    colour: str = "grey"
    summary: str = ""  # one line without secrets
    what: str = ""  # what would be done, in a few words; empty: the title says it
    blocks: tuple[Block, ...] = ()
    empty: str = ""  # the sentence instead, where there are none
    project: str = ""  # directory
    branch: str = ""
    session: str = ""
    session_title: str = ""  # as the client has told it; without secrets
    agent: str = ""  # the subagent that asks
    host: str = ""  # name of the agent that asks, if that is not Claude Code
    created: float = 0.0  # wall clock
    seconds: int = 0  # how long the person has, from `created`
    at_zero: str = ""  # "deny", "terminal" or "stands"
    actions: tuple[Offer, ...] = ()
    fields: tuple[Field, ...] = ()
    rules: tuple[str, ...] = ()  # what "always" would write
    rule_note: str = ""  # the sentence why it would write nothing
    digest: str = ""  # of the call: an answer to something else is refused
    cut: int = 0  # blocks left out, after `CUT_FIRST` of them
    masked: bool = False  # holds a secret that only its own page shows
    veiled: bool = False  # what was masked could be more than a secret
    why: str = ""  # what Claude said last before it asked; a line or two
    prompt: str = ""  # first line of what it works on
    dangers: tuple[str, ...] = ()  # sentences to show in red; most calls have none
    facts: tuple[str, ...] = ()  # sentences to show beside it without colour
    hold: bool = False  # a person who reads may stop its clock (`extend_deadline`)
    machine: str = ""  # name of the machine that asks, where there are several
    titled: bool = False  # only what kind of request it is, as `bare` makes it

    @property
    def project_name(self) -> str:
        return last_name(self.project)

    @property
    def headline(self) -> str:
        """What it is and where, on one line."""
        parts = (self.machine, self.what, self.project_name)
        return " · ".join(filter(None, parts))

    @property
    def details(self) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block.kind == DETAIL)

    @property
    def is_cut(self) -> bool:
        """Whether something was too long to be shown."""
        return bool(self.cut) or any(block.hidden for block in self.blocks)

    @property
    def partial(self) -> bool:
        """Whether something of the call is not shown that ought to be seen."""
        return self.is_cut or self.veiled

    @property
    def offered(self) -> tuple[Offer, ...]:
        """The buttons to draw: nobody grants what they have not seen whole."""
        if not self.partial:
            return self.actions
        return tuple(offer for offer in self.actions if not offer.grants)

    def choice(self, offer: Offer) -> Field | None:
        """The one question whose options are answers by themselves, if it is that."""
        if not offer.needs:
            return None
        fields = [field for field in self.fields if field.name in offer.fields]
        if not fields or not fields[0].options:
            return None
        own_words = [f"{fields[0].name}_other"]
        others = [field.name for field in fields[1:]]
        return fields[0] if fields[0].type == "one" and others == own_words else None

    def offer(self, name: str) -> Offer | None:
        """The button of this name, if it is offered."""
        return next((offer for offer in self.actions if offer.name == name), None)

    def rules_of(self, offer: Offer) -> tuple[str, ...]:
        """What this button writes, unless its own words say it."""
        is_told = offer.look != FOREVER or offer.confirm in self.rules
        return () if is_told else self.rules

    def edits(self, offer: Offer) -> bool:
        """Whether this button lets a text of the call itself be changed."""
        return any(field.name in offer.fields for field in self.fields if field.edits)

    def without_edit(self) -> Ask:
        """The ask where no text of the call can be changed: not all of it is seen."""
        fields = tuple(field for field in self.fields if not field.edits)
        kept = self.keeping(lambda offer: not self.edits(offer))
        return kept._replace(fields=fields)

    def keeping(self, is_kept: Callable[[Offer], object]) -> Ask:
        """The ask with some of its buttons only."""
        return self._replace(actions=tuple(filter(is_kept, self.actions)))

    def bare(self, sentence: str = "") -> Ask:
        """What kind of request it is and nothing of it: nobody approves that."""
        refusals = tuple(offer for offer in self.actions if not offer.grants)
        return Ask(
            self.id, self.kind, self.language, self.title, self.heading,
            empty=sentence, created=self.created, seconds=self.seconds,
            at_zero=self.at_zero, actions=refusals, digest=self.digest, titled=True,
        )  # fmt: skip


class Layout:
    """Where the buttons of an ask stand: what lets it happen left, refusals right."""

    def __init__(
        self,
        ask: Ask,
        offers: Sequence[Offer],
        is_choice: Callable[[Field | None], object] = bool,
    ) -> None:
        self.choice = next((o for o in offers if is_choice(ask.choice(o))), None)
        edited = {field.name for field in ask.fields if field.edits}
        self.edit = next((o for o in offers if edited.intersection(o.fields)), None)
        rest = [o for o in offers if o not in (self.choice, self.edit)]
        # One question is answered by its options: nothing competes with them.
        self.first, self.second = ([], []) if self.choice else self._seen(ask, rest)
        self.folded = [o for o in rest if o not in (*self.first, *self.second)]
        # Those whose fields are wanted at once.
        self.filled = [o for o in self.first if o.needs or o.words]

    @staticmethod
    def _seen(ask: Ask, offers: list[Offer]) -> tuple[list[Offer], list[Offer]]:
        """The two rows that need no unfolding."""
        yes = [o for o in offers if o.look == YES]
        no = [o for o in offers if not o.grants]
        first = [*yes[:1], *no[:1]]
        if ask.kind in ("plan", "question"):
            return first, []
        # What lasts beside what stops, where a call is judged.
        lasting = [] if ask.dangers else [o for o in offers if o.look == FOREVER]
        return first, [*yes[1:], *lasting, *no[1:]]


class Answer(NamedTuple):
    """What came back from a surface."""

    id: str = ""
    action: str = ""
    values: dict[str, tuple[str, ...]] = {}  # by the name of the field  # noqa: RUF012
    surface: str = ""  # "link", "page", "inbox", ...
    who: str = ""  # as far as the surface can tell
    digest: str = ""  # of what it had shown, where it can tell
    confirmed: bool = False  # the person agreed to the words of `Offer.confirm`

    def value(self, name: str) -> str:
        """The text of a field, cut to what one holds; empty if it was left out."""
        return " ".join(self.values.get(name, ())).strip()[:TEXT_LIMIT]


class Spent(NamedTuple):
    """What a turn has taken: numbers, so it may leave where cards are titles."""

    seconds: float = 0.0
    calls: int = 0
    tokens: int = 0  # of context
    cost: float = -1.0  # dollars; below zero: nobody knows


class Outcome(NamedTuple):
    """How a request ended, in words and in facts."""

    id: str = ""
    kind: str = ""
    language: str = "zh"
    state: str = ""
    action: str = ""
    surface: str = ""
    who: str = ""
    ended: float = 0.0  # wall clock
    done: str = ""  # what was done, or what happened instead
    look: str = "late"  # "good", "bad" or "late"
    lines: tuple[str, ...] = ()  # sentences about it
    rules: tuple[str, ...] = ()  # "always" wrote these, or found them there
    ran: str = ""  # the command that ran instead of the one that was asked for
    reason: str = ""  # what the person typed
    summary: str = ""
    project: str = ""
    head: str = ""  # the first characters of the ledger's head after it
    detail: str = ""  # the beginning of what it was about, without secrets
    result: str = ""  # the sentence how the call went on, once that is known
    result_look: str = ""  # "good" or "bad"
    answers: tuple[str, ...] = ()  # to a question: one line for each
    undoable: bool = False  # it wrote rules that may be undone
    undone: tuple[str, ...] = ()  # those that were
    spent: Spent = Spent()  # by the turn that ended before it

    def bare(self) -> Outcome:
        """What was done, by whom and when, and nothing of what it was about."""
        return Outcome(
            self.id, self.kind, self.language, self.state, self.action, self.surface,
            self.who, self.ended, self.done, self.look, head=self.head,
            spent=self.spent,
        )  # fmt: skip


class Receipt(NamedTuple):
    """What the approvals say to an answer."""

    status: str = ""  # one of those below
    outcome: Outcome = Outcome()  # of the request, once it has ended
    error: str = ""  # a sentence for the person, where nothing was done
    fixed: bool = False  # which is the same for every request: it quotes none

    def bare(self, sentence: str) -> Receipt:
        """The receipt without anything of the request; `sentence` is said instead."""
        error = sentence if self.error and not self.fixed else self.error
        return self._replace(outcome=self.outcome.bare(), error=error)


SETTLED = "settled"  # by this very answer
ENDED = "ended"  # it had ended before
UNKNOWN = "unknown"  # there is no such request
INCOMPLETE = "incomplete"  # a field is missing or wrong; ask again
CONFIRM = "confirm"  # the words in `error` come first, in a step of their own
REFUSED = "refused"  # not offered, not this person's, not this request
EXTENDED = "extended"  # nothing is decided; there is more time, until `outcome.ended`
TOLD = "told"  # to a command, not to an answer: `outcome.lines`


NOTICE_PRESS = "go_on"  # the action of a notice's button


class Notice(NamedTuple):
    """Something to tell that needs no decision."""

    kind: str  # a row of NOTICES
    created: float  # wall clock
    project: str = ""
    branch: str = ""
    session_id: str = ""
    text: str = ""  # what Claude Code said, or what went wrong
    seconds: float = 0.0  # how long it took, if that is known
    panel: str = ""  # id of the panel that its button is of; empty: it has none
    button: str = ""  # label of that button; a press of it is `NOTICE_PRESS`
    spent: Spent = Spent()

    def bare(self) -> Notice:
        """What kind of notice it is, and nothing of what it tells."""
        return Notice(
            self.kind, self.created, seconds=self.seconds, panel=self.panel,
            button=self.button, spent=self.spent,
        )  # fmt: skip


# Kind of notice -> colour of its header, its title, and what it says if nothing is
# given.
NOTICES = {
    "unreadable": (
        "red",
        msg("Claude Code permission request"),
        msg("A permission request came and could not be read: please see the terminal"),
    ),
    "stop": ("green", msg("Claude Code has finished"), ""),
    "failure": ("red", msg("Claude Code failed"), ""),
    "notification": ("blue", msg("Claude Code notice"), ""),
    "supervisor_allow": ("green", msg("Claude Code review: may stop"), ""),
    "supervisor_block": ("carmine", msg("Claude Code review: go on"), ""),
    "test": ("wathet", msg("Claude Code test card"), ""),
    "tried": ("red", msg("A Claude Code session tried to answer itself"), ""),
    "pass": ("orange", msg("A pass for Claude Code, typed"), ""),
}

# What the items of a tuple are, where they are more than texts.
PARTS: dict[tuple[type, str], type] = {
    (Field, "options"): Option,
    (Ask, "blocks"): Block,
    (Ask, "actions"): Offer,
    (Ask, "fields"): Field,
}
MAX_ITEMS = 2000  # of one tuple that comes from elsewhere
LARGEST = 1e11  # number from there: what is larger is no date, and overflows
CUT_FIRST, CUT_LAST = 20, 10  # blocks of a call that has too many of them

SIMPLE = (str, int, float)  # what is plain already

T = TypeVar("T")


def last_name(folder: str) -> str:
    """What people call a folder; of the root, its path."""
    return folder.rstrip("/").rpartition("/")[2] or folder


def shorten(ask: Ask, limit: int) -> Ask:
    """The ask with both ends of its blocks, none longer than `limit` characters."""
    blocks, cut = ask.blocks, ask.cut
    if len(blocks) > CUT_FIRST + CUT_LAST:
        cut += len(blocks) - CUT_FIRST - CUT_LAST
        blocks = (*blocks[:CUT_FIRST], *blocks[-CUT_LAST:])
    return ask._replace(
        blocks=tuple(shorten_block(block, limit) for block in blocks), cut=cut
    )


def fit(ask: Ask, size: int) -> Ask:
    """The ask with at most so many characters in its blocks, cut from the longest."""
    ask = shorten(ask, size)
    lengths = sorted(len(block.text) + len(block.tail) for block in ask.blocks)
    left = size
    for place, length in enumerate(lengths):
        share = left // (len(lengths) - place)
        if length > share:
            return shorten(ask, share)
        left -= length
    return ask


def shorten_block(block: Block, limit: int) -> Block:
    """Both ends of a block, the larger part from its start."""
    length = len(block.text) + len(block.tail)
    if length <= limit:
        return block
    end = limit // 3
    rest = block.tail or block.text[limit - end :]
    text, tail = block.text[: limit - end], rest[max(0, len(rest) - end) :]
    hidden = block.hidden + length - len(text) - len(tail)
    return block._replace(text=text, hidden=hidden, tail=tail)


def to_plain(value: Any) -> Any:
    """A value of this file as JSON knows it."""
    if hasattr(value, "_fields"):
        value = dict(zip(value._fields, value))
    if isinstance(value, dict):
        return {
            name: part if isinstance(part, SIMPLE) else to_plain(part)
            for name, part in value.items()
        }
    if isinstance(value, tuple):
        return [p if isinstance(p, SIMPLE) else to_plain(p) for p in value]
    return value


def from_plain(shape: type[T], plain: object) -> T:
    """The value again; unknown keys are skipped. Raises PayloadError."""
    if not isinstance(plain, dict):
        raise PayloadError(f"{shape.__name__} must be an object")
    defaults: dict[str, Any] = shape._field_defaults  # type: ignore[attr-defined]
    return shape(
        **{
            name: _read(shape, name, default, plain[name])
            for name, default in defaults.items()
            if name in plain
        }
    )


def _read(shape: type, name: str, default: object, plain: object) -> object:
    if isinstance(default, tuple) and not hasattr(default, "_fields"):
        return _items(shape, name, plain)
    if isinstance(default, dict):
        if not isinstance(plain, dict):
            raise PayloadError(f"{shape.__name__}.{name} must be an object")
        return {str(key): _items(shape, name, part) for key, part in plain.items()}
    if hasattr(default, "_fields"):
        return from_plain(type(default), plain)
    if isinstance(plain, (int, float)) and not abs(plain) < LARGEST:
        raise PayloadError(f"{shape.__name__}.{name} is out of reach")
    if isinstance(default, float) and type(plain) is int:
        return float(plain)
    if type(plain) is not type(default):
        raise PayloadError(f"{shape.__name__}.{name} must be {type(default).__name__}")
    return plain


def _items(shape: type, name: str, plain: object) -> tuple[object, ...]:
    if not isinstance(plain, list) or len(plain) > MAX_ITEMS:
        raise PayloadError(f"{shape.__name__}.{name} must be a list")
    part = PARTS.get((shape, name))
    if part is not None:
        return tuple(from_plain(part, item) for item in plain)
    if not all(isinstance(item, str) for item in plain):
        raise PayloadError(f"{shape.__name__}.{name} must hold texts")
    return tuple(plain)
