"""A call as bytes: what a proxy needs of it, for every transport, and on asyncio as on trio."""

from typing import Protocol

from talos.api.rpc import Code, RpcError
from talos.rpc.http2.client_call import ClientCall
from talos.rpc.protocol import Metadata, Status


class RawCall(Protocol):
    """The server's end of a call. Its functions wait as its server does."""

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


async def send_only(upstream: ClientCall, request: bytes) -> None:
    """Send the only request; when the call has ended meanwhile, its reader finds out how."""
    try:
        await upstream.send(request, last=True)
    except RpcError:
        if upstream.status is None:
            raise


async def take_replies(call: RawCall, upstream: ClientCall) -> Status:
    """Pass any number of replies back; returns how the call ended."""
    await call.send_headers(await upstream.initial_metadata())
    while (message := await upstream.receive()) is not None:
        await call.send(message)
        upstream.release()
    return await upstream.end()
