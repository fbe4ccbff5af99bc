"""Storing content in containerd, which checks size and digest and keeps nothing that does not match."""

from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import suppress

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.containerd import content_pb2
from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.rpc import Code, RpcError
from talos.machined.containerd.client import Containerd

_WRITE = "/containerd.services.content.v1.Content/Write"


def is_there(error: RpcError) -> bool:
    """Whether containerd refuses content because it has it."""
    return error.code is Code.ALREADY_EXISTS


async def store_content(
    containerd: Containerd,
    descriptor: Descriptor,
    chunks: Callable[[], AsyncIterable[bytes]],
    *,
    labels: Mapping[str, str] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> bool:
    """Store content under a lease; False when it was there, and then ``chunks`` is not called.

    ``progress`` gets the bytes stored so far. RpcError when it is not what the descriptor says.
    """
    ref = f"{containerd.lease}-{descriptor.digest}"
    request = content_pb2.WriteContentRequest
    try:
        async with containerd.transport.duplex(
            _WRITE, content_pb2.WriteContentResponse, metadata=containerd.metadata
        ) as call:
            await call.send(
                request(action=content_pb2.STAT, ref=ref, total=descriptor.size, expected=descriptor.digest)
            )
            # Another namespace may have it: then nothing is left to write.
            offset = (await call.receive()).offset
            if offset < descriptor.size:
                offset = 0
                async for chunk in chunks():
                    await call.send(request(action=content_pb2.WRITE, ref=ref, offset=offset, data=chunk))
                    offset += len(chunk)
                    await call.receive()
                    progress(offset)
            commit = request(
                action=content_pb2.COMMIT,
                ref=ref,
                offset=offset,
                total=descriptor.size,
                expected=descriptor.digest,
                labels=labels,
            )
            await call.send(commit)
            await call.receive()
    except RpcError as error:
        if is_there(error):
            return False
        await _abort(containerd, ref)
        raise
    except BaseException:
        await _abort(containerd, ref)
        raise
    return True


async def _abort(containerd: Containerd, ref: str) -> None:
    with trio.CancelScope(shield=True), suppress(RpcError):
        await containerd.remove("content.v1.Content/Abort", content_pb2.AbortRequest(ref=ref), Empty)
