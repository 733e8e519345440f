"""Forms: what Claude or an MCP server asks; what was filled in, checked.

Questions are those of AskUserQuestion; the client takes answers by question text.  What
comes from a browser is checked against what was asked, since a page can be changed
before it is sent.

The rest is for MCP servers: a schema in, fields to fill in.  The client passes an
answer on as it is, so whatever a server's schema demands is checked here: types,
choices, what is required, formats, limits.  A schema that says anything not known here
is not read at all, and its form is left to the terminal.  Patterns are among that: a
server's regular expression must not keep ours busy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from feishuperm.messages import msg
from feishuperm.models.ask import TEXT_LIMIT, Field, Option
from feishuperm.models.fields import list_at, text_at
from feishuperm.models.names import NOT_OFFERED
from feishuperm.tables import rows

Say = Callable[..., str]

PAGES = ("https://", "http://")  # what a browser may be sent to
SCHEMA, ADDRESS_MODE = "requested_schema", "url"
MAX_FIELDS, MAX_OPTIONS = 30, 100  # nobody fills in more on a phone
LONGEST_NUMBER = 30  # characters
TEXTS = frozenset(("title", "description", "default"))
FORM_KEYS = frozenset(
    ("type", "properties", "required", "additionalProperties", "$schema", *TEXTS)
)
# Type -> what else a property of it may say.
KEYS = {
    "string": "minLength maxLength format enum enumNames oneOf",
    "number": "minimum maximum",
    "integer": "minimum maximum",
    "boolean": "",
    "array": "items minItems maxItems uniqueItems",
}
TABLE = "models/form.txt"
CHOICES = frozenset(("enum", "oneOf", "items"))  # what names options
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
WHOLE = re.compile(r"-?[0-9]+(?:\.0+)?")
MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)
EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s.]+(?:\.[^@\s.]+)+")
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")
DAY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})")


# Questions.


def read_questions(questions: object) -> list[Field]:
    """The questions that can be asked, as fields; what has no text is left out."""
    listed = questions if isinstance(questions, list) else ()
    entries = [entry for entry in listed if text_at(entry, "question")]
    return [
        Field(
            f"q{number}",
            "many" if entry.get("multiSelect") is True else "one",
            text_at(entry, "question"),
            heading=text_at(entry, "header"),
            options=tuple(
                Option(text_at(row, "label"), text_at(row, "description"))
                for row in list_at(entry, "options")
                if text_at(row, "label")
            ),
        )
        for number, entry in enumerate(entries)
    ]


def parse_answers(
    questions: object, form: Mapping[str, Sequence[str]]
) -> dict[str, str] | str:
    """The answers by question text, or the text key of what is wrong.

    Fields are `q0`, `q0_other` and so on.  One's own words replace a single choice and
    join several ones; a question without an answer is left out.
    """
    answers: dict[str, str] = {}
    for question in read_questions(questions):
        offered = {in_form(label): label for label, _ in question.options}
        chosen = [in_form(value) for value in form.get(question.name, ())]
        if not offered.keys() >= set(chosen):
            return msg("One choice was not offered. Please choose again.")
        own = " ".join(form.get(f"{question.name}_other", ())).strip()
        labels = [offered[value] for value in chosen]
        if question.type == "many":
            answer = ", ".join([*labels, own] if own else labels)
        else:
            answer = own or "".join(labels[:1])
        if answer:
            answers[question.label] = answer
    return answers or msg("Answer at least one question.")


def in_form(label: str) -> str:
    """A label as it survives a form: browsers rewrite line ends and lone surrogates."""
    return " ".join(label.encode(errors="replace").decode().split())


# Schemas.


class Wrong(NamedTuple):
    """Why an answer is not taken: a text key, and the field it is about."""

    key: str
    field: str = ""


class Entry(NamedTuple):
    """One property of a form."""

    name: str
    rules: dict[str, Any]
    type: str
    required: bool
    options: tuple[Option, ...] = ()

    @property
    def title(self) -> str:
        return text_at(self.rules, "title") or self.name


def is_address(tool_input: Mapping[str, Any]) -> bool:
    """Whether a page is to be opened instead of a form filled in."""
    return tool_input.get("mode") == ADDRESS_MODE


def can_be_answered(tool_input: Mapping[str, Any]) -> bool:
    """Whether everything that is asked can be shown and checked."""
    if is_address(tool_input):
        address = tool_input.get("url")
        return isinstance(address, str) and address.startswith(PAGES)
    return read_form(tool_input.get(SCHEMA)) is not None


# The schema.


def read_form(schema: object) -> tuple[Entry, ...] | None:
    """What a schema asks for; None if there is anything that is not understood."""
    if not isinstance(schema, dict) or not FORM_KEYS.issuperset(schema):
        return None
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(properties, dict):
        return None
    if _texts(required) is None or not set(required) <= set(properties):
        return None
    entries = [_entry(name, properties[name], name in required) for name in properties]
    understood = tuple(entry for entry in entries if entry is not None)
    if len(understood) < len(entries) or len(entries) > MAX_FIELDS:
        return None
    return understood


def _entry(name: str, rules: object, required: bool) -> Entry | None:
    kind = text_at(rules, "type")
    if not isinstance(rules, dict) or kind not in KEYS:
        return None
    known = {*KEYS[kind].split(), *TEXTS, "type"}
    if not known.issuperset(rules) or not _limits_fit(rules):
        return None
    if "format" in rules and text_at(rules, "format") not in FORMATS:
        return None
    if CHOICES.isdisjoint(rules):
        return Entry(name, rules, kind, required)
    options = _options(rules.get("items", rules))
    many = "many" if kind == "array" else "one"
    return Entry(name, rules, many, required, options) if options else None


def _limits_fit(rules: dict[str, Any]) -> bool:
    counts = ("minLength", "maxLength", "minItems", "maxItems")
    return ("items" in rules or rules["type"] != "array") and all(
        type(rules[key]) is int or (key not in counts and type(rules[key]) is float)
        for key in (*counts, "minimum", "maximum")
        if key in rules
    )


def _options(rules: object) -> tuple[Option, ...]:
    """The choices, none where they are not plain texts, each known from the others."""
    if not isinstance(rules, dict):
        return ()
    titled = rules.get("oneOf", rules.get("anyOf"))
    if isinstance(titled, list) and all(isinstance(row, dict) for row in titled):
        values = _texts([row.get("const") for row in titled])
        names = _texts([row.get("title", "") for row in titled])
    else:
        values, names = _texts(rules.get("enum")), _texts(rules.get("enumNames", []))
    if values is None or names is None:
        return ()
    if not 0 < len(set(map(in_form, values))) == len(values) <= MAX_OPTIONS:
        return ()
    return tuple(map(Option, values, [*names, *([""] * len(values))]))


def _texts(values: object) -> list[str] | None:
    """The list itself if it holds nothing but texts."""
    if isinstance(values, list) and all(isinstance(value, str) for value in values):
        return values
    return None


# What is shown.


def form_fields(tool_input: Mapping[str, Any], say: Say) -> tuple[Field, ...]:
    """The fields of a form; none for an address."""
    if is_address(tool_input):
        return ()
    entries = read_form(tool_input.get(SCHEMA)) or ()
    return tuple(_field(f"f{place}", entry, say) for place, entry in enumerate(entries))


def _field(name: str, entry: Entry, say: Say) -> Field:
    label, hint, default = entry.title, _hint(entry, say), entry.rules.get("default")
    if entry.required:
        label = say("{label} (required)", label=label)
    if entry.type == "boolean":
        words = {True: say("yes"), False: say("no")}
        value = words[default] if isinstance(default, bool) else ""
        options = tuple(Option(word) for word in words.values())
        return Field(name, "one", label, hint, hint, options, value)
    if entry.options:
        value = text_at(entry.rules, "default")
        return Field(name, entry.type, label, hint, hint, entry.options, value)
    value = "" if default is None or isinstance(default, (list, dict)) else str(default)
    return Field(name, "text", label, hint, value=value[:TEXT_LIMIT])


def _hint(entry: Entry, say: Say) -> str:
    """What the server says of a field, and what it demands."""
    rules = entry.rules
    said = text_at(rules, "description")
    words = [said] if said else []
    demand = rules.get("format") or entry.type
    if demand in rows(TABLE, "demands"):
        words.append(say(rows(TABLE, "demands")[demand]))
    for low, high, key in BOUNDS:
        if low in rules or high in rules:
            bounds = f"{rules.get(low, '')}–{rules.get(high, '')}"
            if bounds[:1] == "–" or bounds[-1:] == "–":
                bounds = f"{'≤' if bounds[:1] == '–' else '≥'} {bounds.strip('–')}"
            words.append(say(key, bounds=bounds) if key else bounds)
    return " · ".join(words)


BOUNDS = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", msg("{bounds} characters")),
    ("minItems", "maxItems", msg("choose {bounds}")),
)


# What was filled in.


def parse_content(
    schema: object, values: Mapping[str, Sequence[str]], say: Say
) -> dict[str, Any] | Wrong:
    """The content as the schema wants it, or what is wrong with it."""
    entries = read_form(schema)
    if entries is None:
        return Wrong(NOT_OFFERED)
    content: dict[str, Any] = {}
    for place, entry in enumerate(entries):
        given = [value for value in values.get(f"f{place}", ()) if value.strip()]
        if not given:
            if entry.required:
                return Wrong(msg("“{field}” is missing."), entry.title)
            continue
        value = CHECKS[entry.type](entry, given, say)
        if isinstance(value, Wrong):
            return value._replace(field=entry.title)
        content[entry.name] = value
    return content


def _text(entry: Entry, given: list[str], say: Say) -> str | Wrong:
    typed = "\n".join(given).replace("\r\n", "\n").strip()
    low, high = entry.rules.get("minLength", 0), entry.rules.get("maxLength", math.inf)
    if not low <= len(typed) <= min(high, TEXT_LIMIT):
        return Wrong(msg("“{field}” is too short or too long."))
    fits = FORMATS.get(entry.rules.get("format", ""))
    if fits is None or fits(typed):
        return typed
    return Wrong(msg("“{field}” does not have the required format."))


def _number(entry: Entry, given: list[str], say: Say) -> int | float | Wrong:
    typed = " ".join(given).strip()
    whole = WHOLE.fullmatch(typed)
    pattern = WHOLE if entry.type == "integer" else NUMBER
    if len(typed) > LONGEST_NUMBER or not pattern.fullmatch(typed):
        return Wrong(msg(rows(TABLE, "no numbers")[entry.type]))
    number = int(typed.partition(".")[0]) if whole else float(typed)
    low, high = (entry.rules.get(key, number) for key in ("minimum", "maximum"))
    fits = math.isfinite(number) and low <= number <= high
    return number if fits else Wrong(msg("“{field}” is out of range."))


def _choice(entry: Entry, given: list[str], say: Say) -> Any:
    """What was chosen of what is offered: of many a list, else the one value."""
    offered: dict[str, Any] = {in_form(value): value for value, _ in entry.options}
    if entry.type == "boolean":
        offered = {say("yes"): True, say("no"): False}
    chosen = [offered[in_form(value)] for value in given if in_form(value) in offered]
    is_one = entry.type != "many"
    if len(set(chosen)) != len(given) or (is_one and len(given) != 1):
        return Wrong(msg("“{field}” holds a choice that was not offered."))
    if is_one:
        return chosen[0]
    low, high = entry.rules.get("minItems", 0), entry.rules.get("maxItems", math.inf)
    fits = low <= len(chosen) <= high
    return chosen if fits else Wrong(msg("“{field}” has too few or too many choices."))


def _is_time(
    pattern: re.Pattern[str], read: Callable[[str], object]
) -> Callable[[str], bool]:
    def fits(typed: str) -> bool:
        parts = pattern.fullmatch(typed.upper())
        try:
            return bool(parts and read("".join(parts.groups()).replace("Z", "+00:00")))
        except ValueError:
            return False

    return fits


FORMATS: dict[str, Callable[[str], object]] = {
    "email": EMAIL.fullmatch,
    "uri": ADDRESS.fullmatch,
    "date": _is_time(DAY, date.fromisoformat),
    "date-time": _is_time(MOMENT, datetime.fromisoformat),
}
CHECKS: dict[str, Callable[[Entry, list[str], Say], Any]] = {
    "string": _text,
    "number": _number,
    "integer": _number,
    "boolean": _choice,
    "one": _choice,
    "many": _choice,
}
