"""The node's own part in KubeSpan: its settings, and what it announces of itself."""

import ipaddress
from collections.abc import Iterable, Sequence

from talos.api.addresses import make_prefix, parse_ip_port
from talos.api.common.common_pb2 import NetIP, NetIPPort, NetIPPrefix
from talos.api.definitions.cluster_pb2 import KubeSpanAffiliateSpec
from talos.api.definitions.kubespan_pb2 import ConfigSpec, IdentitySpec
from talos.clusterd.discovery.payload import MAX_ADDRESSES
from talos.config.contract import KUBE_SPAN_PORT
from talos.config.effective import cluster as effective
from talos.config.effective.kubespan import kubespan, kubespan_extra_endpoints
from talos.config.model import Config
from talos.config.subnet_list import Address, parse_entry
from talos.rpc.port.addresses import is_kubespan, is_siderolink


def make_config(config: Config) -> ConfigSpec:
    """The settings of the node's own part."""
    settings = kubespan(config)
    # The main document's are not checked while KubeSpan is off.
    excluded = settings.exclude_advertised_networks if settings.enabled else ()
    return ConfigSpec(
        enabled=settings.enabled,
        cluster_id=effective.cluster_id(config),
        shared_secret=effective.cluster_secret(config),
        force_routing=settings.force_routing,
        advertise_kubernetes_networks=settings.advertise_kubernetes_networks,
        mtu=settings.mtu,
        endpoint_filters=settings.endpoint_filters,
        harvest_extra_endpoints=settings.harvest_extra_endpoints,
        extra_endpoints=[parse_ip_port(text) for text in kubespan_extra_endpoints(config)],
        exclude_advertised_networks=[
            make_prefix(ipaddress.ip_network(text, strict=False)) for text in excluded
        ],
    )


def make_affiliate(
    config: ConfigSpec,
    identity: IdentitySpec,
    addresses: Iterable[Address],
    public: Iterable[Address],
    pods: Iterable[NetIPPrefix],
) -> KubeSpanAffiliateSpec:
    """What the node announces: ``addresses`` are its own, ``public`` those that others see it under.

    No endpoint is within KubeSpan, wherever others see the node: the tunnel can't lead through itself.
    """
    candidates = dict.fromkeys([*addresses, *public])
    usable = [one for one in candidates if not is_kubespan(one) and not is_siderolink(one)]
    endpoints = [
        NetIPPort(ip=one.packed, port=KUBE_SPAN_PORT)
        for one in filter_addresses(config.endpoint_filters, usable)
    ]
    endpoints += [one for one in config.extra_endpoints if one not in endpoints]
    return KubeSpanAffiliateSpec(
        public_key=identity.public_key,
        address=NetIP(ip=identity.address.ip),
        additional_addresses=pods if config.advertise_kubernetes_networks else (),
        endpoints=endpoints[:MAX_ADDRESSES],
        exclude_advertised_networks=config.exclude_advertised_networks,
    )


def filter_addresses(filters: Sequence[str], addresses: Sequence[Address]) -> Sequence[Address]:
    """The addresses that the filters choose, from left to right; all of them without filters.

    A prefix adds what is in it, one with ``!`` removes what was added so far: exceptions alone choose none.
    """
    if not filters:
        return addresses
    chosen: dict[Address, None] = {}
    for text in filters:
        network, is_exception = parse_entry(text)
        for address in addresses:
            if address not in network:
                continue
            if is_exception:
                chosen.pop(address, None)
            else:
                chosen[address] = None
    return [*chosen]
