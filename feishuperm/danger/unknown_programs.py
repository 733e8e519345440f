"""Programs that nobody has told us about, and what may still be said of them.

By their first word, by the name of a script, by a command among their arguments, by
what they print and to whom they send it.
"""

from __future__ import annotations

import re

from feishuperm.danger.code import destroys
from feishuperm.danger.command_table import is_harmless, pattern, words
from feishuperm.danger.interpreter import (
    DOWNLOADED,
    HOST,
    NOTHING,
    PATHLIKE,
    SECRET,
    Arg,
    Args,
    Call,
    Output,
    ShellState,
    shown,
)
from feishuperm.shell.programs import SHELLS

# What a first word says of a program that is not known otherwise.
_VERBS = {
    **dict.fromkeys(("publish", "unpublish", "deploy", "shipit"), "danger.publish"),
    **dict.fromkeys(("destroy", "nuke", "teardown"), "danger.machine"),
}
# Behind a program that is not known: what it may well run.
RUN_BY_OTHERS = frozenset(["rm", "sudo", "doas", "dd", "shred", *SHELLS])
_DATABASE = {"dbshell", "dbconsole", "--stdin", "db", "sql", "query"}
_SOMEBODY = re.compile(r"[\w.-]+:|[\w.+-]+@[\w-]+\.\w")


def unknown(state: ShellState, call: Call) -> Output:
    """A program that nobody has told us about; its name is the first word."""
    word, args = call.args[0], call.args[1:]
    name = word.rpartition("/")[2]
    recognised = state.recognise(name, args) or _by_verb(state, name, args)
    if PATHLIKE.match(word) and not recognised:
        state.reads(word)
    if "/" in word:
        by_name(state, word, args)
    runs_among(state, args)
    fed_sql(state, args, call.given)
    state.outputs(name, args)
    out = state.look(args)
    rest = args.operands()
    for path in rest if name in words("runs its file") else ():
        state.suspicious(state.brought(path))
    for somebody in filter(_SOMEBODY.match, rest[-1:]):
        state.leaks(out if out.origin else call.given, somebody)
    return _printed(name, call.args, out).mixed(call.given)


def by_words(state: ShellState, call: Call) -> Output:
    return unknown(state, call._replace(args=Args([Arg(call.name), *call.args])))


def _printed(name: str, args: Args, out: Output) -> Output:
    """What a program prints that reads something: that, or what others keep for it."""
    secret = printed_secret(name, args[1:])
    if secret is not None:
        return secret
    text = " ".join(args[:4])[:2000]
    remote = pattern("prints_remote").match(text)
    if remote or (not out.origin and HOST.search(text)):
        return Output(None, DOWNLOADED, text)
    return out


def printed_secret(name: str, args: Args) -> Output | None:
    """What a program prints that is told to print a secret."""
    if pattern("prints_secret").match(" ".join([name, *args[:3]])):
        return Output(None, SECRET, f"$({shown(name, args)})")
    return None


def _by_verb(state: ShellState, name: str, args: Args) -> bool:
    key = _VERBS.get(args[0]) if args else None
    if key is None or pattern("naming").fullmatch(name) or is_harmless(args):
        return False
    state.note(key, shown(name, args))
    return True


def fed_sql(state: ShellState, args: Args, given: Output) -> None:
    """Statements that a framework hands to its database."""
    statement = destroys(given.text or "") if _DATABASE & set(args) else ""
    if statement:
        state.note("danger.data", statement)


def publishes(goal: str) -> bool:
    """Whether a target or a script is called by what it does."""
    return pattern("publishes").fullmatch(goal) is not None


def by_name(state: ShellState, path: str, args: Args) -> None:
    """A script whose name tells what it does."""
    goal = re.sub(r"\.\w+\Z", "", path.rpartition("/")[2])
    if publishes(goal) and not is_harmless(args):
        state.note("danger.publish", path)


def runs_among(state: ShellState, args: Args) -> None:
    """`anything sh -c TEXT`, `-c TEXT`, `-- command`: any program may run that."""
    command = args.behind_dashes() or args
    if len(command) > 1 and _is_command(state, command[0], command is not args):
        state.call(command, NOTHING)
        return
    for place, (arg, text) in enumerate(zip(args, args[1:])):
        if arg in SHELLS and re.fullmatch(r"-\w*c", text):
            state.call(args[place:], NOTHING)
            return
        if arg in ("-c", "-C", "--command", "--exec", "--run") and " " in text:
            state.run(text)
        if arg in ("run", "exec", "-c", "--command") and text in RUN_BY_OTHERS:
            state.call(args[place + 1 :], NOTHING)
        if arg in ("-c", "-e", "--eval", "--execute", "runner", "--command"):
            state.call([Arg("python"), Arg("-c"), text], NOTHING)


def _is_command(state: ShellState, word: str, dashed: bool) -> bool:
    """Whether a command begins with a word: by itself, or behind `--`."""
    leaf = word.rpartition("/")[2]
    return word in RUN_BY_OTHERS or (dashed and leaf in state.programs)
