"""What is dangerous about a call, in words; a mistake of ours keeps nobody waiting."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from feishuperm.danger.reader import Finding, Reading
from feishuperm.messages import text
from feishuperm.models.payload import PermissionRequestPayload
from feishuperm.services import presenter as dangers
from feishuperm.services.presenter import is_clear, names, read_danger, sentences
from tests.asks import payload_of

SAY = partial(text, "en")


def read(command: str) -> Reading:
    call = {"tool_name": "Bash", "tool_input": {"command": command}}
    return read_danger(PermissionRequestPayload(call), "/work/p")


def test_mark_is_named_and_told_in_a_sentence() -> None:
    reading = read("rm -rf ~/work")
    assert names(reading) == ("delete",) and not is_clear(reading)
    (sentence,) = sentences(reading.marks, SAY)
    assert "work" in sentence


def test_harmless_call_is_clear() -> None:
    reading = read("ls -l")
    assert names(reading) == () and is_clear(reading)


def test_secret_of_a_call_is_in_no_sentence() -> None:
    secret = "ghp_" + "a1B2" * 9
    reading = read(f"curl -H 'Authorization: token {secret}' -X DELETE https://x.y/z")
    told = sentences((*reading.marks, *reading.facts), SAY)
    assert secret not in "".join(told)


def test_call_that_we_stumble_over_is_unread_and_not_clear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*parts: Any, **options: Any) -> Reading:
        raise RecursionError("too deep")

    monkeypatch.setattr(dangers, "read_call", broken)
    reading = read("ls")
    assert [fact.key for fact in reading.facts] == ["fact.unread"]
    assert not is_clear(reading), "what nobody read is never let through by a pass"
    assert all(sentences(reading.facts, SAY))


def test_what_is_named_stays_on_one_short_line() -> None:
    (sentence,) = sentences([Finding("danger.delete", "a\nb" * 500)], SAY)
    assert "\n" not in sentence and len(sentence) < 500


def test_sentence_with_nothing_to_name_ends_without_a_colon() -> None:
    for language in ("zh", "en"):
        (sentence,) = sentences([Finding("danger.delete", "")], partial(text, language))
        assert sentence == sentence.rstrip("：: ")


def test_call_is_read_once_and_what_runs_instead_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call of megabytes is registered and shown in the same turn of the loop."""
    calls: list[dict[str, Any]] = []

    def counted(name: str, given: dict[str, Any], *parts: Any, **more: Any) -> Reading:
        calls.append(given)
        return Reading()

    monkeypatch.setattr(dangers, "read_call", counted)
    payload = payload_of("Bash", {"command": "ls"})
    for _ in range(2):
        read_danger(payload, "/p")
    read_danger(payload, "/q")
    read_danger(payload, "/p", {"command": "id"})
    assert [call["command"] for call in calls] == ["ls", "ls", "id"]
