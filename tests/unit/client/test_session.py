"""Calls of a workstation's client to a node's API: this HTTP/2 at both ends."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.wrappers_pb2 import BytesValue
from tests.harness.limits import REAL_TIMEOUT
from tests.unit.apid.world import Pki, node

from talos.api.rpc import Code, RpcError
from talos.client.channel import UnreachableError
from talos.client.endpoint import Endpoint
from talos.client.session import Session, open_session
from talos.client.target import Target
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.protocol import OK, Status

READ, VERSION = "/machine.MachineService/Read", "/machine.MachineService/Version"
IMPORT = "/machine.ImageService/Import"
PIECE, PIECES = 1 << 20, 24  # three windows of a stream


async def answer(call: ServerCall) -> Status:
    request = await call.receive()
    if call.method == IMPORT:
        raise RpcError(Code.INVALID_ARGUMENT, "no image")
    if call.method == VERSION and request:
        await asyncio.Event().wait()
    for number in range(PIECES if call.method == READ else 1):
        await call.send(BytesValue(value=bytes([number]) * PIECE).SerializeToString())
    return OK


@asynccontextmanager
async def session(tmp_path: Path) -> AsyncGenerator[Session]:
    pki = Pki()
    admin = pki.client("os:admin")
    async with node(tmp_path, pki, answer) as a:
        target = Target(
            endpoints=(Endpoint(host=a.host, port=a.port),),
            nodes=(),
            ca=pki.ca.crt,
            crt=admin.crt,
            key=admin.key,
        )
        async with open_session(target) as opened:
            yield opened


async def read(replies: AsyncIterator[BytesValue]) -> list[int]:
    return [reply.value[0] async for reply in replies]


def test_more_than_a_window_arrives_in_order_beside_other_calls(tmp_path: Path) -> None:
    async def test() -> None:
        async with session(tmp_path) as opened, asyncio.timeout(REAL_TIMEOUT):
            async with opened.stream("", READ, Empty(), BytesValue) as replies:
                small = await opened.unary("", VERSION, Empty(), BytesValue)
                assert await read(replies) == list(range(PIECES))
            assert len(small.value) == PIECE

    asyncio.run(test())


def test_a_call_that_is_left_or_late_ends_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with session(tmp_path) as opened, asyncio.timeout(REAL_TIMEOUT):
            async with opened.stream("", READ, Empty(), BytesValue) as replies:
                await anext(replies)
            with pytest.raises(RpcError) as late:
                await opened.unary("", VERSION, BytesValue(value=b"wait"), BytesValue, timeout=0.2)
            assert late.value.code is Code.DEADLINE_EXCEEDED
            assert not isinstance(late.value, UnreachableError)
            assert (await opened.unary("", VERSION, Empty(), BytesValue)).value

    asyncio.run(test())


def test_an_upload_that_the_node_refuses_reads_nothing_more(tmp_path: Path) -> None:
    closed: list[int] = []

    async def pieces() -> AsyncGenerator[BytesValue]:
        number = 0
        try:
            while True:
                yield BytesValue(value=bytes(16 * 1024))
                number += 1
        finally:
            closed.append(number)

    async def test() -> None:
        async with session(tmp_path) as opened, asyncio.timeout(REAL_TIMEOUT):
            with pytest.raises(RpcError, match="no image"):
                await opened.upload("", IMPORT, pieces(), BytesValue)
            assert len(closed) == 1
            assert (await opened.unary("", VERSION, Empty(), BytesValue)).value

    asyncio.run(test())
