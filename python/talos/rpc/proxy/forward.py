"""Passing a call on over grpc.aio, as bytes and unchanged. It runs on asyncio alone."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, cast

import grpc
import grpc.aio

from talos.api.methods import StreamKind, stream_kind
from talos.api.rpc import Code
from talos.rpc.proxy.raw import (
    DEADLINE_EXCEEDED,
    FORWARDED_LIMIT,
    OK,
    Metadata,
    RawCall,
    Status,
    check_size,
    passed_on,
    receive_one,
)

type StreamCall = grpc.aio.StreamStreamCall[bytes, bytes] | grpc.aio.UnaryStreamCall[bytes, bytes]

_FAILED_WRITE = "Internal error from Core"
"""What grpc.aio makes of a call when a write fails."""

_STATUS_ATTEMPTS, _STATUS_PAUSE = 200, 0.005
"""The wait for the status of a call after a failed write, in seconds each: it is on its way."""

_NOT_CONNECTED = ("failed to connect to all addresses", "connections to all backends failing")


def _same(message: bytes) -> bytes:
    """What serializes bytes; without it gRPC's types are unknown."""
    return message


async def forward(call: RawCall, channel: grpc.aio.Channel, metadata: Metadata, *, to: str) -> Status:
    """Pass a call on with this metadata and its replies back; returns how it ended.

    ``to`` is what stands behind the channel, for the error that it can't be reached.
    """
    check_size(metadata, FORWARDED_LIMIT)
    kind = stream_kind(call.method)
    try:
        if kind is StreamKind.UNARY:
            return await _forward_unary(call, channel, metadata)
        return await _forward_stream(call, channel, metadata, kind, to=to)
    except grpc.aio.AioRpcError as error:
        return status_of(error, to=to)


async def _forward_unary(call: RawCall, channel: grpc.aio.Channel, metadata: Metadata) -> Status:
    request = await receive_one(call)
    rpc = channel.unary_unary(call.method, _same, _same)(
        request, metadata=metadata, timeout=call.time_remaining()
    )
    try:
        reply = await rpc
    except grpc.aio.AioRpcError as error:
        if begun := passed_on(error.initial_metadata()):
            await call.send_headers(begun)
        raise
    await call.send_headers(passed_on(await rpc.initial_metadata()))
    await call.send(reply)
    return Status(trailers=passed_on(await rpc.trailing_metadata()))


async def _forward_stream(
    call: RawCall, channel: grpc.aio.Channel, metadata: Metadata, kind: StreamKind, *, to: str
) -> Status:
    upload: asyncio.Task[None] | None = None
    if kind is StreamKind.SERVER:
        request = await receive_one(call)
        rpc = channel.unary_stream(call.method, _same, _same)(
            request, metadata=metadata, timeout=call.time_remaining()
        )
    else:
        rpc = channel.stream_stream(call.method, _same, _same)(
            metadata=metadata, timeout=call.time_remaining()
        )
        upload = asyncio.get_running_loop().create_task(_upload(call, rpc))
    ending = _Ending(rpc)
    try:
        await call.send_headers(passed_on(await rpc.initial_metadata()))
        while isinstance(message := await rpc.read(), bytes):
            await call.send(message)
        return Status(trailers=passed_on(await rpc.trailing_metadata()))
    except grpc.aio.AioRpcError as error:
        return await ending.status(error, to=to)
    except asyncio.CancelledError:
        # Cancelled not by the caller but by the upload, because of a request that is too large, for example.
        if upload is not None and upload.done() and not upload.cancelled() and (error := upload.exception()):
            raise error from None
        raise
    finally:
        # Cancelled or failed here: the other side must not continue.
        rpc.cancel()
        if upload is not None:
            upload.cancel()


class _Ending:
    """How a stream ended at the other side.

    When a request is written to a call that the other side has ended, grpc.aio sets the call's
    status to Internal, even if the real one has arrived before; or the real one replaces that.
    """

    def __init__(self, rpc: "StreamCall") -> None:
        self._rpc = rpc
        self._first: grpc.aio.AioRpcError | None = None
        rpc.add_done_callback(self._note)

    def _note(self, _: object) -> None:
        self._first = _finished(_error_of(self._rpc))

    async def status(self, error: grpc.aio.AioRpcError, *, to: str) -> Status:
        """The status that the other side has sent, given the error of reading."""
        for _ in range(_STATUS_ATTEMPTS):
            if not _is_failed_write(error):
                break
            if self._first is not None and not _is_failed_write(self._first):
                error = self._first
                break
            await asyncio.sleep(_STATUS_PAUSE)
            error = await _error_of(self._rpc)
        return status_of(error, to=to)


async def _error_of(rpc: "StreamCall") -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        await rpc.code(), await rpc.initial_metadata(), await rpc.trailing_metadata(), await rpc.details()
    )


def _finished[T](ready: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that has nothing to wait for."""
    try:
        ready.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    raise RuntimeError("the coroutine waits")


def _is_failed_write(error: grpc.aio.AioRpcError) -> bool:
    return error.code() is grpc.StatusCode.INTERNAL and error.details() == _FAILED_WRITE


async def _upload(call: RawCall, rpc: "grpc.aio.StreamStreamCall[bytes, bytes]") -> None:
    """Pass requests on until there are no more or the call has ended."""
    try:
        while (message := await call.receive()) is not None:
            await rpc.write(message)
        await rpc.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        pass  # the call has ended; how, the reader of its replies finds out
    except Exception:
        rpc.cancel()
        raise


def status_of(error: grpc.aio.AioRpcError, *, to: str) -> Status:
    """The status a call has ended with at the other side."""
    number = cast("tuple[int, str]", error.code().value)[0]
    details = error.details() or ""
    trailers = passed_on(cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ()))
    if number == Code.UNAVAILABLE and details.startswith(_NOT_CONNECTED):
        return Status(code=number, message=f"{to} can't be reached: {details}")
    if number == Code.DEADLINE_EXCEEDED and details in {"", "Deadline Exceeded"}:
        return DEADLINE_EXCEEDED
    return Status(code=number, message=details, trailers=trailers) if number else OK
