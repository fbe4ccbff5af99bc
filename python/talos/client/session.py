"""Calls to nodes: over any endpoint that answers, each to one node."""

import asyncio
import base64
import itertools
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from google.protobuf.message import Message

from talos.api.rpc import Code, RpcError
from talos.client.call import Call
from talos.client.channel import CONNECT_TIMEOUT, FAILOVER_TIMEOUT, NodeChannel, UnreachableError
from talos.client.endpoint import parse_endpoint
from talos.client.http2 import ConnectionLostError
from talos.client.refusal import ConnectError
from talos.client.target import Target
from talos.client.tls import make_context
from talos.rpc.protocol import Headers
from talos.system.errors import UserError


class Session:
    """Open channels to a target's endpoints.

    Calls take the endpoints in turn, starting at a random one. An endpoint that refused once is
    not called again in this session while another one answers.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        context = make_context(target)
        self._context = context
        endpoints = list(target.endpoints)
        # Any order will do; the module random costs more than the rest of this.
        endpoints.sort(key=lambda _: os.urandom(4))
        timeout = CONNECT_TIMEOUT if len(endpoints) == 1 else FAILOVER_TIMEOUT
        self._channels = [NodeChannel(target, endpoint, context, timeout) for endpoint in endpoints]
        self._by_node: dict[str, NodeChannel] = {}
        self._turn = itertools.count()

    async def aclose(self) -> None:
        """Close every connection."""
        for channel in (*self._channels, *self._by_node.values()):
            await channel.aclose()

    async def _channel(self, node: str) -> NodeChannel:
        if self.target.insecure and node:
            if node not in self._by_node:
                endpoint = parse_endpoint(node)
                self._by_node[node] = NodeChannel(self.target, endpoint, self._context, CONNECT_TIMEOUT)
            candidates = [self._by_node[node]]
        else:
            turn = next(self._turn) % len(self._channels)
            candidates = self._channels[turn:] + self._channels[:turn]
        refusals: list[ConnectError] = []
        for channel in candidates:
            try:
                await channel.connect()
            except ConnectError as refusal:
                refusals.append(refusal)
            else:
                return channel
        raise UnreachableError(refusals)

    def _metadata(self, node: str, timeout: float | None) -> Headers:
        metadata = [("runtime", "Talos")]
        if timeout is not None:
            metadata.append(("grpc-timeout", f"{max(1, round(timeout * 1000))}m"))
        if self.target.cluster:
            metadata.append(("context", self.target.cluster))
        if self.target.basic_auth:
            encoded = base64.b64encode(self.target.basic_auth.encode()).decode("ascii")
            metadata.append(("authorization", f"Basic {encoded}"))
        if node and not self.target.insecure:
            metadata.append(("node", node))
        return tuple(metadata)

    async def unary[R: Message](
        self,
        node: str,
        method: str,
        request: Message,
        reply: type[R],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - it travels to the node
    ) -> R:
        """One request to one node, one reply. An empty ``node`` is the endpoint itself."""
        async with self._open(node, method, reply, timeout) as call:
            await call.send(request, end=True)
            return await _receive_one(call)

    @asynccontextmanager
    async def stream[R: Message](
        self,
        node: str,
        method: str,
        request: Message,
        reply: type[R],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - it travels to the node
    ) -> AsyncGenerator[AsyncIterator[R]]:
        """One request to one node, replies one after another. Leaving cancels the call."""
        async with self._open(node, method, reply, timeout) as call:
            await call.send(request, end=True)
            yield _replies(call)

    async def upload[R: Message](
        self,
        node: str,
        method: str,
        requests: AsyncGenerator[Message],
        reply: type[R],
    ) -> R:
        """Requests one after another to one node, one reply; none is read after that."""
        async with self._open(node, method, reply, None) as call, aclosing(requests):
            async for request in requests:
                if not await call.send(request):
                    break
            call.end()
            return await _receive_one(call)

    @asynccontextmanager
    async def duplex[R: Message](self, node: str, method: str, reply: type[R]) -> AsyncGenerator[Call[R]]:
        """A call to one node whose requests and replies are both streamed. Leaving cancels it."""
        async with self._open(node, method, reply, None) as call:
            yield call

    @asynccontextmanager
    async def _open[R: Message](
        self,
        node: str,
        method: str,
        reply: type[R],
        timeout: float | None,  # noqa: ASYNC109 - it travels to the node
    ) -> AsyncGenerator[Call[R]]:
        channel = await self._channel(node)
        connection = await channel.connect()
        call: Call[R] | None = None
        try:
            async with asyncio.timeout(timeout):
                metadata = self._metadata(node, timeout)
                call = Call(connection, str(channel.endpoint), method, metadata, reply)
                yield call
        except ConnectionLostError as error:
            raise channel.explain_loss() from error
        except TimeoutError as error:
            if timeout is None:
                raise
            raise RpcError(Code.DEADLINE_EXCEEDED, f"no answer within {timeout:g} s") from error
        finally:
            if call is not None:
                call.close()


async def _replies[R: Message](call: Call[R]) -> AsyncGenerator[R]:
    while (reply := await call.receive()) is not None:
        yield reply


async def _receive_one[R: Message](call: Call[R]) -> R:
    reply = await call.receive()
    if reply is None:
        raise RpcError(Code.INTERNAL, "the node sent no reply")
    await call.receive()  # the status
    return reply


@asynccontextmanager
async def open_session(target: Target) -> AsyncGenerator[Session]:
    """A session for the time of the context."""
    if not target.endpoints and not target.insecure:
        raise UserError(
            "failed to determine endpoints: it has none",
            where=f'context "{target.context}"',
            hint="set some with `talosctl config endpoint <address>...` or give --endpoints",
        )
    session = Session(target)
    try:
        yield session
    finally:
        await session.aclose()
