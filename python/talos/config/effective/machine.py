"""The effective settings of a config, from the main document or a document of its own.

Every function takes a config; where both have a setting, the document takes precedence. What is absent
is None or empty, or upstream's default.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, cast

from talos.config.contract import (
    API_SERVER_PORT,
    CONTROL_PLANE_LABEL,
    DISCOVERY_ENDPOINT,
    DNS_DOMAIN,
    POD_SUBNET,
    SERVICE_SUBNET,
    TIME_SERVERS,
)
from talos.config.documents.block.zswap import ZswapConfig
from talos.config.documents.certificate import CertificateAndKey, PEMEncodedCertificateAndKey
from talos.config.documents.cluster.discovery_identity import DiscoveryIdentityConfig
from talos.config.documents.cluster.discovery_service import DiscoveryServiceConfig
from talos.config.documents.cri.base_runtime_spec import CRIBaseRuntimeSpecConfig
from talos.config.documents.cri.customization import CRICustomizationConfig
from talos.config.documents.cri.image_cache import ImageCacheConfig
from talos.config.documents.hardware.pci_driver_rebind import PCIDriverRebindConfig
from talos.config.documents.kubernetes.aggregator_ca import KubeAggregatorCAConfig
from talos.config.documents.kubernetes.api_server import KubeAPIServerConfig
from talos.config.documents.kubernetes.api_server_ca import KubeAPIServerCAConfig
from talos.config.documents.kubernetes.cluster import KubeClusterConfig
from talos.config.documents.kubernetes.etcd_encryption import KubeEtcdEncryptionConfig
from talos.config.documents.kubernetes.network import KubeNetworkConfig
from talos.config.documents.kubernetes.node import KubeNodeConfig
from talos.config.documents.kubernetes.service_account import KubeServiceAccountConfig
from talos.config.documents.network import resolver
from talos.config.documents.network.hcloud_vip import HCloudVIPConfig
from talos.config.documents.network.hostname import HostnameConfig
from talos.config.documents.network.layer2_vip import Layer2VIPConfig
from talos.config.documents.network.resolver import NameserverConfig, ResolverConfig
from talos.config.documents.network.static_host import StaticHostConfig
from talos.config.documents.network.time_sync import TimeSyncConfig
from talos.config.documents.runtime.environment import EnvironmentConfig
from talos.config.documents.runtime.etc_file import EtcFileConfig
from talos.config.documents.runtime.event_sink import EventSinkConfig
from talos.config.documents.runtime.kmsg_log import KmsgLogConfig
from talos.config.documents.runtime.oom import OOMConfig
from talos.config.documents.runtime.sysctl import SysctlConfig
from talos.config.documents.runtime.sysfs import SysfsConfig
from talos.config.documents.runtime.udev_rules import UdevRulesConfig
from talos.config.documents.runtime.watchdog_timer import WatchdogTimerConfig
from talos.config.documents.security.trusted_roots import TrustedRootsConfig
from talos.config.documents.siderolink.sidero_link import SideroLinkConfig
from talos.config.documents.v1alpha1 import features
from talos.config.documents.v1alpha1.cluster import ClusterConfig
from talos.config.documents.v1alpha1.device import DeviceVIPConfig
from talos.config.documents.v1alpha1.etcd import EtcdConfig
from talos.config.documents.v1alpha1.machine import LoggingDestination, MachineConfig, MachineFile
from talos.config.documents.v1alpha1.network import NetworkConfig
from talos.config.model import Config
from talos.config.values import NOTHING, Address, Unstructured, Url
from talos.pki.certificate import PemPair

ZSWAP_POOL_PERCENT = 20
"""Upstream's largest share of memory for pages that are compressed."""
ZSWAP = "module.zswap.parameters"
"""Where the kernel has them, below /sys."""
_NO_MACHINE = MachineConfig()
_NO_CLUSTER = ClusterConfig()
_NO_NETWORK = NetworkConfig()


def machine_token(config: Config) -> str:
    """The token that trustd requires."""
    return _machine(config).token


def os_ca(config: Config) -> PemPair | None:
    """The authority of the node's API; on workers without its key."""
    return _pair(_machine(config).ca)


def os_accepted_cas(config: Config) -> tuple[bytes, ...]:
    """Certificates of further authorities whose clients are accepted."""
    return tuple(ca.crt for ca in _machine(config).accepted_cas or () if ca.crt)


def cert_sans(config: Config) -> tuple[str, ...]:
    """Further names and addresses for the server certificates of the node's API."""
    return _machine(config).cert_sans


def hostname(config: Config) -> str:
    """The configured host name, empty for none."""
    document = config.find(HostnameConfig)
    return (document and document.hostname) or _network(config).hostname or ""


def auto_hostname(config: Config) -> str:
    """How a host name is generated when none is configured: ``stable``, ``off`` or empty."""
    document = config.find(HostnameConfig)
    if document is not None:
        return document.auto or ""
    features = _machine(config).features
    return "stable" if features and features.stable_hostname else ""


def is_image_cache_enabled(config: Config) -> bool:
    """Whether the node's own cache of images is used."""
    document = config.find(ImageCacheConfig)
    if document is not None:
        return bool(document.local and document.local.enabled)
    features = _machine(config).features
    return bool(features and features.image_cache and features.image_cache.local_enabled)


def static_hosts(config: Config) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Addresses with their names, those of documents after the main document's."""
    entries = _network(config).extra_host_entries or ()
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
    return tuple(NameserverConfig(address=Address(text)) for text in _network(config).nameservers or ())


def search_domains(config: Config) -> tuple[str, ...]:
    """Domains to try for short names."""
    document = config.find(ResolverConfig)
    if document and document.search_domains and document.search_domains.domains is not None:
        return document.search_domains.domains
    return _network(config).search_domains or ()


def has_default_search_domain(config: Config) -> bool:
    """Whether the node's own domain is a search domain when none is configured."""
    document = config.find(ResolverConfig)
    if document and document.search_domains and document.search_domains.disable_default is not None:
        return not document.search_domains.disable_default
    return not _network(config).disable_search_domain


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
    time = _machine(config).time
    if time is None:
        return TimeSync()
    return TimeSync(
        enabled=not time.disabled,
        servers=time.servers or (),
        boot_timeout=time.boot_timeout.seconds if time.boot_timeout else 0.0,
    )


def sysctls(config: Config) -> Mapping[str, str]:
    """Kernel parameters."""
    document = config.find(SysctlConfig)
    return {**(_machine(config).sysctls or {}), **((document and document.params) or {})}


def watchdog_timer(config: Config) -> WatchdogTimerConfig | None:
    """The hardware watchdog, None when it is off."""
    return config.find(WatchdogTimerConfig)


def log_destinations(config: Config) -> tuple[LoggingDestination, ...]:
    """Where the services' logs are sent."""
    logging = _machine(config).logging
    return tuple(item for item in (logging.destinations if logging else ()) if item.endpoint)


def kernel_log_destinations(config: Config) -> tuple[str, ...]:
    """Where the kernel's log is sent, as URLs."""
    return tuple(document.url for document in config.find_all(KmsgLogConfig) if document.url)


def event_sink(config: Config) -> str:
    """Where events are sent, empty for nowhere."""
    document = config.find(EventSinkConfig)
    return (document and document.endpoint) or ""


def siderolink_url(config: Config) -> str:
    """SideroLink's API with what lets the node join, empty for none."""
    document = config.find(SideroLinkConfig)
    return (document and document.api_url) or ""


def unique_machine_token(config: Config) -> str:
    """The token of this machine alone, as SideroLink's server gave it; empty for none."""
    document = config.find(SideroLinkConfig)
    return (document and document.unique_token) or ""


def etc_files(config: Config) -> tuple[EtcFileConfig, ...]:
    """Files below /etc."""
    return config.find_all(EtcFileConfig)


def trusted_roots(config: Config) -> tuple[tuple[str, str], ...]:
    """Authorities that the node trusts beside those of the image: names, and certificates in PEM."""
    return tuple((one.name, one.certificates or "") for one in config.find_all(TrustedRootsConfig))


def oom(config: Config) -> OOMConfig | None:
    """What happens when memory runs out, None for the defaults."""
    return config.find(OOMConfig)


def pci_drivers(config: Config) -> Mapping[str, str]:
    """Drivers of PCI devices other than the kernel's choice, by the device's address."""
    return {one.name: one.target_driver for one in config.find_all(PCIDriverRebindConfig) if one.name}


def sysfs(config: Config) -> Mapping[str, str]:
    """Kernel parameters under /sys: those of ``ZswapConfig``, which named ones replace."""
    document = config.find(SysfsConfig)
    return {
        **_zswap(config.find(ZswapConfig)),
        **(_machine(config).sysfs or {}),
        **((document and document.params) or {}),
    }


def _zswap(document: ZswapConfig | None) -> Mapping[str, str]:
    if document is None:
        return {}
    percent = document.max_pool_percent
    return {
        f"{ZSWAP}.enabled": "Y",
        f"{ZSWAP}.max_pool_percent": str(ZSWAP_POOL_PERCENT if percent is None else percent),
        f"{ZSWAP}.shrinker_enabled": "Y" if document.shrinker_enabled else "N",
    }


def host_dns(config: Config) -> resolver.HostDNSConfig | features.HostDNSConfig | None:
    """The caching resolver on the node, None where the config does not mention it."""
    document = config.find(ResolverConfig)
    if document and document.host_dns:
        return document.host_dns
    old = _machine(config).features
    return old.host_dns if old else None


def environment(config: Config) -> Mapping[str, str]:
    """Environment variables of the node's services."""
    document = config.find(EnvironmentConfig)
    return {**(_machine(config).env or {}), **((document and document.variables) or {})}


def cluster_name(config: Config) -> str:
    """The cluster's name."""
    document = config.find(KubeClusterConfig)
    return document.cluster_name if document else _cluster(config).cluster_name or ""


def cluster_endpoint(config: Config) -> Url | None:
    """The URL of the Kubernetes API."""
    document = config.find(KubeClusterConfig)
    if document:
        return document.endpoint
    control_plane = _cluster(config).control_plane
    return control_plane.endpoint if control_plane else None


def cluster_id(config: Config) -> str:
    """The cluster's id for discovery."""
    document = config.find(DiscoveryIdentityConfig)
    return document.cluster_id if document else _cluster(config).id or ""


def cluster_secret(config: Config) -> str:
    """The key that encrypts discovery data, base64 of 32 bytes."""
    document = config.find(DiscoveryIdentityConfig)
    return document.cluster_secret if document else _cluster(config).secret or ""


def discovery_endpoints(config: Config) -> Mapping[str, str]:
    """URLs of the discovery services by name; none when discovery is off.

    That of the main document is named ``legacy``, and goes before all documents, as upstream.
    """
    discovery = _cluster(config).discovery
    if discovery and discovery.enabled and not discovery.registries.service.disabled:
        return {"legacy": discovery.registries.service.endpoint or DISCOVERY_ENDPOINT}
    return {document.name: document.endpoint for document in config.find_all(DiscoveryServiceConfig)}


def has_kubernetes_registry(config: Config) -> bool:
    """Whether members are to be found in Kubernetes, too; on unless switched off, as upstream."""
    discovery = _cluster(config).discovery
    return bool(discovery and discovery.enabled and not discovery.registries.kubernetes.disabled)


def has_discovery(config: Config) -> bool:
    """Whether discovery of the cluster's members is on."""
    discovery = _cluster(config).discovery
    return config.find(DiscoveryServiceConfig) is not None or bool(discovery and discovery.enabled)


def api_server_port(config: Config) -> int:
    """The port of the Kubernetes API on a control plane node itself."""
    document = config.find(KubeAPIServerConfig)
    if document is not None:
        return document.api_port or API_SERVER_PORT
    control_plane = _cluster(config).control_plane
    return (control_plane.local_api_server_port if control_plane else None) or API_SERVER_PORT


def registers_with_fqdn(config: Config) -> bool:
    """Whether the node's name in Kubernetes is its full domain name."""
    document = config.find(KubeNodeConfig)
    if document is not None:
        return bool(document.register_with_fqdn)
    kubelet = _machine(config).kubelet
    return bool(kubelet and kubelet.register_with_fqdn)


def skips_node_registration(config: Config) -> bool:
    """Whether the kubelet does not register with the Kubernetes API."""
    document = config.find(KubeNodeConfig)
    if document is not None:
        return bool(document.skip_node_registration)
    kubelet = _machine(config).kubelet
    return bool(kubelet and kubelet.skip_node_registration)


def bootstrap_token(config: Config) -> str:
    """The token with which kubelets join."""
    return _cluster(config).token or ""


def etcd(config: Config) -> EtcdConfig | None:
    """The settings of etcd, None where it does not run."""
    return _cluster(config).etcd


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
    devices = _network(config).interfaces or ()
    return [part.vip for device in devices for part in (device, *(device.vlans or ())) if part.vip]


def etcd_ca(config: Config) -> PemPair | None:
    """The authority of etcd."""
    etcd = _cluster(config).etcd
    return _pair(etcd.ca) if etcd else None


def kubernetes_ca(config: Config) -> PemPair | None:
    """The authority of the Kubernetes API; on workers without its key."""
    document = config.find(KubeAPIServerCAConfig)
    if document is None:
        return _pair(_cluster(config).ca)
    if document.issuing_ca is not None:
        return _text_pair(document.issuing_ca)
    return PemPair(document.accepted_cas[0].encode()) if document.accepted_cas else None


def kubernetes_cas(config: Config) -> list[bytes]:
    """The authorities of the Kubernetes API that a node accepts, PEM, the issuing one first."""
    document = config.find(KubeAPIServerCAConfig)
    accepted = [crt.encode() for crt in (document.accepted_cas if document else None) or ()]
    if document is None:
        accepted = [found.crt for found in _cluster(config).accepted_cas or () if found.crt]
    issuing = kubernetes_ca(config)
    return list(dict.fromkeys([*([issuing.crt] if issuing else []), *accepted]))


def aggregator_ca(config: Config) -> PemPair | None:
    """The authority of API aggregation."""
    document = config.find(KubeAggregatorCAConfig)
    if document is None:
        return _pair(_cluster(config).aggregator_ca)
    return _text_pair(document.issuing_ca) if document.issuing_ca else None


def service_account_key(config: Config) -> bytes:
    """The key that signs service account tokens, PEM."""
    document = config.find(KubeServiceAccountConfig)
    if document is not None:
        return document.issuer.private_key.encode()
    key = _cluster(config).service_account
    return (key and key.key) or b""


def secretbox_secret(config: Config) -> str:
    """The key for secretbox encryption in etcd."""
    return _encryption_secret(config, "secretbox") or _cluster(config).secretbox_encryption_secret or ""


def aescbc_secret(config: Config) -> str:
    """The key for AES-CBC encryption in etcd."""
    return _encryption_secret(config, "aescbc") or _cluster(config).aescbc_encryption_secret or ""


def encrypts_secrets(config: Config) -> bool:
    """Whether the API server encrypts anything that it stores in etcd."""
    document = config.find(KubeEtcdEncryptionConfig)
    given = document.config if document else None
    others = any(_find_key(given, provider) for provider in ("aesgcm", "kms"))
    return bool(others or secretbox_secret(config) or aescbc_secret(config))


def dns_domain(config: Config) -> str:
    """The cluster's domain."""
    document = config.find(KubeNetworkConfig)
    network = _cluster(config).network
    return (document and document.dns_domain) or (network and network.dns_domain) or DNS_DOMAIN


def pod_subnets(config: Config) -> tuple[str, ...]:
    """Networks of pods; of a cluster whose config names none, the default one."""
    document = config.find(KubeNetworkConfig)
    network = _cluster(config).network
    chosen = document.pod_subnets if document else network.pod_subnets if network else ()
    return chosen or ((POD_SUBNET,) if _has_cluster(config) else ())


def service_subnets(config: Config) -> tuple[str, ...]:
    """Networks of services; of a cluster whose config names none, the default one."""
    document = config.find(KubeNetworkConfig)
    network = _cluster(config).network
    chosen = document.service_subnets if document else network.service_subnets if network else ()
    return chosen or ((SERVICE_SUBNET,) if _has_cluster(config) else ())


def _has_cluster(config: Config) -> bool:
    return config.cluster is not None or config.find(KubeClusterConfig) is not None


def node_labels(config: Config) -> Mapping[str, str]:
    """Labels of the Kubernetes node; the main document leaves a control plane's own to the system."""
    document = config.find(KubeNodeConfig)
    if document is not None:
        return document.labels or {}
    own = {CONTROL_PLANE_LABEL: ""} if config.machine_type.is_control_plane else {}
    return {**own, **(_machine(config).node_labels or {})}


def node_taints(config: Config) -> Mapping[str, str]:
    """Taints of the Kubernetes node; the main document leaves a control plane's own to the system."""
    document = config.find(KubeNodeConfig)
    if document is not None:
        return document.taints or {}
    tainted = config.machine_type.is_control_plane and not _schedules_on_control_planes(config)
    own = {CONTROL_PLANE_LABEL: "NoSchedule"} if tainted else {}
    return {**own, **(_machine(config).node_taints or {})}


def _schedules_on_control_planes(config: Config) -> bool:
    cluster = _cluster(config)
    newer = cluster.allow_scheduling_on_control_planes
    return bool(cluster.allow_scheduling_on_masters if newer is None else newer)


def node_annotations(config: Config) -> Mapping[str, str]:
    """Annotations of the Kubernetes node."""
    document = config.find(KubeNodeConfig)
    return (document.annotations if document else _machine(config).node_annotations) or {}


CUSTOMIZATION_FILE, CUSTOMIZATION = "/etc/cri/conf.d/20-customization.part", "customization"
"""A file of the main document that is none: a part of containerd's configuration, and its name."""


def files(config: Config) -> tuple[MachineFile, ...]:
    """Files to write at each boot."""
    return tuple(file for file in _machine(config).files or () if file.path != CUSTOMIZATION_FILE)


def cri_customizations(config: Config) -> Mapping[str, str]:
    """Parts of containerd's configuration by name; a document's goes before the main one's."""
    contents = [file.content for file in _machine(config).files or () if file.path == CUSTOMIZATION_FILE]
    older = {CUSTOMIZATION: contents[-1]} if contents else {}
    documents = config.find_all(CRICustomizationConfig)
    return {**older, **{document.name: document.content or "" for document in documents}}


def seccomp_profiles(config: Config) -> Mapping[str, Unstructured]:
    """Filters of system calls for pods, by the name of their file."""
    return {one.name: one.value or NOTHING for one in _machine(config).seccomp_profiles or ()}


def runtime_spec_overrides(config: Config) -> Unstructured:
    """Changes to the OCI runtime spec that every container starts from."""
    document = config.find(CRIBaseRuntimeSpecConfig)
    chosen = document.overrides if document else _machine(config).base_runtime_spec_overrides
    return chosen or NOTHING


def _machine(config: Config) -> MachineConfig:
    return config.machine or _NO_MACHINE


def _cluster(config: Config) -> ClusterConfig:
    return config.cluster or _NO_CLUSTER


def udev_rules(config: Config) -> tuple[str, ...]:
    """Rules for devices, in their order; those of the document after the main one's."""
    udev, document = _machine(config).udev, config.find(UdevRulesConfig)
    return (*((udev and udev.rules) or ()), *((document and document.rules) or ()))


def _network(config: Config) -> NetworkConfig:
    return _machine(config).network or _NO_NETWORK


def _pair(pair: PEMEncodedCertificateAndKey | None) -> PemPair | None:
    return PemPair(pair.crt, pair.key or b"") if pair and pair.crt else None


def _text_pair(pair: CertificateAndKey) -> PemPair | None:
    return PemPair(pair.cert.encode(), (pair.key or "").encode()) if pair.cert else None


def _encryption_secret(config: Config, provider: str) -> str:
    document = config.find(KubeEtcdEncryptionConfig)
    provider_config = _find_key(document.config, provider) if document else None
    keys = _find_key(provider_config, "keys")
    first = cast("list[Any]", keys)[0] if isinstance(keys, list) and keys else None
    return str(_find_key(first, "secret") or "")


def _find_key(value: Any, key: str) -> Any:
    """The first value under a key anywhere in free-form data, which may have any shape."""
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        found = (_find_key(item, key) for item in mapping.values())
        return mapping[key] if key in mapping else next((item for item in found if item is not None), None)
    if isinstance(value, list):
        items = (_find_key(item, key) for item in cast("list[Any]", value))
        return next((item for item in items if item is not None), None)
    return None
