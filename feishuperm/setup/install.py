"""One run of `install`: which steps there are, their order, and the server's restart.

What a step changes and how it is undone is the step's business; what is asked on a
terminal is `questions`'.  Everything that can be refused is refused before the first
change, and the server that runs is ended last, for one that starts at once.
"""

from __future__ import annotations

import difflib
import os
import shlex
import stat
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from feishuperm import __version__
from feishuperm.agents.table import AGENTS
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.lib import feishu, language
from feishuperm.lib.config import claude_dir, claude_settings, config_path, home
from feishuperm.lib.program import archive_path
from feishuperm.lib.terminal import can_ask, complain, say, warn
from feishuperm.messages import msg, word
from feishuperm.models.hooks import HOOK_EVENTS
from feishuperm.models.kind import KINDS
from feishuperm.models.names import HOOK_PROGRAM, SUPERVISOR_PROGRAM
from feishuperm.models.settings import Settings
from feishuperm.setup import agents, plugin
from feishuperm.setup import claude_settings as claude
from feishuperm.setup import service as server
from feishuperm.setup.checks import BOT_OPTIONS, send_hello
from feishuperm.setup.feishu_setup import (
    BOT,
    SECONDS,
    AppSetup,
    Questions,
    WantedConfig,
    remote_settings,
    tell_out_of_reach,
)
from feishuperm.setup.status import inbox_link
from feishuperm.setup.steps import (
    ConfigStep,
    FilesStep,
    Manifest,
    ProgramStep,
    Record,
    Step,
    interpreter,
    modified,
    own_commands,
)
from feishuperm.supervisor.switch import CAP_VARIABLE, slash_commands, wanted_cap
from feishuperm.wire import PLUGIN


class Install:
    """One run of the command."""

    def __init__(self, options: Namespace, environ: Mapping[str, str]) -> None:
        self.options = options
        self.environ = environ
        self.manifest = Manifest(environ)
        self.config = WantedConfig(options, environ)
        # Before the first install there is no server yet: one on the shared default
        # socket is somebody's own and stays.
        self.socket = ""  # where the running server was met; empty: where it should
        named = self.config.has("PERMISSION_SOCKET_PATH")
        self.status = server.running_status() if named else None
        recorded = self.manifest.record("service").get("socket", "")
        if self.status is None and recorded:
            self.socket, self.status = recorded, server.running_status(recorded)
        self.app = AppSetup(self.config, self.manifest, options, self.command)
        self.questions = Questions(self.config, self.app, self.own_port)
        self.mode = options.permission_mode or ""
        self.places = agents.places(self.manifest)
        self.wanted = agents.names(options.agents)
        self.changed: set[str] = set()  # names of steps
        self.status_after: dict[str, Any] = {}
        self.started = False  # a server, in this run

    def rehearse(self) -> int:
        """Say what would be changed, and change nothing."""
        changes = {step.name: step.changes() for step in self.steps()}
        for rows in changes.values():
            for row in rows:
                say("would {}", row)
        if not self.options.no_service and self.status is None:
            say("would start the server")
        elif not self.options.no_service and self.server_notices(changes):
            say("would restart the server")
        if not any(changes.values()):
            say("nothing to change")
        return 0

    def run(self) -> int:
        """Change what has to be changed, and tell how it went."""
        self.ask()
        steps = self.steps()
        changes = {step.name: step.changes() for step in steps}  # may refuse, in time
        self.changed = {name for name, rows in changes.items() if rows}
        # An install that died after the scan has an app which nobody has tried.
        tries_app = self.app.is_new or (self.app.is_set and self.is_first())
        self.try_bot()
        service = self.apply(steps, changes)
        for rows in changes.values():
            for row in rows:
                say("  {}", row)
        for step in steps:
            if isinstance(step, FilesStep):
                step.tell_kept()
        self.conclude(bool(self.changed), service)
        if tries_app and service is not None:
            self.try_app()
        self.tell(service)
        return 0

    # The person.

    def ask(self) -> None:
        """On a terminal, ask for what nothing else says."""
        remote = remote_settings(self.options, self.config, self.environ)
        self.config.new.update(remote)
        if self.options.rescan:
            self.app.rescan()
        if self.options.no_input or not can_ask():
            return
        self.take_language()
        place, mode, wait = self.open_questions()
        found = self.agents_to_offer()
        if found and place and mode and wait:  # three questions are enough
            self.questions.take_wait()
            wait = False
        self.questions.ask(place, mode, wait, [each.row.name for each in found])
        self.mode = self.mode or self.questions.mode
        if self.questions.wants_agents:
            self.wanted = [each.row.word for each in found]

    def take_language(self) -> None:
        """Speak as the locale does, from the first install on."""
        named = language.of_locale(self.environ)
        if named and self.is_first() and not self.config.has(language.KEY):
            self.config.new[language.KEY] = named
            say("language: English, from your locale (--lang zh changes it)")

    def agents_to_offer(self) -> list[agents.Place]:
        """Agents that are here, and that nobody has said anything about."""
        options = self.options
        if options.agents or not (options.setup or self.is_first()):
            return []
        gone = agents.names(options.no_agents)
        return [
            each
            for each in self.places
            if each.row.word not in gone and not each.record() and not each.absence()
        ]

    def open_questions(self) -> tuple[bool, bool, bool]:
        """Whether to ask where requests go, what Claude Code asks, and how long."""
        options, has = self.options, self.config.has
        if not options.setup and not self.is_first():
            return False, False, False  # a later run only does what it is told
        has_place = self.app.is_set or has(BOT[0])
        has_mode = options.no_hooks or self.mode or options.ask_list
        has_wait = options.wait or has(SECONDS)
        return (
            bool(options.setup or not has_place),
            bool(not has_mode and self.needs_mode()),
            bool(options.setup or not has_wait),
        )

    def is_first(self) -> bool:
        """Whether this is the first install here, or the one before died early."""
        return not self.manifest.record("program")

    def try_app(self) -> None:
        """Look at a new app, and wait for a tap."""
        settings = self.config.settings()
        if "app" in settings.surfaces():
            socket = settings.permission_socket_path
            self.app.verify(socket)
            if not self.options.no_input and can_ask():
                self.app.await_tap(socket, settings.permission_request_timeout)

    def try_bot(self) -> None:
        """Without a person, a bot that does not answer is told and kept.

        One that Feishu refuses must not take the place of one that works. Raises
        FeishupermError.
        """
        if not self.config.has_new_bot() or self.questions.bot.tried:
            return
        tell_out_of_reach(self.config)
        result = send_hello(self.config.settings())
        if result.code in (feishu.BAD_SIGN, feishu.NO_SUCH_BOT):
            problem = msg(
                "Feishu rejects this bot; nothing was changed: {}", result.message
            )
            raise FeishupermError(
                problem, msg("to retry with a different secret: {}", BOT_OPTIONS)
            )
        if not result.ok:
            warn("Feishu did not accept the test card: {}", result.message)
            again = f"{self.command()} test-card"
            warn("the bot is saved anyway; once that is fixed: {}", again)

    def tell(self, service: server.Service | None) -> None:
        """Where the inbox is, what is odd, and what to do now."""
        program = self.command()
        if service is not None:
            say("inbox: {}", inbox_link())
            if service.kind == "background" or "linger" in service.keeps:
                say("note: {}", service.keeps)
        for note in self.notes():
            say("note: {}", note)
        reaches_phone = bool(self.config.settings().surfaces() - {"inbox"})
        if not self.options.no_hooks:
            say(self.what_now(reaches_phone), program=program)
        trial = "test-card" if reaches_phone else "demo"
        say(
            "to try it: {program} {trial}; if something is wrong: {program} doctor",
            program=program,
            trial=trial,
        )
        folder = os.path.dirname(self.link("feishuperm"))
        if folder not in self.environ.get("PATH", "").split(os.pathsep):
            say("hint: {}", f'export PATH={shlex.quote(folder)}:"$PATH"')

    def what_now(self, reaches_phone: bool) -> str:
        """The one thing to do next, and what happens then."""
        if self.needs_mode() and not claude.rules_of(
            claude.settings_text(self.settings_path())
        ):
            return msg(
                "Now start a new claude session. In auto mode it rarely asks; to be "
                "asked before\n"
                "it pushes, publishes or deletes: {program} install --ask-list"
            )
        if not reaches_phone:
            return msg(
                "Now open the inbox and start a new claude session. Its requests "
                "appear\n"
                "in the inbox. "
                "To get them on your phone: {program} install --setup"
            )
        return msg(
            "Now start a new claude session. When it wants to push, publish or delete, "
            "a card\n"
            "comes to your phone."
        )

    def notes(self) -> Iterator[str]:
        """What does not do what the person who installs may think it does."""
        settings = self.config.settings()
        pushed = settings.feishuperm_notify
        there = (kind for kind in self.kinds_there() if kind in KINDS)
        silent = ",".join(kind for kind in there if kind not in pushed)
        if silent:
            yield msg("add {} to FEISHUPERM_NOTIFY to get cards for them too", silent)
        for place in self.places:
            is_new = place.step_name in self.changed and place.record()
            if is_new and place.how.reviews:
                yield msg(
                    "{} will ask to review the hook when it starts: choose to trust it",
                    place.row.name,
                )
        if self.uses_plugin():
            yield msg("the plugin {} asks; nothing is registered twice", plugin.ID)
        if self.config.has_new_bot() and "webhook" not in settings.surfaces():
            yield msg("FEISHUPERM_SURFACES does not list webhook: the bot gets nothing")

    def conclude(self, changed: bool, service: server.Service | None) -> None:
        """What was done, and what runs now."""
        running = ""
        if service is not None:
            kind, pid = word(service.kind), self.status_after["pid"]
            running = msg(" and running ({}, pid {})", kind, pid)
        if changed:
            done = msg("feishuperm {} is installed{}", __version__, running)
        elif self.started:
            done = msg("feishuperm {} is started again{}", __version__, running)
        else:
            done = msg("feishuperm {} is up to date{}", __version__, running)
        say(done)

    # The steps.

    def steps(self) -> list[Step]:
        """Everything this run is about, in order. Raises for a bad setting."""
        options, manifest = self.options, self.manifest
        self.config.complete(self.own_port(), serves=not options.no_service)
        settings = self.config.settings()
        python, note = interpreter()
        if note:
            warn(note)
        source, prefix = archive_path(), self.prefix()
        steps: list[Step] = [ProgramStep(manifest, source, prefix, python)]
        if not options.no_hooks:
            steps += [self.claude_step(settings), *self.other_claude_steps()]
            if options.supervisor or options.no_supervisor:
                texts = slash_commands(self.hook_command("feishuperm"))
                folder = os.path.join(claude_dir(self.environ), "commands")
                files = {os.path.join(folder, x): texts[x].encode() for x in texts}
                given = files if options.supervisor else {}
                steps.append(FilesStep(manifest, "commands", given))
        steps += self.agent_steps(settings)
        if manifest.record(PLUGIN):
            steps.append(plugin.step(manifest, self.link(HOOK_PROGRAM), settings))
        steps.append(ConfigStep(manifest, self.config.new))
        if not options.no_service:
            socket = settings.permission_socket_path
            steps.append(server.ServiceStep(manifest, self.service(), socket))
        return steps

    def agent_steps(self, settings: Settings) -> Iterator[Step]:
        """Other agents that are named, or were; nothing for one that is not here."""
        gone, link = agents.names(self.options.no_agents), self.link(HOOK_PROGRAM)
        exactly = bool(self.options.wait) or self.questions.waits
        for place in self.places:
            is_wanted, absence = place.row.word in self.wanted, place.absence()
            if place.row.word in gone:
                yield place.removal()
            elif is_wanted and absence:
                warn(absence)
            elif is_wanted or (place.record() and os.path.isdir(place.folder)):
                step = place.step(link, settings, exactly)
                try:
                    step.changes()
                except FeishupermError as error:
                    if is_wanted:
                        raise
                    complain(error)  # which must not keep an upgrade away
                else:
                    yield step

    def claude_step(self, settings: Settings) -> claude.ClaudeStep:
        options, cap = self.options, ("env", CAP_VARIABLE)
        needs_cap = wanted_cap(settings.supervisor_max_iterations)
        gone = event_names(options.no_events)
        if options.no_supervisor:
            gone.append(SUPERVISOR_PROGRAM)
        return claude.ClaudeStep(
            self.manifest,
            self.settings_path(),
            self.hooks(settings),
            values={claude.DEFAULT_MODE: self.mode} if self.mode else {},
            absent={cap: needs_cap} if options.supervisor else {},
            rules=claude.RULES if options.ask_list or self.questions.wants_list else (),
            away=gone,
            away_values=(cap,) if options.no_supervisor else (),
            away_rules=options.no_ask_list,
            brief=self.questions.wants_list,
        )

    def hooks(self, settings: Settings) -> list[tuple[claude.Registration, str]]:
        """The entries for Claude Code's settings, with their commands."""
        events = event_names(self.options.events)
        rows = claude.registrations(
            settings.permission_request_timeout + settings.permission_hold,
            dict.fromkeys([*events, *self.kinds_there()]),
            self.options.supervisor,
            settings.supervisor_timeout,
            settings.supervisor_stop_timeout,
            exactly=bool(self.options.wait) or self.questions.waits,
        )
        record = self.manifest.record(f"settings:{self.settings_path()}")
        # The permission hook is the first.
        rows = rows[1:] if self.uses_plugin() else rows
        return self.with_commands(rows, record, self.options.shared)

    def uses_plugin(self) -> bool:
        """Whether Claude Code's plugin asks, and its settings do not."""
        user = claude_settings("", self.environ)["userSettings"]
        texts = [claude.settings_text(path) for path in (user, self.settings_path())]
        asks = any(x.event == "PermissionRequest" for x in claude.find_hooks(texts[1]))
        return bool(self.manifest.record(PLUGIN)) and plugin.is_enabled(texts) > asks

    def kinds_there(self) -> list[str]:
        """The kinds that an earlier install has registered: they wait as long."""
        record = self.manifest.record(f"settings:{self.settings_path()}")
        own = own_commands(self.manifest.record("program"))
        rows = claude.written_hooks(record, own) if record else []
        gone = event_names(self.options.no_events)
        there = dict.fromkeys(row.kind for row in rows if row.kind)
        return [kind for kind in there if kind not in gone]

    def other_claude_steps(self) -> Iterator[Step]:
        """Other files with our hooks, which have to name a program that moves."""
        own = own_commands(self.manifest.record("program"))
        for name, record in self.manifest.records.items():
            path = record.get("path", "")
            if name != f"settings:{path}" or path == self.settings_path():
                continue
            hooks = self.with_commands(claude.written_hooks(record, own), record)
            if (
                hooks and hooks[0][0].kind not in AGENTS
            ):  # those have steps of their own
                yield claude.ClaudeStep(self.manifest, path, hooks)

    def with_commands(
        self, rows: Iterable[claude.Registration], record: Record, shared: bool = False
    ) -> list[tuple[claude.Registration, str]]:
        """The rows and what each runs; in a shared file, also without the program."""
        written = record.get("commands", [])
        shared = shared or any(
            claude.unguarded(command) != command for command in written
        )
        command = claude.guarded if shared else self.hook_command
        return [(row, command(row.program, row.kind)) for row in rows]

    def service(self) -> server.Service:
        """How to keep the server running. Raises where that cannot work."""
        program = self.link("feishuperm")
        if not self.options.service:
            return server.choose_service(program, self.environ)
        service = server.SERVICE_MANAGERS[self.options.service](program, self.environ)
        service.must_work()
        return service

    # The server.

    def apply(
        self, steps: list[Step], changes: dict[str, list[str]]
    ) -> server.Service | None:
        """Make the changes; the server is restarted only for those it must notice."""
        noticed = self.server_notices(changes)
        before = self.manifest.record("service")
        for step in steps:
            if not isinstance(step, server.ServiceStep):
                step.apply()
                continue
            try:
                self.start(step, noticed or self.status is None)
            except FeishupermError:
                self.bring_back(before)
                raise
            return step.service
        return None

    def start(self, step: server.ServiceStep, restart: bool) -> None:
        """Let the server of before give way to the new one."""
        if restart and self.status is not None:
            waiting = server.hand_over(self.socket)
            if waiting:
                say("  {}", waiting)
        step.apply()
        if restart:
            self.started = True
            step.service.start()
        self.status_after = server.wait_until_running()

    def bring_back(self, record: Record) -> None:
        """Let the server of before run again, since the new one does not come."""
        if not record or self.status is None or server.running_status() is not None:
            return
        service = server.recorded_service(record, self.environ)
        if not os.path.exists(service.program):  # it has moved
            service = server.SERVICE_MANAGERS[service.kind](
                self.link("feishuperm"), self.environ
            )
        try:
            server.ServiceStep(self.manifest, service, record["socket"]).apply()
            service.start()
            server.wait_until_running()
        except FeishupermError as error:
            warn("the previous server does not start either: {}", error)
        else:
            warn("the previous server runs again ({})", service.kind)

    def server_notices(self, changes: dict[str, list[str]]) -> bool:
        """Whether a running server has to start again for these changes.

        What Feishu says of an app is asked by a server that has just started.
        """
        kinds = (ProgramStep.name, ConfigStep.name, server.ServiceStep.name)
        changed = any(changes.get(name) for name in kinds)
        return changed or self.is_stale() or self.app.is_new

    def is_stale(self) -> bool:
        """Whether the running server has to start again though no step changes a thing.

        It read an older config.env or archive, or others may write to its socket.
        """
        if self.status is None:
            return False
        started = float(self.status["started"])
        archive = self.manifest.record("program").get("archive", "")
        if max(modified(config_path(self.environ)), modified(archive)) > started:
            return True
        try:
            mode = os.stat(self.status.get("socket", "")).st_mode
        except OSError:
            return False
        return stat.S_IMODE(mode) != 0o600  # which our server gives it

    def own_port(self) -> int:
        """The port the server of the earlier install listens on, 0 without one."""
        if self.status is not None:
            return server.port_of(self.status)
        program = self.manifest.record("service").get("program", "")
        is_stuck = server.is_server(server.background_pid(self.environ), program)
        return Settings(self.config.old).callback_server_port if is_stuck else 0

    # Places.

    def prefix(self) -> str:
        if self.options.prefix:
            return absolute(str(self.options.prefix))
        prefix = self.manifest.record("program").get("prefix")
        return str(prefix or os.path.join(home(self.environ), ".local"))

    def link(self, name: str) -> str:
        return os.path.join(self.prefix(), "bin", name)

    def hook_command(self, name: str, kind: str = "") -> str:
        """A link as `sh -c` reads it, and what it is called for alone, if anything."""
        return f"{shlex.quote(self.link(name))} {kind}".rstrip()

    def command(self) -> str:
        """How a person calls us from this shell."""
        link = self.link("feishuperm")
        folders = self.environ.get("PATH", "").split(os.pathsep)
        return "feishuperm" if os.path.dirname(link) in folders else shlex.quote(link)

    def settings_path(self) -> str:
        paths = claude_settings("", self.environ)
        if not self.options.project:
            return absolute(paths["userSettings"])
        shared = absolute(paths["projectSettings"])
        # Hooks in the shared file stay there: in both, a request would be asked twice.
        if self.options.shared or f"settings:{shared}" in self.manifest.records:
            return shared
        return absolute(paths["localSettings"])

    def needs_mode(self) -> bool:
        """Whether interactive sessions would start in a mode that asks rarely."""
        return claude.permission_mode(self.settings_path()) in ("", "auto")


def absolute(path: str) -> str:
    """A path from the root on. Raises FeishupermError without a current folder."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise FeishupermError(
            msg("the current folder no longer exists"),
            msg("cd to another one and retry"),
        ) from None


def event_names(given: str) -> list[str]:
    """The events of a comma list. Raises UsageError for one Claude Code never sends."""
    names = [name.strip() for name in given.split(",") if name.strip()]
    events = (*claude.KIND_EVENTS, *HOOK_EVENTS)
    for name in names:
        if name not in events:
            near = difflib.get_close_matches(name, events, 1)
            hint = msg("did you mean {}?", near[0]) if near else ", ".join(events)
            raise UsageError(msg("--events: unknown hook event {!r}", name), hint)
    return names
