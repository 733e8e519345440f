"""The open cards of an app: kept over restarts, whatever became of the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from feishuperm.app import store
from feishuperm.app.store import OpenCard, lock_app
from feishuperm.channels import app
from feishuperm.channels.app import BLOCK, CardStore
from feishuperm.errors import UsageError
from feishuperm.lib.task import at_once
from tests.services.test_presenter import brief

ASK = brief(command="npm test")


def at(tmp_path: Path) -> str:
    return str(tmp_path / "cards")


def file_of(tmp_path: Path, name: str = "1-00000001.json") -> Path:
    folder = Path(at(tmp_path))
    folder.mkdir(exist_ok=True)
    return folder / name


def shown(id: str = "1-00000001", message_id: str = "om_1") -> OpenCard:
    return OpenCard(ASK._replace(id=id), "nonce", message_id, False)


def test_cards_and_silence_survive_a_restart(tmp_path: Path) -> None:
    cards = CardStore(at(tmp_path))
    cards.put(shown())
    cards.mute(5.5)
    again = CardStore(at(tmp_path))
    assert again.all() == [shown()] and again.muted_until == 5.5
    assert again.get("1-00000001") == at_once(again.by_message("om_1")) == shown()
    again.drop("1-00000001")
    assert CardStore(at(tmp_path)).all() == []


def test_file_is_for_this_user_alone(tmp_path: Path) -> None:
    CardStore(at(tmp_path)).put(shown())
    assert Path(at(tmp_path)).stat().st_mode & 0o777 == 0o700
    assert file_of(tmp_path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "5",
        "{}",
        '{"nonce": "n"}',
        '{"nonce": "", "message_id": "", "ask": {}}',
        '{"nonce": "n", "message_id": "m", "ask": {"id": 5}}',
        '{"nonce": "n", "message_id": "m", "ask": {"id": "1-00000002"}}',
    ],
)
def test_broken_file_is_an_empty_store_that_works(tmp_path: Path, content: str) -> None:
    file_of(tmp_path).write_text(content)
    file_of(tmp_path, "muted.json").write_text(content if content != "5" else "{}")
    cards = CardStore(at(tmp_path))
    assert cards.all() == [] and cards.muted_until == 0.0
    cards.put(shown())
    assert CardStore(at(tmp_path)).all() == [shown()]


@pytest.mark.parametrize("until", [f"1{'0' * 400}", "1e300", "-1", '"soon"'])
def test_silence_without_an_end_is_none(tmp_path: Path, until: str) -> None:
    file_of(tmp_path, "muted.json").write_text(until)
    assert CardStore(at(tmp_path)).muted_until == 0.0


def test_edited_file_grants_nothing_it_does_not_say(tmp_path: Path) -> None:
    cards = CardStore(at(tmp_path))
    cards.put(shown()._replace(grants=True))
    kept = json.loads(file_of(tmp_path).read_text())
    del kept["grants"]
    file_of(tmp_path).write_text(json.dumps(kept))
    (card,) = CardStore(at(tmp_path)).all()
    assert not card.grants


def test_store_is_bounded_in_cards_and_in_what_it_keeps_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "MOST_CARDS", 3)
    cards = CardStore(at(tmp_path))
    for number in range(5):
        cards.put(shown(f"{number}-00000000"))
    assert [card.ask.id[0] for card in cards.all()] == ["2", "3", "4"]
    assert len(list(Path(at(tmp_path)).iterdir())) == 3
    large = brief(command="x" * 15_000)
    cards.put(OpenCard(large, "n", "om_2", True))
    kept = cards.get(large.id)
    assert kept is not None and len(kept.ask.blocks[0].text) <= BLOCK


def test_disk_that_takes_nothing_does_not_stop_the_channel(tmp_path: Path) -> None:
    cards = CardStore(str(tmp_path / "gone" / "x" / "cards"))
    (tmp_path / "gone").write_text("a file, not a folder")
    cards.put(shown())
    assert cards.get("1-00000001") == shown()


def test_card_is_written_alone_however_many_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand open cards took a tenth of a second for each that was added."""
    cards = CardStore(at(tmp_path))
    for number in range(20):
        cards.put(shown(f"{number}-00000000"))
    written: list[bytes] = []
    write = app.write_atomic
    monkeypatch.setattr(
        app, "write_atomic", lambda *a, **k: written.append(a[1]) or write(*a, **k)
    )
    cards.put(shown())
    cards.drop("3-00000000")
    (data,) = written
    assert b"1-00000001" in data and b"2-00000000" not in data


def test_second_server_of_one_app_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.0)
    first = lock_app(at(tmp_path))
    with pytest.raises(UsageError, match="already serves"):
        lock_app(at(tmp_path))
    first.__exit__(None, None, None)
    lock_app(at(tmp_path)).__exit__(None, None, None)
