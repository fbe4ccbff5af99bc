"""Which pods move when nodes reboot into a release, and which their budgets keep."""

from collections.abc import Mapping, Sequence

from talos.api.rpc import RpcError, format_reason
from talos.client.session import Session
from talos.kubernetes.client import KubernetesError
from talos.kubernetes.drain import find_movable
from talos.resource import kinds
from talos.talosctl.client.drain import connect_as_admin
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.output import console


async def find_pods(session: Session, nodes: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Of each node its pods with why they stay; a warning and nothing where Kubernetes does not answer.

    Each pod has a dry run of its own: two of one budget may both move, one after the other.
    """
    found: dict[str, Mapping[str, str]] = {}
    if not nodes:
        return found
    try:
        client = await connect_as_admin(session)
        for node in nodes:
            for name in await SessionCalls(session).specs(node, kinds.NODENAME):
                found[node] = await find_movable(client, name.nodename)
    except (RpcError, KubernetesError) as error:
        console.note(f"WARNING: which pods move is not known: {format_reason(error)}")
    return found
