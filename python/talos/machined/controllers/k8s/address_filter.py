"""NodeAddressFilter: the node's addresses with and without those of Kubernetes."""

from ipaddress import ip_network

from talos.api.addresses import make_prefix
from talos.api.definitions.network_pb2 import NodeAddressFilterSpec
from talos.config.active import read_config
from talos.config.effective import cluster as effective
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

NO_KUBERNETES, ONLY_KUBERNETES = "no-k8s", "only-k8s"


class AddressFilterController(Reconciler):
    """MachineConfig → NodeAddressFilter, by the networks of pods and services."""

    name = "k8s.AddressFilterController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.NODE_ADDRESS_FILTER),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write both; none before there is a config."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if config is None:
                return
            subnets = (*effective.pod_subnets(config), *effective.service_subnets(config))
            prefixes = [make_prefix(ip_network(subnet, strict=False)) for subnet in subnets]
            without = NodeAddressFilterSpec(exclude_subnets=prefixes)
            only = NodeAddressFilterSpec(include_subnets=prefixes)
            await runtime.put(kinds.NODE_ADDRESS_FILTER, NO_KUBERNETES, without)
            await runtime.put(kinds.NODE_ADDRESS_FILTER, ONLY_KUBERNETES, only)
