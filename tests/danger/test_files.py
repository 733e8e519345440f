"""Programs that read, write, move and delete files, and what they send on."""

from __future__ import annotations

from feishuperm.danger.interpreter import (
    DECODED,
    DOWNLOADED,
    SECRET,
    Arg,
    Output,
)
from feishuperm.danger.paths import UNKNOWN
from tests.danger.stage import Stage
from tests.tables import every_row


@every_row(
    ("command", "notes"),
    [
        ("rm -rf ~/x y", ["danger.delete ~/x", "fact.deletes y"]),
        ("rm -- -r", ["fact.deletes -r"]),
        ("gio trash ~/x", ["danger.delete ~/x"]),
        ("gio open ~/x", ["fact.outside ~/x"]),
        ("shred -n 3 x", ["danger.wipe shred x"]),
        ("shred /tmp/x", ["fact.deletes /tmp/x"]),
        ("shred /dev/sda", ["danger.device shred /dev/sda"]),
        ("truncate -s 0 x", ["danger.wipe truncate x"]),
        ("truncate -s 9 x", []),
        ("truncate -s 9 /srv/x", ["danger.overwrite /srv/x"]),
        ("dd if=/srv/x of=/dev/sda",
         ["danger.device /dev/sda", "fact.outside /srv/x"]),
        ("tee /srv/x", ["danger.overwrite /srv/x"]),
        ("tee -a /srv/x", ["fact.outside /srv/x"]),
        ("mkdir -p /srv/x", ["fact.outside /srv/x"]),
        ("touch ~/.bashrc", ["danger.startup ~/.bashrc"]),
        ("mkdir .claude/hooks", []),
        ("patch -p1 /srv/x", ["danger.overwrite /srv/x"]),
        ("patch --dry-run /srv/x", []),
        ("yq -i a .mcp.json", ["danger.permissions .mcp.json"]),
        ("yq a .mcp.json", []),
        ("ssh-keygen -f ~/.ssh/x", ["danger.keys ~/.ssh/x"]),
        ("openssl enc -out .mcp.json", ["danger.permissions .mcp.json"]),
        ("ssh-keygen -l -f ~/.ssh/x", []),
        ("ssh-keygen -R a.b", ["danger.keys ssh-keygen -R a.b"]),
    ],
)  # fmt: skip
def test_file_is_changed(command: str, notes: list[str]) -> None:
    stage = Stage()
    stage.play(command)
    assert stage.notes == notes


@every_row(
    ("command", "notes"),
    [
        ("cp a /srv/x", ["danger.overwrite /srv/x"]),
        ("cp -t /srv/x a b", ["danger.overwrite /srv/x"]),
        ("cp config .git", ["danger.permissions .git/config"]),
        ("cp /srv/x a", ["fact.outside /srv/x"]),
        ("mv /srv/x a", ["danger.delete /srv/x", "fact.outside /srv/x"]),
        ("mv a /dev/null", ["danger.wipe mv a"]),
        ("mv .git a", ["danger.wipe mv .git"]),
        ("mv a b", []),
        ("rsync -n a /srv/x", ["fact.outside /srv/x"]),
        ("rsync --delete a/ ./", ["danger.wipe ~/app"]),
        ("rsync --delete a/ h:x", ["danger.delete h:x", "fact.host h"]),
        ("scp .env h:x", ["danger.leak .env → h", "fact.host h"]),
        ("cp .env h:x", []),
        ("scp h:x .", ["fact.host h"]),
        ("cp h:x .", []),
    ],
)
def test_last_word_is_written(command: str, notes: list[str]) -> None:
    stage = Stage()
    stage.play(command)
    assert stage.notes == notes


@every_row(
    ("command", "notes"),
    [
        ("chmod 644 x", []),
        ("chmod -w /srv/x", ["danger.permissions chmod -w /srv/x"]),
        ("chmod u+s x", ["danger.permissions chmod u+s x"]),
        ("chmod 4755 x", ["danger.permissions chmod 4755 x"]),
        ("chmod 777 x", []),
        ("chmod -R 777 x", ["danger.permissions chmod -R 777 x"]),
        ("chmod 600 ~/.ssh/x", ["danger.permissions chmod 600 ~/.ssh/x"]),
        ("chmod 644 ~/.ssh/x", ["danger.keys chmod 644 ~/.ssh/x"]),
        ("chown me x", []),
        ("chown me /srv/x", ["danger.permissions chown /srv/x"]),
        ("chown me:x .git/config", ["danger.permissions chown .git/config"]),
        ("chattr -i x", []),
        ("chattr -i /srv/x", ["danger.permissions chattr /srv/x"]),
        ("chattr -R +i /srv/x", ["danger.permissions chattr /srv/x"]),
        ("chflags nouchg /srv/x", ["danger.permissions chflags /srv/x"]),
    ],
)
def test_rights_are_changed(command: str, notes: list[str]) -> None:
    stage = Stage()
    stage.play(command)
    assert [" ".join(note.split()) for note in stage.notes] == notes


def test_rights_of_whatever_the_run_tells() -> None:
    for recursive, notes in (("-R", ["danger.permissions chmod 644 …/x"]), ("", [])):
        stage = Stage()
        stage.play(f"chmod {recursive} 644 \0/x")
        assert stage.notes == notes


@every_row(
    ("command", "calls"),
    [
        ("sed 's/a/rm x/e' y", ["rm x"]),
        ("sed -n '1e rm x' y", ["rm x"]),
        ("sed 's/e/rm x/' y", []),
        ("awk '{system(\"rm x\")}' y", ["rm x"]),
        ("awk '{print | \"sh\"}' y", ["sh"]),
        ("rsync -e 'sh x' a b", ["sh x"]),
        ("tar xf a --to-command='rm x'", ["rm x"]),
        ("tar xf a --checkpoint-action=exec='rm x'", ["rm x"]),
    ],
)
def test_command_inside_is_run(command: str, calls: list[str]) -> None:
    stage = Stage()
    stage.play(command)
    assert stage.calls == calls


@every_row(
    ("command", "notes"),
    [
        ("sed -i s/a/b/ /srv/x", ["danger.overwrite /srv/x"]),
        ("sed -n -e p /srv/x", ["fact.outside /srv/x"]),
        ("sed 'w /srv/x' y", ["danger.overwrite /srv/x"]),
        ("awk -i inplace 1 /srv/x",
         ["danger.overwrite /srv/x", "fact.outside /srv/x"]),
        ("awk '{print > \"/srv/x\"}' y", ["danger.overwrite /srv/x"]),
        ("tar xf a -C /srv/x", ["danger.overwrite /srv/x"]),
        ("7z x a -o/srv/x", ["danger.overwrite /srv/x"]),
        ("tar -cf a --remove-files ~/x",
         ["danger.delete ~/x", "fact.outside ~/x"]),
        ("tar xf a", []),
        ("tar -I zstd -xf a", []),
        ("tar -I ./x -xf a", ["danger.inject -I ./x"]),
        ("tar cf a b --checkpoint-action=dot", []),
        ("tar cf a b --checkpoint-action=exec=x",
         ["danger.inject --checkpoint-action x"]),
        ("cpio -I a", []),
        ("sort --compress-program=./x a",
         ["danger.inject --compress-program ./x"]),
        ("sed -i 's/a/\"postinstall\": \"x\"/' package.json",
         ['danger.packages package.json: "postinstall": "x"']),
    ],
)  # fmt: skip
def test_editor_of_streams_and_archiver_write(command: str, notes: list[str]) -> None:
    stage = Stage()
    stage.play(command)
    assert stage.notes == notes


@every_row(
    ("command", "origin"),
    [
        ("cat .env", SECRET),
        ("cat got", DOWNLOADED),
        ("cat x", ""),
        ("base64 -d x", DECODED),
        ("base64 x", ""),
        ("base64 -d got", DOWNLOADED),
        ("gunzip x", DECODED),
        ("gpg -d x", SECRET),
        ("tar xf got", DOWNLOADED),
        ("tar czf x.tgz .env", SECRET),
    ],
)
def test_what_is_read_flows_on(command: str, origin: str) -> None:
    stage = Stage()
    stage.state.keep("got", Output(None, DOWNLOADED, "a.b"))
    assert stage.play(command, Output("")).origin == origin


def test_word_that_came_from_elsewhere_is_deleted_or_read() -> None:
    stage = Stage()
    stage.follow("rm", [Arg(UNKNOWN)])
    assert stage.notes == ["fact.deletes …"]
    stage.follow("rm", [Arg(UNKNOWN, DOWNLOADED, "a.b")])
    assert stage.notes[0] == "danger.unsure …"
    words = [Arg("x", SECRET, "y"), Arg("z")]
    assert stage.follow("cat", words).trace == (SECRET, "y")


@every_row(
    ("command", "kept"),
    [
        ("tee x", "x"),
        ("cp .env x", "x"),
        ("cp .env dir", "dir/.env"),
        ("tar czf x.tgz .env", "x.tgz"),
        ("tar -f x.tgz -c .env", "x.tgz"),
        ("tar -c -f x.tgz .env", "x.tgz"),
        ("zip x.zip .env", "x.zip"),
    ],
)
def test_copy_of_a_secret_is_one(command: str, kept: str) -> None:
    stage = Stage()
    stage.play(command, Output(None, SECRET, ".env"))
    content = stage.state.content(kept)
    assert content is not None and content.origin == SECRET


def test_archive_that_came_brings_its_folder() -> None:
    stage = Stage()
    stage.play("tar xz -C dir", Output(None, DOWNLOADED, "a.b"))
    stage.state.run("dir/x")
    assert stage.notes == ["danger.downloaded a.b"]


def test_pattern_elsewhere_is_listed_with_its_folder() -> None:
    stage = Stage()
    assert stage.play("ls /srv/* x*").text == "/srv/*"
    assert stage.notes == ["fact.outside /srv/*"]
