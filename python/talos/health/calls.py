"""The calls of a healthy cluster's conditions, and their nodes. How calls reach a node is the caller's."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import Message

from talos.api.cosi.resource_pb2 import Resource
from talos.resource.kind import Kind

SKIPPED = "SKIP"
"""The result of a condition that does not apply to a cluster."""
SERVICE = "/machine.MachineService/"


class NodeCalls(Protocol):
    """Calls to the API of nodes, by their addresses."""

    async def unary[R: Message](self, node: str, method: str, request: Message, reply: type[R]) -> R:
        """One call; RpcError."""
        ...

    async def specs[S: Message](self, node: str, kind: Kind[S]) -> Sequence[S]:
        """The specs of all resources of a kind; RpcError."""
        ...


class ClusterCalls(NodeCalls, Protocol):
    """Calls to nodes and to the API of their Kubernetes."""

    async def resources(self, node: str, kind: Kind[Message]) -> Sequence[Resource]:
        """All resources of a kind with their metadata; RpcError."""
        ...

    async def objects(self, path: str) -> Sequence[Mapping[str, Any]]:
        """The objects of a list in Kubernetes; RpcError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNodes:
    """The addresses of a cluster's nodes."""

    control_plane: Sequence[str]
    workers: Sequence[str]

    @property
    def all(self) -> Sequence[str]:
        """Of both kinds."""
        return (*self.control_plane, *self.workers)


type Condition = Callable[[ClusterCalls, ClusterNodes], Awaitable[str]]
"""What is wrong, empty when nothing is, or :data:`SKIPPED`."""
