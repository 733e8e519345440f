"""The arguments of install."""

from __future__ import annotations

import pytest

from feishuperm.commands import install
from feishuperm.commands.install import parser
from feishuperm.errors import FeishupermError, UsageError


def test_source_tree_cannot_install_itself() -> None:
    with pytest.raises(FeishupermError, match="only a built file"):
        install.main(["--dry-run"])


@pytest.mark.parametrize("argument", ["--dance", "--service=upstart", "extra"])
def test_wrong_argument_is_a_usage_error(argument: str) -> None:
    with pytest.raises(UsageError):
        parser().parse_args([argument])
