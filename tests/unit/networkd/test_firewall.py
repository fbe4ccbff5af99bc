"""The ingress firewall: its chains, and what packets come through."""

import socket
from collections.abc import Generator
from contextlib import contextmanager
from ipaddress import ip_interface, ip_network

import pytest
import trio
import trio.testing
from tests.harness.namespace import run_in_namespace
from tests.harness.peer import DROPPED, OPEN, REFUSED, Peer

from talos.api.addresses import make_prefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import NodeAddressSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.config.contract import HOST_DNS_FOR_PODS
from talos.config.read.loader import load
from talos.networkd.controllers.firewall import TABLE, NfTablesChainConfigController, NfTablesChainController
from talos.networkd.firewall import make_ingress_chain, make_prerouting_chain
from talos.networkd.packet_filter import find_ranges, make_chain
from talos.process.run import Daemon
from talos.resource import ids, kinds
from talos.resource.changes import modify, put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.net import nft_expressions
from talos.system.net.kernel_links import open_links
from talos.system.net.links import AddressState, Links
from talos.system.net.netlink import NETLINK_NETFILTER, Netlink
from talos.system.net.nftables import has_table, replace_table

MAIN = "version: v1alpha1\nmachine:\n  type: worker\ncluster: {network: {podSubnets: [10.244.0.0/16]}}\n"
BLOCK = "---\napiVersion: v1alpha1\nkind: NetworkDefaultActionConfig\ningress: block\n"


def rule(name: str, ports: str, subnets: str, protocol: str = "tcp") -> str:
    return f"""---
apiVersion: v1alpha1
kind: NetworkRuleConfig
name: {name}
portSelector: {{ports: {ports}, protocol: {protocol}}}
ingress: {subnets}
"""


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["10.0.0.0/8"], [], ["10.0.0.0-10.255.255.255"]),
        (["10.0.0.0/9", "10.128.0.0/9"], [], ["10.0.0.0-10.255.255.255"]),
        (["10.0.0.0/8"], ["10.0.0.0/9"], ["10.128.0.0-10.255.255.255"]),
        (["10.0.0.0/24"], ["10.0.0.5/32"], ["10.0.0.0-10.0.0.4", "10.0.0.6-10.0.0.255"]),
        (["10.0.0.0/24", "10.0.2.0/24"], ["10.0.0.0/16"], []),
        (["fd00::/64"], [], []),
        (["0.0.0.0/0"], ["0.0.0.0/1"], ["128.0.0.0-255.255.255.255"]),
    ],
)
def test_subnets_as_ranges(include: list[str], exclude: list[str], expected: list[str]) -> None:
    prefixes = [[make_prefix(ip_network(text)) for text in texts] for texts in (include, exclude)]
    found = find_ranges(prefixes[0], prefixes[1], 2)
    texts = ["-".join(socket.inet_ntoa(number.to_bytes(4)) for number in bounds) for bounds in found]
    assert texts == expected


def test_chains_are_those_of_the_definition() -> None:
    config = load(MAIN + BLOCK + rule("api", "[50000, 6443-6444]", "[{subnet: 10.0.0.0/24}]"))
    chain = make_ingress_chain(config)
    assert (chain.type, int(chain.hook), int(chain.priority), int(chain.policy)) == ("filter", 1, -140, 0)
    assert list(chain.rules[0].match_i_if_name.interface_names) == ["lo", "siderolink", "kubespan"]
    limits = [item.match_limit.packet_rate_per_second for item in chain.rules]
    assert [limit for limit in limits if limit] == [5, 5]
    kinds = [list(map(int, item.match_layer4.match_icmp_type.types)) for item in chain.rules]
    found = kinds.index([133, 134, 135, 136])
    assert found < limits.index(5), "a flood of pings does not keep neighbours from being found"
    hop_limit = nft_expressions.match_hop_limit(255)
    assert set(hop_limit) <= set(make_chain("ingress", chain).rules[found])
    ranges = chain.rules[-1].match_layer4.match_destination_port.ranges
    assert [(item.lo, item.hi) for item in ranges] == [(6443, 6444), (50000, 50000)]
    before = make_prerouting_chain(config, [ip_interface("10.0.0.1/24")])
    assert (int(before.hook), int(before.priority), int(before.policy)) == (0, -110, 1)
    assert before.rules[1].match_destination_address.include_subnets[0].prefix_length == 32
    assert len(before.rules) == 5


@pytest.mark.parametrize("default", ["block", "accept"])
def test_new_connections_to_this_node_are_filtered_before_they_are_redirected(default: str) -> None:
    config = load(
        MAIN + (BLOCK if default == "block" else "") + rule("api", "[80]", "[{subnet: 10.0.0.0/24}]")
    )
    chain = make_prerouting_chain(config, [ip_interface("10.0.0.1/24")])
    _, foreign, configured, *others = chain.rules
    assert (foreign.verdict, foreign.match_destination_address.invert) == (enums_pb2.VERDICT_ACCEPT, True)
    is_new = [[enums_pb2.CONNTRACK_STATE_NEW]]
    assert [list(one.match_conntrack_state.states) for one in (configured, *others)] == is_new * (
        1 + len(others)
    )
    if default == "accept":
        assert (configured.verdict, configured.match_source_address.invert) == (enums_pb2.VERDICT_DROP, True)
        assert not others
        return
    assert (configured.verdict, configured.match_source_address.invert) == (enums_pb2.VERDICT_ACCEPT, False)
    dropped = [
        (enums_pb2.VERDICT_DROP, enums_pb2.PROTOCOL_TCP),
        (enums_pb2.VERDICT_DROP, enums_pb2.PROTOCOL_UDP),
    ]
    assert [(one.verdict, one.match_layer4.protocol) for one in others] == dropped


def test_pods_and_services_reach_each_other() -> None:
    inside = [make_prefix(ip_network(text)) for text in ("10.244.0.0/16", "10.96.0.0/12")]
    found = [
        one
        for one in make_ingress_chain(load(MAIN + BLOCK)).rules
        if list(one.match_source_address.include_subnets) == inside
    ]
    assert [(one.verdict, list(one.match_destination_address.include_subnets)) for one in found] == [
        (enums_pb2.VERDICT_ACCEPT, inside)
    ]


def test_only_pods_reach_the_resolver_for_pods() -> None:
    features = "{features: {hostDNS: {enabled: true, forwardKubeDNSToHost: true}}, type: worker}"
    chain = make_ingress_chain(load(MAIN.replace("\n  type: worker", f" {features}") + BLOCK))
    found = [
        (one.match_source_address.include_subnets, one.match_destination_address.include_subnets)
        for one in chain.rules
        if [(item.lo, item.hi) for item in one.match_layer4.match_destination_port.ranges] == [(53, 53)]
    ]
    pods = make_prefix(ip_network("10.244.0.0/16"))
    resolvers = [make_prefix(ip_network(address)) for address in HOST_DNS_FOR_PODS]
    assert [(pods in senders, list(receivers)) for senders, receivers in found] == [(True, resolvers)] * 2


@contextmanager
def listeners(*ports: int) -> Generator[None]:
    """TCP servers on all addresses, that accept by themselves."""
    sockets: list[socket.socket] = []
    for port in ports:
        server = socket.socket(socket.AF_INET6)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("::", port))
        server.listen(100)
        sockets.append(server)
    try:
        yield
    finally:
        for server in sockets:
            server.close()


NEAR, FAR, OTHER = "10.0.0.1", "10.0.0.2", "10.0.0.99"
NEAR6 = "fd00:1::1"

CASES: dict[str, tuple[str, list[tuple[str, int, str, str]]]] = {
    "nothing is filtered": ("", [(NEAR, 50000, FAR, OPEN), (NEAR, 1, FAR, REFUSED), (NEAR6, 80, "", OPEN)]),
    "all is blocked": (
        BLOCK,
        [(NEAR, 50000, FAR, DROPPED), (NEAR, 1, FAR, DROPPED), (NEAR6, 80, "", DROPPED)],
    ),
    "one port for one network but for one host": (
        BLOCK + rule("api", "[50000]", f"[{{subnet: 10.0.0.0/24, except: {OTHER}/32}}]"),
        [
            (NEAR, 50000, FAR, OPEN),
            (NEAR, 50000, OTHER, DROPPED),
            (NEAR, 80, FAR, DROPPED),
            (NEAR6, 50000, "", DROPPED),
        ],
    ),
    "ranges of ports for IPv6": (
        BLOCK + rule("web", "[1-79, 80-90]", '[{subnet: "fd00:1::/64"}]'),
        [
            (NEAR6, 80, "", OPEN),
            (NEAR6, 1, "", REFUSED),
            (NEAR6, 50000, "", DROPPED),
            (NEAR, 80, FAR, DROPPED),
        ],
    ),
    "a rule where the default accepts drops the others": (
        rule("api", "[50000]", f"[{{subnet: {OTHER}/32}}]"),
        [
            (NEAR, 50000, FAR, DROPPED),
            (NEAR, 50000, OTHER, OPEN),
            (NEAR, 80, FAR, OPEN),
            (NEAR6, 50000, "", DROPPED),
        ],
    ),
}


async def add_near(links: Links) -> None:

    index = {link.name: link.index for link in await links.links()}
    for text in (f"{NEAR}/24", f"{NEAR6}/64"):
        await links.add_address(AddressState(link_index=index["near"], address=ip_interface(text), flags=2))
    for name in ("near", "lo"):
        await links.set_link(index[name], up=True)


async def send_packets(daemon: Daemon) -> None:
    peer, state, lines = Peer(), MemoryState(), list[str]()
    own = NodeAddressSpec(
        addresses=[make_prefix(ip_interface(text)) for text in (f"{NEAR}/24", f"{NEAR6}/64")]
    )
    await put(state, *ids.NODE_ADDRESS_ROUTED, own)
    async with open_links() as links, trio.open_nursery() as nursery:
        await peer.plug("near", "far", [f"{FAR}/24", f"{OTHER}/24", "fd00:1::2/64"])
        await add_near(links)
        log = Log(write=lines.append)
        controllers = [NfTablesChainConfigController(), NfTablesChainController(links, log)]
        await nursery.start(run_controllers, state, controllers)
        with listeners(50000, 80):
            for name, (documents, attempts) in CASES.items():
                await apply(state, lines, documents)
                for host, port, source, expected in attempts:
                    found = await trio.to_thread.run_sync(lambda: peer.connect(host, port, source=source))  # noqa: B023
                    assert found == expected, (
                        f"{name}: port {port} of {host} from {source} is {found}\n{lines}"
                    )
            await apply(state, lines, BLOCK)
            await check_icmp_and_connections(peer, state, lines)
            await check_damages(lines)
        nursery.cancel_scope.cancel()
    peer.close()


async def apply(state: MemoryState, lines: list[str], documents: str) -> None:
    """Set a config, and wait until the controllers log that it is set, and rest."""
    spec = MachineConfigSpec(yaml_marshalled=(MAIN + documents).encode())
    lines.clear()
    await modify(state, *ids.MACHINE_CONFIG, lambda old: old.CopyFrom(spec))
    while True:
        await trio.testing.wait_all_tasks_blocked(0.1)
        chains = [make_chain(chain.id, chain.spec) for chain in await state.list(kinds.NF_TABLES_CHAIN)]
        if bool(chains) == has_table(TABLE) == bool(documents):
            names = ", ".join(f"{chain.name} ({len(chain.rules)} rules)" for chain in chains)
            found = find_changes(lines)
            if not chains or (found and f'"firewall: {names}"' in found[-1]):
                return


def find_changes(lines: list[str]) -> list[str]:
    """The lines of the log with the chains that are set."""
    return [line for line in lines if '"firewall: ' in line]


async def check_icmp_and_connections(peer: Peer, state: MemoryState, lines: list[str]) -> None:
    began = trio.current_time()
    answers = await trio.to_thread.run_sync(lambda: peer.ping(NEAR, count=50))
    maximum = 10 + 5 * (trio.current_time() - began)
    assert 1 <= answers <= maximum, f"{answers} of 50 pings at once are answered"
    assert await trio.to_thread.run_sync(lambda: peer.ping(NEAR, kind=13)) == 0, "the clock is revealed"
    answers = await trio.to_thread.run_sync(lambda: peer.solicit(NEAR6, count=50))
    assert answers == 50, f"{answers} of 50 neighbours that solicit at once are answered"
    assert await trio.to_thread.run_sync(lambda: peer.solicit(NEAR6, hop_limit=254)) == 0

    def connect() -> socket.socket:
        return socket.create_connection((NEAR, 50000), timeout=2)

    await apply(state, lines, "")
    connection = await trio.to_thread.run_sync(lambda: peer.run(connect))
    await apply(state, lines, BLOCK)
    peer.run(connection.sendall, b"still here")
    peer.run(connection.shutdown, socket.SHUT_WR)
    assert await trio.to_thread.run_sync(lambda: peer.connect(NEAR, 50000)) == DROPPED
    peer.run(connection.close)


async def check_damages(lines: list[str]) -> None:
    """What another program removes is set again, once."""
    lines.clear()
    replace_table(TABLE, [])
    while not has_table(TABLE) or not find_changes(lines):
        await trio.testing.wait_all_tasks_blocked(0.1)
    await trio.testing.wait_all_tasks_blocked(0.1)
    assert len(find_changes(lines)) == 1, lines


@pytest.mark.root
def test_packets() -> None:
    run_in_namespace(send_packets)


async def refuse_half(daemon: Daemon) -> None:
    del daemon
    chain = make_chain("ingress", make_ingress_chain(load(MAIN + BLOCK)))
    replace_table("t", [chain])
    with Netlink(NETLINK_NETFILTER) as netlink:
        before = count_rules(netlink)
        with pytest.raises(OSError, match="range"):
            replace_table("t", [chain, make_chain("x" * 500, make_ingress_chain(load(MAIN)))])
        assert count_rules(netlink) == before > 5


def count_rules(netlink: Netlink) -> int:
    return len(netlink.request(10 << 8 | 7, bytes((1, 0, 0, 0)), flags=0x300))


@pytest.mark.root
def test_a_transaction_that_is_refused_changes_nothing() -> None:
    run_in_namespace(refuse_half)
