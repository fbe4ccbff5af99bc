"""What a node's kubelet and static pods run, as the node and the API server show it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from talos.api.specs import parse_spec
from talos.client.resources import get_resource
from talos.client.session import Session
from talos.kubernetes.client import KubernetesClient
from talos.resource import kinds
from talos.resource.objects import is_ready, to_plain
from talos.system.errors import UserError
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.kubernetes.versions import PODS

CONFIG_VERSION = "talos.dev/config-version"
SECRETS_VERSION = "talos.dev/secrets-version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """The service. ``version`` is another one whenever its state changes."""

    version: str
    is_healthy: bool


async def read_kubelet(session: Session, node: str) -> Kubelet:
    """The kubelet of a node; RpcError."""
    kind = kinds.SERVICE
    found = await get_resource(session, node, kind.namespace, kind.type, "kubelet")
    spec = parse_spec(kind.spec, found)
    return Kubelet(version=found.metadata.version, is_healthy=spec.running and spec.healthy)


async def read_nodename(session: Session, node: str) -> str:
    """A node's name in Kubernetes; RpcError, UserError when it has none."""
    found = await SessionCalls(session).specs(node, kinds.NODENAME)
    if not found:
        raise UserError("it has no name in Kubernetes", where=f"node {node}")
    return found[0].nodename


async def find_late(client: KubernetesClient, name: str, annotation: str, version: str) -> str:
    """Why a static pod is not yet that of this version of what it is made of; empty when it is, and ready."""
    pod = await client.get_or_none(f"{PODS}/{quote(name)}")
    if pod is None:
        return "pod is not there, waiting"
    found = read_annotations(pod).get(annotation)
    if found != version:
        subject = annotation.rpartition("/")[2].replace("-", " ")
        return f'waiting, {subject} mismatch: got "{found}", expected "{version}"'
    return "" if is_ready(pod.get("status", {})) else "pod is not ready, waiting"


async def find_late_pods(session: Session, client: KubernetesClient, node: str, annotation: str) -> str:
    """Which of a node's static pods is not ready as the node has it by an annotation; empty when all are."""
    nodename = await read_nodename(session, node)
    for spec in await SessionCalls(session).specs(node, kinds.STATIC_POD):
        pod = to_plain(spec.pod)
        version = read_annotations(pod).get(annotation)
        if version is None:
            continue  # the user's
        name = f"{pod['metadata']['name']}-{nodename}"
        if reason := await find_late(client, name, annotation, version):
            return f"{name}: {reason}"
    return ""


def read_annotations(found: Mapping[str, Any]) -> Mapping[str, str]:
    """The annotations of an object."""
    return found["metadata"].get("annotations") or {}
