"""What a machine keeps of its gateway: whole, private, and never half believed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from feishuperm.errors import FileError
from feishuperm.lib import enrolment
from feishuperm.lib.enrolment import Enrolment

OLD, NEW, NEXT = "ab" * 32, "cd" * 32, "ef" * 32
OWN = Enrolment("https://g", "m-1", "laptop", "ou_owner", "Wang", (OLD,))


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


def put(own: Enrolment, environ: dict[str, str]) -> None:
    enrolment.save_coming(own, environ)
    enrolment.promote(environ)


def test_enrolment_comes_back_as_it_was_and_is_this_users_alone(
    environ: dict[str, str],
) -> None:
    put(OWN, environ)
    assert enrolment.load(environ) == OWN
    path = enrolment.path(environ)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700


def test_machine_that_has_not_joined_has_none(environ: dict[str, str]) -> None:
    assert enrolment.load(environ) is None


@pytest.mark.parametrize("lacking", [{"machine": ""}, {"keys": ()}])
def test_enrolment_that_cannot_be_proven_is_none(
    environ: dict[str, str], lacking: dict[str, object]
) -> None:
    put(OWN._replace(**lacking), environ)  # type: ignore[arg-type]
    assert enrolment.load(environ) is None


@pytest.mark.parametrize(
    "edited",
    [{"keys": ["no hex"]}, {"keys": "abab"}, {"keys": [7]}, {"machine": 7}],
)
def test_edited_file_is_named_and_not_believed(
    environ: dict[str, str], edited: dict[str, object]
) -> None:
    put(OWN, environ)
    path = Path(enrolment.path(environ))
    path.write_text(json.dumps({**json.loads(path.read_text()), **edited}))
    with pytest.raises(FileError, match=r"gateway\.json"):
        enrolment.load(environ)


def test_file_that_is_no_json_is_named(environ: dict[str, str]) -> None:
    put(OWN, environ)
    Path(enrolment.path(environ)).write_text("{")
    with pytest.raises(FileError, match=r"gateway\.json"):
        enrolment.load(environ)


def test_new_key_stands_before_the_one_that_was_proven() -> None:
    both = OWN.with_key(NEW, OLD)
    assert both.keys == (NEW, OLD)
    assert both.with_key(NEXT, NEW).keys == (NEXT, NEW, OLD)
    assert OWN.keys == (OLD,)


def test_key_is_on_the_disk_before_anybody_counts_on_it(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(OWN, environ)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((FileError, OSError)):
        enrolment.save(OWN.with_key(NEW, OLD), environ)
    assert enrolment.load(environ) == OWN


def test_enrolment_is_found_by_its_gateway_wherever_a_join_was_cut(
    environ: dict[str, str],
) -> None:
    other = OWN._replace(url="https://other", machine="m-2")
    again = OWN._replace(machine="m-3")
    put(OWN, environ)
    enrolment.save_coming(again, environ)
    assert enrolment.find(OWN.url, environ) == OWN, "the one that works stays"
    enrolment.save_coming(other, environ)
    assert enrolment.find(OWN.url, environ) == OWN
    assert enrolment.find("https://third", environ) is None
    assert enrolment.find(other.url, environ) == other, "config.env names it by now"
    assert enrolment.load(environ) == other
    assert not os.path.exists(enrolment.coming_path(environ))


def test_file_that_cannot_be_read_hides_no_other(environ: dict[str, str]) -> None:
    enrolment.save_coming(OWN, environ)
    Path(enrolment.path(environ)).write_text("[" * 100_000)
    with pytest.raises(FileError, match=r"gateway\.json"):
        enrolment.find("https://third", environ)
    assert enrolment.find(OWN.url, environ) == OWN


@pytest.mark.parametrize("now", [None, OWN._replace(machine="m-2")])
def test_server_of_before_overwrites_no_other_enrolment(
    environ: dict[str, str], now: Enrolment | None
) -> None:
    """Its machine has left, or has joined again."""
    if now is not None:
        put(now, environ)
    with pytest.raises(FileError, match="restart"):
        enrolment.save(OWN.with_key(NEW, OLD), environ)
    assert enrolment.load(environ) == now
