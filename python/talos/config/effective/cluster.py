"""The effective settings of a cluster and of its node in Kubernetes."""

from collections.abc import Mapping

from talos.config.contract import (
    API_SERVER_PORT,
    CONTROL_PLANE_LABEL,
    DISCOVERY_ENDPOINT,
    DNS_DOMAIN,
    POD_SUBNET,
    SERVICE_SUBNET,
)
from talos.config.documents.cluster.discovery_identity import DiscoveryIdentityConfig
from talos.config.documents.cluster.discovery_service import DiscoveryServiceConfig
from talos.config.documents.kubernetes.api_server import KubeAPIServerConfig
from talos.config.documents.kubernetes.cluster import KubeClusterConfig
from talos.config.documents.kubernetes.network import KubeNetworkConfig
from talos.config.documents.kubernetes.node import KubeNodeConfig
from talos.config.documents.v1alpha1.etcd import EtcdConfig
from talos.config.effective.sections import find_cluster, find_machine
from talos.config.model import Config
from talos.config.values import Url


def cluster_name(config: Config) -> str:
    """The cluster's name."""
    document = config.find(KubeClusterConfig)
    return document.cluster_name if document else find_cluster(config).cluster_name or ""


def cluster_endpoint(config: Config) -> Url | None:
    """The URL of the Kubernetes API."""
    document = config.find(KubeClusterConfig)
    if document:
        return document.endpoint
    control_plane = find_cluster(config).control_plane
    return control_plane.endpoint if control_plane else None


def cluster_id(config: Config) -> str:
    """The cluster's id for discovery."""
    document = config.find(DiscoveryIdentityConfig)
    return document.cluster_id if document else find_cluster(config).id or ""


def cluster_secret(config: Config) -> str:
    """The key that encrypts discovery data, base64 of 32 bytes."""
    document = config.find(DiscoveryIdentityConfig)
    return document.cluster_secret if document else find_cluster(config).secret or ""


def discovery_endpoints(config: Config) -> Mapping[str, str]:
    """URLs of the discovery services by name; none when discovery is off.

    That of the main document is named ``legacy``, and goes before all documents, as upstream.
    """
    discovery = find_cluster(config).discovery
    if discovery and discovery.enabled and not discovery.registries.service.disabled:
        return {"legacy": discovery.registries.service.endpoint or DISCOVERY_ENDPOINT}
    return {document.name: document.endpoint for document in config.find_all(DiscoveryServiceConfig)}


def has_kubernetes_registry(config: Config) -> bool:
    """Whether members are to be found in Kubernetes, too; on unless switched off, as upstream."""
    discovery = find_cluster(config).discovery
    return bool(discovery and discovery.enabled and not discovery.registries.kubernetes.disabled)


def has_discovery(config: Config) -> bool:
    """Whether discovery of the cluster's members is on."""
    discovery = find_cluster(config).discovery
    return config.find(DiscoveryServiceConfig) is not None or bool(discovery and discovery.enabled)


def api_server_port(config: Config) -> int:
    """The port of the Kubernetes API on a control plane node itself."""
    document = config.find(KubeAPIServerConfig)
    if document is not None:
        return document.api_port or API_SERVER_PORT
    control_plane = find_cluster(config).control_plane
    return (control_plane.local_api_server_port if control_plane else None) or API_SERVER_PORT


def registers_with_fqdn(config: Config) -> bool:
    """Whether the node's name in Kubernetes is its full domain name."""
    document = config.find(KubeNodeConfig)
    if document is not None:
        return bool(document.register_with_fqdn)
    kubelet = find_machine(config).kubelet
    return bool(kubelet and kubelet.register_with_fqdn)


def skips_node_registration(config: Config) -> bool:
    """Whether the kubelet does not register with the Kubernetes API."""
    document = config.find(KubeNodeConfig)
    if document is not None:
        return bool(document.skip_node_registration)
    kubelet = find_machine(config).kubelet
    return bool(kubelet and kubelet.skip_node_registration)


def etcd(config: Config) -> EtcdConfig | None:
    """The settings of etcd, None where it does not run."""
    return find_cluster(config).etcd


def dns_domain(config: Config) -> str:
    """The cluster's domain."""
    document = config.find(KubeNetworkConfig)
    network = find_cluster(config).network
    return (document and document.dns_domain) or (network and network.dns_domain) or DNS_DOMAIN


def pod_subnets(config: Config) -> tuple[str, ...]:
    """Networks of pods; of a cluster whose config names none, the default one."""
    document = config.find(KubeNetworkConfig)
    network = find_cluster(config).network
    chosen = document.pod_subnets if document else network.pod_subnets if network else ()
    return chosen or ((POD_SUBNET,) if _has_cluster(config) else ())


def service_subnets(config: Config) -> tuple[str, ...]:
    """Networks of services; of a cluster whose config names none, the default one."""
    document = config.find(KubeNetworkConfig)
    network = find_cluster(config).network
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
    return {**own, **(find_machine(config).node_labels or {})}


def node_taints(config: Config) -> Mapping[str, str]:
    """Taints of the Kubernetes node; the main document leaves a control plane's own to the system."""
    document = config.find(KubeNodeConfig)
    if document is not None:
        return document.taints or {}
    tainted = config.machine_type.is_control_plane and not _schedules_on_control_planes(config)
    own = {CONTROL_PLANE_LABEL: "NoSchedule"} if tainted else {}
    return {**own, **(find_machine(config).node_taints or {})}


def _schedules_on_control_planes(config: Config) -> bool:
    cluster = find_cluster(config)
    newer = cluster.allow_scheduling_on_control_planes
    return bool(cluster.allow_scheduling_on_masters if newer is None else newer)


def node_annotations(config: Config) -> Mapping[str, str]:
    """Annotations of the Kubernetes node."""
    document = config.find(KubeNodeConfig)
    return (document.annotations if document else find_machine(config).node_annotations) or {}
