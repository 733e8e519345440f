"""A whole feishuperm in a temporary folder, with requests to try it on.

Its server, socket, settings and ledger are its own, so it works on a machine where
nothing is configured and leaves a running server alone.  The requests go through real
hook processes; with `--auto` they are answered over their pages, as a person would.
"""

from __future__ import annotations

import html
import json
import os
import pkgutil
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from feishuperm.errors import FeishupermError
from feishuperm.lib.control import ask_server
from feishuperm.lib.language import language, translate
from feishuperm.lib.program import (
    hook_output,
    permission_event,
    self_command,
    start_hook,
)
from feishuperm.lib.terminal import say, show
from feishuperm.messages import msg, word
from feishuperm.models.fields import part_at
from feishuperm.setup.service import START_SECONDS, fetch, running_status, tries

WAIT_SECONDS = 600  # a person who tries a thing out reads it first
STOP_SECONDS = 10.0
POLL_SECONDS = 0.1
SHOWN_SECONDS = 5.0
END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # a closed terminal sends the second
# What a person did, in words: they allowed it, or they did not.
DID = {
    "a command": (
        msg("You allowed the command. Claude runs it."),
        msg("You denied the command."),
    ),
    "an edit": (
        msg("You allowed the edit. Claude makes it."),
        msg("You denied the edit."),
    ),
    "a question": (
        msg("You answered the question."),
        msg("You skipped the question."),
    ),
    "a plan": (
        msg("You approved the plan. Claude carries it out."),
        msg("You sent the plan back."),
    ),
}


class Sample(NamedTuple):
    """One request of the demo, and how `--auto` answers it."""

    title: str
    tool_name: str
    tool_input: dict[str, Any]
    answer: str  # the button that is pressed
    fields: Mapping[str, str] = {}  # what is filled in


def samples(project: str) -> list[Sample]:
    """One of each kind: a command, an edit, a question, a plan."""
    text = (pkgutil.get_data("feishuperm", "setup/demo.json") or b"").decode()
    rows = json.loads(text.replace("PROJECT", json.dumps(project)[1:-1]))
    return [Sample(**row) for row in rows]


class Demo:
    """A server of its own; `with Demo(environ) as demo:` starts and ends it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.folder = tempfile.mkdtemp(prefix="feishuperm-demo-")
        self.project = os.path.join(self.folder, "shop")
        self.socket = os.path.join(self.folder, "s")
        self.environ = {
            **{key: environ[key] for key in ("PATH", "LANG", "TZ") if key in environ},
            "HOME": self.folder,
            "CLAUDE_PROJECT_DIR": self.project,
            "PERMISSION_SOCKET_PATH": self.socket,
            "PERMISSION_REQUEST_TIMEOUT": str(WAIT_SECONDS),
            "CALLBACK_SERVER_PORT": "0",
            "FEISHUPERM_LANG": language(environ),
        }
        self.server: subprocess.Popen[bytes] | None = None
        self.hooks: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Demo:
        os.mkdir(self.project, 0o700)
        edit = samples(self.project)[1].tool_input
        with open(edit["file_path"], "w") as file:
            file.write(edit["old_string"])
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the server and wait until it answers. Raises FeishupermError."""
        with open(os.path.join(self.folder, "serve.out"), "wb") as output:
            self.server = subprocess.Popen(
                self_command("serve"),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environ,
            )
        for _ in tries(START_SECONDS):
            if running_status(self.socket) is not None:
                return
            if self.server.poll() is not None:
                break
        with open(os.path.join(self.folder, "serve.out"), errors="replace") as file:
            said = file.read().strip().splitlines() or [msg("it said nothing")]
        raise FeishupermError(msg("the demo's server did not start: {}", said[-1]))

    def status(self) -> dict[str, Any]:
        return ask_server({"command": "status"}, path=self.socket)

    def ask(self, sample: Sample) -> str:
        """Fire a request and wait until the server has it; its id."""
        before = {request["id"] for request in self.status()["waiting"]}
        event = permission_event(
            sample.tool_name, sample.tool_input, self.project, self.environ
        )
        hook = self.hooks[sample.title] = start_hook(event, self.environ)
        for _ in tries(START_SECONDS):
            for request in self.status()["waiting"]:
                if request["id"] not in before:
                    return str(request["id"])
            if hook.poll() is not None:
                break
        raise FeishupermError(msg("the demo's hook for {} did not ask", sample.title))

    def close(self) -> None:
        """End the processes started here and remove the folder.

        No wait is without an end: an interrupt within `Popen.poll` leaves its lock
        taken, and then `wait` would never return.
        """
        for process in filter(None, (self.server, *self.hooks.values())):
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            if process.stdout is not None:
                process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


# What the command does with it.


def clean_up_on_signals() -> None:
    """Leave like Ctrl-C does, through everything that cleans up, once."""

    def end(number: int, frame: object) -> None:
        for other in END_SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for number in END_SIGNALS:
        signal.signal(number, end)


def answer_all(demo: Demo, as_json: bool) -> int:
    """Ask and answer one request after the other; the exit code."""
    base_url = demo.status()["http"]
    answered = True
    for sample in samples(demo.project):
        press(base_url, demo.ask(sample), sample.answer, sample.fields)
        output = hook_output(demo.hooks.pop(sample.title), 10.0)
        tell(sample, output, as_json)
        answered = answered and bool(output)
    return 0 if answered else 1


def wait_for_taps(demo: Demo, as_json: bool = False) -> int:
    """Ask everything at once and show each answer as it comes."""
    asked = {sample.title: sample for sample in samples(demo.project)}
    for sample in asked.values():
        demo.ask(sample)
    if not as_json:
        say("Four requests are in the inbox: answer them there. Ctrl-C ends the demo.")
    while demo.hooks:
        for title, hook in list(demo.hooks.items()):
            if hook.poll() is not None:
                output = hook_output(demo.hooks.pop(title), 1.0)
                tell(asked[title], output, as_json)
        time.sleep(POLL_SECONDS)
    return 0


def tell(sample: Sample, output: str, as_json: bool = False) -> None:
    """What was decided, and what Claude Code reads from the hook."""
    told = json.loads(output or "null")
    if as_json:
        show(json.dumps({"request": sample.title, "output": told}))
        return
    decision = part_at(told, "hookSpecificOutput", "decision")
    allowed, denied = DID[sample.title]
    if not decision:
        say("Nobody answered {}: the terminal decides.", word(sample.title))
    elif decision.get("behavior") == "allow":
        answers = part_at(decision, "updatedInput", "answers").values()
        said = translate("Claude was told: {}", ", ".join(map(str, answers)))
        show(" ".join([translate(allowed), *([said] if answers else [])]))
    else:
        said = translate("Claude was told: {}", decision.get("message", ""))
        show(f"{translate(denied)} {said}")


def open_browser(url: str, environ: Mapping[str, str]) -> None:
    """Open the page where a browser can appear; the address is printed anyway."""
    here = any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if sys.platform == "darwin":
        here = "SSH_CONNECTION" not in environ
    if not here:
        return
    import webbrowser

    try:
        webbrowser.open(url)
    except webbrowser.Error:
        pass


# Somebody who opens pages and presses buttons, without a browser or a proxy.


def press(base_url: str, id: str, action: str, fields: Mapping[str, str]) -> None:
    """Send what a button on a request's page sends, and what was filled in there."""
    status, page = fetch(find_page(base_url, id))
    sign = re.search(f'formaction="{action}" name="sig" value="([^"]*)"', page)
    if sign is None:
        raise FeishupermError(msg("the page of {} has no {} ({})", id, action, status))
    hidden = dict(re.findall('name="(id|digest)" value="([^"]*)"', page))
    form = {**hidden, "sig": sign[1], **fields}
    status, _ = fetch(f"{base_url}/{action}", form)
    if status != 200:
        raise FeishupermError(msg("{} answered with status {}", action, status))


def find_page(base_url: str, id: str) -> str:
    """The address of a request's own page, as the inbox names it.

    The server knows a request a moment before the inbox shows it.
    """
    for _ in tries(SHOWN_SECONDS):
        inbox = fetch(base_url + "/")[1]
        match = re.search(f'href="(request\\?id={re.escape(id)}[^"]*)"', inbox)
        if match:
            return f"{base_url}/{html.unescape(match[1])}"
    raise FeishupermError(msg("the inbox does not show {}", id))
