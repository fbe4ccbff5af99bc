"""Versions of the config's form, and the defaults that belong to the current one.

parse_contract("v1.15.0-alpha.1") -> (1, 15)
"""

import re

from talos.system.errors import UserError

type Contract = tuple[int, int]
"""Major and minor version of Talos."""

CURRENT: Contract = (1, 15)

# The first version that has each of these, or enables it by default.
POD_SECURITY: Contract = (1, 1)
STABLE_HOSTNAME: Contract = (1, 2)
SECCOMP_DEFAULT: Contract = (1, 2)
NO_KUBERNETES_DISCOVERY: Contract = (1, 2)
ALLOW_SCHEDULING_ON_CONTROL_PLANES: Contract = (1, 2)
KEY_USAGE_CHECK: Contract = (1, 3)
AUDIT_POLICY: Contract = (1, 3)
NO_MANIFESTS_DIRECTORY: Contract = (1, 3)
SECRETBOX: Contract = (1, 3)
DISK_QUOTA: Contract = (1, 5)
KUBE_PRISM: Contract = (1, 6)
HOST_DNS: Contract = (1, 7)
RSA_SERVICE_ACCOUNT: Contract = (1, 7)
FORWARD_KUBE_DNS: Contract = (1, 8)
WORKERS_HAVE_CLUSTER_NAME: Contract = (1, 8)
NO_LOAD_BALANCER_LABEL: Contract = (1, 8)
NETWORK_DOCUMENTS: Contract = (1, 12)
"""HostnameConfig and the registries' documents; the endpoint's name is no longer added to certificates."""
UKI_CMDLINE: Contract = (1, 12)
RBAC_IMPLIED: Contract = (1, 12)
NO_POD_SECURITY_POLICY: Contract = (1, 12)
KUBE_SPAN_DOCUMENT: Contract = (1, 13)
DOCUMENTS: Contract = (1, 14)
"""Before it, Kubernetes, discovery and the installation are settings of the main document."""

OLD_REGISTRY_MIRRORS: Contract = (1, 2)
"""The only version whose configs have mirrors for Kubernetes' former registry."""

KUBERNETES_VERSION = "1.37.0-rc.1"
KUBERNETES_MINORS = ((1, 32), (1, 37))
"""The oldest and the newest that nodes run: six, as upstream, up to the one that was tried."""

CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
"""Label of control plane nodes, and key of the taint that keeps other pods from them."""

KUBELET_IMAGE = "ghcr.io/siderolabs/kubelet"
KUBE_API_SERVER_IMAGE = "registry.k8s.io/kube-apiserver"
KUBE_CONTROLLER_MANAGER_IMAGE = "registry.k8s.io/kube-controller-manager"
KUBE_SCHEDULER_IMAGE = "registry.k8s.io/kube-scheduler"
KUBE_PROXY_IMAGE = "registry.k8s.io/kube-proxy"
CORE_DNS_IMAGE = "registry.k8s.io/coredns/coredns:v1.14.7"
FLANNEL_IMAGE = "ghcr.io/siderolabs/flannel:v0.28.9"
FLANNEL_BACKEND = "vxlan"
FLANNEL_PORT = 4789
KUBE_NETWORK_POLICIES_IMAGE = "registry.k8s.io/networking/kube-network-policies:v1.1.1"
KUBE_SPAN_PORT = 51820
SIDEROLINK_LINK = "siderolink"
"""The point-to-point link to a management service."""
SIDEROLINK_TUNNEL_LINK = "siderolinktun"
"""The same whose packets are carried by gRPC."""

INSTALLER_IMAGE = (
    "factory.talos.dev/metal-installer/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
)
"""Without its tag, which is ``latest`` or the version installed."""

ETCD_IMAGE = "registry.k8s.io/etcd:v3.7.1"

DISCOVERY_ENDPOINT = "https://discovery.talos.dev/"
DNS_DOMAIN = "cluster.local"
POD_SUBNET, SERVICE_SUBNET = "10.244.0.0/16", "10.96.0.0/12"
DNS_INDEX = 10
"""The cluster's DNS server has this address of each network of services."""
API_SERVER_PORT = 6443
KUBE_PRISM_PORT = 7445
HOST_DNS_FOR_PODS = ("169.254.116.108", "fd54:616c:6f73::204f:5320:444e:531")
"""Addresses of the node's resolver for the cluster's DNS."""
NAMESERVERS = ("1.1.1.1", "8.8.8.8")
TIME_SERVERS = ("time.cloudflare.com",)

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\..*)?")


def name_siderolink(*, has_tunnel: bool) -> str:
    """The link to a management service, by how its packets are carried."""
    return SIDEROLINK_TUNNEL_LINK if has_tunnel else SIDEROLINK_LINK


def parse_contract(text: str) -> Contract:
    """The contract that ``--talos-version`` names; empty means the current one.

    UserError: when it is not a version.
    """
    if not text:
        return CURRENT
    found = _VERSION.fullmatch(text)
    if found is None:
        raise UserError(f'"{text}" is no version of Talos', where="--talos-version", hint="such as v1.15")
    return int(found[1]), int(found[2])
