"""The built file starts anywhere, runs nobody else's code and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import build
from tests.conftest import clean_env, need
from tests.fakes.hook_server import ANSWER, EVENT, HookServer
from tests.laid_down import head_of

TRAPS = ("json", "socket", "_socket", "encodings", "posix", "os", "marshal", "site")
SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}
ODD_NAMES = [
    "with blanks",
    'it\'s "quoted"',
    "$HOME `id` $(id) \\n",
    "中文 目录",
    "new\nline",
    "-dash",
    "*?[a]",
    b"not \xff utf-8".decode(errors="surrogateescape"),
]
OLD_PYTHONS = [
    path
    for path in sorted(set(map(os.path.realpath, build.candidate_pythons())))
    if re.search(r"/python3\.[678]$", path)
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HookServer]:
    with HookServer(str(tmp_path / "s")) as running:
        yield running


def run(
    command: list[str],
    env: dict[str, str],
    cwd: Path,
    stdin: bytes = EVENT,
    **options: object,
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command,
        env=env,
        cwd=cwd,
        input=stdin,
        capture_output=True,
        timeout=60,
        **options,
    )


def assert_answered(result: subprocess.CompletedProcess[bytes]) -> None:
    assert (result.returncode, result.stdout, result.stderr) == (0, ANSWER, b"")


def pin(config: Path, text: str) -> None:
    """Name the interpreter the way `install` does."""
    (config / "feishuperm").mkdir(parents=True, exist_ok=True)
    (config / "feishuperm" / "python").write_bytes(os.fsencode(text))


@pytest.fixture
def env(home: Path, server: HookServer) -> dict[str, str]:
    """A clean environment that leads to the server, on the Python of the tests."""
    pin(home / ".config", os.path.realpath(sys.executable) + "\n")
    # As Claude Code has it: the session of the event.
    session = {"CLAUDE_CODE_SESSION_ID": "s-1"}
    return clean_env(home, PERMISSION_SOCKET_PATH=server.path, **session)


def test_hook_relays_the_servers_answer(
    pyz: Path, env: dict[str, str], server: HookServer, tmp_path: Path
) -> None:
    env["CLAUDE_PROJECT_DIR"] = "/some/project"
    assert_answered(run([str(pyz), "hook"], env, tmp_path))
    protocol, request_id, shown, project, raw = server.requests[0]
    assert (protocol, shown, project, raw) == (b"1", b"", b"/some/project", EVENT)
    assert re.fullmatch(rb"\d{10}-[0-9a-f]{8}", request_id)


# ---- places


def test_home_unset(pyz: Path, server: HookServer, tmp_path: Path) -> None:
    env = clean_env("/", PERMISSION_SOCKET_PATH=server.path)
    del env["HOME"]
    assert_answered(run([str(pyz), "hook"], env, tmp_path))


@pytest.mark.parametrize("home", ["/proc", "/nonexistent", "", "/dev/null"])
def test_home_that_cannot_be_written(
    pyz: Path, server: HookServer, tmp_path: Path, home: str
) -> None:
    env = clean_env(home, PERMISSION_SOCKET_PATH=server.path)
    assert_answered(run([str(pyz), "hook"], env, tmp_path))
    assert run([str(pyz), "version"], env, tmp_path).returncode == 0


def no_space() -> None:
    """From here on no file may grow by a byte, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def test_full_disk(pyz: Path, env: dict[str, str], tmp_path: Path) -> None:
    assert_answered(run([str(pyz), "hook"], env, tmp_path, preexec_fn=no_space))
    result = run([str(pyz), "version"], env, tmp_path, preexec_fn=no_space)
    assert result.returncode == 0, result.stderr


NOT_RELAYED = {
    "request": EVENT,
    "other event": b'{"hook_event_name":"PostToolUse","tool_name":"Bash"}',
    "unknown event": b'{"hook_event_name":"Tomorrow"}',
    "nothing": b"",
    "garbage": b"\xff\xfe\0{",
    "list": b"[1]",
    "nested": b'{"hook_event_name":"PermissionRequest",' + b"[" * 100_000,
    "too much": EVENT[:-1] + b"," + b" " * (17 << 20) + b"}",
}


@pytest.mark.parametrize(
    ("event", "place"),
    [
        *((event, "home") for event in NOT_RELAYED),
        *(
            (event, place)
            for event in ("request", "other event")
            for place in ("no home", "full disk", "bad config")
        ),
    ],
)
def test_hook_without_a_server_ends_with_0(
    pyz: Path, home: Path, tmp_path: Path, event: str, place: str
) -> None:
    env = clean_env(home, PERMISSION_SOCKET_PATH=str(tmp_path / "none"))
    if place == "no home":
        env["HOME"] = "/proc"
    elif place == "bad config":
        env["FEISHUPERM_CONFIG"] = str(tmp_path)
    options = {"preexec_fn": no_space} if place == "full disk" else {}
    command = [str(pyz), "hook"]
    result = run(command, env, tmp_path, NOT_RELAYED[event], **options)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full"])
def test_hook_with_closed_streams_ends_with_0(
    pyz: Path, env: dict[str, str], tmp_path: Path, closed: str
) -> None:
    script = f'"$0" hook {closed}'
    assert run(["/bin/sh", "-c", script, str(pyz)], env, tmp_path).returncode == 0


def test_fifty_parallel_first_starts(
    pyz: Path, env: dict[str, str], server: HookServer, tmp_path: Path
) -> None:
    copy = shutil.copy(pyz, tmp_path / "fresh")
    with ThreadPoolExecutor(50) as pool:
        starts = [
            pool.submit(run, [str(copy), "hook"], env, tmp_path) for _ in range(50)
        ]
        for start in starts:
            assert_answered(start.result())
    assert len({request[1] for request in server.requests}) == 50


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_odd_path(
    pyz: Path, env: dict[str, str], tmp_path: Path, name: str, locale: str
) -> None:
    env.update(LC_ALL=locale)
    folder = tmp_path / name
    folder.mkdir()
    copy = shutil.copy(pyz, folder / name)
    assert_answered(run([str(copy), "hook"], env, tmp_path))
    result = run([f"./{name}", "version"], env, folder)
    assert result.returncode == 0, result.stderr


def test_deleted_working_directory(
    pyz: Path, env: dict[str, str], tmp_path: Path
) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && "$0" hook && exec "$0" version'
    result = run(["/bin/sh", "-c", script, str(pyz)], env, tmp_path)
    assert result.stdout.startswith(ANSWER + b"feishuperm "), result.stderr


@pytest.mark.parametrize("name", ["feishuperm-hook", "permission-notify"])
def test_name_of_a_symlink_chooses_the_command(
    pyz: Path, env: dict[str, str], tmp_path: Path, name: str
) -> None:
    (tmp_path / "a").symlink_to(pyz)
    (tmp_path / name).symlink_to("a")
    assert_answered(run([str(tmp_path / name)], env, tmp_path))
    assert_answered(run([f"./{name}"], env, tmp_path))
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    assert_answered(run([name], env, Path("/")))
    result = run([name, "--help"], env, tmp_path)
    assert result.stdout.startswith(b"usage: feishuperm hook")
    result = run([name, "--nonsense"], env, tmp_path)
    assert (result.returncode, result.stdout) == (0, b"")
    assert result.stderr.splitlines() == [
        b"feishuperm: hook takes no arguments, got '--nonsense'",
        b"hint: feishuperm hook --help",
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_shells(pyz: Path, env: dict[str, str], tmp_path: Path, shell: str) -> None:
    need(shell)
    assert_answered(run([*SHELLS[shell], str(pyz), "hook"], env, tmp_path))
    assert_answered(run([*SHELLS[shell], "-u", str(pyz), "hook"], env, tmp_path))
    assert_answered(run([*SHELLS[shell], pyz.name, "hook"], env, pyz.parent))
    del env["HOME"]
    result = run([*SHELLS[shell], pyz.name, "version", "--json"], env, pyz.parent)
    assert json.loads(result.stdout)["version"], result.stderr


# ---- foreign code


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A folder of modules that leave a mark when they are run."""
    folder = tmp_path / "trap"
    folder.mkdir()
    code = f"open({str(tmp_path / 'SPRUNG')!r}, 'a').write(__name__ + ' ')\n"
    for name in (*TRAPS, "trap", "sitecustomize", "usercustomize", "feishuperm"):
        (folder / f"{name}.py").write_text(code)
    (folder / "startup").write_text(code.replace("__name__", "'startup'"))
    return folder


def trap_variables(trapped: Path) -> dict[str, str]:
    return {
        "PYTHONPATH": str(trapped),
        "PYTHONHOME": str(trapped),
        "PYTHONSTARTUP": str(trapped / "startup"),
        "PYTHONINSPECT": "1",
        "PYTHONUSERBASE": str(trapped),
        "PYTHONPLATLIBDIR": "trap",
        "PYTHONBREAKPOINT": "trap.x",
        "PYTHONWARNINGS": "error",
        "SHIV_ENTRY_POINT": "trap:main",
        "SHIV_CONSOLE_SCRIPT": "trap",
        "SHIV_MODULE": "trap",
        "SHIV_INTERPRETER": "1",
        "SHIV_ROOT": str(trapped / "root"),
        "SHIV_PREPEND_PYTHONPATH": str(trapped),
        "SHIV_EXTEND_PYTHONPATH": "1",
        "SHIV_FORCE_EXTRACT": "1",
        "SHIV_PREAMBLE": str(trapped / "startup"),
    }


def test_hostile_directory_and_variables_are_ignored(
    pyz: Path, env: dict[str, str], trapped: Path, tmp_path: Path
) -> None:
    env.update(trap_variables(trapped))
    assert_answered(run([str(pyz), "hook"], env, trapped))
    result = run([str(pyz), "version", "--json"], env, trapped)
    assert json.loads(result.stdout)["fast"] is True
    assert not (tmp_path / "SPRUNG").exists()
    assert not (trapped / "root").exists()


def test_as_argument_of_python_in_a_hostile_directory(
    pyz: Path, env: dict[str, str], trapped: Path, tmp_path: Path
) -> None:
    """`python3 feishuperm.pyz`: nothing of the directory, nothing named in SHIV_*."""
    env.update(trap_variables(trapped))
    for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONPLATLIBDIR"):
        del env[name]  # these decide what Python itself loads: the next test
    assert_answered(run([sys.executable, str(pyz), "hook"], env, trapped))
    result = run([sys.executable, str(pyz), "version", "--json"], env, trapped)
    assert json.loads(result.stdout)["fast"] is True
    assert not (tmp_path / "SPRUNG").exists()
    assert not (trapped / "root").exists()


def test_as_argument_of_python_none_of_our_imports_uses_pythonpath(
    pyz: Path, env: dict[str, str], tmp_path: Path
) -> None:
    """What Python loads before us is its own affair; what we import is not."""
    folder = tmp_path / "trap"
    folder.mkdir()
    for name in ("json", "socket", "_socket", "feishuperm", "difflib", "cli"):
        (folder / f"{name}.py").write_text(f"raise SystemExit('sprung {name}')\n")
    env["PYTHONPATH"] = str(folder)
    assert_answered(run([sys.executable, str(pyz), "hook"], env, folder))
    result = run([sys.executable, str(pyz), "version", "--json"], env, folder)
    assert json.loads(result.stdout)["fast"] is True
    result = run([sys.executable, str(pyz), "verzion"], env, folder)
    assert b"did you mean `feishuperm version`?" in result.stderr


def test_isolated_python_needs_no_second_one(
    pyz: Path, env: dict[str, str], tmp_path: Path
) -> None:
    python = [sys.executable, "-I", "-S", str(pyz)]
    assert_answered(run([*python, "hook"], env, tmp_path))
    assert run([*python, "nonsense"], env, tmp_path).returncode == 2


GUARD = "echo not here >&2; exit 2"
TOOL_CALL = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}


@pytest.mark.parametrize(
    "flags",
    [None, [], ["-I"], ["-I", "-S"], ["-IBS"], ["-IBS", "-O"], ["-OO"], ["-B"]],
    ids=str,
)
def test_guards_run_however_the_file_is_started(
    pyz: Path, env: dict[str, str], tmp_path: Path, flags: list[str] | None
) -> None:
    """A guard that is silently passed over would let the tool call through."""
    callback = {"event": "PreToolUse", "type": "command", "command": GUARD}
    settings = {"feishuperm": {"callbacks": [callback]}}
    folder = Path(env["HOME"]) / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(settings))
    python = [] if flags is None else [sys.executable, *flags]
    event = json.dumps({**TOOL_CALL, "cwd": str(tmp_path)}).encode()
    result = run([*python, str(pyz), "hook"], env, tmp_path, event)
    assert b'"not here"' in result.stdout, result
    decision = json.loads(result.stdout)["hookSpecificOutput"]["permissionDecision"]
    assert (result.returncode, decision) == (0, "deny")


def test_path_files_of_the_interpreter_are_not_run(
    pyz: Path, env: dict[str, str], tmp_path: Path
) -> None:
    """A .pth line is code, and costs time even when it is honest."""
    python = tmp_path / "venv" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.symlink_to(os.path.realpath(sys.executable))
    home = os.path.dirname(os.path.realpath(sys.executable))
    (tmp_path / "venv" / "pyvenv.cfg").write_text(f"home = {home}\n")
    version = "python%d.%d" % sys.version_info[:2]  # noqa: UP031
    packages = tmp_path / "venv" / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (packages / "trap.pth").write_text("import sys; sys.stderr.write('sprung')\n")
    spring = run([str(python), "-c", "pass"], env, tmp_path)
    assert b"sprung" in spring.stderr
    pin(Path(env["HOME"]) / ".config", str(python))
    assert_answered(run([str(pyz), "hook"], env, tmp_path))
    assert run([str(pyz), "version"], env, tmp_path).stderr == b""


@pytest.mark.parametrize("text", ["", "python3", "./python3", "/", "/nonexistent", "~"])
def test_pin_that_is_no_interpreter_is_passed_over(
    pyz: Path, env: dict[str, str], tmp_path: Path, text: str
) -> None:
    trap = tmp_path / "python3"
    trap.write_text("#!/bin/sh\necho sprung\n")
    trap.chmod(0o755)
    pin(Path(env["HOME"]) / ".config", text)
    assert_answered(run([str(pyz), "hook"], env, tmp_path))


def test_pin_in_a_relative_config_folder_is_passed_over(
    pyz: Path, env: dict[str, str], tmp_path: Path
) -> None:
    """The current directory belongs to the project, not to the user."""
    pin(tmp_path / "cfg", "/bin/false\n")
    env["XDG_CONFIG_HOME"] = "cfg"
    assert_answered(run([str(pyz), "hook"], env, tmp_path))


def test_pin_without_a_newline_and_with_blanks_works(
    pyz: Path, env: dict[str, str], tmp_path: Path
) -> None:
    python = tmp_path / "my  python"
    python.symlink_to(os.path.realpath(sys.executable))
    pin(Path(env["HOME"]) / ".config", str(python))
    result = run([str(pyz), "version", "--json"], env, tmp_path)
    assert json.loads(result.stdout)["executable"] == str(python)


def test_pin_that_is_a_directory_is_passed_over(
    pyz: Path, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "cfg" / "feishuperm" / "python").mkdir(parents=True)
    env["XDG_CONFIG_HOME"] = str(tmp_path / "cfg")
    assert_answered(run([str(pyz), "hook"], env, tmp_path))


# ---- interpreters


def test_every_cpython_found(
    pyz: Path, pythons: list[build.Python], env: dict[str, str], tmp_path: Path
) -> None:
    for python in pythons:
        pin(Path(env["HOME"]) / ".config", python.path + "\n")
        assert_answered(run([str(pyz), "hook"], env, tmp_path))
        assert_answered(run([python.path, str(pyz), "hook"], env, tmp_path))
        result = run([str(pyz), "version", "--json"], env, tmp_path)
        facts = json.loads(result.stdout)
        assert facts["python"] == python.version
        assert facts["fast"] is True


IMPORT_ALL = """
import zipfile
files = zipfile.ZipFile(archive).namelist()
names = [f[14:-3].replace("/", ".") for f in files if f.startswith("site-packages/")
         and f.endswith(".py") and not f.endswith("__main__.py")]
names = [name[:-9] if name.endswith(".__init__") else name for name in names]
for name in names:
    module = __import__(name, fromlist=("x",))
    assert module.__file__.startswith(archive + "/site-packages/feishuperm/"), name
    assert module.__spec__.origin == module.__file__
    assert module.__loader__.get_source(name) is not None
print(len(names), type(module.__loader__).__module__)
"""


def imports_all(python: build.Python, start: str, pyz: Path, tmp_path: Path) -> bytes:
    script = f"import sys\narchive = {str(pyz)!r}\n{start}{IMPORT_ALL}"
    command = [python.path, "-IBS", "-W", "error", "-c", script, str(pyz), "version"]
    result = run(command, {}, tmp_path)
    assert result.returncode == 0, (python.version, result.stderr.decode())
    count, loader = result.stdout.splitlines()[-1].split()
    assert int(count) > 30
    return loader


def test_every_module_imports_on_every_cpython(
    pyz: Path, pythons: list[build.Python], tmp_path: Path
) -> None:
    start = "try:\n"
    start += "".join(f"    {line}\n" for line in boot_of(pyz).splitlines())
    start += "except SystemExit as error:\n    assert not error.code\n"
    for python in pythons:
        assert imports_all(python, start, pyz, tmp_path) == b"feishuperm.loader"


def test_every_source_imports_on_every_cpython(
    pyz: Path, pythons: list[build.Python], tmp_path: Path
) -> None:
    start = "sys.path.insert(0, archive + '/site-packages')\n"
    for python in pythons:
        assert imports_all(python, start, pyz, tmp_path) == b"zipimport"


@pytest.mark.parametrize("python", OLD_PYTHONS or [None])
def test_older_python_is_refused_in_one_line(
    pyz: Path, env: dict[str, str], tmp_path: Path, python: str | None
) -> None:
    if python is None:
        pytest.skip("no CPython older than 3.9 on this machine")
    pin(Path(env["HOME"]) / ".config", python)
    result = run([str(pyz), "version"], env, tmp_path)
    assert result.returncode == 1
    expected = rb"feishuperm: needs Python 3\.9 or newer, this is 3\.[678]\.\d+\n"
    assert re.fullmatch(expected, result.stderr)
    result = run([str(pyz), "hook"], env, tmp_path)
    assert (result.returncode, result.stdout) == (0, b"")
    assert re.fullmatch(expected, result.stderr)


def test_no_python_at_all_is_told_in_one_line(
    pyz: Path, home: Path, tmp_path: Path
) -> None:
    env = clean_env(home, PATH="/nonexistent")
    (tmp_path / "feishuperm-hook").symlink_to(pyz)
    cases = {("version",): 1, (): 1, ("hook",): 0}
    results = [(run([str(pyz), *args], env, tmp_path), c) for args, c in cases.items()]
    results.append((run([str(tmp_path / "feishuperm-hook")], env, tmp_path), 0))
    for result, code in results:
        text = b"feishuperm: python3 is not in PATH; install Python 3.9 or newer\n"
        assert (result.returncode, result.stdout, result.stderr) == (code, b"", text)


def test_unknown_bytecode_runs_the_source(
    pyz: Path, env: dict[str, str], pythons: list[build.Python], tmp_path: Path
) -> None:
    """A Python newer than the build, or PyPy, has no compiled code in the file."""
    data = bytearray(pyz.read_bytes())
    for python in pythons:
        size, head = head_of(data, python)
        magic = head + size - 20
        assert data[magic : magic + 4] == bytes.fromhex(python.magic)
        data[magic : magic + 4] = bytes(4)
    build.write_file(tmp_path / "changed", data, 0o755)
    assert_answered(run([str(tmp_path / "changed"), "hook"], env, tmp_path))
    result = run([str(tmp_path / "changed"), "version", "--json"], env, tmp_path)
    assert json.loads(result.stdout)["fast"] is False


def test_code_of_another_build_is_never_run(
    pyz: Path, env: dict[str, str], pythons: list[build.Python], tmp_path: Path
) -> None:
    """An upgrade between sh and Python moves the code; marshal must not see garbage."""
    data = bytearray(pyz.read_bytes())
    for python in pythons:
        size, head = head_of(data, python)
        data[head : head + 60] = b"\xff" * 60
        data[head + size - 16 : head + size] = b"\xff" * 16
    build.write_file(tmp_path / "changed", data, 0o755)
    assert_answered(run([str(tmp_path / "changed"), "hook"], env, tmp_path))


@pytest.fixture(scope="module")
def newer(
    pythons: list[build.Python], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A file built without the code of a Python that runs it, and that Python."""
    if len(pythons) < 2:
        pytest.skip("only one CPython on this machine")
    path = tmp_path_factory.mktemp("newer") / "feishuperm.pyz"
    data = build.make_archive(build.read_source(), pythons[:-1])
    build.write_file(path, data, 0o755)
    return path, pythons[-1].path


def modules_of_hook(pyz: Path, python: str, env: dict[str, str], cwd: Path) -> set[str]:
    """What a hook that answers has loaded beyond Python's own start."""
    start = [python, "-IBS", "-X", "importtime", "-c"]
    bare = run([*start, "import time"], env, cwd)
    hook = run([*start, boot_of(pyz), str(pyz), "hook"], env, cwd)
    assert hook.stdout == ANSWER
    return imported(hook.stderr) - imported(bare.stderr)


def compiled_by(pyz: Path, python: str, env: dict[str, str], cwd: Path) -> list[str]:
    """The modules that `status` and `version` compile from their sources."""
    script = TELL_COMPILED + boot_of(pyz)
    said = [
        run([python, "-IBS", "-c", script, str(pyz), name], env, cwd).stderr.decode()
        for name in ("status", "version")
    ]
    return re.findall(r"^compiled .*/feishuperm/(.*)", "".join(said), re.M)


@pytest.mark.full
def test_python_newer_than_the_build_is_fast_after_install(
    newer: tuple[Path, str], env: dict[str, str], home: Path, tmp_path: Path
) -> None:
    """By what is loaded and compiled, not by time."""
    pyz, python = newer
    ours = {"_socket", "feishuperm", "feishuperm.client", "feishuperm.wire"}
    assert "zlib" in modules_of_hook(pyz, python, env, tmp_path)
    assert "cli.py" in compiled_by(pyz, python, env, tmp_path)
    before = pyz.read_bytes()
    install = [python, "-IBS", str(pyz), "install", "--no-service", "--no-input"]
    assert run(install, env, tmp_path).returncode == 0
    placed = home / ".local/share/feishuperm/feishuperm.pyz"
    link = home / ".local/bin/feishuperm"
    assert pyz.read_bytes() == placed.read_bytes() == before
    for path in (placed, link):
        assert modules_of_hook(path, python, env, tmp_path) == ours
        assert compiled_by(path, python, env, tmp_path) == []
    assert_answered(run([str(home / ".local/bin/feishuperm-hook")], env, tmp_path))
    assert json.loads(run([str(link), "version", "--json"], env, tmp_path).stdout)[
        "fast"
    ]
    code = placed.with_name("feishuperm.pyz.code")
    whole = code.read_bytes()
    damages: dict[str, bytes] = {
        "stale": whole[:8] + b"0123456789abcdef" + whole[24:],
        "damaged": whole[:24] + bytes(9) + whole[33:],
        "cut": whole[:5000],
        "empty": b"",
    }
    for name, data in damages.items():
        code.write_bytes(data)
        assert_answered(run([str(link), "hook"], env, tmp_path))
        assert "cli.py" in compiled_by(link, python, env, tmp_path), name
    code.write_bytes(whole)
    code.chmod(0o666)
    assert "cli.py" in compiled_by(link, python, env, tmp_path)
    assert run([str(link), "install", "--no-service", "--no-input"], env, tmp_path)
    assert (code.read_bytes(), code.stat().st_mode & 0o777) == (whole, 0o644)
    assert run([str(link), "uninstall", "--purge"], env, tmp_path).returncode == 0
    assert not code.exists() and not placed.parent.exists()


@pytest.mark.full
def test_every_module_imports_from_what_install_put_beside(
    pyz: Path, pythons: list[build.Python], tmp_path: Path
) -> None:
    copy = Path(shutil.copy(pyz, tmp_path / "x.pyz"))
    script = (
        "import sys; sys.path.insert(0, sys.argv[1] + '/site-packages')\n"
        "from feishuperm.setup.steps import make_code, package_files\n"
        "data = make_code(package_files(open(sys.argv[1], 'rb').read()))\n"
        "open(sys.argv[1] + '.code', 'wb').write(data)\n"
    )
    start = TELL_COMPILED + "try:\n"
    start += "".join(f"    {line}\n" for line in boot_of(copy).splitlines())
    start += "except SystemExit as error:\n    assert not error.code\n"
    for python in pythons:
        made = run([python.path, "-IBS", "-c", script, str(copy)], {}, tmp_path)
        assert made.returncode == 0, made.stderr
        text = f"import sys\narchive = {str(copy)!r}\n{start}{IMPORT_ALL}"
        command = [python.path, "-IBS", "-W", "error", "-c", text, str(copy), "version"]
        result = run(command, {}, tmp_path)
        assert (result.returncode, result.stderr) == (0, b"")


# Words that `version` does not read by hand: it imports the module that does.
ODD = ("version", "--json", "--json")


def at_import(statement: str) -> str:
    """Code that does something just before `version` imports a module."""
    return (
        "import sys\n"
        "def late(event, args):\n"
        "    if event == 'import' and args[0] == 'feishuperm.lib.arguments':\n"
        f"        {statement}\n"
        "sys.addaudithook(late)\n"
    )


def late_import(pyz: Path, tmp_path: Path, upgrade: str) -> bytes:
    """What a process says that imports a module after an upgrade of its archive."""
    copy = Path(shutil.copy(pyz, tmp_path / "running"))
    (tmp_path / "new").write_bytes(b"#!/bin/sh\n" + pyz.read_bytes())
    names = f"new, archive = {str(tmp_path / 'new')!r}, {str(copy)!r}\n"
    script = f"import os, shutil\n{names}{at_import(upgrade)}{boot_of(copy)}"
    command = [sys.executable, "-IBS", "-c", script, str(copy), *ODD]
    result = run(command, {}, tmp_path)
    return result.stdout + result.stderr


def test_import_after_an_upgrade_comes_from_the_file_that_was_started(
    pyz: Path, tmp_path: Path
) -> None:
    said = late_import(pyz, tmp_path, "os.replace(new, archive)")
    assert json.loads(said)["fast"] is True


def test_import_from_a_file_overwritten_in_place_is_refused(
    pyz: Path, tmp_path: Path
) -> None:
    said = late_import(pyz, tmp_path, "shutil.copyfile(new, archive)")
    assert b"was overwritten while it was running" in said


def test_traceback_shows_the_source(pyz: Path, tmp_path: Path) -> None:
    look = (
        "import sys, traceback\n"
        "def hook(kind, error, trace):\n"
        "    sys.stderr.write(''.join(traceback.format_tb(trace)))\n"
        "sys.excepthook = hook\n"
    ) + at_import("raise ValueError")
    command = [sys.executable, "-IBS", "-c", look + boot_of(pyz), str(pyz), *ODD]
    said = run(command, {}, tmp_path).stderr.decode()
    assert f'File "{pyz}/site-packages/feishuperm/cli.py", line ' in said
    assert "code = run(command, args)" in said


# ---- traces


def snapshot(*folders: Path) -> dict[str, tuple[int, int]]:
    """Every file below the folders with size and time of change."""
    paths = [path for folder in folders for path in [folder, *folder.rglob("*")]]
    return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in paths}


def test_hook_leaves_nothing_behind(
    pyz: Path, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "cwd").mkdir()
    env["TMPDIR"] = str(tmp_path / "tmp")
    before = snapshot(tmp_path, pyz.parent)
    assert_answered(run([str(pyz), "hook"], env, tmp_path / "cwd"))
    assert snapshot(tmp_path, pyz.parent) == before


CREATING = r"O_CREAT|O_WRONLY|O_RDWR|O_TRUNC"
CHANGING = r"^\S+\s+(mkdir|rename|link|symlink|unlink|chmod|mknod|truncate|utime)\w*\("


def test_hook_opens_nothing_for_writing(
    pyz: Path, env: dict[str, str], tmp_path: Path
) -> None:
    need("strace")
    log = tmp_path / "strace"
    strace = ["strace", "-f", "-o", str(log), "-e", "trace=%file"]
    result = run([*strace, str(pyz), "hook"], env, tmp_path)
    assert_answered(result)
    lines = log.read_text(errors="replace").splitlines()
    opened = [line for line in lines if re.search(CREATING, line)]
    assert all('"/dev/null"' in line for line in opened), opened
    assert not [line for line in lines if re.search(CHANGING, line)]
    assert sum("execve(" in line for line in lines) == 2  # sh, then Python in its place


def boot_of(pyz: Path) -> str:
    """The Python text between the single quotes of the sh text."""
    return re.findall(rb"-c '(.*?)' \"\$0\"", pyz.read_bytes(), re.DOTALL)[0].decode()


def test_relative_path_is_made_absolute_for_later_imports(
    pyz: Path, env: dict[str, str]
) -> None:
    look = (
        "import sys, os\ntry: exec(sys.argv.pop(1))\n"
        "finally: print(sys.modules['feishuperm'].__file__)"
    )
    command = [sys.executable, "-IBS", "-c", look, boot_of(pyz), pyz.name, "version"]
    result = run(command, env, pyz.parent)
    file = f"{pyz}/site-packages/feishuperm/__init__.py"
    assert result.stdout.splitlines()[-1] == os.fsencode(file)


def imported(stderr: bytes) -> set[str]:
    return set(re.findall(r"\|\s+([\w.]+)$", stderr.decode(), re.MULTILINE))


def test_modules_the_hook_loads(
    pyz: Path, env: dict[str, str], pythons: list[build.Python], tmp_path: Path
) -> None:
    """Nothing that Python had not loaded by itself, except the socket and ours."""
    ours = {"feishuperm", "feishuperm.client", "feishuperm.wire"}
    boot = boot_of(pyz)
    for python in pythons:
        start = [python.path, "-IBS", "-X", "importtime", "-c"]
        bare = run([*start, "import time"], env, tmp_path)
        hook = run([*start, boot, str(pyz), "hook"], env, tmp_path)
        assert hook.stdout == ANSWER
        assert imported(hook.stderr) - imported(bare.stderr) == {"_socket", *ours}
        foreign = {k: v for k, v in env.items() if k != "CLAUDE_CODE_SESSION_ID"}
        other = run([*start, boot, str(pyz), "hook", "codex"], foreign, tmp_path)
        assert other.stdout == ANSWER
        assert imported(other.stderr) == imported(hook.stderr)


TELL_COMPILED = """\
import sys
def tell(event, args):
    if event == "compile" and "/site-packages/feishuperm/" in str(args[1]):
        sys.stderr.write("\\ncompiled %s\\n" % args[1])
sys.addaudithook(tell)
"""
FREQUENT: dict[str, tuple[str, str, str]] = {
    "version": ("version", "", "feishuperm._build"),
    "a command": ("hook", "PreToolUse", "feishuperm.hooks.shell_template"),
    "a script": ("hook", "PostToolUse", "feishuperm.hooks.script_host"),
    "a stop": ("supervisor", "Stop", "feishuperm.supervisor.supervisor"),
}


@pytest.mark.parametrize("case", FREQUENT)
def test_what_starts_often_never_waits_for_the_code_of_everything_else(
    pyz: Path, env: dict[str, str], home: Path, tmp_path: Path, case: str
) -> None:
    script = tmp_path / "callback.py"
    script.write_text("def main(event):\n    return {}\n")
    text = 'printf "{}" "$TOOL"'
    rows = [
        {"event": "PreToolUse", "type": "command", "command": text},
        {"event": "PostToolUse", "type": "script", "script": str(script)},
    ]
    (home / ".claude").mkdir()
    settings = home / ".claude" / "settings.json"
    settings.write_text(json.dumps({"feishuperm": {"callbacks": rows}}))
    command, event, module = FREQUENT[case]
    fields = {"hook_event_name": event, "tool_name": "Bash", "cwd": str(tmp_path)}
    fields["session_id"] = "s-1"
    env["SUPERVISOR_COMMAND"] = """echo '{"allow_stop": true, "feedback": ""}'"""
    start = [sys.executable, "-IBS", "-X", "importtime", "-c"]
    script = TELL_COMPILED + boot_of(pyz)
    said = json.dumps(fields).encode()
    result = run([*start, script, str(pyz), command], env, tmp_path, said)
    assert result.returncode == 0
    compiled = re.findall(r"^compiled .*/feishuperm/(.*)", result.stderr.decode(), re.M)
    late = ("services/",)  # the ledger is loaded while the reviewer works
    if case == "a script":  # has its code from `install` alone
        late += ("hooks/script_host", "lib/secret_finders")
    assert not [name for name in compiled if not name.startswith(late)]
    assert module in imported(result.stderr)
    heavy = {"argparse", "asyncio", "dataclasses", "logging"}
    if case != "a stop":  # which loads the ledger while the reviewer works
        heavy.add("typing")
    assert not imported(result.stderr) & heavy


def test_modules_the_hook_loads_before_a_tool_call(
    pyz: Path, env: dict[str, str], tmp_path: Path
) -> None:
    """Not even the socket: nearly always there is nothing to ask for."""
    call = EVENT.replace(b"PermissionRequest", b"PreToolUse")
    start = [sys.executable, "-IBS", "-X", "importtime", "-c"]
    bare = run([*start, "import time"], env, tmp_path)
    hook = run([*start, boot_of(pyz), str(pyz), "hook", "denied"], env, tmp_path, call)
    assert hook.stdout == b""
    ours = {"feishuperm", "feishuperm.client", "feishuperm.wire"}
    assert imported(hook.stderr) - imported(bare.stderr) == ours
