"""The command line: which command is meant, what it says, how it ends."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from feishuperm import cli
from feishuperm.commands import help, version
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.lib import files
from feishuperm.lib import language as spoken_language
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.display import width
from feishuperm.models.names import LANGUAGES
from tests.conftest import ROOT, clean_env
from tests.tables import every_row
from tests.words import has_chinese

# Commands that read the settings, and so meet a bad configuration file.
# (`doctor` makes a finding of it.)
CONFIGURED = ["serve", "status", "test-card"]


@every_row(
    ("argv", "expected"),
    [
        (["feishuperm", "version"], ("version", [])),
        (["feishuperm", "--version"], ("version", [])),
        (["feishuperm", "version", "--json"], ("version", ["--json"])),
        (["feishuperm", "test-card", "x"], ("test-card", ["x"])),
        (["/usr/bin/feishuperm-serve"], ("serve", [])),
        (["./feishuperm-supervisor", "on"], ("supervisor", ["on"])),
        (["permission-notify"], ("hook", [])),
        (["feishuperm-hook", "--help"], ("hook", ["--help"])),
        (["feishuperm", "--help"], ("help", [])),
        (["feishuperm", "-h"], ("help", [])),
        (["feishuperm", "help"], ("help", [])),
        (["feishuperm", "help", "log"], ("log", ["--help"])),
        (["odd name", "log"], ("log", [])),
    ],
)
def test_command_is_chosen_by_name_or_first_argument(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], expected: tuple[str, list[str]]
) -> None:
    ran: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(cli, "run", lambda name, args: ran.append((name, args)) or 0)
    assert cli.main(argv) == 0
    assert ran == [expected]


@every_row(
    ("args", "lines"),
    [
        ([], ["feishuperm: no command given", "hint: feishuperm --help"]),
        (
            ["verzion"],
            [
                "feishuperm: unknown command 'verzion'",
                "hint: did you mean `feishuperm version`?",
            ],
        ),
        (
            ["instal"],
            [
                "feishuperm: unknown command 'instal'",
                "hint: did you mean `feishuperm install`?",
            ],
        ),
        (["qqq"], ["feishuperm: unknown command 'qqq'", "hint: feishuperm --help"]),
        ([""], ["feishuperm: unknown command ''", "hint: feishuperm --help"]),
        (
            ["--nonsense"],
            ["feishuperm: unknown option '--nonsense'", "hint: feishuperm --help"],
        ),
        (
            ["version", "--nonsense"],
            [
                "feishuperm: unknown argument '--nonsense'",
                "hint: feishuperm version --help",
            ],
        ),
        (
            ["help", "nonsense"],
            ["feishuperm: unknown command 'nonsense'", "hint: feishuperm --help"],
        ),
    ],
)
def test_bad_command_line_is_told_and_exits_2(
    capsys: pytest.CaptureFixture[str], args: list[str], lines: list[str]
) -> None:
    assert cli.main(["feishuperm", *args]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == lines


def test_hook_with_a_bad_argument_is_told_and_exits_0(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["feishuperm", "hook", "--nonsense"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "feishuperm: hook takes no arguments, got '--nonsense'",
        "hint: feishuperm hook --help",
    ]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (FeishupermError("no server", "feishuperm serve"), 1, "no server"),
        (UsageError("bad", "x"), 2, "bad"),
    ],
)
def test_error_is_told_with_its_hint(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: FeishupermError,
    code: int,
    said: str,
) -> None:
    def fail(args: list[str]) -> int:
        raise error

    monkeypatch.setattr(version, "main", fail)
    assert cli.main(["feishuperm", "version"]) == code
    expected = f"feishuperm: {said}\nhint: {error.hint}\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("command", [c for c in cli.COMMANDS if c != "help"])
def test_root_leaves_no_file_in_the_home_of_another_user(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    home: Path,
    command: str,
) -> None:
    """`sudo` or `doas` with the user's HOME, `su -m`; a hook disturbs no session."""
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(files, "owner", lambda path: 4_000_000_000)
    monkeypatch.setattr(cli, "import_module", lambda name: version)
    monkeypatch.setattr(cli, "BESIDE", {})
    monkeypatch.setattr(version, "main", lambda args: 0)
    monkeypatch.setattr(cli, "run_hook", lambda args: 0)
    free = command in ("hook", "supervisor", "version")
    assert cli.main(["feishuperm", command, "x y"]) == (0 if free else 1)
    assert cli.main(["feishuperm", command, "--help"]) == 0
    told = (
        f"feishuperm: {home} belongs to 4000000000: root would leave files there that "
        "this user cannot change\n"
        f"hint: as 4000000000, without sudo: feishuperm {command} 'x y'\n"
    )
    assert capsys.readouterr().err == ("" if free else told)
    assert list(home.iterdir()) == []


def test_root_in_its_own_home_is_fine(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(files, "owner", lambda path: 0)
    monkeypatch.setattr(cli, "import_module", lambda name: version)
    assert cli.main(["feishuperm", "install"]) == 0


def test_keyboard_interrupt_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(args: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(version, "main", interrupted)
    assert cli.main(["feishuperm", "version"]) == 130
    assert capsys.readouterr().err == ""


@every_row("language", LANGUAGES)
def test_help_names_every_command_once(
    language: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spoken_language, "spoken", lambda: language)
    assert cli.main(["feishuperm", "--help"]) == 0
    text = capsys.readouterr().out
    assert re.findall("^  ([a-z-]+) ", text, re.MULTILINE) == list(cli.COMMANDS)
    assert max(map(width, text.splitlines())) <= 80


def options_of(text: str) -> str:
    """The paragraph of a command's help that explains its options."""
    paragraphs = text.split("\n\n")[2:3]
    return "".join(each for each in paragraphs if each.startswith("  "))


@pytest.mark.parametrize("language", LANGUAGES)
@every_row("command", [c for c in cli.COMMANDS if c != "hook"])
def test_help_of_a_command_explains_its_arguments_and_no_others(
    command: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[ArgumentParser] = []

    def keep(parser: ArgumentParser, args: list[str]) -> None:
        seen.append(parser)
        raise UsageError("")

    monkeypatch.setattr(spoken_language, "spoken", lambda: language)
    monkeypatch.setattr(ArgumentParser, "parse_args", keep)
    module = cli.import_module(cli.module_name(command))
    main = getattr(module, command if command in cli.BESIDE else "main")
    with pytest.raises(UsageError):
        main(["--help"])
    text = seen[0].format_help()
    rows = re.findall(r"^  (-.+?)(?:  |$)", options_of(text), re.MULTILINE)
    told = [tuple(re.findall(r"(?<!\S)--?[\w-]+", row)) for row in rows]
    options = [action for action in seen[0]._actions if action.option_strings]
    assert sorted(told) == sorted(tuple(action.option_strings) for action in options)
    for action in options:
        row = next(row for row in rows if action.option_strings[-1] in row.split())
        takes_value = row.split()[-1] not in action.option_strings
        assert takes_value == (action.nargs != 0), row
        assert all(choice in row for choice in action.choices or ()), row
    for choice in (c for a in seen[0]._actions for c in a.choices or ()):
        assert choice in text or command == "help"
    assert max(map(width, text.splitlines())) <= 80


def run(pyz: Path, home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(pyz), *args],
        env=clean_env(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_built_file_tells_every_topic_in_both_languages(pyz: Path, home: Path) -> None:
    for name in cli.TOPICS:
        for language in LANGUAGES:
            environ = {**clean_env(home), "FEISHUPERM_LANG": language}
            command = [str(pyz), "help", name]
            said = subprocess.run(command, env=environ, capture_output=True, timeout=60)
            page = ROOT / "feishuperm" / "help" / f"{name}.{language}.md"
            first = page.read_bytes().partition(b"\n| `")[0].rstrip()
            assert said.returncode == 0 and said.stdout.startswith(first), name
            ends_with_usage = b"feishuperm supervisor [-h]" in said.stdout
            assert ends_with_usage == (name == "supervisor")
    assert list(home.iterdir()) == []


def test_help_settings_tells_values_and_sources_and_no_secret(
    pyz: Path, home: Path
) -> None:
    config = home / "config.env"
    config.write_text("GATEWAY_PORT=9000\nFEISHU_APP_SECRET=hush\nFEISHU_URGENT=no\n")
    environ = {
        **clean_env(home),
        **{"FEISHUPERM_CONFIG": str(config), "FEISHUPERM_LANG": "en"},
        "SUPERVISOR_TIMEOUT": "31",
    }
    command = [str(pyz), "help", "settings"]
    said = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert "| `GATEWAY_PORT` = `9000` (config.env) |" in said.stdout
    assert "| `SUPERVISOR_TIMEOUT` = `31` (environment) |" in said.stdout
    assert "| `PERMISSION_REQUEST_TIMEOUT` = `55` (default) |" in said.stdout
    assert "| `FEISHU_APP_SECRET` = *** (config.env) |" in said.stdout
    assert "`no` (config.env, not allowed: off or app) |" in said.stdout
    assert "hush" not in said.stdout + said.stderr


def test_page_on_a_terminal_is_wrapped_with_bold_words() -> None:
    page = (
        "# 标题\n\n一二三四五，六 `code word` here\n\n| a | b |\n|---|---|\n| `x` | y |"
    )
    drawn = list(help.draw(page, 12))
    assert drawn[:2] == ["\0标题\0", ""]
    assert drawn[2:5] == ["一二三四五，", "六 \0code word\0", "here"]
    assert drawn[-2:] == ["\0x\0", "    y"]
    assert all(width(line) <= 12 for line in drawn)


@every_row("command", cli.COMMANDS)
def test_every_command_explains_itself(pyz: Path, home: Path, command: str) -> None:
    result = run(pyz, home, command, "--help")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"usage: feishuperm {command}")
    assert result.stderr == ""
    assert list(home.iterdir()) == []


@every_row("command", [c for c in cli.COMMANDS if c != "hook"])
def test_every_command_refuses_an_unknown_flag(
    pyz: Path, home: Path, command: str
) -> None:
    result = run(pyz, home, command, "--nonsense")
    assert result.returncode == 2
    assert result.stdout == ""
    first = result.stderr.splitlines()[0]
    assert first.startswith("feishuperm: ")
    assert "--nonsense" in first
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("command", CONFIGURED)
@pytest.mark.parametrize("kind", ["directory", "line", "value"])
def test_bad_configuration_is_one_clear_line(
    pyz: Path, home: Path, command: str, kind: str
) -> None:
    config = home / ".config" / "feishuperm" / "config.env"
    config.parent.mkdir(parents=True)
    expected = {
        "directory": f"feishuperm: cannot read {config}: Is a directory",
        "line": f"feishuperm: {config}, line 2: expected KEY=VALUE",
        "value": "feishuperm: FEISHUPERM_LANG: 'klingon' is not zh or en",
    }
    if kind == "directory":
        config.mkdir()
    elif kind == "line":
        config.write_text("# fine\nnonsense\n")
    else:
        config.write_text("FEISHUPERM_LANG=klingon\n")
    result = run(pyz, home, command)
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == expected[kind]
    assert len(result.stderr.splitlines()) <= 2  # a hint may follow


def test_closed_pipe_is_no_traceback(pyz: Path, home: Path) -> None:
    script = '"$0" --help | true; "$0" version | exit'
    result = subprocess.run(
        ["/bin/bash", "-c", script, str(pyz)],
        env=clean_env(home),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stderr == ""


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1"])
def test_foreign_locale_and_odd_names_are_printed(
    pyz: Path, home: Path, locale: str
) -> None:
    name = b"\xff\xe4\xb8\xad"
    result = subprocess.run(
        [bytes(pyz), name],
        env=clean_env(home, LC_ALL=locale),
        capture_output=True,
        timeout=60,
    )
    assert result.returncode == 2
    assert result.stderr.startswith(b"feishuperm: unknown command '")


def test_source_tree_runs_as_a_module() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "feishuperm", "version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout.startswith("feishuperm ")
    assert "commit unknown" in result.stdout


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Chinese user on whose machine nothing is installed and nothing runs."""
    for name in os.environ:
        monkeypatch.delenv(name)
    socket = str(tmp_path / "socket")
    environ = clean_env(tmp_path, FEISHUPERM_LANG="zh", PERMISSION_SOCKET_PATH=socket)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())


@pytest.mark.usefixtures("chinese")
@every_row("command", cli.COMMANDS)
def test_help_is_chinese_for_chinese(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["feishuperm", command, "--help"])
    usage, _, rest = capsys.readouterr().out.partition("\n\n")
    assert usage.startswith(f"用法： feishuperm {command}")
    assert has_chinese(rest)
    assert max(map(width, rest.split("\n"))) <= 100


@pytest.mark.usefixtures("chinese")
@every_row(
    "line",
    [
        "--help", "nonsense", "instal", "--nonsense", "", "version x",
        "doctor 200340", "doctor 10015", "doctor 1", "doctor x",
        "status", "status --brief", "stop", "restart", "test-card", "run", "run -",
        "log", "log verify", "log -n-1", "log --head x", "log undo", "log undo 1",
        "passes", "passes add", "passes revoke x", "passes add Bash(*)",
        "trust", "trust list", "trust revoke", "trust x y",
        "install", "install --events stop", "install --shared", "install --wait x",
        "install --lang fr", "install --wait", "uninstall", "uninstall --dry-run",
        "machines", "machines x", "leave", "join", "join x", "join http://example.com",
        "supervisor status", "supervisor on", "supervisor on --json", "gateway",
    ],
)  # fmt: skip
def test_whatever_is_said_is_chinese_for_chinese(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["feishuperm", *line.split()])
    output = capsys.readouterr()
    assert has_chinese(output.out + output.err)
