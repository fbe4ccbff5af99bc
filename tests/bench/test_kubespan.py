"""What KubeSpan costs a node with its peers: time until all are set, processor time at rest, memory.

The controllers of clusterd and networkd are the real ones, in one process and on one State without sockets,
and so are their messages to WireGuard; the kernel's side of these is played, with peers that answer. The
clock at rest is virtual.
"""

import errno
import os
import time
from base64 import b64encode
from collections import Counter
from ipaddress import ip_address, ip_interface, ip_network
from typing import override

import pytest
import trio
import trio.testing
from google.protobuf.message import Message
from tests.bench.report import Table
from tests.bench.wireguard_kernel import WireguardKernel
from tests.harness.credentials import resident
from trio.testing import MockClock

from talos.api.addresses import make_host_prefix, make_ip, make_prefix
from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.api.definitions.cluster_pb2 import IdentitySpec as NodeIdentitySpec
from talos.api.definitions.kubespan_pb2 import ConfigSpec, IdentitySpec
from talos.clusterd.controllers.kubespan import KubeSpanEndpointController, KubeSpanPeerSpecController
from talos.clusterd.controllers.members import RAW_NAMESPACE, AffiliateMergeController, MemberController
from talos.networkd.controllers.address_spec import AddressSpecController
from talos.networkd.controllers.firewall import NfTablesChainController
from talos.networkd.controllers.kernel_status import make_kernel_status_controllers
from talos.networkd.controllers.kubespan import KubeSpanManagerController
from talos.networkd.controllers.link_spec import LinkSpecController
from talos.networkd.controllers.link_status import LinkStatusController
from talos.networkd.controllers.merge import make_merge_controllers
from talos.networkd.controllers.node_address import NodeAddressController
from talos.networkd.controllers.route_spec import RouteSpecController
from talos.networkd.controllers.rule_spec import RoutingRuleSpecController
from talos.pki.wireguard import make_private_key, make_public_key
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.resource import Phase, Resource
from talos.system.logging import Log
from talos.system.net import wireguard
from talos.system.net.links import ARPHRD_LOOPBACK, LinkError, LinkState
from talos.system.net.wireguard import WireguardChange, WireguardState
from talos.testing.links import MemoryLinks

SIZES = [int(size) for size in os.environ.get("BENCH_PEERS", "0,10,50").split(",")]
REST = 1800
"""Seconds of the virtual clock over which a node is watched at rest."""
LIMIT = 2 * REST
"""Seconds of the same clock for all of it."""
EPOCH = 1_700_000_000
ULA = "fd7f:175a:b97c:5602::"
SECRET = b64encode(bytes(range(32))).decode()
CONFIG = ConfigSpec(
    enabled=True, force_routing=True, harvest_extra_endpoints=True, mtu=1420, shared_secret=SECRET
)


class CountingState(MemoryState):
    """Counts what is written, by its type."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = Counter[str]()

    @override
    async def update[S: Message](
        self, resource: Resource[S], *, owner: str = "", expected_phase: Phase | None = Phase.RUNNING
    ) -> Resource[S]:
        self.writes[resource.metadata.type] += 1
        return await super().update(resource, owner=owner, expected_phase=expected_phase)


class TunnelLinks(MemoryLinks):
    """Links in memory, but those of WireGuard as the kernel's messages have them."""

    @override
    async def wireguard(self, name: str) -> WireguardState:
        if not any(link.name == name for link in await self.links()):
            raise LinkError(errno.ENODEV, name)
        return wireguard.read_wireguard(name)

    @override
    async def set_wireguard(self, name: str, change: WireguardChange) -> None:
        wireguard.change_wireguard(name, change)


def make_affiliate(number: int) -> AffiliateSpec:
    """A node with an address of each version, a network of pods and three endpoints."""
    texts = (f"10.5.{number >> 8}.{number & 255}", f"2001:db8::{number:x}:1")
    spec = AffiliateSpec(
        node_id=f"id-{number:04}",
        nodename=f"node-{number:04}",
        hostname=f"node-{number:04}",
        addresses=[make_ip(ip_address(text)) for text in texts],
    )
    spec.kube_span.public_key = make_public_key(make_private_key())
    spec.kube_span.address.CopyFrom(make_ip(ip_address(f"{ULA}{number + 16:x}")))
    pods = ip_network(f"10.{240 + (number >> 8)}.{number & 255}.0/24")
    spec.kube_span.additional_addresses.append(make_prefix(pods))
    for text in (*texts, "192.0.2.7"):
        spec.kube_span.endpoints.append(NetIPPort(ip=ip_address(text).packed, port=51820))
    return spec


async def prepare(state: MemoryState) -> None:
    """Write what makes KubeSpan begin."""
    private = make_private_key()
    identity = IdentitySpec(
        address=make_host_prefix(ip_interface(f"{ULA}1").ip),
        subnet=make_prefix(ip_network(f"{ULA}/64")),
        private_key=private,
        public_key=make_public_key(private),
    )
    await put(state, *ids.IDENTITY, NodeIdentitySpec(node_id="own"), owner="test")
    await put(state, *ids.KUBE_SPAN_CONFIG, CONFIG, owner="test")
    await put(state, *ids.KUBE_SPAN_IDENTITY, identity, owner="test")
    await trio.testing.wait_all_tasks_blocked(0.01)


async def measure(size: int, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    state = CountingState()
    links = TunnelLinks([LinkState(index=1, name="lo", type=ARPHRD_LOOPBACK, mtu=65536)])
    log = Log(write=lambda _: None)

    def now() -> float:
        return EPOCH + trio.current_time()

    kernel = WireguardKernel(now)
    monkeypatch.setattr(wireguard, "Netlink", kernel.open)
    controllers = [
        AffiliateMergeController(),
        MemberController(log),
        KubeSpanPeerSpecController(log),
        KubeSpanEndpointController(),
        KubeSpanManagerController(links, now),
        *make_merge_controllers(),
        LinkSpecController(links, log),
        LinkStatusController(links, log),
        AddressSpecController(links, log),
        RouteSpecController(links, log),
        RoutingRuleSpecController(links, log),
        NfTablesChainController(links, log),
        NodeAddressController(),
        *make_kernel_status_controllers(links, log),
    ]
    affiliates = [make_affiliate(number) for number in range(size)]
    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            await nursery.start(run_controllers, state, controllers)
            await prepare(state)
            before, began = resident(os.getpid()), time.process_time()
            for spec in affiliates:
                await put(state, kinds.AFFILIATE, f"service/{spec.node_id}", spec, namespace=RAW_NAMESPACE)
            while len(kernel.peers) < size:
                await trio.testing.wait_all_tasks_blocked()
                await trio.sleep(0.1)
            begin_time = time.process_time() - began
            # Until every peer has its handshake.
            await trio.sleep(300)
            memory = resident(os.getpid()) - before
            state.writes.clear()
            changes, began = kernel.changes, time.process_time()
            await trio.sleep(REST)
            used = time.process_time() - began
            nursery.cancel_scope.cancel()
    statuses = state.writes.pop(kinds.KUBE_SPAN_PEER_STATUS.type, 0)
    minutes = REST / 60
    table.add(
        f"{size} peers",
        f"{1000 * begin_time:.0f}",
        f"{memory:.1f}",
        f"{100 * used / REST:.3f}",
        f"{statuses / minutes:.0f}",
        f"{state.writes.total() / minutes:.0f}",
        f"{(kernel.changes - changes) / minutes:.0f}",
    )
    if state.writes:
        table.notes.append(f"{size} peers, other writes: {dict(state.writes)}")


def test_kubespan(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(
        "KubeSpan, real controllers of clusterd and networkd on one State",
        ("ms until set", "MiB", "% at rest", "statuses/min", "other writes/min", "kernel changes/min"),
    )
    for size in SIZES:
        trio.run(measure, size, table, monkeypatch, clock=MockClock(autojump_threshold=0.001))
    table.show()
