"""The cluster's DNS server."""

from talos.api.definitions.k8s_pb2 import BootstrapManifestsConfigSpec
from talos.kubed.manifests.objects import RBAC, SYSTEM, Manifest, bind_account, make_head, mark_bootstrapping


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
    cache 30 {{
        disable success {spec.cluster_domain}
        disable denial {spec.cluster_domain}
    }}
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
        "env": [{"name": "GOMEMLIMIT", "value": "161MiB"}],
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
            {
                "key": "node.cloudprovider.kubernetes.io/uninitialized",
                "operator": "Exists",
                "effect": "NoSchedule",
            },
        ],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": name}}],
    }
    labels = {"k8s-app": "kube-dns"}
    head = make_head("apps/v1", "Deployment", name, SYSTEM)
    head["metadata"]["labels"] = {**labels, "kubernetes.io/name": "CoreDNS"}
    deployment = {
        **head,
        "spec": {
            "replicas": 2,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    return [
        make_head("v1", "ServiceAccount", name, SYSTEM),
        mark_bootstrapping({**make_head(RBAC, "ClusterRole", f"system:{name}"), "rules": rules}),
        mark_bootstrapping({**bind_account(name, f"system:{name}"), "metadata": {"name": f"system:{name}"}}),
        {**make_head("v1", "ConfigMap", name, SYSTEM), "data": {"Corefile": corefile}},
        deployment,
    ]


def make_dns_service(spec: BootstrapManifestsConfigSpec) -> Manifest:
    """The fixed address of the cluster's DNS server."""
    addresses = [address for address in (spec.dns_service_ip, spec.dns_service_i_pv6) if address]
    head = make_head("v1", "Service", "kube-dns", SYSTEM)
    head["metadata"]["labels"] = {
        "k8s-app": "kube-dns",
        "kubernetes.io/cluster-service": "true",
        "kubernetes.io/name": "CoreDNS",
    }
    head["metadata"]["annotations"] = {"prometheus.io/port": "9153", "prometheus.io/scrape": "true"}
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
