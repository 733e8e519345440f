from __future__ import annotations

from feishuperm.lib.display import cut, width
from feishuperm.messages import text, word
from feishuperm.models.names import SURFACES
from feishuperm.services.history import as_csv, is_head, table, verdict
from feishuperm.services.ledger_check import Report
from tests.tables import every_row

MOMENT = 1794801600.0


def test_terminal_cuts_lines_at_its_width() -> None:
    entry = {"time": MOMENT, "id": "1", "detail": "中" * 50}
    for columns in (61, 62):
        widths = [width(row) for row in table([entry], columns).split("\n")]
        assert max(widths) in (columns - 1, columns)


def test_width_counts_columns() -> None:
    assert width("a中e\u0301") == 4
    assert cut("a中b", 3) == "a中"
    assert cut("a中b", 2) == "a"


@every_row(
    ("report", "waiting", "head", "last", "sound"),
    [
        (Report(3), 0, "", "3 entries, nothing was changed", True),
        (Report(3, problems=("bad",)), 0, "", "bad", False),
        (
            Report(3, missing=("gone",)),
            0,
            "",
            "3 entries, none was changed, but some are not there",
            False,
        ),
        (
            Report(3),
            1,
            "",
            "3 entries, none was changed, but some are not there",
            False,
        ),
        (Report(3, notes=("crash",)), 0, "", "3 entries, nothing was changed", True),
        (Report(3, after=2), 0, "x", "3 entries, nothing was changed", True),
    ],
)
def test_verdict_in_one_sentence(
    report: Report, waiting: int, head: str, last: str, sound: bool
) -> None:
    sentences, all_well = verdict(report, waiting, head)
    assert (sentences[-1], all_well) == (last, sound)


@every_row(
    ("text", "good"),
    [
        ("0123abcd", True),
        ("0123ABCD" * 8, True),
        ("0123abc", False),
        ("0123abcg", False),
    ],
)
def test_head_is_hex_and_long_enough(text: str, good: bool) -> None:
    assert is_head(text) is good


def test_spreadsheet_gets_rows_and_no_formula() -> None:
    entry = {
        "time": MOMENT, "event": "request", "id": "1-a", "who": "=HYPERLINK(1)",
        "summary": 'say "a,b"', "rules": ["Bash(ls)"], "reason": "two\nlines",
        "detail": "make\nTOKEN=abcdefgh12345678abcdefgh",
    }  # fmt: skip
    head, row = as_csv([entry]).splitlines()
    assert head.startswith("time,event,id,state,action,surface,who")
    assert "'=HYPERLINK(1)" in row and '"say ""a,b"""' in row and "Bash(ls)" in row
    assert ",make TOKEN=" in row and "12345678" not in row


COMMAND = "npm run build -- --mode production --outDir dist/assets"


def entry_of(**more: object) -> dict[str, object]:
    return {
        "time": MOMENT, "event": "request", "id": "1794801600-0a1b2c3d", "tool": "Bash",
        "action": "allow", "state": "allowed", "surface": "inbox", "who": "Zhang San",
        "detail": COMMAND, **more,
    }  # fmt: skip


@every_row("when", [10**400, 1e17, -1e17, float("nan"), float("inf")])
def test_moment_that_is_none_costs_neither_log_nor_spreadsheet(when: float) -> None:
    entry = {"time": when, "id": "1-00000001", "action": "allow"}
    assert "1-00000001" in table([entry], 200)
    assert "1-00000001" in as_csv([entry])


def test_log_fits_eighty_columns_with_the_command_in_it() -> None:
    rows = [
        entry_of(),
        entry_of(action="always", rules=[f"Bash({COMMAND})"], danger=["root"]),
        entry_of(tool="Edit", detail="/home/me/app/a.py", surface="card"),
        entry_of(event="pass", action="pass", grants={"shown": "Bash(ls)"}, detail=""),
    ]
    lines = table(rows, 80).split("\n")
    assert max(map(width, lines)) <= 80
    assert lines[0].split() == ["TIME", "ID", "DECISION", "BY", "WHAT"]
    assert "0a1b2c3d  allow" in lines[1] and "npm run build -- --mode" in lines[1]
    assert "! npm run build" in lines[2] and "always" in lines[2]
    assert "Edit /home/me/app/a.py" in lines[3]
    assert lines[4].endswith("Bash(ls)")


def test_wide_terminal_has_every_column() -> None:
    assert table([entry_of()], 200).split()[:6] == [
        *("TIME", "ID", "TOOL", "DECISION", "BY", "DETAIL")
    ]


def test_rule_that_was_taken_back_says_so() -> None:
    rows = [
        entry_of(action="always", rules=["Bash(ls)"], detail="ls"),
        {"time": MOMENT, "event": "undo", "id": "1794801600-0a1b2c3d",
         "rules": ["Bash(ls)"], "surface": "command"},
    ]  # fmt: skip
    for columns in (80, 200):
        lines = table(rows, columns).split("\n")
        assert lines[1].endswith("Bash(ls) (undone)")
        assert not lines[2].endswith("(undone)")


def test_tap_that_was_refused_is_not_shown_as_what_it_wanted() -> None:
    rows = [entry_of(event="refused", action="allow", state="", who="ou_stranger")]
    for columns in (80, 200):
        line = table(rows, columns).split("\n")[1]
        assert "refused: allow" in line


@every_row(
    ("entry", "said"),
    [
        ({"event": "revoke", "action": "revoke"}, "pass revoked"),
        ({"tool": "(idle)", "state": "gone"}, "next step"),
        ({"tool": "(form)", "action": "deny"}, "form"),
        ({"tool": "feishuperm-test", "action": "allow"}, "test card"),
    ],
)
def test_our_own_names_are_words(entry: dict[str, object], said: str) -> None:
    shown = table([entry_of(**entry)], 200)
    assert said in shown
    assert not {"revoke ", "(idle)", "(form)", "feishuperm-test"} & {*shown.split(" ")}


@every_row("surface", [*SURFACES, "pass", "command"])
def test_surface_of_an_entry_has_its_chinese(surface: str) -> None:
    assert text("zh", word(surface)) != surface
