"""Programs that read, write, move and delete files, and what they send on.

Most functions are columns of `commands.txt`: what is done with a program's operands.
"""

from __future__ import annotations

import re

from feishuperm.danger.command_table import lists, pattern, words
from feishuperm.danger.interpreter import (
    DECODED,
    DOWNLOADED,
    NOTHING,
    SECRET,
    UNSEEN,
    Arg,
    Args,
    Call,
    Output,
    ShellState,
    printed_secret,
    shown,
)
from feishuperm.danger.paths import OUTSIDE, TEMPORARY, UNSURE

SSH_HOST = re.compile(r"(?:[\w.-]+@)?([A-Za-z0-9][\w.-]*):(?!//)(.*)", re.DOTALL)


def deletes(state: ShellState, call: Call) -> None:
    recursive = call.args.has("rR", "--recursive", "--no-preserve-root")
    for path in call.operands:
        state.deletes(path, recursive or path.origin != "")


def desktop(state: ShellState, call: Call) -> Output:
    """gio trash: the first word says what is done."""
    if call.args[:1] in (["trash"], ["remove"]):
        deletes(state, call._replace(args=call.args[1:]))
        return NOTHING
    state.look(call.args)
    return UNSEEN


def shreds(state: ShellState, call: Call) -> None:
    for path in call.operands:
        place = state.place(path)
        if place.kind == TEMPORARY:
            state.note("fact.deletes", state.show(place))
        else:
            key = "danger.device" if place.device else "danger.wipe"
            state.note(key, shown("shred", [state.show(place)]))


def truncates(state: ShellState, call: Call) -> None:
    empties = call.args.value_of("-s", "--size") == "0"
    for path in call.operands:
        state.writes(path)
        if state.place(path).kind not in (OUTSIDE, TEMPORARY) and empties:
            state.note("danger.wipe", shown("truncate", [path]))


def makes(state: ShellState, call: Call) -> None:
    """Something new; outside of the project a fact."""
    for path in call.operands:
        place = state.place(path)
        if place.protected and place.protected != "danger.permissions":
            state.note(place.protected, state.show(place))
        elif place.kind == OUTSIDE:
            state.note("fact.outside", state.show(place))


def writes(state: ShellState, call: Call) -> Output:
    """tee: what flows in is written, and flows on."""
    for path in call.operands:
        state.writes(path, appends=call.args.has("a", "--append"))
        state.keep(path, call.given)
    return call.given


def patches(state: ShellState, call: Call) -> None:
    folder = call.args.value_of("-d", "--directory")
    if "--dry-run" not in call.args:
        in_place(state, call.operands[:1] if folder is None else Args([folder]))


def in_place(state: ShellState, files: Args) -> None:
    for path in files:
        state.writes(path)


def changes(state: ShellState, call: Call) -> None:
    in_place(state, call.operands)


def rewrites(state: ShellState, call: Call) -> Output:
    """yq -i, prettier --write: the files among the arguments are changed."""
    if call.args.has("iw", "--inplace", "--in-place", "--write"):
        for path in call.operands:
            state.rewrites(path)
    return state.look(call.args).mixed(call.given)


def keygen(state: ShellState, call: Call) -> None:
    path = call.args.value_of("-f")
    state.recognise(call.name, call.args)
    if path is not None and not call.args.has("lyFBe"):
        state.writes(path)


def dd(state: ShellState, call: Call) -> Output:
    for arg in call.args:
        name, _, value = arg.partition("=")
        if name == "of":
            state.writes(value)
        elif name == "if":
            state.reads(value)
    return call.given


# Moving and copying: the last word is written.


def moves(state: ShellState, call: Call) -> Output:
    rest = call.operands
    if call.name == "rsync" and call.args.has("n", "--dry-run"):
        return state.look(rest)
    target = None
    if call.name not in ("rsync", "scp"):
        target = call.args.value_of("-t", "--target-directory")
    if target is None and len(rest) > 1:
        target, rest = rest[-1], rest[:-1]
    origin = UNSEEN
    for path in rest:
        origin = _moved_from(state, call.name, path) or origin
    if target is not None:
        _moved_to(state, call.name, target, origin, rest)
    if call.name == "rsync":
        _synchronise(state, call.args, target)
    return NOTHING


def _remote(name: str, path: Arg) -> str:
    """The host of a path that leads to another machine."""
    remote = SSH_HOST.fullmatch(path) if name in ("rsync", "scp") else None
    return remote[1] if remote else ""


def _moved_from(state: ShellState, name: str, path: Arg) -> Output | None:
    if _remote(name, path):
        state.note("fact.host", _remote(name, path))
        return None
    if name == "mv":
        place = state.place(path)
        if place.kind == OUTSIDE or place.protected:
            state.deletes(path)
        elif place.whole or place.path.endswith("/.git"):
            state.note("danger.wipe", shown("mv", [path]))
    return state.reads(path) or state.content(path)


def _moved_to(
    state: ShellState, name: str, target: Arg, origin: Output, rest: Args
) -> None:
    host = _remote(name, target)
    if host:
        state.note("fact.host", host)
        state.leaks(origin, host)
        return
    if target == "/dev/null":
        state.note("danger.wipe", shown(name, rest))
    leaf = rest[-1].rstrip("/").rpartition("/")[2] if rest else ""
    inner = f"{target.rstrip('/')}/{leaf}"
    into = not state.place(target).protected and leaf and state.place(inner).protected
    state.writes(inner if into else target)
    state.keep(target, origin)
    state.keep(inner, origin)


def _synchronise(state: ShellState, args: Args, target: Arg | None) -> None:
    if target is not None and any(arg.startswith("--del") for arg in args):
        if SSH_HOST.fullmatch(target):
            state.note("danger.delete", target)
        else:
            state.deletes(target.rstrip("/") or "/", recursive=True)
    state.run_value(args, "-e", "--rsh")
    there = args.value_of("--rsync-path") or ""
    if re.search(r"[;&|]", there):
        state.note("danger.inject", f"--rsync-path {there}")


# Reading: what is read flows on.


def reads(state: ShellState, call: Call) -> Output:
    paths = call.args.operands("-n -c -f -d -A -B -C -m -e")
    if not paths or paths == ["-"]:
        return call.given
    out = UNSEEN
    for path in paths:
        out = (
            state.reads(path)
            or state.content(path)
            or (Output(None, *path.trace) if path.origin else out)
        )
        if path.endswith(".pid"):  # a number that stands for a process
            out = out._replace(what=path.rpartition("/")[2][:-4])
    return out


def ls(state: ShellState, call: Call) -> Output:
    """What a pattern elsewhere stands for is told with its folder."""
    state.look(call.args)
    paths = (arg for arg in call.operands if "*" in arg)
    elsewhere = (path for path in paths if state.place(path).kind == OUTSIDE)
    return Output("\n".join(elsewhere) or None)


def looks_through(state: ShellState, call: Call) -> Output:
    """Filters: paths and what flows through."""
    given, is_grep = call.given, call.name in ("grep", "egrep", "rg")
    if any(map(pattern("sets_install").search, call.args)):
        state.note("danger.packages", call.shown)
    out = state.look(call.args)
    if any("feishuperm" in arg for arg in call.args):
        out = Output(None, out.origin, "feishuperm")
    if is_grep and not given.origin:
        given = given._replace(what="")  # some of it is not all of it
    keeps = call.name in ("grep", "egrep", "sort", "uniq")
    return out.mixed(given)._replace(text=(given.text if keeps else None) or None)


def grep(state: ShellState, call: Call) -> Output:
    """Lines of what it looks through, or with `-l` the names of files."""
    out = looks_through(state, call)
    if not call.args.has("lL", "--files-with-matches"):
        return out
    elsewhere = (p for p in call.operands[1:] if state.place(p).kind == OUTSIDE)
    return out._replace(text="\n".join(f"{path}/x*" for path in elsewhere) or None)


def sort(state: ShellState, call: Call) -> Output:
    state.outputs(call.name, call.args)
    _beside_packing(state, call)
    return looks_through(state, call)


def _sed_text(state: ShellState, text: str) -> None:
    """What a text of sed writes and runs by itself."""
    for match in pattern("sed_writes").finditer(text):
        state.writes(match[1] or match[2])
    for match in pattern("sed_runs").finditer(text):
        state.note("danger.decoded", "sed e")
        state.run(Arg((match[1] or match[3]).replace("\\", "")))


def sed(state: ShellState, call: Call) -> Output:
    args, rest = call.args, call.operands
    given = args.value_of("-e", "--expression", "-f", "--file") is not None
    files = rest if given else rest[1:]
    texts = [args.value_of("-e", "--expression") or ""] if given else rest[:1]
    for text in texts:
        _sed_text(state, text[:2000])
    if any(re.match(r"-\w*i|--in-place", arg) for arg in args):
        in_place(state, files)
        for match in pattern("sed_puts").finditer("\n".join(texts)[:20_000]):
            for path in files:
                state.holds(path, match[2])
        return NOTHING
    if not files:
        return call.given._replace(text=None)
    return reads(state, call._replace(args=files))


def awk(state: ShellState, call: Call) -> Output:
    rest = call.operands
    if call.args.value_of("-i", "--include") == "inplace":
        in_place(state, rest[2:])
        rest = rest[1:]
    for text in rest[:1]:
        for match in pattern("awk_runs").finditer(text[:20_000]):
            state.run(Arg(match[1] or match[2] or match[3] or ""), given=call.given)
        for match in pattern("awk_writes").finditer(text[:20_000]):
            state.writes(match[1])
    given = call.given._replace(text=None)
    return reads(state, call._replace(args=rest[1:], given=given))


# Who may do what with a file.


def opens(state: ShellState, call: Call) -> None:
    """chmod, chown, chgrp: others may do with a file what they could not."""
    less = list(filter(pattern("takes_rights").fullmatch, call.args))  # `-w`: no option
    rest = [*less[:1], *call.operands]
    mode = "".join(rest[:1]) if call.name == "chmod" else ""
    recursive = call.args.has("R", "--recursive")
    for_all = recursive and pattern("rights_for_all").fullmatch(mode)
    if for_all or pattern("set_id").fullmatch(mode):
        state.note("danger.permissions", call.shown)
    for path in rest[1:]:
        place = state.place(path)
        told = shown(call.name, [mode, state.show(place)])
        if place.protected and not pattern("rights_of_one").fullmatch(mode):
            state.note(place.protected, told)
        elif place.kind == OUTSIDE or (recursive and place.kind == UNSURE):
            state.note("danger.permissions", told)


def unlocks(state: ShellState, call: Call) -> None:
    """chattr, chflags: whether a file may be changed at all."""
    rest = [arg for arg in call.operands if not re.fullmatch(r"[+=]\w+", arg)]
    for path in rest[call.name == "chflags" :]:
        place = state.place(path)
        if place.kind == OUTSIDE:
            told = shown(call.name, [state.show(place)])
            state.note("danger.permissions", told)


# Archives, and what is coded.


def _archive(name: str, args: Args) -> str:
    """What is made; by tar: `czf x.tgz`, `-czf x.tgz`, `-f x.tgz`."""
    if name != "tar":
        return "".join(args.operands()[:1])
    bundled = re.fullmatch(r"-?\w*f", args[0]) if args else None
    file: str | None = (
        args[1] if bundled and args[1:] else args.value_of("-f", "--file")
    )
    return file or "-"


def unpacks(state: ShellState, call: Call) -> Output:
    """tar, unzip: into a folder; an archive may bring any path."""
    into = ["-o"] if call.name == "7z" else ["-C", "-d", "--directory"]
    target = call.args.value_of(*into)
    place = state.place(target or ".")
    if target is not None and place.kind == OUTSIDE:
        state.note("danger.overwrite", state.show(place))
    _beside_packing(state, call)
    archives = Args(arg for arg in call.args if arg is not target)
    out = state.look(archives)
    if out.origin == SECRET:
        state.keep(_archive(call.name, call.args), out)
    for arg in archives.operands():
        out = state.brought(arg) or out
    out = out.mixed(call.given)
    if out.origin in (DOWNLOADED, DECODED):
        state.brings(target or ".", out.what)
    return out


def _beside_packing(state: ShellState, call: Call) -> None:
    """What tar is told to run, and whether what it packs is deleted."""
    packing = lists("packing")
    for option in packing.get(call.name, packing["tar"]):
        action = call.args.value_of(option)
        text = re.sub(r"\Aexec=", "", action or "")
        own = option == "--checkpoint-action" and text == action  # `dot`, `echo=`
        packs = "compress" in option or option == "-I"
        packs = packs and bool(pattern("compressor").match(text))
        if action is not None and not own:
            state.run(Arg(text))
            if not packs:
                state.note("danger.inject", f"{option} {text}")
    if "--remove-files" in call.args:
        for path in call.args.operands("-f -C -T -X")[1:]:
            state.deletes(path, recursive=True)


def decodes(state: ShellState, call: Call) -> Output:
    """base64 -d and its kin: what comes out was not to be read."""
    name, args = call.name, call.args
    state.recognise(name, args)
    if args[:1] == ["s_client"]:
        return sends(state, call)
    secret = printed_secret(name, args)
    if secret is not None:
        return secret
    plain = call._replace(args=args.operands())
    rest = call.given if name == "tr" else reads(state, plain)
    out = args.value_of("-out") if name == "openssl" else None
    if out is not None:
        state.writes(out)
    if name not in words("always decode") and not args.has(
        "dDr", "--decode", "--decrypt"
    ):
        return Output(None, *rest.trace)
    return Output(None, rest.origin or DECODED, rest.what or name)


def sends(state: ShellState, call: Call) -> Output:
    """Something is made known to a host: by mail, by a question to a name server."""
    out = state.look(call.args)
    host = "".join(call.args.operands()[-1:]).replace("\0", "…") or call.name
    for sent in (call.given, out, *call.args):
        state.leaks(sent, host)
    for word in (call.given.text or "").split()[:50]:  # sftp: put FILE
        state.leaks(state.reads(word) or NOTHING, host)
    return Output(None, DOWNLOADED, host)
