"""KubeSpan from its config to the kernel's twin: link, routes, rules, chains, and back to nothing."""

from base64 import b64encode
from collections.abc import Iterable
from ipaddress import ip_address, ip_interface, ip_network

import trio
import trio.testing
from tests.unit.networkd.test_links import Node
from trio.testing import MockClock

from talos.api.addresses import make_ip, make_prefix
from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.kubespan_pb2 import ConfigSpec, IdentitySpec, PeerSpecSpec
from talos.api.definitions.network_pb2 import NfTablesChainSpec
from talos.networkd.controllers.firewall import NfTablesChainController
from talos.networkd.controllers.kubespan import INTERVAL, KubeSpanManagerController
from talos.networkd.controllers.link_spec import LinkSpecController
from talos.networkd.controllers.merge import make_merge_controllers
from talos.networkd.kubespan.specs import make_chains
from talos.networkd.packet_filter import make_chain
from talos.pki.wireguard import make_private_key, make_public_key
from talos.resource import ids, kinds
from talos.resource.changes import destroy_if_present, put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.net.links import RTPROT_STATIC
from talos.testing.links import MemoryLinks

PRIVATE, PEER = make_private_key(), make_public_key(make_private_key())
SECRET = b64encode(bytes(range(32))).decode()
ADDRESS = "fd7f:175a:b97c:5602:2c1a:b6ff:fe53:8169"


def config(*, force: bool = True) -> ConfigSpec:
    return ConfigSpec(enabled=True, force_routing=force, mtu=1420, shared_secret=SECRET)


def identity() -> IdentitySpec:
    return IdentitySpec(
        address=make_prefix(ip_interface(f"{ADDRESS}/128")),
        private_key=PRIVATE,
        public_key=make_public_key(PRIVATE),
    )


def peer(*networks: str) -> PeerSpecSpec:
    own = "fd7f:175a:b97c:5602::2"
    return PeerSpecSpec(
        address=make_ip(ip_address(own)),
        allowed_ips=[make_prefix(ip_network(text)) for text in (*networks, f"{own}/128")],
        endpoints=[NetIPPort(ip=ip_address("192.0.2.7").packed, port=51820)],
        label="two",
    )


def targets(chain: NfTablesChainSpec) -> list[str]:
    """What a chain marks."""
    [found] = [rule.match_destination_address for rule in chain.rules if rule.HasField("set_mark")]
    return [str(ip_network((item.ip, item.prefix_length))) for item in found.include_subnets]


async def test_the_link_its_routes_and_chains_come_and_go() -> None:
    node = Node()
    async with node.running():
        await put(node.state, *ids.KUBE_SPAN_CONFIG, config(), owner="test")
        await put(node.state, *ids.KUBE_SPAN_IDENTITY, identity(), owner="test")
        await put(node.state, kinds.KUBE_SPAN_PEER_SPEC, PEER, peer("10.5.0.3/32"), owner="test")
        await trio.testing.wait_all_tasks_blocked(0.1)
        link = await node.link("kubespan")
        assert link is not None
        assert (link.kind, link.mtu, link.is_up) == ("wireguard", 1420, True)
        tunnel = await node.links.wireguard("kubespan")
        assert (tunnel.listen_port, tunnel.mark) == (51820, 0x20)
        [found] = tunnel.peers
        assert (found.public_key, found.preshared_key, found.keepalive) == (PEER, SECRET, 25)
        assert found.endpoint == (ip_address("192.0.2.7"), 51820)
        assert {str(one) for one in found.networks} == {"10.5.0.3/32", "fd7f:175a:b97c:5602::2/128"}
        assert f"kubespan {ADDRESS}/64" in await node.addresses()
        routes = [route for route in await node.links.routes() if route.table == 180]
        assert {(route.family, route.priority, route.mtu, route.destination) for route in routes} == {
            (2, 1, 1420, None),
            (10, 1, 1420, None),
        }
        rules = [rule for rule in await node.links.rules() if rule.protocol == RTPROT_STATIC]
        assert {(rule.family, rule.priority, rule.table, rule.mark, rule.mask) for rule in rules} == {
            (2, 32500, 180, 0x40, 0x60),
            (10, 32500, 180, 0x40, 0x60),
        }
        assert [chain.name for chain in node.links.filters["talos"]] == [
            "kubespan_outgoing",
            "kubespan_prerouting",
        ]
        status = (await node.state.get(kinds.KUBE_SPAN_PEER_STATUS, PEER)).spec
        assert (status.label, status.state) == ("two", enums.PEER_STATE_UNKNOWN)

        await put(node.state, *ids.KUBE_SPAN_CONFIG, ConfigSpec(mtu=1420), owner="test")
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert await node.link("kubespan") is None
        assert not [route for route in await node.links.routes() if route.table == 180]
        assert [rule for rule in await node.links.rules() if rule.protocol == RTPROT_STATIC] == []
        assert node.links.filters["talos"] == ()
        assert await node.state.list(kinds.KUBE_SPAN_PEER_STATUS) == []


async def test_while_it_is_off_it_waits_for_nothing_but_a_config() -> None:
    state = MemoryState()
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, [KubeSpanManagerController(MemoryLinks([]))])
        await put(state, *ids.KUBE_SPAN_CONFIG, ConfigSpec(mtu=1420), owner="test")
        await put(state, *ids.KUBE_SPAN_IDENTITY, identity(), owner="test")
        await trio.testing.wait_all_tasks_blocked(0.01)
        # There is the limit of the test, which is longer.
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline > INTERVAL
        await put(state, *ids.KUBE_SPAN_CONFIG, config(), owner="test")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline <= INTERVAL
        nursery.cancel_scope.cancel()


async def test_endpoints_take_turns_in_the_kernel(autojump_clock: MockClock) -> None:
    del autojump_clock
    state, links, spec = MemoryState(), MemoryLinks([]), peer()
    spec.endpoints.add(ip=ip_address("192.0.2.8").packed, port=51820)
    begin = trio.current_time()
    controllers = [
        *make_merge_controllers(),
        LinkSpecController(links, Log()),
        KubeSpanManagerController(links, lambda: 1_700_000_000 + trio.current_time() - begin),
    ]
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, controllers)
        await put(state, *ids.KUBE_SPAN_CONFIG, config(), owner="test")
        await put(state, *ids.KUBE_SPAN_IDENTITY, identity(), owner="test")
        await put(state, kinds.KUBE_SPAN_PEER_SPEC, PEER, spec, owner="test")
        for expected in ("192.0.2.7", "192.0.2.8", "192.0.2.7"):
            await trio.sleep(5)
            [found] = (await links.wireguard("kubespan")).peers
            assert found.endpoint == (ip_address(expected), 51820)
            await trio.sleep(INTERVAL - 5)
        await destroy_if_present(state, kinds.KUBE_SPAN_PEER_SPEC, PEER, owner="test")
        await trio.sleep(5)
        assert (await links.wireguard("kubespan")).peers == ()
        assert await state.list(kinds.KUBE_SPAN_PEER_STATUS) == []
        nursery.cancel_scope.cancel()


async def test_at_rest_nothing_is_set_and_no_spec_is_written(autojump_clock: MockClock) -> None:
    del autojump_clock
    state, links = MemoryState(), MemoryLinks([])
    begin = trio.current_time()
    controllers = [
        *make_merge_controllers(),
        LinkSpecController(links, Log()),
        NfTablesChainController(links, Log()),
        KubeSpanManagerController(links, lambda: 1_700_000_000 + trio.current_time() - begin),
    ]
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, controllers)
        await put(state, *ids.KUBE_SPAN_CONFIG, config(), owner="test")
        await put(state, *ids.KUBE_SPAN_IDENTITY, identity(), owner="test")
        await put(state, kinds.KUBE_SPAN_PEER_SPEC, PEER, peer(), owner="test")
        await trio.sleep(2 * INTERVAL)
        assert links.changes
        links.changes.clear()
        read = kinds.LINK_SPEC, kinds.NF_TABLES_CHAIN, kinds.KUBE_SPAN_PEER_STATUS
        before = [await state.list(kind) for kind in read]
        await trio.sleep(10 * INTERVAL)
        assert links.changes == []
        assert [await state.list(kind) for kind in read] == before
        nursery.cancel_scope.cancel()


def all_rules(chains: Iterable[tuple[str, NfTablesChainSpec]]) -> int:
    return sum(len(make_chain(name, chain).rules) for name, chain in chains)


def test_chains_mark_what_is_for_peers_and_nothing_without_them() -> None:
    chains = make_chains(config(), [peer("10.5.0.3/32", "2001:db8::/64"), peer("10.244.1.0/24")])
    assert {name: chain.type for name, chain in chains.items()} == {
        "kubespan_prerouting": "filter",
        "kubespan_outgoing": "route",
    }
    for chain in chains.values():
        assert targets(chain) == ["10.5.0.3/32", "10.244.1.0/24", "2001:db8::/64"]
        tunnelled = chain.rules[0].match_mark
        assert (tunnelled.mask, tunnelled.xor, tunnelled.value) == (0x60, 0, 0x20)
        mark = chain.rules[-1].set_mark
        assert (mark.mask, mark.xor) == (0xFFFFFF9F, 0x40)
    outgoing = chains["kubespan_outgoing"]
    assert list(outgoing.rules[1].match_o_if_name.interface_names) == ["lo"]
    assert outgoing.rules[2].clamp_mss.mtu == 1420
    assert all_rules(chains.items()) == 1 + 2 + 2 + 2 + 2, "each with addresses once for IPv4 and for IPv6"
    assert all_rules(make_chains(config(), []).items()) == 3
