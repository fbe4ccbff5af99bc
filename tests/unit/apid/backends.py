"""What stands behind the nodes of the tests."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from talos.api.common import common_pb2 as common
from talos.api.machine import machine_pb2 as machine
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.protocol import OK, Status

from .world import (
    EVENTS,
    READ,
    RECOVER,
    RUN,
    Backend,
    Node,
    Pki,
    free_port,
    node,
)

NOT_SUPPORTED = "proxying is not supported for method"


async def versions(call: ServerCall, tag: str) -> Status:
    """Answers Version with a tag, every stream with what fits its kind."""
    match call.method:
        case _ if call.method in {READ, EVENTS}:
            request = await call.receive() or b""
            for number in range(3):
                await call.send(
                    common.Data(bytes=b"%s-%s-%d" % (tag.encode(), request, number)).SerializeToString()
                )
        case _ if call.method == RECOVER:
            parts: list[bytes] = []
            while (message := await call.receive()) is not None:
                parts.append(message)
            reply = machine.EtcdRecoverResponse()
            reply.messages.add()
            await call.send_headers((("parts", b"+".join(parts).decode()),))
            await call.send(reply.SerializeToString())
        case _ if call.method == RUN:
            while (message := await call.receive()) is not None:
                await call.send(tag.encode() + b":" + message)
        case _:
            await call.receive()
            reply = machine.VersionResponse()
            reply.messages.add().version.tag = tag
            await call.send(reply.SerializeToString())
    return OK


def tagged(tag: str) -> Backend:
    async def backend(call: ServerCall) -> Status:
        return await versions(call, tag)

    return backend


@asynccontextmanager
async def two_nodes(
    tmp_path: Path, pki: Pki, first: Backend, second: Backend, **options: Any
) -> AsyncGenerator[tuple[Node, Node]]:
    port = free_port()
    async with (
        node(tmp_path / "a", pki, first, host="127.0.0.1", port=port, **options) as a,
        node(tmp_path / "b", pki, second, host="127.0.0.2", port=port) as b,
    ):
        a.api.own.set_addresses([bytes([127, 0, 0, 1])])
        a.api.own.set_hostname("node-a", "example.org")
        yield a, b


def tags(reply: bytes) -> dict[str, str]:
    """The nodes and their contents in a merged reply."""
    messages = machine.VersionResponse.FromString(reply).messages
    return {message.metadata.hostname: message.version.tag for message in messages}
