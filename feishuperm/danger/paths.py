"""Where a path leads: inside the project, elsewhere, or to a file that governs others.

Paths are read as text; nothing is looked up, so a link inside the project that leads
out of it is taken for what it says.  `paths.txt` lists the files that govern others.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import islice
from posixpath import isabs, join, normpath
from typing import NamedTuple

from feishuperm.danger.command_table import pattern
from feishuperm.tables import sections

UNKNOWN = "\0"  # in a word: something that only the run will tell
MAX_PATH = 4096  # no system takes a longer one

INSIDE, OUTSIDE, TEMPORARY, NOWHERE, UNSURE = (
    "inside", "outside", "temporary", "nowhere", "unsure",
)  # fmt: skip

_NOWHERE = re.compile(r"/dev/(?:null|zero|u?random|std(?:in|out|err)|tty|fd/\d+)")
_TEMPORARY = re.compile(r"(?:/private)?(?:/tmp|/var/tmp|/var/folders|/dev/shm)(/.*|)")
_DEVICE = re.compile(r"/dev/(?!shm/|pts/|tty).+")
# How a path of the table is written, and the regular expression for it.
_GLOBS = (
    (r"\A~/", "(?:~|/home/[^/]+|/Users/[^/]+|/root|/var/root)/"),
    (r"\A\\\*\\\*/", "(?:.*/)?"),
    (r"/\\\*\\\*/", "/.*/"),
    (r"/\\\*\\\*\Z", "(?:/.*)?"),
    (r"/\\\+\Z", "/.*"),
    (r"\\\*", "[^/]*"),
    (r"\\\{", "(?:"),
    (r"\\\}", ")"),
    (",", "|"),
)

MAX_GOVERNING = 200_000  # characters of a file that are looked through
MAX_GOVERNED = 8  # places in it that are named


@cache
def protected() -> dict[str, re.Pattern[str]]:
    """What a path is to others, by the key of the mark for changing it."""
    return {
        key: re.compile("|".join(map(_glob, lines)))
        for key, lines in sections("danger/paths.txt").items()
    }


def _glob(line: str) -> str:
    text = re.escape(line).replace(r"\~", "~").replace(r"\,", ",")
    for written, meant in _GLOBS:
        text = re.sub(written, meant, text)
    return text


def governs(path: str, text: str) -> list[tuple[str, str]]:
    """What a text in a file says to others: the key of the mark, and the words."""
    leaf = "/".join(path.rsplit("/", 2)[-2:])
    return [
        (key, match[0].strip())
        for key, said, files in _governing()
        if files.fullmatch(leaf) or files.fullmatch(leaf.rpartition("/")[2])
        for match in islice(pattern(said).finditer(text[:MAX_GOVERNING]), MAX_GOVERNED)
    ]


@cache
def _governing() -> list[tuple[str, str, re.Pattern[str]]]:
    """Keys of marks, with the pattern of what is said and of the files that say it."""
    lines = sections("danger/commands.txt")["governs"]
    return [(key, said, re.compile(f)) for key, said, f in map(str.split, lines)]


def is_secret(path: str) -> bool:
    """Whether a file's name says that it holds what is nobody else's business."""
    return pattern("secrets").fullmatch(path.rpartition("/")[2][:100]) is not None


class Place(NamedTuple):
    """Where a path leads."""

    kind: str
    path: str  # as clear as it can be said
    protected: str = ""  # the key of the mark for changing it
    whole: bool = False  # the project itself, something around it, a home, a root
    device: bool = False


class PathRules:
    """The folders that paths are measured against."""

    def __init__(self, project: str, home: str) -> None:
        self.project = normpath(project) if project else ""
        self.home = home.rstrip("/") if home else ""

    def place(self, path: str, cwd: str, foreign: bool = False) -> Place:
        """Where a word leads from `cwd`; `foreign`: on another machine."""
        path = path[:MAX_PATH]
        if not _is_certain(path, cwd):
            return Place(UNSURE, path)
        full = self.full(path, cwd)
        if _NOWHERE.fullmatch(full):
            return Place(NOWHERE, full)
        if _DEVICE.fullmatch(full):
            return Place(OUTSIDE, full, device=True)
        folder = re.sub(r"/[*.?\0]*\Z", "", full) or "/"
        shown = path if foreign else full
        protected = self._protected(full)
        temporary = _TEMPORARY.fullmatch(full)
        if temporary and not (protected or self._is_theirs(full)):
            return Place(TEMPORARY, shown, whole=not temporary[1].strip("*.?/"))
        if self._is_inside(full) and not foreign:
            all_of_it = folder in (self.project, self.home)
            whole = all_of_it and not full.endswith(UNKNOWN)
            return Place(INSIDE, full, protected, whole)
        return Place(OUTSIDE, shown, protected, self._is_whole(folder))

    def full(self, path: str, cwd: str) -> str:
        """The path from the root, as far as text can tell."""
        if path == "~" or path.startswith("~/"):
            path = (self.home or "/home/user") + path[1:]
        elif path == "~+" or path.startswith("~+/"):
            path = "." + path[2:]
        elif path.startswith("~"):
            path = "/home/" + path[1:]
        if not isabs(path):
            path = join(cwd or self.project or "/", path)
        return re.sub(r"\A//+", "/", normpath(path))

    def _is_inside(self, path: str) -> bool:
        project = self.project.rstrip("/") + "/"
        return bool(self.project) and (path + "/").startswith(project)

    def _is_home(self, path: str) -> bool:
        """Whether it is in the user's home, wherever that is."""
        return bool(self.home) and (path + "/").startswith(self.home + "/")

    def _is_theirs(self, path: str) -> bool:
        """Whether it is the project's or the user's, even in a temporary folder."""
        return self._is_inside(path) or self._is_home(path)

    def _is_whole(self, folder: str) -> bool:
        around = (self.project + "/").startswith(folder.rstrip("/") + "/")
        return around or folder in (self.home, "/") or folder.count("/") == 1

    def _protected(self, full: str) -> str:
        if self._is_home(full):
            full = "~" + full[len(self.home) :]
        names = (key for key, paths in protected().items() if paths.fullmatch(full))
        return next(names, "")

    def show(self, path: str) -> str:
        """A path as a person reads it."""
        if self._is_inside(path) and path != self.project:
            path = path[len(self.project.rstrip("/")) + 1 :]
        elif self._is_home(path):
            path = "~" + path[len(self.home) :]
        return path.replace(UNKNOWN, "…")


def _is_certain(path: str, cwd: str) -> bool:
    """Whether it is known from where a path goes."""
    rooted = path.startswith(("/", "~"))
    return rooted or (cwd != UNKNOWN and not path.startswith(UNKNOWN))


# Letters that look like others: `gіthub.com` is not `github.com`.
#
# A name in one script is nobody's trick: Chinese hosts, Russian file names and words
# with accents stay as they are.  What is told are letters of another script among plain
# ones, names of nothing but such letters, and letters in another form (`ｇ`, `𝗀`).

_LABEL = re.compile(r"[^\W_]+")
# Alphabets with letters that look like Latin ones, and the small ones that do.
_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
_ALIKE = frozenset("асеорхуіјѕһԁԛԝӏґкмтвнгԍαοινρτυχκηωѵϲϳօսոզցհ")
_CODED = "xn--"
MOST = 300  # characters of a name that are looked at
SHOWN = 3  # letters that are named


def odd_letters(name: str) -> str:
    """The name with the letters in it that look like others; empty if it has none."""
    name = name[:MOST]
    if name.isascii() and _CODED not in name.lower():
        return ""
    name = ".".join(map(_decoded, name.split(".")))
    odd = [letter for label in _LABEL.findall(name) for letter in _odd_in(label)]
    told = ", ".join(f"{c} U+{ord(c):04X}" for c in dict.fromkeys(odd[:SHOWN]))
    return f"{name} ({told})" if told else ""


def _odd_in(label: str) -> list[str]:
    others = [c for c in label if not c.isascii() and c.isalpha()]
    forms = [c for c in others if unicodedata.normalize("NFKC", c).isascii()]
    foreign = [c for c in others if unicodedata.name(c, "").startswith(_SCRIPTS)]
    is_mixed = any(c.isascii() and c.isalpha() for c in label)
    is_alike = bool(foreign) and all(c.lower() in _ALIKE for c in others)
    return forms + (foreign if is_mixed or is_alike else [])


def _decoded(label: str) -> str:
    """A part of a host name as a browser shows it."""
    if not label.lower().startswith(_CODED):
        return label
    try:
        return label[len(_CODED) :].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return label
