"""Which files a call may run: names only, the disk is not looked at.

Nearly every program that is given a file may run it (`python tool.py`, `make -f x`,
`psql -f x`, a wrapper before any of them), so every word counts that could be a file,
unless its program is known to do no more than look at it or change it.  Programs whose
work is written down in a file that nobody names bring the usual names of that file.
What such a file runs in turn is not followed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

# Look at files, or change them; those that pass on what they read are not here.
_LOOKING = """
    ls cd pushd test [ [[ stat file wc du df diff cmp git touch mkdir rmdir rm cp mv ln
    chmod chown echo printf true false : export grep egrep rg tree which realpath
    basename dirname eslint prettier tsc mypy ruff black gofmt rustfmt shellcheck md5sum
    sha256sum
"""
LOOKS = frozenset(_LOOKING.split())
MODULES = ("python", "pypy")  # `-m name`
_NODE = ("package.json",)
_MAKE = ("Makefile", "makefile", "GNUmakefile")
_CONTAINERS = (
    "compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml",
    "Dockerfile", "Containerfile",
)  # fmt: skip
_PYTHON = ("pyproject.toml", "setup.py", "tox.ini", "noxfile.py")
MANIFESTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun"), _NODE),
    **dict.fromkeys(("make", "gmake"), _MAKE),
    **dict.fromkeys(("poetry", "uv", "pdm", "hatch", "tox", "nox"), _PYTHON),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile", "rakefile"),
    "composer": ("composer.json",),
    "deno": ("deno.json", "deno.jsonc"),
    **dict.fromkeys(("gradle", "gradlew"), ("build.gradle", "build.gradle.kts")),
    "mvn": ("pom.xml",),
    "cargo": ("Cargo.toml", "build.rs"),
    **dict.fromkeys(("docker", "podman", "docker-compose"), _CONTAINERS),
    **dict.fromkeys(("lerna", "turbo", "nx"), (*_NODE, "turbo.json", "nx.json")),
    "grunt": ("Gruntfile.js",),
    "gulp": ("gulpfile.js",),
    "pre-commit": (".pre-commit-config.yaml",),
    "cmake": ("CMakeLists.txt",),
    "ninja": ("build.ninja",),
    "meson": ("meson.build",),
    **dict.fromkeys(("invoke", "inv", "fab"), ("tasks.py", "fabfile.py")),
    "mix": ("mix.exs",),
    "sbt": ("build.sbt",),
    "vagrant": ("Vagrantfile",),
    **dict.fromkeys(("foreman", "honcho"), ("Procfile",)),
}
# Options that name the folder in which a program works.
_FOLDER = ("-C", "--chdir", "--directory", "--cwd")
# What runs of a folder that is named.
ENTRIES = ("__main__.py", "index.js", *_NODE, *_MAKE)


def files_of(name: str, fields: Sequence[str]) -> Iterator[str]:
    """The words of a call that may be what runs, and what its program reads."""
    if name in LOOKS:
        return
    if "/" in fields[0]:
        yield fields[0]
    for word in fields[1:]:
        yield word
        if "=" in word:
            yield word.partition("=")[2]
    if name in MODULES and "-m" in fields[:-1]:
        module = fields[list(fields).index("-m") + 1].replace(".", "/")
        yield from (f"{module}.py", module)
    if name in ("node", "bun"):
        yield from (f"{word}.js" for word in fields[1:2])
    manifests = MANIFESTS.get(name, ())
    yield from manifests
    for folder in itertools.islice(_folders(fields[1:]), 2):
        yield from (f"{folder}/{word}" for word in (*fields[1:], *manifests))


def _folders(words: Sequence[str]) -> Iterator[str]:
    for word, following in zip(words, (*words[1:], "")):
        option, _, value = word.partition("=")
        if option in _FOLDER:
            yield value or following
