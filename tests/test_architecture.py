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
IDS = [path.relative_to(ROOT).as_posix() for path in SOURCES]

# layer: the layers it may import, besides itself.  `cli` knows commands by name only.
# Everybody may import what EVERYBODYS holds; nobody but `cli` the hook's entry point.
ARROWS: dict[str, set[str]] = {
    "cli": {"client", "lib", "models"},
    "__main__": {"cli"},
    "client": {"commands", "lib"},  # late: no server, or another agent's event
    "codes": set(),
    "loader": {"cli", "client", "codes"},
    "errors": set(),
    "wire": set(),
    "models": set(),
    "protocol": {"models"},
    "lib": {"models"},
    "danger": set(),
    "channels": {"lib", "protocol", "models"},
    "services": {"channels", "danger", "lib", "protocol", "models"},
    "handlers": {"services", "channels", "lib", "protocol", "models"},
    "engine": {"services", "lib", "protocol", "models"},
    "supervisor": {"services", "lib", "models"},
    "setup": {"supervisor", "services", "lib", "protocol", "models"},
    "gateway": {"services", "channels", "lib", "protocol", "models"},
    "server": {"protocol", "models"},
    "commands": {
        *("handlers", "engine", "supervisor", "setup", "gateway", "services"),
        *("channels", "lib", "models", "server", "protocol"),
    },
}
EVERYBODYS = {"errors", "wire"}
ROOT_NAMES = {
    *("pyproject.toml", "build.py", "install.sh", "README.md", "README.zh-CN.md"),
    *("DESIGN.md", "CHANGELOG.md", "LICENSE", "feishuperm", "tests"),
}
PACKAGE_NAMES = {
    *("__init__.py", "__main__.py", "cli.py", "client.py", "errors.py", "wire.py"),
    *("codes.py", "loader.py"),
    *("models", "protocol", "lib", "services", "channels", "handlers", "server", "web"),
    *("engine", "supervisor", "setup", "gateway", "commands", "danger"),
}

# A module of more lines than this has a test of its own at the mirrored place
# (`feishuperm/a/b.py`: `tests/a/test_b.py`), or says here why not.
SMALL = 30
UNMIRRORED = {
    "feishuperm/channels/base.py": "types alone; every channel's test is held to them",
    "feishuperm/errors.py": "classes without a branch; lib/test_terminal prints them",
    "feishuperm/gateway/peer.py": "two records without a branch; gateway/test_hub",
    "feishuperm/setup/phone_codes.py": "a table; commands/test_doctor tells every row",
}


def layer(module: str) -> str:
    """`feishuperm.lib.text` is of the layer `lib`; the package itself of none."""
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


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_imports_point_one_way(path: Path) -> None:
    """Scenario: HTTP 处理器模块分离; Scenario: 请求管理服务模块;
    Scenario: 规则写入服务模块"""
    own = layer(module_of(path))
    common = set() if own in EVERYBODYS else EVERYBODYS
    allowed = {own, "", *common, *ARROWS.get(own, set())}
    names = imports(ast.parse(path.read_bytes()))
    ours = {name for name in names if name.split(".")[0] == "feishuperm"}
    if own == "commands" and path.name == "version.py":
        ours.discard("feishuperm._build")  # exists in a built file only
    wrong = sorted(name for name in ours if known_layer(name) not in allowed)
    assert not wrong, f"{own} may import {sorted(allowed)}"


def known_layer(name: str) -> str:
    """The layer of an imported name; `from feishuperm import __version__` has none."""
    found = layer(name)
    return found if found in ARROWS or (PACKAGE / f"{found}.py").exists() else ""


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_only_the_standard_library_is_imported(path: Path) -> None:
    names = {name.split(".")[0] for name in imports(ast.parse(path.read_bytes()))}
    standard = getattr(sys, "stdlib_module_names", None)
    if standard is None:
        pytest.skip("this Python has no list of its own modules")
    assert not names - set(standard) - {"feishuperm", "__future__"}


@pytest.mark.parametrize("path", sorted((PACKAGE / "commands").glob("*.py")), ids=str)
def test_commands_do_not_import_each_other(path: Path) -> None:
    others = {
        ".".join(name.split(".")[:3])
        for name in imports(ast.parse(path.read_bytes()))
        if name.startswith("feishuperm.commands.")
    }
    assert others <= {module_of(path)}


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_modules_say_what_they_are_for(path: Path) -> None:
    tree = ast.parse(path.read_bytes())
    if path.name == "__init__.py" and path.parent != PACKAGE:
        assert path.read_bytes() == b"", "a package's __init__ is empty"
    else:
        assert ast.get_docstring(tree)


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_dataclasses_are_not_used(path: Path) -> None:
    """They cost more at every start than all of our own modules together."""
    assert "dataclasses" not in {
        name.split(".")[0] for name in imports(ast.parse(path.read_bytes()))
    }


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


def mirror(path: Path) -> Path:
    """Where the test of a module belongs."""
    inside = path.relative_to(PACKAGE)
    return ROOT / "tests" / inside.parent / f"test_{inside.name}"


def needs_excuse(path: Path) -> bool:
    lines = len(path.read_bytes().splitlines())
    return lines > SMALL and not mirror(path).exists()


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_every_module_has_its_mirrored_test_or_says_why_not(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    assert not needs_excuse(path) or name in UNMIRRORED, f"write {mirror(path)}"


def test_only_a_module_without_its_own_test_is_excused() -> None:
    needed = {p.relative_to(ROOT).as_posix() for p in filter(needs_excuse, SOURCES)}
    assert set(UNMIRRORED) == needed and all(UNMIRRORED.values())
    assert len(UNMIRRORED) < 15, "rather write the test"


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
