"""Checks of the main document's ``cluster``."""

from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import Any, cast
from urllib.parse import urlsplit

from talos.config.arguments import PROXY
from talos.config.check.arguments import check_arguments
from talos.config.check.forms import check_endpoint, is_dns_name
from talos.config.check.note import Note
from talos.config.check.subnets import (
    NODE_MASKS,
    UNKNOWN_MASKS,
    check_subnet,
    check_subnet_list,
    check_subnets,
)
from talos.config.documents.v1alpha1.cluster import ClusterConfig
from talos.config.documents.v1alpha1.cluster_network import ClusterNetworkConfig
from talos.config.documents.v1alpha1.control_plane import APIServerConfig, ProxyConfig
from talos.config.documents.v1alpha1.discovery import ClusterDiscoveryConfig
from talos.config.documents.v1alpha1.etcd import EtcdConfig
from talos.config.documents.v1alpha1.main import V1Alpha1Config
from talos.config.model import Config
from talos.config.static_pods import API_SERVER, CONTROLLER_MANAGER, SCHEDULER

_RESOURCES = ("cpu", "memory")
_AUTHORIZERS = ("Node", "RBAC", "Webhook")
_MASK_ARGUMENTS = {
    "node-cidr-mask-size": (0, 1),
    "node-cidr-mask-size-ipv4": (0,),
    "node-cidr-mask-size-ipv6": (1,),
}
"""Arguments of kube-controller-manager, with the families of IP that they are for."""


def check_cluster(config: Config, main: V1Alpha1Config) -> Iterator[Note]:
    """Checks of ``cluster``."""
    cluster, at = main.cluster, Note.at(main, "cluster")
    if cluster is None:
        yield at.find("is missing", hint="at least the cluster's token, or {}")
        return
    if cluster.control_plane is not None:
        endpoint = cluster.control_plane.endpoint
        place = at.below("controlPlane.endpoint")
        yield from check_endpoint(endpoint, place) if endpoint else (place.find("is missing"),)
    is_control_plane = config.machine_type.is_control_plane
    yield from _check_network(cluster, at.below("network"), is_control_plane=is_control_plane)
    yield from _check_cloud_provider(cluster, at.below("externalCloudProvider"))
    if cluster.etcd is not None and not is_control_plane:
        yield at.below("etcd").find("is for control plane nodes")
    elif cluster.etcd is not None:
        yield from _check_etcd(cluster.etcd, at.below("etcd"))
    if cluster.ca and cluster.ca.key and not is_control_plane:
        hint = "leave the key empty: a worker must not issue certificates"
        yield at.below("ca.key").find("has the authority's private key", hint=hint)
    yield from _check_manifests(cluster, at.below("inlineManifests"))
    yield from _check_discovery(cluster, cluster.discovery, at.below("discovery.registries.service"))
    yield from _check_api_server(cluster.api_server, at.below("apiServer"))
    for key, program, component in (
        ("apiServer", API_SERVER, cluster.api_server),
        ("controllerManager", CONTROLLER_MANAGER, cluster.controller_manager),
        ("scheduler", SCHEDULER, cluster.scheduler),
        ("proxy", PROXY, cluster.proxy),
    ):
        if component is None:
            continue
        yield from check_arguments(program, component.extra_args, at.below(f"{key}.extraArgs"))
        if not isinstance(component, ProxyConfig) and component.resources:
            resources = component.resources
            place = at.below(f"{key}.resources")
            yield from check_resources({"requests": resources.requests, "limits": resources.limits}, place)


def find_cluster_warnings(main: V1Alpha1Config) -> Iterator[Note]:
    """Likely mistakes: warnings, which are errors with ``--strict``."""
    cni = main.cluster.network.cni if main.cluster and main.cluster.network else None
    if cni and cni.name == "custom" and not cni.urls:
        yield Note.at(main, "cluster.network.cni.urls").find("is empty")


def check_resources(resources: Mapping[str, Any] | None, at: Note) -> Iterator[Note]:
    """Requests and limits of a pod."""
    for key, amounts in (resources or {}).items():
        place = at.below(key)
        if key not in {"requests", "limits"}:
            yield place.find("unknown key", hint="requests or limits")
        elif amounts is not None and not isinstance(amounts, Mapping):
            yield place.find("expected a mapping")
        else:
            for name in cast("Mapping[str, Any]", amounts or {}):
                if name not in _RESOURCES:
                    yield place.below(name).find("is no resource of these pods", hint=" or ".join(_RESOURCES))


def _check_network(cluster: ClusterConfig, at: Note, *, is_control_plane: bool) -> Iterator[Note]:
    network = cluster.network
    if network is None:
        return
    if network.dns_domain and not is_dns_name(network.dns_domain):
        yield at.below("dnsDomain").find(f'"{network.dns_domain}" is no DNS name')
    masks = _find_masks(cluster) if is_control_plane else UNKNOWN_MASKS
    yield from _check_subnets(network, at, masks)
    cni, place = network.cni, at.below("cni")
    if cni is None or not is_control_plane:
        return
    if not cni.name:
        yield place.below("name").find("is missing", hint="flannel, custom or none")
    if cni.name != "custom" and cni.urls:
        yield place.below("urls").find("is for name: custom")
    if cni.name != "flannel" and cni.flannel and cni.flannel.extra_args:
        yield place.below("flannel.extraArgs").find("is for name: flannel")
    if cni.name != "flannel" and cni.flannel and cni.flannel.kube_network_policies_enabled:
        yield place.below("flannel.kubeNetworkPoliciesEnabled").find("is for name: flannel")
    for index, url in enumerate(cni.urls or ()):
        yield from check_endpoint(url, place.below(f"urls[{index}]"))


def _find_masks(cluster: ClusterConfig) -> tuple[int, int]:
    """Prefix lengths of a node's share, which are arguments of kube-controller-manager in this document."""
    manager = cluster.controller_manager
    arguments = (manager and manager.extra_args) or {}
    masks: list[int] = list(NODE_MASKS)
    for name, families in _MASK_ARGUMENTS.items():
        value = arguments.get(name)
        text = value if isinstance(value, str) else (list(value or ()) or [""])[-1]
        for family in families if text.isdecimal() and len(text) <= 3 else ():
            masks[family] = int(text)
    return masks[0], masks[1]


def _check_subnets(network: ClusterNetworkConfig, at: Note, masks: tuple[int, int]) -> Iterator[Note]:
    """Those that are named."""
    pods, services = (
        [_drop_host(text) for text in subnets] for subnets in (network.pod_subnets, network.service_subnets)
    )
    if pods:
        yield from check_subnets(pods, at.below("podSubnets"), masks=masks)
    if services:
        yield from check_subnets(services, at.below("serviceSubnets"))


def _drop_host(text: str) -> str:
    """A network without bits beyond its length, which this document may have."""
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        return text


def _check_cloud_provider(cluster: ClusterConfig, at: Note) -> Iterator[Note]:
    provider = cluster.external_cloud_provider
    if provider is None:
        return
    if not provider.enabled and provider.manifests:
        yield at.below("manifests").find("stands beside enabled: false")
    elif provider.enabled:
        for index, url in enumerate(provider.manifests or ()):
            yield from check_endpoint(url, at.below(f"manifests[{index}]"))


def _check_etcd(etcd: EtcdConfig, at: Note) -> Iterator[Note]:
    if etcd.ca is None:
        yield at.below("ca").find("is missing", hint="the authority of etcd")
    if etcd.subnet and (etcd.advertised_subnets or etcd.listen_subnets):
        yield at.below("subnet").find("stands beside advertisedSubnets or listenSubnets")
    if etcd.subnet:
        yield from check_subnet(etcd.subnet, at.below("subnet"))
    yield from check_subnet_list(etcd.advertised_subnets, at.below("advertisedSubnets"))
    yield from check_subnet_list(etcd.listen_subnets, at.below("listenSubnets"))


def _check_manifests(cluster: ClusterConfig, at: Note) -> Iterator[Note]:
    seen: set[str] = set()
    for index, manifest in enumerate(cluster.inline_manifests or ()):
        place = at.below(f"[{index}].name")
        if not manifest.name.strip():
            yield place.find("is missing")
        elif manifest.name in seen:
            yield place.find(f'"{manifest.name}" is there already')
        seen.add(manifest.name)


def _check_discovery(
    cluster: ClusterConfig, discovery: ClusterDiscoveryConfig | None, at: Note
) -> Iterator[Note]:
    if discovery is None or not discovery.enabled:
        return
    service = discovery.registries.service if discovery.registries else None
    if service and service.disabled:
        return
    if service and service.endpoint:
        parts = urlsplit(service.endpoint)
        if not parts.scheme or not parts.netloc:
            yield at.below("endpoint").find("is no URL")
        elif parts.path not in {"", "/"}:
            yield at.below("endpoint").find("has a path", hint="leave it out")
    for key, value in (("id", cluster.id), ("secret", cluster.secret)):
        if not value:
            yield Note.at(at.document, f"cluster.{key}").find("is missing", hint="discovery needs it")


def _check_api_server(server: APIServerConfig | None, at: Note) -> Iterator[Note]:
    for index, authorizer in enumerate((server and server.authorization_config) or ()):
        place = at.below(f"authorizationConfig[{index}]")
        if authorizer.type not in _AUTHORIZERS:
            yield place.below("type").find("is not allowed", hint=f"one of: {', '.join(_AUTHORIZERS)}")
        if not authorizer.name:
            yield place.below("name").find("is missing")
        if authorizer.type == "Webhook" and not authorizer.webhook:
            yield place.below("webhook").find("is missing")
        if authorizer.type != "Webhook" and authorizer.webhook:
            yield place.below("webhook").find("is for type: Webhook")
