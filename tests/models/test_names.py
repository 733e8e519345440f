"""Our names are known once."""

from __future__ import annotations

import build
from feishuperm.cli import COMMANDS
from feishuperm.models.names import DOCTOR_TOOL, PROGRAMS, TEST_TOOL


def test_every_name_means_a_command_that_exists() -> None:
    assert [name for name, command in PROGRAMS.items() if not command] == ["feishuperm"]
    assert set(PROGRAMS.values()) - {""} <= set(COMMANDS)


def test_seed_name_starts_the_hook_in_the_built_file_too() -> None:
    assert build.HOOK_NAMES == ("feishuperm-hook", "permission-notify")


def test_our_own_tools_are_no_tools_of_the_client() -> None:
    assert DOCTOR_TOOL != TEST_TOOL
    assert all(tool.startswith("feishuperm-") for tool in (DOCTOR_TOOL, TEST_TOOL))
