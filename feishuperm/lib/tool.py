"""What a tool call looks like to a person, and which rule would allow it again.

One line of `tools.txt` per tool: its colour, its fields, its rule format.  A new tool
is one line; a tool without one shows its whole input.  Whatever a line does not name is
shown too, as JSON: a person must never approve what the card left out.  Texts come out
with invisible characters spelled; escaping for cards and pages is theirs to do, and
whether a rule is safe to write is the rule writer's.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Any, NamedTuple

from feishuperm.lib.display import count_unseen, one_line, visible
from feishuperm.messages import msg, pmsg
from feishuperm.models.ask import CUT_FIRST, CUT_LAST, DETAIL, Block, shorten_block
from feishuperm.models.names import PATH_KEYS
from feishuperm.tables import sections

ToolInput = dict[str, Any]
Rules = tuple[tuple[str, str], ...]  # (tool name, content); no content: the bare name


class ToolDetail(NamedTuple):
    """A tool call, ready to be laid out."""

    tool_name: str
    colour: str  # Feishu header template
    summary: str
    what: tuple[str, str]  # a sentence about what it does, and what it names
    blocks: tuple[Block, ...]  # their labels are in English


# Text: what each tool is called, shows, and which function says its rules.
_TABLE = sections("lib/tools.txt")
# What the keys of the tools' inputs are called.
LABELS = {
    key: msg(said)
    for key, _, said in (line.partition(" = ") for line in _TABLE["labels"])
}
LANGUAGES = {
    ending: language
    for endings, _, language in (line.partition(" : ") for line in _TABLE["languages"])
    for ending in endings.split()
}


class Field(NamedTuple):
    """One or more keys of a tool's input and how they are shown."""

    keys: tuple[str, ...]
    kind: str
    language: str = ""
    show: Callable[[Field, ToolInput, int], list[Block]] | None = None

    @property
    def label(self) -> str:
        return LABELS[self.keys[0]]


class Tool(NamedTuple):
    """A row of the table."""

    colour: str
    rules: Callable[[str, ToolInput], Rules]
    fields: tuple[Field, ...]
    does: str  # what it does to the file, or to what its description names


# Pretty JSON takes ten times as long as the plain one; of a deep tree it is mostly
# blanks, up to the square of its size.
PRETTY_JSON = 16_384
PRETTY_PART = 100  # for one edit or question among many
PRETTY_LEVELS = 20
# What is laid out one by one; the client itself asks four questions with four options.
MAX_PARTS = 1000  # edits or questions; the rest is shown as JSON
BRIEF_DIFF = 60_000  # characters of a replacement that is compared line by line
MANY_STEPS = 200_000  # for all edits of a call: a thousand small ones cost more each
BRIEF_STEPS = 30_000  # for all of a call's, where it is one of many requests
MAX_OPTIONS = 20  # of a question; one with more is shown as JSON
UNSEEN = Block(hidden=1)  # a part that is not laid out
LONG_WORD = 256  # characters
MOST_UNSEEN = 50_000  # characters: spelled out, nobody looks through more of them
_LAST_WORD, _FIRST_WORD = re.compile(r"\s\S*\Z"), re.compile(r"\S*\s")


def _block(
    kind: str, label: str, text: str, language: str = "", limit: int = 0
) -> Block:
    """A block that hides nothing but what is too long; cut first, for that is cheap."""
    block = Block(kind, label, text, language)
    limit = limit or _readable(text)
    block = _cut(block, limit) if 0 < limit < len(text) else block
    return block._replace(text=visible(block.text), tail=visible(block.tail))


def _readable(text: str) -> int:
    """How much is shown of a text that nobody could look through; 0: all of it."""
    is_long = len(text) > MOST_UNSEEN
    return MOST_UNSEEN if is_long and count_unseen(text) > MOST_UNSEEN else 0


def _cut(block: Block, limit: int) -> Block:
    """Both ends, cut between words: half a secret is not known for what it is."""
    cut = shorten_block(block, limit)
    words = _LAST_WORD.search(cut.text, max(0, len(cut.text) - LONG_WORD))
    text = cut.text[: words.start()] if words else cut.text
    words = _FIRST_WORD.match(cut.tail, 0, LONG_WORD)
    tail = cut.tail[words.end() :] if words else cut.tail
    hidden = len(block.text) - len(text) - len(tail)
    return cut._replace(text=text, hidden=hidden, tail=tail)


def _show_value(field: Field, tool_input: ToolInput, limit: int) -> list[Block]:
    value = tool_input[field.keys[0]]
    if value is False:  # the client fills in flags that are off
        return []
    if isinstance(value, str):
        return [_block(field.kind, field.label, value, field.language, limit)]
    kind = DETAIL if field.kind == DETAIL else "text"
    return [_block(kind, field.label, _json(value), "", limit)]


def _show_edit(field: Field, tool_input: ToolInput, limit: int) -> list[Block]:
    edit = {key: tool_input[key] for key in field.keys if key in tool_input}
    return _edit_blocks(edit, Budget(BRIEF_STEPS) if limit else Budget(), limit)


def _show_edits(field: Field, tool_input: ToolInput, limit: int) -> list[Block]:
    edits = tool_input[field.keys[0]]
    if not isinstance(edits, list) or not all(isinstance(edit, dict) for edit in edits):
        return [_rest({field.keys[0]: edits}, limit)]
    values = (value for edit in edits for value in edit.values())
    limit = limit or _readable("".join(v for v in values if isinstance(v, str)))
    budget = Budget(BRIEF_STEPS if limit else MANY_STEPS)
    return _each(field, edits, limit, lambda edit: _edit_blocks(edit, budget, limit))


def _each(
    field: Field, parts: list[Any], limit: int, show: Callable[[Any], list[Block]]
) -> list[Block]:
    """The blocks of every part; where only ends are wanted, the others are empty."""
    last = min(len(parts), MAX_PARTS) - CUT_LAST
    blocks: list[Block] = []
    for place, part in enumerate(parts[:MAX_PARTS]):
        inner = limit and CUT_FIRST <= place < last
        blocks += [UNSEEN] if inner else show(part)
    more = parts[MAX_PARTS:]
    return [*blocks, _rest({field.keys[0]: more}, limit)] if more else blocks


def _edit_blocks(edit: ToolInput, budget: Budget, limit: int) -> list[Block]:
    """A replacement as a diff, and whatever else it says."""
    before, after = edit.get("old_string"), edit.get("new_string")
    if not isinstance(before, str) or not isinstance(after, str):
        return [_rest(edit, limit, pretty=PRETTY_PART)]
    shown = ("old_string", "new_string")
    rest = {key: edit[key] for key in edit if key not in shown}
    if rest.get("replace_all") is False:
        del rest["replace_all"]
    diff = _diff(before, after, budget, limit)
    return [diff, _rest(rest, limit, pretty=PRETTY_PART)] if rest else [diff]


def _diff(before: str, after: str, budget: Budget, limit: int) -> Block:
    """The change; where only its ends are wanted of a long one, out of its ends."""
    hidden = len(before) + len(after) - BRIEF_DIFF
    if not limit or hidden <= 0:
        text = unified_diff(before, after, budget).partition("\n")[2]  # no "@@"
        return _block("diff", "", text, "diff", limit)
    half = BRIEF_DIFF // 2
    removed = f"-{before[:half]}".replace("\n", "\n-") if before else ""
    added = f"+{after[-half:]}".replace("\n", "\n+") if after else ""
    block = _block("diff", "", f"{removed}\n{added}", "diff", limit)
    return block._replace(hidden=block.hidden + hidden)


def _show_content(field: Field, tool_input: ToolInput, limit: int) -> list[Block]:
    blocks = _show_value(field, tool_input, limit)
    extension = _file_name(tool_input).rpartition(".")[2].lower()
    return [block._replace(language=LANGUAGES.get(extension, "")) for block in blocks]


def _show_address(field: Field, tool_input: ToolInput, limit: int) -> list[Block]:
    """An address, and apart from it the host it leads to."""
    url = str(tool_input[field.keys[0]])
    match = _PLAIN_URL.match(url)
    return [
        _block("code", msg("Host"), match.group(1) if match else "?", "", limit),
        _block(field.kind, field.label, url, "", limit),
    ]


def _show_nothing(field: Field, tool_input: ToolInput, limit: int) -> list[Block]:
    return []


def _show_questions(field: Field, tool_input: ToolInput, limit: int) -> list[Block]:
    questions = tool_input[field.keys[0]]
    if not isinstance(questions, list):
        return [_rest({field.keys[0]: questions}, limit)]
    return _each(field, questions, limit, lambda asked: [_question(asked, limit)])


def _question(question: object, limit: int) -> Block:
    """A question with its choices, one per line; anything odd as it came."""
    try:
        text = _question_text(question)  # type: ignore[arg-type]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        text = _json(question, PRETTY_PART)
    return _block("question", pmsg("field", "Question"), text, "", limit)


def _question_text(question: dict[str, Any]) -> str:
    rest = dict(question)
    header, asked = rest.pop("header", ""), rest.pop("question")
    mark = "☐" if rest.pop("multiSelect", False) is True else "○"
    lines = [f"[{header}] {asked}" if header else str(asked)]
    options = rest.pop("options", [])
    if len(options) > MAX_OPTIONS:
        raise ValueError("too many options")
    lines += [f"{mark} {_option(option)}" for option in options]
    if rest:
        lines.append(_json(rest, PRETTY_PART))
    return "\n".join(lines)


def _option(option: dict[str, Any]) -> str:
    rest = dict(option)
    label, description = rest.pop("label"), rest.pop("description", "")
    line = f"{label}: {description}" if description else str(label)
    return f"{line} {_json(rest, pretty=0)}" if rest else line


def _no_rule(tool_name: str, tool_input: ToolInput) -> Rules:
    return ()


def _bare(tool_name: str, tool_input: ToolInput) -> Rules:
    return ((tool_name, ""),)


def _bare_if_empty(tool_name: str, tool_input: ToolInput) -> Rules:
    """Nothing is shown that the rule would leave out."""
    return () if tool_input else ((tool_name, ""),)


def _command_rule(tool_name: str, tool_input: ToolInput) -> Rules:
    command = tool_input.get("command")
    return ((tool_name, command),) if isinstance(command, str) and command else ()


def _by_path(rule_name: str, key: str) -> Callable[[str, ToolInput], Rules]:
    def rules(tool_name: str, tool_input: ToolInput) -> Rules:
        path = tool_input.get(key)
        is_whole = isinstance(path, str) and path.startswith("/")
        return ((rule_name, f"/{path}"),) if is_whole else ()

    return rules


def _edit_rules(tool_name: str, tool_input: ToolInput) -> Rules:
    """The specified form with one slash, and beside it the one the client honours."""
    rules = _edit_file(tool_name, tool_input)
    return (*((name, content[1:]) for name, content in rules), *rules)


def _domain_rule(tool_name: str, tool_input: ToolInput) -> Rules:
    # Strict: in "https://a.com\@b.com" or "https://a.com#@b.com" readers disagree on
    # the host, and the wrong one must not be allowed.
    url = tool_input.get("url")
    match = _PLAIN_URL.match(url) if isinstance(url, str) else None
    return ((tool_name, "domain:" + match.group(1).lower()),) if match else ()


_PLAIN_URL = re.compile(r"https?://([A-Za-z0-9][A-Za-z0-9.-]*)(?::[0-9]+)?(?:[/?#]|\Z)")

# Exactly this file; two slashes mean "from the root" to the client.
_edit_file = _by_path("Edit", "file_path")
RULES: dict[str, Callable[[str, ToolInput], Rules]] = {
    "none": _no_rule,
    "bare": _bare,
    "bare_if_empty": _bare_if_empty,
    "command": _command_rule,
    "domain": _domain_rule,
    "edit": _edit_file,
    "edit_both": _edit_rules,
    "edit_notebook": _by_path("Edit", "notebook_path"),
    "read": _by_path("Read", "file_path"),
}
# Fields that have a look of their own: the kind of their blocks, what draws all keys.
SHOWN = {
    "edit": ("diff", _show_edit),
    "edits": ("diff", _show_edits),
    "content": ("code", _show_content),
    "questions": ("question", _show_questions),
    "address": ("code", _show_address),
    "nothing": ("text", _show_nothing),
}


def _fields(text: str) -> Iterator[Field]:
    for part in text.split("; ") if text else ():
        look, *keys = part.split()
        kind, _, language = look.partition(":")
        if kind in SHOWN:
            yield Field(tuple(keys), SHOWN[kind][0], "", SHOWN[kind][1])
        else:
            yield from (Field((key,), kind, language) for key in keys)


def _read_tools() -> Iterator[tuple[str, Tool]]:
    for line in _TABLE["tools"]:
        row, _, does = line.partition(" = ")
        head, _, fields = row.partition(" : ")
        name, colour, rules = head.split()
        yield name, Tool(colour, RULES[rules], tuple(_fields(fields)), msg(does))


MCP, UNKNOWN = "mcp__*", "*"
TOOLS = dict(_read_tools())
TOOL_COLORS = {name: tool.colour for name, tool in TOOLS.items()}
TOOL_FIELDS = {
    name: tuple(key for field in tool.fields for key in field.keys)
    for name, tool in TOOLS.items()
}
RULE_FORMATTERS = {name: tool.rules for name, tool in TOOLS.items()}


def row_name(tool_name: str) -> str:
    """The key of a tool's row in `TOOLS` and its views."""
    if tool_name in TOOLS:
        return tool_name
    return MCP if tool_name.startswith("mcp__") else UNKNOWN


def extract_tool_detail(
    tool_name: str, tool_input: ToolInput, limit: int = 0
) -> ToolDetail:
    """Everything a person needs to see of a tool call.

    With a `limit`, both ends of what has more characters, at a price that does not grow
    with what is left out.
    """
    tool, line = TOOLS[row_name(tool_name)], summary(tool_name, tool_input)
    blocks = tuple(_blocks(tool, tool_input, limit))
    what = tool.does or one_line(tool_name), _named(tool_input)
    return ToolDetail(one_line(tool_name), tool.colour, line, what, blocks)


def _named(tool_input: ToolInput) -> str:
    """The path a call is about, or what it says of itself."""
    values = (tool_input.get(key) for key in (*PATH_KEYS, "description"))
    return next((value for value in values if isinstance(value, str)), "")


def headline(tool_name: str, tool_input: ToolInput, limit: int) -> str:
    """The beginning of what a call is about: its command, its file, its input."""
    blocks = _blocks(TOOLS[row_name(tool_name)], tool_input, limit)
    return next((block.text for block in blocks), "") if tool_input else ""


def _blocks(tool: Tool, tool_input: ToolInput, limit: int) -> Iterator[Block]:
    rest = dict(tool_input)
    for field in tool.fields:
        if not rest.keys().isdisjoint(field.keys):
            yield from (field.show or _show_value)(field, tool_input, limit)
        for key in field.keys:
            rest.pop(key, None)
    if rest or not tool.fields:
        yield _rest(rest, limit, msg("Also") if tool.fields else msg("Input"))


def format_rules(tool_name: str, tool_input: ToolInput) -> Rules:
    """The rules that would allow exactly this call; none when there is no such rule."""
    return RULE_FORMATTERS[row_name(tool_name)](tool_name, tool_input)


def summary(tool_name: str, tool_input: ToolInput) -> str:
    """One line without secrets: tool and file name at most."""
    return one_line(f"{tool_name} {_file_name(tool_input)}", 80)


def _file_name(tool_input: ToolInput) -> str:
    for key in PATH_KEYS:
        path = tool_input.get(key)
        if isinstance(path, str):
            return path.rpartition("/")[2]
    return ""


def _rest(
    value: object,
    limit: int,
    label: str = msg("Also"),
    pretty: int = PRETTY_JSON,
) -> Block:
    return _block("code", label, _json(value, pretty), "json", limit)


def _json(value: object, pretty: int = PRETTY_JSON) -> str:
    """A value as JSON, on several lines when it has at most `pretty` characters."""
    try:
        # It was read from JSON, so it cannot hold itself.
        text = json.dumps(value, ensure_ascii=False, check_circular=False)
    except RecursionError:
        return "… (nested too deeply to show) …"
    if len(text) <= pretty and _is_shallow(value, PRETTY_LEVELS):
        text = json.dumps(value, ensure_ascii=False, indent=2)
    return text


def _is_shallow(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return True
    return levels > 0 and all(_is_shallow(part, levels - 1) for part in value)


# The change between two texts as a unified diff, in bounded time.  Positions count from
# the start of the given texts.  `difflib` may need time that grows with the square of
# its input or worse, and the input comes from a model: equal heads and tails are taken
# off first, the steps of matching the rest are counted, and where they exceed the
# budget it is shown as all of the old lines, then all of the new.  Several diffs can
# share one budget.

Opcode = tuple[str, int, int, int, int]

DIFF_CONTEXT = 3  # unchanged lines around a change, as everywhere
DIFF_STEPS = 500_000  # a twentieth of a second; a person's edits need some thousand
DIFF_LINES = 50_000  # that differ: nobody reads them line by line
CHUNK = 1024  # lines compared at once
# The marks of one opcode: what it takes from the old text and from the new one.
DIFF_MARKS = {
    "equal": (" ", ""),
    "delete": ("-", ""),
    "insert": ("", "+"),
    "replace": ("-", "+"),
}


class Budget:
    """What all diffs of one tool call may cost together."""

    def __init__(self, steps: int = DIFF_STEPS) -> None:
        self.steps = steps

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise _Spent


class _Spent(Exception):
    """Matching would take too long."""


class _Matcher(SequenceMatcher[str]):
    """Pays for each search before it is made."""

    def __init__(self, old: Sequence[str], new: Sequence[str], budget: Budget) -> None:
        lines = len(old) + len(new)
        budget.spend(lines if lines <= DIFF_LINES else budget.steps + 1)
        super().__init__(None, old, new, autojunk=False)
        self.budget = budget
        # A search looks, for each of its old lines, at every equal line of the new.
        equal = Counter(new)
        self.costs = [0, *accumulate(equal[line] + 1 for line in old)]

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        end = -1 if ahi is None else ahi
        self.budget.spend(self.costs[end] - self.costs[alo])
        return super().find_longest_match(alo, ahi, blo, bhi)


def unified_diff(before: str, after: str, budget: Budget | None = None) -> str:
    """The hunks that lead from one text to the other; empty when they are equal."""
    old, new = _lines(before), _lines(after)
    if old == new:
        return ""
    matcher = SequenceMatcher()  # it only puts the changes into hunks
    matcher.get_opcodes = lambda: _opcodes(old, new, budget or Budget())  # type: ignore[assignment, return-value]
    groups = matcher.get_grouped_opcodes(DIFF_CONTEXT)
    return "\n".join(part for group in groups for part in _hunk(group, old, new))


def _lines(text: str) -> list[str]:
    # Not splitlines(): it also splits at characters that end no line in a file.
    return text.split("\n") if text else []


def _opcodes(old: list[str], new: list[str], budget: Budget) -> list[Opcode]:
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    old_end, new_end = len(old) - tail, len(new) - tail
    equal_head = ("equal", 0, head, 0, head)
    equal_tail = ("equal", old_end, len(old), new_end, len(new))
    old, new = old[head:old_end], new[head:new_end]
    changes: list[Any] = [("replace", 0, len(old), 0, len(new))]
    # Most edits have no line in common.
    if not old or not new or not frozenset(old).isdisjoint(new):
        with suppress(_Spent):
            changes = _Matcher(old, new, budget).get_opcodes()
    changes = [(tag, *(place + head for place in places)) for tag, *places in changes]
    return [equal_head, *changes, equal_tail]


def _common(old: list[str], new: list[str]) -> int:
    """How many lines both begin with."""
    size = min(len(old), len(new))
    count = 0
    while old[count : count + CHUNK] == new[count : count + CHUNK] and count < size:
        count += CHUNK
    while count < size and old[count] == new[count]:
        count += 1
    return min(count, size)


def _hunk(group: list[Opcode], old: Sequence[str], new: Sequence[str]) -> list[str]:
    first, last = group[0], group[-1]
    lines = [f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"]
    for tag, a, b, c, d in group:
        removed, added = DIFF_MARKS[tag]
        lines += _marked(removed, old[a:b]) + _marked(added, new[c:d])
    return lines


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    """The lines as one text, each behind its mark; nothing where there is none."""
    return [mark + f"\n{mark}".join(lines)] if mark and lines else []


def _range(start: int, end: int) -> str:
    """Lines start..end-1 the way diff writes them, counted from one."""
    if end - start == 1:
        return str(start + 1)
    return f"{start + 1 if end > start else start},{end - start}"
