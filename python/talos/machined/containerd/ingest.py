"""Storing content in containerd, which checks size and digest and keeps nothing that does not match."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.containerd import content_pb2
from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.rpc import Code, DuplexCall, RpcError
from talos.machined.containerd.client import TIMEOUT, Containerd

_WRITE = "/containerd.services.content.v1.Content/Write"

type _Call = DuplexCall[content_pb2.WriteContentResponse]


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
    name: str = "",
) -> bool:
    """Store content under a lease; False when it is there, whether or not ``chunks`` was read.

    Of content whose digest is known only at its end, ``chunks`` sets that of the descriptor with its last
    chunk; ``name`` distinguishes such writes. ``progress`` gets the bytes stored so far. RpcError when it is
    not what the descriptor has.
    """
    ref = f"{containerd.lease}-{name or descriptor.digest}"
    try:
        async with _open_write(containerd) as call:
            await _write(call, ref, descriptor, chunks, labels=labels, progress=progress)
    except RpcError as error:
        if is_there(error):
            if name:
                await _abort(containerd, ref)
            return False
        await _abort(containerd, ref)
        raise
    except BaseException:
        await _abort(containerd, ref)
        raise
    return True


@asynccontextmanager
async def _open_write(containerd: Containerd) -> AsyncGenerator[_Call]:
    """A call that writes. It has ended in containerd too when the context is left.

    containerd begins what it writes to while the call runs: aborted before that, it would stay.
    """
    async with containerd.transport.duplex(
        _WRITE, content_pb2.WriteContentResponse, metadata=containerd.metadata
    ) as call:
        try:
            yield call
        finally:
            with trio.move_on_after(TIMEOUT, shield=True):
                await call.finish()


async def _write(
    call: _Call,
    ref: str,
    descriptor: Descriptor,
    chunks: Callable[[], AsyncIterable[bytes]],
    *,
    labels: Mapping[str, str] | None,
    progress: Callable[[int], None],
) -> None:
    request = content_pb2.WriteContentRequest
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


async def _abort(containerd: Containerd, ref: str) -> None:
    with trio.CancelScope(shield=True), suppress(RpcError):
        await containerd.remove("content.v1.Content/Abort", content_pb2.AbortRequest(ref=ref), Empty)
