from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from feishuperm.lib import log, secret_finders
from feishuperm.lib.log import HIDDEN, finish, mask, masking
from tests.conftest import examples
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


# Everyday commands: every word of them is shown.
EVERYDAY = [
    "./run.sh basic drop-database", "./run.sh bearer drop-all-tables",
    "http-server -a 0.0.0.0 -p 8080", "http-server ./dist -p 3000 -a 127.0.0.1",
    "docker run -p 8080:80 nginx", "docker run --name mongo -p 27017:27017 mongo",
    "docker run --name mysql -p3306:3306 -d mysql:8", "pip install --user django==4.2",
    "docker run --user node:node app", "docker run -u www-data:www-data app",
    "docker run -d --name login -p 3000:3000 login", "docker compose -p shop up -d",
    "docker run --rm -p 6379:6379 redis redis-server --port 6379",
    "docker login -u bob registry.example.com && docker run -p 80:80 web",
    "kubectl port-forward svc/mongo 27017:27017", "kubectl get secrets -n shop",
    "kubectl get secret db -o yaml", "kubectl describe secret regcred",
    "kubectl create token build-bot", "helm secrets decrypt values.yaml",
    "ssh -p 2222 login.example.com", "scp -P 2222 a.zip login:/srv/a.zip",
    "mkdir -p src/login src/password-reset", "cp -p login.html public/",
    "rm -rf src/pages/login", "ls -la ~/.ssh/authorized_keys",
    "ssh-keygen -t ed25519 -f ~/.ssh/id_deploy -N ''", "ssh-add ~/.ssh/id_rsa",
    "chmod 600 ~/.ssh/id_rsa", "cat /etc/passwd", "passwd --lock bob",
    "grep -rn 'password' src/", "grep -rn token: config/", "rg 'api_key' --type py",
    "git log --author bob -p src/auth.py", "git commit -m 'fix: token: expire early'",
    "git config --global credential.helper store", "git secret hide",
    "git push origin feature/basic-auth-2", "git checkout -b password-reset",
    "npm run test -- --testNamePattern 'login form'", "npm token list",
    "npm run keys:rotate", "npx wrangler secret list", "vercel env ls production",
    "pytest tests/test_token.py -k 'password and not slow' -p no:cacheprovider",
    "pytest -p xdist -n 4", "python manage.py changepassword bob",
    "python -m http.server -b 127.0.0.1 8000", "make key=value build",
    "mysql -u root -p shop < dump.sql", "mysqldump -u root -p shop > dump.sql",
    "psql -U postgres -h localhost -p 5432 shop", "redis-cli -h cache -p 6379 ping",
    "redis-cli -n 3 keys 'session:*'", "mongosh --port 27017 shop",
    "zip -r login.zip src -x '*.key'", "unzip -p a.zip login.txt", "7z x a.7z -oout",
    "curl -u $USER:$PASSWORD https://api.example.com", "curl -b cookies.txt https://h",
    "curl -sS https://api.example.com/v1/tokens?limit=5", "curl -p -o x https://h/a",
    "wget -U Mozilla/5.0:compatible https://example.com/a.zip",
    "http GET https://example.com/api/login a==1", "xh get example.com/login",
    "terraform apply -var key_name=deploy", "aws iam list-access-keys --user-name bob",
    "aws s3 cp a.txt s3://bucket/key.txt", "aws secretsmanager list-secrets",
    "gcloud auth login --no-launch-browser", "gh auth status", "gh auth login --web",
    "gh secret list", "vault login -method=oidc", "az login --use-device-code",
    "TOKEN=$(gh auth token) ./deploy.sh", "export PASSWORD=$DB_PASSWORD; ./run.sh",
    "sudo -u postgres psql -c 'select 1'", "su -p -c 'make test' bob",
    "echo 'password reset mail sent'", "echo token expired, log in again",
    "tar -xpf login.tar.gz -C /srv", "rsync -avp --key=value a/ b/",
    "sed -i 's/token/ticket/g' src/auth.js", "awk -F: '{print $1}' /etc/passwd",
    "openssl rand -hex 32", "openssl req -new -key server.key -out server.csr",
    "openssl x509 -in cert.pem -noout -text", "htpasswd -c .htpasswd bob",
    "ldapsearch -x -W -b dc=example,dc=com uid=bob", "smbclient -L //host -U bob",
    "systemctl restart mysql", "apt-get install -y mysql-client redis-tools",
    "security find-certificate -a -p", "security list-keychains",
    "const pin = 4", "password = getpass.getpass()", "token = request.headers.get('x')",
    "api_key = os.environ['API_KEY']", "password: process.env.DB_PASSWORD,",
    "secretName: regcred", "if (token === expected) { return }", "let token;",
    "passwords.forEach(check)", "keys: [a, b]", "const authToken = await login(user)",
    "请重置密码", "忘记密码的页面：login.html", "按键：回车",
]  # fmt: skip

# A command, and what of it must not be seen.
REAL = [
    ("mysql -h db -uroot -pHunter22 shop", "Hunter22"),
    ("docker exec -it db mysql -uroot -pHunter22 -e 'show tables'", "Hunter22"),
    ("mysqladmin -u root -pHunter22 status", "Hunter22"),
    ("mariadb-dump -u root -pHunter22 shop", "Hunter22"),
    ("/usr/bin/mysql -pHunter22", "Hunter22"),
    ("mysql --password=Hunter22 -u root", "Hunter22"),
    ("MYSQL_PWD=Hunter22 mysql -u root", "Hunter22"),
    ("PGPASSWORD=Hunter22 psql -U postgres shop", "Hunter22"),
    ("psql 'host=db user=app password=Hunter22'", "Hunter22"),
    ("psql postgresql://app:Hunter22@db:5432/shop", "Hunter22"),
    ("mongosh -u admin -p Hunter22 shop", "Hunter22"),
    ("mongodump --uri mongodb+srv://u:Hunter22@c0.example.net", "Hunter22"),
    ("mongorestore -u admin -pHunter22 dump/", "Hunter22"),
    ("redis-cli -h cache -a Hunter22 flushall", "Hunter22"),
    ("redis-cli --pass Hunter22 ping", "Hunter22"),
    ("sshpass -pHunter22 ssh bob@host", "Hunter22"),
    ("sudo sshpass -p Hunter22 scp a bob@host:", "Hunter22"),
    ("docker login -u bob -p Hunter22 registry.example.com", "Hunter22"),
    ("podman login --username bob --password Hunter22 quay.io", "Hunter22"),
    ("helm registry login r.example.com -u bob -p Hunter22", "Hunter22"),
    ("az acr login -n shop -u bob -p Hunter22", "Hunter22"),
    ("oc login https://api.example.com -u bob -p Hunter22", "Hunter22"),
    ("echo Hunter22 | docker login -u bob --password-stdin", "Hunter22"),
    ("echo 'Hunter22' | sudo -S apt-get update", "Hunter22"),
    ("printf '%s' Hunter22 | sudo -S make install", "Hunter22"),
    ("echo 'bob:Hunter22' | sudo chpasswd", "Hunter22"),
    ("echo Hunter22abc | gh auth login --with-token", "Hunter22abc"),
    ("curl -u bob:Hunter22 https://api.example.com", "Hunter22"),
    ("curl -sSu bob:Hunter22 https://api.example.com", "Hunter22"),
    ("curl --user bob:Hunter22 https://api.example.com", "Hunter22"),
    ("curl --proxy-user=bob:Hunter22 https://api.example.com", "Hunter22"),
    ("curl --oauth2-bearer Hunter22abc https://api.example.com", "Hunter22abc"),
    ("curl -H 'Authorization: Bearer abcdefghij' https://h", "abcdefghij"),
    ("curl -H 'Authorization: Basic Ym9iOkh1bnRlcjIy' https://h", "Ym9iOkh1bnRlcjIy"),
    ("psql -c \"ALTER USER a WITH PASSWORD 'Hunter22'\"", "Hunter22"),
    ("mysql -e \"CREATE USER a IDENTIFIED BY 'Hunter22'\"", "Hunter22"),
    ("mysql -e \"SET PASSWORD FOR 'a'@'h' = 'Hunter22'\"", "Hunter22"),
    ("<dbPassword>Hunter22</dbPassword>", "Hunter22"),
    ("echo 'machine h login me password Hunter22' >> ~/.netrc", "Hunter22"),
    ("fetch -H 'X-Auth: Basic Ym9iOkh1bnRlcjIy'", "Ym9iOkh1bnRlcjIy"),
    ("curl -H 'X-Auth-Token: Hunter22' https://h", "Hunter22"),
    ("curl -H 'PRIVATE-TOKEN: Hunter22' https://gitlab.example.com", "Hunter22"),
    ("curl --cookie 'sid=Hunter22' https://h", "Hunter22"),
    ("curl -d 'grant=x&client_secret=Hunter22' https://h", "Hunter22"),
    ("curl 'https://maps.example.com/api?key=Hunter22&q=a'", "Hunter22"),
    ("http -a bob:Hunter22 GET example.com", "Hunter22"),
    ("xh --auth bob:Hunter22 example.com", "Hunter22"),
    ("wget --http-password=Hunter22 https://h", "Hunter22"),
    ("wget --user bob --password Hunter22 https://h", "Hunter22"),
    ("git clone https://bob:Hunter22@git.example.com/a.git", "Hunter22"),
    ("git remote set-url origin https://x-access-token:Hunter22@git.example.com/a",
     "Hunter22"),
    ("svn co --username bob --password Hunter22 https://h/a", "Hunter22"),
    ("ldapsearch -D cn=admin -w Hunter22 -b dc=example", "Hunter22"),
    ("ldapmodify -x -D cn=admin -wHunter22 -f a.ldif", "Hunter22"),
    ("smbclient //host/share -U bob%Hunter22", "Hunter22"),
    ("mount -t cifs //h/s /mnt -o username=bob,password=Hunter22", "Hunter22"),
    ("zip -P Hunter22 -r a.zip src", "Hunter22"),
    ("unzip -P Hunter22 a.zip", "Hunter22"),
    ("7z x -pHunter22 a.7z", "Hunter22"), ("unrar x -pHunter22 a.rar", "Hunter22"),
    ("rar a -hpHunter22 a.rar src", "Hunter22"),
    ("openssl enc -aes-256-cbc -k Hunter22 -in a", "Hunter22"),
    ("openssl pkcs12 -export -passout pass:Hunter22 -in a", "Hunter22"),
    ("ssh-keygen -t ed25519 -N Hunter22 -f id", "Hunter22"),
    ("gpg --batch --passphrase Hunter22 -d a.gpg", "Hunter22"),
    ("keytool -genkey -storepass Hunter22 -keypass Hunter22", "Hunter22"),
    ("htpasswd -bc .htpasswd bob Hunter22", "Hunter22"),
    ("sqlcmd -S db -U sa -P Hunter22 -Q 'select 1'", "Hunter22"),
    ("lftp -u bob,Hunter22 sftp://host", "Hunter22"),
    ("mosquitto_pub -u bob -P Hunter22 -t a -m b", "Hunter22"),
    ("ipmitool -H bmc -U admin -P Hunter22 power status", "Hunter22"),
    ("plink -pw Hunter22 bob@host", "Hunter22"),
    ("twine upload -u bob -p Hunter22 dist/*", "Hunter22"),
    ("dotnet nuget push a.nupkg -k Hunter22abc", "Hunter22abc"),
    ("nmcli dev wifi connect office password Hunter22", "Hunter22"),
    ("security unlock-keychain -p Hunter22 login.keychain", "Hunter22"),
    ("aws configure set aws_secret_access_key Hunter22abc", "Hunter22abc"),
    ("AWS_SECRET_ACCESS_KEY=Hunter22abc aws s3 ls", "Hunter22abc"),
    ("export OPENAI_API_KEY=Hunter22abc", "Hunter22abc"),
    ("echo 'DB_PASSWORD=Hunter22' >> .env", "Hunter22"),
    ("gh secret set DEPLOY_KEY --body Hunter22", "Hunter22"),
    ("heroku config:set STRIPE=Hunter22", "Hunter22"),
    ("kubectl create secret generic db --from-literal=password=Hunter22", "Hunter22"),
    ("npm config set //registry.example.com/:_authToken Hunter22", "Hunter22"),
    ("terraform apply -var db_password=Hunter22", "Hunter22"),
    ("ansible-playbook a.yml -e ansible_become_pass=Hunter22", "Hunter22"),
    ("snmpwalk -v3 -A Hunter22 -X Hunter22 host", "Hunter22"),
    ("数据库密码：Hunter22", "Hunter22"), ("口令 = Hunter22", "Hunter22"),
]  # fmt: skip


def test_secret_is_masked_and_the_command_still_known() -> None:
    wrong = [(text, mask(text)) for text, masked in TEXTS if mask(text) != masked]
    assert not wrong
    assert not [masked for _, masked in TEXTS if mask(masked) is not masked]


def test_text_without_a_secret_is_the_very_same() -> None:
    assert not [(text, mask(text)) for text in HARMLESS if mask(text) is not text]


@every_row("text", EVERYDAY)
def test_everyday_command_is_shown_to_its_last_word(text: str) -> None:
    assert mask(text) is text


@every_row(("text", "secret"), REAL)
def test_secret_of_an_everyday_command_is_hidden(text: str, secret: str) -> None:
    assert secret not in mask(text)


def veiled(text: str) -> bool:
    return finish(masking(text)).veiled


@every_row(("text", "secret"), REAL)
def test_secret_in_its_place_veils_nothing(text: str, secret: str) -> None:
    # `abcdefghij` behind a header's scheme, a literal that a store is given: as sure.
    assert not veiled(text)


@every_row(
    "text",
    [
        "SECRET=./x.sh; sh $SECRET",
        'TOKEN=Hunter22; curl -H "X: ${TOKEN}" https://h',
        "TOKEN=Hunter22 sh -c 'run $TOKEN'",
        "PASSWORD=Hunter22; eval $(set | grep PASS)",
        "export TOKEN=Hunter22; printenv TOKEN | sh",
        "API_KEY=Hunter22 env | sh",
        "secret = 'Hunter22'; os.system(secret)",
        "TOKEN=`id` run",
        "deploy --token drop-database",
        "mysql -p/tmp/x.sh db",
        "run --secret ./evil.sh",
        "echo 'x\\nrm -rf /' | sudo -S sh",
        "-----BEGIN PRIVATE KEY-----\nrm -rf /\n-----END PRIVATE KEY-----",
        # The name is read in another language, or is that of a command.
        "PASSWORD=run python3 -c \"import os; os.system(os.environ['PASSWORD'])\"",
        "PASSWORD=run python3 -c 'import os; os.system(os.getenv(\"PASSWORD\"))'",
        "PASSWORD=run node -e 'exec(process.env.PASSWORD)'",
        "PASSWORD=run ruby -e 'system ENV[\"PASSWORD\"]'",
        "PASSWORD=run; ${PASSWORD:-x}",
        "alias password=run; password",
        "git -c alias.password=run password",
        'export PASSWORD=run; sh -c "$(env)"',
        "export PASSWORD=run; declare -p PASSWORD | sh",
        # Something cuts the value out and runs it.
        "x=password:run; ${x#*:}",
        "set -- --password run; $2",
        "bash -c '\"${0#*=}\"' password=run",
        "echo password=run | cut -d= -f2 | sh",
        "awk '{print $2}' <<< 'password: run' | sh",
        "echo reboot | sudo -S sh",
        "echo run | python3 run.py --exec-stdin",
        "PASSWORD=bin/run make",
        # A file, a program or an argument that looks like a secret.
        "./sk-deploy-production-now",
        "sh ghp_A1b2C3d4E5f6G7h8",
        "sh -x xoxb-1a2b3c4d5e6f",
        "sh ./hook/deploy2prod9",
        "./run.sh bearer drop2database",
        "./run.sh zip -P drop-database",
        "./run.sh secret set a=drop-database",
        "fetch with Basic Ym9iOkh1bnRlcjIy please",
    ],
)
def test_mask_that_could_hide_what_runs_veils_the_call(text: str) -> None:
    assert HIDDEN in mask(text)
    assert veiled(text)


@every_row("part", ["eyJ", "token=a ", "mysql -p1 ", "x", "token ", "=", "echo "])
def test_every_step_of_masking_is_short(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two pauses a bounded number of places is looked at."""
    monkeypatch.setattr(log, "STEP", 10)
    looked = 0

    def counted(find: Callable[[str, str], Any]) -> Callable[[str, str], Any]:
        def spans(text: str, lower: str) -> Iterator[tuple[int, int, bool]]:
            nonlocal looked
            for span in find(text, lower):
                looked += 1
                yield span

        return spans

    for name, find in secret_finders.FINDERS.items():
        monkeypatch.setitem(secret_finders.FINDERS, name, counted(find))
    before, most = 0, 0
    for _ in masking(part * 2000 + "token"):
        before, most = looked, max(most, looked - before)
    assert most <= 10


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


@limits(deadline=None, max_examples=examples(600))
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
    "eyJ", "token\\", "token    ", "docker login ", "echo ", "echo a|sudo ", "http -a ",
    "-----BEGIN ", "secret" + "\\" * 20,
]  # fmt: skip


def seconds(part: str, size: int) -> float:
    text = (part * (size // len(part) + 1))[:size]
    started = time.process_time()
    mask(text)
    return time.process_time() - started


def is_linear(part: str) -> bool:
    return seconds(part, 80_000) < max(seconds(part, 10_000), 0.001) * 8 * 4


def test_time_is_linear_in_the_worst_texts() -> None:
    """One of three tries will do: others use the machine too."""
    slow = [part for part in REPEATED if not any(is_linear(part) for _ in range(3))]
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


@limits(deadline=None, max_examples=examples(300))
@given(st.text())
def test_any_text_goes_through(text: str) -> None:
    assert HIDDEN in mask(text) or mask(text) is text
