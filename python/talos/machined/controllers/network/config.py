"""The configured host DNS and order of node addresses."""

from ipaddress import ip_address, ip_network

from talos.api.addresses import make_ip
from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import HostDNSConfigSpec, NodeAddressSortAlgorithmSpec
from talos.config.active import read_config
from talos.config.contract import HOST_DNS_FOR_PODS
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import network as effective_network
from talos.config.model import Config
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

PORT = 53
LOCAL = "127.0.0.53"
_ALGORITHMS = {"v1": enums.ADDRESS_SORT_ALGORITHM_V1, "v2": enums.ADDRESS_SORT_ALGORITHM_V2}


class HostDNSConfigController(Reconciler):
    """MachineConfig → HostDNSConfig."""

    name = "network.HostDNSConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.HOST_DNS_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        config = await read_config(runtime)
        await runtime.put(*ids.HOST_DNS_CONFIG, make_host_dns(config))


def make_host_dns(config: Config | None) -> HostDNSConfigSpec:
    """Where the resolver listens; it is off without a config."""
    spec = HostDNSConfigSpec(listen_addresses=[_listen_on(LOCAL)])
    wanted = effective_network.host_dns(config) if config else None
    if config is None or wanted is None:
        return spec
    spec.enabled = bool(wanted.enabled)
    spec.resolve_member_names = bool(wanted.resolve_member_names)
    if wanted.forward_kube_dns_to_host:
        families = {
            ip_network(subnet, strict=False).version for subnet in effective_cluster.pod_subnets(config)
        }
        targets = (spec.service_host_dns_address, spec.service_host_dns_address_v6)
        for text, target in zip(HOST_DNS_FOR_PODS, targets, strict=True):
            address = ip_address(text)
            # A pod without addresses of a family can't reach one.
            if address.version in families:
                spec.listen_addresses.append(_listen_on(text))
                target.CopyFrom(make_ip(address))
    return spec


def _listen_on(address: str) -> NetIPPort:
    return NetIPPort(ip=ip_address(address).packed, port=PORT)


class NodeAddressSortAlgorithmController(Reconciler):
    """MachineConfig → NodeAddressSortAlgorithm."""

    name = "network.NodeAddressSortAlgorithmController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.NODE_ADDRESS_SORT_ALGORITHM),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource; the older order is the default."""
        config = await read_config(runtime)
        features = config.machine.features if config and config.machine else None
        name = (features.node_address_sort_algorithm if features else None) or "v1"
        spec = NodeAddressSortAlgorithmSpec(algorithm=_ALGORITHMS.get(name, enums.ADDRESS_SORT_ALGORITHM_V1))
        await runtime.put(*ids.NODE_ADDRESS_SORT_ALGORITHM, spec)
