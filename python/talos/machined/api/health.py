"""HealthCheck: wait until the cluster is healthy, and report on the way."""

import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import trio
from google.protobuf.message import Message

from talos.api.cluster import cluster_pb2
from talos.api.cosi.state_pb2 import ListRequest, ListResponse
from talos.api.metadata import READER, ROLE
from talos.api.rpc import Call, Code, Handler, RpcError, Send, Transport
from talos.daemon.daemons import APID
from talos.daemon.health import ClusterNodes, sort_members, wait_for_health
from talos.daemon.machine_type import require_control_plane
from talos.machined.node.ports import Node
from talos.resource import ids, kinds
from talos.resource.kind import Kind
from talos.resource.state import NotFoundError
from talos.rpc.http2.remote import ClientTls, RemoteServer, make_client_context

DEFAULT_WAIT = 300.0
CALL_TIMEOUT = 10.0
_METHOD = "/cluster.ClusterService/HealthCheck"
_AS_READER = {ROLE: [READER]}


class PeerCalls:
    """Calls to the APIs of the cluster's nodes, this one included, as a reader."""

    def __init__(self, node: Node, context: ssl.SSLContext, stack: AsyncExitStack) -> None:
        self._node = node
        self._context = context
        self._stack = stack
        self._open: dict[str, Transport] = {}

    async def _connect(self, address: str) -> Transport:
        if address not in self._open:
            server = RemoteServer(host=address, port=APID.port, context=self._context)
            channel = self._node.connect_remote(server)
            self._open[address] = await self._stack.enter_async_context(channel)
        return self._open[address]

    async def unary[R: Message](self, node: str, method: str, request: Message, reply: type[R]) -> R:
        """One call; its error has the node's address."""
        transport = await self._connect(node)
        try:
            return await transport.unary(method, request, reply, metadata=_AS_READER, timeout=CALL_TIMEOUT)
        except RpcError as error:
            raise RpcError(error.code, f"{node}: {error.message}") from None

    async def specs[S: Message](self, node: str, kind: Kind[S]) -> Sequence[S]:
        """The specs of all resources of a kind."""
        transport = await self._connect(node)
        request = ListRequest(namespace=kind.namespace, type=kind.type)
        stream = transport.stream(
            "/cosi.resource.State/List", request, ListResponse, metadata=_AS_READER, timeout=CALL_TIMEOUT
        )
        async with stream as replies:
            return [kind.spec.FromString(reply.resource.spec.proto_spec) async for reply in replies]


@asynccontextmanager
async def open_peers(node: Node) -> AsyncGenerator[PeerCalls]:
    """Calls with this node's own certificate; FAILED_PRECONDITION while there is none."""
    try:
        spec = (await node.state.get(*ids.API_CERTIFICATE)).spec
    except NotFoundError:
        raise RpcError(Code.FAILED_PRECONDITION, "this node has no certificate yet") from None
    settings = ClientTls(
        certificate=spec.client.crt,
        key=spec.client.key,
        authorities=tuple(authority.crt for authority in spec.accepted_c_as),
    )
    async with AsyncExitStack() as stack:
        yield PeerCalls(node, make_client_context(settings), stack)


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of cluster.ClusterService."""

    async def health_check(request: cluster_pb2.HealthCheckRequest, call: Call, send: Send) -> None:
        del call
        await require_control_plane(node.state, _METHOD)
        seconds = request.wait_timeout.ToTimedelta().total_seconds() or DEFAULT_WAIT

        async def report(text: str) -> None:
            await send(cluster_pb2.HealthCheckProgress(message=text))

        nodes = await find_nodes(node, request.cluster_info)
        if not request.cluster_info.control_plane_nodes:
            names = " ".join(f'"{address}"' for address in nodes.all)
            await report(f"discovered nodes: [{names}]")
        async with open_peers(node) as calls:
            await wait_for_health(calls, nodes, seconds=seconds, report=report, sleep=trio.sleep)

    return {"HealthCheck": health_check}


async def find_nodes(node: Node, named: cluster_pb2.ClusterInfo) -> ClusterNodes:
    """The nodes that the caller names, else the members that this node knows of."""
    if named.control_plane_nodes:
        return ClusterNodes(control_plane=named.control_plane_nodes, workers=named.worker_nodes)
    nodes = sort_members([member.spec for member in await node.state.list(kinds.MEMBER)])
    if not nodes.control_plane:
        text = "no control plane node is known: name the nodes, or configure discovery"
        raise RpcError(Code.FAILED_PRECONDITION, text)
    return nodes
