"""The laboratory as a fixture; tests that use it carry the marker `claude`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import Lab, claude_binary


@pytest.fixture
def lab(pyz: object) -> Iterator[Lab]:
    """The real client, isolated, with the built file at hand and an empty script."""
    binary = claude_binary()
    if not binary:
        pytest.skip("the real Claude Code client is not installed")
    with Lab(binary, pyz=str(pyz)) as laboratory:
        yield laboratory
