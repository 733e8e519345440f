"""The app: each fault that Feishu can tell is found, with what mends it."""

from __future__ import annotations

from typing import Any

import pytest

from feishuperm.app.api import NO_ANSWER, AppApi, Result, dial_feishu
from feishuperm.app.health import FAIL, OK, OPTIONAL, RESCAN, SCOPES, TEST, WARN
from feishuperm.models.settings import Settings
from feishuperm.protocol.long_connection import Refusal as LineRefusal
from feishuperm.setup.checks import app_findings, app_owner, bot_id
from feishuperm.setup.scan import ADDONS
from tests.fakes.feishu import APP_ID, APP_SECRET, Refusal
from tests.fakes.feishu_app import OWNER, FakePlatform
from tests.fakes.feishu_registration import Platform
from tests.setup.patient import Patient, states
from tests.tables import every_row


def app_of(feishu: FakePlatform, **values: str) -> dict[str, str]:
    return {
        "FEISHU_APP_ID": APP_ID,
        "FEISHU_APP_SECRET": APP_SECRET,
        "FEISHU_BASE_URL": feishu.base_url,
        "FEISHU_RECEIVE_ID": OWNER,
        **values,
    }


def scanned() -> Platform:
    """The platform of an app that one scan has made."""
    platform = Platform()
    platform.add(ADDONS)
    return platform


def api_of(feishu: Platform) -> AppApi:
    return AppApi(APP_ID, APP_SECRET, feishu.base_url)


def troubles(feishu: Platform, row: Any = None) -> list[tuple[str, str, str]]:
    """What is wrong; `row` is what the server says of its connection."""
    settings, status = Settings(app_of(feishu)), {"channels": [row] if row else []}
    found = app_findings(settings, api_of(feishu), status, "edit config")
    return [tuple(row) for row in found if row.state != OK]


def test_app_that_is_ready_needs_no_group_bot(patient: Patient) -> None:
    with scanned() as feishu:
        patient.write_config(**app_of(feishu))
        assert states(patient, "feishu") == OK
        assert feishu.app_messages == {}


def test_calls_come_in_the_order_in_which_one_needs_the_other() -> None:
    with scanned() as feishu:
        assert troubles(feishu) == []
        paths = [path.partition("?")[0].rpartition("/open-apis/")[2]
                 for path, _ in feishu.requests]  # fmt: skip
    assert paths == [
        "auth/v3/tenant_access_token/internal",
        "application/v6/applications/me/app_versions",
        "bot/v3/info",
        "application/v6/applications/me",
    ]


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"FEISHU_APP_SECRET": ""}, 2),
        ({"FEISHU_APP_SECRET": "wrong-secret-of-an-app"}, 2),
        ({"FEISHU_RECEIVE_ID": "oc_group"}, 2),
        ({}, 0),
    ],
)
def test_app_that_cannot_work_is_a_fault_with_its_remedy(
    patient: Patient, values: dict[str, str], status: int
) -> None:
    with scanned() as feishu:
        feishu.bot_status = status
        patient.write_config(**app_of(feishu, **values))
        assert states(patient, "feishu") == FAIL
        assert "wrong-secret" not in str(patient.examine("feishu"))


CONSOLE = f"/app/{APP_ID}/"
FAULTS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"bot_status": 1}, FAIL, "the company has switched off", f"{CONSOLE}version"),
    ({"bot_status": 3}, FAIL, "the company has to switch on", f"{CONSOLE}version"),
    ({"bot_status": 9}, FAIL, "cannot be used (status 9)", f"{CONSOLE}version"),
    ({"app_status": 0}, FAIL, "the app is switched off", f"{CONSOLE}version"),
    ({"unaudited": "oav_2"}, WARN, "waits for the company's", f"{CONSOLE}version"),
    ({"scopes": SCOPES[1:]}, FAIL, SCOPES[0], f"{CONSOLE}auth?q={SCOPES[0]}&"),
    ({"scopes": SCOPES[1:]}, FAIL, SCOPES[0], RESCAN),
    ({"scopes": SCOPES[:3] + SCOPES[4:]}, WARN, "im:resource:upload", RESCAN),
    ({"callbacks": []}, FAIL, "card.action.trigger is not subscribed", RESCAN),
    ({"callbacks": []}, FAIL, "taps do not reach the app", f"{CONSOLE}callback"),
    ({"callback_type": "webhook"}, FAIL, "to a web address", f"{CONSOLE}callback"),
    ({"tells_callback": False}, WARN, "does not say whether taps reach the app", TEST),
    ({"published": False}, FAIL, "no version of the app is published", "version"),
    ({"events": []}, WARN, "messages to the bot do not arrive", f"{CONSOLE}event"),
]


@every_row(("fault", "state", "text", "fix"), FAULTS)
def test_fault_is_found_with_its_cure(
    fault: dict[str, Any], state: str, text: str, fix: str
) -> None:
    with scanned() as feishu:
        for name, value in fault.items():
            setattr(feishu, name, value)
        ((was, said, cure),) = troubles(feishu)
    assert was == state and text in said and fix in cure


def test_wider_scopes_do_as_well() -> None:
    with scanned() as feishu:
        feishu.scopes = ["im:message", "im:message.p2p_msg", "im:resource", SCOPES[4]]
        assert troubles(feishu) == []


def test_optional_scopes_are_named_with_what_they_give_and_are_no_fault() -> None:
    with scanned() as feishu:
        names = [next(iter(scopes)) for scopes in OPTIONAL]
        for granted, left in (([], names), (names[:1], names[1:]), (["im:message"],
                              names[:1]), (names, [])):  # fmt: skip
            feishu.scopes = [*SCOPES, *granted]
            settings = Settings(app_of(feishu))
            found = app_findings(settings, api_of(feishu), None, "edit config")
            rows = [row for row in found if "optional permission" in row.text]
            assert [row.state for row in rows] == [OK] * len(left)
            for row, name in zip(rows, left):
                assert name in row.text and f"{CONSOLE}auth?q={name}&" in row.text


def test_app_that_may_not_read_its_own_list_is_asked_by_the_other() -> None:
    """`application/v6/scopes` needs no permission."""
    with scanned() as feishu:
        feishu.scopes = feishu.granted = list(SCOPES[:4])
        unknown, missing = troubles(feishu)
        assert unknown[0] == WARN and unknown[2] == RESCAN
        assert missing[0] == WARN and missing[1].endswith(f": {SCOPES[4]}")
        feishu.granted = list(SCOPES[1:4])
        assert troubles(feishu)[1][0] == FAIL
        assert SCOPES[0] in troubles(feishu)[1][1]


@every_row("code", [210503, 210508, 404])
def test_call_that_feishu_refuses_leaves_it_unknown(code: int) -> None:
    with scanned() as feishu:
        feishu.granted = list(SCOPES)
        feishu.refused["application/v6/applications/me"] = Refusal(code, "x", 400)
        ((state, text, fix),) = troubles(feishu)
        assert (state, fix) == (WARN, TEST) and text.startswith("Feishu does not say")
        feishu.refused["application/v6/scopes"] = Refusal(code, "x", 400)
        assert [row[::2] for row in troubles(feishu)] == [(WARN, TEST)] * 2


@every_row("tells", [True, False])
def test_app_that_is_not_published_is_told_as_such(tells: bool) -> None:
    """Whether or not it may read its versions; never as a wrong secret."""
    with scanned() as feishu:
        feishu.published = False
        if not tells:
            feishu.scopes = []
        with pytest.raises(LineRefusal) as refused:
            dial_feishu(api_of(feishu))
        down = {"name": "app", "state": "down", "detail": ""}
        down["detail"] = api_of(feishu).problem(refused.value.args[0])
        ((state, text, fix),) = troubles(feishu, down)
    assert state == FAIL and "publish" in text and fix.startswith("open ")
    assert "secret" not in text.lower() and "SECRET" not in str(refused.value)


def test_connection_that_a_proxy_blocks_is_told_though_the_app_is_fine() -> None:
    why = "a proxy on the way does not pass WebSockets (HTTP 403)"
    with scanned() as feishu:
        row = {"name": "app", "state": "down", "detail": why}
        ((state, text, fix),) = troubles(feishu, row)
        assert state == FAIL and text == f"the app is down: {why}"
        assert "NO_PROXY" in fix
        feishu.callbacks = []
        assert len(troubles(feishu, row)) == 2


@every_row(
    ("code", "page"), [(11205, "capability"), (11207, "version"), (11210, "version")]
)
def test_bot_that_is_not_there_names_its_page(code: int, page: str) -> None:
    with scanned() as feishu:
        feishu.refused["bot/v3/info"] = Refusal(code, "app do not have bot", 400)
        ((state, text, fix),) = troubles(feishu)
    assert state == FAIL and str(code) in text and fix.endswith(f"/{page}")


@pytest.mark.parametrize("answer", [{}, {"app": []}, {"app": {"scopes": 1}}, {"x": 1}])
def test_odd_answers_are_unknown_and_never_an_error(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
) -> None:
    with scanned() as feishu:
        monkeypatch.setattr(feishu, "_app", lambda: answer)
        assert {row[0] for row in troubles(feishu)} == {WARN, FAIL}
        monkeypatch.setattr(feishu, "_versions", lambda: {"items": [None, 1, {}]})
        assert {row[0] for row in troubles(feishu)} == {FAIL}


def test_feishu_that_does_not_answer_is_a_fault_of_the_network() -> None:
    with scanned() as feishu:
        api = api_of(feishu)
        api.fetch_token = lambda: Result(False, NO_ANSWER, "no route")  # type: ignore[method-assign]
        settings = Settings(app_of(feishu))
        (row,) = app_findings(settings, api, None, "edit config")
    assert row == (FAIL, "Feishu does not answer: no route", "check the network")


def test_owner_is_whom_the_platform_names() -> None:
    with scanned() as feishu:
        api = api_of(feishu)
        assert (app_owner(api), bot_id(api)) == (OWNER, "ou_bot")
        feishu.owner = "on_union"
        assert app_owner(api) == ""
        feishu.scopes = []
        assert app_owner(api) == ""
