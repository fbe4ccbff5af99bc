"""The effective settings of KubeSpan, from its document or from the main one."""

from dataclasses import dataclass

from talos.config.documents.network.kube_span import KubeSpanConfig
from talos.config.documents.network.kube_span_endpoints import KubeSpanEndpointsConfig
from talos.config.model import Config

DEFAULT_MTU = 1420
"""Bytes: an Ethernet frame of 1500 less WireGuard's header over IPv6."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSpan:
    """The encrypted network between the members; an MTU in bytes."""

    enabled: bool = False
    force_routing: bool = True
    """Packets to a peer that is down are lost, not sent in the clear."""
    advertise_kubernetes_networks: bool = False
    harvest_extra_endpoints: bool = False
    mtu: int = DEFAULT_MTU
    endpoint_filters: tuple[str, ...] = ()
    """Prefixes and addresses; ``!`` before one excludes it."""
    exclude_advertised_networks: tuple[str, ...] = ()


def kubespan(config: Config) -> KubeSpan:
    """The settings; those of a config that has none are off."""
    network = config.machine.network if config.machine else None
    chosen = config.find(KubeSpanConfig) or (network.kubespan if network else None)
    if chosen is None:
        return KubeSpan()
    filters = chosen.filters
    return KubeSpan(
        enabled=bool(chosen.enabled),
        force_routing=not chosen.allow_down_peer_bypass,
        advertise_kubernetes_networks=bool(chosen.advertise_kubernetes_networks),
        harvest_extra_endpoints=bool(chosen.harvest_extra_endpoints),
        mtu=chosen.mtu or DEFAULT_MTU,
        endpoint_filters=(filters.endpoints if filters else None) or (),
        exclude_advertised_networks=(filters.exclude_advertised_networks if filters else None) or (),
    )


def kubespan_extra_endpoints(config: Config) -> tuple[str, ...]:
    """Addresses with ports that the node announces beside its own, of all documents."""
    documents = config.find_all(KubeSpanEndpointsConfig)
    return tuple(text for document in documents for text in document.extra_announced_endpoints or ())
