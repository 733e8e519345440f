"""What programs have in common: their options, the paths and hosts they are given.

A program that is not known reads the paths and visits the hosts among its arguments,
and that is all that can be said of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from feishuperm.danger import deeds
from feishuperm.danger.places import OUTSIDE, TEMPORARY, UNKNOWN, is_secret
from feishuperm.danger.scene import DOWNLOADED, NOTHING, SECRET, Arg, Args, Flow, Scene

SHELLS = [
    *("sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "yash", "csh"),
    *("tcsh", "fish"),
]
# Where programs are told to write.
_OUTPUTS = (
    *("-o", "-out", "--out", "--output", "--outfile", "--output-file", "--out-file"),
    *("--outdir", "--out-dir", "--output-dir", "--output-path", "--dest", "--outFile"),
)
_OUTPUTS_OF = {
    **dict.fromkeys(("pg_dump", "pg_dumpall", "pg_restore"), ("-f", "--file")),
    **dict.fromkeys(("mysqldump", "mariadb-dump"), ("-r", "--result-file")),
}
# What a first word says of a program that is not known otherwise.
_VERBS = {
    **dict.fromkeys(("publish", "unpublish", "deploy", "shipit"), "danger.publish"),
    **dict.fromkeys(("destroy", "nuke", "teardown"), "danger.machine"),
}
# Programs whose first word is a name: of a test, a file, a folder, a page.
_NAMING = re.compile(
    r"ls|ll|exa|eza|tree|du|stat|file|ag|ack|fzf|jest|vitest|mocha|ava|rspec|phpunit|tap"
    r"|cypress|playwright|karma|man|tldr|whatis|code|cloc|tokei|bat|glow|black|ruff|pylint"
    r"|flake8|isort|eslint|stylelint|tsc|biome|hash|ctags|z|j|alias|unalias|pytest"
)
# Behind a program that is not known: what it may well run.
_RUN_BY_OTHERS = frozenset(["rm", "sudo", "doas", "dd", "shred", *SHELLS])
# They run or install the file that they are given.
_RUNS_FILE = frozenset(
    ["dpkg", "rpm", "installer", "msiexec", "open", "xdg-open", "hdiutil", "gdebi"]
)
# They print what others have written.
_PRINTS_REMOTE = re.compile(
    r"(?:gh|glab) (?:api|gist view)|(?:ipfs|hdfs dfs) -?cat"
    r"|(?:aws s3|gsutil|gcloud storage|mc|rclone) (?:cp|cat)"
)
# They print what is secret.
_PRINTS_SECRET = re.compile(
    r"security (?:find|dump)-|gh auth token|(?:pass|gopass) show|op (?:read|item)"
    r"|vault (?:kv get|read)|aws (?:secretsmanager|ssm) get|kubectl get secret|bw get"
    r"|(?:gcloud|az) (?:auth|account) (?:print|get)-\S*token"
    r"|gpg (?:-d|.*--export-secret)|heroku config|docker inspect|secret-tool lookup"
    r"|doppler secrets|(?:age|sops) -d"
)

HOST = re.compile(
    r"\b(?:https?|ftp|wss?|ssh|git|s3|gs)://(?:[^@/\s]*@)?([^/\s:?#'\"]+)"
)

SSH_HOST = re.compile(r"(?:[\w.-]+@)?([A-Za-z0-9][\w.-]*):(?!//)(.*)", re.DOTALL)

# A target, a script or a file by its name.
PUBLISHES = re.compile(
    r"(?:publish|release|deploy|push|upload)(?:[-_:](?:prod\w*|live|staging|all|latest"
    r"|aws|gcp|npm|pypi|docker|app|site|web|ios|android|public|canary|beta|to-\w+))*"
)
_SOMEBODY = re.compile(r"[\w.-]+:|[\w.+-]+@[\w-]+\.\w")

_PATHLIKE = re.compile(r"(?:~|/|\.\./|\.\.\Z)")

_ASSIGNED = re.compile(r"[A-Za-z_]\w*=", re.ASCII)


def options(args: Sequence[str]) -> list[str]:
    return [arg for arg in args if arg.startswith("-") and arg != "-"]


def has(args: Sequence[str], short: str, *long: str) -> bool:
    """Whether an option is among the arguments: a letter, or a long name."""
    for arg in options(args):
        if arg.startswith("--"):
            if arg.partition("=")[0] in long:
                return True
        elif arg in long or (short and set(short) & set(arg[1:])):
            return True
    return False


def operands(args: Args, valued: str = "") -> Args:
    """The arguments that are no options, nor the values of some."""
    taking = valued.split()
    rest: Args = []
    skip = ended = False
    for arg in args:
        if skip:
            skip = False
        elif arg == "--" and not ended:
            ended = True
        elif arg.startswith("-") and arg != "-" and not ended:
            skip = arg in taking
        else:
            rest.append(arg)
    return rest


def behind(args: Args, valued: str, before: int = 0) -> Args:
    """What stands behind a wrapper's own options and words: a command."""
    taking = valued.split()
    at = 0
    while at < len(args) and (args[at].startswith("-") or _ASSIGNED.match(args[at])):
        if args[at] == "--":
            at += 1
            break
        at += 2 if args[at] in taking else 1
    return args[at + before :]


def value_of(args: Args, *names: str) -> Arg | None:
    """The value of an option: `-o x`, `-ox`, `--out=x`."""
    for place, arg in enumerate(args):
        for name in names:
            bundled = len(name) == 2 and re.fullmatch(rf"-[A-Za-z]+{name[1]}", arg)
            if (arg == name or bundled) and place + 1 < len(args):
                return args[place + 1]
            if arg.startswith(name + "=") or (
                len(name) == 2 and arg.startswith(name) and arg != name
            ):
                return Arg(arg[len(name) :].lstrip("="), arg.origin, arg.what)
    return None


def look(scene: Scene, args: Iterable[Arg]) -> Flow:
    """Paths and hosts among arguments: facts, and keys that flow on."""
    flow = NOTHING._replace(text=None)
    for arg in args:
        visit(scene, arg)
        path = arg.partition("=")[2] if arg.startswith("-") else arg
        path = path[1:] if path.startswith("@") else path
        pathlike = _PATHLIKE.match(path) and "://" not in path
        if (pathlike or is_secret(path)) and "\n" not in path[:200]:
            flow = scene.reads(path) or flow
        elif arg.origin:
            flow = Flow(None, arg.origin, arg.what)
    return flow


def look_through(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """grep and its kin: paths and what flows through."""
    if name == "sort":
        outputs(scene, name, args)
    out = look(scene, args)
    if any("feishuperm" in arg for arg in args):
        out = Flow(None, out.origin, "feishuperm")
    text = flow.text if name in ("grep", "egrep", "sort", "uniq") else None
    if name in ("grep", "egrep", "rg") and has(args, "lL", "--files-with-matches"):
        elsewhere = (p for p in operands(args)[1:] if scene.place(p).kind == OUTSIDE)
        text = "\n".join(f"{path}/x*" for path in elsewhere)
    return Flow(text or None, out.origin or flow.origin, out.what or flow.what)


def visit(scene: Scene, text: str) -> None:
    for match in HOST.finditer(text[:2000]):
        scene.fact("fact.host", match[1].replace(UNKNOWN, "…"))


def outputs(scene: Scene, name: str, args: Args) -> None:
    """A file outside of the project that an option says is to be written."""
    path = value_of(args, *_OUTPUTS, *_OUTPUTS_OF.get(name, ()))
    if path is not None and (_PATHLIKE.match(path) or scene.place(path).protected):
        scene.writes(path)


def words(name: str, args: Sequence[str]) -> str:
    """A command as it is named to a person."""
    shown = [arg for arg in args[:8] if len(arg) < 40 and "\n" not in arg]
    return " ".join([name, *shown[:4]]).replace(UNKNOWN, "…")


def unknown(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """A program that nobody has told us about; its name is the first word."""
    name = args[0].rpartition("/")[2]
    recognised = recognise(scene, name, args[1:]) or _by_verb(scene, name, args[1:])
    if (
        not recognised
        and _PATHLIKE.match(args[0])
        and scene.place(args[0]).kind in (OUTSIDE, TEMPORARY)
    ):
        scene.reads(args[0])
    if "/" in args[0]:
        by_name(scene, args[0], args[1:])
    runs_among(scene, args[1:])
    outputs(scene, name, args[1:])
    out = look(scene, args[1:])
    for arg in operands(args[1:]) if name in _RUNS_FILE else ():
        scene.suspicious(*(scene.brought(arg) or NOTHING)[1:])
    to = next(iter(operands(args[1:])[-1:]), "")
    if _SOMEBODY.match(to):
        scene.leaks(out if out.origin else flow, to)
    text = " ".join(args[:4])
    if _PRINTS_REMOTE.match(text) or (not out.origin and HOST.search(text)):
        out = Flow(None, DOWNLOADED, text)
    out = printed_secret(name, args[1:]) or out
    return Flow(None, out.origin or flow.origin, out.what or flow.what)


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
    scene.mark(key, words(name, args))
    return True


def recognise(scene: Scene, name: str, args: Args) -> bool:
    keys = deeds.deeds(name.lower(), args)
    for key in keys:
        add = scene.mark if key.startswith("danger.") else scene.fact
        add(key, words(name, args))
    return bool(keys)


def by_name(scene: Scene, path: str, args: Args) -> None:
    """A script whose name tells what it does."""
    goal = re.sub(r"\.\w+\Z", "", path.rpartition("/")[2])
    if PUBLISHES.fullmatch(goal) and not deeds.is_harmless(args):
        scene.mark("danger.publish", path)


def runs_among(scene: Scene, args: Args) -> None:
    """`anything sh -c TEXT`, `-c TEXT`, `-- command`: whoever it is may run that."""
    tail = args[args.index(Arg("--")) + 1 :] if "--" in args else args
    if tail and (tail[0] in _RUN_BY_OTHERS or (tail is not args and len(tail) > 1)):
        name = tail[0].rpartition("/")[2]
        if name in scene.programs and len(tail) > 1:
            scene.call(tail, NOTHING)
            return
    for place, arg in enumerate(args[:-1]):
        text = args[place + 1]
        if arg in SHELLS and re.fullmatch(r"-\w*c", text):
            scene.call(args[place:], NOTHING)
            return
        if arg in ("-c", "-C", "--command", "--exec", "--run") and " " in text:
            scene.run(text)
        if arg in ("run", "exec", "-c", "--command") and text in _RUN_BY_OTHERS:
            scene.call(args[place + 1 :], NOTHING)
        if arg in ("-c", "-e", "--eval", "--execute", "runner", "--command"):
            scene.call([Arg("python"), Arg("-c"), text], NOTHING)


def by_words(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    return unknown(scene, name, [Arg(name), *args], flow)
