"""Which files a call may run: names only, the disk is not looked at.

Nearly every program that is given a file may run it (`python tool.py`, `make -f x`,
`psql -f x`, a wrapper before any of them), so every word counts that could be a file,
unless its program is known to do no more than look at it or change it.  Programs whose
work is written down in a file that nobody names bring the usual names of that file.
What such a file runs in turn is not followed.
"""

from __future__ import annotations

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
    "gradle": ("build.gradle", "build.gradle.kts"),
    "mvn": ("pom.xml",),
    "cargo": ("Cargo.toml", "build.rs"),
    "docker-compose": ("compose.yaml", "docker-compose.yml"),
}
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
    yield from MANIFESTS.get(name, ())
