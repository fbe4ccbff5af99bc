"""The effective settings of Kubernetes' components, from the main document or documents of their own.

As in the modules beside this one, a document takes precedence over the main one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from typing import Any, cast

from talos.config import contract
from talos.config.arguments import make_lists
from talos.config.documents.kubernetes.api_server import KubeAPIServerConfig
from talos.config.documents.kubernetes.controller_manager import KubeControllerManagerConfig
from talos.config.documents.kubernetes.core_dns import KubeCoreDNSConfig
from talos.config.documents.kubernetes.credential_provider import KubeCredentialProviderConfig
from talos.config.documents.kubernetes.external_manifest import KubeExternalManifestConfig
from talos.config.documents.kubernetes.flannel_cni import KubeFlannelCNIConfig
from talos.config.documents.kubernetes.inline_manifest import KubeInlineManifestConfig
from talos.config.documents.kubernetes.kubelet import KubeletConfig
from talos.config.documents.kubernetes.network import KubeNetworkConfig
from talos.config.documents.kubernetes.node import KubeNodeConfig
from talos.config.documents.kubernetes.prism import KubePrismConfig
from talos.config.documents.kubernetes.proxy import KubeProxyConfig
from talos.config.documents.kubernetes.scheduler import KubeSchedulerConfig
from talos.config.documents.kubernetes.talos_api_access import KubeTalosAPIAccessConfig
from talos.config.documents.v1alpha1 import control_plane as old
from talos.config.documents.v1alpha1.kubelet import ExtraMount
from talos.config.effective.kubespan import kubespan
from talos.config.effective.sections import find_cluster, find_machine
from talos.config.model import Config
from talos.config.values import NOTHING, Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One program of the control plane. ``resources`` has ``requests`` and ``limits``."""

    enabled: bool = True
    image: str
    extra_args: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    volumes: tuple[old.VolumeMountConfig, ...] = ()
    config: Unstructured = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """The kubelet's settings."""

    image: str
    extra_args: Mapping[str, Sequence[str]]
    extra_config: Unstructured
    extra_mounts: tuple[ExtraMount, ...]
    cluster_dns: tuple[str, ...]
    default_seccomp: bool


def api_server(config: Config) -> Component:
    """kube-apiserver."""
    return _component(
        contract.KUBE_API_SERVER_IMAGE, config.find(KubeAPIServerConfig), find_cluster(config).api_server
    )


def controller_manager(config: Config) -> Component:
    """kube-controller-manager; a control plane node may do without."""
    machine = find_machine(config).control_plane
    switch = machine.controller_manager if machine else None
    document = config.find(KubeControllerManagerConfig)
    return _component(
        contract.KUBE_CONTROLLER_MANAGER_IMAGE,
        document,
        find_cluster(config).controller_manager,
        enabled=document.enabled is not False if document else not (switch and switch.disabled),
    )


def scheduler(config: Config) -> Component:
    """kube-scheduler; a control plane node may do without."""
    machine = find_machine(config).control_plane
    switch = machine.scheduler if machine else None
    document, main = config.find(KubeSchedulerConfig), find_cluster(config).scheduler
    return _component(
        contract.KUBE_SCHEDULER_IMAGE,
        document,
        main,
        enabled=document.enabled is not False if document else not (switch and switch.disabled),
        config=document.config if document else (main and main.config) or NOTHING,
    )


def proxy(config: Config) -> Component:
    """kube-proxy, as it runs on every node.

    ``config`` is what differs from the defaults. Without the document there is none: kube-proxy ignores
    arguments beside a file, and arguments are all that the main document has.
    """
    document, main = config.find(KubeProxyConfig), find_cluster(config).proxy
    enabled = document.enabled is not False if document else not (main and main.disabled)
    mode = (document.mode if document else main.mode if main else "") or "nftables"
    if document is not None:
        own = {"mode": mode, **document.config}
        return _component(contract.KUBE_PROXY_IMAGE, document, main, enabled=enabled, config=own)
    found = _component(contract.KUBE_PROXY_IMAGE, None, main, enabled=enabled)
    return replace(found, extra_args={"proxy-mode": (mode,), **found.extra_args})


def core_dns(config: Config) -> Component:
    """The cluster's DNS server."""
    document, main = config.find(KubeCoreDNSConfig), find_cluster(config).core_dns
    enabled = document.enabled is not False if document else not (main and main.disabled)
    image = (document.image if document else main.image if main else "") or contract.CORE_DNS_IMAGE
    return Component(enabled=enabled, image=image)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flannel:
    """flannel's settings; an MTU of 0 is that of the link, less what the backend adds."""

    backend_type: str = contract.FLANNEL_BACKEND
    backend_port: int = contract.FLANNEL_PORT
    backend_mtu: int = 0
    backend_extra_config: Unstructured = NOTHING
    extra_args: tuple[str, ...] = ()
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    network_policies: bool = False


def flannel(config: Config) -> Flannel | None:
    """The pods' network; None where it is another one, or left to the user."""
    network = find_cluster(config).network
    cni = network.cni if network else None
    if (document := config.find(KubeFlannelCNIConfig)) is not None:
        return Flannel(
            backend_type=document.backend_type or contract.FLANNEL_BACKEND,
            backend_port=document.backend_port or contract.FLANNEL_PORT,
            backend_mtu=document.backend_mtu or _mesh_mtu(config),
            backend_extra_config=document.backend_extra_config or NOTHING,
            extra_args=document.extra_args or (),
            resources=_resources(document.resources),
            network_policies=document.kube_network_policies_enabled or False,
        )
    if config.find(KubeNetworkConfig) or (cni and cni.name not in {None, "", "flannel"}):
        return None
    main = cni.flannel if cni else None
    return Flannel(
        backend_mtu=_mesh_mtu(config),
        extra_args=(main.extra_args if main else None) or (),
        network_policies=bool(main and main.kube_network_policies_enabled),
    )


def _mesh_mtu(config: Config) -> int:
    """Pods' packets that KubeSpan carries must fit into it; 0 without it."""
    mesh = kubespan(config)
    return mesh.mtu if mesh.enabled else 0


def kubelet(config: Config) -> Kubelet:
    """The kubelet."""
    document, main = config.find(KubeletConfig), find_machine(config).kubelet
    chosen = document or main
    default_seccomp = chosen.default_runtime_seccomp_profile_enabled if chosen else None
    extra_config = document.config if document else (main and main.extra_config) or NOTHING
    return Kubelet(
        image=(chosen.image if chosen else "") or _default(contract.KUBELET_IMAGE),
        extra_args=make_lists((chosen.extra_args if chosen else None) or {}),
        extra_config=extra_config,
        extra_mounts=(main.extra_mounts if main else None) or (),
        cluster_dns=(chosen.cluster_dns if chosen else None) or (),
        default_seccomp=bool(default_seccomp),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class APIAccess:
    """Which pods may use the nodes' API: those of some namespaces, with some roles."""

    roles: tuple[str, ...]
    namespaces: tuple[str, ...]


def api_access(config: Config) -> APIAccess | None:
    """The access of pods to the nodes' API, if there is any."""
    document, features = config.find(KubeTalosAPIAccessConfig), find_machine(config).features
    main = features.kubernetes_talos_api_access if features else None
    chosen = document or (main if main and main.enabled else None)
    if chosen is None:
        return None
    return APIAccess(roles=chosen.allowed_roles or (), namespaces=chosen.allowed_kubernetes_namespaces or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraManifest:
    """What the user adds to the manifests of the system: at a URL, or a text of its own."""

    name: str
    priority: str
    """The first part of its name on the node: manifests are applied in the order of their names."""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    text: str = ""


def extra_manifests(config: Config) -> list[ExtraManifest]:
    """The user's manifests, each name once: of the network, of the cloud provider, then all others."""
    main, found = find_cluster(config), list[ExtraManifest]()
    cni = main.network.cni if main.network else None
    if cni and cni.name == "custom":
        found += [ExtraManifest(name=url, priority="05", url=url) for url in cni.urls or ()]
    provider = main.external_cloud_provider
    if provider and provider.enabled:
        found += [ExtraManifest(name=url, priority="30", url=url) for url in provider.manifests or ()]
    headers = main.extra_manifest_headers or {}
    found += [
        ExtraManifest(name=url, priority="99", url=url, headers=headers) for url in main.extra_manifests or ()
    ]
    found += [
        ExtraManifest(name=one.name, priority="99", url=str(one.url), headers=one.headers or {})
        for one in config.find_all(KubeExternalManifestConfig)
    ]
    texts = {one.name: one.contents for one in main.inline_manifests or ()}
    texts |= {one.name: one.manifest for one in config.find_all(KubeInlineManifestConfig)}
    found += [ExtraManifest(name=name, priority="99", text=text) for name, text in texts.items()]
    return list({(one.priority, one.name): one for one in found}.values())


def credential_providers(config: Config) -> Unstructured:
    """The kubelet's CredentialProviderConfig; empty when there is none."""
    document, main = config.find(KubeCredentialProviderConfig), find_machine(config).kubelet
    chosen = document.configuration if document else main.credential_provider_config if main else None
    return chosen or NOTHING


def has_cloud_provider(config: Config) -> bool:
    """Whether a controller of a cloud initializes the nodes, and sets their addresses and provider ids."""
    provider = find_cluster(config).external_cloud_provider
    return bool(provider and provider.enabled)


def node_ip_subnets(config: Config) -> tuple[str, ...]:
    """The networks that the node's addresses for Kubernetes are chosen from; ``!`` excludes one."""
    document, main = config.find(KubeNodeConfig), find_machine(config).kubelet
    node_ip = document.node_ip if document else main.node_ip if main else None
    return (node_ip.valid_subnets if node_ip else None) or ()


def prism_port(config: Config) -> int:
    """The port of the balancer on the loopback interface; 0: there is none."""
    document, main = config.find(KubePrismConfig), find_machine(config).features
    if document is not None:
        return document.port
    prism = main.kube_prism if main else None
    return (prism.port or contract.KUBE_PRISM_PORT) if prism and prism.enabled else 0


def prism_server_name(config: Config) -> str:
    """The name that the API servers' certificates are to have behind the balancer; empty: its address."""
    document = config.find(KubePrismConfig)
    return (document and document.tls_server_name) or ""


def mask_sizes(config: Config) -> tuple[int, int]:
    """Prefix lengths of a node's part of the pods' networks, IPv4 and IPv6."""
    document = config.find(KubeNetworkConfig)
    if document is None:
        return 24, 64
    return document.node_cidr_mask_size_ipv4 or 24, document.node_cidr_mask_size_ipv6 or 64


def _component(image: str, document: Any, main: Any, **more: Any) -> Component:
    """The settings that all components share, whose names are the same in all documents."""
    chosen = document or main
    if chosen is None:
        return Component(image=_default(image), **more)
    return Component(
        image=chosen.image or _default(image),
        extra_args=make_lists(chosen.extra_args or {}),
        environment=getattr(chosen, "env", None) or {},
        resources=_resources(getattr(chosen, "resources", None)),
        volumes=getattr(main, "extra_volumes", None) or (),
        **more,
    )


def _resources(given: Any) -> dict[str, Mapping[str, str]]:
    if given is None:
        return {}
    parts: Mapping[str, Any] = (
        cast("Mapping[str, Any]", given)
        if isinstance(given, Mapping)
        else {"requests": given.requests, "limits": given.limits}
    )
    return {
        part: {name: str(value) for name, value in parts[part].items()}
        for part in ("requests", "limits")
        if parts.get(part)
    }


def _default(image: str) -> str:
    return f"{image}:v{contract.KUBERNETES_VERSION}"


def find_dns(service_subnets: Sequence[str]) -> list[str]:
    """The addresses of the cluster's DNS server."""
    return [str(ip_network(subnet, strict=False)[contract.DNS_INDEX]) for subnet in service_subnets]
