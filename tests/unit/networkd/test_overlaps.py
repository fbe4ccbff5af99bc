"""Addresses whose networks overlap, on one link and on two: all are set, once, and others stay reachable."""

import pytest
import trio
import trio.testing
from tests.harness.namespace import run_in_namespace
from tests.harness.peer import Peer
from tests.unit.networkd.kernel_node import node_on

from talos.process.run import Daemon

pytestmark = pytest.mark.root

CONFIG = """\
version: v1alpha1
machine: {type: worker}
---
apiVersion: v1alpha1
kind: LinkConfig
name: eth0
addresses: [{address: 10.77.0.2/24}, {address: 10.77.0.3/16}, {address: 10.77.0.2/16}]
---
apiVersion: v1alpha1
kind: BridgeConfig
name: br0
links: []
addresses: [{address: 10.77.0.2/32}, {address: 10.77.1.5/24}]
"""
WANTED = {
    "eth0/10.77.0.2/24", "eth0/10.77.0.3/16", "eth0/10.77.0.2/16", "br0/10.77.0.2/32", "br0/10.77.1.5/24",
}  # fmt: skip


def test_addresses_that_overlap_are_all_set_and_networkd_rests() -> None:
    run_in_namespace(check)


async def check(daemon: Daemon) -> None:
    peer = Peer()
    async with node_on(daemon, peer, "10.77.0.1/24") as node:
        await node.configure(CONFIG)
        await node.wait_until(lambda found: set(found) >= WANTED)
        await trio.testing.wait_all_tasks_blocked(0.5)
        lines = len(node.lines)
        added = [line for line in node.lines if "/10.77." in line and " added" in line]
        assert len(added) == len(WANTED), "\n".join(added)
        for address in ("10.77.0.2", "10.77.0.3"):
            assert await trio.to_thread.run_sync(lambda address=address: peer.ping(address)), address
        await trio.testing.wait_all_tasks_blocked(0.5)
        assert len(node.lines) == lines, "\n".join(node.lines[lines:])
    peer.close()
