"""The health of a cluster, checked from outside."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from google.protobuf.message import Message

from talos.api.cosi.resource_pb2 import Resource
from talos.api.rpc import Code, RpcError
from talos.api.specs import parse_spec
from talos.client.resources import list_resources
from talos.client.session import Session
from talos.health.calls import ClusterNodes
from talos.health.conditions import sort_members
from talos.kubernetes.access import parse_kubeconfig
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.resource import kinds
from talos.resource.kind import Kind
from talos.system.errors import UserError
from talos.talosctl.client.command import raise_error
from talos.talosctl.client.kubeconfig import fetch_kubeconfig


@dataclass(frozen=True, slots=True)
class SessionCalls:
    """Calls to the nodes of a session. Kubernetes is reached with a kubeconfig that ``issuer`` gives."""

    session: Session
    issuer: str = ""
    endpoint: str = ""
    _clients: list[KubernetesClient] = field(default_factory=list[KubernetesClient])

    async def unary[R: Message](self, node: str, method: str, request: Message, reply: type[R]) -> R:
        """One call; RpcError, also when it is inside of the reply."""
        answer = await self.session.unary(node, method, request, reply)
        for message in getattr(answer, "messages", ()):
            raise_error(message)
        return answer

    async def specs[S: Message](self, node: str, kind: Kind[S]) -> Sequence[S]:
        """The specs of all resources of a kind."""
        return [parse_spec(kind.spec, one) for one in await self.resources(node, kind)]

    async def resources(self, node: str, kind: Kind[Message]) -> Sequence[Resource]:
        """All resources of a kind with their metadata."""
        return await list_resources(self.session, node, kind.namespace, kind.type)

    def stream[R: Message](
        self, node: str, method: str, request: Message, reply: type[R]
    ) -> AbstractAsyncContextManager[AsyncIterator[R]]:
        """Replies one after another. Leaving cancels the call."""
        return self.session.stream(node, method, request, reply)

    async def objects(self, path: str) -> Sequence[Mapping[str, Any]]:
        """The objects of a list in Kubernetes; UNAVAILABLE while it does not answer."""
        if not self._clients:
            access = parse_kubeconfig(await fetch_kubeconfig(self.session, self.issuer))
            self._clients.append(KubernetesClient(replace(access, server=self.endpoint or access.server)))
        try:
            return await self._clients[0].list_all(path)
        except KubernetesError as error:
            raise RpcError(Code.UNAVAILABLE, f"Kubernetes: {error}") from None


class NoAddressError(UserError):
    """A member has published no address, as for a moment after its boot."""


async def find_nodes(session: Session, node: str) -> ClusterNodes:
    """The members that a node has; UserError when one has no address or none is of the control plane."""
    members = await SessionCalls(session).specs(node, kinds.MEMBER)
    if lost := [member.hostname for member in members if not member.addresses]:
        hint = "wait until it has one, or name the nodes: --control-plane-nodes, --worker-nodes"
        raise NoAddressError(f"has published no address: {', '.join(lost)}", where="members", hint=hint)
    nodes = sort_members(members)
    if not nodes.control_plane:
        hint = "name the nodes: --control-plane-nodes, --worker-nodes"
        raise UserError("has found no control plane node of its cluster", where=f"node {node}", hint=hint)
    return nodes
