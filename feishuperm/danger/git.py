"""git: what is pushed, given up, rewritten, and which settings run programs."""

from __future__ import annotations

import re

from feishuperm.danger.arguments import (
    SSH_HOST,
    behind,
    has,
    look,
    operands,
    visit,
    words,
)
from feishuperm.danger.builtins import cd
from feishuperm.danger.places import OUTSIDE
from feishuperm.danger.scene import NOTHING, Arg, Args, Flow, Program, Scene
from feishuperm.danger.strangers import by_words


def git(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    before = scene.cwd
    for place, arg in enumerate(args):
        if arg == "-C" and place + 1 < len(args):
            cd(scene, "cd", [args[place + 1]], flow)
        if arg == "-c" and place + 1 < len(args):
            _git_setting(scene, args[place + 1])
        if not arg.startswith("-") and args[place - 1] not in ("-C", "-c"):
            break
    rest = behind(args, "-C -c --git-dir --work-tree --namespace --exec-path")
    out = Flow()
    if rest:
        action = _GIT.get(rest[0], git_plain)
        if not {"--dry-run", "--help"} & set(rest):
            out = action(scene, rest[0], rest[1:], flow)
    scene.cwd = before
    top = rest == ["rev-parse", "--show-toplevel"]
    return Flow(scene.ground.project) if top else Flow(None, out.origin, out.what)


def _git_setting(scene: Scene, setting: str) -> None:
    """Some settings are commands, or name programs."""
    name, _, text = setting.partition("=")
    if (
        re.search(
            r"hookspath|sshcommand|fsmonitor|editor|pager|askpass|helper|proxy|alias|cmd$|textconv",
            name,
            re.I,
        )
        and text
    ):
        scene.mark("danger.permissions", f"git -c {name}")
        scene.run(Arg(text.lstrip("!")))


_DEPLOYS = re.compile(r"heroku|dokku|piku|prod(?:uction)?|live|clever|scalingo|azure")


def git_push(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(args, "-o --push-option --receive-pack --exec --repo")
    shown = words("git push", [arg for arg in args if not arg.startswith("--receive")])
    if "-n" in args:
        return NOTHING
    forced = any(
        re.fullmatch(
            r"-\w*[fd]\w*|--force(?:-with-lease|-if-includes)?(?:=.*)?|--delete|--mirror|--prune",
            arg,
        )
        for arg in args
    )
    if any(_DEPLOYS.fullmatch(remote) for remote in rest[:1]):
        scene.mark("danger.publish", shown)
    if forced or any(ref.startswith(("+", ":")) for ref in rest[1:]):
        scene.mark("danger.force", shown)
    else:
        scene.fact("fact.push", " ".join(rest[:2]))
    for arg in rest[:1]:
        visit(scene, arg)
    return NOTHING


def git_checkout(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """Files are put back: what was changed in them is gone."""
    rest = [arg for arg in args if not arg.startswith("-")]
    files = (
        args[args.index(Arg("--")) + 1 :]
        if "--" in args
        else [a for a in rest if a in (".", "*", ":/")]
    )
    everything = any(path in (".", "*", "./", ":/", "/") for path in files)
    if everything or has(args, "f", "--force"):
        scene.mark("danger.wipe", words("git checkout", args))
    elif files:
        scene.fact("fact.discards", " ".join(files[:3]))
    _put_back(scene, files)
    return NOTHING


def _put_back(scene: Scene, paths: Args) -> None:
    for path in paths:
        if scene.place(path).protected:
            scene.writes(path)


def git_restore(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(args, "-s --source")
    if has(args, "S", "--staged") and not has(args, "W", "--worktree"):
        return NOTHING
    if any(path in (".", "*", "./", ":/") for path in rest):
        scene.mark("danger.wipe", words("git restore", args))
    elif rest:
        scene.fact("fact.discards", " ".join(rest[:3]))
    _put_back(scene, rest)
    return NOTHING


def git_wipes(pattern: str) -> Program:
    def program(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
        if re.search(pattern, " ".join(args)):
            scene.mark("danger.wipe", words(f"git {name}", args))
        for place, arg in enumerate(args[:-1]):
            if arg in ("--exec", "-x") or re.fullmatch(r"--\w+-filter", arg):
                scene.run(args[place + 1])
        return NOTHING

    return program


def git_runs(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """submodule foreach, bisect run: the rest is a command."""
    rest = operands(args[:2])
    if rest[:1] in (["foreach"], ["run"]):
        tail = [arg for arg in args[1:] if arg != "--recursive"]
        scene.run(tail[0]) if len(tail) == 1 else scene.call(tail, NOTHING)
    elif rest[:1] in (["deinit"],) and has(args, "f", "--force"):
        scene.mark("danger.wipe", words("git submodule", args))
    else:
        look(scene, args)
    return NOTHING


def git_config(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(args, "-f --file --type --default")
    rest = rest[1:] if rest[:1] in (["set"], ["add"]) else rest
    writes = len(rest) > 1 or has(
        args, "", "--unset", "--unset-all", "--add", "--replace-all"
    )
    everywhere = has(args, "", "--global", "--system")
    if everywhere and has(args, "e", "--edit"):
        scene.mark("danger.startup", words("git config", args))
    if not writes or rest[:1] in (["get"], ["list"]):
        return NOTHING
    name = rest[0] if rest else ""
    runs = re.search(
        r"hookspath|sshcommand|fsmonitor|editor|pager|askpass|helper|proxy|alias|cmd$|insteadof|textconv|program",
        name,
        re.I,
    )
    if everywhere and not re.match(
        r"user\.|init\.defaultBranch|color\.|core\.(?:quotepath|autocrlf)|pull\.|safe\.",
        name,
    ):
        scene.mark("danger.startup", words("git config", args))
    elif runs:
        scene.mark("danger.permissions", words("git config", args))
    if len(rest) > 1 and runs:
        scene.run(Arg(rest[1].lstrip("!")))
    return NOTHING


def git_clone(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(
        args, "-b --branch --depth -o -c --config --reference --filter -j --jobs -u"
    )
    for place, arg in enumerate(args[:-1]):
        if arg in ("-c", "--config"):
            _git_setting(scene, args[place + 1])
        if arg in ("-u", "--upload-pack"):
            scene.run(args[place + 1])
    if rest:
        visit(scene, rest[0])
        host = SSH_HOST.fullmatch(rest[0])
        if host and "://" not in rest[0]:
            scene.fact("fact.host", host[1])
        leaf = re.sub(r"\.git\Z", "", rest[0].rstrip("/").rpartition("/")[2])
        where = rest[1] if len(rest) > 1 else Arg(leaf)
        scene.brings(where, rest[0])
        target = scene.place(where)
        if target.kind == OUTSIDE:
            scene.fact("fact.outside", scene.show(target))
    return NOTHING


def git_remote(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    for arg in args:
        visit(scene, arg)
    return NOTHING


def git_mv(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    _put_back(scene, operands(args))
    return NOTHING


def git_rm(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    if not has(args, "", "--cached"):
        for path in operands(args):
            scene.deletes(path, has(args, "r"))
    return NOTHING


_RUN_OPTIONS = re.compile(
    r"--(?:extcmd|upload-pack|receive-pack|exec|exec-path|open-files-in-pager)=(.+)"
    r"|-O(\w.*)|ext::(.+)",
    re.DOTALL,
)


def git_plain(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """Anything else: an option or an address may name a program."""
    for place, arg in enumerate(args):
        match = _RUN_OPTIONS.fullmatch(arg)
        if match:
            scene.run(Arg(match[1] or match[2] or match[3]))
        elif arg in ("-x", "--extcmd", "--upload-pack", "--exec") and args[place + 1 :]:
            scene.run(args[place + 1])
    look(scene, args)
    return NOTHING


_GIT: dict[str, Program] = {
    "push": git_push,
    "reset": git_wipes(r"(?:^| )--(?:hard|merge)(?: |$)"),
    "clean": git_wipes(r"^(?!(?:.* )?(?:-[a-z]*[ni]|--interactive))"),
    "checkout": git_checkout,
    "switch": git_wipes(r"(?:^| )(?:-f|--force|--discard-changes)(?: |$)"),
    "restore": git_restore,
    "rm": git_rm,
    "mv": git_mv,
    "stash": git_wipes(r"^(?:drop|clear)\b"),
    "reflog": git_wipes(r"^(?:expire|delete)\b"),
    "gc": git_wipes(r"--prune=(?:now|all)|--aggressive --prune"),
    "prune": git_wipes(""),
    "filter-branch": git_wipes(""),
    "filter-repo": git_wipes(""),
    "update-ref": git_wipes(r"-d\b"),
    "worktree": git_wipes(r"^remove\b.*(?:-f|--force)"),
    "branch": git_wipes(r"^-D (?:.* )?(?:main|master|develop|trunk|production)\b"),
    "read-tree": git_wipes(r"--reset|-u\b"),
    "checkout-index": git_wipes(r"(?:^| )(?:-\w*f|--force)"),
    "lfs": git_wipes(r"^prune\b"),
    "rebase": git_wipes(r"\A\Z(?!)"),
    "submodule": git_runs,
    "bisect": git_runs,
    "config": git_config,
    "clone": git_clone,
    "remote": git_remote,
    "send-email": by_words,
}
