"""Checks of documents about Kubernetes."""

from collections.abc import Iterator
from typing import Any

from talos.config.arguments import KUBELET, PROXY
from talos.config.check.arguments import check_arguments, check_kubelet_fields
from talos.config.check.cluster import check_resources
from talos.config.check.forms import (
    check_annotations,
    check_endpoint,
    check_labels,
    check_pem,
    check_present,
    check_taints,
    is_dns_name,
    is_domain,
)
from talos.config.check.machine import check_roles
from talos.config.check.note import Check, Note
from talos.config.check.pod import check_pod
from talos.config.check.subnets import NODE_MASKS, check_subnet_list, check_subnets
from talos.config.documents.kubernetes.aggregator_ca import KubeAggregatorCAConfig
from talos.config.documents.kubernetes.api_server import KubeAPIServerConfig
from talos.config.documents.kubernetes.api_server_ca import KubeAPIServerCAConfig
from talos.config.documents.kubernetes.authorizer import KubeAuthorizerConfig
from talos.config.documents.kubernetes.cluster import KubeClusterConfig
from talos.config.documents.kubernetes.controller_manager import KubeControllerManagerConfig
from talos.config.documents.kubernetes.etcd_encryption import KubeEtcdEncryptionConfig
from talos.config.documents.kubernetes.external_manifest import KubeExternalManifestConfig
from talos.config.documents.kubernetes.flannel_cni import KubeFlannelCNIConfig
from talos.config.documents.kubernetes.inline_manifest import KubeInlineManifestConfig
from talos.config.documents.kubernetes.kubelet import KubeletConfig
from talos.config.documents.kubernetes.network import KubeNetworkConfig
from talos.config.documents.kubernetes.node import KubeNodeConfig
from talos.config.documents.kubernetes.prism import KubePrismConfig
from talos.config.documents.kubernetes.proxy import KubeProxyConfig
from talos.config.documents.kubernetes.scheduler import KubeSchedulerConfig
from talos.config.documents.kubernetes.service_account import KubeServiceAccountConfig
from talos.config.documents.kubernetes.static_pod import KubeStaticPodConfig
from talos.config.documents.kubernetes.talos_api_access import KubeTalosAPIAccessConfig
from talos.config.schema import Document
from talos.config.static_pods import API_SERVER, CONTROLLER_MANAGER, SCHEDULER, UIDS

_API_SERVER_DOCUMENTS = {
    "anonymous-auth": "KubeAuthenticationConfig",
    "authentication-config": "KubeAuthenticationConfig",
    "oidc-": "KubeAuthenticationConfig",
    "authorization-config": "KubeAuthorizerConfig",
    "authorization-mode": "KubeAuthorizerConfig",
    "authorization-webhook-": "KubeAuthorizerConfig",
}
"""Beginnings of arguments whose place is a document."""
_PROGRAMS = {
    "KubeControllerManagerConfig": CONTROLLER_MANAGER,
    "KubeProxyConfig": PROXY,
    "KubeSchedulerConfig": SCHEDULER,
}
_PROXY_MODES = ("iptables", "ipvs", "nftables")


def _image(document: Any, at: Note) -> Iterator[Note]:
    yield from check_present(document.image, at.below("image"))


def _api_server(document: KubeAPIServerConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from _image(document, at)
    for name in document.extra_args or {}:
        newer = next((kind for prefix, kind in _API_SERVER_DOCUMENTS.items() if name.startswith(prefix)), "")
        if newer:
            message = f'kube-apiserver extra argument "{name}" is not allowed'
            yield at.below(f"extraArgs[{name}]").find(message, hint=f"use {newer}")
    others = {name for name in document.extra_args or {} if not name.startswith(tuple(_API_SERVER_DOCUMENTS))}
    yield from check_arguments(API_SERVER, dict.fromkeys(sorted(others)), at.below("extraArgs"))
    yield from check_resources(document.resources, at.below("resources"))


def _component(
    document: KubeControllerManagerConfig | KubeSchedulerConfig | KubeProxyConfig,
) -> Iterator[Note]:
    at = Note.at(document)
    if document.enabled is not False:
        yield from _image(document, at)
    if isinstance(document, KubeProxyConfig) and document.mode and document.mode not in _PROXY_MODES:
        hint = f"one of: {', '.join(_PROXY_MODES)}"
        yield at.below("mode").find(f'"{document.mode}" is not allowed', hint=hint)
    yield from check_arguments(_PROGRAMS[document.kind], document.extra_args, at.below("extraArgs"))
    yield from check_resources(document.resources, at.below("resources"))


def _kubelet(document: KubeletConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from _image(document, at)
    yield from check_arguments(KUBELET, document.extra_args, at.below("extraArgs"))
    yield from check_kubelet_fields(document.config, at.below("config"))


def _flannel(document: KubeFlannelCNIConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from check_present(document.backend_type, at.below("backendType"), hint="such as vxlan")
    yield from check_resources(document.resources, at.below("resources"))


def _cluster(document: KubeClusterConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from check_present(document.cluster_name, at.below("clusterName"))
    yield from check_present(document.endpoint, at.below("endpoint"), hint="such as https://10.0.0.1:6443")
    if document.endpoint:
        yield from check_endpoint(document.endpoint, at.below("endpoint"))


def _network(document: KubeNetworkConfig) -> Iterator[Note]:
    at = Note.at(document)
    if document.dns_domain and not is_dns_name(document.dns_domain):
        yield at.below("dnsDomain").find(f'"{document.dns_domain}" is no DNS name')
    pods, services = document.pod_subnets, document.service_subnets
    sizes = document.node_cidr_mask_size_ipv4, document.node_cidr_mask_size_ipv6
    masks = (sizes[0] or NODE_MASKS[0], sizes[1] or NODE_MASKS[1])
    yield from check_subnets(pods, at.below("podSubnets"), masks=masks)
    yield from check_subnets(services, at.below("serviceSubnets"))
    if pods and services and len(pods) != len(services):
        yield at.below("serviceSubnets").find("are not as many as podSubnets", hint="one or two of each")


def _node(document: KubeNodeConfig) -> Iterator[Note]:
    at = Note.at(document)
    if document.node_ip:
        yield from check_subnet_list(document.node_ip.valid_subnets, at.below("nodeIP.validSubnets"))
    yield from check_labels(document.labels, at.below("labels"))
    yield from check_annotations(document.annotations, at.below("annotations"))
    yield from check_taints(document.taints, at.below("taints"))


def _prism(document: KubePrismConfig) -> Iterator[Note]:
    yield from check_present(document.port, Note.at(document, "port"), hint="from 1 to 65535")


def _ca(document: KubeAggregatorCAConfig | KubeAPIServerCAConfig) -> Iterator[Note]:
    at, issuing = Note.at(document), document.issuing_ca
    if issuing is None and isinstance(document, KubeAggregatorCAConfig):
        yield at.below("issuingCA").find("is missing")
    if issuing is not None:
        for key, pem in (("cert", issuing.cert), ("key", issuing.key)):
            place = at.below(f"issuingCA.{key}")
            yield from check_pem(pem, place) if pem else (place.find("is missing"),)
    for index, pem in enumerate(document.accepted_cas or ()):
        yield from check_pem(pem, at.below(f"acceptedCAs[{index}]"))


def _service_account(document: KubeServiceAccountConfig) -> Iterator[Note]:
    at = Note.at(document, "issuer")
    yield from check_present(document.issuer.private_key, at.below("privateKey"))
    yield from check_present(document.issuer.issuer_url, at.below("issuerURL"))


def _authorizer(document: KubeAuthorizerConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from check_present(document.type, at.below("type"), hint="Node, RBAC or Webhook")
    if document.type == "Webhook":
        yield from check_present(document.webhook, at.below("webhook"), hint="the API server ends without it")
    elif document.type and document.webhook is not None:
        yield at.below("webhook").find("is for type: Webhook")


def _etcd_encryption(document: KubeEtcdEncryptionConfig) -> Iterator[Note]:
    yield from check_present(document.config, Note.at(document, "config"))


def _api_access(document: KubeTalosAPIAccessConfig) -> Iterator[Note]:
    yield from check_roles(document.allowed_roles, Note.at(document, "allowedRoles"))


def _external_manifest(document: KubeExternalManifestConfig) -> Iterator[Note]:
    yield from _object_name(document)
    yield from check_present(document.url, Note.at(document, "url"))


def _static_pod(document: KubeStaticPodConfig) -> Iterator[Note]:
    yield from _object_name(document)
    if document.name in UIDS:
        yield Note.at(document, "name").find("is that of a control plane's pod", hint="name it otherwise")
    yield from check_pod(document.pod, Note.at(document, "pod"))


def _object_name(
    document: KubeExternalManifestConfig | KubeInlineManifestConfig | KubeStaticPodConfig | Document,
) -> Iterator[Note]:
    name: str = getattr(document, "name", "")
    if name and not is_domain(name):
        hint = "lower-case letters, digits, - and ."
        yield Note.at(document, "name").find(f'"{name}" is no name of an object', hint=hint)


CHECKS: dict[str, Check] = {
    "KubeAPIServerCAConfig": _ca,
    "KubeAPIServerConfig": _api_server,
    "KubeAggregatorCAConfig": _ca,
    "KubeAuthorizerConfig": _authorizer,
    "KubeClusterConfig": _cluster,
    "KubeControllerManagerConfig": _component,
    "KubeEtcdEncryptionConfig": _etcd_encryption,
    "KubeExternalManifestConfig": _external_manifest,
    "KubeFlannelCNIConfig": _flannel,
    "KubeInlineManifestConfig": _object_name,
    "KubeNetworkConfig": _network,
    "KubeNodeConfig": _node,
    "KubePrismConfig": _prism,
    "KubeProxyConfig": _component,
    "KubeSchedulerConfig": _component,
    "KubeServiceAccountConfig": _service_account,
    "KubeStaticPodConfig": _static_pod,
    "KubeTalosAPIAccessConfig": _api_access,
    "KubeletConfig": _kubelet,
}
