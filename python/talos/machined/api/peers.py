"""Calls of this node to the APIs of the cluster's nodes."""

import json
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from google.protobuf.message import Message

from talos.api.cosi.resource_pb2 import Resource
from talos.api.cosi.state_pb2 import ListRequest, ListResponse
from talos.api.internal.kubelet_pb2 import ReadRequest, ReadResponse
from talos.api.machine.storage_pb2 import StorageServiceStatfsRequest, StorageServiceStatfsResponse
from talos.api.metadata import READER, ROLE
from talos.api.rpc import Code, RpcError, Transport
from talos.api.specs import parse_spec
from talos.machined.node.ports.node import Node
from talos.process.daemons import APID, KUBED
from talos.resource import ids
from talos.resource.kind import Kind
from talos.resource.state import NotFoundError
from talos.rpc.port.remote import ClientTls, RemoteServer, make_client_context

CALL_TIMEOUT = 10.0  # seconds
OBJECTS_TIMEOUT = 20.0  # seconds
READ = "/talos.internal.Kubelet/Read"
STATFS = "/machine.StorageService/Statfs"
"""A missing path has a code of its own here; List has one for every failure."""
_AS_READER = {ROLE: [READER]}


class PeerCalls:
    """Calls to the APIs of the cluster's nodes, this one included, as a reader."""

    def __init__(
        self, node: Node, context: ssl.SSLContext, stack: AsyncExitStack, endpoint: str = ""
    ) -> None:
        self._node = node
        self._context = context
        self._stack = stack
        self._endpoint = endpoint
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
            raise RpcError(error.code, f"{node}: {error.reason}") from None

    async def specs[S: Message](self, node: str, kind: Kind[S]) -> Sequence[S]:
        """The specs of all resources of a kind."""
        return [parse_spec(kind.spec, one) for one in await self.resources(node, kind)]

    async def resources(self, node: str, kind: Kind[Message]) -> Sequence[Resource]:
        """All resources of a kind with their metadata."""
        transport = await self._connect(node)
        request = ListRequest(namespace=kind.namespace, type=kind.type)
        stream = transport.stream(
            "/cosi.resource.State/List", request, ListResponse, metadata=_AS_READER, timeout=CALL_TIMEOUT
        )
        async with stream as replies:
            return [reply.resource async for reply in replies]

    async def has_path(self, node: str, path: str) -> bool:
        """Whether a file or a folder is on a node."""
        request = StorageServiceStatfsRequest(path=path)
        try:
            await self.unary(node, STATFS, request, StorageServiceStatfsResponse)
        except RpcError as error:
            if error.code is Code.NOT_FOUND:
                return False
            raise
        return True

    async def objects(self, path: str) -> Sequence[Mapping[str, Any]]:
        """The objects of a list in Kubernetes, as this node's kubed sees them."""
        request = ReadRequest(path=path, endpoint=self._endpoint)
        async with self._node.connect(KUBED.socket) as transport:
            reply = await transport.unary(READ, request, ReadResponse, timeout=OBJECTS_TIMEOUT)
        return json.loads(reply.object)["items"]


@asynccontextmanager
async def open_peers(node: Node, endpoint: str = "") -> AsyncGenerator[PeerCalls]:
    """Calls with this node's own certificate; FAILED_PRECONDITION while there is none.

    Kubernetes is called at ``endpoint`` instead of on this node, if there is one.
    """
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
        yield PeerCalls(node, make_client_context(settings), stack, endpoint)
