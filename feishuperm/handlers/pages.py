"""The pages a person sees in a browser: values in, HTML out.

Nothing here decides, waits, or knows the time; what a page says comes from its
arguments and from `lib.text`.  Every page is one self-contained file: style and script
are inlined, and the content security policy names them by their hashes, so nothing
that a tool call smuggles into a page could ever run.

A link is `/allow?id=...&sig=...`.  Pages post its query as form fields to its path; the
inbox script does the same, so a decision always arrives in one shape.
"""

from __future__ import annotations

import base64
import hashlib
import json
import pkgutil
import re
import time
from html import escape
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from feishuperm.lib.display import one_line, visible
from feishuperm.lib.text import text
from feishuperm.lib.tool import Block, extract_tool_detail
from feishuperm.models import request as states
from feishuperm.models.action import ACTIONS
from feishuperm.models.question import in_form, read_questions
from feishuperm.models.view import kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from feishuperm.models.action import Action
    from feishuperm.models.question import Question
    from feishuperm.models.request import Request
    from feishuperm.models.view import RequestView

# The inbox gets its whole state on every change; the rest is one tap away.
INBOX_BLOCK = 12_000
INBOX_TAIL = 2_000
REASON_LENGTH = 1000  # as much as Feishu's own input field takes
SUBJECT_LENGTH = 160


class Outcome(NamedTuple):
    """What a page says of a request that has ended."""

    done: str  # text key
    look: str  # "good", "bad" or "late"
    lines: tuple[str, ...] = ()  # text keys


# By action, or by state when no person decided; a kind's own row goes before.
OUTCOMES = {
    **{
        action.name: Outcome(action.done, "bad" if action.message else "good")
        for action in ACTIONS.values()
    },
    "answer": Outcome("done.answer", "good"),
    "approve": Outcome("done.approve", "good"),
    "deny plan": Outcome("done.deny_plan", "bad"),
    "deny question": Outcome("done.deny_question", "bad"),
    states.EXPIRED: Outcome("ended.expired", "late"),
    states.TERMINAL: Outcome("ended.terminal", "late"),
    states.GONE: Outcome("ended.gone", "late", ("ended.gone_hint",)),
    states.RELEASED: Outcome("ended.released", "late", ("ended.released_hint",)),
}

# The label of a button where a request is not about running a tool.
LABELS = {
    "allow plan": "button.approve",
    "deny plan": "button.reject",
    "deny question": "page.answer_refuse",
}
TITLES = {
    "permission": "page.request",
    "question": "page.question",
    "plan": "page.plan",
}
# Lines of a block that look different, by their first character.
LINE_LOOKS = {
    "diff": {"+": "add", "-": "del", "@": "hunk"},
    "markdown": {"#": "title"},
}
HOME = "page.open_inbox"
PROSE = ("markdown", "question", "text")
ICONS = {
    "check": "M6 17l7 7L27 9",
    "clock": "M16 8v9l6 4M16 3a13 13 0 1 0 .01 0",
    "ask": "M11 12a5 5 0 1 1 7 4.6c-1.500.7-2 1.600-2 3.400M16 25v.5",
}


class Detail(NamedTuple):
    """One more thing a result page says: a sentence, or a label and its value."""

    label: str  # text key, or empty for a sentence
    text: str
    exact: bool = False  # shown letter by letter, as a rule


# Loading.


def _load(name: str) -> str:
    """A file of `web/`, also from inside the archive."""
    data = pkgutil.get_data("feishuperm", "web/" + name)
    if data is None:
        raise FileNotFoundError(name)
    return data.decode()


STYLE = _load("style.css")
PAGE_SCRIPT = _load("page.js")
INBOX_SCRIPT = _load("inbox.js")
PAGE = _load("page.html")
INBOX = _load("inbox.html")


def _hash(source: str) -> str:
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src {_hash(PAGE_SCRIPT)} {_hash(INBOX_SCRIPT)}",
        f"style-src {_hash(STYLE)}",
        "img-src data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)


def content_security_policy() -> str:
    """The value of the header that every page is sent with."""
    return _POLICY


def page_headers() -> tuple[tuple[str, str], ...]:
    """All headers of a page; none of them may be stored, sniffed or framed."""
    return (
        ("Content-Security-Policy", _POLICY),
        ("Cache-Control", "no-store"),
        ("Referrer-Policy", "same-origin"),
        ("X-Content-Type-Options", "nosniff"),
    )


# Results.


def result_page(
    language: str,
    *,
    title_key: str,
    done_key: str = "",
    details: Sequence[Detail] = (),
    view: RequestView | None = None,
    links: Sequence[tuple[str, str]] = (),
    look: str = "late",
    icon: str = "clock",
) -> bytes:
    """What came of a tap. `links` are (text key, address)."""
    title = text(language, title_key)
    done = f'<p class="done">{_text(language, done_key)}</p>' if done_key else ""
    sentences = "".join(
        f'<p class="line">{_escape(detail.text)}</p>'
        for detail in details
        if not detail.label
    )
    facts = [detail for detail in details if detail.label]
    about = _facts(language, facts + _about(view)) + _subject(view)
    body = (
        f'<main class="look-{look}"><section class="sheet verdict" role="status">'
        f"{_icon(icon)}<h1>{_escape(title)}</h1>{done}{sentences}</section>"
        + (f'<section class="sheet stack">{about}</section>' if about else "")
        + _links(language, links)
        + "</main>"
    )
    return _page(language, title, body)


def outcome_page(
    language: str,
    request: Request | None,
    *,
    fresh: bool = False,
    view: RequestView | None = None,
    links: Sequence[tuple[str, str]] = (),
) -> bytes:
    """The page after a tap; `fresh` if this very tap decided. None: unknown id."""
    if request is None:
        unknown = Detail("", text(language, "page.unknown"))
        return result_page(
            language,
            title_key="page.invalid",
            details=[unknown],
            links=links,
            icon="ask",
        )
    outcome = _outcome(request)
    details = _outcome_details(language, request, fresh)
    if fresh:
        details.append(Detail("", text(language, "page.back")))
    return result_page(
        language,
        title_key="page.success" if fresh else "page.invalid",
        done_key=outcome.done,
        details=details,
        view=view,
        links=links,
        look=outcome.look if fresh else "late",
        icon="check" if fresh else "clock",
    )


def outcome_json(
    language: str, request: Request | None, *, fresh: bool = False
) -> dict[str, Any]:
    """The same for the inbox, which shows it in place."""
    if request is None:
        return {
            "ok": False,
            "look": "late",
            "title": text(language, "page.invalid"),
            "lines": [text(language, "page.unknown")],
        }
    outcome = _outcome(request)
    details = _outcome_details(language, request, fresh)
    title = text(language, "page.success" if fresh else "page.invalid")
    return {
        "ok": fresh,
        "look": outcome.look if fresh else "late",
        "title": f"{title} · {text(language, outcome.done)}",
        "lines": [_detail_line(language, detail) for detail in details],
    }


def _outcome(request: Request) -> Outcome:
    name = request.action or request.state
    if name == "always" and not (request.rules or request.known_rules):
        name = "allow"  # there was nothing to write: it was this once
    own = f"{name} {kind_of(request.tool_name)}"
    return OUTCOMES.get(own) or OUTCOMES[name]


def _outcome_details(language: str, request: Request, fresh: bool) -> list[Detail]:
    details = [Detail("", text(language, key)) for key in _outcome_lines(request)]
    details += [
        Detail("page.key.rule", rule, True)
        for rule in (*request.rules, *request.known_rules)
    ]
    if request.reason and request.state == states.DENIED:
        details.append(Detail("page.key.reason", request.reason))
    if not fresh:
        details.append(Detail("page.key.when", _time(request.ended)))
    if not fresh and request.surface:
        surface = surface_name(language, request.surface)
        details.append(Detail("page.key.where", surface))
    return details


def _outcome_lines(request: Request) -> tuple[str, ...]:
    """The keys of what else there is to say."""
    lines = _outcome(request).lines
    if request.state == states.EXPIRED:
        denied = request.decision is not None
        lines = ("ended.expired_denied" if denied else "ended.expired_terminal",)
    return (*lines, request.note) if request.note else lines


def _detail_line(language: str, detail: Detail) -> str:
    label = f"{text(language, detail.label)}: " if detail.label else ""
    return label + visible(detail.text)


def surface_name(language: str, surface: str) -> str:
    """Where somebody decided, in words."""
    try:
        return text(language, "surface." + surface)
    except KeyError:
        return surface


# A request, whole.


def request_page(
    language: str,
    view: RequestView,
    *,
    links: Mapping[str, str],
    seconds_left: float = 0,
    request: Request | None = None,
    rules: Sequence[str] = (),
    rule_note: str = "",
) -> bytes:
    """Everything about a request, with buttons while it waits.

    `links` has one entry per button, by the name of its action.  An ended `request`
    turns the page into a record.  `rules` is what "always" would write, `rule_note` why
    it would write nothing.
    """
    title = text(language, TITLES[view.kind])
    if request is not None and not request.waits():
        return _record_page(language, title, view, request)
    if view.kind == "question":
        return answer_page(language, view, links=links, seconds_left=seconds_left)
    body = (
        _head(language, title, view, _clock(language, view, seconds_left))
        + _blocks(language, view)
        + _buttons(language, view.kind, links, rules, rule_note)
    )
    return _page(language, title, _sheet(language, view, body))


def confirm_page(
    language: str,
    view: RequestView,
    action: Action,
    link: str,
    *,
    seconds_left: float = 0,
    rules: Sequence[str] = (),
    rule_note: str = "",
) -> bytes:
    """What a button link opens when links must not decide by themselves."""
    title = text(language, "page.confirm")
    links = {action.name: link}
    hint = f'<p class="note">{_text(language, "page.confirm_hint")}</p>'
    body = (
        _head(language, title, view, _clock(language, view, seconds_left))
        + hint
        + _blocks(language, view)
        + _buttons(language, view.kind, links, rules, rule_note)
    )
    return _page(language, title, _sheet(language, view, body))


def _record_page(
    language: str, title: str, view: RequestView, request: Request
) -> bytes:
    outcome = _outcome(request)
    details = _outcome_details(language, request, fresh=False)
    sentences = [detail for detail in details if not detail.label]
    facts = [detail for detail in details if detail.label]
    lines = "".join(f"<p>{_escape(detail.text)}</p>" for detail in sentences)
    body = (
        _head(language, title, view, "")
        + f'<div class="outcome {outcome.look}">{_text(language, outcome.done)}'
        + f"{lines}</div>"
        + _facts(language, facts)
        + _blocks(language, view)
    )
    return _page(language, title, _sheet(language, view, body))


def _sheet(language: str, view: RequestView, body: str) -> str:
    return (
        f'<main><article class="sheet stack">{body}</article>'
        f'<section class="sheet">{_facts(language, _origin(view))}</section></main>'
    )


def _head(language: str, title: str, view: RequestView, clock: str) -> str:
    branch = f" · {view.branch}" if view.branch else ""
    return (
        f'<header class="head"><div><h1>{_escape(title)}</h1>'
        f'<p class="where">{_escape(view.project_name + branch)}</p></div>{clock}'
        f'</header><p><span class="tool">{_escape(view.tool_name)}</span></p>'
    )


def _clock(language: str, view: RequestView, seconds_left: float) -> str:
    """The time left: a moment for all, a countdown where scripts run."""
    until = time.strftime("%H:%M:%S", time.localtime(view.created + view.seconds))
    return (
        f'<span class="clock" role="timer" data-left="{seconds_left:.1f}"'
        f' data-text="{_text(language, "page.left")}"'
        f' data-over="{_text(language, "page.time_over")}">'
        f"{_text(language, 'page.until', until=until)}</span>"
    )


def _origin(view: RequestView) -> list[Detail]:
    values = (
        ("page.key.project", view.project),
        ("page.key.branch", view.branch),
        ("page.key.agent", view.agent),
        ("page.key.session", view.session_id),
        ("page.key.created", _time(view.created)),
        ("page.key.id", view.id),
    )
    return [Detail(label, value) for label, value in values if value]


def _about(view: RequestView | None) -> list[Detail]:
    """A short reminder of which request it was."""
    if view is None:
        return []
    values = (
        ("page.key.tool", view.tool_name),
        ("page.key.project", view.project_name),
        ("page.key.branch", view.branch),
    )
    return [Detail(label, value) for label, value in values if value]


def _subject(view: RequestView | None) -> str:
    """The first line of what was asked, to recognise it by."""
    blocks = _detail(view) if view else ()
    if view is None or view.kind != "permission" or not blocks:
        return ""
    subject = one_line(blocks[0].text, SUBJECT_LENGTH)
    return f'<code class="rule">{escape(subject)}</code>'


def _detail(view: RequestView) -> tuple[Block, ...]:
    return extract_tool_detail(view.tool_name, view.tool_input).blocks


def _blocks(language: str, view: RequestView) -> str:
    blocks = _detail(view)
    if not blocks:
        key = "page.plan_empty" if view.kind == "plan" else "page.nothing"
        return f'<p class="muted">{_text(language, key)}</p>'
    return "".join(_block(language, block) for block in blocks)


def _block(language: str, block: Block) -> str:
    label = f"<h3>{_text(language, block.label)}</h3>" if block.label else ""
    looks = LINE_LOOKS.get(block.kind)
    # The text came out of `lib.tool` with everything visible.
    content = _lines(block.text, looks) if looks else escape(block.text)
    if block.kind in PROSE:
        content = f'<div class="prose {block.kind}">{content}</div>'
    else:
        content = f'<pre class="{block.kind}">{content}</pre>'
    return f'<section class="block">{label}{content}</section>'


def _lines(source: str, looks: Mapping[str, str]) -> str:
    """One element per line, so that a changed line is coloured to the edge."""
    return "".join(
        f'<span class="{looks.get(line[:1], "same")}">{escape(line) or " "}\n</span>'
        for line in source.split("\n")
    )


# Buttons.


def _buttons(
    language: str,
    kind: str,
    links: Mapping[str, str],
    rules: Sequence[str],
    rule_note: str,
) -> str:
    """Allow first, the refusals apart from it, "always" last beside its rule."""
    parts = [_form(name, link) for name, link in links.items() if "/" + name in ACTIONS]
    if "allow" in links:
        parts.append(_button(language, kind, "allow"))
    parts.append(_refusals(language, kind, links))
    if "always" in links and kind == "permission":
        parts.append(_forever(language, kind, rules, rule_note))
    return f'<div class="actions">{"".join(parts)}</div>'


def _refusals(language: str, kind: str, links: Mapping[str, str]) -> str:
    names = [name for name in ("deny", "interrupt") if name in links]
    if not names:
        return ""
    reason = (
        f'<label class="field">{_text(language, "page.reason")}'
        f'<input type="text" name="reason" form="form-deny" autocomplete="off"'
        f' maxlength="{REASON_LENGTH}"'
        f' placeholder="{_text(language, "page.reason_hint")}"></label>'
    )
    buttons = "".join(_button(language, kind, name) for name in names)
    return (
        f'<div class="refuse">{reason if "deny" in names else ""}'
        f'<div class="pair">{buttons}</div></div>'
    )


def _forever(language: str, kind: str, rules: Sequence[str], rule_note: str) -> str:
    """The button that outlives the request, under what it would write."""
    if rule_note:
        hint = _text(language, "page.always_none", why=rule_note)
    else:
        hint = _text(language, "page.always_hint")
    texts = "".join(f'<code class="rule">{_escape(rule)}</code>' for rule in rules)
    return (
        f'<div class="forever"><p class="muted">{hint}</p>{texts}'
        f"{_button(language, kind, 'always')}</div>"
    )


def _button(language: str, kind: str, name: str) -> str:
    return (
        f'<button class="{name}" form="form-{name}">'
        f"{escape(button_label(language, kind, name))}</button>"
    )


def button_label(language: str, kind: str, name: str) -> str:
    """What a button says for this kind of request."""
    return text(language, LABELS.get(f"{name} {kind}") or ACTIONS["/" + name].label)


def _form(name: str, link: str) -> str:
    path, _, _ = link.partition("?")
    return (
        f'<form id="form-{name}" method="post" action="{_escape(path)}">'
        f"{_hidden(link)}</form>"
    )


def _hidden(link: str) -> str:
    fields = parse_qsl(link.partition("?")[2])
    return "".join(
        f'<input type="hidden" name="{_escape(name)}" value="{_escape(value)}">'
        for name, value in fields
    )


# Questions.


def answer_page(
    language: str,
    view: RequestView,
    *,
    links: Mapping[str, str],
    seconds_left: float = 0,
    error: str = "",
    form: Mapping[str, Sequence[str]] | None = None,
) -> bytes:
    """The form that answers a question; works without scripts.

    `error` is the text key that `parse_answers()` gave, `form` what was filled in then.
    """
    title = text(language, "page.question")
    note = f'<p class="note" role="alert">{_text(language, error)}</p>' if error else ""
    questions = read_questions(view.tool_input.get("questions"))
    fields = "".join(
        _fieldset(language, number, question, form or {})
        for number, question in enumerate(questions)
    )
    if not fields:
        fields = _blocks(language, view)
    link = links["answer"]
    body = (
        _head(language, title, view, _clock(language, view, seconds_left))
        + f"{note}<form class='stack' method='post' action='{_escape(_path(link))}'>"
        + f"{_hidden(link)}{fields}<button class='answer'>"
        + f"{_text(language, 'page.answer_submit')}</button></form>"
        + _buttons(language, "question", _without(links, "allow", "always"), (), "")
    )
    return _page(language, title, _sheet(language, view, body))


def _path(link: str) -> str:
    return link.partition("?")[0]


def _without(links: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: link for name, link in links.items() if name not in names}


def _fieldset(
    language: str, number: int, question: Question, form: Mapping[str, Sequence[str]]
) -> str:
    field = f"q{number}"
    options = "".join(
        _option(field, question.multiple, option, form.get(field, ()))
        for option in question.options
    )
    own = (form.get(field + "_other") or ("",))[0]
    hint = "page.answer_other_" + ("multi" if question.multiple else "single")
    return (
        f"<fieldset><legend><span>{_chips(language, question)}</span>"
        f"{_escape(question.text)}</legend>{options}"
        f'<label class="field own">{_text(language, "page.answer_other")}'
        f'<input type="text" name="{field}_other" value="{escape(own)}"'
        f' autocomplete="off" maxlength="{REASON_LENGTH}"'
        f' placeholder="{_text(language, hint) if question.options else ""}">'
        "</label></fieldset>"
    )


def _chips(language: str, question: Question) -> str:
    many = "page.answer_multi" if question.multiple else "page.answer_single"
    words = [question.header] if question.header else []
    if question.options:
        words.append(text(language, many))
    return "".join(f'<span class="chip">{_escape(word)}</span>' for word in words)


def _option(
    field: str, multiple: bool, option: tuple[str, str], chosen: Sequence[str]
) -> str:
    label, description = option
    below = f'<span class="muted">{_escape(description)}</span>' if description else ""
    checked = " checked" if in_form(label) in map(in_form, chosen) else ""
    return (
        f'<label class="option"><input type="{"checkbox" if multiple else "radio"}"'
        f' name="{field}" value="{escape(label)}"{checked}>'
        f"<span><b>{_escape(label)}</b>{below}</span></label>"
    )


# The inbox.

INBOX_TEXTS = (
    *("inbox.live", "inbox.lost", "inbox.expand", "inbox.collapse", "inbox.hidden"),
    *("inbox.cut", "inbox.sending", "inbox.failed", "inbox.arrived", "inbox.settled"),
    *("page.name", "page.left", "page.time_over", "page.reason", "page.reason_hint"),
    *("inbox.ended", "button.more", "button.answer", "page.key.reason"),
)
KEYS = (
    ("j k ↓ ↑", "inbox.help.select"),
    ("a", "button.allow"),
    ("w", "button.always"),
    ("d", "button.deny"),
    ("i", "button.interrupt"),
    ("r", "inbox.help.reason"),
    ("Enter", "inbox.help.open"),
    ("?", "inbox.help.help"),
)


def inbox_page(language: str, boot: dict[str, Any]) -> bytes:
    """The inbox. `boot` is its first state, and in `events` the address of the next."""
    title = text(language, "inbox.title")
    texts = {key: text(language, key) for key in INBOX_TEXTS}
    keys = "".join(
        f"<dt>{_keys(keys)}</dt><dd>{_text(language, key)}</dd>" for keys, key in KEYS
    )
    words = {
        name: _text(language, "inbox." + name)
        for name in ("title", "live", "help", "help_close", "noscript", "waiting")
    }
    body = _fill(
        INBOX,
        **words,
        none=_text(language, "inbox.none"),
        none_hint=_text(language, "inbox.none_hint"),
        recent=_text(language, "inbox.recent"),
        keys=keys,
        plain=_plain_list(boot.get("waiting", ())),
        boot=_script_json({**boot, "texts": texts, "looks": LINE_LOOKS}),
    )
    return _page(language, title, body, INBOX_SCRIPT)


def inbox_item(
    language: str,
    view: RequestView,
    *,
    links: Mapping[str, str],
    rules: Sequence[str] = (),
    rule_note: str = "",
) -> dict[str, Any]:
    """One waiting request for the inbox."""
    always = "page.always_none" if rule_note else "page.always_hint"
    return {
        "id": view.id,
        "kind": view.kind,
        "tool": visible(view.tool_name),
        "title": text(language, TITLES[view.kind]),
        "project": visible(view.project),
        "project_name": visible(view.project_name),
        "branch": visible(view.branch),
        "session": visible(view.session_id),
        "agent": visible(view.agent),
        "created": view.created,
        "deadline": view.created + view.seconds,
        "blocks": [_inbox_block(language, block) for block in _detail(view)],
        "links": dict(links),
        "labels": {
            name: button_label(language, view.kind, name)
            for name in links
            if "/" + name in ACTIONS
        },
        "rules": [visible(rule) for rule in rules],
        "rule": text(language, always, why=rule_note),
    }


def _inbox_block(language: str, block: Block) -> dict[str, Any]:
    cut = len(block.text) > INBOX_BLOCK
    return {
        "kind": block.kind,
        "label": text(language, block.label) if block.label else "",
        "text": block.text[: INBOX_BLOCK - INBOX_TAIL] if cut else block.text,
        "tail": block.text[-INBOX_TAIL:] if cut else "",
        "language": block.language,
        "prose": block.kind in PROSE,
    }


def recent_item(language: str, request: Request, summary: str = "") -> dict[str, Any]:
    """One settled request for the inbox."""
    outcome = _outcome(request)
    name = request.project.rstrip("/").rpartition("/")[2]
    told = request.state == states.DENIED
    note = [text(language, request.note)] if request.note else []
    return {
        "id": request.id,
        "what": visible(summary or request.tool_name),
        "project_name": visible(name),
        "done": text(language, outcome.done),
        "look": outcome.look,
        "surface": surface_name(language, request.surface),
        "ended": request.ended,
        "rules": [visible(rule) for rule in request.rules],
        "reason": visible(request.reason) if told else "",
        "notes": note,
    }


def _keys(keys: str) -> str:
    return " ".join(f"<kbd>{escape(key)}</kbd>" for key in keys.split(" "))


def _plain_list(items: Iterable[Mapping[str, Any]]) -> str:
    """Where no script runs: each waiting request as a link to its own page."""
    return "".join(
        f'<li><a href="{_escape(item["links"]["request"])}">'
        f"{_escape(item['tool'])} · {_escape(item['project_name'])}</a></li>"
        for item in items
        if "request" in item["links"]
    )


def _script_json(value: object) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(value, ensure_ascii=True).replace("<", "\\u003c")


# Pieces.


def _page(language: str, title: str, body: str, script: str = PAGE_SCRIPT) -> bytes:
    if script is PAGE_SCRIPT:
        body += f'<p class="links"><a id="home" hidden>{_text(language, HOME)}</a></p>'
    page = _fill(
        PAGE,
        lang="zh-CN" if language == "zh" else "en",
        title=_escape(title),
        style=STYLE,
        body=body,
        script=script,
    )
    return page.encode(errors="replace")


_BLANK = re.compile(r"\{\{([a-z_]+)\}\}")


def _fill(template: str, **values: str) -> str:
    """The template with its blanks filled in one pass: a value is never a template."""
    return _BLANK.sub(lambda blank: values[blank.group(1)], template)


def _escape(value: str) -> str:
    return escape(visible(value))


def _text(language: str, key: str, **values: object) -> str:
    return _escape(text(language, key, **values))


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _icon(name: str) -> str:
    return (
        '<div class="mark" aria-hidden="true"><svg viewBox="0 0 32 32">'
        f'<path d="{ICONS[name]}"/></svg></div>'
    )


def _facts(language: str, details: Iterable[Detail]) -> str:
    rows = "".join(
        f"<dt>{_text(language, label)}</dt><dd>{_value(value, exact)}</dd>"
        for label, value, exact in details
    )
    return f'<dl class="facts">{rows}</dl>' if rows else ""


def _value(value: str, exact: bool) -> str:
    return f'<code class="rule">{_escape(value)}</code>' if exact else _escape(value)


def _links(language: str, links: Sequence[tuple[str, str]]) -> str:
    if not links:
        return ""
    anchors = "".join(
        f'<a href="{_escape(address)}">{_text(language, key)}</a>'
        for key, address in links
    )
    return f'<p class="links">{anchors}</p>'
