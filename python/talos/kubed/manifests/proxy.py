"""kube-proxy, on every node."""

import json

from talos.api.definitions.k8s_pb2 import BootstrapManifestsConfigSpec
from talos.kubed.manifests.objects import (
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


def make_proxy(spec: BootstrapManifestsConfigSpec) -> list[Manifest]:
    """kube-proxy, on every node."""
    name = "kube-proxy"
    given = to_plain(spec.proxy_config)
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clusterCIDR": ",".join(spec.pod_cid_rs),
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kubeconfig"},
        "conntrack": {"maxPerCore": 0, "min": 0},
        **given,
    }
    container = {
        "name": name,
        "image": spec.proxy_image,
        "command": ["/usr/local/bin/kube-proxy", *spec.proxy_args],
        "env": [make_field("NODE_NAME", "spec.nodeName"), make_field("POD_IP", "status.podIP")],
        "securityContext": {"privileged": True},
        "volumeMounts": [
            *([{"name": "config", "mountPath": "/var/lib/kube-proxy", "readOnly": True}] if given else []),
            {"name": "kubeconfig", "mountPath": "/etc/kubernetes", "readOnly": True},
            {"name": "modules", "mountPath": "/lib/modules", "readOnly": True},
        ],
        **make_resources(spec.proxy_resources),
    }
    volumes = [
        *([{"name": "config", "configMap": {"name": name}}] if given else []),
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
    file = {**make_head("v1", "ConfigMap", name, SYSTEM), "data": {"config.conf": json.dumps(config)}}
    return [
        *([file] if given else []),
        make_head("v1", "ServiceAccount", name, SYSTEM),
        bind_account(name, "system:node-proxier"),
        make_daemon_set(name, pod, spec.proxy_config_checksum),
    ]
