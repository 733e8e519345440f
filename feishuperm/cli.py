"""The command line: which command is meant, and how a failure is told.

Knows every command by its row and imports only the chosen one.  A command module has
`main(args) -> int` and reads its own arguments; it raises FeishupermError for anything
a person should read.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module

from feishuperm.errors import FeishupermError, UsageError
from feishuperm.messages import message_of, msg
from feishuperm.models.names import COMMANDS, PROGRAMS, TOPICS

HELP = ("--help", "-h", "help")
# These leave no file behind, or are a session's, which they must not disturb.
FOR_ANY_USER = ("hook", "supervisor", "version", "help")
# Commands that live in the file of another one, as a function of their own name.
BESIDE = {"restart": "stop", "leave": "join"}


def main(argv: list[str] | None = None) -> int:
    """Run the command that argv names; the exit code."""
    name, *args = sys.argv if argv is None else argv
    command = PROGRAMS.get(name.rpartition("/")[2], "")
    try:
        for stream in (sys.stdout, sys.stderr):
            # An odd file name or locale costs a character, not the whole program.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        if not command:
            command, args = choose(args)
        code = run(command, args)
        if sys.stdout:  # a service may be started without one
            sys.stdout.flush()
        return code
    except FeishupermError as error:
        from feishuperm.lib.terminal import complain

        complain(error)
        return 0 if command == "hook" else error.exit_code
    except BrokenPipeError:  # the reader has had enough: `feishuperm log | head`
        forget_output(1)
        return 1
    except OSError as error:  # a full disk, a device that is gone
        forget_output(1)
        return 0 if command == "hook" else tell_trouble(error)
    except KeyboardInterrupt:
        return 130


def forget_output(fd: int) -> None:
    """What could not be written is not tried again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), fd)


def tell_trouble(error: OSError) -> int:
    """A failure of the system, in one line; the exit code."""
    from feishuperm.lib.terminal import warn

    said = message_of(error)
    try:
        warn(msg("{}: {}", error.filename, said) if error.filename else said)
    except OSError:  # nor can it be told
        forget_output(2)
    return 1


def choose(args: list[str]) -> tuple[str, list[str]]:
    """The command and its arguments. Raises UsageError."""
    if not args:
        from feishuperm.lib.terminal import can_ask

        if can_ask():  # somebody typed it, and can read the answer
            return "status", ["--brief"]
        raise UsageError(msg("no command given"), "feishuperm --help")
    word, *rest = args
    if word in HELP and (not rest or rest[0] in TOPICS):
        return "help", rest[:1]
    if word in HELP:
        return choose(rest)[0], ["--help"]
    if word in ("--version", "-V"):
        return "version", rest
    if word not in COMMANDS:
        raise UsageError(*unknown(word))
    return word, rest


def unknown(word: str) -> tuple[str, str]:
    """What to say about a word that is no command: (message, hint)."""
    from difflib import get_close_matches

    near = get_close_matches(word, COMMANDS, 1)
    hint = (
        msg("did you mean `feishuperm {}`?", near[0]) if near else "feishuperm --help"
    )
    if word.startswith("-"):
        return msg("unknown option {!r}", word), hint
    return msg("unknown command {!r}", word), hint


def run(command: str, args: list[str]) -> int:
    """Import one command and call it. Raises FeishupermError."""
    if command == "hook":
        return run_hook(args)
    is_for_help = not set(HELP).isdisjoint(args)
    if os.geteuid() == 0 and command not in FOR_ANY_USER and not is_for_help:
        from feishuperm.lib.config import home
        from feishuperm.lib.files import require_own

        require_own(home(), [command, *args])  # root with the HOME of another user
    module = import_module(module_name(command))
    code: int = getattr(module, command if command in BESIDE else "main")(args)
    return code


def module_name(command: str) -> str:
    return "feishuperm.commands." + BESIDE.get(command, command).replace("-", "_")


def run_hook(args: list[str]) -> int:
    """`hook` without the short way of the built file; see `client`."""
    if args and (len(args) > 1 or args[0].startswith("-")):
        from feishuperm.lib.arguments import ArgumentParser

        ArgumentParser("hook").parse_args(args)
    from feishuperm import client

    client.main()
    return 0
