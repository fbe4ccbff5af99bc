"""What a connection needs of its streams."""

from typing import Protocol

from talos.api.rpc import RpcError
from talos.rpc.protocol import Headers


class Receiver(Protocol):
    """One stream, as its connection calls it."""

    send_window: int
    received_all: bool
    body_left: int | None
    """Bytes that are to come of a body whose length was announced."""

    def take_headers(self, headers: Headers, *, ended: bool) -> None:
        """Take further headers: the reply's, or trailers. ProtocolError when they are malformed."""
        ...

    def feed(self, data: memoryview, size: int) -> None:
        """Take data, which counts as ``size`` bytes of the window."""
        ...

    def feed_end(self) -> None:
        """Note that the peer has sent everything."""
        ...

    def reset(self, code: int) -> None:
        """End the stream: the peer has reset it."""
        ...

    def mark_lost(self, reason: str) -> None:
        """End the stream: its connection is closed."""
        ...

    def end_with(self, failure: RpcError) -> None:
        """End the stream in both directions."""
        ...

    def wake_writer(self) -> None:
        """Let a waiting sender check the windows again."""
        ...
