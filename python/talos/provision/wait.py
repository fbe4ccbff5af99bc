"""Waiting until nodes answer: the API's port takes our certificate."""

import socket
import ssl
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path

from talos.config.talosconfig.model import Context
from talos.system.errors import UserError

API_PORT = 50000
# Between two tries, and for one of them, in seconds.
_POLL_INTERVAL = 0.05
_TRY = 2.0


def wait_for_api(addresses: Iterable[IPv4Address], context: Context, seconds: float) -> None:
    """Wait until every node serves its API; UserError names the ones that don't, and why."""
    end = time.monotonic() + seconds
    tls = make_tls(context)
    for address in addresses:
        reason = "no try was made"
        while True:
            try:
                try_once(address, tls)
            except OSError as error:
                reason = str(error)
            else:
                break
            if time.monotonic() > end:
                raise UserError(
                    f"the API did not answer within {seconds:g} s: {reason}",
                    where=f"node {address}",
                    hint="see its console: talosctl cluster logs",
                )
            time.sleep(_POLL_INTERVAL)


def make_tls(context: Context) -> ssl.SSLContext:
    """The client's side of the API's TLS."""
    tls = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cadata=context.ca.decode())
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.set_alpn_protocols(["h2"])
    # OpenSSL does not take upstream's block type; the body is plain PKCS #8.
    key = context.key.replace(b"ED25519 PRIVATE KEY", b"PRIVATE KEY")
    # Python reads a certificate and its key from files only.
    with tempfile.NamedTemporaryFile(mode="wb") as file:
        file.write(context.crt + b"\n" + key)
        file.flush()
        tls.load_cert_chain(Path(file.name))
    return tls


def try_once(address: IPv4Address, tls: ssl.SSLContext, port: int = API_PORT) -> None:
    """One connection up to the server's first bytes of HTTP/2; OSError when it fails."""
    with (
        socket.create_connection((str(address), port), _TRY) as raw,
        tls.wrap_socket(raw, server_hostname=str(address)) as channel,
    ):
        # A server that refuses the certificate shows that only after the handshake of TLS 1.3.
        channel.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
        if not channel.recv(1):
            raise ConnectionError("the connection was closed at once")
        with suppress(OSError):
            channel.shutdown(socket.SHUT_RDWR)
