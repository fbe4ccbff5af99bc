"""The node's State, as the daemons beside machined reach it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from talos.process.daemons import BY_NAME
from talos.process.run import Daemon
from talos.resource.remote.state import RemoteState
from talos.rpc.channel import open_channel


@asynccontextmanager
async def remote_state(daemon: Daemon) -> AsyncGenerator[RemoteState]:
    """The State over the daemon's own socket; a call waits while machined doesn't listen."""
    async with open_channel(daemon, BY_NAME[daemon.name].state_socket, wait_for_ready=True) as transport:
        yield RemoteState(transport)
