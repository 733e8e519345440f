"""A tool and its input: what is read as a command, a path, a statement."""

from __future__ import annotations

from typing import Any

from feishuperm.danger.interpreter import MAX_SHOWN
from feishuperm.danger.reader import MAX_NAMED, UNBOXED, read_call
from feishuperm.shell.reader import Budget
from tests.danger.corpus import HOME, PROJECT
from tests.tables import every_row


def keys(tool: str, tool_input: dict[str, Any]) -> list[str]:
    reading = read_call(tool, tool_input, PROJECT, HOME)
    return [f"{key} {what}" for key, what in (*reading.marks, *reading.facts)]


@every_row(
    ("tool", "tool_input", "outcome"),
    [
        ("Bash", {"command": "rm -rf ~/x"}, ["danger.delete ~/x"]),
        ("Bash", {"command": "ls", UNBOXED: True}, [f"danger.permissions {UNBOXED}"]),
        ("Bash", {"command": "ls", UNBOXED: False}, []),
        ("Bash", {"script": "rm -rf ~/x"}, []),
        ("PowerShell", {"command": "ri C:\\x -r"}, ["danger.delete C:/x"]),
        ("Write", {"file_path": "$HOME/.bashrc"}, ["danger.startup ~/.bashrc"]),
        ("NotebookEdit", {"notebook_path": "/srv/x"}, ["danger.overwrite /srv/x"]),
        ("Edit", {"file_path": "src/x", "new_string": "rm -rf ~"}, []),
        ("Read", {"file_path": "/srv/x"}, ["fact.outside /srv/x"]),
        ("Grep", {"path": "~/.ssh"}, ["fact.keys ~/.ssh"]),
        ("WebFetch", {"url": "https://a.b/c"}, ["fact.host a.b"]),
        (
            "WebFetch",
            {"url": "https://gіthub.com/c"},
            ["fact.host gіthub.com", "fact.letters gіthub.com (і U+0456)"],
        ),
        ("Bash", {"command": "сurl x"}, ["fact.letters сurl (с U+0441)"]),
        (
            "Bash",
            {"command": "git clone git@gіthub.com:a/b"},
            ["fact.host gіthub.com", "fact.letters gіthub.com (і U+0456)"],
        ),
        ("Bash", {"command": "./构建.sh 'текст' && cat отчёт.txt"}, []),
        ("Task", {"prompt": "rm -rf ~"}, []),
        ("mcp__x__run", {"command": "rm -rf ~/x"}, ["danger.delete ~/x"]),
        ("mcp__x__y", {"sql": "drop table x"}, ["danger.data drop table x"]),
        ("mcp__db__y", {"q": "drop table x"}, ["danger.data drop table x"]),
        ("mcp__x__search", {"query": "drop table x"}, []),
        ("mcp__x__delete_page", {}, ["danger.data delete_page"]),
        ("mcp__x__list_deleted", {}, []),
        ("mcp__x__write", {"path": "/srv/x"}, ["danger.overwrite /srv/x"]),
        ("mcp__x__open", {"uri": "file:///srv/x"}, ["fact.outside /srv/x"]),
        ("mcp__x__y", {"a": [{"cmd": 1, "u": "http://a.b"}]}, ["fact.host a.b"]),
    ],
)
def test_call_is_read_by_what_its_tool_takes(
    tool: str, tool_input: dict[str, Any], outcome: list[str]
) -> None:
    assert keys(tool, tool_input) == outcome


def test_input_that_is_no_text_is_read_as_nothing() -> None:
    values: tuple[Any, ...] = (None, 1, [], {}, ["rm -rf ~"])
    for value in values:
        assert read_call("Bash", {"command": value}, "/p", "/h") == ((), (), ())
        read_call("mcp__x__y", {"command": value, "sql": value}, "/p", "/h")


def test_odd_characters_stand_for_nothing_of_ours() -> None:
    assert keys("Bash", {"command": "rm\0 -rf \1~/x"}) == ["danger.delete ~/x"]


def test_things_are_named_in_bounds() -> None:
    paths = [f"/srv/{letter}" for letter in "abcdef"]
    (note,) = keys("Bash", {"command": "rm " + " ".join(paths)})
    assert note == f"danger.delete {', '.join(paths[:MAX_NAMED])}, +2"
    (note,) = keys("Bash", {"command": "rm /srv/" + "x" * 99})
    assert note.endswith("…") and len(note) == len("danger.delete ") + MAX_SHOWN


def test_call_stands_in_its_folder_and_secrets_are_masked() -> None:
    reading = read_call(
        "Bash", {"command": "rm ../key"}, PROJECT, HOME, PROJECT + "/src"
    )
    assert not reading.marks
    reading = read_call(
        *("Bash", {"command": "rm ~/key"}, PROJECT, HOME),
        mask=lambda text: text.replace("key", "***"),
    )
    assert [mark.what for mark in reading.marks] == ["~/***"]


def test_call_that_costs_too_much_is_searched_for_words() -> None:
    reading = read_call(
        "Bash", {"command": "ls; rm x"}, PROJECT, HOME, budget=Budget(2)
    )
    assert [mark.key for mark in reading.marks] == ["danger.unread"]
    reading = read_call(
        *("mcp__x__y", {"sql": "rm " * 99}, PROJECT, HOME), budget=Budget(0)
    )
    assert [mark.what for mark in reading.marks] == ["rm"]
