"""The other coding agents in a laboratory: a class for each, one way to drive them.

    with agent_lab("codex", pyz) as lab:
        lab.hook("feishuperm hook codex", timeout=20)
        lab.model.push([lab.shell("touch made.txt")], [text("bye")])
        lab.start("please run it")
        lab.wait_results(1)

As in `tests.lab`: a home, a project and a scripted model of its own, `env -i`, dummy
keys, loopback only.  An agent's first-run screens are answered; `close` ends, by their
ids, the processes that have the lab's home in their environment, since some agents
leave one behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import time
from pathlib import Path
from typing import Any

from feishuperm.setup.steps import own_file
from tests.fakes.agent_model import AgentModel
from tests.fakes.model import Block, tool
from tests.lab import KEY, Lab, Session, wait_for
from tests.system_parts import find_agent

MODEL = "fake-model"
BUSY = 60.0  # seconds for a step that takes two of them on a quiet machine
WHY = "the test needs it"


class AgentLab(Lab):
    """What all agents have in common; a subclass has one's files, words and keys."""

    model_type = AgentModel
    name = ""
    dialog = ""  # on the screen while the agent asks in the terminal
    approve = ("Enter",)  # keys that say yes there
    refuse = ("Escape",)
    cancel = ("Escape",)  # keys that end the turn while a hook waits
    cancelled = ""  # on the screen after that
    # First-run screens: what they show, and the keys that lead on.
    screens: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __init__(self, pyz: str = "") -> None:
        self.command = find_agent(self.name)
        super().__init__(self.command[-1] if self.command else "", pyz=pyz)
        self.bin = self._folder("bin")
        if pyz:
            os.symlink(pyz, os.path.join(self.bin, "feishuperm-hook"))
        self.session_open: Session | None = None
        self.configure()

    # What a subclass says.

    def configure(self) -> None:
        """Write the agent's configuration: the scripted model, nothing else."""

    def hook(self, command: str, timeout: int = 30, *_: Any) -> None:  # type: ignore[override]
        """Register a command for the agent's permission event, in its own files."""
        raise NotImplementedError

    def variables(self) -> dict[str, str]:
        """What the agent needs in its environment."""
        return {}

    def arguments(self, prompt: str) -> list[str]:
        return [prompt]

    def shell(self, command: str) -> Block:
        """A call that needs approval, as the agent's model would make it."""
        raise NotImplementedError

    # Running it.

    def our_hook(self, timeout: int = 30) -> None:
        """Register the built file under the name that `install` gives it."""
        program = os.path.join(self.bin, "feishuperm-hook")
        self.hook(f"{shlex.quote(program)} {self.name}", timeout)

    def environ(self) -> dict[str, str]:
        return {
            "HOME": self.home,
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "PERMISSION_SOCKET_PATH": self.socket,
            **self.variables(),
            **self.extra,
        }

    def start(self, prompt: str, timeout: float = BUSY) -> Session:
        """The interactive program with a first prompt, past its first-run screens."""
        asked = len(self.model.calls())
        words = [*self.command, *self.arguments(prompt)]
        session = self.session_open = Session(self, words)
        self.sessions.append(session)
        until = time.monotonic() + timeout
        while len(self.model.calls()) == asked:
            screen = session.screen()
            keys = (
                keys for pattern, keys in self.screens if re.search(pattern, screen)
            )
            self.press(next(keys, ()))
            if time.monotonic() > until:
                raise TimeoutError(f"{self.name} did not start:\n{screen}")
            time.sleep(0.2)
        return session

    @property
    def screen_of(self) -> Session:
        assert self.session_open is not None
        return self.session_open

    def press(self, keys: tuple[str, ...]) -> None:
        """Keys one after another, with time to draw between them."""
        for key in keys:
            self.screen_of.keys(key)
            time.sleep(0.4)

    def wait_screen(self, pattern: str, timeout: float = BUSY) -> str:
        return self.screen_of.wait(pattern, timeout)

    def say(self, prompt: str) -> None:
        """Type a prompt into the session that is open."""
        self.screen_of.type(prompt)

    def wait_results(self, count: int, timeout: float = BUSY) -> list[str]:
        """What the model was told of its calls, once it was told of so many."""
        what = f"{count} results of {self.name}"
        try:
            wait_for(lambda: len(self.model.tool_results()) >= count, what, timeout)
        except TimeoutError as error:
            shown = self.session_open.screen() if self.session_open else ""
            raise TimeoutError(f"{error}:\n{shown}") from None
        return [result.text for result in self.model.tool_results().values()]

    def has(self, name: str) -> bool:
        """Whether a file of the project is there."""
        return os.path.exists(os.path.join(self.project, name))

    def put(self, name: str, data: object) -> str:
        """A file below the home folder; what is no text becomes JSON."""
        text = data if isinstance(data, str) else json.dumps(data, indent=1)
        return self.write(os.path.join(self.home, name), text)

    def close(self) -> None:
        for session in self.sessions:
            session.close()
        end_processes_of(self.home)
        super().close()


def end_processes_of(home: str) -> None:
    """End by its id each process that has this home in its environment."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in processes_of(home):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        with contextlib.suppress(TimeoutError):
            wait_for(lambda: not processes_of(home), "end of the agent", 3)


def processes_of(home: str) -> list[int]:
    mark = b"HOME=" + os.fsencode(home)
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


def claude_form(command: str, timeout: int) -> dict[str, Any]:
    """Hooks in the form of Claude Code, which Codex and Qwen have as well."""
    entry = {"type": "command", "command": command, "timeout": timeout}
    return {"PermissionRequest": [{"matcher": "*", "hooks": [entry]}]}


class CodexLab(AgentLab):
    """Every hook that is new or has changed has to be trusted on a screen."""

    name = "codex"
    dialog = r"Would you like to run the following command"
    approve = ("y",)
    cancelled = r"interrupted"
    screens = (
        (r"Hooks need review(?s:.*)› 1\. Review", ("2",)),
        (r"› 2\. Trust all and continue", ("Enter",)),
    )

    def configure(self) -> None:
        # Without its daemon it starts 3 s faster and does not copy 400 MB.
        lines = (
            f'model = "{MODEL}"',
            'model_provider = "lab"',
            'approval_policy = "on-request"',
            "check_for_update_on_startup = false",
            "[model_providers.lab]",
            'name = "lab"',
            f'base_url = "{self.model.url}/v1"',
            'wire_api = "responses"',
            'env_key = "LAB_KEY"',
            f'[projects."{self.project}"]',
            'trust_level = "trusted"',
            "[features]",
            "daemon_auto_start = false",
        )
        self.put(".codex/config.toml", "\n".join(lines) + "\n")

    def hook(self, command: str, timeout: int = 30, *_: Any) -> None:  # type: ignore[override]
        self.put(".codex/hooks.json", {"hooks": claude_form(command, timeout)})

    def variables(self) -> dict[str, str]:
        return {"LAB_KEY": KEY}

    def shell(self, command: str) -> Block:
        asks = {"sandbox_permissions": "require_escalated", "justification": WHY}
        return tool("exec_command", cmd=command, **asks)


class CodexAcpLab(CodexLab):
    """Codex behind a program that speaks the Agent Client Protocol for it."""

    name = "codex-acp"


class QwenLab(AgentLab):
    """It asks the model for suggestions and memories besides: both are off."""

    name = "qwen"
    dialog = r"Allow execution of"
    cancelled = r"[Cc]ancell?ed"
    chosen: dict[str, Any] = {  # noqa: RUF012
        "security": {"auth": {"selectedType": "openai"}},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "tools": {"approvalMode": "default"},
        "ui": {"enableFollowupSuggestions": False},
        "memory": {"enableManagedAutoMemory": False},
    }

    def configure(self) -> None:
        self.put(".qwen/settings.json", self.chosen)

    def hook(self, command: str, timeout: int = 30, *_: Any) -> None:  # type: ignore[override]
        hooks = claude_form(command, timeout)
        self.put(".qwen/settings.json", {**self.chosen, "hooks": hooks})

    def variables(self) -> dict[str, str]:
        base = f"{self.model.url}/v1"
        names = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL")
        return dict(zip(names, (base, KEY, MODEL)))

    def arguments(self, prompt: str) -> list[str]:
        return ["-i", prompt]

    def shell(self, command: str) -> Block:
        given = {"command": command, "description": WHY, "is_background": False}
        return tool("run_shell_command", **given)


class CopilotLab(AgentLab):
    """A form of its own; a hook that fails is a refusal."""

    name = "copilot"
    dialog = r"Do you want to run this command"
    cancel = ("Escape", "Escape")
    cancelled = r"[Cc]ancell?ed|interrupted"
    screens = ((r"Do you trust the files in this folder", ("Enter",)),)

    def hook(self, command: str, timeout: int = 30, *_: Any) -> None:  # type: ignore[override]
        entry = {"type": "command", "bash": command, "timeoutSec": timeout}
        hooks = {"permissionRequest": [entry]}
        self.put(".copilot/hooks/feishuperm.json", {"version": 1, "hooks": hooks})

    def variables(self) -> dict[str, str]:
        return {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": f"{self.model.url}/v1",
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_MODEL": MODEL,
            "COPILOT_AUTO_UPDATE": "false",
        }

    def arguments(self, prompt: str) -> list[str]:
        return ["-i", prompt]

    def shell(self, command: str) -> Block:
        return tool("bash", command=command, description=WHY, mode="sync")


class OpencodeLab(AgentLab):
    """No hooks: the plugin calls the program; the dialog stays open beside it."""

    name = "opencode"
    dialog = r"Permission required"

    def configure(self) -> None:
        limit = {"context": 100_000, "output": 8000}
        model = {"name": MODEL, "tool_call": True, "limit": limit}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "lab",
            "models": {MODEL: model},
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": KEY},
        }
        settings = {
            "provider": {"lab": provider},
            "model": f"lab/{MODEL}",
            "small_model": f"lab/{MODEL}",
            "permission": {"bash": "ask"},
            "autoupdate": False,
            "share": "disabled",
        }
        self.put(".config/opencode/opencode.json", settings)
        # Without these it would first look for its plugin package on the network.
        wanted = {"dependencies": {"@opencode-ai/plugin": "*"}}
        lock = {"lockfileVersion": 3, "packages": {"": wanted}}
        self.put(".config/opencode/package.json", wanted)
        self.put(".config/opencode/package-lock.json", lock)
        os.makedirs(os.path.join(self.home, ".config/opencode/node_modules"))

    def our_hook(self, timeout: int = 30) -> None:
        program = os.path.join(self.bin, "feishuperm-hook")
        plugin = own_file("agents/opencode.js", program, timeout)
        self.put(".config/opencode/plugin/feishuperm.js", plugin.decode())

    def variables(self) -> dict[str, str]:
        names = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        return {f"OPENCODE_DISABLE_{name}": "1" for name in names}

    def arguments(self, prompt: str) -> list[str]:
        return ["--prompt", prompt]

    def shell(self, command: str) -> Block:
        return tool("bash", command=command, description=WHY)


LABS: dict[str, type[AgentLab]] = {
    row.name: row for row in (CodexLab, CodexAcpLab, QwenLab, CopilotLab, OpencodeLab)
}


def agent_lab(name: str, pyz: str = "") -> AgentLab:
    """A lab of its own; a context manager that ends and removes everything."""
    return LABS[name](pyz)
