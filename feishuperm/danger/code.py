"""Code in other languages than a shell's: what it deletes, runs or fetches.

Nothing is parsed: calls that matter are looked for by name, with the text literal that
follows.  What is run as a command is handed back to be read as one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Container

MAX_CODE = 15_000  # characters: some ten milliseconds
MAX_POWERSHELL = 15_000

_TEXT = (
    r"\s{0,9}\(?\s{0,9}(?:[\w.]{1,40}\(){0,2}(?:glob )?\[?\s{0,9}[rbf]?"
    r"""(["'`])((?:(?!\1)[^\\\n]){0,500})\1"""
)
_DELETES = re.compile(
    r"(?:rmtree|rm_rf|rm_r|remove_tree|os\.remove|os\.unlink|os\.rmdir|os\.removedirs"
    r"|rmSync|rmdirSync|unlinkSync|fs\.rm|fs\.rmdir|fs\.unlink|FileUtils\.rm\w*"
    r"|[\w)]\s*\.(?:rm|rmdir|unlink)|File\.delete"
    r"|delete-(?:file|directory)|delete POSIX file"
    r"|file_delete|Deno\.remove(?:Sync)?|RemoveAll|remove_dir_all|deleteSync|rimraf|removeSync"
    r"|del|unlink|\brmdir|send2trash|os\.Remove|Files\.delete\w*|Directory\.Delete"
    r"|File\.Delete|File\.rm\w*!?|remove_(?:file|dir)\w{0,20}|file\.remove|Sys\.remove"
    r"|removeItem\(\s{0,9}atPath:|\brm\()" + _TEXT
)
DELETES_UNSEEN = re.compile(
    r"\b(?:rmtree|rm_rf|rmSync|RemoveAll|remove_dir_all|rimraf)\s*\("
)
# Of a path that stands somewhere else in the code.
DELETES_LOOSELY = re.compile(
    r"\b(?:rmtree|rm_rf|rmSync|rimraf|os\.remove|unlink\w*|RemoveAll|remove_tree)\b"
    r"|\.rmdir\s*\(|File\.delete|FileUtils\.rm|Deno\.remove|fs\.(?:promises\.)?rm\b"
)
WRITES_LOOSELY = re.compile(
    r"\bopen\s*\(\s*\w[^)]{0,200}[\"'][wa]b?\+?[\"']|\.write_(?:text|bytes)\s*\("
    r"|(?:write|append)File(?:Sync)?\s*\(\s*\w|File\.write\s*\(?\s*\w"
)
_AT_HOME = re.compile(r"Path\.home\(|homedir\(|expanduser|Dir\.home|\bHOME\b")
# Rows of a database, by its objects; and a shell on somebody's socket.
DATA = re.compile(
    r"\.(?:objects\.all\(\)\.delete|delete_all|destroy_all|drop_all|dropDatabase"
    r"|dropCollection|flushall|flushdb|dropSchema)\b|\.deleteMany\(\s*(?:\{\s*\})?\s*\)"
    r"|sync\(\s*\{\s*force:\s*true|\.truncate\(",
    re.IGNORECASE,
)
_SQL_TEXT = re.compile(
    r"(?:execute\w{0,20}|query|raw|exec|unsafe)" + _TEXT, re.IGNORECASE
)
_SOCKETS = re.compile(
    r"socket\.socket|fsockopen|net\.(?:connect|Socket)|TCPSocket|::Socket"
)
_SHELLS = re.compile(r"/bin/\w*sh\b|cmd\.exe|pty\.spawn|powershell")
_RUNS = re.compile(
    r"(?:\b(?:system|popen|exec\w*|spawn\w*|run|call|check_call|check_output|Popen|getoutput"
    r"|getstatusoutput|shell_exec|passthru|Command|ShellExecute|do shell script"
    r"|shell-command|call-process|spawnl?\w*|qx|backtick|Runtime\.\w+\(\)\.exec))"
    + _TEXT
    + r"([^)]{0,500})"
)
# A method of what a text stands for, and languages that need no quotes.
_DELETES_OF = re.compile(
    r"Path\(\s*[rf]?[\"']([^\"'\n]{1,500})[\"']\s*\)\.(?:unlink|rmdir)"
    r"|\bfile\s+delete\s+(?:-\w+\s+)*([~/.][^\s;\]]{0,500})"
)
_RUNS_BARE = re.compile(
    r"(?:^|[;\[{])[ \t]{0,9}(?:spawn|exec)[ \t]{1,9}(\w[^\n;\]'\"(]{1,500})", re.M
)
# A path behind something else: `writeFileSync(home + '/x'`, `open(F, ">/x"`.
_WRITES_NEAR = re.compile(
    r"\b(?:(?:write|append)File(?:Sync)?|createWriteStream|File\.write|IO\.write)\s{0,9}\("
    r"([^;,\n]{0,80}?)[\"'`](/[^\"'`\n]{1,300})[\"'`]"
    r"|\bopen\s{0,9}\(?[^;\n\"']{0,40}[\"']\+?>{1,2}\s{0,9}([~/][^\"'\n]{1,300})"
)
_COPIES = re.compile(
    r"\b(?:copy\w*|move|rename\w*|replace|cpSync|symlink\w*|urlretrieve|cp|mv|cp_r)\s{0,9}\(?"
    r"[^,()\n]{1,300},\s*[rbf]?[\"']([~/][^\"'\n]{1,500})[\"']"
)
_FETCHED = re.compile(
    r"(?:urlretrieve|copy|download\w{0,20})\s{0,9}\(\s{0,9}[\"']http[^,\n]{1,300},\s{0,9}"
    r"[\"']([^\"'\n]{1,300})[\"']"
)
ENVIRONMENT = re.compile(
    r"os\.environ\b(?!\s*[\[.])|process\.env\b(?!\s*[\[.])|\bENV\.to_"
)
INSTALLS = re.compile(
    r"\bscripts[\"'\]\[.]{1,6}(?:pre|post)?install[\"'\]]{0,3}\s{0,9}=(?!=)"
)
ROOT = re.compile(r"with administrator privileges|\bsetuid\s*\(\s*0")
# What code says it does, by the key of the mark.
SAYS = (("danger.data", DATA), ("danger.root", ROOT), ("danger.packages", INSTALLS))
_LITERALS = re.compile(r"[\"'`]([~/.]?[\w./~ *-]{3,200})[\"'`]")
_GLUED = re.compile(r"""(["'])\s{0,9}\+\s{0,9}\1""")  # 'rm -r' + 'f /'
_BACKQUOTED = re.compile(r"(?:^|[\s=(;])`([^`\n]{1,500})`|%x[({]([^)}]{1,500})[)}]")
_WRITES = re.compile(
    r"(?:\bopen|writeFileSync|writeFile|appendFileSync|appendFile|createWriteStream"
    r"|File\.write|Path|file_put_contents|WriteAllText|WriteFile|fs\.cp\w*|IO\.\w*write)"
    + _TEXT
    + r"(?=\)?[^)]{0,300}?(?:,\s*(?:mode\s*=\s*)?[\"'][rb]*[wax+]|\)\s*\.write_|,))"
)
_URL = re.compile(r"https?://([^/\s'\"`$):]{1,100})")
_FETCHES = re.compile(
    r"\b(?:urlopen|requests\.\w+|fetch|urlretrieve|axios|file_get_contents|LWP|curl_exec"
    r"|URI\.open|Net::HTTP|httpx|Deno\.readTextFile)\b|\bhttps?['\"]?\)?\.(?:get|request)"
    r"|\bget\s*\(\s*['\"]http"
)
_EVALUATES = re.compile(
    r"(?<![.\w])(?:exec|eval|Function|instance_eval|assert|compile)[\s(]"
    r"|\bloads\s*\(|\(\s*eval\s*\)|vm\.runIn\w+|(?:system|popen|exec\w{0,9}|run)\s*\(\s*(?:requests|url|await"
    r"|fetch|http)"
)
_EXECUTES = re.compile(r"\b(?:system|popen|subprocess|child_process|Popen|exec\w*)\b")
_DECODES = re.compile(
    r"b64decode|base64|fromhex|unhexlify|\batob\b|decompress|rot13|\bpack\b|unpack"
)
_PRINTS = re.compile(r"print|echo|write|puts|decode")
_PIECES = re.compile(r"""(["'])((?:(?!\1)[^\\\n]){0,200})\1""")


# What is looked for -> where its text stands: in the last group that has one.
_TEXTS = {
    "deletes": (_DELETES, _DELETES_OF),
    "writes": (_WRITES, _COPIES),
    "runs": (_BACKQUOTED, _RUNS_BARE),
    "hosts": (_URL,),
    "fetched": (_FETCHED,),  # files that were downloaded
    "statements": (_SQL_TEXT,),
    "literals": (_LITERALS,),
}
MAX_TEXTS = 10  # of one kind
MAX_LITERALS = 100


class Code:
    """A text in some language, and what it says."""

    def __init__(self, text: str) -> None:
        self.text = _GLUED.sub("", text[:MAX_CODE])

    def says(self, pattern: re.Pattern[str]) -> str:
        match = pattern.search(self.text)
        return match[0] if match else ""

    def texts(self, kind: str, most: int = MAX_TEXTS) -> list[str]:
        """The texts of a kind, in their order."""
        matches = (m for pattern in _TEXTS[kind] for m in pattern.finditer(self.text))
        groups = ([group for group in m.groups() if group] for m in matches)
        return [group[-1] for group, _ in zip(groups, range(most)) if group]

    def runs(self) -> list[str]:
        called = [_joined(match) for match in _RUNS.finditer(self.text)]
        return [*called[:MAX_TEXTS], *self.texts("runs")]

    def writes(self) -> list[str]:
        near = [_near(match) for match in _WRITES_NEAR.finditer(self.text)]
        return [*self.texts("writes"), *near[:MAX_TEXTS]]

    def commands(self, programs: Container[str]) -> list[str]:
        """Texts that may be commands of some programs, if any are run at all."""
        texts = self.texts("literals", MAX_LITERALS) if self.says(_EXECUTES) else []
        return [text for text in texts if text.partition(" ")[0] in programs]

    def paths(self) -> list[str]:
        """Texts that may be paths, from a home too if there is talk of one."""
        literals = self.texts("literals", MAX_LITERALS)
        if not self.says(_AT_HOME):
            return literals
        return [*literals, *("~/" + path.lstrip("/") for path in literals)]

    def runs_what_came(self) -> bool:
        """Evaluates what it fetches, or gives a shell to whoever is out there."""
        fetches = self.says(_EVALUATES) and self.says(_FETCHES)
        return bool(fetches or (self.says(_SOCKETS) and self.says(_SHELLS)))

    def runs_decoded(self) -> bool:
        runs = self.says(_EVALUATES) or self.says(_EXECUTES)
        return bool(runs and self.says(_DECODES))

    def prints_decoded(self) -> bool:
        return bool(self.says(_DECODES) and self.says(_PRINTS))


def _near(match: re.Match[str]) -> str:
    home = "~" if _AT_HOME.search(match[1] or "") else ""
    return home + (match[2] or match[3])


def _joined(match: re.Match[str]) -> str:
    """A command, given as one text or as a list of them."""
    pieces = (piece[2] for piece in _PIECES.finditer(match[3]))
    if not match[3].lstrip().startswith(","):
        return match[2]
    return " ".join([match[2], *map(shlex.quote, pieces)])


_PS_DELETES = re.compile(
    r"\b(?:Remove-Item|ri|rm|rmdir|rd|del|erase)\b(?P<rest>[^;|\n]{0,1000})", re.I
)
_PS_PATH = re.compile(r"""["']([^"'\n]{1,300})["']|(?<=\s)([^\s"'-][^\s"']{0,300})""")
_PS_EVALUATES = re.compile(r"\b(?:iex|Invoke-Expression)\b", re.I)
_PS_FETCHES = re.compile(
    r"\b(?:iwr|irm|Invoke-WebRequest|Invoke-RestMethod|DownloadString|DownloadFile)\b",
    re.I,
)
_PS_MARKS = (
    ("danger.decoded", re.compile(
        r"-e(?:nc|ncodedcommand)?\s+[A-Za-z0-9+/=]{16,}|FromBase64String", re.I)),
    ("danger.root", re.compile(r"-Verb\s+RunAs|\bgsudo\b", re.I)),
    ("danger.machine", re.compile(
        r"\b(?:Stop-Computer|Restart-Computer|Remove-VM|Stop-Service|Disable-\w+)\b",
        re.I)),
    ("danger.device", re.compile(
        r"\b(?:Format-Volume|Clear-Disk|Initialize-Disk|Remove-Partition)\b", re.I)),
    ("danger.permissions", re.compile(
        r"\b(?:Set-ExecutionPolicy|Set-Acl|Set-MpPreference|Add-LocalGroupMember)\b",
        re.I)),
    ("danger.startup", re.compile(
        r"\$PROFILE\b|Register-ScheduledTask|New-Service|CurrentVersion\\+Run", re.I)),
    ("danger.data", re.compile(
        r"\b(?:Remove-ItemProperty|reg\s+delete|Clear-Content|Clear-RecycleBin"
        r"|Remove-SqlDatabase|vssadmin\s+delete)\b", re.I)),
)  # fmt: skip


def powershell_marks(text: str) -> list[str]:
    """The keys of what PowerShell text would do."""
    keys = [key for key, pattern in _PS_MARKS if pattern.search(text)]
    if _PS_FETCHES.search(text) and _ps_runs(text):
        keys.append("danger.downloaded")
    return keys


_PS_PIPED = re.compile(
    r"\b(?:Get-ChildItem|gci|Get-Item|ls|dir)[ \t]+[\"']?([^\s|;\"'-][^\s|;\"']{0,300})"
    r"[^|;\n]{0,200}\|[^;\n]{0,200}\b(?:Remove-Item|ri|rm|del)\b",
    re.I,
)
_PS_OUT = re.compile(r"-OutFile\s+[\"']?([^\s\"';|]{1,200})", re.I)


def _ps_runs(text: str) -> bool:
    """Whether what was fetched is run: as text, or as the file that it became."""
    if _PS_EVALUATES.search(text):
        return True
    match = _PS_OUT.search(text)
    leaf = re.split(r"[\\/]", match[1])[-1] if match else ""
    return match is not None and leaf in text[match.end() :]


def powershell_deletes(text: str) -> list[tuple[str, bool]]:
    """The paths that PowerShell text deletes, and whether with all below them."""
    deleted = [
        (match[1].replace("\\", "/"), True) for match in _PS_PIPED.finditer(text)
    ]
    for match in _PS_DELETES.finditer(text):
        rest = match["rest"]
        recursive = bool(re.search(r"-r(?:ecurse)?\b|/s\b|-rf\b", rest, re.I))
        for path in _PS_PATH.finditer(rest):
            if not (path[2] or "").startswith("/"):
                deleted.append(((path[1] or path[2]).replace("\\", "/"), recursive))
    return deleted[:10]
