"""Programs that run others: wrappers, shells, interpreters, on this machine or not."""

from __future__ import annotations

import re
import shlex

from feishuperm.danger import code, sql
from feishuperm.danger.arguments import (
    HOST,
    SHELLS,
    behind,
    behind_dashes,
    has,
    look,
    operands,
    options,
    place_of,
    recognise,
    run_value,
    value_of,
    words,
)
from feishuperm.danger.deeds import is_harmless
from feishuperm.danger.files import in_place
from feishuperm.danger.places import OUTSIDE, UNKNOWN, UNSURE, is_secret
from feishuperm.danger.scene import (
    DECODED,
    DOWNLOADED,
    MAX_VALUES,
    NOTHING,
    SECRET,
    SHELL,
    UNSEEN,
    Arg,
    Args,
    Flow,
    Program,
    Scene,
)
from feishuperm.danger.strangers import (
    RUN_BY_OTHERS,
    by_name,
    fed_sql,
    runs_among,
    unknown,
)

MAX_SPLIT = 100  # words of a text in an option
# Wrapper -> options that take a word, words of its own before the command.
WRAPPERS = {
    **dict.fromkeys((
        "command", "builtin", "nohup", "setsid", "busybox", "toybox", "unbuffer",
        "cross-env", "numactl", "prlimit", "entr", "firejail", "fakeroot", "catchsegv",
        "uvicorn", "winpty", "rlwrap", "unshare", "ts", "chronic", "ifne", "torsocks",
        "torify", "arch", "eatmydata", "dbus-run-session", "coproc", "valgrind",
        "with-env", "dbus-launch",
    ), ("", 0)),
    **dict.fromkeys(("taskset", "chrt", "doppler", "setarch"), ("", 1)),
    "exec": ("-a", 0), "nice": ("-n", 0), "ionice": ("-c -n -p", 0),
    "time": ("-f -o", 0), "timeout": ("-k -s --kill-after --signal", 1),
    "stdbuf": ("-i -o -e", 0), "caffeinate": ("-t -w", 0), "strace": ("-e -o -p -s", 0),
    "ltrace": ("-e -o", 0), "xvfb-run": ("-s -n", 0), "dotenv": ("-e -f", 0),
    "watch": ("-n --interval", 0),
    "hyperfine": ("-w -r -n --warmup --runs --prepare --cleanup --setup --conclude", 0),
    "watchexec": ("-e -w -i -f -s -d --exts --watch --ignore --filter --signal", 0),
    "setpriv": ("--reuid --regid --groups --inh-caps --bounding-set", 0),
    "cgexec": ("-g", 0), "chpst": ("-u -U -e -n -l -L -m -d -o -p -f -c", 0),
    "daemonize": ("-c -o -e -p -l -u -E", 0), "softlimit": ("-m -d -s -l -a -o -p", 0),
    "setuidgid": ("", 1), "envdir": ("", 1), "trickle": ("-u -d", 0),
    "nodemon": ("--exec -x -w", 0), "direnv": ("", 2), "aws-vault": ("", 2),
    "systemd-run": ("-u -p --unit --property", 0), "flock": ("-w -E", 1),
    "wsl": ("-d -u --cd", 0), "script": ("-c --command", 1), "gtimeout": ("-k -s", 1),
    "bwrap": ("--bind --ro-bind", 0), "proxychains": ("-f", 0),
    "proxychains4": ("-f", 0), "sshpass": ("-p -f", 0), "faketime": ("-f", 1),
    "retry": ("-n -d", 0), "xcrun": ("--sdk", 0), "cpulimit": ("-l", 0),
    "perf": ("-e -o", 1),
}  # fmt: skip

ROOT = {
    "sudoedit": "-u",
    "sudo": "-u -g -p -C -h -r -t -T -U -D -R --user --group --host --prompt",
    "doas": "-u -C", "pkexec": "--user", "gosu": "", "su-exec": "", "run0": "-u",
    "gsudo": "", "dzdo": "-u -g", "chroot": "--userspec --groups",
}  # fmt: skip


# Options with a command in them.
_CARRIES = (
    ("-c", "--command", "--exec"),
    *((name,) for name in ("--prepare", "--cleanup", "--setup", "--conclude")),
)


def wrapped(valued: str, before: int) -> Program:
    def program(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
        rest = behind(args, valued, before)
        own = args[: len(args) - len(rest)]
        recognise(scene, name, own)
        for option in _CARRIES:
            run_value(scene, own, *option)
        if rest and " " in rest[0]:
            texts = rest if name == "hyperfine" else [Arg(" ".join(rest))]
            return [scene.run(text) for text in texts][-1]
        return scene.call(rest, flow) if rest else flow

    return program


def as_root(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = behind(args, ROOT[name])
    if rest or has(args, "sie", "--shell", "--login", "--edit"):
        scene.note("danger.root", words(name, rest))
    if name == "chroot":
        rest = rest[1:]
    if name == "sudoedit" or has(args[: len(args) - len(rest)], "e", "--edit"):
        in_place(scene, rest)
        return NOTHING
    return scene.call(rest, flow) if rest else NOTHING


def su(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    if is_harmless(args):
        return Flow()
    scene.note("danger.root", words("su", args))
    text = value_of(args, "-c", "--command")
    if text is not None:
        scene.run(text)
    else:
        scene.call(behind_dashes(args), flow)
    return Flow()


def environment(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """printenv, history: all of it, or what is named."""
    if name == "history" and has(args, "cwd"):
        scene.note("danger.wipe", words(name, args))
    return Flow(None) if operands(args) else Flow(None, SECRET, name)


def env(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = behind(args, "-u -C --unset --chdir -S --split-string")
    own = args[: len(args) - len(rest)]
    text = value_of(own, "-S", "--split-string")
    for arg in own:
        scene.assign(arg, keep=False)
    if text is not None:
        return env(scene, name, [*_split(scene, text), *rest], flow)
    return scene.call(rest, flow) if rest else Flow(None, SECRET, name)


def _split(scene: Scene, text: Arg) -> Args:
    """A text as `env -S` makes words of it."""
    try:
        found = shlex.split(text)
    except ValueError:
        found = text.split()
    values = {name: held[0] for name, held in scene.variables.items()}
    return [
        Arg(
            re.sub(r"\$\{(\w+)\}", lambda m: values.get(m[1], UNKNOWN), word),
            *text.trace,
        )
        for word in found[:MAX_SPLIT]
    ]


def daemon(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """start-stop-daemon: a program in an option, its words behind `--`."""
    program = value_of(args, "--exec", "-x", "--startas", "-a")
    if program is None or not has(args, "S", "--start"):
        return Flow()
    return scene.call([program, *behind_dashes(args)], flow)


def namespace(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """ip: `netns exec NAME` runs what follows."""
    recognise(scene, name, args)
    rest = operands(args)
    if rest[:2] in (["netns", "exec"], ["vrf", "exec"]):
        return scene.call(args[args.index(rest[1]) + 2 :], flow)
    return look(scene, args)


def shell(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """A text, a script, or what it is given to read."""
    text = args[place_of(args, r"-\w*c\w*") + 1 :]
    if text:
        rest = [arg for arg in text if not re.fullmatch(r"[-+]\w+", arg)]
        inner = scene.copy()
        inner.positional(rest[1:])
        return inner.run(rest[0], given=flow) if rest else NOTHING
    rest = operands(args, "-o -O --rcfile --init-file")
    if has(args, "n"):  # only looks whether it is well written
        return NOTHING
    if not rest or rest[0] in ("-", "/dev/stdin") or has(args, "s"):
        scene.run_input(flow)
        return Flow(None, flow.origin or SHELL, flow.what)
    return script(scene, rest[0], rest[1:])


def script(scene: Scene, path: Arg, args: Args, language: str = "") -> Flow:
    """A file is run."""
    scene.suspicious(path)
    scene.reads(path)
    scene.came(path)
    content = scene.content(path)
    if content is not None:
        scene.run_file(content, language)
    unsure = content.text is None if content else scene.place(path).kind == UNSURE
    if unsure and not path.origin and not (content and content.origin):
        scene.note("fact.opaque", path)
    by_name(scene, path, args)
    runs_among(scene, args)
    return look(scene, args)


def evaluate(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    text = " ".join(args)
    origin = next((arg for arg in args if arg.origin), Arg(""))
    return scene.run(Arg(text, *origin.trace))


def source(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    if args:
        if args[0] == "/dev/stdin":
            scene.run_input(flow)
        script(scene, args[0], args[1:])
    return Flow()


CODE_OPTIONS = {
    **dict.fromkeys((
        "osascript", "lua", "luajit", "rscript", "r", "groovy", "swift", "ghc",
        "clojure", "irb", "scala", "jshell",
    ), r"-e"),
    "python": r"-\w*c", "pypy": r"-\w*c", "perl": r"-\w*[eE]", "ruby": r"-\w*e",
    "node": r"-[ep]+|--eval|--print", "nodejs": r"-[ep]+|--eval|--print", "php": r"-r",
    "deno": r"eval", "expect": r"-\w*c", "tclsh": r"-c",
    "wish": r"-c", "emacs": r"--?eval|--?execute", "julia": r"-[eE]",
    "elixir": r"-e|--eval", "guile": r"-c", "java": r"(?!)", "tsx": r"-e|--eval",
    "ts-node": r"-\w*e|--eval", "ipython": r"-c",
}  # fmt: skip


def interpreter(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    at = _code_at(name, args)
    if at:
        if name in ("perl", "ruby") and has(args[:at], "i"):
            in_place(scene, args[at + 1 :])
        return run_code(scene, args[at], flow)
    if args[:1] == ["-m"]:
        return module(scene, name, args[1:], flow)
    rest = operands(args, "-W -X -r --require -I -M --loader --import -O")
    if rest[:1] in (["run"], ["x"]) and name == "deno":
        rest = rest[1:]
    if not rest or rest[0] == "-":
        if flow.text is not None:
            return run_code(scene, Arg(flow.text, *flow.trace), flow)
        scene.suspicious(flow)
        return Flow()
    if HOST.match(rest[0]):
        scene.note("danger.downloaded", rest[0])
    if recognise(scene, name, args):
        return Flow()
    fed_sql(scene, args, flow)
    return script(scene, rest[0], args[args.index(rest[0]) + 1 :], name)


def _code_at(name: str, args: Args) -> int:
    """Where code stands: behind an option for it, before the name of a script."""
    for place, arg in enumerate(args[:-1]):
        if re.fullmatch(CODE_OPTIONS[name], arg):
            return place + 1
        if not arg.startswith("-") and name != "emacs":
            break
    return 0


def module(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """`python -m`: mostly a program of its own."""
    if args and args[0] in scene.programs:
        return scene.call(args, flow)
    if args and args[0] == "http.server":
        bound = value_of(args, "--bind", "-b")
        scene.note("fact.host", "localhost" if bound else "0.0.0.0")
    return unknown(scene, name, args, flow) if args else flow


def run_code(scene: Scene, text: Arg, flow: Flow) -> Flow:
    """Code in another language."""
    scene.suspicious(text)
    scene.unread(text[code.MAX_CODE :])
    if not scene.spend(min(len(text), code.MAX_CODE), 10):
        return UNSEEN
    read = code.Code(text)
    hosts = read.texts("hosts")
    what = ", ".join(hosts[:2])
    _changed_by_code(scene, read, what)
    for command in dict.fromkeys([*read.runs(), *read.commands(RUN_BY_OTHERS)]):
        scene.run(command)
    if hosts:
        _sent_by_code(scene, read, hosts)
    if read.runs_what_came():
        scene.note("danger.downloaded", what)
    if read.runs_decoded():
        scene.note("danger.decoded", what)
    if text and not text.strip(UNKNOWN):
        scene.note("fact.opaque", "")
    if read.prints_decoded():
        return Flow(None, DECODED, flow.what)
    return flow.mixed(Flow(None, DOWNLOADED if hosts else "", what))


def _changed_by_code(scene: Scene, read: code.Code, host: str) -> None:
    deletes = read.texts("deletes")
    for path in deletes:
        scene.deletes(_expanded(path), recursive=True)
    if not deletes and read.says(code.DELETES_UNSEEN):
        scene.note("danger.unsure", "rmtree")
    for path in read.writes():
        scene.writes(_expanded(path))
    for path in read.texts("fetched"):
        scene.keep(path, Flow(None, DOWNLOADED, host))
    for key, pattern in code.SAYS:
        if read.says(pattern):
            scene.note(key, read.says(pattern))
    for statement in filter(sql.destroys, read.texts("statements")):
        scene.note("danger.data", statement)
    _changed_loosely(scene, read)


def _changed_loosely(scene: Scene, read: code.Code) -> None:
    """Something is deleted or written whose path stands elsewhere in the code."""
    deletes, writes = read.says(code.DELETES_LOOSELY), read.says(code.WRITES_LOOSELY)
    for path in read.paths() if deletes or writes else ():
        rooted = path.startswith(("/", "~"))
        if deletes and rooted and scene.place(path).kind == OUTSIDE:
            scene.deletes(path, recursive=True)
        if writes:
            scene.rewrites(path)


def _sent_by_code(scene: Scene, read: code.Code, hosts: list[str]) -> None:
    for host in hosts:
        scene.note("fact.host", host)
    for path in read.paths():
        if scene.place(path).protected == "danger.keys" or is_secret(path):
            scene.leaks(Flow(None, SECRET, path), hosts[0])
    if read.says(code.ENVIRONMENT):
        scene.leaks(Flow(None, SECRET, read.says(code.ENVIRONMENT)), hosts[0])


def _expanded(path: str) -> str:
    return path.replace("$HOME", "~") if path.startswith("$HOME") else path


def xargs(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = behind(args, "-I -n -P -L -d -E -s -a --max-args --max-procs --delimiter")
    if not rest:
        return flow
    text = flow.text or ""
    unseen = [Arg(UNKNOWN, *flow.trace)]
    marker = value_of(args, "-I")
    if marker:
        lines = [Arg(line) for line in text.split("\n") if line.strip()]
        for item in (lines or unseen)[:MAX_VALUES]:
            scene.call(_placed(rest, marker, item), Flow())
        return Flow()
    if rest[0] in SHELLS and not options(rest):
        scene.run_input(flow)
    items = [Arg(word) for word in text.split()[:50]]
    return scene.call([*rest, *(items or unseen)], Flow())


def _placed(command: Args, marker: str, item: Arg) -> Args:
    """A command with an item wherever the marker stands."""
    return [
        Arg(arg.replace(marker, item), *item.trace) if marker in arg else arg
        for arg in command
    ]


_FIND_TESTS = (
    "-name", "-path", "-iname", "-mtime", "-empty", "-regex", "-newer",
    "-size", "-mmin", "-wholename", "-ipath", "-user", "-perm", "-atime", "-ctime",
)  # fmt: skip
_FIND_RUNS = r"-exec(?:dir)?|-ok(?:dir)?|-[xX]|--exec(?:-batch)?"


def find(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """Options, folders, then tests that narrow what is in them down, and actions."""
    args = args[place_of(args, r"(?!-[LHP]\Z|-O\d\Z|-D\Z).*") :]
    roots = args[: place_of(args, r"-.*|[!(]")]
    return _search(scene, roots, args, _narrowed(args))


def fd(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """A pattern, then folders."""
    rest = operands(args[: place_of(args, _FIND_RUNS)], "-t -e -E -d")
    return _search(scene, rest[1:], args, "x*")


def _search(scene: Scene, roots: Args, args: Args, narrowed: str) -> Flow:
    """`-delete` and `-exec` for whatever is below the folders it is given."""
    roots = roots or [Arg(".")]
    for root in roots:
        scene.reads(root)
    for place, arg in enumerate(args):
        rest = args[place + 1 :]
        if arg == "-delete":
            for root in roots:
                scene.deletes(_below(root, narrowed), recursive=True)
        elif re.fullmatch(_FIND_RUNS, arg):
            _find_runs(scene, roots, rest, narrowed)
        elif arg.startswith(("-fprint", "-fls")):
            in_place(scene, rest[:1])
    elsewhere = [root for root in roots if scene.place(root).kind == OUTSIDE]
    return Flow("\n".join(_below(root, narrowed) for root in elsewhere) or None)


def _narrowed(args: Args) -> str:
    """A name for what the tests leave of a folder; nothing if they leave all."""
    for place, arg in enumerate(args):
        before, value = args[place - 1 : place], "".join(args[place + 1 : place + 2])
        left_out = args[place + 2 : place + 4] == ["-prune", "-o"]
        if arg not in _FIND_TESTS or before in (["!"], ["-not"]) or left_out:
            continue
        if value not in ("*", "*.*"):
            return value if arg in ("-name", "-iname") and value else "x*"
    return ""


def _below(root: str, narrowed: str) -> Arg:
    """Something in a folder, or all of it."""
    return Arg(f"{root.rstrip('/')}/{narrowed}" if narrowed else root)


def _find_runs(scene: Scene, roots: Args, args: Args, narrowed: str) -> None:
    command = args[: place_of(args, "[;+]")]
    if not any("{}" in arg for arg in command):
        command = [*command, Arg("{}")]
    for root in roots[:5]:
        item = _below(root, narrowed)
        scene.call([Arg(arg.replace("{}", item)) for arg in command], Flow())


def parallel(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """A command, then `:::` and what it is run with."""
    rest = behind(args, "-j -a --jobs -S --joblog --delay --retries")
    at = place_of(rest, ":::.*")
    items = rest[at + 1 :] or [Arg(UNKNOWN, *flow.trace)]
    text = " ".join(rest[:at]) or "{}"
    text = text if "{}" in text else text + " {}"
    for item in items[:10]:
        scene.run(Arg(text.replace("{}", item), *item.trace))
    return Flow()


def manual(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    run_value(scene, args, "-P", "--pager")
    return Flow()


def terminals(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """tmux, screen: a command is one of the words."""
    for arg in args:
        if " " in arg:
            scene.run(arg)
    detached = operands(args, "-S -t -s -n -c -L") if has(args, "dm") else []
    scene.call(behind_dashes(args) or detached, NOTHING)
    return Flow()


_EDITOR_RUNS = re.compile(r"(?:!|\bshell\s|system\()\s*(.+)", re.DOTALL)
_EDITOR_OPTIONS = ("-c", "-ex", "--eval", "--cmd", "-o")
_EDITOR_WRITES = re.compile(
    r"(?:\A|[\n|:,$%+])(?:w|wq|x|xa|wa|wqa|up|update)!?\s*(?:\Z|[\n|])"
)


def editor(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """vim -c, gdb -ex: an option's value may hold `!command`."""
    for option, text in zip([Arg(""), *args], args):
        match = _EDITOR_RUNS.search(text)
        if match and (option in _EDITOR_OPTIONS or text.startswith("+")):
            scene.run(Arg(match[1].strip("'\")")))
    rest = operands(args, "-c -S -u -ex --eval --cmd -o -sc")
    texts = [*args, flow.text or ""]
    writes = any(_EDITOR_WRITES.search(text[:5000]) for text in texts)
    for path in rest:
        if writes or scene.place(path).protected:
            scene.writes(path)
    look(scene, rest)
    return Flow()
