"""The effective settings of a node's network: names, resolvers, the clock, shared addresses."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from talos.config.contract import (
    TIME_SERVERS,
)
from talos.config.documents.network import resolver
from talos.config.documents.network.hcloud_vip import HCloudVIPConfig
from talos.config.documents.network.hostname import HostnameConfig
from talos.config.documents.network.layer2_vip import Layer2VIPConfig
from talos.config.documents.network.resolver import NameserverConfig, ResolverConfig
from talos.config.documents.network.static_host import StaticHostConfig
from talos.config.documents.network.time_sync import TimeSyncConfig
from talos.config.documents.v1alpha1 import features
from talos.config.documents.v1alpha1.device import DeviceVIPConfig
from talos.config.effective.sections import find_machine, find_network
from talos.config.model import Config
from talos.config.values import Address


def hostname(config: Config) -> str:
    """The configured host name, empty for none."""
    document = config.find(HostnameConfig)
    return (document and document.hostname) or find_network(config).hostname or ""


def auto_hostname(config: Config) -> str:
    """How a host name is generated when none is configured: ``stable``, ``off`` or empty."""
    document = config.find(HostnameConfig)
    if document is not None:
        return document.auto or ""
    features = find_machine(config).features
    return "stable" if features and features.stable_hostname else ""


def static_hosts(config: Config) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Addresses with their names, those of documents after the main document's."""
    entries = find_network(config).extra_host_entries or ()
    documents = config.find_all(StaticHostConfig)
    return (
        *((entry.ip, entry.aliases) for entry in entries),
        *((document.name, document.hostnames or ()) for document in documents),
    )


def nameservers(config: Config) -> tuple[NameserverConfig, ...]:
    """The DNS servers; those of the main document have an address only."""
    document = config.find(ResolverConfig)
    if document and document.nameservers is not None:
        return tuple(server for server in document.nameservers if server.address)
    return tuple(NameserverConfig(address=Address(text)) for text in find_network(config).nameservers or ())


def search_domains(config: Config) -> tuple[str, ...]:
    """Domains to try for short names."""
    document = config.find(ResolverConfig)
    if document and document.search_domains and document.search_domains.domains is not None:
        return document.search_domains.domains
    return find_network(config).search_domains or ()


def has_default_search_domain(config: Config) -> bool:
    """Whether the node's own domain is a search domain when none is configured."""
    document = config.find(ResolverConfig)
    if document and document.search_domains and document.search_domains.disable_default is not None:
        return not document.search_domains.disable_default
    return not find_network(config).disable_search_domain


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSync:
    """Synchronization of the clock. ``servers`` and ``devices`` are empty where none are configured.

    ``boot_timeout`` is in seconds, 0 for ever.
    """

    enabled: bool = True
    servers: tuple[str, ...] = ()
    use_nts: bool = False
    devices: tuple[str, ...] = ()
    boot_timeout: float = 0.0


def time_sync(config: Config) -> TimeSync:
    """How the clock is kept. NTS is the default of the document, the old settings have plain NTP alone."""
    document = config.find(TimeSyncConfig)
    if document is not None:
        ntp, ptp = document.ntp, document.ptp
        return TimeSync(
            enabled=document.enabled is not False,
            servers=(ntp.servers or TIME_SERVERS) if ntp is not None else (),
            use_nts=ntp is not None and ntp.use_nts is not False,
            devices=(ptp and ptp.devices) or (),
            boot_timeout=document.boot_timeout.seconds if document.boot_timeout else 0.0,
        )
    time = find_machine(config).time
    if time is None:
        return TimeSync()
    return TimeSync(
        enabled=not time.disabled,
        servers=time.servers or (),
        boot_timeout=time.boot_timeout.seconds if time.boot_timeout else 0.0,
    )


def host_dns(config: Config) -> resolver.HostDNSConfig | features.HostDNSConfig | None:
    """The caching resolver on the node, None where the config does not mention it."""
    document = config.find(ResolverConfig)
    if document and document.host_dns:
        return document.host_dns
    old = find_machine(config).features
    return old.host_dns if old else None


def virtual_addresses(config: Config) -> tuple[str, ...]:
    """Addresses that control plane nodes share: they belong to no node."""
    documents = (*config.find_all(Layer2VIPConfig), *config.find_all(HCloudVIPConfig))
    older = [vip.ip for vip in _list_device_vips(config)]
    return tuple(filter(None, (*(document.name for document in documents), *older)))


def hcloud_tokens(config: Config) -> Mapping[str, str]:
    """Virtual addresses that Hetzner's cloud moves, each with the token for its API."""
    older = {vip.ip or "": vip.hcloud.api_token or "" for vip in _list_device_vips(config) if vip.hcloud}
    tokens = older | {one.name: one.api_token or "" for one in config.find_all(HCloudVIPConfig)}
    return {str(ip_address(address)): token for address, token in tokens.items() if address}


def _list_device_vips(config: Config) -> list[DeviceVIPConfig]:
    devices = find_network(config).interfaces or ()
    return [part.vip for device in devices for part in (device, *(device.vlans or ())) if part.vip]
