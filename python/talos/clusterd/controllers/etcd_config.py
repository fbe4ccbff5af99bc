"""EtcdConfig and EtcdSpec: what etcd shall do on this node, and with which names and addresses."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from talos.api.addresses import make_ip
from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.etcd_pb2 import ArgValues, ConfigSpec, SpecSpec
from talos.api.definitions.network_pb2 import NodeAddressSpec
from talos.config.active import read_config
from talos.config.contract import ETCD_IMAGE
from talos.config.documents.v1alpha1.etcd import EtcdConfig
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import network as effective_network
from talos.config.subnet_list import EVERYWHERE, Address, select, split_entries
from talos.process.addresses import read_addresses
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class EtcdConfigController(Reconciler):
    """MachineConfig → EtcdConfig, on control plane nodes that run etcd."""

    name = "etcd.ConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.ETCD_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if config is None or not config.machine_type.is_control_plane:
                return
            etcd = effective_cluster.etcd(config)
            if etcd is not None:
                await runtime.put(
                    *ids.ETCD_CONFIG, make_config(etcd, effective_network.virtual_addresses(config))
                )


def make_config(etcd: EtcdConfig, virtual: Sequence[str]) -> ConfigSpec:
    """The settings as the resource has them. Addresses that nodes share are excluded."""
    advertised = (etcd.subnet,) if etcd.subnet else etcd.advertised_subnets or ()
    listen = etcd.listen_subnets or advertised
    advertised_valid, advertised_excluded = _split(advertised)
    listen_valid, listen_excluded = _split(listen)
    spec = ConfigSpec(
        image=etcd.image or ETCD_IMAGE,
        advertise_valid_subnets=advertised_valid,
        advertise_exclude_subnets=[*advertised_excluded, *virtual],
        listen_valid_subnets=listen_valid,
        listen_exclude_subnets=[*listen_excluded, *virtual],
    )
    for name, value in (etcd.extra_args or {}).items():
        spec.extra_args[name].CopyFrom(ArgValues(values=[value] if isinstance(value, str) else value))
    return spec


def _split(texts: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The subnets to be in, all where there are only exceptions, and those not to be in."""
    valid, excluded = split_entries(texts)
    return valid or ([*EVERYWHERE.values()] if excluded else []), excluded


class EtcdSpecController(Reconciler):
    """EtcdConfig, HostnameStatus, NodeAddress → EtcdSpec, as soon as there is an address to advertise.

    It is none of a lease that the machine config ends: etcd reports for ever the one that it starts with.
    """

    name = "etcd.SpecController"
    inputs = (
        Input(*ids.ETCD_CONFIG),
        Input(*ids.HOSTNAME_STATUS),
        Input(*ids.NODE_ADDRESS_ROUTED_NO_K8S),
        Input(*ids.NODE_ADDRESS_CURRENT_NO_K8S),
        Input(*ids.MACHINE_CONFIG),
    )
    outputs = (Output(kinds.ETCD_SPEC),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource; a node that has lost its addresses for a moment keeps it."""
        config = await runtime.get_or_none(*ids.ETCD_CONFIG)
        if config is None:
            await runtime.remove(*ids.ETCD_SPEC)
            return
        hostname = await runtime.get_or_none(*ids.HOSTNAME_STATUS)
        routed = await read_addresses(runtime, ids.NODE_ADDRESS_ROUTED_NO_K8S)
        current = await read_addresses(runtime, ids.NODE_ADDRESS_CURRENT_NO_K8S)
        if hostname is None or not hostname.spec.hostname or routed is None or current is None:
            return
        spec = make_spec(config.spec, hostname.spec.hostname, addresses_of(routed), addresses_of(current))
        if spec is not None:
            await runtime.put(*ids.ETCD_SPEC, spec)


def make_spec(
    config: ConfigSpec, name: str, routed: Sequence[Address], current: Sequence[Address]
) -> SpecSpec | None:
    """Addresses to advertise and to listen on; None while there is none.

    Without networks to advertise in, the first routed address is advertised and etcd listens everywhere.
    """
    if config.advertise_valid_subnets:
        advertised = select(routed, config.advertise_valid_subnets, config.advertise_exclude_subnets)
    else:
        advertised = select(routed, EVERYWHERE.values(), config.advertise_exclude_subnets)[:1]
    has_ipv6 = any(address.version == 6 for address in current)
    # The API server connects to the one of IPv4, whatever the node's other addresses are.
    loopback: list[Address] = [IPv4Address("127.0.0.1"), *([IPv6Address("::1")] if has_ipv6 else [])]
    anywhere: Address = IPv6Address("::") if has_ipv6 else IPv4Address("0.0.0.0")  # noqa: S104 - as upstream
    if config.listen_valid_subnets:
        peers = select(current, config.listen_valid_subnets, config.listen_exclude_subnets)
        clients = [*loopback, *peers]
    else:
        peers = clients = [anywhere]
    if not advertised or not peers:
        return None
    return SpecSpec(
        name=name,
        image=config.image,
        advertised_addresses=_pack(advertised),
        listen_peer_addresses=_pack(peers),
        listen_client_addresses=_pack(clients),
        extra_args=config.extra_args,
    )


def addresses_of(spec: NodeAddressSpec) -> list[Address]:
    """The addresses without their prefix lengths."""
    return [ip_address(prefix.ip[:16]) for prefix in spec.addresses]


def _pack(addresses: Iterable[Address]) -> list[NetIP]:
    return [make_ip(address) for address in addresses]
