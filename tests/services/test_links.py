from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from feishuperm.models.kind import KINDS
from feishuperm.services.web_access import Links, load_key
from tests.tables import every_row

ID = "1700000000-0123abcd"


def query(link: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(link).query))


def test_unsigned_link_is_the_one_the_card_promises() -> None:
    links = Links("http://localhost:8080", b"k" * 32, signs=False)
    assert links.url("/allow", ID) == f"http://localhost:8080/allow?id={ID}"
    assert links.good("/allow", ID, "")


ACTIONS = {row.path for kind in KINDS.values() for row in kind.actions}


@every_row("path", sorted(ACTIONS))
def test_signed_link_is_good_for_its_own_action_only(path: str) -> None:
    links = Links("https://example.test", b"k" * 32, signs=True)
    fields = query(links.url(path, ID))
    assert fields["id"] == ID
    for other in ACTIONS:
        assert links.good(other, ID, fields["sig"]) == (other == path)
    assert not links.good(path, "1700000000-0123abce", fields["sig"])
    assert not links.good(path, ID, "")
    assert not links.good(path, ID, "ü" * 22)


def test_another_key_makes_another_signature() -> None:
    first = Links("", b"a" * 32, signs=True)
    second = Links("", b"b" * 32, signs=True)
    assert not second.good("/allow", ID, first.signature("/allow", ID))


def test_inbox_link_carries_its_ticket_and_nothing_of_the_key() -> None:
    links = Links("https://example.test", b"k" * 32, signs=True)
    assert links.inbox_url() == "https://example.test/"
    assert links.inbox_url("abc") == "https://example.test/?ticket=abc"


def test_key_is_private_and_stays_the_same(tmp_path: Path) -> None:
    path = tmp_path / "state" / "key"
    key = load_key(str(path))
    assert len(key) == 32
    assert load_key(str(path)) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_torn_key_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"short")
    assert len(load_key(str(path))) == 32
    assert len(path.read_bytes()) == 32


def test_key_that_cannot_be_kept_still_signs(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    key = load_key(os.path.join(str(tmp_path), "file", "key"))
    assert len(key) == 32


def test_key_that_is_there_is_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "key")
    key = load_key(path)
    monkeypatch.setenv("XDG_STATE_HOME", os.path.join(path, "no-folder"))
    assert load_key(path) == key
