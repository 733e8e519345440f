"""The app: each fault that Feishu can tell is found, with what mends it."""

from __future__ import annotations

from typing import Any

import pytest

from feishuperm.app.api import NO_ANSWER, Result
from feishuperm.models.settings import Settings
from feishuperm.setup.checks import FAIL, OK, WARN, AppCheck, is_connected
from feishuperm.setup.scan import ADDONS, SCOPES
from tests.fakes.feishu import APP_ID, APP_SECRET, Refusal
from tests.fakes.feishu_app import OWNER, FakePlatform
from tests.fakes.feishu_registration import Platform
from tests.setup.patient import Patient, states
from tests.tables import every_row

RESCAN = "feishuperm install --rescan"
TEST = "feishuperm test-card"


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


def rows(feishu: Platform, held: bool = False) -> list[tuple[str, str, str]]:
    check = AppCheck(Settings(app_of(feishu)), "edit config", RESCAN, TEST, held)
    return [tuple(row) for row in check.results()]  # type: ignore[misc]


def troubles(feishu: Platform, held: bool = False) -> list[tuple[str, str, str]]:
    return [row for row in rows(feishu, held) if row[0] != OK]


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
        "bot/v3/info",
        "application/v6/applications/me",
        "application/v6/applications/me/app_versions",
        "event/v1/connection",
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


@pytest.mark.parametrize(("count", "state"), [(0, OK), (1, OK), (2, WARN)])
def test_second_machine_on_the_same_app_is_named(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, count: int, state: str
) -> None:
    with scanned() as feishu:
        about = feishu._about
        answer = {"code": 0, "msg": "", "data": {"online_instance_cnt": count}}
        monkeypatch.setattr(
            feishu,
            "_about",
            lambda route: answer if "connection" in route else about(route),
        )
        patient.write_config(**app_of(feishu))
        assert states(patient, "feishu") == state


CONSOLE = f"/app/{APP_ID}/"
FAULTS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"bot_status": 1}, FAIL, "switched off by the company", f"{CONSOLE}version"),
    ({"bot_status": 3}, FAIL, "waits to be switched on", f"{CONSOLE}version"),
    ({"bot_status": 9}, FAIL, "unknown state (status 9)", f"{CONSOLE}version"),
    ({"app_status": 0}, FAIL, "the app is switched off", f"{CONSOLE}version"),
    ({"unaudited": "oav_2"}, WARN, "waits for the company's", f"{CONSOLE}version"),
    ({"scopes": SCOPES[1:]}, FAIL, SCOPES[0], f"{CONSOLE}auth?q={SCOPES[0]}&"),
    ({"scopes": SCOPES[1:]}, FAIL, SCOPES[0], RESCAN),
    ({"scopes": SCOPES[:3] + SCOPES[4:]}, WARN, "im:resource:upload", RESCAN),
    ({"callbacks": []}, FAIL, "card.action.trigger is not subscribed", RESCAN),
    ({"callbacks": []}, FAIL, "taps do not reach the app", f"{CONSOLE}callback"),
    ({"callback_type": "webhook"}, FAIL, "to a web address", f"{CONSOLE}callback"),
    ({"tells_callback": False}, WARN, "unknown whether taps reach the app", TEST),
    ({"published": False}, FAIL, "no version of the app is published", "version"),
    ({"events": []}, WARN, "texts do not reach the app", f"{CONSOLE}event"),
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


def test_what_the_app_may_not_read_is_unknown_and_mended_by_a_scan() -> None:
    with scanned() as feishu:
        feishu.scopes = list(SCOPES[:4])
        assert [(row[0], row[2]) for row in troubles(feishu)] == [(WARN, RESCAN)] * 2
        assert all("unknown" in row[1] for row in troubles(feishu))


@every_row("code", [210503, 210508, 404])
def test_call_that_feishu_refuses_leaves_it_unknown(code: int) -> None:
    with scanned() as feishu:
        for route in ("application/v6/applications/me",):
            feishu.refused[route] = Refusal(code, "x", 400)
        ((state, text, fix),) = troubles(feishu)
    assert (state, fix) == (WARN, TEST) and text.startswith("unknown what the app may")


@every_row(
    ("code", "page"), [(11205, "capability"), (11207, "version"), (11210, "version")]
)
def test_bot_that_is_not_there_names_its_page(code: int, page: str) -> None:
    with scanned() as feishu:
        feishu.refused["bot/v3/info"] = Refusal(code, "app do not have bot", 400)
        ((state, text, fix),) = troubles(feishu)
    assert state == FAIL and str(code) in text and fix.endswith(f"/{page}")


def test_number_of_connections_that_feishu_does_not_tell_is_unknown() -> None:
    with scanned() as feishu:
        feishu.tells_connections = False
        assert (OK, "unknown how many connections the app has", "") in rows(feishu)


def test_connection_that_only_the_server_sees_is_named() -> None:
    with scanned() as feishu:
        assert troubles(feishu, held=False) == []
        ((state, text, fix),) = troubles(feishu, held=True)
    assert (state, fix) == (WARN, "feishuperm restart") and "no connection" in text


@pytest.mark.parametrize("answer", [{}, {"app": []}, {"app": {"scopes": 1}}, {"x": 1}])
def test_odd_answers_are_unknown_and_never_an_error(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
) -> None:
    with scanned() as feishu:
        monkeypatch.setattr(feishu, "_app", lambda: answer)
        monkeypatch.setattr(feishu, "_versions", lambda: {"items": [None, 1, {}]})
        assert {row[0] for row in troubles(feishu)} == {WARN, FAIL}


def test_feishu_that_does_not_answer_is_a_fault_of_the_network() -> None:
    with scanned() as feishu:
        check = AppCheck(Settings(app_of(feishu)), "edit config", RESCAN, TEST)
        check.api.fetch_token = lambda: Result(False, NO_ANSWER, "no route")  # type: ignore[method-assign]
        (row,) = check.results()
    assert row == (FAIL, "the app cannot be used: no route", "check the network")


def test_owner_is_whom_the_platform_names() -> None:
    with scanned() as feishu:
        check = AppCheck(Settings(app_of(feishu)), "", "", "")
        assert (check.owner(), check.bot_id()) == (OWNER, "ou_bot")
        feishu.owner = "on_union"
        assert check.owner() == ""
        feishu.scopes = []
        assert check.owner() == ""


def test_connection_of_the_app_is_the_servers_word() -> None:
    row: dict[str, object] = {"name": "app", "state": "down", "connected_since": None}
    status = {"channels": [{"name": "inbox", "state": "up"}, row]}
    assert not is_connected(None) and not is_connected(status)
    row["connected_since"] = 1794800000.5  # though its taps are not subscribed
    assert is_connected(status)
