"""Calls of this node to the APIs of the cluster's nodes."""

import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from google.protobuf.message import Message

from talos.api.cosi.state_pb2 import ListRequest, ListResponse
from talos.api.metadata import READER, ROLE
from talos.api.rpc import Code, RpcError, Transport
from talos.daemon.daemons import APID
from talos.machined.node.ports import Node
from talos.resource import ids
from talos.resource.kind import Kind
from talos.resource.state import NotFoundError
from talos.rpc.http2.remote import ClientTls, RemoteServer, make_client_context

CALL_TIMEOUT = 10.0
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
