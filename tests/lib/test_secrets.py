from __future__ import annotations

import time

from hypothesis import example, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from feishuperm.lib.secrets import HIDDEN, mask
from tests.tables import every_row

S = "S3cr3tC4n4ry"
LONG = "S3cr3tC4n4ry0123456789abcdefABCDEF012345"

# A text, and the same with its secret masked.
TEXTS = [
    (f"curl -H 'Authorization: Bearer {S}' https://x.y/z -o f",
     "curl -H 'Authorization: ***' https://x.y/z -o f"),
    (f'curl -H "Authorization: Basic {S}==" https://x',
     'curl -H "Authorization: ***" https://x'),
    (f"curl -H Authorization:\\ Bearer\\ {S} https://x",
     "curl -H Authorization:*** https://x"),
    (f"Authorization: token {S}\nAccept: */*", "Authorization: ***\nAccept: */*"),
    (f"curl -H 'X-Api-Key: {S}' https://h/p", "curl -H 'X-Api-Key: ***' https://h/p"),
    (f"curl -H 'Cookie: a={S}; b=2' https://h", "curl -H 'Cookie: ***' https://h"),
    (f"curl -b 'session={S}' https://h", "curl -b 'session=***' https://h"),
    (f"curl -u admin:{S} https://x", "curl -u admin:*** https://x"),
    (f"curl -uadmin:{S} https://x", "curl -uadmin:*** https://x"),
    (f"curl --user 'admin:{S} x' https://x", "curl --user 'admin:***' https://x"),
    (f"curlx http ; http curl -u a:{S} x", "curlx http ; http curl -u a:*** x"),
    (f"http -a bob:{S} GET x", "http -a *** GET x"),
    (f"git clone https://user:{S}@host/r.git", "git clone https://user:***@host/r.git"),
    (f"git clone https://user:p@{S}@host/r", "git clone https://user:***@host/r"),
    (f"git clone https://{S}@host/r.git", "git clone https://***@host/r.git"),
    (f"psql postgres://u:{S}@h/db", "psql postgres://u:***@h/db"),
    (f"redis-cli -u redis://:{S}@h", "redis-cli -u redis://:***@h"),
    (f"mysql -uroot -p{S} db", "mysql -uroot -p*** db"),
    (f"mysqldump --password={S} db", "mysqldump --password=*** db"),
    (f"sshpass -p '{S} 2' ssh a", "sshpass -p '***' ssh a"),
    (f"docker login -u u -p {S} reg", "docker login -u u -p *** reg"),
    (f"redis-cli -a {S} ping", "redis-cli -a *** ping"),
    (f"unzip -P {S} a.zip", "unzip -P *** a.zip"),
    (f"openssl rsa -passin pass:{S} -in k", "openssl rsa -passin pass:*** -in k"),
    (f"PGPASSWORD={S} psql -h x", "PGPASSWORD=*** psql -h x"),
    (f"export API_KEY='{S} c' && run", "export API_KEY='***' && run"),
    (f'TOKEN={S}"def"ghi x', "TOKEN=*** x"),
    (f"TOKEN={S}; echo", "TOKEN=***; echo"),
    (f"A=1 MY_SECRET_KEY_2={S} B=2 x", "A=1 MY_SECRET_KEY_2=*** B=2 x"),
    (f"deploy --token {S} --name b", "deploy --token *** --name b"),
    (f"deploy --api-key={S} -v", "deploy --api-key=*** -v"),
    (f"aws configure set aws_secret_access_key {S}",
     "aws configure set aws_secret_access_key ***"),
    (f"npm config set //r/:_authToken {S}", "npm config set //r/:_authToken ***"),
    (f"//registry/:_authToken={S}", "//registry/:_authToken=***"),
    (f'{{"password": "{S}", "user": "bob"}}', '{"password": "***", "user": "bob"}'),
    (f"-d '{{\"clientSecret\":\"{S}\",\"a\":1}}' x",
     "-d '{\"clientSecret\":\"***\",\"a\":1}' x"),
    (f'x "{{\\"password\\": \\"{S}\\", \\"b\\": 2}}" y',
     'x "{\\"password\\": \\"***\\", \\"b\\": 2}" y'),
    (f"password: {S}\nuser: bob", "password: ***\nuser: bob"),
    (f"Server=x;Uid=sa;Pwd={S};", "Server=x;Uid=sa;Pwd=***;"),
    (f"密码：{S}", "密码：***"),
    (f"FEISHU_APP_SECRET={S} python x", "FEISHU_APP_SECRET=*** python x"),
    (f"POST https://open.feishu.cn/open-apis/bot/v2/hook/{S}-1 ok",
     "POST https://open.feishu.cn/open-apis/bot/v2/hook/*** ok"),
    (f"https://hooks.slack.com/services/T0/B0/{S}",
     "https://hooks.slack.com/services/***"),
    (f"https://b.example/o?X-Amz-Signature={S}&x=1",
     "https://b.example/o?X-Amz-Signature=***&x=1"),
    (f"-----BEGIN RSA PRIVATE KEY-----\n{S}\n-----END RSA PRIVATE KEY-----\nx",
     "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----\nx"),
    (f"-----BEGIN OPENSSH PRIVATE KEY-----\n{S}",
     "-----BEGIN OPENSSH PRIVATE KEY-----***"),
    (f'TOKEN="{S}', 'TOKEN="***'),
    (f"GITHUB_PAT={S} x", "GITHUB_PAT=*** x"),
    (f"STRIPE_KEY={S} x", "STRIPE_KEY=*** x"),
    (f"app -password {S} -v", "app -password *** -v"),
    (f"keytool -storepass {S} -v", "keytool -storepass *** -v"),
    (f"db_pass: {S}", "db_pass: ***"),
    (f"curl -d 'user=a&password={S}&x=1' u", "curl -d 'user=a&password=***&x=1' u"),
    (f"kubectl create secret generic a --from-literal=b={S}",
     "kubectl create secret generic a --from-literal=b=***"),
    (f"gh secret set NAME --body {S}", "gh secret set NAME --body ***"),
    (f"fly secrets set A={S} B='{S}'", "fly secrets set A=*** B='***'"),
    (f"heroku config:set A={S}", "heroku config:set A=***"),
    (f"security add-generic-password -w {S}", "security add-generic-password -w ***"),
    (f"https://{S}@sentry.example/1", "https://***@sentry.example/1"),
    *((f"echo {shape} done", "echo *** done") for shape in (
        f"ghp_{LONG}", f"gho_{LONG}", f"github_pat_{LONG}", f"glpat-{LONG}",
        f"sk-{LONG}", f"sk-ant-api03-{LONG}", f"sk-proj-{LONG}", f"sk_live_{LONG}",
        "AKIAIOSFODNN7S3CR3T0", "ASIAIOSFODNN7S3CR3T0", f"xoxb-1-{LONG}",
        f"AIza{LONG}", f"eyJhbGciOiJI.eyJzdWIi.{LONG}", f"npm_{LONG}", f"pypi-{LONG}",
        f"hf_{LONG}", f"SG.{LONG}.{LONG}", f"hvs.{LONG}", f"dckr_pat_{LONG}",
        f"123456789:AA{LONG}", f"ya29.{LONG}", f"LTAI{LONG}",
    )),
]  # fmt: skip

# Nothing to hide here.
HARMLESS = [
    "npm test", "", "git commit -m 'add token support'", "cat token.txt", "echo secret",
    "TOKEN=$TOKEN npm publish", "TOKEN=${TOKEN} x", "TOKEN=$(cat f) x", "echo $PWD",
    "cd $OLDPWD; PWD=/x make", "git clone ssh://git@host/r", "git@github.com:a/b.git",
    "docker run -p 8080:80 -u 1000:1000 x", "docker login --password-stdin",
    "mkdir -p a/b",
    "ssh -p 22 host", "mysql -u root -p db", "def f(token: str) -> None:",
    "max_tokens: 5",
    '{"token": null, "max_tokens": 5}', "if token == other:",
    "Basic authentication works",
    "PASSWORD_FILE=/run/x y", "ls --color", "https://example.com/a?b=c", "key: value",
    "npm run build -- --passes 3", "PATH=/x:/y make", "def f():\n    pass\n",
    "git secret reveal", "GIT_AUTHOR_EMAIL=a@b.c x", "keyboard: x",
     "npm config set registry https://r",
    "python -m tokenize file.py",
]  # fmt: skip


def test_secret_is_masked_and_the_command_still_known() -> None:
    wrong = [(text, mask(text)) for text, masked in TEXTS if mask(text) != masked]
    assert not wrong
    assert not [masked for _, masked in TEXTS if mask(masked) is not masked]


def test_text_without_a_secret_is_the_very_same() -> None:
    assert not [(text, mask(text)) for text in HARMLESS if mask(text) is not text]


@every_row("around", ["{}\n{}", "x && {} | {}", '{{"a": 1}}\n{} ;{}'])
def test_secret_is_masked_wherever_it_stands(around: str) -> None:
    told = [mask(around.format(text, text)) for text, _ in TEXTS]
    assert not [text for text in told if "3cr3t" in text.lower().replace("***", "")]


WORDS = st.sampled_from(
    ["token", "TOKEN=", "--token ", "://", "a:", "@", '"', "'", "\\", " ", "=", ": ",
     "$",
     "Authorization: ", "Bearer ", "curl -u ", "mysql -p", "eyJaaaaaaaa.", "***", "\n",
     "ghp_0123456789ab", "-----BEGIN PRIVATE KEY-----", "-----END ", "{", "}", "`", ";",
     "set ", "pass:", "密码", "：", "cookie", "x", "/hook/", "?key=", "&", "<", "(",
     "é"]
)  # fmt: skip
HOSTILE = st.lists(WORDS | st.text(max_size=3), max_size=30).map("".join)


@limits(deadline=None, max_examples=600)
@given(HOSTILE)
@example("token=***token=")
def test_masking_again_changes_nothing(text: str) -> None:
    once = mask(text)
    assert mask(once) is once
    assert (once is text) == (once == text)


REPEATED = [
    "token=", "token ", "--token ", "://a:", "://", "mysql -p", "curl -u ", "a:b@",
    '"token":"', '\\"token\\":\\"', "\\a", "''", '"', "eyJaaaaaaaa.", "Bearer ",
    "-----BEGIN PRIVATE KEY-----", 'TOKEN="', "secret_a_b_c", "set token ", "密码", "x",
    "a-", " ", "authorization: ", "cookie: ", "ghp_", "1//0", "12345678:AA", "pass:",
    "/hook/", "?key=", "SG.aaaaaaaaaaa.", "docker login -p ", "zip -P", "token='", "-",
    "token\\", "token    ", "-----BEGIN ", "secret" + "\\" * 20,
]  # fmt: skip


def seconds(part: str, size: int) -> float:
    """The least of three, of this process alone: others may use the machine."""
    text = (part * (size // len(part) + 1))[:size]
    spent = []
    for _ in range(3):
        started = time.process_time()
        mask(text)
        spent.append(time.process_time() - started)
    return min(spent)


def test_time_is_linear_in_the_worst_texts() -> None:
    slow = [
        part
        for part in REPEATED
        if seconds(part, 80_000) >= max(seconds(part, 10_000), 0.001) * 8 * 4
    ]
    assert not slow


@every_row("part", ["token", "eyJ"])
def test_words_without_an_end_cost_little(part: str) -> None:
    text = part * (100_000 // len(part))
    started = time.process_time()
    mask(text)
    assert time.process_time() - started < 2  # some tenths


def test_four_megabytes_of_nothing_cost_nothing_much() -> None:
    started = time.process_time()
    text = "x = 1\n" * 700_000
    assert mask(text) is text
    assert time.process_time() - started < 2


@limits(deadline=None, max_examples=300)
@given(st.text())
def test_any_text_goes_through(text: str) -> None:
    assert HIDDEN in mask(text) or mask(text) is text
