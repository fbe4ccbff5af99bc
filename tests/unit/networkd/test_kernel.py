"""networkd's controllers on a kernel: links change in place, and what others change is set again."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from pyroute2 import AsyncIPRoute
from tests.harness.limits import REAL_TIMEOUT
from tests.harness.namespace import run_in_namespace

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.networkd.main import make_controllers
from talos.process.run import Daemon
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.net.ethtool import Driver
from talos.system.net.kernel_links import KernelLinks, open_links
from talos.system.net.links import IFF_MULTICAST, LinkState, Topic

pytestmark = pytest.mark.root

MAIN = "version: v1alpha1\nmachine:\n  type: worker\n"
LINKS = """---
apiVersion: v1alpha1
kind: BridgeConfig
name: br0
links: [va]
stp: {enabled: true}
hardwareAddr: "02:00:00:00:00:99"
addresses: [{address: 10.99.0.1/24}]
routes: [{destination: 10.98.0.0/16, gateway: 10.99.0.254}]
---
apiVersion: v1alpha1
kind: VethConfig
name: va
mtu: 1400
peer: {name: vb, addresses: [{address: 10.99.0.2/24}], multicast: false}
---
apiVersion: v1alpha1
kind: EthernetConfig
name: va
features: {tx-checksum-ip-generic: false}
channels: {rx: 2}
"""


class Node:
    """The controllers with the kernel's links of this namespace."""

    def __init__(self, daemon: Daemon, links: KernelLinks) -> None:
        self.daemon = daemon
        self.links = links
        self.state = MemoryState()
        self.lines: list[str] = []

    async def config(self, text: str) -> None:
        spec = MachineConfigSpec(yaml_marshalled=(MAIN + text).encode())
        await modify(self.state, *ids.MACHINE_CONFIG, lambda old: old.CopyFrom(spec))

    async def link(self, name: str) -> LinkState | None:
        return next((link for link in await self.links.links() if link.name == name), None)

    async def until(self, what: str, check: Callable[[], Awaitable[bool]]) -> None:
        with trio.move_on_after(REAL_TIMEOUT):
            async with self.links.watch(~Topic(0)) as changes:
                while not await check():
                    with trio.move_on_after(0.1):
                        await anext(changes)
                return
        links = await self.links.links()
        shown = "\n".join([*map(str, links), *self.lines])
        raise AssertionError(f"not within {REAL_TIMEOUT} s: {what}\n{shown}")

    async def run_foreign(self, change: Callable[[Any], Awaitable[object]]) -> None:
        """Make a change as another program does, on a socket of its own."""

        async def make() -> None:
            async with AsyncIPRoute() as route:
                await change(route)

        await trio.to_thread.run_sync(asyncio.run, make())


@asynccontextmanager
async def running(daemon: Daemon) -> AsyncGenerator[Node]:
    async with open_links() as links, trio.open_nursery() as nursery:
        node = Node(daemon, links)
        log = Log(write=node.lines.append)
        await nursery.start(run_controllers, node.state, make_controllers(links, log))
        yield node
        nursery.cancel_scope.cancel()


async def change_in_place(daemon: Daemon) -> None:
    async with running(daemon) as node:
        await node.config(LINKS)

        async def is_set() -> bool:
            bridge, one, two = [await node.link(name) for name in ("br0", "va", "vb")]
            routes = {str(route.destination) for route in await node.links.routes()}
            return (
                bridge is not None
                and one is not None
                and two is not None
                and bridge.hardware_address == bytes((2, 0, 0, 0, 0, 0x99))
                and dict(bridge.settings) == {"br_stp_state": 1, "br_vlan_filtering": 0}
                and (one.master_index, one.mtu, one.parent_index) == (bridge.index, 1400, two.index)
                and not two.flags & IFF_MULTICAST
                and one.is_up
                and two.is_up
                and "10.98.0.0/16" in routes
            )

        await node.until("links, addresses and routes of the config", is_set)

        async def has_features() -> bool:
            features = {feature.name: feature for feature in Driver("va").read().features}
            return not features["tx-checksum-ip-generic"].is_active

        await node.until("a feature is off", has_features)
        bridge = await node.link("br0")
        assert bridge is not None

        async def list_versions() -> dict[str, int]:
            """Of the config's addresses; the kernel makes others when it has found no duplicates."""
            found = await node.state.list(kinds.ADDRESS_STATUS)
            return {item.id: item.metadata.version for item in found if "/10.99." in item.id}

        async def are_listed() -> bool:
            return set(await list_versions()) == {"br0/10.99.0.1/24", "vb/10.99.0.2/24"}

        await node.until("both addresses are in the State", are_listed)
        before = await list_versions()
        await node.config(LINKS.replace("stp: {enabled: true}", "stp: {enabled: false}"))

        async def is_changed() -> bool:
            now = await node.link("br0")
            return now is not None and not dict(now.settings)["br_stp_state"]

        await node.until("the bridge has other settings", is_changed)
        now = await node.link("br0")
        assert now is not None
        assert now.index == bridge.index, "the bridge was made anew"
        assert await list_versions() == before
        status = (await node.state.get(kinds.LINK_STATUS, "va")).spec
        assert (status.driver, status.veth.peer_name) == ("veth", "vb")

        await node.config("")

        async def is_removed() -> bool:
            return {link.name for link in await node.links.links()} == {"lo"}

        await node.until("the links go with their documents", is_removed)
        assert not [line for line in node.lines if "refuses" in line]


def test_links_change_in_place_and_go_with_their_documents() -> None:
    run_in_namespace(change_in_place)


async def repair(daemon: Daemon) -> None:
    async with running(daemon) as node:
        await node.config(LINKS)

        async def is_set() -> bool:
            bridge, one = await node.link("br0"), await node.link("va")
            routes = {str(route.destination) for route in await node.links.routes()}
            addresses = {str(address.address) for address in await node.links.addresses()}
            return (
                bridge is not None
                and one is not None
                and bridge.is_up
                and (one.master_index, one.mtu, one.is_up) == (bridge.index, 1400, True)
                and dict(bridge.settings)["br_stp_state"] == 1
                and "10.98.0.0/16" in routes
                and "10.99.0.1/24" in addresses
            )

        await node.until("the config's links", is_set)
        bridge, one = await node.link("br0"), await node.link("va")
        assert bridge is not None
        assert one is not None
        damages: dict[str, Callable[[Any], Awaitable[object]]] = {
            "port freed": lambda route: route.link("set", index=one.index, master=0),
            "mtu": lambda route: route.link("set", index=one.index, mtu=1280),
            "port down": lambda route: route.link("set", index=one.index, state="down"),
            "bridge down": lambda route: route.link("set", index=bridge.index, state="down"),
            "stp": lambda route: route.link("set", index=bridge.index, kind="bridge", br_stp_state=0),
            "address": lambda route: route.addr("del", index=bridge.index, address="10.99.0.1", prefixlen=24),
            "route": lambda route: route.route("del", dst="10.98.0.0/16"),
            "bridge removed": lambda route: route.link("del", index=bridge.index),
        }
        for name, damage in damages.items():
            await node.run_foreign(damage)
            await node.until(f"{name} is repaired", is_set)


def test_what_another_program_changes_is_repaired() -> None:
    run_in_namespace(repair)
