"""Bootstrap: begin etcd's cluster on this node, once in the cluster's life.

Before it exists etcd has no vote. So that two nodes which are to begin at the same time don't both do it,
each shows its intention first and looks for that of the others then: at least one of two sees the other's,
and the one that sees another withdraws.
"""

from collections.abc import Sequence
from functools import partial
from ipaddress import ip_address

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import NetIPPrefix
from talos.api.internal.membership_pb2 import PlanRequest
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, RpcError
from talos.health.conditions import sort_members
from talos.machined.api.peers import PeerCalls, open_peers
from talos.machined.api.pump import in_thread
from talos.machined.node import etcd_data
from talos.machined.node.etcd import MEMBERSHIP, PlannedBootstrap
from talos.machined.node.ports.node import Node
from talos.machined.node.ports.services import ServiceState
from talos.machined.services.etcd import ETCD, find_lost_volume, plan_etcd
from talos.machined.services.runner import AGAIN, FINISHED
from talos.process.daemons import CLUSTERD
from talos.process.machine_type import require_control_plane
from talos.resource import ids, kinds
from talos.resource.changes import wait_for
from talos.resource.state import NotFoundError

SYNC_TIMEOUT = 5.0
"""Seconds that a bootstrap waits for the clock."""
PEERS_TIMEOUT = 10.0
"""Seconds for the other nodes to answer; those that don't are passed over."""
INTENDED, WITHDRAWN = "Bootstrapping a new cluster", "Not bootstrapping"


async def bootstrap(node: Node, request: pb.BootstrapRequest, _call: Call) -> pb.BootstrapResponse:
    """Begin a cluster on this node, if nothing forbids it; etcd starts in the background."""
    await _check(node)
    plan = PlanRequest(start=PlanRequest.NEW)
    if request.recover_etcd:
        check = partial(etcd_data.check_snapshot, skip_hash_check=request.recover_skip_hash_check)
        await in_thread(check)
        plan.snapshot = str(etcd_data.SNAPSHOT)
        plan.restore_directory = str(etcd_data.DATA / etcd_data.RESTORED)
        plan.skip_hash_check = request.recover_skip_hash_check
    planned = PlannedBootstrap(plan=await plan_etcd(node.connect, plan))
    node.services.record(ETCD, INTENDED)
    try:
        await _check_peers(node)
    except BaseException:
        node.services.record(ETCD, WITHDRAWN)
        raise
    node.etcd.begin(planned)
    node.services.start_soon([ETCD])
    return pb.BootstrapResponse(messages=[pb.Bootstrap()])


async def _check(node: Node) -> None:
    """What has to be so on this node."""
    await require_control_plane(node.state, "bootstrap")
    try:
        await node.state.get(*ids.ETCD_ROOT_SECRET)
    except NotFoundError:
        text = "the config has no certificate authority for etcd: set cluster.etcd.ca"
        raise RpcError(Code.INVALID_ARGUMENT, text) from None
    await _require_time(node)
    if lost := await find_lost_volume(node.state):
        text = f"bootstrap is not available yet: volume {lost}, which may have data of etcd, is not ready"
        raise RpcError(Code.FAILED_PRECONDITION, text)
    if await in_thread(etcd_data.has_data):
        raise RpcError(Code.ALREADY_EXISTS, "etcd data directory is not empty")
    if node.services.get(ETCD).state in (ServiceState.INITIALIZED, ServiceState.STARTING):
        raise RpcError(Code.FAILED_PRECONDITION, "bootstrap is not available yet")


async def _require_time(node: Node) -> None:
    with trio.move_on_after(SYNC_TIMEOUT):
        await wait_for(
            node.state, *ids.TIME_STATUS, lambda found: found.spec.synced or found.spec.sync_disabled
        )
        return
    raise RpcError(Code.FAILED_PRECONDITION, "time is not in sync yet")


async def _check_peers(node: Node) -> None:
    """Refuse while another control plane node runs etcd, or intends to begin it."""
    async with node.connect(CLUSTERD.socket) as transport:
        await transport.unary(MEMBERSHIP + "CheckNoCluster", Empty(), Empty)
    own = {str(ip_address(address.ip[:16])) for address in await _own_addresses(node)}
    members = sort_members([member.spec for member in await node.state.list(kinds.MEMBER)])
    others = [address for address in members.control_plane if address not in own]
    refusals: list[RpcError] = []
    async with open_peers(node) as calls:
        with trio.move_on_after(PEERS_TIMEOUT):
            async with trio.open_nursery() as nursery:
                for address in others:
                    nursery.start_soon(check_peer, calls, address, refusals)
    if refusals:
        raise refusals[0]


async def _own_addresses(node: Node) -> list[NetIPPrefix]:
    try:
        return list((await node.state.get(*ids.NODE_ADDRESS_CURRENT)).spec.addresses)
    except NotFoundError:
        return []


async def check_peer(calls: PeerCalls, address: str, refusals: list[RpcError]) -> None:
    """Record why a node refuses. Its etcd may be down for the moment: its data counts."""
    method = "/machine.MachineService/ServiceList"
    try:
        reply = await calls.unary(address, method, Empty(), pb.ServiceListResponse)
        has_data = await calls.has_path(address, str(etcd_data.DATA / etcd_data.LOG))
    except RpcError:
        return
    if has_data:
        text = (
            f"{address} has data of etcd, whose cluster this node joins by itself: bootstrap only one node, "
            "or reset that one if its cluster is lost"
        )
        refusals.append(RpcError(Code.ALREADY_EXISTS, text))
        return
    for service in (service for message in reply.messages for service in message.services):
        if service.id != ETCD:
            continue
        if has_intention([event.msg for event in service.events.events]):
            text = f"{address} is being bootstrapped, too: bootstrap only one node"
            refusals.append(RpcError(Code.ABORTED, text))


def has_intention(messages: Sequence[str]) -> bool:
    """Whether a node is about to begin a cluster, by its service's events, oldest first."""
    for message in reversed(messages):
        if message == INTENDED:
            return True
        if message in {WITHDRAWN, FINISHED} or AGAIN in message:
            return False
    return False
