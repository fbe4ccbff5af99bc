"""NodeStatus: the node as Kubernetes shows it, by a watch."""

from collections.abc import Mapping
from ipaddress import ip_interface
from typing import Any

import trio

from talos.api.addresses import make_prefix
from talos.api.definitions.k8s_pb2 import NodeStatusSpec
from talos.kubed.node_access import INPUTS, NodeAccess, NodeClient
from talos.kubed.watch import keep_following
from talos.kubernetes.client import KubernetesError
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Output
from talos.resource.objects import is_ready
from talos.system.logging import Log

MIN_RETRY_INTERVAL = 3.0
"""Seconds between two tries to reach the API; more when that takes long."""


class NodeStatusController(Controller):
    """The node in Kubernetes → NodeStatus; the last one stays while the API can't be reached."""

    name = "k8s.NodeStatusController"
    inputs = INPUTS
    outputs = (Output(kinds.NODE_STATUS),)

    def __init__(self, access: NodeAccess, log: Log) -> None:
        self._access = access
        self._log = log
        self._key = b""
        self._scope = trio.CancelScope()

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow the node; begin anew when it, or the client's identity, is another one."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_identity, runtime)
            async for _ in runtime.events():
                found = await self._access.find(runtime)
                key = found.name.encode() + found.key if found else b""
                if key == self._key:
                    continue
                self._key = key
                self._scope.cancel()
                if found is not None:
                    self._scope = trio.CancelScope()
                    nursery.start_soon(self._keep_following, runtime, found, self._scope)

    async def _follow_identity(self, runtime: ControllerRuntime) -> None:
        while True:
            await self._access.kubelet.changed.wait()
            runtime.queue_reconcile()

    async def _keep_following(
        self, runtime: ControllerRuntime, found: NodeClient, scope: trio.CancelScope
    ) -> None:
        async def handle(event: str, node: Mapping[str, Any]) -> None:
            if event == "DELETED":
                await runtime.remove(kinds.NODE_STATUS, found.name)
            else:
                await runtime.put(kinds.NODE_STATUS, found.name, make_status(node))

        def report(error: KubernetesError) -> None:
            self._log.once(f"the node can't be read: {error}", key="node", level="info")

        with scope:
            selector = f"metadata.name={found.name}"
            await keep_following(
                found.connect, "/api/v1/nodes", selector, handle, report, least_pause=MIN_RETRY_INTERVAL
            )


def make_status(node: Mapping[str, Any]) -> NodeStatusSpec:
    """What the State shows of a node."""
    metadata, spec = node["metadata"], node["spec"]
    status = NodeStatusSpec(
        nodename=metadata["name"],
        node_ready=is_ready(node.get("status", {})),
        unschedulable=bool(spec.get("unschedulable")),
        labels=metadata.get("labels", {}),
        annotations=metadata.get("annotations", {}),
    )
    for text in spec.get("podCIDRs", ()):
        status.pod_cid_rs.append(make_prefix(ip_interface(text)))
    return status
