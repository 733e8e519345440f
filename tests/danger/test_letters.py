"""Which names have letters in them that look like others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from feishuperm.danger.paths import odd_letters
from tests.tables import every_row


@every_row(
    ("name", "letters"),
    [
        ("gіthub.com", "і U+0456"),
        ("аррӏе.com", "а U+0430, р U+0440"),
        ("xn--80ak6aa92e.com", "а U+0430, р U+0440"),
        ("xn--gthub-n4a.com".upper(), ""),
        ("ｇithub.com", "ｇ U+FF47"),
        ("pαypal.com", "α U+03B1"),
        ("сurl", "с U+0441"),
        ("npm-іnstall", "і U+0456"),
        ("𝗀it", "𝗀 U+1D5C0"),
        *((name, "") for name in (
            "github.com", "例子.中国", "почта.рф", "münchen.de", "构建.sh", "сборка.sh",
            "deploy-构建.sh", "déploiement.sh", "xn--fsqu00a.com", "xn--", "xn--a" * 50,
            "ελληνικά.gr", "テスト.jp", "한국.kr", "",
        )),
    ],
)  # fmt: skip
def test_letters_that_look_like_others_are_named(name: str, letters: str) -> None:
    said = odd_letters(name)
    assert letters in said and bool(said) == bool(letters)


@given(st.text(max_size=400) | st.text("xn-аеo.", max_size=400))
def test_any_name_is_looked_at(name: str) -> None:
    assert len(odd_letters(name)) < 2000
