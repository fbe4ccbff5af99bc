"""networkd from a platform's config to the kernel's twin and back into the State."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_interface

import pytest
import trio
import trio.testing
from google.protobuf.message import Message

from talos.api.addresses import make_ip, make_prefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.cluster_pb2 import IdentitySpec
from talos.api.definitions.files_pb2 import EtcFileStatusSpec
from talos.api.definitions.network_pb2 import (
    AddressSpecSpec,
    HostnameSpecSpec,
    LinkSpecSpec,
    NodeAddressSpec,
    PlatformConfigSpec,
    RouteSpecSpec,
)
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.networkd.controllers.machine_config import make_stable_name
from talos.networkd.layers import CONFIG_NAMESPACE
from talos.networkd.main import make_controllers
from talos.resource import ids, kinds
from talos.resource.addresses import parse_interface
from talos.resource.changes import modify, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.kind import Kind
from talos.resource.memory.state import MemoryState
from talos.resource.resource import make_resource
from talos.system.logging import Log
from talos.system.net.links import (
    ARPHRD_ETHER,
    ARPHRD_LOOPBACK,
    AddressState,
    LinkState,
)
from talos.testing.links import MemoryLinks

CONFIG = """\
version: v1alpha1
machine:
  type: worker
---
apiVersion: v1alpha1
kind: HostnameConfig
hostname: mine.example.org
---
apiVersion: v1alpha1
kind: ResolverConfig
nameservers:
- address: 9.9.9.9
---
apiVersion: v1alpha1
kind: TimeSyncConfig
ntp:
  servers: [time.example.org]
"""
LO = LinkState(index=1, name="lo", type=ARPHRD_LOOPBACK, mtu=65536)
ETH0 = LinkState(index=2, name="eth0", type=ARPHRD_ETHER, mtu=1500)


def platform_config(*addresses: str) -> PlatformConfigSpec:
    config = PlatformConfigSpec(
        links=[LinkSpecSpec(name="eth0", up=True, mtu=1400)],
        routes=[
            RouteSpecSpec(
                family=enums_pb2.FAMILY_INET4,
                gateway=make_ip(ip_address("10.5.0.1")),
                out_link_name="eth0",
                table=enums_pb2.TABLE_MAIN,
                priority=1024,
                type=enums_pb2.TYPE_UNICAST,
                protocol=enums_pb2.PROTOCOL_STATIC,
            )
        ],
        hostnames=[HostnameSpecSpec(hostname="node-1")],
    )
    for address in addresses:
        config.addresses.append(
            AddressSpecSpec(
                address=make_prefix(ip_interface(address)),
                link_name="eth0",
                family=enums_pb2.FAMILY_INET4,
                scope=enums_pb2.SCOPE_GLOBAL,
            )
        )
    return config


@asynccontextmanager
async def running(state: MemoryState, links: MemoryLinks) -> AsyncGenerator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, make_controllers(links, Log()))
        yield
        nursery.cancel_scope.cancel()


async def settle[S: Message](state: MemoryState, kind: Kind[S], id: str, check: Callable[[S], bool]) -> None:
    await wait_for(state, kind, id, lambda resource: check(resource.spec))


def holds_only(address: str) -> Callable[[NodeAddressSpec], bool]:
    """Whether a NodeAddress is this one address."""
    wanted = [make_prefix(ip_interface(address))]
    return lambda spec: list(spec.addresses) == wanted


async def configure(state: MemoryState, config: PlatformConfigSpec) -> None:
    await modify(state, *ids.PLATFORM_CONFIG, lambda spec: spec.CopyFrom(config))


async def test_a_platforms_config_reaches_the_kernel_and_the_state() -> None:
    state, links = MemoryState(), MemoryLinks([LO, ETH0])
    await configure(state, platform_config("10.5.0.2/24"))
    async with running(state, links):
        await settle(state, *ids.NETWORK_STATUS, lambda spec: spec.connectivity_ready)
        await settle(state, *ids.NETWORK_STATUS, lambda spec: spec.hostname_ready)
        await trio.testing.wait_all_tasks_blocked(0.05)
        link = (await state.get(kinds.LINK_STATUS, "eth0")).spec
        assert (link.mtu, link.operational_state) == (1400, enums_pb2.OPER_STATE_UP)
        assert (await state.get(kinds.LINK_STATUS, "lo")).spec.operational_state == enums_pb2.OPER_STATE_UP
        address = (await state.get(kinds.ADDRESS_STATUS, "eth0/10.5.0.2/24")).spec
        assert parse_interface(address.address) == ip_interface("10.5.0.2/24")
        route = (await state.get(kinds.ROUTE_STATUS, "inet4/10.5.0.1//1024")).spec
        assert route.out_link_name == "eth0"
        for name in ("default", "current", "routed", "accumulative"):
            await settle(state, kinds.NODE_ADDRESS, name, holds_only("10.5.0.2/24"))
        assert (await state.get(*ids.HOSTNAME_STATUS)).spec.hostname == "node-1"
        # The defaults, as nothing else was configured.
        assert (await state.get(*ids.RESOLVER_STATUS)).spec.dns_servers[0].ip == b"\x01\x01\x01\x01"


async def test_what_goes_from_the_config_goes_from_the_kernel_and_nothing_else_does() -> None:
    state, links = MemoryState(), MemoryLinks([LO, ETH0])
    foreign = AddressState(link_index=2, address=ip_interface("192.0.2.9/24"))
    await links.add_address(foreign)
    await configure(state, platform_config("10.5.0.2/24", "10.5.0.3/24"))
    async with running(state, links):
        await settle(state, *ids.NODE_ADDRESS_CURRENT, lambda spec: len(spec.addresses) == 3)
        await configure(state, platform_config("10.5.0.2/24"))
        await settle(state, *ids.NODE_ADDRESS_CURRENT, lambda spec: len(spec.addresses) == 2)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert [str(item.address) for item in await links.addresses() if item.link_index == 2] == [
            "192.0.2.9/24",
            "10.5.0.2/24",
        ]
        accumulated = (await state.get(*ids.NODE_ADDRESS_ACCUMULATIVE)).spec
        assert len(accumulated.addresses) == 3


async def test_a_restart_changes_nothing() -> None:
    state, links = MemoryState(), MemoryLinks([LO, ETH0])
    await configure(state, platform_config("10.5.0.2/24"))
    async with running(state, links):
        await settle(state, *ids.NETWORK_STATUS, lambda spec: spec.connectivity_ready)
        await trio.testing.wait_all_tasks_blocked(0.05)
    links.changes.clear()
    before = await state.get(*ids.NODE_ADDRESS_CURRENT)
    async with running(state, links):
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert links.changes == []
        assert await state.get(*ids.NODE_ADDRESS_CURRENT) == before


async def test_a_removed_address_comes_back() -> None:
    state, links = MemoryState(), MemoryLinks([LO, ETH0])
    await configure(state, platform_config("10.5.0.2/24"))
    async with running(state, links):
        await settle(state, *ids.NODE_ADDRESS_CURRENT, lambda spec: len(spec.addresses) == 1)
        await links.remove_address(AddressState(link_index=2, address=ip_interface("10.5.0.2/24")))
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert any(item.address == ip_interface("10.5.0.2/24") for item in await links.addresses())


async def test_a_higher_layer_wins() -> None:
    state, links = MemoryState(), MemoryLinks([LO, ETH0])
    await configure(state, platform_config("10.5.0.2/24"))
    own = HostnameSpecSpec(hostname="mine", config_layer=enums_pb2.CONFIG_MACHINE_CONFIGURATION)
    await state.create(
        make_resource(kinds.HOSTNAME_SPEC, "configuration/hostname", own, namespace=CONFIG_NAMESPACE)
    )
    async with running(state, links):
        await settle(state, *ids.HOSTNAME_STATUS, lambda spec: spec.hostname == "mine")


async def test_etc_files_are_waited_for() -> None:
    state, links = MemoryState(), MemoryLinks([LO])
    async with running(state, links):
        await settle(state, *ids.NETWORK_STATUS, lambda spec: not spec.etc_files_ready)
        for name in ("hosts", "resolv.conf"):
            await state.create(
                make_resource(kinds.ETC_FILE_STATUS, name, EtcFileStatusSpec(spec_version="1"))
            )
        await settle(state, *ids.NETWORK_STATUS, lambda spec: spec.etc_files_ready)


async def test_the_machine_configs_names_and_servers_win() -> None:
    state, links = MemoryState(), MemoryLinks([LO, ETH0])
    await configure(state, platform_config("10.5.0.2/24"))
    async with running(state, links):
        await settle(state, *ids.HOSTNAME_STATUS, lambda spec: spec.hostname == "node-1")
        config = MachineConfigSpec(yaml_marshalled=CONFIG.encode())
        await state.create(make_resource(*ids.MACHINE_CONFIG, config))
        await settle(state, *ids.HOSTNAME_STATUS, lambda spec: spec.hostname == "mine")
        await settle(
            state,
            *ids.TIME_SERVER_STATUS,
            lambda spec: list(spec.ntp_servers) == ["time.example.org"],
        )
        await settle(state, *ids.RESOLVER_STATUS, lambda spec: spec.dns_servers[0].ip == bytes([9, 9, 9, 9]))
        status = (await state.get(*ids.HOSTNAME_STATUS)).spec
        assert status.domainname == "example.org"


async def test_a_machine_without_a_config_goes_by_its_own_name() -> None:
    state, links = MemoryState(), MemoryLinks([LO, ETH0])
    await state.create(make_resource(*ids.IDENTITY, IdentitySpec(node_id="one")))
    async with running(state, links):
        own = make_stable_name("one")
        await settle(state, *ids.HOSTNAME_STATUS, lambda spec: spec.hostname == own)


@pytest.mark.parametrize(
    ("node_id", "name"),
    [
        ("node-0", "talos-w48-fgm"),
        # A number of twelve digits: no zero before them.
        ("node-1", "talos-c6p-y8y"),
        ("node-957", "talos-d4j-ip8"),
        # A digest whose first byte is zero: one zero before its digits.
        ("node-369", "talos-48g-14o"),
        ("node-1857", "talos-ix5-vhl"),
    ],
)
def test_the_stable_name_of_an_id(node_id: str, name: str) -> None:
    assert make_stable_name(node_id) == name
