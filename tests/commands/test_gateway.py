"""How the parts of a gateway are put together, and what it refuses to start without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.commands import gateway
from feishuperm.commands.gateway import Gateway
from feishuperm.errors import SettingError, UsageError
from feishuperm.gateway.redis_store import RedisStore, StoreRefusal
from feishuperm.gateway.store import FileStore
from feishuperm.lib import log as logging
from feishuperm.lib.log import Log
from feishuperm.models.settings import Settings

APP = {
    "FEISHU_APP_ID": "cli_x", "FEISHU_APP_SECRET": "s",
    "GATEWAY_HOST": "127.0.0.1", "GATEWAY_PORT": "0",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(logging._LOG, "path", str(tmp_path / "log"))
    monkeypatch.setattr(gateway, "raise_file_limit", lambda: 1000)
    monkeypatch.setattr(gateway, "gateway_socket", lambda: str(tmp_path / "g.sock"))
    (tmp_path / ".local/state/feishuperm").mkdir(parents=True, mode=0o700)
    return tmp_path


def make(**values: str) -> Gateway:
    return Gateway(Settings({**APP, **values}))


def test_gateway_alone_keeps_a_file_and_looks_for_a_second_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make()
    try:
        assert isinstance(made.store, FileStore) and made.store.ready
        looks: list[str] = []
        monkeypatch.setattr(made.second, "look", lambda: looks.append("look"))
        made._line_changed()
        assert looks == []
        monkeypatch.setattr(made, "_line_state", lambda: ("up", ""))
        made.line.state = "up"
        made._line_changed()
        assert looks == ["look"]
    finally:
        made.close()


def test_engine_with_replicas_is_redis_and_not_asked_before_the_loop_runs(
    folder: Path,
) -> None:
    made = make(FEISHUPERM_ENGINE="redis://127.0.0.1:1")
    try:
        assert isinstance(made.store, RedisStore) and not made.store.ready
    finally:
        made.close()


def test_engine_that_refuses_us_ends_the_start_and_nothing_later(folder: Path) -> None:
    made = make(FEISHUPERM_ENGINE="redis://127.0.0.1:1")
    try:
        made._refused(OSError("away"))
        assert made.refusal is None, "it may come back"
        made.hub.connected["m-1"] = None  # type: ignore[assignment]
        made._refused(StoreRefusal("wrong password"))
        assert made.refusal is None, "machines are here: it may mend itself"
        made.hub.connected.clear()
        made._refused(StoreRefusal("wrong password"))
        assert str(made.refusal) == "wrong password"
    finally:
        made.close()


def test_certificate_that_cannot_be_used_stops_the_start(folder: Path) -> None:
    with pytest.raises(SettingError, match="GATEWAY_CERT"):
        make(GATEWAY_CERT=str(folder / "none.pem"))


def test_gateway_without_an_app_does_not_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "load_settings", lambda: Settings({}))
    monkeypatch.setattr(gateway.logging, "obey", lambda *_, **options: None)
    with pytest.raises(UsageError, match="FEISHU_APP_ID"):
        gateway.main([])


def test_stop_takes_no_more_and_then_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make()
    try:
        later: list[Any] = []
        monkeypatch.setattr(made, "_later", lambda *call: later.append(call))
        made.stop()
        assert not made.hub.ready and made.line.state == "closed"
        ((seconds, end),) = later
        assert seconds == gateway.DRAIN_SECONDS and end == made.loop.stop
    finally:
        made.close()


class Recorded:
    """A gateway of which only its life is known."""

    refusal: Exception | None = None

    def __init__(self, settings: Settings) -> None:
        self.life = LIFE

    def run(self) -> None:
        self.life.append("run")

    def close(self) -> None:
        self.life.append("close")


LIFE: list[str] = []


@pytest.mark.parametrize("refusal", [None, StoreRefusal("wrong password")])
def test_gateway_gives_everything_back_and_says_why_it_was_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refusal: Exception | None
) -> None:
    LIFE.clear()
    monkeypatch.setattr(Recorded, "refusal", refusal)
    monkeypatch.setattr(gateway, "Gateway", Recorded)
    monkeypatch.setattr(gateway, "load_settings", lambda: Settings(APP))
    hidden: list[str] = []
    monkeypatch.setattr(gateway.logging, "_LOG", Log())
    monkeypatch.setattr(gateway.logging, "hide", hidden.append)
    if refusal is None:
        assert gateway.main([]) == 0
    else:
        with pytest.raises(StoreRefusal, match="wrong password"):
            gateway.main([])
    assert LIFE == ["run", "close"]
    assert APP["FEISHU_APP_SECRET"] in hidden, "no log names it"


def test_parts_are_started_before_the_loop_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make()
    try:
        started: list[str] = []
        for name, part in (("cards", made.cards.sender), ("line", made.line)):
            monkeypatch.setattr(part, "start", lambda name=name: started.append(name))
        monkeypatch.setattr(made.loop, "on_signal", lambda number, fn: None)
        monkeypatch.setattr(made.loop, "run", lambda: started.append("loop"))
        made.run()
        assert started == ["cards", "line", "loop"]
        assert made.hub.ready, "it shows signs of life: other replicas find it"
        assert made._line_state() == (made.line.state, made.line.detail)
    finally:
        made.close()
