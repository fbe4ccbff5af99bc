"""``sidero.link.WireGuardOverGRPCService``: each stream is a machine's way to WireGuard's UDP port."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, override

import grpc
import grpc.aio

from talos.api.siderolink.wireguard_pb2 import PeerPacket
from talos.api.siderolink_endpoint import STREAM_PEER
from talos.system.logging import Log

QUEUE = 100
"""Datagrams of WireGuard's that wait for a stream."""

type Context = grpc.aio.ServicerContext[Any, Any]


class Tunnels:
    """The machines that have been given a name for their stream, each with one stream at most."""

    def __init__(self, wireguard: tuple[str, int], log: Log) -> None:
        """``wireguard`` is where the server's own end is reached by UDP."""
        self._wireguard, self._log = wireguard, log
        self._streams: dict[str, asyncio.Event | None] = {}
        """By the machine's name; the event ends its stream."""

    def admit(self, peer: str) -> None:
        """Let a machine open a stream by this name."""
        self._streams.setdefault(peer)

    async def create_stream(self, packets: AsyncIterator[PeerPacket], context: Context) -> None:
        """Carry datagrams both ways until the machine ends the stream, or opens another one."""
        metadata = {key: str(value) for key, value in context.invocation_metadata() or ()}
        peer = metadata.get(STREAM_PEER, "")
        if peer not in self._streams:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "peer not allowed")
        old, replaced = self._streams[peer], asyncio.Event()
        if old is not None:
            old.set()
        self._streams[peer] = replaced
        self._log.info("stream opened", peer=peer)
        try:
            await self._carry(packets, context, replaced)
        finally:
            if self._streams[peer] is replaced:
                self._streams[peer] = None
        if replaced.is_set():
            await context.abort(grpc.StatusCode.ABORTED, "peer replaced")

    async def _carry(
        self, packets: AsyncIterator[PeerPacket], context: Context, replaced: asyncio.Event
    ) -> None:
        loop = asyncio.get_running_loop()
        transport, receiver = await loop.create_datagram_endpoint(_Receiver, remote_addr=self._wireguard)

        async def send() -> None:
            async for packet in packets:
                transport.sendto(packet.Data)

        async def deliver() -> None:
            while True:
                await context.write(PeerPacket(Data=await receiver.queue.get()))

        tasks = [asyncio.create_task(one) for one in (send(), deliver(), replaced.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            transport.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class _Receiver(asyncio.DatagramProtocol):
    """What WireGuard sends; the oldest is dropped when the stream does not take it."""

    def __init__(self) -> None:
        self.queue = asyncio.Queue[bytes](QUEUE)

    @override
    def datagram_received(self, data: bytes, addr: object) -> None:
        del addr
        if self.queue.full():
            self.queue.get_nowait()
        self.queue.put_nowait(data)
