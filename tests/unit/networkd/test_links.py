"""Links from command line and machine config to the kernel's twin, and DHCP where nothing is configured."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
import trio
import trio.testing
from tests.unit.networkd.dhcp.server import Server
from trio.testing import MockClock

from talos.api.definitions import enums_pb2
from talos.api.definitions.runtime_pb2 import KernelCmdlineSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.config.read.loader import load
from talos.networkd.device_config import make_device_config
from talos.networkd.main import make_controllers
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.yaml.spec import spec_to_yaml
from talos.system.logging import Log
from talos.system.net.links import ARPHRD_ETHER, ARPHRD_LOOPBACK, IFF_MULTICAST, LinkState, Topic
from talos.system.net.wireguard import WireguardChange
from talos.testing.links import MemoryLinks

MAIN = "version: v1alpha1\nmachine:\n  type: worker\n"


def nic(index: int) -> LinkState:
    address = bytes((2, 0, 0, 0, 1, index))
    return LinkState(
        index=index, name=f"eth{index - 2}", type=ARPHRD_ETHER, mtu=1500, hardware_address=address
    )


class Node:
    def __init__(self, nics: int = 2, **options: Any) -> None:
        self.state = MemoryState()
        loopback = LinkState(index=1, name="lo", type=ARPHRD_LOOPBACK, mtu=65536)
        self.links = MemoryLinks([loopback, *(nic(index) for index in range(2, 2 + nics))])
        self.server = Server(**options)

    async def arguments(self, text: str) -> None:
        spec = KernelCmdlineSpec(cmdline=text)
        await modify(self.state, *ids.KERNEL_CMDLINE, lambda old: old.CopyFrom(spec))

    async def config(self, text: str) -> None:
        spec = MachineConfigSpec(yaml_marshalled=text.encode())
        await modify(self.state, *ids.MACHINE_CONFIG, lambda old: old.CopyFrom(spec))
        await trio.testing.wait_all_tasks_blocked(0.1)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with trio.open_nursery() as nursery:
            controllers = make_controllers(self.links, Log(), self.server.open)
            await nursery.start(run_controllers, self.state, controllers)
            await trio.testing.wait_all_tasks_blocked(0.1)
            yield
            nursery.cancel_scope.cancel()

    async def addresses(self) -> list[str]:
        names = {link.index: link.name for link in await self.links.links()}
        return sorted(
            f"{names[item.link_index]} {item.address}"
            for item in await self.links.addresses()
            if item.link_index != 1
        )

    async def link(self, name: str) -> LinkState | None:
        return next((link for link in await self.links.links() if link.name == name), None)


async def test_a_machine_without_config_gets_an_address() -> None:
    node = Node(1, host_name="given", domain_name="example.org", ntp_servers=["10.0.2.4"], interface_mtu=1400)
    async with node.running():
        assert await node.addresses() == ["eth0 10.0.2.15/24"]
        assert (await node.state.get(kinds.OPERATOR_SPEC, "dhcp4/eth0")).spec.link_name == "eth0"
        assert any(route.gateway is not None for route in await node.links.routes())
        hostname = (await node.state.get(*ids.HOSTNAME_STATUS)).spec
        assert (hostname.hostname, hostname.domainname) == ("given", "example.org")
        resolvers = (await node.state.get(*ids.RESOLVER_STATUS)).spec
        assert [item.ip for item in resolvers.dns_servers] == [bytes((10, 0, 2, 3))]
        times = (await node.state.get(*ids.TIME_SERVER_STATUS)).spec
        assert list(times.ntp_servers) == ["10.0.2.4"]
        link = await node.link("eth0")
        assert link is not None
        assert link.mtu == 1400
    node.links.changes.clear()
    async with node.running():
        # The lease is confirmed, and nothing changes.
        assert node.links.changes == []
        assert node.server.received[-1][0] == "REQUEST"


async def test_a_lease_taken_back_takes_its_address_along() -> None:
    node = Node(1)
    async with node.running():
        assert await node.addresses() == ["eth0 10.0.2.15/24"]
        node.server.refusing = True
        node.links.plug(2, carrier=False)
        await trio.testing.wait_all_tasks_blocked(0.1)
        # A pulled cable alone changes nothing.
        assert await node.addresses() == ["eth0 10.0.2.15/24"]
        node.links.plug(2, carrier=True)
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert await node.addresses() == []


async def test_ignored_links_are_left_alone() -> None:
    node = Node(2)
    await node.arguments("talos.network.interface.ignore=eth0")
    async with node.running():
        assert await node.addresses() == ["eth1 10.0.2.15/24"]
        link = await node.link("eth0")
        assert link is not None
        assert not link.is_up


async def test_the_command_line_takes_the_place_of_dhcp() -> None:
    node = Node(1)
    await node.arguments("ip=10.1.0.2::10.1.0.1:24:named:eth0:off ip=nonsense")
    async with node.running():
        assert await node.addresses() == ["eth0 10.1.0.2/24"]
        assert node.server.received == []
        assert (await node.state.get(*ids.HOSTNAME_STATUS)).spec.hostname == "named"


async def test_bond_and_vlan_of_the_command_line() -> None:
    node = Node(2)
    await node.arguments("bond=bond0:eth0,eth1:mode=active-backup vlan=vlan5:bond0 ip=10.1.0.2:::24::vlan5")
    async with node.running():
        assert await node.addresses() == ["bond0.5 10.1.0.2/24"]
        bond = await node.link("bond0")
        assert bond is not None
        ports = [link.name for link in await node.links.links() if link.master_index == bond.index]
        assert ports == ["eth0", "eth1"]
        vlan = await node.link("bond0.5")
        assert vlan is not None
        assert (vlan.kind, vlan.parent_index, vlan.is_up) == ("vlan", bond.index, True)


async def test_documents_make_links_and_their_removal_takes_them_away() -> None:
    node = Node(2)
    documents = """---
apiVersion: v1alpha1
kind: DummyLinkConfig
name: dummy0
addresses: [{address: 10.3.0.1/32}]
---
apiVersion: v1alpha1
kind: VLANConfig
name: storage
vlanID: 7
parent: eth0
mtu: 1400
addresses: [{address: 10.4.0.2/24}]
routes: [{destination: 10.5.0.0/16, gateway: 10.4.0.1}]
---
apiVersion: v1alpha1
kind: LinkConfig
name: eth1
addresses: [{address: 10.6.0.2/24}]
---
apiVersion: v1alpha1
kind: BridgeConfig
name: br0
links: [dummy0]
---
apiVersion: v1alpha1
kind: BlackholeRouteConfig
name: 10.9.0.0/16
"""
    async with node.running():
        await node.config(MAIN + documents)
        # eth0 only carries the VLAN, so DHCP goes on there; eth1 has a document of its own.
        assert await node.addresses() == [
            "dummy0 10.3.0.1/32",
            "eth0 10.0.2.15/24",
            "eth1 10.6.0.2/24",
            "storage 10.4.0.2/24",
        ]
        bridge, dummy, vlan = [await node.link(name) for name in ("br0", "dummy0", "storage")]
        assert bridge is not None
        assert dummy is not None
        assert vlan is not None
        assert dummy.master_index == bridge.index
        assert vlan.mtu == 1400
        wanted = {"10.5.0.0/16", "10.9.0.0/16"}
        assert wanted <= {str(route.destination) for route in await node.links.routes()}
        await node.config(MAIN)
        assert await node.addresses() == ["eth0 10.0.2.15/24", "eth1 10.0.2.15/24"]
        assert [link.name for link in await node.links.links()] == ["lo", "eth0", "eth1"]
        assert not wanted & {str(route.destination) for route in await node.links.routes()}


async def test_interfaces_of_the_main_document() -> None:
    node = Node(3)
    async with node.running():
        await node.config(
            MAIN
            + """  network:
    interfaces:
      - deviceSelector: {hardwareAddr: "02:00:00:00:01:02"}
        addresses: [10.1.0.2/24]
        routes: [{network: 0.0.0.0/0, gateway: 10.1.0.1}]
        vlans: [{vlanId: 9, addresses: [10.2.0.2/24]}]
      - interface: eth1
        dhcp: true
        dhcpOptions: {routeMetric: 50}
        mtu: 1300
      - interface: eth2
        ignore: true
"""
        )
        assert await node.addresses() == ["eth0 10.1.0.2/24", "eth0.9 10.2.0.2/24", "eth1 10.0.2.15/24"]
        metrics = {route.priority for route in await node.links.routes() if route.gateway is not None}
        assert metrics == {50, 1024}
        link = await node.link("eth1")
        assert link is not None
        assert link.mtu == 1300


async def test_items_of_the_main_document_are_shown_with_their_links() -> None:
    node = Node(3)
    async with node.running():
        await node.config(
            MAIN
            + """  network:
    interfaces:
      - interface: eth2
        ignore: true
      - deviceSelector: {hardwareAddr: "02:00:00:00:01:02"}
        addresses: [10.1.0.2/24]
      - deviceSelector: {hardwareAddr: "02:00:00:00:01:0[23]"}
        mtu: 1400
"""
        )
        shown = {one.id: one.spec for one in await node.state.list(kinds.DEVICE_CONFIG_SPEC)}
        assert sorted(shown) == ["eth0/001", "eth0/002/000", "eth1/002/001", "eth2/000"]
        text = spec_to_yaml(kinds.DEVICE_CONFIG_SPEC, shown["eth0/001"])
        assert text == "interface: eth0\naddresses:\n    - 10.1.0.2/24\n"
        await node.config(MAIN)
        assert not await node.state.list(kinds.DEVICE_CONFIG_SPEC)


async def test_a_bond_that_came_with_the_kernel_gets_our_settings() -> None:
    node = Node(1)
    await node.links.add_link("bond0", {"kind": "bond"})
    await node.arguments("bond=bond0:eth0:mode=802.3ad")
    async with node.running():
        assert [change for change in node.links.changes if "bond_mode" in change] == [
            "set bond0 up=None mtu=None bond_mode=4"
        ]
    node.links.changes.clear()
    async with node.running():
        assert node.links.changes == []


TWO_DEFAULTS = """
---
apiVersion: v1alpha1
kind: LinkConfig
name: eth0
addresses: [{address: 10.5.0.2/24}]
routes: [{gateway: 10.5.0.1}]
---
apiVersion: v1alpha1
kind: LinkConfig
name: eth1
addresses: [{address: 10.6.0.2/24}]
routes: [{gateway: 10.6.0.1}]
"""


async def default_gateways(node: Node) -> list[str]:
    return [str(route.gateway) for route in await node.links.routes() if route.gateway is not None]


async def test_of_two_routes_of_one_metric_one_is_set_and_stays() -> None:
    node = Node(2)
    await node.config(MAIN + TWO_DEFAULTS)
    async with node.running():
        assert await default_gateways(node) == ["10.5.0.1"]
        count = len(node.links.changes)
        node.links.plug(2, carrier=True)
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert len(node.links.changes) == count + 1
        # The other one takes its place when the first goes away.
        await node.config(MAIN + TWO_DEFAULTS.replace("routes: [{gateway: 10.5.0.1}]", "routes: []"))
        assert await default_gateways(node) == ["10.6.0.1"]


async def test_the_route_of_the_config_goes_before_that_of_a_lease() -> None:
    node = Node(2)
    await node.config(
        MAIN
        + """
---
apiVersion: v1alpha1
kind: LinkConfig
name: eth1
addresses: [{address: 10.6.0.2/24}]
routes: [{gateway: 10.6.0.1}]
"""
    )
    async with node.running():
        # eth0 has a lease with a route of the same metric.
        assert "eth0 10.0.2.15/24" in await node.addresses()
        assert await default_gateways(node) == ["10.6.0.1"]


async def test_what_another_program_undoes_is_not_done_without_end(autojump_clock: MockClock) -> None:
    del autojump_clock
    node = Node(1)
    await node.config(
        MAIN
        + """
---
apiVersion: v1alpha1
kind: LinkConfig
name: eth0
addresses: [{address: 10.5.0.2/24}]
"""
    )
    removed = 0

    async def undo(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        nonlocal removed
        async with node.links.watch(Topic.ADDRESS) as changes:
            task_status.started()
            async for _ in changes:
                for address in await node.links.addresses():
                    if address.link_index != 1:
                        removed += 1
                        await node.links.remove_address(address)

    async with trio.open_nursery() as nursery:
        await nursery.start(undo)
        async with node.running():
            await trio.sleep(100)
            # Five within ten seconds; it goes on, as the other program may end.
            assert 10 <= removed <= 55
            nursery.cancel_scope.cancel()


WIREGUARD = """
---
apiVersion: v1alpha1
kind: WireguardConfig
name: wg0
privateKey: aKJ6DwKKrFGYo3Q6W5+WJyBbJQ1kkPrMHHaF6OOCHXA=
listenPort: 51820
peers:
- publicKey: 7kPMCnFlP9b3DPJMNFaQ0v4uv9P0rHT3G1Cgzr7G9nM=
  endpoint: 192.0.2.1:51820
  persistentKeepaliveInterval: 25s
  allowedIPs: [10.1.0.0/16, "::/0"]
- publicKey: QFDsbmhFNzeOoZb8hFS9CSPsXK1YWHoIhTdPjiEGOXc=
  allowedIPs: [10.2.0.0/16]
"""


async def test_peers_change_one_by_one_and_may_roam() -> None:
    node = Node(1)
    first, second = (
        "7kPMCnFlP9b3DPJMNFaQ0v4uv9P0rHT3G1Cgzr7G9nM=",
        "QFDsbmhFNzeOoZb8hFS9CSPsXK1YWHoIhTdPjiEGOXc=",
    )
    await node.config(MAIN + WIREGUARD)

    def changes() -> list[str]:
        return [text for text in node.links.changes if text.startswith("wireguard")]

    async with node.running():
        assert changes() == [f"wireguard wg0: private key, port, peer {first}, peer {second}"]
        state = await node.links.wireguard("wg0")
        assert {str(network) for network in state.peers[0].networks} == {"10.1.0.0/16", "::/0"}
        assert (state.peers[0].keepalive, state.listen_port) == (25, 51820)
        status = (await node.state.get(kinds.LINK_STATUS, "wg0")).spec
        assert status.wireguard.private_key == ""
        # The peer sends from another address, which is its own now.
        moved = replace(state.peers[0], endpoint=(ip_address("203.0.113.9"), 4000))
        await node.links.set_wireguard("wg0", WireguardChange(peers=[moved]))
        node.links.changes.clear()
        await node.config(MAIN + WIREGUARD.replace("10.2.0.0/16", "10.3.0.0/16"))
        assert changes() == [f"wireguard wg0: peer {second}"]
        await node.config(
            MAIN + WIREGUARD.replace("192.0.2.1", "192.0.2.7").split(f"- publicKey: {second}")[0]
        )
        assert changes()[1:] == [f"wireguard wg0: peer {second} removed, peer {first}"]
        [peer] = (await node.links.wireguard("wg0")).peers
        assert peer.endpoint == (ip_address("192.0.2.7"), 51820)


@pytest.mark.parametrize("name", ["a\\nb", "a\\u001bc", "sixteen-bytes-xx", "..", "a b"])
def test_a_name_that_the_kernel_refuses_is_refused_before(name: str) -> None:
    config = load(f'{MAIN}---\napiVersion: v1alpha1\nkind: DummyLinkConfig\nname: "{name}"\n')
    result = make_device_config(config, {})
    assert [problem.endswith("is no link's name") for problem in result.problems] == [True]
    assert not result.specs.links


def test_a_wrong_key_is_named_without_its_value() -> None:
    config = load(MAIN + WIREGUARD.replace("aKJ6DwKKrF", ""))
    problems = make_device_config(config, {}).problems
    assert problems == ["WireguardConfig wg0 ignored: privateKey is no key of 32 bytes in base64"]


async def test_links_by_their_aliases() -> None:
    node = Node(3)
    async with node.running():
        await node.config(
            MAIN
            + """
---
apiVersion: v1alpha1
kind: LinkAliasConfig
name: disks
selector: {match: 'mac(link.hardware_addr) == "02:00:00:00:01:03"'}
---
apiVersion: v1alpha1
kind: LinkAliasConfig
name: net%d
selector: {match: link.driver.startsWith("virtio")}
---
apiVersion: v1alpha1
kind: LinkConfig
name: disks
addresses: [{address: 10.5.0.2/24}]
---
apiVersion: v1alpha1
kind: DHCPv4Config
name: disks
---
apiVersion: v1alpha1
kind: EthernetConfig
name: net1
channels: {combined: 4}
wakeOnLan: [phy, magic]
features: {tx-lro: false}
"""
        )
        names = {link.name: link.alias for link in await node.links.links()}
        assert names == {"lo": "", "eth0": "net0", "eth1": "disks", "eth2": "net1"}
        assert {"eth1 10.5.0.2/24", "eth1 10.0.2.15/24"} <= set(await node.addresses())
        drivers = [text for text in node.links.changes if text.startswith("driver")]
        assert drivers == [
            "driver eth2: combined 4",
            "driver eth2: tx-lro off",
            "driver eth2: wake-on-LAN",
        ]
        await node.config(MAIN)
        assert {link.alias for link in await node.links.links()} == {""}


async def test_multicast_is_switched_off_and_on() -> None:
    node = Node(1)
    document = "---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\nmulticast: "
    async with node.running():
        for word in ("true", "false", "true"):
            await node.config(f"{MAIN}{document}{word}\n")
            link = await node.link("eth0")
            assert link is not None
            assert bool(link.flags & IFF_MULTICAST) == (word == "true")


async def test_a_bond_changes_in_place_and_without_ports_where_it_must() -> None:
    node = Node(2)
    bond = "---\napiVersion: v1alpha1\nkind: BondConfig\nname: bond0\nlinks: [eth0, eth1]\n"
    await node.config(f"{MAIN}{bond}bondMode: active-backup\nmiimon: 100\n")
    async with node.running():
        [index] = [link.index for link in await node.links.links() if link.name == "bond0"]
        node.links.changes.clear()
        await node.config(f"{MAIN}{bond}bondMode: active-backup\nmiimon: 50\nprimary: eth1\n")
        [eth1] = [link.index for link in await node.links.links() if link.name == "eth1"]
        assert node.links.changes == [f"set bond0 up=None mtu=None bond_miimon=50 bond_primary={eth1}"]
        node.links.changes.clear()
        await node.config(f"{MAIN}{bond}bondMode: 802.3ad\nmiimon: 50\nlacpRate: fast\n")
        freed = [f"set eth{number} up=None mtu=None master=None" for number in range(2)]
        assert node.links.changes[:2] == freed
        links = {link.name: link for link in await node.links.links()}
        assert links["bond0"].index == index
        assert dict(links["bond0"].settings)["bond_mode"] == 4
        assert links["eth0"].master_index == links["eth1"].master_index == index
        assert links["bond0"].is_up


async def test_a_kind_that_the_kernel_lacks_is_an_error_and_a_diagnostic(
    capsys: pytest.CaptureFixture[str],
) -> None:
    node = Node(1)
    node.links.unknown_kinds.add("dummy")
    async with node.running():
        await node.config(f"{MAIN}---\napiVersion: v1alpha1\nkind: DummyLinkConfig\nname: dummy7\n")
        (found,) = await node.state.list(kinds.DIAGNOSTIC)
        assert found.id == "link-dummy7"
        assert found.spec.message == "link dummy7 can't be made: the kernel has no links of the kind dummy"
        errors = capsys.readouterr().err
        assert "making dummy dummy7: the kernel refuses: Operation not supported" in errors
        assert "dummy7 made" not in errors
        node.links.unknown_kinds.clear()
        await trio.testing.wait_all_tasks_blocked()
        await node.config(f"{MAIN}---\napiVersion: v1alpha1\nkind: DummyLinkConfig\nname: dummy7\nup: true\n")
        assert await node.link("dummy7") is not None
        assert not await node.state.list(kinds.DIAGNOSTIC)


@pytest.mark.parametrize(
    "setting",
    [
        "---\napiVersion: v1alpha1\nkind: KubeFlannelCNIConfig\nkubeNetworkPoliciesEnabled: true\n",
        "cluster: {network: {cni: {name: flannel, flannel: {kubeNetworkPoliciesEnabled: true}}}}\n",
    ],
)
async def test_network_policies_that_the_kernel_cant_enforce_are_a_diagnostic(setting: str) -> None:
    node = Node(1)
    node.links.has_queues = False
    async with node.running():
        await node.config(MAIN + setting)
        (found,) = await node.state.list(kinds.DIAGNOSTIC)
        assert found.id == "network-policies"
        assert "the kernel has no NFT_QUEUE" in found.spec.message
        await node.config(MAIN)
        assert not await node.state.list(kinds.DIAGNOSTIC)
        node.links.has_queues = True
        await node.config(MAIN + setting)
        assert not await node.state.list(kinds.DIAGNOSTIC)


async def test_routes_of_the_config_have_one_priority_for_both_families() -> None:
    node = Node(1)
    async with node.running():
        await node.config(
            f"{MAIN}---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses:\n"
            "- address: 10.1.0.2/24\n- address: fd00::2/64\n"
            "routes:\n- gateway: 10.1.0.1\n- gateway: fd00::1\n"
            "---\napiVersion: v1alpha1\nkind: BlackholeRouteConfig\nname: fd01::/48\n"
            "---\napiVersion: v1alpha1\nkind: DHCPv6Config\nname: eth0\n"
        )
        routes = await node.state.list(kinds.ROUTE_SPEC)
        ours = enums_pb2.CONFIG_MACHINE_CONFIGURATION
        assert [route.spec.priority for route in routes if route.spec.config_layer == ours] == [1024] * 3
        (operator,) = await node.state.list(kinds.OPERATOR_SPEC)
        assert operator.spec.dhcp6.route_metric == 1024
