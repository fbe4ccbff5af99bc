"""Checks of a service over a channel that stays open."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from tests.harness.limits import REAL_TIMEOUT

from talos.api.rpc import DuplexTransport, RpcError
from talos.machined.services.health import KeptChannels, MethodProbe
from talos.process.run import Daemon, host
from talos.rpc.channel import open_channel
from talos.rpc.server import serve
from talos.system.logging import Log


def test_checks_share_a_channel_until_one_fails(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    opened: list[str] = []

    async def main(daemon: Daemon) -> None:
        @asynccontextmanager
        async def connect(path: str) -> AsyncGenerator[DuplexTransport]:
            opened.append(path)
            async with open_channel(daemon, path) as transport:
                yield transport

        channels = KeptChannels(connect)
        probe = MethodProbe(path)
        with trio.fail_after(REAL_TIMEOUT):
            for served in (1, 2):
                async with serve(daemon, [], path, grace=0.0):
                    for _ in range(3):
                        await probe(channels.connect)
                assert opened == [path] * served
                with pytest.raises(RpcError, match="failed to connect"):
                    await probe(channels.connect)
            await channels.close()

    asyncio.run(host(main, "test", Log(write=lambda _line: None)))
