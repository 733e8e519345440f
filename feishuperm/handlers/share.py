"""Handing this very version on: GET /install.sh and /feishuperm.pyz.

The script that goes out holds the address and the checksum of the file that goes out.
The file is kept in memory from the start: an upgrade replaces it on the disk, and a
script and a file of two versions must never meet.
"""

from __future__ import annotations

import hashlib
import pkgutil
import re
from collections.abc import Callable

from feishuperm import __version__
from feishuperm.handlers.access import is_local
from feishuperm.lib.files import read_bytes
from feishuperm.lib.program import archive_path
from feishuperm.models.settings import Settings
from feishuperm.protocol import http1
from feishuperm.protocol.http1 import Response

MAX_ARCHIVE = 64 << 20
SAFE_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}\Z")


class Share:
    """Answers the routes a team mate installs from; None for any other path."""

    def __init__(
        self, settings: Settings, archive: bytes | None = None, script: bytes = b""
    ) -> None:
        if archive is None:
            path = archive_path()
            archive = (read_bytes(path, MAX_ARCHIVE) if path else None) or b""
        self._who = settings.callback_share_installer
        self._url = settings.callback_server_url
        self._archive = archive
        self._digest = hashlib.sha256(archive).hexdigest()
        self._script = script or pkgutil.get_data("feishuperm", "web/install.sh") or b""

    def __call__(self, request: http1.Request) -> Response | None:
        route = ROUTES.get(request.path)
        if route is None or not self._archive or not self._is_open(request):
            return None
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"wrong method\n", headers=[("Allow", "GET, HEAD")])
        return route(self, request)

    def script(self, request: http1.Request) -> Response:
        """The installer, filled in for the file of this server."""
        url = self._address(request) + "/feishuperm.pyz"
        text = fill_installer(self._script, __version__, url, self._digest)
        return Response(200, text, "text/x-shellscript; charset=utf-8")

    def archive(self, request: http1.Request) -> Response:
        """The program."""
        return Response(200, self._archive, "application/octet-stream")

    def sums(self, request: http1.Request) -> Response:
        """The checksum alone, for `install.sh --from URL`."""
        return Response(200, f"{self._digest}  feishuperm.pyz\n".encode())

    def _is_open(self, request: http1.Request) -> bool:
        return self._who == "on" or (self._who == "auto" and is_local(request))

    def _address(self, request: http1.Request) -> str:
        """How the caller reached us; from afar, how people are meant to."""
        host = request.headers.get("host", "")
        if is_local(request) and SAFE_HOST.match(host):
            return f"http://{host}"
        return self._url


ROUTES: dict[str, Callable[[Share, http1.Request], Response]] = {
    "/install.sh": Share.script,
    "/feishuperm.pyz": Share.archive,
    "/SHA256SUMS": Share.sums,
}


def fill_installer(script: bytes, version: str, url: str, sha256: str) -> bytes:
    """install.sh made for one file: its version, its address, its checksum."""
    for name, value in (("version", version), ("url", url), ("sha256", sha256)):
        quoted = value.replace("'", "'\\''")  # a URL may hold one; it must not get out
        line = f"\n{name}='{quoted}'\n".encode()
        script = script.replace(f"\n{name}=''\n".encode(), line, 1)
    return script
