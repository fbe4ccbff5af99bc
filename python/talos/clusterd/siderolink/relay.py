"""WireGuard over gRPC: datagrams between the kernel's WireGuard and a stream of the management service.

The kernel's only peer is a socket on the loopback interface. What it sends there travels in messages of the
stream, one datagram each, and comes back the same way; WireGuard's own encryption is from end to end.
"""

import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from ipaddress import IPv4Address

import trio

from talos.api.rpc import DuplexCall, DuplexTransport, RpcError
from talos.api.siderolink.wireguard_pb2 import PeerPacket
from talos.api.siderolink_endpoint import STREAM_PEER
from talos.clusterd.siderolink.provision import shorten
from talos.system.backoff import Backoff
from talos.system.logging import Log

METHOD = "/sidero.link.WireGuardOverGRPCService/CreateStream"
LOOPBACK = IPv4Address("127.0.0.1")
QUEUE = 100
"""Datagrams that wait for the stream, as upstream; the oldest is dropped."""
MAX_DATAGRAM = 4096
"""Bytes; those of a link with an MTU of 1280 have 1,360 at most."""
MAX_MESSAGE = MAX_DATAGRAM + 16
"""Bytes of a message with one datagram."""
RETRY_BACKOFF = Backoff(1.0, 10.0)
"""Seconds until a stream that has ended is opened again, while none carries anything."""

type OpenTransport = Callable[[], AbstractAsyncContextManager[DuplexTransport]]


class Relay:
    """Carries one link's datagrams; ``peer`` is the node's name on the stream."""

    def __init__(self, open_transport: OpenTransport, peer: str, log: Log) -> None:
        self._open, self._peer, self._log = open_transport, peer, log
        self._socket = trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._is_joined = trio.Event()
        self._put, self._take = trio.open_memory_channel[bytes](QUEUE)
        self._delays = iter(RETRY_BACKOFF)
        self._scope = trio.CancelScope()

    async def bind(self) -> int:
        """The port on the loopback interface that the link's peer has. OSError."""
        await self._socket.bind((str(LOOPBACK), 0))
        return int(self._socket.getsockname()[1])

    async def join(self, port: int) -> None:
        """Exchange datagrams with the link, which listens on this port, and with no other socket."""
        await self._socket.connect((str(LOOPBACK), port))
        self._is_joined.set()

    async def run(self) -> None:
        """Carry datagrams until the end, over one stream after another."""
        with self._socket, self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read)
                while True:
                    error = await self._carry()
                    reason = shorten(error.reason)
                    self._log.once(f"SideroLink: the stream of WireGuard's packets: {reason}", key="stream")
                    await trio.sleep(next(self._delays))

    def end(self) -> None:
        """Carry nothing more."""
        self._scope.cancel()

    async def _read(self) -> None:
        await self._is_joined.wait()
        while True:
            try:
                data = await self._socket.recv(MAX_DATAGRAM)
            except OSError:
                continue  # the last datagram found no link: it is being made
            try:
                self._put.send_nowait(data)
            except trio.WouldBlock:
                self._take.receive_nowait()
                self._put.send_nowait(data)

    async def _carry(self) -> RpcError:
        """Why the stream has ended, or could not be opened."""
        metadata = {STREAM_PEER: [self._peer]}
        try:
            async with (
                self._open() as transport,
                transport.duplex(METHOD, PeerPacket, metadata=metadata) as call,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(self._send, call)
                error = await self._deliver(call)
                nursery.cancel_scope.cancel()
        except RpcError as failure:
            return failure
        return error

    async def _send(self, call: DuplexCall[PeerPacket]) -> None:
        try:
            async for data in self._take.clone():
                await call.send(PeerPacket(Data=data))
        except RpcError:
            return  # of the call: it is what the receiver gets

    async def _deliver(self, call: DuplexCall[PeerPacket]) -> RpcError:
        await self._is_joined.wait()
        while True:
            try:
                packet = await call.receive()
            except RpcError as error:
                return error
            self._delays = iter(RETRY_BACKOFF)
            self._log.forget("stream")
            try:
                await self._socket.send(packet.Data[:MAX_DATAGRAM])
            except OSError:
                continue  # the link is being made; WireGuard repeats what matters
