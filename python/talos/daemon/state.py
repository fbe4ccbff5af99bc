"""The node's State, as the daemons beside machined reach it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from talos.daemon.run import Daemon
from talos.resource.remote.state import RemoteState
from talos.rpc.channel import open_channel

STATE_SOCKET = "/system/run/state/state.sock"


@asynccontextmanager
async def remote_state(daemon: Daemon, path: str = STATE_SOCKET) -> AsyncGenerator[RemoteState]:
    """The State over machined's socket for daemons; a call waits while machined doesn't listen."""
    async with open_channel(daemon, path, wait_for_ready=True) as transport:
        yield RemoteState(transport)
