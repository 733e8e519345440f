"""`feishuperm join URL`: let a gateway carry our requests; `leave` undoes it."""

from __future__ import annotations

import os
import socket
import sys
from functools import partial

from feishuperm.channels.gateway import dial_gateway
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import load_settings
from feishuperm.lib.enrolment import Enrolment
from feishuperm.lib.post import dial
from feishuperm.lib.process_tree import require_outside
from feishuperm.lib.terminal import ask, say
from feishuperm.messages import msg
from feishuperm.setup.join import Pairing, check_url, leave_gateway, take_up
from feishuperm.setup.service import running_status, try_restart


def main(args: list[str]) -> int:
    """Pair, store, and let the server know."""
    parser = ArgumentParser("join", "--allow-http")
    parser.add_argument("url")
    parser.add_argument("--name", default="")
    parser.add_argument("--owner", default="")
    options = parser.parse_args(args)
    require_outside(os.environ)  # who owns the gateway answers for this machine
    settings = load_settings()
    url = check_url(options.url, options.allow_http)
    connect = partial(dial, ca_file=settings.feishuperm_ca_file)
    pairing = Pairing(url, lambda address: dial_gateway(address, connect), _show, _tick)
    own = pairing.join(options.name or socket.gethostname(), options.owner, _agree)
    take_up(own, _grants())
    say("joined {} as {} ({})", url, own.name, own.machine)
    say(try_restart(os.environ))  # it takes the gateway up, running or not
    return 0


def leave(args: list[str]) -> int:
    """Forget the gateway, and let the server know."""
    ArgumentParser("leave").parse_args(args)
    url = leave_gateway()
    if not url:
        say("this machine has joined no gateway")
        return 0
    say("left {}; its owner can revoke the machine there as well", url)
    if running_status() is not None:
        say(try_restart(os.environ))
    return 0


def _show(code: str) -> None:
    say("pairing code {}", code)
    say("send the six digits to the bot in Feishu, and confirm there")


def _tick(left: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{left} ", end="", file=sys.stderr, flush=True)


def _agree(own: Enrolment) -> bool:
    """Show who confirmed; at a terminal a person may still say no."""
    who = f"{own.owner_name} ({own.owner})" if own.owner_name else own.owner
    say("confirmed by {}", who)
    if not sys.stdin.isatty():
        return True
    return ask("is that you? [Y/n] ") in ("", "y", "yes", "是")


def _grants() -> bool | None:
    """Whether the gateway may bring what lasts; None: nobody is there to ask."""
    if not sys.stdin.isatty():
        return None
    say("people who run the gateway can tap for you")
    question = msg(
        "should its cards offer Always, passes and the next prompt too? [y/N] "
    )
    return ask(question) in ("y", "yes", "是")
