"""Script callbacks: which files may run, and the child process that runs them.

The first half is the parent's: the allow-list, the command line, the reading of the
result.  The second half, `main()`, is the child's, for Python files; `script_host.mjs`
is the same for JavaScript and TypeScript.  The request comes on stdin; the result has a
descriptor of its own, so that a script may print what it likes.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from feishuperm.lib.child import Child
    from feishuperm.models.hooks import Origin

NODE_SUFFIXES = (".js", ".mjs", ".cjs", ".ts")

_BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from feishuperm.hooks.script_host import main; del sys.path[0]; main()"
)


def allowed_path(script: str, origin: Origin) -> str:
    """The real path of a script inside an allowed folder, or nothing.

    Links are resolved on both sides, and everything is relative to where the callback
    comes from, never to the folder a session happens to be in.  What a project lists
    ends where the project ends.
    """
    try:
        real = _real(origin.root, script)
        if origin.is_project and not _is_inside(real, _real(origin.root, ".")):
            return ""
        bases = [_real(origin.root, folder) for folder in origin.folders]
        return real if any(_is_inside(real, base) for base in bases) else ""
    except ValueError:  # a NUL in a path
        return ""


def _real(root: str, path: str) -> str:
    return os.path.realpath(os.path.join(root, os.path.expanduser(path)))


def _is_inside(path: str, base: str) -> bool:
    return os.path.commonpath((base, path)) == base and path != base


def command(path: str) -> tuple[str, ...]:
    """The child that runs a script."""
    if path.endswith(NODE_SUFFIXES):
        name = os.path.splitext(__file__)[0] + ".mjs"
        host = str(__spec__.loader.get_data(name), "utf-8")  # type: ignore[union-attr]
        return ("node", "--input-type=module", "-e", host, path)
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # Compiled files beside a script are neither left behind nor believed.
    flags = ("-I", "-B", "-X", "pycache_prefix=/dev/null")
    return (sys.executable, *flags, "-c", _BOOT, os.path.dirname(package), path)


def read_result(ended: Child, fields: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """(output, problem): a broken script continues and says why."""
    from feishuperm.lib.child import MAX_OUTPUT, RESULT, STDERR  # not for the child
    from feishuperm.models.fields import decoded

    carry_on = {"continue": True}
    result = ended.output(RESULT)
    if len(result) > MAX_OUTPUT:
        return carry_on, f"the script's result is longer than {MAX_OUTPUT} bytes"
    message = decoded(result)
    if not isinstance(message, dict):  # or a script wrote it by itself
        said = ended.output(STDERR).decode(errors="replace").strip()
        return carry_on, f"the script gave no result (exit {ended.code}): {said[-500:]}"
    if "error" in message:
        return carry_on, f"the script failed: {message['error']}"
    output = message.get("output")
    if output is None:
        return carry_on, ""
    problem = shape_problem(output, fields)
    if problem:
        return carry_on, f"the script's output is not a hook output: {problem}"
    # None is how Python and JavaScript say that a key is not there.
    named = with_wire_names(output).items()
    return {key: value for key, value in named if value is not None}, ""


# Key -> what it must be. Keys a client does not know do no harm.
SHAPE: dict[str, type | tuple[type, ...]] = {
    "continue": bool,
    "suppressOutput": bool,
    "stopReason": str,
    "decision": str,
    "systemMessage": str,
    "reason": str,
    "hookSpecificOutput": dict,
    "async": bool,
    "asyncTimeout": (int, float),
}


PERMISSION_DECISIONS = ("allow", "deny", "ask", "defer")


def shape_problem(output: Any, fields: dict[str, Any]) -> str:
    """Why a value is no hook output for this event, or nothing."""
    if not isinstance(output, dict):
        return f"it is a {type(output).__name__}, not an object"
    for key, value in with_wire_names(output).items():
        wrong = key in SHAPE and not isinstance(value, SHAPE[key])
        if wrong and value is not None:
            return f"`{key}` is a {type(value).__name__}"
    if output.get("decision") not in (None, "block", "approve"):
        return f"`decision` is {output['decision']!r}"
    specific = output.get("hookSpecificOutput")
    event = fields.get("hook_event_name")
    if specific is not None and specific.get("hookEventName") != event:
        return f"`hookSpecificOutput.hookEventName` is not {event!r}"
    said = (specific or {}).get("permissionDecision")
    if said is not None and said not in PERMISSION_DECISIONS:
        return f"`permissionDecision` is {said!r}"
    return ""


def with_wire_names(output: dict[str, Any]) -> dict[str, Any]:
    """`continue_` and `async_`, which Python needs, as the client reads them."""
    names = {"continue_": "continue", "async_": "async"}
    return {names.get(key, key): value for key, value in output.items()}


# The child's half.


def main() -> None:
    """Run the Python file named on the command line on the request from stdin."""
    path = sys.argv[1]
    fd = int(os.environ.pop("FEISHUPERM_RESULT_FD"))
    try:
        request = json.load(sys.stdin)
        message = {"output": _call(path, request)}
        text = json.dumps(message, allow_nan=False)  # JSON has no NaN
    except BaseException as error:  # whatever a script raises, SystemExit included
        text = json.dumps({"error": f"{type(error).__name__}: {error}"})
    with open(fd, "w", encoding="ascii") as pipe:
        pipe.write(text)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # the script closed it
            pass
    os._exit(0)  # a thread that the script left behind must not hold the result up


def _call(path: str, request: dict[str, Any]) -> Any:
    import runpy

    sys.path.insert(0, os.path.dirname(path))
    sys.argv = [path]
    hook = runpy.run_path(path, run_name="feishuperm_hook").get("hook")
    if not callable(hook):
        raise TypeError("it exports no function `hook`")
    context = {"signal": None, **request["context"]}
    result = hook(request["input"], request["tool_use_id"], context)
    if not hasattr(result, "__await__"):
        return result
    import asyncio

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())
