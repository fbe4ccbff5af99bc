"""Resources of which a node has one, by kind and id.

A pair is unpacked wherever a kind and an id are parameters::

    inputs = (Input(*ids.MACHINE_TYPE),)
    machine_type = await runtime.get_or_none(*ids.MACHINE_TYPE)
"""

from google.protobuf.message import Message

from talos.resource import kinds
from talos.resource.kind import Kind

NETWORK_CONFIG = "network-config"
"""The namespace of network specs of each source, before networkd merges them."""

type Singleton[S: Message] = tuple[Kind[S], str]
"""Kind and id of one resource in its kind's own namespace."""


def _one[S: Message](kind: Kind[S], id: str) -> Singleton[S]:
    return kind, id


def id_of(resource: Singleton[Message]) -> str:
    """The id without the kind."""
    return resource[1]


ACQUIRE_CONFIG_SPEC = _one(kinds.ACQUIRE_CONFIG_SPEC, "machine-config")
ACQUIRE_CONFIG_STATUS = _one(kinds.ACQUIRE_CONFIG_STATUS, "machine-config")
ADJTIME_STATUS = _one(kinds.ADJTIME_STATUS, "node")
ADMISSION_CONTROL_CONFIG = _one(kinds.ADMISSION_CONTROL_CONFIG, "admission-control")
API_CERTIFICATE = _one(kinds.API_CERTIFICATE, "api")
API_SERVER_CONFIG = _one(kinds.API_SERVER_CONFIG, "kube-apiserver")
API_SERVICE_CONFIG = _one(kinds.API_SERVICE_CONFIG, "api")
AUDIT_POLICY_CONFIG = _one(kinds.AUDIT_POLICY_CONFIG, "audit-policy")
AUTHENTICATION_CONFIG = _one(kinds.AUTHENTICATION_CONFIG, "authentication")
AUTHORIZATION_CONFIG = _one(kinds.AUTHORIZATION_CONFIG, "authorization")
BOOTSTRAP_MANIFESTS_CONFIG = _one(kinds.BOOTSTRAP_MANIFESTS_CONFIG, "manifests")
BOOTED_ENTRY = _one(kinds.BOOTED_ENTRY, "bootedentry")
BOOT_ID = _one(kinds.BOOT_ID, "boot-id")
CERT_SAN_API = _one(kinds.CERT_SAN, "api")
CERT_SAN_KUBERNETES = _one(kinds.CERT_SAN, "k8s")
CERT_SAN_MAINTENANCE = _one(kinds.CERT_SAN, "maintenance")
CLUSTER_INFO = _one(kinds.INFO, "current")
CONFIG_STATUS = _one(kinds.CONFIG_STATUS, "static-pods")
CONTROLLER_MANAGER_CONFIG = _one(kinds.CONTROLLER_MANAGER_CONFIG, "kube-controller-manager")
CPU_STAT = _one(kinds.CPU_STAT, "latest")
DEVICES_STATUS = _one(kinds.DEVICES_STATUS, "devices")
DISCOVERY_CONFIG = _one(kinds.DISCOVERY_CONFIG, "cluster")
DISCOVERY_REFRESH_REQUEST = _one(kinds.DISCOVERY_REFRESH_REQUEST, "refresh")
DISCOVERY_REFRESH_STATUS = _one(kinds.DISCOVERY_REFRESH_STATUS, "refresh")
ENCRYPTION_SALT = _one(kinds.ENCRYPTION_SALT, "salt")
ENVIRONMENT = _one(kinds.ENVIRONMENT, "machined")
ETCD_CONFIG = _one(kinds.ETCD_CONFIG, "etcd")
ETCD_ENCRYPTION_CONFIG = _one(kinds.ETCD_ENCRYPTION_CONFIG, "etcd-encryption")
ETCD_MEMBER = _one(kinds.ETCD_MEMBER, "local")
ETCD_PKI_STATUS = _one(kinds.PKI_STATUS, "etcd")
ETCD_ROOT_SECRET = _one(kinds.ETCD_ROOT_SECRET, "etcd")
ETCD_SECRET = _one(kinds.ETCD_SECRET, "etcd")
ETCD_SERVICE = _one(kinds.SERVICE, "etcd")
EVENT_SINK_CONFIG = _one(kinds.EVENT_SINK_CONFIG, "event-sink")
ETCD_SPEC = _one(kinds.ETCD_SPEC, "etcd")
EXTRA_MANIFESTS_CONFIG = _one(kinds.EXTRA_MANIFESTS_CONFIG, "extra-manifests")
FINAL_API_SERVER_CONFIG = _one(kinds.API_SERVER_CONFIG, "final-kube-apiserver")
FINAL_CONTROLLER_MANAGER_CONFIG = _one(kinds.CONTROLLER_MANAGER_CONFIG, "final-kube-controller-manager")
FINAL_SCHEDULER_CONFIG = _one(kinds.SCHEDULER_CONFIG, "final-kube-scheduler")
HARDWARE_ADDRESS_FIRST = _one(kinds.HARDWARE_ADDRESS, "first")
HOSTNAME_SPEC = _one(kinds.HOSTNAME_SPEC, "hostname")
HOSTNAME_STATUS = _one(kinds.HOSTNAME_STATUS, "hostname")
HOST_DNS_CONFIG = _one(kinds.HOST_DNS_CONFIG, "config")
IDENTITY = _one(kinds.IDENTITY, "local")
IMAGE_CACHE_CONFIG = _one(kinds.IMAGE_CACHE_CONFIG, "image-cache")
KERNEL_CMDLINE = _one(kinds.KERNEL_CMDLINE, "cmdline")
KMSG_LOG_CONFIG = _one(kinds.KMSG_LOG_CONFIG, "kmsg-log")
KUBELET_CONFIG = _one(kinds.KUBELET_CONFIG, "kubelet")
KUBELET_KUBECONFIG = _one(kinds.KUBELET_KUBECONFIG, "kubelet")
KUBELET_LIFECYCLE = _one(kinds.KUBELET_LIFECYCLE, "kubelet")
KUBELET_SECRET = _one(kinds.KUBELET_SECRET, "kubelet")
KUBELET_SPEC = _one(kinds.KUBELET_SPEC, "kubelet")
KUBELET_STATUS = _one(kinds.KUBELET_STATUS, "kubelet")
KUBERNETES_ACCESS_CONFIG = _one(kinds.KUBERNETES_ACCESS_CONFIG, "config")
KUBE_PRISM_CONFIG = _one(kinds.KUBE_PRISM_CONFIG, "k8s-loadbalancer")
KUBE_PRISM_ENDPOINTS = _one(kinds.KUBE_PRISM_ENDPOINT, "k8s-cluster")
KUBE_SPAN_CONFIG = _one(kinds.KUBE_SPAN_CONFIG, "kubespan")
KUBE_SPAN_IDENTITY = _one(kinds.KUBE_SPAN_IDENTITY, "local")
KUBERNETES_DYNAMIC_CERT = _one(kinds.KUBERNETES_DYNAMIC_CERT, "k8s-dynamic-certs")
KUBERNETES_ROOT_SECRET = _one(kinds.KUBERNETES_ROOT_SECRET, "k8s")
KUBERNETES_SECRET = _one(kinds.KUBERNETES_SECRET, "k8s-certs")
LVM_REFRESH_REQUEST = _one(kinds.LVM_REFRESH_REQUEST, "refresh")
MACHINE_CONFIG = _one(kinds.MACHINE_CONFIG, "v1alpha1")
"""The config in force."""
MACHINE_CONFIG_MAINTENANCE = _one(kinds.MACHINE_CONFIG, "maintenance")
"""What a machine without a complete config has of one: its network can be configured."""
MACHINE_CONFIG_PERSISTENT = _one(kinds.MACHINE_CONFIG, "persistent")
"""The config that the next boot begins with."""
MACHINE_STATUS = _one(kinds.MACHINE_STATUS, "machine")
MACHINE_TYPE = _one(kinds.MACHINE_TYPE, "machine-type")
MAINTENANCE_ROOT_SECRET = _one(kinds.MAINTENANCE_ROOT_SECRET, "maintenance")
MAINTENANCE_SERVICE_CONFIG = _one(kinds.MAINTENANCE_SERVICE_CONFIG, "maintenance")
MAINTENANCE_SERVICE_REQUEST = _one(kinds.MAINTENANCE_SERVICE_REQUEST, "maintenance")
MANIFEST_STATUS = _one(kinds.MANIFEST_STATUS, "manifests")
MD_REFRESH_REQUEST = _one(kinds.MD_REFRESH_REQUEST, "refresh")
MEMORY_STAT = _one(kinds.MEMORY_STAT, "latest")
META_LOAD = _one(kinds.META_LOAD, "meta")
NETWORK_STATUS = _one(kinds.NETWORK_STATUS, "status")
NODE_ADDRESS_ACCUMULATIVE = _one(kinds.NODE_ADDRESS, "accumulative")
NODE_ADDRESS_ACCUMULATIVE_NO_K8S = _one(kinds.NODE_ADDRESS, "accumulative-no-k8s")
NODE_ADDRESS_CURRENT = _one(kinds.NODE_ADDRESS, "current")
NODE_ADDRESS_CURRENT_NO_K8S = _one(kinds.NODE_ADDRESS, "current-no-k8s")
NODE_ADDRESS_DEFAULT = _one(kinds.NODE_ADDRESS, "default")
NODE_ADDRESS_ROUTED = _one(kinds.NODE_ADDRESS, "routed")
NODE_ADDRESS_ROUTED_NO_K8S = _one(kinds.NODE_ADDRESS, "routed-no-k8s")
NODE_ADDRESS_SORT_ALGORITHM = _one(kinds.NODE_ADDRESS_SORT_ALGORITHM, "default")
NODENAME = _one(kinds.NODENAME, "nodename")
NODE_IP = _one(kinds.NODE_IP, "kubelet")
NODE_IP_CONFIG = _one(kinds.NODE_IP_CONFIG, "kubelet")
NTP_STATUS = _one(kinds.NTP_STATUS, "node")
OS_ROOT_SECRET = _one(kinds.OS_ROOT_SECRET, "os")
PLATFORM_CONFIG = _one(kinds.PLATFORM_CONFIG, "active")
"""What the platform supplies at this boot."""
PLATFORM_CONFIG_CACHED = _one(kinds.PLATFORM_CONFIG, "cached")
"""What the platform supplied at an earlier boot."""
PLATFORM_METADATA = _one(kinds.PLATFORM_METADATA, "platformmetadata")
REGISTRY_CONFIG = _one(kinds.REGISTRY_CONFIG, "registries")
RESOLVER_SPEC = _one(kinds.RESOLVER_SPEC, "resolvers")
RESOLVER_STATUS = _one(kinds.RESOLVER_STATUS, "resolvers")
SCHEDULER_CONFIG = _one(kinds.SCHEDULER_CONFIG, "kube-scheduler")
SECRET_STATUS = _one(kinds.SECRET_STATUS, "static-pods")
SECURITY_STATE = _one(kinds.SECURITY_STATE, "securitystate")
SIDEROLINK_CONFIG = _one(kinds.SIDEROLINK_CONFIG, "siderolink")
SIDEROLINK_STATUS = _one(kinds.SIDEROLINK_STATUS, "siderolink-status")
SIDEROLINK_TUNNEL = _one(kinds.SIDEROLINK_TUNNEL, "siderolink-tunnel")
STATIC_POD_SERVER_STATUS = _one(kinds.STATIC_POD_SERVER_STATUS, "static-pod-server")
SYSTEM_DISK = _one(kinds.SYSTEM_DISK, "system-disk")
SYSTEM_INFORMATION = _one(kinds.SYSTEM_INFORMATION, "systeminformation")
TIME_SERVER_SPEC = _one(kinds.TIME_SERVER_SPEC, "timeservers")
TIME_SERVER_STATUS = _one(kinds.TIME_SERVER_STATUS, "timeservers")
TIME_STATUS = _one(kinds.TIME_STATUS, "node")
TRUSTD_CERTIFICATE = _one(kinds.TRUSTD_CERTIFICATE, "trustd")
TUF_TRUSTED_ROOT = _one(kinds.TUF_TRUSTED_ROOT, "trusted_root.json")
UNATTENDED_INSTALL_STATUS = _one(kinds.UNATTENDED_INSTALL_STATUS, "unattended-install")
UNIQUE_MACHINE_TOKEN = _one(kinds.UNIQUE_MACHINE_TOKEN, "unique-machine-token")
USER_DISK_CONFIG_STATUS = _one(kinds.USER_DISK_CONFIG_STATUS, "user-disks")
VERSION = _one(kinds.VERSION, "version")
VOLUME_LIFECYCLE = _one(kinds.VOLUME_LIFECYCLE, "volume-lifecycle")
WATCHDOG_TIMER_CONFIG = _one(kinds.WATCHDOG_TIMER_CONFIG, "timer")
WATCHDOG_TIMER_STATUS = _one(kinds.WATCHDOG_TIMER_STATUS, "timer")
