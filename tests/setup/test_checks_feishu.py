"""The group bot and the clock: each fault is found, and who can mend it."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from typing import Any

import pytest

from feishuperm.app.health import FAIL, OK, WARN
from feishuperm.lib.post import Reply
from feishuperm.models.settings import Settings
from feishuperm.services.quiet import QuietHours
from feishuperm.setup import checks, doctor
from feishuperm.setup.checks import send_hello
from tests.setup.patient import Patient, answer, fixes, states
from tests.tables import every_row

BOT = "https://open.feishu.cn/open-apis/bot/v2/hook/x"


def test_no_bot(patient: Patient) -> None:
    assert states(patient, "feishu") == WARN


@pytest.mark.parametrize(("code", "state"), [(0, OK), (19001, FAIL), (19021, FAIL)])
def test_bot_is_really_called(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, code: int, state: str
) -> None:
    patient.write_config(
        FEISHU_WEBHOOK_URL="http://127.0.0.1:9/open-apis/bot/v2/hook/x"
    )
    monkeypatch.setattr(doctor, "post_json", answer(code))
    assert states(patient, "feishu") == state


@pytest.mark.parametrize(("hours", "is_quiet"), [((0, 1439), True), (None, False)])
def test_card_of_the_doctor_leaves_in_quiet_hours_and_a_line_says_so(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, hours: Any, is_quiet: bool
) -> None:
    patient.write_config(
        FEISHU_WEBHOOK_URL="http://127.0.0.1:9/open-apis/bot/v2/hook/x"
    )
    monkeypatch.setattr(doctor, "post_json", answer(0))
    quiet = QuietHours(hours, "", lambda: 1e9)
    monkeypatch.setattr(doctor, "quiet_hours", lambda settings: quiet)
    assert states(patient, "feishu") == OK
    rows = str(patient.examine("feishu"))
    assert ("quiet hours" in rows) == is_quiet and "accepted a test card" in rows


@pytest.mark.parametrize(
    ("skew", "state"), [(0, OK), (-30, OK), (600, WARN), (-4000, FAIL), (4000, FAIL)]
)
def test_clock(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, skew: int, state: str
) -> None:
    patient.write_config(
        FEISHU_WEBHOOK_URL="http://127.0.0.1:9/open-apis/bot/v2/hook/x"
    )
    date = formatdate(time.time() - skew, usegmt=True)
    monkeypatch.setattr(doctor, "post_json", answer(0, date))
    assert states(patient, "clock") == state


@pytest.mark.parametrize(
    ("code", "key", "fix"),
    [
        (19001, "", "feishuperm install --webhook URL --secret TEXT"),
        (19021, "", "feishuperm install --secret TEXT"),
        (19024, "", "change the bot's settings in the Feishu group"),
        (11232, "", "in a minute: feishuperm doctor"),
        (19001, "FEISHU_WEBHOOK_URL", "correct it in the environment: "),
        (19021, "FEISHU_WEBHOOK_SECRET", "correct it in the environment: "),
    ],
)
def test_wrong_bot_names_what_is_wrong(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, code: int, key: str, fix: str
) -> None:
    url = "http://127.0.0.1:9/open-apis/bot/v2/hook/x"
    patient.write_config(FEISHU_WEBHOOK_URL=url)
    if key:
        patient.environ[key] = url
    monkeypatch.setattr(doctor, "post_json", answer(code))
    assert fixes(patient, "feishu") == [fix + key]


@every_row(("code", "good"), [(0, True), (19001, False)])
def test_problem_is_what_feishu_said(code: int, good: bool) -> None:
    sent: list[tuple[str, bytes]] = []

    def post(url: str, body: bytes) -> Reply:
        sent.append((url, body))
        return Reply(200, {}, json.dumps({"code": code, "msg": "no bot"}).encode())

    settings = Settings({"FEISHU_WEBHOOK_URL": BOT, "FEISHU_WEBHOOK_SECRET": "s"})
    assert send_hello(settings, post).ok == good
    [(url, body)] = sent
    assert url == BOT and {"sign", "timestamp"} <= set(json.loads(body))


def test_certificates_of_a_company_are_trusted(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted: list[str] = []

    def post(url: str, body: bytes, ca_file: str = "") -> Reply:
        trusted.append(ca_file)
        return Reply(200, {}, b'{"code": 0}')

    monkeypatch.setattr(checks, "post_json", post)
    monkeypatch.setattr(doctor, "post_json", post)
    patient.write_config(FEISHU_WEBHOOK_URL=BOT, FEISHUPERM_CA_FILE="/etc/ca.pem")
    assert states(patient, "feishu") == OK
    values = {"FEISHU_WEBHOOK_URL": BOT, "FEISHUPERM_CA_FILE": "/etc/ca.pem"}
    assert send_hello(Settings(values)).ok
    assert trusted == ["/etc/ca.pem"] * 2
