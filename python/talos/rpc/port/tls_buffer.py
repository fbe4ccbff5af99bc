"""One buffer a thread for what arrives by TLS, in place of one of 256 KiB for each connection.

asyncio gets a buffer, fills it and passes its content to OpenSSL in one step: connections take turns.
"""

# The type stubs don't have what asyncio's TLS consists of.
# pyright: reportAttributeAccessIssue=false

from asyncio.sslproto import SSLProtocol

from talos.rpc.receive_buffer import ReceiveBuffer

RECORD = 16 * 1024
"""Bytes that TLS encrypts at a time. asyncio's own buffers, which are left unused, have as many."""

_received = ReceiveBuffer()


def share_buffer() -> None:
    """Let the TLS connections of a thread that are made from now on read into the same buffer."""
    SSLProtocol.max_size = RECORD
    SSLProtocol.get_buffer = _get_buffer


def _get_buffer(protocol: SSLProtocol, _size: int) -> memoryview:
    protocol._ssl_buffer_view = _received.view
    return _received.view
