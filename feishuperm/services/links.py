"""The links a person taps: made here, checked here.

A signature binds one action to one request, on loopback too: whoever sees a "deny" pass
by has no "allow".  The key lives in the state folder, so that cards sent before a
restart stay good; whoever can read it is this user.  `CALLBACK_LINK_SIGNING=off` makes
the bare links, for a machine with one user.
"""

from __future__ import annotations

import base64
import hmac
import os

from feishuperm.errors import FileError
from feishuperm.lib.files import locked, private_dir
from feishuperm.lib.log import log
from feishuperm.models.settings import host_is_local, url_host
from feishuperm.services.ledger_lines import KEY_BYTES, make_key, read_key

SIGNATURE_BYTES = 16  # 128 bits: nobody guesses one in a request's lifetime


def load_key(path: str) -> bytes:
    """The signing key, made on first use; a fresh one when it cannot be kept."""
    try:
        key = read_key(path)
        if not key:
            private_dir(os.path.dirname(path))
            with locked(path):  # of servers that start at once, one makes it
                key = read_key(path) or make_key(path)
        return key
    except (FileError, OSError) as error:
        log(f"signing key cannot be kept: {error}", "warning")
        return os.urandom(KEY_BYTES)


class Links:
    """Makes and checks links below one base URL."""

    def __init__(self, base_url: str, key: bytes, signs: bool) -> None:
        self._base_url = base_url
        self._key = key
        self.signs = signs
        self.stay_here = host_is_local(url_host(base_url))  # they open here only

    def path(self, path: str, id: str) -> str:
        """`/allow?id=...`, signed if links are."""
        signature = f"&sig={self.signature(path, id)}" if self.signs else ""
        return f"{path}?id={id}{signature}"

    def url(self, path: str, id: str) -> str:
        """The same, as a phone needs it."""
        return self._base_url + self.path(path, id)

    def signature(self, path: str, id: str) -> str:
        """What binds one action to one request."""
        digest = hmac.digest(self._key, f"{path}?{id}".encode(), "sha256")
        return base64.urlsafe_b64encode(digest[:SIGNATURE_BYTES]).rstrip(b"=").decode()

    def good(self, path: str, id: str, signature: str) -> bool:
        """Whether a link was made here."""
        if not self.signs:
            return True
        ours = self.signature(path, id).encode()
        return hmac.compare_digest(ours, signature.encode("utf-8", "replace"))

    def inbox_url(self, ticket: str = "") -> str:
        """The inbox; with a ticket (see `services.sessions`), its way in."""
        return f"{self._base_url}/?ticket={ticket}" if ticket else f"{self._base_url}/"
