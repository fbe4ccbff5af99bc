"""A client's call whose deadline has passed."""

import asyncio
from typing import cast

import pytest
from tests.unit.rpc.port.world import Transport

from talos.api.rpc import Code
from talos.rpc.http2.backend import ASYNCIO
from talos.rpc.http2.client import ClientConnection
from talos.rpc.http2.frames import Bounds, ErrorCode, make_reset, make_settings


@pytest.mark.parametrize(("seconds", "code"), [(0.0, Code.DEADLINE_EXCEEDED), (3600.0, Code.CANCELLED)])
def test_a_server_that_cancels_at_the_deadline(seconds: float, code: Code) -> None:
    """A server keeps the deadline, too, and its reset may be read before the timer here has run."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        connection = ClientConnection()
        connection.connection_made(cast("asyncio.Transport", Transport()))
        connection.data_received(make_settings(Bounds()))
        call = connection.begin(((":method", "POST"),), ASYNCIO)
        call.timer = loop.call_later(seconds, call.expire)
        connection.data_received(make_reset(call.number, ErrorCode.CANCEL))
        assert call.status is not None
        assert call.status.code == code
        connection.connection_lost(None)

    asyncio.run(main())
