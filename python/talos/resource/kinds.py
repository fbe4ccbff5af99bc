"""Every resource kind the node registers, by its display name.

An empty spec is google.protobuf.Empty; a spec that upstream has only as YAML is
google.protobuf.Struct. The order is that of ``api/resources.tsv``.
"""

from collections.abc import Mapping

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from talos.api.cosi import meta_pb2 as meta
from talos.api.definitions import block_pb2 as block
from talos.api.definitions import cluster_pb2 as cluster
from talos.api.definitions import containers_pb2 as containers
from talos.api.definitions import cri_pb2 as cri
from talos.api.definitions import etcd_pb2 as etcd
from talos.api.definitions import extensions_pb2 as extensions
from talos.api.definitions import files_pb2 as files
from talos.api.definitions import hardware_pb2 as hardware
from talos.api.definitions import k8s_pb2 as k8s
from talos.api.definitions import kubeaccess_pb2 as kubeaccess
from talos.api.definitions import kubespan_pb2 as kubespan
from talos.api.definitions import network_pb2 as network
from talos.api.definitions import perf_pb2 as perf
from talos.api.definitions import runtime_pb2 as runtime
from talos.api.definitions import secrets_pb2 as secrets
from talos.api.definitions import security_pb2 as security
from talos.api.definitions import siderolink_pb2 as siderolink
from talos.api.definitions import storage_pb2 as storage
from talos.api.definitions import time_pb2 as time
from talos.api.definitions import v1alpha1_pb2 as v1alpha1
from talos.api.resource import config_pb2 as config
from talos.api.resource import device_config_pb2 as device_config
from talos.resource.kind import Kind, is_kind, make_kind

API_SERVER_CONFIG = make_kind("APIServerConfigs.kubernetes.talos.dev", k8s.APIServerConfigSpec)
API_SERVICE_CONFIG = make_kind("APIServiceConfigs.runtime.talos.dev", runtime.APIServiceConfigSpec)
ACQUIRE_CONFIG_SPEC = make_kind("AcquireConfigSpecs.v1alpha1.talos.dev", Empty)
ACQUIRE_CONFIG_STATUS = make_kind("AcquireConfigStatuses.v1alpha1.talos.dev", Empty)
ADDRESS_SPEC = make_kind("AddressSpecs.net.talos.dev", network.AddressSpecSpec)
ADDRESS_STATUS = make_kind("AddressStatuses.net.talos.dev", network.AddressStatusSpec)
ADJTIME_STATUS = make_kind("AdjtimeStatuses.v1alpha1.talos.dev", time.AdjtimeStatusSpec)
ADMISSION_CONTROL_CONFIG = make_kind(
    "AdmissionControlConfigs.kubernetes.talos.dev", k8s.AdmissionControlConfigSpec
)
AFFILIATE = make_kind("Affiliates.cluster.talos.dev", cluster.AffiliateSpec)
API_CERTIFICATE = make_kind("ApiCertificates.secrets.talos.dev", secrets.APICertsSpec)
AUDIT_POLICY_CONFIG = make_kind("AuditPolicyConfigs.kubernetes.talos.dev", k8s.AuditPolicyConfigSpec)
AUTHENTICATION_CONFIG = make_kind("AuthenticationConfigs.kubernetes.talos.dev", k8s.AuthenticationConfigSpec)
AUTHORIZATION_CONFIG = make_kind("AuthorizationConfigs.kubernetes.talos.dev", k8s.AuthorizationConfigSpec)
BGP_INSTANCE_CONFIG = make_kind("BGPInstanceConfigs.net.talos.dev", network.BGPInstanceConfigSpec)
BGP_PEER_STATUS = make_kind("BGPPeerStatuses.net.talos.dev", network.BGPPeerStatusSpec)
BASE_RUNTIME_SPEC_CONFIG = make_kind("BaseRuntimeSpecConfigs.cri.talos.dev", cri.BaseRuntimeSpecConfigSpec)
BLOCK_DEVICE = make_kind("BlockDevices.block.talos.dev", block.DeviceSpec)
BLOCK_SYMLINK = make_kind("BlockSymlinks.block.talos.dev", block.SymlinkSpec)
BOOT_ID = make_kind("BootIDs.runtime.talos.dev", runtime.BootIDSpec)
BOOTED_ENTRY = make_kind("BootedEntries.talos.dev", runtime.BootedEntrySpec)
BOOTSTRAP_MANIFESTS_CONFIG = make_kind(
    "BootstrapManifestsConfigs.kubernetes.talos.dev", k8s.BootstrapManifestsConfigSpec
)
CPU_CORE = make_kind("CPUCores.hardware.talos.dev", hardware.CPUCoreSpec)
CPU_STAT = make_kind("CPUStats.perf.talos.dev", perf.CPUSpec)
CERT_SAN = make_kind("CertSANs.secrets.talos.dev", secrets.CertSANSpec)
CONFIG_STATUS = make_kind("ConfigStatuses.kubernetes.talos.dev", k8s.ConfigStatusSpec)
CONTAINER_IMAGE_STATUS = make_kind(
    "ContainerImageStatuses.containers.talos.dev", containers.ContainerImageStatusSpec
)
CONTAINER_INSTANCE_SPEC = make_kind(
    "ContainerInstanceSpecs.containers.talos.dev", containers.ContainerInstanceSpecSpec
)
CONTAINER_SPEC = make_kind("ContainerSpecs.containers.talos.dev", containers.ContainerSpecSpec)
CONTROLLER_MANAGER_CONFIG = make_kind(
    "ControllerManagerConfigs.kubernetes.talos.dev", k8s.ControllerManagerConfigSpec
)
CUSTOMIZATION_CONFIG = make_kind("CustomizationConfigs.cri.talos.dev", cri.CustomizationConfigSpec)
DNS_RESOLVE_CACHE = make_kind("DNSResolveCaches.net.talos.dev", network.DNSResolveCacheSpec)
DNS_UPSTREAM = make_kind("DNSUpstreams.net.talos.dev", Struct)
DEVICE_CONFIG_SPEC = make_kind("DeviceConfigSpecs.net.talos.dev", device_config.DeviceConfigSpecSpec)
DEVICES_STATUS = make_kind("DevicesStatuses.runtime.talos.dev", runtime.DevicesStatusSpec)
DIAGNOSTIC = make_kind("Diagnostics.runtime.talos.dev", runtime.DiagnosticSpec)
DISCOVERED_VOLUME = make_kind("DiscoveredVolumes.block.talos.dev", block.DiscoveredVolumeSpec)
DISCOVERY_CONFIG = make_kind("DiscoveryConfigs.cluster.talos.dev", cluster.ConfigSpec)
DISCOVERY_REFRESH_REQUEST = make_kind(
    "DiscoveryRefreshRequests.block.talos.dev", block.DiscoveryRefreshRequestSpec
)
DISCOVERY_REFRESH_STATUS = make_kind(
    "DiscoveryRefreshStatuses.block.talos.dev", block.DiscoveryRefreshStatusSpec
)
DISK = make_kind("Disks.block.talos.dev", block.DiskSpec)
ENCRYPTION_SALT = make_kind("EncryptionSalts.secrets.talos.dev", secrets.EncryptionSaltSpec)
ENDPOINT = make_kind("Endpoints.kubernetes.talos.dev", k8s.EndpointSpec)
ENVIRONMENT = make_kind("Environments.runtime.talos.dev", runtime.EnvironmentSpec)
ETC_FILE_SPEC = make_kind("EtcFileSpecs.files.talos.dev", files.EtcFileSpecSpec)
ETC_FILE_STATUS = make_kind("EtcFileStatuses.files.talos.dev", files.EtcFileStatusSpec)
ETCD_CONFIG = make_kind("EtcdConfigs.etcd.talos.dev", etcd.ConfigSpec)
ETCD_ENCRYPTION_CONFIG = make_kind("EtcdEncryptionConfigs.kubernetes.talos.dev", k8s.EtcdEncryptionConfigSpec)
ETCD_MEMBER = make_kind("EtcdMembers.etcd.talos.dev", etcd.MemberSpec)
ETCD_ROOT_SECRET = make_kind("EtcdRootSecrets.secrets.talos.dev", secrets.EtcdRootSpec)
ETCD_SECRET = make_kind("EtcdSecrets.secrets.talos.dev", secrets.EtcdCertsSpec)
ETCD_SPEC = make_kind("EtcdSpecs.etcd.talos.dev", etcd.SpecSpec)
ETHERNET_SPEC = make_kind("EthernetSpecs.net.talos.dev", network.EthernetSpecSpec)
ETHERNET_STATUS = make_kind("EthernetStatuses.net.talos.dev", network.EthernetStatusSpec)
EVENT_SINK_CONFIG = make_kind("EventSinkConfigs.runtime.talos.dev", runtime.EventSinkConfigSpec)
EXTENSION_SERVICE_CONFIG_STATUS = make_kind(
    "ExtensionServiceConfigStatuses.runtime.talos.dev", runtime.ExtensionServiceConfigStatusSpec
)
EXTENSION_SERVICE_CONFIG = make_kind(
    "ExtensionServiceConfigs.runtime.talos.dev", runtime.ExtensionServiceConfigSpec
)
EXTENSION_STATUS = make_kind("ExtensionStatuses.runtime.talos.dev", extensions.Layer)
EXTRA_MANIFESTS_CONFIG = make_kind("ExtraManifestsConfigs.kubernetes.talos.dev", k8s.ExtraManifestsConfigSpec)
FS_SCRUB_SCHEDULE = make_kind("FSScrubSchedules.block.talos.dev", block.FSScrubScheduleSpec)
FS_SCRUB_STATUS = make_kind("FSScrubStatuses.block.talos.dev", block.FSScrubStatusSpec)
HARDWARE_ADDRESS = make_kind("HardwareAddresses.net.talos.dev", network.HardwareAddrSpec)
HOST_DNS_CONFIG = make_kind("HostDNSConfigs.net.talos.dev", network.HostDNSConfigSpec)
HOSTNAME_SPEC = make_kind("HostnameSpecs.net.talos.dev", network.HostnameSpecSpec)
HOSTNAME_STATUS = make_kind("HostnameStatuses.net.talos.dev", network.HostnameStatusSpec)
IDENTITY = make_kind("Identities.cluster.talos.dev", cluster.IdentitySpec)
IMAGE_CACHE_CONFIG = make_kind("ImageCacheConfigs.cri.talos.dev", cri.ImageCacheConfigSpec)
IMAGE_FACTORY_SCHEMATIC = make_kind(
    "ImageFactorySchematics.runtime.talos.dev", runtime.ImageFactorySchematicSpec
)
IMAGE_VERIFICATION_RULE = make_kind(
    "ImageVerificationRules.security.talos.dev", security.ImageVerificationRuleSpec
)
INFO = make_kind("Infos.cluster.talos.dev", cluster.InfoSpec)
KERNEL_CMDLINE = make_kind("KernelCmdlines.runtime.talos.dev", runtime.KernelCmdlineSpec)
KERNEL_MODULE_SPEC = make_kind("KernelModuleSpecs.runtime.talos.dev", runtime.KernelModuleSpecSpec)
KERNEL_MODULE_STATUS = make_kind("KernelModuleStatuses.runtime.talos.dev", runtime.KernelModuleStatusSpec)
KERNEL_PARAM_DEFAULT_SPEC = make_kind(
    "KernelParamDefaultSpecs.runtime.talos.dev", runtime.KernelParamSpecSpec
)
KERNEL_PARAM_SPEC = make_kind("KernelParamSpecs.runtime.talos.dev", runtime.KernelParamSpecSpec)
KERNEL_PARAM_STATUS = make_kind("KernelParamStatuses.runtime.talos.dev", runtime.KernelParamStatusSpec)
KMSG_LOG_CONFIG = make_kind("KmsgLogConfigs.runtime.talos.dev", runtime.KmsgLogConfigSpec)
KUBE_PRISM_CONFIG = make_kind("KubePrismConfigs.kubernetes.talos.dev", k8s.KubePrismConfigSpec)
KUBE_PRISM_ENDPOINT = make_kind("KubePrismEndpoints.kubernetes.talos.dev", k8s.KubePrismEndpointsSpec)
KUBE_PRISM_STATUS = make_kind("KubePrismStatuses.kubernetes.talos.dev", k8s.KubePrismStatusesSpec)
KUBE_SPAN_CONFIG = make_kind("KubeSpanConfigs.kubespan.talos.dev", kubespan.ConfigSpec)
KUBE_SPAN_ENDPOINT = make_kind("KubeSpanEndpoints.kubespan.talos.dev", kubespan.EndpointSpec)
KUBE_SPAN_IDENTITY = make_kind("KubeSpanIdentities.kubespan.talos.dev", kubespan.IdentitySpec)
KUBE_SPAN_PEER_SPEC = make_kind("KubeSpanPeerSpecs.kubespan.talos.dev", kubespan.PeerSpecSpec)
KUBE_SPAN_PEER_STATUS = make_kind("KubeSpanPeerStatuses.kubespan.talos.dev", kubespan.PeerStatusSpec)
KUBELET_CONFIG = make_kind("KubeletConfigs.kubernetes.talos.dev", k8s.KubeletConfigSpec)
KUBELET_KUBECONFIG = make_kind("KubeletKubeconfigs.kubernetes.talos.dev", k8s.KubeletKubeconfigSpec)
KUBELET_LIFECYCLE = make_kind("KubeletLifecycles.kubernetes.talos.dev", Empty)
KUBELET_SECRET = make_kind("KubeletSecrets.secrets.talos.dev", secrets.KubeletSpec)
KUBELET_SPEC = make_kind("KubeletSpecs.kubernetes.talos.dev", k8s.KubeletSpecSpec)
KUBELET_STATUS = make_kind("KubeletStatuses.kubernetes.talos.dev", k8s.KubeletStatusSpec)
KUBERNETES_ACCESS_CONFIG = make_kind("KubernetesAccessConfigs.cluster.talos.dev", kubeaccess.ConfigSpec)
KUBERNETES_DYNAMIC_CERT = make_kind(
    "KubernetesDynamicCerts.secrets.talos.dev", secrets.KubernetesDynamicCertsSpec
)
KUBERNETES_ROOT_SECRET = make_kind("KubernetesRootSecrets.secrets.talos.dev", secrets.KubernetesRootSpec)
KUBERNETES_SECRET = make_kind("KubernetesSecrets.secrets.talos.dev", secrets.KubernetesCertsSpec)
LVM_LOGICAL_VOLUME_SPEC = make_kind(
    "LVMLogicalVolumeSpecs.storage.talos.dev", storage.LVMLogicalVolumeSpecSpec
)
LVM_LOGICAL_VOLUME_STATUS = make_kind(
    "LVMLogicalVolumeStatuses.storage.talos.dev", storage.LVMLogicalVolumeStatusSpec
)
LVM_PHYSICAL_VOLUME_SPEC = make_kind(
    "LVMPhysicalVolumeSpecs.storage.talos.dev", storage.LVMPhysicalVolumeSpecSpec
)
LVM_PHYSICAL_VOLUME_STATUS = make_kind(
    "LVMPhysicalVolumeStatuses.storage.talos.dev", storage.LVMPhysicalVolumeStatusSpec
)
LVM_REFRESH_REQUEST = make_kind("LVMRefreshRequests.storage.talos.dev", storage.LVMRefreshRequestSpec)
LVM_VALIDATION_ERROR = make_kind("LVMValidationErrors.storage.talos.dev", storage.LVMValidationErrorSpec)
LVM_VOLUME_GROUP_SPEC = make_kind("LVMVolumeGroupSpecs.storage.talos.dev", storage.LVMVolumeGroupSpecSpec)
LVM_VOLUME_GROUP_STATUS = make_kind(
    "LVMVolumeGroupStatuses.storage.talos.dev", storage.LVMVolumeGroupStatusSpec
)
LINK_ALIAS_SPEC = make_kind("LinkAliasSpecs.net.talos.dev", network.LinkAliasSpecSpec)
LINK_REFRESH = make_kind("LinkRefreshes.net.talos.dev", network.LinkRefreshSpec)
LINK_SPEC = make_kind("LinkSpecs.net.talos.dev", network.LinkSpecSpec)
LINK_STATUS = make_kind("LinkStatuses.net.talos.dev", network.LinkStatusSpec)
LOADED_KERNEL_MODULE = make_kind("LoadedKernelModules.runtime.talos.dev", runtime.LoadedKernelModuleSpec)
MD_ARRAY_SPEC = make_kind("MDArraySpecs.storage.talos.dev", storage.MDArraySpecSpec)
MD_ARRAY_STATUS = make_kind("MDArrayStatuses.storage.talos.dev", storage.MDArrayStatusSpec)
MD_REFRESH_REQUEST = make_kind("MDRefreshRequests.storage.talos.dev", storage.MDRefreshRequestSpec)
MACHINE_CONFIG = make_kind("MachineConfigs.config.talos.dev", config.MachineConfigSpec)
MACHINE_RESET_SIGNAL = make_kind("MachineResetSignals.runtime.talos.dev", Empty)
MACHINE_STATUS = make_kind("MachineStatuses.runtime.talos.dev", runtime.MachineStatusSpec)
MACHINE_TYPE = make_kind("MachineTypes.config.talos.dev", config.MachineTypeSpec)
MAINTENANCE_ROOT_SECRET = make_kind("MaintenanceRootSecrets.secrets.talos.dev", secrets.MaintenanceRootSpec)
MAINTENANCE_SERVICE_CONFIG = make_kind(
    "MaintenanceServiceConfigs.runtime.talos.dev", runtime.MaintenanceServiceConfigSpec
)
MAINTENANCE_SERVICE_REQUEST = make_kind("MaintenanceServiceRequests.runtime.talos.dev", Empty)
MANIFEST_STATUS = make_kind("ManifestStatuses.kubernetes.talos.dev", k8s.ManifestStatusSpec)
MANIFEST = make_kind("Manifests.kubernetes.talos.dev", k8s.ManifestSpec)
MEMBER = make_kind("Members.cluster.talos.dev", cluster.MemberSpec)
MEMORY_MODULE = make_kind("MemoryModules.hardware.talos.dev", hardware.MemoryModuleSpec)
MEMORY_STAT = make_kind("MemoryStats.perf.talos.dev", perf.MemorySpec)
META_KEY = make_kind("MetaKeys.runtime.talos.dev", runtime.MetaKeySpec)
META_LOAD = make_kind("MetaLoads.runtime.talos.dev", runtime.MetaLoadedSpec)
MOUNT_REQUEST = make_kind("MountRequests.block.talos.dev", block.MountRequestSpec)
BLOCK_MOUNT_STATUS = make_kind("MountStatuses.block.talos.dev", block.MountStatusSpec)
MOUNT_STATUS = make_kind("MountStatuses.runtime.talos.dev", runtime.MountStatusSpec)
NTP_STATUS = make_kind("NTPStatuses.v1alpha1.talos.dev", time.NTPStatusSpec)
NAMESPACE = make_kind("Namespaces.meta.cosi.dev", meta.NamespaceSpec)
NETWORK_STATUS = make_kind("NetworkStatuses.net.talos.dev", network.StatusSpec)
NF_TABLES_CHAIN = make_kind("NfTablesChains.net.talos.dev", network.NfTablesChainSpec)
NODE_ADDRESS_FILTER = make_kind("NodeAddressFilters.net.talos.dev", network.NodeAddressFilterSpec)
NODE_ADDRESS_SORT_ALGORITHM = make_kind(
    "NodeAddressSortAlgorithms.net.talos.dev", network.NodeAddressSortAlgorithmSpec
)
NODE_ADDRESS = make_kind("NodeAddresses.net.talos.dev", network.NodeAddressSpec)
NODE_ANNOTATION_SPEC = make_kind("NodeAnnotationSpecs.k8s.talos.dev", k8s.NodeAnnotationSpecSpec)
NODE_CORDONED_SPEC = make_kind("NodeCordonedSpecs.k8s.talos.dev", Empty)
NODE_IP_CONFIG = make_kind("NodeIPConfigs.kubernetes.talos.dev", k8s.NodeIPConfigSpec)
NODE_IP = make_kind("NodeIPs.kubernetes.talos.dev", k8s.NodeIPSpec)
NODE_LABEL_SPEC = make_kind("NodeLabelSpecs.k8s.talos.dev", k8s.NodeLabelSpecSpec)
NODE_STATUS = make_kind("NodeStatuses.kubernetes.talos.dev", k8s.NodeStatusSpec)
NODE_TAINT_SPEC = make_kind("NodeTaintSpecs.k8s.talos.dev", k8s.NodeTaintSpecSpec)
NODENAME = make_kind("Nodenames.kubernetes.talos.dev", k8s.NodenameSpec)
OOM_ACTION = make_kind("OOMActions.talos.dev", runtime.OOMActionSpec)
OS_ROOT_SECRET = make_kind("OSRootSecrets.secrets.talos.dev", secrets.OSRootSpec)
OPERATOR_SPEC = make_kind("OperatorSpecs.net.talos.dev", network.OperatorSpecSpec)
PCI_DEVICE = make_kind("PCIDevices.hardware.talos.dev", hardware.PCIDeviceSpec)
PCI_DRIVER_REBIND_CONFIG = make_kind(
    "PCIDriverRebindConfigs.runtime.talos.dev", hardware.PCIDriverRebindConfigSpec
)
PCI_DRIVER_REBIND_STATUS = make_kind(
    "PCIDriverRebindStatuses.runtime.talos.dev", hardware.PCIDriverRebindStatusSpec
)
PCR_STATUS = make_kind("PCRStatuses.hardware.talos.dev", Empty)
PKI_STATUS = make_kind("PKIStatuses.etcd.talos.dev", etcd.PKIStatusSpec)
PLATFORM_CONFIG = make_kind("PlatformConfigs.net.talos.dev", network.PlatformConfigSpec)
PLATFORM_METADATA = make_kind("PlatformMetadatas.talos.dev", runtime.PlatformMetadataSpec)
PROBE_SPEC = make_kind("ProbeSpecs.net.talos.dev", network.ProbeSpecSpec)
PROBE_STATUS = make_kind("ProbeStatuses.net.talos.dev", network.ProbeStatusSpec)
PROCESSOR = make_kind("Processors.hardware.talos.dev", hardware.ProcessorSpec)
REBOOT_REQUEST = make_kind("RebootRequests.runtime.talos.dev", Empty)
REGISTRY_CONFIG = make_kind("RegistryConfigs.cri.talos.dev", cri.RegistriesConfigSpec)
RESOLVER_SPEC = make_kind("ResolverSpecs.net.talos.dev", network.ResolverSpecSpec)
RESOLVER_STATUS = make_kind("ResolverStatuses.net.talos.dev", network.ResolverStatusSpec)
RESOURCE_DEFINITION = make_kind("ResourceDefinitions.meta.cosi.dev", meta.ResourceDefinitionSpec)
ROUTE_SPEC = make_kind("RouteSpecs.net.talos.dev", network.RouteSpecSpec)
ROUTE_STATUS = make_kind("RouteStatuses.net.talos.dev", network.RouteStatusSpec)
ROUTING_RULE_SPEC = make_kind("RoutingRuleSpecs.net.talos.dev", network.RoutingRuleSpecSpec)
ROUTING_RULE_STATUS = make_kind("RoutingRuleStatuses.net.talos.dev", network.RoutingRuleStatusSpec)
SBOM_ITEM = make_kind("SBOMItems.talos.dev", runtime.SBOMItemSpec)
SCHEDULER_CONFIG = make_kind("SchedulerConfigs.kubernetes.talos.dev", k8s.SchedulerConfigSpec)
SECCOMP_PROFILE = make_kind("SeccompProfiles.cri.talos.dev", cri.SeccompProfileSpec)
SECRET_STATUS = make_kind("SecretStatuses.kubernetes.talos.dev", k8s.SecretsStatusSpec)
SECURITY_STATE = make_kind("SecurityStates.talos.dev", runtime.SecurityStateSpec)
SERVICE_PID = make_kind("ServicePIDs.runtime.talos.dev", runtime.ServicePIDSpec)
SERVICE = make_kind("Services.v1alpha1.talos.dev", v1alpha1.ServiceSpec)
SIDEROLINK_CONFIG = make_kind("SiderolinkConfigs.siderolink.talos.dev", siderolink.ConfigSpec)
SIDEROLINK_STATUS = make_kind("SiderolinkStatuses.siderolink.talos.dev", siderolink.StatusSpec)
SIDEROLINK_TUNNEL = make_kind("SiderolinkTunnels.siderolink.talos.dev", siderolink.TunnelSpec)
STATIC_HOST = make_kind("StaticHosts.net.talos.dev", network.StaticHostSpec)
STATIC_POD_SERVER_STATUS = make_kind(
    "StaticPodServerStatuses.kubernetes.talos.dev", k8s.StaticPodServerStatusSpec
)
STATIC_POD_STATUS = make_kind("StaticPodStatuses.kubernetes.talos.dev", k8s.StaticPodStatusSpec)
STATIC_POD = make_kind("StaticPods.kubernetes.talos.dev", k8s.StaticPodSpec)
SWAP_STATUS = make_kind("SwapStatuses.block.talos.dev", block.SwapStatusSpec)
SYSTEM_DISK = make_kind("SystemDisks.block.talos.dev", block.SystemDiskSpec)
SYSTEM_INFORMATION = make_kind("SystemInformations.hardware.talos.dev", hardware.SystemInformationSpec)
TUF_TRUSTED_ROOT = make_kind("TUFTrustedRoots.security.talos.dev", security.TUFTrustedRootSpec)
TIME_SERVER_SPEC = make_kind("TimeServerSpecs.net.talos.dev", network.TimeServerSpecSpec)
TIME_SERVER_STATUS = make_kind("TimeServerStatuses.net.talos.dev", network.TimeServerStatusSpec)
TIME_STATUS = make_kind("TimeStatuses.v1alpha1.talos.dev", time.StatusSpec)
TRUSTD_CERTIFICATE = make_kind("TrustdCertificates.secrets.talos.dev", secrets.TrustdCertsSpec)
UNATTENDED_INSTALL_STATUS = make_kind(
    "UnattendedInstallStatuses.runtime.talos.dev", runtime.UnattendedInstallStatusSpec
)
UNIQUE_MACHINE_TOKEN = make_kind("UniqueMachineTokens.runtime.talos.dev", runtime.UniqueMachineTokenSpec)
USER_DISK_CONFIG_STATUS = make_kind("UserDiskConfigStatuses.block.talos.dev", block.UserDiskConfigStatusSpec)
VERSION = make_kind("Versions.runtime.talos.dev", runtime.VersionSpec)
VOLUME_CONFIG = make_kind("VolumeConfigs.block.talos.dev", block.VolumeConfigSpec)
VOLUME_LIFECYCLE = make_kind("VolumeLifecycles.block.talos.dev", Empty)
VOLUME_MOUNT_REQUEST = make_kind("VolumeMountRequests.block.talos.dev", block.VolumeMountRequestSpec)
VOLUME_MOUNT_STATUS = make_kind("VolumeMountStatuses.block.talos.dev", block.VolumeMountStatusSpec)
VOLUME_STATUS = make_kind("VolumeStatuses.block.talos.dev", block.VolumeStatusSpec)
VOLUME_TRIM_SCHEDULE = make_kind("VolumeTrimSchedules.block.talos.dev", block.VolumeTrimScheduleSpec)
WATCHDOG_TIMER_CONFIG = make_kind("WatchdogTimerConfigs.runtime.talos.dev", runtime.WatchdogTimerConfigSpec)
WATCHDOG_TIMER_STATUS = make_kind("WatchdogTimerStatuses.runtime.talos.dev", runtime.WatchdogTimerStatusSpec)
ZSWAP_STATUS = make_kind("ZswapStatuses.block.talos.dev", block.ZswapStatusSpec)

REGISTRY: Mapping[str, Kind[Message]] = {kind.type: kind for kind in list(vars().values()) if is_kind(kind)}
"""All kinds, by type."""
