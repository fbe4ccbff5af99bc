"""``ResolverConfig``: how the node resolves names."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting
from talos.config.values import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class NameserverConfig(Section):
    """DNS servers."""

    address: Address | None = setting("the server's address")
    protocol: str | None = setting("protocol", allowed=("Do53", "DoT", "DoH"))
    tls_server_name: str | None = setting("name expected in the server's certificate")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchDomainsConfig(Section):
    """Domains to try for short names."""

    domains: tuple[str, ...] | None = setting("the domains")
    disable_default: bool | None = setting("do not add the node's own domain")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDNSConfig(Section):
    """Caching resolver on the node."""

    enabled: bool | None = setting("enable it")
    forward_kube_dns_to_host: bool | None = setting(
        "let the cluster's DNS query it", key="forwardKubeDNSToHost"
    )
    resolve_member_names: bool | None = setting("resolve the names of members")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverConfig(Document):
    """How the node resolves names."""

    kind: ClassVar[str] = "ResolverConfig"

    nameservers: tuple[NameserverConfig, ...] | None = setting(
        "DNS servers", example=[{"address": "10.0.0.53"}]
    )
    search_domains: SearchDomainsConfig | None = setting("domains to try for short names")
    host_dns: HostDNSConfig | None = setting("caching resolver on the node", key="hostDNS")
