"""A call as bytes: what a proxy needs of it, for every transport."""

from typing import Protocol

from talos.api.rpc import Code, RpcError
from talos.rpc.protocol import Metadata


class RawCall(Protocol):
    """The server's end of a call. Its functions are asyncio's."""

    @property
    def method(self) -> str:
        """The full path, ``/package.Service/Method``."""
        ...

    @property
    def metadata(self) -> Metadata:
        """The caller's metadata without what belongs to the connection."""
        ...

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None when the call has none."""
        ...

    async def receive(self) -> bytes | None:
        """The next message; None after the last one."""
        ...

    async def send_headers(self, metadata: Metadata) -> None:
        """Begin the reply; nothing happens when it has begun."""
        ...

    async def send(self, message: bytes) -> None:
        """Send a message, waiting while the caller does not read."""
        ...


async def receive_one(call: RawCall) -> bytes:
    """The only request of a call."""
    request = await call.receive()
    if request is None:
        raise RpcError(Code.INTERNAL, "the request has no message")
    return request
