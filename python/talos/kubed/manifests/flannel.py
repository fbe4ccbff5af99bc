"""flannel, on every node: the pods' network over the nodes'."""

import json
from typing import Any

from talos.api.definitions.k8s_pb2 import BootstrapManifestsConfigSpec
from talos.kubed.manifests.network_policies import POLICY_RULES, make_enforcer
from talos.kubed.manifests.objects import (
    RBAC,
    SYSTEM,
    TOLERATE_ALL,
    Manifest,
    bind_account,
    make_daemon_set,
    make_field,
    make_head,
    make_resources,
)
from talos.resource.objects import to_plain

RUN, CNI, CONFIG = "/run/flannel", "/etc/cni/net.d", "/etc/kube-flannel"
DEFAULT = {"resources": {"requests": {"cpu": "100m", "memory": "50Mi"}}}
"""Without resources in the config, as upstream."""
INSTALL = (
    f"until [ -s {RUN}/subnet.env ]; do sleep 0.2; done; "
    f"cp -f {CONFIG}/cni-conf.json {CNI}/10-flannel.conflist"
)
"""With a configuration the node is ready for pods. A pod that comes before flannel has its subnet fails, and
the kubelet tries it again after ten seconds or more; where there is no network yet, after a second."""


def make_flannel(spec: BootstrapManifestsConfigSpec) -> list[Manifest]:
    """flannel, on every node: the pods' network over the nodes'."""
    name = "flannel"
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
    server = (
        ("KUBERNETES_SERVICE_HOST", spec.flannel_kube_service_host),
        ("KUBERNETES_SERVICE_PORT", spec.flannel_kube_service_port),
    )
    to_server = [{"name": key, "value": value} for key, value in server if value]
    environment = [
        make_field("POD_NAME", "metadata.name"),
        make_field("POD_NAMESPACE", "metadata.namespace"),
        {"name": "EVENT_QUEUE_DEPTH", "value": "5000"},
        {"name": "CONT_WHEN_CACHE_NOT_READY", "value": "false"},
        *to_server,
    ]
    container = {
        "name": "kube-flannel",
        "image": spec.flannel_image,
        "command": ["/opt/bin/flanneld", "--ip-masq", "--kube-subnet-mgr", *spec.flannel_extra_args],
        "env": environment,
        "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", INSTALL]}}},
        # Links, routes and nftables; nothing else of the node.
        "securityContext": {"privileged": False, "capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
        "volumeMounts": [
            {"name": "run", "mountPath": RUN},
            {"name": "cni", "mountPath": CNI},
            {"name": "config", "mountPath": CONFIG},
        ],
        **(make_resources(spec.flannel_resources) if spec.HasField("flannel_resources") else DEFAULT),
    }
    containers = [container]
    if spec.flannel_kube_network_policies_enabled:
        rules += POLICY_RULES
        containers.append(make_enforcer(spec.flannel_kube_network_policies_image, to_server))
    pod = {
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "serviceAccountName": name,
        "tolerations": TOLERATE_ALL,
        "containers": containers,
        "volumes": [
            {"name": "run", "hostPath": {"path": RUN, "type": "DirectoryOrCreate"}},
            {"name": "cni", "hostPath": {"path": CNI}},
            {"name": "config", "configMap": {"name": "kube-flannel-cfg"}},
        ],
    }
    data = {"cni-conf.json": json.dumps(cni), "net-conf.json": json.dumps(network)}
    return [
        {**make_head(RBAC, "ClusterRole", name), "rules": rules},
        bind_account(name, name),
        make_head("v1", "ServiceAccount", name, SYSTEM),
        {**make_head("v1", "ConfigMap", "kube-flannel-cfg", SYSTEM), "data": data},
        make_daemon_set("kube-flannel", pod, ""),
    ]
