"""A whole feishuperm in a temporary folder, with requests to try it on.

Its server, socket, settings and ledger are its own, so it works on a machine where
nothing is configured and leaves a running server alone.  The requests go through real
hook processes; `Visitor` answers them over HTTP the way a person would.
"""

from __future__ import annotations

import html.parser
import os
import re
import shutil
import subprocess
import tempfile
import time
from typing import NamedTuple
from urllib.parse import urljoin

from feishuperm.errors import FeishupermError
from feishuperm.lib.control import NotRunningError, ask_server
from feishuperm.lib.program import self_command, start_hook
from feishuperm.setup.fetch import fetch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

START_SECONDS = 20.0
WAIT_SECONDS = 600  # a person who tries a thing out reads it first
STOP_SECONDS = 10.0
OLD_CODE = "export function total(items) {\n  return items.length\n}\n"
NEW_CODE = (
    "export function total(items) {\n"
    "  return items.reduce((sum, item) => sum + item.price, 0)\n}\n"
)


class Sample(NamedTuple):
    """One request of the demo, and how `--auto` answers it."""

    title: str
    tool_name: str
    tool_input: dict[str, Any]
    answer: str  # the path of the form that is sent


def samples(project: str) -> list[Sample]:
    """One of each kind: a command, an edit, a question, a plan."""
    edit = {
        "file_path": os.path.join(project, "total.js"),
        "old_string": OLD_CODE,
        "new_string": NEW_CODE,
        "replace_all": False,
    }
    question = {
        "question": "Which database should the service use?",
        "header": "Database",
        "multiSelect": False,
        "options": [
            {"label": "SQLite", "description": "one file, no server"},
            {"label": "PostgreSQL", "description": "several writers"},
        ],
    }
    plan = "# Plan\n\n1. Add a price to every item\n2. Sum the prices\n3. Run the tests"
    command = {"command": "npm run build && npm test", "description": "Build and test"}
    return [
        Sample("a command", "Bash", command, "/allow"),
        Sample("an edit", "Edit", edit, "/deny"),
        Sample("a question", "AskUserQuestion", {"questions": [question]}, "/answer"),
        Sample("a plan", "ExitPlanMode", {"plan": plan}, "/allow"),
    ]


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
            "FEISHUPERM_LANG": environ.get("FEISHUPERM_LANG", "zh"),
        }
        self.server: subprocess.Popen[bytes] | None = None
        self.hooks: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Demo:
        os.mkdir(self.project)
        with open(os.path.join(self.project, "total.js"), "w") as file:
            file.write(OLD_CODE)
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
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.server.poll() is None:
            try:
                self.status()
                return
            except NotRunningError:
                time.sleep(0.02)
        raise FeishupermError(f"the demo's server did not start: {self._last_words()}")

    def status(self) -> dict[str, Any]:
        return ask_server({"command": "status"}, path=self.socket)

    def ask(self, sample: Sample) -> str:
        """Fire a request and wait until the server has it; its id."""
        before = {request["id"] for request in self.status()["waiting"]}
        event = {
            "session_id": "feishuperm-demo",
            "transcript_path": "",
            "cwd": self.project,
            "hook_event_name": "PermissionRequest",
            "permission_mode": "default",
            "tool_name": sample.tool_name,
            "tool_input": sample.tool_input,
        }
        hook = start_hook(event, self.environ)
        self.hooks[sample.title] = hook
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and hook.poll() is None:
            for request in self.status()["waiting"]:
                if request["id"] not in before:
                    return str(request["id"])
            time.sleep(0.02)
        raise FeishupermError(f"the demo's hook for {sample.title} did not ask")

    def close(self) -> None:
        """End the processes started here and remove the folder."""
        if self.server is not None:
            self.server.terminate()
            try:
                self.server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait()
        for hook in self.hooks.values():
            if hook.poll() is None:
                hook.terminate()
                hook.wait()
            if hook.stdout is not None:
                hook.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _last_words(self) -> str:
        with open(os.path.join(self.folder, "serve.out"), errors="replace") as file:
            lines = file.read().strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class Visitor:
    """Somebody who opens a request's page and presses a button."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def press(self, request_id: str, path: str) -> None:
        """Send the form of one button; the first option answers a question."""
        url = find_page(self.base_url, request_id)
        status, page = fetch(url)
        forms, target = read_forms(page, url), self.base_url + path
        if status != 200 or target not in forms:
            raise FeishupermError(f"the page of {request_id} has no {path} ({status})")
        status, _ = fetch(target, forms[target])
        if status != 200:
            raise FeishupermError(f"{path} answered with status {status}")


def find_page(base_url: str, request_id: str) -> str:
    """The address of a request's own page, as the inbox names it."""
    link = re.escape(f"request?id={request_id}")
    match = re.search(f'href="({link}[^"]*)"', fetch(base_url + "/")[1])
    if match is None:
        raise FeishupermError(f"the inbox does not show {request_id}")
    return f"{base_url}/{html.unescape(match[1])}"


def read_forms(page: str, url: str) -> dict[str, list[tuple[str, str]]]:
    """The fields of every form, by where it goes; of each choice the first option."""
    reader = _FormReader(url)
    reader.feed(page)
    return reader.forms


class _FormReader(html.parser.HTMLParser):
    """Collects what a browser would send if only first options were chosen."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.forms: dict[str, list[tuple[str, str]]] = {}
        self.form: list[tuple[str, str]] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form":
            target = urljoin(self.url, values.get("action", ""))
            self.form = self.forms.setdefault(target, [])
        elif tag == "input" and self.form is not None and values.get("name"):
            name = values["name"]
            if name not in [known for known, _ in self.form]:
                self.form.append((name, values.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.form = None
