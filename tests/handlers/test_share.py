"""A running server hands on exactly the version it is."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import feishuperm
from feishuperm.handlers.callback import Share, fill_installer
from feishuperm.models.settings import Settings
from feishuperm.protocol import http1
from tests.tables import every_row

ARCHIVE = b"#!/bin/sh\nthe program"
DIGEST = hashlib.sha256(ARCHIVE).hexdigest()
SCRIPT = Path(feishuperm.__file__).parent / "web" / "install.sh"


def request(
    path: str,
    host: str = "127.0.0.1:8080",
    peer: str = "127.0.0.1",
    method: str = "GET",
) -> http1.Request:
    return http1.Request(method, path, {}, {"host": host}, peer=peer)


def share(**settings: str) -> Share:
    return Share(Settings(settings), ARCHIVE, SCRIPT.read_bytes())


def test_script_names_this_server_and_the_checksum_of_its_file() -> None:
    reply = share()(request("/install.sh"))
    assert reply is not None
    assert b"\nurl='http://127.0.0.1:8080/feishuperm.pyz'\n" in reply.body
    assert f"\nsha256='{DIGEST}'\n".encode() in reply.body
    assert f"\nversion='{feishuperm.__version__}'\n".encode() in reply.body


def test_file_and_sums_belong_together() -> None:
    reply, sums = share()(request("/feishuperm.pyz")), share()(request("/SHA256SUMS"))
    assert reply is not None and sums is not None
    assert (reply.body, sums.body) == (ARCHIVE, f"{DIGEST}  feishuperm.pyz\n".encode())


@every_row(
    ("setting", "peer", "host", "given"),
    [
        ("auto", "127.0.0.1", "localhost:8080", True),
        ("auto", "192.168.1.9", "192.168.1.5:8080", False),
        ("auto", "127.0.0.1", "evil.example", False),
        ("on", "192.168.1.9", "192.168.1.5:8080", True),
        ("off", "127.0.0.1", "localhost:8080", False),
    ],
)
def test_only_loopback_gets_it_unless_the_setting_opens_it(
    setting: str, peer: str, host: str, given: bool
) -> None:
    shared = share(CALLBACK_SHARE_INSTALLER=setting)
    assert (shared(request("/install.sh", host, peer)) is not None) == given


def test_from_afar_the_script_names_the_public_address() -> None:
    shared = share(
        CALLBACK_SHARE_INSTALLER="on", CALLBACK_SERVER_URL="https://perm.example"
    )
    reply = shared(request("/install.sh", "evil.example'; rm -rf /", "10.0.0.9"))
    assert reply is not None
    assert b"\nurl='https://perm.example/feishuperm.pyz'\n" in reply.body
    assert b"evil" not in reply.body


def test_quote_in_an_address_cannot_leave_its_quotes(tmp_path: Path) -> None:
    url = "https://x/'$(touch pwned)'"
    script = fill_installer(b"\nversion=''\nurl=''\nsha256=''\n", "1", url, "0")
    script += b'printf %s "$url"'
    result = subprocess.run(
        ["sh"], input=script, capture_output=True, cwd=tmp_path, timeout=20
    )
    assert result.stdout.decode() == url
    assert not (tmp_path / "pwned").exists()


def test_other_paths_are_not_answered() -> None:
    assert share()(request("/")) is None


def test_wrong_method_is_said() -> None:
    reply = share()(request("/install.sh", method="POST"))
    assert reply is not None and reply.status == 405


def test_source_tree_shares_nothing() -> None:
    shared = Share(Settings({}), b"", b"script")
    assert shared(request("/install.sh")) is None
