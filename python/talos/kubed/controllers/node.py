"""What the node is in Kubernetes: its addresses, labels, annotations and taints."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network

from talos.api.addresses import make_ip
from talos.api.definitions.k8s_pb2 import (
    NodeAnnotationSpecSpec,
    NodeIPConfigSpec,
    NodeIPSpec,
    NodeLabelSpecSpec,
    NodeTaintSpecSpec,
)
from talos.config.active import read_config
from talos.config.check.forms import is_label_value
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import kubernetes
from talos.config.effective import network as effective_network
from talos.config.model import Config
from talos.config.subnet_list import EVERYWHERE, Address, select, split_entries
from talos.process.addresses import read_addresses
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

EXTENSIONS = "extensions.talos.dev/"
"""Before the name of an extension: the label that has its version."""


class NodeIPConfigController(Reconciler):
    """MachineConfig → NodeIPConfig: which of the node's addresses Kubernetes may use."""

    name = "k8s.NodeIPConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.NODE_IP_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource; none before there is a config."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if config is not None:
                await runtime.put(*ids.NODE_IP_CONFIG, make_node_ip_config(config))


def make_node_ip_config(config: Config) -> NodeIPConfigSpec:
    """The configured subnets, else one of each family that pods or services have.

    Addresses that nodes share are excluded: the node that has one now would be known by it.
    """
    valid, excluded = split_entries(kubernetes.node_ip_subnets(config))
    networks = [*effective_cluster.pod_subnets(config), *effective_cluster.service_subnets(config)]
    if not valid:
        versions = {ip_network(network, strict=False).version for network in networks}
        valid = [EVERYWHERE[version] for version in sorted(versions)]
    virtual = effective_network.virtual_addresses(config)
    return NodeIPConfigSpec(valid_subnets=valid, exclude_subnets=[*excluded, *networks, *virtual])


class NodeIPController(Reconciler):
    """NodeIPConfig, NodeAddress → NodeIP: one address of each family."""

    name = "k8s.NodeIPController"
    inputs = (
        Input(*ids.NODE_IP_CONFIG),
        Input(*ids.NODE_ADDRESS_ROUTED_NO_K8S),
        Input(*ids.MACHINE_CONFIG),
    )
    outputs = (Output(kinds.NODE_IP),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource once an address is there that fits."""
        config = await runtime.get_or_none(*ids.NODE_IP_CONFIG)
        addresses = await read_addresses(runtime, ids.NODE_ADDRESS_ROUTED_NO_K8S)
        if config is None or addresses is None:
            return
        known = [ip_address(prefix.ip[:16]) for prefix in addresses.addresses]
        machine = await read_config(runtime)
        services = effective_cluster.service_subnets(machine) if machine else ()
        spec = config.spec
        if chosen := choose_addresses(known, spec.valid_subnets, spec.exclude_subnets, services):
            await runtime.put(*ids.NODE_IP, NodeIPSpec(addresses=[make_ip(address) for address in chosen]))


def choose_addresses(
    known: Sequence[Address], valid: Sequence[str], excluded: Sequence[str], services: Sequence[str]
) -> list[Address]:
    """The first address of each family that is in a valid network and in no excluded one.

    IPv4 first, except where IPv6 is the first family of ``services``: the API server starts only with an
    address of that family, and advertises the first of its pod, which is the node's.
    """
    found: dict[int, Address] = {}
    for address in select(known, valid, excluded):
        found.setdefault(address.version, address)
    is_ipv6_first = bool(services) and ip_network(services[0], strict=False).version == 6
    return [found[version] for version in sorted(found, reverse=is_ipv6_first)]


class NodeMarksController(Reconciler):
    """MachineConfig, ExtensionStatus → NodeLabelSpec, NodeAnnotationSpec, NodeTaintSpec."""

    name = "k8s.NodeLabelSpecController"
    inputs = (Input(*ids.MACHINE_CONFIG), Input(kinds.EXTENSION_STATUS))
    outputs = (
        Output(kinds.NODE_LABEL_SPEC),
        Output(kinds.NODE_ANNOTATION_SPEC),
        Output(kinds.NODE_TAINT_SPEC),
    )

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write one resource for each of them."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if config is None:
                return
            labels, annotations = split_versions(
                {
                    f"{EXTENSIONS}{status.spec.metadata.name}": status.spec.metadata.version
                    for status in await runtime.list(kinds.EXTENSION_STATUS)
                }
            )
            labels |= effective_cluster.node_labels(config)
            annotations |= effective_cluster.node_annotations(config)
            for key, value in labels.items():
                await runtime.put(kinds.NODE_LABEL_SPEC, key, NodeLabelSpecSpec(key=key, value=value))
            for key, value in annotations.items():
                spec = NodeAnnotationSpecSpec(key=key, value=value)
                await runtime.put(kinds.NODE_ANNOTATION_SPEC, key, spec)
            for key, (value, effect) in parse_taints(effective_cluster.node_taints(config)).items():
                taint = NodeTaintSpecSpec(key=key, value=value, effect=effect)
                await runtime.put(kinds.NODE_TAINT_SPEC, key, taint)


def split_versions(versions: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Those that can be labels, and those that can only be annotations, such as ``1.0+a``; as upstream."""
    labels = {key: value for key, value in versions.items() if is_label_value(value)}
    return labels, {key: value for key, value in versions.items() if key not in labels}


def parse_taints(taints: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Value and effect of each taint; the config writes ``value:effect`` or ``effect``."""
    found: dict[str, tuple[str, str]] = {}
    for key, text in taints.items():
        value, _, effect = text.rpartition(":")
        found[key] = value, effect
    return found
