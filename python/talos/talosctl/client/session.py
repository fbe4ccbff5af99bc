"""Calls to nodes: over any endpoint that answers, each to one node."""

import base64
import itertools
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from google.protobuf.message import Message
from grpclib.client import Stream
from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError, StreamTerminatedError
from h2.exceptions import ProtocolError

from talos.api.rpc import Code, RpcError
from talos.system.errors import UserError
from talos.talosctl.client.channel import CONNECT_TIMEOUT, FAILOVER_TIMEOUT, NodeChannel, to_rpc_error
from talos.talosctl.client.endpoint import parse_endpoint
from talos.talosctl.client.refusal import ConnectError
from talos.talosctl.client.target import Target
from talos.talosctl.client.tls import make_context


class UnreachableError(RpcError):
    """No endpoint took the connection; the same for every node behind them."""


class _Replies[R: Message](AsyncIterator[R]):
    """The replies of a stream; at its end the status is known, too."""

    def __init__(self, stream: Stream[Any, R]) -> None:
        self._stream = stream
        self.complete = False

    async def __anext__(self) -> R:
        if self.complete:
            raise StopAsyncIteration
        reply = await self._stream.recv_message()
        if reply is None:
            self.complete = True
            await self._stream.recv_trailing_metadata()
            raise StopAsyncIteration
        return reply

    async def abandon(self) -> None:
        """Tell the node that the rest is not wanted."""
        if self.complete:
            return
        self.complete = True
        try:
            await self._stream.cancel()
        except ProtocolError:
            # The node has ended the stream by itself; grpclib must not wait for its last words.
            self._stream._cancel_done = True  # pyright: ignore[reportPrivateUsage]


class Session:
    """Open channels to a target's endpoints.

    Calls take the endpoints in turn, starting at a random one. An endpoint that refused once is
    not asked again in this session while another one answers.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        context = make_context(target)
        self._context = context
        endpoints = list(target.endpoints)
        random.shuffle(endpoints)
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
        # One line for the reader: all of them only when they differ in more than the address.
        raise UnreachableError(Code.UNAVAILABLE, "; ".join(dict.fromkeys(map(str, refusals))))

    def _metadata(self, node: str, extra: Mapping[str, Sequence[str]] | None) -> list[tuple[str, str]]:
        metadata = [("runtime", "Talos")]
        if self.target.cluster:
            metadata.append(("context", self.target.cluster))
        if self.target.basic_auth:
            encoded = base64.b64encode(self.target.basic_auth.encode()).decode("ascii")
            metadata.append(("authorization", f"Basic {encoded}"))
        if node and not self.target.insecure:
            metadata.append(("node", node))
        return [*metadata, *((key, value) for key, values in (extra or {}).items() for value in values)]

    async def unary[R: Message](
        self,
        node: str,
        method: str,
        request: Message,
        reply: type[R],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - it travels to the node
        metadata: Mapping[str, Sequence[str]] | None = None,
    ) -> R:
        """One request to one node, one reply. An empty ``node`` is the endpoint itself."""
        async with self._open(
            node, method, Cardinality.UNARY_UNARY, type(request), reply, timeout, metadata
        ) as stream:
            await stream.send_message(request, end=True)
            answer = await stream.recv_message()
            await stream.recv_trailing_metadata()
        if answer is None:
            raise RpcError(Code.INTERNAL, "the node sent no reply")
        return answer

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
        async with self._open(
            node, method, Cardinality.UNARY_STREAM, type(request), reply, timeout, None
        ) as stream:
            await stream.send_message(request, end=True)
            replies = _Replies[R](stream)
            yield replies
            await replies.abandon()

    async def upload[R: Message](
        self,
        node: str,
        method: str,
        requests: AsyncIterator[Message],
        request_type: type[Message],
        reply: type[R],
    ) -> R:
        """Requests one after another to one node, one reply."""
        async with self._open(
            node, method, Cardinality.STREAM_UNARY, request_type, reply, None, None
        ) as stream:
            async for request in requests:
                await stream.send_message(request)
            await stream.end()
            answer = await stream.recv_message()
            await stream.recv_trailing_metadata()
        if answer is None:
            raise RpcError(Code.INTERNAL, "the node sent no reply")
        return answer

    @asynccontextmanager
    async def _open(
        self,
        node: str,
        method: str,
        cardinality: Cardinality,
        request: type[Message],
        reply: type[Any],
        timeout: float | None,  # noqa: ASYNC109 - it travels to the node
        metadata: Mapping[str, Sequence[str]] | None,
    ) -> AsyncGenerator[Stream[Any, Any]]:
        channel = await self._channel(node)
        try:
            async with channel.request(
                method, cardinality, request, reply, timeout=timeout, metadata=self._metadata(node, metadata)
            ) as stream:
                yield stream
        except GRPCError as error:
            raise to_rpc_error(error) from error
        except (StreamTerminatedError, ProtocolError) as error:
            raise channel.explain_loss() from error
        except TimeoutError as error:
            raise RpcError(Code.DEADLINE_EXCEEDED, f"no answer within {timeout:g} s") from error


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
