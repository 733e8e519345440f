"""Every hop from hook to phone, checked one by one.

A check looks at one thing and says ok, warn or fail, what it found, and the command
that mends it.  It changes nothing; it sends one test card, since nothing else proves
that Feishu takes cards.  One row of `CHECKS` per check.
"""

from __future__ import annotations

import email.utils
import hashlib
import os
import shlex
import stat
import subprocess
import time
from typing import Any, NamedTuple

from feishuperm import __version__
from feishuperm.errors import FeishupermError
from feishuperm.lib.config import claude_dir, config_path, load_settings
from feishuperm.lib.control import NotRunningError, ask_server
from feishuperm.lib.feishu import Notice, build_notice_card, send_feishu_card
from feishuperm.lib.fetch import fetch
from feishuperm.lib.files import read_bytes
from feishuperm.lib.post import Reply, post_json
from feishuperm.lib.program import hook_output, self_command, start_hook
from feishuperm.services import settings_editor as editor
from feishuperm.services.installer import HOOK_SLACK, MAX_ARCHIVE, Manifest, pin_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from feishuperm.models.settings import Settings

OK, WARN, FAIL = "ok", "warn", "fail"
INSTALL = "feishuperm install"
DRY_TOOL = "feishuperm-doctor"  # the server rings no phone and writes no rule for it
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

    def examine(self) -> Iterator[Finding]:
        """Run every check, in the order of the hops."""
        for name, check in CHECKS:
            try:
                results = list(check(self))
            except (FeishupermError, OSError) as error:
                results = [(FAIL, str(error), getattr(error, "hint", "") or INSTALL)]
            for state, text, fix in results:
                yield Finding(name, state, text, "" if state == OK else fix)

    # This program.

    def python(self) -> Iterator[Result]:
        path = pin_path(self.environ)
        data = read_bytes(path)
        if data is None:
            yield WARN, "no Python is pinned; the hook takes the one in PATH", INSTALL
            return
        python = os.fsdecode(data).rstrip("\n")
        version = _output([python, "-I", "-S", "-c", _VERSION])
        if not version:
            yield FAIL, f"{python}, named in {path}, does not run", "./install.sh"
        elif tuple(map(int, version.split("."))) < (3, 9):
            yield FAIL, f"{python} is {version}, too old", "./install.sh"
        else:
            yield OK, f"{python}, {version}", ""

    def file(self) -> Iterator[Result]:
        record = self.manifest.records.get("program")
        if record is None:
            yield WARN, "not installed; this is a file that runs by itself", INSTALL
            return
        data = read_bytes(record["archive"], MAX_ARCHIVE)
        if data is None or hashlib.sha256(data).hexdigest() != record["sha256"]:
            yield (
                FAIL,
                f"{record['archive']} is not as it was installed",
                "./install.sh",
            )
            return
        for link in record["links"]:
            if os.path.realpath(link) != os.path.realpath(record["archive"]):
                yield (
                    FAIL,
                    f"{link} does not lead to {record['archive']}",
                    "./install.sh",
                )
        yield OK, f"{record['archive']}, version {__version__}", ""

    def config(self) -> Iterator[Result]:
        path = config_path(self.environ)
        load_settings(self.environ)
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
        except OSError:
            yield OK, "no config.env; environment and defaults", ""
            return
        if mode & 0o077:
            quoted = shlex.quote(path)
            yield WARN, f"{path} can be read by others", f"chmod 600 {quoted}"
        yield OK, path, ""

    # Claude Code.

    def claude_settings(self) -> Iterator[Result]:
        paths = self._settings_paths()
        for path in paths:
            data = read_bytes(path)
            try:
                self.texts[path] = editor.decode(data or b"")
            except editor.SettingsError as error:
                text = f"{path}: {error}; Claude Code ignores the whole file"
                yield FAIL, text, f"mend {path}"
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
            yield FAIL, "no PermissionRequest hook of ours in Claude Code", INSTALL
        for path, hook in own:
            program = shlex.split(str(hook.entry.get("command")))[0]
            timeout = hook.entry.get("timeout", 600.0)
            if "/" in program and not os.access(program, os.X_OK):
                yield FAIL, f"{path} names {program}, which cannot run", INSTALL
            elif not isinstance(timeout, float) or timeout < wait + HOOK_SLACK:
                text = f"its timeout is not {HOOK_SLACK} s above the wait of {wait} s"
                yield FAIL, f"{path}: {text}", INSTALL
            elif hook.matcher not in ("", "*", ".*"):
                yield WARN, f"{path}: only asked for {hook.matcher!r}", f"edit {path}"
            else:
                yield OK, f"{path}, timeout {timeout:g} s", ""
        if len(own) > 1:
            yield WARN, "registered more than once: each request asks twice", INSTALL

    def hooks_enabled(self) -> Iterator[Result]:
        for path, text in self.texts.items():
            if editor.get_value(text, ("disableAllHooks",)) is True:
                yield FAIL, f"{path} sets disableAllHooks", f"remove it from {path}"
                return
        yield OK, "hooks are not disabled", ""

    def permission_mode(self) -> Iterator[Result]:
        path = ("permissions", "defaultMode")
        modes = [editor.get_value(text, path) for text in self.texts.values()]
        mode = next((mode for mode in reversed(modes) if isinstance(mode, str)), "auto")
        fix = f"{INSTALL} --permission-mode default"
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
            yield FAIL, str(error), INSTALL
            return
        version = self.status["version"]
        if version != __version__:
            yield FAIL, f"it runs version {version}, the file is {__version__}", INSTALL
        elif self._archive_time() > float(self.status["started"]):
            yield FAIL, "it started before the file was replaced", INSTALL
        else:
            yield OK, f"version {version}, pid {self.status['pid']}", ""

    def _archive_time(self) -> float:
        archive = self.manifest.records.get("program", {}).get("archive", "")
        try:
            return os.stat(archive).st_mtime
        except OSError:
            return 0.0

    def socket(self) -> Iterator[Result]:
        path = self.settings.permission_socket_path
        found = os.stat(path)
        if found.st_uid != os.geteuid():
            yield FAIL, f"{path} belongs to user {found.st_uid}", _socket_fix(path)
        elif stat.S_IMODE(found.st_mode) & 0o077:
            yield FAIL, f"{path} is open to others", INSTALL
        else:
            yield OK, f"{path}, this user's alone", ""

    def http(self) -> Iterator[Result]:
        url = self.settings.callback_server_url
        if self.status is not None:
            url = self.status["http"]
        fix = "feishuperm install --callback-url URL (CALLBACK_SERVER_URL)"
        try:
            code, _ = fetch(f"{url}/healthz", timeout=5.0)
        except OSError as error:
            yield FAIL, f"{url} cannot be reached: {error}", fix
            return
        if code != 200:
            yield FAIL, f"{url} answers {code}: another program?", fix
        else:
            yield OK, f"{url} answers", ""
        if self.settings.feishu_webhook_url and self.settings.url_is_local():
            yield WARN, f"a phone cannot open {url}; the buttons work here only", fix

    # Feishu.

    def feishu(self) -> Iterator[Result]:
        settings = self.settings
        if not settings.feishu_webhook_url:
            yield WARN, "no group bot: only the inbox shows requests", INSTALL
            return
        card = build_notice_card(Notice("test", time.time()), settings.feishuperm_lang)
        url, secret = settings.feishu_webhook_url, settings.feishu_webhook_secret
        result = send_feishu_card(url, card, secret, self._post)
        if result.ok:
            yield OK, "the group bot took a test card", ""
        else:
            yield FAIL, f"the group bot did not: {result.message}", INSTALL

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
            yield FAIL, "not tried: the server is not running", INSTALL
            return
        event = {
            "session_id": "feishuperm-doctor",
            "transcript_path": "",
            "cwd": self.project,
            "hook_event_name": "PermissionRequest",
            "tool_name": DRY_TOOL,
            "tool_input": {"check": os.urandom(4).hex()},
        }
        hook = start_hook(event, self.environ, self._hook_command())
        decided = self._decide(hook)
        output = hook_output(hook, 5.0 if decided else 0.0)
        if '"allow"' in output:
            yield OK, "hook, server, decision and back", ""
        elif decided:
            yield FAIL, f"the hook printed {output!r}", INSTALL
        else:
            yield FAIL, "the hook's request never reached the server", INSTALL

    def _hook_command(self) -> list[str]:
        """The registered command, as Claude Code runs it; our own without one."""
        for text in self.texts.values():
            for found in editor.find_hooks(text):
                if found.event == "PermissionRequest":
                    return ["/bin/sh", "-c", str(found.entry["command"])]
        return self_command("hook")

    def _decide(self, hook: subprocess.Popen[bytes]) -> bool:
        """Allow the dry request as soon as it waits."""
        until = time.monotonic() + LOOP_SECONDS
        while time.monotonic() < until and hook.poll() is None:
            for request in ask_server({"command": "status"})["waiting"]:
                if request["tool"] == DRY_TOOL:
                    command = {"command": "decide", "action": "allow"}
                    reply = ask_server({**command, "id": request["id"]})
                    return bool(reply.get("decided"))
            time.sleep(0.05)
        return False

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
