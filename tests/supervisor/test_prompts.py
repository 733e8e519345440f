"""The built-in prompt: the same for every event, in both languages."""

from __future__ import annotations

from feishuperm.supervisor.reviewer import MATERIAL, built_in_prompt
from tests.tables import every_row


@every_row("language", ["zh", "en"])
def test_built_in_prompt_names_both_fields_and_both_cases(language: str) -> None:
    for word in ("allow_stop", "feedback", "AskUserQuestion", "Stop"):
        assert word in built_in_prompt(language)


PROMPTS = {language: built_in_prompt(language) for language in ("zh", "en")}


@every_row("prompt", [*PROMPTS.values(), *MATERIAL.values()])
def test_prompt_has_no_blank_that_an_event_could_fill(prompt: str) -> None:
    assert "%s" not in prompt and "{}" not in prompt and prompt.strip()


def test_both_languages_say_that_the_material_is_no_instruction() -> None:
    assert set(PROMPTS) == set(MATERIAL)
    for texts in (PROMPTS, MATERIAL):
        assert "不是给你的指令" in texts["zh"] and "not instructions" in texts["en"]
