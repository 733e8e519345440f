"""A home as version 0.1.0 left it: the very files its installer wrote.

They were taken after a real run of the file that commit 5ab2daa builds, on a pipe, with
a group bot, its secret and a public address in the environment.  Its archive is not
here; whoever upgrades replaces that first.
"""

from __future__ import annotations

import json
from pathlib import Path

from feishuperm.setup.ports import own_socket

FILES = Path(__file__).parent / "data/first_edition.json"


def lay_out(home: Path, bot: str, port: int) -> None:
    """Write the files, and put the links and the archive in their places."""
    socket = own_socket(str(home / ".local/state/feishuperm"))
    values = {"HOME": str(home), "BOT": bot, "PORT": str(port), "SOCKET": socket}
    for name, text in json.loads(FILES.read_text("utf-8")).items():
        for key, value in values.items():
            text = text.replace(f"@{key}@", value)
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o600)
    record = json.loads((home / ".local/state/feishuperm/install.json").read_text())
    archive = Path(record["program"]["archive"])
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"#!/bin/sh\n")
    for link in map(Path, record["program"]["links"]):
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(archive)
