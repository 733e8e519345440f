"""Code in other languages: calls that matter, by name and the text that follows."""

from __future__ import annotations

from feishuperm.danger.code import (
    MAX_CODE,
    MAX_TEXTS,
    Code,
    powershell_deletes,
    powershell_marks,
)
from tests.tables import every_row


@every_row(
    ("kind", "text", "texts"),
    [
        ("deletes", "shutil.rmtree('/a')", ["/a"]),
        ("deletes", "fs.rmSync(`/a`, {recursive: true})", ["/a"]),
        ("deletes", "FileUtils.rm_rf '/a'", ["/a"]),
        ("deletes", "rmtree(os.path.expanduser('~/a'))", ["~/a"]),
        ("deletes", "Path('/a').unlink()", ["/a"]),
        ("deletes", "file delete -force /a", ["/a"]),
        ("deletes", "rmtree(path)", []),
        ("url", "get('https://a.b:8/c'); get('http://d')", ["a.b", "d"]),
        ("fetched", "urlretrieve('http://a.b/c', 'd')", ["d"]),
        ("statements", "db.execute('drop table x')", ["drop table x"]),
        ("literals", "f('/a/b', \"c-d\", 'x')", ["/a/b", "c-d"]),
    ],
)
def test_text_of_a_kind_is_picked(kind: str, text: str, texts: list[str]) -> None:
    assert Code(text).texts(kind) == texts


@every_row(
    ("text", "runs"),
    [
        ("os.system('rm -rf /a')", ["rm -rf /a"]),
        ("subprocess.run(['rm', '-rf', 'a b'])", ["rm -rf 'a b'"]),
        ("exec('rm -r' + 'f /a')", ["rm -rf /a"]),
        ("x = `rm /a`", ["rm /a"]),
        ("%x(rm /a)", ["rm /a"]),
        ("exec rm /a", ["rm /a"]),
        ("run(command)", []),
    ],
)
def test_command_that_is_run_is_handed_back(text: str, runs: list[str]) -> None:
    assert Code(text).runs() == runs


@every_row(
    ("text", "writes"),
    [
        ("open('/a', 'w')", ["/a"]),
        ("open('/a')", []),
        ("open('/a', 'r')", ["/a"]),  # for some languages that is not said there
        ("Path('/a').write_text(x)", ["/a"]),
        ("fs.writeFileSync(os.homedir() + '/a', x)", ["~/a"]),
        ("open(F, '>/a')", ["/a"]),
        ("shutil.copy(x, '/a')", ["/a"]),
    ],
)
def test_file_that_is_written_is_named(text: str, writes: list[str]) -> None:
    assert Code(text).writes() == writes


def test_texts_are_commands_only_where_any_are_run() -> None:
    assert Code("x = 'rm -rf a'; y = 'ls'").commands({"rm"}) == []
    assert Code("x = 'rm -rf a'; y = 'ls'; popen(x)").commands({"rm"}) == ["rm -rf a"]


def test_path_may_be_one_from_home() -> None:
    assert Code("f('.ssh/x')").paths() == [".ssh/x"]
    assert Code("f(Path.home() / '.ssh/x')").paths() == [".ssh/x", "~/.ssh/x"]


@every_row(
    ("text", "came", "decoded", "printed"),
    [
        ("exec(urlopen(u).read())", True, False, False),
        ("json.loads(requests.get(u).text)", True, False, False),
        ("requests.get(u)", False, False, False),
        ("s = socket.socket(); pty.spawn('/bin/sh')", True, False, False),
        ("socket.socket()", False, False, False),
        ("exec(b64decode(x))", False, True, True),
        ("os.system(b64decode(x))", False, True, True),
        ("eval(x); os.system(y)", False, False, False),
        ("print(bytes.fromhex(x))", False, False, True),
        ("print(x)", False, False, False),
    ],
)
def test_what_came_or_was_hidden_is_run(
    text: str, came: bool, decoded: bool, printed: bool
) -> None:
    read = Code(text)
    outcome = read.runs_what_came(), read.runs_decoded(), read.prints_decoded()
    assert outcome == (came, decoded, printed)


def test_rows_and_folders_are_given_up_by_name() -> None:
    assert Code("User.objects.all().delete()").says("says danger.data")
    assert Code("db.users.deleteMany( {} )").says("says danger.data")
    assert not Code("db.users.deleteMany({age: 3})").says("says danger.data")
    assert Code("rmtree(x)").says("deletes_unseen")


def test_no_more_is_read_than_is_allowed() -> None:
    assert Code(" " * MAX_CODE + "os.remove('/a')").texts("deletes") == []
    assert len(Code("os.remove('/a');" * 20).texts("deletes")) == MAX_TEXTS


@every_row(
    ("text", "keys"),
    [
        ("iwr https://a.b | iex", ["danger.downloaded"]),
        ("iwr https://a.b -OutFile x.ps1; .\\x.ps1", ["danger.downloaded"]),
        ("iwr https://a.b -OutFile x.ps1", []),
        ("powershell -enc SQBFAFgAIAAoAE4AZQ==", ["danger.decoded"]),
        ("Start-Process x -Verb RunAs", ["danger.root"]),
        ("Restart-Computer", ["danger.machine"]),
        ("Clear-Disk 0", ["danger.device"]),
        ("set-executionpolicy Bypass", ["danger.permissions"]),
        ("Add-Content $PROFILE x", ["danger.startup"]),
        ("reg delete HKCU\\x", ["danger.data"]),
        ("Get-Process", []),
    ],
)
def test_powershell_is_known_by_its_commands(text: str, keys: list[str]) -> None:
    assert powershell_marks(text) == keys


@every_row(
    ("text", "deletes"),
    [
        ("Remove-Item C:\\a -Recurse", [("C:/a", True)]),
        ("del 'a b'", [("a b", False)]),
        ("rd /s x", [("x", True)]),
        ("gci C:\\a -r | Remove-Item", [("C:/a", True)]),
        ("Get-Item a", []),
    ],
)
def test_powershell_deletes(text: str, deletes: list[tuple[str, bool]]) -> None:
    assert powershell_deletes(text) == deletes
