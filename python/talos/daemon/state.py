"""The node's State, as the daemons beside machined reach it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from talos.resource.remote import RemoteState

from talos.daemon.channel import open_channel
from talos.daemon.run import Daemon

STATE_SOCKET = "/system/run/state/state.sock"


@asynccontextmanager
async def remote_state(daemon: Daemon, path: str = STATE_SOCKET) -> AsyncIterator[RemoteState]:
    """The State over machined's socket for daemons; a call waits while machined doesn't listen."""
    async with open_channel(daemon, path, wait_for_ready=True) as transport:
        yield RemoteState(transport)
