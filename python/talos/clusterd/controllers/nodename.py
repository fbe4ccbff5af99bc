"""Nodename: what the node is called in Kubernetes, and by the other members of its cluster."""

from talos.api.definitions.k8s_pb2 import NodenameSpec
from talos.config.active import read_config
from talos.config.effective import cluster as effective
from talos.process.names import make_fqdn
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class NodenameController(Reconciler):
    """MachineConfig, HostnameStatus → Nodename; none before both are there."""

    name = "k8s.NodenameController"
    inputs = (Input(*ids.MACHINE_CONFIG), Input(*ids.HOSTNAME_STATUS))
    outputs = (Output(kinds.NODENAME),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource; Kubernetes allows small letters only."""
        config = await read_config(runtime)
        hostname = await runtime.get_or_none(*ids.HOSTNAME_STATUS)
        async with runtime.track_outputs():
            if config is None or hostname is None or not hostname.spec.hostname:
                return
            full = effective.registers_with_fqdn(config)
            name = make_fqdn(hostname.spec) if full else hostname.spec.hostname
            spec = NodenameSpec(
                nodename=name.lower(),
                hostname_version=str(hostname.metadata.version),
                skip_node_registration=effective.skips_node_registration(config),
            )
            await runtime.put(*ids.NODENAME, spec)
