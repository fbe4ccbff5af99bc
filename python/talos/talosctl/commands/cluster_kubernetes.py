"""Kubernetes of a new cluster: its kubeconfig joins the user's, its nodes become ready."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import open_session
from talos.client.target import Target
from talos.config.talosconfig.model import Context
from talos.kubernetes.access import parse_kubeconfig
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.provision.cluster import ClusterInfo, Role
from talos.provision.local import Created
from talos.provision.mirror.archives import read_images
from talos.provision.progress import Progress
from talos.provision.store import ClusterFolder, write_private
from talos.system.errors import UserError
from talos.talosctl.cli.flag import Flags
from talos.talosctl.client.kubeconfig import fetch_kubeconfig, find_user_file, merge_into, remove_from
from talos.talosctl.commands.cluster_ready import Services, bring_up, make_target, wait_for_services

POLL_INTERVAL = 0.5
"""Seconds between two checks of the nodes."""


def bring_up_with_kubernetes(
    created: Created, images: Path | None, end: float, flags: Flags, progress: Progress
) -> Services:
    """Bring a new cluster up, and Kubernetes on it when its images are among the cluster's own; UserError.

    Without them, nodes get Kubernetes from the internet: that is not waited for. ``end`` is a point of the
    monotonic clock.
    """
    context, info = created.client.current, created.info
    services = bring_up(context, info, _left(end), progress, has_images=images is not None)
    control_plane = [str(node.address) for node in info.nodes if node.role is Role.CONTROL_PLANE]
    if not control_plane or images is None or not read_images(images).tag_of("kube-apiserver"):
        return services
    join_kubernetes(context, info, control_plane[0], end, flags, progress)
    addresses = [str(node.address) for node in info.nodes]
    return wait_for_services(context, addresses, _left(end), progress.detail)


def _left(end: float) -> float:
    return max(end - time.monotonic(), 1.0)


def join_kubernetes(
    context: Context, info: ClusterInfo, control_plane: str, end: float, flags: Flags, progress: Progress
) -> None:
    """Merge the kubeconfig into the user's file, then wait until every node is ready; UserError."""
    progress.begin("fetching the kubeconfig")
    text = asyncio.run(_fetch(make_target(context, control_plane), end, progress))
    if not flags.is_set("skip-kubeconfig"):
        path = find_user_file()
        write_private(ClusterFolder(info.directory).kubeconfig, text)
        progress.detail(f"context {merge_into(path, text)} merged into {path}")
    if not flags.is_set("skip-k8s-node-readiness-check"):
        progress.begin("waiting for the nodes of Kubernetes to be ready")
        wait_until_ready(text, [node.name for node in info.nodes], end, progress)


def leave_kubernetes(folder: ClusterFolder, progress: Progress) -> None:
    """Take what :func:`join_kubernetes` merged out of the user's file again."""
    try:
        text = folder.kubeconfig.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    path = find_user_file()
    for name in remove_from(path, text):
        progress.detail(f"context {name} removed from {path}")


async def _fetch(target: Target, end: float, progress: Progress) -> str:
    while True:
        try:
            async with open_session(target) as session:
                return await fetch_kubeconfig(session, "")
        except RpcError as error:
            reason = describe(error, target)
        if time.monotonic() > end:
            raise UserError(f"there is no kubeconfig: {reason}", hint="see talosctl logs kubed")
        progress.detail(reason)
        await asyncio.sleep(POLL_INTERVAL)


def wait_until_ready(kubeconfig: str, names: Sequence[str], end: float, progress: Progress) -> None:
    """Wait until the API server reports every one of these nodes ready; UserError names the others."""
    client = KubernetesClient(parse_kubeconfig(kubeconfig))
    while True:
        try:
            waiting = find_unready(_read_nodes(client), names)
        except KubernetesError as error:
            waiting = [f"the API server does not answer: {error}"]
        if not waiting:
            return
        progress.detail(waiting[0])
        if time.monotonic() > end:
            text = f"the nodes are not ready in time: {'; '.join(waiting)}"
            raise UserError(text, hint="see talosctl logs kubelet, talosctl containers -k")
        time.sleep(POLL_INTERVAL)


def find_unready(nodes: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Each of the named nodes that is not ready, and why."""
    found = {node["metadata"]["name"]: node for node in nodes}
    lines: list[str] = []
    for name in names:
        if name not in found:
            lines.append(f"{name} has not joined")
            continue
        conditions = found[name].get("status", {}).get("conditions", [])
        ready = next((one for one in conditions if one["type"] == "Ready"), None)
        if ready is None:
            lines.append(f"{name} is not ready: the kubelet has not reported")
        elif ready["status"] != "True":
            lines.append(f"{name} is not ready: {ready.get('message')}")
    return lines


def _read_nodes(client: KubernetesClient) -> Sequence[Any]:
    return client.call_now("GET", "/api/v1/nodes")["items"]
