"""The shape of the program: who may import whom, and where a file may lie."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from feishuperm.cli import COMMANDS, module_name
from feishuperm.models.names import PROGRAMS
from tests.conftest import ROOT

PACKAGE = ROOT / "feishuperm"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_bytes()) for path in SOURCES}

# layer: the layers it may import, besides itself.  `cli` knows commands by name only.
# Everybody may import what EVERYBODYS holds; nobody but `cli` the hook's entry point.
ARROWS: dict[str, set[str]] = {
    "cli": {"client", "lib", "models"},
    "__main__": {"cli"},
    "client": {"agents", "commands"},  # late: no server, or another agent's event
    "compiled": set(),
    "messages": {"compiled"},  # late: in the sources alone
    "loader": {"cli", "client"},
    "errors": set(),
    "tables": set(),
    "wire": set(),
    "models": set(),
    "protocol": {"models"},
    "lib": {"models"},
    "shell": set(),
    "danger": {"shell"},
    "agents": {"lib", "models"},
    "app": {"lib", "protocol", "models"},
    "channels": {"app", "lib", "protocol", "models"},
    "services": {"agents", "channels", "danger", "lib", "protocol", "models"},
    "handlers": {"agents", "services", "channels", "lib", "protocol", "models"},
    "hooks": {"agents", "services", "shell", "lib", "protocol", "models"},
    "supervisor": {"services", "lib", "models"},
    "setup": {
        *("supervisor", "services", "agents", "app", "lib", "protocol", "models"),
        *("compiled", "loader"),  # `install` puts the modules' code beside the archive
    },
    "gateway": {
        *("services", "channels", "app", "lib", "server", "protocol", "models"),
    },
    "server": {"protocol", "models"},
    "commands": {
        *("handlers", "help", "hooks", "supervisor", "setup", "gateway", "services"),
        *("agents", "channels", "app", "lib", "models", "server", "protocol"),
    },
}
EVERYBODYS = {"errors", "wire", "messages", "tables"}
ROOT_NAMES = {
    *(
        "pyproject.toml",
        "build.py",
        "install.sh",
        "README.md",
        "README.zh-CN.md",
    ),
    *("DESIGN.md", "CHANGELOG.md", "LICENSE", "feishuperm", "tests"),
}
PACKAGE_NAMES = {
    *("__init__.py", "__main__.py", "cli.py", "client.py", "errors.py", "wire.py"),
    *("compiled.py", "loader.py", "messages.py", "tables.py", "locale"),
    *(
        "models",
        "protocol",
        "lib",
        "services",
        "app",
        "channels",
        "handlers",
        "help",
        "server",
        "web",
        "start",
    ),
    *(
        "hooks",
        "supervisor",
        "setup",
        "gateway",
        "commands",
        "danger",
        "shell",
        "agents",
    ),
}


def layer(module: str) -> str:
    """`feishuperm.lib.tool` is of the layer `lib`; the package itself of none."""
    return module.split(".")[1] if "." in module else ""


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports(tree: ast.AST) -> set[str]:
    """Every module imported anywhere in a file, except for types alone."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if is_type_checking(node):
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        found |= imports(node)
    return found


def wrong_imports(path: Path) -> set[str]:
    """What a module imports of ours that lies above it."""
    own = layer(module_of(path))
    common = set() if own in EVERYBODYS else EVERYBODYS
    allowed = {own, "", *common, *ARROWS.get(own, set())}
    names = imports(TREES[path])
    ours = {name for name in names if name.split(".")[0] == "feishuperm"}
    if own == "commands" and path.name == "version.py":
        ours.discard("feishuperm._build")  # exists in a built file only
    return {name for name in ours if known_layer(name) not in allowed}


def test_imports_point_one_way() -> None:
    """Scenario: HTTP 处理器模块分离; Scenario: 请求管理服务模块;
    Scenario: 规则写入服务模块"""
    found = {module_of(path): wrong_imports(path) for path in SOURCES}
    assert not {module: names for module, names in found.items() if names}


def known_layer(name: str) -> str:
    """The layer of an imported name; `from feishuperm import __version__` has none."""
    found = layer(name)
    return found if found in ARROWS or (PACKAGE / f"{found}.py").exists() else ""


def test_only_the_standard_library_is_imported_and_no_dataclasses() -> None:
    """Those cost more at every start than all of our own modules together."""
    standard = getattr(sys, "stdlib_module_names", None)
    if standard is None:
        pytest.skip("this Python has no list of its own modules")
    allowed = {*standard, "feishuperm", "__future__"} - {"dataclasses"}
    found = {
        module_of(path): {name.split(".")[0] for name in imports(tree)} - allowed
        for path, tree in TREES.items()
    }
    assert not {module: names for module, names in found.items() if names}


def test_commands_do_not_import_each_other() -> None:
    wrong = {
        (module_of(path), name)
        for path in (PACKAGE / "commands").glob("*.py")
        for name in imports(TREES[path])
        if name.startswith("feishuperm.commands.")
        and not f"{name}.".startswith(f"{module_of(path)}.")
    }
    assert not wrong


def says_what_it_is_for(path: Path) -> bool:
    """A package's own file is empty; every other begins with a sentence."""
    if path.name == "__init__.py" and path.parent != PACKAGE:
        return path.read_bytes() == b""
    return bool(ast.get_docstring(TREES[path]))


def test_modules_say_what_they_are_for() -> None:
    assert not [module_of(path) for path in SOURCES if not says_what_it_is_for(path)]


def test_every_directory_is_a_package() -> None:
    folders = {path.parent for path in SOURCES}
    assert all((folder / "__init__.py").exists() for folder in folders)


def test_nothing_unknown_lies_around() -> None:
    """A reader who opens the tree knows where to look."""
    tracked = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, timeout=60
    ).stdout.split("\n")
    tops = {name.partition("/")[0] for name in tracked if name}
    assert {name for name in tops if not name.startswith(".")} <= ROOT_NAMES
    below = {p.name for p in PACKAGE.iterdir() if p.name != "__pycache__"}
    assert below <= PACKAGE_NAMES


def test_every_command_has_its_module_and_every_module_its_command() -> None:
    modules = {path.stem for path in (PACKAGE / "commands").glob("*.py")}
    expected = {module_name(command).rpartition(".")[2] for command in COMMANDS}
    assert modules - {"__init__"} == expected
    assert set(PROGRAMS.values()) <= {*COMMANDS, ""}


PATHS_THAT_MUST_BE_LIGHT = {
    "supervisor": ["supervisor", "status"],
    "version": ["version"],
    "help": ["--help"],
}
HEAVY = {"dataclasses", "logging", "asyncio", "argparse", "urllib.request"}


@pytest.mark.parametrize("command", PATHS_THAT_MUST_BE_LIGHT)
def test_light_commands_load_nothing_heavy(command: str, tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); "
        "from feishuperm.cli import main; code = main(['feishuperm'] + sys.argv[1:]); "
        "print(*sorted(sys.modules)); sys.exit(code)"
    )
    arguments = PATHS_THAT_MUST_BE_LIGHT[command]
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(ROOT), *arguments],
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    loaded = set(result.stdout.splitlines()[-1].split())
    assert not loaded & HEAVY
    ours = {name for name in loaded if name.startswith("feishuperm.commands.")}
    assert ours <= {f"feishuperm.commands.{command}"}


# All that the program itself knows to talk to, or names as an example.
ADDRESSES = {
    *("open.feishu.cn", "open.larksuite.com"),
    *("accounts.feishu.cn", "accounts.larksuite.com", "localhost", "www.w3.org"),
    *("127.0.0.1", "perm.example.com", "a.com", "HOST"),
}


def test_program_knows_no_address_but_feishus_and_ones_own() -> None:
    """Never telemetry: there is nowhere it could go."""
    suffixes = (".py", ".sh", ".js", ".html", ".css")
    files = [path for path in PACKAGE.rglob("*") if path.suffix in suffixes]
    found = set()
    for path in files:
        found.update(re.findall(r"https?://([A-Za-z0-9.-]+)", path.read_text("utf-8")))
    assert "open.feishu.cn" in found  # the pattern still finds something
    assert found <= ADDRESSES
