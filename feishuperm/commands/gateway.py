"""`feishuperm gateway`: one Feishu app for many machines, in the foreground."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

from feishuperm import __version__
from feishuperm.app.api import AppApi, app_of, dial_feishu
from feishuperm.app.health import count_connections
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.gateway.cards import Cards
from feishuperm.gateway.hub import Hub
from feishuperm.gateway.inbound import Inbound, SecondConnection
from feishuperm.gateway.machines import Room, Source
from feishuperm.gateway.redis_store import (
    RedisLine,
    RedisStore,
    StoreRefusal,
    dial_redis,
    read_address,
)
from feishuperm.gateway.store import FileStore
from feishuperm.gateway.web import GatewayControl, Metrics, Web
from feishuperm.lib import log as logging
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import gateway_socket, load_settings, state_dir
from feishuperm.lib.files import guard_dir, private_dir
from feishuperm.lib.log import log, report
from feishuperm.lib.post import dial
from feishuperm.messages import msg
from feishuperm.models.settings import Settings
from feishuperm.server.listen import (
    HookAcceptor,
    HttpAcceptor,
    listen_http,
    listen_unix,
    server_side,
)
from feishuperm.server.loop import Loop, gateway_caps, raise_file_limit
from feishuperm.server.machine import upgrade
from feishuperm.server.outgoing import Link
from feishuperm.services.ledger import Ledger

DRAIN_SECONDS = 1.0  # for last answers, when it stops
LEDGER_SECONDS = 0.2
MAX_CONTROL = 64  # connections to its own socket


def main(args: list[str]) -> int:
    """Carry taps until a signal ends it."""
    ArgumentParser("gateway").parse_args(args)
    settings = load_settings()
    logging.obey(settings, stderr=True)
    if not settings.feishu_app_id or not settings.feishu_app_secret:
        raise UsageError(msg("a gateway needs FEISHU_APP_ID and FEISHU_APP_SECRET"))
    guard_dir(private_dir(state_dir()))
    gateway = Gateway(settings)
    try:
        gateway.run()
    finally:
        gateway.close()
    if gateway.refusal is not None:
        raise gateway.refusal
    return 0


class Gateway:
    """Every part of a running gateway, made and wired in the order it reads."""

    def __init__(self, settings: Settings) -> None:
        limits = gateway_caps(raise_file_limit())
        secure: Callable[[Any], Any] = lambda sock: sock  # noqa: E731
        if settings.gateway_cert:
            secure = server_side(settings.gateway_cert, settings.gateway_key)
        self.refusal: FeishupermError | None = None
        self.loop = Loop(on_error=report)
        api = app_of(settings)
        self.store = self._make_store(settings)
        if isinstance(self.store, FileStore):
            self.store.start()  # before anything listens: it may be another's
        language = settings.feishuperm_lang
        self.cards = Cards(
            api, self.store, self.loop.call_soon_threadsafe, self._later,
            urgent=settings.feishu_urgent == "app", language=language,
        )  # fmt: skip
        self._ledger = Ledger()
        self.hub = Hub(
            self.store, self.cards, Metrics(), self._later, settings.gateway_owners,
            language, self._ledger.note, room=Room(*limits[1:]),
        )  # fmt: skip
        self.second = SecondConnection(
            partial(count_connections, api), self.loop.call_soon_threadsafe, self._later
        )
        self.line = self._make_line(settings, api)
        self.hub.line_state = self._line_state
        self.hub.watch_line = self.line.watch
        hosts = (settings.gateway_host,) if settings.gateway_host else ("0.0.0.0", "::")
        http = listen_http(hosts, settings.gateway_port)
        web = Web(
            self.hub, self._upgrade, settings.gateway_metrics_token,
            settings.gateway_trusted_proxies,
        )  # fmt: skip
        self.machines = HttpAcceptor(
            self.loop, http, web.on_request, limits.http, secure, max_body=0
        )
        control = GatewayControl(self.hub, lambda: self.second.problem)
        listener = listen_unix(gateway_socket())
        self.control = HookAcceptor(
            self.loop, listener, control.on_frame, lambda _: None, MAX_CONTROL
        )
        _tell_port(bool(settings.gateway_cert), http.port)

    def _make_line(self, settings: Settings, api: AppApi) -> Link:
        inbound = Inbound(self.hub)
        dialling = partial(
            dial_feishu, api, partial(dial, ca_file=settings.feishuperm_ca_file)
        )
        return Link(
            self.loop,
            dialling,
            inbound.deliver,
            self._line_changed,
            # With others on this app silence means nothing: they get the taps.
            may_freshen=isinstance(self.store, FileStore),
        )

    def _make_store(self, settings: Settings) -> FileStore | RedisStore:
        if not settings.feishuperm_engine:
            path = os.path.join(state_dir(), f"gateway-{settings.feishu_app_id}.jsonl")
            return FileStore(
                settings.feishu_app_id, path, secret=settings.feishu_app_secret
            )
        address = read_address(settings.feishuperm_engine)
        dialling = partial(dial_redis, address, settings.feishuperm_ca_file)
        return RedisStore(
            settings.feishu_app_id,
            lambda on_change: RedisLine(self.loop, dialling, on_change, self._refused),
            settings.feishu_app_secret,
        )

    def _refused(self, error: Exception) -> None:
        """At the start a person is there to repair it; later it may pass by itself."""
        if isinstance(error, StoreRefusal) and not self.hub.connected:
            self.refusal = error
            self.loop.stop()

    def _line_changed(self) -> None:
        """Without a shared store we must be the only one on this app."""
        if self.line.state == "up" and isinstance(self.store, FileStore):
            self.second.look()

    def _line_state(self) -> tuple[str, str]:
        return self.line.state, self.line.detail

    def _upgrade(self, exchange: Any, address: str, source: Source) -> None:
        hub = self.hub
        connection = upgrade(
            exchange, self.loop, address, source, hub.received, hub.closed
        )
        if connection is not None:
            hub.accept(connection)

    def _later(self, seconds: float, fn: Callable[[], object]) -> object:
        return self.loop.call_at(self.loop.now() + seconds, fn)

    def run(self) -> None:
        """Serve until `stop()`."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.loop.on_signal(number, self.stop)
        if not isinstance(self.store, FileStore):
            self.store.start()
        self.cards.sender.start()
        self.hub.start()
        self.line.start()
        self._write_ledger()
        self.loop.run()

    def _write_ledger(self) -> None:
        self._ledger.flush()
        self._later(LEDGER_SECONDS, self._write_ledger)

    def stop(self) -> None:
        """Take no more taps, send the machines elsewhere, then end."""
        log("the gateway stops")
        self.line.close()
        self.machines.close()
        self.control.close()
        self.hub.close()
        self._later(DRAIN_SECONDS, self.loop.stop)

    def close(self) -> None:
        """Give everything back."""
        self.machines.close()
        self.machines.close_all()
        self.control.close()
        self.cards.sender.close()
        self.store.close()
        self._ledger.flush()
        self.loop.close()


def _tell_port(is_secure: bool, port: int) -> None:
    scheme = "https" if is_secure else "http"
    log(f"feishuperm {__version__} gateway listens on {scheme} port {port}")
    if not is_secure:
        log("plain HTTP: put a proxy with TLS in front of it", "warning")
