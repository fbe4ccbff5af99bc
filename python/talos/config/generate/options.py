"""What a cluster's configs are made from: the flags of ``talosctl gen config``."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from talos.config import contract as current
from talos.config.contract import CURRENT, Contract
from talos.config.schema import Document
from talos.config.secrets.bundle import SecretsBundle
from talos.config.values import Url
from talos.system.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """What a cluster's configs are made from.

    ``registry_mirrors`` are texts ``registry=url``. An empty ``install_disk`` leaves the
    installation out. ``kubernetes=False`` leaves Kubernetes and etcd out.
    """

    cluster_name: str
    endpoint: str
    secrets: SecretsBundle
    kubernetes_version: str = current.KUBERNETES_VERSION
    additional_sans: Sequence[str] = ()
    dns_domain: str = current.DNS_DOMAIN
    install_disk: str = "/dev/sda"
    install_image: str = f"{current.INSTALLER_IMAGE}:latest"
    registry_mirrors: Sequence[str] = ()
    with_kubespan: bool = False
    with_cluster_discovery: bool = True
    allow_scheduling_on_control_planes: bool = False
    kube_prism_port: int = current.KUBE_PRISM_PORT
    custom_cni_url: str = ""
    kubernetes: bool = True
    persist: bool = True
    contract: Contract = CURRENT
    pod_subnets: Sequence[str] = ()
    service_subnets: Sequence[str] = ()
    extra_documents: Sequence[Document] = ()


def parse_endpoint(text: str) -> Url:
    """The URL of the Kubernetes API; a missing port becomes 6443.

    Raises:
        UserError: when it is no such URL.
    """
    try:
        url = Url.parse(text)
    except ValueError:
        url = Url()
    if url.scheme != "https" or not url.host:
        raise UserError(
            f'"{text}" is no endpoint', where="cluster endpoint", hint="such as https://10.0.0.1:6443"
        )
    if url.port is not None:
        return url
    head, _, rest = text.removeprefix("https://").partition("/")
    return Url(f"https://{head}:{current.API_SERVER_PORT}{'/' + rest if rest else ''}")


def is_ipv6(url: Url) -> bool:
    """Whether a URL's host is an IPv6 address."""
    try:
        return isinstance(ipaddress.ip_address(url.host), ipaddress.IPv6Address)
    except ValueError:
        return False
