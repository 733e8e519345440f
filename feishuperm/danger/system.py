"""Databases, schedules, machines, and the shells of another system."""

from __future__ import annotations

import re

from feishuperm.danger import code, sql
from feishuperm.danger.arguments import (
    look,
    operands,
    options,
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


def sql_client(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(
        args,
        "-h -p -U -d -u -P -D -H --host --port --user --username --dbname -n -a -i -S",
    )
    texts = [arg for arg in args if re.search(r"\s", arg)]
    given = value_of(
        args,
        "-c",
        "-e",
        "-q",
        "-Q",
        "--command",
        "--execute",
        "--eval",
        "--query",
        "-cmd",
    )
    texts += [given] if given is not None else []
    if flow.text:
        texts.append(Arg(flow.text))
    scene.suspicious(flow.origin, flow.what)
    texts += [Arg(" ".join(rest))] if name in ("redis-cli", "valkey-cli", "bq") else []
    for text in dict.fromkeys(texts) if rest[:1] != [":memory:"] else ():
        judge_sql(scene, name, text)
    script_file = value_of(args, "-f", "--file", "--init", "-init")
    if script_file is not None:
        _sql_file(scene, name, script_file)
    elif flow.text is None and flow.what:
        _sql_file(scene, name, Arg(flow.what))
    recognise(scene, name, args) if name in ("redis-cli", "bq") else None
    if rest[:1] in (["del"], ["DEL"], ["unlink"]) and UNKNOWN in rest[1:]:
        scene.mark("danger.data", words(name, args))
    host = value_of(args, "-h", "--host")
    if host is not None and host not in ("localhost", "127.0.0.1"):
        scene.fact("fact.host", host)
    look(scene, [arg for arg in rest if not re.search(r"\s", arg)])
    return Flow()


_DESTROYING = re.compile(
    r"drop|wipe|truncat|purge|destroy|nuke|delete|reset|clean", re.I
)


def _sql_file(scene: Scene, name: str, path: Arg) -> None:
    """A file of statements: what is known to be in it, or what its name says."""
    flow = scene.reads(path) or scene.content(path)
    if flow is not None:
        scene.suspicious(flow.origin, flow.what)
        judge_sql(scene, name, flow.text or "")
    elif path.endswith(".sql") and _DESTROYING.search(path.rpartition("/")[2]):
        scene.mark("danger.data", words(name, [path]))


def judge_sql(scene: Scene, name: str, text: str) -> None:
    if name.startswith(("redis", "valkey")):
        text = text.replace("'", " ")
    if len(text) > sql.MAX_SQL:
        scene.unread(text[sql.MAX_SQL :])
    statement = (
        sql.destroys(text) if scene.spend(min(len(text), sql.MAX_SQL), 20) else ""
    )
    if statement:
        scene.mark("danger.data", statement)
    for command in sql.runs(text):
        scene.run(Arg(command))
    for path in sql.files(text):
        _sql_file(scene, name, Arg(path))


def crontab(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    if "-r" in args:
        scene.mark("danger.startup", "crontab -r")
    elif "-l" not in args:
        scene.mark("danger.startup", words("crontab", args))
    return Flow()


def at(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    if flow.text:
        scene.run(Arg(flow.text))
    elif flow is not NOTHING:
        scene.run_input(flow)
    return NOTHING


def kill(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = [
        arg
        for arg in args
        if not re.fullmatch(r"-(?:[A-Z]\w*|s|\d{1,2})", arg) or arg == "-1"
    ]
    if any("feishuperm" in arg.what for arg in rest):
        scene.mark("danger.permissions", "kill feishuperm")
    if "-1" in rest and rest[-1] == "-1":
        scene.mark("danger.machine", words("kill", args))
    if rest[-1:] == ["1"]:
        scene.mark("danger.machine", words("kill", args))
    return NOTHING


def powershell(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    text = value_of(args, "-Command", "-command", "-c", "-C") or Arg(" ".join(args))
    at = next(
        (n for n, arg in enumerate(args) if arg.lower() in ("-command", "-c")), None
    )
    if at is not None:
        text = Arg(" ".join(args[at + 1 :]))
    elif flow.text:
        text = Arg(flow.text)
    read_powershell(
        scene, Arg(" ".join([*options(args), text]) if at is None else text)
    )
    return Flow()


def read_powershell(scene: Scene, text: str) -> None:
    """PowerShell, by the names of its commands."""
    scene.unread(text[code.MAX_POWERSHELL :])
    text = text[: code.MAX_POWERSHELL]
    if not scene.spend(len(text), 10):
        return
    scene.copy().run(text.replace("\\", "/"))  # much is spelled as in any shell
    for key in code.powershell_marks(text):
        scene.mark(key, " ".join(text.split())[:60])
    for path, recursive in code.powershell_deletes(text):
        path = re.sub(r"\A\$(?:env:)?(?:HOME|USERPROFILE)\b", "~", path, flags=re.I)
        if re.match(r"[A-Za-z]:", path):
            scene.mark("danger.delete", path)
        else:
            scene.deletes(UNKNOWN if path.startswith("$") else path, recursive)
    visit(scene, text)


MAX_CMD = 8192  # characters; cmd.exe takes no more
_CMD_DELETES = re.compile(r"\b(?:del|erase|rd|rmdir)\b", re.I)
_CMD_ALL = re.compile(r"(?:\A|\s)/[sq]\b", re.I)


def cmd(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    text = " ".join(args)
    if _CMD_DELETES.search(text[:MAX_CMD]) and _CMD_ALL.search(text[:MAX_CMD]):
        scene.mark("danger.delete", text)
    read_powershell(scene, text)
    return Flow()
