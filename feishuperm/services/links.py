"""The links a person taps: made here, checked here.

A signature binds one action to one request, on loopback too: whoever sees a "deny" pass
by has no "allow".  The key lives in the state folder, so that cards sent before a
restart stay good; whoever can read it is this user.  `CALLBACK_LINK_SIGNING=off` makes
the bare links, for a machine with one user.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

from feishuperm.lib.files import private_dir
from feishuperm.lib.log import log
from feishuperm.models.settings import host_is_local, url_host

KEY_BYTES = 32
SIGNATURE_BYTES = 16  # 128 bits: nobody guesses one in a request's lifetime


def load_key(path: str) -> bytes:
    """The signing key, made on first use; a fresh one when it cannot be kept."""
    for _ in range(2):
        try:
            with open(path, "rb") as file:
                key = file.read(KEY_BYTES)
            if len(key) == KEY_BYTES:
                return key
            os.unlink(path)  # torn by a crash: useless, and no card was signed with it
        except FileNotFoundError:
            pass
        except OSError as error:
            log(f"signing key cannot be read: {error}", "warning")
            break
        key = _make_key(path)
        if key:
            return key
    return os.urandom(KEY_BYTES)


def _make_key(path: str) -> bytes:
    """A new key in the file; empty when another process was first or it fails."""
    key = os.urandom(KEY_BYTES)
    try:
        private_dir(os.path.dirname(path))
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "wb") as file:
            file.write(key)
    except OSError:
        return b""
    return key


class Links:
    """Makes and checks links below one base URL."""

    def __init__(self, base_url: str, key: bytes, signs: bool) -> None:
        self._base_url = base_url
        self._key = key
        self.signs = signs
        self.stay_here = host_is_local(url_host(base_url))  # they open here only

    def path(self, path: str, id: str) -> str:
        """`/allow?id=...`, signed if links are."""
        signature = f"&sig={self._sign(path, id)}" if self.signs else ""
        return f"{path}?id={id}{signature}"

    def url(self, path: str, id: str) -> str:
        """The same, as a phone needs it."""
        return self._base_url + self.path(path, id)

    def signature(self, path: str, id: str) -> str:
        """What a form carries in its `sig` field; empty when links are not signed."""
        return self._sign(path, id) if self.signs else ""

    def good(self, path: str, id: str, signature: str) -> bool:
        """Whether a link was made here."""
        if not self.signs:
            return True
        return self._equal(self._sign(path, id), signature)

    def inbox_url(self, ticket: str = "") -> str:
        """The inbox; with a ticket (see `services.sessions`), its way in."""
        return f"{self._base_url}/?ticket={ticket}" if ticket else f"{self._base_url}/"

    def _sign(self, path: str, subject: str) -> str:
        digest = hmac.new(self._key, f"{path}?{subject}".encode(), hashlib.sha256)
        short = digest.digest()[:SIGNATURE_BYTES]
        return base64.urlsafe_b64encode(short).rstrip(b"=").decode()

    @staticmethod
    def _equal(ours: str, theirs: str) -> bool:
        return hmac.compare_digest(ours.encode(), theirs.encode("utf-8", "replace"))
