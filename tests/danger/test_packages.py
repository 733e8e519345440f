"""Package managers: what is installed, published, or fetched to be run."""

from __future__ import annotations

from feishuperm.danger.command_table import programs
from feishuperm.danger.interpreter import DOWNLOADED, Output
from tests.danger.stage import Stage
from tests.tables import every_row


@every_row(
    ("command", "notes"),
    [
        ("npm install x", ["fact.installs npm x"]),
        ("npm ci", ["fact.installs npm"]),
        ("npm test", []),
        ("npm run deploy", ["danger.publish npm run deploy"]),
        ("npm run deploy --dry-run", []),
        ("npm publish", ["danger.publish npm publish"]),
        ("pip install x", ["fact.installs pip x"]),
        ("uv pip install x", ["fact.installs pip x"]),
        ("pip install git+https://a.b/c", [
            "danger.downloaded git+https://a.b/c", "fact.installs pip git+https://a.b/c",
            "fact.host a.b"]),
        ("pip install -i http://a.b x",
         ["danger.downloaded http:", "fact.installs pip x", "fact.host a.b"]),
        ("pip install -i http://localhost x",
         ["fact.installs pip x", "fact.host localhost"]),
        ("pip install --target /srv/x y", [
            "danger.overwrite /srv/x", "fact.installs pip y", "fact.outside /srv/x"]),
        ("apt remove x", ["danger.machine apt remove x"]),
        ("brew list x", []),
        ("go run a.b/c@latest", ["fact.package a.b/c@latest"]),
        ("npx x", ["fact.package x"]),
        ("npx github:a/b", ["danger.downloaded github:a/b", "fact.package github:a/b"]),
        ("uvx --from git+https://a.b/c d",
         ["danger.downloaded git+https://a.b/c", "fact.package d"]),
    ],
)  # fmt: skip
def test_manager_is_noted(command: str, notes: list[str]) -> None:
    stage = Stage()
    stage.play(command)
    assert stage.notes == notes


@every_row(
    ("command", "calls"),
    [
        ("uv run --with x rm y", ["rm y"]),
        ("poetry run rm y", ["rm y"]),
        ("poetry show rm y", []),
        ("bundle exec rm y", ["rm y"]),
        ("cargo run rm y", ["rm y"]),  # as a stranger's
        ("npx rm@1.2 y", ["rm y"]),
        ("npx -y @scope/rm y", ["rm y"]),
        ("pnpm dlx rm-cli y", ["rm y"]),
        ("uv tool run rm y", ["rm y"]),
        ("npx -c 'rm y'", ["rm y"]),
        ("npm x rm y", ["rm y"]),
    ],
)
def test_command_is_run_by_its_manager(command: str, calls: list[str]) -> None:
    stage = Stage()
    stage.play(command)
    assert set(stage.calls) == set(calls)


def test_file_that_came_is_installed_or_run() -> None:
    stage = Stage()
    stage.state.keep("x.whl", Output(None, DOWNLOADED, "a.b"))
    stage.play("pip install x.whl")
    assert stage.notes[0] == "danger.downloaded a.b"
    stage = Stage()
    stage.state.keep("x.go", Output("y", DOWNLOADED, "a.b"))
    stage.play("go run x.go")
    assert stage.notes == ["danger.downloaded a.b"] and stage.calls == ["python"]


@every_row(
    ("command", "notes", "calls"),
    [
        ("make deploy", ["danger.publish make deploy"], []),
        ("make -n deploy", [], []),
        ("make DESTDIR=x /srv/y", ["fact.outside /srv/y"], []),
        ("make -C deploy", [], []),
        ("make --eval 'x: ; rm y'", [], ["x: ", "rm y"]),
        ("make x", [], ["rm y"]),
        ("make -f - x", [], ["rm z"]),
    ],
)
def test_target_is_made(command: str, notes: list[str], calls: list[str]) -> None:
    stage = Stage()
    if command == "make x":
        stage.state.keep("Makefile", Output("x: y\n\t@rm y\n"))
    stage.play(command, Output("x:; rm z"))
    assert stage.notes == notes
    assert [call.strip() for call in stage.calls] == [c.strip() for c in calls]


def test_folder_that_came_is_made() -> None:
    for command, notes in (("make", []), ("make -C x", ["danger.downloaded a.b"])):
        stage = Stage()
        stage.state.brings("x", "a.b")
        stage.play(command)
        assert stage.notes == notes


def test_managers_are_those_that_install_or_run_packages() -> None:
    found = {name for name, row in programs().items() if row.function == "packages"}
    assert {"npm", "npx", "uvx", "apt", "go", "cpan"}.issubset(found)
