"""Commands that are known by their words: which words, in which order."""

from __future__ import annotations

from feishuperm.danger.deeds import LOOKED_AT, deeds, is_harmless
from tests.tables import every_row


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
