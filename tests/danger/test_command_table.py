"""Commands that are known by their words: which words, in which order."""

from __future__ import annotations

import re
from pathlib import Path

import feishuperm
from feishuperm.danger.command_table import (
    LOOKED_AT,
    deeds,
    is_harmless,
    pattern,
    words,
)
from feishuperm.danger.paths import protected
from feishuperm.tables import sections
from tests.tables import every_row

PACKAGE = Path(feishuperm.__file__).parent


@every_row(
    ("command", "keys"),
    [
        ("npm publish", ["danger.publish"]),
        ("npm --tag beta publish x", ["danger.publish"]),
        ("npm publisher", []),
        ("npm run x", []),
        ("aws s3 rm x --recursive", ["danger.data"]),
        ("aws rm s3 --recursive", ["fact.remote"]),
        ("aws ec2 terminate-instances x", ["danger.machine"]),
        ("aws ec2 describe-instances", ["fact.remote"]),
        ("mkfs.ext4 x", ["danger.device"]),
        ("fdisk -l", []),
        ("claude mcp add-json x", ["danger.permissions"]),
        ("gh secret set X", ["danger.data", "danger.keys"]),
        ("nosuch publish", []),
    ],
)
def test_command_is_known_by_its_words(command: str, keys: list[str]) -> None:
    name, *args = command.split()
    assert deeds(name, args) == keys


@every_row(
    "command",
    [
        "npm publish --dry-run",
        "npm help publish",
        "terraform destroy --help",
        "kubectl diff delete",
        "npm -- publish",
        f"npm {'x ' * LOOKED_AT} publish",
        "helm push-to",
    ],
)
def test_what_only_looks_or_belongs_to_another_is_no_deed(command: str) -> None:
    name, *args = command.split()
    assert deeds(name, args) == []


def test_words_of_a_row_are_whole_words_of_bounded_length() -> None:
    assert deeds("npm", ["a publish b"]) == []
    assert deeds("kubectl", ["-n", "delete" * 20]) == []
    assert deeds("terraform", ["x" * 60, "destroy"]) == ["danger.machine"]


def test_harmless_is_what_asks_first_or_says_so_anywhere() -> None:
    assert is_harmless(["show", "x"]) and is_harmless(["x", "--dry-run=client"])
    assert not is_harmless(["x", "show"]) and not is_harmless([])


def test_every_pattern_is_one_and_is_asked_for() -> None:
    folder = PACKAGE / "danger"
    asked = "".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    asked += "".join(
        f'"{line.split()[1]}"' for line in sections("danger/commands.txt")["governs"]
    )
    for name in sections("danger/patterns.txt"):
        if name != "git wipes":  # a list of its own
            pattern(name)
        assert f'"{name.split(" ")[0]}' in asked, name


def test_every_list_is_asked_for_and_keeps_its_order() -> None:
    folder = PACKAGE / "danger"
    asked = "".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    lists = [name for name in sections("danger/commands.txt") if "." not in name]
    assert [name for name in lists if f'"{name}"' not in asked] == []
    assert list(words("output options"))[:2] == ["-o", "-out"]


def test_paths_of_the_table_are_read_as_they_are_written() -> None:
    startup, keys = protected()["danger.startup"], protected()["danger.keys"]
    assert startup.fullmatch("~/.bashrc") and startup.fullmatch("/home/x/.zshrc")
    assert startup.fullmatch("a/b/.envrc") and startup.fullmatch(".envrc")
    assert startup.fullmatch("/etc/cron.d") and startup.fullmatch("/etc/cron.d/x/y")
    assert startup.fullmatch("/etc/systemd/x") and not startup.fullmatch("/etc/systemd")
    assert not startup.fullmatch("~/xbashrc") and not startup.fullmatch("~/a/.bashrc")
    assert keys.fullmatch("x/id_rsa") and not keys.fullmatch("x/id_rsa.pub")


def test_tables_have_no_line_that_is_lost() -> None:
    tables = ("commands.txt", "paths.txt", "patterns.txt", "sentences.txt")
    for file in (*(f"danger/{name}" for name in tables), "shell/programs.txt"):
        text = (PACKAGE / file).read_text("utf-8")
        lines = [line for line in text.splitlines() if re.match(r"(?!# |#$).", line)]
        found = sections(file)
        assert len(lines) == len(found) + sum(map(len, found.values()))
        assert len(re.findall(r"(?m)^\[[\w .]+\]$", text)) == len(found)  # each once
