"""What programs do with a value among their words: tables, and a judge of one command.

Programs are known by name.  Those that run one of their arguments, or load code that
one names, take no value among them (`APART`, interpreters without a script); those that
run their input do not stand beside a value at all (`REFUSED`).  A program that is not
known gets its arguments as data: what it does with them is its author's duty, and so is
`--` before a value where a leading dash would be an option.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import NoReturn

from feishuperm.engine.variables import VARIABLES, UnsafeTemplate


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


VALUE, OTHER = "\1", "\2"  # in the text of a word: an event's value, another expansion
SCRIPT_HINT = 'write a script, and let it read the value from its environment: "$FILE"'
STDIN_HINT = 'let it read its standard input (`< "$FILE"`), or ' + SCRIPT_HINT
MENTION = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(VARIABLES)})(?![A-Za-z0-9_])")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[.*\])?\+?=", re.DOTALL)
ODD_WORDS = words_of(
    "function select coproc repeat foreach nocorrect noglob namespace end"
)

# They run text from their input or arguments, or change what later words mean.
REFUSED = words_of(
    "eval trap alias let declare typeset local integer float nameref enable bind "
    "complete compgen fc jobs builtin emulate autoload print vared sched "
    "xargs parallel entr at batch crontab watch flock script expect tmux screen zellij "
    "ssh rsh mosh su sg newgrp runuser pkexec nsenter chroot unshare systemd-run "
    "docker podman nerdctl kubectl oc lxc machinectl socat nc ncat netcat "
    "psql sqlite mysql mariadb mongo mongosh redis-cli duckdb "
    "gdb lldb m4 gnuplot ed ex vi vim nvim view emacs irb mail mailx mutt "
    "deno bun lua luajit tclsh wish osascript pwsh powershell julia r rscript octave "
    "ghci jshell groovy scala erl iex elixir ocaml guile racket sbcl clisp "
)
# One of their arguments can be code, or name some: they take no value among them.
APART = words_of(
    "export readonly unset mapfile readarray getopts set shift exit return break "
    "continue wait kill hash type ulimit umask history popd pushd dirs shopt disown "
    "make gmake just rake ninja ant gradle gradlew mvn mvnw cmake bazel meson "
    "npx pnpx bunx yarn pnpm uvx uv pipx pip poetry pipenv pdm hatch conda mamba "
    "bundle gem cargo go dotnet nix nix-shell tsx ts-node corepack nvm asdf mise "
    "direnv awk gawk mawk nawk sed gsed tar bsdtar gtar zip rsync scp sftp wget "
    "less more most man emacsclient nano code xdg-open open start run-parts "
    "strace ltrace perf valgrind hyperfine concurrently nodemon watchexec chokidar "
    "onchange npm-run-all run-s run-p lint-staged cross-env cross-env-shell dotenv "
    "foreman honcho fakeroot proot firejail bwrap xvfb-run unbuffer"
)
FILTERS = words_of("awk gawk mawk nawk sed gsed")  # of these, the usual need is a file
# An option of theirs runs a program; what follows `--` is none.
DASHED = words_of("rg ag ack fd fdfind sort split")
GIT_COMMANDS = words_of(
    "add blame check-ignore commit diff hash-object log ls-files mv restore rm show "
    "status"
)
FIND_TESTS = words_of("-name -iname -path -ipath -wholename -newer -samefile")
FIND_RUNS = re.compile(r"-(?:exec|ok|delete|fprint|fls)")
MODULES = words_of(
    "autopep8 bandit black compileall flake8 isort json.tool mypy py_compile "
    "pycodestyle pydocstyle pyflakes pylint pyright pytest ruff tabnanny vulture yapf"
)
SHELLS = words_of("sh bash rbash dash ash zsh ksh lksh mksh yash csh tcsh fish")
_SHELL = (r"-[abefhkmnpruvx]+|--(?:norc|noprofile|posix)", r"-\w*c\w*")
# Options that leave the script to come, and those that bring the text of one.
INTERPRETERS = {
    **dict.fromkeys(SHELLS, _SHELL),
    "python": (r"-[bBdEIOPqsSuv]+", r"-\w*c.*"),
    "pypy": (r"-[bBdEIOPqsSuv]+", r"-\w*c.*"),
    "perl": (r"-[wWtTX]+", r"-\w*[eE].*"),
    "ruby": (r"-[wW]\d?", r"-\w*e.*"),
    "node": (
        r"--(?:no-warnings|no-deprecation|enable-source-maps|experimental-[a-z-]+)",
        r"-[ep]+|--(?:eval|print)(?:=.*)?",
    ),
    "php": (r"-[nq]", r"-r.*"),
}
# Wrapper -> options alone, options that take a word, words before the command.
WRAPPERS = {
    "command": (r"-p", "", 0),
    "exec": ("", "", 0),
    "env": (r"-i?|--ignore-environment|-u\w+|--unset=\w+", r"-u|-C", 0),
    "nice": (r"-n?-?\d+|--adjustment=-?\d+", r"-n", 0),
    "nohup": ("", "", 0),
    "setsid": (r"-[cfw]+", "", 0),
    "time": (r"-p", "", 0),
    "timeout": (r"-v|--foreground|--preserve-status|-[ks]\w+", r"-[ks]", 1),
    "sudo": (r"-[nEHk]+", r"-[ug]", 0),
    "doas": (r"-n", r"-u", 0),
    "stdbuf": (r"-[ioe]\w+", r"-[ioe]", 0),
    "ionice": (r"-[cn]\d|-t", r"-[cn]", 0),
    "caffeinate": (r"-[dimsu]+", "", 0),
    "busybox": ("", "", 0),
    "toybox": ("", "", 0),
}  # fmt: skip
# A variable of these names means something to a shell, or to npm.
SPECIAL = re.compile(r"npm_|(?:path|cdpath|fpath|prompt|argv|status|psvar)$")


def refuse(why: str, hint: str = SCRIPT_HINT) -> NoReturn:
    raise UnsafeTemplate(f"{why}; {hint}")


class Word:
    """One word as a shell would see it, with marks for what is expanded in it."""

    def __init__(self, text: str, quoted: bool) -> None:
        self.text = text
        self.quoted = quoted

    def has_value(self) -> bool:
        return VALUE in self.text

    def is_script(self) -> bool:
        """Whether it is a file that the author names."""
        folder, _, name = self.text.rpartition("/")
        parts = folder.split("/")
        plain = re.fullmatch(r"[\w.@+,:~][\w.@+,:~-]*", name) and name != "~"
        return bool(plain) and VALUE not in folder and not {"dev", "proc"} & set(parts)


def judge(words: list[Word], assignments: bool = True) -> None:
    """Raises UnsafeTemplate for a command that could evaluate a value."""
    at = 0
    while assignments and at < len(words) and ASSIGNMENT.match(words[at].text):
        _judge_assignment(words[at])
        at += 1
    words = words[at:]
    if not words:
        return
    name = program(words[0])
    if name in ODD_WORDS and not words[0].quoted:
        refuse(f"`{name}` is read differently by every shell")
    if name in REFUSED:
        refuse(f"`{name}` could evaluate a value")
    rest = words[1:]
    if name in WRAPPERS:
        _judge_wrapped(name, rest)
    elif name in INTERPRETERS:
        _judge_interpreter(name, rest)
    elif name in RULES:
        RULES[name](name, rest)
    elif name in APART:
        _judge_apart(name, rest)
    else:
        _judge_unknown(rest)


def program(word: Word) -> str:
    """What a command is, without folder, version and case. Raises UnsafeTemplate."""
    folder, _, name = word.text.rpartition("/")
    if word.has_value():
        refuse("the value would be the program that runs, or the folder it is in")
    if name != "[" and not re.fullmatch(r"\.|[\w+@:][\w.+@:-]*", name):
        refuse("it cannot be told which program would run")
    if re.search(r"[][{}*?]", folder):
        refuse("a pattern would choose the program that runs")
    plain = re.sub(r"\.exe$|-(?:static|dbg)$", "", name.lower())
    plain = {"nodejs": "node", "source": "."}.get(plain, plain)
    versioned = plain not in REFUSED | APART  # `python3.11`, but not `m4`
    return re.sub(r"(?<=[a-z])[-.]?\d[\d.]*$", "", plain) if versioned else plain


def _judge_assignment(word: Word) -> None:
    match = ASSIGNMENT.match(word.text)
    assert match is not None
    if match[2]:
        refuse("an index can be evaluated")
    named = re.fullmatch("[a-z][a-z0-9_]*", match[1]) and not SPECIAL.match(match[1])
    if word.has_value() and not named:
        refuse(
            f"{match[1]} may mean something to a program",
            "give the variable a name in small letters",
        )


def _judge_wrapped(name: str, words: list[Word]) -> None:
    """A command behind `env`, `timeout` and the like."""
    alone, paired, before = WRAPPERS[name]
    if name == "command" and words and words[0].text in ("-v", "-V"):
        return
    at = 0
    while at < len(words):
        text = words[at].text
        if paired and re.fullmatch(paired, text):
            at += 2
        elif alone and re.fullmatch(alone, text):
            at += 1
        elif name in ("env", "sudo", "doas") and ASSIGNMENT.match(text):
            _judge_assignment(words[at])
            at += 1
        else:
            break
    if has_value(words[: at + before]):
        refuse(f"`{name}` takes no value before its command")
    judge(words[at + before :], assignments=False)


def _judge_interpreter(name: str, words: list[Word]) -> None:
    """A script and its arguments; without one, no value in any word."""
    plain, code = INTERPRETERS[name]
    left = list(itertools.dropwhile(lambda w: re.fullmatch(plain, w.text), words))
    if not left:
        refuse(f"`{name}` without a script would run what it reads")
    first, module = left[0], left[1].text if left[1:] else ""
    if first.is_script():
        return
    is_module = name in ("python", "pypy") and first.text == "-m"
    if is_module and module in MODULES:
        return
    if has_value(words) or (name in SHELLS and _mentions_a_name(words)):
        refuse(f"a value in text that `{name}` runs")
    if not is_module and not re.fullmatch(code, first.text, re.DOTALL):
        refuse(f"it cannot be told what `{name} {first.text}` would run")


def has_value(words: Iterable[Word]) -> bool:
    return any(word.has_value() for word in words)


def _mentions_a_name(words: list[Word]) -> bool:
    """Whether a shell would find one of our variables in its own text."""
    return any(MENTION.search(word.text) for word in words)


def _judge_apart(name: str, words: list[Word]) -> None:
    hint = STDIN_HINT if name in FILTERS else SCRIPT_HINT
    if has_value(words):
        refuse(f"`{name}` can run what its arguments say", hint)
    if name in ("make", "gmake") and any(
        re.match(r"-\w*f|--(?:make)?file|--eval|-E", word.text) for word in words
    ):
        refuse(f"`{name}` could run what it reads")


def _judge_unknown(words: list[Word]) -> None:
    """Arguments are data, unless a shell with its text is among them."""
    for number, word in enumerate(words[:-1]):
        name = word.text.rpartition("/")[2].rstrip("0123456789.")
        if name in INTERPRETERS:
            code = INTERPRETERS[name][1]
            if re.fullmatch(code, words[number + 1].text, re.DOTALL):
                _judge_interpreter(name, words[number + 1 :])


def _judge_dot(name: str, words: list[Word]) -> None:
    if not words or not words[0].is_script() or has_value(words):
        refuse("`.` would run what is not a file of yours")


def _judge_test(name: str, words: list[Word]) -> None:
    """`-v` looks into an index; two values in a row could bring their own."""
    if any(word.text in ("-v", "-R") for word in words):
        refuse(f"`{name} -v` can evaluate a value")
    for first, second in zip(words, words[1:]):
        if first.has_value() and second.has_value():
            refuse(f"`{name}` with two values in a row", "put an operator between them")


def _judge_printf(name: str, words: list[Word]) -> None:
    if words and (words[0].text[:1] in (VALUE, OTHER) or words[0].text[:2] == "-v"):
        refuse("`printf -v` can evaluate a value", "begin with the format: printf %s")


def _judge_read(name: str, words: list[Word]) -> None:
    for word in words:
        named = re.fullmatch(r"-r|[a-z_][a-z0-9_]*", word.text)
        if not named or SPECIAL.match(word.text):
            refuse("`read` takes names in small letters, and `-r`")


def _judge_dashed(name: str, words: list[Word]) -> None:
    for word in words:
        if word.text == "--":
            return
        if word.text[:1] == VALUE:
            refuse(
                f"an option of `{name}` can run a program", "put `--` before the value"
            )


def _judge_git(name: str, words: list[Word]) -> None:
    at = 0
    while at < len(words) and words[at].text in ("-C", "--no-pager"):
        at += 2 if words[at].text == "-C" else 1
    plain = at < len(words) and words[at].text in GIT_COMMANDS
    if not plain and has_value(words):
        refuse("this git command can run what its arguments say")


def _judge_find(name: str, words: list[Word]) -> None:
    for before, word in zip([Word("", False), *words], words):
        if FIND_RUNS.match(word.text):
            refuse(f"`find {word.text}` could evaluate a value")
        if word.has_value() and before.text not in FIND_TESTS:
            refuse("`find` takes a value behind -name or -path only")


def _judge_npm(name: str, words: list[Word]) -> None:
    """npm quotes what it hands to a script of package.json, behind `--`."""
    texts = [word.text for word in words]
    ends = texts.index("--") if "--" in texts else len(texts)
    runs = texts[:1] in (["run"], ["run-script"], ["test"])
    if has_value(words[:ends] if runs else words):
        refuse("npm can run what its arguments say", "npm run NAME -- $FILE")


def _judge_jq(name: str, words: list[Word]) -> None:
    """A program text first; a value behind it, or as `--arg NAME VALUE`."""
    at = 0
    while at < len(words) and words[at].text[:1] == "-":
        at += 3 if words[at].text in ("--arg", "--rawfile", "--slurpfile") else 1
    if at < len(words) and words[at].has_value():
        refuse(
            f"a value in text that `{name}` runs", "--arg f $FILE, and $f in the text"
        )


RULES: dict[str, Callable[[str, list[Word]], None]] = {
    ".": _judge_dot,
    "[": _judge_test,
    "test": _judge_test,
    "printf": _judge_printf,
    "read": _judge_read,
    "git": _judge_git,
    "find": _judge_find,
    "npm": _judge_npm,
    "jq": _judge_jq,
    "yq": _judge_jq,
    **dict.fromkeys(DASHED, _judge_dashed),
}
