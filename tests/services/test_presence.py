"""Whether somebody is at the keyboard, by the last signs of it."""

from __future__ import annotations

import json

import pytest

from feishuperm.models.payload import HookPayload, parse_payload
from feishuperm.services import transcript as module
from feishuperm.services.transcript import RECENT_SECONDS, Presence
from tests.tables import every_row

NOW = 1_700_000_000.0


def notice(kind: str, session: str = "s1") -> HookPayload:
    event = {
        "hook_event_name": "Notification",
        "session_id": session,
        "notification_type": kind,
    }
    return parse_payload(json.dumps(event).encode())


def test_nobody_is_there_who_gave_no_sign() -> None:
    assert not Presence().is_there("s1", NOW, NOW)


def test_person_who_typed_is_there_for_a_while() -> None:
    presence = Presence()
    presence.person(NOW)
    presence.person(NOW - 1000)  # an older sign takes nothing back
    assert presence.is_there("s1", NOW, NOW + RECENT_SECONDS - 1)
    assert not presence.is_there("s1", NOW, NOW + RECENT_SECONDS)


def test_sign_from_a_clock_far_ahead_is_none() -> None:
    presence = Presence()
    presence.person(NOW + 3600)
    assert not presence.is_there("s1", NOW, NOW)


@every_row("kind", ["permission_prompt", "idle_prompt"])
def test_untouched_dialog_is_nobody_in_its_own_session(kind: str) -> None:
    presence = Presence()
    presence.person(NOW)
    presence.notice(notice(kind), NOW + 6)
    assert not presence.is_there("s1", NOW, NOW + 7)
    assert presence.is_there("s2", NOW, NOW + 7)


def test_notice_about_an_earlier_question_says_nothing_of_this_one() -> None:
    presence = Presence()
    presence.person(NOW)
    presence.notice(notice("permission_prompt"), NOW - 1)
    assert presence.is_there("s1", NOW, NOW)


def test_other_notices_say_nothing() -> None:
    presence = Presence()
    presence.person(NOW)
    presence.notice(notice("auth_success"), NOW + 1)
    assert presence.is_there("s1", NOW, NOW + 2)


def test_sessions_of_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SESSIONS", 2)
    presence = Presence()
    presence.person(NOW)
    for session in ("s1", "s2", "s1", "s3"):
        presence.notice(notice("idle_prompt", session), NOW + 1)
    there = [presence.is_there(session, NOW, NOW) for session in ("s1", "s2", "s3")]
    assert there == [False, True, False], "the one not heard of for the longest"
