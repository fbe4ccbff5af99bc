"""Every document kind and the module that declares it.

A module is imported when the first document of its kind is read: a node needs a few of the
kinds, not all.
"""

import functools
from collections.abc import Mapping
from importlib import import_module
from typing import cast

from talos.config.schema import Document

MODULES: Mapping[str, str] = {
    "ExistingVolumeConfig": "block.existing_volume",
    "ExternalVolumeConfig": "block.external_volume",
    "FilesystemScrubConfig": "block.filesystem_scrub",
    "FilesystemTrimConfig": "block.filesystem_trim",
    "RawVolumeConfig": "block.raw_volume",
    "SwapVolumeConfig": "block.swap_volume",
    "UserVolumeConfig": "block.user_volume",
    "VolumeConfig": "block.volume",
    "ZswapConfig": "block.zswap",
    "DiscoveryIdentityConfig": "cluster.discovery_identity",
    "DiscoveryServiceConfig": "cluster.discovery_service",
    "ContainerConfig": "container.container",
    "CRIBaseRuntimeSpecConfig": "cri.base_runtime_spec",
    "CRICustomizationConfig": "cri.customization",
    "ImageCacheConfig": "cri.image_cache",
    "RegistryAuthConfig": "cri.registry_auth",
    "RegistryMirrorConfig": "cri.registry_mirror",
    "RegistryTLSConfig": "cri.registry_tls",
    "ExtensionServiceConfig": "extensions.extension_service",
    "PCIDriverRebindConfig": "hardware.pci_driver_rebind",
    "KubeAPIServerCAConfig": "kubernetes.api_server_ca",
    "KubeAPIServerConfig": "kubernetes.api_server",
    "KubeAdmissionControlConfig": "kubernetes.admission_control",
    "KubeAggregatorCAConfig": "kubernetes.aggregator_ca",
    "KubeAuditPolicyConfig": "kubernetes.audit_policy",
    "KubeAuthenticationConfig": "kubernetes.authentication",
    "KubeAuthorizerConfig": "kubernetes.authorizer",
    "KubeClusterConfig": "kubernetes.cluster",
    "KubeControllerManagerConfig": "kubernetes.controller_manager",
    "KubeCoreDNSConfig": "kubernetes.core_dns",
    "KubeCredentialProviderConfig": "kubernetes.credential_provider",
    "KubeEtcdEncryptionConfig": "kubernetes.etcd_encryption",
    "KubeExternalManifestConfig": "kubernetes.external_manifest",
    "KubeFlannelCNIConfig": "kubernetes.flannel_cni",
    "KubeInlineManifestConfig": "kubernetes.inline_manifest",
    "KubeNetworkConfig": "kubernetes.network",
    "KubeNodeConfig": "kubernetes.node",
    "KubePrismConfig": "kubernetes.prism",
    "KubeProxyConfig": "kubernetes.proxy",
    "KubeSchedulerConfig": "kubernetes.scheduler",
    "KubeServiceAccountConfig": "kubernetes.service_account",
    "KubeStaticPodConfig": "kubernetes.static_pod",
    "KubeTalosAPIAccessConfig": "kubernetes.talos_api_access",
    "KubeletConfig": "kubernetes.kubelet",
    "BGPInstanceConfig": "network.bgp_instance",
    "BlackholeRouteConfig": "network.blackhole_route",
    "BondConfig": "network.bond",
    "BridgeConfig": "network.bridge",
    "DHCPv4Config": "network.dhcp4",
    "DHCPv6Config": "network.dhcp6",
    "DummyLinkConfig": "network.dummy_link",
    "EthernetConfig": "network.ethernet",
    "HCloudVIPConfig": "network.hcloud_vip",
    "HTTPProbeConfig": "network.http_probe",
    "HostnameConfig": "network.hostname",
    "KubeSpanConfig": "network.kube_span",
    "KubeSpanEndpointsConfig": "network.kube_span_endpoints",
    "Layer2VIPConfig": "network.layer2_vip",
    "LinkAliasConfig": "network.link_alias",
    "LinkConfig": "network.link",
    "NetworkDefaultActionConfig": "network.network_default_action",
    "NetworkRuleConfig": "network.network_rule",
    "ResolverConfig": "network.resolver",
    "RoutingRuleConfig": "network.routing_rule",
    "StaticHostConfig": "network.static_host",
    "TCPProbeConfig": "network.tcp_probe",
    "TimeSyncConfig": "network.time_sync",
    "VLANConfig": "network.vlan",
    "VRFConfig": "network.vrf",
    "VethConfig": "network.veth",
    "WireguardConfig": "network.wireguard",
    "EnvironmentConfig": "runtime.environment",
    "EtcFileConfig": "runtime.etc_file",
    "EventSinkConfig": "runtime.event_sink",
    "KernelModuleConfig": "runtime.kernel_module",
    "KmsgLogConfig": "runtime.kmsg_log",
    "OOMConfig": "runtime.oom",
    "SecurityProfileConfig": "runtime.security_profile",
    "SysctlConfig": "runtime.sysctl",
    "SysfsConfig": "runtime.sysfs",
    "TrialCheckConfig": "runtime.trial_check",
    "UdevRulesConfig": "runtime.udev_rules",
    "UnattendedInstallConfig": "runtime.unattended_install",
    "WatchdogTimerConfig": "runtime.watchdog_timer",
    "ImageVerificationConfig": "security.image_verification",
    "OIDCLoginConfig": "security.oidc_login",
    "SigstoreTrustedRootConfig": "security.sigstore_trusted_root",
    "TrustedRootsConfig": "security.trusted_roots",
    "SideroLinkConfig": "siderolink.sidero_link",
    "LVMLogicalVolumeConfig": "storage.lvm_logical_volume",
    "LVMVolumeGroupConfig": "storage.lvm_volume_group",
    "RAIDArrayConfig": "storage.raid_array",
}
"""Kind to module below ``talos.config.documents``; the class has the kind's name."""

OWN_KINDS = frozenset({"OIDCLoginConfig", "SigstoreTrustedRootConfig", "TrialCheckConfig"})
"""Kinds that upstream does not have."""


@functools.cache
def document_type(kind: str) -> type[Document]:
    """The class of a kind; the main document's for the empty one.

    KeyError: when there is no such kind.
    """
    name, module = (kind, MODULES[kind]) if kind else ("V1Alpha1Config", "v1alpha1.main")
    return cast("type[Document]", getattr(import_module(f"talos.config.documents.{module}"), name))
