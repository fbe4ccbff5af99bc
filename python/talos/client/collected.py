"""What a node sends without an end does not take the memory of the machine that collects it."""

from collections.abc import AsyncGenerator, AsyncIterator

from google.protobuf.message import Message

from talos.api.rpc import Code, RpcError
from talos.system.sizes import format_pretty_size

MAX_COLLECTED = 256 << 20
"""Bytes of the messages of one call: two million files, or all resources of a type many times."""


async def within[R: Message](replies: AsyncIterator[R], remedy: str) -> AsyncGenerator[R]:
    """The replies of a call that are kept in memory; RpcError with the remedy when they are too much."""
    size = 0
    async for reply in replies:
        size += reply.ByteSize()
        if size > MAX_COLLECTED:
            limit = format_pretty_size(MAX_COLLECTED)
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"the node sends more than {limit}: {remedy}")
        yield reply
