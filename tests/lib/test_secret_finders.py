"""Each finder marks exactly the secret, and is asked wherever it has something to say.

What is made of the marks, and how long it takes, is `test_secrets`.
"""

from __future__ import annotations

from feishuperm.lib import secret_finders
from feishuperm.lib.log import HINTS, mask
from feishuperm.lib.secret_finders import FINDERS
from tests.tables import every_row

S = "S3cr3tC4n4ry"

# finder: a text in which it finds just S (or what `{}` stands for)
FINDS = [
    ("tokens", "use {} here", f"ghp_{S}"),
    ("short tokens", "use {} here", f"sk-{S}0123456789"),
    ("bots", "{}", "12345678:AA" + S * 3),
    ("openssl", "openssl -passin pass:{} x", S),
    ("addresses", "post https://h/open-apis/bot/v2/hook/{} now", S.lower()),
    ("addresses", "get https://h/x?a=1&sig={}&b=2", S.lower()),
    ("userinfo", "clone https://me:{}@host/r", S),
    ("userinfo", "clone https://{}@host/r", S),
    ("schemes", "Bearer {}", f"{S}1"),
    ("written", "<password>{}<", S.lower()),
    ("private keys", "-----BEGIN RSA PRIVATE KEY-----{}-----END ", f"\n{S}\n"),
    ("named", "API_KEY={} run", S),
    ("named", '{{"password": "{}", "user": 1}}', S),
    ("named", "deploy --token {} --name b", S),
    ("named", "密码：{}", S),
    ("programs", "mysql -uroot -p{} db", S),
    ("programs", "curl -u me:{} https://h", S),
    ("programs", "smbclient -U me%{} //h/s", S),
    ("programs", "xh -a {} GET host", f"me:{S}"),
    ("programs", "docker login -p {} registry", S),
    ("web tokens", "use {} here", f"eyJhbGciOiJI.{S}.{S}"),
    ("piped", "echo '{}' | sudo -S make", S),
    ("stores", "gh secret set NAME --body {}", S),
    ("stores", "heroku config:set NAME={}", S),
]


def found(name: str, text: str) -> list[tuple[int, int]]:
    spans = FINDERS[name](text, text.lower())
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
        ("tokens", "task-0123456789abcdef0123"),
        ("tokens", "port 8080:AAAA"),
        ("addresses", "https://h/hooks?a=b"),
        ("userinfo", "ssh://git@host/r"),
        ("schemes", "Basic authentication works"),
        ("schemes", "nonbasic 0123456789"),
        ("private keys", "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----"),
        ("named", "TOKEN=$TOKEN npm publish"),
        ("named", "author: bob, PATH=/x, max_tokens: 5, password_file=/run/x"),
        ("named", "def f(token: str) -> None:"),
        ("programs", "mysql -u root -p db"),
        ("programs", "docker run -p 80:80 -u 1000:1000 x"),
        ("stores", "git secret reveal"),
    ],
)
def test_finder_leaves_what_is_no_secret(name: str, text: str) -> None:
    assert found(name, text) == []


def test_key_without_an_end_is_hidden_to_the_end() -> None:
    text = f"-----BEGIN PRIVATE KEY-----\n{S}\n"
    ((start, end),) = found("private keys", text)
    assert text[start:end] == f"\n{S}\n"


def test_programs_that_take_a_password_are_all_asked_about() -> None:
    """A text without a hint is never looked at: each program's name must be one."""
    programs = {*secret_finders._OPTIONS, *secret_finders._USERS}
    logins = [n for n, o in secret_finders._OPTIONS.items() if "login" in o.pattern]
    programs -= {*logins}  # "login" is one
    assert [name for name in programs if not any(h in name for h in HINTS)] == []
