"""The inbox: its data, and the same without scripts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from feishuperm.handlers.pages import inbox
from feishuperm.handlers.pages.layout import INBOX, INBOX_SCRIPT, STYLE
from feishuperm.lib.text import TEXTS, text
from feishuperm.models.ask import Ask, Block, Field, Offer
from feishuperm.models.kind import KINDS
from tests.handlers.pages.page import ID, Page, make_ask, make_links, make_outcome
from tests.kinds import buttons, refusals
from tests.tables import every_row


def item_of(ask: Ask) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(inbox.make_item(ask, make_links(ask)).json)
    return made


def page_of(*asks: Ask) -> Page:
    items = [inbox.make_item(ask, make_links(ask)) for ask in asks]
    state = inbox.state_json(items, now=1, deadlines={}, recent=[])
    return Page.of(inbox.inbox_page("zh", state, items))


def test_item_carries_what_the_script_draws() -> None:
    item = item_of(make_ask(rules=("Bash(x)",)))
    names = [action.name for action in buttons()]
    assert [offer["name"] for offer in item["offers"]] == names
    edit = item["offers"][names.index("edit")]
    assert edit["edits"] and not edit["opens"] and edit["fields"] == ["command"]
    assert item["fields"][-1]["value"] == "npm run build"
    keys = [action.key for action in buttons()]
    assert keys[:4] == ["a", "w", "d", "i"]
    assert [offer["key"] for offer in item["offers"]] == keys
    assert item["offers"][1]["link"] == f"always?id={ID}&sig=s-always"
    assert item["offers"][2]["fields"] == ["reason"]
    assert [field["name"] for field in item["fields"]] == ["reason", "command"]
    assert item["rules"] == ["Bash(x)"]
    assert item["digest"] == "d16e57"
    assert not item["partial"]


def test_button_that_needs_fields_or_words_opens_its_page() -> None:
    question = item_of(make_ask("question", {"questions": [{"question": "Why?"}]}))
    assert [offer["opens"] for offer in question["offers"]] == [True, False, False]
    assert [field["name"] for field in question["fields"]] == ["reason"]
    ask = make_ask()
    broad = tuple(offer._replace(confirm="all") for offer in ask.actions)
    assert item_of(ask._replace(actions=broad))["offers"][0]["opens"]


def test_long_content_keeps_both_ends_and_loses_the_buttons_that_grant() -> None:
    content = "start" + "x" * 50_000 + "end"
    rules = (f"Bash({content})",)
    item = item_of(make_ask(blocks=(Block("code", "", content),), rules=rules))
    block = item["blocks"][0]
    assert block["text"].startswith("start") and block["tail"].endswith("end")
    assert len(block["text"] + block["tail"]) <= inbox.ITEM_LENGTH
    assert str(50_008 - inbox.ITEM_LENGTH) in block["gap"]
    assert item["partial"]
    assert sorted(offer["name"] for offer in item["offers"]) == refusals()
    assert item["rules"] == []


def test_many_long_blocks_stay_within_the_size_of_an_item() -> None:
    blocks = tuple(Block("code", "", "é" * 20_000) for _ in range(100))
    item = item_of(make_ask(blocks=blocks))
    shown = sum(len(block.get("text", "")) for block in item["blocks"])
    assert shown <= inbox.ITEM_LENGTH
    assert [block["gap"] for block in item["blocks"] if "kind" not in block]


def test_masked_request_says_so_and_leads_to_its_page() -> None:
    ask = make_ask(masked=True)
    item = item_of(ask)
    assert item["partial"] and "***" in item["note"]
    assert item["offers"][0]["name"] == "allow"
    assert item["note"] in page_of(ask).text


def test_request_can_be_answered_without_scripts() -> None:
    ask = make_ask()
    page = page_of(ask)
    for path, label in (("allow", "批准运行"), ("deny", "拒绝运行")):
        assert page.button(path) == label
        assert page.form(path)["id"] == ID
    assert page.all("a", href=make_links(ask)["request"])


def test_state_is_one_json_object() -> None:
    ask = make_ask(blocks=(Block("code", "", "</script>"),))
    page = page_of(ask, ask._replace(id="2"))
    boot = json.loads(page.scripts[0])
    assert [item["id"] for item in boot["waiting"]] == [ID, "2"]
    assert boot["now"] == 1
    assert boot["keys"] == [action.key for action in buttons() if action.key]


def test_recent_item_says_who_where_when_and_which_rule() -> None:
    outcome = make_outcome(
        "已始终允许",
        surface="inbox",
        who="张三",
        rules=("Bash(x)",),
        detail="x --all",
        result="已运行完毕",
        result_look="good",
        undoable=True,
    )
    assert inbox.recent_item(outcome, "undo?id=1") == {
        "id": ID,
        "what": "Bash",
        "detail": "x --all",
        "project_name": "shop",
        "done": "已始终允许",
        "look": "good",
        "who": "张三",
        "surface": "收件箱",
        "ended": outcome.ended,
        "ran": "",
        "rules": ["Bash(x)"],
        "undone": [],
        "undo": "undo?id=1",
        "reason": "",
        "notes": [],
        "result": "已运行完毕",
        "result_look": "good",
        "head": "a1b2c3",
    }


def test_history_without_script_says_all_of_it_and_takes_back() -> None:
    kept = make_outcome(
        "已始终允许", rules=("Bash(x)",), detail="x --all", undoable=True
    )
    gone = kept._replace(undone=("Bash(x)",), undoable=False, result="已运行完毕")
    state = inbox.state_json([], now=1, deadlines={}, recent=[])
    rows = ((kept, f"undo?id={ID}&sig=s"), (gone, ""))
    page = Page.of(inbox.inbox_page("zh", state, [], "", rows))
    assert page.form("undo") == {"id": ID, "sig": "s"}
    assert page.button("undo") == "撤销"
    assert page.text.count("x --all") == 2
    assert len(page.all("s")) == 1
    assert "已运行完毕" in page.text


def test_keys_of_a_new_button_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    permission = KINDS["permission"]
    later = permission.actions[0]._replace(name="later", key="l", label="button.more")
    row = permission._replace(actions=(*permission.actions, later))
    monkeypatch.setitem(KINDS, "permission", row)
    page = page_of()
    assert "查看完整请求" in page.text
    assert json.loads(page.scripts[0])["keys"][-1] == "l"


def test_button_and_field_nobody_has_seen_before_reach_the_script() -> None:
    offer = Offer("edit", "Edit", look="yes", key="e", fields=("command",))
    ask = make_ask(fields=(Field("command", value="ls"),), actions=(offer,))
    links = {"edit": "edit?id=1", "request": "request?id=1"}
    item = json.loads(inbox.make_item(ask, links).json)
    assert item["offers"][0]["label"] == "Edit"
    assert item["fields"][0]["value"] == "ls"


def test_script_knows_no_button_by_name() -> None:
    names = {action.name for kind in KINDS.values() for action in kind.actions}
    for name in names:
        assert not re.search(rf"""["'.]{name}\b""", INBOX_SCRIPT)


def test_every_text_the_script_asks_for_is_sent_and_no_more() -> None:
    asked = set(re.findall(r'"((?:inbox|page|button|pass)\.[a-z_.]+)"', INBOX_SCRIPT))
    assert asked == set(inbox.TEXTS)
    assert asked <= set(TEXTS)


@every_row("key", [key for key in TEXTS if key.startswith("inbox.")])
def test_no_inbox_text_is_left_over(key: str) -> None:
    blank = "{{" + key.partition(".")[2] + "}}"
    helped = [name for _, name in (*inbox.KEYS, inbox.MOVES)]
    helped += [f"inbox.about.{name}" for name in inbox.EXPLAINED]
    assert key in inbox.TEXTS or key in helped or blank in INBOX


def test_item_says_what_is_dangerous_and_why_with_nothing_unseen() -> None:
    ask = make_ask(
        dangers=("删除 a\u202eb",), why="why\u200b", prompt="p\x07", facts=("f\u2028",)
    )
    item = item_of(ask)
    assert item["dangers"] == ["删除 a⟦U+202E⟧b"]
    assert item["why"] == "why⟦U+200B⟧"
    assert item["prompt"] == "p⟦U+0007⟧"
    assert item["facts"] == ["f⟦U+2028⟧"]
    plain = page_of(ask).text
    assert plain.index("npm run build") < plain.index("删除") < plain.index("why")


def test_help_explains_the_buttons_to_who_has_no_keyboard() -> None:
    for language in ("zh", "en"):
        page = b"".join(inbox.inbox_page(language, b"{}", [])).decode()
        fingers = page.partition('with-fingers">')[2].partition("</dl>")[0]
        assert "<kbd>" not in fingers
        for name in ("allow", "always", "deny", "interrupt", "hold"):
            assert text(language, f"button.{name}") in fingers
    style = STYLE.replace("\n", " ")
    assert "(pointer: coarse)" in style and ".with-keys { display: none; }" in style
