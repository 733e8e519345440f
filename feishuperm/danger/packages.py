"""Package managers: what is installed, published, or fetched to be run."""

from __future__ import annotations

import re

from feishuperm.danger.arguments import (
    behind,
    has,
    look,
    operands,
    recognise,
    run_value,
    value_of,
    words,
)
from feishuperm.danger.deeds import is_harmless
from feishuperm.danger.scene import NOTHING, Arg, Args, Flow, Scene
from feishuperm.danger.strangers import PUBLISHES, unknown

_INSTALLS = {
    **dict.fromkeys((
        "pipenv", "gem", "zypper", "snap", "flatpak", "nuget", "choco", "winget",
        "scoop", "port", "nvm", "asdf", "luarocks", "opam", "stack", "cabal", "pod",
    ), "install"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), "install i add ci update upgrade"),
    **dict.fromkeys((
        "pip", "pipx", "conda", "mamba", "micromamba", "yum", "rustup",
    ), "install update"),
    "uv": "add sync", "poetry": "add install", "pdm": "add", "cargo": "install add",
    "go": "get install", "bundle": "install add", "brew": "install upgrade tap",
    "apt": "install upgrade", "apt-get": "install upgrade dist-upgrade",
    "dnf": "install upgrade", "apk": "add upgrade", "pacman": "-S -Syu -Sy",
    "composer": "install require", "dotnet": "add", "nix-env": "-i -iA", "helm": "repo",
    "code": "--install-extension", "mise": "install use", "cpan": "", "cpanm": "",
    "mix": "deps.get", "gh": "extension",
}  # fmt: skip

_UNINSTALLS = {
    "apt": "remove purge autoremove", "apt-get": "remove purge autoremove",
    "dnf": "remove", "yum": "remove erase", "pacman": "-R -Rs -Rns",
    "brew": "uninstall remove", "apk": "del", "snap": "remove", "zypper": "remove",
}  # fmt: skip

_RUNS_PACKAGE = (
    "npx", "bunx", "uvx", "pnpx", "pkgx", "npm exec", "npm x", "pnpm dlx", "yarn dlx",
    "pipx run", "uv tool run", "bun x",
)  # fmt: skip

MANAGERS = sorted({*_INSTALLS, *(phrase.split()[0] for phrase in _RUNS_PACKAGE)})

_ADDRESS = re.compile(
    r"https?:|git[+@:](?!file)|github:|gitlab:|[\w.-]+/[\w.-]+#|\S+ @ \w+"
)
_FROM = ("--git", "-r", "--requirement", "-e", "--editable")
_PLAIN_HTTP = re.compile(r"http://(?!localhost|127\.|\[::1)")


# Where packages come from is changed to stay so, or what installing them runs.
_SOURCES = re.compile(
    r"(?:npm|pnpm|yarn|bun) (?:-\S+ )*(?:"
    r"(?:config )?(?:-\S+ )*set (?:-\S+ )*(?:\S*registry\b|npmRegistryServer|npmScopes)"
    r"|(?:pm )?pkg set .*?\bscripts\.(?:pre|post)?install="
    r"|set-script (?:pre|post)?install )"
    r"|pip config (?:-\S+ )*set \S*index-url"
    r"|go env -w .*(?:GOPROXY|GONOSUM\w*|GOSUMDB|GOINSECURE|GOPRIVATE)="
    r"|gem sources .*(?:--add|--remove|-a|-r) |bundle config .*\bmirror\."
    r"|poetry source add |pdm config pypi\.url |dotnet nuget add source"
    r"|nuget sources? add |(?:conda|mamba) config .*--\w+ channels \w+://"
    r"|composer config .*(?:repositories|repos?|scripts)\."
)


def packages(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    if _runs_package(scene, name, args, flow):
        return Flow()
    if _SOURCES.match(" ".join([name, *args])[:2000]):
        scene.note("danger.packages", words(name, args))
    if name == "uv" and args[:1] in (["pip"], ["tool"]):
        name, args = "pip", args[1:]
    rest = operands(
        args,
        "--prefix -C -w --workspace --filter --registry -r --index-url -i --tag"
        " --features --root --git -t --target --extra-index-url --trusted-host"
        " --find-links",
    )
    verbs = _INSTALLS.get(name, "").split()
    started = [arg for arg in args if arg in verbs]
    if started:
        _install(scene, name, started[0], args, rest)
    elif rest[:1] and rest[0] in _UNINSTALLS.get(name, "").split():
        scene.note("danger.machine", words(name, args))
    else:
        _run_by(scene, name, args, rest, flow)
    return unknown(scene, name, [Arg(name), *args], flow)


def _install(scene: Scene, name: str, verb: str, args: Args, rest: Args) -> None:
    wanted = [arg for arg in rest if arg != verb]
    index = value_of(args, "-i", "--index-url", "--extra-index-url", "--registry")
    sources = [
        *wanted,
        *(value_of(args, *_FROM) or "").split(),
        "http:" if _PLAIN_HTTP.match(index or "") else "",
    ]
    for source in sources:
        if _ADDRESS.match(source) and name not in ("helm", "brew", "gh"):
            scene.note("danger.downloaded", source)
        scene.suspicious(scene.brought(source))
    scene.note("fact.installs", " ".join([name, *wanted[:6]]))
    target = value_of(args, "-t", "--target", "--prefix", "--root")
    if target is not None and name.startswith("pip"):
        scene.writes(target)


def _run_by(scene: Scene, name: str, args: Args, rest: Args, flow: Flow) -> None:
    """What a manager is told to run, each in its own way."""
    if name in ("npm", "pnpm", "yarn", "bun"):
        _run_goal(scene, name, args, rest)
    elif name == "go" and rest[:1] == ["run"]:
        for source in rest[1:2]:
            _run_source(scene, source, flow)
    elif name not in ("go", "cargo", "gh") and rest[:1] in (["run"], ["exec"]):
        command = args[args.index(rest[0]) + 1 :]
        valued = "--with -p --python -n --name --env --extra --group"
        scene.call(behind(command, valued), flow)


def _run_goal(scene: Scene, name: str, args: Args, rest: Args) -> None:
    """`npm run deploy`: a script of the project, by its name."""
    goals = rest[1:2] if rest[:1] in (["run"], ["run-script"]) else rest[:1]
    if any(map(PUBLISHES.fullmatch, goals)) and not is_harmless(args):
        scene.note("danger.publish", words(name, args))


def _run_source(scene: Scene, source: Arg, flow: Flow) -> None:
    """`go run`: a file, what flows in, or a package from elsewhere."""
    if "@" in source:
        scene.note("fact.package", source)
    content = flow if source == "-" else scene.content(source)
    scene.run_file(content or NOTHING, "python")


_ALIASES = re.compile(r"-(?:tools|cli)\Z|\A@[\w.-]+/(?=\w)|/cli\Z")


def _runs_package(scene: Scene, name: str, args: Args, flow: Flow) -> bool:
    for phrase in _RUNS_PACKAGE:
        first, *own = phrase.split()
        if name == first and args[: len(own)] == own:
            valued = "-p --package --with --from -c --call --python"
            rest = behind(args[len(own) :], valued)
            run_value(scene, args, "-c", "--call")
            source = value_of(args[:-1], "--from", "-p", "--package", "--with")
            if rest:
                scene.note("fact.package", rest[0])
                for address in filter(_ADDRESS.match, (rest[0], source or "")):
                    scene.note("danger.downloaded", address)
                bare = Arg(re.sub(r"(?<=.)@[^/]*\Z", "", rest[0]))
                bare = Arg(_ALIASES.sub("", bare))
                if bare.lower() in scene.programs:
                    scene.call([bare, *rest[1:]], flow)
                else:
                    unknown(scene, name, [bare, *rest[1:]], flow)
            return True
    return False


def make(scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
    """A target by its name tells what it does."""
    recognise(scene, name, args)
    rest = operands(args, "-C -f -j -I -o -W --directory --file")
    if has(args, "nq", "--dry-run", "--just-print", "--help"):
        return Flow()
    if any(map(PUBLISHES.fullmatch, rest)):
        scene.note("danger.publish", words(name, args))
    folder = value_of(args, "-C", "--directory") or Arg(".")
    scene.came(f"{folder}/Makefile")
    run_value(scene, args, "--eval", "-E")
    file = value_of(args, "-f", "--file")
    scene.suspicious(file)
    content = flow if file == "-" else scene.content(file or "Makefile")
    for line in (content.text or "" if content else "").split("\n")[:200]:
        match = _RECIPE.match(line)
        if match:
            scene.run(Arg(match[1]))
    look(scene, args)
    return Flow()


_RECIPE = re.compile(r"(?:\t|[\w.%-]+\s*:[^;=]*;)\s*[@-]?(.+)")
