"""Servers of Python's library, in a thread beside the test."""

import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from socketserver import TCPServer

POLL_INTERVAL = 0.02
"""Seconds within which a server ends."""


@contextmanager
def serving[S: TCPServer](server: S, tls: ssl.SSLContext | None = None) -> Generator[S]:
    """A server that answers for as long as the context is open, and is closed then."""
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(POLL_INTERVAL,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
