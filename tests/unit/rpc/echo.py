"""A service with a method of each arity, and a way to run a test as a daemon."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import trio
from google.protobuf import wrappers_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import Default
from google.protobuf.wrappers_pb2 import BytesValue
from tests.harness.limits import REAL_TIMEOUT

from talos.api.rpc import Handler, Service
from talos.process.run import Daemon, host
from talos.rpc.limits import MAX_MESSAGE
from talos.rpc.server import serve
from talos.system.logging import Log

_ARITIES = {
    "Unary": (False, False),
    "ServerStream": (False, True),
    "ClientStream": (True, False),
    "Both": (True, True),
}


CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    # Windows that do not grow with the measured bandwidth, which differs from run to run.
    ("grpc.http2.bdp_probe", 0),
)

type RawChannel = Any
"""A grpc.aio.Channel of bytes; grpc's stubs leave the type of its messages open."""


def _make_descriptor() -> Any:
    file = FileDescriptorProto(name="test/echo.proto", package="test", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    service = file.service.add(name="Echo")
    for name, (client_streaming, server_streaming) in _ARITIES.items():
        service.method.add(
            name=name,
            input_type=".google.protobuf.BytesValue",
            output_type=".google.protobuf.BytesValue",
            client_streaming=client_streaming,
            server_streaming=server_streaming,
        )
    Default().AddSerializedFile(file.SerializeToString())
    return Default().FindServiceByName("test.Echo")


DESCRIPTOR = _make_descriptor()


def run_daemon(main: Callable[[Daemon], Awaitable[None]], lines: list[str] | None = None) -> None:
    """Run a test as a daemon does; it fails when it takes longer than REAL_TIMEOUT."""

    async def limited(daemon: Daemon) -> None:
        with trio.fail_after(REAL_TIMEOUT):
            await main(daemon)

    asyncio.run(host(limited, "test", Log(write=([] if lines is None else lines).append)))


@asynccontextmanager
async def echo_server(
    daemon: Daemon, path: Path, handlers: Mapping[str, Handler], *, grace: float = 0.5
) -> AsyncGenerator[RawChannel]:
    """A server with these handlers, and a channel of raw bytes to it."""
    async with serve(daemon, [Service(DESCRIPTOR, handlers)], path, grace=grace):
        channel = grpc.aio.insecure_channel(f"unix:{path}", options=CHANNEL_OPTIONS)
        try:
            yield channel
        finally:
            with trio.CancelScope(shield=True):
                await daemon.bridge.call(channel.close)


def packed(value: bytes) -> bytes:
    """A value as it goes over the wire."""
    return BytesValue(value=value).SerializeToString()


def unpacked(message: bytes) -> bytes:
    """The value of a message from the wire."""
    return BytesValue.FromString(message).value
