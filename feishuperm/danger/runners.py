"""Programs that run others: wrappers, shells, interpreters, on this machine or not."""

from __future__ import annotations

import re

from feishuperm.danger import code, sql
from feishuperm.danger.arguments import (
    HOST,
    SHELLS,
    behind,
    has,
    look,
    operands,
    options,
    recognise,
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

# Wrapper -> options that take a word, words of its own before the command.
WRAPPERS = {
    "command": ("", 0), "builtin": ("", 0), "exec": ("-a", 0), "nohup": ("", 0),
    "nice": ("-n", 0), "ionice": ("-c -n -p", 0), "time": ("-f -o", 0),
    "timeout": ("-k -s --kill-after --signal", 1), "setsid": ("", 0),
    "stdbuf": ("-i -o -e", 0),
    "busybox": ("", 0), "toybox": ("", 0), "caffeinate": ("-t -w", 0),
    "strace": ("-e -o -p -s", 0), "ltrace": ("-e -o", 0), "unbuffer": ("", 0),
    "xvfb-run": ("-s -n", 0), "dotenv": ("-e -f", 0), "cross-env": ("", 0),
    "taskset": ("", 1), "chrt": ("", 1), "numactl": ("", 0), "prlimit": ("", 0),
    "watch": ("-n --interval", 0), "hyperfine": ("-w -r -n", 0),
    "entr": ("", 0), "nodemon": ("--exec -x -w", 0), "firejail": ("", 0),
    "fakeroot": ("", 0), "catchsegv": ("", 0), "direnv": ("", 2), "aws-vault": ("", 2),
    "doppler": ("", 1), "systemd-run": ("-u -p --unit --property", 0),
    "flock": ("-w -E", 1), "uvicorn": ("", 0),
    "winpty": ("", 0), "wsl": ("-d -u --cd", 0),
    "rlwrap": ("", 0), "script": ("-c --command", 1), "unshare": ("", 0),
    "gtimeout": ("-k -s", 1), "ts": ("", 0), "bwrap": ("--bind --ro-bind", 0),
    "chronic": ("", 0), "ifne": ("", 0), "torsocks": ("", 0), "torify": ("", 0),
    "proxychains": ("-f", 0), "proxychains4": ("-f", 0), "sshpass": ("-p -f", 0),
    "arch": ("", 0), "eatmydata": ("", 0), "faketime": ("-f", 1), "setarch": ("", 1),
    "retry": ("-n -d", 0), "dbus-run-session": ("", 0), "xcrun": ("--sdk", 0),
    "coproc": ("", 0), "cpulimit": ("-l", 0), "perf": ("-e -o", 1),
    "valgrind": ("", 0), "with-env": ("", 0), "dbus-launch": ("", 0),
}  # fmt: skip

ROOT = {
    "sudoedit": "-u",
    "sudo": "-u -g -p -C -h -r -t -T -U -D -R --user --group --host --prompt",
    "doas": "-u -C", "pkexec": "--user", "gosu": "", "su-exec": "", "run0": "-u",
    "gsudo": "", "dzdo": "-u -g", "chroot": "--userspec --groups",
}  # fmt: skip


def wrapped(valued: str, before: int) -> Program:
    def program(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
        rest = behind(args, valued, before)
        text = value_of(args[: len(args) - len(rest)], "-c", "--command", "--exec")
        if text is not None:
            scene.run(text)
        if len(rest) == 1 and " " in rest[0]:
            return scene.run(rest[0])
        return scene.call(rest, flow) if rest else flow

    return program


def as_root(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = behind(args, ROOT[name])
    if rest or has(args, "sie", "--shell", "--login", "--edit"):
        scene.mark("danger.root", words(name, rest))
    if name == "chroot":
        rest = rest[1:]
    if name == "sudoedit" or has(args[: len(args) - len(rest)], "e", "--edit"):
        for path in rest:
            scene.writes(path)
        return NOTHING
    return scene.call(rest, flow) if rest else NOTHING


def su(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    if is_harmless(args):
        return Flow()
    scene.mark("danger.root", words("su", args))
    text = value_of(args, "-c", "--command")
    if text is not None:
        scene.run(text)
    elif "--" in args:
        scene.call(args[args.index(Arg("--")) + 1 :], flow)
    return Flow()


def environment(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """printenv, history: all of it, or what is named."""
    if name == "history" and has(args, "cwd"):
        scene.mark("danger.wipe", words(name, args))
    return Flow(None) if operands(args) else Flow(None, SECRET, name)


def env(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    text = value_of(args, "-S", "--split-string")
    rest = behind(args, "-u -C --unset --chdir")
    for arg in args[: len(args) - len(rest)]:
        scene.assign(arg, keep=False)
    if text is not None:
        return scene.run(text)
    return scene.call(rest, flow) if rest else Flow(None, SECRET, name)


def shell(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """A text, a script, or what it is given to read."""
    for place, arg in enumerate(args):
        if re.fullmatch(r"-\w*c\w*", arg) and place + 1 < len(args):
            rest = [a for a in args[place + 1 :] if not re.fullmatch(r"[-+]\w+", a)]
            inner = scene.copy()
            inner.positional(rest[1:])
            return inner.run(rest[0], given=flow) if rest else NOTHING
    rest = operands(args, "-o -O --rcfile --init-file")
    if has(args, "n"):  # only looks whether it is well written
        return NOTHING
    if not rest or rest[0] == "-" or has(args, "s") or rest[0] == "/dev/stdin":
        scene.run_input(flow)
        return Flow(None, flow.origin or SHELL, flow.what)
    return script(scene, rest[0], rest[1:])


def script(scene: Scene, path: Arg, args: Args, language: str = "") -> Flow:
    """A file is run."""
    scene.suspicious(path.origin, path.what)
    scene.reads(path)
    scene.came(path)
    content = scene.content(path)
    if content is not None:
        scene.run_file(content, language)
    unsure = content.text is None if content else scene.place(path).kind == UNSURE
    if unsure and not path.origin and not (content and content.origin):
        scene.fact("fact.opaque", path)
    by_name(scene, path, args)
    runs_among(scene, args)
    return look(scene, args)


def evaluate(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    text = " ".join(args)
    origin = next((arg for arg in args if arg.origin), Arg(""))
    return scene.run(Arg(text, origin.origin, origin.what))


def source(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    if args:
        if args[0] == "/dev/stdin":
            scene.run_input(flow)
        script(scene, args[0], args[1:])
    return Flow()


CODE_OPTIONS = {
    "python": r"-\w*c", "pypy": r"-\w*c", "perl": r"-\w*[eE]", "ruby": r"-\w*e",
    "node": r"-[ep]+|--eval|--print", "nodejs": r"-[ep]+|--eval|--print", "php": r"-r",
    "bun": r"-e|--eval", "osascript": r"-e", "lua": r"-e", "luajit": r"-e",
    "deno": r"eval", "expect": r"-\w*c", "tclsh": r"-c", "wish": r"-c",
    "emacs": r"--?eval|--?execute", "julia": r"-[eE]", "rscript": r"-e", "r": r"-e",
    "groovy": r"-e", "elixir": r"-e|--eval", "swift": r"-e", "ghc": r"-e",
    "clojure": r"-e", "guile": r"-c", "irb": r"-e", "scala": r"-e", "jshell": r"-e",
    "java": r"(?!)", "tsx": r"-e|--eval", "ts-node": r"-\w*e|--eval", "ipython": r"-c",
}  # fmt: skip


def interpreter(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    pattern = CODE_OPTIONS[name]
    for place, arg in enumerate(args):
        if re.fullmatch(pattern, arg) and place + 1 < len(args):
            if has(args[: place + 1], "i") and name in ("perl", "ruby"):
                in_place(scene, args[place + 2 :])
            return run_code(scene, args[place + 1], flow)
        if not arg.startswith("-") and name != "emacs":
            break
    if args[:1] == ["-m"]:
        return module(scene, name, args[1:], flow)
    rest = operands(args, "-W -X -r --require -I -M --loader --import -O")
    if rest[:1] in (["run"], ["x"]) and name in ("deno", "bun"):
        rest = rest[1:]
    if not rest or rest[0] == "-":
        if flow.text is not None:
            return run_code(scene, Arg(flow.text, flow.origin, flow.what), flow)
        scene.suspicious(flow.origin, flow.what)
        return Flow()
    if HOST.match(rest[0]):
        scene.mark("danger.downloaded", rest[0])
    if recognise(scene, name, args):
        return Flow()
    fed_sql(scene, args, flow)
    return script(scene, rest[0], args[args.index(rest[0]) + 1 :], name)


def module(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """`python -m`: mostly a program of its own."""
    if args and args[0] in scene.programs:
        return scene.call(args, flow)
    if args and args[0] == "http.server":
        scene.fact(
            "fact.host",
            "0.0.0.0" if not value_of(args, "--bind", "-b") else "localhost",
        )
    return unknown(scene, name, args, flow) if args else flow


def run_code(scene: Scene, text: Arg, flow: Flow) -> Flow:
    """Code in another language."""
    scene.suspicious(text.origin, text.what)
    if len(text) > code.MAX_CODE:
        scene.unread(text[code.MAX_CODE :])
    if not scene.spend(min(len(text), code.MAX_CODE), 10):
        return UNSEEN
    read = code.Code(text)
    hosts = read.texts("hosts")
    what = ", ".join(hosts[:2])
    _changed_by_code(scene, read, what)
    for command in read.runs():
        scene.run(Arg(command))
    for command in read.commands():
        if command.partition(" ")[0] in RUN_BY_OTHERS:
            scene.run(Arg(command))
    if hosts:
        _sent_by_code(scene, read, hosts)
    if read.runs_what_came():
        scene.mark("danger.downloaded", what)
    if read.runs_decoded():
        scene.mark("danger.decoded", what)
    if UNKNOWN in text and text.strip(UNKNOWN) == "":
        scene.fact("fact.opaque", "")
    origin = flow.origin or (DOWNLOADED if hosts else "")
    if read.prints_decoded():
        origin, what = DECODED, ""
    return Flow(None, origin, flow.what or what)


def _changed_by_code(scene: Scene, read: code.Code, host: str) -> None:
    deletes = read.texts("deletes")
    for path in deletes:
        scene.deletes(_expanded(path), recursive=True)
    if not deletes and read.says(code.DELETES_UNSEEN):
        scene.mark("danger.unsure", "rmtree")
    for path in read.writes():
        scene.writes(_expanded(path))
    for path in read.texts("fetched"):
        scene.keep(path, Flow(None, DOWNLOADED, host))
    for key, pattern in (("danger.data", code.DATA), ("danger.root", code.ROOT)):
        if read.says(pattern):
            scene.mark(key, read.says(pattern))
    for statement in filter(sql.destroys, read.texts("statements")):
        scene.mark("danger.data", statement)
    _changed_loosely(scene, read)


def _changed_loosely(scene: Scene, read: code.Code) -> None:
    """Something is deleted or written whose path stands elsewhere in the code."""
    deletes, writes = read.says(code.DELETES_LOOSELY), read.says(code.WRITES_LOOSELY)
    for path in read.paths() if deletes or writes else ():
        place = scene.place(path)
        if deletes and path.startswith(("/", "~")) and place.kind == OUTSIDE:
            scene.deletes(path, recursive=True)
        if writes and place.protected:
            scene.writes(path)


def _sent_by_code(scene: Scene, read: code.Code, hosts: list[str]) -> None:
    for host in hosts:
        scene.fact("fact.host", host)
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
    items: Args = [Arg(UNKNOWN, flow.origin, flow.what)]
    if flow.text is not None and flow.text.strip():
        items = [Arg(word) for word in flow.text.split()[:50]]
    marker = value_of(args, "-I")
    if marker:
        lines = [Arg(line) for line in (flow.text or "").split("\n") if line.strip()]
        for item in (lines or items)[:MAX_VALUES]:
            scene.call(_placed(rest, marker, item), Flow())
        return Flow()
    if rest[0] in SHELLS and not options(rest):
        scene.run_input(flow)
    return scene.call([*rest, *items], Flow())


def _placed(command: Args, marker: str, item: Arg) -> Args:
    """A command with an item wherever the marker stands."""
    return [
        Arg(arg.replace(marker, item), item.origin, item.what) if marker in arg else arg
        for arg in command
    ]


_FIND_TESTS = (
    "-name", "-path", "-iname", "-mtime", "-empty", "-regex", "-newer",
    "-size", "-mmin", "-wholename", "-ipath", "-user", "-perm", "-atime", "-ctime",
)  # fmt: skip
_FIND_RUNS = (
    "-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch",
)  # fmt: skip


def find(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """`-delete` and `-exec` for whatever is below the folders it is given."""
    while args and re.fullmatch(r"-[LHP]|-O\d|-D", args[0]):
        args = args[1:]
    ends = (n for n, arg in enumerate(args) if arg.startswith("-") or arg in ("!", "("))
    roots = args[: next(ends, len(args))] or [Arg(".")]
    narrowed = _narrowed(args)
    if name.startswith("fd"):  # a pattern, then folders
        runs = (n for n, arg in enumerate(args) if arg in _FIND_RUNS)
        roots = operands(args[: next(runs, len(args))], "-t -e -E -d")[1:] or [Arg(".")]
        narrowed = "x*"
    for root in roots:
        scene.reads(root)
    for place, arg in enumerate(args):
        if arg == "-delete":
            _find_deletes(scene, roots, narrowed)
        elif arg in _FIND_RUNS:
            _find_runs(scene, roots, args[place + 1 :], narrowed)
        elif arg.startswith(("-fprint", "-fls")) and place + 1 < len(args):
            scene.writes(args[place + 1])
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


def _find_deletes(scene: Scene, roots: Args, narrowed: str) -> None:
    for root in roots:
        scene.deletes(_below(root, narrowed), recursive=True)


def _find_runs(scene: Scene, roots: Args, args: Args, narrowed: str) -> None:
    end = next((n for n, arg in enumerate(args) if arg in (";", "+")), len(args))
    for root in roots[:5]:
        item = _below(root, narrowed)
        command = [Arg(arg.replace("{}", item)) for arg in args[:end]]
        placed = any("{}" in arg for arg in args[:end])
        scene.call(command if placed else [*command, item], Flow())


def parallel(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """A command, then `:::` and what it is run with."""
    rest = behind(args, "-j -a --jobs -S --joblog --delay --retries")
    at = next((n for n, arg in enumerate(rest) if arg.startswith(":::")), len(rest))
    items = rest[at + 1 :] or [Arg(UNKNOWN, flow.origin, flow.what)]
    text = " ".join(rest[:at]) or "{}"
    text = text if "{}" in text else text + " {}"
    for item in items[:10]:
        scene.run(Arg(text.replace("{}", item), item.origin, item.what))
    return Flow()


def manual(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    pager = value_of(args, "-P", "--pager")
    if pager is not None:
        scene.run(pager)
    return Flow()


def terminals(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """tmux, screen: a command is one of the words."""
    for arg in args:
        if " " in arg:
            scene.run(arg)
    if "--" in args:
        scene.call(args[args.index(Arg("--")) + 1 :], NOTHING)
    elif has(args, "dm") and operands(args, "-S -t -s -n -c -L"):
        scene.call(operands(args, "-S -t -s -n -c -L"), NOTHING)
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
    rest = operands(args, "-c -S -u -ex --eval --cmd -o -sc" if name != "ed" else "")
    texts = [*args, flow.text or ""]
    writes = any(_EDITOR_WRITES.search(text[:5000]) for text in texts)
    for path in rest:
        if writes or scene.place(path).protected:
            scene.writes(path)
    look(scene, rest)
    return Flow()
