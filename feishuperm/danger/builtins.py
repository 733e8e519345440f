"""What a shell does itself, and programs whose output can be told."""

from __future__ import annotations

import re
from collections.abc import Callable

from feishuperm.danger.arguments import operands, place_of
from feishuperm.danger.places import UNKNOWN
from feishuperm.danger.scene import (
    MAX_VALUES,
    NOTHING,
    SECRET,
    Arg,
    Args,
    Flow,
    Scene,
)

MAX_FORM = 200  # characters of a format that is repeated


def echo(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    parts = list(args)
    while parts and re.fullmatch(r"-[neE]+", parts[0]):
        escapes = "e" in parts.pop(0)
        if escapes:
            parts = [Arg(_unescaped(part), *part.trace) for part in parts]
    origin = next((arg for arg in args if arg.origin), Arg(""))
    return Flow(" ".join(parts) + "\n", *origin.trace)


def printf(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    if args[:1] == ["-v"]:
        return NOTHING
    origin = next((arg for arg in args if arg.origin), Arg(""))
    text = _unescaped(_filled(args[0], list(args[1:]))) if args else ""
    return Flow(text, *origin.trace)


_FIELD = re.compile(r"%[-+ 0#.\d]*[a-zA-Z]")


def _filled(form: str, values: list[Arg]) -> str:
    """A format with its values, over and over as long as there are some."""
    lines: list[str] = []
    while not lines or (values and len(form) < MAX_FORM and _FIELD.search(form)):
        lines.append(_FIELD.sub(lambda _: values.pop(0) if values else "", form))
    return "".join(lines)


def _unescaped(text: str) -> str:
    text = text.replace("\\n", "\n").replace("\\t", "\t")
    return re.sub(
        r"\\(?:x([0-9a-fA-F]{1,2})|0?([0-7]{1,3}))",
        lambda m: chr(int(m[1], 16) if m[1] else int(m[2], 8)),
        text,
    )


# What a program prints, as far as that matters.
PRINTED: dict[str, Callable[[Scene], str]] = {
    "pwd": lambda scene: scene.cwd,
    "mktemp": lambda scene: "/tmp/x",
    "whoami": lambda scene: "user",
    "date": lambda scene: "1",
    "nproc": lambda scene: "2",
    "locate": lambda scene: "/x*",
    "mdfind": lambda scene: "/x*",
}


def prints(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    return Flow(PRINTED[name](scene))


def which(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(args)
    return Flow(rest[-1] if rest else "")


def passes(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """Filters: what goes in comes out, in other words."""
    return Flow(None, *flow.trace)


def set_options(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """`set -- words`: what `$@` stands for from now on."""
    if "--" in args:
        scene.positional(args[place_of(args, "--") :])
    return NOTHING if args else Flow(None, SECRET, name)


def process(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """pgrep, pidof: a number that stands for a name."""
    return Flow(None, "", " ".join(operands(args)))


def nothing(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    return NOTHING


def cd(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(args)
    if not rest:
        scene.cwd = scene.ground.home or UNKNOWN
    elif UNKNOWN in rest[0] or rest[0] == "-" or "CDPATH" in scene.variables:
        scene.cwd = UNKNOWN
    else:
        full = scene.ground.full(rest[0], "" if scene.cwd == UNKNOWN else scene.cwd)
        unsure = scene.cwd == UNKNOWN and not rest[0].startswith(("/", "~"))
        scene.cwd = UNKNOWN if unsure else full
    return NOTHING


def declare(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    for arg in operands(args):
        if "=" in arg:
            scene.assign(arg)
    return NOTHING if operands(args) else Flow(None, SECRET, name)


def read_variable(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    lines = (flow.text or "").split("\n")[:MAX_VALUES]
    values = [Arg(line, *flow.trace) for line in lines if line.strip()]
    for name in operands(args, "-p -d -n -t -u -a"):
        scene.variables[name] = tuple(values) or (Arg(UNKNOWN, *flow.trace),)
    return NOTHING


def trap(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """Runs when the shell ends: now, as far as we are concerned."""
    rest = operands(args)
    if len(rest) > 1 and rest[0] not in ("", "-"):
        scene.run(rest[0])
    return NOTHING


def alias(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    for arg in operands(args):
        if "=" in arg:
            scene.run(Arg(arg.partition("=")[2]))
    return NOTHING
