"""HealthCheck: wait until the cluster is healthy, and report on the way."""

from collections.abc import Mapping

import trio

from talos.api.cluster import cluster_pb2
from talos.api.metadata import READER, ROLE
from talos.api.rpc import Call, Code, Handler, RpcError, Send
from talos.api.timestamps import read_duration
from talos.health.calls import ClusterNodes
from talos.health.conditions import sort_members, wait_for_health
from talos.machined.api.peers import open_peers
from talos.machined.node.ports.node import Node
from talos.process.machine_type import require_control_plane
from talos.resource import kinds

DEFAULT_WAIT = 300.0  # seconds
CALL_TIMEOUT = 10.0  # seconds
_METHOD = "/cluster.ClusterService/HealthCheck"
_AS_READER = {ROLE: [READER]}


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of cluster.ClusterService."""

    async def health_check(request: cluster_pb2.HealthCheckRequest, _call: Call, send: Send) -> None:
        await require_control_plane(node.state, _METHOD)
        seconds = read_duration(request.wait_timeout) or DEFAULT_WAIT

        async def report(text: str) -> None:
            await send(cluster_pb2.HealthCheckProgress(message=text))

        nodes = await find_nodes(node, request.cluster_info)
        if not request.cluster_info.control_plane_nodes:
            names = " ".join(f'"{address}"' for address in nodes.all)
            await report(f"discovered nodes: [{names}]")
        async with open_peers(node, request.cluster_info.force_endpoint) as calls:
            await wait_for_health(calls, nodes, seconds=seconds, report=report, sleep=trio.sleep)

    return {"HealthCheck": health_check}


async def find_nodes(node: Node, named: cluster_pb2.ClusterInfo) -> ClusterNodes:
    """The nodes that the caller names, else the members that this node has discovered."""
    if named.control_plane_nodes:
        return ClusterNodes(control_plane=named.control_plane_nodes, workers=named.worker_nodes)
    nodes = sort_members([member.spec for member in await node.state.list(kinds.MEMBER)])
    if not nodes.control_plane:
        text = "no control plane node is known: name the nodes, or configure discovery"
        raise RpcError(Code.FAILED_PRECONDITION, text)
    return nodes
