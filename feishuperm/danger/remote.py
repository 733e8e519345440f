"""Programs that fetch, send and run elsewhere: hosts, containers, git.

Paths on another machine or in a container are not ours; what is shared with a container
is, and so are its rights.
"""

from __future__ import annotations

import re
from functools import cache

from feishuperm.danger.command_table import pattern, words
from feishuperm.danger.files import SSH_HOST, changes, deletes
from feishuperm.danger.interpreter import (
    DOWNLOADED,
    HOST,
    LOCAL,
    NOTHING,
    SECRET,
    SHELL,
    UNSEEN,
    Arg,
    Args,
    Call,
    Output,
    Program,
    ShellState,
    printed_secret,
    shown,
)
from feishuperm.danger.paths import OUTSIDE, UNKNOWN
from feishuperm.danger.wrappers import by_words, cd
from feishuperm.tables import sections

# Another machine.


def ssh(state: ShellState, call: Call) -> Output:
    args, given = call.args, call.given
    rest = _host_and_command(args, call.valued)
    for option in args:
        match = pattern("ssh_runs").match(option)
        if match:
            state.run(Arg(match[1], *option.trace))
    if not rest:
        return UNSEEN
    own = Args(arg for arg in args if not any(arg is word for word in rest))
    if own.value_of("-R") or any(pattern("ssh_opens").match(arg) for arg in own):
        state.note("danger.tunnel", call.shown)
    host = rest[0].rpartition("@")[2]
    state.note("fact.host", host)
    state.leaks(given, host)
    if len(rest) > 1:
        state.note("fact.remote", shown("ssh", rest))
        state.run(Arg(" ".join(rest[1:])), foreign=True, given=given)
    elif given.text is not None and given.text.strip():
        state.run(Arg(given.text), foreign=True)
    return Output(None, DOWNLOADED, host)


def _host_and_command(args: Args, valued: str) -> Args:
    """A host and the command behind it: options end with the first word."""
    rest = args.behind(valued)
    if len(rest) > 1 and rest[1].startswith("-"):
        return Args([rest[0], *rest[1:].behind(valued)])
    return rest


def ansible(state: ShellState, call: Call) -> Output:
    """A module on other machines; some are a shell."""
    state.note("fact.remote", call.shown)
    text = call.args.value_of("-a", "--args") or Arg("")
    module = call.args.value_of("-m", "--module-name") or "command"
    if re.search(r"(?:shell|command|raw|script)\Z", module):
        return state.run(text, foreign=True)
    if pattern("ansible_ends").search(text):
        state.note("danger.machine", call.shown)
    return UNSEEN


def device(state: ShellState, call: Call) -> Output:
    """adb: a shell on a telephone."""
    rest = call.args.behind(call.valued)
    if rest[:1] == ["shell"] and rest[1:]:
        return state.run(Arg(" ".join(rest[1:])), foreign=True)
    return by_words(state, call)


# Containers.

_ALL = "docker ps"  # what came from a list: all that there are


def container(state: ShellState, call: Call) -> Output:
    """docker and its kin: what runs inside, what is shared with it, what is removed."""
    name = call.name
    state.recognise(name, call.args)
    rest = call.args.behind(
        "-H --host --context -c -f --file -p --project-name -l --log-level"
    )
    if rest[:1] == ["compose"]:
        rest = rest[1:].behind("-f --file -p --project-name --profile --env-file")
    if rest[:1] in (["run"], ["exec"], ["create"]):
        return _contained(state, call._replace(args=rest[1:]))
    listed = rest[:1] in (["ps"], ["images"]) or rest[:2] == ["image", "ls"]
    if listed and not rest.has("f", "--filter"):
        return Output(None, "", _ALL)
    state.outputs(name, rest)
    if rest[:1] == ["pull"]:
        state.note("fact.installs", " ".join(rest[1:].operands()[:2]))
    elif any(arg.what == _ALL for arg in rest):
        state.note("danger.machine", shown(name, rest))
    elif rest[:1] == ["cp"]:
        for path in rest[1:].operands()[-1:]:
            if ":" not in path:
                state.writes(path)
    return UNSEEN


def _contained(state: ShellState, call: Call) -> Output:
    name, args = call.name, call.args
    is_host_right = pattern("host_rights").fullmatch
    for arg, following in zip(args, [*args[1:], Arg("")]):
        match = pattern("shares").fullmatch(arg)
        shared = (match[1] or following) if match else ""
        if shared and _is_host(state, shared):
            state.note("danger.root", shown(name, ["-v", shared]))
        if is_host_right(arg) or is_host_right(f"{arg} {following}"):
            state.note("danger.root", shown(name, [arg]))
    image, *command = args.behind(call.valued) or [Arg("")]
    named = re.sub(r"(?:-cli)?(?:[:@].*)?\Z", "", image.rpartition("/")[2])
    if state.recognise(named, command):  # the image is what it is called by
        return UNSEEN
    return _elsewhere(state, Args(command), call.given)


def _elsewhere(state: ShellState, command: Args, given: Output) -> Output:
    """A command that runs where the paths are not ours."""
    before, state.foreign = state.foreign, True
    out = state.call(command, given) if command else UNSEEN
    state.foreign = before
    return out


def _is_host(state: ShellState, shared: str) -> bool:
    source = re.search(r"(?:source|src)=([^,]+)", shared)
    path = source[1] if source else shared.partition(":")[0]
    path = path.rstrip("/") or "/"
    is_part = pattern("system_part").fullmatch(path) is not None
    return is_part or path in ("~", state.rules.home)


def kubectl(state: ShellState, call: Call) -> Output:
    args, given = call.args, call.given
    state.recognise("kubectl", args)
    if any(pattern("pod_rights").search(arg[:2000]) for arg in args):
        state.note("danger.root", call.shown)
    file = args.value_of("-f", "--filename")
    if file is not None and (HOST.match(file) or (file == "-" and given.origin)):
        state.note("danger.downloaded", file if HOST.match(file) else given.what)
    state.look(args)
    if "--" in args:
        return _elsewhere(state, args.behind_dashes(), given)
    return printed_secret(call.name, args) or UNSEEN


# Fetching and sending.


def download(state: ShellState, call: Call) -> Output:
    """curl, wget: hosts, files written, what is sent."""
    args = call.args
    texts = [arg for arg in args if HOST.search(arg[:2000])] or call.operands[:3]
    hosts = list(filter(None, map(_host, texts)))
    for host in hosts:
        state.note("fact.host", host)
    what = hosts[0] if hosts else "…"
    origin = Output(None, DOWNLOADED, what)
    _sent(state, args, call.given, what)
    if args:
        _asked_there(state, args, what, texts)
    for path in _saved(call.name, args, texts):
        state.writes(path)
        state.keep(path, origin)
    return origin


def _host(text: str) -> str:
    match = HOST.search(text[:2000]) or pattern("bare_host").match(text[:2000])
    return match[1].replace(UNKNOWN, "…") if match else ""


def _saved(name: str, args: Args, texts: list[Arg]) -> list[str]:
    """The files that what is fetched becomes."""
    to = ("-O", "--output-document") if name.startswith("wget") else ("-o", "--output")
    target = args.value_of(*to) or "-"
    if target != "-":
        return [target]
    if name == "curl" and not args.has("O", "--remote-name", "--remote-name-all"):
        return []
    folder = args.value_of("-P", "--directory-prefix", "--output-dir") or "."
    paths = (re.split(r"[?#]", text)[0].rstrip("/") for text in texts)
    return [f"{folder}/{path.rpartition('/')[2] or 'index.html'}" for path in paths]


def _asked_there(state: ShellState, args: Args, host: str, texts: list[Arg]) -> None:
    """Something is deleted there, or posted to a service that moves money."""
    method = (args.value_of("-X", "--request", "--method") or args[0]).upper()
    if method == "DELETE" and (
        host not in LOCAL
        or any(pattern("all_of_it").search(text[:2000]) for text in texts)
    ):
        state.note("danger.data", shown("DELETE", texts))
    posts = method in ("POST", "PUT") or args.has("dF", "--json", "--data")
    asks = args.has("G", "--get") or method == "GET"
    for text in texts if posts and not asks else ():
        if pattern("pays").search(text[:2000]):
            state.note("danger.money", text)


def _sent(state: ShellState, args: Args, given: Output, host: str) -> None:
    """Files among what is sent: keys must not leave silently."""
    state.leaks(given, host)
    files = pattern("sent_file").finditer
    paths = [match[1] for arg in args for match in files(arg[:4096])]
    paths += [path for path in map(args.value_of, words("file options")) if path]
    for path in paths:
        state.leaks(state.reads(path) or UNSEEN, host)
    for before, arg in zip(["", *args], args):
        if arg.origin == SECRET and not _is_its_own(before, arg, host):
            state.leaks(arg, host)


def _is_its_own(option: str, arg: Arg, host: str) -> bool:
    """A token in a header is what it is for, and so is one sent to its own vendor."""
    if not arg.what.startswith("$"):
        return False
    vendor = pattern("vendor_of_key").match(arg.what)
    name = vendor[1] if vendor else "API"
    name = {"GH": "GITHUB", "AWS": "AMAZON"}.get(name, name)
    its_own = name in words("anybodys") or name.lower() in host.lower()
    return its_own or option in words("token options") or option.startswith("--header")


def netcat(state: ShellState, call: Call) -> Output:
    args, rest = call.args, call.operands
    if rest:
        state.note("fact.host", rest[0])
        state.leaks(call.given, rest[0])
    text = args.value_of("-e", "-c", "--exec", "--sh-exec")
    runs = [arg for arg in args if re.match(r"(?:exec|system|shell):", arg, re.I)]
    listening = filter(pattern("listens").match, args)
    if not all(map(pattern("bound_here").search, listening)):
        state.note("danger.tunnel", call.shown)
    if text is not None or runs or call.given.origin == SHELL:
        state.note("danger.downloaded", call.shown)
    if text is not None:
        state.run(text)
    return Output(None, DOWNLOADED, rest[0] if rest else "nc")


# git: what is pushed, given up, rewritten, and which settings run programs.


def git(state: ShellState, call: Call) -> Output:
    before = state.cwd
    rest = call.args.behind(call.valued)
    own = call.args[: len(call.args) - len(rest)]
    for option, value in zip(own, own[1:]):
        if option == "-C":
            cd(state, Call("cd", Args([value])))
        elif option == "-c":
            _git_setting(state, value)
    out = UNSEEN
    if rest and not {"--dry-run", "--help"} & set(rest):
        inner = Call(f"git {rest[0]}", rest[1:], call.given)
        out = _GIT.get(rest[0], _git_plain)(state, inner) or UNSEEN
    state.cwd = before
    top = rest == ["rev-parse", "--show-toplevel"]
    return Output(state.rules.project) if top else Output(None, *out.trace)


def _git_setting(state: ShellState, setting: str) -> None:
    name, _, text = setting.partition("=")
    if text and pattern("git_runs").search(name):
        state.note("danger.permissions", f"git -c {name}")
        state.run(Arg(text.lstrip("!")))


def _git_push(state: ShellState, call: Call) -> None:
    rest = call.args.operands("-o --push-option --receive-pack --exec --repo")
    told = shown(call.name, [a for a in call.args if not a.startswith("--receive")])
    if "-n" in call.args:
        return
    if any(map(pattern("deploys").fullmatch, rest[:1])):
        state.note("danger.publish", told)
    refs = any(ref.startswith(("+", ":")) for ref in rest[1:])
    if refs or any(map(pattern("forces").fullmatch, call.args)):
        state.note("danger.force", told)
    else:
        state.note("fact.push", " ".join(rest[:2]))
    for arg in rest[:1]:
        state.visit(arg)


def _git_puts_back(state: ShellState, call: Call) -> None:
    """checkout, restore: what was changed in some files is gone."""
    args, force = call.args, False
    if call.name == "git restore":
        kept = args.has("S", "--staged") and not args.has("W", "--worktree")
        files = Args() if kept else args.operands("-s --source")
    else:
        files, force = args.behind_dashes(), args.has("f", "--force")
        if "--" not in args:  # all other words may be those of a branch
            files = Args(arg for arg in args if arg in (".", "*", ":/"))
    if force or {".", "*", "./", ":/", "/"} & set(files):
        state.note("danger.wipe", call.shown)
    elif files:
        state.note("fact.discards", " ".join(files[:3]))
    for path in files:
        state.rewrites(path)


def _git_each(state: ShellState, call: Call) -> None:
    """submodule foreach, bisect run: the rest is a command."""
    rest = call.args[:2].operands()
    if rest[:1] in (["foreach"], ["run"]):
        tail = [arg for arg in call.args[1:] if arg != "--recursive"]
        state.run(tail[0]) if len(tail) == 1 else state.call(tail, NOTHING)
    elif rest[:1] == ["deinit"] and call.args.has("f", "--force"):
        state.note("danger.wipe", call.shown)
    else:
        state.look(call.args)


def _git_config(state: ShellState, call: Call) -> None:
    """A setting is changed, for this project or for all of them."""
    args = call.args
    rest = args.operands("-f --file --type --default")
    rest = rest[rest[:1] in (["set"], ["add"]) :]
    everywhere = args.has("", "--global", "--system")
    if everywhere and args.has("e", "--edit"):
        state.note("danger.startup", call.shown)
    changes = args.has("", "--unset", "--unset-all", "--add", "--replace-all")
    if rest[:1] in (["get"], ["list"]) or not (changes or len(rest) > 1):
        return
    name = "".join(rest[:1])
    runs = pattern("git_runs").search(name)
    if everywhere and not pattern("taste").match(name):
        state.note("danger.startup", call.shown)
    elif runs or name.lower().endswith("insteadof"):
        state.note("danger.permissions", call.shown)
    for text in rest[1:2] if runs else ():
        state.run(Arg(text.lstrip("!")))


def _git_clone(state: ShellState, call: Call) -> None:
    rest = call.args.operands(
        "-b --branch --depth -o -c --config --reference --filter -j --jobs -u"
    )
    for option, value in zip(call.args, call.args[1:]):
        if option in ("-c", "--config"):
            _git_setting(state, value)
        elif option in ("-u", "--upload-pack"):
            state.run(value)
    if rest:
        state.visit(rest[0])
        host = SSH_HOST.fullmatch(rest[0])
        if host and "://" not in rest[0]:
            state.note("fact.host", host[1])
        leaf = re.sub(r"\.git\Z", "", rest[0].rstrip("/").rpartition("/")[2])
        where = rest[1] if len(rest) > 1 else leaf
        state.brings(where, rest[0])
        target = state.place(where)
        if target.kind == OUTSIDE:
            state.note("fact.outside", state.show(target))


@cache
def _wiping() -> dict[str, str]:
    """Commands of git, and the words with which they wipe something out."""
    rows = (
        line.partition(": ") for line in sections("danger/patterns.txt")["git wipes"]
    )
    return {f"git {name}": wiping for name, _, wiping in rows}


def _git_plain(state: ShellState, call: Call) -> None:
    """Anything else: it may wipe, by the table; an option may name a program."""
    wiping = _wiping().get(call.name)
    if wiping is not None and re.search(wiping, " ".join(call.args)):
        state.note("danger.wipe", call.shown)
    for match in filter(None, map(pattern("run_options").fullmatch, call.args)):
        state.run(match[1] or match[2] or match[3])
    for option, text in zip(call.args, call.args[1:]):
        if re.fullmatch(r"-x|--extcmd|--upload-pack|--exec|--\w+-filter", option):
            state.run(text)
    if wiping is None:
        state.look(call.args)


def _git_rm(state: ShellState, call: Call) -> None:
    if "--cached" not in call.args:
        deletes(state, call)


_GIT: dict[str, Program] = {
    "push": _git_push,
    **dict.fromkeys(("checkout", "restore"), _git_puts_back),
    "rm": _git_rm,
    "mv": changes,
    **dict.fromkeys(("submodule", "bisect"), _git_each),
    "config": _git_config,
    "clone": _git_clone,
    "send-email": by_words,
}
