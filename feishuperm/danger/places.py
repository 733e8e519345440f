"""Where a path leads: inside the project, elsewhere, or to a file that governs others.

Paths are read as text; nothing is looked up, so a link inside the project that leads
out of it is taken for what it says.
"""

from __future__ import annotations

import re
from itertools import islice
from posixpath import isabs, join, normpath
from typing import NamedTuple

UNKNOWN = "\0"  # in a word: something that only the run will tell
MAX_PATH = 4096  # no system takes a longer one

INSIDE, OUTSIDE, TEMPORARY, NOWHERE, UNSURE = (
    "inside", "outside", "temporary", "nowhere", "unsure",
)  # fmt: skip

_NOWHERE = re.compile(r"/dev/(?:null|zero|u?random|std(?:in|out|err)|tty|fd/\d+)")
_TEMPORARY = re.compile(r"(?:/private)?(?:/tmp|/var/tmp|/var/folders|/dev/shm)(/.*|)")
_DEVICE = re.compile(r"/dev/(?!shm/|pts/|tty).+")
_HOME = r"(?:~|/home/[^/]+|/Users/[^/]+|/root|/var/root)"
# What a path is to others, by the key of the mark for changing it.
PROTECTED = {
    "danger.startup": re.compile(
        rf"{_HOME}/(?:\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile"
        r"|zshrc|zprofile|zshenv|zlogin|zlogout|kshrc|cshrc|tcshrc|login|inputrc|xinitrc"
        r"|xprofile|xsession|pam_environment|vimrc|gitconfig|tmux\.conf|envrc"
        r"|config/(?:fish|autostart|systemd|nushell|git|environment\.d|nvim)(?:/.*)?)"
        r"|Library/Launch(?:Agents|Daemons)(?:/.*)?"
        r"|Documents/(?:Windows)?PowerShell/.*)"
        r"|/Library/Launch(?:Agents|Daemons)(?:/.*)?"
        r"|/etc/(?:profile(?:\.d/.*)?|bash\.bashrc|zsh(?:/.*|rc|env)?|environment"
        r"|rc\.local|cron[^/]*(?:/.*)?|systemd/.*|init(?:\.d)?/.*|xdg/autostart/.*)"
        r"|/(?:usr/)?lib/systemd/.*|/var/spool/cron(?:/.*)?|/etc/ld\.so\.[^/]*(?:/.*)?"
        r"|(?:.*/)?\.envrc|/.*/site-packages/(?:sitecustomize\.py|[^/]*\.pth)"
    ),
    "danger.keys": re.compile(
        rf"{_HOME}/\.(?:ssh|gnupg|aws|azure|kube|password-store|docker"
        r"|config/(?:gcloud|gh|op|hub)|local/share/keyrings)(?:/.*)?"
        rf"|{_HOME}/\.(?:netrc|pgpass|pypirc|npmrc|git-credentials|my\.cnf|boto|vault-token)"
        rf"|{_HOME}/Library/Keychains(?:/.*)?"
        r"|/etc/(?:ssh|ssl/private|shadow|gshadow|passwd|pki)(?:/.*)?"
        r"|(?:.*/)?(?:id_(?:rsa|dsa|ecdsa|ed25519)|authorized_keys)"
    ),
    "danger.ci": re.compile(
        r"(?:.*/)?(?:\.github(?:/(?:workflows|actions)(?:/.*)?)?|\.gitlab-ci\.ya?ml"
        r"|\.github/(?:dependabot\.ya?ml|CODEOWNERS)|CODEOWNERS|\.pre-commit-config\.ya?ml"
        r"|\.gitlab/ci/.*|\.circleci(?:/.*)?|Jenkinsfile[^/]*|azure-pipelines\.ya?ml"
        r"|\.travis\.yml|\.drone\.(?:yml|star)|bitbucket-pipelines\.yml"
        r"|\.buildkite(?:/.*)?|\.?appveyor\.yml|\.woodpecker(?:/.*|\.ya?ml)|\.cirrus\.yml"
        r"|cloudbuild\.ya?ml|buildspec\.ya?ml|\.teamcity/.*|\.semaphore/.*"
        r"|\.forgejo/workflows/.*|\.gitea/workflows/.*)"
    ),
    "danger.permissions": re.compile(
        r"(?:.*/)?\.claude/(?:settings[^/]*\.json|hooks(?:/.*)?)"
        rf"|{_HOME}/\.claude\.json|{_HOME}/\.claude|(?:.*/)?\.mcp\.json"
        r"|/etc/claude-code/.*|(?:.*/)?managed-settings\.json"
        r"|(?:.*/)?\.git/(?:hooks(?:/.*)?|config)|(?:.*/)?\.husky(?:/.*)?"
        r"|(?:.*/)?\.?lefthook\.ya?ml|(?:.*/)?\.(?:vscode/tasks|cursor/mcp|vscode/mcp)\.json"
        rf"|{_HOME}/\.(?:config|local/state)/feishuperm(?:/.*)?"
        r"|/etc/sudoers(?:\.d/.*)?|/etc/(?:pam\.d|polkit-1|security|apparmor\.d)/.*"
    ),
}
# Files with secrets in them that a project may write as it likes, but not send away.
_SECRETS = re.compile(
    r"\.env(?:\.(?!example|sample|template|dist|default|schema|test\Z)[\w.-]+)?"
    r"|[^/]+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|tfstate|ovpn|p8|mobileprovision)"
    r"|(?:aws_|gcp_|google_|db_)?credentials?(?:\.(?:json|ya?ml|toml|csv|ini|txt))?"
    r"|(?:service[-_]?account|firebase-adminsdk|google-services)[^/]*\.json"
    r"|secrets?\.(?:ya?ml|json|toml|env|txt)|\.npmrc|\.htpasswd|\.s3cfg|kubeconfig"
    r"|\.(?:bash|zsh|python|psql|mysql)_history|Cookies|Login Data|environ",
    re.IGNORECASE,
)


_SCRIPTS = re.compile(r'"(?:pre|post)?install"\s*:\s*"[^"\n]{0,200}"')
_FROM = re.compile(
    r"(?im)^[^#;\n]{0,200}?\b(?:registry|npmRegistryServer|index-url|extra-index-url"
    r"|replace-with|index|mirrors?|sources?|url|channels)\b\"?\s*[=:]\s*\S.*"
)
# A file that may be written, and what in it governs others, with the key of its mark.
_GOVERNS = (
    ("danger.packages", re.compile(r"package\.json"), _SCRIPTS),
    (
        "danger.packages",
        re.compile(r"composer\.json"),
        re.compile(r'"(?:pre|post)-(?:install|update)-cmd"\s*:.{0,200}'),
    ),
    (
        "danger.packages",
        re.compile(
            r"\.npmrc|\.yarnrc(?:\.yml)?|pip\.(?:conf|ini)|\.condarc|bunfig\.toml"
            r"|\.?cargo/config(?:\.toml)?|nuget\.config|uv\.toml|\.gemrc|go\.env"
            r"|\.bundle/config",
            re.IGNORECASE,
        ),
        _FROM,
    ),
    (
        "danger.inject",
        re.compile(r"\.?env(?:\.\w+)*|environment"),
        re.compile(
            r"(?m)^\s*(?:export\s+)?PATH=[\"']?(?:/tmp|/var/tmp|/dev/shm|\.?:).*"
        ),
    ),
)
MAX_GOVERNING = 200_000  # characters of a file that are looked through
MAX_GOVERNED = 8  # places in it that are named


def governs(path: str, text: str) -> list[tuple[str, str]]:
    """What a text in a file says to others: the key of the mark, and the words."""
    leaf = "/".join(path.rsplit("/", 2)[-2:])
    return [
        (key, match[0].strip())
        for key, name, pattern in _GOVERNS
        if name.fullmatch(leaf) or name.fullmatch(leaf.rpartition("/")[2])
        for match in islice(pattern.finditer(text[:MAX_GOVERNING]), MAX_GOVERNED)
    ]


def is_secret(path: str) -> bool:
    """Whether a file's name says that it holds what is nobody else's business."""
    return _SECRETS.fullmatch(path.rpartition("/")[2][:100]) is not None


class Place(NamedTuple):
    """Where a path leads."""

    kind: str
    path: str  # as clear as it can be said
    protected: str = ""  # the key of the mark for changing it
    whole: bool = False  # the project itself, something around it, a home, a root
    device: bool = False


class Ground:
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
        project = self.project
        return bool(project) and (
            path == project or path.startswith(project.rstrip("/") + "/")
        )

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
        names = (key for key, pattern in PROTECTED.items() if pattern.fullmatch(full))
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
