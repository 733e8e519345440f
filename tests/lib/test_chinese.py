"""Every sentence of the command line has its Chinese, and no Chinese is left over."""

from __future__ import annotations

import re
from collections import Counter

from feishuperm.lib.chinese import ROWS, SYSTEM
from feishuperm.lib.tongue import HOLE, Catalogue
from feishuperm.models.settings import SETTINGS
from feishuperm.services.history import width
from tests.lib.sentences import read_all, sentences

ENGLISH = [english for english, _ in ROWS]
# What is told to a person and stays as it is.
COMMAND = re.compile(
    r"(hint: |next: )?"
    r"(feishuperm [a-z-]+( [a-z]+(?= |$))?( \{\}| [A-Z]+| --?[a-z-]+( \w+)?)*"
    r"|(npm|mv|launchctl|import|log|passes|chmod|unset|export) .*|Bash\(.*|[A-Z_]+=.*"
    r"|--[a-z-]+( [A-Z]+| --[a-z-]+)*|hint: export .*)",
    re.DOTALL,
)
STAYS = {
    # Usage: names and signs.
    "{} feishuperm COMMAND [ARGUMENTS]",
    "feishuperm hook [{}] <EVENT.json",
    "feishuperm run [OPTIONS] [PROMPT] [-- CLAUDE_ARGUMENTS]",
    # Facts, by a command that must not take the time to load a table.
    "feishuperm {}, commit {}, Python {}",
    # What a card of the demo or of test-card is about, as an agent would write it.
    "export function total(items) {\n  return items.length\n}\n",
    "export function total(items) {\n"
    "  return items.reduce((sum, item) => sum + item.price, 0)\n}\n",
    "Which database should the service use?",
    "one file, no server",
    "several writers",
    "# Plan\n\n1. Add a price to every item\n2. Sum the prices\n3. Run the tests",
    "Build and test",
    "A card from `feishuperm test-card`. Any button will do.",
    # What programs read.
    "application/json; charset=utf-8",
    "open_id tenant_brand",
    "feishuperm does not serve {}",
    "unknown control command",
    # A name in the ledger.
    "the gateway's operator",
}
STAYS_FROM = ("[Unit]\n", "---\ndescription: ", "--{}\r\nContent-Disposition")


def stays(text: str) -> bool:
    is_usage = text.startswith("feishuperm ") and (" | " in text or "\n" in text)
    is_known = text in STAYS or text.startswith(STAYS_FROM)
    is_command = COMMAND.fullmatch(text) is not None and text not in ENGLISH
    return is_known or is_usage or is_command


def forms(text: str) -> tuple[str, ...]:
    """As a row may have it: blanks and a name in front are kept."""
    return text, text.lstrip(" "), re.sub(r"^\{\}: ", "", text)


def test_every_sentence_of_the_source_has_its_chinese() -> None:
    english = set(ENGLISH)
    assert [
        f"{place}: no row in feishuperm/lib/chinese.py for {text!r}"
        for text, place in sentences()
        if english.isdisjoint(forms(text)) and not stays(text.lstrip(" "))
    ] == []


def test_what_a_setting_may_be_has_its_chinese() -> None:
    allowed = [re.sub("list of .*", "list of {}", row.allowed) for row in SETTINGS]
    words = [text for text in allowed if " " in text and "debug" not in text]
    for text in words:
        assert text in ENGLISH or "list of open_ids" in text, text


def test_no_row_is_left_of_a_sentence_that_is_gone() -> None:
    texts = [text for _, _, text, _ in read_all()]
    source = {form for text in texts for form in forms(text)}
    source.update(row.allowed for row in SETTINGS)
    system = {english for english, _ in SYSTEM}
    assert [row for row in ENGLISH if row not in source and row not in system] == []


def test_no_sentence_has_two_rows() -> None:
    assert [row for row, count in Counter(ENGLISH).items() if count > 1] == []


def test_chinese_has_each_hole_of_the_english_once() -> None:
    for english, chinese in ROWS:
        holes = [match[1] for match in HOLE.finditer(chinese)]
        numbers = [str(number + 1) for number in range(english.count("{}"))]
        assert sorted(holes) == (numbers if any(holes) else [""] * len(numbers)), (
            chinese
        )


def test_every_sentence_finds_its_own_row_and_no_other() -> None:
    catalogue = Catalogue(ROWS)
    for english, chinese in ROWS:
        holes = [f"<{number}>" for number in range(english.count("{}"))]
        line, expected = english, chinese
        for number, hole in enumerate(holes, 1):
            line = line.replace("{}", hole, 1)
            named = re.search(rf"\{{{number}~?\}}", expected)
            place = named or HOLE.search(expected)
            assert place is not None
            expected = expected[: place.start()] + hole + expected[place.end() :]
        assert catalogue.translate(line) == expected


def test_chinese_is_chinese_and_fits_where_the_english_stood() -> None:
    names = ("python", "http", "App secret: ", "[Errno {}] {}")
    signs = ("; {}", "{}: hooks.{}: {}")
    for english, chinese in ROWS:
        alike = english in (*names, *signs)
        assert alike or re.search("[\u4e00-\u9fff]", chinese), english
        prompts = chinese.endswith((" ", "："))
        assert prompts or not english.endswith(" "), english
        if "\n" in english:
            assert max(map(width, chinese.split("\n"))) <= 88, english


def test_every_command_and_setting_of_the_english_is_in_the_chinese() -> None:
    names = re.compile(r"`[^`]+`|\b[A-Z]{3,}_[A-Z_]+\b|(?<![\w-])--[a-z-]+")
    for english, chinese in ROWS:
        missing = [name for name in names.findall(english) if name not in chinese]
        assert missing in ([], ["`file`"]), (english, missing)
