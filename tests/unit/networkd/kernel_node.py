"""networkd's controllers with the kernel of a network namespace, and a machine at the other end."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import trio
from google.protobuf.message import Message
from tests.harness.limits import REAL_TIMEOUT
from tests.harness.peer import Peer

from talos.api.definitions.cluster_pb2 import IdentitySpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.networkd.main import make_controllers
from talos.process.run import Daemon
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.kind import Kind
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.net.kernel_links import open_links


class Node:
    """The controllers with the kernel of this namespace."""

    def __init__(self) -> None:
        self.state = MemoryState()
        self.lines: list[str] = []

    async def configure(self, text: str) -> None:
        await put(self.state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text.encode()))

    async def wait[S: Message](self, kind: Kind[S], id: str, check: Callable[[S], bool]) -> S:
        with trio.move_on_after(REAL_TIMEOUT):
            resource = await wait_for(self.state, kind, id, lambda found: check(found.spec))
            return resource.spec
        known = [found.id for found in await self.state.list(kind)]
        raise AssertionError(f"no {kind.display_type} {id}: {known}\n" + "\n".join(self.lines))

    async def wait_until(self, check: Callable[[list[str]], bool]) -> list[str]:
        """Wait for a set of addresses."""
        found: list[str] = []
        with trio.move_on_after(REAL_TIMEOUT):
            async with self.state.watch(kinds.ADDRESS_STATUS) as changes:
                while True:
                    found = [item.id for item in await self.state.list(kinds.ADDRESS_STATUS)]
                    if check(found):
                        return found
                    await anext(changes)
        raise AssertionError(f"{found}\n" + "\n".join(self.lines))


@asynccontextmanager
async def node_on(daemon: Daemon, peer: Peer, *addresses: str) -> AsyncGenerator[Node]:
    node = Node()
    await peer.plug("eth0", "far", list(addresses))
    await put(node.state, *ids.IDENTITY, IdentitySpec(node_id="one"))
    async with open_links() as links, trio.open_nursery() as nursery:
        controllers = make_controllers(links, Log(write=node.lines.append))
        await nursery.start(run_controllers, node.state, controllers)
        yield node
        nursery.cancel_scope.cancel()
