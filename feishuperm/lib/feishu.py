"""Feishu messages: cards of schema 2.0, their plain-text form, and sending them.

Texts from outside are put where Feishu parses nothing (plain text), or into a code
fence they cannot leave; so they can become no markup, no mention and no link.  A
message is at most 20 000 bytes; what is cut is said, and both ends stay, for a harmless
start must not hide a harmful tail.

Queues, limits and retries are not known here: `send_feishu_card()` tries once and says
what the answer means.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from feishuperm.lib import markdown
from feishuperm.lib.display import cut, one_line, visible, width
from feishuperm.lib.json import json_get
from feishuperm.lib.log import log
from feishuperm.lib.post import Reply, post_json
from feishuperm.messages import message_of, msg, text
from feishuperm.models.ask import (
    DETAIL,
    NOTICES,
    WHILE,
    YES,
    Ask,
    Block,
    Layout,
    Notice,
    Offer,
    Spent,
    last_name,
    shorten,
    shorten_block,
)
from feishuperm.models.kind import KINDS
from feishuperm.models.names import KEPT
from feishuperm.models.settings import host_is_local, url_host
from feishuperm.tables import sections

Card = dict[str, Any]
Element = dict[str, Any]
Message = dict[str, Any]  # a whole request body: {"msg_type": ..., ...}
Post = Callable[[str, bytes], Reply]
Url = Callable[[str, str], str]  # route and request id -> the address of a button

MAX_BODY = 20_000  # bytes; the guide says 20 KB and not which K, signature included
ENVELOPE = 160  # bytes of `timestamp`, `sign` and `msg_type` around a card
NAME = 80  # characters of a project, branch or tool name; whole on the request's page
PARTS = 40  # of a plan that is drawn; one with more is text, and a card holds 200
KNOWN = 600  # characters of a line about a request
LINE, NOTE_LINE = 42, 48  # columns of a line on a phone, in either size of letters
LABEL = 100  # characters of a button or a field
SHORT_ID = 8  # characters of a session id
LATE = 5  # seconds; a card that leaves later tells the time that is left
# Tags Feishu's markdown knows; whether it also sees them inside a fence is unknown.
ACTIVE = re.compile(
    r"```|<\s*/?\s*(?:at|person|a|link|font|text_tag|number_tag|local_datetime|raw|br|hr"
    r"|audio|img|note|record|button)\b",
    re.IGNORECASE,
)
HEADING = {"text_size": "heading"}
STYLES = {YES: "primary_filled"}  # all other buttons are plain; red means danger
# What an approving button says while the edit field holds another command.
CHANGED = msg("The command was changed: tap “Edit and allow”")
UNBROKEN = "-\u2060-"  # a line must not end inside the dashes of an option
MENTION = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
ENDS_ONLY = msg(
    "⚠ Too long for a card, only both ends are shown: see the full request first"
)
NO_CONTENT = msg("The card shows no content: open the page to see it and decide")
MASKED = msg("⚠ Secrets are masked as ***: the full request shows them")


def build_permission_card(
    ask: Ask, url: Url | None = None, at: str = "", detail: bool = True
) -> Card:
    """The card of a request; without `url` it has no buttons and only tells.

    Without `detail` the card leaves it to the request's page.
    """
    refused = _say(
        ask,
        "Feishu refused to show the details: open the full request or see the terminal",
    )

    def build(limit: int) -> Card:
        shown = shorten(with_way(ask, url("/request", ask.id) if url else ""), limit)
        blocks = _shown(shown) if detail else [div(refused)]
        elements = [*_mention(at), *blocks, *_end(shown, url, detail)]
        return card_frame(ask.title, ask.headline, colour(ask), ask.summary, elements)

    return _fit(build)


def _end(ask: Ask, url: Url | None, detail: bool) -> list[Element]:
    """The buttons, what else is known, the way to the whole request, the time left."""
    if url is None:
        told = note(_say(ask, "Please answer in the terminal"))
        return [panel(more(ask), known_elements(ask)), told]
    page = url("/request", ask.id)
    view = link_button(_say(ask, more_key(ask)), page)
    layout = Layout(ask, ask.offered if detail else (), lambda field: False)

    def links(offers: Sequence[Offer], grants: bool) -> list[Element]:
        return [_link(ask, o, url) for o in offers if o.grants is grants]

    beside = (*layout.first, *layout.second)
    rows = answer_rows(links(beside, True) or [view], links(beside, False))
    folded = [offer for offer in layout.folded if offer.look != WHILE]
    more_rows = [
        *answer_rows(links(folded, True), links(folded, False)),
        *([view] if links(layout.first, True) else []),
        *known_elements(ask if detail else ask.bare()),
        *_way_home(ask, page),
    ]
    return [*rows, panel(more(ask), more_rows), note(time_hint(ask))]


def _link(ask: Ask, offer: Offer, url: Url) -> Element:
    """A route that needs words first has them on its page."""
    action = KINDS[ask.kind].action(offer.name)
    look = WHILE if ask.dangers and offer.look == YES else offer.look
    return link_button(
        offer.label,
        url(action.path if action else "", ask.id),
        STYLES.get(look, "default"),
    )


def answer_rows(yes: Sequence[Element], no: Sequence[Element]) -> list[Element]:
    """What lets it happen on the left, what refuses on the right or alone."""
    groups = (
        [list(side) for side in (yes, no) if side] if no else [[one] for one in yes]
    )
    return [columns(groups)] if groups else []


def more_key(ask: Ask) -> str:
    """What the button to a request's page says, as a text key."""
    return msg("View") if ask.titled else msg("See the whole request")


def with_way(ask: Ask, page: str) -> Ask:
    """The ask; one without content names its page, if a phone can open that."""
    is_whole = not ask.titled or any(offer.grants for offer in ask.actions)
    if is_whole or not page or host_is_local(url_host(page)):
        return ask
    return ask._replace(empty=_say(ask, NO_CONTENT))


def _way_home(ask: Ask, page: str) -> list[Element]:
    """The inbox, where a phone can open it; it lets in whom it knows."""
    home = page.partition("/request?")[0] + "/"
    if ask.titled or host_is_local(url_host(home)):
        return []
    return [link_button(_say(ask, "Inbox"), home, "text")]


def build_notice_card(notice: Notice, language: str, at: str = "") -> Card:
    """The card of a notice: what happened, where, and what Claude Code said."""
    colour, kind, usual = NOTICES[notice.kind]
    title = text(language, kind)
    said = notice.text or text(language, usual)
    name, took = last_name(notice.project), spent(partial(text, language), notice.spent)
    facts = _pairs(
        language,
        (msg("Branch"), notice.branch),
        (msg("Time"), _time(notice.created)),
        (msg("Session"), notice.session_id[:SHORT_ID]),
        (msg("Took"), "" if took else _duration(notice.seconds)),
    )
    block = Block("markdown", "", visible(said))

    def build(limit: int) -> Card:
        cut = shorten_block(block, limit)
        shown = block_elements(cut, language) if said else []
        missing = notes(text(language, ENDS_ONLY) if cut.hidden else "")
        told = [note(" · ".join(facts)), *notes(took)]
        elements = [*_mention(at), *shown, *missing, *told]
        return card_frame(title, name, colour, name, elements)

    return _fit(build)


def build_text_message(ask: Ask) -> Message:
    """The request as a text message, for a bot whose cards are refused.

    It holds no address, for previews of addresses in texts are fetched by machines.
    Texts have no escapes: tags and addresses are made to look like themselves.
    """

    def build(limit: int) -> Message:
        blocks = shorten(ask, limit).blocks
        lines = [ask.title, one_line(ask.headline), *_circumstances(ask)]
        lines += (_labelled(block, ask.language) for block in blocks)
        lines.append(_say(ask, "Please answer in the terminal"))
        inert = "\n".join(lines).replace("<", "＜").replace("://", "：//")
        return {"msg_type": "text", "content": {"text": inert}}

    return _fit(build)


def card_message(card: Card) -> Message:
    """A card as the webhook wants it."""
    return {"msg_type": "interactive", "card": card}


def permission_messages(
    ask: Ask,
    url: Url | None = None,
    at: str = "",
    left: Callable[[], float] | None = None,
) -> list[Callable[[], Message]]:
    """What to send for a request: the card, then plainer forms if it is refused.

    First goes the mention, which a group may forbid, then the detail, then the card.
    `left` tells the seconds a person still has when the message is made: the card says
    them if so much time has passed that a person would notice.
    """

    def card(mention: str, detail: bool) -> Message:
        seconds = int(left()) if left else ask.seconds
        is_late = seconds < ask.seconds - LATE
        told = ask._replace(seconds=seconds) if is_late else ask
        return card_message(build_permission_card(told, url, mention, detail))

    forms = [partial(card, at, True)] if at else []
    forms += [partial(card, "", True), partial(card, "", False)]
    return [*forms, partial(build_text_message, ask)]


# Building blocks of a card.


def card_frame(
    title: str, subtitle: str, colour: str, summary: str, elements: list[Element]
) -> Card:
    return {
        "schema": "2.0",
        "config": {
            "update_multi": True,
            "enable_forward": False,  # a forwarded card would keep its live buttons
            "summary": {"content": one_line(f"{title} · {summary}".rstrip(" ·"))},
        },
        "header": {
            "template": colour,
            "title": plain(title),
            "subtitle": plain(one_line(subtitle)),
        },
        "body": {"elements": elements},
    }


def plain(content: str) -> Element:
    shown = visible(content).replace("--", UNBROKEN)
    return {"tag": "plain_text", "content": shown}


def div(content: str, **look: str) -> Element:
    return {"tag": "div", "text": {**plain(content), **look}}


def note(content: str) -> Element:
    return div(content, text_size="notation", text_color="grey")


def notes(*lines: str) -> list[Element]:
    """A note of each line that says something."""
    return [note(line) for line in lines if line]


def _mention(at: str) -> list[Element]:
    if not MENTION.match(at):
        return []
    return [{"tag": "markdown", "content": f"<at id={at}></at>"}]


def link_button(label: str, url: str, style: str = "default") -> Element:
    """A button that opens an address."""
    address = {"type": "open_url", "default_url": url}
    address.update(pc_url="", ios_url="", android_url="")
    return _button(label, style, address)


def callback_button(label: str, style: str, value: Mapping[str, str]) -> Element:
    """A button whose tap comes back to us with a value."""
    return _button(label, style, {"type": "callback", "value": value})


def _button(label: str, style: str, behavior: Element) -> Element:
    return {
        "tag": "button",
        "text": plain(one_line(label, LABEL)),
        "type": style,
        "width": "fill",
        "behaviors": [behavior],
    }


def columns(groups: list[list[Element]]) -> Element:
    """Elements in columns of the same width, on a phone too."""
    return {
        "tag": "column_set",
        "flex_mode": "none",
        "columns": [
            {"tag": "column", "width": "weighted", "weight": 1, "elements": elements}
            for elements in groups
        ],
    }


# What a card says.


def _circumstances(ask: Ask) -> list[str]:
    """Where a request comes from, for people who look it up."""
    return _pairs(
        ask.language,
        (msg("Tool"), ask.tool),
        (msg("Project"), ask.project),
        (msg("Branch"), ask.branch),
        (msg("Time"), _time(ask.created)),
        (msg("Agent"), ask.agent),
        (msg("Session"), f"{ask.session[:SHORT_ID]} {ask.session_title}".strip()),
        (msg("Request"), ask.id),
    )


def _say(ask: Ask, key: str, **values: object) -> str:
    return text(ask.language, key, **values)


def _pairs(language: str, *pairs: tuple[str, str]) -> list[str]:
    return [
        _pair(language, text(language, key), one_line(value, NAME))
        for key, value in pairs
        if value
    ]


def _pair(language: str, label: str, value: str) -> str:
    return text(language, "{label}: {value}", label=label, value=value)


def _shown(ask: Ask) -> list[Element]:
    """What is dangerous, the blocks, why; and a note if anything is missing."""
    blocks = [block for block in ask.blocks if block.kind != DETAIL]
    drawn = [part for block in blocks for part in block_elements(block, ask.language)]
    if not ask.blocks and ask.empty:
        drawn = [div(ask.empty)]
    left_out = _say(ask, "⚠ {count} more items are not shown", count=ask.cut)
    missing = notes(
        left_out if ask.cut else "",
        _say(ask, ENDS_ONLY) if ask.is_cut else "",
        _say(ask, MASKED) if ask.masked else "",
    )
    return [*danger_elements(ask), *drawn, *missing, *why_elements(ask)]


def danger_elements(ask: Ask) -> list[Element]:
    """A line for each, the whole below "More": long ones push the buttons away."""
    lines = [_first_line(line, LINE) for line in ask.dangers]
    return [div("\n".join(lines), text_color="red")] if lines else []


def why_elements(ask: Ask) -> list[Element]:
    """One line why it is asked; the whole of it is below "More"."""
    return [note(_first_line(_why(ask), NOTE_LINE))] if ask.why else []


def _why(ask: Ask) -> str:
    who = ask.host or "Claude"
    return _say(ask, "{agent} said: {what}", agent=who, what=ask.why) if ask.why else ""


def _first_line(said: str, most: int) -> str:
    """As much as a phone shows on a line."""
    return said if width(said) <= most else f"{cut(said, most - 1)}…"


def known_elements(ask: Ask) -> list[Element]:
    """What else is known of a request: a decision rarely needs it."""
    hint, whole = rule_hint(ask), [(row, LINE) for row in ask.dangers]
    whole.append((_why(ask), NOTE_LINE))
    lines = [row for row, most in whole if _first_line(row, most) != row]
    lines += [hint, *map(visible, ask.rules)] if hint else []
    if ask.prompt:
        lines.append(_say(ask, "Working on: {what}", what=ask.prompt))
    lines += (_labelled(block, ask.language) for block in ask.details)
    lines = [one_line(line, KNOWN) for line in (*lines, *ask.facts)]
    return [note(line) for line in (*lines, " · ".join(_circumstances(ask)))]


def rule_hint(ask: Ask) -> str:
    """The sentence above the rules that "always" writes, or why there are none."""
    if not ask.rules and not ask.rule_note:
        return ""
    if not ask.rules:
        return _say(ask, "Why there is no “Always allow”: {why}", why=ask.rule_note)
    if ask.host and any(offer.confirm in ask.rules for offer in ask.actions):
        return _say(ask, "Always allow is {agent}'s own; in its words:", agent=ask.host)
    if ask.host:
        return _say(ask, KEPT)
    # With a note it is not true that nobody asks any more.
    hint = (
        msg("Always allow writes this rule for the project:")
        if ask.rule_note
        else msg("Always allow never asks again; it writes this rule for the project:")
    )
    return f"{ask.rule_note} {_say(ask, hint)}".strip().replace("。 ", "。")


def more(ask: Ask) -> str:
    return _say(ask, "More")


def panel(title: str, elements: Sequence[Element]) -> Element:
    """What is folded. Should a client draw it badly inside of a form, a button here
    could call back for the long card instead."""
    return {
        "tag": "collapsible_panel",
        "expanded": False,
        "header": {"title": plain(title)},
        "elements": list(elements),
    }


def colour(ask: Ask) -> str:
    """Of its header: the tool's, unless it is dangerous."""
    return "red" if ask.dangers else ask.colour


def _content(block: Block, language: str) -> str:
    """The text of a block, with a note where some of it is missing."""
    if not block.hidden:
        return block.text
    note = text(language, "… ({count} characters left out here) …", count=block.hidden)
    return f"{block.text}\n{note}\n{block.tail}"


def block_elements(block: Block, language: str) -> list[Element]:
    """A plan's headings larger, code as code, the rest as lines; none is markup."""
    content = _content(block, language)
    drawn: list[Element] = []
    if block.kind == "markdown":
        parts = markdown.flatten(content)
        if 0 < len(parts) <= PARTS:
            drawn = [_part(part, language) for part in parts]
    elif block.kind in ("code", "diff"):
        drawn = [_fenced(content, block.language, language)]
    if not drawn:
        return [div(_labelled(block, language))]
    return [*notes(block.label), *drawn]


def _part(part: markdown.Part, language: str) -> Element:
    if part.kind == "rule":
        return {"tag": "hr"}
    if part.kind == "code":
        return _fenced(part.text, part.language, language)
    return div(part.text, **HEADING if part.kind == "heading" else {})


def _fenced(content: str, syntax: str, language: str) -> Element:
    """Code in a fence, unless it could leave that, or be markup inside."""
    if not content or ACTIVE.search(content):
        return div(content or text(language, "(empty)"))
    return {"tag": "markdown", "content": f"```{syntax}\n{content}\n```"}


def _labelled(block: Block, language: str) -> str:
    content = _content(block, language) or text(language, "(empty)")
    if not block.label or block.kind == "question":
        return content
    return _pair(language, block.label, content)


def _time(created: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(created))


def _duration(seconds: float) -> str:
    if seconds <= 0:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def spent(say: Callable[..., str], turn: Spent) -> str:
    """What a turn has taken, as far as it is known."""
    seconds, calls, tokens, cost = turn
    context = f"{tokens / 1000:.0f}k" if tokens >= 1000 else str(tokens)
    parts = (
        say("took {time}", time=_duration(seconds)) if seconds >= 1 else "",
        say("tool calls: {count}", count=calls) if calls > 0 else "",
        say("context: {tokens} tokens", tokens=context) if tokens > 0 else "",
        f"${cost:.2f}" if cost >= 0.005 else "",
    )
    return " · ".join(filter(None, parts))


def _fit(build: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """The result with the most characters per block that is no larger than allowed."""

    def fits(content: dict[str, Any]) -> bool:
        return len(encode(content).encode()) + ENVELOPE <= MAX_BODY

    whole = build(MAX_BODY)
    return whole if fits(whole) else longest(build, fits, MAX_BODY)


def longest(
    build: Callable[[int], Card], fits: Callable[[Card], bool], high: int, step: int = 1
) -> Card:
    """What is made of the most characters, fewer than `high`, that still fits."""
    low, best = 0, build(0)
    while high - low > step:
        middle = (low + high) // 2
        candidate = build(middle)
        if fits(candidate):
            low, best = middle, candidate
        else:
            high = middle
    return best


def encode(content: object) -> str:
    """JSON in few bytes: a Chinese character is 3, and 6 as an escape."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


# Sending.


class SendResult(NamedTuple):
    """What became of a message."""

    ok: bool
    code: int  # Feishu's; 0 is success, -1 no answer of Feishu's
    message: str  # what happened and what to do, without any secret
    retry: bool = False  # the same may pass later
    retry_after: float = 0.0  # seconds, if Feishu says so
    fallback: bool = False  # a simpler message may pass now
    data: Mapping[str, Any] = {}  # of an app's answer


NO_ANSWER = -1
BAD_SIGN, NO_SUCH_BOT = 19021, 19001
RETRY, SIMPLER, FAIL = "retry", "simpler", "fail"
RENEW = "renew"  # the token of an app; then it may pass
# Code -> what it means for the message, and what the owner of the bot can do.
Codes = Mapping[int, tuple[str, str]]


def read_codes(owner: str) -> Codes:
    """What `feishu_codes.txt` says of the numbers that a bot or an app meets."""
    table = sections("lib/feishu_codes.txt")
    return {
        int(code): (verdict, msg(said))
        for verdict in (RETRY, SIMPLER, FAIL, RENEW)
        for line in table.get(f"{owner} {verdict}", ())
        for code, _, said in [line.partition(" = ")]
    }


CODES = read_codes("bot")


class Bot(NamedTuple):
    """A custom bot; whatever goes wrong is in the result."""

    url: str
    secret: str = ""
    post: Post = post_json
    clock: Callable[[], float] = time.time

    def send(self, message: Message) -> SendResult:
        """Send any message, once; signed again if only that was wrong."""
        result = self._attempt(message)
        if result.code == BAD_SIGN and self.secret:
            result = self._attempt(message)
        if not result.ok:
            log(f"Feishu did not take a message: {result.message}", "warning")
        return result

    def send_first(self, messages: Sequence[Callable[[], Message]]) -> SendResult:
        """Send the first of several forms of a message that is not refused as such."""
        for build in messages:
            result = self.send(build())
            if not result.fallback:
                break
        return result

    def _attempt(self, message: Message) -> SendResult:
        signed = {}
        if self.secret:
            timestamp = str(int(self.clock()))
            signed = {"timestamp": timestamp, "sign": sign(timestamp, self.secret)}
        try:
            reply = self.post(self.url, encode({**signed, **message}).encode())
        except OSError as error:
            return SendResult(False, NO_ANSWER, message_of(error), retry=True)
        return judge(reply)


def send_feishu_card(
    url: str,
    card: Card,
    secret: str = "",
    post: Post = post_json,
    clock: Callable[[], float] = time.time,
) -> SendResult:
    """Send a card to a custom bot, once."""
    return Bot(url, secret, post, clock).send(card_message(card))


def sign(timestamp: str, secret: str) -> str:
    """The signature: the text is the key, and what is signed is empty."""
    key = f"{timestamp}\n{secret}".encode()
    digest = hmac.new(key, digestmod=hashlib.sha256).digest()
    return binascii.b2a_base64(digest, newline=False).decode()


def judge(reply: Reply, codes: Codes = CODES) -> SendResult:
    """What an answer means. Most refusals come with HTTP status 200."""
    code = _code(reply.body)
    if reply.status == 200 and code == 0:
        return SendResult(True, 0, "")
    verdict, advice = codes.get(code, (SIMPLER, ""))
    own = one_line(str(json_get(reply.body, "msg", "")))
    said = msg("{}: {}", code, advice or own)
    if code in (0, NO_ANSWER):  # a proxy's page, a redirect, another service
        verdict = FAIL
        said = msg("HTTP status {}, not an answer from Feishu", reply.status)
    if reply.status >= 500 or reply.status == 429:
        verdict = RETRY
    pause = asked_pause(reply.headers) if verdict == RETRY else 0.0
    retry = verdict in (RETRY, RENEW)
    return SendResult(False, code, said, retry, pause, verdict == SIMPLER)


def _code(body: bytes) -> int:
    """Feishu's code; older answers spell it StatusCode."""
    for key in ("code", "StatusCode"):
        code = json_get(body, key)
        if isinstance(code, int) and not isinstance(code, bool):
            return code
    return NO_ANSWER


def asked_pause(headers: Mapping[str, str]) -> float:
    """How long Feishu's gateway asks to wait, within reason."""
    value = headers.get("x-ogw-ratelimit-reset") or headers.get("retry-after") or ""
    return min(float(value), 60.0) if value.isascii() and value.isdigit() else 0.0


UNCOUNTED = 6 * 3600  # nobody counts the seconds of so many hours
AT_ZERO = {
    "deny": msg("denied at {time}"),
    "stands": msg("stays refused at {time}"),
    "terminal": msg("left to the terminal at {time}"),
}


def time_hint(ask: Ask) -> str:
    """How long a person has, and what happens then."""
    counted = _say(ask, "Answer within {seconds} seconds", seconds=ask.seconds)
    parts = (counted if ask.seconds < UNCOUNTED else "", at_zero(ask))
    return " · ".join(filter(None, parts))


def at_zero(ask: Ask) -> str:
    """What happens when the time of a request is over, and when that is."""
    if not ask.at_zero:
        return ""
    ends = time.strftime("%H:%M", time.localtime(ask.created + ask.seconds))
    return text(ask.language, AT_ZERO[ask.at_zero], time=ends)
