"""Checks across the documents of a config."""

from collections.abc import Iterator

from talos.config.check.kubernetes_across import check_kubernetes
from talos.config.check.note import Note
from talos.config.check.trial_checks import check_number
from talos.config.documents.block.existing_volume import ExistingVolumeConfig
from talos.config.documents.block.external_volume import ExternalVolumeConfig
from talos.config.documents.block.user_volume import UserVolumeConfig
from talos.config.documents.cluster.discovery_service import DiscoveryServiceConfig
from talos.config.documents.container.container import ContainerConfig
from talos.config.documents.kubernetes.api_server_ca import KubeAPIServerCAConfig
from talos.config.documents.kubernetes.cluster import KubeClusterConfig
from talos.config.documents.kubernetes.etcd_encryption import KubeEtcdEncryptionConfig
from talos.config.documents.network.bond import BondConfig
from talos.config.documents.network.bridge import BridgeConfig
from talos.config.documents.network.dummy_link import DummyLinkConfig
from talos.config.documents.network.kube_span import KubeSpanConfig
from talos.config.documents.network.link import LinkConfig
from talos.config.documents.network.resolver import ResolverConfig
from talos.config.documents.network.veth import VethConfig
from talos.config.documents.network.vlan import VLANConfig
from talos.config.documents.network.vrf import VRFConfig
from talos.config.documents.network.wireguard import WireguardConfig
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import network as effective_network
from talos.config.model import Config
from talos.config.schema import Document

CONTROL_PLANE_KINDS = frozenset({
    "HCloudVIPConfig", "KubeAPIServerConfig", "KubeAdmissionControlConfig", "KubeAggregatorCAConfig",
    "KubeAuditPolicyConfig", "KubeAuthenticationConfig", "KubeAuthorizerConfig", "KubeCoreDNSConfig",
    "KubeControllerManagerConfig", "KubeEtcdEncryptionConfig",
    "KubeExternalManifestConfig", "KubeFlannelCNIConfig",
    "KubeInlineManifestConfig", "KubeProxyConfig", "KubeSchedulerConfig", "KubeServiceAccountConfig",
    "KubeTalosAPIAccessConfig", "Layer2VIPConfig",
})  # fmt: skip
"""Kinds that only control plane nodes use."""


def check_across(config: Config, *, in_container: bool) -> Iterator[Note]:
    """Documents that need or exclude each other."""
    yield from _check_host_dns(config, in_container=in_container)
    yield from _check_discovery(config)
    yield from _check_control_plane(config)
    yield from check_kubernetes(config)
    yield from _check_links(config)
    yield from _check_dependencies(config)
    yield from _check_mount_points(config)
    yield from check_number(config)


def _check_host_dns(config: Config, *, in_container: bool) -> Iterator[Note]:
    host_dns = effective_network.host_dns(config)
    document = config.find(ResolverConfig)
    hint = "add ResolverConfig with hostDNS: {enabled: true, forwardKubeDNSToHost: true}"
    if in_container and host_dns is None:
        yield Note("hostDNS is missing, containers need it", hint=hint)
    elif in_container and host_dns is not None:
        if not host_dns.enabled:
            yield Note("hostDNS must be enabled in containers", document, "hostDNS.enabled", hint)
        if not host_dns.forward_kube_dns_to_host:
            yield Note("must be true in containers", document, "hostDNS.forwardKubeDNSToHost", hint)
    for index, server in enumerate((document and document.nameservers) or ()):
        if server.protocol not in {None, "Do53"} and not (host_dns and host_dns.enabled):
            place = Note.at(document, f"nameservers[{index}].protocol")
            yield place.find("needs hostDNS", hint="set hostDNS.enabled to true")


def _check_discovery(config: Config) -> Iterator[Note]:
    service, kubespan = config.find(DiscoveryServiceConfig), config.find(KubeSpanConfig)
    legacy = config.machine.network.kubespan if config.machine and config.machine.network else None
    if service is not None:
        for name, value in (
            ("cluster id", effective_cluster.cluster_id(config)),
            ("cluster secret", effective_cluster.cluster_secret(config)),
        ):
            if not value:
                yield Note(f"needs a {name}", service, hint="add DiscoveryIdentityConfig")
    enabled = kubespan.enabled if kubespan else legacy.enabled if legacy else False
    if enabled and not effective_cluster.has_discovery(config):
        place = Note.at(kubespan) if kubespan else Note.at(config.main, "machine.network.kubespan")
        yield place.find("needs discovery", hint="add DiscoveryServiceConfig and DiscoveryIdentityConfig")


def _check_control_plane(config: Config) -> Iterator[Note]:
    cluster = config.cluster
    if not config.machine_type.is_control_plane:
        for document in config.documents:
            if document.kind in CONTROL_PLANE_KINDS:
                yield Note("is for control plane nodes", document, hint="leave it out for workers")
    has_legacy_ca = cluster is not None and cluster.ca is not None
    if config.find(KubeAPIServerCAConfig) is None and not has_legacy_ca:
        return
    if config.find(KubeClusterConfig) is None and effective_cluster.cluster_endpoint(config) is None:
        hint = "add KubeClusterConfig with clusterName and endpoint"
        yield Note("the URL of the Kubernetes API is missing", config.main, "cluster", hint)
    encrypted = config.find(KubeEtcdEncryptionConfig) or (
        cluster and (cluster.secretbox_encryption_secret or cluster.aescbc_encryption_secret)
    )
    if config.machine_type.is_control_plane and not encrypted:
        hint = "add KubeEtcdEncryptionConfig"
        yield Note("the encryption of secrets in etcd is missing", config.main, "cluster", hint)


def _link_names(document: Document) -> Iterator[tuple[str, str]]:
    match document:
        case VethConfig():
            yield document.name, "name"
            yield document.peer.name, "peer.name"
        case (
            BondConfig()
            | BridgeConfig()
            | DummyLinkConfig()
            | LinkConfig()
            | VLANConfig()
            | VRFConfig()
            | WireguardConfig()
        ):
            yield document.name, "name"
        case _:
            pass


def _check_links(config: Config) -> Iterator[Note]:
    seen: dict[str, Document] = {}
    for document in config.documents:
        for name, path in _link_names(document):
            if name and name in seen:
                yield Note(f'"{name}" is also set by {seen[name].id}', document, path, hint="keep one")
            seen.setdefault(name, document)


def _check_dependencies(config: Config) -> Iterator[Note]:
    """Containers depend on containers that exist, without cycles."""
    found = config.find_all(ContainerConfig)
    containers = {container.name: container for container in found}
    waits = {
        name: tuple((container.depends_on and container.depends_on.containers) or ())
        for name, container in containers.items()
    }
    for name, others in waits.items():
        for index, other in enumerate(others):
            if other not in containers:
                place = Note.at(containers[name], f"dependsOn.containers[{index}]")
                yield place.find(f'"{other}" is no container of this config')
    for name in _find_cycles(waits):
        yield Note.at(containers[name], "dependsOn.containers").find("waits for itself, through others")


def _check_mount_points(config: Config) -> Iterator[Note]:
    """Volumes of different kinds have one folder for their mount points."""
    taken: dict[str, Document] = {}
    for kind in (UserVolumeConfig, ExistingVolumeConfig, ExternalVolumeConfig):
        for document in config.find_all(kind):
            other = taken.setdefault(document.name, document)
            if other is not document:
                text = f"{other.kind} {document.name} has the same mount point"
                yield Note.at(document, "name").find(text, hint="give one of them another name")


def _find_cycles(waits: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """One name of each cycle, by depth without recursion."""
    done: set[str] = set()
    for start in waits:
        open_names: dict[str, Iterator[str]] = {}
        stack = [start] if start not in done else []
        while stack:
            name = stack[-1]
            others = open_names.setdefault(name, iter(waits.get(name, ())))
            other = next(others, None)
            if other is None:
                done.add(stack.pop())
                del open_names[name]
            elif other in open_names:
                yield other
            elif other not in done:
                stack.append(other)
