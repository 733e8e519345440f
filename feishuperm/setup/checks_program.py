"""This program: its Python, its file, its settings, its folder and its record."""

from __future__ import annotations

import difflib
import os
import shlex
import stat
import subprocess
from collections.abc import Iterator, Mapping

from feishuperm import __version__
from feishuperm.errors import SettingError, UsageError
from feishuperm.lib.config import config_path, find_key, read_config, state_dir
from feishuperm.lib.files import read_bytes
from feishuperm.lib.program import self_command
from feishuperm.models.settings import BY_KEY, parse_setting
from feishuperm.services.ledger import Ledger
from feishuperm.services.ledger_check import READ, check
from feishuperm.setup.case import FAIL, FILE_FIRST, OK, WARN, Case, Result, edit
from feishuperm.setup.program_step import pin_path

REINSTALL = "./install.sh in the clone, or: curl https://HOST/install.sh | sh"
OUR_KEYS = ("FEISHU", "CALLBACK_", "PERMISSION_", "SUPERVISOR_")
VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"


def check_python(case: Case) -> Iterator[Result]:
    path = pin_path(case.environ)
    data = read_bytes(path)
    if data is None:
        text = "no Python is pinned; the hook takes the one in PATH"
        yield Result(WARN, text, case.install())
        return
    python = os.fsdecode(data).rstrip("\n")
    # By the Python this runs on: the pinned one would be the one to start it.
    fix = shlex.join(self_command("install")) if case.intact else FILE_FIRST
    version = output_of([python, "-I", "-S", "-c", VERSION])
    if not version:
        yield Result(FAIL, f"{python}, named in {path}, does not run", fix)
    elif tuple(map(int, version.split("."))) < (3, 9):
        yield Result(FAIL, f"{python} is {version}, too old", fix)
    else:
        yield Result(OK, f"{python}, {version}")


def check_file(case: Case) -> Iterator[Result]:
    record = case.manifest.record("program")
    if not record:
        text = "not installed; this is a file that runs by itself"
        yield Result(WARN, text, case.install())
        return
    if not case.intact:
        yield Result(FAIL, f"{case.archive} is not as it was installed", REINSTALL)
        return
    for link in record["links"]:
        if os.path.realpath(link) != os.path.realpath(case.archive):
            text = f"{link} does not lead to {case.archive}"
            yield Result(FAIL, text, case.install())
    yield Result(OK, f"{case.archive}, version {__version__}")


def check_config(case: Case) -> Iterator[Result]:
    path = config_path(case.environ)
    quoted = shlex.quote(path)
    if os.path.isdir(path):
        text = f"{path} is a folder, not a file"
        yield Result(FAIL, text, f"mv {quoted} {quoted}.old")
        return
    try:
        values = read_config(path)
    except UsageError as error:
        yield Result(FAIL, str(error), edit(path))
        return
    yield from bad_values(case, path, values)
    yield from unknown_keys(path, values)
    try:
        mode = os.stat(path).st_mode
    except OSError:
        yield Result(OK, "no config.env; environment and defaults")
        return
    if stat.S_IMODE(mode) & 0o077:
        yield Result(WARN, f"{path} can be read by others", f"chmod 600 {quoted}")
    yield Result(OK, path)


def bad_values(case: Case, path: str, values: Mapping[str, str]) -> Iterator[Result]:
    """Every value that is not allowed, and where it stands."""
    for key, setting in BY_KEY.items():
        given = case.environ.get(key)
        try:
            parse_setting(setting, given or values.get(key, ""))
        except SettingError as error:
            if given:
                yield Result(FAIL, f"in the environment, {error}", f"unset {key}")
            else:
                text = f"{path}, line {find_key(path, key)}: {error}"
                yield Result(FAIL, text, edit(path))


def unknown_keys(path: str, values: Mapping[str, str]) -> Iterator[Result]:
    """Keys that look like ours and are not."""
    for key in values:
        if key.startswith(OUR_KEYS) and key not in BY_KEY:
            near = difflib.get_close_matches(key, BY_KEY, 1, 0.0)[0]
            text = f"{path}, line {find_key(path, key)}: {key} is no setting"
            yield Result(WARN, text, edit(path, f"did you mean {near}?"))


def check_together(case: Case) -> Iterator[Result]:
    """Values that are fine alone and not together."""
    settings = case.settings
    path = config_path(case.environ)
    url = settings.callback_server_url
    if not settings.url_is_local() and settings.callback_link_signing == "off":
        text = f"who can reach {url} may answer for you: CALLBACK_LINK_SIGNING is off"
        yield Result(FAIL, text, edit(path, "CALLBACK_LINK_SIGNING=on"))
    if not settings.url_is_local() and settings.callback_confirm == "off":
        text = f"whatever opens a link to {url} decides: CALLBACK_CONFIRM is off"
        yield Result(WARN, text, edit(path, "CALLBACK_CONFIRM=auto"))
    delay, wait = settings.permission_notify_delay, settings.permission_request_timeout
    if delay >= wait:
        text = f"cards come after {delay} s, but the wait is over after {wait} s"
        yield Result(FAIL, text, edit(path, "PERMISSION_NOTIFY_DELAY"))
    yield from surfaces_without(case, path)
    yield Result(OK, "the settings fit together")


def surfaces_without(case: Case, path: str) -> Iterator[Result]:
    """Surfaces that are named and not set up; with no other, nobody can answer."""
    named = case.settings.feishuperm_surfaces
    missing = named - case.settings.possible_surfaces()
    for surface in sorted(missing):
        alone = "; nothing can show a request" if named == missing else ""
        text = f"FEISHUPERM_SURFACES names {surface}, which is not set up{alone}"
        state = FAIL if alone else WARN
        yield Result(state, text, edit(path, "FEISHUPERM_SURFACES"))


def check_state(case: Case) -> Iterator[Result]:
    """Who can write to the folder of our keys and records could replace them."""
    path = state_dir(case.environ)
    try:
        folder = os.stat(path)
    except FileNotFoundError:
        yield Result(OK, f"{path}, not there yet")
        return
    if folder.st_uid != os.geteuid():
        text = f"{path} belongs to user {folder.st_uid}"
        yield Result(FAIL, text, "set XDG_STATE_HOME to a folder of your own")
    elif folder.st_mode & 0o022:
        fix = f"chmod 700 {shlex.quote(path)}"
        yield Result(FAIL, f"others can write to {path}", fix)
    else:
        yield Result(OK, f"{path}, this user's alone to write to")


def check_ledger(case: Case) -> Iterator[Result]:
    """Whether the record of decisions is whole."""
    ledger = Ledger(environ=case.environ)
    report = check(ledger, most=READ)
    if not report.sound():
        report = check(ledger)  # which names the lines
    problems = [*report.problems, *report.missing]
    if problems:
        text = f"{ledger.path}: {problems[0]}"
        if len(problems) > 1:
            text = f"{text}, and {len(problems) - 1} more"
        yield Result(FAIL, text, f"see all: {case.mends('log verify')}")
    elif report.part:
        text = f"{ledger.path}, {report.total} entries, is whole at its end"
        yield Result(OK, text)
    else:
        yield Result(OK, f"{ledger.path}, {report.total} entries, is whole")


def output_of(command: list[str]) -> str:
    """What a command prints, empty when it fails."""
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return "" if result.returncode else result.stdout.decode().strip()
