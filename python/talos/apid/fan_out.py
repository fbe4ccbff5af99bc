"""One call to several nodes: requests go to all of them, their replies come back as one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from talos.api.methods import streams_replies
from talos.api.rpc import Code, RpcError
from talos.apid.wire import MergeError, make_error_frame, make_error_reply, mark_frame, mark_reply
from talos.rpc.client_quota import ClientQuota
from talos.rpc.limits import MAX_MESSAGE
from talos.rpc.protocol import OK, Metadata, Status
from talos.rpc.proxy.raw import RawCall

QUEUED_REQUESTS = 2
"""Requests of a stream that a slow node may be behind before the others wait for it."""

ERRORS_SIZE = 512 * 1024
"""Bytes of a merged reply that are left for the errors of nodes, which always have a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """One of the nodes: its name in the request, and how to pass a call on to it."""

    target: str
    run: Callable[[RawCall], Awaitable[Status]]


class _Branch:
    """The part of a call that goes to one node."""

    def __init__(self, call: RawCall, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._call = call
        self._send = send
        self.requests: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUED_REQUESTS)
        self.over = asyncio.Event()

    @property
    def method(self) -> str:
        return self._call.method

    @property
    def metadata(self) -> Metadata:
        return self._call.metadata

    def time_remaining(self) -> float | None:
        return self._call.time_remaining()

    async def receive(self) -> bytes | None:
        return await self.requests.get()

    async def send_headers(self, metadata: Metadata) -> None:
        """Headers of several nodes can't be merged; the reply has none."""

    async def send(self, message: bytes) -> None:
        await self._send(message)


class Replies:
    """The unary replies of one call, held until every node has answered.

    Their memory is the client's part of what all calls share.
    """

    def __init__(self, memory: ClientQuota, client: str) -> None:
        self._memory = memory
        self._client = client
        self._parts: list[bytes] = []
        self._size = 0
        self._charged = 0

    def add(self, reply: bytes) -> None:
        """Keep a node's reply; RpcError when it is too much for the call or for the client."""
        if self._size + len(reply) > MAX_MESSAGE - ERRORS_SIZE:
            raise RpcError(Code.RESOURCE_EXHAUSTED, "the replies of all nodes together are too large")
        self._memory.take(self._client, len(reply))
        self._charged += len(reply)
        self._keep(reply)

    def add_error(self, error: bytes) -> None:
        """Keep the element of a node that failed."""
        if self._size + len(error) > MAX_MESSAGE:
            raise RpcError(Code.RESOURCE_EXHAUSTED, "the errors of all nodes together are too large")
        self._keep(error)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        self._parts.append(part)

    def merge(self) -> bytes:
        """All of them as one message; it stays charged until they are closed."""
        merged = b"".join(self._parts)
        self._parts.clear()
        return merged

    def close(self) -> None:
        """Return the memory."""
        self._parts.clear()
        charged, self._charged = self._charged, 0
        self._memory.give_back(self._client, charged)


async def forward_to_many(
    call: RawCall, upstreams: Sequence[Upstream], *, memory: ClientQuota, client: str
) -> Status:
    """Pass a call on to all nodes; one that fails is an element of the reply.

    ``memory`` bounds the replies that are held, by ``client``.
    """
    merge = _Merge(call, upstreams)
    if streams_replies(call.method):
        return await merge.stream()
    replies = Replies(memory, client)
    try:
        return await merge.unary(replies)
    finally:
        replies.close()


class _Merge:
    def __init__(self, call: RawCall, upstreams: Sequence[Upstream]) -> None:
        self._call = call
        self._upstreams = upstreams
        self._sending = asyncio.Lock()

    async def unary(self, replies: Replies) -> Status:
        """One message with an element per node, in the order in which they answer."""

        async def one(upstream: Upstream, branch: _Branch) -> None:
            status = await _run(upstream, branch)
            if status.code:
                replies.add_error(make_error_reply(status, upstream.target))

        def take(upstream: Upstream) -> Callable[[bytes], Awaitable[None]]:
            async def keep(reply: bytes) -> None:
                replies.add(mark_reply(reply, upstream.target))

            return keep

        await self._run_all(one, take)
        await self._call.send(replies.merge())
        return OK

    async def stream(self) -> Status:
        """The messages of all nodes as they come."""

        async def one(upstream: Upstream, branch: _Branch) -> None:
            status = await _run(upstream, branch)
            if status.code:
                await self._send(make_error_frame(status, upstream.target))

        def take(upstream: Upstream) -> Callable[[bytes], Awaitable[None]]:
            async def send(frame: bytes) -> None:
                await self._send(mark_frame(frame, upstream.target))

            return send

        await self._call.send_headers(())
        await self._run_all(one, take)
        return OK

    async def _send(self, frame: bytes) -> None:
        async with self._sending:
            await self._call.send(frame)

    async def _run_all(
        self,
        one: Callable[[Upstream, _Branch], Awaitable[None]],
        take: Callable[[Upstream], Callable[[bytes], Awaitable[None]]],
    ) -> None:
        branches = [(upstream, _Branch(self._call, take(upstream))) for upstream in self._upstreams]

        async def run(upstream: Upstream, branch: _Branch) -> None:
            try:
                await one(upstream, branch)
            finally:
                branch.over.set()

        try:
            async with asyncio.TaskGroup() as group:
                distributing = group.create_task(self._distribute([branch for _, branch in branches]))
                nodes = [group.create_task(run(upstream, branch)) for upstream, branch in branches]
                await asyncio.wait(nodes)
                distributing.cancel()
        except BaseExceptionGroup as errors:
            refused, defects = errors.split(RpcError)
            if defects is not None or refused is None:
                raise
            raise _first(refused) from None

    async def _distribute(self, branches: Sequence[_Branch]) -> None:
        """Pass every request to every node whose call is open."""
        while True:
            request = await self._call.receive()
            for branch in branches:
                await _offer(branch, request)
            if request is None:
                return


def _first(errors: BaseExceptionGroup[RpcError]) -> RpcError:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


async def _offer(branch: _Branch, request: bytes | None) -> None:
    if branch.over.is_set():
        return
    if not branch.requests.full():
        branch.requests.put_nowait(request)
        return
    putting = asyncio.ensure_future(branch.requests.put(request))
    over = asyncio.ensure_future(branch.over.wait())
    try:
        await asyncio.wait([putting, over], return_when=asyncio.FIRST_COMPLETED)
    finally:
        putting.cancel()
        over.cancel()


async def _run(upstream: Upstream, branch: RawCall) -> Status:
    """How the call ended at one node; its failure is not the others'."""
    try:
        return await upstream.run(branch)
    except MergeError as error:
        return Status(code=Code.INTERNAL, message=str(error))
    except RpcError as error:
        return Status.of(error)
