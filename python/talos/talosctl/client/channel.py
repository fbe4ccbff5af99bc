"""One connection to one endpoint, and the errors it can end with."""

import asyncio
import contextlib
import ssl
from typing import Any, cast

from google.protobuf.message import DecodeError, Message
from grpclib.client import Channel, Handler, Stream
from grpclib.config import Configuration
from grpclib.const import Cardinality, Status
from grpclib.encoding.base import CodecBase, StatusDetailsCodecBase
from grpclib.exceptions import GRPCError
from grpclib.metadata import Deadline
from grpclib.protocol import H2Protocol

from talos.api.google.rpc.status_pb2 import Status as StatusDetails
from talos.api.rpc import Code, RpcError
from talos.talosctl.client.endpoint import Endpoint
from talos.talosctl.client.proxy import connect_through, peer_certificate
from talos.talosctl.client.refusal import ConnectError, explain
from talos.talosctl.client.target import Target
from talos.talosctl.client.tls import fingerprint

MESSAGE_LIMIT = 32 * 1024 * 1024
"""The largest message either side takes (as upstream)."""
CONNECT_TIMEOUT = 20.0
"""gRPC's minimum connect timeout."""
FAILOVER_TIMEOUT = 5.0
"""How long one of several endpoints may take before the next is tried."""
_WINDOW = 8 * 1024 * 1024


class ConnectionLostError(RpcError):
    """The connection under a call broke; not something the node answered."""


class Codec(CodecBase):
    """Protobuf messages, none larger than the limit."""

    __content_subtype__ = "proto"  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType] - grpclib reads an attribute

    def encode(self, message: Any, message_type: Any) -> bytes:  # noqa: ARG002 - grpclib's interface
        """The bytes of a message."""
        return cast("Message", message).SerializeToString()

    def decode(self, data: bytes, message_type: Any) -> Any:
        """The message of the bytes."""
        if len(data) > MESSAGE_LIMIT:
            text = f"the node's reply of {len(data)} bytes exceeds the limit of {MESSAGE_LIMIT}"
            raise GRPCError(Status.RESOURCE_EXHAUSTED, text)
        try:
            return message_type.FromString(data)
        except DecodeError as error:
            raise GRPCError(
                Status.INTERNAL, f"the node's reply is no {message_type.DESCRIPTOR.full_name}"
            ) from error


class DetailsCodec(StatusDetailsCodecBase):
    """The ``google.rpc.Status`` of the trailers."""

    def encode(self, status: Status, message: str | None, details: Any) -> bytes:  # noqa: ARG002 - only nodes send
        """Unused by a client."""
        return b""

    def decode(self, status: Status, message: str | None, data: bytes) -> Any:  # noqa: ARG002 - grpclib's interface
        """The details, still packed."""
        try:
            return tuple(StatusDetails.FromString(data).details)
        except DecodeError:
            return ()


class _Connection(H2Protocol):
    """Remembers why it was lost: a server's TLS alert comes only after the handshake."""

    lost: BaseException | None = None
    transport: asyncio.Transport | None = None
    is_answered = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self.transport = cast("asyncio.Transport", transport)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Note that the node has accepted us."""
        self.is_answered = True
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Keep the reason."""
        self.lost = exc
        self.closed.set()
        super().connection_lost(exc)


class _Call(Stream[Any, Any]):
    """A call that takes a status without a content type, as grpclib's own server sends one."""

    def _raise_for_content_type(self, headers_map: dict[str, str]) -> None:
        if "grpc-status" not in headers_map:
            super()._raise_for_content_type(headers_map)


class NodeChannel(Channel):
    """A gRPC channel that dials through proxies, pins certificates and explains failures."""

    def __init__(self, target: Target, endpoint: Endpoint, context: ssl.SSLContext, timeout: float) -> None:
        configuration = Configuration(http2_connection_window_size=_WINDOW, http2_stream_window_size=_WINDOW)
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - not annotated upstream
            endpoint.host,
            endpoint.port,
            ssl=context,
            codec=Codec(),
            status_details_codec=DetailsCodec(),
            config=configuration,
        )
        self.endpoint = endpoint
        self.refusal: ConnectError | None = None
        self._target = target
        self._context = context
        self._timeout = timeout
        self._connection: _Connection | None = None

    async def connect(self) -> None:
        """Connect unless connected already; raises ConnectError."""
        if self.refusal is not None:
            raise self.refusal
        try:
            await self.__connect__()
        except (OSError, ssl.SSLError, EOFError, ConnectError) as error:
            self.refusal = explain(self.endpoint, error)
            raise self.refusal from error

    def request(
        self,
        name: str,
        cardinality: Cardinality,
        request_type: type[Any],
        reply_type: type[Any],
        *,
        timeout: float | None = None,
        deadline: Deadline | None = None,
        metadata: Any = None,
    ) -> Stream[Any, Any]:
        """A call, not begun yet."""
        call = super().request(
            name, cardinality, request_type, reply_type, timeout=timeout, deadline=deadline, metadata=metadata
        )
        call.__class__ = _Call
        return call

    async def aclose(self) -> None:
        """Close at once and wait until it is done. All answers are in, nobody needs a farewell."""
        self.close()
        connection = self._connection
        if connection and connection.transport:
            connection.transport.abort()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await connection.closed.wait()

    async def _create_connection(self) -> H2Protocol:
        loop = asyncio.get_running_loop()
        connection = _Connection(Handler(), self._config, self._h2_config)
        self._connection = connection
        name = self.endpoint.host
        async with asyncio.timeout(self._timeout):
            if self._target.proxy_url:
                socket = await connect_through(self._target.proxy_url, self.endpoint)
                transport, _ = await loop.create_connection(
                    lambda: connection, sock=socket, ssl=self._context, server_hostname=name
                )
            else:
                transport, _ = await loop.create_connection(
                    lambda: connection, name, self.endpoint.port, ssl=self._context, server_hostname=name
                )
        self._check_peer(transport)
        return connection

    def _check_peer(self, transport: asyncio.Transport) -> None:
        tls: ssl.SSLObject = transport.get_extra_info("ssl_object")
        if tls.selected_alpn_protocol() != "h2":
            transport.abort()
            raise ConnectError(
                self.endpoint, "it does not speak HTTP/2", "is this the port of the Talos API (50000)?"
            )
        pins = self._target.fingerprints
        if pins and (found := fingerprint(peer_certificate(transport))) not in pins:
            transport.abort()
            raise ConnectError(
                self.endpoint,
                f"the node's certificate has the fingerprint {found}, not {' or '.join(pins)}",
                "compare with the one on the node's console",
            )

    def explain_loss(self) -> RpcError:
        """Why an open call was cut off."""
        lost = self._connection.lost if self._connection else None
        if isinstance(lost, ssl.SSLError):
            refusal = explain(self.endpoint, lost)
        elif self._connection and not self._connection.is_answered:
            from talos.talosctl.client.diagnose import diagnose

            refusal = ConnectError(self.endpoint, *diagnose(self._target))
        elif lost is None:
            refusal = ConnectError(self.endpoint, "the connection was closed before the answer was complete")
        else:
            refusal = explain(self.endpoint, lost)
        return ConnectionLostError(Code.UNAVAILABLE, str(refusal))


def to_rpc_error(error: GRPCError) -> RpcError:
    """The library's error in our words."""
    details = cast("tuple[Message, ...]", error.details or ())
    return RpcError(Code(error.status.value), error.message or "", details)
