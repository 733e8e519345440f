"""The READMEs keep up with the program, and with each other."""

from __future__ import annotations

import re
from pathlib import Path

import build
from feishuperm import __version__, cli
from feishuperm.models.settings import SETTINGS
from tests.conftest import ROOT
from tests.tables import every_row

READMES = ("README.md", "README.zh-CN.md")
# Set by systems and shells, or for and by other programs; nobody sets them for us.
FOREIGN = {
    "HOME", "PATH", "TERM_PROGRAM", "LANG", "DISPLAY", "WAYLAND_DISPLAY",
    "SSH_CONNECTION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SESSION_ATTENDED",
    "TZ", "TERM", "NO_COLOR", "COLORFGBG",
}  # fmt: skip
READ_VARIABLE = re.compile(
    r"""environb?(?:\.get\(|\[)b?["']([A-Z][A-Z_]+)["']|getenv\(["']([A-Z][A-Z_]+)["']"""
)


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def headings(text: str) -> list[str]:
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.findall(r"^(#+) ", outside, re.MULTILINE)


def rows(text: str) -> dict[str, list[str]]:
    """Table rows by their first cell."""
    cells = (line.strip("| ").split(" | ") for line in text.splitlines())
    return {row[0]: row for row in cells if len(row) > 1}


@every_row("name", READMES)
def test_every_command_has_a_row(name: str) -> None:
    text = read(name)
    missing = [
        command
        for command in cli.COMMANDS
        if not re.search(rf"^\| `feishuperm {command}[ `]", text, re.MULTILINE)
    ]
    assert missing == []


@every_row("name", READMES)
def test_every_setting_has_a_row_with_its_default(name: str) -> None:
    table = rows(read(name))
    for setting in SETTINGS:
        default = f"`{setting.default}`" if setting.default else "-"
        assert table[f"`{setting.key}`"][1] == default


@every_row("name", READMES)
def test_no_setting_that_does_not_exist(name: str) -> None:
    known = {setting.key for setting in SETTINGS}
    for cell in rows(read(name)):
        key = cell.strip("`")
        if re.fullmatch(r"[A-Z]+_[A-Z_]+", key) and cell.startswith("`"):
            assert key in known or key == "CALLBACK_SERVER_URL"


@every_row("name", READMES)
def test_every_environment_variable_we_read_is_named(name: str) -> None:
    text = read(name)
    found = set()
    for path in (ROOT / "feishuperm").rglob("*.py"):
        for match in READ_VARIABLE.finditer(path.read_text("utf-8")):
            found.add(match[1] or match[2])
    assert "FEISHUPERM_CONFIG" in found  # the pattern still finds something
    assert sorted(key for key in found - FOREIGN if f"`{key}" not in text) == []


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


@every_row("name", READMES)
def test_commands_in_the_text_exist(name: str) -> None:
    for word in re.findall(r"`feishuperm ([a-z][a-z-]*)", read(name)):
        assert word in cli.COMMANDS


@every_row("name", READMES)
def test_options_in_the_text_exist(name: str) -> None:
    sources = [ROOT / "install.sh", ROOT / "build.py"]
    sources += (ROOT / "feishuperm/commands").glob("*.py")
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


NEVER = re.compile(r"\b[Nn]ever\b|[绝决永从]不|永远不|绝对不|从来不")
NAMED_TEST = re.compile(r"`(tests/[\w/.]+)`")


@every_row("name", READMES)
def test_every_never_names_a_test_that_is_there(name: str) -> None:
    """A promise that no test keeps is an opinion."""
    kept = 0
    for line in read(name).replace("never loads", "").splitlines():
        for promise in NEVER.split(line)[1:]:  # up to the next one
            assert NAMED_TEST.search(promise), line
            kept += 1
    assert kept >= 8
    for path in NAMED_TEST.findall(read(name)):
        place = ROOT / path
        files = [place] if place.is_file() else [*place.glob("test_*.py")]
        assert any("\ndef test_" in file.read_text("utf-8") for file in files), path


def test_both_readmes_promise_by_the_same_tests() -> None:
    english, chinese = (NAMED_TEST.findall(read(name)) for name in READMES)
    assert english == chinese


@every_row(("name", "language"), [*zip(READMES, ("en", "zh"))])
def test_first_screen_shows_the_scan_the_card_and_the_settled_card(
    name: str, language: str
) -> None:
    first, _, _ = read(name).partition("\n## ")
    pictures = re.findall(r"screenshots/([\w-]+)\.", first)
    assert pictures[:3] == [f"scan-{language}", "app-card", "app-settled"]
    assert first[: first.index("app-settled")].count("\n") < 24
