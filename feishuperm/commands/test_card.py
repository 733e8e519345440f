"""`feishuperm test-card`: a real card through the running server, and its tap."""

from __future__ import annotations

from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import load_settings
from feishuperm.lib.terminal import can_ask, say, show
from feishuperm.messages import msg
from feishuperm.setup.checks import QUIET_NOW, await_tap, obstacle
from feishuperm.setup.feishu_setup import addresses, advise, is_out_of_reach
from feishuperm.setup.status import inbox_link, settled_status

NOT_NOW = msg("these are quiet hours: a test card is sent from a terminal only")


def main(args: list[str]) -> int:
    options = ArgumentParser("test-card", "--json").parse_args(args)
    settings = load_settings()
    path, seconds = settings.permission_socket_path, settings.permission_request_timeout
    status = settled_status(path)
    obstacle(status)  # raises without a bot
    is_quiet = bool((status.get("quiet") or {}).get("until"))
    if is_quiet and not can_ask():  # a program has asked for it, perhaps an agent
        raise FeishupermError(NOT_NOW, "feishuperm test-card")
    if not options.json:
        if is_quiet:
            say(QUIET_NOW)
        if is_out_of_reach(settings):
            advise(settings, addresses())
        say("A card is on its way: tap its button within {} seconds.", seconds)
        say("No card? The inbox shows it too: {}", inbox_link(path))
    output = await_tap(path, seconds, is_quiet=options.json)
    if options.json:
        show(output)
    return 0
