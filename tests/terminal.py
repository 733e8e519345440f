"""A real terminal (tmux), what it shows as a picture, and QR codes read off pictures.

The reader is zbar, which shares no line with our encoder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple

PIXELS = 4  # of a module's side; a cell is one module wide and two high
GREYS = {"16": 0, "231": 255}  # the colours of a code that sets its own
BLOCKS = {"▀": (True, False), "▄": (False, True), "█": (True, True)}
# tmux itself sometimes does not know how a program ended, and it drops what it has
# not read when the last process goes: so the shell asks where the cursor stands, and
# goes once tmux, which answers in order, has read everything before the question.
KEEP_CODE = """trap : INT; "$@"; code=$?
stty -icanon -echo min 0 time 20; printf '\\033[6n'
dd bs=32 count=1 of=/dev/null 2>/dev/null
echo "$code" >"$0"
"""
STYLE = re.compile("\x1b\\[([0-9;]*)m")


class Theme(NamedTuple):
    """What a terminal paints with, as greys."""

    ink: int
    ground: int


THEMES = {"dark": Theme(204, 30), "light": Theme(40, 250)}


def tmux(socket: str, home: str, *arguments: str) -> str:
    """What the tmux server of a socket says; empty when it is gone."""
    environ = {"PATH": os.environ["PATH"], "HOME": home}
    return subprocess.run(
        ["tmux", "-S", socket, "-f", "/dev/null", *arguments],
        env={**environ, "LANG": "C.UTF-8", "TERM": "xterm-256color"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        timeout=20,
        check=False,
    ).stdout


class Terminal:
    """A program on a terminal of a given size, in a tmux server of its own."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        columns: int = 80,
        rows: int = 60,
        cwd: str = "/",
    ) -> None:
        self._folder = tempfile.mkdtemp(prefix="tty-")
        self._socket = os.path.join(self._folder, "s")
        self._code = os.path.join(self._folder, "code")
        pairs = [f"{key}={value}" for key, value in environ.items()]
        self.tmux(
            *("new-session", "-d", "-s", "s", "-x", str(columns), "-y", str(rows)),
            *("-c", cwd, "--", "sh", "-c", KEEP_CODE, self._code),
            *("env", "-i", "TERM=screen-256color", *pairs, *command),
            *(";", "set-option", "-g", "remain-on-exit", "on"),
            *(";", "set-option", "-g", "history-limit", "5000"),
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def tmux(self, *arguments: str) -> str:
        return tmux(self._socket, self._folder, *arguments)

    def screen(self) -> str:
        """The text that stands there, with what has scrolled away above it."""
        return self.tmux("capture-pane", "-p", "-J", "-S", "-", "-t", "s")

    def drawn(self) -> str:
        """What stands there, with its colours."""
        return self.tmux("capture-pane", "-p", "-e", "-N", "-t", "s")

    def picture(self, theme: Theme) -> bytes:
        """What a camera sees, as a grey bitmap (PGM)."""
        return bitmap(painted(self.drawn(), theme), theme.ground)

    def keys(self, *keys: str) -> None:
        """Press keys by tmux's names: "Enter", "C-c"."""
        self.tmux("send-keys", "-t", "s", *keys)

    def type(self, words: str) -> None:
        """Type a line, and Enter."""
        self.tmux("send-keys", "-t", "s", "-l", words)
        self.keys("Enter")

    def wait(self, text: str, timeout: float = 30) -> str:
        """The screen once the text stands there."""
        until = time.monotonic() + timeout
        while text not in (screen := self.screen()):
            assert time.monotonic() < until, f"no {text!r} on:\n{screen}"
            time.sleep(0.03)
        return screen

    def wait_last(self, text: str, timeout: float = 30) -> None:
        """Wait until the text stands on the last line."""
        until = time.monotonic() + timeout
        while text not in (screen := self.screen().rstrip()).rpartition("\n")[2]:
            assert time.monotonic() < until, f"no {text!r} at the end of:\n{screen}"
            time.sleep(0.03)

    def ended(self, timeout: float = 30) -> int:
        """The exit code of the program, once it has ended."""
        until = time.monotonic() + timeout
        while True:
            if self.tmux("list-panes", "-F", "#{pane_dead}").startswith("1"):
                with open(self._code, encoding="ascii") as file:
                    return int(file.read())
            assert time.monotonic() < until, self.screen()
            time.sleep(0.03)

    def close(self) -> None:
        self.tmux("kill-server")
        shutil.rmtree(self._folder, ignore_errors=True)


def painted(drawn: str, theme: Theme) -> list[list[int]]:
    """The greys of each line's upper and lower half; a style goes on in the next."""
    rows: list[list[int]] = [[], []]
    ink, ground = theme
    for number, part in enumerate(STYLE.split(drawn)):
        if number % 2:
            ink, ground = restyled(part, ink, ground, theme)
            continue
        for character in part:
            if character == "\n":
                rows += [[], []]
                continue
            for half, is_ink in zip(rows[-2:], BLOCKS.get(character, (False, False))):
                half.append(ink if is_ink else ground)
    return rows


def restyled(codes: str, ink: int, ground: int, theme: Theme) -> tuple[int, int]:
    """The greys after an escape sequence."""
    parts = codes.split(";")
    if parts[:2] == ["38", "5"]:
        return GREYS[parts[2]], ground
    if parts[:2] == ["48", "5"]:
        return ink, GREYS[parts[2]]
    if codes == "39":
        return theme.ink, ground
    assert codes in ("", "0", "49"), codes
    return (ink, theme.ground) if codes == "49" else theme


def bitmap(rows: Sequence[Sequence[int]], ground: int = 255) -> bytes:
    """Rows of greys, each a square of pixels; short rows are filled up."""
    columns = max(map(len, rows))
    lines = []
    for greys in rows:
        filled = [*greys, *[ground] * (columns - len(greys))]
        lines.append(bytes(grey for grey in filled for _ in range(PIXELS)))
    body = b"".join(line * PIXELS for line in lines)
    return b"P5 %d %d 255\n" % (columns * PIXELS, len(rows) * PIXELS) + body


def read_codes(pictures: Iterable[bytes]) -> list[bytes]:
    """What zbar reads in each picture; empty where it sees no code."""
    with tempfile.TemporaryDirectory(prefix="qr-") as folder:
        contents = []
        for number, picture in enumerate(pictures):
            path = os.path.join(folder, f"{number}.pgm")
            with open(path, "wb") as file:
                file.write(picture)
            contents.append(read_code(path))
        return contents


def read_code(path: str) -> bytes:
    """What zbar reads in a file."""
    command = ["zbarimg", "--quiet", "--raw", "--oneshot", "-Sbinary", path]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30
    ).stdout
