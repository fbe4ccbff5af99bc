"""``machine.network``."""

from dataclasses import dataclass

from talos.config.documents.v1alpha1.device import Device
from talos.config.schema import UINT32, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraHost(Section):
    """Further lines of /etc/hosts."""

    ip: str = setting("the address", default="")
    aliases: tuple[str, ...] = setting("names of the address", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSpanFilters(Section):
    """Filters of endpoints and networks."""

    endpoints: tuple[str, ...] | None = setting("announced endpoints; ! excludes")
    exclude_advertised_networks: tuple[str, ...] | None = setting("excluded networks")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkKubeSpan(Section):
    """Encrypted network between members."""

    enabled: bool | None = setting("enable it")
    advertise_kubernetes_networks: bool | None = setting("carry pod networks too")
    allow_down_peer_bypass: bool | None = setting("use the ordinary network while a peer is down")
    harvest_extra_endpoints: bool | None = setting("publish endpoints that peers were seen at")
    mtu: int | None = setting("largest packet (default: 1420)", bounds=UINT32)
    filters: KubeSpanFilters | None = setting("filters of endpoints and networks")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig(Section):
    """Network of the machine."""

    hostname: str | None = setting("fixed name of the node", replaced_by=("HostnameConfig",))
    interfaces: tuple[Device, ...] | None = setting(
        "links and their settings", merge_key="interface|deviceSelector"
    )
    nameservers: tuple[str, ...] | None = setting("DNS servers", replaced_by=("ResolverConfig",))
    search_domains: tuple[str, ...] | None = setting(
        "domains to try for short names", replaced_by=("ResolverConfig",)
    )
    extra_host_entries: tuple[ExtraHost, ...] | None = setting(
        "further lines of /etc/hosts", replaced_by=("StaticHostConfig",)
    )
    kubespan: NetworkKubeSpan | None = setting(
        "encrypted network between members", replaced_by=("KubeSpanConfig",)
    )
    disable_search_domain: bool | None = setting(
        "do not add the node's own domain", replaced_by=("ResolverConfig",)
    )
