"""`help [TOPIC]`: the manual, whose pages are Markdown in `help/`, one per language.

A terminal gets them wrapped, with bold words, in a pager if they are long.  A pipe gets
the Markdown as it is.  The page of settings shows the values in force.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from itertools import cycle

from feishuperm.errors import SettingError
from feishuperm.lib import language
from feishuperm.lib.config import sources
from feishuperm.lib.display import MARK, filled, visible
from feishuperm.lib.language import translate
from feishuperm.messages import msg
from feishuperm.models.names import COMMANDS, TOPICS
from feishuperm.models.settings import SETTINGS, Setting, parse_setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.lib.config import Source

WIDEST = 96  # columns: longer lines are hard to read
NARROWEST = 30
BOLD, PLAIN = "\033[1m", "\033[22m"
VALUE_SHOWN = 120  # characters


def main(args: list[str]) -> int:
    """Print the list of commands, or a page; that of a command ends with its usage."""
    if not args:
        print(overview())
        return 0
    from feishuperm.lib.arguments import ArgumentParser  # late: the overview is light

    parser = ArgumentParser("help")
    parser.add_argument("topic", choices=TOPICS, metavar="TOPIC")
    topic = parser.parse_args(args).topic
    text = language.page(topic).rstrip()
    if topic == "settings":
        text = with_values(text)
    elif topic in COMMANDS:
        text += f"\n\n```\n{ArgumentParser(topic).format_help()}\n```"
    show(text)
    return 0


def overview() -> str:
    """`feishuperm --help`: the commands by who runs them, and the topics."""
    lines = [f"{translate('usage:')} feishuperm COMMAND [ARGUMENTS]", ""]
    lines.append(translate("Answer Claude Code's permission requests from Feishu."))
    for line in language.page("commands", "txt").splitlines():
        name, _, summary = line[3:].partition(": ")
        if line.startswith("## "):
            lines.append(f"  {name:<11} {summary}")
        elif line.startswith("# "):
            lines += ["", f"{line[2:]}:"]
    lines += ["", translate("`feishuperm COMMAND --help` shows the options of one.")]
    topics = translate("`feishuperm help TOPIC`: {}", ", ".join(TOPICS))
    return "\n".join([*lines, *filled(topics, 78)])


# The settings.


def with_values(text: str) -> str:
    """The page of settings with each value in force and where that comes from."""
    found = sources(lenient=True)  # `doctor` says what is wrong with a file
    for setting in SETTINGS:
        row = f"| `{setting.key}` "
        text = text.replace(f"{row}|", f"{row}= {in_force(setting, found)} |")
    return text


def in_force(setting: Setting, found: list[Source]) -> str:
    """The value of one setting, and its source; a secret is only said to be there."""
    key, default = setting.key, (msg("default"), {setting.key: setting.default})
    source, values = next((row for row in found if row[1].get(key)), default)
    value = values[key]
    try:
        parse_setting(setting, value)
        wrong = ""
    except SettingError:
        wrong = translate(", not allowed: {}", setting.allowed)
    shown = visible(value).replace("|", "\\|").replace("`", "'")[:VALUE_SHOWN]
    told = "***" if value and setting.secret else f"`{shown}`" if value else "-"
    return f"{told} ({translate(source)}{wrong})"


# Drawing.


def show(markdown: str) -> None:
    """Print a page as fits what stdout is."""
    if not sys.stdout.isatty():
        print(markdown)
        return
    size = shutil.get_terminal_size()
    lines = list(draw(markdown, max(NARROWEST, min(size.columns - 1, WIDEST))))
    turns = cycle((BOLD, PLAIN))
    text = re.sub(MARK, lambda mark: next(turns), "\n".join(lines) + "\n")
    if len(lines) < size.lines:
        sys.stdout.write(text)
        return
    import pydoc  # late: it loads a lot; it finds a pager, or is one

    os.environ.setdefault("LESS", "-FRX")  # with bold words, and no screen of its own
    pydoc.pager(text)


def draw(markdown: str, width: int) -> Iterator[str]:
    """The lines of a page on a terminal of so many columns, bold words marked."""
    in_code, head = False, [""]
    for line in markdown.splitlines():
        if line.startswith("```"):
            in_code = not in_code
        elif in_code:
            yield f"    {line}"
        elif line.startswith("| "):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if head == [""]:
                head = cells
            else:
                yield from drawn_row(head, cells, width)
        elif not line.startswith("|---"):
            head = [""]
            yield from drawn_text(line, width)


def drawn_row(head: list[str], cells: list[str], width: int) -> Iterator[str]:
    """A row of a table: its first cell as a heading, the others below it."""
    yield from wrapped(f"**{cells[0].replace('`', '')}**", width)
    for name, cell in zip(head[1:], cells[1:]):
        words = f"{name}: {cell}" if len(cells) > 2 else cell
        yield from (f"    {part}" for part in wrapped(words, width - 4))


def drawn_text(line: str, width: int) -> Iterator[str]:
    """A heading, a paragraph or a point of a list; what follows is indented alike."""
    if line.startswith("#"):
        line = f"**{line.lstrip('# ')}**"
    begin = re.match(r" *(?:- |\d+\. )?", line)
    indent = begin.end() if begin else 0
    for number, part in enumerate(wrapped(line[indent:], width - indent)):
        yield (" " * indent if number else line[:indent]) + part


def wrapped(text: str, width: int) -> Iterator[str]:
    """Cut a text into lines, its bold words marked."""
    return filled(re.sub(r"\*\*|`", MARK, text.replace("\\|", "|")), width)
