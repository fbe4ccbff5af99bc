"""TLS of a test's server."""

import ssl
from pathlib import Path

from talos.pki.certificate import PemPair


def make_server_tls(folder: Path, pair: PemPair, *, clients: bytes = b"") -> ssl.SSLContext:
    """A context with a certificate, by way of a file; ``clients`` is the authority of those of clients."""
    file = folder / "server.pem"
    file.write_bytes(pair.crt + b"\n" + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    if clients:
        context.load_verify_locations(cadata=clients.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context
