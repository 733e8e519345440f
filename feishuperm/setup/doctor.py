"""Every hop from hook to phone, checked one by one: one row of `CHECKS` per check.

A check looks at one thing and says ok, warn or fail, what it saw, and the command that
mends it.  It changes nothing; one of them sends a test card, since nothing else proves
that Feishu takes cards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from feishuperm.errors import FeishupermError
from feishuperm.lib.display import one_line
from feishuperm.lib.tongue import translate
from feishuperm.services.history import pad
from feishuperm.setup import checks_claude as claude
from feishuperm.setup import checks_feishu as feishu
from feishuperm.setup import checks_program as program
from feishuperm.setup import checks_server as server
from feishuperm.setup.case import FAIL, OK, Case, Result, words

CHECKS: dict[str, Callable[[Case], Iterator[Result]]] = {
    "python": program.check_python,
    "file": program.check_file,
    "config": program.check_config,
    "settings": program.check_together,
    "state": program.check_state,
    "ledger": program.check_ledger,
    "claude settings": claude.check_settings,
    "hooks": claude.check_hooks,
    "hooks enabled": claude.check_enabled,
    "permission mode": claude.check_mode,
    "server": server.check_server,
    "socket": server.check_socket,
    "http": server.check_http,
    "loopback": server.check_loopback,
    "feishu": feishu.check_feishu,
    "clock": feishu.check_clock,
    "loop": server.check_loop,
    "gateway": server.check_gateway,
}
WIDTH = max(map(len, CHECKS))
LONGEST = 2000  # characters of a text; an answer from outside may be endless


class Finding(NamedTuple):
    """What one check has to say, as `--json` shows it."""

    check: str
    state: str
    text: str
    fix: str = ""

    def line(self) -> str:
        """The same, as a person reads it."""
        state, check = pad(translate(self.state), 4), pad(translate(self.check), WIDTH)
        line = f"{state}  {check}  {one_line(translate(self.text), LONGEST)}"
        fix = one_line(translate(self.fix), LONGEST)
        return f"{line}  -> {fix}" if fix else line


def examine(case: Case) -> Iterator[Finding]:
    """Run every check, in the order of the hops."""
    for name, check in CHECKS.items():
        try:
            results = list(check(case))
        except (FeishupermError, OSError) as error:
            fix = getattr(error, "hint", "") or case.install()
            results = [Result(FAIL, words(error), fix)]
        for state, text, fix in results:
            yield Finding(name, state, text, "" if state == OK else fix)
