"""Every hop from hook to phone, checked one by one.

A check looks at one thing and says ok, warn or fail, what it found, and the command
that mends it.  It changes nothing; it sends one test card, since nothing else proves
that Feishu takes cards.  One row of `CHECKS` per check.
"""

from __future__ import annotations

import difflib
import email.utils
import hashlib
import json
import os
import shlex
import shutil
import stat
import subprocess
import time
from typing import Any, NamedTuple

from feishuperm import __version__
from feishuperm.errors import FeishupermError, SettingError, UsageError
from feishuperm.lib import settings_editor as editor
from feishuperm.lib.config import (
    claude_dir,
    config_path,
    find_key,
    load_settings,
    read_config,
)
from feishuperm.lib.control import NotRunningError, ask_server
from feishuperm.lib.feishu import (
    BAD_SIGN,
    NO_ANSWER,
    Notice,
    SendResult,
    build_notice_card,
    send_feishu_card,
)
from feishuperm.lib.files import read_bytes
from feishuperm.lib.post import Reply, post_json
from feishuperm.lib.program import (
    hook_output,
    self_command,
    start_hook,
    typed_command,
)
from feishuperm.models.names import DOCTOR_ANSWER, DOCTOR_TOOL
from feishuperm.models.settings import BY_KEY, parse_setting
from feishuperm.setup.fetch import fetch
from feishuperm.setup.installer import HOOK_SLACK, MAX_ARCHIVE, Manifest, pin_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from feishuperm.models.settings import Settings

OK, WARN, FAIL = "ok", "warn", "fail"
# `install` would take a changed file for the right one, so it is not named before that.
FILE_FIRST = "mend the file first, see the line `file`"
REINSTALL = "./install.sh in the clone, or: curl https://HOST/install.sh | sh"
BOT_OPTIONS = "--webhook URL --secret TEXT"
BOT_SETTINGS = (11242, 19007, 19022, 19024)  # codes that only the group's owner mends
OUR_KEYS = ("FEISHU", "CALLBACK_", "PERMISSION_", "SUPERVISOR_")
SIGN_SKEW = 3600  # Feishu refuses signatures that are older, or as much too new
SMALL_SKEW = 60
LOOP_SECONDS = 20.0


class Finding(NamedTuple):
    """What one check found."""

    check: str
    state: str
    text: str
    fix: str = ""


Result = tuple[str, str, str]  # state, text, fix


class Doctor:
    """One examination; facts that several checks need are kept on it."""

    def __init__(self, environ: Mapping[str, str], project: str) -> None:
        self.environ = environ
        self.project = project
        self.manifest = Manifest(environ)
        self.settings: Settings = load_settings(environ, lenient=True)
        self.status: dict[str, Any] | None = None
        self.date = ""  # of Feishu's answer
        self.texts: dict[str, str] = {}  # Claude Code's settings, by path
        program = self.manifest.records.get("program", {})
        self.archive = str(program.get("archive", ""))
        self.intact = not program or self._digest() == program["sha256"]
        self.program = typed_command(next(iter(program.get("links", [])), ""), environ)

    def examine(self) -> Iterator[Finding]:
        """Run every check, in the order of the hops."""
        for name, check in CHECKS:
            try:
                results = list(check(self))
            except (FeishupermError, OSError) as error:
                fix = getattr(error, "hint", "") or self.install()
                results = [(FAIL, _words(error), fix)]
            for state, text, fix in results:
                yield Finding(name, state, text, "" if state == OK else fix)

    # What mends.

    def install(self, options: str = "") -> str:
        """An `install` that can be pasted; not while the file is not the right one."""
        command = f"{self.program} install {options}".rstrip()
        return command if self.intact else FILE_FIRST

    def restart(self) -> str:
        """`install` restarts a server that is older than config.env."""
        if "service" not in self.manifest.records:
            return f"end it and start it again: {self.program} serve"
        return self.after(f"touch {shlex.quote(config_path(self.environ))}")

    def after(self, command: str, options: str = "") -> str:
        """An `install` behind another command."""
        return f"{command} && {self.install(options)}" if self.intact else FILE_FIRST

    def register(self, path: str) -> str:
        """What writes our hook anew to a settings file of Claude Code."""
        if path == self._settings_paths()[0]:
            return self.install()
        if os.path.basename(path) == "settings.json":
            return self.after(f"cd {shlex.quote(self.project)}", "--project")
        return f"edit {shlex.quote(path)}"

    # This program.

    def python(self) -> Iterator[Result]:
        path = pin_path(self.environ)
        data = read_bytes(path)
        if data is None:
            text = "no Python is pinned; the hook takes the one in PATH"
            yield WARN, text, self.install()
            return
        python = os.fsdecode(data).rstrip("\n")
        # By the Python this runs on: the pinned one would be the one to start it.
        fix = shlex.join(self_command("install")) if self.intact else FILE_FIRST
        version = _output([python, "-I", "-S", "-c", _VERSION])
        if not version:
            yield FAIL, f"{python}, named in {path}, does not run", fix
        elif tuple(map(int, version.split("."))) < (3, 9):
            yield FAIL, f"{python} is {version}, too old", fix
        else:
            yield OK, f"{python}, {version}", ""

    def file(self) -> Iterator[Result]:
        record = self.manifest.records.get("program")
        if record is None:
            text = "not installed; this is a file that runs by itself"
            yield WARN, text, self.install()
            return
        if not self.intact:
            yield FAIL, f"{self.archive} is not as it was installed", REINSTALL
            return
        for link in record["links"]:
            if os.path.realpath(link) != os.path.realpath(self.archive):
                yield FAIL, f"{link} does not lead to {self.archive}", self.install()
        yield OK, f"{self.archive}, version {__version__}", ""

    def _digest(self) -> str:
        data = read_bytes(self.archive, MAX_ARCHIVE)
        return "" if data is None else hashlib.sha256(data).hexdigest()

    def config(self) -> Iterator[Result]:
        path = config_path(self.environ)
        edit = f"edit {shlex.quote(path)}"
        if os.path.isdir(path):
            quoted = shlex.quote(path)
            yield FAIL, f"{path} is a folder, not a file", f"mv {quoted} {quoted}.old"
            return
        try:
            values = read_config(path)
        except UsageError as error:
            yield FAIL, str(error), edit
            return
        yield from self._bad_values(path, values)
        for key in _unknown_keys(values):
            near = difflib.get_close_matches(key, BY_KEY, 1, 0.0)[0]
            text = f"{path}, line {find_key(path, key)}: {key} is no setting"
            yield WARN, text, f"{edit}: did you mean {near}?"
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
        except OSError:
            yield OK, "no config.env; environment and defaults", ""
            return
        if mode & 0o077:
            quoted = shlex.quote(path)
            yield WARN, f"{path} can be read by others", f"chmod 600 {quoted}"
        yield OK, path, ""

    def _bad_values(self, path: str, values: Mapping[str, str]) -> Iterator[Result]:
        """Every value that is not allowed, and where it stands."""
        for key, setting in BY_KEY.items():
            given = self.environ.get(key)
            try:
                parse_setting(setting, given or values.get(key, ""))
            except SettingError as error:
                if given:
                    yield FAIL, f"in the environment, {error}", f"unset {key}"
                else:
                    text = f"{path}, line {find_key(path, key)}: {error}"
                    yield FAIL, text, f"edit {shlex.quote(path)}"

    # Claude Code.

    def claude_settings(self) -> Iterator[Result]:
        paths = self._settings_paths()
        for path in paths:
            data = read_bytes(path)
            try:
                self.texts[path] = editor.decode(data or b"")
            except editor.SettingsError as error:
                text = f"{path}: {error}; Claude Code ignores the whole file"
                yield FAIL, text, f"edit {shlex.quote(path)}"
        found = [path for path in paths if os.path.exists(path)]
        if len(self.texts) == len(paths):
            yield OK, ", ".join(found) or "none yet", ""

    def hooks(self) -> Iterator[Result]:
        wait = self.settings.permission_request_timeout
        own = [
            (path, hook)
            for path, text in self.texts.items()
            for hook in editor.find_hooks(text)
            if hook.event == "PermissionRequest"
        ]
        if not own:
            text = "no PermissionRequest hook of ours in Claude Code"
            yield FAIL, text, self.install()
        for path, hook in own:
            missing = _missing_program(str(hook.entry["command"]), self.environ)
            timeout = hook.entry.get("timeout", 600.0)
            if missing:
                text = f"{path} names {missing}, which cannot run"
                yield FAIL, text, self.register(path)
            elif not isinstance(timeout, float) or timeout < wait + HOOK_SLACK:
                text = f"its timeout is not {HOOK_SLACK} s above the wait of {wait} s"
                yield FAIL, f"{path}: {text}", self.register(path)
            elif hook.matcher not in ("", "*", ".*"):
                edit = f"edit {shlex.quote(path)}"
                yield WARN, f"{path}: only asked for {hook.matcher!r}", edit
            else:
                yield OK, f"{path}, timeout {timeout:g} s", ""
        yield from self._doubles([path for path, _ in own])

    def _doubles(self, paths: list[str]) -> Iterator[Result]:
        """Two hooks ask twice; of two files the one nearer to the user's stays."""
        for path in dict.fromkeys(paths):
            if paths.count(path) > 1:
                yield WARN, f"{path} has our hook more than once", self.register(path)
        for path in list(dict.fromkeys(paths))[1:]:
            text = f"{path} has our hook too: each request asks twice"
            yield WARN, text, f"edit {shlex.quote(path)}: remove feishuperm-hook"

    def hooks_enabled(self) -> Iterator[Result]:
        for path, text in self.texts.items():
            if editor.get_value(text, ("disableAllHooks",)) is True:
                yield FAIL, f"{path} sets disableAllHooks", f"remove it from {path}"
                return
        yield OK, "hooks are not disabled", ""

    def permission_mode(self) -> Iterator[Result]:
        path = ("permissions", "defaultMode")
        mode, fix = "auto", self.install("--permission-mode default")
        for number, (name, text) in enumerate(self.texts.items()):
            found = editor.get_value(text, path)
            if isinstance(found, str):
                mode = found
                if number:  # a project's wins over the user's, which `install` sets
                    fix = f"edit {shlex.quote(name)}: permissions.defaultMode"
        if mode in ("auto", "dontAsk", "bypassPermissions"):
            yield WARN, f"sessions start in {mode} mode, in which few cards come", fix
        else:
            yield OK, f"{mode}: Claude Code asks", ""
        if self.environ.get("TERM_PROGRAM") == "vscode":
            text = (
                "some versions of the VS Code extension run no PermissionRequest hooks"
            )
            yield WARN, text, "run claude in a terminal if no card comes"

    # The server.

    def server(self) -> Iterator[Result]:
        try:
            self.status = ask_server({"command": "status"})
        except NotRunningError as error:
            yield FAIL, str(error), self.install()
            return
        version = self.status["version"]
        if version != __version__:
            text = f"it runs version {version}, the file is {__version__}"
            yield FAIL, text, self.restart()
        elif self._archive_time() > float(self.status["started"]):
            yield FAIL, "it started before the file was replaced", self.restart()
        else:
            yield OK, f"version {version}, pid {self.status['pid']}", ""

    def _archive_time(self) -> float:
        try:
            return os.stat(self.archive).st_mtime
        except OSError:
            return 0.0

    def socket(self) -> Iterator[Result]:
        if self.status is None:
            yield WARN, "not checked: no server", self.install()
            return
        path = self.settings.permission_socket_path
        try:
            found = os.stat(path)
        except OSError as error:
            yield FAIL, _words(error), self.restart()
            return
        if found.st_uid != os.geteuid():
            yield FAIL, f"{path} belongs to user {found.st_uid}", _socket_fix(path)
        elif stat.S_IMODE(found.st_mode) & 0o077:
            yield FAIL, f"{path} is open to others", self.restart()
        else:
            yield OK, f"{path}, this user's alone", ""

    def http(self) -> Iterator[Result]:
        if self.status is None:
            yield WARN, "not checked: no server", self.install()
            return
        url = self.status["http"]
        fix = self.install("--callback-url URL")
        try:
            code, body = fetch(f"{url}/healthz", timeout=5.0)
        except OSError as error:
            yield FAIL, f"{url} (CALLBACK_SERVER_URL) cannot be reached: {error}", fix
            return
        if code != 200 or not _is_health(body):
            text = f"another program answers at {url} (CALLBACK_SERVER_URL): {code}"
            yield FAIL, text, fix
        else:
            yield OK, f"{url} answers", ""
        if self.settings.feishu_webhook_url and self.settings.url_is_local():
            yield WARN, f"a phone cannot open {url}; the buttons work here only", fix

    # Feishu.

    def feishu(self) -> Iterator[Result]:
        settings = self.settings
        if not settings.feishu_webhook_url:
            text = "no group bot: only the inbox shows requests"
            yield WARN, text, self.install(BOT_OPTIONS)
            return
        card = build_notice_card(Notice("test", time.time()), settings.feishuperm_lang)
        url, secret = settings.feishu_webhook_url, settings.feishu_webhook_secret
        result = send_feishu_card(url, card, secret, self._post)
        if result.ok:
            yield OK, "the group bot took a test card", ""
        else:
            text = f"the group bot did not: {result.message}"
            yield FAIL, text, self._bot_fix(result)

    def _bot_fix(self, result: SendResult) -> str:
        if result.code in BOT_SETTINGS:
            return "change the bot's settings in the Feishu group"
        if result.retry and result.code != NO_ANSWER:
            return f"in a minute: {self.program} doctor"
        signs = result.code == BAD_SIGN
        key = "FEISHU_WEBHOOK_SECRET" if signs else "FEISHU_WEBHOOK_URL"
        if self.environ.get(key):  # it wins over whatever `install` keeps
            return f"set it right in the environment: {key}"
        return self.install("--secret TEXT" if signs else BOT_OPTIONS)

    def _post(self, url: str, body: bytes) -> Reply:
        reply = post_json(url, body)
        self.date = reply.headers.get("date", "")
        return reply

    def clock(self) -> Iterator[Result]:
        if not self.date:
            yield OK, "not compared: no answer of Feishu's", ""
            return
        try:
            there = email.utils.parsedate_to_datetime(self.date).timestamp()
        except (TypeError, ValueError):
            yield OK, "not compared: Feishu sent no readable date", ""
            return
        skew = round(time.time() - there)
        state = FAIL if abs(skew) >= SIGN_SKEW else WARN
        if abs(skew) < SMALL_SKEW:
            state = OK
        yield (
            state,
            f"{skew:+d} s from Feishu's",
            "set the clock: timedatectl set-ntp true",
        )

    # All of it.

    def loop(self) -> Iterator[Result]:
        if self.status is None:
            yield FAIL, "not tried: the server is not running", self.install()
            return
        event = {
            "session_id": DOCTOR_TOOL,
            "transcript_path": "",
            "cwd": self.project,
            "hook_event_name": "PermissionRequest",
            "tool_name": DOCTOR_TOOL,
            "tool_input": {"check": os.urandom(4).hex()},
        }
        hook = start_hook(event, self.environ, self._hook_command())
        output = hook_output(hook, LOOP_SECONDS)
        if DOCTOR_ANSWER in output:
            yield OK, "hook, server, decision and back", ""
        elif output:
            yield FAIL, f"the hook printed {output!r}", self.install()
        else:
            text = "the hook's request never reached the server"
            yield FAIL, text, self.install()

    def _hook_command(self) -> list[str]:
        """The registered command, as Claude Code runs it; our own without one."""
        for text in self.texts.values():
            for found in editor.find_hooks(text):
                if found.event == "PermissionRequest":
                    return ["/bin/sh", "-c", str(found.entry["command"])]
        return self_command("hook")

    def _settings_paths(self) -> list[str]:
        """The files Claude Code reads, the strongest last."""
        project = os.path.join(self.project, ".claude")
        paths = (
            os.path.join(claude_dir(self.environ), "settings.json"),
            os.path.join(project, "settings.json"),
            os.path.join(project, "settings.local.json"),
        )
        return list(dict.fromkeys(paths))  # at home, the first two are one


CHECKS: tuple[tuple[str, Callable[[Doctor], Iterator[Result]]], ...] = (
    ("python", Doctor.python),
    ("file", Doctor.file),
    ("config", Doctor.config),
    ("claude settings", Doctor.claude_settings),
    ("hooks", Doctor.hooks),
    ("hooks enabled", Doctor.hooks_enabled),
    ("permission mode", Doctor.permission_mode),
    ("server", Doctor.server),
    ("socket", Doctor.socket),
    ("http", Doctor.http),
    ("feishu", Doctor.feishu),
    ("clock", Doctor.clock),
    ("loop", Doctor.loop),
)

_VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"


def _output(command: list[str]) -> str:
    """What a command prints, empty when it fails."""
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return "" if result.returncode else result.stdout.decode().strip()


def _socket_fix(path: str) -> str:
    return f"set PERMISSION_SOCKET_PATH to a path of your own, not {path}"


def _words(error: Exception) -> str:
    """An error as a person reads it, without its number."""
    if isinstance(error, OSError) and error.strerror:
        return (
            f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        )
    return str(error)


def _unknown_keys(values: Mapping[str, str]) -> list[str]:
    """Keys that look like ours and are not."""
    return [key for key in values if key.startswith(OUR_KEYS) and key not in BY_KEY]


def _missing_program(command: str, environ: Mapping[str, str]) -> str:
    """The program a hook command starts, if it is not there; empty if it is."""
    words = shlex.split(command)
    path = environ.get("PATH", os.defpath)
    while "=" in words[0].partition("/")[0]:
        name, _, value = words.pop(0).partition("=")
        path = value if name == "PATH" else path
    program = words[0].replace("$HOME", environ.get("HOME", ""))
    if program.startswith("~/"):
        program = environ.get("HOME", "") + program[1:]
    return "" if shutil.which(program, path=path) else program


def _is_health(body: str) -> bool:
    """Whether this is what our own server answers."""
    try:
        answer = json.loads(body)
    except ValueError:
        return False
    return isinstance(answer, dict) and answer.get("ok") is True and "version" in answer
