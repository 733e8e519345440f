"""Each finder marks exactly the secret, and is asked wherever it has something to say.

What is made of the marks, and how long it takes, is `test_secrets`.
"""

from __future__ import annotations

from feishuperm.lib import secret_finders
from feishuperm.lib.secret_finders import FINDERS
from feishuperm.lib.secrets import HINTS, mask
from tests.tables import every_row

S = "S3cr3tC4n4ry"
BY_NAME = {finder.__name__: finder for finder in FINDERS}

# finder: a text in which it finds just S (or what `{}` stands for)
FINDS = [
    ("_tokens", "use {} here", f"ghp_{S}"),
    ("_short_tokens", "use {} here", f"sk-{S}0123456789"),
    ("_bots", "{}", "12345678:AA" + S * 3),
    ("_openssl", "openssl -passin pass:{} x", S),
    ("_addresses", "post https://h/open-apis/bot/v2/hook/{} now", S.lower()),
    ("_addresses", "get https://h/x?a=1&sig={}&b=2", S.lower()),
    ("_userinfo", "clone https://me:{}@host/r", S),
    ("_userinfo", "clone https://{}@host/r", S),
    ("_schemes", "Bearer {}", f"{S}1"),
    ("_written", "<password>{}<", S.lower()),
    ("_private_keys", "-----BEGIN RSA PRIVATE KEY-----{}-----END ", f"\n{S}\n"),
    ("_named", "API_KEY={} run", S),
    ("_named", '{{"password": "{}", "user": 1}}', S),
    ("_named", "deploy --token {} --name b", S),
    ("_named", "密码：{}", S),
    ("_programs", "mysql -uroot -p{} db", S),
    ("_programs", "curl -u me:{} https://h", S),
    ("_programs", "smbclient -U me%{} //h/s", S),
    ("_programs", "xh -a {} GET host", f"me:{S}"),
    ("_programs", "docker login -p {} registry", S),
    ("_web_tokens", "use {} here", f"eyJhbGciOiJI.{S}.{S}"),
    ("_piped", "echo '{}' | sudo -S make", S),
    ("_stores", "gh secret set NAME --body {}", S),
    ("_stores", "heroku config:set NAME={}", S),
]


def found(name: str, text: str) -> list[tuple[int, int]]:
    spans = BY_NAME[name](text, text.lower())
    return [(start, end) for start, end, _ in spans if start < end]


@every_row(("name", "around", "secret"), FINDS)
def test_finder_marks_the_secret_and_nothing_else(
    name: str, around: str, secret: str
) -> None:
    text = around.format(secret)
    spans = [text[start:end] for start, end in found(name, text)]
    assert spans == [secret]
    assert secret not in mask(text), "and whoever masks asks it"


@every_row(
    ("name", "text"),
    [
        ("_tokens", "task-0123456789abcdef0123"),
        ("_tokens", "port 8080:AAAA"),
        ("_addresses", "https://h/hooks?a=b"),
        ("_userinfo", "ssh://git@host/r"),
        ("_schemes", "Basic authentication works"),
        ("_schemes", "nonbasic 0123456789"),
        ("_private_keys", "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----"),
        ("_named", "TOKEN=$TOKEN npm publish"),
        ("_named", "author: bob, PATH=/x, max_tokens: 5, password_file=/run/x"),
        ("_named", "def f(token: str) -> None:"),
        ("_programs", "mysql -u root -p db"),
        ("_programs", "docker run -p 80:80 -u 1000:1000 x"),
        ("_stores", "git secret reveal"),
    ],
)
def test_finder_leaves_what_is_no_secret(name: str, text: str) -> None:
    assert found(name, text) == []


def test_key_without_an_end_is_hidden_to_the_end() -> None:
    text = f"-----BEGIN PRIVATE KEY-----\n{S}\n"
    ((start, end),) = found("_private_keys", text)
    assert text[start:end] == f"\n{S}\n"


def test_programs_that_take_a_password_are_all_asked_about() -> None:
    """A text without a hint is never looked at: each program's name must be one."""
    programs = {*secret_finders._OPTIONS, *secret_finders._USERS}
    programs -= {*secret_finders._LOGIN.split()}  # "login" is one
    assert [name for name in programs if not any(h in name for h in HINTS)] == []
