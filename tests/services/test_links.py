from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from feishuperm.models.kind import KINDS
from feishuperm.services.links import INBOX_SECONDS, Links, load_key

ID = "1700000000-0123abcd"


def query(link: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(link).query))


def test_unsigned_link_is_the_one_the_card_promises() -> None:
    links = Links("http://localhost:8080", b"k" * 32, signs=False)
    assert links.url("/allow", ID) == f"http://localhost:8080/allow?id={ID}"
    assert links.good("/allow", ID, "")


ACTIONS = {row.path for kind in KINDS.values() for row in kind.actions}


@pytest.mark.parametrize("path", sorted(ACTIONS))
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


def test_inbox_link_opens_for_a_month_and_not_after() -> None:
    links = Links("https://example.test", b"k" * 32, signs=False)
    fields = query(links.inbox_url(1000.0))
    assert links.inbox_good(fields, 1000.0 + INBOX_SECONDS - 1)
    assert not links.inbox_good(fields, 1000.0 + INBOX_SECONDS + 1)
    longer = {**fields, "until": str(int(fields["until"]) + 1)}
    assert not links.inbox_good(longer, 1000.0)
    for bad in ({}, {"until": "x", "sig": fields["sig"]}, {"until": "9" * 30}):
        assert not links.inbox_good(bad, 1000.0)


def test_key_is_private_and_stays_the_same(tmp_path: Path) -> None:
    path = tmp_path / "state" / "key"
    key = load_key(str(path))
    assert len(key) == 32
    assert load_key(str(path)) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_torn_key_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"short")
    assert len(load_key(str(path))) == 32
    assert len(path.read_bytes()) == 32


def test_key_that_cannot_be_kept_still_signs(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    key = load_key(os.path.join(str(tmp_path), "file", "key"))
    assert len(key) == 32
