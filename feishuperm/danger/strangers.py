"""Programs that nobody has told us about, and what may still be said of them.

By their first word, by the name of a script, by a command among their arguments, by
what they print and to whom they send it.
"""

from __future__ import annotations

import re

from feishuperm.danger import deeds, sql
from feishuperm.danger.arguments import (
    HOST,
    PATHLIKE,
    SHELLS,
    behind_dashes,
    look,
    operands,
    outputs,
    recognise,
    words,
)
from feishuperm.danger.scene import DOWNLOADED, NOTHING, SECRET, Arg, Args, Flow, Scene

# What a first word says of a program that is not known otherwise.
_VERBS = {
    **dict.fromkeys(("publish", "unpublish", "deploy", "shipit"), "danger.publish"),
    **dict.fromkeys(("destroy", "nuke", "teardown"), "danger.machine"),
}

# Programs whose first word is a name: of a test, a file, a folder, a page.
_NAMING = re.compile(
    r"ls|ll|exa|eza|tree|du|stat|file|ag|ack|fzf|jest|vitest|mocha|ava|rspec|phpunit|tap"
    r"|cypress|playwright|karma|man|tldr|whatis|code|cloc|tokei|bat|glow|black|ruff|pylint"
    r"|flake8|isort|eslint|stylelint|tsc|biome|hash|ctags|z|j|alias|unalias|pytest|dotnet"
)

# Behind a program that is not known: what it may well run.
RUN_BY_OTHERS = frozenset(["rm", "sudo", "doas", "dd", "shred", *SHELLS])

# They run or install the file that they are given.
_RUNS_FILE = frozenset(
    ["dpkg", "rpm", "installer", "msiexec", "open", "xdg-open", "hdiutil", "gdebi"]
)

# They print what others have written.
_PRINTS_REMOTE = re.compile(
    r"(?:gh|glab) (?:api|gist view)|(?:ipfs|hdfs dfs) -?cat"
    r"|(?:aws s3|gsutil|gcloud storage|mc|rclone) (?:cp|cat)"
)

_DATABASE = {"dbshell", "dbconsole", "--stdin", "db", "sql", "query"}
# They print what is secret.
_PRINTS_SECRET = re.compile(
    r"security (?:find|dump)-|gh auth token|(?:pass|gopass) show|op (?:read|item)"
    r"|vault (?:kv get|read)|aws (?:secretsmanager|ssm) get|kubectl get secret|bw get"
    r"|(?:gcloud|az) (?:auth|account) (?:print|get)-\S*token"
    r"|gpg (?:-d|.*--export-secret)|heroku config|docker inspect|secret-tool lookup"
    r"|doppler secrets|(?:age|sops) -d"
)

# A target, a script or a file by its name.
PUBLISHES = re.compile(
    r"(?:publish|release|deploy|push|upload)(?:[-_:](?:prod\w*|live|staging|all|latest"
    r"|aws|gcp|npm|pypi|docker|app|site|web|ios|android|public|canary|beta|to-\w+))*"
)

_SOMEBODY = re.compile(r"[\w.-]+:|[\w.+-]+@[\w-]+\.\w")


def unknown(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """A program that nobody has told us about; its name is the first word."""
    word, args = args[0], args[1:]
    name = word.rpartition("/")[2]
    recognised = recognise(scene, name, args) or _by_verb(scene, name, args)
    if PATHLIKE.match(word) and not recognised:
        scene.reads(word)
    if "/" in word:
        by_name(scene, word, args)
    runs_among(scene, args)
    fed_sql(scene, args, flow)
    outputs(scene, name, args)
    out = look(scene, args)
    rest = operands(args)
    for path in rest if name in _RUNS_FILE else ():
        scene.suspicious(scene.brought(path))
    for somebody in filter(_SOMEBODY.match, rest[-1:]):
        scene.leaks(out if out.origin else flow, somebody)
    return _printed(name, [word, *args], out).mixed(flow)


def _printed(name: str, args: Args, out: Flow) -> Flow:
    """What a program prints that reads something: that, or what others keep for it."""
    secret = printed_secret(name, args[1:])
    if secret is not None:
        return secret
    text = " ".join(args[:4])[:2000]
    if _PRINTS_REMOTE.match(text) or (not out.origin and HOST.search(text)):
        return Flow(None, DOWNLOADED, text)
    return out


def printed_secret(name: str, args: Args) -> Flow | None:
    """What a program prints that is told to print a secret."""
    text = " ".join([name, *args[:3]])
    if _PRINTS_SECRET.match(text):
        return Flow(None, SECRET, f"$({words(name, args)})")
    return None


def _by_verb(scene: Scene, name: str, args: Args) -> bool:
    key = _VERBS.get(args[0]) if args else None
    if key is None or _NAMING.fullmatch(name) or deeds.is_harmless(args):
        return False
    scene.note(key, words(name, args))
    return True


def fed_sql(scene: Scene, args: Args, flow: Flow) -> None:
    """Statements that a framework hands to its database."""
    statement = sql.destroys(flow.text or "") if _DATABASE & set(args) else ""
    if statement:
        scene.note("danger.data", statement)


def by_name(scene: Scene, path: str, args: Args) -> None:
    """A script whose name tells what it does."""
    goal = re.sub(r"\.\w+\Z", "", path.rpartition("/")[2])
    if PUBLISHES.fullmatch(goal) and not deeds.is_harmless(args):
        scene.note("danger.publish", path)


def runs_among(scene: Scene, args: Args) -> None:
    """`anything sh -c TEXT`, `-c TEXT`, `-- command`: whoever it is may run that."""
    command = behind_dashes(args) or args
    if len(command) > 1 and _is_command(scene, command[0], command is not args):
        scene.call(command, NOTHING)
        return
    for place, (arg, text) in enumerate(zip(args, args[1:])):
        if arg in SHELLS and re.fullmatch(r"-\w*c", text):
            scene.call(args[place:], NOTHING)
            return
        if arg in ("-c", "-C", "--command", "--exec", "--run") and " " in text:
            scene.run(text)
        if arg in ("run", "exec", "-c", "--command") and text in RUN_BY_OTHERS:
            scene.call(args[place + 1 :], NOTHING)
        if arg in ("-c", "-e", "--eval", "--execute", "runner", "--command"):
            scene.call([Arg("python"), Arg("-c"), text], NOTHING)


def _is_command(scene: Scene, word: str, dashed: bool) -> bool:
    """Whether a command begins with a word: by itself, or behind `--`."""
    leaf = word.rpartition("/")[2]
    return word in RUN_BY_OTHERS or (dashed and leaf in scene.programs)


def by_words(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    return unknown(scene, name, [Arg(name), *args], flow)
