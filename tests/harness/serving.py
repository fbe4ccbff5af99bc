"""Servers of Python's library, in a thread beside the test."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from socketserver import BaseServer

POLL_INTERVAL = 0.02
"""Seconds within which a server ends."""


@contextmanager
def serving[S: BaseServer](server: S) -> Generator[S]:
    """A server that answers for as long as the context is open, and is closed then."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(POLL_INTERVAL,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
