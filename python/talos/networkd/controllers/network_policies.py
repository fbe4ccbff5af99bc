"""Diagnostic: the config wants network policies enforced, and the kernel has no way to do that."""

from typing import override

from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.config.active import read_config
from talos.config.effective import kubernetes
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.net.links import Links

DIAGNOSTIC = "network-policies"
SPEC = DiagnosticSpec(
    message="network policies have no effect on this node: the kernel has no NFT_QUEUE",
    details=[
        "the kernel of machines has it, a container's is that of its host",
        "remove kubeNetworkPoliciesEnabled, or install another network, which enforces policies itself",
    ],
)


class NetworkPoliciesController(Reconciler):
    """MachineConfig → Diagnostic. The program beside flannel runs without it, and lets all packets pass."""

    name = "network.NetworkPoliciesController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.DIAGNOSTIC, shared=True),)

    def __init__(self, links: Links) -> None:
        self._links = links

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Try the kernel when the config has the setting."""
        config = await read_config(runtime)
        flannel = kubernetes.flannel(config) if config else None
        async with runtime.track_outputs():
            if flannel and flannel.network_policies and not await self._links.can_queue():
                await runtime.put(kinds.DIAGNOSTIC, DIAGNOSTIC, SPEC)
