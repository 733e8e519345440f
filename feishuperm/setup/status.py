"""What the server says of itself, and how a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from feishuperm.agents.table import CLAUDE
from feishuperm.errors import FeishupermError
from feishuperm.lib import qr
from feishuperm.lib.config import gateway_socket
from feishuperm.lib.control import Reply, ask_server, is_listening
from feishuperm.lib.display import one_line, pad
from feishuperm.lib.language import duration, spoken, translate
from feishuperm.messages import msg, word
from feishuperm.models.ask import last_name
from feishuperm.models.settings import host_is_local, url_host
from feishuperm.services.history import seen_at
from feishuperm.setup.service import kept_by, tries

Status = dict[str, Any]
LOOK_SECONDS = 3.0  # for the server to see who else is connected


def settled_status(
    socket: str = "", seconds: float = LOOK_SECONDS, inbox: bool = False
) -> Status:
    """The status, once the server has dialled and looked. Raises FeishupermError."""
    with suppress(FeishupermError):  # an older server cannot look
        for _ in tries(seconds):
            if not ask_server({"command": "look"}, path=socket)["busy"]:
                break
    return ask_server({"command": "status", "inbox": inbox}, path=socket)


def read_status(socket: str, environ: Mapping[str, str]) -> Status:
    """The status of the server on a socket. Raises FeishupermError without one."""
    status = settled_status(socket, inbox=True)
    service = kept_by(status["pid"], environ)
    return Reply({"running": True, "service": service, **status})


def read_gateway(environ: Mapping[str, str]) -> Status | None:
    """What a gateway of this user says of itself; None without one."""
    path = gateway_socket(environ)
    if not is_listening(path):
        return None
    return ask_server({"command": "status"}, path=path)


def gateway_lines(gateway: Status) -> Iterator[str]:
    """A gateway for a person."""
    yield translate("gateway  connected machines: {}", gateway["machines"])
    for name in ("app", "engine"):
        words = standing(name, gateway[name]["state"], gateway[name]["detail"])
        yield f"  {one_line(words, 500)}"
    for problem in filter(None, (gateway["problem"], gateway.get("clock"))):
        yield f"  {one_line(translate(problem), 500)}"


def standing(name: str, state: str, detail: str | None = "") -> str:
    """How something is that may be down."""
    words = f"{translate(word(name))} {translate(word(state))}"
    return f"{words}: {translate(detail)}" if detail else words


def inbox_link(socket: str = "") -> str:
    """A link that opens the inbox; once and for ten minutes, if it needs to."""
    return str(ask_server({"command": "status", "inbox": True}, path=socket)["inbox"])


def lines(status: Status, now: float) -> Iterator[str]:
    """The status for a person, each fact on a line that it cannot leave."""
    since = duration(now - float(status.get("started") or now))
    version, service, pid = status["version"], word(status["service"]), status["pid"]
    runs = msg("feishuperm {} runs ({}, pid {}, for {})", version, service, pid, since)
    yield one_line(translate(runs))
    waiting, channels = status["waiting"], status["channels"]
    rows = [("inbox", "inbox"), ("buttons", "http"), ("socket", "socket")]
    yield from (row(name, status[key]) for name, key in rows)
    if status.get("policy"):
        yield one_line(translate("policy: {}", translate(status["policy"])), 2000)
    if "remote" in status:  # an older server does not say
        names = ", ".join(map(last_name, status["remote"].get("projects", ())))
        is_on = translate("on: {}", names)
        yield row("remote", is_on if status["remote"] else translate(word("off")))
    for each in channels:
        yield row("channel", standing(each["name"], each["state"], each.get("detail")))
    quiet = status.get("quiet")
    if quiet:
        state = f": {translate(quiet['state'])}" if quiet["state"] else ""
        yield row("quiet", f"{quiet['hours']}{state}")
    yield row("waiting", status.get("waiting_count", len(waiting)))
    for request in waiting:
        yield from request_lines(request)


def request_lines(request: dict[str, Any]) -> Iterator[str]:
    """A pending request for a person, and below it what it wants."""
    keys = ("id", "agent", "tool", "project")
    words = [one_line(str(request[key])) for key in keys if key in request]
    words = [word for word in words if word != CLAUDE]
    words.append(translate("{} left", duration(request["seconds_left"])))
    if "seen" in request:
        at = request["seen"]
        words.append(seen_at(at) if at else translate("not seen"))
    if request.get("danger"):
        danger = ", ".join(map(danger_word, request["danger"]))
        words.append(one_line(translate("danger: {}", danger)))
    yield "  ".join(["", *words])
    if request.get("summary"):
        yield "    " + one_line(str(request["summary"]), 500)


def danger_word(name: str) -> str:
    """What a mark is called: by its name, in Chinese as cards say it."""
    from feishuperm.services.presenter import SENTENCES  # late: it reads whole commands

    sentence = SENTENCES.get(f"danger.{name}", "")
    if not sentence or spoken() == "en":
        return name
    return translate(sentence, what="").rstrip("：: ")


def brief(status: Status | None, installed: bool, asks: bool) -> Iterator[str]:
    """Where one stands, in four lines and the next step."""
    if not installed:
        yield translate("feishuperm is not installed")
        yield translate("next: {}", "feishuperm install")
        return
    if status is None:
        yield translate("feishuperm is installed, but its server is not running")
        yield translate("next: {}", "feishuperm restart")
        return
    running = msg("feishuperm {} is running (pid {})", status["version"], status["pid"])
    yield one_line(translate(running))
    names = [standing(row["name"], row["state"]) for row in status["channels"]]
    yield one_line(translate("channels: {}", ", ".join(names)), 2000)
    count = status.get("waiting_count", len(status["waiting"]))
    yield translate("requests waiting: {}", count)
    yield one_line(translate("inbox: {}", status["inbox"]), 2000)
    yield translate("next: {}", next_step(status, asks))


def next_step(status: Status, asks: bool) -> str:
    """The command that helps most now."""
    states = {channel["name"]: channel["state"] for channel in status["channels"]}
    if set(states) <= {"inbox"}:
        return "feishuperm install --setup"
    if "down" in states.values():
        return "feishuperm doctor"
    return "feishuperm --help" if asks else "feishuperm install --ask-list"


def qr_lines(link: str, columns: int) -> list[str]:
    """A QR code of a link, or why there is none."""
    if host_is_local(url_host(link)):
        here = translate("a phone cannot open {}; it works here only", link)
        return [here, "feishuperm install --callback-url URL"]
    code = qr.encode(link.encode())
    if qr.width(code) > columns:
        return [translate("(no QR code: it needs {} columns)", qr.width(code))]
    how = msg("scan it to open the inbox on a phone: good once, for ten minutes")
    return [*qr.half_blocks(code), translate(how)]


def row(name: str, value: object) -> str:
    return f"{pad(translate(word(name)), 9)}{one_line(str(value), 2000)}"
