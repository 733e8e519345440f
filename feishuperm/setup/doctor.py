"""Every hop from hook to phone, checked one by one: one row of `CHECKS` per check.

A check is a function that yields what it found: `ok`, `warn` or `fail`, one sentence,
and the command that repairs it.  It changes nothing, but a group bot gets a test card,
since nothing else proves that Feishu takes cards.  Facts that several checks need are
kept on the `DoctorContext`.
"""

from __future__ import annotations

import difflib
import email.utils
import os
import re
import shlex
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from feishuperm import __version__
from feishuperm.app.api import app_of
from feishuperm.app.health import FAIL, OK, WARN, Finding, fail, ok, warn
from feishuperm.errors import FeishupermError, FileError, SettingError, UsageError
from feishuperm.lib import claude_client, config, enrolment, feishu, program
from feishuperm.lib import settings_editor as editor
from feishuperm.lib.control import NotRunningError
from feishuperm.lib.display import one_line, pad
from feishuperm.lib.files import read_bytes
from feishuperm.lib.language import translate
from feishuperm.lib.post import Reply, post_json
from feishuperm.lib.process_tree import has_address
from feishuperm.messages import message_of, msg, word
from feishuperm.models.fields import decoded, part_at
from feishuperm.models.names import DOCTOR_ANSWER, DOCTOR_TOOL
from feishuperm.models.settings import BY_KEY, LOOPBACK, Settings, parse_setting, url_of
from feishuperm.services.ledger import Ledger
from feishuperm.services.ledger_check import READ, check
from feishuperm.services.quiet import quiet_hours
from feishuperm.services.starts import real_folder
from feishuperm.setup import agents, checks, plugin
from feishuperm.setup import claude_settings as claude
from feishuperm.setup import service as server
from feishuperm.setup.checks import edit
from feishuperm.setup.status import read_gateway, settled_status
from feishuperm.setup.steps import (
    MAX_ARCHIVE,
    Manifest,
    digest,
    hook_link,
    modified,
    pin_path,
)
from feishuperm.tables import sections

INSTALL, RESTART = "feishuperm install", "feishuperm restart"
REINSTALL = msg("./install.sh in the clone, or: curl https://HOST/install.sh | sh")
# `install` would take a changed file for the right one, so it is not named before that.
FILE_FIRST = msg("repair the file first, see the line `file`")
OWN_COMMAND = re.compile(r"(?<![\w/.-])feishuperm (?=[a-z])")
ASK_ADMINISTRATOR = msg("ask the administrator of this machine: feishuperm help team")
NO_SERVER = msg("not checked: the server is not running")


class DoctorContext:
    """One machine, one user, one project."""

    def __init__(self, environ: Mapping[str, str], project: str) -> None:
        self.environ = environ
        self.project = project
        self.manifest = Manifest(environ)
        self.settings: Settings = config.load_settings(environ, lenient=True)
        self.config = config.config_path(environ)
        self.status: dict[str, Any] | None = None
        self.date = ""  # of Feishu's answer
        self.texts: dict[str, str] = {}  # Claude Code's settings, by path
        record = self.manifest.record("program")
        self.archive = str(record.get("archive", ""))
        data = read_bytes(self.archive, MAX_ARCHIVE) or b""
        self.intact = not record or digest(data) == record["sha256"]
        link = next(iter(record.get("links", [])), "")
        self.program = program.typed_command(link, environ)

    def note_date(self, reply: Reply) -> Reply:
        self.date = reply.headers.get("date", "")
        return reply

    def channel(self, name: str) -> dict[str, Any]:
        """What the running server says of a channel; empty if it has none."""
        rows = (self.status or {}).get("channels", ())
        return next((row for row in rows if row["name"] == name), {})

    def settings_paths(self) -> list[str]:
        """The files Claude Code reads, the strongest last."""
        paths = config.claude_settings(self.project, self.environ).values()
        return list(dict.fromkeys(paths))  # at home, the first two are one

    def register(self, path: str) -> str:
        """What writes feishuperm's hook again to a settings file of Claude Code."""
        if path == self.settings_paths()[0]:
            return INSTALL
        shared = " --shared" if path.endswith(config.SHARED_SETTINGS) else ""
        return f"cd {shlex.quote(self.project)} && {INSTALL} --project{shared}"

    def typed(self, fix: str) -> str:
        """A fix as this user types it, unless the file that would run is not right."""
        if not self.intact and OWN_COMMAND.search(fix):
            return FILE_FIRST
        return OWN_COMMAND.sub(lambda _: f"{self.program} ", fix)


def words(error: Exception) -> str:
    """An error as a person reads it, without its number."""
    said, path = message_of(error), getattr(error, "filename", None)
    return msg("{}: {}", path, said) if path else said


# The program, its settings and its records.


OUR_KEYS = ("FEISHU", "CALLBACK_", "PERMISSION_", "SUPERVISOR_")
IS_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 9))"


def check_python(here: DoctorContext) -> Iterator[Finding]:
    path = pin_path(here.environ)
    data = read_bytes(path)
    if data is None:
        yield warn(msg("no Python is pinned: the hook uses the one in PATH"), INSTALL)
        return
    python = os.fsdecode(data).rstrip("\n")
    if server.run_quietly([python, "-I", "-S", "-c", IS_NEW_ENOUGH]) == 0:
        yield ok(python)
    else:
        # By the Python this runs on: the pinned one would be the one to start it.
        fix = shlex.join(program.self_command("install")) if here.intact else FILE_FIRST
        text = msg("{}, named in {}, does not run or is too old", python, path)
        yield fail(text, fix)


def check_file(here: DoctorContext) -> Iterator[Finding]:
    record = here.manifest.record("program")
    if not record:
        yield warn(msg("not installed: this file runs by itself"), INSTALL)
        return
    if not here.intact:
        yield fail(
            msg("{} has changed since it was installed", here.archive), REINSTALL
        )
        return
    for link in record["links"]:
        if os.path.realpath(link) != os.path.realpath(here.archive):
            yield fail(msg("{} does not lead to {}", link, here.archive), INSTALL)
    yield ok(msg("{}, version {}", here.archive, __version__))


def check_config(here: DoctorContext) -> Iterator[Finding]:
    try:
        found = config.sources(here.environ)
    except UsageError as error:
        yield fail(message_of(error), edit(here.config))
        return
    problem = config.policy_problem()
    if problem:
        policy = shlex.quote(config.policy_path())
        yield fail(problem, f"chown root {policy}; chmod go-w {policy}")
    for source, values in found:
        is_environment = values is here.environ
        path = here.config if source == "config.env" else source
        for key, setting in BY_KEY.items():
            try:
                parse_setting(setting, values.get(key, ""))
            except SettingError as error:
                if is_environment:
                    yield fail(msg("in the environment, {}", error), f"unset {key}")
                else:
                    line = config.find_key(path, key)
                    yield fail(msg("{}, line {}: {}", path, line, error), edit(path))
        if not is_environment:
            yield from unknown_keys(path, values)
    path = here.config
    if not os.path.exists(path):
        yield ok(msg("no config.env: environment and defaults are used"))
    elif os.stat(path).st_mode & 0o077:
        fix = f"chmod 600 {shlex.quote(path)}"
        yield warn(msg("{} can be read by others", path), fix)
    else:
        yield ok(path)


def unknown_keys(path: str, values: Mapping[str, str]) -> Iterator[Finding]:
    """What looks like a setting and is none."""
    for key in values:
        if key.startswith(OUR_KEYS) and key not in BY_KEY:
            near = difflib.get_close_matches(key, BY_KEY, 1, 0.0)[0]
            line = config.find_key(path, key)
            text = msg("{}, line {}: unknown setting {}", path, line, key)
            yield warn(text, edit(path, msg("did you mean {}?", near)))


def check_together(here: DoctorContext) -> Iterator[Finding]:
    """Values that are fine alone and not together."""
    settings, path = here.settings, here.config
    url = settings.callback_server_url
    if not settings.url_is_local() and settings.callback_link_signing == "off":
        text = msg(
            "anyone who can reach {} may answer for you: CALLBACK_LINK_SIGNING is off",
            url,
        )
        yield fail(text, edit(path, "CALLBACK_LINK_SIGNING=on"))
    if not settings.url_is_local() and settings.callback_confirm == "off":
        text = msg(
            "opening a link to {} decides at once, even for a link preview: "
            "CALLBACK_CONFIRM is off",
            url,
        )
        yield warn(text, edit(path, "CALLBACK_CONFIRM=auto"))
    delay, wait = settings.permission_notify_delay, settings.permission_request_timeout
    if delay >= wait:
        text = msg(
            "cards are sent after {} s, but requests end after {} s", delay, wait
        )
        yield fail(text, edit(path, "PERMISSION_NOTIFY_DELAY"))
    named = settings.feishuperm_surfaces
    missing = named - settings.possible_surfaces()
    for surface in sorted(missing):
        alone = msg("; nothing can show a request") if named == missing else ""
        text = msg(
            "FEISHUPERM_SURFACES names {}, which is not set up{}", surface, alone
        )
        yield Finding(FAIL if alone else WARN, text, edit(path, "FEISHUPERM_SURFACES"))
    yield ok(msg("settings are consistent"))


def check_state(here: DoctorContext) -> Iterator[Finding]:
    """Anyone who can write to the folder of keys and records could replace them."""
    yield private(
        config.state_dir(here.environ), 0o022, "XDG_STATE_HOME", "chmod 700 {}"
    )


def private(path: str, mask: int, key: str, repair: str) -> Finding:
    """Whether a path belongs to this user, and others have none of these rights."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return ok(msg("{}, not there yet", path))
    if found.st_uid != os.geteuid():
        text = msg("{} belongs to user {}", path, found.st_uid)
        return fail(text, msg("set {} to a path that is yours", key))
    if found.st_mode & mask:
        fix = repair.format(shlex.quote(path))
        return fail(msg("{} is open to others", path), fix)
    return ok(msg("{}, yours alone", path))


def check_ledger(here: DoctorContext) -> Iterator[Finding]:
    """Whether the record of decisions is intact."""
    ledger = Ledger(environ=here.environ)
    report = check(ledger, most=READ)
    problems = [*report.problems, *report.missing]
    if problems:
        text = msg("{}: problems found: {}", ledger.path, len(problems))
        yield fail(text, "feishuperm log verify")
    else:
        count = msg("the last {}", report.total) if report.part else report.total
        yield ok(msg("{}: {} entries, intact", ledger.path, count))


# Claude Code's settings: do they parse, is our hook in them, does Claude ask.


# Mode -> how much Claude Code asks about in it, and what.
MODES = {
    mode: (kind, msg(said))
    for kind, lines in sections("setup/modes.txt").items()
    for mode, _, said in (line.partition(" = ") for line in lines)
}


def check_settings(here: DoctorContext) -> Iterator[Finding]:
    paths = here.settings_paths()
    for path in paths:
        try:
            here.texts[path] = editor.decode(read_bytes(path) or b"")
        except editor.SettingsError as error:
            text = msg("{}: {}; Claude Code ignores the whole file", path, error)
            yield fail(text, edit(path))
    if len(here.texts) == len(paths):
        yield ok(", ".join(filter(os.path.exists, paths)) or msg("none yet"))


def permission_hooks(texts: Mapping[str, str]) -> list[tuple[str, claude.Hook]]:
    """Each of our hooks that asks for permission, and the file it is in."""
    return [
        (path, hook)
        for path, text in texts.items()
        for hook in claude.find_hooks(text)
        if hook.event == "PermissionRequest"
    ]


def check_hooks(here: DoctorContext) -> Iterator[Finding]:
    own = permission_hooks(here.texts)
    for path, content in here.texts.items():
        if editor.get_value(content, ("disableAllHooks",)) is True:
            text = msg("{} disables all hooks", path)
            yield fail(text, edit(path, msg("remove disableAllHooks")))
    managed = yield from check_managed()
    uses_plugin = plugin.is_enabled(here.texts.values())
    if uses_plugin:
        yield check_plugin(here, bool(own or managed))
    elif not own and not managed:
        text = msg("Claude Code has no PermissionRequest hook of feishuperm")
        yield fail(text, INSTALL)
    for path, hook in own:
        yield check_hook(here, path, hook)
    # Claude Code runs equal commands once; of two files the user's own stays.
    places = {hook.entry["command"]: path for path, hook in reversed(own)}
    for path in list(places.values())[::-1][1:]:
        text = msg("{} has feishuperm's hook too: each request asks twice", path)
        yield warn(text, edit(path, msg("remove feishuperm-hook")))
    yield from check_sessions(here)


def check_sessions(here: DoctorContext) -> Iterator[Finding]:
    """Whether all is told that `install --events session` registers."""
    kinds: dict[str, set[str]] = {}
    for text in here.texts.values():
        for hook in claude.find_hooks(text):
            kind = claude.kind_in(hook.entry["command"])
            kinds.setdefault(kind, set()).add(hook.event)
    heard = set[str]().union(*(kinds[kind] for kind in kinds if kind))
    missing = [row[0] for row in claude.KIND_EVENTS["session"] if row[0] not in heard]
    if "session" in kinds and missing:
        text = msg("sessions are followed, but for {}", ", ".join(missing))
        yield warn(text, "feishuperm install --events session")
    elif "session" in kinds:
        yield ok(msg("sessions are followed: list, progress and stop"))


def check_plugin(here: DoctorContext, is_idle: bool) -> Finding:
    """Whether the plugin of Claude Code's asks; settings that ask go before it."""
    step = plugin.step(here.manifest, hook_link(here.manifest), here.settings)
    if step.changes() or step.kept():
        text = msg("the files of the plugin {} are not as they should be", plugin.ID)
        return fail(text, f"feishuperm plugin; {INSTALL}")
    if not is_idle:
        return ok(msg("the plugin {} asks", plugin.ID))
    how = plugin.REMOVE
    return ok(msg("the plugin {} is silent: settings ask; {}", plugin.ID, how))


def check_agents(here: DoctorContext) -> Iterator[Finding]:
    """Other agents that are here, and those that are registered."""
    for place in agents.places(here.manifest):
        yield from agents.findings(place, here.settings, partial(check_hook, here))
    yield from agents.copies(here.environ)


def check_managed() -> Generator[Finding, None, bool]:
    """What the administrator's settings of Claude Code mean; whether our hook is there.

    They are not this user's to change, and users' hooks may not run beside them.
    """
    found: dict[str, str] = {}
    for path in config.managed_settings():
        try:
            found[path] = editor.decode(read_bytes(path) or b"{}")
        except editor.SettingsError as error:
            yield warn(msg("{}: {}", path, error), ASK_ADMINISTRATOR)
    hooks = [path for path, _ in permission_hooks(found)]
    for path, text in found.items():
        if editor.get_value(text, ("disableAllHooks",)) is True:
            yield fail(msg("{} disables all hooks", path), ASK_ADMINISTRATOR)
        only = editor.get_value(text, ("allowManagedHooksOnly",)) is True
        if only and not hooks:
            text = msg("{} lets only its own hooks run (allowManagedHooksOnly)", path)
            yield fail(text, ASK_ADMINISTRATOR)
    for path in hooks:
        yield ok(msg("{}, for everybody on this machine", path))
    return bool(hooks)


def check_hook(here: DoctorContext, path: str, hook: claude.Hook) -> Finding:
    """One entry: can it run, does it wait long enough, for every tool."""
    least = here.settings.permission_request_timeout + claude.HOOK_SLACK
    read = least + here.settings.permission_hold  # while somebody is reading
    missing = claude.missing_program(str(hook.entry["command"]), here.environ)
    timeout = hook.entry.get("timeout", 600.0)
    if missing:
        text = msg("{} names {}, which cannot run", path, missing)
        return fail(text, here.register(path))
    if not isinstance(timeout, float) or timeout < read:
        text = msg("{}: the hook's timeout must be at least {} s", path, read)
        is_short = not isinstance(timeout, float) or timeout < least
        return Finding(FAIL if is_short else WARN, text, here.register(path))
    if hook.matcher not in claude.EVERY_TOOL:
        text = msg("{}: the hook only asks for {!r}", path, hook.matcher)
        return warn(text, edit(path))
    return ok(msg("{}, timeout {:g} s", path, timeout))


def check_mode(here: DoctorContext) -> Iterator[Finding]:
    mode, fix = "auto", "feishuperm install --ask-list"
    rules = [rule for text in here.texts.values() for rule in claude.rules_of(text)]
    for number, (path, text) in enumerate(here.texts.items()):
        value = editor.get_value(text, claude.DEFAULT_MODE)
        if isinstance(value, str):
            mode = value
            if number:  # a project's wins over the user's, which `install` sets
                fix = edit(path, "permissions.defaultMode")
    kind, text = MODES.get(mode, MODES["default"])
    if kind == "asks little" and not (mode == "auto" and rules):
        yield warn(text, fix)
    elif rules:
        yield ok(msg("{}; also what permissions.ask names ({})", text, len(rules)))
    else:
        yield ok(text)
    if here.environ.get("TERM_PROGRAM") == "vscode":
        text = msg(
            "some versions of the VS Code extension run no PermissionRequest hooks"
        )
        yield warn(text, msg("if no card comes, run claude in a terminal"))


def asks_enough(here: DoctorContext) -> bool:
    """Whether sessions start in a mode in which cards come."""
    list(check_settings(here))  # reads them
    return all(result.state == OK for result in check_mode(here))


# The server: does it run, where does it listen; a request there and back.


LOOP_SECONDS = 20.0


def check_server(here: DoctorContext) -> Iterator[Finding]:
    try:
        here.status = settled_status()
    except NotRunningError as error:
        pid = server.background_pid(here.environ)
        link = here.manifest.record("service").get("program", "-")
        if server.is_server(pid, link):
            yield fail(msg("{}, though process {} is there", error, pid), RESTART)
        else:
            yield fail(message_of(error), INSTALL)
        return
    version = here.status["version"]
    if version != __version__:
        text = msg("the server runs version {}, the file is {}", version, __version__)
        yield fail(text, RESTART)
    elif modified(here.archive) > float(here.status["started"]):
        text = msg("the server started before the file was replaced")
        yield fail(text, RESTART)
    else:
        yield ok(msg("version {}, pid {}", version, here.status["pid"]))


def check_socket(here: DoctorContext) -> Iterator[Finding]:
    path = here.settings.permission_socket_path
    if here.status is not None and os.path.exists(path):
        yield private(path, 0o077, "PERMISSION_SOCKET_PATH", RESTART)
    elif here.status is not None:
        yield fail(msg("{} is gone", path), RESTART)
    elif os.path.lexists(path):
        yield warn(msg("{} is left over from a server that stopped", path), INSTALL)
    else:
        yield warn(NO_SERVER, INSTALL)


def check_http(here: DoctorContext) -> Iterator[Finding]:
    """The address of the buttons, and both loopback families.

    A browser may try either, and another user could listen on a free one.
    """
    if here.status is None:
        yield warn(NO_SERVER, INSTALL)
        return
    url, fix = here.status["http"], f"{INSTALL} --callback-url URL"
    yield check_place(url, fix, fix)
    port = server.port_of(here.status)
    for host in here.settings.http_hosts() if port else ():
        if host in LOOPBACK and has_address(host):  # a machine may lack a family
            place = url_of(host, port)
            if place != url:
                yield check_place(place, f"{INSTALL} --port N", RESTART)
    if here.settings.feishu_webhook_url and here.settings.url_is_local():
        text = msg("a phone cannot open {}; it works on this machine only", url)
        yield warn(text, fix)


def check_place(url: str, taken: str, silent: str) -> Finding:
    """Whether our server answers there; what repairs another's, and silence."""
    try:
        code, body = server.fetch(f"{url}/healthz", timeout=5.0)
    except OSError as error:
        return fail(msg("{} does not answer: {}", url, words(error)), silent)
    answer = part_at(decoded(body))
    if code == 200 and answer.get("ok") is True and "version" in answer:
        return ok(msg("{} answers", url))
    return fail(msg("another program answers at {}", url), taken)


def check_loop(here: DoctorContext) -> Iterator[Finding]:
    """A request there and back; the server settles the doctor's own tool at once."""
    if here.status is None:
        yield fail(NO_SERVER, INSTALL)
        return
    event = program.permission_event(DOCTOR_TOOL, {}, here.project, here.environ)
    command = program.self_command("hook")
    for _, hook in permission_hooks(here.texts)[:1]:  # as Claude Code runs it
        command = ["/bin/sh", "-c", str(hook.entry["command"])]
    output = program.hook_output(
        program.start_hook(event, here.environ, command), LOOP_SECONDS
    )
    if DOCTOR_ANSWER in output:
        yield ok(msg("a request went from hook to server and back"))
    elif output:
        yield fail(msg("the hook printed {!r}", output), INSTALL)
    else:
        yield fail(msg("the hook got no answer from the server"), INSTALL)


# Feishu: whatever of it is set up.


BOT_SETTINGS = (11242, 19007, 19022, 19024)  # codes that only the group's owner repairs
SIGN_SKEW = 3600  # Feishu refuses signatures that are older, or as much too new
SMALL_SKEW = 60
SET_CLOCKS = msg("set the clocks of both machines")


def check_feishu(here: DoctorContext) -> Iterator[Finding]:
    settings = here.settings
    used, possible = settings.surfaces(), settings.possible_surfaces()
    fix = edit(here.config, "FEISHUPERM_SURFACES")
    for name in sorted(possible - used - {"inbox"}):
        yield warn(msg("FEISHUPERM_SURFACES leaves out {}", checks.BOTS[name]), fix)
    if settings.feishu_app_id and "app" not in possible - used:
        api = app_of(settings, here.note_date)
        fix = edit(here.config, "FEISHU_APP_ID, FEISHU_APP_SECRET")
        if here.status is not None and not here.channel("app"):
            yield fail(msg("the server does not use the app yet"), RESTART)
        yield from checks.app_findings(settings, api, here.status, fix)
    if "webhook" in used:
        if quiet_hours(settings).until():
            yield ok(checks.QUIET_NOW)
        yield check_bot(here)
    if used == {"gateway", "inbox"}:
        yield ok(msg("cards come through the gateway: this machine needs no app"))
    if not possible - {"inbox"} and not settings.feishu_app_id:
        text = msg("neither an app nor a group bot: only the inbox shows requests")
        yield warn(text, "feishuperm install --setup")


def check_bot(here: DoctorContext) -> Finding:
    ca_file = here.settings.feishuperm_ca_file
    result = checks.send_hello(
        here.settings,
        lambda url, body: here.note_date(post_json(url, body, ca_file=ca_file)),
    )
    if result.ok:
        return ok(msg("the group bot accepted a test card"))
    text = msg("the group bot did not accept a test card: {}", result.message)
    if result.code in BOT_SETTINGS:
        return fail(text, msg("change the bot's settings in the Feishu group"))
    if result.retry and result.code != feishu.NO_ANSWER:
        return fail(text, msg("in a minute: {}", "feishuperm doctor"))
    signs = result.code == feishu.BAD_SIGN
    key = "FEISHU_WEBHOOK_SECRET" if signs else "FEISHU_WEBHOOK_URL"
    if here.environ.get(key):  # it wins over whatever `install` keeps
        return fail(text, msg("correct it in the environment: {}", key))
    return fail(text, f"{INSTALL} {'--secret TEXT' if signs else checks.BOT_OPTIONS}")


def check_clock(here: DoctorContext) -> Iterator[Finding]:
    try:
        there = email.utils.parsedate_to_datetime(here.date).timestamp()
    except (TypeError, ValueError):
        yield ok(msg("not checked: Feishu did not answer"))
        return
    skew = round(time.time() - there)
    state = FAIL if abs(skew) >= SIGN_SKEW else WARN if abs(skew) >= SMALL_SKEW else OK
    text = msg("{:+d} s compared with Feishu", skew)
    yield Finding(state, text, msg("set the clock: timedatectl set-ntp true"))


def check_gateway(here: DoctorContext) -> Iterator[Finding]:
    """The one that this machine has joined, and the one that runs here."""
    if "gateway" in here.settings.surfaces():
        yield check_joined(here, here.settings.feishuperm_gateway)
    gateway = read_gateway(here.environ)
    if gateway is None:
        return
    for name in ("app", "engine"):
        if gateway[name]["state"] != "up":
            detail = gateway[name]["detail"] or msg("not connected")
            text = msg("{} is down: {}", word(name), detail)
            yield fail(text, "feishuperm status")
    if gateway.get("clock"):
        yield warn(gateway["clock"], msg("set the clock of this machine"))
    if gateway["problem"]:
        yield fail(gateway["problem"], msg("set FEISHUPERM_ENGINE"))
    else:
        yield ok(msg("machines connected: {}", gateway["machines"]))


def check_joined(here: DoctorContext, url: str) -> Finding:
    """Whether taps can come from the gateway: joined, revoked or away."""
    join = f"feishuperm join {url}"
    try:
        own = enrolment.find(url, here.environ)
    except FileError as error:
        return fail(message_of(error), join)
    if own is None:
        return fail(msg("this machine has not joined {}", url), join)
    if here.status is None:
        return warn(NO_SERVER, INSTALL)
    row = here.channel("gateway")
    if not row or row.get("url", url) != url:
        return fail(msg("the server does not use the gateway yet"), RESTART)
    finding = checks.channel_finding({**row, "url": url})
    if finding.state != OK:
        return finding
    if row.get("detail"):
        return warn(row["detail"], SET_CLOCKS)
    return ok(msg("connected to {} as {}", url, own.name))


def check_remote(here: DoctorContext) -> Iterator[Finding]:
    """Whether owners may start sessions from the chat, and what they would meet."""
    remote = (here.status or {}).get("remote")
    if not remote:
        is_on = here.settings.feishuperm_remote == "on"
        off = ok(msg("off: nobody starts sessions from the chat"))
        yield fail(NO_SERVER, RESTART) if is_on else off
        return
    places = edit(here.config, "FEISHUPERM_PROJECTS")
    for folder in remote["projects"]:
        yield check_project(folder, remote["projects"], here, places)
    if not remote["projects"]:
        yield warn(msg("on, but FEISHUPERM_PROJECTS names no folder"), places)
    environ = {**here.environ, "PATH": remote["path"]}
    help_text = claude_client.run(["--help"], "/", environ)
    version = one_line(claude_client.run(["--version"], "/", environ).strip(), 100)
    if "--bg" not in help_text:
        yield fail(msg("{}: {}", version, claude_client.TOO_OLD), "claude update")
    else:
        yield ok(msg("starts {}", version))
    if not (remote["has_key"] or claude_client.has_key(here.environ)):
        yield warn(claude_client.NO_KEY, "feishuperm help sessions")


def check_project(
    folder: str, projects: list[str], here: DoctorContext, fix: str
) -> Finding:
    """Whether a session could be started in a folder."""
    try:
        real = real_folder(folder, tuple(projects))
        mode = claude_client.folder_mode(real, here.environ)
    except FeishupermError as error:
        return warn(message_of(error), fix)
    if not claude_client.trusts(folder, here.environ):
        text = msg("Claude Code does not trust {} yet", folder)
        return warn(text, f"cd {shlex.quote(folder)} && claude")
    return ok(msg("sessions may be started in {} ({})", folder, mode or "default"))


# The examination.


CHECKS: dict[str, Callable[[DoctorContext], Iterator[Finding]]] = {
    "python": check_python,
    "file": check_file,
    "config": check_config,
    "settings": check_together,
    "state": check_state,
    "ledger": check_ledger,
    msg("claude settings"): check_settings,
    "hooks": check_hooks,
    msg("agents"): check_agents,
    msg("permission mode"): check_mode,
    "server": check_server,
    "socket": check_socket,
    "http": check_http,
    "feishu": check_feishu,
    "clock": check_clock,
    "loop": check_loop,
    "gateway": check_gateway,
    "remote": check_remote,
}
WIDTH = max(map(len, CHECKS))
LONGEST = 2000  # characters of a text; an answer from outside may be endless


class Row(NamedTuple):
    """A finding and the check it is of, as `--json` shows it."""

    check: str
    state: str
    text: str
    fix: str = ""

    def line(self, typed: Callable[[str], str] = str) -> str:
        """The same, as a person reads it; `typed` is how this user types commands."""
        state, check = (
            pad(translate(word(name)), width)
            for name, width in ((self.state, 4), (self.check, WIDTH))
        )
        said = f"{state}  {check}  {one_line(translate(self.text), LONGEST)}"
        fix = one_line(translate(typed(translate(self.fix))), LONGEST)
        return f"{said}  -> {fix}" if fix else said


def examine(here: DoctorContext) -> Iterator[Row]:
    """Run every check, in the order of the hops."""
    for name, run in CHECKS.items():
        try:
            findings = list(run(here))
        except (FeishupermError, OSError) as error:
            fix = getattr(error, "hint", "") or INSTALL
            findings = [fail(words(error), fix)]
        for state, text, fix in findings:
            yield Row(name, state, text, "" if state == OK else fix)
