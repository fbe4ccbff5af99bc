"""The server of the machine's API, for routerd, and of the image service, for the kubelet."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.inspect import inspect_pb2
from talos.api.metrics import metrics_pb2
from talos.api.rpc import RpcError
from talos.machined.api.grpc_services import make_services
from talos.machined.api.meta import hide_meta
from talos.machined.api.metrics import Counts, make_metrics_service
from talos.machined.api.pod_images import serve_pod_images
from talos.machined.node.ports.node import Node
from talos.process.call_log import CallLog
from talos.process.daemons import DAEMONS, MACHINE_SOCKET, ROUTERD
from talos.process.run import Daemon
from talos.resource.controller.activity import READ_METHOD
from talos.resource.controller.graph import GRAPH_METHOD, Edge, make_inspect_service
from talos.resource.remote.reader_guard import make_reader_guard
from talos.resource.remote.service import make_state_service
from talos.rpc.channel import open_channel
from talos.rpc.http2.local_limits import LocalLimits
from talos.rpc.server import serve
from talos.system.logging import Log

LOG = "machined"
PART_TIMEOUT = 2.0
"""Seconds that a daemon has to answer with its part of the graph, or of the counts."""


@asynccontextmanager
async def serve_node(
    daemon: Daemon, node: Node, own_edges: Sequence[Edge], counts: Counts
) -> AsyncGenerator[None]:
    """Serve as long as the context is open."""

    async def edges() -> Sequence[Edge]:
        parts = await _read_parts(daemon, GRAPH_METHOD, inspect_pb2.ControllerRuntimeDependenciesResponse)
        return [*own_edges, *(edge for part in parts for message in part.messages for edge in message.edges)]

    async def parts() -> Sequence[metrics_pb2.ReadResponse]:
        return await _read_parts(daemon, READ_METHOD, metrics_pb2.ReadResponse)

    public = [
        *make_services(node),
        make_state_service(node.state, guard=make_reader_guard(node.state), view=hide_meta),
        make_inspect_service(edges),
        make_metrics_service(counts, node.ports.files, parts),
    ]
    limits = LocalLimits(callers=frozenset({ROUTERD.uid}))
    calls = CallLog(Log(write=lambda line: node.logs.append(LOG, f"{line}\n".encode())))
    async with (
        serve(daemon, public, MACHINE_SOCKET, limits=limits, on_end=calls.record),
        serve_pod_images(daemon, node),
    ):
        yield


async def _read_parts[R: Message](daemon: Daemon, method: str, reply: type[R]) -> Sequence[R]:
    """The parts of the daemons with controllers; one that doesn't run has none."""
    found: list[R] = []
    for other in DAEMONS:
        if other.has_controllers:
            with suppress(RpcError):
                async with open_channel(daemon, other.socket) as transport:
                    found.append(await transport.unary(method, Empty(), reply, timeout=PART_TIMEOUT))
    return found
