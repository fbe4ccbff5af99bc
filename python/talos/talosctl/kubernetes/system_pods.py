"""The objects that come with the system's manifests, and their pods started again."""

from collections.abc import Callable
from typing import Any

from talos.api.specs import parse_spec
from talos.client.session import Session
from talos.client.wait import wait_until
from talos.kubernetes.apply import apply, find_place
from talos.kubernetes.client import MERGE, KubernetesClient
from talos.resource import kinds
from talos.resource.objects import format_now, to_plain
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.kubernetes.sync import ROLLED_OUT, find_unfinished

IN_CLUSTER = "11-kube-config-in-cluster"
USERS = "99-"
"""What the names of the user's manifests begin with."""


async def find_manifests(
    session: Session, node: str, is_wanted: Callable[[str], bool] = lambda _: True
) -> list[dict[str, Any]]:
    """The objects of a node's manifests whose names are wanted; RpcError."""
    kind = kinds.MANIFEST
    found = await SessionCalls(session).resources(node, kind)
    specs = [parse_spec(kind.spec, one) for one in found if is_wanted(one.metadata.id)]
    return [to_plain(item.object) for spec in specs for item in spec.items]


async def apply_in_cluster(session: Session, node: str, client: KubernetesClient) -> None:
    """Bring the file by which pods of the system find the API to the authorities of now."""
    for manifest in await find_manifests(session, node, lambda name: name == IN_CLUSTER):
        await apply(client, await find_place(client, manifest), manifest)


async def restart_pods(
    session: Session, node: str, client: KubernetesClient, *, seconds: float, report: Callable[[str], None]
) -> None:
    """Start the pods of the system's workloads again, one workload after another, each within ``seconds``."""
    annotations = {"annotations": {"kubectl.kubernetes.io/restartedAt": format_now()}}
    patch = {"spec": {"template": {"metadata": annotations}}}
    for manifest in await find_manifests(session, node, lambda name: not name.startswith(USERS)):
        if manifest["kind"] not in ROLLED_OUT:
            continue
        place = await find_place(client, manifest)
        await client.call("PATCH", place.path, patch, kind=MERGE)

        async def check(path: str = place.path) -> str:
            return find_unfinished(await client.call("GET", path))

        await wait_until(check, what=place.id.subject, seconds=seconds)
        report(f"  - {place.id.subject}: OK")
