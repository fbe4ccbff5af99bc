"""gRPC with a node: messages there and back, and the status at the end."""

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError, Message

from talos.api.rpc import Code, RpcError
from talos.client.http2 import ConnectionLostError, Http2Connection
from talos.rpc.status import check_status

if TYPE_CHECKING:
    from talos.rpc.protocol import Headers


class Call[R: Message]:
    """One call. Its caller closes it. ConnectionLostError: the connection was lost."""

    def __init__(
        self,
        connection: Http2Connection,
        authority: str,
        method: str,
        metadata: "Headers",
        reply: type[R],
    ) -> None:
        self._reply = reply
        self._call = connection.open_call(
            (
                (":method", "POST"),
                (":scheme", "https"),
                (":path", method),
                (":authority", authority),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "talosctl"),
                *metadata,
            )
        )

    async def send(self, message: Message, *, end: bool = False) -> bool:
        """Send a message as fast as the node takes it; False when the node has ended the call already."""
        try:
            await self._call.send(message.SerializeToString(), last=end)
        except RpcError:
            self._check_lost()
            return False
        return True

    def end(self) -> None:
        """Send nothing more."""
        self._call.send_end()

    async def receive(self) -> R | None:
        """The next reply, None at the end of a call that succeeded; raises RpcError for one that failed."""
        data = await self._call.receive()
        if data is None:
            self._check_lost()
            status = self._call.status
            assert status is not None, "there is one when no reply follows"
            check_status(status)
            return None
        try:
            return self._reply.FromString(data)
        except DecodeError as error:
            raise RpcError(
                Code.INTERNAL, f"the node's reply is no {self._reply.DESCRIPTOR.full_name}"
            ) from error

    def _check_lost(self) -> None:
        if self._call.is_lost:
            raise ConnectionLostError

    def close(self) -> None:
        """Drop the call; one that has not ended is cancelled."""
        self._call.cancel()
