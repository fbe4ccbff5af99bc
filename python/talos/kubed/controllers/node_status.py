"""The node in Kubernetes: gets its labels and annotations, and how it is becomes a resource.

On control plane nodes: a worker's own rights lie in files of the kubelet.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import trio

from talos.api.definitions.k8s_pb2 import NodeStatusSpec
from talos.config.static_pods import API_SERVER
from talos.kubed.admin import AdminAccess, find_pause
from talos.kubernetes.client import MERGE, KubernetesClient, KubernetesError
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.logging import Log

LOOK_EVERY = 30.0
"""Seconds between two looks at the node."""
LOOK_EVERY_AT_FIRST = 3.0
"""While it is not there, or not ready; less often when that takes long."""


class NodeStatusController(Reconciler):
    """NodeLabelSpec, NodeAnnotationSpec → the node in Kubernetes → NodeStatus."""

    name = "k8s.NodeStatusController"
    inputs = (
        Input(*ids.KUBERNETES_ROOT_SECRET),
        Input(*ids.NODENAME),
        Input(kinds.NODE_LABEL_SPEC),
        Input(kinds.NODE_ANNOTATION_SPEC),
        Input(kinds.STATIC_POD, API_SERVER),
    )
    outputs = (Output(kinds.NODE_STATUS),)

    def __init__(self, log: Log) -> None:
        self._log = log
        self._access = AdminAccess()
        self._is_settled = False
        self._began = 0.0

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile at every change, and periodically."""
        self._began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tick, runtime)
            await super().run(runtime)

    async def _tick(self, runtime: ControllerRuntime) -> None:
        while True:
            pause = LOOK_EVERY if self._is_settled else find_pause(self._began, LOOK_EVERY_AT_FIRST)
            await trio.sleep(pause)
            runtime.queue_reconcile()

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Set what is missing, then write the status."""
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        nodename = await runtime.get_or_none(*ids.NODENAME)
        pod = await runtime.get_or_none(kinds.STATIC_POD, API_SERVER)
        if root is None or nodename is None or pod is None:
            self._began = trio.current_time()
            return
        labels = {found.spec.key: found.spec.value for found in await runtime.list(kinds.NODE_LABEL_SPEC)}
        annotations = {
            found.spec.key: found.spec.value for found in await runtime.list(kinds.NODE_ANNOTATION_SPEC)
        }
        name = nodename.spec.nodename
        try:
            node = await mark_node(self._access.connect(root.spec), name, labels, annotations)
        except KubernetesError as error:
            self._log.once(f"the node can't be looked at: {error}", key="node", level="info")
            return
        if node is not None:
            status = make_status(node)
            self._is_settled = status.node_ready
            await runtime.put(kinds.NODE_STATUS, name, status)


async def mark_node(
    client: KubernetesClient, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any] | None:
    """The node, after what it lacks of these is set; none while it is not registered."""
    path = f"/api/v1/nodes/{quote(name)}"
    node = await client.get_or_none(path)
    if node is None:
        return None
    metadata: dict[str, Any] = {}
    for part, wanted in (("labels", labels), ("annotations", annotations)):
        current = node["metadata"].get(part, {})
        missing = {key: value for key, value in wanted.items() if current.get(key) != value}
        if missing:
            metadata[part] = missing
    if metadata:
        node = await client.call("PATCH", path, {"metadata": metadata}, kind=MERGE)
    return node


def make_status(node: Mapping[str, Any]) -> NodeStatusSpec:
    """What the State shows of a node."""
    metadata, conditions = node["metadata"], node.get("status", {}).get("conditions", [])
    return NodeStatusSpec(
        nodename=metadata["name"],
        node_ready=any(one["type"] == "Ready" and one["status"] == "True" for one in conditions),
        unschedulable=bool(node["spec"].get("unschedulable")),
        labels=metadata.get("labels", {}),
        annotations=metadata.get("annotations", {}),
    )
