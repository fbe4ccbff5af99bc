"""The machine's API, for routerd."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from google.protobuf.empty_pb2 import Empty

from talos.api.inspect import inspect_pb2
from talos.api.rpc import RpcError
from talos.machined.api.call_log import CallLog
from talos.machined.api.meta import hide_meta
from talos.machined.api.services import make_services
from talos.machined.node.ports import Node
from talos.process.daemons import DAEMONS, MACHINE_SOCKET, ROUTERD
from talos.process.run import Daemon
from talos.resource.controller.graph import GRAPH_METHOD, Edge, make_inspect_service
from talos.resource.remote.reader_guard import make_reader_guard
from talos.resource.remote.service import make_state_service
from talos.rpc.channel import open_channel
from talos.rpc.http2.local_limits import LocalLimits
from talos.rpc.server import serve

GRAPH_TIMEOUT = 2.0
"""Seconds that a daemon has to answer with its part of the graph."""


@asynccontextmanager
async def serve_node(daemon: Daemon, node: Node, own_edges: Sequence[Edge]) -> AsyncGenerator[None]:
    """Serve as long as the context is open."""

    async def edges() -> Sequence[Edge]:
        found = [*own_edges]
        for other in DAEMONS:
            if other.has_controllers:
                found += await _ask_for_edges(daemon, other.socket)
        return found

    public = [
        *make_services(node),
        make_state_service(node.state, guard=make_reader_guard(node.state), view=hide_meta),
        make_inspect_service(edges),
    ]
    limits, calls = LocalLimits(callers=frozenset({ROUTERD.uid})), CallLog(node.logs)
    async with serve(daemon, public, MACHINE_SOCKET, limits=limits, on_end=calls.record):
        yield


async def _ask_for_edges(daemon: Daemon, socket: str) -> Sequence[Edge]:
    """A daemon's part of the graph; nothing from one that doesn't run."""
    reply = inspect_pb2.ControllerRuntimeDependenciesResponse
    try:
        async with open_channel(daemon, socket) as transport:
            answer = await transport.unary(GRAPH_METHOD, Empty(), reply, timeout=GRAPH_TIMEOUT)
    except RpcError:
        return ()
    return [edge for message in answer.messages for edge in message.edges]
