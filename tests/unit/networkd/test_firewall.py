"""The ingress firewall: its chains, and what packets come through."""

import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from ipaddress import ip_interface

import pytest
import trio
import trio.testing
from tests.harness.namespace import run_in_namespace
from tests.harness.peer import DROPPED, OPEN, REFUSED, Peer

from talos.api.addresses import make_prefix
from talos.api.common.common_pb2 import NetIPPrefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import NfTablesAddressMatch, NfTablesRule, NodeAddressSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.config.contract import HOST_DNS_FOR_PODS
from talos.config.read.loader import load
from talos.networkd.controllers.firewall import TABLE, NfTablesChainConfigController, NfTablesChainController
from talos.networkd.firewall import make_ingress_chain, make_prerouting_chain
from talos.networkd.packet_filter import make_chain
from talos.process.run import Daemon
from talos.resource import ids, kinds
from talos.resource.changes import modify, put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.net.kernel_links import open_links
from talos.system.net.links import AddressState, Links
from talos.system.net.netlink import NETLINK_NETFILTER, Netlink
from talos.system.net.nft_expressions import queue
from talos.system.net.nftables import Chain, can_queue, has_table, replace_table

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


def show(rule: NfTablesRule) -> str:
    """A rule in few words, as `accept tcp 80 from 10.0.0.0/24`."""
    assert rule.anon_counter
    words = ["accept" if rule.verdict == enums_pb2.VERDICT_ACCEPT else "drop"]
    if rule.HasField("match_i_if_name"):
        assert rule.match_i_if_name.operator == enums_pb2.OPERATOR_EQUAL
        words += rule.match_i_if_name.interface_names
    states = rule.match_conntrack_state.states
    words += [enums_pb2.NethelpersConntrackState.Name(one).rpartition("_")[2].lower() for one in states]
    layer4 = rule.match_layer4
    if rule.HasField("match_layer4"):
        words.append(enums_pb2.NethelpersProtocol.Name(layer4.protocol).removeprefix("PROTOCOL_").lower())
    words += [f"{one.lo}-{one.hi}" for one in layer4.match_destination_port.ranges]
    words += map(str, layer4.match_icmp_type.types)
    if rule.HasField("match_limit"):
        words.append(f"{rule.match_limit.packet_rate_per_second}/s")
    if rule.HasField("match_source_address"):
        words += ["from", *show_addresses(rule.match_source_address)]
    if rule.HasField("match_destination_address"):
        words += ["to", *show_addresses(rule.match_destination_address)]
    return " ".join(words)


def show_addresses(match: NfTablesAddressMatch) -> Iterator[str]:
    if match.invert:
        yield "not"
    yield from map(show_prefix, match.include_subnets)
    if match.exclude_subnets:
        yield "but"
    yield from map(show_prefix, match.exclude_subnets)


def show_prefix(prefix: NetIPPrefix) -> str:
    return str(ip_interface((prefix.ip, prefix.prefix_length)))


TRUSTED = "accept lo siderolink kubespan"
INSIDE = "10.244.0.0/16 10.96.0.0/12"
BLOCKING = [
    "accept established related",
    "drop invalid",
    "drop icmp 13 14 17 18",
    "accept icm_pv6 133 134 135 136",
    "accept icmp 5/s",
    "accept icm_pv6 5/s",
]
OWN = [ip_interface("10.0.0.1/24"), ip_interface("fd00:1::1/64")]
FOREIGN = "accept to not 10.0.0.1/32 fd00:1::1/128"
RESOLVER = MAIN.replace(
    "\n  type: worker",
    " {features: {hostDNS: {enabled: true, forwardKubeDNSToHost: true}}, type: worker}",
)
TO_RESOLVER = f"53-53 from {INSIDE} to {' '.join(str(ip_interface(one)) for one in HOST_DNS_FOR_PODS)}"

CHAINS: dict[str, tuple[str, list[str], list[str]]] = {
    "ports of one network but for one host": (
        MAIN + BLOCK + rule("api", "[50000, 6443-6444]", "[{subnet: 10.0.0.0/24, except: 10.0.0.5/32}]"),
        [
            *BLOCKING,
            f"accept from {INSIDE} to {INSIDE}",
            "accept tcp 6443-6444 50000-50000 from 10.0.0.0/24 but 10.0.0.5/32",
        ],
        [
            "accept new tcp 6443-6444 50000-50000 from 10.0.0.0/24 but 10.0.0.5/32",
            "drop new tcp",
            "drop new udp",
        ],
    ),
    "all are accepted but for some ports": (
        MAIN + rule("api", "[80]", "[{subnet: 10.0.0.0/24}, {subnet: 'fd00::/8'}]", "udp"),
        ["drop udp 80-80 from not 10.0.0.0/24 fd00::/8"],
        ["drop new udp 80-80 from not 10.0.0.0/24 fd00::/8"],
    ),
    "no ports, no protocol, no senders": (
        MAIN + BLOCK + "---\napiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: all\n",
        [*BLOCKING, f"accept from {INSIDE} to {INSIDE}", "accept tcp from"],
        ["accept new tcp from", "drop new tcp", "drop new udp"],
    ),
    "only pods and services reach the resolver for pods": (
        RESOLVER + BLOCK,
        [
            *BLOCKING,
            f"accept udp {TO_RESOLVER}",
            f"accept tcp {TO_RESOLVER}",
            f"accept from {INSIDE} to {INSIDE}",
        ],
        ["drop new tcp", "drop new udp"],
    ),
    "other protocols": (
        MAIN
        + rule("a", "[]", "[{subnet: 10.0.0.0/24}]", "icmp")
        + rule("b", "[]", "[{subnet: 'fd00::/8'}]", "icmpv6"),
        ["drop icmp from not 10.0.0.0/24", "drop icm_pv6 from not fd00::/8"],
        ["drop new icmp from not 10.0.0.0/24", "drop new icm_pv6 from not fd00::/8"],
    ),
    "a machine of no cluster": (
        "version: v1alpha1\nmachine: {type: worker}\n" + BLOCK,
        BLOCKING,
        ["drop new tcp", "drop new udp"],
    ),
    "a resolver that is not for pods": (
        RESOLVER.replace("forwardKubeDNSToHost: true", "forwardKubeDNSToHost: false") + BLOCK,
        [*BLOCKING, f"accept from {INSIDE} to {INSIDE}"],
        ["drop new tcp", "drop new udp"],
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_those_of_the_definition(name: str) -> None:
    text, ingress, prerouting = CHAINS[name]
    config = load(text)
    chain, before = make_ingress_chain(config), make_prerouting_chain(config, OWN)
    policy = 0 if BLOCK in text else 1
    assert (chain.type, chain.hook, chain.priority, chain.policy) == ("filter", 1, -140, policy)
    assert (before.type, before.hook, before.priority, before.policy) == ("filter", 0, -110, 1)
    assert [show(one) for one in chain.rules] == [TRUSTED, *ingress]
    assert [show(one) for one in before.rules] == [TRUSTED, FOREIGN, *prerouting]


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


async def try_queues(daemon: Daemon) -> None:
    del daemon
    chain = Chain(name="c", type="filter", hook=1, priority=0, policy=1, rules=((queue(0),),))
    found = can_queue()
    with Netlink(NETLINK_NETFILTER) as netlink:
        assert count_rules(netlink) == 0
        if found:
            replace_table("t", [chain])
        else:
            with pytest.raises(OSError, match="No such file"):
                replace_table("t", [chain])
        assert count_rules(netlink) == found


@pytest.mark.root
def test_whether_the_kernel_has_queues_is_found_without_a_trace() -> None:
    run_in_namespace(try_queues)
