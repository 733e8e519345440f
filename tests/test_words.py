"""Every sentence has its Chinese, every Chinese its sentence; and how they are told."""

from __future__ import annotations

import ast
import io
import re
import struct
import zipfile
from pathlib import Path

import pytest
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

import build
from feishuperm import messages
from feishuperm.compiled import compile_po
from feishuperm.compiled import read_po as read_own
from feishuperm.lib.display import width
from feishuperm.messages import (
    CATALOGUE,
    SYSTEM,
    WORD,
    Message,
    message_of,
    msg,
    pack,
    pmsg,
    text,
    unpack,
    word,
)
from feishuperm.models.settings import SETTINGS
from tests import words

CHINESE = words.read()
SENTENCES = words.extract()
# What is the same in both languages: frames without a word, names, exit codes.
ALIKE = {
    "{done} at {time}",
    "{label}: {value}",
    "{}: hooks.{}: {}",
    "python",
    "http",
    "App secret: ",
}


def test_every_sentence_has_its_chinese() -> None:
    missing = [(key, files) for key, files in SENTENCES.items() if not CHINESE.get(key)]
    assert not missing, "python3 build.py words"


def test_every_chinese_has_its_sentence() -> None:
    """What the system says, and names that are data, no call of ours names."""
    left = [key for key in CHINESE if key not in SENTENCES]
    assert {context for context, _ in left} == {SYSTEM, WORD}, "python3 build.py words"
    literals = {
        node.value
        for path in words.PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant)
    }
    for path in words.PACKAGE.rglob("*.txt"):
        literals.update(
            re.findall(r"^\[(.+)\]$", path.read_text("utf-8"), re.MULTILINE)
        )
    names = [name for context, name in left if context == WORD]
    assert not [name for name in names if name not in literals]


def test_both_languages_have_the_same_blanks() -> None:
    wrong = [
        english
        for (_, english), chinese in CHINESE.items()
        if words.holes(english) != words.holes(chinese)
    ]
    assert not wrong


def test_chinese_is_chinese() -> None:
    for (_, english), chinese in CHINESE.items():
        alike = english in ALIKE or not re.search("[A-Za-z]", english)
        assert alike or re.search("[\u4e00-\u9fff，：（]", chinese), english


def test_chinese_fits_where_the_english_stood() -> None:
    for (_, english), chinese in CHINESE.items():
        assert english.endswith("\n") == chinese.endswith("\n"), english
        if english.endswith(" "):
            assert chinese.endswith((" ", "：")), english
        if "\n" in english and "{" not in english:
            assert max(map(width, chinese.split("\n"))) <= 88, english


def test_every_command_and_setting_of_the_english_is_in_the_chinese() -> None:
    names = re.compile(
        r"`feishuperm [^`{}]+`"
        r"|\b(?:FEISHU|CALLBACK|PERMISSION|SUPERVISOR|GATEWAY)[A-Z_]*\b"
        r"|(?<![\w-])--[a-z][a-z-]+"
    )
    for (_, english), chinese in CHINESE.items():
        missing = [name for name in names.findall(english) if name not in chinese]
        assert not missing, english


def test_what_a_setting_may_be_has_its_chinese() -> None:
    for setting in SETTINGS:
        if " " in setting.allowed.replace(", ", ""):  # or it is a list of choices
            assert isinstance(setting.allowed, Message)
            assert text("zh", setting.allowed) != setting.allowed


def test_our_compiler_makes_what_babel_makes() -> None:
    data = words.PO.read_bytes()
    catalogue = read_po(io.BytesIO(data), locale="zh_CN", charset="utf-8")
    file = io.BytesIO()
    write_mo(file, catalogue)
    ours, theirs = compile_po(data.decode()), file.getvalue()
    assert {k: v for k, v in rows(ours).items() if k} == {
        k: v for k, v in rows(theirs).items() if k
    }
    assert list(rows(ours)) == sorted(rows(ours))
    assert compile_po(data.decode()) == ours


def rows(data: bytes) -> dict[bytes, bytes]:
    """Every pair of a .mo file."""
    _, _, count, keys, values = struct.unpack_from("<5I", data)
    found = {}
    for number in range(count):
        parts = []
        for table in (keys, values):
            length, place = struct.unpack_from("<2I", data, table + 8 * number)
            parts.append(data[place : place + length])
        found[parts[0]] = parts[1]
    return found


def test_the_file_is_as_the_command_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = words.PO.read_bytes()
    monkeypatch.setattr(words, "PO", tmp_path / "feishuperm.po")
    assert words.write(CHINESE) == []
    assert (tmp_path / "feishuperm.po").read_bytes() == before, "python3 build.py words"


def test_built_file_has_the_catalogue_of_the_sources(pyz: Path) -> None:
    po = words.PO.read_text("utf-8")
    with zipfile.ZipFile(pyz) as archive:
        names = [name for name in archive.namelist() if "/locale/" in name]
        (name,) = [name for name in names if not name.endswith("/")]
        assert name.endswith(f"feishuperm/{CATALOGUE}.mo")
        assert archive.read(name) == compile_po(po)


def test_build_without_a_catalogue_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "feishuperm").mkdir()
    monkeypatch.setattr(build, "ROOT", tmp_path)
    with pytest.raises(build.BuildError, match=r"feishuperm\.po is missing"):
        build.package_files()


def test_entries_of_several_lines_contexts_and_quotes_are_read() -> None:
    po = '# c\nmsgid ""\nmsgstr "head"\n\nmsgctxt "c"\nmsgid "a\\n"\n"b \\"c\\""\n'
    po += 'msgstr ""\n"x"\n\nmsgid "without"\nmsgstr ""\n'
    assert read_own(po) == {"": "head", 'c\x04a\nb "c"': "x"}


# ---- messages


def test_sentence_is_told_in_the_language_and_its_blanks_filled() -> None:
    assert text("zh", "Denied by the user in Feishu") == "用户通过飞书拒绝"
    assert text("en", "Sent to {machine}", machine="box") == "Sent to box"
    assert text("zh", "Sent to {machine}", machine="box") == "已发送给 box"


def test_unknown_language_is_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="'fr'"):
        text("fr", "Denied by the user in Feishu")


def test_what_is_filled_in_stays_as_it_is() -> None:
    """A reason with braces in it is no blank of ours, and no sentence either."""
    reason = "{0} {reason} %s"
    said = text("zh", "Denied by the user in Feishu: {reason}", reason=reason)
    assert said == f"用户通过飞书拒绝：{reason}"
    assert text("zh", msg("removed {}", "the program")) == "已删除 the program"


def test_message_is_english_and_keeps_what_its_chinese_needs() -> None:
    inner = msg("the settings")
    message = msg("removed {}", inner)
    assert message == "removed the settings" and isinstance(message, str)
    assert text("en", message) == message
    assert text("zh", message) == "已删除 设置"
    assert msg(message) is message


def test_values_may_change_places() -> None:
    message = msg("register {} in {}", "Stop", "settings.json")
    assert message == "register Stop in settings.json"
    assert text("zh", message) == "在 settings.json 里注册 Stop"


def test_same_english_means_several_things() -> None:
    assert text("zh", "Revoke") == "撤销"
    assert text("zh", pmsg("machine", "Revoke")) == "移除"
    assert text("zh", word("deny")) == "拒绝" and text("en", word("deny")) == "deny"
    assert text("zh", word("never heard of")) == "never heard of"
    assert text("zh", "") == text("en", "") == ""


def test_error_says_what_it_was_given_and_system_errors_their_own() -> None:
    error = OSError(2, "No such file or directory")
    assert text("zh", message_of(error)) == "没有这个文件或目录"
    assert text("zh", msg("no link: {}", error)).endswith(
        "[Errno 2] 没有这个文件或目录"
    )
    named = ValueError(msg("removed {}", msg("the program")))
    assert text("zh", msg("{}: {}", "x", named)) == "x：已删除 程序"
    assert message_of(ValueError("anything else")) == "anything else"


def test_messages_of_a_reply_are_made_again_by_who_reads_it() -> None:
    detail = msg("removed {}", msg("set {} in {}", "A", "B"))
    reply = pack({"n": 1, "channels": [{"detail": detail, "name": "removed"}]})
    assert reply["channels"][0]["detail"] == "removed set A in B"
    again = unpack(dict(reply), reply.pop(messages.MADE))
    assert text("zh", again["channels"][0]["detail"]) == "已删除 在 B 里设置 A"
    assert type(again["channels"][0]["name"]) is str
    assert pack({"n": "plain"}) == {"n": "plain"}
