"""Instances of BGP in the machine config: what each becomes, and which can't be together."""

from ipaddress import ip_address

import pytest
from tests.unit.networkd.test_links import Node

from talos.api.definitions.network_pb2 import BGPInstanceConfigSpec
from talos.resource import kinds
from talos.resource.addresses import parse_ip

VRF = "---\napiVersion: v1alpha1\nkind: VRFConfig\nname: blue\ntable: 77\n"
NEIGHBORS = (
    "neighbors:\n- {address: 10.0.0.254, peerASN: 65000, holdTime: 30s, bfd: {transmitInterval: 300ms}}\n"
)


def instance(name: str, *lines: str) -> str:
    """A document of an instance."""
    head = f"---\napiVersion: v1alpha1\nkind: BGPInstanceConfig\nname: {name}\nlocalASN: 65001\n"
    return head + "".join(f"{line}\n" for line in lines)


async def read_instances(node: Node) -> dict[str, BGPInstanceConfigSpec]:
    """Those that bgpd gets."""
    return {one.id: one.spec for one in await node.state.list(kinds.BGP_INSTANCE_CONFIG)}


async def test_instances_follow_the_config() -> None:
    node = Node()
    async with node.running():
        await node.config(instance("fabric", "routerID: 10.0.0.1", "advertise: [lo]", NEIGHBORS))
        fabric = (await read_instances(node))["fabric"]
        assert (fabric.local_asn, parse_ip(fabric.router_id)) == (65001, ip_address("10.0.0.1"))
        assert (list(fabric.advertise_links), fabric.vrf_table) == (["lo"], 254)
        assert fabric.install_routes, "unless the config has it otherwise"
        [neighbor] = fabric.neighbors
        assert (parse_ip(neighbor.address), neighbor.peer_asn) == (ip_address("10.0.0.254"), 65000)
        assert (neighbor.hold_time.seconds, neighbor.bfd.transmit_interval.ToMilliseconds()) == (30, 300)
        await node.config(instance("other", "installRoutes: false"))
        (other,) = (await read_instances(node)).items()
        assert (other[0], other[1].install_routes) == ("other", False)
        await node.config("---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n")
        assert await read_instances(node) == {}


async def test_an_instance_of_a_vrf_has_its_table() -> None:
    node = Node()
    async with node.running():
        imports = "importRoutes: [{bgpInstance: fabric, prefixes: [10.1.2.3/16]}]"
        await node.config(instance("fabric") + instance("tenant", "vrf: blue", imports) + VRF)
        tenant = (await read_instances(node))["tenant"]
        assert (tenant.vrf, tenant.vrf_table) == ("blue", 77)
        [route] = tenant.import_routes
        assert (route.bgp_instance, list(route.prefixes[0].ip)) == ("fabric", [10, 1, 0, 0])


@pytest.mark.parametrize(
    "text",
    [
        instance("a") + instance("b"),
        instance("a", "vrf: red"),
        instance("a", "importRoutes: [{bgpInstance: z, prefixes: [10.0.0.0/8]}]"),
        instance("a", "importRoutes: [{bgpInstance: b, prefixes: [10.0.0.0/8]}]")
        + instance("b", "vrf: blue", "importRoutes: [{bgpInstance: a, prefixes: [10.0.0.0/8]}]")
        + VRF,
    ],
    ids=["one routing domain", "no VRF", "no source", "a circle"],
)
async def test_instances_that_cant_be_together_change_none(text: str) -> None:
    node = Node()
    async with node.running():
        await node.config(instance("fabric"))
        before = await read_instances(node)
        await node.config(text)
        assert await read_instances(node) == before
        await node.config(instance("later"))
        assert list(await read_instances(node)) == ["later"]
