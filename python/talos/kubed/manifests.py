"""The manifests with which a cluster begins, as dictionaries of the Kubernetes API."""

import json
from collections.abc import Sequence
from typing import Any

import yaml

from talos.api.definitions.k8s_pb2 import BootstrapManifestsConfigSpec
from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.config.kubeconfig import Kubeconfig, format_kubeconfig
from talos.resource.objects import to_plain

type Manifest = dict[str, Any]

SYSTEM = "kube-system"
RBAC, RBAC_GROUP = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
BOOTSTRAPPERS, NODES = "system:bootstrappers:nodes", "system:nodes"
TOLERATE_ALL = [{"operator": "Exists", "effect": effect} for effect in ("NoSchedule", "NoExecute")]


def make_manifests(spec: BootstrapManifestsConfigSpec, root: KubernetesRootSpec) -> dict[str, list[Manifest]]:
    """Every manifest by its name; they are applied in the names' order."""
    found: dict[str, list[Manifest]] = {
        "00-kubelet-bootstrapping-token": [make_token(root.bootstrap_token_id, root.bootstrap_token_secret)],
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
    return dict(sorted(found.items()))


def make_token(token_id: str, secret: str) -> Manifest:
    """The token with which kubelets join."""
    data = {
        "token-id": token_id,
        "token-secret": secret,
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": BOOTSTRAPPERS,
    }
    return {
        **_head("v1", "Secret", f"bootstrap-token-{token_id}", SYSTEM),
        "type": "bootstrap.kubernetes.io/token",
        "stringData": data,
    }


def bind(name: str, role: str, group: str) -> Manifest:
    """A role for a group of users."""
    return {
        **_head(RBAC, "ClusterRoleBinding", name),
        "subjects": [{"kind": "Group", "name": group, "apiGroup": RBAC_GROUP}],
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": RBAC_GROUP},
    }


def bind_account(name: str, role: str) -> Manifest:
    """A role for a service account of the system's namespace that has the same name as the binding."""
    return {
        **_head(RBAC, "ClusterRoleBinding", name),
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": SYSTEM}],
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": RBAC_GROUP},
    }


def make_node_rights() -> list[Manifest]:
    """What Talos itself may do as a node."""
    name = "system:talos-nodes"
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    ]
    return [{**_head(RBAC, "ClusterRole", name), "rules": rules}, bind(name, name, NODES)]


def make_in_cluster_config(server: str, root: KubernetesRootSpec) -> Manifest:
    """The API's address and authority, for pods that can't use the service yet."""
    config = Kubeconfig(
        server=server,
        authority=b"\n".join(authority.crt for authority in root.accepted_c_as),
        cluster="local",
        user="service-account",
        context="service-account-context",
        token="-",  # noqa: S106 - replaced below
    )
    document = yaml.safe_load(format_kubeconfig(config))
    account = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    document["users"][0]["user"] = {"tokenFile": account}
    text = yaml.safe_dump(document, sort_keys=False)
    return {**_head("v1", "ConfigMap", "kubeconfig-in-cluster", SYSTEM), "data": {"kubeconfig": text}}


def make_proxy(spec: BootstrapManifestsConfigSpec) -> list[Manifest]:
    """kube-proxy, on every node."""
    name = "kube-proxy"
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clusterCIDR": ",".join(spec.pod_cid_rs),
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kubeconfig"},
        "conntrack": {"maxPerCore": 0, "min": 0},
        **to_plain(spec.proxy_config),
    }
    container = {
        "name": name,
        "image": spec.proxy_image,
        "command": [
            "/usr/local/bin/kube-proxy",
            "--config=/var/lib/kube-proxy/config.conf",
            "--hostname-override=$(NODE_NAME)",
            *spec.proxy_args,
        ],
        "env": [_field("NODE_NAME", "spec.nodeName"), _field("POD_IP", "status.podIP")],
        "securityContext": {"privileged": True},
        "volumeMounts": [
            {"name": "config", "mountPath": "/var/lib/kube-proxy", "readOnly": True},
            {"name": "kubeconfig", "mountPath": "/etc/kubernetes", "readOnly": True},
            {"name": "modules", "mountPath": "/lib/modules", "readOnly": True},
        ],
        **_resources(spec.proxy_resources),
    }
    volumes = [
        {"name": "config", "configMap": {"name": name}},
        {"name": "kubeconfig", "configMap": {"name": "kubeconfig-in-cluster"}},
        {"name": "modules", "hostPath": {"path": "/lib/modules"}},
    ]
    pod = {
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "serviceAccountName": name,
        "tolerations": TOLERATE_ALL,
        "containers": [container],
        "volumes": volumes,
    }
    return [
        {**_head("v1", "ConfigMap", name, SYSTEM), "data": {"config.conf": json.dumps(config)}},
        _head("v1", "ServiceAccount", name, SYSTEM),
        bind_account(name, "system:node-proxier"),
        make_daemon_set(name, pod, spec.proxy_config_checksum),
    ]


def make_flannel(spec: BootstrapManifestsConfigSpec) -> list[Manifest]:
    """flannel, on every node: the pods' network over the nodes'."""
    name, run = "flannel", "/run/flannel"
    backend: dict[str, Any] = {
        "Type": spec.flannel_backend_type,
        **to_plain(spec.flannel_backend_extra_config),
    }
    if spec.flannel_backend_port:
        backend["Port"] = spec.flannel_backend_port
    if spec.flannel_backend_mtu:
        backend["MTU"] = spec.flannel_backend_mtu
    network: dict[str, Any] = {"EnableNFTables": True, "Backend": backend}
    for subnet in spec.pod_cid_rs:
        if ":" in subnet:
            network |= {"EnableIPv6": True, "IPv6Network": subnet}
        else:
            network["Network"] = subnet
    network["EnableIPv4"] = "Network" in network
    delegate = {"hairpinMode": True, "isDefaultGateway": True}
    plugins = [
        {"type": "flannel", "delegate": delegate},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    cni = {"name": spec.cni_name or "cbr0", "cniVersion": "0.3.1", "plugins": plugins}
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    ]
    environment = [_field("POD_NAME", "metadata.name"), _field("POD_NAMESPACE", "metadata.namespace")]
    for key, value in (
        ("KUBERNETES_SERVICE_HOST", spec.flannel_kube_service_host),
        ("KUBERNETES_SERVICE_PORT", spec.flannel_kube_service_port),
    ):
        if value:
            environment.append({"name": key, "value": value})
    container = {
        "name": "kube-flannel",
        "image": spec.flannel_image,
        "command": ["/opt/bin/flanneld", "--ip-masq", "--kube-subnet-mgr", *spec.flannel_extra_args],
        "env": environment,
        "securityContext": {"privileged": True},
        "volumeMounts": [
            {"name": "run", "mountPath": run},
            {"name": "config", "mountPath": "/etc/kube-flannel"},
        ],
        **_resources(spec.flannel_resources),
    }
    copy = {
        "name": "install-config",
        "image": spec.flannel_image,
        "command": ["cp", "-f", "/etc/kube-flannel/cni-conf.json", "/etc/cni/net.d/10-flannel.conflist"],
        "volumeMounts": [
            {"name": "cni", "mountPath": "/etc/cni/net.d"},
            {"name": "config", "mountPath": "/etc/kube-flannel"},
        ],
    }
    pod = {
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "serviceAccountName": name,
        "tolerations": TOLERATE_ALL,
        "containers": [container],
        "initContainers": [copy],
        "volumes": [
            {"name": "run", "hostPath": {"path": run, "type": "DirectoryOrCreate"}},
            {"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}},
            {"name": "config", "configMap": {"name": "kube-flannel-cfg"}},
        ],
    }
    data = {"cni-conf.json": json.dumps(cni), "net-conf.json": json.dumps(network)}
    return [
        {**_head(RBAC, "ClusterRole", name), "rules": rules},
        bind_account(name, name),
        _head("v1", "ServiceAccount", name, SYSTEM),
        {**_head("v1", "ConfigMap", "kube-flannel-cfg", SYSTEM), "data": data},
        make_daemon_set("kube-flannel", pod, ""),
    ]


def make_core_dns(spec: BootstrapManifestsConfigSpec) -> list[Manifest]:
    """The cluster's DNS server, two of it on different nodes where there are two."""
    name = "coredns"
    corefile = f""".:53 {{
    errors
    health {{
        lameduck 5s
    }}
    ready
    log . {{
        class error
    }}
    prometheus :9153
    kubernetes {spec.cluster_domain} in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    forward . /etc/resolv.conf {{
        max_concurrent 1000
    }}
    cache 30
    loop
    reload
    loadbalance
}}
"""
    discovery = {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "verbs": ["list", "watch"],
    }
    rules = [
        {
            "apiGroups": [""],
            "resources": ["endpoints", "services", "pods", "namespaces"],
            "verbs": ["list", "watch"],
        },
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        discovery,
    ]
    container = {
        "name": name,
        "image": spec.core_dns_image,
        "args": ["-conf", "/etc/coredns/Corefile"],
        "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
        "ports": [
            {"name": "dns", "protocol": "UDP", "containerPort": 53},
            {"name": "dns-tcp", "protocol": "TCP", "containerPort": 53},
            {"name": "metrics", "protocol": "TCP", "containerPort": 9153},
        ],
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": 8080},
            "initialDelaySeconds": 60,
            "timeoutSeconds": 5,
            "failureThreshold": 5,
        },
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 2},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
    }
    terms = [{"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}]}]
    apart = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "podAffinityTerm": {"labelSelector": terms[0], "topologyKey": "kubernetes.io/hostname"},
            }
        ]
    }
    pod = {
        "serviceAccountName": name,
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "affinity": {"podAntiAffinity": apart},
        "tolerations": [
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "operator": "Exists"},
        ],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": name}}],
    }
    labels = {"k8s-app": "kube-dns"}
    deployment = {
        **_head("apps/v1", "Deployment", name, SYSTEM),
        "spec": {
            "replicas": 2,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    return [
        _head("v1", "ServiceAccount", name, SYSTEM),
        {**_head(RBAC, "ClusterRole", f"system:{name}"), "rules": rules},
        bind_account(name, f"system:{name}"),
        {**_head("v1", "ConfigMap", name, SYSTEM), "data": {"Corefile": corefile}},
        deployment,
    ]


def make_dns_service(spec: BootstrapManifestsConfigSpec) -> Manifest:
    """The fixed address of the cluster's DNS server."""
    addresses = [address for address in (spec.dns_service_ip, spec.dns_service_i_pv6) if address]
    head = _head("v1", "Service", "kube-dns", SYSTEM)
    head["metadata"]["labels"] = {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}
    return {
        **head,
        "spec": {
            "clusterIP": addresses[0],
            "clusterIPs": addresses,
            "ipFamilyPolicy": "SingleStack" if len(addresses) == 1 else "RequireDualStack",
            "selector": {"k8s-app": "kube-dns"},
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
                {"name": "metrics", "port": 9153, "protocol": "TCP"},
            ],
        },
    }


def make_daemon_set(name: str, pod: Manifest, checksum: str) -> Manifest:
    """A pod on every node; a change of ``checksum`` replaces the pods."""
    labels = {"k8s-app": name, "tier": "node"}
    annotations = {"annotations": {"talos.dev/config-checksum": checksum}} if checksum else {}
    return {
        **_head("apps/v1", "DaemonSet", name, SYSTEM),
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, **annotations}, "spec": pod},
        },
    }


def _head(version: str, kind: str, name: str, namespace: str = "") -> Manifest:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _resources(found: Any) -> Manifest:
    parts = {"requests": dict(found.requests), "limits": dict(found.limits)}
    return {"resources": {name: part for name, part in parts.items() if part}}


def order(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Namespaces and definitions of kinds first: others need them."""
    first = ("Namespace", "CustomResourceDefinition")
    return sorted(manifests, key=lambda manifest: manifest["kind"] not in first)
