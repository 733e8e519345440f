"""git: what is pushed, given up, rewritten, and which settings run programs."""

from __future__ import annotations

from tests.danger.stage import Stage
from tests.tables import every_row


@every_row(
    ("command", "notes"),
    [
        ("push", ["fact.push"]),
        ("push origin main", ["fact.push origin main"]),
        ("push https://a.b/c", ["fact.push https://a.b/c", "fact.host a.b"]),
        ("push -f", ["danger.force git push -f"]),
        ("push --force-with-lease", ["danger.force git push --force-with-lease"]),
        ("push origin +main", ["danger.force git push origin +main"]),
        ("push origin :main", ["danger.force git push origin :main"]),
        ("push --dry-run -f", []),
        ("push -n -f", []),
        ("push heroku", ["danger.publish git push heroku", "fact.push heroku"]),
        ("reset --hard", ["danger.wipe git reset --hard"]),
        ("reset x", []),
        ("clean -fd", ["danger.wipe git clean -fd"]),
        ("clean -nd", []),
        ("stash drop", ["danger.wipe git stash drop"]),
        ("stash", []),
        ("branch -D main", ["danger.wipe git branch -D main"]),
        ("branch -D mine", []),
        ("checkout main", []),
        ("checkout .", ["danger.wipe git checkout ."]),
        ("checkout -f", ["danger.wipe git checkout -f"]),
        ("checkout -- a b", ["fact.discards a b"]),
        ("checkout x -- .git/config",
         ["danger.permissions .git/config", "fact.discards .git/config"]),
        ("restore .", ["danger.wipe git restore ."]),
        ("restore a", ["fact.discards a"]),
        ("restore --staged .", []),
        ("restore -S -W .", ["danger.wipe git restore -S -W ."]),
        ("rm -r ~/x", ["danger.delete ~/x"]),
        ("rm --cached ~/x", []),
        ("mv x .husky/y", ["danger.permissions .husky/y"]),
        ("submodule deinit -f x", ["danger.wipe git submodule deinit -f x"]),
        ("log /srv/x", ["fact.outside /srv/x"]),
        ("submodule add https://a.b/c", ["fact.host a.b"]),
        ("remote add x https://a.b/c", ["fact.host a.b"]),
        ("-C /srv rm x", ["danger.delete /srv/x"]),
        ("-C /srv -C y rm x", ["danger.delete /srv/y/x"]),
    ],
)  # fmt: skip
def test_what_git_does_is_noted(command: str, notes: list[str]) -> None:
    stage = Stage()
    stage.play(f"git {command}")
    assert stage.notes == notes and stage.state.cwd == "/home/me/app"


@every_row(
    ("command", "notes"),
    [
        ("config user.name x", []),
        ("config --global user.name x", []),
        ("config --global x.y z", ["danger.startup git config --global x.y z"]),
        ("config --global -e", ["danger.startup git config --global -e"]),
        ("config core.pager", []),
        ("config get core.pager x", []),
        ("config x.insteadOf y", ["danger.permissions git config x.insteadOf y"]),
        ("config --unset core.hooksPath",
         ["danger.permissions git config --unset core.hooksPath"]),
        ("-c user.name=x log", []),
        ("-c core.hooksPath= log", []),
    ],
)  # fmt: skip
def test_setting_is_of_note_if_it_governs_others(
    command: str, notes: list[str]
) -> None:
    stage = Stage()
    stage.play(f"git {command}")
    assert stage.notes == notes and not stage.calls


@every_row(
    "command",
    [
        "config alias.x '!rm y'",
        "config set core.pager 'rm y'",
        "-c core.pager='rm y' log",
        "-c gpg.program='rm y' commit -S",
        "--git-dir x -c alias.z='!rm y' z",
        "clone -c core.sshCommand='rm y' x",
        "clone -u 'rm y' x",
        "rebase --exec 'rm y' main",
        "filter-branch --tree-filter 'rm y'",
        "submodule foreach 'rm y'",
        "submodule foreach --recursive rm y",
        "bisect run rm y",
        "difftool -x 'rm y'",
        "fetch --upload-pack='rm y' x",
        "grep '-Orm y' x",
        "ls-remote 'ext::rm y'",
    ],
)
def test_command_that_git_is_given_is_run(command: str) -> None:
    stage = Stage()
    stage.play(f"git {command}")
    assert stage.calls == ["rm y"]


@every_row(
    ("command", "notes", "folder"),
    [
        ("clone https://a.b/c.git", ["fact.host a.b"], "c"),
        ("clone --depth 1 git@a.b:c d", ["fact.host a.b"], "d"),
        ("clone x/c /srv/d", ["fact.outside /srv/d"], "/srv/d"),
    ],
)
def test_clone_brings_a_folder(command: str, notes: list[str], folder: str) -> None:
    stage = Stage()
    stage.play(f"git {command}")
    assert stage.notes == notes
    stage.state.came(f"{folder}/x")
    assert stage.notes[0].startswith("danger.downloaded")


def test_top_of_the_project_is_known() -> None:
    assert Stage().play("git rev-parse --show-toplevel").text == "/home/me/app"
    assert Stage().play("git rev-parse HEAD").text is None
