"""Programs that read, write, move and delete files, and what they send on."""

from __future__ import annotations

import re

from feishuperm.danger.arguments import (
    SSH_HOST,
    has,
    look,
    look_through,
    operands,
    outputs,
    recognise,
    run_value,
    value_of,
    words,
)
from feishuperm.danger.network import sends
from feishuperm.danger.places import OUTSIDE, TEMPORARY, UNSURE
from feishuperm.danger.scene import (
    DECODED,
    DOWNLOADED,
    NOTHING,
    SECRET,
    Arg,
    Args,
    Flow,
    Scene,
)
from feishuperm.danger.strangers import printed_secret

ALWAYS_DECODE = (
    *("uudecode", "gunzip", "zcat", "bzcat", "xzcat", "unxz", "rev", "tr", "bunzip2"),
    *("unlzma", "zstdcat", "unzstd", "lz4cat", "gzcat"),
)
DECODERS = (
    *("base64", "base32", "basenc", "xxd", "openssl", "gpg", "gzip", "bzip2", "xz"),
    *("zstd", "lz4", "brotli", *ALWAYS_DECODE),
)


def rm(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    recursive = has(args, "rR", "--recursive", "--no-preserve-root")
    for path in operands(args):
        scene.deletes(path, recursive or path.origin != "")
    return NOTHING


def ls(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """What a pattern elsewhere stands for is told with its folder."""
    look(scene, args)
    paths = [arg for arg in operands(args, "-I") if "*" in arg]
    return Flow("\n".join(p for p in paths if scene.place(p).kind == OUTSIDE) or None)


def desktop(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """gio trash: the first word says what is done."""
    if args[:1] in (["trash"], ["remove"]):
        return rm(scene, name, args[1:], flow)
    look(scene, args)
    return Flow()


def shred(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    for path in operands(args, "-n -s --iterations --size"):
        place = scene.place(path)
        if place.kind == TEMPORARY:
            scene.note("fact.deletes", scene.show(place))
        else:
            key = "danger.device" if place.device else "danger.wipe"
            scene.note(key, words("shred", [scene.show(place)]))
    return NOTHING


def truncate(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    for path in operands(args, "-s -r --size --reference"):
        scene.writes(path)
        size = value_of(args, "-s", "--size") or ""
        if scene.place(path).kind not in (OUTSIDE, TEMPORARY) and size == "0":
            scene.note("danger.wipe", words("truncate", [path]))
    return NOTHING


_MOVE_VALUED = (
    "-t --target-directory -S --suffix -m -o -g --mode -e --exclude --include -i -P -p"
    " -F -l"
)
_REMOTE = ("rsync", "scp")


def move(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """cp, mv, ln, install, rsync, scp: the last word is written."""
    rest = operands(args, _MOVE_VALUED)
    if name == "rsync" and has(args, "n", "--dry-run"):
        return look(scene, rest)
    target = None
    if name not in _REMOTE:
        target = value_of(args, "-t", "--target-directory")
    if target is None and len(rest) > 1:
        target, rest = rest[-1], rest[:-1]
    origin = Flow()
    for path in rest:
        origin = moved_from(scene, name, path) or origin
    if target is not None:
        moved_to(scene, name, target, origin, rest)
    if name == "rsync":
        _synchronise(scene, args, target)
    return NOTHING


def patch(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    folder = value_of(args, "-d", "--directory")
    if "--dry-run" not in args:
        in_place(scene, [folder] if folder is not None else operands(args, "-p -i")[:1])
    return NOTHING


def _synchronise(scene: Scene, args: Args, target: Arg | None) -> None:
    if target is not None and any(arg.startswith("--del") for arg in args):
        remote = SSH_HOST.fullmatch(target)
        if remote:
            scene.note("danger.delete", target)
        else:
            scene.deletes(target.rstrip("/") or "/", recursive=True)
    run_value(scene, args, "-e", "--rsh")
    there = value_of(args, "--rsync-path") or ""
    if re.search(r"[;&|]", there):
        scene.note("danger.inject", f"--rsync-path {there}")


def moved_from(scene: Scene, name: str, path: Arg) -> Flow | None:
    remote = SSH_HOST.fullmatch(path) if name in ("rsync", "scp") else None
    if remote:
        scene.note("fact.host", remote[1])
        return None
    if name == "mv":
        place = scene.place(path)
        if place.kind == OUTSIDE or place.protected:
            scene.deletes(path)
        elif place.whole or place.path.endswith("/.git"):
            scene.note("danger.wipe", words("mv", [path]))
    return scene.reads(path) or scene.content(path)


def moved_to(scene: Scene, name: str, target: Arg, origin: Flow, rest: Args) -> None:
    remote = SSH_HOST.fullmatch(target) if name in ("rsync", "scp") else None
    if remote:
        scene.note("fact.host", remote[1])
        scene.leaks(origin, remote[1])
        return
    place = scene.place(target)
    if target == "/dev/null":
        scene.note("danger.wipe", words(name, rest))
    leaf = rest[-1].rstrip("/").rpartition("/")[2] if rest else ""
    inner = f"{target.rstrip('/')}/{leaf}"
    if not place.protected and leaf and scene.place(inner).protected:
        scene.writes(inner)
    else:
        scene.writes(target)
    scene.keep(target, origin)
    scene.keep(inner, origin)


def dd(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    for arg in args:
        name, _, value = arg.partition("=")
        if name == "of":
            scene.writes(value)
        elif name == "if":
            scene.reads(value)
    return flow


def tee(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    for path in operands(args):
        scene.writes(path, appends=has(args, "a", "--append"))
        scene.keep(path, flow)
    return flow


def reader(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """cat and its kin: what they read flows on."""
    rest = operands(args, "-n -c -f -d -A -B -C -m -e")
    if not rest or rest == ["-"]:
        return flow
    out = Flow()
    for path in rest:
        out = (
            scene.reads(path)
            or scene.content(path)
            or (Flow(None, *path.trace) if path.origin else out)
        )
        if path.endswith(".pid"):  # a number that stands for a process
            out = out._replace(what=path.rpartition("/")[2][:-4])
    return out


_SED_RUNS = re.compile(
    r"(?:^|[;{\n])[ \t]{0,9}(?:\d+|\$|/[^/\n]{0,99}/)?[ \t]{0,9}e[ \t]+(\S[^\n]*)"
    r"|s([/|#,@])(?:\\.|(?!\2)[^\\\n])*\2((?:\\.|(?!\2)[^\\\n])*)\2[gipIm0-9]*e"
)


_SED_WRITES = re.compile(r"(?:^|[;\n}])\s*\d*[wW]\s+([^\s;]+)|/w\s+([^\s;]+)\Z")
_SED_PUTS = re.compile(r"s([/|#,@])(?:\\.|(?!\1)[^\\\n])*\1((?:\\.|(?!\1)[^\\\n])*)\1")


def _sed_text(scene: Scene, text: str) -> None:
    """What a text of sed writes and runs by itself."""
    for match in _SED_WRITES.finditer(text):
        scene.writes(match[1] or match[2])
    for match in _SED_RUNS.finditer(text):
        scene.note("danger.decoded", "sed e")
        scene.run(Arg((match[1] or match[3]).replace("\\", "")))


def sed(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(args, "-e -f --expression --file -l")
    given = value_of(args, "-e", "--expression", "-f", "--file") is not None
    files = rest if given else rest[1:]
    texts = [value_of(args, "-e", "--expression") or Arg("")] if given else rest[:1]
    for text in texts:
        _sed_text(scene, text[:2000])
    if any(re.match(r"-\w*i|--in-place", arg) for arg in args):
        in_place(scene, files)
        for match in _SED_PUTS.finditer("\n".join(texts)[:20_000]):
            for path in files:
                scene.holds(path, match[2])
        return NOTHING
    return reader(scene, name, files, flow) if files else flow._replace(text=None)


def in_place(scene: Scene, files: Args) -> None:
    for path in files:
        scene.writes(path)


_AWK_RUNS = re.compile(
    r"""system\s*\(\s*"([^"]*)"|\|\s*"([^"]*)"|"([^"]*)"\s*\|\s*getline"""
)

_AWK_WRITES = re.compile(r"""(?:print|printf)[^;}]{0,300}>\s*"([^"]+)\"""")


def awk(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(args, "-F -v -f --field-separator --assign")
    if value_of(args, "-i", "--include") == "inplace":
        in_place(scene, rest[2:])
        rest = rest[1:]
    for text in rest[:1]:
        for match in _AWK_RUNS.finditer(text[:20_000]):
            scene.run(Arg(match[1] or match[2] or match[3] or ""), given=flow)
        for match in _AWK_WRITES.finditer(text[:20_000]):
            scene.writes(match[1])
    return reader(scene, name, rest[1:], flow._replace(text=None))


_SET_ID = re.compile(r"(?:[^,]*,)*[ugoa]*[+=]\w*s\w*(?:,.*)?|0?[2467]\d{3}")
_LESS = re.compile(r"[ugoa]*-[rwxst]+")
_FOR_ALL = re.compile(r"0?777|a?[+=]\w*w\w*|[ug]*o[ug]*[+=]\w*w\w*")
_PRIVATE = re.compile(r"0?[4-7]00")


def change_mode(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """chmod: who may do what with a file."""
    less = [arg for arg in args if _LESS.fullmatch(arg)]  # `-w` is no option
    rest = [*less[:1], *operands(args, "--reference")]
    mode = "".join(rest[:1])
    recursive = has(args, "R", "--recursive")
    if _SET_ID.fullmatch(mode) or (recursive and _FOR_ALL.fullmatch(mode)):
        scene.note("danger.permissions", words(name, args))
    for path in rest[1:]:
        _opened(scene, name, path, mode, recursive)
    return NOTHING


def change_owner(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """chown, chgrp: whose a file is."""
    for path in operands(args, "--reference")[1:]:
        _opened(scene, name, path, "", has(args, "R", "--recursive"))
    return NOTHING


def unlock(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """chattr, chflags: whether a file may be changed at all."""
    flags = 1 if name == "chflags" else 0
    rest = [arg for arg in operands(args) if not re.fullmatch(r"[+=]\w+", arg)]
    for path in rest[flags:]:
        place = scene.place(path)
        if place.kind == OUTSIDE:
            scene.note("danger.permissions", words(name, [scene.show(place)]))
    return NOTHING


def _opened(scene: Scene, name: str, path: Arg, mode: str, recursive: bool) -> None:
    """Others may do with a file what they could not."""
    place = scene.place(path)
    shown = words(name, [mode, scene.show(place)])
    if place.protected and not _PRIVATE.fullmatch(mode):
        scene.note(place.protected, shown)
    elif place.kind == OUTSIDE or (recursive and place.kind == UNSURE):
        scene.note("danger.permissions", shown)


def makes(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """mkdir, touch: something new; outside of the project a fact."""
    for path in operands(args, "-m -t -d -r --mode --date --reference"):
        place = scene.place(path)
        if place.protected and place.protected != "danger.permissions":
            scene.note(place.protected, scene.show(place))
        elif place.kind == OUTSIDE:
            scene.note("fact.outside", scene.show(place))
    return NOTHING


def _archive(name: str, args: Args) -> str:
    """What is made; by tar: `czf x.tgz`, `-czf x.tgz`, `-f x.tgz`."""
    if name != "tar":
        return "".join(operands(args)[:1])
    bundled = re.fullmatch(r"-?\w*f", args[0]) if args else None
    return args[1] if bundled and args[1:] else value_of(args, "-f", "--file") or "-"


def unpack(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """tar, unzip: into a folder; an archive may bring any path."""
    target = value_of(args, *(["-o"] if name == "7z" else ["-C", "-d", "--directory"]))
    place = scene.place(target or ".")
    if target is not None and place.kind == OUTSIDE:
        scene.note("danger.overwrite", scene.show(place))
    _beside_packing(scene, name, args)
    archives = [arg for arg in args if arg is not target]
    out = look(scene, archives)
    if out.origin == SECRET:
        scene.keep(_archive(name, args), out)
    for arg in operands(archives):
        out = scene.brought(arg) or out
    out = out.mixed(flow)
    if out.origin in (DOWNLOADED, DECODED):
        scene.brings(target or ".", out.what)
    return out


# Options with a program in them.
_PACKING = {
    "tar": ("--checkpoint-action", "--to-command", "--use-compress-program", "-I"),
    "zip": ("-TT", "--unzip-command"),
    "sort": ("--compress-program",),
    **dict.fromkeys(("unzip", "7z", "cpio"), ()),
}
_COMPRESSOR = re.compile(
    r"(?:/usr/(?:local/)?bin/|/bin/)?(?:p?i?x?gzip|pigz|p?bzip[23]?|lbzip2|p?xz|pixz|zstd"
    r"|zstdmt|lz4|lzma|lzop|brotli|compress)\b"
)


def sort(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    outputs(scene, name, args)
    _beside_packing(scene, name, args)
    return look_through(scene, name, args, flow)


def _beside_packing(scene: Scene, name: str, args: Args) -> None:
    """What tar is told to run, and whether what it packs is deleted."""
    for option in _PACKING.get(name, _PACKING["tar"]):
        action = value_of(args, option)
        text = re.sub(r"\Aexec=", "", action or "")
        own = option == "--checkpoint-action" and text == action  # `dot`, `echo=`
        packs = "compress" in option or option == "-I"
        packs = packs and bool(_COMPRESSOR.match(text))
        if action is not None and not own:
            scene.run(Arg(text))
            if not packs:
                scene.note("danger.inject", f"{option} {text}")
    if "--remove-files" in args:
        for path in operands(args, "-f -C -T -X")[1:]:
            scene.deletes(path, recursive=True)


def in_place_option(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """yq -i, prettier --write: the files among the arguments are changed."""
    if has(args, "iw", "--inplace", "--in-place", "--write"):
        for path in operands(args):
            scene.rewrites(path)
    return look(scene, args).mixed(flow)


def keygen(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    path = value_of(args, "-f")
    if "-R" in args:
        scene.note("danger.keys", words(name, args))
    if path is not None and not has(args, "lyFBe"):
        scene.writes(path)
    return NOTHING


def decoder(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """base64 -d and its kin: what comes out was not to be read."""
    recognise(scene, name, args)
    if args[:1] == ["s_client"]:
        return sends(scene, name, args, flow)
    secret = printed_secret(name, args)
    if secret is not None:
        return secret
    rest = flow if name == "tr" else reader(scene, name, operands(args), flow)
    out = value_of(args, "-out") if name == "openssl" else None
    if out is not None:
        scene.writes(out)
    if name not in ALWAYS_DECODE and not has(args, "dDr", "--decode", "--decrypt"):
        return Flow(None, *rest.trace)
    return Flow(None, rest.origin or DECODED, rest.what or name)
