"""Databases, schedules, machines, and the shells of another system."""

from __future__ import annotations

import re

from feishuperm.danger import code, sql
from feishuperm.danger.arguments import (
    has,
    look,
    operands,
    options,
    place_of,
    recognise,
    value_of,
    visit,
    words,
)
from feishuperm.danger.places import UNKNOWN
from feishuperm.danger.scene import NOTHING, Arg, Args, Flow, Scene

SQL_CLIENTS = (
    "psql", "mysql", "mariadb", "sqlite3", "sqlite", "mongo", "mongosh", "redis-cli",
    "valkey-cli", "clickhouse-client", "clickhouse", "duckdb", "sqlcmd", "bq",
    "cqlsh", "cockroach", "pgcli", "mycli", "usql", "trino", "presto", "beeline",
    "isql", "tsql", "litecli", "snowsql",
)  # fmt: skip
_SQL_VALUED = (
    "-h -p -U -d -u -P -D -H --host --port --user --username --dbname -n -a -i -S"
)
_SQL_TEXT = "-c -e -q -Q -cmd --command --execute --eval --query"


def sql_client(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(args, _SQL_VALUED)
    scene.suspicious(flow)
    if rest[:1] != [":memory:"]:
        for text in _statements(name, args, rest, flow):
            judge_sql(scene, name, text)
    piped = flow.what if flow.text is None else ""
    file = value_of(args, "-f", "--file", "--init", "-init") or Arg(piped)
    if file:
        _sql_file(scene, name, file)
    recognise(scene, name, args)
    if rest[:1] in (["del"], ["DEL"], ["unlink"]) and UNKNOWN in rest[1:]:
        scene.note("danger.data", words(name, args))
    host = value_of(args, "-h", "--host") or "localhost"
    if host not in ("localhost", "127.0.0.1"):
        scene.note("fact.host", host)
    look(scene, [arg for arg in rest if not re.search(r"\s", arg)])
    return Flow()


def _statements(name: str, args: Args, rest: Args, flow: Flow) -> list[str]:
    """All that a client is given to do, each once."""
    bare = name in ("redis-cli", "valkey-cli", "bq")  # their words are a statement
    texts = [
        *(arg for arg in args if re.search(r"\s", arg)),
        value_of(args, *_SQL_TEXT.split()) or "",
        flow.text or "",
        " ".join(rest) if bare else "",
    ]
    return list(dict.fromkeys(filter(None, texts)))


_DESTROYING = re.compile(
    r"drop|wipe|truncat|purge|destroy|nuke|delete|reset|clean", re.I
)


def _sql_file(scene: Scene, name: str, path: Arg) -> None:
    """A file of statements: what is known to be in it, or what its name says."""
    flow = scene.reads(path) or scene.content(path)
    if flow is not None:
        scene.suspicious(flow)
        judge_sql(scene, name, flow.text or "")
    elif path.endswith(".sql") and _DESTROYING.search(path.rpartition("/")[2]):
        scene.note("danger.data", words(name, [path]))


def judge_sql(scene: Scene, name: str, text: str) -> None:
    if name.startswith(("redis", "valkey")):
        text = text.replace("'", " ")
    scene.unread(text[sql.MAX_SQL :])
    paid = scene.spend(min(len(text), sql.MAX_SQL), 20)
    statement = sql.destroys(text) if paid else ""
    if statement:
        scene.note("danger.data", statement)
    for command in sql.runs(text):
        scene.run(command)
    for path in sql.files(text):
        _sql_file(scene, name, Arg(path))


def crontab(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    if "-r" in args:
        scene.note("danger.startup", "crontab -r")
    elif "-l" not in args:
        scene.note("danger.startup", words("crontab", args))
    return Flow()


def at(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    if has(args, "lrdcV"):
        return NOTHING
    scene.note("danger.startup", words(name, args))
    if flow.text:
        scene.run(Arg(flow.text))
    elif flow is not NOTHING:
        scene.run_input(flow)
    return NOTHING


# Without them others lose their data, or the machine its use.
_SERVERS = re.compile(
    r"postgres|postmaster|mysqld?(?:_safe)?|mariadbd?|mongo[ds]|(?:redis|valkey)-server"
    r"|memcached|etcd|clickhouse(?:-server)?|cockroach|cassandra|elasticsearch|influxd"
    r"|opensearch|rabbitmq(?:-server)?|beam(?:\.smp)?|kafka|zookeeper|consul|vault|sshd"
    r"|dockerd|containerd|kubelet|k3s|systemd[\w-]*|init|launchd|dbus-daemon|crond?"
    r"|NetworkManager|Xorg|gnome-shell|gdm\d?|WindowServer|loginwindow|Finder|auditd"
    r"|port (?:5432|3306|6379|27017|9200|5672|2379|1433|1521|9042|22)",
    re.IGNORECASE,
)
_PORT = re.compile(r"(?:.*[:/])(\d+)")


def _is_server(text: str) -> bool:
    """Whether a process's name or pattern is one: `/usr/sbin/mysqld --x`."""
    name = text if text.startswith("port ") else text.strip("^$ ").partition(" ")[0]
    return _SERVERS.fullmatch(name.rstrip(":").rpartition("/")[2]) is not None


def lsof(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """Whose a port is: a number that stands for it."""
    ports = [match[1] for match in map(_PORT.fullmatch, args) if match]
    look(scene, args)
    return Flow(None, "", f"port {ports[0]}" if ports else "")


def kill_named(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """pkill, killall: what a process is called, or whose it is."""
    recognise(scene, name, args)
    rest = operands(args, "-u -U -g -G -P -s -t --signal --euid --uid")
    everything = not rest and has(args, "uU", "--euid", "--uid")
    asks = has(args, "0l", "--list") and not has(args, "f")
    if not asks and (everything or any(map(_is_server, rest))):
        scene.note("danger.machine", words(name, args))
    return NOTHING


def kill(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = [
        arg
        for arg in args
        if not re.fullmatch(r"-(?:[A-Z]\w*|s|\d{1,2})", arg) or arg == "-1"
    ]
    if any("feishuperm" in arg.what for arg in rest):
        scene.note("danger.permissions", "kill feishuperm")
    named = any(_is_server(arg.what) for arg in rest) and "-0" not in args
    if rest[-1:] in (["1"], ["-1"]) or named:
        scene.note("danger.machine", words("kill", args))
    return NOTHING


def powershell(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    at = place_of(args, "(?i)-c(?:ommand)?")
    given = flow.text or value_of(args, "-c", "-C") or " ".join(args)
    command = args[at + 1 :] if at < len(args) else [*options(args), given]
    read_powershell(scene, " ".join(command))
    return Flow()


def read_powershell(scene: Scene, text: str) -> None:
    """PowerShell, by the names of its commands."""
    scene.unread(text[code.MAX_POWERSHELL :])
    text = text[: code.MAX_POWERSHELL]
    if not scene.spend(len(text), 10):
        return
    scene.copy().run(text.replace("\\", "/"))  # much is spelled as in any shell
    for key in code.powershell_marks(text):
        scene.note(key, " ".join(text.split())[:60])
    for path, recursive in code.powershell_deletes(text):
        path = re.sub(r"\A\$(?:env:)?(?:HOME|USERPROFILE)\b", "~", path, flags=re.I)
        if re.match(r"[A-Za-z]:", path):
            scene.note("danger.delete", path)
        else:
            scene.deletes(UNKNOWN if path.startswith("$") else path, recursive)
    visit(scene, text)


MAX_CMD = 8192  # characters; cmd.exe takes no more
_CMD_DELETES = re.compile(r"\b(?:del|erase|rd|rmdir)\b", re.I)
_CMD_ALL = re.compile(r"(?:\A|\s)/[sq]\b", re.I)


def cmd(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    text = " ".join(args)
    if _CMD_DELETES.search(text[:MAX_CMD]) and _CMD_ALL.search(text[:MAX_CMD]):
        scene.note("danger.delete", text)
    read_powershell(scene, text)
    return Flow()
