"""From affiliates to peers, and from where peers were seen to what is published of them."""

from ipaddress import ip_address, ip_interface, ip_network

import trio.testing
from tests.unit.machined.controllers.running import running

from talos.api.addresses import make_host_prefix, make_ip, make_prefix
from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.api.definitions.cluster_pb2 import IdentitySpec as NodeIdentitySpec
from talos.api.definitions.kubespan_pb2 import ConfigSpec, IdentitySpec, PeerStatusSpec
from talos.api.definitions.network_pb2 import NodeAddressSpec
from talos.clusterd.controllers.kubespan import KubeSpanEndpointController, KubeSpanPeerSpecController
from talos.pki.wireguard import make_private_key, make_public_key
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

OWN_KEY, KEY, OTHER_KEY = (make_public_key(make_private_key()) for _ in range(3))
ULA = "fd7f:175a:b97c:5602::"


def affiliate(name: str, key: str, *addresses: str) -> AffiliateSpec:
    spec = AffiliateSpec(
        node_id=name, nodename=name, addresses=[make_ip(ip_address(text)) for text in addresses]
    )
    spec.kube_span.public_key = key
    spec.kube_span.address.CopyFrom(make_ip(ip_address(f"{ULA}2")))
    return spec


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked(0.02)


async def test_peers_have_nothing_of_this_nodes() -> None:
    state, lines = MemoryState(), list[str]()
    identity = IdentitySpec(
        public_key=OWN_KEY,
        address=make_host_prefix(ip_address(f"{ULA}1")),
        subnet=make_prefix(ip_network(f"{ULA}/64")),
    )
    own = affiliate("own", OWN_KEY)
    own.kube_span.additional_addresses.append(make_prefix(ip_network("10.244.7.0/24")))
    other = affiliate("other", KEY, "10.5.0.2", "10.5.0.3")
    other.kube_span.additional_addresses.append(make_prefix(ip_network("10.244.6.0/23")))
    async with running(state, KubeSpanPeerSpecController(Log(write=lines.append))):
        await put(state, *ids.KUBE_SPAN_CONFIG, ConfigSpec(enabled=True), owner="test")
        await put(state, *ids.IDENTITY, NodeIdentitySpec(node_id="own"), owner="test")
        for one in (own, other, affiliate("twin", OWN_KEY)):
            await put(state, kinds.AFFILIATE, one.node_id, one, owner="test")
        await settle()
        assert await state.list(kinds.KUBE_SPAN_PEER_SPEC) == [], "the node has no keys yet"
        await put(state, *ids.KUBE_SPAN_IDENTITY, identity, owner="test")
        here = NodeAddressSpec(addresses=[make_prefix(ip_interface("10.5.0.2/24"))])
        await put(state, *ids.NODE_ADDRESS_CURRENT, here, owner="test")
        await settle()
        [peer] = await state.list(kinds.KUBE_SPAN_PEER_SPEC)
        found = [str(ip_network((one.ip, one.prefix_length))) for one in peer.spec.allowed_ips]
        assert (peer.id, found) == (KEY, ["10.5.0.3/32", "10.244.6.0/24", f"{ULA}2/128"])
        assert any("twin is no peer of KubeSpan: it has this node's key" in line for line in lines)


async def test_a_newcomer_takes_nothing_of_a_peer_that_is_up() -> None:
    state, log = MemoryState(), Log(write=lambda _: None)
    identity = IdentitySpec(
        public_key=OWN_KEY,
        address=make_host_prefix(ip_address(f"{ULA}1")),
        subnet=make_prefix(ip_network(f"{ULA}/64")),
    )
    up = PeerStatusSpec(
        state=enums.PEER_STATE_UP, endpoint=NetIPPort(ip=ip_address("192.0.2.7").packed, port=7)
    )

    async def owned(key: str) -> list[str]:
        await settle()
        spec = (await state.get(kinds.KUBE_SPAN_PEER_SPEC, key)).spec
        return [str(ip_network((one.ip, one.prefix_length))) for one in spec.allowed_ips]

    async with running(state, KubeSpanPeerSpecController(log)):
        await put(state, *ids.KUBE_SPAN_CONFIG, ConfigSpec(enabled=True), owner="test")
        await put(state, *ids.IDENTITY, NodeIdentitySpec(node_id="own"), owner="test")
        await put(state, *ids.KUBE_SPAN_IDENTITY, identity, owner="test")
        await put(state, kinds.AFFILIATE, "m", affiliate("m", KEY, "10.5.0.2"), owner="test")
        await settle()
        await put(state, kinds.KUBE_SPAN_PEER_STATUS, KEY, up, owner="test")
        await put(state, kinds.AFFILIATE, "a", affiliate("a", OTHER_KEY, "10.5.0.2"), owner="test")
        await put(state, kinds.AFFILIATE, "b", affiliate("b", KEY, "10.5.0.9"), owner="test")
        assert await owned(KEY) == ["10.5.0.2/32", f"{ULA}2/128"]
        assert await owned(OTHER_KEY) == []
    async with running(state, KubeSpanPeerSpecController(log)):
        assert await owned(KEY) == ["10.5.0.2/32", f"{ULA}2/128"], "another process has nothing but the State"
        up.state = enums.PEER_STATE_DOWN
        await put(state, kinds.KUBE_SPAN_PEER_STATUS, KEY, up, owner="test")
        assert await owned(OTHER_KEY) == ["10.5.0.2/32", f"{ULA}2/128"]


async def test_where_a_peer_was_seen_is_published_of_the_peer_alone() -> None:
    state = MemoryState()
    status = PeerStatusSpec(
        state=enums.PEER_STATE_UP, endpoint=NetIPPort(ip=ip_address("192.0.2.7").packed, port=7)
    )
    async with running(state, KubeSpanEndpointController()):
        config = ConfigSpec(enabled=True, harvest_extra_endpoints=True)
        await put(state, *ids.KUBE_SPAN_CONFIG, config, owner="test")
        for one in (affiliate("a", KEY), affiliate("b", KEY)):
            await put(state, kinds.AFFILIATE, one.node_id, one, owner="test")
        await put(state, kinds.KUBE_SPAN_PEER_STATUS, KEY, status, owner="test")
        await settle()
        [found] = await state.list(kinds.KUBE_SPAN_ENDPOINT)
        assert (found.spec.affiliate_id, found.spec.endpoint) == ("a", status.endpoint)
        status.endpoint.ip = ip_address(f"{ULA}2").packed
        await put(state, kinds.KUBE_SPAN_PEER_STATUS, KEY, status, owner="test")
        await settle()
        assert await state.list(kinds.KUBE_SPAN_ENDPOINT) == [], "it leads through the tunnel"
