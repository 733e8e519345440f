"""The server: does it run, where does it listen; a request there and back."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from feishuperm import __version__
from feishuperm.errors import FileError
from feishuperm.lib import enrolment
from feishuperm.lib.config import config_path
from feishuperm.lib.control import NotRunningError, ask_server
from feishuperm.lib.program import (
    hook_output,
    permission_event,
    self_command,
    start_hook,
)
from feishuperm.models.fields import decoded, part_at
from feishuperm.models.names import DOCTOR_ANSWER, DOCTOR_TOOL
from feishuperm.models.settings import LOOPBACK
from feishuperm.setup.case import FAIL, OK, WARN, Case, Result, edit, words
from feishuperm.setup.checks_claude import permission_hooks
from feishuperm.setup.files import modified
from feishuperm.setup.ports import port_of
from feishuperm.setup.server_process import background_pid, is_server
from feishuperm.setup.status import read_gateway
from feishuperm.setup.visitor import fetch

LOOP_SECONDS = 20.0
# Words of `server.machine_line` for what only a new enrolment repairs.
REFUSALS = ("revoked", "refuses")
SET_CLOCKS = "set the clocks of both machines"
ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)


def check_gateway(case: Case) -> Iterator[Result]:
    """The one that this machine has joined, and the one that runs here."""
    url = case.settings.feishuperm_gateway
    if url:
        yield check_joined(case, url)
    gateway = read_gateway(case.environ)
    if gateway is None:
        if not url:
            yield Result(OK, "none runs here, and none is needed")
        return
    for name in ("app", "engine"):
        if gateway[name]["state"] != "up":
            detail = gateway[name]["detail"] or "not connected"
            yield Result(FAIL, f"{name} is down: {detail}", "feishuperm status")
    if gateway.get("clock"):
        yield Result(WARN, gateway["clock"], "set the clock of this machine")
    if gateway["problem"]:
        yield Result(FAIL, gateway["problem"], "set FEISHUPERM_ENGINE")
    else:
        yield Result(OK, f"{gateway['machines']} machines connected")


def check_joined(case: Case, url: str) -> Result:
    """Whether taps can come from the gateway, by what the server says of it."""
    join = case.mends(f"join {url}")
    try:
        own = enrolment.find(url, case.environ)
    except FileError as error:
        return Result(FAIL, str(error), join)
    if own is None:
        return Result(FAIL, f"this machine has not joined {url}", join)
    if "gateway" not in case.settings.surfaces():
        return Result(WARN, "FEISHUPERM_SURFACES leaves it out", edit_config(case))
    if case.status is None:
        return Result(WARN, "not checked: no server", case.install())
    rows = [row for row in case.status["channels"] if row["name"] == "gateway"]
    if not rows or rows[0].get("url", url) != url:
        return Result(FAIL, "the server does not use it yet", case.restart())
    detail = str(rows[0].get("detail", ""))
    if rows[0]["state"] == "up":
        text = f"connected to {url} as {own.name}"
        return Result(WARN, detail, SET_CLOCKS) if detail else Result(OK, text)
    is_out = any(word in detail for word in REFUSALS)
    text = f"the gateway is down: {detail}"
    return Result(FAIL, text, join if is_out else "ask the people who run the gateway")


def edit_config(case: Case) -> str:
    return edit(config_path(case.environ), "FEISHUPERM_SURFACES")


def check_server(case: Case) -> Iterator[Result]:
    try:
        case.status = ask_server({"command": "status"})
    except NotRunningError as error:
        pid = background_pid(case.environ)
        lives = is_server(pid, case.manifest.record("service").get("program", "-"))
        fix = case.restart() if lives else case.install()
        text = f"{error}, though process {pid} lives" if lives else str(error)
        yield Result(FAIL, text, fix)
        return
    version = case.status["version"]
    if version != __version__:
        text = f"it runs version {version}, the file is {__version__}"
        yield Result(FAIL, text, case.restart())
    elif modified(case.archive) > float(case.status["started"]):
        text = "it started before the file was replaced"
        yield Result(FAIL, text, case.restart())
    else:
        yield Result(OK, f"version {version}, pid {case.status['pid']}")


def check_socket(case: Case) -> Iterator[Result]:
    path = case.settings.permission_socket_path
    if case.status is None:
        text = "not checked: no server"
        if os.path.lexists(path):
            text = f"{path} is what a server that is gone has left"
        yield Result(WARN, text, case.install())
        return
    try:
        state = os.stat(path)
    except OSError as error:
        yield Result(FAIL, words(error), case.restart())
        return
    if state.st_uid != os.geteuid():
        fix = f"set PERMISSION_SOCKET_PATH to a path of your own, not {path}"
        yield Result(FAIL, f"{path} belongs to user {state.st_uid}", fix)
    elif stat.S_IMODE(state.st_mode) & 0o077:
        yield Result(FAIL, f"{path} is open to others", case.restart())
    else:
        yield Result(OK, f"{path}, this user's alone")


def check_http(case: Case) -> Iterator[Result]:
    if case.status is None:
        yield Result(WARN, "not checked: no server", case.install())
        return
    url = case.status["http"]
    fix = case.install("--callback-url URL")
    try:
        code, body = fetch(f"{url}/healthz", timeout=5.0)
    except OSError as error:
        text = f"{url} (CALLBACK_SERVER_URL) cannot be reached: {error}"
        yield Result(FAIL, text, fix)
        return
    if code != 200 or not is_health(body):
        text = f"another program answers at {url} (CALLBACK_SERVER_URL): {code}"
        yield Result(FAIL, text, fix)
    else:
        yield Result(OK, f"{url} answers")
    if case.settings.feishu_webhook_url and case.settings.url_is_local():
        text = f"a phone cannot open {url}; it works here only"
        yield Result(WARN, text, fix)


def check_loopback(case: Case) -> Iterator[Result]:
    """A browser may try either family, and another user could listen on a free one."""
    port = port_of(case.status)
    hosts = [host for host in case.settings.http_hosts() if host in LOOPBACK]
    for host in hosts if port else ():
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            code, body = fetch(f"http://{place}/healthz", timeout=5.0)
        except OSError as error:
            if host == hosts[0] or error.errno not in ABSENT:
                text = f"the server does not answer on {place}: {words(error)}"
                yield Result(FAIL, text, case.restart())
            continue
        if code != 200 or not is_health(body):
            text = f"another program answers on {place}"
            yield Result(FAIL, text, case.install("--port N"))
    yield Result(OK, ", ".join(hosts) or "not for this address")


def check_loop(case: Case) -> Iterator[Result]:
    """A request there and back; the server settles the doctor's own tool at once."""
    if case.status is None:
        yield Result(FAIL, "not checked: no server", case.install())
        return
    event = permission_event(DOCTOR_TOOL, {}, case.project)
    hook = start_hook(event, case.environ, hook_command(case))
    output = hook_output(hook, LOOP_SECONDS)
    if DOCTOR_ANSWER in output:
        yield Result(OK, "hook, server, decision and back")
    elif output:
        yield Result(FAIL, f"the hook printed {output!r}", case.install())
    else:
        text = "the hook brought no answer of the server's back"
        yield Result(FAIL, text, case.install())


def hook_command(case: Case) -> list[str]:
    """The registered command, as Claude Code runs it; our own without one."""
    for _, hook in permission_hooks(case):
        return ["/bin/sh", "-c", str(hook.entry["command"])]
    return self_command("hook")


def is_health(body: str) -> bool:
    """Whether this is what our own server answers."""
    answer = part_at(decoded(body))
    return answer.get("ok") is True and "version" in answer
