"""Options of a cluster's configs: the flags of ``talosctl gen config``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from talos.config import contract as current
from talos.config.contract import CURRENT, Contract
from talos.config.schema import Document
from talos.config.secrets.bundle import SecretsBundle
from talos.config.values import Url
from talos.system.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Options of a cluster's configs.

    ``registry_mirrors`` are texts ``registry=url``. An empty ``install_disk`` leaves the
    installation out. ``kube_prism_port`` is the contract's default when None, 0 switches KubePrism off.
    ``kubernetes=False`` leaves Kubernetes and etcd out.
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
    discovery_endpoint: str = current.DISCOVERY_ENDPOINT
    allow_scheduling_on_control_planes: bool = False
    kube_prism_port: int | None = None
    custom_cni_url: str = ""
    kubernetes: bool = True
    persist: bool = True
    contract: Contract = CURRENT
    pod_subnets: Sequence[str] = ()
    service_subnets: Sequence[str] = ()
    extra_documents: Sequence[Document] = ()


def parse_endpoint(text: str) -> Url:
    """The URL of the Kubernetes API, as it is written: no port is added.

    UserError: when it is not such a URL.
    """
    try:
        url = Url.parse(text)
    except ValueError:
        url = Url()
    if url.scheme == "https" and url.host:
        return url
    rest = text.rpartition("://")[2].rstrip("/")
    host = rest if rest.rpartition(":")[2].isdecimal() else f"{rest}:{current.API_SERVER_PORT}"
    hint = f'try: "https://{host}"' if rest else "such as https://10.0.0.1:6443"
    raise UserError(f'"{text}" is no endpoint', where="cluster endpoint", hint=hint)


def parse_mirrors(texts: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The mirrors by registry, sorted by its name.

    UserError: when a text is not of the form ``registry=url``.
    """
    mirrors: dict[str, list[str]] = {}
    for text in texts:
        registry, _, url = text.partition("=")
        if not registry or not url:
            raise UserError(
                f'"{text}" is no registry mirror',
                where="--registry-mirror",
                hint="such as docker.io=http://10.0.0.1:5000",
            )
        mirrors.setdefault(registry, []).append(url)
    return dict(sorted(mirrors.items()))
