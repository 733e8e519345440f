"""What makes an accepted socket a TLS one; the handshake is part of its first reads."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from functools import partial

from feishuperm.errors import SettingError


def server_side(
    cert_file: str, key_file: str
) -> Callable[[socket.socket], socket.socket]:
    """What makes an accepted socket a TLS one. Raises SettingError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert_file, key_file or None)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "reason", "") or error.strerror or str(error)
        raise SettingError(
            f"GATEWAY_CERT and GATEWAY_KEY: cannot use {cert_file}: {reason}"
        ) from None
    return partial(context.wrap_socket, server_side=True, do_handshake_on_connect=False)
