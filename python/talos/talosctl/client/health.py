"""The health of a cluster, checked from outside."""

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import Message

from talos.daemon.health import ClusterNodes, sort_members
from talos.resource import kinds
from talos.resource.kind import Kind
from talos.system.errors import UserError
from talos.talosctl.client.command import raise_error
from talos.talosctl.client.resources import list_resources
from talos.talosctl.client.session import Session


@dataclass(frozen=True, slots=True)
class SessionCalls:
    """Calls to the nodes of a session."""

    session: Session

    async def unary[R: Message](self, node: str, method: str, request: Message, reply: type[R]) -> R:
        """One call; RpcError, also when it is inside of the reply."""
        answer = await self.session.unary(node, method, request, reply)
        for message in getattr(answer, "messages", ()):
            raise_error(message)
        return answer

    async def specs[S: Message](self, node: str, kind: Kind[S]) -> Sequence[S]:
        """The specs of all resources of a kind."""
        found = await list_resources(self.session, node, kind.namespace, kind.type)
        return [kind.spec.FromString(resource.spec.proto_spec) for resource in found]


async def find_nodes(session: Session, node: str) -> ClusterNodes:
    """The members that a node knows of; UserError when one has no address or none is of the control plane."""
    members = await SessionCalls(session).specs(node, kinds.MEMBER)
    if lost := [member.hostname for member in members if not member.addresses]:
        hint = "wait until it has one, or name the nodes: --control-plane-nodes, --worker-nodes"
        raise UserError(f"has published no address: {', '.join(lost)}", where="members", hint=hint)
    nodes = sort_members(members)
    if not nodes.control_plane:
        hint = "name the nodes: --control-plane-nodes, --worker-nodes"
        raise UserError("knows no control plane node of its cluster", where=f"node {node}", hint=hint)
    return nodes
