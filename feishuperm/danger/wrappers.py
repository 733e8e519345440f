"""Programs that run others on this machine, packages, what a shell does itself.

And what may be said of programs that are not known.

`shell/programs.py` has the table of shells, wrappers and interpreters.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from feishuperm.danger.code import destroys, run_code
from feishuperm.danger.command_table import is_harmless, lists, pattern, words
from feishuperm.danger.files import in_place
from feishuperm.danger.interpreter import (
    DOWNLOADED,
    HOST,
    MAX_VALUES,
    NOTHING,
    PATHLIKE,
    SECRET,
    SHELL,
    UNSEEN,
    Arg,
    Args,
    Call,
    Output,
    ShellState,
    printed_secret,
    shown,
)
from feishuperm.danger.paths import OUTSIDE, UNKNOWN, UNSURE
from feishuperm.shell.programs import INTERPRETERS, ROOT, SHELLS, WRAPPERS
from feishuperm.tables import sections

MAX_SPLIT = 100  # words of a text in an option
MAX_FORM = 200  # characters of a format that is repeated
# Options with a command in them.
_CARRIES = (
    ("-c", "--command", "--exec"),
    *((name,) for name in ("--prepare", "--cleanup", "--setup", "--conclude")),
)

# Behind a program that is not known: what it may well run.
RUN_BY_OTHERS = frozenset(["rm", "sudo", "doas", "dd", "shred", *SHELLS])


def wrapped(state: ShellState, call: Call) -> Output:
    rest = call.args.behind(*WRAPPERS[call.name])
    own = call.args[: len(call.args) - len(rest)]
    state.recognise(call.name, own)
    for option in _CARRIES:
        state.run_value(own, *option)
    if rest and " " in rest[0]:
        texts = rest if call.name == "hyperfine" else [Arg(" ".join(rest))]
        return [state.run(text) for text in texts][-1]
    return state.call(rest, call.given) if rest else call.given


def as_root(state: ShellState, call: Call) -> Output:
    name, args = call.name, call.args
    rest = args.behind(ROOT[name])
    if rest or args.has("sie", "--shell", "--login", "--edit"):
        state.note("danger.root", shown(name, rest))
    if name == "chroot":
        rest = rest[1:]
    if name == "sudoedit" or args[: len(args) - len(rest)].has("e", "--edit"):
        in_place(state, rest)
        return NOTHING
    return state.call(rest, call.given) if rest else NOTHING


def su(state: ShellState, call: Call) -> Output:
    if is_harmless(call.args):
        return UNSEEN
    state.note("danger.root", shown("su", call.args))
    text = call.args.value_of("-c", "--command")
    if text is not None:
        state.run(text)
    else:
        state.call(call.args.behind_dashes(), call.given)
    return UNSEEN


def env(state: ShellState, call: Call) -> Output:
    rest = call.args.behind(call.valued)
    own = call.args[: len(call.args) - len(rest)]
    text = own.value_of("-S", "--split-string")
    for arg in own:
        state.assign(arg, keep=False)
    if text is not None:
        return env(state, call._replace(args=Args([*_split(state, text), *rest])))
    if rest:
        return state.call(rest, call.given)
    return Output(None, SECRET, call.name)


def _split(state: ShellState, text: Arg) -> list[Arg]:
    """A text as `env -S` makes words of it."""
    try:
        found = shlex.split(text)
    except ValueError:
        found = text.split()
    values = {name: held[0] for name, held in state.variables.items()}

    def filled(word: str) -> str:
        return re.sub(r"\$\{(\w+)\}", lambda m: values.get(m[1], UNKNOWN), word)

    return [Arg(filled(word), *text.trace) for word in found[:MAX_SPLIT]]


def environment(state: ShellState, call: Call) -> Output:
    """printenv, history: all of it, or what is named."""
    state.recognise(call.name, call.args)
    return UNSEEN if call.operands else Output(None, SECRET, call.name)


def daemon(state: ShellState, call: Call) -> Output:
    """start-stop-daemon: a program in an option, its words behind `--`."""
    program = call.args.value_of("--exec", "-x", "--startas", "-a")
    if program is None or not call.args.has("S", "--start"):
        return UNSEEN
    return state.call([program, *call.args.behind_dashes()], call.given)


def namespace(state: ShellState, call: Call) -> Output:
    """ip: `netns exec NAME` runs what follows."""
    state.recognise(call.name, call.args)
    rest = call.operands
    if rest[:2] in (["netns", "exec"], ["vrf", "exec"]):
        return state.call(call.args[call.args.index(rest[1]) + 2 :], call.given)
    return state.look(call.args)


def shell(state: ShellState, call: Call) -> Output:
    """A text, a script, or what it is given to read."""
    args, given = call.args, call.given
    text = args[args.place_of(r"-\w*c\w*") + 1 :]
    if text:
        rest = [arg for arg in text if not re.fullmatch(r"[-+]\w+", arg)]
        inner = state.copy()
        inner.positional(rest[1:])
        return inner.run(rest[0], given=given) if rest else NOTHING
    rest = call.operands
    if args.has("n"):  # only looks whether it is well written
        return NOTHING
    if not rest or rest[0] in ("-", "/dev/stdin") or args.has("s"):
        state.run_input(given)
        return Output(None, given.origin or SHELL, given.what)
    return script(state, rest[0], rest[1:])


def script(state: ShellState, path: Arg, args: Args, language: str = "") -> Output:
    """A file is run."""
    state.suspicious(path)
    state.reads(path)
    state.came(path)
    content = state.content(path)
    state.run_file(content, language)
    unsure = content.text is None if content else state.place(path).kind == UNSURE
    if unsure and not path.origin and not (content and content.origin):
        state.note("fact.opaque", path)
    by_name(state, path, args)
    runs_among(state, args)
    return state.look(args)


def evaluate(state: ShellState, call: Call) -> Output:
    origin = next((arg for arg in call.args if arg.origin), Arg(""))
    return state.run(Arg(" ".join(call.args), *origin.trace))


def source(state: ShellState, call: Call) -> Output:
    if call.args:
        if call.args[0] == "/dev/stdin":
            state.run_input(call.given)
        script(state, call.args[0], call.args[1:])
    return UNSEEN


def interpreter(state: ShellState, call: Call) -> Output:
    name, args, given = call.name, call.args, call.given
    at = _code_at(name, args)
    if at:
        if name in ("perl", "ruby") and args[:at].has("i"):
            in_place(state, args[at + 1 :])
        return run_code(state, args[at], given, RUN_BY_OTHERS)
    if args[:1] == ["-m"]:
        return _module(state, name, args[1:], given)
    rest = call.operands
    if rest[:1] in (["run"], ["x"]) and name == "deno":
        rest = rest[1:]
    if not rest or rest[0] == "-":
        if given.text is not None:
            text = Arg(given.text, *given.trace)
            return run_code(state, text, given, RUN_BY_OTHERS)
        state.suspicious(given)
        return UNSEEN
    if HOST.match(rest[0]):
        state.note("danger.downloaded", rest[0])
    if state.recognise(name, args):
        return UNSEEN
    fed_sql(state, args, given)
    return script(state, rest[0], args[args.index(rest[0]) + 1 :], name)


def _code_at(name: str, args: Args) -> int:
    """Where code stands: behind an option for it, before the name of a script."""
    for place, arg in enumerate(args[:-1]):
        if re.fullmatch(INTERPRETERS[name], arg):
            return place + 1
        if not arg.startswith("-") and name != "emacs":
            break
    return 0


def _module(state: ShellState, name: str, args: Args, given: Output) -> Output:
    """`python -m`: mostly a program of its own."""
    if args and args[0] in state.programs:
        return state.call(args, given)
    if args and args[0] == "http.server":
        bound = args.value_of("--bind", "-b")
        state.note("fact.host", "localhost" if bound else "0.0.0.0")
    return unknown(state, Call(name, args, given)) if args else given


# Once for each of many.


def xargs(state: ShellState, call: Call) -> Output:
    rest = call.args.behind(call.valued)
    if not rest:
        return call.given
    text = call.given.text or ""
    unseen = [Arg(UNKNOWN, *call.given.trace)]
    marker = call.args.value_of("-I")
    if marker:
        lines = [Arg(line) for line in text.split("\n") if line.strip()]
        for item in (lines or unseen)[:MAX_VALUES]:
            state.call(_placed(rest, marker, item), UNSEEN)
        return UNSEEN
    if rest[0] in SHELLS and not rest.options():
        state.run_input(call.given)
    items = [Arg(word) for word in text.split()[:50]]
    return state.call([*rest, *(items or unseen)], UNSEEN)


def _placed(command: Sequence[Arg], marker: str, item: Arg) -> list[Arg]:
    """A command with an item wherever the marker stands."""
    return [
        Arg(arg.replace(marker, item), *item.trace) if marker in arg else arg
        for arg in command
    ]


def parallel(state: ShellState, call: Call) -> Output:
    """A command, then `:::` and what it is run with."""
    rest = call.args.behind(call.valued)
    at = rest.place_of(":::.*")
    items = rest[at + 1 :] or [Arg(UNKNOWN, *call.given.trace)]
    text = " ".join(rest[:at]) or "{}"
    text = text if "{}" in text else text + " {}"
    for item in items[:10]:
        state.run(Arg(text.replace("{}", item), *item.trace))
    return UNSEEN


_FIND_RUNS = r"-exec(?:dir)?|-ok(?:dir)?|-[xX]|--exec(?:-batch)?"


def find(state: ShellState, call: Call) -> Output:
    """Options, folders, then tests that narrow what is in them down, and actions."""
    args = call.args[call.args.place_of(r"(?!-[LHP]\Z|-O\d\Z|-D\Z).*") :]
    roots = args[: args.place_of(r"-.*|[!(]")]
    return _search(state, roots, args, _narrowed(args))


def fd(state: ShellState, call: Call) -> Output:
    """A pattern, then folders."""
    rest = call.args[: call.args.place_of(_FIND_RUNS)].operands(call.valued)
    return _search(state, rest[1:], call.args, "x*")


def _search(state: ShellState, roots: Args, args: Args, narrowed: str) -> Output:
    """`-delete` and `-exec` for what is below the folders it is given."""
    roots = roots or Args([Arg(".")])
    for root in roots:
        state.reads(root)
    for place, arg in enumerate(args):
        rest = args[place + 1 :]
        if arg == "-delete":
            for root in roots:
                state.deletes(_below(root, narrowed), recursive=True)
        elif re.fullmatch(_FIND_RUNS, arg):
            _find_runs(state, roots, rest[: rest.place_of("[;+]")], narrowed)
        elif arg.startswith(("-fprint", "-fls")):
            in_place(state, rest[:1])
    elsewhere = [root for root in roots if state.place(root).kind == OUTSIDE]
    return Output("\n".join(_below(root, narrowed) for root in elsewhere) or None)


def _narrowed(args: Args) -> str:
    """A name for what the tests leave of a folder; nothing if they leave all."""
    for place, arg in enumerate(args):
        before, value = args[place - 1 : place], "".join(args[place + 1 : place + 2])
        left_out = args[place + 2 : place + 4] == ["-prune", "-o"]
        if arg not in words("find tests") or before in (["!"], ["-not"]) or left_out:
            continue
        if value not in ("*", "*.*"):
            return value if arg in ("-name", "-iname") and value else "x*"
    return ""


def _below(root: str, narrowed: str) -> Arg:
    """Something in a folder, or all of it."""
    return Arg(f"{root.rstrip('/')}/{narrowed}" if narrowed else root)


def _find_runs(state: ShellState, roots: Args, command: Args, narrowed: str) -> None:
    last = [] if any("{}" in word for word in command) else [Arg("{}")]
    for root in roots[:5]:
        item = _below(root, narrowed)
        state.call(_placed([*command, *last], "{}", item), UNSEEN)


# A command in an option, in a file, or for later.


def manual(state: ShellState, call: Call) -> Output:
    state.run_value(call.args, "-P", "--pager")
    return UNSEEN


def terminals(state: ShellState, call: Call) -> Output:
    """tmux, screen: a command is one of the words."""
    for arg in call.args:
        if " " in arg:
            state.run(arg)
    detached = call.operands if call.args.has("dm") else Args()
    state.call(call.args.behind_dashes() or detached, NOTHING)
    return UNSEEN


def editor(state: ShellState, call: Call) -> Output:
    """vim -c, gdb -ex: an option's value may hold `!command`."""
    for option, text in zip([Arg(""), *call.args], call.args):
        match = pattern("editor_runs").search(text)
        if match and (option in words("editor options") or text.startswith("+")):
            state.run(Arg(match[1].strip("'\")")))
    texts = [*call.args, call.given.text or ""]
    writes = any(pattern("editor_writes").search(text[:5000]) for text in texts)
    for path in call.operands:
        if writes or state.place(path).protected:
            state.writes(path)
    state.look(call.operands)
    return UNSEEN


def make(state: ShellState, call: Call) -> Output:
    """A target by its name tells what it does."""
    args = call.args
    state.recognise(call.name, args)
    if args.has("nq", "--dry-run", "--just-print", "--help"):
        return UNSEEN
    if any(map(publishes, call.operands)):
        state.note("danger.publish", call.shown)
    folder = args.value_of("-C", "--directory") or "."
    state.came(f"{folder}/Makefile")
    state.run_value(args, "--eval", "-E")
    file = args.value_of("-f", "--file")
    state.suspicious(file)
    content = call.given if file == "-" else state.content(file or "Makefile")
    for line in (content.text or "" if content else "").split("\n")[:200]:
        match = pattern("recipe").match(line)
        if match:
            state.run(Arg(match[1]))
    state.look(args)
    return UNSEEN


def crontab(state: ShellState, call: Call) -> None:
    """Any word but `-l` is a file that is installed, whatever its name."""
    if "-l" not in call.args:
        state.note("danger.startup", call.shown)


def at(state: ShellState, call: Call) -> None:
    if call.args.has("lrdcV"):
        return
    state.note("danger.startup", call.shown)
    if call.given.text:
        state.run(Arg(call.given.text))
    elif call.given is not NOTHING:
        state.run_input(call.given)


# Packages: what is installed, published, or fetched to be run.


def packages(state: ShellState, call: Call) -> Output:
    for phrase in sections("danger/commands.txt")["runs packages"]:
        first, *own = phrase.split()
        if call.name == first and call.args[: len(own)] == own:
            return _run_package(state, call, call.args[len(own) :])
    name, args = call.name, call.args
    if pattern("sources").match(" ".join([name, *args])[:2000]):
        state.note("danger.packages", call.shown)
    if name == "uv" and args[:1] in (["pip"], ["tool"]):
        name, args = "pip", args[1:]
    call = call._replace(name=name, args=args)
    rest = call.operands
    verbs = lists("installs").get(name, ())
    started = [arg for arg in args if arg in verbs]
    if started:
        _install(state, call, [arg for arg in rest if arg != started[0]])
    elif rest[:1] and rest[0] in lists("uninstalls").get(name, ()):
        state.note("danger.machine", call.shown)
    else:
        _run_by(state, call, rest)
    return by_words(state, call)


def _install(state: ShellState, call: Call, wanted: list[Arg]) -> None:
    name, args = call.name, call.args
    index = args.value_of("-i", "--index-url", "--extra-index-url", "--registry")
    sources = [
        *wanted,
        *(args.value_of(*words("package sources")) or "").split(),
        "http:" if pattern("plain_http").match(index or "") else "",
    ]
    for source in sources:
        is_address = pattern("package_address").match(source)
        if is_address and name not in ("helm", "brew", "gh"):
            state.note("danger.downloaded", source)
        state.suspicious(state.brought(source))
    state.note("fact.installs", " ".join([name, *wanted[:6]]))
    target = args.value_of("-t", "--target", "--prefix", "--root")
    if target is not None and name.startswith("pip"):
        state.writes(target)


def _run_by(state: ShellState, call: Call, rest: Args) -> None:
    """What a manager is told to run, each in its own way."""
    if call.name in ("npm", "pnpm", "yarn", "bun"):  # a script of the project
        goals = rest[1:2] if rest[:1] in (["run"], ["run-script"]) else rest[:1]
        if any(map(publishes, goals)) and not is_harmless(call.args):
            state.note("danger.publish", call.shown)
    elif call.name == "go" and rest[:1] == ["run"]:
        for source in rest[1:2]:  # a file, what flows in, a package from elsewhere
            if "@" in source:
                state.note("fact.package", source)
            content = call.given if source == "-" else state.content(source)
            state.run_file(content, "python")
    elif call.name not in ("go", "cargo", "gh") and rest[:1] in (["run"], ["exec"]):
        command = call.args[call.args.index(rest[0]) + 1 :]
        valued = "--with -p --python -n --name --env --extra --group"
        state.call(command.behind(valued), call.given)


def _run_package(state: ShellState, call: Call, args: Args) -> Output:
    """`npx NAME`: fetched to be run."""
    rest = args.behind("-p --package --with --from -c --call --python")
    state.run_value(call.args, "-c", "--call")
    source = call.args[:-1].value_of("--from", "-p", "--package", "--with")
    if not rest:
        return UNSEEN
    state.note("fact.package", rest[0])
    for address in filter(pattern("package_address").match, (rest[0], source or "")):
        state.note("danger.downloaded", address)
    bare = Arg(pattern("aliases").sub("", re.sub(r"(?<=.)@[^/]*\Z", "", rest[0])))
    if bare.lower() in state.programs:
        state.call([bare, *rest[1:]], call.given)
    else:
        by_words(state, Call(bare, rest[1:], call.given))
    return UNSEEN


# Processes.


def _is_server(text: str) -> bool:
    """Whether a process's name or pattern is one: `/usr/sbin/mysqld --x`."""
    name = text if text.startswith("port ") else text.strip("^$ ").partition(" ")[0]
    name = name.rstrip(":").rpartition("/")[2]
    return pattern("servers").fullmatch(name) is not None


def lsof(state: ShellState, call: Call) -> Output:
    """Whose a port is: a number that stands for it."""
    matches = map(pattern("port_number").fullmatch, call.args)
    ports = [match[1] for match in matches if match]
    state.look(call.args)
    return Output(None, "", f"port {ports[0]}" if ports else "")


def process(state: ShellState, call: Call) -> Output:
    """pgrep, pidof: a number that stands for a name."""
    return Output(None, "", " ".join(call.operands))


def kill_named(state: ShellState, call: Call) -> None:
    """pkill, killall: what a process is called, or whose it is."""
    args, rest = call.args, call.operands
    state.recognise(call.name, args)
    everything = not rest and args.has("uU", "--euid", "--uid")
    asks = args.has("0l", "--list") and not args.has("f")
    if not asks and (everything or any(map(_is_server, rest))):
        state.note("danger.machine", call.shown)


def kill(state: ShellState, call: Call) -> None:
    is_signal = re.compile(r"(?!-1\Z)-(?:[A-Z]\w*|s|\d{1,2})").fullmatch
    rest = [arg for arg in call.args if not is_signal(arg)]
    if any("feishuperm" in arg.what for arg in rest):
        state.note("danger.permissions", "kill feishuperm")
    named = any(_is_server(arg.what) for arg in rest) and "-0" not in call.args
    if rest[-1:] in (["1"], ["-1"]) or named:
        state.note("danger.machine", shown("kill", call.args))


# What a shell does itself, and programs whose output can be told.


def echo(state: ShellState, call: Call) -> Output:
    parts = list(call.args)
    while parts and re.fullmatch(r"-[neE]+", parts[0]):
        escapes = "e" in parts.pop(0)
        if escapes:
            parts = [Arg(_unescaped(part), *part.trace) for part in parts]
    origin = next((arg for arg in call.args if arg.origin), Arg(""))
    return Output(" ".join(parts) + "\n", *origin.trace)


def printf(state: ShellState, call: Call) -> Output:
    args = call.args
    if args[:1] == ["-v"]:
        return NOTHING
    origin = next((arg for arg in args if arg.origin), Arg(""))
    text = _unescaped(_filled(args[0], list(args[1:]))) if args else ""
    return Output(text, *origin.trace)


def _filled(form: str, values: list[Arg]) -> str:
    """A format with its values, over and over as long as there are some."""
    lines: list[str] = []
    field = pattern("format_field")
    while not lines or (values and len(form) < MAX_FORM and field.search(form)):
        lines.append(field.sub(lambda _: values.pop(0) if values else "", form))
    return "".join(lines)


def _unescaped(text: str) -> str:
    text = text.replace("\\n", "\n").replace("\\t", "\t")
    return re.sub(
        r"\\(?:x([0-9a-fA-F]{1,2})|0?([0-7]{1,3}))",
        lambda m: chr(int(m[1], 16) if m[1] else int(m[2], 8)),
        text,
    )


def prints(state: ShellState, call: Call) -> Output:
    """What a program prints, as far as that matters: by the table."""
    return Output(call.valued or state.cwd)


def which(state: ShellState, call: Call) -> Output:
    return Output("".join(call.operands[-1:]))


def passes(state: ShellState, call: Call) -> Output:
    """Filters: what goes in comes out, in other words."""
    return Output(None, *call.given.trace)


def nothing(state: ShellState, call: Call) -> None:
    """Neither does anything of note nor prints anything."""


def set_options(state: ShellState, call: Call) -> Output:
    """`set -- words`: what `$@` stands for from now on."""
    if "--" in call.args:
        state.positional(call.args[call.args.place_of("--") :])
    return NOTHING if call.args else Output(None, SECRET, call.name)


def cd(state: ShellState, call: Call) -> None:
    rest = call.operands
    if not rest:
        state.cwd = state.rules.home or UNKNOWN
    elif UNKNOWN in rest[0] or rest[0] == "-" or "CDPATH" in state.variables:
        state.cwd = UNKNOWN
    else:
        full = state.rules.full(rest[0], "" if state.cwd == UNKNOWN else state.cwd)
        unsure = state.cwd == UNKNOWN and not rest[0].startswith(("/", "~"))
        state.cwd = UNKNOWN if unsure else full


def declare(state: ShellState, call: Call) -> Output:
    for arg in call.operands:
        if "=" in arg:
            state.assign(arg)
    return NOTHING if call.operands else Output(None, SECRET, call.name)


def read_variable(state: ShellState, call: Call) -> None:
    lines = (call.given.text or "").split("\n")[:MAX_VALUES]
    values = [Arg(line, *call.given.trace) for line in lines if line.strip()]
    for name in call.operands:
        state.variables[name] = tuple(values) or (Arg(UNKNOWN, *call.given.trace),)


def trap(state: ShellState, call: Call) -> None:
    """Runs when the shell ends: now, as far as we are concerned."""
    rest = call.operands
    if len(rest) > 1 and rest[0] not in ("", "-"):
        state.run(rest[0])


def alias(state: ShellState, call: Call) -> None:
    for arg in call.operands:
        if "=" in arg:
            state.run(Arg(arg.partition("=")[2]))


# Programs that are not known, and what may still be said of them: by their first word,
# by the name of a script, by a command among their arguments, by what they print and to
# whom they send it.


def unknown(state: ShellState, call: Call) -> Output:
    """A program that nobody has told us about; its name is the first word."""
    word, args = call.args[0], call.args[1:]
    name = word.rpartition("/")[2]
    recognised = state.recognise(name, args) or _by_verb(state, name, args)
    if PATHLIKE.match(word) and not recognised:
        state.reads(word)
    if "/" in word:
        by_name(state, word, args)
    runs_among(state, args)
    fed_sql(state, args, call.given)
    state.outputs(name, args)
    out = state.look(args)
    rest = args.operands()
    for path in rest if name in words("runs its file") else ():
        state.suspicious(state.brought(path))
    for somebody in filter(pattern("somebody").match, rest[-1:]):
        state.leaks(out if out.origin else call.given, somebody)
    return _printed(name, call.args, out).mixed(call.given)


def by_words(state: ShellState, call: Call) -> Output:
    return unknown(state, call._replace(args=Args([Arg(call.name), *call.args])))


def _printed(name: str, args: Args, out: Output) -> Output:
    """What a program prints that reads something: that, or what others keep for it."""
    secret = printed_secret(name, args[1:])
    if secret is not None:
        return secret
    text = " ".join(args[:4])[:2000]
    remote = pattern("prints_remote").match(text)
    if remote or (not out.origin and HOST.search(text)):
        return Output(None, DOWNLOADED, text)
    return out


def _by_verb(state: ShellState, name: str, args: Args) -> bool:
    key = next((k for k, verbs in lists("verbs").items() if {*verbs} & {*args[:1]}), "")
    if not key or pattern("naming").fullmatch(name) or is_harmless(args):
        return False
    state.note(key, shown(name, args))
    return True


def fed_sql(state: ShellState, args: Args, given: Output) -> None:
    """Statements that a framework hands to its database."""
    statement = (
        destroys(given.text or "") if words("databases").keys() & set(args) else ""
    )
    if statement:
        state.note("danger.data", statement)


def publishes(goal: str) -> bool:
    """Whether a target or a script is called by what it does."""
    return pattern("publishes").fullmatch(goal) is not None


def by_name(state: ShellState, path: str, args: Args) -> None:
    """A script whose name tells what it does."""
    goal = re.sub(r"\.\w+\Z", "", path.rpartition("/")[2])
    if publishes(goal) and not is_harmless(args):
        state.note("danger.publish", path)


def runs_among(state: ShellState, args: Args) -> None:
    """`anything sh -c TEXT`, `-c TEXT`, `-- command`: any program may run that."""
    dashed = args.behind_dashes()
    command, known = (dashed, state.programs) if dashed else (args, RUN_BY_OTHERS)
    if len(command) > 1 and command[0].rpartition("/")[2] in known:
        state.call(command, NOTHING)
        return
    for place, (arg, text) in enumerate(zip(args, args[1:])):
        if arg in SHELLS and re.fullmatch(r"-\w*c", text):
            state.call(args[place:], NOTHING)
            return
        if arg in ("-c", "-C", "--command", "--exec", "--run") and " " in text:
            state.run(text)
        if arg in ("run", "exec", "-c", "--command") and text in RUN_BY_OTHERS:
            state.call(args[place + 1 :], NOTHING)
        if arg in ("-c", "-e", "--eval", "--execute", "runner", "--command"):
            state.call([Arg("python"), Arg("-c"), text], NOTHING)
