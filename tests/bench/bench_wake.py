"""From `发送` to the session's next request to the model, with the real client.

    python3 build.py bench wake

The session is idle and waits in our background hook; the text is posted as the page
does it, and the clock stops when the scripted model is asked with it.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.serving import ARCHIVE
from tests.bench.table import row
from tests.e2e.test_next import Room
from tests.lab import Lab, claude_binary
from tests.served import Served

WAKES = 20
LIMIT = 1.0


def main() -> int:
    binary = claude_binary()
    if not binary:
        print("bench: the real Claude Code client is not installed, no wake measured")
        return 0
    with Lab(binary, pyz=str(ARCHIVE)) as lab:
        home = Path(lab.root) / "server"
        home.mkdir()
        with Served(ARCHIVE, home) as served:
            room = Room(lab, served)
            lab.session("go")
            id, took = "", []
            for number in range(WAKES):
                id = room.idle(id)
                took.append(room.send(id, f"step {number}"))
    print(f"median {statistics.median(took):.3f} s of {WAKES} wakes")
    what = "from sending a text to the session's request with it"
    return int(not row(what, f"slowest of {WAKES}", max(took), LIMIT, "s"))


if __name__ == "__main__":
    sys.exit(main())
