"""One call on a port: its request arrives in time and within what its client may make the port hold."""

import asyncio
from collections.abc import Mapping
from typing import override

from talos.api.methods import max_request
from talos.api.rpc import Code, RpcError
from talos.rpc.client_quota import ClientQuota
from talos.rpc.http2.backend import ASYNCIO
from talos.rpc.http2.connection import Connection
from talos.rpc.http2.rules import parse_length
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.port.request import parse_authority, parse_request_metadata
from talos.rpc.port.tls import Client
from talos.rpc.protocol import PREFIX, Peer

ARRIVAL = 10.0
"""Seconds within which a call's first request arrives."""

ARRIVAL_RATE = 64 * 1024
"""Bytes for which a large request has another second."""


MAX_STALL = 60.0
"""Seconds for which a client may leave the rest of a large reply unread; smaller ones cost little."""


class PortCall(ServerCall):
    """A call as the port's handler gets it. ``memory`` has its requests until they are passed on."""

    def __init__(
        self,
        connection: Connection,
        number: int,
        headers: Mapping[str, str],
        *,
        pairs: tuple[tuple[str, str], ...],
        client: Client,
        memory: ClientQuota,
    ) -> None:
        method, authority = headers[":path"], parse_authority(headers)
        super().__init__(
            connection,
            number,
            ASYNCIO,
            method=method,
            metadata=parse_request_metadata(pairs),
            timeout=headers.get("grpc-timeout"),
            max_message=max_request(method),
            body=parse_length(headers),
        )
        self.max_stall = MAX_STALL
        self.authority = authority
        self._client = client
        self._memory = memory
        self._charged = 0
        self._unread = 0
        self._is_widened = False
        self._due: float | None = connection.loop.time() + ARRIVAL
        self._is_due_by_size = False

    @property
    def peer(self) -> Peer:
        """The caller's identity."""
        return self._client.peer

    @property
    def client(self) -> str:
        """What the caller's share of limits is counted by."""
        return self._client.key

    @override
    def feed(self, data: memoryview, size: int) -> None:
        """Keep data that has arrived, unless the caller has sent too much."""
        if self.failure is not None:
            return
        try:
            self._memory.take(self.client, len(data))
        except RpcError as failure:
            self.release()
            self.failure = failure
            self.wake()
            return
        self._charged += len(data)
        self._unread += size
        self.connection.unread += size
        super().feed(data, size)

    def release(self) -> None:
        """Give back what the call occupies."""
        self._buffer.clear()
        self._settle()
        self._count_as_read()

    def _settle(self) -> None:
        """Pay for no more than what is in the buffer: the last message has been passed on."""
        if passed_on := self._charged - len(self._buffer):
            self._charged -= passed_on
            self._memory.give_back(self.client, passed_on)

    def _count_as_read(self) -> None:
        if self._unread:
            self.connection.unread -= self._unread
            self._unread = 0
            self.connection.grant()

    @override
    def _grant(self) -> None:
        self._count_as_read()
        super()._grant()

    @override
    async def receive(self) -> bytes | None:
        self._settle()
        if not self._is_widened:
            self._is_widened = True
            if self.max_message > self._window:
                self._widen(self.max_message - self._window)
        message = await super().receive()
        if message is None and self.failure is not None:
            raise self.failure
        self._due, self._is_due_by_size = None, False
        return message

    @override
    async def wait(self) -> None:
        """Wait for more of a request; RpcError when it does not arrive in time."""
        if len(self._buffer) >= PREFIX and not self._is_due_by_size:
            size = int.from_bytes(self._buffer[1:PREFIX])
            begin = self._due or self.connection.loop.time() + ARRIVAL
            self._due, self._is_due_by_size = begin + size / ARRIVAL_RATE, True
        try:
            async with asyncio.timeout_at(self._due):
                await super().wait()
        except TimeoutError:
            raise RpcError(Code.DEADLINE_EXCEEDED, "the request did not arrive in time") from None
