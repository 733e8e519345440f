"""What programs have in common: their options, the paths and hosts they are given.

A program that is not known reads the paths and visits the hosts among its arguments,
and that is all that can be said of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from feishuperm.danger import deeds
from feishuperm.danger.places import OUTSIDE, UNKNOWN, is_secret
from feishuperm.danger.scene import NOTHING, Arg, Args, Flow, Scene

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

HOST = re.compile(
    r"\b(?:https?|ftp|wss?|ssh|git|s3|gs)://(?:[^@/\s]*@)?([^/\s:?#'\"]+)"
)

SSH_HOST = re.compile(r"(?:[\w.-]+@)?([A-Za-z0-9][\w.-]*):(?!//)(.*)", re.DOTALL)

PATHLIKE = re.compile(r"(?:~|/|\.\./|\.\.\Z)")

# A filter of jq that gives a package a script to run when it is installed.
_SETS_INSTALL = re.compile(
    r"\.scripts(?:\.|\[\s*\"|\.\")(?:pre|post)?install\"?\s*\]?\s*\|?=(?!=)"
)
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
        last = f"-{args[at][-1]}" if re.fullmatch(r"-[A-Za-z]+", args[at]) else args[at]
        at += 2 if last in taking or args[at] in taking else 1
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
                return Arg(arg[len(name) :].lstrip("="), *arg.trace)
    return None


def place_of(args: Sequence[str], pattern: str) -> int:
    """Where the first word of a kind stands; behind all of them if there is none."""
    places = (n for n, arg in enumerate(args) if re.fullmatch(pattern, arg, re.DOTALL))
    return next(places, len(args))


def behind_dashes(args: Args) -> Args:
    """What stands behind `--`: another's words."""
    return args[place_of(args, "--") + 1 :]


def run_value(scene: Scene, args: Args, *names: str) -> None:
    """The value of an option is run."""
    text = value_of(args, *names)
    if text is not None:
        scene.run(text)


def look(scene: Scene, args: Iterable[Arg]) -> Flow:
    """Paths and hosts among arguments: facts, and keys that flow on."""
    flow = NOTHING._replace(text=None)
    for arg in args:
        visit(scene, arg)
        path = arg.partition("=")[2] if arg.startswith("-") else arg
        path = path[1:] if path.startswith("@") else path
        pathlike = PATHLIKE.match(path) and "://" not in path
        if (pathlike or is_secret(path)) and "\n" not in path[:200]:
            flow = scene.reads(path) or flow
        elif arg.origin:
            flow = Flow(None, *arg.trace)
    return flow


def look_through(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """Filters: paths and what flows through."""
    if any(map(_SETS_INSTALL.search, args)):
        scene.note("danger.packages", words(name, args))
    out = look(scene, args)
    if any("feishuperm" in arg for arg in args):
        out = Flow(None, out.origin, "feishuperm")
    if name in ("grep", "egrep", "rg") and not flow.origin:
        flow = flow._replace(what="")  # some of it is not all of it
    text = flow.text if name in ("grep", "egrep", "sort", "uniq") else None
    return out.mixed(flow)._replace(text=text or None)


def grep(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """Lines of what it looks through, or with `-l` the names of files."""
    out = look_through(scene, name, args, flow)
    if not has(args, "lL", "--files-with-matches"):
        return out
    elsewhere = (p for p in operands(args)[1:] if scene.place(p).kind == OUTSIDE)
    return out._replace(text="\n".join(f"{path}/x*" for path in elsewhere) or None)


def visit(scene: Scene, text: str) -> None:
    for match in HOST.finditer(text[:2000]):
        scene.note("fact.host", match[1].replace(UNKNOWN, "…"))


def outputs(scene: Scene, name: str, args: Args) -> None:
    """A file outside of the project that an option says is to be written."""
    path = value_of(args, *_OUTPUTS, *_OUTPUTS_OF.get(name, ()))
    if path is not None and (PATHLIKE.match(path) or scene.place(path).protected):
        scene.writes(path)


def words(name: str, args: Sequence[str]) -> str:
    """A command as it is named to a person."""
    shown = [arg for arg in args[:8] if len(arg) < 40 and "\n" not in arg]
    return " ".join([name, *shown[:4]]).replace(UNKNOWN, "…")


def recognise(scene: Scene, name: str, args: Args) -> bool:
    keys = deeds.deeds(name.lower(), args)
    for key in keys:
        scene.note(key, words(name, args))
    return bool(keys)
