"""What starts with an address of the node waits until the machine config has taken effect on them."""

import errno
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_interface
from typing import override

import trio
import trio.testing
from tests.unit.networkd.dhcp.server import Server

from talos.api.addresses import make_ip
from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.cluster_pb2 import IdentitySpec
from talos.api.definitions.network_pb2 import NodeAddressFilterSpec
from talos.api.definitions.secrets_pb2 import OSRootSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.clusterd.controllers.etcd_config import EtcdConfigController, EtcdSpecController
from talos.machined.controllers.k8s.address_filter import NO_KUBERNETES
from talos.machined.controllers.secrets.cert_sans import CertSANsController
from talos.networkd.main import make_controllers
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.net.links import ARPHRD_ETHER, ARPHRD_LOOPBACK, AddressState, LinkError, LinkState
from talos.testing.links import MemoryLinks

MAC = bytes.fromhex("020000000001")
LO = LinkState(index=1, name="lo", type=ARPHRD_LOOPBACK, mtu=65536)
ETH0 = LinkState(index=2, name="eth0", type=ARPHRD_ETHER, mtu=1500, hardware_address=MAC)
LEASED, STATIC, LATER = "10.0.2.15", "10.0.2.9", "10.0.2.10"
ADVERTISED, REFUSED = "fd00::5054:ff:fe12:1", "fd00::9"
CONFIG = """\
version: v1alpha1
machine: {type: controlplane}
cluster: {etcd: {}}
---
apiVersion: v1alpha1
kind: HostnameConfig
hostname: one
auto: "off"
"""
ALIASED = """\
---
apiVersion: v1alpha1
kind: LinkAliasConfig
name: lan
selector: {match: 'mac(link.hardware_addr) == "02:00:00:00:00:01"'}
---
apiVersion: v1alpha1
kind: LinkConfig
name: lan
addresses: [{address: ADDRESS/24}]
"""


class SlowLinks(MemoryLinks):
    """A link that has an address by a router's advertisement, and takes others late or not at all."""

    def __init__(self) -> None:
        super().__init__([LO, ETH0])
        self._addresses = [AddressState(link_index=ETH0.index, address=ip_interface(f"{ADVERTISED}/64"))]
        self.adding, self.added = trio.Event(), trio.Event()

    @override
    async def add_address(self, address: AddressState) -> None:
        if address.address.ip == ip_address(REFUSED):
            raise LinkError(errno.EACCES, "Permission denied")
        if address.address.ip == ip_address(STATIC):
            self.adding.set()
            await self.added.wait()
        await super().add_address(address)


@asynccontextmanager
async def node(links: MemoryLinks | None = None) -> AsyncGenerator[MemoryState]:
    """networkd with a server of leases on its link, and beside it what takes the node's addresses."""
    state, server = MemoryState(), Server(LEASED)
    await put(state, *ids.IDENTITY, IdentitySpec(node_id="one"))
    await put(state, kinds.NODE_ADDRESS_FILTER, NO_KUBERNETES, NodeAddressFilterSpec())
    await put(state, *ids.OS_ROOT_SECRET, OSRootSpec())
    controllers = [
        *make_controllers(links or MemoryLinks([LO, ETH0]), Log(), open_wire=server.open),
        EtcdConfigController(),
        EtcdSpecController(),
        CertSANsController(),
    ]
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, controllers)
        yield state
        nursery.cancel_scope.cancel()


async def wait_for_lease(state: MemoryState) -> None:
    await wait_for(state, kinds.ADDRESS_STATUS, f"eth0/{LEASED}/24", bool)
    await wait_for(state, *ids.NODE_ADDRESS_ROUTED_NO_K8S, lambda one: bool(one.spec.addresses))


async def configure(state: MemoryState, text: str) -> None:
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text.encode()))


def texts(addresses: Iterable[NetIP]) -> list[str]:
    return [str(ip_address(address.ip)) for address in addresses]


async def test_no_address_of_a_lease_that_the_config_ends_is_taken() -> None:
    async with node() as state:
        await wait_for_lease(state)
        await configure(state, CONFIG + ALIASED.replace("ADDRESS", STATIC))
        names = await wait_for(state, *ids.CERT_SAN_API, bool)
        spec = await wait_for(state, *ids.ETCD_SPEC, bool)
        assert names.metadata.version == 1
        assert STATIC in texts(names.spec.i_ps), "the first certificate lacks the address that clients use"
        assert spec.metadata.version == 1
        assert texts(spec.spec.advertised_addresses) == [STATIC]
        await configure(state, CONFIG + ALIASED.replace("ADDRESS", LATER))
        later = [make_ip(ip_address(LATER))]
        await wait_for(state, *ids.ETCD_SPEC, lambda one: list(one.spec.advertised_addresses) == later)


async def test_an_address_that_the_config_gives_comes_before_an_advertised_one() -> None:
    links = SlowLinks()
    async with node(links) as state:
        addresses = f"{{address: {REFUSED}/64}}, {{address: ADDRESS/24}}"
        text = ALIASED.replace("{address: ADDRESS/24}", addresses).replace("ADDRESS", STATIC)
        await configure(state, CONFIG + text)
        await links.adding.wait()
        await trio.testing.wait_all_tasks_blocked()
        links.added.set()
        spec = await wait_for(state, *ids.ETCD_SPEC, bool)
    assert spec.metadata.version == 1
    assert texts(spec.spec.advertised_addresses) == [STATIC]


async def test_a_lease_that_the_config_leaves_is_taken() -> None:
    async with node() as state:
        await wait_for_lease(state)
        await configure(state, CONFIG)
        spec = (await wait_for(state, *ids.ETCD_SPEC, bool)).spec
    assert texts(spec.advertised_addresses) == [LEASED]
