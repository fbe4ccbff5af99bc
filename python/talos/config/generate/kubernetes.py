"""The Kubernetes documents of a generated config."""

from collections.abc import Iterator

from talos.config import contract as current
from talos.config.contract import CONTROL_PLANE_LABEL
from talos.config.documents.certificate import CertificateAndKey
from talos.config.documents.kubernetes.admission_control import KubeAdmissionControlConfig
from talos.config.documents.kubernetes.aggregator_ca import KubeAggregatorCAConfig
from talos.config.documents.kubernetes.api_server import KubeAPIServerConfig
from talos.config.documents.kubernetes.api_server_ca import KubeAPIServerCAConfig
from talos.config.documents.kubernetes.audit_policy import KubeAuditPolicyConfig
from talos.config.documents.kubernetes.authentication import KubeAuthenticationConfig
from talos.config.documents.kubernetes.authorizer import KubeAuthorizerConfig
from talos.config.documents.kubernetes.cluster import KubeClusterConfig
from talos.config.documents.kubernetes.controller_manager import KubeControllerManagerConfig
from talos.config.documents.kubernetes.core_dns import KubeCoreDNSConfig
from talos.config.documents.kubernetes.etcd_encryption import KubeEtcdEncryptionConfig
from talos.config.documents.kubernetes.external_manifest import KubeExternalManifestConfig
from talos.config.documents.kubernetes.flannel_cni import KubeFlannelCNIConfig
from talos.config.documents.kubernetes.kubelet import KubeletConfig
from talos.config.documents.kubernetes.network import KubeNetworkConfig
from talos.config.documents.kubernetes.node import KubeNodeConfig
from talos.config.documents.kubernetes.prism import KubePrismConfig
from talos.config.documents.kubernetes.proxy import KubeProxyConfig
from talos.config.documents.kubernetes.scheduler import KubeSchedulerConfig
from talos.config.documents.kubernetes.service_account import (
    IssuerServiceAccountConfig,
    KubeServiceAccountConfig,
)
from talos.config.generate.options import GenerateOptions
from talos.config.model import MachineType
from talos.config.schema import Document
from talos.config.secrets.bundle import SecretsBundle
from talos.config.values import Prefix, Unstructured, Url
from talos.pki.certificate import PemPair

NO_LOAD_BALANCER_LABEL = "node.kubernetes.io/exclude-from-external-load-balancers"

POD_SECURITY: Unstructured = {
    "apiVersion": "pod-security.admission.config.k8s.io/v1alpha1",
    "defaults": {
        "audit": "restricted",
        "audit-version": "latest",
        "enforce": "baseline",
        "enforce-version": "latest",
        "warn": "restricted",
        "warn-version": "latest",
    },
    "exemptions": {"namespaces": ["kube-system"], "runtimeClasses": [], "usernames": []},
    "kind": "PodSecurityConfiguration",
}

AUDIT_POLICY: Unstructured = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [{"level": "Metadata"}],
}

AUTHENTICATION: Unstructured = {
    "anonymous": {
        "conditions": [{"path": "/livez"}, {"path": "/readyz"}, {"path": "/healthz"}],
        "enabled": True,
    },
    "jwt": [],
}


def kubernetes_documents(
    options: GenerateOptions, machine_type: MachineType, endpoint: Url
) -> Iterator[Document]:
    """The documents about Kubernetes for a machine of this type, in order."""
    version = f"v{options.kubernetes_version.removeprefix('v')}"
    is_control_plane = machine_type.is_control_plane
    yield KubeClusterConfig(cluster_name=options.cluster_name, endpoint=endpoint)
    yield _node(options, is_control_plane=is_control_plane)
    yield KubeletConfig(
        image=f"{current.KUBELET_IMAGE}:{version}", default_runtime_seccomp_profile_enabled=True
    )
    yield _network(options)
    authority = options.secrets.kubernetes
    if is_control_plane:
        yield KubeAPIServerCAConfig(issuing_ca=_text_pair(authority))
    else:
        yield KubeAPIServerCAConfig(accepted_cas=(authority.crt.decode(),))
    prism_port = current.KUBE_PRISM_PORT if options.kube_prism_port is None else options.kube_prism_port
    if prism_port:
        yield KubePrismConfig(port=prism_port)
    if is_control_plane:
        yield from _control_plane(options, endpoint, version)


def _control_plane(options: GenerateOptions, endpoint: Url, version: str) -> Iterator[Document]:
    secrets = options.secrets
    yield KubeAggregatorCAConfig(issuing_ca=_text_pair(secrets.aggregator))
    yield KubeAdmissionControlConfig(name="PodSecurity", configuration=POD_SECURITY)
    yield KubeAuditPolicyConfig(configuration=AUDIT_POLICY)
    yield KubeAuthenticationConfig(configuration=AUTHENTICATION)
    yield KubeAuthorizerConfig(name="node", type="Node")
    yield KubeAuthorizerConfig(name="rbac", type="RBAC")
    yield KubeEtcdEncryptionConfig(config=_encryption(secrets))
    issuer = IssuerServiceAccountConfig(private_key=secrets.service_account.decode(), issuer_url=endpoint)
    yield KubeServiceAccountConfig(issuer=issuer)
    yield KubeAPIServerConfig(
        image=f"{current.KUBE_API_SERVER_IMAGE}:{version}",
        cert_extra_sans=tuple(options.additional_sans) or None,
    )
    yield KubeControllerManagerConfig(image=f"{current.KUBE_CONTROLLER_MANAGER_IMAGE}:{version}")
    yield KubeSchedulerConfig(image=f"{current.KUBE_SCHEDULER_IMAGE}:{version}")
    yield KubeProxyConfig(image=f"{current.KUBE_PROXY_IMAGE}:{version}")
    if options.custom_cni_url:
        yield KubeCoreDNSConfig(enabled=True)
        yield KubeExternalManifestConfig(name="custom-cni", url=Url(options.custom_cni_url))
    else:
        yield KubeFlannelCNIConfig(backend_type="vxlan", backend_port=4789)
        yield KubeCoreDNSConfig(enabled=True)


def _node(options: GenerateOptions, *, is_control_plane: bool) -> KubeNodeConfig:
    if not is_control_plane:
        return KubeNodeConfig()
    taints = {CONTROL_PLANE_LABEL: "NoSchedule"}
    return KubeNodeConfig(
        labels={CONTROL_PLANE_LABEL: "", NO_LOAD_BALANCER_LABEL: ""},
        taints=None if options.allow_scheduling_on_control_planes else taints,
    )


def _network(options: GenerateOptions) -> KubeNetworkConfig:
    pods = options.pod_subnets or (current.POD_SUBNET,)
    services = options.service_subnets or (current.SERVICE_SUBNET,)
    return KubeNetworkConfig(
        dns_domain=options.dns_domain,
        pod_subnets=tuple(map(Prefix, pods)),
        service_subnets=tuple(map(Prefix, services)),
    )


def _encryption(secrets: SecretsBundle) -> Unstructured:
    secret = secrets.secretbox_secret or secrets.aescbc_secret
    provider = "secretbox" if secrets.secretbox_secret else "aescbc"
    key = {"name": "key2" if secrets.secretbox_secret else "key1", "secret": secret}
    return {"resources": [{"providers": [{provider: {"keys": [key]}}], "resources": ["secrets"]}]}


def _text_pair(pair: PemPair) -> CertificateAndKey:
    return CertificateAndKey(cert=pair.crt.decode(), key=pair.key.decode())
