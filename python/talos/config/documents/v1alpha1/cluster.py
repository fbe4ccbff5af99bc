"""The main document's ``cluster``."""

from collections.abc import Mapping
from dataclasses import dataclass

from talos.config.documents.certificate import (
    PEMEncodedCertificate,
    PEMEncodedCertificateAndKey,
    PEMEncodedKey,
)
from talos.config.documents.v1alpha1.cluster_network import ClusterNetworkConfig
from talos.config.documents.v1alpha1.control_plane import (
    APIServerConfig,
    ControllerManagerConfig,
    ControlPlaneConfig,
    ProxyConfig,
    SchedulerConfig,
)
from talos.config.documents.v1alpha1.discovery import ClusterDiscoveryConfig
from talos.config.documents.v1alpha1.etcd import EtcdConfig
from talos.config.schema import Applies, Section, setting
from talos.config.values import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreDNS(Section):
    """DNS server of the cluster."""

    disabled: bool | None = setting("disable it")
    image: str | None = setting("container image")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalCloudProviderConfig(Section):
    """An external cloud provider."""

    enabled: bool | None = setting("use one")
    manifests: tuple[str, ...] | None = setting("its manifests")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInlineManifest(Section):
    """Manifests to apply."""

    name: str = setting("name of the manifest", default="")
    contents: str = setting("the manifest", default="", private=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminKubeconfigConfig(Section):
    """Kubeconfig files for administrators."""

    cert_lifetime: Duration | None = setting("lifetime of their certificate (default: 8760h (1 year))")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig(Section):
    """The cluster the machine belongs to."""

    id: str | None = setting("the cluster's id for discovery", replaced_by=("DiscoveryIdentityConfig",))
    secret: str | None = setting(
        "what discovery data is encrypted with", secret=True, replaced_by=("DiscoveryIdentityConfig",)
    )
    control_plane: ControlPlaneConfig | None = setting(
        "how the control plane is reached", replaced_by=("KubeClusterConfig",)
    )
    cluster_name: str | None = setting("name of the cluster", replaced_by=("KubeClusterConfig",))
    network: ClusterNetworkConfig | None = setting(
        "networks of the cluster", replaced_by=("KubeNetworkConfig", "KubeFlannelCNIConfig")
    )
    token: str | None = setting("token with which kubelets join", secret=True)
    aescbc_encryption_secret: str | None = setting(
        "key for AES-CBC encryption in etcd", secret=True, replaced_by=("KubeEtcdEncryptionConfig",)
    )
    secretbox_encryption_secret: str | None = setting(
        "key for secretbox encryption in etcd", secret=True, replaced_by=("KubeEtcdEncryptionConfig",)
    )
    ca: PEMEncodedCertificateAndKey | None = setting(
        "certificate authority of the Kubernetes API", replaced_by=("KubeAPIServerCAConfig",)
    )
    accepted_cas: tuple[PEMEncodedCertificate, ...] | None = setting(
        "further authorities that are accepted", key="acceptedCAs", replaced_by=("KubeAPIServerCAConfig",)
    )
    aggregator_ca: PEMEncodedCertificateAndKey | None = setting(
        "certificate authority of API aggregation", key="aggregatorCA"
    )
    service_account: PEMEncodedKey | None = setting(
        "key that signs service account tokens", replaced_by=("KubeServiceAccountConfig",)
    )
    api_server: APIServerConfig | None = setting("kube-apiserver", replaced_by=("KubeAPIServerConfig",))
    controller_manager: ControllerManagerConfig | None = setting(
        "kube-controller-manager", replaced_by=("KubeControllerManagerConfig",)
    )
    proxy: ProxyConfig | None = setting("kube-proxy", replaced_by=("KubeProxyConfig",))
    scheduler: SchedulerConfig | None = setting("kube-scheduler", replaced_by=("KubeSchedulerConfig",))
    discovery: ClusterDiscoveryConfig | None = setting(
        "how members find each other", replaced_by=("DiscoveryServiceConfig",)
    )
    etcd: EtcdConfig | None = setting("etcd", applies=Applies.REBOOT)
    core_dns: CoreDNS | None = setting(
        "DNS server of the cluster", key="coreDNS", replaced_by=("KubeCoreDNSConfig",)
    )
    external_cloud_provider: ExternalCloudProviderConfig | None = setting(
        "an external cloud provider",
        example={"enabled": True, "manifests": ["https://cloud.example.com/controller.yaml"]},
    )
    extra_manifests: tuple[str, ...] | None = setting(
        "URLs of manifests to apply", replaced_by=("KubeExternalManifestConfig",), private=True
    )
    extra_manifest_headers: Mapping[str, str] | None = setting(
        "headers to fetch them with", replaced_by=("KubeExternalManifestConfig",), private=True
    )
    inline_manifests: tuple[ClusterInlineManifest, ...] | None = setting(
        "manifests to apply", replaced_by=("KubeInlineManifestConfig",)
    )
    admin_kubeconfig: AdminKubeconfigConfig | None = setting(
        "kubeconfig files for administrators", example={"certLifetime": "1h"}
    )
    allow_scheduling_on_masters: bool | None = setting(
        "former name of allowSchedulingOnControlPlanes", replaced_by=("KubeNodeConfig",)
    )
    allow_scheduling_on_control_planes: bool | None = setting(
        "run ordinary pods on control plane nodes too", replaced_by=("KubeNodeConfig",)
    )
