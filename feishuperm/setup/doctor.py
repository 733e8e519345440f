"""Every hop from hook to phone, checked one by one: one row of `CHECKS` per check.

A check looks at one thing and says ok, warn or fail, what it saw, and the command that
repairs it.  It changes nothing.
"""

from __future__ import annotations

import difflib
import errno
import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from feishuperm import __version__
from feishuperm.errors import FeishupermError, FileError, SettingError, UsageError
from feishuperm.lib import enrolment
from feishuperm.lib import settings_editor as editor
from feishuperm.lib.config import config_path, find_key, read_config, state_dir
from feishuperm.lib.control import NotRunningError, ask_server
from feishuperm.lib.display import one_line
from feishuperm.lib.files import read_bytes
from feishuperm.lib.language import translate
from feishuperm.lib.program import (
    hook_output,
    permission_event,
    self_command,
    start_hook,
)
from feishuperm.messages import message_of, msg, word
from feishuperm.models.fields import decoded, part_at
from feishuperm.models.names import DOCTOR_ANSWER, DOCTOR_TOOL
from feishuperm.models.settings import BY_KEY, LOOPBACK, parse_setting
from feishuperm.services.history import pad
from feishuperm.services.ledger import Ledger
from feishuperm.services.ledger_check import READ, check
from feishuperm.setup.checks import (
    FAIL,
    FILE_FIRST,
    OK,
    WARN,
    DoctorContext,
    Result,
    check_clock,
    check_feishu,
    edit,
    words,
)
from feishuperm.setup.claude_settings import (
    DEFAULT_MODE,
    HOOK_SLACK,
    Hook,
    find_hooks,
    rules_of,
    unguarded,
)
from feishuperm.setup.service import background_pid, fetch, is_server, port_of
from feishuperm.setup.status import read_gateway
from feishuperm.setup.steps import modified, pin_path

REINSTALL = msg("./install.sh in the clone, or: curl https://HOST/install.sh | sh")
OUR_KEYS = ("FEISHU", "CALLBACK_", "PERMISSION_", "SUPERVISOR_")
VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"


def check_python(here: DoctorContext) -> Iterator[Result]:
    path = pin_path(here.environ)
    data = read_bytes(path)
    if data is None:
        text = msg("no Python is pinned; the hook takes the one in PATH")
        yield Result(WARN, text, here.install())
        return
    python = os.fsdecode(data).rstrip("\n")
    # By the Python this runs on: the pinned one would be the one to start it.
    fix = shlex.join(self_command("install")) if here.intact else FILE_FIRST
    version = output_of([python, "-I", "-S", "-c", VERSION])
    if not version:
        yield Result(FAIL, msg("{}, named in {}, does not run", python, path), fix)
    elif tuple(map(int, version.split("."))) < (3, 9):
        yield Result(FAIL, msg("{} is {}, too old", python, version), fix)
    else:
        yield Result(OK, f"{python}, {version}")


def check_file(here: DoctorContext) -> Iterator[Result]:
    record = here.manifest.record("program")
    if not record:
        text = msg("not installed; this is a file that runs by itself")
        yield Result(WARN, text, here.install())
        return
    if not here.intact:
        yield Result(
            FAIL, msg("{} is not as it was installed", here.archive), REINSTALL
        )
        return
    for link in record["links"]:
        if os.path.realpath(link) != os.path.realpath(here.archive):
            text = msg("{} does not lead to {}", link, here.archive)
            yield Result(FAIL, text, here.install())
    yield Result(OK, msg("{}, version {}", here.archive, __version__))


def check_config(here: DoctorContext) -> Iterator[Result]:
    path = config_path(here.environ)
    quoted = shlex.quote(path)
    if os.path.isdir(path):
        text = msg("{} is a folder, not a file", path)
        yield Result(FAIL, text, f"mv {quoted} {quoted}.old")
        return
    try:
        values = read_config(path)
    except UsageError as error:
        yield Result(FAIL, message_of(error), edit(path))
        return
    yield from bad_values(here, path, values)
    yield from unknown_keys(path, values)
    try:
        mode = os.stat(path).st_mode
    except OSError:
        yield Result(OK, msg("no config.env; environment and defaults"))
        return
    if stat.S_IMODE(mode) & 0o077:
        yield Result(WARN, msg("{} can be read by others", path), f"chmod 600 {quoted}")
    yield Result(OK, path)


def bad_values(
    here: DoctorContext, path: str, values: Mapping[str, str]
) -> Iterator[Result]:
    """Every value that is not allowed, and where it stands."""
    for key, setting in BY_KEY.items():
        given = here.environ.get(key)
        try:
            parse_setting(setting, given or values.get(key, ""))
        except SettingError as error:
            if given:
                yield Result(FAIL, msg("in the environment, {}", error), f"unset {key}")
            else:
                text = msg("{}, line {}: {}", path, find_key(path, key), error)
                yield Result(FAIL, text, edit(path))


def unknown_keys(path: str, values: Mapping[str, str]) -> Iterator[Result]:
    """Keys that look like ours and are not."""
    for key in values:
        if key.startswith(OUR_KEYS) and key not in BY_KEY:
            near = difflib.get_close_matches(key, BY_KEY, 1, 0.0)[0]
            text = msg("{}, line {}: {} is no setting", path, find_key(path, key), key)
            yield Result(WARN, text, edit(path, msg("did you mean {}?", near)))


def check_together(here: DoctorContext) -> Iterator[Result]:
    """Values that are fine alone and not together."""
    settings = here.settings
    path = config_path(here.environ)
    url = settings.callback_server_url
    if not settings.url_is_local() and settings.callback_link_signing == "off":
        text = msg(
            "who can reach {} may answer for you: CALLBACK_LINK_SIGNING is off", url
        )
        yield Result(FAIL, text, edit(path, "CALLBACK_LINK_SIGNING=on"))
    if not settings.url_is_local() and settings.callback_confirm == "off":
        text = msg("whatever opens a link to {} decides: CALLBACK_CONFIRM is off", url)
        yield Result(WARN, text, edit(path, "CALLBACK_CONFIRM=auto"))
    delay, wait = settings.permission_notify_delay, settings.permission_request_timeout
    if delay >= wait:
        text = msg(
            "cards come after {} s, but the wait is over after {} s", delay, wait
        )
        yield Result(FAIL, text, edit(path, "PERMISSION_NOTIFY_DELAY"))
    yield from surfaces_without(here, path)
    yield Result(OK, msg("the settings fit together"))


def surfaces_without(here: DoctorContext, path: str) -> Iterator[Result]:
    """Surfaces that are named and not set up; with no other, nobody can answer."""
    named = here.settings.feishuperm_surfaces
    missing = named - here.settings.possible_surfaces()
    for surface in sorted(missing):
        alone = msg("; nothing can show a request") if named == missing else ""
        text = msg(
            "FEISHUPERM_SURFACES names {}, which is not set up{}", surface, alone
        )
        state = FAIL if alone else WARN
        yield Result(state, text, edit(path, "FEISHUPERM_SURFACES"))


def check_state(here: DoctorContext) -> Iterator[Result]:
    """Who can write to the folder of our keys and records could replace them."""
    path = state_dir(here.environ)
    try:
        folder = os.stat(path)
    except FileNotFoundError:
        yield Result(OK, msg("{}, not there yet", path))
        return
    if folder.st_uid != os.geteuid():
        text = msg("{} belongs to user {}", path, folder.st_uid)
        yield Result(FAIL, text, msg("set XDG_STATE_HOME to a folder of your own"))
    elif folder.st_mode & 0o022:
        fix = f"chmod 700 {shlex.quote(path)}"
        yield Result(FAIL, msg("others can write to {}", path), fix)
    else:
        yield Result(OK, msg("{}, this user's alone to write to", path))


def check_ledger(here: DoctorContext) -> Iterator[Result]:
    """Whether the record of decisions is whole."""
    ledger = Ledger(environ=here.environ)
    report = check(ledger, most=READ)
    if not report.sound():
        report = check(ledger)  # which names the lines
    problems = [*report.problems, *report.missing]
    if problems:
        text = f"{ledger.path}: {problems[0]}"
        if len(problems) > 1:
            text = msg("{}, and {} more", text, len(problems) - 1)
        yield Result(FAIL, text, msg("see all: {}", here.command("log verify")))
    elif report.part:
        text = msg("{}, {} entries, is whole at its end", ledger.path, report.total)
        yield Result(OK, text)
    else:
        yield Result(OK, msg("{}, {} entries, is whole", ledger.path, report.total))


def output_of(command: list[str]) -> str:
    """What a command prints, empty when it fails."""
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return "" if result.returncode else result.stdout.decode().strip()


# Claude Code's settings: do they parse, is our hook in them, does Claude ask.


NEVER_ASK = ("auto", "dontAsk", "bypassPermissions")
# What Claude Code asks about in each mode a session can start in.
ASKS = {
    "default": msg("asks about every call that no rule allows"),
    "acceptEdits": msg("asks about commands, not about edits in the project"),
    "plan": msg("asks when a plan is ready, and about what reading needs"),
    "auto": msg(
        "asks questions, and after three calls in a row that it refused itself"
    ),
    "dontAsk": msg("asks nothing, and refuses what no rule allows"),
    "bypassPermissions": msg("asks nothing, and lets everything run"),
}


def check_settings(here: DoctorContext) -> Iterator[Result]:
    paths = here.settings_paths()
    for path in paths:
        try:
            here.texts[path] = editor.decode(read_bytes(path) or b"")
        except editor.SettingsError as error:
            text = msg("{}: {}; Claude Code ignores the whole file", path, error)
            yield Result(FAIL, text, edit(path))
    if len(here.texts) == len(paths):
        yield Result(OK, ", ".join(filter(os.path.exists, paths)) or msg("none yet"))


def permission_hooks(here: DoctorContext) -> list[tuple[str, Hook]]:
    """Each of our hooks that asks for permission, and the file it is in."""
    return [
        (path, hook)
        for path, text in here.texts.items()
        for hook in find_hooks(text)
        if hook.event == "PermissionRequest"
    ]


def check_hooks(here: DoctorContext) -> Iterator[Result]:
    own = permission_hooks(here)
    if not own:
        text = msg("no PermissionRequest hook of ours in Claude Code")
        yield Result(FAIL, text, here.install())
    for path, hook in own:
        yield check_hook(here, path, hook)
    paths = [path for path, _ in own]
    for path in dict.fromkeys(paths):
        if paths.count(path) > 1:
            text = msg("{} has our hook more than once", path)
            yield Result(WARN, text, here.register(path))
    # Claude Code runs equal commands once; of two files the user's own stays.
    places = {hook.entry["command"]: path for path, hook in reversed(own)}
    paths = [path for path in dict.fromkeys(paths) if path in places.values()]
    for path in paths[1:]:
        text = msg("{} has our hook too: each request asks twice", path)
        yield Result(WARN, text, edit(path, msg("remove feishuperm-hook")))


def check_hook(here: DoctorContext, path: str, hook: Hook) -> Result:
    """One entry: can it run, does it wait long enough, for every tool."""
    wait = here.settings.permission_request_timeout
    hold = here.settings.permission_hold
    missing = missing_program(str(hook.entry["command"]), here.environ)
    timeout = hook.entry.get("timeout", 600.0)
    if missing:
        text = msg("{} names {}, which cannot run", path, missing)
        return Result(FAIL, text, here.register(path))
    if not isinstance(timeout, float) or timeout < wait + HOOK_SLACK:
        text = msg(
            "{}: its timeout is not {} s above the wait of {} s", path, HOOK_SLACK, wait
        )
        return Result(FAIL, text, here.register(path))
    if timeout < wait + hold + HOOK_SLACK:
        text = msg(
            "{}: its timeout of {:g} s ends a request that somebody reads: it is "
            "not {} s above the wait of {} s and the hold of {} s",
            path,
            timeout,
            HOOK_SLACK,
            wait,
            hold,
        )
        return Result(WARN, text, here.register(path))
    if hook.matcher not in ("", "*", ".*"):
        return Result(
            WARN, msg("{}: only asked for {!r}", path, hook.matcher), edit(path)
        )
    return Result(OK, msg("{}, timeout {:g} s", path, timeout))


def check_enabled(here: DoctorContext) -> Iterator[Result]:
    for path, text in here.texts.items():
        if editor.get_value(text, ("disableAllHooks",)) is True:
            yield Result(
                FAIL,
                msg("{} sets disableAllHooks", path),
                msg("remove it from {}", path),
            )
            return
    yield Result(OK, msg("hooks are not disabled"))


def check_mode(here: DoctorContext) -> Iterator[Result]:
    mode, fix = "auto", here.install("--ask-list")
    rules = [rule for text in here.texts.values() for rule in rules_of(text)]
    for number, (path, text) in enumerate(here.texts.items()):
        value = editor.get_value(text, DEFAULT_MODE)
        if isinstance(value, str):
            mode = value
            if number:  # a project's wins over the user's, which `install` sets
                fix = edit(path, "permissions.defaultMode")
    if mode in NEVER_ASK and not (mode == "auto" and rules):
        yield Result(WARN, msg("{}: {}", mode, ASKS[mode]), fix)
    else:
        text = msg("{}: {}", mode, ASKS.get(mode, ASKS["default"]))
        if rules:
            text = msg("{}; also what permissions.ask names ({})", text, len(rules))
        yield Result(OK, text)
    if here.environ.get("TERM_PROGRAM") == "vscode":
        text = msg(
            "some versions of the VS Code extension run no PermissionRequest hooks"
        )
        yield Result(WARN, text, msg("run claude in a terminal if no card comes"))


def asks_enough(here: DoctorContext) -> bool:
    """Whether sessions start in a mode in which cards come."""
    for _ in check_settings(here):
        pass
    return all(result.state == OK for result in check_mode(here))


def missing_program(command: str, environ: Mapping[str, str]) -> str:
    """The program a hook command starts, if it is not there; empty if it is."""
    words = shlex.split(unguarded(command))
    path = environ.get("PATH", os.defpath)
    while "=" in words[0].partition("/")[0]:
        name, _, value = words.pop(0).partition("=")
        path = value if name == "PATH" else path
    program = words[0].replace("$HOME", environ.get("HOME", ""))
    if program.startswith("~/"):
        program = environ.get("HOME", "") + program[1:]
    return "" if shutil.which(program, path=path) else program


# The server: does it run, where does it listen; a request there and back.


LOOP_SECONDS = 20.0
# Words of `server.machine_line` for what only a new enrolment repairs.
REFUSALS = ("revoked", "refuses")
SET_CLOCKS = msg("set the clocks of both machines")
ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)


def check_gateway(here: DoctorContext) -> Iterator[Result]:
    """The one that this machine has joined, and the one that runs here."""
    url = here.settings.feishuperm_gateway
    if url:
        yield check_joined(here, url)
    gateway = read_gateway(here.environ)
    if gateway is None:
        if not url:
            yield Result(OK, msg("none runs here, and none is needed"))
        return
    for name in ("app", "engine"):
        if gateway[name]["state"] != "up":
            detail = gateway[name]["detail"] or msg("not connected")
            yield Result(FAIL, msg("{} is down: {}", name, detail), "feishuperm status")
    if gateway.get("clock"):
        yield Result(WARN, gateway["clock"], msg("set the clock of this machine"))
    if gateway["problem"]:
        yield Result(FAIL, gateway["problem"], msg("set FEISHUPERM_ENGINE"))
    else:
        yield Result(OK, msg("{} machines connected", gateway["machines"]))


def check_joined(here: DoctorContext, url: str) -> Result:
    """Whether taps can come from the gateway, by what the server says of it."""
    join = here.command(f"join {url}")
    try:
        own = enrolment.find(url, here.environ)
    except FileError as error:
        return Result(FAIL, message_of(error), join)
    if own is None:
        return Result(FAIL, msg("this machine has not joined {}", url), join)
    if "gateway" not in here.settings.surfaces():
        fix = edit(config_path(here.environ), "FEISHUPERM_SURFACES")
        return Result(WARN, msg("FEISHUPERM_SURFACES leaves it out"), fix)
    if here.status is None:
        return Result(WARN, msg("not checked: no server"), here.install())
    rows = [row for row in here.status["channels"] if row["name"] == "gateway"]
    if not rows or rows[0].get("url", url) != url:
        return Result(FAIL, msg("the server does not use it yet"), here.restart())
    detail = str(rows[0].get("detail", ""))
    if rows[0]["state"] == "up":
        text = msg("connected to {} as {}", url, own.name)
        return Result(WARN, detail, SET_CLOCKS) if detail else Result(OK, text)
    is_out = any(word in detail for word in REFUSALS)
    text = msg("the gateway is down: {}", detail)
    return Result(
        FAIL, text, join if is_out else msg("ask the people who run the gateway")
    )


def check_server(here: DoctorContext) -> Iterator[Result]:
    try:
        here.status = ask_server({"command": "status"})
    except NotRunningError as error:
        pid = background_pid(here.environ)
        lives = is_server(pid, here.manifest.record("service").get("program", "-"))
        fix = here.restart() if lives else here.install()
        text = (
            msg("{}, though process {} lives", error, pid)
            if lives
            else message_of(error)
        )
        yield Result(FAIL, text, fix)
        return
    version = here.status["version"]
    if version != __version__:
        text = msg("it runs version {}, the file is {}", version, __version__)
        yield Result(FAIL, text, here.restart())
    elif modified(here.archive) > float(here.status["started"]):
        text = msg("it started before the file was replaced")
        yield Result(FAIL, text, here.restart())
    else:
        yield Result(OK, msg("version {}, pid {}", version, here.status["pid"]))


def check_socket(here: DoctorContext) -> Iterator[Result]:
    path = here.settings.permission_socket_path
    if here.status is None:
        text = msg("not checked: no server")
        if os.path.lexists(path):
            text = msg("{} is what a server that is gone has left", path)
        yield Result(WARN, text, here.install())
        return
    try:
        state = os.stat(path)
    except OSError as error:
        yield Result(FAIL, words(error), here.restart())
        return
    if state.st_uid != os.geteuid():
        fix = msg("set PERMISSION_SOCKET_PATH to a path of your own, not {}", path)
        yield Result(FAIL, msg("{} belongs to user {}", path, state.st_uid), fix)
    elif stat.S_IMODE(state.st_mode) & 0o077:
        yield Result(FAIL, msg("{} is open to others", path), here.restart())
    else:
        yield Result(OK, msg("{}, this user's alone", path))


def check_http(here: DoctorContext) -> Iterator[Result]:
    if here.status is None:
        yield Result(WARN, msg("not checked: no server"), here.install())
        return
    url = here.status["http"]
    fix = here.install("--callback-url URL")
    try:
        code, body = fetch(f"{url}/healthz", timeout=5.0)
    except OSError as error:
        text = msg("{} (CALLBACK_SERVER_URL) cannot be reached: {}", url, error)
        yield Result(FAIL, text, fix)
        return
    if code != 200 or not is_health(body):
        text = msg("another program answers at {} (CALLBACK_SERVER_URL): {}", url, code)
        yield Result(FAIL, text, fix)
    else:
        yield Result(OK, msg("{} answers", url))
    if here.settings.feishu_webhook_url and here.settings.url_is_local():
        text = msg("a phone cannot open {}; it works here only", url)
        yield Result(WARN, text, fix)


def check_loopback(here: DoctorContext) -> Iterator[Result]:
    """A browser may try either family, and another user could listen on a free one."""
    port = port_of(here.status)
    hosts = [host for host in here.settings.http_hosts() if host in LOOPBACK]
    for host in hosts if port else ():
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            code, body = fetch(f"http://{place}/healthz", timeout=5.0)
        except OSError as error:
            if host == hosts[0] or error.errno not in ABSENT:
                text = msg("the server does not answer on {}: {}", place, words(error))
                yield Result(FAIL, text, here.restart())
            continue
        if code != 200 or not is_health(body):
            text = msg("another program answers on {}", place)
            yield Result(FAIL, text, here.install("--port N"))
    yield Result(OK, ", ".join(hosts) or msg("not for this address"))


def check_loop(here: DoctorContext) -> Iterator[Result]:
    """A request there and back; the server settles the doctor's own tool at once."""
    if here.status is None:
        yield Result(FAIL, msg("not checked: no server"), here.install())
        return
    event = permission_event(DOCTOR_TOOL, {}, here.project)
    hook = start_hook(event, here.environ, hook_command(here))
    output = hook_output(hook, LOOP_SECONDS)
    if DOCTOR_ANSWER in output:
        yield Result(OK, msg("hook, server, decision and back"))
    elif output:
        yield Result(FAIL, msg("the hook printed {!r}", output), here.install())
    else:
        text = msg("the hook brought no answer of the server's back")
        yield Result(FAIL, text, here.install())


def hook_command(here: DoctorContext) -> list[str]:
    """The registered command, as Claude Code runs it; our own without one."""
    for _, hook in permission_hooks(here):
        return ["/bin/sh", "-c", str(hook.entry["command"])]
    return self_command("hook")


def is_health(body: str) -> bool:
    """Whether this is what our own server answers."""
    answer = part_at(decoded(body))
    return answer.get("ok") is True and "version" in answer


# The numbers a phone shows when a tap fails: what each means, and what repairs it.


PHONE_CODES = (
    (
        (108002, 200671, 200672),
        msg(
            "whoever got the tap answered it wrongly: often a second program on the "
            "same app"
        ),
        msg("feishuperm doctor counts the app's connections"),
    ),
    (
        (200080, 300000),
        msg("Feishu failed by itself"),
        msg("tap again in a minute"),
    ),
    (
        (200340, 200345, 200346, 200347),
        msg(
            "Feishu has nowhere to bring the tap: the app's callback "
            "card.action.trigger is not subscribed, not set to the long connection or "
            "not published; or no server holds the app's connection"
        ),
        msg("feishuperm doctor names which, feishuperm install --rescan subscribes it"),
    ),
    (
        (200341,),
        msg(
            "the server did not answer the tap within 3 seconds: it was busy, "
            "restarting, or its connection was half dead"
        ),
        msg("feishuperm status, then tap again: nothing is decided twice"),
    ),
    (
        (200342, 200343),
        msg("the app's callback is set to a web address, and nobody answers there"),
        msg("set it to the long connection: feishuperm doctor names the page"),
    ),
    (
        (200530, 200861, 230099),
        msg("Feishu could not draw the card"),
        msg("tap again; if it stays: feishuperm doctor"),
    ),
    (
        (200673, 200830),
        msg("the tap was taken, but Feishu could not draw the new card"),
        msg("look into the inbox for what was decided: feishuperm status"),
    ),
)
CODES = {code: row[1:] for row in PHONE_CODES for code in row[0]}


# The examination.


CHECKS: dict[str, Callable[[DoctorContext], Iterator[Result]]] = {
    "python": check_python,
    "file": check_file,
    "config": check_config,
    "settings": check_together,
    "state": check_state,
    "ledger": check_ledger,
    msg("claude settings"): check_settings,
    "hooks": check_hooks,
    msg("hooks enabled"): check_enabled,
    msg("permission mode"): check_mode,
    "server": check_server,
    "socket": check_socket,
    "http": check_http,
    "loopback": check_loopback,
    "feishu": check_feishu,
    "clock": check_clock,
    "loop": check_loop,
    "gateway": check_gateway,
}
WIDTH = max(map(len, CHECKS))
LONGEST = 2000  # characters of a text; an answer from outside may be endless


class Finding(NamedTuple):
    """What one check has to say, as `--json` shows it."""

    check: str
    state: str
    text: str
    fix: str = ""

    def line(self) -> str:
        """The same, as a person reads it."""
        state, check = (
            pad(translate(word(name)), width)
            for name, width in ((self.state, 4), (self.check, WIDTH))
        )
        line = f"{state}  {check}  {one_line(translate(self.text), LONGEST)}"
        fix = one_line(translate(self.fix), LONGEST)
        return f"{line}  -> {fix}" if fix else line


def examine(here: DoctorContext) -> Iterator[Finding]:
    """Run every check, in the order of the hops."""
    for name, run in CHECKS.items():
        try:
            results = list(run(here))
        except (FeishupermError, OSError) as error:
            fix = getattr(error, "hint", "") or here.install()
            results = [Result(FAIL, words(error), fix)]
        for state, text, fix in results:
            yield Finding(name, state, text, "" if state == OK else fix)
