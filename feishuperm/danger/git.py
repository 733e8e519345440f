"""git: what is pushed, given up, rewritten, and which settings run programs."""

from __future__ import annotations

import re

from feishuperm.danger.arguments import (
    SSH_HOST,
    behind,
    behind_dashes,
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
    rest = behind(args, "-C -c --git-dir --work-tree --namespace --exec-path")
    own = args[: len(args) - len(rest)]
    for option, value in zip(own, own[1:]):
        if option == "-C":
            cd(scene, "cd", [value], flow)
        elif option == "-c":
            _git_setting(scene, value)
    out = Flow()
    if rest and not {"--dry-run", "--help"} & set(rest):
        out = _GIT.get(rest[0], git_plain)(scene, rest[0], rest[1:], flow)
    scene.cwd = before
    top = rest == ["rev-parse", "--show-toplevel"]
    return Flow(scene.ground.project) if top else Flow(None, *out.trace)


# Settings that are commands, or name programs.
_RUNS = re.compile(
    r"hookspath|sshcommand|fsmonitor|editor|pager|askpass|helper|proxy|alias|cmd$"
    r"|textconv|program",
    re.I,
)
# Settings for all projects that are only taste.
_TASTE = re.compile(
    r"user\.|init\.defaultBranch|color\.|core\.(?:quotepath|autocrlf)|pull\.|safe\."
)


def _git_setting(scene: Scene, setting: str) -> None:
    name, _, text = setting.partition("=")
    if text and _RUNS.search(name):
        scene.note("danger.permissions", f"git -c {name}")
        scene.run(Arg(text.lstrip("!")))


_DEPLOYS = re.compile(r"heroku|dokku|piku|prod(?:uction)?|live|clever|scalingo|azure")
_FORCES = re.compile(
    r"-\w*[fd]\w*|--force(?:-with-lease|-if-includes)?(?:=.*)?|--delete|--mirror|--prune"
)


def git_push(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(args, "-o --push-option --receive-pack --exec --repo")
    shown = words("git push", [arg for arg in args if not arg.startswith("--receive")])
    if "-n" in args:
        return NOTHING
    if any(map(_DEPLOYS.fullmatch, rest[:1])):
        scene.note("danger.publish", shown)
    if any(map(_FORCES.fullmatch, args)) or any(
        ref.startswith(("+", ":")) for ref in rest[1:]
    ):
        scene.note("danger.force", shown)
    else:
        scene.note("fact.push", " ".join(rest[:2]))
    for arg in rest[:1]:
        visit(scene, arg)
    return NOTHING


def git_checkout(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    files = behind_dashes(args)
    if "--" not in args:  # all other words may be those of a branch
        files = [arg for arg in args if arg in (".", "*", ":/")]
    _put_back(scene, name, args, files, has(args, "f", "--force"))
    return NOTHING


def git_restore(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    if has(args, "W", "--worktree") or not has(args, "S", "--staged"):
        _put_back(scene, name, args, operands(args, "-s --source"))
    return NOTHING


def _put_back(
    scene: Scene, name: str, args: Args, files: Args, force: bool = False
) -> None:
    """Files are put back: what was changed in them is gone."""
    if force or {".", "*", "./", ":/", "/"} & set(files):
        scene.note("danger.wipe", words(f"git {name}", args))
    elif files:
        scene.note("fact.discards", " ".join(files[:3]))
    for path in files:
        scene.rewrites(path)


def git_wipes(pattern: str) -> Program:
    def program(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
        if re.search(pattern, " ".join(args)):
            scene.note("danger.wipe", words(f"git {name}", args))
        for option, text in zip(args, args[1:]):
            if re.fullmatch(r"--exec|-x|--\w+-filter", option):
                scene.run(text)
        return NOTHING

    return program


def git_runs(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """submodule foreach, bisect run: the rest is a command."""
    rest = operands(args[:2])
    if rest[:1] in (["foreach"], ["run"]):
        tail = [arg for arg in args[1:] if arg != "--recursive"]
        scene.run(tail[0]) if len(tail) == 1 else scene.call(tail, NOTHING)
    elif rest[:1] in (["deinit"],) and has(args, "f", "--force"):
        scene.note("danger.wipe", words("git submodule", args))
    else:
        look(scene, args)
    return NOTHING


def git_config(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(args, "-f --file --type --default")
    rest = rest[1:] if rest[:1] in (["set"], ["add"]) else rest
    everywhere = has(args, "", "--global", "--system")
    if everywhere and has(args, "e", "--edit"):
        scene.note("danger.startup", words("git config", args))
    changes = has(args, "", "--unset", "--unset-all", "--add", "--replace-all")
    if rest[:1] not in (["get"], ["list"]) and (changes or len(rest) > 1):
        _git_changes(scene, words("git config", args), rest, everywhere)
    return NOTHING


def _git_changes(scene: Scene, shown: str, rest: Args, everywhere: bool) -> None:
    """A setting is changed, for this project or for all of them."""
    name = "".join(rest[:1])
    runs = _RUNS.search(name)
    if everywhere and not _TASTE.match(name):
        scene.note("danger.startup", shown)
    elif runs or name.lower().endswith("insteadof"):
        scene.note("danger.permissions", shown)
    for text in rest[1:2] if runs else ():
        scene.run(Arg(text.lstrip("!")))


def git_clone(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    rest = operands(
        args, "-b --branch --depth -o -c --config --reference --filter -j --jobs -u"
    )
    for option, value in zip(args, args[1:]):
        if option in ("-c", "--config"):
            _git_setting(scene, value)
        elif option in ("-u", "--upload-pack"):
            scene.run(value)
    if rest:
        visit(scene, rest[0])
        host = SSH_HOST.fullmatch(rest[0])
        if host and "://" not in rest[0]:
            scene.note("fact.host", host[1])
        leaf = re.sub(r"\.git\Z", "", rest[0].rstrip("/").rpartition("/")[2])
        where = rest[1] if len(rest) > 1 else Arg(leaf)
        scene.brings(where, rest[0])
        target = scene.place(where)
        if target.kind == OUTSIDE:
            scene.note("fact.outside", scene.show(target))
    return NOTHING


def git_remote(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    for arg in args:
        visit(scene, arg)
    return NOTHING


def git_mv(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    for path in operands(args):
        scene.rewrites(path)
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
    for match in filter(None, map(_RUN_OPTIONS.fullmatch, args)):
        scene.run(match[1] or match[2] or match[3])
    for option, text in zip(args, args[1:]):
        if option in ("-x", "--extcmd", "--upload-pack", "--exec"):
            scene.run(text)
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
