"""The manifests with which a cluster begins, as dictionaries of the Kubernetes API."""

import yaml

from talos.api.definitions.k8s_pb2 import BootstrapManifestsConfigSpec
from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.config.kubeconfig import Kubeconfig, format_kubeconfig
from talos.kubed.manifests.api_access import make_account_kind
from talos.kubed.manifests.core_dns import make_core_dns, make_dns_service
from talos.kubed.manifests.flannel import make_flannel
from talos.kubed.manifests.objects import RBAC, SYSTEM, Manifest, bind, make_head, mark_bootstrapping
from talos.kubed.manifests.proxy import make_proxy
from talos.pki.certificate import join_certificates

BOOTSTRAPPERS, NODES = "system:bootstrappers:nodes", "system:nodes"


def make_manifests(spec: BootstrapManifestsConfigSpec, root: KubernetesRootSpec) -> dict[str, list[Manifest]]:
    """Every manifest by its name; they are applied in the names' order. None has a secret."""
    found: dict[str, list[Manifest]] = {
        "01-csr-node-bootstrap": [
            bind("system-bootstrap-node-bootstrapper", "system:node-bootstrapper", BOOTSTRAPPERS)
        ],
        "01-csr-approver-role-binding": [
            bind(
                "system-bootstrap-approve-node-client-csr",
                "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
                BOOTSTRAPPERS,
            )
        ],
        "01-csr-renewal-role-binding": [
            bind(
                "system-bootstrap-node-renewal",
                "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
                NODES,
            )
        ],
        "11-kube-config-in-cluster": [make_in_cluster_config(spec.server, root)],
        "11-talos-node-rbac-template": make_node_rights(),
    }
    if spec.flannel_enabled:
        found["05-flannel"] = make_flannel(spec)
    if spec.proxy_enabled:
        found["10-kube-proxy"] = make_proxy(spec)
    if spec.core_dns_enabled:
        found["11-core-dns"] = make_core_dns(spec)
        found["11-core-dns-svc"] = [make_dns_service(spec)]
    if spec.talos_api_service_enabled:
        found["13-talos-service-account-crd"] = [make_account_kind()]
    return dict(sorted(found.items()))


def make_node_rights() -> list[Manifest]:
    """What Talos itself may do as a node."""
    name = "system:talos-nodes"
    verbs = ["get", "list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": verbs},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs},
    ]
    return [
        mark_bootstrapping({**make_head(RBAC, "ClusterRole", name), "rules": rules}),
        mark_bootstrapping(bind(name, name, NODES)),
    ]


def make_in_cluster_config(server: str, root: KubernetesRootSpec) -> Manifest:
    """The API's address and authority, for pods that can't use the service yet."""
    config = Kubeconfig(
        server=server,
        authority=join_certificates(root.accepted_c_as),
        cluster="local",
        user="service-account",
        context="service-account-context",
        token="-",  # noqa: S106 - replaced below
    )
    document = yaml.safe_load(format_kubeconfig(config))
    account = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    document["users"][0]["user"] = {"tokenFile": account}
    text = yaml.safe_dump(document, sort_keys=False)
    return {**make_head("v1", "ConfigMap", "kubeconfig-in-cluster", SYSTEM), "data": {"kubeconfig": text}}
