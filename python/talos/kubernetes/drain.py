"""Draining a node: its pods are evicted, as far as their PodDisruptionBudgets allow, and start elsewhere.

https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from talos.kubernetes.client import MERGE, KubernetesClient, KubernetesError

POLL_INTERVAL = 1.0
"""Seconds between two checks of the pods that are ending."""
REFUSED_RETRY_INTERVAL = 5.0
"""Seconds until a refused eviction is tried again, as upstream."""
MIRROR = "kubernetes.io/config.mirror"

type Pod = Mapping[str, Any]
type Sleep = Callable[[float], Awaitable[object]]
"""trio's or asyncio's."""


async def set_unschedulable(client: KubernetesClient, node: str, *, unschedulable: bool) -> None:
    """Cordon a node, or allow pods on it again; KubernetesError."""
    body = {"spec": {"unschedulable": unschedulable or None}}
    await client.call("PATCH", f"/api/v1/nodes/{quote(node)}", body, kind=MERGE)


async def drain(
    client: KubernetesClient,
    node: str,
    *,
    sleep: Sleep,
    now: Callable[[], float],
    seconds: float,
    report: Callable[[str], object],
) -> list[str]:
    """Evict a node's pods and wait until they are gone; what is left after ``seconds``, with reasons.

    Pods of daemon sets, static pods and those without a controller stay: nothing would start them
    elsewhere. KubernetesError when the API can't be called any more.
    """
    end = now() + seconds
    evicted: set[str] = set()
    reported: set[tuple[str, str]] = set()
    while True:
        refused: dict[str, str] = {}
        pods = await list_evictable(client, node)
        for pod in pods:
            name, uid = describe(pod), pod["metadata"]["uid"]
            if uid in evicted or "deletionTimestamp" in pod["metadata"]:
                continue
            reason = await _evict(client, pod)
            if reason:
                refused[name] = reason
            else:
                evicted.add(uid)
                report(f"evicting {name}")
        if not pods:
            return []
        for name, reason in refused.items() - reported:
            report(f"{name} stays for now: {reason}")
        reported |= refused.items()
        pause = REFUSED_RETRY_INTERVAL if len(refused) == len(pods) else POLL_INTERVAL
        if now() + pause > end:
            return [f"{name}: {refused.get(name, 'not ended yet')}" for name in map(describe, pods)]
        await sleep(pause)


async def find_movable(client: KubernetesClient, node: str) -> Mapping[str, str]:
    """The pods that a drain would evict, each with why it would stay; none is evicted. KubernetesError."""
    return {
        describe(pod): await _evict(client, pod, is_dry_run=True)
        for pod in await list_evictable(client, node)
    }


async def list_evictable(client: KubernetesClient, node: str) -> Sequence[Pod]:
    """The pods that have to leave a node before it goes down."""
    pods = await client.list_all(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{quote(node)}")
    return [pod for pod in pods if is_evictable(pod)]


def is_evictable(pod: Pod) -> bool:
    """Whether a controller starts another pod elsewhere; what has run to its end needs no other place."""
    metadata = pod["metadata"]
    owner = next((one for one in metadata.get("ownerReferences", ()) if one.get("controller")), None)
    return (
        MIRROR not in metadata.get("annotations", {})
        and owner is not None
        and owner["kind"] != "DaemonSet"
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
    )


def describe(pod: Pod) -> str:
    """Namespace and name."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


async def _evict(client: KubernetesClient, pod: Pod, *, is_dry_run: bool = False) -> str:
    """Why the pod is not evicted; empty when it is, or is gone."""
    dry_run = {"dryRun": ["All"]} if is_dry_run else {}
    metadata = pod["metadata"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        # No gracePeriodSeconds: each pod has its own time to end.
        "deleteOptions": {"preconditions": {"uid": metadata["uid"]}, **dry_run},
    }
    path = f"/api/v1/namespaces/{quote(metadata['namespace'])}/pods/{quote(metadata['name'])}/eviction"
    path += "?dryRun=All" if is_dry_run else ""
    try:
        await client.call("POST", path, eviction)
    except KubernetesError as error:
        if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            return ""  # it has ended, and perhaps another one has its name
        if error.status:
            return str(error)
        raise
    return ""
