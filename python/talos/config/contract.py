"""Versions of the config's form, and the defaults that belong to the current one.

parse_contract("v1.15.0-alpha.1") -> (1, 15)
"""

import re

from talos.system.errors import UserError

type Contract = tuple[int, int]
"""Major and minor version of Talos."""

CURRENT: Contract = (1, 15)
FIRST_WITH_DOCUMENTS: Contract = (1, 14)
"""Before it, everything about Kubernetes stood in the main document."""

KUBERNETES_VERSION = "1.37.0-rc.1"

KUBELET_IMAGE = "ghcr.io/siderolabs/kubelet"
KUBE_API_SERVER_IMAGE = "registry.k8s.io/kube-apiserver"
KUBE_CONTROLLER_MANAGER_IMAGE = "registry.k8s.io/kube-controller-manager"
KUBE_SCHEDULER_IMAGE = "registry.k8s.io/kube-scheduler"
KUBE_PROXY_IMAGE = "registry.k8s.io/kube-proxy"

INSTALLER_IMAGE = (
    "factory.talos.dev/metal-installer/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
)
"""Without its tag, which is ``latest`` or the version installed."""

DISCOVERY_ENDPOINT = "https://discovery.talos.dev/"
DNS_DOMAIN = "cluster.local"
POD_SUBNET, SERVICE_SUBNET = "10.244.0.0/16", "10.96.0.0/12"
POD_SUBNET_IPV6, SERVICE_SUBNET_IPV6 = "fc00:db8:10::/56", "fc00:db8:20::/112"
API_SERVER_PORT = 6443
KUBE_PRISM_PORT = 7445
NAMESERVERS = ("1.1.1.1", "8.8.8.8")
TIME_SERVERS = ("time.cloudflare.com",)

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\..*)?")


def parse_contract(text: str) -> Contract:
    """The contract that ``--talos-version`` names; empty means the current one.

    Raises:
        UserError: when it is no version.
    """
    if not text:
        return CURRENT
    found = _VERSION.fullmatch(text)
    if found is None:
        raise UserError(f'"{text}" is no version of Talos', hint="such as v1.15")
    return int(found[1]), int(found[2])
