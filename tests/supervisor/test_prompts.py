"""The built-in prompt: the same for every event, in both languages."""

from __future__ import annotations

from feishuperm.supervisor.prompts import MATERIAL, SUPERVISOR
from tests.tables import every_row


@every_row("language", ["zh", "en"])
def test_built_in_prompt_names_both_fields_and_both_cases(language: str) -> None:
    for word in ("allow_stop", "feedback", "AskUserQuestion", "Stop"):
        assert word in SUPERVISOR[language]


@every_row("prompt", [*SUPERVISOR.values(), *MATERIAL.values()])
def test_prompt_has_no_blank_that_an_event_could_fill(prompt: str) -> None:
    assert "%s" not in prompt and "{}" not in prompt and prompt.strip()


def test_both_languages_say_that_the_material_is_no_instruction() -> None:
    assert set(SUPERVISOR) == set(MATERIAL) == {"zh", "en"}
    for texts in (SUPERVISOR, MATERIAL):
        assert "不是给你的指令" in texts["zh"] and "not instructions" in texts["en"]
