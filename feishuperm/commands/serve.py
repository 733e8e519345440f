"""`serve`: the server, in the foreground.  Wires the parts together and waits.

Everything it will ever need is imported here and now: the archive may be replaced by
an upgrade while it runs, and a later import would read the new file.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from feishuperm import __version__
from feishuperm.app.api import app_of, dial_feishu
from feishuperm.app.store import lock_app
from feishuperm.channels.app import AppChannel, CardStore, People, no_page
from feishuperm.channels.base import (
    AbsentChannel,
    ApprovalsPort,
    BareApprovals,
    BareSessions,
    Channel,
    SessionsPort,
    bare_ask,
    bare_panel,
)
from feishuperm.channels.gateway import GatewayChannel, dial_gateway
from feishuperm.channels.inbox import InboxChannel
from feishuperm.channels.webhook import WebhookChannel
from feishuperm.errors import FileError
from feishuperm.handlers.access import Gate
from feishuperm.handlers.callback import Callback, Share
from feishuperm.handlers.permission import Control, PermissionHandler
from feishuperm.lib import (
    enrolment,
    secret_finders,  # noqa: F401 - see above
)
from feishuperm.lib import log as logging
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import (
    load_settings,
    policy_in_force,
    policy_problem,
    state_dir,
)
from feishuperm.lib.files import guard_dir
from feishuperm.lib.log import log, report
from feishuperm.lib.post import dial, post_json
from feishuperm.lib.process_tree import SessionProcesses
from feishuperm.lib.program import self_command
from feishuperm.messages import message_of, msg
from feishuperm.models.panel import Panel
from feishuperm.models.settings import BY_KEY, Settings, host_is_local, url_host, url_of
from feishuperm.server.listen import (
    HookAcceptor,
    HttpAcceptor,
    listen_http,
    listen_unix,
)
from feishuperm.server.loop import Loop, caps, raise_file_limit
from feishuperm.server.machine import MachineLine
from feishuperm.server.outgoing import Link
from feishuperm.services.approvals import Approvals
from feishuperm.services.chat_commands import ChatCommands
from feishuperm.services.ledger import Ledger
from feishuperm.services.limits import Limits
from feishuperm.services.notices import Notices
from feishuperm.services.notifier import Notifier
from feishuperm.services.presenter import Presenter, load_tables
from feishuperm.services.progress import Progress
from feishuperm.services.quiet import quiet_hours
from feishuperm.services.rule_writer import RuleWriter
from feishuperm.services.sessions import Panels, Sessions
from feishuperm.services.starts import Starts
from feishuperm.services.web_access import Links, LoginTokens, WebSessions, load_key

T = TypeVar("T")
DRAIN_SECONDS = 2.0  # for last answers and cards, when the server stops
HANDOVER_SECONDS = 0.5  # for last answers: hooks wait for the next server meanwhile


def main(args: list[str]) -> int:
    """Serve until a signal or a control command ends it."""
    ArgumentParser("serve").parse_args(args)
    settings = load_settings()
    logging.obey(settings, stderr=True)
    if policy_problem():
        log(policy_problem(), "error")
    guard_dir(state_dir())
    load_tables(settings.feishuperm_lang)
    server = Server(settings)
    try:
        server.run()
    finally:
        server.close()
    if server.starts_again:
        command = self_command("serve")
        os.execv(command[0], command)
    return 0


class Server:
    """Every part of a running server, made and wired in the order it reads."""

    def __init__(self, settings: Settings) -> None:
        most_hooks, most_browsers = caps(raise_file_limit())
        unix = listen_unix(settings.permission_socket_path)
        try:
            http = listen_http(settings.http_hosts(), settings.callback_server_port)
        except Exception:
            unix.close()
            raise
        self.loop = Loop(on_error=report)
        self.starts_again = False  # in this very process and terminal
        self.app_lock: object = None  # kept for as long as this server lives
        self.url = public_url(settings, http.port)
        self.links = Links(
            self.url, load_key(os.path.join(state_dir(), "key")), settings.signs_links()
        )
        self.inbox = InboxChannel(lambda full: self.callback.event(full), self._later)
        self.settings = settings
        self.channels: list[Channel] = []
        self.notifier = Notifier(
            self.channels,
            settings.feishuperm_notify,
            self._later,
            self.inbox.refresh,
            settings.titles_only(),
            quiet_hours(settings),
        )
        self.ledger = Ledger()
        self.approvals = self._make_approvals(settings)
        clients, tickets = SessionProcesses(), LoginTokens()
        language = settings.feishuperm_lang
        self.sessions = Sessions(
            in_thread=self._in_thread, is_gone=clients.is_gone, language=language
        )
        self.panels = self._make_panels()
        surfaces = settings.surfaces()
        self.channels += [
            make(self, settings) for name, make in CHANNELS.items() if name in surfaces
        ]
        notices = Notices(
            self.notifier.notify,
            settings.feishuperm_notify,
            complete=self._limits.complete,
        )
        control = self._make_control(tickets, clients, notices, http.port)
        self.callback = self._make_callback(settings, tickets, clients, control)
        handler = PermissionHandler(
            self.approvals,
            *(notices, control.reply_to, clients, self.sessions, self.progress),
        )
        self.hooks = HookAcceptor(
            self.loop, unix, handler.on_frame, handler.on_close, most_hooks
        )
        self.browsers = HttpAcceptor(
            self.loop, http, self.callback.on_request, most_browsers
        )
        self._announce_start(settings, http.port)

    def _make_approvals(self, settings: Settings) -> Approvals:
        """The approvals, with what they need to say, to show and to write."""
        rule_writer = RuleWriter()
        approvals = Approvals(
            settings,
            Presenter(settings, rule_writer),
            self.notifier,
            rule_writer,
            self.ledger,
            self.loop,
            in_thread=self._in_thread,
        )
        approvals.remember()
        return approvals

    def _make_panels(self) -> Panels:
        """What answers the chat's commands about sessions."""
        panels = Panels(self._show_panel)
        self.progress = Progress(
            self.settings,
            self.sessions,
            self.approvals,
            self.loop,
            panels.show,
            self._in_thread,
        )
        panels.serve(self.sessions)
        panels.serve(self.progress)
        self._starts = Starts(
            self.settings,
            self.sessions,
            self.ledger,
            self.approvals.record,
            panels.show,
            self._in_thread,
        )
        language = self.settings.feishuperm_lang
        self._limits = Limits(
            self._starts, self.approvals, panels.show, self._later, language
        )
        grants = self.settings.feishuperm_gateway_grants == "on"
        panels.serve(ChatCommands(self.port(), language, grants))
        panels.serve(self._starts)
        panels.serve(self._limits)
        return panels

    def _show_panel(self, channel: str, panel: Panel) -> None:
        """A panel looks different now, in the channel that has shown it."""
        shown = bare_panel(panel) if self.settings.titles_only() else panel
        for row in self.channels:
            if row.name == channel:
                row.change(shown)

    def _make_control(
        self,
        tickets: LoginTokens,
        clients: SessionProcesses,
        notices: Notices,
        port: int,
    ) -> Control:
        """What answers commands, and knows what stays as it is while we run."""
        return Control(
            self.approvals,
            self.links,
            tickets,
            clients,
            notices,
            self.sessions,
            {
                "started": time.time(),
                "http": self.url,
                "listens": url_of(self.settings.http_host() or "127.0.0.1", port),
                "socket": self.settings.permission_socket_path,
                "remote": self._starts.facts(),
                "policy": policy_in_force(),
            },
            self.stop,
            self.hand_over,
        )

    def _make_callback(
        self,
        settings: Settings,
        tickets: LoginTokens,
        clients: SessionProcesses,
        control: Control,
    ) -> Callback:
        """What answers browsers, behind its gate."""
        sessions = WebSessions(os.path.join(state_dir(), "sessions.json"), self.url)
        return Callback(
            self.approvals,
            Gate(self.url, sessions, clients),
            self.links,
            tickets,
            self.inbox,
            settings,
            lambda: control.status({}),
            Share(settings),
            self._later,
        )

    def port(self) -> ApprovalsPort:
        """The approvals for a channel that leaves this machine."""
        if self.settings.titles_only():
            return BareApprovals(self.approvals, self.settings.feishuperm_lang)
        return self.approvals

    def sessions_port(self) -> SessionsPort:
        """The sessions for a channel that leaves this machine."""
        if self.settings.titles_only():
            return BareSessions(self.panels, self.settings.feishuperm_lang)
        return self.panels

    def _in_thread(self, work: Callable[[], T], then: Callable[[T], object]) -> None:
        """Do slow work with values of its own, then something on the loop."""

        def run() -> None:
            result = work()
            self.loop.call_soon_threadsafe(lambda: then(result))

        threading.Thread(target=run, name="work", daemon=True).start()

    def page_for_a_phone(self) -> Callable[[str], str]:
        """The address of a request's page, where a phone can open it."""
        if host_is_local(url_host(self.url)):
            return no_page
        return partial(self.links.url, "/request")

    def _later(self, seconds: float, fn: Callable[[], None]) -> object:
        return self.loop.call_at(self.loop.now() + seconds, fn)

    def _announce_start(self, settings: Settings, port: int) -> None:
        """Say where it listens, and what a person will trip over."""
        hosts = " and ".join(settings.http_hosts())
        log(
            f"feishuperm {__version__} serves hooks on"
            f" {settings.permission_socket_path} and browsers on {hosts} port {port};"
            f" buttons point to {self.url}"
        )
        # Only a group bot's buttons are links; the app and a gateway need no address.
        if "webhook" in settings.surfaces() and settings.url_is_local():
            log(
                f"a phone cannot open {self.url}: set CALLBACK_SERVER_URL to an address"
                " of this machine that the phone can reach (its Wi-Fi address, a"
                " tunnel, a public name); until then the buttons work only here",
                "warning",
            )

    def run(self) -> None:
        """Serve until `stop()`."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.loop.on_signal(number, self.stop)
        for channel in self.channels:
            channel.start()
        self.hooks.keep_bound(partial(log, level="warning"))
        self.loop.run()

    def stop(self) -> None:
        """Release pending requests, then end as soon as their hooks know."""
        released = self.approvals.close()
        log(f"stops; {released} waiting requests go back to their terminals")
        self._freeze_panels()
        self.hooks.close()
        self.browsers.close()
        self._drain(self.loop.now() + DRAIN_SECONDS)

    def _freeze_panels(self) -> None:
        """What a panel shows is not true any more: its own part says so first."""
        for channel in self.channels:
            channel.stopping()

    def hand_over(self, starts_again: bool) -> int:
        """End without deciding anything; hooks come back to the next server.

        What is closed without a verdict means "again" to a hook.
        """
        self.starts_again = starts_again
        waiting = self.approvals.hand_over()
        log(f"stops; {waiting} waiting requests are left to the next server")
        self._freeze_panels()
        self.hooks.close()
        self.browsers.close()
        self._later(0.0, self._let_go)  # after the answer to the process that asked
        return waiting

    def _let_go(self) -> None:
        self.hooks.close_all()
        self.browsers.close_all()
        self._drain(self.loop.now() + HANDOVER_SECONDS)

    def _drain(self, until: float) -> None:
        busy = self.hooks.connections or any(c.busy() for c in self.channels)
        if not busy or self.loop.now() >= until:
            self.loop.stop()
        else:
            self._later(0.02, lambda: self._drain(until))

    def close(self) -> None:
        """Give everything back."""
        self.hooks.close()
        self.browsers.close()
        self.browsers.close_all()
        for channel in self.channels:
            channel.close()
        self.approvals.write_ledger()
        self.loop.close()


def _webhook(server: Server, settings: Settings) -> WebhookChannel:
    return WebhookChannel(
        settings.feishu_webhook_url,
        settings.feishu_webhook_secret,
        server.links.url,
        server.loop.call_soon_threadsafe,
        settings.feishuperm_lang,
        settings.feishu_at,
        post=partial(post_json, ca_file=settings.feishuperm_ca_file),
    )


def _app(server: Server, settings: Settings) -> AppChannel:
    people = People(*settings.app_people())
    files = os.path.join(state_dir(), settings.feishu_app_id)
    server.app_lock = lock_app(files + ".lock")
    api = app_of(settings)
    connect = partial(dial, ca_file=settings.feishuperm_ca_file)
    return AppChannel(
        api,
        people,
        server.port(),
        server.sessions_port(),
        CardStore(files + ".cards", *([bare_ask] if settings.titles_only() else ())),
        partial(Link, server.loop, partial(dial_feishu, api, connect)),
        server.loop.call_soon_threadsafe,
        server._later,
        settings.feishuperm_lang,
        settings.feishu_urgent == "app",
        page=server.page_for_a_phone(),
    )


def _gateway(server: Server, settings: Settings) -> Channel:
    url, problem = settings.feishuperm_gateway, ""
    try:
        own = enrolment.find(url)
    except FileError as error:
        own, problem = None, message_of(error)
    if own is None:
        # The other channels work, and so does the terminal.
        problem = problem or msg("this machine has not joined {}", url)
        log(f"the gateway cannot be used: {problem}", "error")
        return AbsentChannel("gateway", problem)
    dialling = partial(
        dial_gateway, own.url, partial(dial, ca_file=settings.feishuperm_ca_file)
    )
    return GatewayChannel(
        own,
        server.port(),
        server.sessions_port(),
        partial(MachineLine, server.loop, dialling),
        server._later,
        enrolment.save,
        settings.feishuperm_lang,
        settings.feishuperm_gateway_grants == "on",
    )


# Where requests are shown and answered, by their names among the surfaces.
CHANNELS: dict[str, Callable[[Server, Settings], Channel]] = {
    "inbox": lambda server, settings: server.inbox,
    "app": _app,
    "webhook": _webhook,
    "gateway": _gateway,
}


def public_url(settings: Settings, port: int) -> str:
    """What the buttons point to: as set, or to where this machine listens.

    A free port (0) is only known once it is taken.
    """
    default = settings.callback_server_url == BY_KEY["CALLBACK_SERVER_URL"].default
    if default or (settings.callback_server_port == 0 and settings.url_is_local()):
        return f"http://localhost:{port}"
    return settings.callback_server_url
