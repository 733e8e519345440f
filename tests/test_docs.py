"""The READMEs keep up with the program, and with each other."""

from __future__ import annotations

import re
from pathlib import Path

import build
from feishuperm import __version__, cli
from feishuperm.models.names import TOPICS
from feishuperm.models.settings import SETTINGS
from tests.conftest import ROOT
from tests.tables import every_row

READMES = ("README.md", "README.zh-CN.md")
LANGUAGES = ("en", "zh")
SETTING_CELLS = {f"`{setting.key}`" for setting in SETTINGS}
# Set by systems and shells, or for and by other programs; nobody sets them for us.
FOREIGN = {
    "HOME", "PATH", "TERM_PROGRAM", "LANG", "DISPLAY", "WAYLAND_DISPLAY",
    "SSH_CONNECTION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SESSION_ATTENDED",
    "TZ", "TERM", "NO_COLOR", "COLORFGBG",
}  # fmt: skip
READ_VARIABLE = re.compile(
    r"""environb?(?:\.get\(|\[)b?["']([A-Z][A-Z_]+)["']|getenv\(["']([A-Z][A-Z_]+)["']"""
)


HELP = sorted((ROOT / "feishuperm/help").glob("*.md"))
DOCUMENTS = (*READMES, *(str(page.relative_to(ROOT)) for page in HELP))


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def headings(text: str) -> list[str]:
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.findall(r"^(#+) ", outside, re.MULTILINE)


def rows(text: str) -> dict[str, list[str]]:
    """Table rows by their first cell."""
    cells = (line.strip("| ").split(" | ") for line in text.splitlines())
    return {row[0]: row for row in cells if len(row) > 1}


def manual(language: str) -> dict[str, str]:
    """The pages of `feishuperm help`, by topic."""
    pages = (ROOT / "feishuperm/help").glob(f"*.{language}.md")
    return {page.name.partition(".")[0]: page.read_text("utf-8") for page in pages}


@every_row("language", LANGUAGES)
def test_every_topic_has_a_page_and_every_page_a_topic(language: str) -> None:
    assert sorted(manual(language)) == sorted(TOPICS)


@every_row("topic", TOPICS)
def test_a_page_has_the_same_shape_in_both_languages(topic: str) -> None:
    english, chinese = (manual(language)[topic] for language in LANGUAGES)
    assert headings(english) == headings(chinese)
    assert sorted(rows(english).keys() & SETTING_CELLS) == sorted(
        rows(chinese).keys() & SETTING_CELLS
    )


@every_row("language", LANGUAGES)
def test_every_setting_is_explained_once(language: str) -> None:
    page = manual(language)["settings"]
    assert [cell for cell in SETTING_CELLS if page.count(f"| {cell} |") != 1] == []


@every_row("language", LANGUAGES)
def test_every_environment_variable_we_read_is_named(language: str) -> None:
    text = "".join(manual(language).values())
    found = set()
    for path in (ROOT / "feishuperm").rglob("*.py"):
        for match in READ_VARIABLE.finditer(path.read_text("utf-8")):
            found.add(match[1] or match[2])
    assert "FEISHUPERM_CONFIG" in found  # the pattern still finds something
    assert sorted(key for key in found - FOREIGN if f"`{key}" not in text) == []


def test_readmes_are_short() -> None:
    english, chinese = (read(name) for name in READMES)
    assert len(english.split()) <= 1400
    assert len(re.findall("[\u4e00-\u9fff]", chinese)) <= 2200


def test_no_paragraph_is_a_wall() -> None:
    paragraphs = re.split(r"\n\n|\n(?=- |\|)", read("README.md"))
    prose = [text for text in paragraphs if not text.startswith(("```", "[中文"))]
    assert [text for text in prose if len(text.split()) > 80] == []


@every_row(
    ("name", "words"),
    [
        ("README.md", ("an app you already have", "time-out", "Uninstall", "git push")),
        ("README.zh-CN.md", ("使用已有的应用", "超时", "卸载", "git push")),
    ],
)
def test_what_people_look_for_is_found_by_its_own_words(
    name: str, words: tuple[str, ...]
) -> None:
    assert [word for word in words if word not in read(name)] == []


@every_row("name", READMES)
def test_readme_names_every_topic(name: str) -> None:
    text = read(name)
    assert [row for row in TOPICS if f"`feishuperm help {row}`" not in text] == []


@every_row("name", READMES)
def test_contents_line_leads_to_every_section(name: str) -> None:
    text = read(name)
    named = re.findall(r"\[([^]]+)\]\(#([^)]+)\)", text)
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [title for title, _ in named] == sections
    assert [place for _, place in named] == [
        title.lower().replace(" ", "-") for title in sections
    ]


def test_both_readmes_have_the_same_headings_in_the_same_order() -> None:
    english, chinese = (headings(read(name)) for name in READMES)
    assert english == chinese
    assert len(english) > 8


def test_both_readmes_have_the_same_tables_code_and_pictures() -> None:
    shapes = []
    for name in READMES:
        text = read(name)
        shapes.append(
            [line.count("|") for line in text.splitlines() if line.startswith("|")]
            + re.findall(r"^```\w*$", text, re.MULTILINE)
            + re.findall(r"\]\(([^)]+?)(?:-en|-zh)?\.(?:png|svg)\)", text)
        )
    assert shapes[0] == shapes[1]


@every_row("name", [*READMES, "CHANGELOG.md", "DESIGN.md"])
def test_files_that_are_linked_exist(name: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", read(name)):
        assert (ROOT / target).exists(), target


@every_row("name", DOCUMENTS)
def test_commands_in_the_text_exist(name: str) -> None:
    for word in re.findall(r"`feishuperm ([a-z][a-z-]*)", read(name)):
        assert word in cli.COMMANDS


@every_row("name", DOCUMENTS)
def test_options_in_the_text_exist(name: str) -> None:
    sources = [ROOT / "install.sh", ROOT / "build.py"]
    for room in ("commands", "supervisor"):
        sources += (ROOT / "feishuperm" / room).glob("*.py")
    sources.append(ROOT / "feishuperm" / "supervisor" / "flags.txt")
    known = "".join(path.read_text("utf-8") for path in sources)
    for option in re.findall(r"`[^`\n]*?(--[a-z][a-z-]+)", read(name)):
        assert option in known, option


def test_changelog_begins_with_what_is_not_released() -> None:
    sections = re.findall(r"^## (.+)$", read("CHANGELOG.md"), re.MULTILINE)
    assert sections[0] == "Unreleased"
    assert re.fullmatch(rf"{__version__} \(\d{{4}}-\d\d-\d\d\)", sections[1])
    assert build.changes_of(__version__).startswith(f"## {sections[1]}\n")


def test_installer_says_every_option_it_takes() -> None:
    script = read("install.sh")
    usage, _, code = script.partition("say() {")
    taken = set(re.findall(r"^\s+(--[a-z0-9-]+)(?: \| -h)?\)", code, re.MULTILINE))
    assert {"--from", "--uninstall", "--help"} <= taken
    assert sorted(option for option in taken if option not in usage) == []


def test_served_installer_is_the_one_of_the_repository() -> None:
    served: Path = ROOT / "feishuperm/web/install.sh"
    assert served.read_bytes() == (ROOT / "install.sh").read_bytes()


def test_design_names_only_files_that_exist() -> None:
    named = set(re.findall(r"`((?:[a-z0-9_]+/)*[a-z0-9_]+\.py)`", read("DESIGN.md")))
    assert {"client.py", "services/approvals.py"} <= named
    places = (ROOT / "feishuperm", ROOT)
    assert sorted(n for n in named if not any((p / n).exists() for p in places)) == []


@every_row(("name", "language"), [*zip(READMES, ("en", "zh"))])
def test_first_screen_shows_the_scan_the_card_and_the_settled_card(
    name: str, language: str
) -> None:
    first, _, _ = read(name).partition("\n## ")
    pictures = re.findall(r"screenshots/([\w-]+)\.", first)
    assert pictures[:3] == [f"scan-{language}", "app-card", "app-settled"]
    assert first[: first.index("app-settled")].count("\n") < 24
